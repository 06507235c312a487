"""Checkpoints in the process's own memory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, ClassVar, TypeVar, cast

from langgraph.checkpoint.memory import InMemorySaver

from threadkeep.threads.base import Backend, Capabilities, Saver
from threadkeep.threads.fencing import Grant, Head, Strategy, ThreadClaim, judge, moved

if TYPE_CHECKING:
    from threadkeep.threads.maintenance import Place

T = TypeVar("T")


class MemoryCheckpoints(Backend):
    """LangGraph's in-memory saver, which answers at once."""

    name: ClassVar[str] = "memory"
    capabilities: ClassVar[Capabilities] = Capabilities()
    waits: ClassVar[bool] = False
    leases_expire: ClassVar[bool] = False

    def __init__(self) -> None:
        self._heads: dict[str, Head] = {}
        self._leases: dict[str, tuple[str, str]] = {}
        self._tokens = count(1)

    @property
    def location(self) -> str:
        """Where it is."""
        return "(in this process)"

    async def open(self) -> Saver:
        """Return a new saver."""
        return InMemorySaver()

    async def call(
        self,
        saver: Saver,
        work: Callable[[Saver], Awaitable[T]],
        *,
        seconds: float,  # noqa: ARG002 - whoever waits keeps the time
        claim: ThreadClaim | None = None,
    ) -> T:
        """Return what *work* returns; nothing comes in between, for nothing in it waits."""
        if claim is None:
            return await work(saver)
        head = self._heads.get(claim.thread, Head())
        judge(head, claim)
        done = await work(saver)
        if claim.kind == "delete":
            self._heads.pop(claim.thread, None)
            self._leases.pop(claim.thread, None)
        elif claim.kind == "put":
            self._heads[claim.thread] = moved(head, claim)
        return done

    async def take(
        self,
        saver: Saver,
        thread: str,
        *,
        holder: str,
        seconds: float,  # noqa: ARG002 - it goes with the process
        strategy: Strategy,
    ) -> Grant | None:
        """Give *holder* the lease on a thread; see :meth:`Backend.take`."""
        head = self._heads.get(thread, Head())
        held_by, began = self._leases.get(thread, ("", ""))
        held = head.held and held_by != holder
        if held and strategy in ("enqueue", "reject"):
            return None
        back_to = began if held and strategy == "rollback" else None
        there = max(cast("InMemorySaver", saver).storage[thread][""], default="")
        newest = max(head.newest, there) if back_to is None else back_to
        token = next(self._tokens)
        self._heads[thread] = replace(head, newest=newest, token=token, held=True)
        self._leases[thread] = (holder, newest)
        return Grant(token, back_to)

    async def renew(self, saver: Saver, tokens: Mapping[str, int], *, seconds: float) -> set[str]:  # noqa: ARG002 - as above
        """Prolong leases; see :meth:`Backend.renew`."""
        return {thread for thread, token in tokens.items() if self._heads.get(thread, Head()).token == token}

    async def give_back(self, saver: Saver, thread: str, token: int) -> None:  # noqa: ARG002 - one for all
        """End a lease; see :meth:`Backend.give_back`."""
        head = self._heads.get(thread, Head())
        if head.token == token:
            self._heads[thread] = replace(head, held=False)

    async def forget_newer(self, saver: Saver, thread: str, checkpoint_id: str) -> None:
        """Delete what is newer; see :meth:`Backend.forget_newer`."""
        kept = cast("InMemorySaver", saver)
        for namespace, checkpoints in kept.storage[thread].items():
            for newer in [one for one in checkpoints if one > checkpoint_id]:
                del checkpoints[newer]
                kept.writes.pop((thread, namespace, newer), None)

    async def remove(self, saver: Saver, thread: str, gone: Sequence[Place]) -> None:
        """Delete checkpoints; see :meth:`Backend.remove`."""
        real = cast("InMemorySaver", saver)
        for namespace, checkpoint_id in gone:
            real.storage[thread][namespace].pop(checkpoint_id, None)
            real.writes.pop((thread, namespace, checkpoint_id), None)
        used = {
            (thread, namespace, channel, version)
            for namespace, checkpoints in real.storage[thread].items()
            for packed, _, _ in checkpoints.values()
            for channel, version in real.serde.loads_typed(packed)["channel_versions"].items()
        }
        for value in [one for one in real.blobs if one[0] == thread and one not in used]:
            del real.blobs[value]

    async def reparent(self, saver: Saver, thread: str, place: Place, parent_id: str) -> None:
        """Give a checkpoint another parent; see :meth:`Backend.reparent`."""
        checkpoints = cast("InMemorySaver", saver).storage[thread][place[0]]
        checkpoint, metadata, _ = checkpoints[place[1]]
        checkpoints[place[1]] = (checkpoint, metadata, parent_id)

    async def close(self) -> None:
        """Do nothing: what is in memory goes with the process."""
