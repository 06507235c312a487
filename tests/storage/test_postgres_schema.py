"""The schema is made by whoever comes first, changed step by step, and refused where this code cannot serve it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.processes import PIPE, start_python
from tests.servers import empty_postgres_database
from tests.storage.postgres_world import ANA, NOTES, as_user, commit, connected, database_of, get, make_user, note, run
from threadkeep.errors import (
    NotAStorageError,
    StorageDeniedError,
    StorageError,
    StorageReadOnlyError,
    StorageVersionError,
)
from threadkeep.storage.encoding import encode_namespace, encode_text, partition_key
from threadkeep.storage.interface import Partition
from threadkeep.storage.postgres.pool import PostgresPool
from threadkeep.storage.postgres.schema import (
    SCHEMA_VERSION,
    AppliedMigration,
    Migration,
    PostgresSchema,
    needed_migrations,
    shipped_migrations,
)
from threadkeep.storage.postgres.storage import _places
from threadkeep.storage.rows import to_row_key

ROOT = Path(__file__).parents[2]
NEXT = SCHEMA_VERSION + 1
ADD = Migration(NEXT, "pre", "ALTER TABLE threadkeep.items ADD COLUMN colour text;\n")
INDEX = Migration(
    NEXT,
    "pre",
    "-- outside a transaction\n"
    "DROP INDEX CONCURRENTLY IF EXISTS threadkeep.items_by_colour;\n"
    "CREATE INDEX CONCURRENTLY items_by_colour ON threadkeep.items (dims);\n",
)
REMOVE = Migration(NEXT, "post", "ALTER TABLE threadkeep.items DROP COLUMN colour;\n")


async def refusal(url: str, **options: object) -> StorageError:
    with pytest.raises(StorageError) as refused:
        async with connected(url, **options):
            pass
    return refused.value


async def set_up(url: str, *, code: int, migrations: list[Migration]) -> None:
    pool = PostgresPool(url)
    try:
        await pool.open()
        await PostgresSchema(pool, code=code, migrations=migrations).ready()
    finally:
        await pool.close()


def columns(url: str) -> set[str]:
    asked = "SELECT column_name FROM information_schema.columns WHERE table_name = 'items'"
    return {name for (name,) in run(url, asked)}


def stages(url: str) -> list[tuple[int, str, bool]]:
    rows = run(url, "SELECT version, stage, done_at IS NOT NULL FROM threadkeep.migrations ORDER BY 1, 2")
    return [(version, stage, done) for version, stage, done in rows]


def functions(url: str) -> set[str]:
    asked = "SELECT proname FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE nspname = 'threadkeep'"
    return {name for (name,) in run(url, asked)}


def definitions(url: str) -> list[tuple[object, ...]]:
    """Return the columns of every table and the source of every function."""
    return [
        *run(
            url,
            "SELECT table_name, ordinal_position, column_name, data_type, is_nullable, collation_name "
            "FROM information_schema.columns WHERE table_schema = 'threadkeep' ORDER BY 1, 2",
        ),
        *run(
            url,
            "SELECT proname, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid), prosrc FROM pg_proc p "
            "JOIN pg_namespace n ON n.oid = p.pronamespace WHERE nspname = 'threadkeep' ORDER BY 1, 2",
        ),
    ]


def make_version_1(url: str) -> None:
    """Create the schema as version 1 did, with one item of ANA's."""
    script = (Path(__file__).with_name("schemas") / "postgres_1.sql").read_text(encoding="utf-8")
    digest = partition_key(encode_text(""), ANA.digest)
    (place,) = _places([to_row_key(NOTES, "1")]) or []
    deployment = hashlib.sha256(encode_text("").encode()).hexdigest()
    shard = int.from_bytes(digest[:8], signed=True)
    run(
        url,
        "CREATE SCHEMA threadkeep",
        script.replace("/* BY HASH */", "").replace("/* PARTITIONS */", ""),
        "INSERT INTO threadkeep.birth (epoch) VALUES ('born')",
        "INSERT INTO threadkeep.migrations (version, stage, serves, done_at) VALUES (1, 'base', 1, now())",
        "INSERT INTO threadkeep.partitions (digest, deployment, key_prefix, kind, parts, epoch, sequence, "
        "floor, logged) "
        f"VALUES ('\\x{digest.hex()}', '\\x{deployment}', '\"\"', 'owner', '[\"\", \"ana\"]', 'born', 1, 0, 0)",
        "INSERT INTO threadkeep.items (partition, place, shard, searched, namespace, key, value, revision, created_at, "
        f"updated_at, paths) VALUES ('\\x{digest.hex()}', '\\x{place.hex()}', {shard}, {shard}, "
        f"'{encode_namespace(NOTES)}', '\"1\"', '{{\"data\":\"likes tea\"}}', 1, 0, 0, '[\"data\"]')",
    )


