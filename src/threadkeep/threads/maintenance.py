"""What is done with whole threads: counted, pruned and copied, on every place for checkpoints alike."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

from langgraph.checkpoint.base import empty_checkpoint

from threadkeep.errors import ConflictError, InvalidInputError, PartitionErasedError
from threadkeep.ids import ThreadId, new_id
from threadkeep.threads.checkpoint_ids import come_after
from threadkeep.threads.fencing import ThreadClaim, named
from threadkeep.threads.thread_access import configurable_of, thread_id_from

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import Checkpoint, CheckpointMetadata, CheckpointTuple
    from langgraph.checkpoint.serde.base import SerializerProtocol

    from threadkeep.identity import Owner
    from threadkeep.threads.base import Saver
    from threadkeep.threads.codec import Envelope
    from threadkeep.threads.leases import Leases
    from threadkeep.threads.savers import SharedSaver
    from threadkeep.threads.thread_access import Admission


T = TypeVar("T")

LONG: Final = 12
"""How many times longer than others these may take: they touch all of a thread."""


@dataclass(frozen=True, slots=True)
class ThreadStats:
    """How large a thread is.

    Attributes:
        checkpoints: How many there are, those of subgraphs included.
        size_bytes: Its values, what tasks wrote and the checkpoints themselves, encoded, each value counted once.
        began_at: When its oldest checkpoint was made.
        updated_at: When its newest one was.
        waits: Whether it waits for an answer.
    """

    checkpoints: int = 0
    size_bytes: int = 0
    began_at: datetime | None = None
    updated_at: datetime | None = None
    waits: bool = False


class WholeThread:
    """All checkpoints of one thread, under its stored name; whoever changes them holds its lease.

    Args:
        shared: The saver.
        envelope: Packs what goes to it and opens what comes back.
        serde: What it reads and writes by.
        name: The thread's stored name.
        notes: What is kept in the metadata of its checkpoints to list by.
    """

    def __init__(
        self, shared: SharedSaver, envelope: Envelope, serde: SerializerProtocol, name: str, notes: Mapping[str, str]
    ) -> None:
        self._shared = shared
        self._envelope = envelope
        self._serde = serde
        self._name = name
        self._notes = notes

    async def checkpoints(self) -> list[CheckpointTuple]:
        """Return all checkpoints, oldest first."""
        config: RunnableConfig = {"configurable": {"thread_id": self._name}}

        async def read(saver: Saver) -> list[CheckpointTuple]:
            return [one async for one in saver.alist(config)]

        found = [self._envelope.opened(one, serde=self._serde) for one in await self._run(read)]
        return sorted(found, key=lambda one: one.checkpoint["id"])

    async def stats(self) -> ThreadStats:
        """Return how large the thread is."""
        found = await self.checkpoints()
        if not found:
            return ThreadStats()
        size, counted = 0, set[tuple[str, str, str]]()
        for one in found:
            namespace = str(one.config.get("configurable", {}).get("checkpoint_ns", ""))
            values = one.checkpoint["channel_values"]
            size += self._size({**one.checkpoint, "channel_values": {}}) + self._size(dict(one.metadata))
            size += sum(self._size(value) for _, _, value in one.pending_writes or ())
            for channel, value in values.items():
                version = (namespace, channel, str(one.checkpoint["channel_versions"].get(channel)))
                if version not in counted:
                    counted.add(version)
                    size += self._size(value)
        rows = [row for row in map(row_of, found) if not row.anchor]
        newest = max((row for row in rows if not row.place[0]), key=lambda row: row.place[1], default=None)
        return ThreadStats(len(rows), size, rows[0].at, rows[-1].at, newest is not None and newest.waits)

    async def prune(self, keep: KeptCheckpoints) -> int:
        """Remove what *keep* does not name; return how many checkpoints went.

        What stays is rebuilt as before: where its channels keep differences only, these are gathered first.
        A crash leaves more than was to stay, never less.
        """
        found = await self.checkpoints()
        rows = [row_of(one) for one in found]
        stays = kept(rows, keep)
        there = {row.place: one for row, one in zip(rows, found, strict=True)}
        for parent, children in to_anchor(rows, stays).items():
            anchor = await self._anchor(there[parent], children)
            for child in children:
                await self._reparent(child.place, anchor)
        gone = [row.place for row in rows if row.place not in stays]
        if gone:
            await self._shared.leasing(lambda backend, saver: backend.remove(saver, self._name, gone))
        return sum(not row.anchor for row in rows if row.place not in stays)

    async def copy_to(self, other: WholeThread, *, until: str | None = None) -> int:
        """Put the checkpoints of this thread into *other*, which has none; return how many.

        Args:
            other: Where to.
            until: The id of a checkpoint: only that one and what led to it.

        Raises:
            ConflictError: The other one has checkpoints.
            InvalidInputError: There is nothing to copy.
        """
        if await other.checkpoints():
            msg = "The thread that is to be copied to has checkpoints already; give another id."
            raise ConflictError(msg)
        found = await self.checkpoints()
        if until is not None:
            found = _leading_to(found, until)
        if not found:
            msg = "There is no such thread, or no such checkpoint in it; list them to see which there are."
            raise InvalidInputError(msg, checkpoint_id=until)
        stored: set[tuple[str, str, str]] = set()
        for one in found:
            namespace, _ = row_of(one).place
            versions = {
                channel: version
                for channel, version in one.checkpoint["channel_versions"].items()
                if (namespace, channel, str(version)) not in stored
            }
            stored |= {(namespace, channel, str(version)) for channel, version in versions.items()}
            await other._put(namespace, one.checkpoint, dict(one.metadata), versions, row_of(one).parent_id)
            await other._put_writes((namespace, one.checkpoint["id"]), one.pending_writes or ())
        return len(found)

    async def _anchor(self, parent: CheckpointTuple, children: Sequence[Row]) -> Place:
        """Put a checkpoint that holds all that was written to the children's channels until *parent*."""
        namespace, parent_id = row_of(parent).place
        channels = sorted({channel for child in children for channel in child.deltas})
        child: RunnableConfig = {
            "configurable": {
                "thread_id": self._name,
                "checkpoint_ns": namespace,
                "checkpoint_id": children[0].place[1],
            }
        }
        packed = await self._run(lambda saver: saver.aget_delta_channel_history(config=child, channels=channels))
        history = self._envelope.opened_history(packed, serde=self._serde, thread=self._name, namespace=namespace)
        seeds = {channel: one["seed"] for channel, one in history.items() if "seed" in one}
        blank = empty_checkpoint()
        mark = new_id()
        anchor_id = f"{parent_id[:-12]}{mark[-12:]}"  # before its children, which are younger than the parent
        checkpoint = cast(
            "Checkpoint",
            {
                **blank,
                "id": anchor_id,
                "ts": parent.checkpoint["ts"],
                "channel_values": seeds,
                "channel_versions": dict.fromkeys(seeds, f"{0:032}.{mark}"),
            },
        )
        metadata: dict[str, Any] = {"source": "fork", "step": -2, "parents": {}, ANCHOR: True}
        # The writes before the checkpoint by which they are found.
        writes = [(channel, channel, value) for channel in channels for _, _, value in history[channel]["writes"]]
        await self._put_writes((namespace, anchor_id), writes)
        await self._put(namespace, checkpoint, metadata, checkpoint["channel_versions"], None)
        return namespace, anchor_id

    async def _reparent(self, place: Place, parent: Place) -> None:
        await self._shared.leasing(lambda backend, saver: backend.reparent(saver, self._name, place, parent[1]))

    async def _put(
        self,
        namespace: str,
        checkpoint: Checkpoint,
        metadata: Mapping[str, Any],
        versions: Any,
        parent_id: str | None,
    ) -> None:
        config = self._config(namespace, parent_id)
        packed = self._envelope.checkpoint(checkpoint, serde=self._serde, thread=self._name, namespace=namespace)
        noted: CheckpointMetadata = self._envelope.metadata(
            {**metadata, **self._notes}, serde=self._serde, thread=self._name
        )
        await self._run(lambda saver: saver.aput(config, packed, noted, versions))

    async def _put_writes(self, place: Place, writes: Sequence[tuple[str, str, Any]]) -> None:
        """Keep writes by their tasks, in the order in which they are given."""
        namespace, checkpoint_id = place
        config = self._config(namespace, checkpoint_id)
        by_task: dict[str, list[tuple[str, Any]]] = {}
        for task_id, channel, value in writes:
            by_task.setdefault(task_id, []).append((channel, value))
        for number, (task_id, given) in enumerate(by_task.items()):
            packed = self._envelope.writes(given, serde=self._serde, thread=self._name, namespace=namespace)
            await self._run(partial(_put_writes, config=config, writes=packed, task=task_id, path=f"{number:06}"))

    def _config(self, namespace: str, checkpoint_id: str | None) -> RunnableConfig:
        named = {"checkpoint_id": checkpoint_id} if checkpoint_id else {}
        return {"configurable": {"thread_id": self._name, "checkpoint_ns": namespace, **named}}

    def _size(self, value: Any) -> int:
        return len(self._serde.dumps_typed(value)[1])

    async def _run(self, work: Callable[[Saver], Awaitable[T]]) -> T:
        return await self._shared.run(self._serde, work, patience=LONG)


