"""The database itself keeps owners apart: a statement of ours that forgot its WHERE would find nothing of others."""

from __future__ import annotations

import psycopg
import pytest

from tests.storage.postgres_world import ANA, BOB, NOTES, commit, connected, get, make_user, note, run
from threadkeep.errors import StorageError
from threadkeep.storage.encoding import encode_text, partition_key
from threadkeep.storage.interface import Delete, Due, Partition, Storage
from threadkeep.testing.clock import FrozenClock

TABLES = ("partitions", "items", "removals")
APP = "SET LOCAL ROLE threadkeep_app"


def enter(partition: Partition) -> str:
    digest = partition_key(encode_text(""), partition.digest).hex()
    return f"SELECT set_config('threadkeep.partition', '{digest}', true)"


async def fill(storage: Storage) -> None:
    for partition in (ANA, BOB):
        await commit(storage, note("1"), note("2"), partition=partition)
        await commit(storage, note("3"), partition=partition)
        await commit(storage, Delete(NOTES, "1"), partition=partition)


@pytest.fixture(params=["superuser", "plain user"])
async def filled_url(request: pytest.FixtureRequest, postgres_url: str) -> str:
    """A database with what Ana and Bob have, made by each kind of user."""
    url = postgres_url if request.param == "superuser" else make_user(postgres_url)
    async with connected(url) as storage:
        await fill(storage)
    return url


def as_app(url: str) -> list[str]:
    """Return what begins a transaction of the application's; the plain user has no roles to take on."""
    return [APP] if "postgres@" in url else []


class TestRawStatements:
    @pytest.mark.parametrize("table", TABLES)
    async def test_without_a_partition_there_is_nothing(self, filled_url: str, table: str):
        assert run(filled_url, *as_app(filled_url), f"SELECT count(*) FROM threadkeep.{table}") == [(0,)]

    @pytest.mark.parametrize("table", TABLES)
    async def test_in_a_partition_there_is_that_one_only(self, filled_url: str, table: str):
        column = "digest" if table == "partitions" else "partition"
        asked = f"SELECT DISTINCT encode({column}, 'hex') FROM threadkeep.{table}"

        found = run(filled_url, *as_app(filled_url), enter(ANA), asked)

        assert found == [(partition_key(encode_text(""), ANA.digest).hex(),)]

    async def test_another_s_rows_can_neither_be_changed_nor_removed_nor_added(self, filled_url: str):
        begun = [*as_app(filled_url), enter(ANA)]
        bobs = f"'\\x{partition_key(encode_text(''), BOB.digest).hex()}'"

        for change in ("DELETE FROM threadkeep.items", "UPDATE threadkeep.items SET value = '{}'"):
            assert run(filled_url, *begun, f"{change} WHERE partition = {bobs} RETURNING key") == []
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
            run(filled_url, *begun, f"UPDATE threadkeep.items SET partition = {bobs}")

    async def test_the_application_cannot_make_itself_the_service(self, postgres_url: str):
        async with connected(postgres_url) as storage:
            await fill(storage)

        pretended = "SELECT set_config('threadkeep.service', 'on', true)"
        assert run(postgres_url, APP, pretended, "SELECT count(*) FROM threadkeep.items") == [(0,)]
        service = ("SET LOCAL ROLE threadkeep_service", pretended)
        assert run(postgres_url, *service, "SELECT count(*) FROM threadkeep.items") == [(4,)]

    async def test_a_partition_that_is_none_is_none_s(self, filled_url: str):
        for setting in ("", "00", "not hex"):
            begun = [*as_app(filled_url), f"SELECT set_config('threadkeep.partition', '{setting}', true)"]
            try:
                assert run(filled_url, *begun, "SELECT count(*) FROM threadkeep.items") == [(0,)]
            except psycopg.DataError:
                assert setting == "not hex"


class TestStatementsOfOurs:
    async def test_the_policies_hold_a_superuser_s_storage(self, postgres_url: str, clock: FrozenClock):
        """Were they not in force, taking them away would not matter."""
        async with connected(postgres_url, clock=clock) as storage:
            await commit(storage, note("1", due=Due("work", clock.now())))
            before = await storage.position(ANA)
            run(postgres_url, "DROP POLICY of_one_partition ON threadkeep.items")

            assert await get(storage, "1") is None
            assert (await storage.scan(ANA)).items == ()
            assert (await storage.changes(ANA, None)).puts == ()
            assert await storage.namespaces() == ()
            assert await storage.due("work", now=clock.now(), limit=10) == ()
            assert (await storage.stats()).items == 0
            with pytest.raises(StorageError, match="row-level security"):
                await commit(storage, note("2"))
            assert await storage.position(ANA) == before

    async def test_nothing_is_left_in_the_session(self, filled_url: str, clock: FrozenClock):
        async with connected(filled_url, size=1, clock=clock) as storage:
            await commit(storage, note("4"))
            await storage.get([])
            await storage.changes(ANA, None)
            await storage.namespaces()
            await storage.sweep(now=clock.now())
            async with storage.pool.connection() as connection:
                asked = (
                    "SELECT current_user = session_user, current_setting('threadkeep.partition', true), "
                    "current_setting('threadkeep.service', true), current_setting('enable_seqscan'), "
                    "current_setting('statement_timeout'), (SELECT count(*) FROM pg_prepared_statements)"
                )
                (left,) = await (await connection.execute(asked.encode())).fetchall()

        assert left == (True, "", "", "on", "0", 0)

    async def test_a_user_id_is_in_no_message(self, postgres_url: str):
        async with connected(postgres_url) as storage:
            run(postgres_url, "REVOKE ALL ON threadkeep.items FROM threadkeep_app")
            with pytest.raises(StorageError) as refused:
                await commit(storage, note("secret-key", {"data": "secret-text"}))

        assert "secret" not in f"{refused.value} {refused.value.details}"


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()