class TestMaking:
    @pytest.mark.slow
    @pytest.mark.parametrize("processes", [4, pytest.param(8, marks=pytest.mark.soak)])
    def test_processes_start_at_once_on_an_empty_database_and_race_for_one_owner(
        self, postgres_url: str, processes: int
    ):
        """Each makes or finds the tables, and adds 10 to a counter by expectations: none of its steps is lost."""
        racer = ("-m", "tests.storage.postgres_racer", postgres_url)
        started = [start_python(*racer, cwd=ROOT, stderr=PIPE) for _ in range(processes)]
        said = [process.communicate()[1] for process in started]

        assert [process.returncode for process in started] == [0] * processes, "".join(said)
        asked = "SELECT i.value, i.revision, p.sequence FROM threadkeep.items i JOIN threadkeep.partitions p ON true"
        assert run(postgres_url, asked) == [(f'{{"count":{10 * processes}}}', 10 * processes, 10 * processes)]

    async def test_check_makes_nothing(self, postgres_url: str):
        refused = await refusal(postgres_url, migrate="check")

        assert isinstance(refused, StorageVersionError)
        assert "THREADKEEP_MIGRATE=auto" in str(refused)
        assert run(postgres_url, "SELECT FROM pg_namespace WHERE nspname = 'threadkeep'") == []

    async def test_check_works_on_what_was_made(self, postgres_url: str):
        async with connected(postgres_url) as storage:
            await commit(storage, note("1"))

        async with connected(postgres_url, migrate="check") as storage:
            assert await get(storage, "1")

    async def test_a_schema_that_holds_something_else_is_not_touched(self, postgres_url: str):
        run(postgres_url, "CREATE SCHEMA threadkeep", "CREATE TABLE threadkeep.items (n int)")

        assert isinstance(await refusal(postgres_url), NotAStorageError)
        assert columns(postgres_url) == {"n"}

    async def test_a_schema_that_lost_a_table_says_which(self, postgres_url: str):
        async with connected(postgres_url):
            pass
        run(postgres_url, "DROP TABLE threadkeep.removals")

        assert "lacks the table threadkeep.removals" in str(await refusal(postgres_url))

    async def test_a_table_lost_while_it_is_open_is_one_sentence(self, postgres_url: str):
        async with connected(postgres_url) as storage:
            run(postgres_url, "DROP TABLE threadkeep.items CASCADE")

            with pytest.raises(StorageError, match="restore it from a backup"):
                await commit(storage, note("1"))

    async def test_a_database_that_cannot_be_written_to_is_refused(self, postgres_url: str):
        run(postgres_url, f'ALTER DATABASE "{database_of(postgres_url)}" SET default_transaction_read_only = on')

        assert isinstance(await refusal(postgres_url), StorageReadOnlyError)