async def _put_writes(
    saver: Saver, *, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task: str, path: str
) -> None:
    await saver.aput_writes(config, writes, task, path)


def _leading_to(found: Sequence[CheckpointTuple], checkpoint_id: str) -> list[CheckpointTuple]:
    """Return a checkpoint of the root graph, what led to it, and the subgraphs' of these."""
    rows = {row.place: row for row in map(row_of, found)}
    chain: set[str] = set()
    here: str | None = checkpoint_id
    while here is not None and ("", here) in rows and here not in chain:
        chain.add(here)
        here = rows["", here].parent_id
    return [one for one in found if (row := row_of(one)).place == ("", row.place[1]) and row.place[1] in chain] + [
        one for one in found if (row := row_of(one)).place[0] and row.root_id in chain
    ]


@dataclass(frozen=True, slots=True)
class ThreadMaintenance:
    """The threads of one view of a checkpointer; called on the loop that the saver lives on.

    Attributes:
        shared: The saver.
        leases: Who is at work on which thread.
        envelope: Packs what goes to the saver and opens what comes back.
        serde: What it reads and writes by.
        admission: Whose threads these are, and what they are called there.
    """

    shared: SharedSaver
    leases: Leases
    envelope: Envelope
    serde: SerializerProtocol
    admission: Admission

    async def delete(self, thread_id: ThreadId) -> None:
        """Delete everything of the thread, and whose it was."""
        async with self.shared.using():
            name = self.admission.name(thread_id)
            claim = ThreadClaim("delete", name, anywhere=True)
            await self.run(lambda saver: saver.adelete_thread(name), claim=claim, patience=LONG)
            await self.admission.let_go(thread_id)

    async def delete_of_owner(self, thread_ids: Sequence[ThreadId], owner: Owner) -> None:
        """Delete threads as *owner* has them, and rid the place of what is left of them."""
        scoped, binder = replace(self, admission=replace(self.admission, owner=owner)), self.admission.binder
        for thread_id in thread_ids:
            await scoped.delete(thread_id)
            if binder and await binder.owner_of(thread_id) == owner:
                await self.delete(thread_id)
        if thread_ids:
            async with self.shared.using():
                await self.run(self.shared.backend.scrub, patience=LONG)

    async def admitted_to_write(self, config: RunnableConfig) -> tuple[ThreadId, RunnableConfig]:
        """Return what :meth:`Admission.admitted` does, to whoever writes.

        A run whose owner was erased just as it bound the thread may have kept something that the erasure did not
        find: it goes as soon as the run is refused.

        Raises:
            OwnerMismatchError: It is a thread of somebody else.
            PartitionErasedError: Its owner was erased since the run began; nothing of the thread is left.
        """
        try:
            return await self.admission.admitted(config, writing=True)
        except PartitionErasedError:
            thread_id, binder = thread_id_from(configurable_of(config).get("thread_id")), self.admission.binder
            if self.admission.owner or binder is None or await binder.owner_of(thread_id) is None:
                await self.delete(thread_id)
                await self.run(self.shared.backend.scrub, patience=LONG)
            raise

    async def let_go_of_deleted(self, thread_id: ThreadId) -> None:
        """Forget whose a thread is of which nothing is there: a run that came too late has bound it again."""
        last: RunnableConfig = {"configurable": {"thread_id": self.admission.name(thread_id), "checkpoint_ns": ""}}
        if await self.run(lambda saver: saver.aget_tuple(last)) is None:
            await self.admission.let_go(thread_id)

    def seen(
        self, found: CheckpointTuple | None, config: RunnableConfig, thread_id: ThreadId
    ) -> CheckpointTuple | None:
        """Return *found*, which the saver gave, as whoever asked by *config* sees it; on any thread."""
        come_after(found)
        if found is None:
            return None
        outward = self.admission.outward(self.envelope.opened(found, serde=self.serde), thread_id)
        return named(outward, configurable_of(config))

    async def prune(self, thread_ids: Sequence[str], strategy: str) -> None:
        """Keep the newest checkpoint of each namespace, or delete the threads, as LangGraph's *strategy* says."""
        if isinstance(thread_ids, str) or strategy not in ("keep_latest", "delete"):
            msg = "Give the ids of the threads as a list, and keep_latest or delete as the strategy."
            raise InvalidInputError(msg)
        for thread_id in [thread_id_from(one) for one in thread_ids]:
            if strategy == "delete":
                await self.delete(thread_id)
            else:
                await self.thin(thread_id, KeptCheckpoints(every_namespace=True))

    async def thin(self, thread_id: ThreadId, keep: KeptCheckpoints, *, wait: bool = True) -> int:
        """Remove what *keep* does not name, under the thread's lease; return how many checkpoints went."""
        async with self.shared.using():
            hold = await self.leases.take(self.admission.name(thread_id), "enqueue" if wait else "reject")
            try:
                return await self._whole(thread_id).prune(keep)
            finally:
                await self.leases.give_back(hold)

    async def copy(self, source_thread_id: str, target_thread_id: str, until: str | None) -> int:
        """Copy what led to the checkpoint *until*, or all, into a thread that has none; return how many."""
        source, target = thread_id_from(source_thread_id), thread_id_from(target_thread_id)
        async with self.shared.using():
            return await self._whole(source).copy_to(self._whole(target), until=until)

    async def stats(self, thread_id: ThreadId) -> ThreadStats:
        """Return how large the thread is."""
        async with self.shared.using():
            return await self._whole(thread_id).stats()

    async def run(
        self, work: Callable[[Saver], Awaitable[T]], *, claim: ThreadClaim | None = None, patience: int = 1
    ) -> T:
        """Return what *work* does with the saver; see :meth:`SharedSaver.run`."""
        return await self.shared.run(self.serde, work, claim=claim, patience=patience)

    def _whole(self, thread_id: ThreadId) -> WholeThread:
        name = self.admission.name(thread_id)
        return WholeThread(self.shared, self.envelope, self.serde, name, self.admission.notes(thread_id, name))


