"""Items in one SQLite file, which several processes may share.

One thread has the connection that writes: a commit is one call into it, and commits that wait for it at the
same time share one sync of the disk. Up to four threads read, each on a connection of its own: they see the
last commit and do not wait for the next one, because the file has a write-ahead log.
"""

from __future__ import annotations

import asyncio
import functools
import json
import sqlite3
import weakref
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeVar, TypeVarTuple

from threadkeep.clock import Clock
from threadkeep.ids import new_id
from threadkeep.storage.base import ChangedRows, ScanQuery, StorageBase, arrange_items, group_refs
from threadkeep.storage.encoding import Cursor, encode_text, partition_key
from threadkeep.storage.interface import (
    MAX_CHANGE_LOG_ROWS,
    Batch,
    Item,
    NamespaceMatch,
    Partition,
    Position,
    Ref,
    Stats,
)
from threadkeep.storage.rows import (
    EncodedBatch,
    ItemRow,
    RowChange,
    RowColumns,
    RowKey,
    RowState,
    check_epoch,
    plan_commit,
)
from threadkeep.storage.sqlite.connections import (
    SQL,
    FileOptions,
    SqliteConnections,
    open_connections,
    size_bytes,
)

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_INLINE_ROWS: Final = 64
"""Up to this many rows are read in the caller's thread, in about 0.01 ms each; more of them by a reader."""

_GROUP_BATCHES: Final = 100
"""A transaction writes at most this many batches, so that the first of them does not wait long."""

_MAX_INT64: Final = (1 << 63) - 1
_FETCHED_ROWS: Final = 64


