"""Items in a PostgreSQL database, which many processes may share.

Each hook is one statement: it calls a function of the database, see ``sql/schema.sql``, which takes on its role for
that transaction, so that row-level security applies whichever user connected. :class:`PostgresTables` makes the
calls, ``pool`` lends the connections, ``schema`` creates the tables.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from datetime import timedelta
from functools import lru_cache
from typing import Any, Final, TypeVar, cast

from threadkeep.clock import Clock
from threadkeep.concurrency import PriorityGate
from threadkeep.errors import StorageError
from threadkeep.ids import new_id
from threadkeep.storage.base import ChangedRows, ScanQuery, StorageBase, call_in_thread_if, to_cursor
from threadkeep.storage.encoding import Cursor, encode_text, partition_key
from threadkeep.storage.interface import (
    MAX_CHANGE_LOG_ROWS,
    DatabaseUser,
    Item,
    NamespaceMatch,
    Partition,
    Position,
    Stats,
)
from threadkeep.storage.postgres.pool import Connection, PostgresPool
from threadkeep.storage.postgres.schema import APP, NO_ROLE, SERVICE, SQL, PostgresRoles, PostgresSchema
from threadkeep.storage.rows import (
    NO_PATHS,
    EncodedBatch,
    ItemRow,
    RowChange,
    RowKey,
    RowState,
    check_expectation,
    partition_erased,
)

T = TypeVar("T")

SERVICE_TIMEOUT: Final = timedelta(seconds=60)
"""The timeout of calls that are no part of a turn: across partitions, loading a whole one, or erasing it."""

SWEPT_AT_ONCE: Final = 1_000

_INLINE_OPERATIONS: Final = 64
_RESET_FACTOR: Final = 5
"""Reading a small partition whole may take this many times the timeout of a turn's statement."""

_OPERATIONS_PER_SECOND: Final = 2_000
_BYTES_PER_SECOND: Final = 4 * 1024 * 1024
"""A commit's timeout grows with its size at these rates, a tenth of what a small server writes."""

_MAX_INT64: Final = (1 << 63) - 1
_NO_REVISION: Final = -1
"""A revision that no item has."""

_FOLLOWED_ROWS: Final = 1_000
"""Up to this many changes come in one answer; more are fetched in parts, from a cursor."""

_FIRST_PART: Final = 64
_LARGEST_PART: Final = 2_000


