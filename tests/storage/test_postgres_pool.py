"""One pool for the storage and the checkpointer: what it lends, how it fails, and that it comes back by itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import sql

from tests.fakes.faults import FaultProxy
from threadkeep.errors import (
    ClosedError,
    SettingsError,
    StorageDeniedError,
    StorageError,
    StorageReadOnlyError,
    StorageUnavailableError,
    ThreadkeepError,
)
from threadkeep.storage.postgres.pool import Connection, PostgresPool


@asynccontextmanager
async def opened(url: str, **options: Any) -> AsyncIterator[PostgresPool]:
    pool = PostgresPool(url, **options)
    try:
        await pool.open()
        yield pool
    finally:
        await pool.close()


@pytest.fixture
def proxy(postgres_url: str) -> Iterator[FaultProxy]:
    with FaultProxy(urlsplit(postgres_url).port or 0) as proxy:
        yield proxy


async def one(connection: Connection) -> int:
    ((number,),) = await (await connection.execute("SELECT 1")).fetchall()
    return number


async def refusal(url: str) -> ThreadkeepError:
    with pytest.raises(StorageError) as refused:
        async with opened(url):
            pass
    return refused.value


class TestLending:
    async def test_it_lends_what_needs_no_session(self, postgres_url: str):
        async with opened(postgres_url) as pool, pool.connection() as connection:
            assert connection.autocommit
            assert connection.prepare_threshold is None

    async def test_it_opens_once_however_many_ask(self, postgres_url: str):
        pool = PostgresPool(postgres_url)

        await asyncio.gather(*(pool.open() for _ in range(5)))

        assert await pool.run(one) == 1
        await pool.close()
        await pool.close()

    async def test_a_closed_one_says_so(self, postgres_url: str):
        pool = PostgresPool(postgres_url)
        with pytest.raises(ClosedError, match="connect"):
            await pool.run(one)
        await pool.open()
        await pool.close()

        for attempt in (pool.run(one), pool.open()):
            with pytest.raises(ClosedError, match="closed"):
                await attempt

    @pytest.mark.timeout(120)
    async def test_closing_cuts_what_takes_long(self, postgres_url: str, proxy: FaultProxy):
        """Maintenance may take minutes, and a server that stalled never answers; a process ends all the same."""
        pool = PostgresPool(proxy.url_of(postgres_url))
        await pool.open()
        began = asyncio.Event()

        async def maintain(connection: Connection) -> None:
            began.set()
            await connection.execute("SELECT pg_sleep(600)")

        running = asyncio.create_task(pool.run(maintain, seconds=600))
        await began.wait()
        proxy.stall()

        await pool.close()

        with pytest.raises(ClosedError):
            await running

    async def test_waiting_for_a_full_pool_raises(self, postgres_url: str):
        async with opened(postgres_url, size=1, wait_timeout=timedelta(milliseconds=500)) as pool:
            async with pool.connection():
                with pytest.raises(
                    StorageUnavailableError, match=r"All 1 connections .* THREADKEEP_POSTGRES_POOL_SIZE"
                ):
                    await pool.run(one)
            assert await pool.run(one) == 1

    async def test_one_that_is_slow_to_come_about_can_be_waited_for(self, postgres_url: str, proxy: FaultProxy):
        async with opened(proxy.url_of(postgres_url), size=1, wait_timeout=timedelta(milliseconds=300)) as pool:
            await pool.run(one)  # on the only connection: none is being made when all are cut
            proxy.stall()
            proxy.cut()

            with pytest.raises(StorageUnavailableError, match=r"no connection .* THREADKEEP_POSTGRES_WAIT_MS"):
                await pool.run(one)

            proxy.flow()

    async def test_an_error_inside_leaves_the_connection_fit_for_the_next(self, postgres_url: str):
        async def wrong(connection: Connection) -> None:
            await connection.execute("BEGIN")
            await connection.execute("SELECT nonsense")

        async with opened(postgres_url, size=1) as pool:
            with pytest.raises(StorageError, match="nonsense"):
                await pool.run(wrong)

            assert await pool.run(one) == 1


class TestSettingUp:
    async def test_one_at_a_time(self, postgres_url: str):
        inside = most = 0

        async def set_up() -> None:
            nonlocal inside, most
            async with opened(postgres_url) as pool, pool.setting_up() as connection:
                inside += 1
                most = max(most, inside)
                await connection.execute("CREATE TABLE IF NOT EXISTS made (n int)")
                await connection.execute("CREATE INDEX CONCURRENTLY IF NOT EXISTS made_by_n ON made (n)")
                inside -= 1

        await asyncio.gather(*(set_up() for _ in range(4)))

        assert most == 1

    async def test_failed_caller_returns_its_place(self, postgres_url: str):
        async with opened(postgres_url) as pool:
            with pytest.raises(StorageError, match="nonsense"):
                async with pool.setting_up() as connection:
                    await connection.execute("SELECT nonsense")

            async with pool.setting_up() as connection:
                assert await one(connection) == 1


class TestBreaking:
    async def test_what_reads_goes_on_on_a_new_connection(self, postgres_url: str, proxy: FaultProxy):
        async with opened(proxy.url_of(postgres_url), size=3) as pool:
            await asyncio.gather(*(pool.run(one) for _ in range(20)))
            proxy.cut()

            assert await asyncio.gather(*(pool.run(one) for _ in range(20))) == [1] * 20

    async def test_what_may_have_been_done_is_not_done_again(self, postgres_url: str, proxy: FaultProxy):
        times = 0

        async def work(connection: Connection) -> None:
            nonlocal times
            times += 1
            await connection.execute("SELECT 'here'")

        async with opened(proxy.url_of(postgres_url)) as pool:
            proxy.cut_at(b"here", delivered=True)
            with pytest.raises(StorageUnavailableError, match="try again"):
                await pool.run(work, repeatable=lambda: False)

        assert times == 1

    async def test_a_server_that_stalls_is_given_up(self, postgres_url: str, proxy: FaultProxy):
        async with opened(proxy.url_of(postgres_url)) as pool:
            await pool.run(one)
            proxy.stall()
            with pytest.raises(StorageUnavailableError, match=r"no answer within 1\.05 seconds"):
                await pool.run(one, seconds=0.05)
            proxy.flow()

            assert await pool.run(one) == 1

    async def test_who_stops_waiting_for_a_stalled_server_is_let_go_at_once(self, postgres_url: str, proxy: FaultProxy):
        """The driver alone would wait for the answer to its cancellation: a turn would stand still for seconds."""
        async with opened(proxy.url_of(postgres_url), statement_timeout=timedelta(seconds=20)) as pool:
            await pool.run(one)
            proxy.stall()
            waiting = asyncio.create_task(pool.run(one))
            await asyncio.wait([waiting], timeout=0.05)

            waiting.cancel()
            done, _ = await asyncio.wait([waiting], timeout=2)
            proxy.flow()

            assert done
            assert waiting.cancelled()
            assert await pool.run(one) == 1

    async def test_a_statement_that_takes_too_long_is_cancelled_there(self, postgres_url: str):
        async def sleep(connection: Connection) -> None:
            await connection.execute("SELECT pg_sleep(60)")

        async def asleep(connection: Connection) -> int:
            asked = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(60)' AND state = 'active'"
            ((number,),) = await (await connection.execute(asked)).fetchall()
            return number

        async with opened(postgres_url, statement_timeout=timedelta(milliseconds=50)) as pool:
            with pytest.raises(StorageUnavailableError, match="THREADKEEP_POSTGRES_STATEMENT_TIMEOUT_MS"):
                await pool.run(sleep)

            assert await pool.run(asleep, seconds=5) == 0

    async def test_one_that_is_away_and_comes_back_is_found_at_once(self, postgres_url: str, proxy: FaultProxy):
        async with opened(proxy.url_of(postgres_url), wait_timeout=timedelta(milliseconds=100)) as pool:
            await pool.run(one)
            proxy.refuse()
            for _ in range(3):
                with pytest.raises(StorageUnavailableError, match="cannot be reached"):
                    await pool.run(one)
            proxy.accept()

            async with asyncio.timeout(5):
                while True:
                    try:
                        assert await pool.run(one) == 1
                        break
                    except StorageUnavailableError:
                        await asyncio.sleep(0.01)


class TestRefusals:
    """Each is one sentence that names what to do, and none holds a password."""

    async def test_server_is_missing(self, postgres_url: str, proxy: FaultProxy):
        proxy.refuse()

        refused = await refusal(proxy.url_of(postgres_url))

        assert isinstance(refused, StorageUnavailableError)
        assert "cannot be reached" in str(refused)

    async def test_no_such_host(self):
        assert "cannot be reached" in str(await refusal("postgresql://ana:sesame@nowhere.invalid/db"))

    async def test_no_such_database(self, postgres_server: str):
        refused = await refusal(f"{postgres_server.rpartition('/')[0]}/no_such_database")

        assert "create it" in str(refused)

    async def test_no_such_user(self, postgres_url: str):
        refused = await refusal(postgres_url.replace("postgres@", "nobody_here:sesame@"))

        assert isinstance(refused, StorageDeniedError)
        assert "sesame" not in f"{refused} {refused.details} {refused.__cause__}"

    async def test_no_tls(self, postgres_url: str):
        assert "No TLS connection" in str(await refusal(f"{postgres_url}?sslmode=require"))

    async def test_a_replica_where_a_primary_is_asked_for(self, postgres_url: str):
        name = urlsplit(postgres_url).path.removeprefix("/")
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            read_only = sql.SQL("ALTER DATABASE {} SET default_transaction_read_only = on")
            connection.execute(read_only.format(sql.Identifier(name)))

        assert isinstance(await refusal(f"{postgres_url}?target_session_attrs=read-write"), StorageReadOnlyError)

    @pytest.mark.parametrize(
        "dsn",
        ["postgresql://ana:ses%ame@db/x", "postgresql://ana:sesame@db/x?sesame=1", "sesame", "host='sesame"],
    )
    def test_what_is_no_dsn(self, dsn: str):
        with pytest.raises(SettingsError, match=r"LANGGRAPH_STORE_POSTGRES_DSN .* %25") as refused:
            PostgresPool(dsn)

        assert "ame" not in str(refused.value).replace("name", "")
        assert refused.value.__cause__ is None
        assert refused.value.__suppress_context__

    @pytest.mark.parametrize(
        ("dsn", "location"),
        [
            ("postgresql://ana:p%25w@db:5433/memory?sslmode=disable", "postgresql://ana@db:5433/memory"),
            ("postgres:///memory", "postgresql://localhost/memory"),
            ("host=a,b user=ana password=sesame dbname=m", "postgresql://ana@a,b/m"),
        ],
    )
    def test_the_location_has_no_password(self, dsn: str, location: str):
        assert PostgresPool(dsn).location == location