class SqliteStorage(StorageBase):
    """Keeps items in the file at *path*.

    Args:
        path: The file; the first connection creates it and its folder, for this user only.
        key_prefix: Deployments with different prefixes share the file and nothing else.
        clock: Returns the storage's time.
        synchronous: ``FULL``: a commit that returned survives a power cut. ``NORMAL``: it survives the
            process, and a power cut may take the last commits; it saves the sync of the disk.
        migrate: ``auto``: tables are created and migrated as needed; ``check``: they must be up to date.
    """

    name: str = "sqlite"

    def __init__(
        self,
        path: Path,
        *,
        key_prefix: str = "",
        clock: Clock,
        synchronous: Literal["FULL", "NORMAL"] = "FULL",
        migrate: Literal["auto", "check"] = "auto",
    ) -> None:
        super().__init__(str(path), clock)
        self._path = path
        self._options = FileOptions(synchronous, migrate)
        self._connections: SqliteConnections  # from _open on
        self._tables = SqliteTables(key_prefix)
        self._commits = GroupCommit(self._tables, self._now)
        self._erasures: deque[_WaitingErasure] = deque()

    async def commit_all(self, batches: Sequence[Batch]) -> tuple[Position, ...]:
        """See :meth:`threadkeep.storage.interface.MultiPartitionCommits.commit_all`."""
        self._require_open()
        encoded = [await self._encode(batch) for batch in batches]
        return await self._commits.add(self._connections, encoded, tuple)

    def try_position(self, partition: Partition) -> Position | None:
        """See :meth:`threadkeep.storage.interface.ImmediateReads.try_position`."""
        self._require_open()
        return self._connections.try_read(self._tables.position, partition, transaction=False)

    def is_at(self, partition: Partition, position: Position) -> bool:
        """See :meth:`threadkeep.storage.interface.ImmediateReads.is_at`."""
        return position == self.try_position(partition)

    def try_get(self, refs: Sequence[Ref]) -> tuple[Item | None, ...] | None:
        """See :meth:`threadkeep.storage.interface.ImmediateReads.try_get`."""
        self._require_open()
        keys, now = group_refs(refs), self._now()
        rows = self._connections.try_read(self._tables.get, keys, now, transaction=len(refs) > 1)
        return None if rows is None else arrange_items(rows, keys, len(refs), now)

    async def _open(self) -> None:
        writer = ThreadPoolExecutor(1, "threadkeep-sqlite-writer")
        loop = asyncio.get_running_loop()
        try:
            connections = await loop.run_in_executor(writer, open_connections, self._path, self._options, writer)
        except BaseException:
            writer.shutdown()
            raise
        self._connections = connections
        self._tables.birth = connections.birth
        weakref.finalize(self, connections.release)
        if connections.erased_at is not None:  # by another process, or by one that was killed
            connections.rewrite_in_time(connections.erased_at, self._now())

    async def _close(self) -> None:
        connections = self._connections
        connections.cancel_timers()
        # The writer's thread waits for the readers and the loop for the writer: nothing blocks the loop.
        await asyncio.get_running_loop().run_in_executor(connections.writer, connections.close)
        connections.writer.shutdown()

    def _get_rows(
        self, keys: Mapping[Partition, Collection[RowKey]], *, now: int
    ) -> Awaitable[Mapping[Partition, Iterable[ItemRow]]]:
        count = sum(map(len, keys.values()))
        return self._read(self._tables.get, keys, now, inline=count <= _INLINE_ROWS, transaction=count > 1)

    def _commit(self, batch: EncodedBatch) -> asyncio.Future[Position]:
        return self._commits.add(self._connections, [batch], itemgetter(0))

    def _get_position(self, partition: Partition) -> Awaitable[Position]:
        return self._read(self._tables.position, partition, inline=True, transaction=False)

    def _scan_rows(self, query: ScanQuery, *, now: int) -> Awaitable[list[tuple[Cursor, Item]]]:
        return self._read(self._tables.scan, query, now, inline=True, transaction=False)

    def _changed_rows(self, partition: Partition, since: Position | None) -> Awaitable[ChangedRows]:
        return self._read(self._tables.changes, partition, since, inline=since is not None)

    async def _list_namespaces(
        self,
        match: Sequence[NamespaceMatch],  # noqa: ARG002 - the hook has it
        *,
        now: int,
    ) -> Iterable[str]:
        return await self._read(self._tables.namespaces, now)

    async def _list_partitions(self, after: Partition | None, limit: int) -> Sequence[Partition]:
        return await self._read(self._tables.partitions, after, limit)

    async def _due_rows(self, kind: str, *, now: int, limit: int) -> Iterable[tuple[Partition, ItemRow]]:
        return await self._read(self._tables.due, kind, now, limit)

    async def scrub(self, *, rewrite: bool = False) -> None:
        """See :meth:`threadkeep.storage.interface.Storage.scrub`."""
        self._require_open()
        connections = self._connections
        loop = asyncio.get_running_loop()
        if rewrite:
            if not await loop.run_in_executor(connections.writer, connections.rewrite):
                connections.rewrite_again_later()
            return
        if not await loop.run_in_executor(connections.writer, connections.note_and_truncate, self._now()):
            connections.truncate_later()
        connections.rewrite_later()

    async def _erase_rows(self, partition: Partition) -> int:
        erasure = _WaitingErasure(partition)
        self._erasures.append(erasure)
        connections = self._connections
        try:
            await asyncio.get_running_loop().run_in_executor(connections.writer, self._erase_waiting)
        finally:
            with suppress(ValueError):  # the caller waits no more, and what it writes next is not to be erased
                self._erasures.remove(erasure)
        if erasure.failure is not None:
            raise erasure.failure
        if not erasure.truncated:
            connections.truncate_later()
        connections.rewrite_later()
        return erasure.items

    def _erase_waiting(self) -> None:
        """Erase what waits for the writer's thread, in it; then truncate the log, once for all.

        Where another process reads, the log is truncated later. The file is rewritten later: see :meth:`scrub`.
        """
        connections, erasures = self._connections, list[_WaitingErasure]()
        with suppress(IndexError):
            while True:
                erasures.append(self._erasures.popleft())
        if not erasures:
            return
        for one, outcome in zip(erasures, self._erase_together(erasures), strict=True):
            if isinstance(outcome, Exception):
                one.failure = outcome
            else:
                one.items = outcome
        truncated = any(one.failure is None for one in erasures) and connections.truncate_log()
        for one in erasures:
            one.truncated = truncated

    def _erase_together(self, erasures: Sequence[_WaitingErasure]) -> Sequence[int | Exception]:
        """Erase in one transaction; if that fails, each in a transaction of its own."""
        try:
            return self._connections.write(self._erase_group, erasures)
        except Exception as error:  # noqa: BLE001 - the caller raises it
            if len(erasures) == 1:
                return [error]
        return [outcome for one in erasures for outcome in self._erase_together([one])]

    def _erase_group(self, connection: sqlite3.Connection, erasures: Sequence[_WaitingErasure]) -> list[int]:
        counts = self._tables.erase(connection, [one.partition for one in erasures])
        if any(counts):
            self._connections.note_erasure(connection, self._now())
        return counts

    async def _sweep_rows(self, now: int) -> int:
        connections = self._connections
        loop = asyncio.get_running_loop()
        swept = await loop.run_in_executor(connections.writer, connections.write, self._tables.sweep, now)
        if swept:
            connections.truncate_later()
        return swept

    async def _count(self) -> Stats:
        partitions, items = await self._read(self._tables.count)
        return Stats(partitions, items, size_bytes(self._path))

    async def _read(
        self,
        work: Callable[[sqlite3.Connection, *Ts], T],
        *args: *Ts,
        inline: bool = False,
        transaction: bool = True,
    ) -> T:
        """Run *work* in a reader's thread; where it is small, *inline*, in this thread if that can run it now."""
        connections = self._connections
        if inline and (result := connections.try_read(work, *args, transaction=transaction)) is not None:
            return result
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(connections.readers, functools.partial(connections.read, work, *args))


