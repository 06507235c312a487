"""Items in MongoDB: a standalone server, a replica set or a cluster, without transactions.

A commit is one insert into ``threadkeep_batches``; its ``_id`` is the partition and a number, so the unique
index admits one writer, and the others decide again. What the commit writes was inserted before, invisible
to readers, and becomes part of the items afterwards, by this process or another one.
``documents`` describes the collections, ``commits`` why this is correct; ``records`` reads and folds batch records.

MongoDB does not promise that a long read is of one moment, so :class:`MongoReads` reads the newest batch record, the
items, and the records that came in the meantime. If there are any, it reads the items that they name again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, TypeVar

from pymongo import AsyncMongoClient
from pymongo.errors import OperationFailure

from threadkeep.clock import Clock
from threadkeep.concurrency import PriorityGate
from threadkeep.errors import StorageUnavailableError
from threadkeep.storage.base import CallRunner, ChangedRows, ScanQuery, StorageBase
from threadkeep.storage.encoding import WILDCARD, Cursor, prefix_range
from threadkeep.storage.interface import (
    MAX_BATCH_OPERATIONS,
    Item,
    NamespaceMatch,
    Partition,
    Position,
    Stats,
)
from threadkeep.storage.mongodb.client import (
    VARIABLE,
    check_uri,
    create_client,
    get_database,
    mask_uri,
    mongo_errors,
    prepare_database,
)
from threadkeep.storage.mongodb.commits import MongoCommits
from threadkeep.storage.mongodb.documents import (
    MAX_COMMAND_IDS,
    PART_CHARACTERS,
    BatchRecord,
    Document,
    any_place,
    chunked,
    feed_after,
    hidden_by,
    order_key,
    order_range,
    parse_row,
    place_key,
    shows,
)
from threadkeep.storage.mongodb.records import MongoCollections, MovedError, RecordFolder
from threadkeep.storage.rows import EncodedBatch, ItemRow, RowKey, is_alive, parse_partition

T = TypeVar("T")

ORPHANED_AFTER: Final = timedelta(hours=1)
"""The age from which prepared and undecided items are deleted, because their writer ended."""

_ATTEMPTS: Final = 5
_FIRST_PART: Final = 64
_LONGEST_PART: Final = 5_000
_MAX_LIMIT: Final = 1 << 62


_CALLS_AT_ONCE: Final = 8
"""More at once do not make a server faster: calls would wait there, where timeouts run, and not in this process."""


class MongoStorage(StorageBase):
    """Keeps items in the database of *uri*, by default ``threadkeep``.

    Args:
        uri: ``mongodb://`` or ``mongodb+srv://``; its options override our defaults.
        key_prefix: Deployments with different prefixes share the database and nothing else.
        clock: Returns the storage's time.
        migrate: Whether the first connection creates the collections' indexes; otherwise they must exist.
        variable: The setting that *uri* is from, for messages.

    Raises:
        SettingsError: The URI cannot be used.
    """

    name: str = "mongodb"

    def __init__(
        self,
        uri: str,
        *,
        key_prefix: str = "",
        clock: Clock,
        migrate: bool = True,
        variable: str = VARIABLE,
    ) -> None:
        check_uri(uri, variable)
        super().__init__(mask_uri(uri, variable), clock)
        self._variable = variable
        self._uri = uri
        self._key_prefix = key_prefix
        self._migrate = migrate
        self._gate = PriorityGate(_CALLS_AT_ONCE)
        self._calls = CallRunner(gate=self._gate)

    @property
    def gate(self) -> PriorityGate | None:
        """What lets calls through by priority."""
        return self._gate

    async def _open(self) -> None:
        with mongo_errors(self.location, self._variable):
            client = create_client(self._uri)
            try:
                database = get_database(client)
                birth = await prepare_database(client, database, location=self.location, migrate=self._migrate)
            except BaseException:
                await client.close()
                raise
        self._client: AsyncMongoClient[Document] = client
        self.collections = MongoCollections(database, key_prefix=self._key_prefix, birth=birth)
        self.folder = RecordFolder(self.collections)
        self.commits = MongoCommits(self.collections, self.folder, self._now)
        self._reads = MongoReads(self.collections, self.folder)

    async def _close(self) -> None:
        await self._calls.drain()
        await self.commits.drain()
        await self._client.close()

    async def _get_rows(
        self,
        keys: Mapping[Partition, Collection[RowKey]],
        *,
        now: int,  # noqa: ARG002 - the hook has it
    ) -> Mapping[Partition, Iterable[ItemRow]]:
        async def read(partition: Partition, row_keys: Collection[RowKey]) -> list[ItemRow]:
            part = self.collections.part(partition)
            return await self._reads.rows(part, [place_key(part, row_key) for row_key in row_keys])

        async def read_all() -> list[list[ItemRow]]:
            return await asyncio.gather(*(read(partition, row_keys) for partition, row_keys in keys.items()))

        return dict(zip(keys, await self._run(read_all), strict=True))

    async def _commit(self, batch: EncodedBatch) -> Position:
        return await self._run(lambda: self.commits.commit(batch))

    async def _get_position(self, partition: Partition) -> Position:
        return (await self._run(lambda: self.collections.head(self.collections.part(partition)))).position

    async def _scan_rows(self, query: ScanQuery, *, now: int) -> list[tuple[Cursor, Item]]:
        return await self._run(lambda: self._reads.scan(query, now))

    async def _changed_rows(self, partition: Partition, since: Position | None) -> ChangedRows:
        return await self._run(lambda: self._reads.changes(partition, since))

    async def _list_namespaces(self, match: Sequence[NamespaceMatch], *, now: int) -> Iterable[str]:
        async def read() -> set[str]:
            await self.folder.fold_open()
            query = self._unexpired(now)
            query["namespace"] = _namespace_condition(match)
            steps = [{"$match": query}, {"$group": {"_id": "$namespace"}}]
            texts = [group["_id"] async for group in await self.collections.items.aggregate(steps)]
            return {text for text in texts if text is not None}

        return await self._run(read)

    async def _list_partitions(self, after: Partition | None, limit: int) -> Sequence[Partition]:
        return await self._run(lambda: self._reads.partitions(after, limit))

    async def _due_rows(self, kind: str, *, now: int, limit: int) -> Iterable[tuple[Partition, ItemRow]]:
        return await self._run(lambda: self._reads.due(kind, now=now, limit=limit))

    async def _erase_rows(self, partition: Partition) -> int:
        """Erase the partition; for a minute, the numbers of its earlier batch records stay, without content."""
        return await self._run(lambda: self.commits.erase(partition))

    async def _sweep_rows(self, now: int) -> int:
        """Delete expired items, and what writers left that ended in the middle of a commit."""
        orphaned = now - ORPHANED_AFTER // timedelta(microseconds=1)
        return await self._run(lambda: self._sweep(now, orphaned=orphaned))

    async def _count(self) -> Stats:
        return await self._run(self._reads.stats)

    async def _sweep(self, now: int, *, orphaned: int) -> int:
        """Delete items that expired by *now* and items prepared before *orphaned*; return how many expired."""
        collections = self.collections
        await self.folder.fold_open()
        swept = 0
        while True:
            query = {"prefix": collections.prefix, "expires_at": {"$lte": now}, "pending": None}
            cursor = collections.items.find(query, {"partition": True}).limit(MAX_BATCH_OPERATIONS)
            expired: dict[str, list[str]] = {}
            read = 0
            async for version in cursor:
                read += 1
                expired.setdefault(version["partition"], []).append(version["_id"])
            before = swept
            for part, versions in expired.items():
                for some in chunked(versions, MAX_BATCH_OPERATIONS):
                    swept += await self.commits.expire(part, some, now=now)
            await self.commits.drain()
            if read < MAX_BATCH_OPERATIONS or swept == before:
                break
        await self.commits.clear_up(before=orphaned)
        await self.folder.prune(MAX_COMMAND_IDS)
        return swept

    async def _run(self, call: Callable[[], Awaitable[T]]) -> T:
        """Return what *call* returns, in a task of its own.

        A cancelled caller must not leave half a commit; and the driver, on Python 3.11, may lose a cancellation
        that arrives when it is done.
        """

        async def run() -> T:
            with mongo_errors(self.location, self._variable):
                return await call()

        return await self._calls.run(run)

    def _unexpired(self, now: int) -> Document:
        return {
            "prefix": self.collections.prefix,
            "pending": None,
            "$or": [{"expires_at": None}, {"expires_at": {"$gt": now}}],
        }


@dataclass(slots=True)
class _ScanState:
    """The matches that a scan has read: those up to *edge*, unexpired at *now*; ``None``: up to the end."""

    now: int
    edge: str | None
    items: dict[str, tuple[Cursor, Item]] = field(default_factory=dict[str, tuple[Cursor, Item]])


class MongoReads:
    """Reads of one deployment, each of one moment if it reads one partition."""

    def __init__(self, collections: MongoCollections, folder: RecordFolder) -> None:
        self._collections = collections
        self._folder = folder

    async def rows(self, part: str, places: Sequence[str]) -> list[ItemRow]:
        """Return the rows with the keys *places*, expired ones included."""
        return await _retry(lambda: self._rows(part, places))

    async def changes(self, partition: Partition, since: Position | None) -> ChangedRows:
        """Return what happened to the searchable rows after *since*."""
        return await _retry(lambda: self._changes(partition, since))

    async def scan(self, query: ScanQuery, now: int) -> list[tuple[Cursor, Item]]:
        """Return up to ``query.fetch_limit`` items with their positions in the order."""
        return await _retry(lambda: self._scan(query, now))

    async def due(self, kind: str, *, now: int, limit: int) -> list[tuple[Partition, ItemRow]]:
        """Return up to *limit* unexpired rows with due work, longest due first."""
        collections = self._collections
        await self._folder.fold_open()
        query = {"prefix": collections.prefix, "pending": None, "due_kind": kind, "due_at": {"$lte": now}}
        order = {"$sort": {"due_at": 1, "namespace": 1, "key": 1}}
        size = min(limit, _MAX_LIMIT)
        while True:  # expired ones are few, and a condition on them would keep a server from using its index
            cursor = await collections.items.aggregate([{"$match": query}, order, {"$limit": size}])
            versions = await cursor.to_list()
            rows = [(version, row) for version in versions if is_alive(row := parse_row(version), now)]
            if len(versions) < size or len(rows) >= limit:
                break
            size = min(2 * size, _MAX_LIMIT)
        partitions = ((parse_partition(version.get("kind"), version.get("parts")), row) for version, row in rows)
        return [(partition, row) for partition, row in partitions if partition is not None][:limit]

    async def partitions(self, after: Partition | None, limit: int) -> list[Partition]:
        """Return the partitions after *after*, in the order of their keys."""
        collections = self._collections
        partitions: list[Partition] = []
        start = "" if after is None else collections.part(after) + "~"
        query = {"prefix": collections.prefix, "_id": {"$gt": start}}
        part, newest = "", None
        async for entry in collections.batches.find(query, {"kind": True, "parts": True}).sort("_id", 1):
            if entry["_id"][:PART_CHARACTERS] != part:
                if newest is not None:
                    partitions.append(newest)
                if len(partitions) >= limit:
                    return partitions[:limit]
                part = entry["_id"][:PART_CHARACTERS]
            newest = parse_partition(entry.get("kind"), entry.get("parts"))  # the last record of a partition counts
        if newest is not None:
            partitions.append(newest)
        return partitions[:limit]

    async def stats(self) -> Stats:
        """Return how much there is; the size includes the batch records."""
        collections = self._collections
        await self._folder.fold_open()
        query = {"prefix": collections.prefix, "namespace": {"$exists": True}, "pending": None}
        items = await collections.items.count_documents(query)
        steps = [
            {"$match": {"prefix": collections.prefix}},
            {"$sort": {"_id": 1}},
            {"$group": {"_id": "$partition", "kind": {"$last": "$kind"}}},
        ]
        groups = [group async for group in await collections.batches.aggregate(steps)]
        return Stats(sum(group.get("kind") is not None for group in groups), items, await self._size_bytes())

    async def _size_bytes(self) -> int | None:
        size = 0
        for collection in (self._collections.items, self._collections.batches):
            try:
                sizes = await collection.database.command("collStats", collection.name)
            except OperationFailure:  # the user lacks the right, or the server has no such command
                return None
            size += int(sizes.get("storageSize", 0)) + int(sizes.get("totalIndexSize", 0))
        return size

    async def _rows(self, part: str, places: Sequence[str]) -> list[ItemRow]:
        if len(places) == 1:  # one version is of one moment
            entry = await self._collections.head(part)
            versions = [version async for version in self._at(places, entry, later=True)] if entry.number else []
            newest = max(versions, key=lambda version: version["revision"], default=None)
            return [] if newest is None else [parse_row(newest)]
        entry, current = await self._start(part)
        if entry.number == 0:
            return []
        versions_by_place = {version["place"]: version async for version in self._at(places, entry)}
        while not (current and len(versions_by_place) == len(places)) and (
            later := await self._collections.after(entry)
        ):
            entry, current = later[-1], True
            await self._renew(versions_by_place, changed_by(later).intersection(places), entry)
        return [parse_row(version) for version in versions_by_place.values()]

    async def _start(self, part: str) -> tuple[BatchRecord, bool]:
        """Return a record to read from, and whether it was the newest one after this call began.

        A cached one saves a command, as its reader has to look at what came after it anyway.
        """
        cached = self._collections.cached_head(part)
        if cached is not None and cached.number:
            return cached, False
        return await self._collections.head(part), True

    async def _changes(self, partition: Partition, since: Position | None) -> ChangedRows:
        collections = self._collections
        part = collections.part(partition)
        entry, current = await self._start(part)
        if not current and not _is_before(since, entry.position):
            entry = await collections.head(part)
        if since == entry.position:
            return ChangedRows(entry.position, reset=False, rows=(), removed=())
        reset = since is None or since.epoch != entry.epoch or not entry.floor <= since.sequence <= entry.sequence
        start = -1 if since is None or reset else since.sequence
        versions: dict[str, Document] = {}
        removed: dict[RowKey, None] = {}
        after, later = start, [entry]
        while later:
            entry = later[-1]
            if not reset and entry.floor > start:
                raise MovedError
            for place in changed_by(later):
                versions.pop(place, None)
            async for document in self._feed(part, after, entry, notes=not reset):
                if "gone" in document:
                    removed.update(((namespace, key), None) for namespace, key in document["gone"])
                else:
                    versions[document["place"]] = document
            after, later = entry.sequence, await collections.after(entry)
        rows = sorted((parse_row(version) for version in versions.values()), key=lambda row: row.revision)
        return ChangedRows(entry.position, reset, rows, removed)

    async def _scan(self, query: ScanQuery, now: int) -> list[tuple[Cursor, Item]]:
        collections = self._collections
        part = collections.part(query.partition)
        entry, _ = await self._start(part)
        if entry.number == 0:
            return []
        start = None if query.after is None else order_key(part, query.after)
        page, size = _ScanState(now, start), _FIRST_PART if query.filter else query.fetch_limit
        longest = _LONGEST_PART
        while True:
            await self._read_on(page, query, entry, min(size, longest))
            while later := await collections.after(entry):
                entry = later[-1]
                longest *= 2  # what is written moves ahead of an oldest-first query, which must overtake it
                await self._renew_page(page, query, start, changed_by(later), entry)
            if page.edge is None or len(page.items) >= query.fetch_limit:
                break
            size *= 2
        ordered = sorted(page.items.values(), key=lambda entry: entry[0], reverse=query.direction == "newest")
        return ordered[: query.fetch_limit]

    async def _read_on(self, page: _ScanState, query: ScanQuery, entry: BatchRecord, size: int) -> None:
        """Read *size* more versions into *page*."""
        newest = query.direction == "newest"
        condition = self._scan_condition(query, entry.part)
        condition["order"] = order_range(entry.part, page.edge, newest=newest)
        cursor = (
            self._collections.items.find(condition, batch_size=MAX_COMMAND_IDS)
            .sort("order", -1 if newest else 1)
            .limit(size)
        )
        read = await cursor.to_list()
        _add(page, query, _shown(read, entry))
        page.edge = read[-1]["order"] if len(read) == size else None

    async def _renew_page(
        self, page: _ScanState, query: ScanQuery, start: str | None, changed: set[str], entry: BatchRecord
    ) -> None:
        """Read the items that *changed* in the range of *page* again."""
        newest = query.direction == "newest"
        for place in changed:
            page.items.pop(place, None)
        condition = self._scan_condition(query, entry.part)
        first, last = (page.edge, start) if newest else (start, page.edge)
        bounds = {"$gt": first or entry.part, "$lt": last or entry.part + "~"}
        if page.edge is not None:
            bounds = {"$gte" if newest else "$gt": bounds["$gt"], "$lt" if newest else "$lte": bounds["$lt"]}
        condition["order"] = bounds
        for places in chunked(changed, MAX_COMMAND_IDS):
            condition["place"] = any_place(places)
            _add(
                page,
                query,
                _shown(await self._collections.items.find(condition, batch_size=MAX_COMMAND_IDS).to_list(), entry),
            )

    def _scan_condition(self, query: ScanQuery, part: str) -> Document:
        """Return the condition on partition and namespace; expired versions are few, and left out when read."""
        first, last = query.namespace_range
        condition: Document = {"partition": part}
        if query.prefix:
            condition["namespace"] = {"$gte": first, "$lte": last}
        return condition

    async def _feed(self, part: str, after: int, entry: BatchRecord, *, notes: bool) -> AsyncIterator[Document]:
        """Yield versions and notes of the change feed after the revision *after*, up to *entry*."""
        query: Document = {"partition": part, "feed": feed_after(part, after)}
        if not notes:
            query["gone"] = None
        hidden = hidden_by(entry)
        async for document in self._collections.items.find(query, batch_size=MAX_COMMAND_IDS).sort("feed", 1):
            if shows(document, entry, hidden) and document["revision"] <= entry.sequence:
                yield document

    async def _at(self, places: Collection[str], entry: BatchRecord, *, later: bool = False) -> AsyncIterator[Document]:
        """Yield the versions at *places* that exist with *entry*; *later*: or with a later record."""
        hidden = hidden_by(entry)
        for keys in chunked(places, MAX_COMMAND_IDS):
            query = {"partition": entry.part, "place": any_place(keys)}
            for version in await self._collections.items.find(query, batch_size=MAX_COMMAND_IDS).to_list():
                if shows(version, entry, hidden) and (later or version["revision"] <= entry.sequence):
                    yield version

    async def _renew(self, versions: dict[str, Document], changed: Collection[str], entry: BatchRecord) -> None:
        for place in changed:
            versions.pop(place, None)
        async for version in self._at(changed, entry):
            versions[version["place"]] = version


def _is_before(since: Position | None, position: Position) -> bool:
    """Return whether there are changes between *since* and *position*, or all that *position* has are read."""
    return since is None or (since.epoch == position.epoch and since.sequence < position.sequence)


def changed_by(entries: Iterable[BatchRecord]) -> set[str]:
    """Return the keys of the rows that *entries* write or delete."""
    changed: set[str] = set()
    for entry in entries:
        changed |= entry.changed
    return changed


async def _retry(read: Callable[[], Awaitable[T]]) -> T:
    for _ in range(_ATTEMPTS):
        try:
            return await read()
        except MovedError:  # erased, or it took so long that records in between were deleted
            continue
    msg = "This partition is written to faster than it can be read: try again, or read fewer items at once."
    raise StorageUnavailableError(msg)


def _shown(read: Sequence[Document], entry: BatchRecord) -> list[Document]:
    hidden = hidden_by(entry)
    return [version for version in read if shows(version, entry, hidden) and version["revision"] <= entry.sequence]


def _add(page: _ScanState, query: ScanQuery, versions: Sequence[Document]) -> None:
    places = {(version["namespace"], version["key"]): version["place"] for version in versions}
    rows = [row for row in map(parse_row, versions) if is_alive(row, page.now)]
    for cursor, item in query.select(rows):
        page.items[places[cursor.namespace, cursor.key]] = (cursor, item)


def _namespace_condition(match: Sequence[NamespaceMatch]) -> Document:
    """Return a condition on the index: the labels of a prefix before its first ``*``."""
    for condition in match:
        if condition.where == "prefix":
            path = condition.path
            labels = path[: path.index(WILDCARD)] if WILDCARD in path else path
            if labels:
                first, last = prefix_range(labels)
                return {"$gte": first, "$lte": last}
    return {"$exists": True}