class TestMigrating:
    async def test_pre_runs_before_the_new_code_and_post_with_the_code_after(self, postgres_url: str):
        migrations = [REMOVE, ADD]
        await set_up(postgres_url, code=SCHEMA_VERSION, migrations=[])

        await set_up(postgres_url, code=NEXT, migrations=migrations)
        assert "colour" in columns(postgres_url)
        await set_up(postgres_url, code=NEXT + 1, migrations=migrations)

        assert "colour" not in columns(postgres_url)
        assert stages(postgres_url) == [(SCHEMA_VERSION, "base", True), (NEXT, "post", True), (NEXT, "pre", True)]

    async def test_the_code_before_goes_on_and_the_one_before_that_does_not(self, postgres_url: str):
        await set_up(postgres_url, code=SCHEMA_VERSION, migrations=[])
        await set_up(postgres_url, code=NEXT, migrations=[ADD, REMOVE])

        async with connected(postgres_url) as storage:
            await commit(storage, note("1"))

        await set_up(postgres_url, code=NEXT + 1, migrations=[ADD, REMOVE])
        refused = await refusal(postgres_url)
        assert isinstance(refused, StorageVersionError)
        assert "newer Threadkeep" in str(refused)

    async def test_what_fails_changes_nothing_and_can_be_tried_again(self, postgres_url: str):
        await set_up(postgres_url, code=SCHEMA_VERSION, migrations=[])
        broken = Migration(NEXT, "pre", f"{ADD.script} SELECT nonsense;")

        with pytest.raises(StorageError, match="nonsense"):
            await set_up(postgres_url, code=NEXT, migrations=[broken])
        assert "colour" not in columns(postgres_url)

        await set_up(postgres_url, code=NEXT, migrations=[ADD])
        assert "colour" in columns(postgres_url)

    async def test_what_broke_off_outside_a_transaction_is_said_and_finished(self, postgres_url: str):
        await set_up(postgres_url, code=SCHEMA_VERSION, migrations=[])
        broken = Migration(NEXT, "pre", f"{INDEX.script}SELECT nonsense;\n")

        with pytest.raises(StorageVersionError, match=r"failed halfway .*nonsense.* start again to finish it"):
            await set_up(postgres_url, code=NEXT, migrations=[broken])
        assert stages(postgres_url)[-1] == (NEXT, "pre", False)

        await set_up(postgres_url, code=NEXT, migrations=[INDEX])
        assert stages(postgres_url)[-1] == (NEXT, "pre", True)

    async def test_check_wants_pre_and_does_without_post(self, postgres_url: str):
        await set_up(postgres_url, code=SCHEMA_VERSION, migrations=[])
        pool = PostgresPool(postgres_url, migrate="check")
        await pool.open()

        with pytest.raises(StorageVersionError, match="older than this Threadkeep needs"):
            await PostgresSchema(pool, code=NEXT, migrations=[ADD]).ready()
        await PostgresSchema(pool, code=NEXT, migrations=[Migration(SCHEMA_VERSION, "post", "SELECT 1;")]).ready()

        await pool.close()

    async def test_a_half_made_schema_of_this_code_is_refused(self, postgres_url: str):
        async with connected(postgres_url):
            pass
        run(postgres_url, "UPDATE threadkeep.migrations SET done_at = NULL")

        assert "failed halfway" in str(await refusal(postgres_url))

    def test_a_schema_serves_its_code_and_the_one_before(self):
        applied = [
            AppliedMigration(1, "base", 1, done=True),
            AppliedMigration(2, "pre", 1, done=True),
            AppliedMigration(3, "pre", 2, done=False),
        ]

        assert needed_migrations(applied, [], code=1, where="here") == []
        with pytest.raises(StorageVersionError):
            needed_migrations([*applied, AppliedMigration(2, "post", 2, done=True)], [], code=1, where="here")

    def test_versions_are_not_skipped(self):
        second, removal = Migration(2, "pre", "SELECT 2;"), Migration(2, "post", "SELECT 2;")
        third = Migration(3, "pre", "SELECT 3;")

        assert needed_migrations(
            [AppliedMigration(1, "base", 1, done=True)], [third, removal, second], code=3, where=""
        ) == [second, removal, third]


