"""What is read and written in the tables of a PostgreSQL storage.

What one partition is asked or given is one call of a function in the database, see
``sql/schema.sql``, and a transaction of its own. Every method works on a connection in
autocommit; none knows of pools, time-outs or errors of the driver.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager, nullcontext
from datetime import timedelta
from functools import lru_cache
from typing import Any, Final, cast

from threadkeep.errors import PartitionErasedError, StorageError
from threadkeep.ids import new_id
from threadkeep.storage.commit import Known, check_expectation
from threadkeep.storage.encoding import Cursor, encode_text, partition_key
from threadkeep.storage.port import MAX_CHANGE_LOG_ROWS, Batch, Changes, Item, Partition, Position, Ref, Stats
from threadkeep.storage.postgres.pool import Connection
from threadkeep.storage.postgres.schema import APP, NOBODY, SERVICE, SQL, Roles
from threadkeep.storage.row import NO_PATHS, Change, Place, Row, changed_of, items_of, place_of, spelled
from threadkeep.storage.scan import Scan

_HIGHEST: Final = (1 << 63) - 1
_NEVER: Final = -1
"""A revision that no item has."""

_FEW: Final = 1_000
"""So many changes come with the answer that there are any; more are fetched in parts, from a cursor."""

_FIRST_PART: Final = 64
_LARGEST_PART: Final = 2_000
SWEPT_AT_ONCE: Final = 1_000


class PostgresTables:
    """The tables, as the deployment with *key_prefix* sees them.

    Args:
        key_prefix: Of the deployment.
        roles: As whom they are worked on.
        birth: The epoch of partitions that were never erased.
        service_timeout: How long a statement may take that goes across partitions, or loads one.
    """

    def __init__(self, *, key_prefix: str, roles: Roles, birth: str, service_timeout: timedelta) -> None:
        self._prefix = encode_text(key_prefix)
        self._deployment = hashlib.sha256(self._prefix.encode("ascii")).digest()
        self._roles = roles
        self._birth = birth
        self._milliseconds = str(service_timeout // timedelta(milliseconds=1))

    def arguments(self, batch: Batch, changes: Sequence[Change], now: int) -> tuple[Any, ...]:
        """Return what the function ``commit`` takes to write *changes*, which *batch* was encoded to."""
        partition = batch.partition
        expecting = [change for change in changes if change.expect != "any"]
        puts = [(change.place, change.content) for change in changes if change.content is not None]
        quiet = [c for c in changes if c.kind == "delete" or (c.content is not None and c.content.paths == NO_PATHS)]
        return (
            *(self._roles.app, *self._keys(partition), self._deployment, self._prefix),
            *(partition.kind, json.dumps(partition.parts), self._birth, batch.epoch, now, MAX_CHANGE_LOG_ROWS),
            _places(change.place for change in expecting),
            _numbers(_expected(change) for change in expecting),
            _places(change.place for change in quiet),
            _places(change.place for change in changes if change.kind == "delete"),
            _places(change.place for change in changes if change.kind == "touch"),
            _places(place for place, _ in puts),
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
        )

    async def commit(self, connection: Connection, arguments: tuple[Any, ...], changes: Sequence[Change]) -> Position:
        """Write what *changes* came to and return the position after them."""
        ((outcome, epoch, sequence, nth, there),) = await _rows(connection, SQL["commit"], arguments)
        if outcome == "erased":
            msg = "The partition was erased while this work was in flight; nothing was written."
            raise PartitionErasedError(msg)
        if outcome == "conflict":
            expecting = [change for change in changes if change.expect != "any"]
            check_expectation(expecting[int(nth) - 1], None if there is None else Known(there, 0, None, None, NO_PATHS))
            msg = "The database and Threadkeep do not agree what an expectation is; report this."
            raise StorageError(msg)
        return Position(epoch, sequence)

    async def position(self, connection: Connection, partition: Partition) -> Position:
        """Return how far *partition* has come."""
        position, _ = await self._head(connection, partition)
        return position

    async def get(self, connection: Connection, refs: Sequence[Ref], now: int) -> tuple[Item | None, ...]:
        """Return the items at *refs*, ``None`` where there is none; one round trip, however many partitions."""
        asked: dict[Partition, dict[Place, list[int]]] = {}
        for i, ref in enumerate(refs):
            places = asked.setdefault(ref.partition, {})
            places.setdefault(place_of(ref.namespace, ref.key), []).append(i)
        found: list[Item | None] = [None] * len(refs)
        answers = [connection.cursor(binary=True) for _ in asked]
        async with connection.pipeline() if len(asked) > 1 else nullcontext():
            for answer, (partition, places) in zip(answers, asked.items(), strict=True):
                keys = (self._roles.app, self._digest(partition), _places(places), now)
                await answer.execute(SQL["get"], keys)
        for answer, (partition, places) in zip(answers, asked.items(), strict=True):
            rows = [Row._make(row) for row in await answer.fetchall()]
            placed = [(i, row) for row in rows for i in places[row.place]]
            items = items_of([row for _, row in placed], partition)
            for (i, _), item in zip(placed, items, strict=True):
                found[i] = item
        return tuple(found)

    async def scan(self, connection: Connection, scan: Scan, now: int) -> list[tuple[Cursor, Item]]:
        """Return up to ``scan.wanted`` items with their places in the order."""
        statement = SQL["scan_newest" if scan.direction == "newest" else "scan_oldest"]
        asked = (self._roles.app, *self._keys(scan.partition), *scan.namespaces)
        start = scan.start
        part = _FIRST_PART if scan.filter else scan.wanted
        found: list[tuple[Cursor, Item]] = []
        while len(found) < scan.wanted:
            limit = min(part, _LARGEST_PART)
            rows = [Row._make(row) for row in await _rows(connection, statement, (*asked, *start, now, limit))]
            found += scan.meeting(rows)
            if len(rows) < limit:
                break
            start = Cursor(rows[-1].updated_at, rows[-1].revision, rows[-1].namespace, rows[-1].key)
            part = 2 * limit if scan.filter else scan.wanted - len(found)
        return found[: scan.wanted]

    async def changes(
        self, connection: Connection, partition: Partition, since: Position | None, now: int
    ) -> Changes | None:
        """Return what happened after *since*, where that is little; ``None``: :meth:`load` it.

        All of a partition is what happened since it began, unless it was erased or its log was cut meanwhile.
        """
        epoch, sequence = (since.epoch, since.sequence) if since else (self._birth, 0)
        asked = (self._roles.app, *self._keys(partition), epoch, sequence, now, _FEW)
        rows = await _rows(connection, SQL["follow"], asked)
        if not rows:
            position = Position(self._birth, 0)
            return Changes(position, reset=since != position, puts=(), removed=())
        told, at_epoch, at_sequence, *_ = rows[0]
        if not told:
            return None
        removed: dict[Place, None] = {}
        puts: list[Sequence[Any]] = []
        for _, _, _, *fields in rows[1:]:
            if fields[2] is None:
                removed[fields[0], fields[1]] = None
            else:
                puts.append(fields)
        gone = tuple(map(spelled, removed)) if since else ()
        items = changed_of(_made(puts), partition)
        return Changes(Position(at_epoch, at_sequence), reset=since is None, puts=items, removed=gone)

    async def load(self, connection: Connection, partition: Partition, since: Position | None, now: int) -> Changes:
        """Return what happened after *since*, however much, in parts of one moment.

        The loop is free between the parts.
        """
        digest, shard = self._keys(partition)
        async with self._transaction(connection, b"ISOLATION LEVEL REPEATABLE READ, READ ONLY", partition):
            position, floor = await self._head(connection, partition)
            reset = since is None or since.epoch != position.epoch or not floor <= since.sequence <= position.sequence
            after = -1 if since is None or reset else since.sequence
            removed: list[Place] = []
            if not reset:
                named = {"digest": digest, "shard": shard, "after": after, "now": now}
                removed = [(namespace, key) for namespace, key in await _rows(connection, SQL["removed"], named)]
            part = connection.cursor(binary=True)
            async with connection.pipeline():
                await connection.execute(SQL["searchable"], (digest, shard, after, now))
                await part.execute(SQL["next_searchable"])
            rows: list[Row] = []
            more = await part.fetchall()
            while more:
                rows += _made(more)
                more = await _rows(connection, SQL["next_searchable"], ())
        return Changes(position, reset, changed_of(rows, partition), tuple(map(spelled, removed)))

    async def erase(self, connection: Connection, partition: Partition) -> int:
        """Remove everything of *partition* but the row that says so; return how many items there were."""
        asked = (self._roles.app, self._digest(partition), self._deployment, self._prefix, new_id())
        ((erased,),) = await _rows(connection, SQL["erase"], asked)
        return erased

    async def sweep(self, connection: Connection, now: int) -> tuple[int, int]:
        """Remove up to :data:`SWEPT_AT_ONCE` of what expired by *now*; return how many were seen, and removed."""
        asked = (self._roles.service, self._deployment, now, SWEPT_AT_ONCE, MAX_CHANGE_LOG_ROWS)
        ((seen, removed),) = await _rows(connection, SQL["sweep"], asked)
        return seen, removed

    async def namespaces(self, connection: Connection, now: int) -> set[str]:
        """Return the encoded namespaces that hold an unexpired item."""
        named = {"deployment": self._deployment, "now": now}
        return {text for (text,) in await self._service(connection, SQL["namespaces"], named)}

    async def partitions(self, connection: Connection, after: Partition | None, limit: int) -> tuple[Partition, ...]:
        """Return the partitions behind *after*, in the order of their digests."""
        named = {
            "deployment": self._deployment,
            "after": b"" if after is None else self._digest(after),
            "limit": min(limit, _HIGHEST),
        }
        rows = await self._service(connection, SQL["partitions"], named)
        return tuple(Partition(kind, tuple(json.loads(parts))) for kind, parts in rows)

    async def due(self, connection: Connection, kind: str, now: int, limit: int) -> tuple[Item, ...]:
        """Return the unexpired items whose work waits since *now*, longest first."""
        named = {
            "deployment": self._deployment,
            "kind": encode_text(kind),
            "now": now,
            "limit": min(limit, _HIGHEST),
        }
        return tuple(
            item
            for partition_kind, parts, *row in await self._service(connection, SQL["due"], named)
            for item in items_of([Row._make(row)], Partition(partition_kind, tuple(json.loads(parts))))
        )

    async def stats(self, connection: Connection) -> Stats:
        """Return how much there is; the bytes are those of all deployments."""
        ((partitions, items, size),) = await self._service(connection, SQL["stats"], {"deployment": self._deployment})
        return Stats(partitions, items, size)

    async def advice(self, connection: Connection) -> list[str]:
        """Return what would lose acknowledged commits, or leaves less between owners than there could be."""
        ((fsync, synchronous_commit),) = await _rows(connection, SQL["durability"], ())
        said: list[str] = []
        if fsync == "off":
            said.append(
                "PostgreSQL runs with fsync = off: when its machine loses power, commits and the whole database may be "
                "lost. Set fsync to on."
            )
        if synchronous_commit == "off":
            said.append(
                "PostgreSQL runs with synchronous_commit = off: the last commits may be lost when it crashes. "
                "Set synchronous_commit to on for this user or database."
            )
        if self._roles.app == NOBODY:
            said.append(
                "This PostgreSQL user has no roles to take on, so row-level security holds it only as the owner of the "
                f"tables. Run as an administrator: CREATE ROLE {APP}; CREATE ROLE {SERVICE}; and grant both to it."
            )
        return said

    def _digest(self, partition: Partition) -> bytes:
        return partition_key(self._prefix, partition.digest)

    def _keys(self, partition: Partition) -> tuple[bytes, int]:
        digest = self._digest(partition)
        return digest, int.from_bytes(digest[:8], signed=True)

    async def _head(self, connection: Connection, partition: Partition) -> tuple[Position, int]:
        rows = await _rows(connection, SQL["head"], (self._roles.app, self._digest(partition)))
        if not rows:
            return Position(self._birth, 0), 0
        ((epoch, sequence, floor),) = rows
        return Position(epoch, sequence), floor

    async def _service(self, connection: Connection, statement: bytes, named: dict[str, Any]) -> list[Any]:
        async with self._transaction(connection, b"READ ONLY", None):
            return await _rows(connection, statement, named)

    @asynccontextmanager
    async def _transaction(
        self, connection: Connection, kind: bytes, partition: Partition | None
    ) -> AsyncGenerator[None]:
        """Run what is done inside as the role for *partition*, ``None``: as the one for all of them."""
        role = self._roles.service if partition is None else self._roles.app
        named = {
            "role": role,
            "partition": "" if partition is None else self._digest(partition).hex(),
            "service": "on" if partition is None else "",
            "plans": "on" if partition is None else "off",
            "milliseconds": self._milliseconds,
        }
        try:
            async with connection.pipeline():
                await connection.execute(b"BEGIN " + kind)
                await connection.execute(SQL["enter"], named)
            yield
        finally:
            await connection.rollback()  # nothing was written


def weight(arguments: tuple[Any, ...]) -> int:
    """Return about how many bytes *arguments* of a commit take."""
    texts = sum(len(argument) for argument in arguments if isinstance(argument, str))
    lists = [cast("list[bytes | None]", argument) for argument in arguments if isinstance(argument, list)]
    return texts + sum(len(part) for parts in lists for part in parts if part)


async def _rows(connection: Connection, statement: bytes, parameters: Any) -> list[Any]:
    cursor = connection.cursor(binary=True)
    await cursor.execute(statement, parameters)
    return await cursor.fetchall()


def _made(rows: Sequence[Sequence[Any]]) -> list[Row]:
    return [Row._make(row) for row in rows]


def _expected(change: Change) -> int | None:
    if change.expect == "absent" or not isinstance(change.expect, int):
        return None
    return change.expect if 0 < change.expect <= _HIGHEST else _NEVER


def _places(places: Iterable[Place]) -> list[bytes] | None:
    """Return what finds *places* in the database; ``None`` where there are none."""
    return [_half(namespace) + hashlib.sha256(key.encode("ascii")).digest()[:16] for namespace, key in places] or None


@lru_cache(maxsize=4096)
def _half(namespace: str) -> bytes:
    return hashlib.sha256(namespace.encode("ascii")).digest()[:16]


def _texts(column: Iterable[str | None]) -> str:
    """Return a literal of PostgreSQL's for an array of texts; they are JSON in ASCII, so nothing else needs care."""
    return "{" + ",".join("NULL" if text is None else _quoted(text) for text in column) + "}"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _numbers(column: Iterable[int | None]) -> str:
    """Return a literal of PostgreSQL's for an array of whole numbers."""
    return "{" + ",".join("NULL" if number is None else str(number) for number in column) + "}"
