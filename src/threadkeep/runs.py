"""Runs: executions of a graph on a thread, and what is kept of them beside their checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from threadkeep.errors import InvalidInputError, RevisionConflictError
from threadkeep.ids import short_digest
from threadkeep.storage.interface import Batch, Expectation, Put, Ref, Storage

if TYPE_CHECKING:
    from threadkeep.clock import Clock
    from threadkeep.identity import Owner
    from threadkeep.ids import ThreadId

RunStatus: TypeAlias = Literal["new", "running", "waiting", "paused", "failed", "cancelled", "done"]


@dataclass(frozen=True, slots=True)
class Ask:
    """A question that a node waits for an answer to.

    Attributes:
        ask_id: What the answer names.
        node: Who asks.
        value: What is asked, as the node gave it to ``interrupt()``.
    """

    ask_id: str
    node: str
    value: Any


@dataclass(frozen=True, slots=True)
class Run:
    """A job as it stands.

    Attributes:
        thread_id: The job's id.
        status: ``new``: never started; ``running``: at work in this process; ``waiting``: for answers to its *asks*;
            ``paused``: cut off, or forked, and not resumed; ``failed``: a node raised; ``cancelled``;
            ``done``.
        values: The graph's state. Of a function (``@entrypoint``) what it returned, under ``__end__`` where that is
            no mapping.
        asks: What is waited for; each is answered by its id.
        next_nodes: What runs when the job goes on.
        checkpoint_id: Where the job is; a fork names it.
        error: What the failing node raised; ``None`` where another process saw it, or nothing failed.
    """

    thread_id: str
    status: RunStatus
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    asks: tuple[Ask, ...] = ()
    next_nodes: tuple[str, ...] = ()
    checkpoint_id: str | None = None
    error: Exception | None = None

    def require_done(self) -> Mapping[str, Any]:
        """Return the state of a job that is done; raise what it failed with.

        Raises:
            RunUnfinishedError: It waits, was cancelled, or was cut off.
        """
        from threadkeep.errors import RunUnfinishedError

        if self.error is not None:
            raise self.error
        if self.status != "done":
            msg = f"The job is {self.status}; answer what it asks, or retry it."
            raise RunUnfinishedError(msg, thread_id=self.thread_id, status=self.status)
        return self.values


@dataclass(frozen=True, slots=True)
class Step:
    """One checkpoint of a job.

    Attributes:
        checkpoint_id: Names it.
        at: When it was made.
        made_by: ``input``, ``loop``, ``update`` or ``fork``.
        next_nodes: What ran after it.
        values: The state.
        parent_id: The checkpoint before it.
    """

    checkpoint_id: str
    at: datetime | None
    made_by: str
    next_nodes: tuple[str, ...]
    values: Mapping[str, Any]
    parent_id: str | None


RUNS: Final = ".runs"
EFFECTS: Final = ".effects"


@dataclass(frozen=True, slots=True)
class Effect:
    """A side effect of a job, which is to happen once.

    Attributes:
        idempotency_key: The same each time the node runs again; pass it to the service that performs the effect.
        epoch: The owner's when it began; after an erasure nothing of it is kept.
        done: Whether it is known to have happened.
        result: What it gave, if it did.
    """

    idempotency_key: str
    epoch: str
    done: bool = False
    result: Any = None


class Runs:
    """The runs of all owners; every method runs on the event loop."""

    def __init__(self, storage: Storage, clock: Clock) -> None:
        self._storage = storage
        self._clock = clock

    async def epoch(self, owner: Owner) -> str:
        """Tell the epoch that a job begins in: where its owner is erased meanwhile, it writes nothing more."""
        return (await self._storage.position(owner.partition)).epoch

    async def note(self, thread_id: ThreadId, status: RunStatus, *, owner: Owner, epoch: str) -> None:
        """Keep how the job stands. A wish to cancel it is dropped where it begins anew.

        Raises:
            PartitionErasedError: The owner was erased since *epoch*; nothing is kept.
        """
        await self._put(thread_id, owner, {"status": status, "cancel": False}, epoch)

    async def request_cancel(self, thread_id: ThreadId, *, owner: Owner) -> bool:
        """Ask the process that runs the job to stop after the current node; return whether it was running."""
        epoch = await self.epoch(owner)
        value = await self.noted(thread_id, owner=owner)
        if value.get("status") != "running":
            return False
        await self._put(thread_id, owner, {**value, "cancel": True}, epoch)
        return True

    async def is_cancelled(self, thread_id: ThreadId, *, owner: Owner) -> bool:
        """Return whether the job's cancellation was requested."""
        return bool((await self.noted(thread_id, owner=owner)).get("cancel"))

    async def noted(self, thread_id: ThreadId, *, owner: Owner) -> Mapping[str, Any]:
        """Return what is kept of the job; empty where nothing is."""
        (item,) = await self._storage.get([Ref(owner.partition, (RUNS,), short_digest(thread_id))])
        return item.value if item else {}

    async def begin_effect(self, key: str, *, owner: Owner, thread_id: ThreadId, epoch: str | None = None) -> Effect:
        """Say that an effect is about to happen, or what it gave when it did.

        Args:
            key: Tells the job's effects apart.
            owner: The owner of the job.
            thread_id: The job.
            epoch: The one that the job began in; ``None``: the effect is the first thing that is known of it.

        Raises:
            InvalidInputError: *key* is empty.
            PartitionErasedError: The owner was erased since *epoch*.
        """
        if not key:
            msg = "The key of an effect is missing: pass one that is the same each time the node runs, e.g. 'refund'."
            raise InvalidInputError(msg)
        named = short_digest("effect", *owner.parts, thread_id, key)
        effect = Effect(named, await self.epoch(owner) if epoch is None else epoch)
        (item,) = await self._storage.get([Ref(owner.partition, (EFFECTS,), effect.idempotency_key)])
        if item is not None:
            return replace(effect, done=bool(item.value.get("done")), result=item.value.get("result"))
        value = {"thread_id": thread_id, "key": key, "done": False, "at": self._clock.now().isoformat()}
        try:
            await self._write(owner, EFFECTS, effect.idempotency_key, value, effect.epoch, expect="absent")
        except RevisionConflictError:  # another process runs the same node: it has the same key, so nothing doubles
            return effect
        return effect

    async def end_effect(self, effect: Effect, result: Any, *, owner: Owner, thread_id: ThreadId, key: str) -> None:
        """Keep what an effect gave: the node that runs again gets this instead.

        Raises:
            InvalidInputError: *result* is no JSON value.
            PartitionErasedError: The owner was erased since the effect began.
        """
        now = self._clock.now().isoformat()
        value = {"thread_id": thread_id, "key": key, "done": True, "result": result, "at": now}
        await self._write(owner, EFFECTS, effect.idempotency_key, value, effect.epoch)

    async def _put(self, thread_id: ThreadId, owner: Owner, value: Mapping[str, Any], epoch: str) -> None:
        value = {**value, "thread_id": thread_id, "at": self._clock.now().isoformat()}
        await self._write(owner, RUNS, short_digest(thread_id), value, epoch)

    async def _write(
        self,
        owner: Owner,
        namespace: str,
        key: str,
        value: Mapping[str, Any],
        epoch: str,
        *,
        expect: Expectation = "any",
    ) -> None:
        await self._storage.commit(Batch(owner.partition, [Put((namespace,), key, value, expect=expect)], epoch))
