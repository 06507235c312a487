"""A server that breaks: nothing that was acknowledged is lost, nothing is applied twice, and it comes back by itself.

These tests have a server of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from tests.fakes.faults import FaultProxy
from tests.servers import empty_postgres_database
from tests.storage.postgres_world import ANA, NOTES, commit, connected, get, note, run
from threadkeep.errors import (
    RevisionConflictError,
    StorageDeniedError,
    StorageFullError,
    StorageUnavailableError,
)
from threadkeep.ids import new_id
from threadkeep.storage.interface import Ref
from threadkeep.storage.postgres.pool import PostgresPool
from threadkeep.storage.postgres.storage import PostgresStorage
from threadkeep.testing.clock import FrozenClock
from threadkeep_conformance.servers import PostgresServer

pytestmark = [pytest.mark.linux, pytest.mark.slow]

RECOVERY_SECONDS = 15.0
"""Three times what it may take, for machines that are busy."""


LONG = {"data": "".join(new_id() for _ in range(100_000))}


async def fill(storage: PostgresStorage) -> None:
    for number in range(20):
        await commit(storage, note(f"long{number}", LONG))


class CrampedServer(PostgresServer):
    """No file of it may grow beyond 17 MiB, as though the disk ended there; a segment of its log takes 16."""

    def command(self) -> list[str | Path]:
        return ["/bin/sh", "-c", 'ulimit -f 34816; exec "$0" "$@"', *super().command()]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer({"max_connections": "30", "superuser_reserved_connections": "0"}) as server:
        yield server


@pytest.fixture
def url(server: PostgresServer) -> str:
    return empty_postgres_database(server.url)


@pytest.fixture
def proxy(server: PostgresServer) -> Iterator[FaultProxy]:
    with FaultProxy(server.port) as proxy:
        yield proxy


@dataclass
class Writers:
    """Write new keys, each once however often it has to be tried.

    Attributes:
        acknowledged: The keys that were.
        failed: How many attempts were not.
    """

    storage: PostgresStorage
    acknowledged: list[str] = field(default_factory=list)
    failed: int = 0
    stopped: bool = False

    async def write(self) -> None:
        while not self.stopped:
            await self.once(new_id())

    async def once(self, key: str) -> None:
        async with asyncio.timeout(RECOVERY_SECONDS):
            while key not in self.acknowledged[-100:]:
                try:
                    await commit(self.storage, note(key, expect="absent"))
                except StorageUnavailableError:
                    self.failed += 1
                    await asyncio.sleep(0.02)
                    continue
                except RevisionConflictError:  # an attempt that failed had come through
                    pass
                self.acknowledged.append(key)

    async def until(self, *, more: int = 0, failures: int = 0) -> None:
        """Wait until so many more were acknowledged, and failed."""
        wanted, expected = len(self.acknowledged) + more, self.failed + failures
        async with asyncio.timeout(RECOVERY_SECONDS):
            while len(self.acknowledged) < wanted or self.failed < expected:
                await asyncio.sleep(0.01)

    async def check(self) -> None:
        """Check that each key is there, and that each commit moved the sequence by one."""
        found = await self.storage.get([Ref(ANA, NOTES, key) for key in self.acknowledged])
        assert all(found)
        assert (await self.storage.position(ANA)).sequence == len(self.acknowledged)
        assert (await self.storage.stats()).items == len(self.acknowledged)


@asynccontextmanager
async def writing(storage: PostgresStorage) -> AsyncIterator[Writers]:
    """Let eight writers write meanwhile; in the end everything must have been kept once."""
    writers = Writers(storage)
    tasks = [asyncio.ensure_future(writers.write()) for _ in range(8)]
    try:
        yield writers
    finally:
        writers.stopped = True
        await asyncio.gather(*tasks)
    await writers.check()


class TestUnderLoad:
    async def test_a_server_that_is_killed_and_comes_back(self, server: PostgresServer, url: str):
        async with connected(url, size=4) as storage, writing(storage) as writers:
            for _ in range(2):
                await writers.until(more=40)
                server.kill()
                await writers.until(failures=20)
                server.start()
                await writers.until(more=40)

    async def test_connections_that_are_cut_again_and_again(self, url: str, proxy: FaultProxy):
        async with connected(proxy.url_of(url), size=4) as storage, writing(storage) as writers:
            for turn in range(6):
                await writers.until(more=10)
                done = proxy.cut_at(b"threadkeep.commit", delivered=turn % 2 == 0)
                await writers.until(failures=1)
                assert done.is_set()
                proxy.cut()
            await writers.until(more=10)


class TestOneCommit:
    async def test_cut_before_the_server_has_it_nothing_is_written(self, url: str, proxy: FaultProxy):
        async with connected(proxy.url_of(url)) as storage:
            proxy.cut_at(b"threadkeep.commit", delivered=False)

            with pytest.raises(StorageUnavailableError):
                await commit(storage, note("1"))

            assert await get(storage, "1") is None
            assert (await commit(storage, note("1"))).sequence == 1

    async def test_cut_behind_it_the_commit_is_there_and_not_there_twice(self, url: str, proxy: FaultProxy):
        async with connected(proxy.url_of(url)) as storage:
            proxy.cut_at(b"threadkeep.commit", delivered=True)

            with pytest.raises(StorageUnavailableError):
                await commit(storage, note("1", expect="absent"))  # the server may come to it after the next one

            await Writers(storage).once("1")
            assert (await storage.position(ANA)).sequence == 1

    async def test_a_read_that_is_cut_is_repeated(self, url: str, proxy: FaultProxy):
        async with connected(proxy.url_of(url)) as storage:
            await storage.erase(ANA)  # so that all of them is asked for in parts, too
            await commit(storage, note("1"))
            for question in (b"threadkeep.get", b"threadkeep.scan", b"threadkeep.follow", b"searchable"):
                done = proxy.cut_at(question, delivered=True)
                assert await get(storage, "1")
                assert (await storage.scan(ANA)).items
                assert (await storage.changes(ANA, None)).puts
                assert done.is_set()


class TestStalling:
    async def test_a_stalled_server_is_given_up_and_found_again(self, server: PostgresServer, url: str):
        async with connected(url, statement_timeout=timedelta(milliseconds=100)) as storage:
            await commit(storage, note("1"))
            server.pause()
            try:
                with pytest.raises(StorageUnavailableError, match="no answer within"):
                    await get(storage, "1")
            finally:
                server.resume()

            await Writers(storage).once("2")
            assert await get(storage, "1")

    async def test_who_waits_for_another_session_s_lock_is_let_go(self, url: str):
        async with connected(url, statement_timeout=timedelta(milliseconds=100)) as storage:
            await commit(storage, note("1"))
            with psycopg.connect(url) as other:
                other.execute("SELECT FROM threadkeep.partitions FOR UPDATE")
                with pytest.raises(StorageUnavailableError, match="timed out"):
                    await commit(storage, note("2"))

            assert (await commit(storage, note("2"))).sequence == 2


class TestLimits:
    async def test_a_full_disk_is_named_and_nothing_is_lost(self):
        with CrampedServer() as cramped:
            async with connected(cramped.url) as storage:
                await commit(storage, note("1"))
                with pytest.raises(StorageFullError, match="Free some space"):
                    await fill(storage)

                await Writers(storage).once("2")
                assert await get(storage, "1")

    async def test_a_server_without_connections_left_says_what_to_do(self, url: str):
        with ExitStack() as stack:
            with suppress(psycopg.OperationalError):
                while True:
                    stack.enter_context(psycopg.connect(url))
            storage = PostgresStorage(PostgresPool(url), clock=FrozenClock())
            with pytest.raises(StorageUnavailableError, match="max_connections"):
                await storage.connect()


class TestPasswords:
    @pytest.fixture
    def locked_url(self, server: PostgresServer, url: str) -> str:
        """A database that one user needs a password for; ``{}`` stands in its place."""
        hosts = server.folder / "data" / "pg_hba.conf"
        rule = "host all locked 127.0.0.1/32 scram-sha-256\n"
        if rule not in hosts.read_text():
            hosts.write_text(rule + hosts.read_text())
            run(url, "CREATE ROLE locked SUPERUSER LOGIN PASSWORD 'p%w@/ü x'", "SELECT pg_reload_conf()")
        return url.replace("postgres@", "locked:{}@")

    async def test_any_password_can_be_spelled(self, locked_url: str):
        async with connected(locked_url.format("p%25w%40%2F%C3%BC%20x")) as storage:
            assert storage.location == locked_url.replace(":{}", "")
            await commit(storage, note("1"))

    @pytest.mark.parametrize("password", ["sesame", ""])
    async def test_a_wrong_one_is_refused_and_not_repeated(self, locked_url: str, password: str):
        with pytest.raises(StorageDeniedError, match="refused the password") as refused:
            async with connected(locked_url.format(password)):
                pass

        assert "sesame" not in f"{refused.value} {refused.value.details} {refused.value.__cause__}"

    async def test_one_that_changes_meanwhile_is_said_so(self, server: PostgresServer, locked_url: str):
        """The pool's own attempts fail in its log; who waits is told why."""
        async with connected(locked_url.format("p%25w%40%2F%C3%BC%20x")) as storage:
            run(server.url, "ALTER ROLE locked PASSWORD 'other'")
            try:
                run(server.url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'locked'")
                with pytest.raises(StorageDeniedError, match="refused the password"):
                    await get(storage, "1")
            finally:
                run(server.url, "ALTER ROLE locked PASSWORD 'p%w@/ü x'")