@dataclass(slots=True, eq=False)
class _WaitingErasure:
    """A partition that waits for the writer's thread, and what came of it.

    Attributes:
        partition: What to erase.
        items: How many items it had.
        truncated: Whether the log was truncated.
        failure: Why nothing was erased; ``None``: it was.
    """

    partition: Partition
    items: int = 0
    truncated: bool = False
    failure: Exception | None = None


@dataclass(slots=True)
class _QueuedCommit:
    batches: Sequence[EncodedBatch]
    answer: Callable[[tuple[Position, ...]], object]
    result: asyncio.Future[Any]


class GroupCommit:
    """Queues batches on the event loop and commits them in the writer's thread, in the order of their arrival.

    If one call's batches in a group cannot be committed, the whole group is rolled back and each call is tried
    alone: so a batch that is refused does not affect the others.

    Args:
        tables: Write a batch.
        now: Returns the storage's time in microseconds.
    """

    def __init__(self, tables: SqliteTables, now: Callable[[], int]) -> None:
        self._tables = tables
        self._now = now
        self._queue: deque[_QueuedCommit] = deque()
        self._scheduled = False

    def add(
        self,
        connections: SqliteConnections,
        batches: Sequence[EncodedBatch],
        answer: Callable[[tuple[Position, ...]], T],
    ) -> asyncio.Future[T]:
        """Commit *batches*, all or none, with those that wait now.

        Return what is done when they are durable, with what *answer* makes of their positions.
        """
        queued = _QueuedCommit(batches, answer, asyncio.get_running_loop().create_future())
        self._queue.append(queued)
        if not self._scheduled:  # waking the writer's thread costs more than what it writes
            self._scheduled = True
            try:
                connections.writer.submit(self._work, connections)
            except BaseException:
                self._scheduled = False
                raise
        return queued.result

    def _work(self, connections: SqliteConnections) -> None:
        """Commit what waits; what is added meanwhile has work of its own."""
        self._scheduled = False  # before the queue is read
        waiting = len(self._queue)
        while waiting:
            group: list[_QueuedCommit] = []
            while waiting and len(group) < _GROUP_BATCHES:
                group.append(self._queue.popleft())
                waiting -= 1
            results = self._commit(connections, group)
            # If the loop was closed, no caller waits any more.
            with suppress(RuntimeError):
                group[0].result.get_loop().call_soon_threadsafe(_set_results, connections, group, results)

    def _commit(
        self, connections: SqliteConnections, group: Sequence[_QueuedCommit]
    ) -> Sequence[tuple[Position, ...] | Exception]:
        """Write *group* in one transaction; if that fails, write each call's batches in a transaction of their own."""
        try:
            return connections.write(self._write_group, group)
        except Exception as error:  # noqa: BLE001 - the caller raises it
            if len(group) == 1:
                return [error]
        return [result for queued in group for result in self._commit(connections, [queued])]

    def _write_group(
        self, connection: sqlite3.Connection, group: Sequence[_QueuedCommit]
    ) -> list[tuple[Position, ...]]:
        positions: list[tuple[Position, ...]] = []
        for queued in group:
            written: list[Position] = []
            for batch in queued.batches:
                position = self._tables.commit(connection, batch, self._now())
                written.append(position)
            positions.append(tuple(written))
        return positions


def _set_results(
    connections: SqliteConnections,
    group: Sequence[_QueuedCommit],
    outcomes: Sequence[tuple[Position, ...] | Exception],
) -> None:
    for queued, outcome in zip(group, outcomes, strict=True):
        waits = not queued.result.done()  # otherwise the caller was cancelled; what was written stays
        if isinstance(outcome, Exception):
            if waits:
                queued.result.set_exception(outcome)
            continue
        if waits:
            queued.result.set_result(queued.answer(outcome))
        for batch in queued.batches:
            if "delete" in map(itemgetter(0), batch.changes):
                connections.truncate_later()


