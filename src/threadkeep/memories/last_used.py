"""When memories were used last: noted in RAM by searches, and stored coarsely by the sweep.

A turn writes nothing. The sweep writes the notes of one owner in one commit, and only those that are newer than the
stored time by the *grain*: a memory that is recalled all day costs one small row per grain. The rows are separate
from the memories, because reading a memory must not change its revision.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from threadkeep.errors import DamagedItemError, PartitionErasedError, SealError
from threadkeep.ids import MemoryId
from threadkeep.memories.codec import memory_of, moment_of
from threadkeep.memories.reader import MemoryReader
from threadkeep.storage.interface import Batch, Namespace, Operation, Put, Ref, Storage, iterate_items

if TYPE_CHECKING:
    from threadkeep.clock import Clock
    from threadkeep.identity import Owner

USES: Final = ".uses"
_MOST_OWNERS: Final = 10_000
"""Of so many owners uses are noted until they are written; of more, those noted longest ago are let go."""
_BATCH: Final = 500


def uses_namespace(owner: Owner) -> Namespace:
    """Return where it is kept when *owner*'s memories were used."""
    return (USES, owner.label)


class Uses:
    """Notes which memories were used.

    Args:
        storage: Where that is kept.
        clock: What the time is.
        grain: How coarsely; ``None``: nothing is noted.
    """

    def __init__(self, storage: Storage, clock: Clock, *, grain: timedelta | None) -> None:
        self._storage = storage
        self._rows = MemoryReader(storage)
        self._clock = clock
        self._grain = grain
        self._noted: OrderedDict[Owner, dict[MemoryId, datetime]] = OrderedDict()
        self._guard = threading.Lock()

    def note(self, owner: Owner, memory_ids: Iterable[MemoryId]) -> None:
        """Note that these memories of *owner* were used now, from any thread; it costs a turn no I/O."""
        if self._grain is None:
            return
        now = self._clock.now()
        with self._guard:
            noted = self._noted.setdefault(owner, {})
            self._noted.move_to_end(owner)
            noted.update(dict.fromkeys(memory_ids, now))
            while len(self._noted) > _MOST_OWNERS:
                self._noted.popitem(last=False)

    async def write(self, owner: Owner | None = None) -> list[tuple[Owner, MemoryId]]:
        """Write what was noted of *owner*; ``None``: of all.

        Returns:
            What was used here and laid aside meanwhile by another process, which could not know.

        Raises:
            StorageError: It could not be written; it is still noted.
        """
        aside: list[tuple[Owner, MemoryId]] = []
        with self._guard:
            owners = [owner] if owner is not None else list(self._noted)
        for whose in owners:
            with self._guard:
                noted = dict(self._noted.get(whose, {}))
            with suppress(PartitionErasedError):
                try:
                    aside += [(whose, key) for key in await self._write(whose, noted)]
                except (SealError, DamagedItemError):
                    if owner is not None:
                        raise
                    continue  # the others' can be written
            self._let_go(whose, noted)
        return aside

    async def last(self, memory_id: str, owner: Owner) -> datetime | None:
        """Return when a memory was used last, as far as known."""
        noted = self._noted.get(owner, {}).get(MemoryId(memory_id))
        (item,) = await self._storage.get([Ref(owner.partition, uses_namespace(owner), memory_id)])
        return noted or (moment_of(item.value.get("at")) if item is not None else None)

    async def of(self, owner: Owner) -> dict[MemoryId, datetime]:
        """Return when which of *owner*'s memories was used last, as far as it is written."""
        return {
            MemoryId(item.ref.key): at
            async for item in iterate_items(self._storage, owner.partition, prefix=uses_namespace(owner))
            if (at := moment_of(item.value.get("at"))) is not None
        }

    def _let_go(self, owner: Owner, written: dict[MemoryId, datetime]) -> None:
        """Drop the notes that are written; until the commit they stay, so that a concurrent reader misses none."""
        with self._guard:
            left = {key: at for key, at in self._noted.get(owner, {}).items() if written.get(key) != at}
            if left:
                self._noted[owner] = left
            else:
                self._noted.pop(owner, None)

    async def _write(self, owner: Owner, noted: dict[MemoryId, datetime]) -> list[MemoryId]:
        aside: list[MemoryId] = []
        if not noted:
            return aside
        # The epoch first: of an owner who was erased in between, nothing is written.
        epoch = (await self._storage.position(owner.partition)).epoch
        grain, keys = self._grain or timedelta(), list(noted)
        for start in range(0, len(keys), _BATCH):
            part = keys[start : start + _BATCH]
            there = await self._rows.items(part, owner)
            refs = [Ref(owner.partition, uses_namespace(owner), key) for key in there]
            kept = {
                item.ref.key: at
                for item in await self._storage.get(refs)
                if item is not None and (at := moment_of(item.value.get("at"))) is not None
            }
            puts: list[Operation] = []
            for key, item in there.items():
                memory = memory_of(item)
                changed = memory.archived.used_at if memory and memory.archived else item.updated_at
                known = max(changed, kept.get(key, changed))
                if memory is None or noted[MemoryId(key)] - known < grain:
                    continue
                if memory.archived:
                    aside.append(memory.memory_id)
                else:
                    puts.append(Put(uses_namespace(owner), key, {"at": noted[MemoryId(key)].isoformat()}))
            if puts:
                await self._storage.commit(Batch(owner.partition, puts, epoch))
        return aside
