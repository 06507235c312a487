"""Checkpoints on servers that go away, stall, refuse, and are used by several processes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pymongo
import pytest
import redis
from pymongo.errors import (
    AutoReconnect,
    BulkWriteError,
    DocumentTooLarge,
    NetworkTimeout,
    OperationFailure,
    WriteError,
)

from tests.fakes.faults import FaultProxy
from tests.threads.checkpoints import config_of, echo_graph, put, value_of
from tests.threads.conftest import Places
from threadkeep.errors import (
    InvalidInputError,
    SettingsError,
    StorageDeniedError,
    StorageError,
    StorageFullError,
    StorageReadOnlyError,
    StorageUnavailableError,
    StorageVersionError,
    TooLargeError,
)
from threadkeep.event_loop import EventLoopThread
from threadkeep.storage.postgres.pool import PostgresPool
from threadkeep.threads.checkpointers import ThreadkeepCheckpointer
from threadkeep.threads.factory import checkpointer_over
from threadkeep.threads.mongodb import MongoCheckpoints
from threadkeep.threads.postgres import PostgresCheckpoints
from threadkeep_conformance.servers import MongoServer, PostgresServer, RedisStackServer, Server

HERE = config_of("1", checkpoint_ns="")
SOON = timedelta(seconds=1)
SERVERS: dict[str, type[Server]] = {"postgres": PostgresServer, "redis": RedisStackServer, "mongodb": MongoServer}
Make = Callable[..., ThreadkeepCheckpointer]

served = pytest.mark.parametrize("kind", list(SERVERS), indirect=True)

TOGETHER = """
import sys
from tests.threads.checkpoints import config_of, put
from threadkeep.registry import create_postgres_pool
from threadkeep.event_loop import EventLoopThread
from threadkeep.settings import Settings
from threadkeep.threads.factory import create_checkpointer
thread, postgres, redis, mongodb = sys.argv[1:]
pool = lambda dsn, variable: create_postgres_pool(dsn, settings, variable=variable)
checkpointers = []
for kind, url in (("postgres_dsn", postgres), ("redis_url", redis), ("mongodb_uri", mongodb)):
    settings = Settings.load(checkpoint_type=kind.partition("_")[0], **{f"checkpoint_{kind}": url})
    checkpointers.append(create_checkpointer(settings, home=EventLoopThread(), pool=pool))
print("ready", flush=True); sys.stdin.readline()
for checkpointer in checkpointers:
    for n in range(10): put(checkpointer, config_of(thread), n)
    checkpointer.close()