class _PartitionHead(NamedTuple):
    """The row of a partition, without its names."""

    epoch: str
    sequence: int
    floor: int
    logged: int


class SqliteTables:
    """Reads and writes the tables of the deployment with *key_prefix*.

    Every method runs on a connection that is inside a transaction. It handles no threads, files or driver errors.

    Attributes:
        birth: The epoch of partitions that were never erased.
    """

    def __init__(self, key_prefix: str) -> None:
        self.birth = ""
        self._prefix = encode_text(key_prefix)

    def commit(self, connection: sqlite3.Connection, batch: EncodedBatch, now: int) -> Position:
        """Write *batch* and return the position after it."""
        digest = partition_key(self._prefix, batch.partition.digest)
        head = self._head(connection, digest)
        if batch.epoch is not None:
            check_epoch(batch.epoch, head.epoch)
        states = _read_states(connection, digest, batch.changes)
        sequence = head.sequence + 1
        plan = plan_commit(batch.changes, states, revision=sequence, now=now)
        if plan.rows:
            connection.executemany(SQL["put"], map((digest,).__add__, plan.rows))
        if plan.touched:
            connection.executemany(
                SQL["touch"], [(sequence, expires_at, digest, *row_key) for expires_at, *row_key in plan.touched]
            )
        if plan.deleted:
            connection.executemany(SQL["delete"], [(digest, *row_key) for row_key in plan.deleted])
        if plan.removed:
            connection.executemany(SQL["log"], [(digest, sequence, *row_key) for row_key in plan.removed])
            head = _trim_log(connection, digest, head._replace(logged=head.logged + len(plan.removed)))
        self._write_head(connection, digest, head._replace(sequence=sequence), batch.partition)
        return Position(head.epoch, sequence)

    def position(self, connection: sqlite3.Connection, partition: Partition) -> Position:
        """Return the position of *partition*; one statement, so it needs no transaction."""
        rows = connection.execute(SQL["position"], (partition_key(self._prefix, partition.digest),)).fetchall()
        return Position(*rows[0]) if rows else Position(self.birth, 0)

    def get(
        self, connection: sqlite3.Connection, keys: Mapping[Partition, Iterable[RowKey]], now: int
    ) -> Mapping[Partition, list[ItemRow]]:
        """Return the unexpired rows with these *keys*."""
        rows: dict[Partition, list[ItemRow]] = {}
        for partition, wanted in keys.items():
            digest = partition_key(self._prefix, partition.digest)
            stored = rows[partition] = []
            for row_key in wanted:
                stored += map(ItemRow._make, connection.execute(SQL["get"], (digest, *row_key, now)))
        return rows

    def scan(self, connection: sqlite3.Connection, query: ScanQuery, now: int) -> list[tuple[Cursor, Item]]:
        """Return up to ``query.fetch_limit`` items with their positions in the order."""
        first, last = query.namespace_range
        cursor = connection.execute(
            SQL["scan_newest" if query.direction == "newest" else "scan_oldest"],
            {
                "digest": partition_key(self._prefix, query.partition.digest),
                **query.start._asdict(),
                "first": first,
                "last": last,
                "now": now,
                "limit": -1 if query.filter else query.fetch_limit,
            },
        )
        selected: list[tuple[Cursor, Item]] = []
        size = _FETCHED_ROWS if query.filter else query.fetch_limit
        while len(selected) < query.fetch_limit and (rows := list(map(ItemRow._make, cursor.fetchmany(size)))):
            selected += query.select(rows)
        cursor.close()
        return selected[: query.fetch_limit]

    def changes(self, connection: sqlite3.Connection, partition: Partition, since: Position | None) -> ChangedRows:
        """Return what happened after *since*."""
        digest = partition_key(self._prefix, partition.digest)
        head = self._head(connection, digest)
        position = Position(head.epoch, head.sequence)
        reset = since is None or since.epoch != head.epoch or not head.floor <= since.sequence <= head.sequence
        after = -1 if since is None or reset else since.sequence
        rows: list[RowColumns] = connection.execute(SQL["searchable"], (digest, after)).fetchall()
        removed = [] if reset else connection.execute(SQL["removed"], (digest, after)).fetchall()
        return ChangedRows(position, reset, rows, removed)

    def namespaces(self, connection: sqlite3.Connection, now: int) -> set[str]:
        """Return the encoded namespaces with an unexpired row."""
        return {text for (text,) in connection.execute(SQL["namespaces"], {"prefix": self._prefix, "now": now})}

    def partitions(self, connection: sqlite3.Connection, after: Partition | None, limit: int) -> list[Partition]:
        """Return the partitions after *after*, in the order of their digests."""
        parameters = {
            "prefix": self._prefix,
            "after": b"" if after is None else partition_key(self._prefix, after.digest),
            "limit": min(limit, _MAX_INT64),
        }
        rows = connection.execute(SQL["partitions"], parameters).fetchall()
        return [_parse_partition(kind, parts) for kind, parts in rows]

    def due(self, connection: sqlite3.Connection, kind: str, now: int, limit: int) -> list[tuple[Partition, ItemRow]]:
        """Return the unexpired rows with due work of *kind*, longest first."""
        parameters = {"prefix": self._prefix, "kind": kind, "now": now, "limit": min(limit, _MAX_INT64)}
        rows = connection.execute(SQL["due"], parameters).fetchall()
        return [(_parse_partition(kind, parts), ItemRow._make(row)) for kind, parts, *row in rows]

    def erase(self, connection: sqlite3.Connection, partitions: Sequence[Partition]) -> list[int]:
        """Delete everything of *partitions* but their heads; return how many items each had."""
        return [self._erase(connection, partition) for partition in partitions]

    def _erase(self, connection: sqlite3.Connection, partition: Partition) -> int:
        digest = partition_key(self._prefix, partition.digest)
        head = self._head(connection, digest)
        items = connection.execute(SQL["erase_items"], (digest,)).rowcount
        connection.execute(SQL["erase_log"], (digest,))
        self._write_head(connection, digest, _PartitionHead(new_id(), head.sequence, head.sequence, 0), None)
        return items

    def sweep(self, connection: sqlite3.Connection, now: int) -> int:
        """Delete what expired by *now*; return how many items."""
        expired = connection.execute(SQL["expired_partitions"], {"prefix": self._prefix, "now": now}).fetchall()
        swept = 0
        for digest, kind, parts, *fields in expired:
            head = _PartitionHead(*fields)
            head = head._replace(sequence=head.sequence + 1)
            parameters = {"digest": digest, "revision": head.sequence, "now": now}
            logged = connection.execute(SQL["log_expired"], parameters).rowcount
            swept += connection.execute(SQL["delete_expired"], parameters).rowcount
            head = _trim_log(connection, digest, head._replace(logged=head.logged + logged))
            self._write_head(connection, digest, head, _parse_partition(kind, parts))
        return swept

    def count(self, connection: sqlite3.Connection) -> tuple[int, int]:
        """Return how many partitions and items there are."""
        ((partitions, items),) = connection.execute(SQL["stats"], (self._prefix,)).fetchall()
        return partitions, items

    def _head(self, connection: sqlite3.Connection, digest: bytes) -> _PartitionHead:
        rows = connection.execute(SQL["partition"], (digest,)).fetchall()
        return _PartitionHead(*rows[0]) if rows else _PartitionHead(self.birth, 0, 0, 0)

    def _write_head(
        self, connection: sqlite3.Connection, digest: bytes, head: _PartitionHead, partition: Partition | None
    ) -> None:
        connection.execute(
            SQL["write_partition"],
            {
                "digest": digest,
                "prefix": self._prefix,
                "kind": partition.kind if partition else None,
                "parts": json.dumps(partition.parts) if partition else None,
                **head._asdict(),
            },
        )


def _read_states(connection: sqlite3.Connection, digest: bytes, changes: Sequence[RowChange]) -> dict[RowKey, RowState]:
    states: dict[RowKey, RowState] = {}
    for change in changes:
        rows = connection.execute(SQL["states"], (digest, *change.row_key)).fetchall()
        if rows:
            states[change.row_key] = RowState(*rows[0])
    return states


def _trim_log(connection: sqlite3.Connection, digest: bytes, head: _PartitionHead) -> _PartitionHead:
    """Delete the oldest revisions of a change log that has become too long."""
    if head.logged <= MAX_CHANGE_LOG_ROWS:
        return head
    ((floor,),) = connection.execute(SQL["log_floor"], (digest, MAX_CHANGE_LOG_ROWS)).fetchall()
    deleted = connection.execute(SQL["trim_log"], (digest, floor)).rowcount
    return head._replace(floor=floor, logged=head.logged - deleted)


def _parse_partition(kind: Any, parts: str) -> Partition:
    return Partition(kind, tuple(json.loads(parts)))
