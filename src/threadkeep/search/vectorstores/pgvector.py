"""Vectors in PostgreSQL with pgvector: exact within a partition, or by an HNSW index of its own where that is large."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, LiteralString, NamedTuple, TypeVar, cast

import numpy as np
from psycopg.sql import SQL, Composed, Identifier

from threadkeep.errors import StorageError, VectorEngineError
from threadkeep.event_loop import start_background
from threadkeep.ids import digest
from threadkeep.observability import log
from threadkeep.search.vectorstores.base import FENCE, NearItem, Space, VectorEntry, VectorUpdate
from threadkeep.storage.interface import Namespace, Partition, Position
from threadkeep.storage.postgres.pool import Connection, PostgresPool

if TYPE_CHECKING:
    from numpy.typing import NDArray

T = TypeVar("T")

EXACT_MILLISECONDS: Final = 30.0
"""From where on comparing a whole partition takes too long, by the server's own measurement."""

MEASURED_FROM: Final = 2_000
"""From so many rows on it is measured, and again whenever they have doubled."""

VECTOR_DIMS: Final = 2_000
"""An HNSW index holds vectors up to this length in single precision, and in half precision twice as long ones."""

_SCANNED: Final = 200_000
_FEW, _MANY = 2_000, 8_000
_TIMES: Final = 5
_ASKED: Final = 10

_INDEXED_DIMS: Final = 4_000
_UPDATE_SECONDS: Final = 600.0
_INDEX_SECONDS: Final = 3_600.0
_AT_ONCE: Final = 1_000

_SCHEMA: Final = (
    "CREATE SCHEMA IF NOT EXISTS threadkeep_vectors",
    """CREATE TABLE IF NOT EXISTS threadkeep_vectors.copies (
        partition bytea NOT NULL PRIMARY KEY,
        model text COLLATE "C",
        dims integer,
        epoch text NOT NULL,
        sequence bigint NOT NULL,
        rows bigint NOT NULL
    )""",
)
"""partition: SHA-256 of the key prefix and the partition's digest. model, dims: NULL after an erasure."""

_TABLE: Final = """CREATE TABLE IF NOT EXISTS {table} (
    partition bytea NOT NULL,
    name bytea NOT NULL,
    part integer NOT NULL,
    prefixes bytea[] NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    revision bigint NOT NULL,
    vector {type} NOT NULL,
    PRIMARY KEY (partition, name, part)
)"""
"""name: a digest of namespace and key, which may be long; part: which of its texts; prefixes: a digest of each."""

_POLICY: Final = (
    "ALTER TABLE {table} ENABLE ROW LEVEL SECURITY",
    "ALTER TABLE {table} FORCE ROW LEVEL SECURITY",
    "DROP POLICY IF EXISTS of_one_partition ON {table}",
    """CREATE POLICY of_one_partition ON {table} USING (
        partition = (SELECT decode(current_setting('threadkeep_vectors.partition', true), 'hex'))
    )""",
)


_PROTECTED: Final = "SELECT relforcerowsecurity FROM pg_class WHERE oid = to_regclass(%s)"
"""No row: there is no such table. Earlier versions that were killed may have left one without its policy."""


