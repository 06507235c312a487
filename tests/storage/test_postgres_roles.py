"""One user changes the tables, and another one, whom row-level security holds, reads and writes items."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import AsyncConnection

import threadkeep
from tests.command_line import CliRunner, Result
from tests.servers import empty_postgres_database
from tests.storage.postgres_world import ANA, commit, connected, get, make_user, note, run
from tests.storage.test_postgres_schema import make_version_1, stages
from threadkeep.cli.main import app
from threadkeep.errors import StorageDeniedError
from threadkeep.storage.postgres.pool import PostgresPool
from threadkeep.testing.clock import FrozenClock

RUNNING = "LANGGRAPH_STORE_POSTGRES_DSN"
OWNER = "THREADKEEP_MIGRATION_POSTGRES_DSN"


def migrate(monkeypatch: pytest.MonkeyPatch, running: str, owner: str | None, *words: str) -> Result:
    monkeypatch.setenv("LANGGRAPH_STORE_TYPE", "postgres")
    monkeypatch.setenv("LANGGRAPH_CHECKPOINT_TYPE", "postgres")
    monkeypatch.setenv(RUNNING, running)
    if owner is not None:
        monkeypatch.setenv(OWNER, owner)
    return CliRunner().invoke(app, ["migrate", *words], catch_exceptions=False)


@pytest.mark.slow
class TestTwoUsers:
    def test_the_running_one_can_change_no_table(
        self, postgres_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ):
        """It works, with ``THREADKEEP_MIGRATE=check``; each statement that changes a table is denied."""
        monkeypatch.chdir(tmp_path)
        owner, running = make_user(postgres_url, "CREATEROLE"), make_user(postgres_url, create=False)
        migrate(monkeypatch, running, empty_postgres_database(postgres_url))  # the roles are of the whole server
        run(postgres_url, f'GRANT threadkeep_app, threadkeep_service TO "{user_of(owner)}" WITH ADMIN OPTION')
        done = migrate(monkeypatch, running, owner)
        monkeypatch.setenv("THREADKEEP_MIGRATE", "check")

        with threadkeep.open(embedder="none") as tk:
            tk.sync.memories.remember("I live in Rome.", owner="ana")
            assert len(tk.sync.memories.list(owner="ana")) == 1

        assert f"{user_of(running)} may use it" in done.output
        for statement in (
            "CREATE TABLE threadkeep.more (n int)",
            "ALTER TABLE threadkeep.items ADD COLUMN more text",
            "ALTER TABLE threadkeep.items DISABLE ROW LEVEL SECURITY",
            "DROP TABLE threadkeep.removals",
            "DROP POLICY of_one_partition ON threadkeep.items",
            "CREATE OR REPLACE FUNCTION threadkeep.serves() RETURNS boolean LANGUAGE sql AS 'SELECT true'",
            "INSERT INTO threadkeep.migrations VALUES (9, 'base', 9)",
            "TRUNCATE threadkeep.items",
            "CREATE SCHEMA more",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                run(running, statement)
        assert migrate(monkeypatch, running, None, "--check").exit_code == 0

    def test_an_owner_without_rights_on_the_roles_says_what_to_run(
        self, postgres_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ):
        monkeypatch.chdir(tmp_path)
        owner, running = make_user(postgres_url), make_user(postgres_url, create=False)

        with pytest.raises(StorageDeniedError, match="GRANT threadkeep_app, threadkeep_service TO") as refused:
            migrate(monkeypatch, running, owner)
        for statement in str(refused.value).partition("as an administrator: ")[2].split("; "):
            run(postgres_url, statement)

        assert f"{user_of(running)} may use it" in migrate(monkeypatch, running, owner).output
        monkeypatch.setenv("THREADKEEP_MIGRATE", "check")
        assert migrate(monkeypatch, running, None, "--check").exit_code == 0

    def test_a_user_that_may_make_no_table_learns_which_variable_to_set(
        self, postgres_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ):
        monkeypatch.chdir(tmp_path)
        with pytest.raises(StorageDeniedError, match=f"set {OWNER}"):
            migrate(monkeypatch, make_user(postgres_url, create=False), None)

    def test_a_user_that_may_change_no_table_learns_which_variable_to_set(
        self, postgres_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ):
        """The tables are of an earlier version, and another user's."""
        monkeypatch.chdir(tmp_path)
        running = make_user(postgres_url, create=False)
        make_version_1(postgres_url)
        run(postgres_url, f'GRANT USAGE ON SCHEMA threadkeep TO "{user_of(running)}"')
        run(postgres_url, f'GRANT SELECT ON ALL TABLES IN SCHEMA threadkeep TO "{user_of(running)}"')

        with pytest.raises(StorageDeniedError, match=f"set {OWNER}"):
            migrate(monkeypatch, running, None)

    async def test_a_storage_says_who_it_is_and_how_clocks_differ(self, postgres_url: str):
        """A superuser bypasses row-level security; a frozen clock is behind the server's."""
        async with connected(postgres_url, clock=FrozenClock()) as storage:
            user = await storage.user()

            assert (user.name, user.bypasses, user.changes_tables) == ("postgres", True, True)
            assert user.clock_ahead_seconds > timedelta(days=1).total_seconds()


def user_of(url: str) -> str:
    return str(urlsplit(url).username)


class CutError(Exception):
    """The process was killed."""


def cut_at(number: int, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Cut every connection from statement *number* on, as a killed process does; return what counts statements."""
    plain = AsyncConnection.execute
    count = 0

    async def execute(self: AsyncConnection[Any], *args: Any, **kwargs: Any) -> Any:
        nonlocal count
        count += 1
        if count >= number:
            self.pgconn.finish()
            raise CutError
        return await plain(self, *args, **kwargs)

    monkeypatch.setattr(AsyncConnection, "execute", execute)
    return lambda: count


@pytest.mark.slow
@pytest.mark.parametrize("version", [0, 1])
async def test_migrating_may_be_killed_at_every_statement(
    postgres_server: str, monkeypatch: pytest.MonkeyPatch, version: int
):
    """The next start finishes it, and what was stored before is there."""
    killed, number = 0, 0
    while True:
        number += 1
        url = empty_postgres_database(postgres_server)
        if version:
            make_version_1(url)
        with monkeypatch.context() as patched:
            counted = cut_at(number, patched)
            pool = PostgresPool(url)
            try:
                async with connected(url):
                    pass
            except (CutError, psycopg.Error, threadkeep.ThreadkeepError):
                killed += 1
            finally:
                await pool.close()
            ended = counted() < number

        async with connected(url) as storage:
            await commit(storage, note("2"))
            assert (await get(storage, "1") is not None) == bool(version)
            assert await storage.position(ANA)
        assert all(done for _, _, done in stages(url))
        if ended:
            break
    assert killed == number - 1
    assert killed > 5
