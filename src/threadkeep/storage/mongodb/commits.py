"""How entries come about: what is read is decided upon, prepared, and let in by one insert, or decided anew."""

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

from threadkeep.errors import ConflictError, PartitionErasedError, StorageUnavailableError
from threadkeep.ids import new_id
from threadkeep.observability import log
from threadkeep.storage.commit import Known, Outcome, decide
from threadkeep.storage.mongodb.collections import MANY, MongoCollections, chunked
from threadkeep.storage.mongodb.documents import (
    Document,
    Entry,
    any_of,
    everything_of,
    feed_key,
    notes_of,
    packed_places,
    packed_versions,
    place_key,
    row_of,
    spelling_of,
    version_of,
)
from threadkeep.storage.port import MAX_BATCH_OPERATIONS, MAX_CHANGE_LOG_ROWS, Batch, Partition, Position
from threadkeep.storage.row import NO_PATHS, Change, Place, Row

_PATIENCE_SECONDS: Final = 30.0
"""How long a commit tries again while other processes are always first."""

_LONGEST_PAUSE_SECONDS: Final = 0.05
_KNOWN: Final = dict.fromkeys(("namespace", "key", "epoch", "pending", *Known._fields), True)


@dataclass(slots=True)
class Plan:
    """What one entry is to do, decided upon the newest entry there is.

    Attributes:
        entry: Without its lists; ``number``, ``token`` and ``previous`` are set later.
        rows: To be written whole.
        copied: Places whose versions are written again, with what they become.
        ended: The ids of the versions that these replace or that are removed.
        removed: What ceases to be searchable.
    """

    entry: Entry
    rows: list[Row] = field(default_factory=list[Row])
    copied: dict[str, Callable[[Row], Row]] = field(default_factory=dict[str, Callable[[Row], Row]])
    ended: list[str] = field(default_factory=list[str])
    removed: list[Place] = field(default_factory=list[Place])


Decision = Callable[[Entry], Awaitable[Plan | None]]