class PgVectorEngine:
    """Keeps vectors in the schema ``threadkeep_vectors`` of the database that *pool* leads to.

    A partition is compared exactly, row by row, as long as the server does that within *exact_milliseconds*; it
    is asked how long it takes (``EXPLAIN ANALYZE``) when rows have doubled. Above, the partition gets an HNSW index of
    its own, built while it is used, and searched by iterative scans: an index over all partitions would find others'
    rows first. Vectors of more than 2,000 numbers are kept in half precision, and of more than 4,000 compared exactly.

    Row-level security is forced: each transaction names its partition, and sees no other row unless the connected role
    is a superuser or may bypass it; every statement names the partition as well.

    Args:
        pool: Is opened and closed by this engine, and may be used by others meanwhile.
        key_prefix: Deployments with different ones share the database and nothing else.
        exact_milliseconds: See above.
    """

    name: str = "pgvector"

    def __init__(
        self, pool: PostgresPool, *, key_prefix: str = "", exact_milliseconds: float = EXACT_MILLISECONDS
    ) -> None:
        self.location: str = pool.location
        self._pool = pool
        self._prefix = key_prefix
        self._exact_milliseconds = exact_milliseconds
        self._measured: dict[bytes, int] = {}
        self._indexed: dict[bytes, bool] = {}
        self._building: set[asyncio.Task[None]] = set()

    async def connect(self) -> None:
        """See :meth:`VectorEngine.connect`."""
        async with self._errors():
            await self._pool.open()
            found = await self._pool.run(
                lambda connection: one(
                    connection,
                    SQL(_PROTECTED + " AND EXISTS (SELECT FROM pg_extension WHERE extname = 'vector')"),
                    ("threadkeep_vectors.copies",),
                )
            )
            if found is not None and found[0]:
                return
            if self._pool.migrate == "check":
                msg = "The extension vector or schema threadkeep_vectors is missing; set THREADKEEP_MIGRATE=auto once."
                raise VectorEngineError(msg, engine=self.name)
            async with self._pool.setting_up() as connection, connection.transaction():
                await connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
                for statement in _SCHEMA:
                    await connection.execute(statement)
                await _protect(connection, Identifier("threadkeep_vectors", "copies"))

    async def close(self) -> None:
        """See :meth:`VectorEngine.close`. An index that is being built is given up."""
        for task in self._building:
            task.cancel()
        if self._building:
            await asyncio.wait(self._building)

    async def position(self, partition: Partition, space: Space) -> Position | None:
        """See :meth:`VectorEngine.position`."""
        key = self._key(partition)

        async def look(connection: Connection) -> Position | None:
            async with _entered(connection, key):
                return _position_in(await _copy(connection, key), space)

        return await self._run(look)

    async def holds(self, partition: Partition) -> bool:
        """See :meth:`VectorEngine.holds`."""
        key = self._key(partition)

        async def look(connection: Connection) -> bool:
            async with _entered(connection, key):
                copy = await _copy(connection, key)
                return copy is not None and copy.dims is not None

        return await self._run(look)

    async def apply(self, update: VectorUpdate) -> bool:
        """See :meth:`VectorEngine.apply`. It is one transaction; a search sees it at once."""
        key, table = self._key(update.partition), table_of(update.space.dims)
        await self._require_table(update.space.dims)

        async def write(connection: Connection) -> int | None:
            async with _entered(connection, key):
                copy = await _copy(connection, key, lock=True)
                if _position_in(copy, update.space) != update.since or not (copy or await _begin(connection, key)):
                    return None
                rows = 0 if copy is None else copy.rows
                puts: Iterable[VectorEntry] = update.puts
                if update.reset and copy is not None and copy.dims is not None:
                    rows -= await _delete(connection, table_of(copy.dims), key)
                elif not update.reset:
                    puts = list(update.puts)
                    names = [*update.removed, *((entry.namespace, entry.key) for entry in puts)]
                    rows -= await _delete(connection, table, key, [_name(*name) for name in names])
                rows += await _insert(connection, table, key, puts)
                await connection.execute(
                    "UPDATE threadkeep_vectors.copies"
                    " SET model = %s, dims = %s, epoch = %s, sequence = %s, rows = %s WHERE partition = %s",
                    (
                        json.dumps(update.space.model),
                        update.space.dims,
                        update.position.epoch,
                        update.position.sequence,
                        rows,
                        key,
                    ),
                )
                return rows

        rows = await self._run(write, seconds=_UPDATE_SECONDS)
        if rows is None:
            return False
        if rows >= max(MEASURED_FROM, 2 * self._measured.get(key, 0)) and update.space.dims <= _INDEXED_DIMS:
            self._measured[key] = rows
            self._later(self._measure(key, update.space.dims))
        return True

    async def search(
        self, partition: Partition, vector: NDArray[np.float32], *, prefixes: Sequence[Namespace] = ((),), limit: int
    ) -> list[NearItem]:
        """See :meth:`VectorEngine.search`."""
        if limit <= 0 or not prefixes:
            return []
        key, dims = self._key(partition), len(vector)
        asked = NearestQuery(key, dims, vector, tuple(map(tuple, prefixes)), limit)

        async def look(connection: Connection) -> list[NearItem]:
            async with _entered(connection, key):
                copy = await _copy(connection, key)
                if copy is None or copy.dims != dims:
                    return []
                if key not in self._indexed:
                    self._indexed[key] = await _has_index(connection, key)
                if self._indexed[key]:
                    found = await asked.by_index(connection)
                    if len(found) == limit:
                        return found
                return await asked.exactly(connection)

        return await self._run(look)

    async def erase(self, partition: Partition) -> None:
        """See :meth:`VectorEngine.erase`. The server overwrites the bytes when it vacuums."""
        key = self._key(partition)

        async def drop(connection: Connection) -> None:
            async with _entered(connection, key):
                await _begin(connection, key)
                copy = await _copy(connection, key, lock=True)
                if copy is not None and copy.dims is not None:
                    await _delete(connection, table_of(copy.dims), key)
                await connection.execute(
                    "UPDATE threadkeep_vectors.copies"
                    " SET model = NULL, dims = NULL, epoch = %s, sequence = %s, rows = 0 WHERE partition = %s",
                    (FENCE.epoch, FENCE.sequence, key),
                )
            await connection.execute(SQL("DROP INDEX CONCURRENTLY IF EXISTS {}").format(_index(key)))

        await self._run(drop, seconds=_UPDATE_SECONDS)
        self._measured.pop(key, None)
        self._indexed.pop(key, None)

    async def indexing(self) -> None:
        """Wait until every index that is being built is built."""
        while self._building:
            await asyncio.wait(self._building)

    async def exact_up_to(self, dims: int) -> int:
        """See :meth:`Measuring.exact_up_to`."""
        await self._require_table(dims)
        return await self._run(
            lambda connection: rows_within(connection, dims, self._exact_milliseconds), seconds=_UPDATE_SECONDS
        )

    async def _measure(self, key: bytes, dims: int) -> None:
        """Build an index for a partition that the server takes too long to compare exactly."""

        async def taken(connection: Connection) -> float:
            async with _entered(connection, key):
                row = await one(
                    connection,
                    SQL("SELECT vector::text FROM {} WHERE partition = %s LIMIT 1").format(table_of(dims)),
                    (key,),
                )
                if row is None or await _has_index(connection, key):
                    return 0.0
                asked = NearestQuery(key, dims, np.array(json.loads(row[0]), np.float32), ((),), 10)
                return await milliseconds(connection, asked)

        if await self._run(taken, seconds=_UPDATE_SECONDS) > self._exact_milliseconds:
            await self._run(lambda connection: _build(connection, key, dims), seconds=_INDEX_SECONDS)
            self._indexed[key] = True

    async def _require_table(self, dims: int) -> None:
        table = table_of(dims)
        there = await self._run(
            lambda connection: one(connection, SQL(_PROTECTED), (f"threadkeep_vectors.vectors_{dims}",))
        )
        if there is not None and there[0]:
            return
        async with self._errors(), self._pool.setting_up() as connection, connection.transaction():
            kind = SQL(cast("LiteralString", f"{kind_of(dims)}({dims})"))
            await connection.execute(SQL(_TABLE).format(table=table, type=kind))
            await _protect(connection, table)

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task = start_background(work)
        self._building.add(task)
        task.add_done_callback(self._built)

    def _built(self, task: asyncio.Task[None]) -> None:
        self._building.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("No HNSW index was built, so a large partition is compared exactly: %s", error)

    def _key(self, partition: Partition) -> bytes:
        return digest(self._prefix, partition.digest.hex())

    async def _run(self, work: Callable[[Connection], Awaitable[T]], *, seconds: float | None = None) -> T:
        async with self._errors():
            return await self._pool.run(work, seconds=seconds, repeatable=lambda: seconds is None)

    @asynccontextmanager
    async def _errors(self) -> AsyncGenerator[None]:
        try:
            yield
        except StorageError as error:
            raise VectorEngineError(str(error), engine=self.name) from error


