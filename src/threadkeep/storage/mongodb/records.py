"""Batch records of a MongoDB storage: finding the newest one, inserting one, and folding it into the items.

``commits`` describes the rules.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import Final

from cachetools import LRUCache
from pymongo import DeleteMany, UpdateMany, UpdateOne
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import ConnectionFailure, DuplicateKeyError

from threadkeep.errors import StorageUnavailableError
from threadkeep.event_loop import start_background
from threadkeep.observability import log
from threadkeep.storage.encoding import encode_text
from threadkeep.storage.interface import Partition
from threadkeep.storage.mongodb.documents import (
    MAX_COMMAND_IDS,
    PART_CHARACTERS,
    BatchRecord,
    Document,
    any_of,
    chunked,
    chunked_by_size,
    entries_query,
    entry_id,
    everything_query,
    feed_key,
    parse_entry,
    to_part,
)

GRACE_SECONDS: Final = 60.0
"""How long a batch record stays when it is no longer the newest."""

_CACHED_HEADS: Final = 10_000
_PRUNED_AT_ONCE: Final = 8
_WORKERS: Final = 4
_FOLDED_AT_ONCE: Final = 8
"""More would keep a server that does one thing at a time from all others for longer than a recall can wait."""

_WITHOUT_LISTS: Final = {"wrote": False, "ended": False}


class MovedError(Exception):
    """The records read now do not continue those read before: read again from the start."""


class MongoCollections:
    """The collections of the deployment with *key_prefix*.

    Args:
        database: The database of the collections.
        key_prefix: The deployment's.

    Attributes:
        birth: The epoch of partitions that were never erased.
    """

    def __init__(self, database: AsyncDatabase[Document], *, key_prefix: str, birth: str) -> None:
        self.prefix: Final = encode_text(key_prefix)
        self.birth: Final = birth
        self.batches = database["threadkeep_batches"]
        self.items = database["threadkeep_items"]
        self._heads: LRUCache[str, BatchRecord] = LRUCache(_CACHED_HEADS)

    def part(self, partition: Partition) -> str:
        """Return the key of *partition*."""
        return to_part(self.prefix, partition.digest)

    def cached_head(self, part: str) -> BatchRecord | None:
        """Return the newest record that this process knows, if that is recent; it may not be the newest any more."""
        entry = self._heads.get(part)
        return entry if entry is not None and time.monotonic() - entry.as_of < GRACE_SECONDS / 4 else None

    def cache_head(self, entry: BatchRecord) -> BatchRecord:
        """Cache *entry* as the newest record."""
        self._heads[entry.part] = entry
        return entry

    def close_head(self, entry: BatchRecord) -> None:
        """Note in the cache that *entry* is folded."""
        known = self._heads.get(entry.part)
        if known is not None and known.token == entry.token:
            self._heads[entry.part] = replace(known, is_open=False)

    def drop_head(self, part: str) -> None:
        """Drop the cached head of a partition."""
        self._heads.pop(part, None)

    async def head(self, part: str) -> BatchRecord:
        """Return the newest record of a partition; with its lists if it is open.

        If this process has cached it recently, it reads that record and the next number, which cannot have been
        used and deleted in the meantime.
        """
        as_of = time.monotonic()
        known = self._heads.get(part)
        if known is not None and as_of - known.as_of < GRACE_SECONDS / 2:
            numbers = [entry_id(part, number) for number in (known.number, known.number + 1)]
            cursor = self.batches.find({"partition": part, "_id": {"$in": numbers}}, _WITHOUT_LISTS)
            entries = [parse_entry(document, as_of=as_of) for document in await cursor.to_list()]
            if [(entry.number, entry.token) for entry in entries] == [(known.number, known.token)]:
                # Nothing else of a newest record changes, and one that is still open was cached with its lists.
                return self.cache_head(replace(known, is_open=entries[0].is_open, as_of=as_of))
            if not entries and known.number == 0:
                return self.cache_head(replace(known, as_of=as_of))
            as_of = time.monotonic()
        steps = [{"$sort": {"_id": -1}}, {"$limit": 1}, {"$project": _WITHOUT_LISTS}]
        newest = [parse_entry(document, as_of=as_of) for document in await self._entries(part, *steps)]
        if not newest:
            return self.cache_head(BatchRecord(part, 0, "", "", self.birth, 0, as_of=as_of))
        return self.cache_head(await self._with_lists(newest[0]))

    async def after(self, entry: BatchRecord) -> list[BatchRecord]:
        """Return the records after *entry*, with their lists; none if it is still the newest.

        Raises:
            MovedError: They do not continue it: some were deleted, or the partition was erased.
        """
        as_of = time.monotonic()
        if as_of - entry.as_of < GRACE_SECONDS / 2:
            query = {"partition": entry.part, "_id": entry_id(entry.part, entry.number + 1)}
            if await self.batches.find_one(query, {"_id": True}) is None:
                return []
        documents = await self._entries(entry.part, {"$sort": {"_id": 1}}, first=entry.number)
        entries = [parse_entry(document, as_of=as_of) for document in documents]
        if entry.number == 0:
            entries.insert(0, entry)
        joined = bool(entries) and (entries[0].number, entries[0].token) == (entry.number, entry.token)
        joined = joined and all(
            (two.number, two.previous) == (one.number + 1, one.token) for one, two in pairwise(entries)
        )
        if not joined or any(later.erased is not None for later in entries[1:]):
            self.drop_head(entry.part)
            raise MovedError
        if len(entries) > 1:
            self.cache_head(entries[-1])
        return entries[1:]

    async def prepare(self, documents: Iterable[Document]) -> None:
        """Insert versions and notes, which no reader sees before their record exists."""
        for chunk in chunked_by_size(documents):
            await self.items.insert_many(chunk, ordered=False)

    async def discard(self, entry: BatchRecord) -> None:
        """Delete what was prepared for a record that was not inserted."""
        for ids in chunked(entry.prepared, MAX_COMMAND_IDS):
            await self.items.delete_many({"partition": entry.part, "_id": any_of(ids)})

    async def decide(self, entry: BatchRecord, *, as_of: float) -> bool:
        """Insert *entry*; return whether it got its number, or another writer did.

        Args:
            entry: A record with an unused token.
            as_of: When the previous record was known to be the newest.

        Raises:
            StorageUnavailableError: The outcome is unknown; the commit may have been applied.
        """
        document = entry.document(self.prefix)
        try:
            won = await self._insert(document, again=False)
        except ConnectionFailure:  # it may have arrived; its token makes it repeatable
            won = await self._insert(document, again=True)
        if won and time.monotonic() - as_of > GRACE_SECONDS / 2:
            won = await self._confirm(entry)
        return won

    async def _entries(self, part: str, *steps: Document, first: int = 0) -> list[Document]:
        """Return the records of a partition from number *first* on, as *steps* of a pipeline arrange them.

        It is a pipeline because a server without an index for a range of ``_id`` in a ``find`` has one here.
        """
        cursor = await self.batches.aggregate([{"$match": entries_query(part, first=first)}, *steps])
        return await cursor.to_list()

    async def _with_lists(self, entry: BatchRecord) -> BatchRecord:
        if not entry.is_open:
            return entry
        query = {"partition": entry.part, "_id": entry_id(entry.part, entry.number), "token": entry.token}
        document = await self.batches.find_one(query)
        return entry if document is None else parse_entry(document, as_of=entry.as_of)

    async def _insert(self, document: Document, *, again: bool) -> bool:
        try:
            await self.batches.insert_one(document)
        except DuplicateKeyError:
            query = {"partition": document["partition"], "_id": document["_id"]}
            there = await self.batches.find_one(query, {"token": True})
            if there is None and again:
                raise unknown_outcome() from None
            return there is not None and there["token"] == document["token"]
        return True

    async def _confirm(self, entry: BatchRecord) -> bool:
        """Return whether *entry*, after a long insert, is valid, and not under a number that was used before.

        A writer that inserts after a record has folded it, and only the newest record is folded. So a record with
        others after it is either folded, or was inserted after its number had been used and deleted.
        """
        if not await self._entries(entry.part, {"$limit": 1}, first=entry.number + 1):
            return True
        mine = {"partition": entry.part, "_id": entry_id(entry.part, entry.number), "token": entry.token}
        document = await self.batches.find_one(mine, {"open": True})
        if document is None:
            raise unknown_outcome()
        if "open" not in document:
            return True
        await self.batches.delete_one(mine)
        return False


@dataclass(slots=True)
class _OutdatedRecords:
    """Records before *number* may be deleted at *due*; those before *newest* a while later."""

    number: int
    due: float
    newest: int


class RecordFolder:
    """Makes the batch records of a deployment part of its items, and deletes those that are no longer needed.

    Records that this process inserts while others are folded wait, and are folded together: a busy server gets fewer
    commands.

    Args:
        collections: The deployment's collections.
    """

    def __init__(self, collections: MongoCollections) -> None:
        self._collections = collections
        self._outdated: OrderedDict[str, _OutdatedRecords] = OrderedDict()
        self._waiting: list[BatchRecord] = []
        self._own: dict[str, asyncio.Future[None]] = {}
        self._working: set[asyncio.Task[None]] = set()

    def add(self, entry: BatchRecord) -> None:
        """Fold *entry*, which this process inserted, soon. If that fails, the next writer or reader folds it."""
        loop = asyncio.get_running_loop()
        self._own[entry.part] = loop.create_future()
        self._waiting.append(entry)
        if len(self._working) < _WORKERS:
            task = start_background(self._work(), name="threadkeep-mongodb-fold")
            self._working.add(task)
            task.add_done_callback(self._working.discard)

    async def folded(self, part: str) -> None:
        """Wait for what :meth:`add` began for a partition."""
        if (own := self._own.get(part)) is not None:
            await asyncio.wait([own])

    async def drain(self) -> None:
        """Wait until every record of this process is folded."""
        if self._own:
            await asyncio.wait([*self._own.values()])

    async def fold(self, entries: Sequence[BatchRecord]) -> None:
        """Make open records, each of another partition, part of the items.

        Any process may do it, at any time and repeatedly. New versions become visible before those that they replace
        are deleted, so every search in between finds an existing item.
        """
        collections = self._collections
        for entry in entries:
            if entry.erased is not None:
                await self._delete_erased(entry)
        for queries in _queries((entry.part, entry.prepared) for entry in entries):
            visible = [UpdateMany(query, {"$unset": {"pending": ""}}) for query in queries]
            await collections.items.bulk_write(visible, ordered=False)
        for queries in _queries((entry.part, entry.replaced) for entry in entries):
            await collections.items.bulk_write([DeleteMany(query) for query in queries], ordered=False)
        for entry in entries:
            if entry.trimmed:
                old = {"$gt": entry.part, "$lte": feed_key(entry.part, entry.floor)}
                await collections.items.delete_many({"partition": entry.part, "feed": old, "gone": {"$exists": True}})
        closed = [
            UpdateOne(
                {"partition": entry.part, "_id": entry_id(entry.part, entry.number), "token": entry.token},
                {"$unset": {"open": ""}},
            )
            for entry in entries
        ]
        await collections.batches.bulk_write(closed, ordered=False)
        for entry in entries:
            collections.close_head(entry)
            self._outdate(entry.part, entry.number)
        await self.prune(_PRUNED_AT_ONCE)

    async def fold_open(self) -> None:
        """Fold the open records of other processes, and wait for those of this one."""
        collections = self._collections
        left = await collections.batches.find({"open": collections.prefix}, {"_id": True}).to_list()
        parts = {newest[:PART_CHARACTERS]: newest for newest in sorted(document["_id"] for document in left)}
        if own := [self._own[part] for part in parts if part in self._own]:
            await asyncio.wait(own)
        for part, newest in parts.items():
            cached = collections.cached_head(part)
            if cached is not None and not cached.is_open and entry_id(part, cached.number) >= newest:
                continue
            entry = await collections.head(part)
            # One below the newest is of a writer that was much too late; that writer reports it.
            if entry.is_open and entry_id(part, entry.number) == newest:
                await self.fold([entry])

    async def prune(self, most: int) -> None:
        """Delete old records of up to *most* partitions."""
        old: list[DeleteMany] = []
        for part, outdated in list(islice(self._outdated.items(), most)):
            if outdated.due > time.monotonic():
                break
            del self._outdated[part]
            if outdated.newest > outdated.number:
                self._outdate(part, outdated.newest)
            ids = {"$gte": part, "$lt": entry_id(part, outdated.number)}
            old.append(DeleteMany({"partition": part, "_id": ids}))
        if old:
            await self._collections.batches.bulk_write(old, ordered=False)

    def _outdate(self, part: str, number: int) -> None:
        """Schedule the deletion of records before *number*."""
        known = self._outdated.get(part)
        if known is None:
            self._outdated[part] = _OutdatedRecords(number, time.monotonic() + GRACE_SECONDS, number)
        else:
            known.newest = max(known.newest, number)

    async def _work(self) -> None:
        """Fold what waits, and what comes to wait meanwhile."""
        while self._waiting:
            entries, self._waiting = self._waiting[:_FOLDED_AT_ONCE], self._waiting[_FOLDED_AT_ONCE:]
            try:
                await self.fold(entries)
            except Exception as error:  # noqa: BLE001 - what waits behind it is folded all the same
                log.warning("A commit is not folded yet (%s); the next writer folds it", type(error).__name__)
            finally:
                for entry in entries:
                    if (own := self._own.pop(entry.part, None)) is not None:
                        own.set_result(None)

    async def _delete_erased(self, entry: BatchRecord) -> None:
        """Delete what was erased; of the records before it only the numbers stay, for a minute."""
        await self._collections.items.delete_many({**everything_query(entry.part), "epoch": entry.erased})
        before = {"$gte": entry.part, "$lt": entry_id(entry.part, entry.number)}
        names = {"kind": "", "parts": "", "wrote": "", "ended": ""}
        await self._collections.batches.update_many({"partition": entry.part, "_id": before}, {"$unset": names})


def _queries(ids: Iterable[tuple[str, Iterable[str]]]) -> Iterator[list[Document]]:
    """Yield conditions on documents, as many together as fit one command.

    Args:
        ids: Keys of partitions, each with values of ``_id``.
    """
    queries: list[Document] = []
    named = 0
    for part, part_ids in ids:
        for some in chunked(part_ids, MAX_COMMAND_IDS):
            if queries and named + len(some) > MAX_COMMAND_IDS:
                yield queries
                queries, named = [], 0
            queries.append({"partition": part, "_id": any_of(some)})
            named += len(some)
    if queries:
        yield queries


def unknown_outcome() -> StorageUnavailableError:
    """Return the error for a commit that may have been applied."""
    msg = "The commit timed out and its outcome is unknown: read the items again and retry."
    return StorageUnavailableError(msg)