Place: TypeAlias = tuple[str, str]
"""A checkpoint's namespace and id."""

ANCHOR: Final = "threadkeep_anchor"
"""What the metadata of a checkpoint says that only holds what newer ones are rebuilt from; nobody is shown it."""

INTERRUPT: Final = "__interrupt__"
TASK_MARK: Final = ":"
"""Stands in the namespaces of subgraphs that live as long as a task; others keep one history for the thread."""


@dataclass(frozen=True, slots=True)
class Row:
    """A checkpoint as far as it matters for whether it stays.

    Attributes:
        place: Its namespace and id; ids are ordered by time.
        parent_id: The one that it went on from, in the same namespace.
        root_id: Of a subgraph's: the checkpoint of the root graph that it belongs to.
        at: When it was made.
        waits: Whether a task of it waits for an answer.
        deltas: The channels whose value stands in what was written before it, and not in it.
        anchor: Whether it only holds such writes.
    """

    place: Place
    parent_id: str | None = None
    root_id: str | None = None
    at: datetime | None = None
    waits: bool = False
    deltas: tuple[str, ...] = ()
    anchor: bool = False


@dataclass(frozen=True, slots=True)
class KeptCheckpoints:
    """What of a thread stays.

    Attributes:
        latest: So many of the newest checkpoints.
        since: All that were made then or later.
        waiting: Those, at the ends of branches, that wait for an answer.
        every_namespace: The newest of each subgraph, whatever it belonged to.
    """

    latest: int = 1
    since: datetime | None = None
    waiting: bool = True
    every_namespace: bool = False