"""


@pytest.fixture
def proxy(kind: str, places: Places) -> Iterator[FaultProxy]:
    with FaultProxy(urlsplit(places.url(kind)).port or 0) as proxy:
        yield proxy


@served
class TestGoingAway:
    @pytest.mark.slow
    @pytest.mark.linux
    def test_a_killed_server_loses_nothing_and_is_found_again(self, kind: str, make: Make):
        """Killed and started again: what was acknowledged is there, and the same checkpointer goes on."""
        if lacking := SERVERS[kind].missing():
            pytest.skip(f"missing here: {lacking}")
        with SERVERS[kind]() as server:
            url = f"{server.url}/mine" if kind == "mongodb" else server.url
            graph = echo_graph(make(kind, url=url, timeout=timedelta(seconds=3)))
            graph.invoke({"words": ["before"]}, config_of("1"))

            server.kill()
            with pytest.raises(StorageUnavailableError):
                graph.invoke({"words": ["lost"]}, config_of("1"))
            server.start()
            graph.invoke({"words": ["after"]}, config_of("1"))

            said = graph.get_state(config_of("1")).values["words"]
        assert said == ["before", "BEFORE", "after", "AFTER"]

    def test_a_connection_that_breaks_is_not_noticed(self, kind: str, make: Make, places: Places, proxy: FaultProxy):
        """Every open connection is cut; the next call is made over a new one."""
        checkpointer = make(kind, url=proxy.url_of(places.url(kind)))
        put(checkpointer, HERE, "before")

        proxy.cut()

        assert value_of(checkpointer, HERE) == "before"
        proxy.cut()
        put(checkpointer, HERE, "after")
        assert value_of(checkpointer, HERE) == "after"

    def test_a_stalled_server_is_given_up(self, kind: str, home: EventLoopThread, places: Places, proxy: FaultProxy):
        """It says so after the time-out, instead of hanging for ever, and works when the server does again."""
        where = places.backend(kind, url=proxy.url_of(places.url(kind)))
        checkpointer = checkpointer_over(where, home=home, timeout=SOON)
        put(checkpointer, HERE, "before")

        proxy.stall()
        with pytest.raises(StorageUnavailableError, match=r"did not answer|cannot be reached"):
            put(checkpointer, HERE, "held up")
        with pytest.raises(StorageUnavailableError):
            value_of(checkpointer, HERE)
        proxy.flow()

        assert value_of(checkpointer, HERE) in ("before", "held up")
        put(checkpointer, HERE, "after")
        assert value_of(checkpointer, HERE) == "after"
        checkpointer.close()

    def test_a_server_that_is_not_there_is_one_sentence(self, kind: str, make: Make, places: Places, proxy: FaultProxy):
        """Nothing of a driver's, and when it is there it works."""
        checkpointer = make(kind, url=proxy.url_of(places.url(kind)), timeout=SOON)
        proxy.refuse()

        with pytest.raises(StorageUnavailableError) as caught:
            put(checkpointer, HERE, 1)
        proxy.accept()
        put(checkpointer, HERE, 2)

        assert "\n" not in str(caught.value)
        assert f"127.0.0.1:{proxy.port}" in str(caught.value)
        assert value_of(checkpointer, HERE) == 2


class TestSharing:
    @pytest.mark.slow
    def test_processes_that_begin_together_all_succeed(self, make: Make, places: Places):
        """Empty databases, set up by two processes at once: each process has what it wrote."""
        urls = {kind: places.url(kind) for kind in SERVERS}
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", TOGETHER, str(n), *urls.values()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for n in range(2)
        ]
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()

        errors = [process.communicate(timeout=60)[1] for process in processes]

        assert [process.returncode for process in processes] == [0, 0], errors
        for kind, url in urls.items():
            checkpointer = make(kind, url=url)
            for n in range(2):
                kept = [one.checkpoint["channel_values"]["x"] for one in checkpointer.list(config_of(str(n)))]
                assert kept == list(reversed(range(10)))

    @served
    def test_deployments_with_prefixes_never_meet(self, kind: str, make: Make, places: Places):
        """One server, two key prefixes: the same thread id is another thread, also in a list of all."""
        url = places.url(kind)
        blue, green, plain = (make(kind, url=url, key_prefix=prefix) for prefix in ("blue", "green", ""))
        put(blue, HERE, "blue")
        put(plain, HERE, "plain")

        before = value_of(green, HERE), [*green.list(None)]
        put(green, HERE, "green")
        green.delete_thread("1")

        assert before == (None, [])
        assert [one.config["configurable"]["thread_id"] for one in blue.list(None)] == ["1"]
        assert [one.checkpoint["channel_values"]["x"] for one in plain.list(None)] == ["plain"]


