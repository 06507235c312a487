"""Whole threads: listed, deleted, erased with their owner, measured, copied and pruned."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, cast

from langgraph.checkpoint.base import empty_checkpoint

from threadkeep.checkpoints.codec import (
    CheckpointPlace,
    StoredCheckpoint,
    encode_checkpoint,
    encode_writes,
    value_refs,
)
from threadkeep.checkpoints.directory import owner_of_thread, thread_partition
from threadkeep.checkpoints.head import Head, thread_id_from
from threadkeep.checkpoints.thread_store import EXPIRY
from threadkeep.errors import ConflictError, InvalidInputError, ThreadMovedOnError
from threadkeep.ids import ThreadId, new_id
from threadkeep.storage.interface import Delete, Operation, Put

if TYPE_CHECKING:
    from langgraph.checkpoint.base import Checkpoint, CheckpointMetadata, CheckpointTuple, DeltaChannelHistory
    from langgraph.checkpoint.serde.base import SerializerProtocol

    from threadkeep.checkpoints.directory import ListedThread, ThreadDirectory, ThreadOwners
    from threadkeep.checkpoints.head import Strategy, ThreadStatus
    from threadkeep.checkpoints.leases import Leases
    from threadkeep.checkpoints.thread_store import Threads, ThreadStore
    from threadkeep.identity import Owner

ANCHOR: Final = "threadkeep_anchor"
"""The metadata key of a checkpoint that only holds what newer ones are rebuilt from; readers do not see it."""

_INTERRUPT: Final = "__interrupt__"
_TASK_MARK: Final = ":"
"""Stands in the namespaces of subgraphs that live as long as a task; others keep one history for the thread."""

_OPERATIONS: Final = 2_000
_EXPIRED: Final = 100


@dataclass(frozen=True, slots=True)
class ThreadStats:
    """How large a thread is.

    Attributes:
        checkpoints: How many there are, those of subgraphs included.
        size_bytes: The bytes of its checkpoints, values and writes as they are stored.
        began_at: When its oldest checkpoint was made.
        updated_at: When its newest one was.
        waits: Whether it waits for an answer.
    """

    checkpoints: int = 0
    size_bytes: int = 0
    began_at: datetime | None = None
    updated_at: datetime | None = None
    waits: bool = False


@dataclass(frozen=True, slots=True)
class KeptCheckpoints:
    """The checkpoints of a thread that stay.

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


@dataclass(frozen=True, slots=True)
class ListedCheckpoints:
    """The checkpoints of a thread to list.

    Attributes:
        namespace: Those of this graph; ``None``: of all.
        only: The one with this id; ``""``: all.
        older_than: Those before this id; ``""``: all.
        metadata: Those with these entries in their metadata.
    """

    namespace: str | None
    only: str
    older_than: str
    metadata: Mapping[str, Any]

    def take(self, stored: StoredCheckpoint, metadata: Mapping[str, Any]) -> bool:
        """Return whether a checkpoint is one of them."""
        checkpoint_id = stored.place.checkpoint_id
        if (self.only and checkpoint_id != self.only) or (self.older_than and checkpoint_id >= self.older_than):
            return False
        return ANCHOR not in metadata and all(
            key in metadata and metadata[key] == value for key, value in self.metadata.items()
        )


@dataclass(frozen=True, slots=True)
class CheckpointSummary:
    """What decides whether a checkpoint stays.

    Attributes:
        place: Its namespace and id; ids are ordered by time.
        parent_id: The one before it, in the same namespace; ``""``: none.
        root_id: Of a subgraph's: the checkpoint of the root graph that it belongs to.
        at: When it was made.
        waits: Whether a task of it waits for an answer.
        deltas: The channels with a value in what was written before it, and not in it.
        anchor: Whether it only holds such writes.
    """

    place: CheckpointPlace
    parent_id: str = ""
    root_id: str | None = None
    at: datetime | None = None
    waits: bool = False
    deltas: tuple[str, ...] = ()
    anchor: bool = False


