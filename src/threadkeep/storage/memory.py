"""Items in the memory of this process: they are gone when it ends."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from threadkeep.clock import Clock
from threadkeep.ids import new_id
from threadkeep.storage.base import ChangedRows, ScanQuery, StorageBase, arrange_items, group_refs, to_cursor
from threadkeep.storage.encoding import Cursor
from threadkeep.storage.interface import (
    MAX_CHANGE_LOG_ROWS,
    Direction,
    Item,
    NamespaceMatch,
    Partition,
    Position,
    Ref,
    Stats,
)
from threadkeep.storage.rows import (
    NO_PATHS,
    CommitPlan,
    EncodedBatch,
    ItemRow,
    RowKey,
    RowState,
    check_epoch,
    is_alive,
    plan_commit,
)


class InMemoryStorage(StorageBase):
    """Keeps encoded rows, as a database does, so that callers share no object with it.

    Every hook runs without awaiting anything, so each is of one moment.

    Args:
        key_prefix: Part of the location only; instances share nothing.
        clock: Returns the storage's time.
    """

    name: str = "memory"

    def __init__(self, *, key_prefix: str = "", clock: Clock) -> None:
        super().__init__(f"memory:{key_prefix}", clock)
        self._epoch = new_id()
        self._parts: dict[bytes, _PartitionRows] = {}
        self._writing = threading.Lock()  # readers on other threads: see ImmediateReads

    def try_position(self, partition: Partition) -> Position:
        """See :meth:`threadkeep.storage.interface.ImmediateReads.try_position`."""
        self._require_open()
        part = self._parts.get(partition.digest)
        return part.position if part else Position(self._epoch, 0)

    def is_at(self, partition: Partition, position: Position) -> bool:
        """See :meth:`threadkeep.storage.interface.ImmediateReads.is_at`."""
        return self.try_position(partition) == position

    def try_get(self, refs: Sequence[Ref]) -> tuple[Item | None, ...]:
        """See :meth:`threadkeep.storage.interface.ImmediateReads.try_get`."""
        self._require_open()
        keys = group_refs(refs)
        return arrange_items(self._read(keys), keys, len(refs), self._now())

    def _require_open(self) -> None:
        """Raise ``ClosedError`` after :meth:`close`; it works without :meth:`connect`, and in a forked child."""
        if self._closed:
            raise self._closed_error()

    async def _open(self) -> None:
        pass

    async def _close(self) -> None:
        self._parts.clear()

    async def _get_rows(
        self,
        keys: Mapping[Partition, Collection[RowKey]],
        *,
        now: int,  # noqa: ARG002 - the hook has it
    ) -> Mapping[Partition, Iterable[ItemRow]]:
        return self._read(keys)

    async def _commit(self, batch: EncodedBatch) -> Position:
        part = self._parts.get(batch.partition.digest) or _PartitionRows(self._epoch)
        check_epoch(batch.epoch, part.epoch)
        states = {
            change.row_key: RowState(row.revision, row.created_at, row.ttl, row.expires_at, row.paths)
            for change in batch.changes
            if (row := part.rows.get(change.row_key))
        }
        plan = plan_commit(batch.changes, states, revision=part.sequence + 1, now=self._now())
        self._parts[batch.partition.digest] = part
        part.partition = batch.partition
        with self._writing:
            part.apply(plan)
        return part.position

    async def _get_position(self, partition: Partition) -> Position:
        return self.try_position(partition)

    async def _scan_rows(self, query: ScanQuery, *, now: int) -> list[tuple[Cursor, Item]]:
        part = self._parts.get(query.partition.digest)
        selected: list[tuple[Cursor, Item]] = []
        if part is None:
            return selected
        first, last = query.namespace_range
        for row in part.ordered(query.direction, query.after, first=first, last=last):
            if first <= row.namespace <= last and is_alive(row, now):
                selected += query.select([row])
                if len(selected) == query.fetch_limit:
                    break
        return selected

    async def _changed_rows(self, partition: Partition, since: Position | None) -> ChangedRows:
        position = self.try_position(partition)
        if since == position:
            return ChangedRows(position, reset=False, rows=(), removed=())
        part = self._parts.get(partition.digest) or _PartitionRows(self._epoch)
        reset = since is None or since.epoch != part.epoch or not part.floor <= since.sequence <= part.sequence
        after = -1 if since is None or reset else since.sequence
        rows = [row for row in part.written_after(after) if row.paths != NO_PATHS]
        removed = [] if reset else [row_key for revision, row_key in part.log if revision > after]
        return ChangedRows(position, reset, rows, removed)

    async def _list_namespaces(
        self,
        match: Sequence[NamespaceMatch],  # noqa: ARG002 - the hook has it
        *,
        now: int,
    ) -> Iterable[str]:
        return {row.namespace for part in self._parts.values() for row in part.rows.values() if is_alive(row, now)}

    async def _list_partitions(self, after: Partition | None, limit: int) -> Sequence[Partition]:
        previous = b"" if after is None else after.digest
        digests = sorted(digest for digest, part in self._parts.items() if part.partition and digest > previous)
        return [partition for digest in digests[:limit] if (partition := self._parts[digest].partition)]

    async def _due_rows(self, kind: str, *, now: int, limit: int) -> Iterable[tuple[Partition, ItemRow]]:
        due: list[tuple[int, RowKey, Partition, ItemRow]] = []
        for part in self._parts.values():
            for row_key in part.with_work:
                row = part.rows[row_key]
                if row.due_kind == kind and _due_at(row) <= now and is_alive(row, now) and part.partition:
                    due.append((_due_at(row), row_key, part.partition, row))
        due.sort(key=lambda entry: entry[:2])
        return [(partition, row) for _, _, partition, row in due[:limit]]

    async def _erase_rows(self, partition: Partition) -> int:
        before = self._parts.get(partition.digest) or _PartitionRows(self._epoch)
        after = _PartitionRows(new_id())
        after.sequence = after.floor = before.sequence
        self._parts[partition.digest] = after
        return len(before.rows)

    async def _sweep_rows(self, now: int) -> int:
        swept = 0
        for part in self._parts.values():
            expired = [row for row in part.rows.values() if not is_alive(row, now)]
            if expired:
                searchable = [row.row_key for row in expired if row.paths != NO_PATHS]
                with self._writing:
                    part.apply(CommitPlan(deleted=[row.row_key for row in expired], removed=searchable))
                swept += len(expired)
        return swept

    async def _count(self) -> Stats:
        parts = [part for part in self._parts.values() if part.partition]
        return Stats(len(parts), sum(len(part.rows) for part in parts), None)

    def _read(self, keys: Mapping[Partition, Iterable[RowKey]]) -> dict[Partition, list[ItemRow]]:
        with self._writing:
            return {
                partition: [row for row_key in wanted if (row := part.rows.get(row_key))]
                for partition, wanted in keys.items()
                if (part := self._parts.get(partition.digest))
            }


class _PartitionRows:
    """The rows of one partition.

    ``rows`` is in the order of revisions: a row that is written moves to the end. ``log`` holds the revision and key
    of rows that ceased to be searchable, from after ``floor`` on. ``with_work`` holds the keys of rows with due work.
    """

    def __init__(self, epoch: str) -> None:
        self.partition: Partition | None = None
        self.epoch: Final = epoch
        self.sequence = 0
        self.floor = 0
        self.rows: dict[RowKey, ItemRow] = {}
        self.log: deque[tuple[int, RowKey]] = deque()
        self.with_work: dict[RowKey, None] = {}
        self._ordered: list[ItemRow] | None = None

    @property
    def position(self) -> Position:
        return Position(self.epoch, self.sequence)

    def apply(self, plan: CommitPlan) -> None:
        """Write what was planned; nothing below can fail."""
        self.sequence += 1
        self._ordered = None
        for row in plan.rows:
            self._write(row)
        for expires_at, *row_key in plan.touched:
            row = self.rows[row_key[0], row_key[1]]
            self._write(row._replace(revision=self.sequence, expires_at=expires_at))
        for row_key in plan.deleted:
            del self.rows[row_key]
            self.with_work.pop(row_key, None)
        self.log.extend((self.sequence, row_key) for row_key in plan.removed)
        while len(self.log) > MAX_CHANGE_LOG_ROWS:
            self.floor, _ = self.log.popleft()

    def written_after(self, revision: int) -> list[ItemRow]:
        """Return the rows with a later revision, in the order of their revisions."""
        rows: list[ItemRow] = []
        for row in reversed(self.rows.values()):
            if row.revision <= revision:
                break
            rows.append(row)
        rows.reverse()
        return rows

    def ordered(self, direction: Direction, after: Cursor | None, *, first: str, last: str) -> Iterator[ItemRow]:
        """Yield the rows after *after*, in the order of a scan; at least those from *first* to *last*."""
        rows = self._ordered
        if rows is None:
            within = [row for row in self.rows.values() if first <= row.namespace <= last]
            if _SMALL_PART * len(within) < len(self.rows):
                rows = sorted(within, key=to_cursor)  # sorting everything after each write would cost milliseconds
            else:
                rows = self._ordered = sorted(self.rows.values(), key=to_cursor)
        key: Callable[[ItemRow], Cursor] = to_cursor
        if direction == "oldest":
            start = 0 if after is None else bisect_right(rows, after, key=key)
            return iter(rows[start:])
        stop = len(rows) if after is None else bisect_left(rows, after, key=key)
        return (rows[at] for at in range(stop - 1, -1, -1))

    def _write(self, row: ItemRow) -> None:
        self.rows.pop(row.row_key, None)
        self.rows[row.row_key] = row
        if row.due_kind is None:
            self.with_work.pop(row.row_key, None)
        else:
            self.with_work[row.row_key] = None


_SMALL_PART: Final = 8
"""A scan of less than one in so many rows sorts these alone."""


def _due_at(row: ItemRow) -> int:
    return 0 if row.due_at is None else row.due_at
