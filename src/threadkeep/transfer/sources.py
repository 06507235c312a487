"""Where entries come from: the seam of copying, and a storage as a source."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Sequence
from contextlib import contextmanager
from typing import Final, Protocol
from urllib.parse import urlsplit

from threadkeep.errors import InvalidInputError, StorageUnavailableError
from threadkeep.memories.models import Approval
from threadkeep.storage.encryption import refuse_encrypted
from threadkeep.storage.interface import Item, Partition, Storage, iterate_pages, iterate_partitions
from threadkeep.transfer.importer import ForeignItem, Labels, LeftOutError, UnmappedLabelError, arrived, shape_of
from threadkeep.transfer.models import Entry, LeftOut, entry_of

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
        await refuse_encrypted(self._storage)

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
        async for items in iterate_pages(storage, partition, direction="oldest"):
            yield items


async def partitions_of(storage: Storage) -> AsyncGenerator[Partition]:
    """Yield every partition of *storage*, in the storage's order, marks of copies left out."""
    async for partition in iterate_partitions(storage):
        if partition != MARKS:
            yield partition


_SHOWN: Final = 10
_SCHEME: Final = "langgraph+"


class Reader(Protocol):
    """Reads the items of a foreign place, each once."""

    name: str
    """For people: a path, or a URL without its password."""

    async def connect(self) -> None:
        """Open it for reading. Raises ``StorageError`` where it cannot be read or is something else."""
        ...

    async def total(self) -> int | None:
        """Return about how many items there are."""
        ...

    def items(self) -> AsyncIterator[ForeignItem | LeftOut]:
        """Yield every item, those of one namespace after each other; what is no item, with the reason."""
        ...

    async def close(self) -> None:
        """Let go of it."""
        ...


class ForeignSource:
    """What a reader gives, as entries.

    Args:
        reader: Where it comes from; it is connected and closed here.
        labels: Who is meant by a label.
        approval: Who has approved what needs it; ``None``: nobody, and it becomes proposals.
    """

    foreign: bool = True

    def __init__(self, reader: Reader, labels: Labels, approval: Approval | None = None) -> None:
        self.name: str = reader.name
        self.left_out: list[LeftOut] = []
        self.shapes: dict[str, int] = {}
        self._reader = reader
        self._labels = labels
        self._approval = approval

    async def connect(self) -> None:
        """See :meth:`threadkeep.transfer.sources.Source.connect`."""
        await self._reader.connect()

    async def total(self) -> int | None:
        """See :meth:`threadkeep.transfer.sources.Source.total`."""
        return await self._reader.total()

    async def close(self) -> None:
        """See :meth:`threadkeep.transfer.sources.Source.close`."""
        await self._reader.close()

    async def pages(self) -> AsyncGenerator[Sequence[Entry]]:
        """See :meth:`threadkeep.transfer.sources.Source.pages`."""
        self.left_out = []
        shapes: Counter[str] = Counter()
        page: dict[tuple[tuple[str, ...], str], Entry] = {}
        async for item in self._reader.items():
            if isinstance(item, LeftOut):
                self.left_out.append(item)
                continue
            try:
                entry = arrived(item, self._labels, self._approval)
            except LeftOutError as error:
                self.left_out.append(LeftOut(item.namespace, item.key, str(error)))
                continue
            shapes[shape_of(entry.put.namespace, entry.put.value)] += 1
            place = (entry.put.namespace, entry.put.key)
            first = next(iter(page.values()), None)
            if first is not None and (first.partition != entry.partition or place in page or len(page) >= PAGE):
                yield list(page.values())
                page.clear()
            page[place] = entry
        if page:
            yield list(page.values())
        self.shapes = dict(shapes)

    async def require_labels(self) -> None:
        """Refuse to begin where a label may be several people's, and list those labels.

        Raises:
            InvalidInputError: There are such labels.
        """
        unmapped: dict[str, None] = {}
        async for item in self._reader.items():
            if isinstance(item, LeftOut):
                continue
            try:
                arrived(item, self._labels, self._approval)
            except UnmappedLabelError as error:
                unmapped[error.label] = None
            except LeftOutError:
                continue
        if unmapped:
            shown = ", ".join(repr(label[:80]) for label in list(unmapped)[:_SHOWN])
            more = f" and {len(unmapped) - _SHOWN:,} more" if len(unmapped) > _SHOWN else ""
            msg = (
                f"{len(unmapped):,} labels hold '_', which may have been a period: {shown}{more}. Write a JSON object "
                "of labels and user ids and give it as --mapping; --labels-are-ids if no period was ever replaced."
            )
            raise InvalidInputError(msg, labels=list(unmapped))


def foreign_reader(url: str) -> Reader | None:
    """Return who reads *url*; ``None`` where it names no foreign place.

    ``langgraph+sqlite:///store.db``, ``langgraph+postgresql://…``, ``langgraph+redis://…`` and
    ``langgraph+mongodb://…/database`` are LangGraph's own stores; ``mem0:export.json`` is an export of mem0.

    Raises:
        InvalidInputError: It begins like one and is none.
    """
    scheme, colon, rest = url.partition(":")
    if scheme == "mem0" and colon:
        from threadkeep.transfer.mem0 import Mem0Export

        return Mem0Export(rest.removeprefix("//"))
    if not scheme.startswith(_SCHEME):
        return None
    kind, location = scheme.removeprefix(_SCHEME), url.removeprefix(_SCHEME)
    if kind == "sqlite":
        from threadkeep.transfer.langgraph_stores import StockSqlite

        return StockSqlite(location)
    if kind in ("postgres", "postgresql"):
        from threadkeep.transfer.langgraph_stores import StockPostgres

        return StockPostgres(location)
    if kind in ("redis", "rediss"):
        from threadkeep.transfer.langgraph_stores import StockRedis

        return StockRedis(location)
    if kind in ("mongodb", "mongodb+srv"):
        from threadkeep.transfer.langgraph_stores import StockMongoDB

        return StockMongoDB(location)
    msg = (
        f"{scheme[:40]!r} names no store of LangGraph's; give langgraph+sqlite:///file.db, langgraph+postgresql://…, "
        "langgraph+redis://… or langgraph+mongodb://…."
    )
    raise InvalidInputError(msg)


def shown(url: str) -> str:
    """Return *url* for people: without its password and its parameters."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    user = parts.username or ""
    return f"{_SCHEME}{parts.scheme}://{f'{user}@' if user else ''}{host}{parts.path}"


@contextmanager
def reading(name: str, *errors: type[Exception]) -> Generator[None]:
    """Raise what a driver raises inside as an error of ours."""
    try:
        yield
    except errors as error:
        told = " ".join(str(error).split())[:200]
        msg = f"{name} cannot be read ({type(error).__name__}: {told}). Nothing was changed there; try again."
        raise StorageUnavailableError(msg) from error