class _Copied(NamedTuple):
    """A row of ``copies``."""

    model: str | None
    dims: int | None
    position: Position
    rows: int


@asynccontextmanager
async def _entered(connection: Connection, key: bytes) -> AsyncGenerator[None]:
    """Begin a transaction that sees the rows of one partition."""
    async with connection.transaction():
        await connection.execute("SELECT set_config('threadkeep_vectors.partition', %s, true)", (key.hex(),))
        yield


async def _protect(connection: Connection, table: Identifier) -> None:
    for statement in _POLICY:
        await connection.execute(SQL(statement).format(table=table))


async def _copy(connection: Connection, key: bytes, *, lock: bool = False) -> _Copied | None:
    statement = SQL(
        "SELECT model, dims, epoch, sequence, rows FROM threadkeep_vectors.copies WHERE partition = %s{}"
    ).format(SQL(" FOR UPDATE" if lock else ""))
    row = await one(connection, statement, (key,))
    if row is None:
        return None
    model, dims, epoch, sequence, rows = row
    return _Copied(None if model is None else json.loads(model), dims, Position(epoch, sequence), rows)


async def _begin(connection: Connection, key: bytes) -> bool:
    """Make the row of a partition; ``False`` where another process has made it meanwhile."""
    made = await connection.execute(
        "INSERT INTO threadkeep_vectors.copies (partition, epoch, sequence, rows) VALUES (%s, '', 0, 0)"
        " ON CONFLICT DO NOTHING",
        (key,),
    )
    return made.rowcount == 1