class TestPostgres:
    async def test_one_run_does_not_wait_for_another(self, make: Make, postgres_url: str):
        """The stock saver has one lock: where one run's write waits in the database, every run would."""
        checkpointer = make("postgres", url=postgres_url)
        await checkpointer.connect()
        held, free = config_of("held", checkpoint_ns=""), config_of("free", checkpoint_ns="")

        async with await psycopg.AsyncConnection[Any].connect(postgres_url) as other:
            await other.execute("LOCK TABLE checkpoint_writes IN ACCESS EXCLUSIVE MODE")
            saved = put(checkpointer, held, 1)
            waiting = asyncio.create_task(checkpointer.aput_writes(saved, [("x", 2)], "task"))
            await _until_somebody_waits(postgres_url)
            put(checkpointer, free, "not held up")
            waited = waiting.done()
            await other.rollback()
        await waiting

        assert not waited
        assert value_of(checkpointer, held) == 1

    def test_nothing_is_prepared_and_nothing_stays_in_a_session(self, make: Make, postgres_url: str):
        """So it works behind a pooler that gives each transaction another session."""
        checkpointer = make("postgres", url=postgres_url)
        for n in range(12):
            put(checkpointer, HERE, n)
            value_of(checkpointer, HERE)

        async def sessions() -> list[Any]:
            pool = checkpointer.backend._pool  # type: ignore[attr-defined]
            return await pool.run(lambda c: _rows(c, "SELECT count(*) FROM pg_prepared_statements"))

        assert checkpointer._home.run_sync(sessions()) == [(0,)]

    def test_a_long_thread_id_has_its_index_row(self, make: Make, postgres_url: str):
        """1,000 characters that do not compress are more than an index of PostgreSQL's takes."""
        checkpointer = make("postgres", url=postgres_url)
        thread_id = "".join(chr(0x4E00 + (n * 7919) % 20_000) for n in range(1000))

        put(checkpointer, config_of(thread_id), "here")

        assert value_of(checkpointer, config_of(thread_id)) == "here"
        assert [one.config["configurable"]["thread_id"] for one in checkpointer.list(None)] == [thread_id]

    def test_a_read_only_database_says_so(self, make: Make, postgres_url: str):
        """A replica, or set so."""
        put(make("postgres", url=postgres_url), HERE, 1)
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            name = connection.info.dbname
            connection.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on".encode())
        checkpointer = make("postgres", url=postgres_url)

        assert value_of(checkpointer, HERE) == 1
        with pytest.raises(StorageReadOnlyError, match="read-only"):
            put(checkpointer, HERE, 2)

    def test_a_user_without_rights_is_told_which(self, make: Make, postgres_url: str):
        """The tables are somebody else's."""
        put(make("postgres", url=postgres_url), HERE, 1)
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute("DO $$ BEGIN CREATE ROLE reader LOGIN; EXCEPTION WHEN duplicate_object THEN END $$")

        with pytest.raises(StorageDeniedError, match="permission denied"):
            put(make("postgres", url=postgres_url.replace("postgres@", "reader@")), HERE, 2)

    def test_tables_are_not_made_where_they_shall_only_be_checked(self, home: EventLoopThread, postgres_url: str):
        """THREADKEEP_MIGRATE=check leaves the database as it is."""
        pool = PostgresPool(postgres_url, migrate="check")
        checkpointer = checkpointer_over(PostgresCheckpoints(pool), home=home)

        with pytest.raises(StorageVersionError, match="THREADKEEP_MIGRATE"):
            put(checkpointer, HERE, 1)

        home.run_sync(pool.close())
        with psycopg.connect(postgres_url) as connection:
            assert connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone() == (0,)

    def test_what_json_cannot_hold_in_a_namespace_is_refused_in_our_words(self, make: Make, postgres_url: str):
        """A driver's error never reaches the caller."""
        with pytest.raises(InvalidInputError, match="NUL"):
            put(make("postgres", url=postgres_url), config_of("1", checkpoint_ns="a\x00b"), 1)