class MongoCommits:
    """Commits, erasures and sweeps of one deployment.

    Args:
        collections: Where they go.
        clock: What the time is, in microseconds.
    """

    def __init__(self, collections: MongoCollections, clock: Callable[[], int]) -> None:
        self._collections = collections
        self._clock = clock
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._folding: dict[str, asyncio.Task[None]] = {}

    async def commit(self, batch: Batch, changes: Sequence[Change]) -> Position:
        """Apply *changes*, which *batch* was encoded to."""
        part = self._collections.part(batch.partition)

        async def decision(head: Entry) -> Plan:
            if batch.epoch is not None and batch.epoch != head.epoch:
                msg = "The partition was erased while this work was in flight; nothing was written."
                raise PartitionErasedError(msg)
            found = await self._known(head, changes)
            known = {place: version[0] for place, version in found.items()}
            outcome = decide(changes, known, revision=head.sequence + 1, now=self._clock())
            return await self._plan(head, batch.partition, outcome, {place: item[1] for place, item in found.items()})

        entry = await self.advance(part, decision)
        return entry.position if entry else (await self._collections.head(part)).position

    async def erase(self, partition: Partition) -> int:
        """Remove everything of *partition*; return how many items there were."""
        part = self._collections.part(partition)
        items = 0

        async def decision(head: Entry) -> Plan:
            nonlocal items
            there = {**everything_of(part), "epoch": head.epoch, "place": {"$exists": True}, "pending": None}
            items = await self._collections.items.count_documents(there) if head.number else 0
            epoch = new_id()
            return Plan(Entry(part, 0, "", "", epoch, head.sequence, floor=head.sequence, erased=head.epoch))

        entry = await self.advance(part, decision)
        if entry is not None:
            await self._folded(part)
            if (again := await self._collections.head(part)).is_open:  # it failed in the background
                await self._collections.fold(again)
        return items

    async def expire(self, part: str, versions: Sequence[str], *, now: int) -> int:
        """Remove those of *versions*, all of one partition, that are there and expired by *now*; return how many."""
        removed = 0

        async def decision(head: Entry) -> Plan | None:
            nonlocal removed
            query = {"partition": part, "_id": {"$in": list(versions)}, "expires_at": {"$lte": now}}
            fields = {"namespace": True, "key": True, "paths": True, "epoch": True, "pending": True}
            found = await self._collections.items.find(query, fields, batch_size=MANY).to_list()
            dead = [version for version in found if _is_there(version, head)]
            removed = len(dead)
            if not dead or head.partition is None:
                return None
            searchable = [_place(version) for version in dead if version["paths"] != NO_PATHS]
            plan = await self._plan(head, head.partition, Outcome(removed=searchable), {})
            plan.ended = [version["_id"] for version in dead]
            return plan

        await self.advance(part, decision)
        return removed

    async def clear_up(self, *, before: int) -> None:
        """Remove what was prepared before the moment *before* and never decided: its writer is gone.

        Where its number may still come, the number is taken first, by an entry that says nothing.
        """
        query = {"prefix": self._collections.prefix, "pending": {"$lt": before}}
        fields = {"partition": True, "epoch": True, "revision": True}
        left: dict[str, list[Document]] = {}
        async for document in self._collections.items.find(query, fields).limit(MAX_BATCH_OPERATIONS):
            left.setdefault(document["partition"], []).append(document)
        for part, documents in left.items():

            async def decision(head: Entry, documents: Sequence[Document] = documents) -> Plan | None:
                may_come = any(d["epoch"] == head.epoch and d["revision"] > head.sequence for d in documents)
                return Plan(replace(head, trimmed=False, erased=None)) if may_come else None

            self._collections.forget(part)  # what is left is judged by the newest entry there is, and that one folded
            await self.advance(part, decision)
            await self._folded(part)
            for chunk in chunked(documents, MANY):
                ids = [document["_id"] for document in chunk]
                still = {"partition": part, "_id": {"$in": ids}, "pending": {"$exists": True}}
                await self._collections.items.delete_many(still)

    async def advance(self, part: str, decision: Decision) -> Entry | None:
        """Let *decision* make the next entry of a partition; again, where another writer was first.

        Returns:
            The entry, which may still be being folded; ``None`` where the decision was to do nothing.

        Raises:
            ConflictError: The decision was to refuse, and what it saw was of the present moment.
            StorageUnavailableError: Others were always first.
        """
        async with self._turns.setdefault(part, asyncio.Lock()):
            until = time.monotonic() + _PATIENCE_SECONDS
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
                entry = await self._let_in(head, plan)
                if entry is not None:
                    self._folding[part] = asyncio.create_task(self._fold(entry), name="threadkeep-mongodb-fold")
                    return entry
                lost += 1
                await asyncio.sleep(random.uniform(0, min(lost * 0.002, _LONGEST_PAUSE_SECONDS)))  # noqa: S311 - a pause
        msg = "Other processes write to this owner all the time; nothing was written. Try again."
        raise StorageUnavailableError(msg)

    async def drain(self) -> None:
        """Wait until everything is folded that this process has let in."""
        await asyncio.gather(*self._folding.values())

    async def _closed_head(self, part: str) -> Entry:
        """Return the newest entry known, folded; it may be an old one, which the insert then finds out."""
        await self._folded(part)
        head = self._collections.remembered(part) or await self._collections.head(part)
        if head.is_open:
            head = await self._collections.head(part)
            if head.is_open:
                await self._collections.fold(head)
                head = replace(head, is_open=False)
        return head

    async def _let_in(self, head: Entry, plan: Plan) -> Entry | None:
        """Prepare *plan* and insert its entry behind *head*; ``None`` where another writer was first."""
        collections = self._collections
        pending = self._clock()
        entry = replace(plan.entry, number=head.number + 1, token=new_id(), previous=head.token, is_open=True)
        keys = [place_key(entry.part, row.place) for row in plan.rows]
        notes = list(notes_of(plan.removed, entry, prefix=collections.prefix, pending=pending))
        entry = replace(
            entry,
            wrote=packed_places([*keys, *plan.copied]),
            ended=packed_versions(plan.ended),
            notes=len(notes),
        )

        def versions() -> Iterator[Document]:
            for row in plan.rows:
                yield version_of(row, entry, prefix=collections.prefix, pending=pending)

        collections.forget(entry.part)
        try:
            await collections.prepare(versions())
            for places in chunked(plan.copied, MANY // 10):
                await collections.prepare(await self._copies(head, entry, places, plan.copied, pending))
            await collections.prepare(notes)
        except PyMongoError as error:
            if not isinstance(error, ConnectionFailure):
                with suppress(PyMongoError):  # what is left is cleared up by a sweep
                    await collections.discard(entry)
            raise
        as_of = time.monotonic()
        if await collections.decide(entry, as_of=head.as_of):
            return collections.remember(replace(entry, as_of=as_of))
        await collections.discard(entry)
        return None

    async def _fold(self, entry: Entry) -> None:
        """Fold *entry*, whose commit has returned; where that fails, whoever comes next does it."""
        try:
            await self._collections.fold(entry)
        except PyMongoError as error:
            log.warning(
                "What was committed is still to be folded (%s); whoever writes next does it", type(error).__name__
            )
        finally:
            self._folding.pop(entry.part, None)

    async def _folded(self, part: str) -> None:
        task = self._folding.get(part)
        if task is not None:
            await asyncio.wait([task])

    async def _known(self, head: Entry, changes: Sequence[Change]) -> dict[Place, tuple[Known, str]]:
        """Return what is there at the places of *changes*, with the ids of the versions."""
        found: dict[Place, tuple[Known, str]] = {}
        if head.number == 0:
            return found
        for chunk in chunked(changes, MANY):
            keys = [place_key(head.part, change.place) for change in chunk]
            query = {"partition": head.part, "place": any_of(keys)}
            for version in await self._collections.items.find(query, _KNOWN, batch_size=MANY).to_list():
                if _is_there(version, head):
                    known = Known._make(version.get(name) for name in Known._fields)
                    found[_place(version)] = (known, version["_id"])
        return found

    async def _plan(self, head: Entry, partition: Partition, outcome: Outcome, versions: dict[Place, str]) -> Plan:
        """Return how *outcome*, decided upon *head*, is written."""
        kind, parts = spelling_of(partition)
        sequence = head.sequence + 1
        entry = Entry(head.part, 0, "", "", head.epoch, sequence, head.floor, head.logged, kind, parts)
        plan = Plan(entry, outcome.rows, removed=outcome.removed)
        for expires_at, *place in outcome.touched:
            key = place_key(head.part, (place[0], place[1]))
            plan.copied[key] = _touch(sequence, expires_at)
        written = [
            *(row.place for row in outcome.rows),
            *((touched.namespace, touched.key) for touched in outcome.touched),
        ]
        plan.ended = [versions[place] for place in (*written, *outcome.deleted) if place in versions]
        if outcome.removed:
            plan.entry = await self._logged(entry, len(outcome.removed))
        return plan

    async def _logged(self, entry: Entry, more: int) -> Entry:
        """Count *more* removals to those of *entry*; where they are too many, the oldest revisions are to go."""
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
        self, head: Entry, entry: Entry, places: Iterable[str], become: dict[str, Callable[[Row], Row]], pending: int
    ) -> list[Document]:
        """Return the versions at *places* as they become with *entry*."""
        query = {"partition": entry.part, "place": any_of(list(places))}
        found = [v for v in await self._collections.items.find(query).to_list() if _is_there(v, head)]
        rows = [become[version["place"]](row_of(version)) for version in found]
        return [version_of(row, entry, prefix=self._collections.prefix, pending=pending) for row in rows]


def _is_there(version: Document, head: Entry) -> bool:
    """Whether *version* is there, where everything up to *head* is folded."""
    return version["epoch"] == head.epoch and "pending" not in version


def _place(version: Document) -> Place:
    return version["namespace"], version["key"]


def _touch(revision: int, expires_at: int | None) -> Callable[[Row], Row]:
    return lambda row: row._replace(revision=revision, expires_at=expires_at)