class PostgresStorage(StorageBase):
    """Keeps items in the schema ``threadkeep`` of the database of *pool*.

    Args:
        pool: This storage opens and closes it; others may use it too.
        key_prefix: Deployments with different prefixes share the database and nothing else.
        clock: Returns the storage's time.
        hash_partitions: How many tables a new schema spreads the items over, by the digest of their
            partition; 0: one table.
    """

    name: str = "postgres"

    def __init__(self, pool: PostgresPool, *, key_prefix: str = "", clock: Clock, hash_partitions: int = 0) -> None:
        super().__init__(pool.location, clock)
        self.pool: Final = pool
        self._schema = PostgresSchema(pool, hash_partitions=hash_partitions)
        self._tables = PostgresTables(key_prefix, service_timeout=SERVICE_TIMEOUT)

    async def advice(self) -> list[str]:
        """See :meth:`threadkeep.storage.interface.ServerAdvice.advice`."""
        self._require_open()
        return await self._run_service(self._tables.advice)

    async def user(self) -> DatabaseUser:
        """See :meth:`threadkeep.storage.interface.ServerUsers.user`."""
        self._require_open()
        state = await self.pool.run(self._schema.inspect)
        ((seconds,),) = await self.pool.run(lambda connection: _fetch(connection, SQL["clock"], ()))
        ahead = seconds - self._clock.now().timestamp()
        return DatabaseUser(state.user, state.bypasses, state.owns or state.bypasses, ahead)

    async def admit(self, url: str) -> str:
        """See :meth:`threadkeep.storage.interface.ServerUsers.admit`."""
        self._require_open()
        return await self._schema.admit(url)

    async def close(self) -> None:
        """See :meth:`threadkeep.storage.interface.Storage.close`. The pool is closed even if it was never opened."""
        try:
            await super().close()
        finally:
            await self.pool.close()

    @property
    def gate(self) -> PriorityGate | None:
        """What grants the connections of the pool by priority."""
        return self.pool.gate

    async def _open(self) -> None:
        await self.pool.open()
        self._tables.roles, self._tables.birth = await self._schema.ready()

    async def _close(self) -> None:
        """Do nothing: :meth:`close` closes the pool."""

    async def _get_rows(
        self, keys: Mapping[Partition, Collection[RowKey]], *, now: int
    ) -> Mapping[Partition, Iterable[ItemRow]]:
        return await self.pool.run(lambda connection: self._tables.get(connection, keys, now))

    async def _commit(self, batch: EncodedBatch) -> Position:
        now = self._now()
        arguments = await call_in_thread_if(
            len(batch.changes) > _INLINE_OPERATIONS, self._tables.commit_arguments, batch, now
        )
        extra = len(batch.changes) / _OPERATIONS_PER_SECOND + _size_bytes(arguments) / _BYTES_PER_SECOND
        return await self.pool.run(
            lambda connection: self._tables.commit(connection, arguments, batch.changes),
            seconds=self.pool.statement_timeout.total_seconds() + extra,
            repeatable=lambda: False,  # it may have been applied
        )

    async def _get_position(self, partition: Partition) -> Position:
        return await self.pool.run(lambda connection: self._tables.position(connection, partition))

    async def _scan_rows(self, query: ScanQuery, *, now: int) -> list[tuple[Cursor, Item]]:
        return await self.pool.run(lambda connection: self._tables.scan(connection, query, now))

    async def _changed_rows(self, partition: Partition, since: Position | None) -> ChangedRows:
        now = self._now()
        seconds = self.pool.statement_timeout.total_seconds() * (1 if since else _RESET_FACTOR)
        changed = await self.pool.run(
            lambda connection: self._tables.changes(connection, partition, since, now), seconds=seconds
        )
        if changed is not None:
            return changed
        return await self._run_service(lambda connection: self._tables.load(connection, partition, since, now))

    async def _list_namespaces(
        self,
        match: Sequence[NamespaceMatch],  # noqa: ARG002 - the hook has it
        *,
        now: int,
    ) -> Iterable[str]:
        return await self._run_service(lambda connection: self._tables.namespaces(connection, now))

    async def _list_partitions(self, after: Partition | None, limit: int) -> Sequence[Partition]:
        return await self._run_service(lambda connection: self._tables.partitions(connection, after, limit))

    async def _due_rows(self, kind: str, *, now: int, limit: int) -> Iterable[tuple[Partition, ItemRow]]:
        return await self._run_service(lambda connection: self._tables.due(connection, kind, now, limit))

    async def _erase_rows(self, partition: Partition) -> int:
        """Delete the rows; the server overwrites their bytes when it vacuums."""
        return await self._run_service(
            lambda connection: self._tables.erase(connection, partition), repeatable=lambda: False
        )

    async def _sweep_rows(self, now: int) -> int:
        """Delete up to a thousand rows per transaction."""
        swept = 0
        while True:
            seen, removed = await self._run_service(lambda connection: self._tables.sweep(connection, now))
            swept += removed
            if not seen:
                return swept

    async def _count(self) -> Stats:
        return await self._run_service(self._tables.stats)

    async def _run_service(
        self, work: Callable[[Connection], Awaitable[T]], *, repeatable: Callable[[], bool] = lambda: True
    ) -> T:
        """Run what is no part of a turn."""
        return await self.pool.run(work, seconds=SERVICE_TIMEOUT.total_seconds(), repeatable=repeatable)