class TestMigratingFromVersion1:
    """A database of version 1, with an item, is migrated by the first connection."""

    async def test_items_stay_and_take_data(self, postgres_url: str):
        make_version_1(postgres_url)

        async with connected(postgres_url) as storage:
            old = await get(storage, "1")
            await commit(storage, note("2", data=b"bytes"))
            new = await get(storage, "2")

        assert old is not None
        assert (old.value, old.data) == ({"data": "likes tea"}, None)
        assert new is not None
        assert (new.value, new.data, new.revision) == ({"data": "likes tea"}, b"bytes", 2)
        assert stages(postgres_url) == [(1, "base", True), (2, "pre", True)]

    async def test_the_code_before_goes_on_until_the_code_after_migrates(self, postgres_url: str):
        make_version_1(postgres_url)
        async with connected(postgres_url):
            pass
        assert {"commit", "follow"} <= functions(postgres_url)

        await set_up(postgres_url, code=3, migrations=shipped_migrations())

        assert not {"commit", "follow"} & functions(postgres_url)
        async with connected(postgres_url) as storage:
            await commit(storage, note("2"))

    async def test_a_migrated_schema_is_like_a_new_one(self, postgres_url: str, postgres_server: str):
        new_url = empty_postgres_database(postgres_server)
        async with connected(new_url):
            pass
        make_version_1(postgres_url)

        await set_up(postgres_url, code=3, migrations=shipped_migrations())

        assert functions(postgres_url) == functions(new_url)
        assert definitions(postgres_url) == definitions(new_url)


class TestRights:
    async def test_a_user_who_may_make_roles_makes_them(self, postgres_url: str):
        url = make_user(postgres_url, "CREATEROLE")

        async with connected(url) as storage:
            await commit(storage, note("1"))
            assert await get(storage, "1")

    async def test_a_user_who_may_not_works_without(self, postgres_url: str):
        async with connected(make_user(postgres_url)) as storage:
            await commit(storage, note("1"))
            assert (await storage.stats()).items == 1

    async def test_missing_privilege_names_the_grants(self, postgres_url: str):
        refused = await refusal(make_user(postgres_url, create=False))

        assert isinstance(refused, StorageDeniedError)
        assert "CREATE SCHEMA threadkeep AUTHORIZATION" in str(refused)

    async def test_and_works_in_a_schema_that_was_made_for_them(self, postgres_url: str):
        url = make_user(postgres_url, create=False)
        user = url.split("//")[1].split("@")[0]
        run(postgres_url, f'CREATE SCHEMA threadkeep AUTHORIZATION "{user}"')

        async with connected(url) as storage:
            await commit(storage, note("1"))

    async def test_one_who_passes_over_the_policies_and_has_no_roles_is_refused(self, postgres_url: str):
        refused = await refusal(make_user(postgres_url, "BYPASSRLS"))

        assert isinstance(refused, StorageDeniedError)
        assert "GRANT threadkeep_app, threadkeep_service TO" in str(refused)

    async def test_another_user_than_the_owner_needs_the_roles_and_nothing_else(self, postgres_url: str):
        async with connected(postgres_url) as storage:
            await commit(storage, note("1"))
        url = make_user(postgres_url, create=False)
        user = url.split("//")[1].split("@")[0]

        assert "GRANT threadkeep_app, threadkeep_service TO" in str(await refusal(url))
        run(postgres_url, f'GRANT threadkeep_app, threadkeep_service TO "{user}"')

        async with connected(url, migrate="check") as storage:
            assert await get(storage, "1")
            assert await storage.erase(ANA) == 1

    async def test_a_right_that_was_taken_away_is_named(self, postgres_url: str):
        async with connected(postgres_url) as storage:
            run(postgres_url, "REVOKE INSERT ON threadkeep.items FROM threadkeep_app")

            with pytest.raises(StorageDeniedError, match="permission denied for table items"):
                await commit(storage, note("1"))

    async def test_two_users_of_one_server_each_work_in_their_database(self, postgres_server: str):
        """The roles belong to whoever came first; the second one does without."""
        for _ in range(2):
            async with connected(make_user(empty_postgres_database(postgres_server), "CREATEROLE")) as storage:
                await commit(storage, note("1"))
                assert (await storage.stats()).items == 1

    async def test_an_unknown_user_is_refused(self, postgres_url: str):
        assert isinstance(await refusal(as_user(postgres_url, "nobody_here")), StorageDeniedError)


class TestHashPartitions:
    async def test_items_are_spread(self, postgres_url: str):
        async with connected(postgres_url, hash_partitions=4) as storage:
            for number in range(40):
                await commit(storage, note("1"), partition=Partition("owner", ("", f"{number}")))

            sizes = [run(postgres_url, f"SELECT count(*) FROM threadkeep.items_{n}")[0][0] for n in range(4)]

            assert sum(sizes) == (await storage.stats()).items == 40
            assert all(sizes)
