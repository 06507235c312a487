"""Items in this process's memory: gone when it ends, and seen by nobody else."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Final

from threadkeep.clock import Clock
from threadkeep.errors import ClosedError, PartitionErasedError
from threadkeep.ids import new_id
from threadkeep.storage.commit import Known, Outcome, decide
from threadkeep.storage.encoding import (
    Cursor,
    check_limit,
    check_namespace,
    decode_cursor,
    encode_cursor,
    encode_text,
    micros,
    prefix_range,
)
from threadkeep.storage.matching import check_filter, distinct_namespaces, meets
from threadkeep.storage.port import (
    MAX_CHANGE_LOG_ROWS,
    Batch,
    Changes,
    Direction,
    Filter,
    Item,
    Namespace,
    NamespaceMatch,
    Page,
    Partition,
    Position,
    Ref,
    Stats,
)
from threadkeep.storage.row import NO_PATHS, Place, Row, changed_of, encoded, items_of, place_of, spelled


class InMemoryStorage:
    """Keeps everything encoded, as a database would, so that nobody holds a reference to what is kept.

    Every method runs without awaiting anything, so each is of one moment.

    Args:
        key_prefix: Kept for symmetry with the other backends; each instance is a place of its own.
        clock: What the time is.
    """

    name: str = "memory"

    def __init__(self, *, key_prefix: str = "", clock: Clock) -> None:
        self.location: str = f"memory:{key_prefix}"
        self._clock = clock
        self._epoch = new_id()
        self._parts: dict[bytes, _Part] = {}
        self._closed = False
        self._writing = threading.Lock()  # against whoever is told from another thread

    async def connect(self) -> None:
        """There is nothing to connect to."""
        self._require_open()

    async def close(self) -> None:
        """Let go of everything."""
        self._closed = True
        self._parts.clear()

    async def get(self, refs: Sequence[Ref]) -> tuple[Item | None, ...]:
        """See :meth:`threadkeep.storage.port.Storage.get`."""
        return self.get_at_once(refs)

    async def commit(self, batch: Batch) -> Position:
        """See :meth:`threadkeep.storage.port.Storage.commit`."""
        self._require_open()
        changes = encoded(batch)
        part = self._parts.get(batch.partition.digest) or _Part(self._epoch)
        if batch.epoch is not None and batch.epoch != part.epoch:
            msg = "The partition was erased while this work was in flight; nothing was written."
            raise PartitionErasedError(msg)
        known = {
            change.place: Known(row.revision, row.created_at, row.ttl, row.expires_at, row.paths)
            for change in changes
            if (row := part.rows.get(change.place))
        }
        outcome = decide(changes, known, revision=part.sequence + 1, now=micros(self._clock.now()))
        self._parts[batch.partition.digest] = part
        part.partition = batch.partition
        with self._writing:
            part.apply(outcome)
        return part.position

    async def position(self, partition: Partition) -> Position:
        """See :meth:`threadkeep.storage.port.Storage.position`."""
        return self._position(partition)

    def standing(self, partition: Partition) -> Position:
        """See :meth:`threadkeep.storage.port.Telling.standing`."""
        return self._position(partition)

    def stands_at(self, partition: Partition, position: Position) -> bool:
        """See :meth:`threadkeep.storage.port.Telling.stands_at`."""
        return self._position(partition) == position

    def get_at_once(self, refs: Sequence[Ref]) -> tuple[Item | None, ...]:
        """See :meth:`threadkeep.storage.port.Telling.get_at_once`."""
        self._require_open()
        now = micros(self._clock.now())
        with self._writing:
            return tuple(self._get(ref, now) for ref in refs)

    async def scan(
        self,
        partition: Partition,
        *,
        prefix: Namespace = (),
        filter: Filter | None = None,  # noqa: A002 - the field's name for it
        direction: Direction = "newest",
        after: str | None = None,
        limit: int = 100,
    ) -> Page:
        """See :meth:`threadkeep.storage.port.Storage.scan`."""
        self._require_open()
        check_limit(limit, name="limit")
        check_namespace(prefix)
        check_filter(filter or {})
        cursor = None if after is None else decode_cursor(after)
        part = self._parts.get(partition.digest)
        if part is None or limit == 0:
            return Page((), None)
        now = micros(self._clock.now())
        first, last = prefix_range(prefix)
        found: list[tuple[Cursor, Item]] = []
        for row in part.ordered(direction, cursor):
            if first <= row.namespace <= last and _is_alive(row, now):
                (item,) = items_of([row], partition)
                if not filter or meets(item.value, filter):
                    if len(found) == limit:
                        return Page(tuple(item for _, item in found), encode_cursor(found[-1][0]))
                    found.append((_cursor(row), item))
        return Page(tuple(item for _, item in found), None)

    async def changes(self, partition: Partition, since: Position | None) -> Changes:
        """See :meth:`threadkeep.storage.port.Storage.changes`."""
        position = self._position(partition)
        if since == position:
            return Changes(position, reset=False, puts=(), removed=())
        part = self._parts.get(partition.digest) or _Part(self._epoch)
        reset = since is None or since.epoch != part.epoch or not part.floor <= since.sequence <= part.sequence
        after = -1 if since is None or reset else since.sequence
        now = micros(self._clock.now())
        written = part.written_after(after)
        puts = [row for row in written if row.paths != NO_PATHS and _is_alive(row, now)]
        removed: dict[Place, None] = {}
        if not reset:
            removed.update((place, None) for revision, place in part.log if revision > after)
            removed.update((row.place, None) for row in written if row.paths != NO_PATHS and not _is_alive(row, now))
        return Changes(position, reset, changed_of(puts, partition), tuple(map(spelled, removed)))

    async def namespaces(
        self,
        *,
        match: Sequence[NamespaceMatch] = (),
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> tuple[Namespace, ...]:
        """See :meth:`threadkeep.storage.port.Storage.namespaces`."""
        self._require_open()
        check_limit(limit, name="limit")
        check_limit(offset, name="offset")
        now = micros(self._clock.now())
        texts = {row.namespace for part in self._parts.values() for row in part.rows.values() if _is_alive(row, now)}
        return distinct_namespaces(texts, match=match, max_depth=max_depth)[offset : offset + limit]

    async def partitions(self, *, after: Partition | None = None, limit: int = 100) -> tuple[Partition, ...]:
        """See :meth:`threadkeep.storage.port.Storage.partitions`."""
        self._require_open()
        check_limit(limit, name="limit")
        behind = b"" if after is None else after.digest
        named = sorted(digest for digest, part in self._parts.items() if part.partition and digest > behind)
        return tuple(found for digest in named[:limit] if (found := self._parts[digest].partition))

    async def due(self, kind: str, *, now: datetime, limit: int) -> tuple[Item, ...]:
        """See :meth:`threadkeep.storage.port.Storage.due`."""
        self._require_open()
        check_limit(limit, name="limit")
        wanted, moment = encode_text(kind), micros(now)
        found: list[tuple[int, Place, Partition, Row]] = []
        for part in self._parts.values():
            for place in part.waiting:
                row = part.rows[place]
                if row.due_kind == wanted and _due_at(row) <= moment and _is_alive(row, moment) and part.partition:
                    found.append((_due_at(row), place, part.partition, row))
        found.sort(key=lambda entry: entry[:2])
        return tuple(item for _, _, partition, row in found[:limit] for item in items_of([row], partition))

    async def erase(self, partition: Partition) -> int:
        """See :meth:`threadkeep.storage.port.Storage.erase`."""
        self._require_open()
        before = self._parts.get(partition.digest) or _Part(self._epoch)
        after = _Part(new_id())
        after.sequence = after.floor = before.sequence
        self._parts[partition.digest] = after
        return len(before.rows)

    async def sweep(self, *, now: datetime) -> int:
        """See :meth:`threadkeep.storage.port.Storage.sweep`."""
        self._require_open()
        moment = micros(now)
        swept = 0
        for part in self._parts.values():
            expired = [row for row in part.rows.values() if not _is_alive(row, moment)]
            if expired:
                searchable = [row.place for row in expired if row.paths != NO_PATHS]
                with self._writing:
                    part.apply(Outcome(deleted=[row.place for row in expired], removed=searchable))
                swept += len(expired)
        return swept

    async def stats(self) -> Stats:
        """See :meth:`threadkeep.storage.port.Storage.stats`."""
        self._require_open()
        named = [part for part in self._parts.values() if part.partition]
        return Stats(len(named), sum(len(part.rows) for part in named), None)

    def _get(self, ref: Ref, now: int) -> Item | None:
        place = place_of(ref.namespace, ref.key)
        part = self._parts.get(ref.partition.digest)
        row = part.rows.get(place) if part else None
        if row is None or not _is_alive(row, now):
            return None
        (item,) = items_of([row], ref.partition)
        return item

    def _position(self, partition: Partition) -> Position:
        self._require_open()
        part = self._parts.get(partition.digest)
        return part.position if part else Position(self._epoch, 0)

    def _require_open(self) -> None:
        if self._closed:
            msg = "This storage was closed; open a new one."
            raise ClosedError(msg)


class _Part:
    """The rows of one partition.

    ``rows`` is in the order of revisions: a row that is written moves to the end. ``log`` holds
    ``(revision, place)`` of what ceased to be searchable; before ``floor`` it says nothing.
    """

    def __init__(self, epoch: str) -> None:
        self.partition: Partition | None = None
        self.epoch: Final = epoch
        self.sequence = 0
        self.floor = 0
        self.rows: dict[Place, Row] = {}
        self.log: deque[tuple[int, Place]] = deque()
        self.waiting: dict[Place, None] = {}
        self._ordered: list[Row] | None = None

    @property
    def position(self) -> Position:
        return Position(self.epoch, self.sequence)

    def apply(self, outcome: Outcome) -> None:
        """Write what was decided; from here on nothing can fail."""
        self.sequence += 1
        self._ordered = None
        for row in outcome.rows:
            self._place(row)
        for expires_at, *place in outcome.touched:
            row = self.rows[place[0], place[1]]
            self._place(row._replace(revision=self.sequence, expires_at=expires_at))
        for place in outcome.deleted:
            del self.rows[place]
            self.waiting.pop(place, None)
        self.log.extend((self.sequence, place) for place in outcome.removed)
        while len(self.log) > MAX_CHANGE_LOG_ROWS:
            self.floor, _ = self.log.popleft()

    def written_after(self, revision: int) -> list[Row]:
        """Return the rows with a later revision, in the order of their revisions."""
        found: list[Row] = []
        for row in reversed(self.rows.values()):
            if row.revision <= revision:
                break
            found.append(row)
        found.reverse()
        return found

    def ordered(self, direction: Direction, after: Cursor | None) -> Iterator[Row]:
        """Yield the rows in the order of a scan, from behind *after* on."""
        if self._ordered is None:
            self._ordered = sorted(self.rows.values(), key=_cursor)
        rows = self._ordered
        key: Callable[[Row], Cursor] = _cursor
        if direction == "oldest":
            start = 0 if after is None else bisect_right(rows, after, key=key)
            return iter(rows[start:])
        stop = len(rows) if after is None else bisect_left(rows, after, key=key)
        return (rows[at] for at in range(stop - 1, -1, -1))

    def _place(self, row: Row) -> None:
        self.rows.pop(row.place, None)
        self.rows[row.place] = row
        if row.due_kind is None:
            self.waiting.pop(row.place, None)
        else:
            self.waiting[row.place] = None


def _cursor(row: Row) -> Cursor:
    return Cursor(row.updated_at, row.revision, row.namespace, row.key)


def _is_alive(row: Row, now: int) -> bool:
    return row.expires_at is None or row.expires_at > now


def _due_at(row: Row) -> int:
    return 0 if row.due_at is None else row.due_at
