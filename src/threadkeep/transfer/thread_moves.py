"""Moves threads out of the storage where they were before the settings named another place or key for them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from threadkeep.checkpoints.codec import CHECKPOINT, HEAD, CheckpointPlace
from threadkeep.checkpoints.directory import THREADS, ThreadDirectory, listing_ref, owner_of_thread
from threadkeep.checkpoints.head import Head
from threadkeep.errors import InvalidInputError, RevisionConflictError, StorageError
from threadkeep.ids import new_id
from threadkeep.storage.interface import Batch, Delete, Partition, Put, Ref, iterate_pages, iterate_partitions
from threadkeep.transfer.copying import Copying
from threadkeep.transfer.importer import LeftOut, TransferItem, entry_of
from threadkeep.transfer.sources import MARKS, StorageSource

if TYPE_CHECKING:
    from threadkeep.clock import Clock
    from threadkeep.identity import Owner
    from threadkeep.storage.interface import Item, Storage


@dataclass(frozen=True, slots=True)
class ThreadMove:
    """The result of moving the threads of a storage.

    Attributes:
        source: Where they were, for people.
        target: Where they are.
        threads: How many were moved.
        verified: How many items were read back and found to be the same.
        left: The threads that stay where they were, each with the reason.
    """

    source: str
    target: str
    threads: int
    verified: int
    left: Sequence[LeftOut]


class _CopiedThread(NamedTuple):
    """A thread that is in the target.

    Attributes:
        partition: Where it is kept.
        thread_id: Its id.
        owner: Its owner; ``None``: it has none.
        revision: The revision of its head in the source; ``None``: a move that was interrupted has removed the head.
    """

    partition: Partition
    thread_id: str
    owner: Owner | None
    revision: int | None


class _ThreadItems(StorageSource):
    """The threads of a storage that may also hold other things, each with its place in its owner's list.

    The head comes last: until then no run sees the thread in the target.

    Args:
        storage: Keeps the threads; connected.
        target: Where they are copied to; connected.
        clock: Returns the time.
    """

    def __init__(self, storage: Storage, target: Storage, clock: Clock) -> None:
        super().__init__(storage)
        self.copied: list[_CopiedThread] = []
        self._target = target
        self._clock = clock

    async def total(self) -> int | None:
        """See :meth:`TransferSource.total`."""
        return None

    async def pages(self) -> AsyncGenerator[Sequence[TransferItem]]:
        """See :meth:`TransferSource.pages`."""
        self.copied, self.left_out = [], []
        async for partition in iterate_partitions(self._storage):
            if partition.kind == "thread":
                async for page in self._pages_of(partition):
                    yield page

    async def _pages_of(self, partition: Partition) -> AsyncGenerator[Sequence[TransferItem]]:
        place = Ref(partition, *HEAD)
        ((item,), (there,)) = (await self._storage.get([place]), await self._target.get([place]))
        known = item or there
        head = Head(partition.parts[-1]) if known is None else Head.from_value(known.value)
        owner = owner_of_thread(partition, head)
        reason = await self._reason_to_leave(partition, owner, item, there)
        if reason is None and item is not None and there is not None and not await self._has(partition, item, there):
            reason = await self._take_back(partition, owner, there)
            there = None
        if reason is not None:
            self.left_out.append(LeftOut((THREADS, "" if owner is None else owner.label), head.thread_id, reason))
            return
        self.copied.append(_CopiedThread(partition, head.thread_id, owner, None if item is None else item.revision))
        if item is None or (there is not None and there.value != item.value):
            return  # an earlier move copied it
        if owner is not None and (listed := await self._listed(owner, partition, head)) is not None:
            yield [listed]
        async for items in iterate_pages(self._storage, partition, direction="oldest"):
            if entries := [entry_of(one) for one in items if one.ref != place]:
                yield entries
        yield [entry_of(item)]

    async def _listed(self, owner: Owner, partition: Partition, head: Head) -> TransferItem | None:
        """Return the thread's place in its owner's list; ``None``: there is none, or the target has another one."""
        ref = listing_ref(owner, head.thread_id, scoped=len(partition.parts) > 1)
        ((listed,), (there,)) = (await self._storage.get([ref]), await self._target.get([ref]))
        if listed is None or (there is not None and there.value != listed.value):
            return None
        return entry_of(listed)

    async def _reason_to_leave(
        self, partition: Partition, owner: Owner | None, item: Item | None, there: Item | None
    ) -> str | None:
        """Return why the thread with the head *item* stays where it is; ``None``: it can be moved.

        Args:
            partition: Where it is kept.
            owner: Its owner.
            item: Its head.
            there: The head of a thread with the same id in the target.
        """
        directories = [ThreadDirectory(one, self._clock) for one in (self._storage, self._target)]
        if owner is not None and any([await one.is_erasing(owner) for one in directories]):
            return "its owner is being erased."
        if item is None:
            return "it is damaged: its head is missing." if there is None else None
        head = Head.from_value(item.value)
        if head.lease is not None and head.lease.until > self._clock.now():
            return "a run is at work on it; restart every process with the present settings, and repeat the command."
        if there is not None:
            return await self._reason_of_copy(partition, item, there)
        return "a thread with this id was deleted there." if await directories[1].was_erased(partition) else None

    async def _reason_of_copy(self, partition: Partition, item: Item, there: Item) -> str | None:
        """Return why the thread stays where it is, as the target has one of the same id; ``None``: it can be moved."""
        if there.created_at != item.created_at:  # it is no copy of this one
            return "another thread with this id has been begun there."
        if await self._has(partition, item, there) or await self._is_part(partition, there):
            return None
        return (
            "runs went on with it both here and there after it was copied; delete it in one of the two places, and "
            "repeat the command."
        )

    async def _has(self, partition: Partition, item: Item, there: Item) -> bool:
        """Return whether the target has the newest checkpoint of the thread with the head *item*."""
        newest = Head.from_value(item.value).newest
        if there.value == item.value or not newest:
            return True
        (found,) = await self._target.get([Ref(partition, CheckpointPlace("", newest).path, CHECKPOINT)])
        return found is not None

    async def _is_part(self, partition: Partition, there: Item) -> bool:
        """Return whether the source has all that the target has of a thread, and no run is at work on it there."""
        lease = Head.from_value(there.value).lease
        if lease is not None and lease.until > self._clock.now():
            return False
        async for page in iterate_pages(self._target, partition):
            held = [one for one in page if one.ref != there.ref]
            for one, own in zip(held, await self._storage.get([one.ref for one in held]), strict=True):
                if own is None or entry_of(own).spelled() != entry_of(one).spelled():
                    return False
        return True

    async def _take_back(self, partition: Partition, owner: Owner | None, there: Item) -> str | None:
        """Remove the head of an earlier copy in the target, and its place in the list: the thread is copied again.

        Returns:
            Why the thread stays where it is; ``None``: it was removed.
        """
        try:
            await self._target.commit(Batch(partition, [Delete(*HEAD, expect=there.revision)]))
        except RevisionConflictError:
            return "a run went on with it there meanwhile; repeat the command."
        if owner is not None:
            thread_id, scoped = Head.from_value(there.value).thread_id, len(partition.parts) > 1
            await ThreadDirectory(self._target, self._clock).leave(owner, thread_id, scoped=scoped)
        return None


async def move_threads(source: Storage, target: Storage, clock: Clock) -> ThreadMove:
    """Move the threads of *source* into *target*, both connected, with their owners and their places in the lists.

    Each is read back before any is removed from *source*. A move that was interrupted is continued by the next call.
    Runs in the event loop.

    Args:
        source: The storage where they were; it may hold other things.
        target: The storage of the threads.
        clock: Returns the time.

    Raises:
        InvalidInputError: Both are the same storage.
        StorageError: What was written cannot be read again as it was; nothing was removed.
    """
    if await _are_same(source, target):
        msg = f"The threads are in {target.location} already: the settings name one storage in two ways."
        raise InvalidInputError(msg)
    items = _ThreadItems(source, target, clock)
    copied = await Copying(items, target, clock, merge=True).run()
    if copied.unequal or copied.differing:
        msg = (
            f"{copied.unequal + copied.differing:,} items of threads are not read as they were written, so none was "
            "removed where it was; another process may have written meanwhile. Repeat the command."
        )
        raise StorageError(msg)
    left = [*items.left_out]
    for thread in items.copied:
        if not await _remove(source, thread, clock):
            label = "" if thread.owner is None else thread.owner.label
            left.append(LeftOut((THREADS, label), thread.thread_id, "a run went on with it meanwhile."))
    await source.scrub(rewrite=True)
    moved = len(items.copied) + len(items.left_out) - len(left)
    return ThreadMove(items.name, f"{target.name} {target.location}", moved, copied.verified, left)


async def _are_same(source: Storage, target: Storage) -> bool:
    """Return whether what is written to *target* is read from *source*."""
    probe = Ref(MARKS, MARKS.parts, new_id())
    await target.commit(Batch(MARKS, [Put(probe.namespace, probe.key, {})]))
    (found,) = await source.get([probe])
    await target.commit(Batch(MARKS, [Delete(probe.namespace, probe.key)]))
    return found is not None


async def _remove(source: Storage, thread: _CopiedThread, clock: Clock) -> bool:
    """Remove a thread that was moved; return whether it is still what was copied.

    Its head goes first: a run that has read it can write no more. Its items go last: a move that was interrupted
    finds the thread by them.
    """
    if thread.revision is not None:
        try:
            await source.commit(Batch(thread.partition, [Delete(*HEAD, expect=thread.revision)]))
        except RevisionConflictError:
            return False
    if thread.owner is not None:
        directory = ThreadDirectory(source, clock)
        await directory.leave(thread.owner, thread.thread_id, scoped=len(thread.partition.parts) > 1)
    await source.erase(thread.partition)
    return True
