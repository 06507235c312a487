"""The statements by which pgvector is asked what is near, and how long that takes on a server."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, LiteralString, cast

import numpy as np
from psycopg.sql import SQL, Composed, Identifier

from threadkeep.ids import digest
from threadkeep.search.vectorstores.base import Near
from threadkeep.storage.port import Namespace
from threadkeep.storage.postgres.pool import Connection

if TYPE_CHECKING:
    from numpy.typing import NDArray

VECTOR_DIMS: Final = 2_000
"""An HNSW index holds vectors up to this length in single precision, and in half precision twice as long ones."""

_SCANNED: Final = 200_000
_FEW, _MANY = 2_000, 8_000
_TIMES: Final = 5
_ASKED: Final = 10


class Question:
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

    async def exactly(self, connection: Connection) -> list[Near]:
        """Compare every row."""
        return [near_of(row) for row in await (await connection.execute(self.sql, self.parameters)).fetchall()]

    async def by_index(self, connection: Connection) -> list[Near]:
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
        found: dict[tuple[str, str], Near] = {}
        for row in sorted(rows, key=lambda row: -row[3]):
            found.setdefault((row[0], row[1]), near_of(row))
        return list(found.values())


async def milliseconds(connection: Connection, asked: Question) -> float:
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
            asked = Question(key, dims, vector, ((),), _ASKED, table=Identifier("measured"))
            taken.append(min([await milliseconds(connection, asked) for _ in range(_TIMES)]))
    slope = max((taken[1] - taken[0]) / (_MANY - _FEW), 1e-9)
    return max(0, int(_MANY + (budget - taken[1]) / slope))


async def one(connection: Connection, statement: SQL | Composed, parameters: Any = ()) -> Any:
    """Return the first row that *statement* gives; ``None``: it gives none."""
    return await (await connection.execute(statement, parameters)).fetchone()


def near_of(row: Sequence[Any]) -> Near:
    """Read a row of namespace, key, revision and cosine."""
    namespace, key, revision, cosine = row
    return Near(tuple(json.loads(namespace)), json.loads(key), revision, float(cosine))


def kind_of(dims: int) -> str:
    """Return the type of vectors of this length."""
    return "vector" if dims <= VECTOR_DIMS else "halfvec"


def table_of(dims: int) -> Identifier:
    """Return where vectors of this length are."""
    return Identifier("threadkeep_vectors", f"vectors_{dims}")


def literal(key: bytes) -> SQL:
    """Return *key* as it stands in a statement: a partial index is used only for what the planner sees."""
    return SQL(cast("LiteralString", f"'\\x{key.hex()}'::bytea"))
