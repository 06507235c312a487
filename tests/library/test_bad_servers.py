"""What a user is told of a server that cannot be used as it is: through ``threadkeep.open``, in one clear sentence."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import redis
from pymongo import MongoClient

import threadkeep
from tests.servers import empty_postgres_database
from tests.storage.postgres_world import database_of, make_user, run
from threadkeep.errors import (
    StorageDeniedError,
    StorageError,
    StorageFullError,
    StorageReadOnlyError,
    StorageUnavailableError,
    StorageVersionError,
)
from threadkeep.testing import HashingEmbedder
from threadkeep_conformance.servers import MongoServer, PostgresServer, RedisServer

pytestmark = pytest.mark.slow

ANA = "ana@x.org"
SECRET = "se%same/ü"
QUOTED = "se%25same%2F%C3%BC"


def remember(url: str, text: str = "Likes tea.", *, embedder: Any = "none") -> None:
    """Remember something there, as an application does."""
    with threadkeep.open(url, embedder=embedder) as tk:
        tk.sync.memories.remember(text, owner=ANA)


def refusal(url: str) -> StorageError:
    """Return what is raised by remembering something there: one line, without a password."""
    with pytest.raises(StorageError) as refused:
        remember(url, "Plays the harp.")
    told = f"{refused.value} {refused.value.details}"
    assert not [secret for secret in (SECRET, QUOTED, "wrong-one") if secret in told]
    assert "\n" not in str(refused.value)
    return refused.value


@pytest.fixture(scope="module")
def locked() -> Iterator[str]:
    """A PostgreSQL database that needs a password; ``{}`` stands in its place."""
    with PostgresServer() as server:
        hosts = server.folder / "data" / "pg_hba.conf"
        hosts.write_text(f"host all locked 127.0.0.1/32 scram-sha-256\n{hosts.read_text()}")
        run(server.url, f"CREATE ROLE locked SUPERUSER LOGIN PASSWORD '{SECRET}'", "SELECT pg_reload_conf()")
        yield empty_postgres_database(server.url).replace("postgres@", "locked:{}@")


class TestSqlite:
    def test_a_newer_version_has_been_there(self, tmp_path: Path):
        """It says which schema is there, and which one is known; the file is not touched."""
        file = tmp_path / "memory.sqlite3"
        remember(f"sqlite:///{file}")
        with closing(sqlite3.connect(file)) as connection:
            connection.execute("PRAGMA user_version = 9")
        before = file.read_bytes()

        error = refusal(f"sqlite:///{file}")

        assert isinstance(error, StorageVersionError)
        assert "Upgrade Threadkeep" in str(error)
        assert file.read_bytes() == before


class TestPostgres:
    def test_a_newer_version_has_been_there(self, postgres_url: str):
        """It says which schema is there, and which one is known."""
        remember(postgres_url)
        run(postgres_url, "UPDATE threadkeep.migrations SET version = 9, serves = 9")

        error = refusal(postgres_url)

        assert isinstance(error, StorageVersionError)
        assert "newer Threadkeep (its schema is 9, and this version knows 2). Upgrade" in str(error)

    def test_a_migration_broke_off(self, postgres_url: str):
        """It says what finishes it, and nothing that this very start has tried in vain."""
        remember(postgres_url)
        run(postgres_url, "UPDATE threadkeep.migrations SET done_at = NULL")

        error = refusal(postgres_url)

        assert isinstance(error, StorageVersionError)
        assert "failed halfway" in str(error)
        assert "start the one that began it, or restore a backup" in str(error)
        assert "THREADKEEP_MIGRATE" not in str(error)

    def test_a_user_without_rights(self, postgres_url: str):
        """It says what to grant."""
        error = refusal(make_user(postgres_url, create=False))

        assert isinstance(error, StorageDeniedError)
        assert "CREATE SCHEMA threadkeep AUTHORIZATION" in str(error)

    def test_a_wrong_password_is_masked(self, locked: str):
        """Neither the wrong one nor a part of it is told."""
        error = refusal(locked.format("wrong-one"))

        assert isinstance(error, StorageDeniedError)
        assert "refused the password" in str(error)

    def test_a_password_with_a_percent_sign(self, locked: str):
        """Percent-encoded, any password works."""
        remember(locked.format(QUOTED))

    def test_no_tls(self, postgres_url: str):
        """The wheel's server has none."""
        error = refusal(f"{postgres_url.replace('postgres@', 'postgres:wrong-one@')}?sslmode=require")

        assert isinstance(error, StorageUnavailableError)
        assert "No TLS connection" in str(error)
        assert "sslmode" in str(error)

    def test_a_read_only_one(self, postgres_url: str):
        """It says what to give instead."""
        run(postgres_url, f'ALTER DATABASE "{database_of(postgres_url)}" SET default_transaction_read_only = on')

        error = refusal(postgres_url)

        assert isinstance(error, StorageReadOnlyError)
        assert "primary" in str(error)


