"""Erasing an owner: said first, then done everywhere, then counted; and done again after a backup was put back."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from threadkeep.identity import Owner, owner_of_partition
from threadkeep.owners.models import Erased, Replayed, place_of
from threadkeep.owners.receipts import PARTITION, ErasureReceipt, ErasureReceipts, by_name
from threadkeep.storage.interface import Partition, Storage, iterate_items, iterate_partitions

if TYPE_CHECKING:
    from threadkeep.clock import Clock
    from threadkeep.owners.opt_out import OptOuts

_COUNTED: Final[Mapping[str, str]] = {
    "memory": "memories",
    "summary": "summaries",
    "turn": "turns",
    "turn_seen": "turns",
    "proposal": "proposals",
    "tombstone": "tombstones",
    "audit": "audit",
}


class Indexes(Protocol):
    """What this room needs of search."""

    async def erase(self, partition: Partition) -> None:
        """Drop the index of *partition*, and remove what a vector engine holds of it."""
        ...

    async def forget_erased(self) -> int:
        """Drop every index of a partition that was erased since it was read; return how many."""
        ...


class Threads(Protocol):
    """What this room needs of threads."""

    async def of_owner(self, owner: Owner) -> Sequence[str]:
        """Return the threads that are bound to *owner*."""
        ...

    async def release(self, owner: Owner) -> None:
        """Forget which threads were bound to *owner*."""
        ...


class OwnerErasure:
    """Erases owners, and owners again.

    Args:
        storage: Where everything is but checkpoints.
        indexes: What is held in RAM of it.
        threads: The owners of threads.
        receipts: What is kept of an erasure.
        clock: What the time is.
        delete_threads: Removes threads' checkpoints.
        opt_outs: Who wants no memory.
    """

    def __init__(
        self,
        storage: Storage,
        indexes: Indexes,
        threads: Threads,
        receipts: ErasureReceipts,
        clock: Clock,
        *,
        delete_threads: Callable[[Owner, Sequence[str]], Awaitable[None]],
        opt_outs: OptOuts,
    ) -> None:
        self._storage = storage
        self._indexes = indexes
        self._threads = threads
        self._clock = clock
        self._delete_threads = delete_threads
        self._opt_outs = opt_outs
        self._noticed: tuple[str, int] | None = None
        self.receipts = receipts

    async def erase(self, owner: Owner) -> Erased:
        """Remove everything that is held about *owner*, physically.

        First the receipt is begun; then threads go, then every row with its vectors, the queue and the
        proposals among them, and what is held in RAM, here at once and in other processes within seconds.
        Interrupted, it is repeated from the start, or by :meth:`replay`. Writes of work that was in
        flight are refused afterwards.
        """
        position = await self._storage.position(owner.partition)
        receipt = await self.receipts.begin(owner, at=self._clock.now(), epoch=position.epoch)
        counts: Counter[str] = Counter()
        async for item in iterate_items(self._storage, owner.partition, direction="oldest"):
            counts[_COUNTED.get(place_of(item), "other")] += 1
        threads: tuple[str, ...] = ()
        while found := [thread for thread in await self._threads.of_owner(owner) if thread not in threads]:
            await self._delete_threads(owner, found)  # and those that a run has begun meanwhile
            threads += tuple(found)
        await self._threads.release(owner)
        # Before the storage's, so that one that is down leaves an owner who is found again; after it, because
        # another process may have read the rows in between.
        await self._indexes.erase(owner.partition)
        items = await self._storage.erase(owner.partition)
        await self._indexes.erase(owner.partition)
        await self._opt_outs.forget(owner)
        counts["threads"] = len(threads)
        begun_anew = (await self._storage.position(owner.partition)).epoch != receipt.epoch
        # Nothing of an owner about whom nothing was held can come back, and who comes now is of that epoch.
        done = replace(receipt, state="done", counts=dict(counts), epoch=receipt.epoch if begun_anew else "")
        kept_in = await self.receipts.keep(done)
        return Erased(items, threads, done.counts, done.receipt_id, kept_in)

    async def replay(self, *files: Path) -> Replayed:
        """Erase erased owners again that a restored backup has brought back.

        Owners that came back on their own stay: their new data has another epoch.

        Args:
            files: Further receipts, from other machines.

        Raises:
            InvalidInputError: A file cannot be read.
        """
        receipts = await self.receipts.all(*files)
        known = by_name(receipts)
        key_id = await asyncio.to_thread(lambda: self.receipts.key.key_id)  # the first time, it is read from its file
        strange = sum(receipt.key_id != key_id for receipt in receipts)
        again: list[Erased] = []
        looked_at = 0
        async for partition in iterate_partitions(self._storage):
            owner = owner_of_partition(partition)
            if owner is None:
                continue
            looked_at += 1
            if await self._is_back(owner, known.get(self.receipts.key.name_of(owner), ())):
                again.append(await self.erase(owner))
        return Replayed(len(receipts), looked_at, tuple(again), strange)

    async def notice(self) -> int:
        """Drop what is held in RAM of owners whom another process has erased; one small read where none was.

        Returns:
            How many indexes were dropped.
        """
        position = await self._storage.position(PARTITION)
        seen = (position.epoch, position.sequence)
        if seen == self._noticed:
            return 0
        self._noticed = seen
        return await self._indexes.forget_erased()

    async def _is_back(self, owner: Owner, receipts: Sequence[ErasureReceipt]) -> bool:
        """Whether what is there of *owner* is what was erased."""
        if not receipts:
            return False
        position = await self._storage.position(owner.partition)
        if any(receipt.epoch == position.epoch for receipt in receipts):
            return True
        # Of another storage, to which it was copied: epochs are others there, but the times are kept.
        newest = (await self._storage.scan(owner.partition, limit=1)).items
        return bool(newest) and newest[0].updated_at <= max(receipt.at for receipt in receipts)