class TestRedis:
    def test_without_its_modules_it_says_what_is_missing(self, make: Make, redis_url: str):
        """And that memories work without them."""
        with pytest.raises(StorageError, match=r"lacks Redis's JSON and Search modules.*Memories work"):
            put(make("redis", url=redis_url), HERE, 1)

    @pytest.mark.parametrize(("one", "other"), [("a", "A"), ("a:b", "a"), ("a,b", "b"), ("x y", "x"), ("a*", "ab")])
    def test_ids_that_its_searches_confuse_are_told_apart(self, make: Make, redis_stack_url: str, one: str, other: str):
        """The stock saver joins them into keys and tags, where case, colons and commas are lost."""
        checkpointer = make("redis", url=redis_stack_url)
        put(checkpointer, config_of(one, checkpoint_ns="b:c"), "one")
        put(checkpointer, config_of(other, checkpoint_ns="c"), "other")

        assert [found.checkpoint["channel_values"]["x"] for found in checkpointer.list(config_of(one))] == ["one"]
        checkpointer.delete_thread(other)
        assert value_of(checkpointer, config_of(one, checkpoint_ns="b:c")) == "one"

    def test_deleting_leaves_no_key(self, make: Make, redis_stack_url: str):
        """Checkpoints, writes, pointers and the lists of writes; also writes whose checkpoint is not there."""
        checkpointer = make("redis", url=redis_stack_url)
        saved = put(checkpointer, HERE, 1)
        checkpointer.put_writes(saved, [("x", 2), ("y", 3)], "task")
        checkpointer.put_writes(config_of("1", checkpoint_ns="", checkpoint_id="not-there"), [("x", 4)], "task")

        checkpointer.delete_thread("1")

        with redis.Redis.from_url(redis_stack_url) as client:
            assert client.keys("*") == []

    def test_a_planted_object_is_not_made(self, make: Make, redis_stack_url: str):
        """The stock saver's serializer calls what a row names; ours gives the text."""
        checkpointer = make("redis", url=redis_stack_url)
        put(checkpointer, HERE, "honest")
        call = '{"lc": 2, "type": "constructor", "id": ["pathlib", "Path"], "args": ["/etc"], "kwargs": {}}'
        with redis.Redis.from_url(redis_stack_url) as client:
            (key,) = [key for key in client.keys("checkpoint:*") if not key.startswith(b"checkpoint_latest")]
            client.execute_command("JSON.SET", key, "$.checkpoint.channel_values.x", call)

        assert value_of(checkpointer, HERE)["id"] == ["pathlib", "Path"]

    def test_checkpoints_expire(self, home: EventLoopThread, places: Places, redis_stack_url: str):
        """Each key has its time, the pointers and lists of writes, too; where a thread stands, a little longer."""
        where = places.backend("redis", url=redis_stack_url, ttl=timedelta(minutes=5))
        checkpointer = checkpointer_over(where, home=home)
        saved = put(checkpointer, HERE, 1)
        checkpointer.put_writes(saved, [("x", 2)], "task")

        with redis.Redis.from_url(redis_stack_url) as client:
            left = {str(key): client.ttl(key) for key in client.keys("*")}
        checkpointer.close()

        heads = {key for key in left if "_head:" in key}
        assert (len(left), len(heads)) == (5, 1), left
        assert all(0 < left[key] <= (330 if key in heads else 300) for key in left), left

    @pytest.mark.linux
    def test_what_it_refuses_is_said(self, make: Make):
        """A wrong password, which is in no message; a replica; and no memory left."""
        if lacking := RedisStackServer.missing():
            pytest.skip(f"missing here: {lacking}")
        with RedisStackServer() as server:
            right = server.url.replace("redis://", "redis://:sesame@")
            with redis.Redis.from_url(server.url) as client:
                client.config_set("requirepass", "sesame")
                put(make("redis", url=right), HERE, 1)
                with pytest.raises(StorageDeniedError) as caught:
                    put(make("redis", url=server.url.replace("redis://", "redis://:open-up@")), HERE, 2)
                client.execute_command("REPLICAOF", "127.0.0.1", "1")
                with pytest.raises(StorageReadOnlyError, match="replica"):
                    put(make("redis", url=right), HERE, 3)
                client.execute_command("REPLICAOF", "NO", "ONE")
                client.config_set("maxmemory", "1mb")
                with pytest.raises(StorageFullError, match="maxmemory"):
                    put(make("redis", url=right), HERE, 4)

        assert "open-up" not in str(caught.value) + str(caught.value.details)