async def _delete(connection: Connection, table: Identifier, key: bytes, names: list[bytes] | None = None) -> int:
    """Delete a partition's rows, or those of some *names*; return how many."""
    if names is None:
        done = await connection.execute(SQL("DELETE FROM {} WHERE partition = %s").format(table), (key,))
    else:
        statement = SQL("DELETE FROM {} WHERE partition = %s AND name = ANY(%s)").format(table)
        done = await connection.execute(statement, (key, names))
    return done.rowcount


async def _insert(connection: Connection, table: Identifier, key: bytes, entries: Iterable[VectorEntry]) -> int:
    """Insert *entries* by way of a temporary table: COPY does not serve one with row-level security."""
    left, rows = iter(entries), 0
    part = await asyncio.to_thread(_encoded, left, key)
    if not part:
        return 0
    incoming = SQL("CREATE TEMPORARY TABLE incoming (LIKE {}) ON COMMIT DROP").format(table)
    await connection.execute(incoming)
    while part:
        async with connection.cursor().copy("COPY incoming FROM STDIN (FORMAT BINARY)") as copy:
            copy.set_types(["bytea", "bytea", "int4", "bytea[]", "text", "text", "int8", "bytea"])
            for row in part:
                await copy.write_row(row)
        rows += len(part)
        part = await asyncio.to_thread(_encoded, left, key)
    await connection.execute(SQL("INSERT INTO {} SELECT * FROM incoming").format(table))
    return rows


def _encoded(entries: Iterator[VectorEntry], key: bytes) -> list[tuple[Any, ...]]:
    """Return the rows of the next thousand items; vectors as the server's binary form has them."""
    rows: list[tuple[Any, ...]] = []
    for namespace, item, revision, vectors in islice(entries, _AT_ONCE):
        head = vectors.shape[1].to_bytes(2) + bytes(2)
        encoded = vectors.astype(">f4" if vectors.shape[1] <= VECTOR_DIMS else ">f2")
        prefixes = [digest(*namespace[:depth]) for depth in range(len(namespace) + 1)]
        named = (prefixes, json.dumps(namespace), json.dumps(item), revision)
        name = _name(namespace, item)
        rows += [(key, name, part, *named, head + row.tobytes()) for part, row in enumerate(encoded)]
    return rows