class PostgresTables:
    """Reads and writes the tables of the deployment with *key_prefix*.

    A call for one partition is one function of the database and a transaction of its own. Every method takes a
    connection in autocommit. It handles no pool, timeouts or driver errors.

    Args:
        key_prefix: The deployment's.
        service_timeout: The timeout of a statement across partitions, or that loads a partition.

    Attributes:
        roles: The roles that its transactions take on.
        birth: The epoch of partitions that were never erased.
    """

    def __init__(self, key_prefix: str, *, service_timeout: timedelta) -> None:
        self.roles = PostgresRoles(NO_ROLE, NO_ROLE)
        self.birth = ""
        self._prefix = encode_text(key_prefix)
        self._deployment = hashlib.sha256(self._prefix.encode("ascii")).digest()
        self._milliseconds = str(service_timeout // timedelta(milliseconds=1))

    def commit_arguments(self, batch: EncodedBatch, now: int) -> tuple[Any, ...]:
        """Return the arguments of the function ``commit`` for *batch*."""
        partition, changes = batch.partition, batch.changes
        expecting = [change for change in changes if change.expect != "any"]
        puts = [(change.row_key, change.content) for change in changes if change.content is not None]
        quiet = [c for c in changes if c.kind == "delete" or (c.content is not None and c.content.paths == NO_PATHS)]
        return (
            *(self.roles.app, *self._keys(partition), self._deployment, self._prefix),
            *(partition.kind, json.dumps(partition.parts), self.birth, batch.epoch, now, MAX_CHANGE_LOG_ROWS),
            _places(change.row_key for change in expecting),
            _numbers(_expected(change) for change in expecting),
            _places(change.row_key for change in quiet),
            _places(change.row_key for change in changes if change.kind == "delete"),
            _places(change.row_key for change in changes if change.kind == "touch"),
            _places(row_key for row_key, _ in puts),
            _texts(namespace for (namespace, _), _ in puts),
            _texts(key for (_, key), _ in puts),
            _texts(content.value for _, content in puts),
            _numbers(content.created_at for _, content in puts),
            _numbers(content.updated_at for _, content in puts),
            _texts(content.paths for _, content in puts),
            _texts(content.model for _, content in puts),
            _numbers(content.dims for _, content in puts),
            [content.embedding for _, content in puts],
            _numbers(content.ttl for _, content in puts),
            _numbers(content.expires_at for _, content in puts),
            _texts(content.due_kind for _, content in puts),
            _numbers(content.due_at for _, content in puts),
            [content.data for _, content in puts] if any(content.data is not None for _, content in puts) else None,
        )

    async def commit(
        self, connection: Connection, arguments: tuple[Any, ...], changes: Sequence[RowChange]
    ) -> Position:
        """Call the function ``commit`` with *arguments* and return the position after *changes*."""
        ((outcome, epoch, sequence, nth, revision),) = await _fetch(connection, SQL["commit"], arguments)
        if outcome == "erased":
            raise partition_erased()
        if outcome == "conflict":
            expecting = [change for change in changes if change.expect != "any"]
            check_expectation(
                expecting[int(nth) - 1], None if revision is None else RowState(revision, 0, None, None, NO_PATHS)
            )
            msg = "The database reported a conflict that Threadkeep does not see: report this as a bug."
            raise StorageError(msg)
        return Position(epoch, sequence)

    async def position(self, connection: Connection, partition: Partition) -> Position:
        """Return the position of *partition*."""
        position, _ = await self._head(connection, partition)
        return position

    async def get(
        self, connection: Connection, keys: Mapping[Partition, Collection[RowKey]], now: int
    ) -> Mapping[Partition, Iterable[ItemRow]]:
        """Return the unexpired rows with these *keys*, in one round trip."""
        cursors = [connection.cursor(binary=True) for _ in keys]
        async with connection.pipeline() if len(keys) > 1 else nullcontext():
            for cursor, (partition, wanted) in zip(cursors, keys.items(), strict=True):
                await cursor.execute(SQL["get"], (self.roles.app, self._digest(partition), _places(wanted), now))
        return {partition: _to_rows(await cursor.fetchall()) for cursor, partition in zip(cursors, keys, strict=True)}

    async def scan(self, connection: Connection, query: ScanQuery, now: int) -> list[tuple[Cursor, Item]]:
        """Return up to ``query.fetch_limit`` items with their positions in the order."""
        statement = SQL["scan_newest" if query.direction == "newest" else "scan_oldest"]
        arguments = (self.roles.app, *self._keys(query.partition), *query.namespace_range)
        start = query.start
        size = _FIRST_PART if query.filter else query.fetch_limit
        selected: list[tuple[Cursor, Item]] = []
        while len(selected) < query.fetch_limit:
            limit = min(size, _LARGEST_PART)
            rows = _to_rows(await _fetch(connection, statement, (*arguments, *start, now, limit)))
            selected += query.select(rows)
            if len(rows) < limit:
                break
            start = to_cursor(rows[-1])
            size = 2 * limit if query.filter else query.fetch_limit - len(selected)
        return selected[: query.fetch_limit]

    async def changes(
        self, connection: Connection, partition: Partition, since: Position | None, now: int
    ) -> ChangedRows | None:
        """Return what happened after *since*, if it is little; otherwise ``None``: then call :meth:`load`.

        ``since=None`` reads what happened since the partition began, and fails if it was erased or its log was cut.
        """
        epoch, sequence = (since.epoch, since.sequence) if since else (self.birth, 0)
        arguments = (self.roles.app, *self._keys(partition), epoch, sequence, now, _FOLLOWED_ROWS)
        rows = await _fetch(connection, SQL["follow"], arguments)
        if not rows:
            position = Position(self.birth, 0)
            return ChangedRows(position, reset=since != position, rows=(), removed=())
        complete, at_epoch, at_sequence, *_ = rows[0]
        if not complete:
            return None
        removed: list[RowKey] = []
        puts: list[Sequence[Any]] = []
        for _, _, _, *columns in rows[1:]:
            if columns[2] is None:
                removed.append((columns[0], columns[1]))
            else:
                puts.append(columns)
        position = Position(at_epoch, at_sequence)
        return ChangedRows(position, reset=since is None, rows=_to_rows(puts), removed=removed if since else ())

    async def load(self, connection: Connection, partition: Partition, since: Position | None, now: int) -> ChangedRows:
        """Return what happened after *since*, however much, in parts of one snapshot; other tasks run in between."""
        digest, shard = self._keys(partition)
        async with self._transaction(connection, b"ISOLATION LEVEL REPEATABLE READ, READ ONLY", partition):
            position, floor = await self._head(connection, partition)
            reset = since is None or since.epoch != position.epoch or not floor <= since.sequence <= position.sequence
            after = -1 if since is None or reset else since.sequence
            removed: list[RowKey] = []
            if not reset:
                parameters = {"digest": digest, "shard": shard, "after": after, "now": now}
                removed = [(namespace, key) for namespace, key in await _fetch(connection, SQL["removed"], parameters)]
            part = connection.cursor(binary=True)
            async with connection.pipeline():
                await connection.execute(SQL["searchable"], (digest, shard, after, now))
                await part.execute(SQL["next_searchable"])
            rows: list[ItemRow] = []
            more = await part.fetchall()
            while more:
                rows += _to_rows(more)
                more = await _fetch(connection, SQL["next_searchable"], ())
        return ChangedRows(position, reset, rows, removed)

    async def erase(self, connection: Connection, partition: Partition) -> int:
        """Delete everything of *partition* but its head; return how many items there were."""
        arguments = (self.roles.app, self._digest(partition), self._deployment, self._prefix, new_id())
        ((erased,),) = await _fetch(connection, SQL["erase"], arguments)
        return erased

    async def sweep(self, connection: Connection, now: int) -> tuple[int, int]:
        """Delete up to :data:`SWEPT_AT_ONCE` expired rows; return how many were seen, and how many deleted."""
        arguments = (self.roles.service, self._deployment, now, SWEPT_AT_ONCE, MAX_CHANGE_LOG_ROWS)
        ((seen, removed),) = await _fetch(connection, SQL["sweep"], arguments)
        return seen, removed

    async def namespaces(self, connection: Connection, now: int) -> set[str]:
        """Return the encoded namespaces with an unexpired row."""
        parameters = {"deployment": self._deployment, "now": now}
        return {text for (text,) in await self._service(connection, SQL["namespaces"], parameters)}

    async def partitions(self, connection: Connection, after: Partition | None, limit: int) -> list[Partition]:
        """Return the partitions after *after*, in the order of their digests."""
        parameters = {
            "deployment": self._deployment,
            "after": b"" if after is None else self._digest(after),
            "limit": min(limit, _MAX_INT64),
        }
        rows = await self._service(connection, SQL["partitions"], parameters)
        return [_parse_partition(kind, parts) for kind, parts in rows]

    async def due(self, connection: Connection, kind: str, now: int, limit: int) -> Iterable[tuple[Partition, ItemRow]]:
        """Return the unexpired rows with due work of *kind*, longest first."""
        parameters = {"deployment": self._deployment, "kind": kind, "now": now, "limit": min(limit, _MAX_INT64)}
        return [
            (_parse_partition(partition_kind, parts), ItemRow._make(row))
            for partition_kind, parts, *row in await self._service(connection, SQL["due"], parameters)
        ]

    async def stats(self, connection: Connection) -> Stats:
        """Return the size of the storage; the bytes are those of all deployments."""
        ((partitions, items, size),) = await self._service(connection, SQL["stats"], {"deployment": self._deployment})
        return Stats(partitions, items, size)

    async def advice(self, connection: Connection) -> list[str]:
        """Return what can lose acknowledged commits, or weakens the isolation of owners."""
        ((fsync, synchronous_commit),) = await _fetch(connection, SQL["durability"], ())
        advice: list[str] = []
        if fsync == "off":
            advice.append(
                "PostgreSQL runs with fsync = off: when its machine loses power, commits and the whole database may be "
                "lost. Set fsync to on."
            )
        if synchronous_commit == "off":
            advice.append(
                "PostgreSQL runs with synchronous_commit = off: the last commits may be lost when it crashes. "
                "Set synchronous_commit to on for this user or database."
            )
        if self.roles.app == NO_ROLE:
            advice.append(
                "This PostgreSQL user has no roles to take on, so row-level security applies to it only as the owner "
                f"of the tables. Run as administrator: CREATE ROLE {APP}; CREATE ROLE {SERVICE}; and grant both to it."
            )
        return advice

    def _digest(self, partition: Partition) -> bytes:
        return partition_key(self._prefix, partition.digest)

    def _keys(self, partition: Partition) -> tuple[bytes, int]:
        digest = self._digest(partition)
        return digest, int.from_bytes(digest[:8], signed=True)

    async def _head(self, connection: Connection, partition: Partition) -> tuple[Position, int]:
        rows = await _fetch(connection, SQL["head"], (self.roles.app, self._digest(partition)))
        if not rows:
            return Position(self.birth, 0), 0
        ((epoch, sequence, floor),) = rows
        return Position(epoch, sequence), floor

    async def _service(self, connection: Connection, statement: bytes, parameters: dict[str, Any]) -> list[Any]:
        async with self._transaction(connection, b"READ ONLY", None):
            return await _fetch(connection, statement, parameters)

    @asynccontextmanager
    async def _transaction(
        self, connection: Connection, kind: bytes, partition: Partition | None
    ) -> AsyncGenerator[None]:
        """Run the block in a transaction as the role for *partition*, or, if it is ``None``, for all partitions."""
        role = self.roles.service if partition is None else self.roles.app
        parameters = {
            "role": role,
            "partition": "" if partition is None else self._digest(partition).hex(),
            "service": "on" if partition is None else "",
            "plans": "on" if partition is None else "off",
            "milliseconds": self._milliseconds,
        }
        try:
            async with connection.pipeline():
                await connection.execute(b"BEGIN " + kind)
                await connection.execute(SQL["enter"], parameters)
            yield
        finally:
            await connection.rollback()  # nothing was written


def _size_bytes(arguments: tuple[Any, ...]) -> int:
    """Return the approximate size of a commit's *arguments*."""
    texts = sum(len(argument) for argument in arguments if isinstance(argument, str))
    lists = [cast("list[bytes | None]", argument) for argument in arguments if isinstance(argument, list)]
    return texts + sum(len(part) for parts in lists for part in parts if part)


async def _fetch(connection: Connection, statement: bytes, parameters: Any) -> list[Any]:
    cursor = connection.cursor(binary=True)
    await cursor.execute(statement, parameters)
    return await cursor.fetchall()


def _to_rows(rows: Sequence[Sequence[Any]]) -> list[ItemRow]:
    return [ItemRow._make(row) for row in rows]


def _expected(change: RowChange) -> int | None:
    if change.expect == "absent" or not isinstance(change.expect, int):
        return None
    return change.expect if 0 < change.expect <= _MAX_INT64 else _NO_REVISION


def _places(places: Iterable[RowKey]) -> list[bytes] | None:
    """Return the digests that identify rows in the database; ``None`` if there are none."""
    return [_half(namespace) + hashlib.sha256(key.encode("ascii")).digest()[:16] for namespace, key in places] or None


@lru_cache(maxsize=4096)
def _half(namespace: str) -> bytes:
    return hashlib.sha256(namespace.encode("ascii")).digest()[:16]


def _texts(column: Iterable[str | None]) -> str:
    """Return a PostgreSQL array literal of texts; they are JSON in ASCII, so only quotes need escaping."""
    return "{" + ",".join("NULL" if text is None else _quoted(text) for text in column) + "}"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _numbers(column: Iterable[int | None]) -> str:
    """Return a PostgreSQL array literal of integers."""
    return "{" + ",".join("NULL" if number is None else str(number) for number in column) + "}"


def _parse_partition(kind: Any, parts: str) -> Partition:
    return Partition(kind, tuple(json.loads(parts)))