class TestRedis:
    def test_a_newer_version_has_been_there(self, redis_url: str):
        """It says which layout is there."""
        remember(redis_url)
        with redis.Redis.from_url(redis_url) as client:
            client.hset("threadkeep::storage", "layout", 2)

        error = refusal(redis_url)

        assert isinstance(error, StorageVersionError)
        assert "layout 2" in str(error)

    @pytest.mark.parametrize(
        ("rights", "told"), [(">wrong", "correct them in the URL"), (f">{SECRET} ~* +@read +ping", "ACL|permission")]
    )
    def test_a_wrong_password_and_a_user_without_rights(self, redis_url: str, rights: str, told: str):
        """Both say where to look."""
        user = f"{redis_url.replace('//', f'//ana:{QUOTED}@')}"
        with redis.Redis.from_url(redis_url) as client:
            client.execute_command("ACL", "SETUSER", "ana", "reset", "on", *rights.split())
            try:
                error = refusal(user)
            finally:
                client.execute_command("ACL", "DELUSER", "ana")

        assert isinstance(error, StorageDeniedError)
        assert any(word in str(error) for word in told.split("|"))

    def test_no_tls(self, redis_url: str):
        """The scheme is what has to be corrected."""
        assert "begins with redis://" in str(refusal(redis_url.replace("redis://", "rediss://")))

    def test_maxmemory_is_reached(self, redis_url: str):
        """What is there can still be read and forgotten, though that is written down, too."""
        remember(redis_url)
        remember(redis_url, "Lives in Lisbon.")
        with redis.Redis.from_url(redis_url) as client:
            client.config_set("maxmemory", 1)
            try:
                error = refusal(redis_url)
                with threadkeep.open(redis_url, embedder="none") as tk:
                    kept = tk.sync.memories.list(owner=ANA)
                    tk.sync.memories.forget(kept[0].memory_id, owner=ANA)
                    left = [memory.text for memory in tk.sync.memories.list(owner=ANA)]
            finally:
                client.config_set("maxmemory", 0)

        assert isinstance(error, StorageFullError)
        assert "maxmemory" in str(error)
        assert (len(kept), len(left)) == (2, 1)

    def test_a_read_only_replica(self, redis_url: str):
        """It says what to give instead."""
        address = redis_url.split("//")[1].split("/", maxsplit=1)[0].replace(":", " ")
        with RedisServer(settings={"replicaof": address}) as replica:
            error = refusal(replica.url)

        assert isinstance(error, StorageReadOnlyError)
        assert "give the address of the primary" in str(error)


class OtherMongoServer(MongoServer):
    """The wire server, which tells no version of its own and lets everybody in, as one that answers otherwise.

    Args:
        command: Which command it answers, in lower case.
        told: What it answers.
    """

    def __init__(self, command: str, told: dict[str, Any]) -> None:
        super().__init__()
        self._answered, self._told = command, told

    def command(self) -> list[str | Path]:
        program, flag, code, *rest = super().command()
        otherwise = (
            "from nx_27017 import handler as h; served = h.NeoSQLiteHandler.handle_command; "
            f"asks = lambda m: any({self._answered!r} in map(str.lower, d) "
            "for _, d in m['sections'] if isinstance(d, dict)); "
            "h.NeoSQLiteHandler.handle_command = "
            f"lambda self, m: (m['request_id'], {self._told!r}) if asks(m) else served(self, m); "
        )
        return [program, flag, f"{otherwise}{code}", *rest]


class TestMongoDb:
    def test_a_newer_version_has_been_there(self, mongodb_url: str):
        """It is not touched."""
        remember(mongodb_url)
        with MongoClient[dict[str, Any]](mongodb_url) as client:
            about = client.get_default_database()["threadkeep_about"]
            about.update_one({"_id": "storage"}, {"$set": {"schema": 2}})

        error = refusal(mongodb_url)

        assert isinstance(error, StorageVersionError)
        assert "its schema is 2" in str(error)

    def test_an_old_server(self):
        """It says which one is the oldest that works."""
        with OtherMongoServer("buildinfo", {"ok": 1, "version": "4.4.29", "versionArray": [4, 4, 29, 0]}) as server:
            error = refusal(f"{server.url}/notes")

        assert isinstance(error, StorageVersionError)
        assert "4.4.29, and Threadkeep needs 5.0 or later" in str(error)

    def test_a_wrong_password_is_masked(self):
        """Neither the wrong one nor a part of it is told."""
        refused = {"ok": 0, "code": 18, "codeName": "AuthenticationFailed", "errmsg": "Authentication failed."}
        with OtherMongoServer("saslstart", refused) as server:
            error = refusal(f"{server.url.replace('//', '//ana:wrong-one@')}/notes")

        assert isinstance(error, StorageDeniedError)
        assert "refused the user name or the password: correct them in the URI" in str(error)


class TestVectors:
    def test_of_another_length_are_said_to_be_embedded_anew(self, tmp_path: Path, caplog: pytest.LogCaptureFixture):
        """What was stored is found by its words meanwhile, and one line says what to run."""
        url = f"sqlite:///{tmp_path}/memory.sqlite3"
        remember(url, embedder=HashingEmbedder(dims=32))

        with threadkeep.open(url, embedder=HashingEmbedder(dims=64)) as tk:
            found = tk.sync.memories.search("tea", owner=ANA)

        assert [one.memory.text for one in found] == ["Likes tea."]
        assert [line for line in caplog.messages if "Run threadkeep storage re-embed" in line]