def select_kept(rows: Sequence[CheckpointSummary], keep: KeptCheckpoints) -> set[CheckpointPlace]:
    """Return what stays: of the root graph what *keep* says, of subgraphs what belongs to that.

    The newest checkpoint always stays, and so do the anchors that a kept checkpoint is rebuilt from.
    """
    real = [row for row in rows if not row.anchor]
    root = sorted((row for row in real if not row.place.namespace), key=lambda row: row.place[1], reverse=True)
    continued = {row.parent_id for row in root}
    stays = {
        row.place
        for number, row in enumerate(root)
        if number < max(1, keep.latest)
        or (keep.since is not None and row.at is not None and row.at >= keep.since)
        or (keep.waiting and row.waits and row.place.checkpoint_id not in continued)
    }
    newest: dict[tuple[str, str | None], str] = {}
    for row in real:
        namespace, checkpoint_id = row.place
        if not namespace:
            continue
        belongs = row.root_id is not None and CheckpointPlace("", row.root_id) in stays
        if belongs or keep.every_namespace or _TASK_MARK not in namespace:
            group = (namespace, row.root_id if belongs else None)
            newest[group] = max(newest.get(group, ""), checkpoint_id)
    stays |= {CheckpointPlace(namespace, checkpoint_id) for (namespace, _), checkpoint_id in newest.items()}
    parents = {CheckpointPlace(row.place.namespace, row.parent_id) for row in real if row.place in stays and row.deltas}
    return stays | {row.place for row in rows if row.anchor and row.place in parents}


def find_anchored(
    rows: Sequence[CheckpointSummary], stays: Collection[CheckpointPlace]
) -> Mapping[CheckpointPlace, list[CheckpointSummary]]:
    """Return the checkpoints that are removed although kept ones are rebuilt from them, each with those."""
    there = {row.place for row in rows}
    found: dict[CheckpointPlace, list[CheckpointSummary]] = {}
    for row in rows:
        parent = CheckpointPlace(row.place.namespace, row.parent_id)
        if row.place in stays and row.deltas and parent in there and parent not in stays:
            found.setdefault(parent, []).append(row)
    return found