def kept(rows: Sequence[Row], keep: KeptCheckpoints) -> set[Place]:
    """Return what stays: of the root graph what *keep* says, of subgraphs what belongs to that.

    The newest checkpoint always stays, and what holds the writes that one which stays is rebuilt from.
    """
    real = [row for row in rows if not row.anchor]
    root = sorted((row for row in real if not row.place[0]), key=lambda row: row.place[1], reverse=True)
    gone_on = {row.parent_id for row in root}
    stays = {
        row.place
        for number, row in enumerate(root)
        if number < max(1, keep.latest)
        or (keep.since is not None and row.at is not None and row.at >= keep.since)
        or (keep.waiting and row.waits and row.place[1] not in gone_on)
    }
    newest: dict[tuple[str, str | None], str] = {}
    for row in real:
        namespace, checkpoint_id = row.place
        if not namespace:
            continue
        belongs = row.root_id is not None and ("", row.root_id) in stays
        if belongs or keep.every_namespace or TASK_MARK not in namespace:
            group = (namespace, row.root_id if belongs else None)
            newest[group] = max(newest.get(group, ""), checkpoint_id)
    stays |= {(namespace, checkpoint_id) for (namespace, _), checkpoint_id in newest.items()}
    parents = {(row.place[0], row.parent_id) for row in real if row.place in stays and row.deltas}
    return stays | {row.place for row in rows if row.anchor and row.place in parents}