async def _has_index(connection: Connection, key: bytes) -> bool:
    statement = SQL("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)")
    row = await one(connection, statement, (f"threadkeep_vectors.{_index_name(key)}",))
    return row is not None and row[0]


async def _build(connection: Connection, key: bytes, dims: int) -> None:
    """Build a partition's index beside what goes on; one that a process left half built is replaced."""
    if not await _has_index(connection, key):
        building = await one(connection, SQL("SELECT count(*) FROM pg_stat_progress_create_index"))
        if building is None or not building[0]:
            await connection.execute(SQL("DROP INDEX CONCURRENTLY IF EXISTS {}").format(_index(key)))
    await connection.execute(
        SQL(
            "CREATE INDEX CONCURRENTLY IF NOT EXISTS {name} ON {table}"
            " USING hnsw (vector {ops}) WHERE partition = {key}"
        ).format(
            name=Identifier(_index_name(key)),
            table=table_of(dims),
            ops=SQL(cast("LiteralString", f"{kind_of(dims)}_cosine_ops")),
            key=literal(key),
        )
    )


def _position_in(copy: _Copied | None, space: Space) -> Position | None:
    return (
        copy.position
        if copy is not None and (copy.model is None or space == Space(copy.model, copy.dims or 0))
        else None
    )


def _name(namespace: Namespace, key: str) -> bytes:
    return digest(key, *namespace)


def _index_name(key: bytes) -> str:
    return f"hnsw_{key.hex()[:40]}"


def _index(key: bytes) -> Identifier:
    return Identifier("threadkeep_vectors", _index_name(key))


class NearestQuery:
    """What is near to a vector, as the two statements that find it.

    Args:
        key: The partition's.
        dims: Length of the vector.
        vector: The question's.
        prefixes: Only items below one of these.
        limit: How many.
        table: Where; ``None``: where those of this length are.
    """

    def __init__(
        self,
        key: bytes,
        dims: int,
        vector: NDArray[np.float32],
        prefixes: tuple[Namespace, ...],
        limit: int,
        *,
        table: Identifier | None = None,
    ) -> None:
        self._key = key
        self._limit = limit
        self._table = table or table_of(dims)
        self._distance = SQL(cast("LiteralString", f"vector <=> %(vector)s::{kind_of(dims)}"))
        self._below = SQL("" if () in prefixes else " AND prefixes && %(prefixes)s::bytea[]")
        self.parameters = {
            "key": key,
            "vector": json.dumps(vector.tolist()),
            "prefixes": [digest(*prefix) for prefix in prefixes],
            "limit": limit,
        }

    @property
    def sql(self) -> Composed:
        """The nearest of all that the partition has below the prefixes: grouped, so that no HNSW serves.

        Each that was found is looked up by itself: before the server has counted the rows, which is a minute after they
        came, it takes a partition for small, and compares all that were found with all rows.
        """
        return SQL(
            "SELECT one.namespace, one.key, one.revision, 1 - near.distance FROM ("
            " SELECT name, min({distance}) AS distance FROM {table} WHERE partition = %(key)s{below}"
            " GROUP BY name ORDER BY distance, name LIMIT %(limit)s"
            ") AS near CROSS JOIN LATERAL (SELECT namespace, key, revision FROM {table}"
            " WHERE partition = %(key)s AND name = near.name AND part = 0 LIMIT 1) AS one"
            " ORDER BY near.distance, near.name"
        ).format(distance=self._distance, table=self._table, below=self._below)

    async def exactly(self, connection: Connection) -> list[NearItem]:
        """Compare every row."""
        return [near_of(row) for row in await (await connection.execute(self.sql, self.parameters)).fetchall()]

    async def by_index(self, connection: Connection) -> list[NearItem]:
        """Walk the partition's own index until so many items are found, or it has been walked far enough."""
        await connection.execute(
            "SELECT set_config('hnsw.iterative_scan', 'relaxed_order', true), set_config('enable_sort', 'off', true),"
            " set_config('hnsw.ef_search', %s, true), set_config('hnsw.max_scan_tuples', %s, true)",
            (str(min(1_000, max(200, 2 * self._limit))), str(_SCANNED)),
        )
        statement = SQL(
            "SELECT namespace, key, revision, 1 - ({distance}) FROM {table} WHERE partition = {key}{below}"
            " ORDER BY {distance} LIMIT %(limit)s"
        ).format(distance=self._distance, table=self._table, below=self._below, key=literal(self._key))
        rows = await (await connection.execute(statement, self.parameters)).fetchall()
        found: dict[tuple[str, str], NearItem] = {}
        for row in sorted(rows, key=lambda row: -row[3]):
            found.setdefault((row[0], row[1]), near_of(row))
        return list(found.values())


