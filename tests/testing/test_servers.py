"""The servers of ``threadkeep.testing`` are real: they keep what was written through a kill, and end."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import closing
from typing import Any

import pytest

from threadkeep_conformance.servers import MongoServer, PostgresServer, RedisServer, Server, ServerError


def write_to_postgres(url: str) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 'tea' AS word")


def read_from_postgres(url: str) -> Any:
    import psycopg

    with psycopg.connect(url) as connection:
        (row,) = connection.execute("SELECT word FROM kept").fetchall()
        return row[0]


def write_to_redis(url: str) -> None:
    import redis

    with redis.Redis.from_url(url) as client:
        client.set("kept", "tea")


def read_from_redis(url: str) -> Any:
    import redis

    with redis.Redis.from_url(url, decode_responses=True) as client:
        return client.get("kept")


def write_to_mongodb(url: str) -> None:
    import pymongo

    with closing(pymongo.MongoClient[dict[str, Any]](url)) as client:
        client.test.kept.insert_one({"word": "tea"})


def read_from_mongodb(url: str) -> Any:
    import pymongo

    with closing(pymongo.MongoClient[dict[str, Any]](url)) as client:
        found = client.test.kept.find_one()
        return found and found["word"]


KINDS = {
    "postgres": (PostgresServer, write_to_postgres, read_from_postgres),
    "redis": (RedisServer, write_to_redis, read_from_redis),
    "mongodb": (MongoServer, write_to_mongodb, read_from_mongodb),
}


@pytest.mark.linux
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
class TestServers:
    def test_what_was_written_outlives_a_kill(self, kind: str):
        make, write, read = KINDS[kind]

        with make() as server:
            write(server.url)
            server.restart()
            assert read(server.url) == "tea"

    def test_a_stalled_server_goes_on(self, kind: str):
        make, write, read = KINDS[kind]

        with make() as server:
            server.pause()
            server.resume()
            write(server.url)
            assert read(server.url) == "tea"

    def test_nothing_is_left(self, kind: str):
        make, _, _ = KINDS[kind]

        with make() as server:
            process = server.process
            folder = server.folder

        assert process is not None
        assert process.poll() is not None
        assert not folder.exists()


@pytest.mark.linux
class TestEnding:
    def test_it_ends_with_who_started_it(self):
        code = (
            "import os, signal\n"
            "from threadkeep_conformance.servers import RedisServer\n"
            "server = RedisServer().__enter__()\n"
            "print(server.process.pid, server.folder, flush=True)\n"
            "os.kill(os.getpid(), signal.SIGKILL)\n"
        )
        said = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True).stdout.split()

        assert ended(int(said[0]))
        subprocess.run(["rm", "-r", said[1]], check=True)

    def test_one_that_cannot_start_says_why(self):
        class Broken(RedisServer):
            def command(self) -> list[Any]:
                return [*super().command(), "--no-such-setting", "1"]

        with pytest.raises(ServerError, match="no-such-setting"), Broken():
            pass

    def test_a_missing_wheel_is_named(self):
        class Unknown(RedisServer):
            needs = ("no_such_wheel",)

        assert issubclass(Unknown, Server)
        assert Unknown.missing() == ["no_such_wheel"]


def ended(pid: int) -> bool:
    from pathlib import Path

    until = time.monotonic() + 5
    while time.monotonic() < until:
        try:
            if "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text():
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.01)
    return False
