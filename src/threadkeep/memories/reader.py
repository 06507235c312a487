"""One owner's memories as they are kept: found by key wherever they are, and walked through."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from typing import TYPE_CHECKING, Final

from threadkeep.errors import InvalidInputError, MemoryNotFoundError
from threadkeep.memories.codec import MEMORIES, memory_namespaces, memory_of
from threadkeep.storage.interface import Item, Namespace, Ref, Storage, iterate_items

if TYPE_CHECKING:
    from threadkeep.identity import Owner
    from threadkeep.memories.models import Kind, Memory


_NEWEST: Final = 1000


class MemoryReader:
    """Reads memories; it decides and writes nothing."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    async def item(self, memory_id: str, owner: Owner) -> Item | None:
        """Return the row with this key, wherever below the owner's memories it is kept."""
        return (await self.items([memory_id], owner)).get(memory_id)

    async def items(self, memory_ids: Collection[str], owner: Owner) -> dict[str, Item]:
        """Return the rows with these keys, wherever below the owner's memories they are kept; those that are there."""
        label = owner.label
        places: tuple[Namespace, ...] = (
            (MEMORIES, label),
            ("users", label, MEMORIES, "user"),
            ("users", label, MEMORIES, "episodic"),
        )
        refs = [Ref(owner.partition, place, key) for key in memory_ids for place in places]
        found: dict[str, Item] = {}
        for item in await self._storage.get(refs) if refs else ():
            if item is not None:
                found.setdefault(item.ref.key, item)
        if left := {key for key in memory_ids if key not in found}:
            found |= await self._items_below(left, owner)
        return found

    async def walk(self, *, owner: Owner) -> AsyncIterator[Memory]:
        """Yield every memory of the owner, most recently changed first."""
        streams = [
            iterate_items(self._storage, owner.partition, prefix=prefix) for prefix in memory_namespaces(owner.label)
        ]
        async for item in _merged(streams):
            if memory := memory_of(item):
                yield memory

    async def get(self, memory_id: str, *, owner: Owner) -> Memory | None:
        """Return the owner's memory with this key, or ``None``."""
        item = await self.item(memory_id, owner)
        return memory_of(item) if item else None

    async def require(self, memory_id: str, *, owner: Owner) -> Memory:
        """Return the owner's memory with this key.

        Raises:
            MemoryNotFoundError: The owner has none with this key.
        """
        if memory := await self.get(memory_id, owner=owner):
            return memory
        msg = f"There is no memory {memory_id[:80]!r} of this owner; list the memories to see which there are."
        raise MemoryNotFoundError(msg, memory_id=memory_id)

    async def list(self, *, owner: Owner, kind: Kind | None = None, limit: int = 100, offset: int = 0) -> list[Memory]:
        """Return the owner's memories, most recently changed first, whatever their status."""
        if limit < 0 or offset < 0:
            msg = "limit and offset must be 0 or more."
            raise InvalidInputError(msg)
        found: list[Memory] = []
        async for memory in self.walk(owner=owner):
            if len(found) == offset + limit:
                break
            if kind in (None, memory.kind):
                found.append(memory)
        return found[offset:]

    async def newest(self, *, owner: Owner, limit: int) -> list[Memory]:
        """Return the *limit* memories that were learnt last, newest first, by the time they carry.

        An imported row counts by its own ``timestamp``: sorted first, cut afterwards, among the
        1,000 that were changed last.
        """
        active: list[Memory] = []
        async for memory in self.walk(owner=owner):
            if memory.status == "active" and memory.valid_to is None:
                active.append(memory)
            if len(active) == max(limit, _NEWEST):
                break
        return sorted(active, key=lambda m: (m.created_at, m.revision), reverse=True)[:limit]

    async def _items_below(self, memory_ids: set[str], owner: Owner) -> dict[str, Item]:
        """Look in deeper namespaces, which only other programs write to."""
        found: dict[str, Item] = {}
        for prefix in memory_namespaces(owner.label):
            async for item in iterate_items(self._storage, owner.partition, prefix=prefix):
                if item.ref.key in memory_ids:
                    found.setdefault(item.ref.key, item)
                    if len(found) == len(memory_ids):
                        return found
        return found


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
