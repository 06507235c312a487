"""Commits of a MongoDB storage: batch records, how they are decided, folded into the items, and cleaned up.

A commit is prepared as pending items and applied by the insert of one batch record; if another writer was
first, it is decided again. Three facts ensure that this is correct. The newest record of a partition is never
deleted, so one insert decides a number that is free above it. A record is inserted only after the previous one
is folded, so at most one is open. Records that are no longer the newest stay for :data:`GRACE_SECONDS`, by the
clock of the process that deletes them: a process that takes less time, by its own clock, knows that it missed none.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise
from typing import Final
from weakref import WeakValueDictionary

from cachetools import LRUCache
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import ConnectionFailure, DuplicateKeyError, PyMongoError

from threadkeep.errors import ConflictError, StorageUnavailableError
from threadkeep.ids import new_id
from threadkeep.observability import log
from threadkeep.storage.encoding import encode_text
from threadkeep.storage.interface import MAX_BATCH_OPERATIONS, MAX_CHANGE_LOG_ROWS, Partition, Position
from threadkeep.storage.mongodb.documents import (
    MAX_COMMAND_IDS,
    PART_CHARACTERS,
    BatchRecord,
    Document,
    any_of,
    any_place,
    chunked,
    chunked_by_size,
    encode_partition,
    entries_query,
    entry_id,
    everything_query,
    feed_key,
    is_folded,
    packed_places,
    packed_versions,
    parse_entry,
    parse_row,
    place_key,
    to_notes,
    to_part,
    to_version,
)
from threadkeep.storage.rows import (
    NO_PATHS,
    CommitPlan,
    EncodedBatch,
    ItemRow,
    RowChange,
    RowKey,
    RowState,
    check_epoch,
    plan_commit,
)

GRACE_SECONDS: Final = 60.0
"""How long a batch record stays when it is no longer the newest."""

_RETRY_SECONDS: Final = 30.0
"""How long a commit is retried while other processes are first."""

_MAX_PAUSE_SECONDS: Final = 0.05
_CACHED_HEADS: Final = 10_000
_PRUNED_AT_ONCE: Final = 8
_WITHOUT_LISTS: Final = {"wrote": False, "ended": False}
_STATE_FIELDS: Final = dict.fromkeys(("namespace", "key", "epoch", "pending", *RowState._fields), True)


class MovedError(Exception):
    """The records read now do not continue those read before: read again from the start."""


@dataclass(slots=True)
class _OutdatedRecords:
    """Records before *number* may be deleted at *due*; those before *newest* a while later."""

    number: int
    due: float
    newest: int


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
        self._outdated: OrderedDict[str, _OutdatedRecords] = OrderedDict()

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

    async def fold(self, entry: BatchRecord) -> None:
        """Make an open record part of the items. Any process may do it, at any time and repeatedly.

        New versions become visible before those that they replace are deleted, so every search in between finds
        an existing item.
        """
        if entry.erased is not None:
            await self._delete_erased(entry)
        part = entry.part
        for ids in chunked(entry.prepared, MAX_COMMAND_IDS):
            await self.items.update_many({"partition": part, "_id": any_of(ids)}, {"$unset": {"pending": ""}})
        for ids in chunked(entry.replaced, MAX_COMMAND_IDS):
            await self.items.delete_many({"partition": part, "_id": any_of(ids)})
        if entry.trimmed:
            old = {"$gt": part, "$lte": feed_key(part, entry.floor)}
            await self.items.delete_many({"partition": part, "feed": old, "gone": {"$exists": True}})
        await self.batches.update_one(
            {"partition": part, "_id": entry_id(part, entry.number), "token": entry.token}, {"$unset": {"open": ""}}
        )
        known = self._heads.get(part)
        if known is not None and known.token == entry.token:
            self.cache_head(replace(known, is_open=False))
        self._outdate(part, entry.number)
        await self.prune(_PRUNED_AT_ONCE)

    async def fold_open(self) -> None:
        """Fold the open records of other processes."""
        left = await self.batches.find({"open": self.prefix}, {"_id": True}).to_list()
        for document in left:
            entry = await self.head(document["_id"][:PART_CHARACTERS])
            # One below the newest is of a writer that was much too late; that writer reports it.
            if entry.is_open and entry_id(entry.part, entry.number) == document["_id"]:
                await self.fold(entry)

    async def prune(self, most: int) -> None:
        """Delete old records of up to *most* partitions."""
        for part, outdated in list(islice(self._outdated.items(), most)):
            if outdated.due > time.monotonic():
                return
            if self._outdated.get(part) is not outdated:  # another call deleted it in the meantime
                continue
            del self._outdated[part]
            if outdated.newest > outdated.number:
                self._outdate(part, outdated.newest)
            old = {"$gte": part, "$lt": entry_id(part, outdated.number)}
            await self.batches.delete_many({"partition": part, "_id": old})

    def _outdate(self, part: str, number: int) -> None:
        """Schedule the deletion of records before *number*."""
        known = self._outdated.get(part)
        if known is None:
            self._outdated[part] = _OutdatedRecords(number, time.monotonic() + GRACE_SECONDS, number)
        else:
            known.newest = max(known.newest, number)

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
                raise _unknown_outcome() from None
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
            raise _unknown_outcome()
        if "open" not in document:
            return True
        await self.batches.delete_one(mine)
        return False

    async def _delete_erased(self, entry: BatchRecord) -> None:
        """Delete what was erased; of the records before it only the numbers stay, for a minute."""
        await self.items.delete_many({**everything_query(entry.part), "epoch": entry.erased})
        before = {"$gte": entry.part, "$lt": entry_id(entry.part, entry.number)}
        names = {"kind": "", "parts": "", "wrote": "", "ended": ""}
        await self.batches.update_many({"partition": entry.part, "_id": before}, {"$unset": names})


@dataclass(slots=True)
class BatchPlan:
    """What one record does, decided upon the newest record.

    Attributes:
        entry: The record without its lists; ``number``, ``token`` and ``previous`` are set later.
        rows: Rows to write.
        copied: Rows to copy to a new version, with how they change.
        ended: The ids of the versions that these replace or that are deleted.
        removed: Rows that cease to be searchable.
    """

    entry: BatchRecord
    rows: list[ItemRow] = field(default_factory=list[ItemRow])
    copied: dict[str, Callable[[ItemRow], ItemRow]] = field(default_factory=dict[str, Callable[[ItemRow], ItemRow]])
    ended: list[str] = field(default_factory=list[str])
    removed: list[RowKey] = field(default_factory=list[RowKey])


Decision = Callable[[BatchRecord], Awaitable[BatchPlan | None]]


class MongoCommits:
    """Commits, erasures and sweeps of one deployment.

    Args:
        collections: Its collections.
        now: Returns the time in microseconds.
    """

    def __init__(self, collections: MongoCollections, now: Callable[[], int]) -> None:
        self._collections = collections
        self._now = now
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._folding: dict[str, asyncio.Task[None]] = {}

    async def commit(self, batch: EncodedBatch) -> Position:
        """Apply *batch*; its record may still be folded when this returns."""
        part = self._collections.part(batch.partition)

        async def decision(head: BatchRecord) -> BatchPlan:
            check_epoch(batch.epoch, head.epoch)
            stored = await self._read_states(head, batch.changes)
            states = {row_key: state for row_key, (state, _) in stored.items()}
            plan = plan_commit(batch.changes, states, revision=head.sequence + 1, now=self._now())
            versions = {row_key: version_id for row_key, (_, version_id) in stored.items()}
            return await self._plan(head, batch.partition, plan, versions)

        entry = await self.advance(part, decision)
        return entry.position if entry else (await self._collections.head(part)).position

    async def erase(self, partition: Partition) -> int:
        """Delete everything of *partition*; return how many items there were."""
        part = self._collections.part(partition)
        items = 0

        async def decision(head: BatchRecord) -> BatchPlan:
            nonlocal items
            there = {**everything_query(part), "epoch": head.epoch, "place": {"$exists": True}, "pending": None}
            items = await self._collections.items.count_documents(there) if head.number else 0
            epoch = new_id()
            return BatchPlan(BatchRecord(part, 0, "", "", epoch, head.sequence, floor=head.sequence, erased=head.epoch))

        entry = await self.advance(part, decision)
        if entry is not None:
            await self._folded(part)
            if (again := await self._collections.head(part)).is_open:  # folding failed in the background
                await self._collections.fold(again)
        return items

    async def expire(self, part: str, versions: Sequence[str], *, now: int) -> int:
        """Delete those of *versions*, all of one partition, that expired by *now*; return how many."""
        removed = 0

        async def decision(head: BatchRecord) -> BatchPlan | None:
            nonlocal removed
            query = {"partition": part, "_id": {"$in": list(versions)}, "expires_at": {"$lte": now}}
            fields = {"namespace": True, "key": True, "paths": True, "epoch": True, "pending": True}
            expired = await self._collections.items.find(query, fields, batch_size=MAX_COMMAND_IDS).to_list()
            dead = [version for version in expired if is_folded(version, head)]
            removed = len(dead)
            if not dead or head.partition is None:
                return None
            searchable = [_row_key(version) for version in dead if version["paths"] != NO_PATHS]
            plan = await self._plan(head, head.partition, CommitPlan(removed=searchable), {})
            plan.ended = [version["_id"] for version in dead]
            return plan

        await self.advance(part, decision)
        return removed

    async def clear_up(self, *, before: int) -> None:
        """Delete what was prepared before *before* and never decided, because its writer ended.

        If its record may still be inserted, an empty record takes the number first.
        """
        query = {"prefix": self._collections.prefix, "pending": {"$lt": before}}
        fields = {"partition": True, "epoch": True, "revision": True}
        left: dict[str, list[Document]] = {}
        async for document in self._collections.items.find(query, fields).limit(MAX_BATCH_OPERATIONS):
            left.setdefault(document["partition"], []).append(document)
        for part, documents in left.items():

            async def decision(head: BatchRecord, documents: Sequence[Document] = documents) -> BatchPlan | None:
                may_come = any(d["epoch"] == head.epoch and d["revision"] > head.sequence for d in documents)
                return BatchPlan(replace(head, trimmed=False, erased=None)) if may_come else None

            self._collections.drop_head(part)  # the newest record decides, and it must be folded
            await self.advance(part, decision)
            await self._folded(part)
            for chunk in chunked(documents, MAX_COMMAND_IDS):
                ids = [document["_id"] for document in chunk]
                still = {"partition": part, "_id": {"$in": ids}, "pending": {"$exists": True}}
                await self._collections.items.delete_many(still)

    async def advance(self, part: str, decision: Decision) -> BatchRecord | None:
        """Insert the record that *decision* plans; decide again if another writer was first.

        Returns:
            The record, which may still be folded; ``None`` if there is nothing to do.

        Raises:
            ConflictError: The decision refused, and what it read is current.
            StorageUnavailableError: Other writers were first for too long.
        """
        async with self._turns.setdefault(part, asyncio.Lock()):
            until = time.monotonic() + _RETRY_SECONDS
            lost = 0
            while time.monotonic() < until:
                head = await self._closed_head(part)
                try:
                    plan = await decision(head)
                except ConflictError:
                    if (await self._collections.head(part)).token == head.token:
                        raise
                    continue
                if plan is None:
                    return None
                entry = await self._insert_record(head, plan)
                if entry is not None:
                    self._folding[part] = asyncio.create_task(self._fold(entry), name="threadkeep-mongodb-fold")
                    return entry
                lost += 1
                await asyncio.sleep(random.uniform(0, min(lost * 0.002, _MAX_PAUSE_SECONDS)))  # noqa: S311 - a pause
        msg = "Other processes write to this partition at the same time; nothing was written. Try again."
        raise StorageUnavailableError(msg)

    async def drain(self) -> None:
        """Wait until every record of this process is folded."""
        await asyncio.gather(*self._folding.values())

    async def _closed_head(self, part: str) -> BatchRecord:
        """Return the newest known record, folded; if it is outdated, the insert fails."""
        await self._folded(part)
        head = self._collections.cached_head(part) or await self._collections.head(part)
        if head.is_open:
            head = await self._collections.head(part)
            if head.is_open:
                await self._collections.fold(head)
                head = replace(head, is_open=False)
        return head

    async def _insert_record(self, head: BatchRecord, plan: BatchPlan) -> BatchRecord | None:
        """Prepare *plan* and insert its record after *head*; return ``None`` if another writer was first."""
        collections = self._collections
        pending = self._now()
        entry = replace(plan.entry, number=head.number + 1, token=new_id(), previous=head.token, is_open=True)
        keys = [place_key(entry.part, row.row_key) for row in plan.rows]
        notes = list(to_notes(plan.removed, entry, prefix=collections.prefix, pending=pending))
        entry = replace(
            entry,
            wrote=packed_places([*keys, *plan.copied]),
            ended=packed_versions(plan.ended),
            notes=len(notes),
        )

        def versions() -> Iterator[Document]:
            for row in plan.rows:
                yield to_version(row, entry, prefix=collections.prefix, pending=pending)

        collections.drop_head(entry.part)
        try:
            await collections.prepare(versions())
            for places in chunked(plan.copied, MAX_COMMAND_IDS // 10):
                await collections.prepare(await self._copies(head, entry, places, plan.copied, pending))
            await collections.prepare(notes)
        except PyMongoError as error:
            if not isinstance(error, ConnectionFailure):
                with suppress(PyMongoError):  # a sweep deletes the rest
                    await collections.discard(entry)
            raise
        as_of = time.monotonic()
        if await collections.decide(entry, as_of=head.as_of):
            return collections.cache_head(replace(entry, as_of=as_of))
        await collections.discard(entry)
        return None

    async def _fold(self, entry: BatchRecord) -> None:
        """Fold *entry* after its commit returned; if that fails, the next writer or reader folds it."""
        try:
            await self._collections.fold(entry)
        except PyMongoError as error:
            log.warning("A commit is not folded yet (%s); the next writer folds it", type(error).__name__)
        finally:
            self._folding.pop(entry.part, None)

    async def _folded(self, part: str) -> None:
        task = self._folding.get(part)
        if task is not None:
            await asyncio.wait([task])

    async def _read_states(self, head: BatchRecord, changes: Sequence[RowChange]) -> dict[RowKey, tuple[RowState, str]]:
        """Return the stored rows that *changes* name, with the ids of their versions."""
        states: dict[RowKey, tuple[RowState, str]] = {}
        for chunk in chunked(changes if head.number else (), MAX_COMMAND_IDS):
            keys = [place_key(head.part, change.row_key) for change in chunk]
            query = {"partition": head.part, "place": any_place(keys)}
            for version in await self._collections.items.find(
                query, _STATE_FIELDS, batch_size=MAX_COMMAND_IDS
            ).to_list():
                if is_folded(version, head):
                    state = RowState._make(version.get(name) for name in RowState._fields)
                    states[_row_key(version)] = (state, version["_id"])
        return states

    async def _plan(
        self, head: BatchRecord, partition: Partition, commit_plan: CommitPlan, versions: dict[RowKey, str]
    ) -> BatchPlan:
        """Return how *plan*, made for *head*, is written."""
        kind, parts = encode_partition(partition)
        sequence = head.sequence + 1
        entry = BatchRecord(head.part, 0, "", "", head.epoch, sequence, head.floor, head.logged, kind, parts)
        plan = BatchPlan(entry, commit_plan.rows, removed=commit_plan.removed)
        for expires_at, *place in commit_plan.touched:
            key = place_key(head.part, (place[0], place[1]))
            plan.copied[key] = _touch(sequence, expires_at)
        written = [
            *(row.row_key for row in commit_plan.rows),
            *((touched.namespace, touched.key) for touched in commit_plan.touched),
        ]
        plan.ended = [versions[place] for place in (*written, *commit_plan.deleted) if place in versions]
        if commit_plan.removed:
            plan.entry = await self._logged(entry, len(commit_plan.removed))
        return plan

    async def _logged(self, entry: BatchRecord, more: int) -> BatchRecord:
        """Add *more* removals to those of *entry*; drop the oldest revisions of a log that is too long."""
        logged = entry.logged + more
        if logged <= MAX_CHANGE_LOG_ROWS:
            return replace(entry, logged=logged)
        query = {
            "partition": entry.part,
            "feed": {"$gt": entry.part, "$lte": feed_key(entry.part, entry.sequence)},
            "gone": {"$exists": True},
            "epoch": entry.epoch,
            "pending": None,
        }
        kept, floor, revision, of_revision = more, entry.floor, -1, 0
        async for note in self._collections.items.find(query, {"revision": True, "gone": True}).sort("feed", -1):
            if note["revision"] != revision:
                revision, of_revision = note["revision"], 0
            if kept + len(note["gone"]) > MAX_CHANGE_LOG_ROWS:  # whole revisions go
                kept, floor = kept - of_revision, revision
                break
            kept += len(note["gone"])
            of_revision += len(note["gone"])
        return replace(entry, logged=kept, floor=floor, trimmed=True)

    async def _copies(
        self,
        head: BatchRecord,
        entry: BatchRecord,
        places: Iterable[str],
        become: dict[str, Callable[[ItemRow], ItemRow]],
        pending: int,
    ) -> list[Document]:
        """Return the new versions of *places* for *entry*."""
        query = {"partition": entry.part, "place": any_place(list(places))}
        versions = [v for v in await self._collections.items.find(query).to_list() if is_folded(v, head)]
        rows = [become[version["place"]](parse_row(version)) for version in versions]
        return [to_version(row, entry, prefix=self._collections.prefix, pending=pending) for row in rows]


def _row_key(version: Document) -> RowKey:
    return version["namespace"], version["key"]


def _touch(revision: int, expires_at: int | None) -> Callable[[ItemRow], ItemRow]:
    return lambda row: row._replace(revision=revision, expires_at=expires_at)


def _unknown_outcome() -> StorageUnavailableError:
    msg = "The commit timed out and its outcome is unknown: read the items again and retry."
    return StorageUnavailableError(msg)
