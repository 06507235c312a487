"""Where entries come from: the seam of copying, and a storage as a source."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Final, Protocol

from threadkeep.moving.record import Entry, LeftOut, entry_of
from threadkeep.storage.port import Item, Partition, Storage
from threadkeep.storage.sealed.marker import refuse_sealed
from threadkeep.storage.walking import pages_in, partitions_in

PAGE: Final = 200
"""Entries at a time; a value may have 4 MiB."""

MARKS: Final = Partition("root", (".moving",))
"""Where a target keeps the mark of a copy that is under way."""


class Source(Protocol):
    """What can be copied from; read from its beginning as often as it is asked."""

    name: str
    """For people: a path, or a URL with the password masked. The same for the same source."""

    foreign: bool
    """Whether its entries come without the vectors, and the sorting out, that ours have."""

    left_out: list[LeftOut]
    """What the last reading could not take over."""

    shapes: dict[str, int]
    """How many entries of which shape the last reading met; foreign sources only."""

    async def connect(self) -> None:
        """Open it for reading.

        Raises:
            StorageError: It cannot be read; the message says why.
        """
        ...

    async def total(self) -> int | None:
        """Return about how many entries there are; ``None``: it cannot be told."""
        ...

    def pages(self) -> AsyncIterator[Sequence[Entry]]:
        """Yield all entries, a page at a time, the oldest of each partition first; a page is of one partition."""
        ...

    async def close(self) -> None:
        """Let go of it."""
        ...


class StorageSource:
    """One of our own storages: everything in it, internal items included, as it is.

    Args:
        storage: It is connected and closed here.
        key_prefix: The deployment's, which is part of the name.
    """

    foreign: bool = False

    def __init__(self, storage: Storage, *, key_prefix: str = "") -> None:
        self.name: str = f"{storage.name} {storage.location}{f' ({key_prefix})' if key_prefix else ''}"
        self.left_out: list[LeftOut] = []
        self.shapes: dict[str, int] = {}
        self._storage = storage

    async def connect(self) -> None:
        """See :meth:`Source.connect`."""
        await self._storage.connect()
        await refuse_sealed(self._storage)

    async def total(self) -> int | None:
        """See :meth:`Source.total`."""
        return (await self._storage.stats()).items

    async def pages(self) -> AsyncGenerator[Sequence[Entry]]:
        """See :meth:`Source.pages`."""
        async for items in item_pages(self._storage):
            yield [entry_of(item) for item in items]

    async def close(self) -> None:
        """See :meth:`Source.close`."""
        await self._storage.close()


async def item_pages(storage: Storage) -> AsyncGenerator[Sequence[Item]]:
    """Yield every item of *storage*, a page of one partition at a time, oldest first, marks of copies left out."""
    async for partition in partitions_of(storage):
        async for items in pages_in(storage, partition, direction="oldest"):
            yield items


async def partitions_of(storage: Storage) -> AsyncGenerator[Partition]:
    """Yield every partition of *storage*, in the storage's order, marks of copies left out."""
    async for partition in partitions_in(storage):
        if partition != MARKS:
            yield partition
