"""Where an owner's memories are by what they say: exact, and current with the storage."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from threadkeep.ids import digest
from threadkeep.memories.codec import MEMORIES, is_memory_namespace, memory_of, text_paths_of
from threadkeep.text.normalization import content_words
from threadkeep.text.retractions import ended_by
from threadkeep.text.semantics import signature
from threadkeep.text.slots import slot_of

if TYPE_CHECKING:
    from threadkeep.storage.port import Changes, Item, Namespace, Partition, Position, Storage

_INLINE_CHANGES: Final = 64
"""More puts than these are read off the loop (about 50 µs each)."""
MAX_PARTITIONS: Final = 256
"""Tables of so many owners are kept; about 400 bytes a memory."""

Place = tuple["Namespace", str]


@dataclass(eq=False)
class _Table:
    """The places of one partition's memories, by every key that a statement has."""

    position: Position | None = None
    places: defaultdict[bytes, set[Place]] = field(default_factory=lambda: defaultdict(set))
    keys: dict[Place, tuple[bytes, ...]] = field(default_factory=dict[Place, tuple[bytes, ...]])

    def remove(self, place: Place) -> None:
        for key in self.keys.pop(place, ()):
            self.places[key].discard(place)
            if not self.places[key]:
                del self.places[key]

    def put(self, place: Place, keys: tuple[bytes, ...]) -> None:
        self.remove(place)
        self.keys[place] = keys
        for key in keys:
            self.places[key].add(place)


class KnownStatements:
    """Finds the memories that say the same as a statement or stand in the same slot.

    A ranking finds what is most alike; whether a statement is known, or has been answered before,
    must not depend on what else is alike.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._changing = asyncio.Lock()
        self._tables: OrderedDict[bytes, _Table] = OrderedDict()

    async def places(self, partition: Partition, texts: Iterable[str]) -> frozenset[Place]:
        """Return where the active memories are that may say the same as one of *texts*, or answer the same.

        Raises:
            StorageError: The storage could not be read.
        """
        async with self._changing:
            table = await self._current(partition)
        return frozenset(place for text in texts for key in _keys(text) for place in table.places.get(key, ()))

    async def _current(self, partition: Partition) -> _Table:
        table = self._tables.get(partition.digest) or _Table()
        changes = await self._storage.changes(partition, table.position)
        if changes.reset:
            table = _Table()
        if len(changes.puts) > _INLINE_CHANGES:
            self._tables.pop(partition.digest, None)  # while it is being read, and where that is given up: nobody's
            await asyncio.to_thread(_apply, table, changes)
        else:
            _apply(table, changes)
        self._tables[partition.digest] = table
        self._tables.move_to_end(partition.digest)
        while len(self._tables) > MAX_PARTITIONS:
            self._tables.popitem(last=False)
        return table


def _apply(table: _Table, changes: Changes) -> None:
    for place in changes.removed:
        table.remove(place)
    for item in changes.puts:
        _read(table, item)
    table.position = changes.position


def _read(table: _Table, item: Item) -> None:
    if not is_memory_namespace(item.ref.namespace):
        return
    place = (item.ref.namespace, item.ref.key)
    memory = memory_of(item)
    if memory is None:
        table.remove(place)
    else:
        table.put(place, _keys(memory.text))


def is_ours(item: Item, namespace: Namespace) -> bool:
    """Return whether capture may rewrite *item*: a row in our place and our shape, not another program's."""
    return item.ref.namespace == namespace and namespace[:1] == (MEMORIES,) and text_paths_of(item.value) == ("data",)


def _keys(text: str) -> tuple[bytes, ...]:
    positive = ended_by(text) or text
    keys = [digest("words", *content_words(text)), digest("meaning", *sorted(signature(text)))]
    if positive != text:
        keys.append(digest("meaning", *sorted(signature(positive))))
    slot = slot_of(positive)
    if slot is not None:
        keys.append(digest("slot", slot))
    return tuple(key[:16] for key in keys)
