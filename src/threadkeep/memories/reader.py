"""Reads of an owner's memories: by id, in the order of their last changes, all of them, and what a search offers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Coroutine, Iterable, Sequence
from contextlib import aclosing
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from threadkeep.arguments import check_string, checked_count
from threadkeep.errors import (
    DamagedItemError,
    InvalidInputError,
    MemoryNotFoundError,
    PartitionErasedError,
    RevisionConflictError,
    SealError,
)
from threadkeep.identity import owner_of_partition
from threadkeep.memories.codec import MEMORIES, SUMMARIES, memory_namespaces, memory_of
from threadkeep.memories.models import Memory, MemoryPage
from threadkeep.storage.encoding import Cursor, decode_cursor, encode_cursor, encode_namespace, scan_position
from threadkeep.storage.interface import PAGE_SIZE, Embedding, Item, Namespace, Partition, Ref, Storage, read_items

if TYPE_CHECKING:
    from threadkeep.identity import Owner

T = TypeVar("T")

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
        places = _places(owner.label)
        refs = [Ref(owner.partition, place, key) for key in memory_ids for place in places]
        found: dict[str, Item] = {}
        for item in await self._storage.get(refs) if refs else ():
            if item is not None:
                found.setdefault(item.ref.key, item)
        if left := {key for key in memory_ids if key not in found}:
            found |= await self._items_below(left, owner)
        return found

    async def everything(self, owner: Owner) -> tuple[list[Memory], list[Memory]]:
        """Return all memories of the owner, most recently changed first, and all summaries of their threads."""
        prefixes = (*memory_namespaces(owner.label), (SUMMARIES, owner.label))
        *items, summaries = await asyncio.gather(
            *[read_items(self._storage, owner.partition, prefix=prefix) for prefix in prefixes]
        )
        first, second = items
        changed = _merged(items) if first and second else first or second
        return list(filter(None, map(memory_of, changed))), list(filter(None, map(memory_of, summaries)))

    async def walk(self, *, owner: Owner) -> AsyncIterator[Memory]:
        """Yield every memory of the owner, most recently changed first."""
        async for batch in self._batches(owner):
            for item in batch:
                if memory := memory_of(item):
                    yield memory

    async def get(self, memory_id: str, *, owner: Owner) -> Memory | None:
        """Return the owner's memory with this key, or ``None``."""
        item = await self.item(memory_id, owner)
        return memory_of(item) if item else None

    async def get_many(self, memory_ids: Sequence[str], *, owner: Owner) -> dict[str, Memory]:
        """Return the owner's memories with these keys, by key, in their order; those that are there."""
        items = await self.items(dict.fromkeys(memory_ids), owner)
        read = ((key, memory_of(items[key])) for key in dict.fromkeys(memory_ids) if key in items)
        return {key: memory for key, memory in read if memory is not None}

    async def require(self, memory_id: str, *, owner: Owner) -> Memory:
        """Return the owner's memory with this key.

        Raises:
            MemoryNotFoundError: The owner has none with this key.
        """
        if memory := await self.get(memory_id, owner=owner):
            return memory
        raise _not_found(memory_id)

    async def list(
        self,
        *,
        owner: Owner,
        matches: Callable[[Memory], bool] | None = None,
        limit: int = 100,
        offset: int = 0,
        cursor: str | None = None,
    ) -> MemoryPage:
        """Return the owner's memories that match, most recently changed first, whatever their status.

        A page begins behind the last memory of the page of *cursor*, also if that one was changed or removed since.
        """
        if not (isinstance(limit, int) and isinstance(offset, int) and limit >= 0 <= offset):
            limit = checked_count(limit, "limit")
            offset = checked_count(offset, "offset")
        batches = self._batches(owner, page_size=PAGE_SIZE if matches or cursor else offset + limit + 1)
        read = memory_of if matches is None else partial(_if_matches, matches)
        page = MemoryPage()
        page[:], page.cursor = await read_page(batches, read, _position, limit=limit, offset=offset, cursor=cursor)
        return page

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
        items: dict[str, Item] = {}
        async for batch in self._batches(owner):
            for item in batch:
                if item.ref.key in memory_ids:
                    items.setdefault(item.ref.key, item)
            if len(items) == len(memory_ids):
                break
        return items

    async def _batches(self, owner: Owner, *, page_size: int = PAGE_SIZE) -> AsyncGenerator[Sequence[Item]]:
        """Yield the items of all memory namespaces in the order of a scan, most recently changed first, in batches.

        A batch holds the items that are newer than every item which is not read yet.
        """
        size = min(max(page_size, 1), PAGE_SIZE)
        positions: dict[Namespace, str | None] = dict.fromkeys(memory_namespaces(owner.label))
        items: dict[Namespace, list[Item]] = {prefix: [] for prefix in positions}
        while positions:
            for prefix, unread in items.items():
                while prefix in positions and not unread:
                    after = positions.pop(prefix)
                    page = await self._storage.scan(owner.partition, prefix=prefix, after=after, limit=size)
                    unread.extend(page.items)
                    if page.after is not None:
                        positions[prefix] = page.after
            several = sum(map(bool, items.values())) > 1
            oldest = max((scan_position(items[prefix][-1]) for prefix in positions), default=None) if several else None
            batches: list[list[Item]] = []
            for prefix, unread in items.items():
                count = len(unread) if oldest is None else sum(scan_position(item) >= oldest for item in unread)
                batches.append(unread[:count])
                items[prefix] = unread[count:]
            yield _merged(batches) if several else batches[0] or batches[1]