def to_anchor(rows: Sequence[Row], stays: Collection[Place]) -> Mapping[Place, list[Row]]:
    """Return the checkpoints that go although others that stay are rebuilt from them, each with those others."""
    there = {row.place for row in rows}
    found: dict[Place, list[Row]] = {}
    for row in rows:
        parent = (row.place[0], row.parent_id or "")
        if row.place in stays and row.deltas and parent in there and parent not in stays:
            found.setdefault(parent, []).append(row)
    return found


def row_of(found: CheckpointTuple) -> Row:
    """Return what matters of a checkpoint."""
    configurable = found.config.get("configurable", {})
    metadata = cast("Mapping[str, Any]", found.metadata)
    parent = found.parent_config.get("configurable", {}).get("checkpoint_id") if found.parent_config else None
    counters = cast("Mapping[str, Any]", metadata.get("counters_since_delta_snapshot") or {})
    values = found.checkpoint["channel_values"]
    return Row(
        (str(configurable.get("checkpoint_ns", "")), found.checkpoint["id"]),
        parent,
        cast("Mapping[str, str]", metadata.get("parents") or {}).get(""),
        datetime.fromisoformat(found.checkpoint["ts"]),
        any(channel == INTERRUPT for _, channel, _ in found.pending_writes or ()),
        tuple(sorted(channel for channel in counters if channel not in values)),
        bool(metadata.get(ANCHOR)),
    )