async def milliseconds(connection: Connection, asked: NearestQuery) -> float:
    """Return how long the server takes to compare every row, by its own clock."""
    plan = await one(connection, SQL("EXPLAIN (ANALYZE, FORMAT JSON) ") + asked.sql, asked.parameters)
    return 0.0 if plan is None else float(plan[0][0]["Execution Time"])


async def rows_within(connection: Connection, dims: int, budget: float) -> int:
    """Return how many random vectors of one partition the server compares within *budget* milliseconds, about.

    It measures 2,000 and 8,000 rows in a temporary table, the best of five times each, and goes on in a line.
    """
    taken: list[float] = []
    async with connection.transaction(force_rollback=True):
        await connection.execute(
            SQL("CREATE TEMPORARY TABLE measured (LIKE {} INCLUDING INDEXES) ON COMMIT DROP").format(table_of(dims))
        )
        await connection.execute("SELECT setseed(0.5)")
        key = digest("measured")
        vector = np.random.default_rng(7).standard_normal(dims).astype(np.float32)
        for first, last in ((1, _FEW), (_FEW + 1, _MANY)):
            await connection.execute(
                SQL(
                    "INSERT INTO measured"
                    " SELECT %(key)s, decode(md5(n::text), 'hex'), 0, ARRAY[]::bytea[], '[]', '0', 1,"
                    " (SELECT array_agg(random() - 0.5) FROM generate_series(1, %(dims)s + 0 * n))::{}"
                    " FROM generate_series(%(first)s::int, %(last)s::int) AS n"
                ).format(SQL(cast("LiteralString", kind_of(dims)))),
                {"key": key, "dims": dims, "first": first, "last": last},
            )
            await connection.execute("ANALYZE measured")
            asked = NearestQuery(key, dims, vector, ((),), _ASKED, table=Identifier("measured"))
            taken.append(min([await milliseconds(connection, asked) for _ in range(_TIMES)]))
    slope = max((taken[1] - taken[0]) / (_MANY - _FEW), 1e-9)
    return max(0, int(_MANY + (budget - taken[1]) / slope))


async def one(connection: Connection, statement: SQL | Composed, parameters: Any = ()) -> Any:
    """Return the first row that *statement* gives; ``None``: it gives none."""
    return await (await connection.execute(statement, parameters)).fetchone()


def near_of(row: Sequence[Any]) -> NearItem:
    """Read a row of namespace, key, revision and cosine."""
    namespace, key, revision, cosine = row
    return NearItem(tuple(json.loads(namespace)), json.loads(key), revision, float(cosine))


def kind_of(dims: int) -> str:
    """Return the type of vectors of this length."""
    return "vector" if dims <= VECTOR_DIMS else "halfvec"


def table_of(dims: int) -> Identifier:
    """Return where vectors of this length are."""
    return Identifier("threadkeep_vectors", f"vectors_{dims}")


def literal(key: bytes) -> SQL:
    """Return *key* as it stands in a statement: a partial index is used only for what the planner sees."""
    return SQL(cast("LiteralString", f"'\\x{key.hex()}'::bytea"))
