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
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final
from weakref import WeakValueDictionary

from pymongo.errors import ConnectionFailure, PyMongoError

from threadkeep.errors import ConflictError, StorageUnavailableError
from threadkeep.ids import new_id
from threadkeep.storage.interface import MAX_BATCH_OPERATIONS, MAX_CHANGE_LOG_ROWS, Partition, Position
from threadkeep.storage.mongodb.documents import (
    MAX_COMMAND_IDS,
    BatchRecord,
    Document,
    any_place,
    chunked,
    encode_partition,
    everything_query,
    feed_key,
    is_folded,
    packed_places,
    packed_versions,
    parse_row,
    place_key,
    to_notes,
    to_version,
)
from threadkeep.storage.mongodb.records import MongoCollections, RecordFolder
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

_RETRY_SECONDS: Final = 30.0
"""How long a commit is retried while other processes are first."""

_MAX_PAUSE_SECONDS: Final = 0.05
_STATE_FIELDS: Final = dict.fromkeys(("namespace", "key", "epoch", "pending", *RowState._fields), True)


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
        folder: Folds its records.
        now: Returns the time in microseconds.
    """

    def __init__(self, collections: MongoCollections, folder: RecordFolder, now: Callable[[], int]) -> None:
        self._collections = collections
        self._folder = folder
        self._now = now
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

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
            await self._folder.folded(part)
            if (again := await self._collections.head(part)).is_open:  # folding failed in the background
                await self._folder.fold([again])
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
            await self._folder.folded(part)
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
                    self._folder.add(entry)
                    return entry
                lost += 1
                await asyncio.sleep(random.uniform(0, min(lost * 0.002, _MAX_PAUSE_SECONDS)))  # noqa: S311 - a pause
        msg = "Other processes write to this partition at the same time; nothing was written. Try again."
        raise StorageUnavailableError(msg)

    async def drain(self) -> None:
        """Wait until every record of this process is folded."""
        await self._folder.drain()

    async def _closed_head(self, part: str) -> BatchRecord:
        """Return the newest known record, folded; if it is outdated, the insert fails."""
        await self._folder.folded(part)
        head = self._collections.cached_head(part) or await self._collections.head(part)
        if head.is_open:
            head = await self._collections.head(part)
            if head.is_open:
                await self._folder.fold([head])
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