def _merged(batches: Sequence[list[Item]]) -> list[Item]:
    """Return the items of several scans in the order of one."""
    return sorted(chain.from_iterable(batches), key=scan_position, reverse=True)


def _position(item: Item) -> Cursor:
    """Return the position of *item* among its owner's, which does not name the owner."""
    name = item.ref.namespace
    return scan_position(item)._replace(namespace=encode_namespace((name[0], "", *name[2:])))


def _if_matches(matches: Callable[[Memory], bool], item: Item) -> Memory | None:
    memory = memory_of(item)
    return memory if memory is not None and matches(memory) else None


async def read_page(
    batches: AsyncGenerator[Sequence[Item]],
    read: Callable[[Item], T | None],
    position: Callable[[Item], Cursor],
    *,
    limit: int,
    offset: int,
    cursor: str | None,
) -> tuple[list[T], str | None]:
    """Return what *read* makes of the items of one page, and the cursor of the next; ``None``: this is the last one.

    Args:
        batches: All items, most recently changed first.
        read: Returns ``None`` for an item that is on no page.
        position: Returns the position of an item, without what a cursor must not tell.
        limit: How many at most.
        offset: How many are left out before.
        cursor: The cursor of the page before: this page begins behind its last item, also if that one was changed or
            removed since. ``None``: this is the first one.

    Raises:
        InvalidInputError: *offset* and *cursor* are given, or *cursor* is no cursor.
    """
    if offset and cursor is not None:
        msg = "Pass offset or cursor, not both: the cursor of a page says where the next one begins."
        raise InvalidInputError(msg)
    after = None if cursor is None else decode_cursor(cursor)
    found: list[T] = []
    items: list[Item] = []
    end = offset + limit
    async with aclosing(batches):
        async for batch in batches:
            for item in batch:
                if (after is None or position(item) < after) and (one := read(item)) is not None:
                    found.append(one)
                    items.append(item)
                    if len(found) > end:
                        return found[offset:end], encode_cursor(position(items[end - 1])) if limit else None
    return found[offset:], None


def require_one(memory_id: str, memories: Iterable[Memory], owner: Owner) -> Memory:
    """Return the memory with this key among all of the owner's.

    Raises:
        MemoryNotFoundError: There is none.
    """
    found: dict[Namespace, Memory] = {}
    for memory in memories:
        if memory.memory_id == memory_id:
            found.setdefault(memory.namespace, memory)
    if not found:
        raise _not_found(memory_id)
    places = filter(found.__contains__, _places(owner.label))
    return found[next(places, next(iter(found)))]


def _places(label: str) -> tuple[Namespace, ...]:
    """Return where a memory is looked for by its key, before deeper namespaces, which only other programs write to."""
    users = ("users", label, MEMORIES)
    return (MEMORIES, label), (*users, "user"), (*users, "episodic"), (SUMMARIES, label)


def _not_found(memory_id: str) -> MemoryNotFoundError:
    check_string(memory_id, "memory_id")
    msg = f"Memory {memory_id[:80]!r} of this owner was not found; list the memories."
    return MemoryNotFoundError(msg, memory_id=memory_id)


OF_ONE_OWNER: Final = (RevisionConflictError, PartitionErasedError, SealError, DamagedItemError)
"""What fails for one owner in a round of the background; the others go on."""


class OwnersInTurn:
    """Returns the owners of a storage, some in each round, and begins again after the last.

    Args:
        storage: Where they are.
        limit: How many partitions a round reads.
    """

    def __init__(self, storage: Storage, limit: int) -> None:
        self._storage = storage
        self._limit = limit
        self._after: Partition | None = None

    async def next(self) -> list[Owner]:
        """Return those of the next round."""
        found = await self._storage.partitions(after=self._after, limit=self._limit)
        self._after = found[-1] if len(found) == self._limit else None
        return [owner for partition in found if (owner := owner_of_partition(partition)) is not None]


class SearchHit(Protocol):
    """Where a search found something."""

    @property
    def namespace(self) -> Namespace:
        """Of the item."""
        ...

    @property
    def key(self) -> str:
        """Of the item."""
        ...


class SearchHits(Protocol):
    """What a search found, best first."""

    @property
    def hits(self) -> Sequence[SearchHit]:
        """What was found."""
        ...


class Searcher(Protocol):
    """Makes vectors, and finds what is like a text in a partition."""

    def embed_memories(self, texts: Sequence[str]) -> Coroutine[Any, Any, Embedding | None]:
        """Return the vectors of memories with these *texts*; ``None`` where there is no embedder or it failed."""
        ...

    async def ranking(
        self, partition: Partition, query: str, *, prefixes: Sequence[Namespace], limit: int | None
    ) -> SearchHits:
        """Return what is most like *query* below *prefixes*."""
        ...

    async def statements(self, partition: Partition, texts: Sequence[str]) -> frozenset[tuple[Namespace, str]]:
        """Return where the memories are that may say the same as one of *texts*, or answer the same question."""
        ...

    def refresh(self, partition: Partition) -> None:
        """Begin to read what is new in *partition*, if it is held; the next search finds it read."""
        ...
