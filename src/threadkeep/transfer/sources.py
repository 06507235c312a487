"""Where entries come from: the seam of copying, and a storage as a source."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any, Final, Protocol, cast
from urllib.parse import urlsplit

from threadkeep.errors import InvalidInputError, StorageUnavailableError
from threadkeep.identity import Owner
from threadkeep.ids import MemoryId, ThreadId, short_digest
from threadkeep.memories.codec import MEMORIES, json_lines, value_of
from threadkeep.memories.models import Approval, Memory, Source
from threadkeep.storage.encryption import refuse_encrypted
from threadkeep.storage.interface import Item, Partition, Storage, iterate_pages, iterate_partitions
from threadkeep.transfer.importer import (
    ForeignItem,
    Labels,
    LeftOut,
    LeftOutError,
    TransferItem,
    UnmappedLabelError,
    arrived,
    entry_of,
    shape_of,
)

PAGE: Final = 200
"""Entries at a time; a value may have 4 MiB."""

MARKS: Final = Partition("root", (".moving",))
"""Where a target keeps the mark of a copy that is under way."""


class TransferSource(Protocol):
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

    def pages(self) -> AsyncIterator[Sequence[TransferItem]]:
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
        """See :meth:`TransferSource.connect`."""
        await self._storage.connect()
        await refuse_encrypted(self._storage)

    async def total(self) -> int | None:
        """See :meth:`TransferSource.total`."""
        return (await self._storage.stats()).items

    async def pages(self) -> AsyncGenerator[Sequence[TransferItem]]:
        """See :meth:`TransferSource.pages`."""
        async for items in item_pages(self._storage):
            yield [entry_of(item) for item in items]

    async def close(self) -> None:
        """See :meth:`TransferSource.close`."""
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
        approval: The approval of memories that need one; ``None``: they become proposals.
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
        """See :meth:`threadkeep.transfer.sources.TransferSource.connect`."""
        await self._reader.connect()

    async def total(self) -> int | None:
        """See :meth:`threadkeep.transfer.sources.TransferSource.total`."""
        return await self._reader.total()

    async def close(self) -> None:
        """See :meth:`threadkeep.transfer.sources.TransferSource.close`."""
        await self._reader.close()

    async def pages(self) -> AsyncGenerator[Sequence[TransferItem]]:
        """See :meth:`threadkeep.transfer.sources.TransferSource.pages`."""
        self.left_out = []
        shapes: Counter[str] = Counter()
        page: dict[tuple[tuple[str, ...], str], TransferItem] = {}
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
                f"{len(unmapped):,} labels have '_', which may have been a period: {shown}{more}. Write a JSON object "
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
        f"{scheme[:40]!r} is not a store of LangGraph; give langgraph+sqlite:///file.db, langgraph+postgresql://…, "
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
        msg = f"{name} cannot be read ({type(error).__name__}: {told}). It was not changed; try again."
        raise StorageUnavailableError(msg) from error


_LISTS: Final = ("results", "memories")
_KEPT: Final = ("metadata", "categories", "agent_id", "app_id")
_PROCEDURAL: Final = "procedural_memory"


class Mem0Export:
    """The file at *path*: a JSON list, an object with a list under ``results`` or ``memories``, or JSON Lines."""

    def __init__(self, path: str) -> None:
        self.name: str = f"mem0:{path}"
        self._path = Path(path)
        self._rows: list[Any] = []

    async def connect(self) -> None:
        """See :meth:`threadkeep.transfer.sources.Reader.connect`."""
        try:
            text = await asyncio.to_thread(self._path.read_text, encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            msg = f"{self._path} cannot be read ({type(error).__name__}); give the JSON file that mem0 exported."
            raise InvalidInputError(msg) from error
        self._rows = _rows(text, self._path)

    async def total(self) -> int | None:
        """See :meth:`threadkeep.transfer.sources.Reader.total`."""
        return len(self._rows)

    async def items(self) -> AsyncGenerator[ForeignItem | LeftOut]:
        """See :meth:`threadkeep.transfer.sources.Reader.items`."""
        for item in sorted(map(_item, self._rows), key=lambda item: item.namespace):
            yield item

    async def close(self) -> None:
        """See :meth:`threadkeep.transfer.sources.Reader.close`."""
        self._rows = []


def _rows(text: str, path: Path) -> list[Any]:
    try:
        read: object = json.loads(text)
    except ValueError:
        read = list(_lines(text, path)) or None
    if isinstance(read, dict):
        found = cast("dict[str, object]", read)
        read = next((found[name] for name in _LISTS if isinstance(found.get(name), list)), None)
    if not isinstance(read, list):
        msg = f"{path} is not an export of mem0: pass a list of memories, or an object with a list under results."
        raise InvalidInputError(msg)
    return cast("list[Any]", read)


def _lines(text: str, path: Path) -> Iterator[object]:
    for number, line in enumerate(json_lines(text), 1):
        if line.strip():
            try:
                yield json.loads(line)
            except ValueError as error:
                msg = f"{path} is neither JSON nor JSON Lines: line {number} cannot be read ({error})."
                raise InvalidInputError(msg) from error


def _item(row: object) -> ForeignItem | LeftOut:
    """Return a memory of mem0 as a memory of ours; its user id is an id, and no label, so nothing is guessed."""
    fields: Mapping[str, Any] = cast("Mapping[str, Any]", row) if isinstance(row, Mapping) else {}
    key, text, user = fields.get("id"), fields.get("memory"), fields.get("user_id")
    shown = str(key)[:80]
    if not isinstance(text, str) or not text.strip():
        return LeftOut((), shown, "it has no text under memory")
    if not isinstance(user, str) or not user:
        return LeftOut((), shown, "it belongs to no user (user_id)")
    try:
        owner = Owner(user)
        created_at = _moment(fields.get("created_at"))
        updated_at = _moment(fields.get("updated_at")) if fields.get("updated_at") else created_at
        ends_at = _end(fields.get("expiration_date"))
    except ValueError as error:
        return LeftOut((), shown, f"it cannot be read ({error})")
    memory_id = key if isinstance(key, str) and key else short_digest("mem0", user, text)
    run = fields.get("run_id")
    metadata = fields.get("metadata")
    procedural = isinstance(metadata, Mapping) and cast("Mapping[str, Any]", metadata).get("memory_type") == _PROCEDURAL
    namespace = (MEMORIES, owner.label)
    memory = Memory(
        memory_id=MemoryId(memory_id),
        namespace=namespace,
        text=text.strip(),
        kind="procedural" if procedural else "semantic",
        status="active",
        trust="import",
        sources=(Source("import", ThreadId(run) if isinstance(run, str) and run else None, at=created_at),),
        revision=0,
        created_at=created_at,
        updated_at=updated_at,
    )
    more = {name: fields[name] for name in _KEPT if fields.get(name)}
    return ForeignItem(
        namespace,
        memory_id,
        {**value_of(memory), **more},
        created_at,
        updated_at,
        max(ends_at - updated_at, timedelta(seconds=1)) if ends_at else None,
        ends_at,
    )


def _moment(text: object) -> datetime:
    if not isinstance(text, str):
        msg = "a time is missing"
        raise ValueError(msg)  # noqa: TRY004 - the caller says which memory
    moment = datetime.fromisoformat(text)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _end(text: object) -> datetime | None:
    """Return the end of the day that mem0 calls the expiration date."""
    if not text:
        return None
    return datetime.combine(_moment(text).date(), time.max, UTC)


@asynccontextmanager
async def reading_from(source: TransferSource) -> AsyncGenerator[TransferSource]:
    """Connect *source*, and close it in the end."""
    try:
        await source.connect()
        yield source
    finally:
        await source.close()