@dataclass(frozen=True, slots=True)
class Maintenance:
    """The threads of one view of a checkpointer; runs in the event loop of the storage.

    Attributes:
        threads: The threads of the storage.
        leases: The leases of this process.
        directory: The threads of each owner.
        owners: Binds threads to their owners.
        serde: Encodes and decodes.
        owner: The owner of a scoped view.
    """

    threads: Threads
    leases: Leases
    directory: ThreadDirectory
    owners: ThreadOwners
    serde: SerializerProtocol
    owner: Owner | None

    async def list(
        self, thread: ThreadStore, wanted: ListedCheckpoints, limit: int | None = None
    ) -> Sequence[CheckpointTuple]:
        """Return checkpoints of *thread*, newest first, at most *limit*."""
        found: list[CheckpointTuple] = []
        for stored in await thread.load_all(wanted.namespace):
            if wanted.take(stored, cast("Mapping[str, Any]", stored.read(self.serde)[1])):
                found.append(await thread.to_tuple(stored, self.serde))
                if len(found) == limit:
                    break
        return found

    async def way_back(self, thread_id: str, *, inputs: int, limit: int) -> list[tuple[CheckpointTuple, bool]]:
        """Return the newest checkpoints of a thread without their large values, newest first.

        Each stands with whether all runs that wrote after it used memory.

        Args:
            thread_id: The thread; it has been bound to the owner of the caller.
            inputs: Those that follow so many inputs of the root graph are returned, and the inputs.
            limit: More of the root graph are not.
        """
        thread = self._thread(thread_id)
        found: list[tuple[CheckpointTuple, bool]] = []
        head = await thread.head()
        stored = await thread.load(CheckpointPlace("", head.newest)) if head is not None and head.newest else None
        while stored is not None and len(found) < limit:
            one = stored.to_tuple(thread_id, self.serde, {})
            found.append((one, stored.all_with_memory))
            inputs -= one.metadata.get("source") == "input"
            parent = stored.parent_id if inputs > 0 else ""
            stored = await thread.load(CheckpointPlace("", parent)) if parent else None
        return found

    async def delete_runs(self, thread: ThreadStore, run_ids: Collection[str]) -> None:
        """Delete the checkpoints of *thread* with one of these run ids in their metadata."""
        gone = [one for one in await thread.load_all() if one.read(self.serde)[1].get("run_id") in run_ids]
        if gone:
            await self.remove(thread, gone)

    async def prune(self, thread_ids: Sequence[str], strategy: str) -> None:
        """Remove all checkpoints of these threads but the newest of each namespace, or all with ``delete``.

        Raises:
            InvalidInputError: There is no such strategy.
        """
        if isinstance(thread_ids, str) or strategy not in ("keep_latest", "delete"):
            msg = "Give the ids of the threads as a list, and keep_latest or delete as the strategy."
            raise InvalidInputError(msg)
        for thread_id in thread_ids:
            if strategy == "delete":
                await self.delete(thread_id)
            else:
                await self.thin(thread_id, KeptCheckpoints(every_namespace=True))

    async def owner_of(self, thread_id: str) -> str | None:
        """Return the label of the owner that an unscoped thread is bound to; ``None``: no owner."""
        return await self.owners.owner_of(thread_id_from(thread_id))

    async def bind(self, thread_id: str, owner: Owner) -> None:
        """Bind a thread of this view to *owner*.

        Raises:
            OwnerMismatchError: It belongs to another owner.
        """
        await self.owners.bind(self._thread(thread_id), owner, epoch=None, scoped=self.owner is not None)

    async def set_status(self, thread_id: str, status: ThreadStatus) -> None:
        """Note in the head how the last run ended, of a thread that another saver had; a run changes it at its end."""
        await self._thread(thread_id).commit(lambda head: replace(head, status=status))

    async def was_removed(self, thread_id: str, owner: Owner | None) -> bool:
        """Return whether the thread was deleted here at any time, or *owner* was erased."""
        thread = self._thread(thread_id)
        return await self.directory.was_erased(thread.partition, *([] if owner is None else [owner.partition]))

    async def delete(self, thread_id: str) -> None:
        """Delete everything of the thread, and its owner."""
        thread = self._thread(thread_id)
        await self._erase(thread, await thread.head())

    async def delete_of_owner(self, thread_ids: Sequence[str], owner: Owner) -> None:
        """Delete threads of *owner*: scoped ones, and unscoped ones that are bound to the owner."""
        wanted = set(thread_ids)
        for listed in await self.directory.of_owner(owner):
            if listed.thread_id in wanted:
                await _erase_listed(self.threads, listed, owner)
                await self.directory.leave(owner, listed.thread_id, scoped=listed.scoped)

    async def erase_owner(self, owner: Owner) -> tuple[ThreadId, ...]:
        """See :func:`erase_threads`."""
        return await erase_threads(self.threads, self.directory, owner)

    async def expire(self) -> int:
        """Delete the threads that have expired; return how many."""
        storage, number = self.threads.storage, 0
        while items := await storage.due(EXPIRY, now=self.threads.clock.now(), limit=_EXPIRED):
            for item in items:
                head = Head.from_value(item.value)
                await self._erase(self.threads.get(item.ref.partition, head.thread_id), head)
                number += 1
        return number

    async def stats(self, thread_id: str) -> ThreadStats:
        """Return how large the thread is."""
        thread = self._thread(thread_id)
        stored = await thread.load_all()
        if not stored:
            return ThreadStats()
        items = [item async for page in thread.values() for item in page]
        size = sum(one.size_bytes for one in stored) + sum(len(item.data or b"") for item in items)
        rows = [row for row in map(self._summary, stored) if not row.anchor]
        ages = sorted(row.at for row in rows if row.at is not None)
        newest = next((row for row in rows if not row.place.namespace), None)
        waits = newest is not None and newest.waits
        return ThreadStats(len(rows), size, ages[0] if ages else None, ages[-1] if ages else None, waits)

    async def leaseholder(self, thread_id: str) -> str | None:
        """Return the token of the run that has the lease on a thread; ``None``: no run has it."""
        thread = self._thread(thread_id)
        head = await thread.head(fresh=True)
        if head is None or head.lease is None or not thread.is_leased(head):
            return None
        return head.lease.run

    async def last_checkpoint(self, thread_id: str, token: str) -> str | None:
        """Return the newest checkpoint of the root graph that a run wrote; ``None``: the thread keeps none of it."""
        stored = await self._thread(thread_id).load_all("")
        return next((one.place.checkpoint_id for one in stored if one.item.value.get("run") == token), None)

    async def end_run(self, thread_id: str, token: str, *, undo: bool) -> bool:
        """Take the lease on a thread from a run, which cannot write any more; one that waits for it stops to wait.

        Args:
            thread_id: The thread.
            token: The token of the run.
            undo: Whether what it wrote is undone.

        Returns:
            Whether the run had the lease, or waited for it.
        """
        thread = self._thread(thread_id)
        if await self._end_leased(thread, token, undo=undo) or await self.leases.cancel(thread, token):
            return True
        return await self._end_leased(thread, token, undo=undo)  # it may have begun meanwhile

    async def _end_leased(self, thread: ThreadStore, token: str, *, undo: bool) -> bool:
        """Take the lease from a run, and give it back; return whether the run had it."""
        strategy: Strategy = "rollback" if undo else "interrupt"
        scoped = self.owner is not None
        try:
            lease = await self.leases.take(
                thread, self.owner, strategy, scoped=scoped, locked_to=None, token=new_id(), taken_from=token
            )
        except ThreadMovedOnError:
            return False
        await self.leases.release(lease)
        return True

    async def thin(self, thread_id: str, keep: KeptCheckpoints, *, wait: bool = True) -> int:
        """Remove what *keep* does not name, under the thread's lease; return how many checkpoints were removed.

        What stays is rebuilt as before: where its channels keep differences only, these are gathered first. A crash
        leaves more than was to stay, never less.

        Raises:
            ThreadBusyError: A run has the lease on it, and did not end in time or is not waited for.
        """
        thread = self._thread(thread_id)
        scoped = self.owner is not None
        lease = await self.leases.take(
            thread, self.owner, "enqueue" if wait else "reject", scoped=scoped, locked_to=None, token=new_id()
        )
        try:
            stored = await thread.load_all()
            rows = [self._summary(one) for one in stored]
            stays = select_kept(rows, keep)
            there = {one.place: one for one in stored}
            for parent, children in find_anchored(rows, stays).items():
                anchor = await self._put_anchor(thread, there[parent], children)
                await thread.commit(_same, [_reparented(there[child.place], anchor) for child in children])
            gone = [one for one in stored if one.place not in stays]
            await self.remove(thread, gone)
            return sum(not row.anchor for row in rows if row.place not in stays)
        finally:
            await self.leases.release(lease)

    async def remove(self, thread: ThreadStore, gone: Sequence[StoredCheckpoint]) -> None:
        """Delete checkpoints with their writes, and values that only they referred to."""
        places = {one.place for one in gone}
        left = [one for one in await thread.load_all() if one.place not in places]
        used = {_value_place(one, channel) for one in left for channel in one.refs}
        operations: list[Operation] = [
            Delete(one.place.path, key)
            for one in gone
            for key in (one.item.ref.key, *(item.ref.key for item in one.writes), *one.chunks)
        ]
        unused = {
            _value_place(one, channel): ref
            for one in gone
            for channel, ref in one.refs.items()
            if _value_place(one, channel) not in used
        }
        for (namespace, channel, _), ref in unused.items():
            places_of = value_refs(thread.partition, namespace, channel, ref)
            operations += [Delete(one.namespace, one.key) for one in places_of]
        newest = max((one.place.checkpoint_id for one in left if not one.place.namespace), default="")
        for start in range(0, len(operations), _OPERATIONS):
            await thread.commit(lambda head: replace(head, newest=newest), operations[start : start + _OPERATIONS])

    async def copy(self, source_id: str, target_id: str, *, until: str | None = None) -> int:
        """Copy what led to the checkpoint *until*, or all, into a thread that has none; return how many checkpoints.

        Raises:
            ConflictError: The other one has checkpoints.
            InvalidInputError: There is nothing to copy.
        """
        source, target = self._thread(source_id), self._thread(target_id)
        stored = await source.load_all()
        if until is not None:
            stored = _leading_to(stored, [self._summary(one) for one in stored], until)
        if not stored:
            msg = "The thread or checkpoint was not found; list the threads, or a thread's history."
            raise InvalidInputError(msg, checkpoint_id=until)
        await self._bind_copy(source, target)
        puts = [put for one in reversed(stored) for put in _copied(one)]
        async for page in source.values():
            puts += [Put(item.ref.namespace, item.ref.key, item.value, data=item.data) for item in page]
        newest = max((one.place.checkpoint_id for one in stored if not one.place.namespace), default="")

        def begin(head: Head) -> Head:
            if head.newest:
                msg = "The thread that is to be copied to has checkpoints already; give another id."
                raise ConflictError(msg)
            return head

        await target.commit(begin)
        for start in range(0, len(puts), _OPERATIONS):
            await target.commit(_same, puts[start : start + _OPERATIONS])
        await target.commit(lambda head: replace(head, newest=newest))
        return len(stored)

    async def delta_history(
        self, thread: ThreadStore, place: CheckpointPlace, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return what was written to each channel before a checkpoint since the channel's last stored value."""
        writes: dict[str, list[Any]] = {channel: [] for channel in channels}
        seeds: dict[str, Any] = {}
        stored = await thread.load(place)
        parent_id = stored.parent_id if stored is not None else ""
        while parent_id and len(seeds) < len(writes):
            found = await self._read(thread, CheckpointPlace(place.namespace, parent_id))
            if found is None:
                break
            for write in reversed(found.pending_writes or []):
                if write[1] in writes and write[1] not in seeds:
                    writes[write[1]].append(write)
            values = found.checkpoint["channel_values"]
            seeds.update({channel: values[channel] for channel in writes if channel in values and channel not in seeds})
            parent = found.parent_config
            parent_id = str(parent.get("configurable", {}).get("checkpoint_id", "")) if parent else ""
        return {
            channel: cast(
                "DeltaChannelHistory",
                {"writes": found[::-1], **({"seed": seeds[channel]} if channel in seeds else {})},
            )
            for channel, found in writes.items()
        }

    async def _read(self, thread: ThreadStore, place: CheckpointPlace) -> CheckpointTuple | None:
        stored = await thread.load(place)
        return None if stored is None else await thread.to_tuple(stored, self.serde)

    async def _put_anchor(
        self, thread: ThreadStore, parent: StoredCheckpoint, children: Sequence[CheckpointSummary]
    ) -> str:
        """Put a checkpoint that holds all that was written to the children's channels until *parent*; return its id."""
        namespace, parent_id = parent.place
        channels = sorted({channel for child in children for channel in child.deltas})
        history = await self.delta_history(thread, children[0].place, channels)
        seeds = {channel: one["seed"] for channel, one in history.items() if "seed" in one}
        mark = new_id()
        place = CheckpointPlace(namespace, f"{parent_id[:-12]}{mark[-12:]}")  # before its children, which are younger
        checkpoint = cast(
            "Checkpoint",
            {
                **empty_checkpoint(),
                "id": place.checkpoint_id,
                "ts": parent.read(self.serde)[0]["ts"],
                "channel_values": seeds,
                "channel_versions": dict.fromkeys(seeds, f"{0:032}.{mark}"),
            },
        )
        metadata = cast("CheckpointMetadata", {"source": "fork", "step": -2, "parents": {}, ANCHOR: True})
        puts = encode_checkpoint(namespace, checkpoint, metadata, parent_id="", run="", serde=self.serde, stored={})
        for number, channel in enumerate(channels):
            written = [(channel, value) for _, _, value in history[channel]["writes"]]
            if written:
                puts += encode_writes(
                    place, written, task_id=channel, task_path=f"{number:06}", run="", serde=self.serde
                )
        await thread.commit(_same, puts)
        return place.checkpoint_id

    async def _bind_copy(self, source: ThreadStore, target: ThreadStore) -> None:
        head = await source.head()
        if head is not None and head.owner and self.owner is None:
            owner = head.owner
            await target.commit(lambda other: replace(other, owner=other.owner or owner))

    async def _erase(self, thread: ThreadStore, head: Head | None) -> None:
        """Delete everything of a thread with this head, then take it off its owner's list."""
        await thread.erase()
        owner = owner_of_thread(thread.partition, head or Head(thread.thread_id))
        if owner is not None:
            await self.directory.leave(owner, thread.thread_id, scoped=len(thread.partition.parts) > 1)

    def _thread(self, thread_id: str) -> ThreadStore:
        named = thread_id_from(thread_id)
        return self.threads.get(thread_partition(named, self.owner), named)

    def _summary(self, stored: StoredCheckpoint) -> CheckpointSummary:
        checkpoint, metadata, inline = stored.read(self.serde)
        notes = cast("Mapping[str, Any]", metadata)
        counters = cast("Mapping[str, Any]", notes.get("counters_since_delta_snapshot") or {})
        return CheckpointSummary(
            stored.place,
            stored.parent_id,
            cast("Mapping[str, str]", notes.get("parents") or {}).get(""),
            datetime.fromisoformat(checkpoint["ts"]),
            any(entry[1] == _INTERRUPT for _, entry in stored.written),
            tuple(sorted(channel for channel in counters if channel not in inline and channel not in stored.refs)),
            bool(notes.get(ANCHOR)),
        )


async def erase_threads(threads: Threads, directory: ThreadDirectory, owner: Owner) -> tuple[ThreadId, ...]:
    """Erase the threads of *owner* in one storage, while no further one can be listed there; return their ids.

    The caller erases the owner's partition afterwards, which ends the erasing.
    """
    await directory.begin_erasing(owner)
    listed = await directory.of_owner(owner)
    for one in listed:
        await _erase_listed(threads, one, owner)
    return tuple(dict.fromkeys(one.thread_id for one in listed))


async def _erase_listed(threads: Threads, listed: ListedThread, owner: Owner) -> None:
    thread = threads.get(listed.partition_of(owner), listed.thread_id)
    if not listed.scoped:
        head = await thread.head()
        if head is not None and head.owner not in ("", owner.label):
            return  # listed by a run that was refused, or before the thread was deleted
    await thread.erase()


def _same(head: Head) -> Head:
    return head


def _value_place(stored: StoredCheckpoint, channel: str) -> tuple[str, str, str]:
    return stored.place.namespace, channel, str(stored.refs[channel][0])


def _reparented(stored: StoredCheckpoint, parent_id: str) -> Put:
    item = stored.item
    return Put(
        item.ref.namespace,
        item.ref.key,
        {**item.value, "parent": parent_id},
        data=item.data,
        updated_at=item.updated_at,
    )


def _copied(stored: StoredCheckpoint) -> list[Put]:
    """Return the puts that store a checkpoint in another thread, outside of any run."""
    items = [stored.item, *stored.writes]
    puts = [Put(item.ref.namespace, item.ref.key, {**item.value, "run": ""}, data=item.data) for item in items]
    return [*puts, *(Put(stored.place.path, key, {}, data=data) for key, data in stored.chunks.items())]


def _leading_to(
    stored: Sequence[StoredCheckpoint], rows: Sequence[CheckpointSummary], checkpoint_id: str
) -> list[StoredCheckpoint]:
    """Return a checkpoint of the root graph, what led to it, and the subgraphs' of these, newest first."""
    by_place = {row.place: row for row in rows}
    chain: set[str] = set()
    here = checkpoint_id
    while (row := by_place.get(CheckpointPlace("", here))) is not None and here not in chain:
        chain.add(here)
        here = row.parent_id
    return [
        one
        for one, row in zip(stored, rows, strict=True)
        if (row.root_id if row.place.namespace else row.place.checkpoint_id) in chain
    ]
