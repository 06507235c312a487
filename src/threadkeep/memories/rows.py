"""One owner's memories as they are kept: found by key wherever they are, and walked through."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

from threadkeep.memories.shapes import MEMORIES, memory_namespaces, memory_of
from threadkeep.storage.port import Item, Namespace, Ref, Storage
from threadkeep.storage.walking import items_in

if TYPE_CHECKING:
    from threadkeep.memories.record import Memory
    from threadkeep.owners.owner import Owner


class MemoryRows:
    """Reads memories; it decides and writes nothing."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    async def item(self, memory_id: str, owner: Owner) -> Item | None:
        """Return the row with this key, wherever below the owner's memories it is kept."""
        label = owner.label
        places: tuple[Namespace, ...] = (
            (MEMORIES, label),
            ("users", label, MEMORIES, "user"),
            ("users", label, MEMORIES, "episodic"),
        )
        found = await self._storage.get([Ref(owner.partition, place, memory_id) for place in places])
        return next((item for item in found if item), None) or await self._item_below(memory_id, owner)

    async def walk(self, owner: Owner) -> AsyncIterator[Memory]:
        """Yield every memory of the owner, most recently changed first."""
        streams = [items_in(self._storage, owner.partition, prefix=prefix) for prefix in memory_namespaces(owner.label)]
        async for item in _merged(streams):
            if memory := memory_of(item):
                yield memory

    async def _item_below(self, memory_id: str, owner: Owner) -> Item | None:
        """Look in deeper namespaces, which only other programs write to."""
        for prefix in memory_namespaces(owner.label):
            async for item in items_in(self._storage, owner.partition, prefix=prefix):
                if item.ref.key == memory_id:
                    return item
        return None


async def _merged(streams: Sequence[AsyncIterator[Item]]) -> AsyncIterator[Item]:
    """Merge streams that are sorted newest first."""
    heads = {i: await anext(stream, None) for i, stream in enumerate(streams)}
    while True:
        waiting = [(i, item) for i, item in heads.items() if item is not None]
        if not waiting:
            return
        i, item = max(waiting, key=lambda pair: (pair[1].updated_at, pair[1].revision))
        yield item
        heads[i] = await anext(streams[i], None)
