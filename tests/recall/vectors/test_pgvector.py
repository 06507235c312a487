"""Tests of the engine in PostgreSQL: the contract by exact comparison and by HNSW indexes, long vectors, and rights."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import psycopg
import pytest
from psycopg.sql import SQL

from tests.servers import empty_postgres_database
from tests.storage.postgres_world import run
from tests.storage.test_postgres_roles import CutError, cut_at
from threadkeep.errors import VectorEngineError
from threadkeep.search.vectorstores.base import Space, VectorUpdate
from threadkeep.search.vectorstores.pgvector import NearestQuery, PgVectorEngine
from threadkeep.storage.postgres.pool import Connection, PostgresPool
from threadkeep.testing.vectors_contract import (
    ANA,
    BOB,
    NOTES,
    SPACE,
    OpenEngine,
    VectorsContract,
    at,
    entry,
    fill,
    keys,
    random_entries,
    unit,
)

pytestmark = pytest.mark.slow

IN_SCHEMA = "WHERE relkind = 'r' AND relnamespace = 'threadkeep_vectors'::regnamespace"


@pytest.fixture
async def pool(postgres_url: str) -> AsyncIterator[PostgresPool]:
    opened = PostgresPool(postgres_url)
    yield opened
    await opened.close()


class TestPgVectorEngine(VectorsContract):
    @pytest.fixture
    def open_engine(self, pool: PostgresPool) -> OpenEngine:
        return lambda *, key_prefix="": PgVectorEngine(pool, key_prefix=key_prefix)


def rows_read(plan: dict[str, Any]) -> Iterator[float]:
    """Yield how many rows each step of *plan* gave and threw away, all its loops together."""
    yield plan["Actual Loops"] * (plan["Actual Rows"] + plan.get("Rows Removed by Join Filter", 0))
    for below in plan.get("Plans", ()):
        yield from rows_read(below)


async def test_setting_up_may_be_killed_at_every_statement(postgres_server: str, monkeypatch: pytest.MonkeyPatch):
    """The next start finishes it: no table is left without row-level security."""
    killed, number = 0, 0
    while True:
        number += 1
        url = empty_postgres_database(postgres_server)
        with monkeypatch.context() as patched:
            counted = cut_at(number, patched)
            first = PostgresPool(url)
            with suppress(CutError, psycopg.Error, VectorEngineError):
                engine = PgVectorEngine(first)
                await engine.connect()
                await fill(engine, random_entries(3))
            await first.close()
            ended = counted() < number
        killed += not ended

        pool = PostgresPool(url)
        engine = PgVectorEngine(pool)
        await engine.connect()
        if await engine.position(ANA, SPACE) is None:
            await fill(engine, random_entries(3))
        near = await engine.search(ANA, unit(1), limit=10)
        await pool.close()

        protected = run(url, f"SELECT relname, relforcerowsecurity FROM pg_class {IN_SCHEMA} ORDER BY 1")
        assert protected == [("copies", True), ("vectors_8", True)]
        assert len(near) == 3
        if ended:
            break
    assert killed == number - 1
    assert killed > 10


class TestIndexes:
    async def test_a_partition_that_takes_too_long_gets_an_index_of_its_own(
        self, pool: PostgresPool, postgres_url: str
    ):
        """Which is used, finds nearly all, keeps within prefixes and gives as many as are asked for."""
        engine = PgVectorEngine(pool, exact_milliseconds=0)
        await engine.connect()
        entries = random_entries(2_500, dims=32)
        space = Space("contract", 32)
        await fill(engine, entries, space=space)
        await fill(engine, random_entries(300, dims=32, seed=9), partition=BOB, space=space)
        await engine.indexing()

        matrix, met = np.concatenate([one.vectors for one in entries]), 0
        for question in random_entries(30, dims=32, seed=5):
            found = await engine.search(ANA, question.vectors[0], limit=10)
            true = np.argsort(-(matrix @ question.vectors[0]))[:10]
            met += len({near.key for near in found} & {f"{place:06}" for place in true})
        assert met / 300 >= 0.95
        assert len(await engine.search(ANA, entries[0].vectors[0], prefixes=[NOTES], limit=50)) == 50
        assert await engine.search(ANA, entries[0].vectors[0], prefixes=[("other",)], limit=50) == []
        indexes = "SELECT indexrelname, idx_scan > 0 FROM pg_stat_user_indexes WHERE indexrelname LIKE 'hnsw%'"
        await pool.close()  # what was counted is seen when the sessions have ended
        assert [row[1] for row in run(postgres_url, indexes)] == [True]

    async def test_what_was_just_written_is_read_once(self, pool: PostgresPool, postgres_url: str):
        """The server has not counted the rows yet; those that are found are not compared with all the others."""
        engine = PgVectorEngine(pool)
        await engine.connect()
        await fill(engine, random_entries(1_000))
        ((key,),) = run(postgres_url, "SELECT partition FROM threadkeep_vectors.copies")
        asked = NearestQuery(key, 8, unit(1), ((),), 256)

        async def planned(connection: Connection) -> list[dict[str, Any]]:
            told = await connection.execute(SQL("EXPLAIN (ANALYZE, FORMAT JSON) ") + asked.sql, asked.parameters)
            return [row for (row,) in await told.fetchall()]

        ((plan,),) = await pool.run(planned)
        assert plan["Plan"]["Actual Rows"] == 256
        assert sum(rows_read(plan["Plan"])) < 10 * 1_000

    async def test_the_size_up_to_which_it_compares_exactly_is_measured(self, pool: PostgresPool, postgres_url: str):
        """On this server, for vectors of this length: twice the time is more rows, longer vectors are fewer."""
        quick, patient = PgVectorEngine(pool, exact_milliseconds=5), PgVectorEngine(pool, exact_milliseconds=500)
        await quick.connect()

        few, many, short = await quick.exact_up_to(384), await patient.exact_up_to(384), await patient.exact_up_to(8)

        assert 0 < 10 * few < many < short
        assert run(postgres_url, "SELECT count(*) FROM threadkeep_vectors.vectors_384") == [(0,)]

    async def test_long_vectors_are_kept_in_half_precision(self, pool: PostgresPool, postgres_url: str):
        """Above 2,000 numbers; the cosines are those of three decimals."""
        engine = PgVectorEngine(pool)
        await engine.connect()
        entries, space = random_entries(20, dims=3_072), Space("long", 3_072)
        await fill(engine, entries, space=space)

        found = await engine.search(ANA, entries[4].vectors[0], limit=20)

        assert found[0].key == "000004"
        assert [near.cosine for near in found] == pytest.approx(
            sorted((float(one.vectors[0] @ entries[4].vectors[0]) for one in entries), reverse=True), abs=2e-3
        )
        (kind,) = run(postgres_url, "SELECT pg_typeof(vector)::text FROM threadkeep_vectors.vectors_3072 LIMIT 1")[0]
        assert kind == "halfvec"

    async def test_an_erasure_drops_rows_and_index(self, pool: PostgresPool, postgres_url: str):
        """Of every space."""
        engine = PgVectorEngine(pool, exact_milliseconds=0)
        await engine.connect()
        await fill(engine, random_entries(2_100))
        await engine.indexing()

        await engine.erase(ANA)

        assert run(postgres_url, "SELECT count(*) FROM threadkeep_vectors.vectors_8") == [(0,)]
        assert run(postgres_url, "SELECT count(*) FROM pg_class WHERE relname LIKE 'hnsw%'") == [(0,)]


class TestRights:
    async def test_a_login_sees_the_rows_of_the_partition_it_has_named(self, pool: PostgresPool, postgres_url: str):
        """Without a superuser's rights: nothing before it has named one."""
        engine = PgVectorEngine(pool)
        await engine.connect()
        await fill(engine, [entry("a", unit(1))])
        run(
            postgres_url,
            "CREATE ROLE stranger LOGIN PASSWORD 'x'",
            "GRANT USAGE ON SCHEMA threadkeep_vectors TO stranger",
            "GRANT SELECT ON ALL TABLES IN SCHEMA threadkeep_vectors TO stranger",
        )
        try:
            with psycopg.connect(postgres_url, user="stranger", password="x") as connection:
                assert connection.execute("SELECT count(*) FROM threadkeep_vectors.vectors_8").fetchone() == (0,)
                assert connection.execute("SELECT count(*) FROM threadkeep_vectors.copies").fetchone() == (0,)
        finally:
            run(postgres_url, "DROP OWNED BY stranger", "DROP ROLE stranger")

    async def test_a_crash_within_an_update_leaves_it_undone(self, pool: PostgresPool, postgres_url: str):
        """Rows and position are one transaction."""
        engine = PgVectorEngine(pool)
        await engine.connect()
        await fill(engine, [entry("a", unit(1))])

        def breaking():
            yield entry("b", unit(1))
            raise VectorEngineError("killed here")

        with pytest.raises(VectorEngineError, match="killed here"):
            await engine.apply(VectorUpdate(ANA, SPACE, at(1), at(2), reset=True, puts=breaking()))

        assert await engine.position(ANA, SPACE) == at(1)
        assert await keys(engine, unit(1)) == ["a"]

    async def test_read_only_database_is_reported(self, postgres_url: str):
        """With what to do."""
        pool = PostgresPool(postgres_url, migrate="check")

        with pytest.raises(VectorEngineError, match="THREADKEEP_MIGRATE=auto"):
            await PgVectorEngine(pool).connect()
        await pool.close()