class TestMongoDb:
    def test_half_of_a_tasks_writes_are_never_read(self, make: Make, mongodb_url: str):
        """A server without transactions may keep a part of them; a task with writes would count as done."""
        checkpointer = make("mongodb", url=mongodb_url)
        saved = put(checkpointer, HERE, 1)
        checkpointer.put_writes(saved, [("x", 1), ("y", 2)], "whole")
        checkpointer.put_writes(saved, [("x", 1), ("y", 2)], "half")
        checkpointer.put_writes(saved, [("__error__", "why")], "half")
        with pymongo.MongoClient[dict[str, Any]](mongodb_url) as client:
            client.get_default_database()["checkpoint_writes"].delete_one({"task_id": "half", "idx": 1})

        found = checkpointer.get_tuple(HERE)
        assert found is not None
        assert found.pending_writes == [("half", "__error__", "why"), ("whole", "x", 1), ("whole", "y", 2)]
        checkpointer.put_writes(saved, [("x", 1), ("y", 2)], "half")
        again = checkpointer.get_tuple(HERE)
        assert again is not None
        assert again.pending_writes is not None
        assert len(again.pending_writes) == 5

    def test_checkpoints_expire_and_the_time_can_be_changed(
        self, home: EventLoopThread, places: Places, mongodb_url: str
    ):
        """The index is made anew; where nothing shall expire, there is none."""
        times: list[list[int]] = []
        for ttl in (timedelta(minutes=5), timedelta(minutes=7), None):
            checkpointer = checkpointer_over(places.backend("mongodb", url=mongodb_url, ttl=ttl), home=home)
            saved = put(checkpointer, HERE, 1)
            checkpointer.put_writes(saved, [("x", 2)], "task")
            checkpointer.close()
            with pymongo.MongoClient[dict[str, Any]](mongodb_url) as client:
                database = client.get_default_database()
                indexes = [
                    one for name in ("checkpoints", "checkpoint_writes") for one in database[name].list_indexes()
                ]
            times.append([one["expireAfterSeconds"] for one in indexes if "expireAfterSeconds" in one])

        assert times == [[300, 300], [420, 420], []]

    @pytest.mark.parametrize(
        ("error", "kind"),
        [
            (OperationFailure("Authentication failed.", 18), StorageDeniedError),
            (OperationFailure("not authorized on m to execute command", 13), StorageDeniedError),
            (OperationFailure("not primary", 10107), StorageReadOnlyError),
            (WriteError("disk", 14031), StorageFullError),
            (BulkWriteError({"writeErrors": [{"code": 10334, "errmsg": "too large"}]}), TooLargeError),
            (DocumentTooLarge("BSON document too large"), TooLargeError),
            (AutoReconnect("SSL handshake failed: certificate verify failed"), StorageUnavailableError),
            (NetworkTimeout("timed out"), StorageUnavailableError),
            (OperationFailure("something else", 1), StorageError),
        ],
        ids=lambda value: getattr(value, "__name__", None),
    )
    def test_what_it_refuses_is_said(self, error: Exception, kind: type[Exception]):
        """Each is one sentence with the server in it, and without the password."""
        where = MongoCheckpoints("mongodb://ana:sesame@db.example:27018/mine")

        said = where.explained(error)

        assert type(said) is kind
        assert str(said).startswith("mongodb://db.example:27018/mine ")
        assert str(said).endswith(".")
        assert "sesame" not in str(said)


class TestUrls:
    @pytest.mark.parametrize(
        ("kind", "url"),
        [
            ("mongodb", "mongodb://ana:p%@host"),
            ("mongodb", "http://host"),
            ("redis", "http://ana:p%@host"),
            ("redis", "redis://host:port"),
            ("postgres", "postgresql://ana:p%@host"),
        ],
    )
    def test_what_is_no_url_is_refused_at_once(self, places: Places, kind: str, url: str):
        """The variable is named, and nothing of the password."""
        with pytest.raises(SettingsError, match=kind.upper()) as caught:
            places.backend(kind, url=url)

        assert "ana:p" not in str(caught.value)


async def _until_somebody_waits(url: str) -> None:
    async with await psycopg.AsyncConnection[Any].connect(url, autocommit=True) as connection:
        while await _rows(connection, "SELECT count(*) FROM pg_locks WHERE NOT granted") == [(0,)]:
            await asyncio.sleep(0.01)


async def _rows(connection: Any, statement: str) -> list[Any]:
    return await (await connection.execute(statement)).fetchall()
