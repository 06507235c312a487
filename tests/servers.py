"""The servers of a test run: each is started once by each worker, when the first test asks for it.

``THREADKEEP_TEST_POSTGRES_URL``, ``…_REDIS_URL``, ``…_REDIS_STACK_URL`` and ``…_MONGODB_URL`` point the
tests at servers of your own, on this machine. A test that breaks its server starts one of its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, LiteralString

import pytest

from tests.conftest import missing
from threadkeep.ids import new_id

if TYPE_CHECKING:  # a process that runs no test imports this module, too, and they take seconds
    from tests.redis_cluster import RedisCluster
    from threadkeep_conformance.servers import Server

SERVERS_IN_SOAK: Final = tuple(pytest.param(kind, marks=pytest.mark.soak) for kind in ("postgres", "redis", "mongodb"))
"""Parameters of what stands on the storage's contract, which every backend is tested against in each run."""


def server_url(variable: str, kind: type[Server]) -> Iterator[str]:
    """Yield where a server of *kind* is: where *variable* says, or one that lives as long as this generator."""
    given = os.environ.get(variable)
    if given:
        yield given
        return
    if lacking := kind.missing():
        missing(f"{', '.join(lacking)}, without which no {kind.__name__} can be started; run `make setup`")
    with kind() as server:
        yield server.url


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The superuser's URL of a PostgreSQL server."""
    from threadkeep_conformance.servers import PostgresServer

    yield from server_url("THREADKEEP_TEST_POSTGRES_URL", PostgresServer)


@pytest.fixture(scope="session")
def databases_of_ended_tests() -> list[str]:
    """The databases of tests that have ended."""
    return []


@pytest.fixture
def postgres_url(postgres_server: str, databases_of_ended_tests: list[str]) -> Iterator[str]:
    """The URL of an empty database, of this test alone.

    Each takes 8 MB, so the next test drops it: at the end of this one, other fixtures may still have it open.
    """
    while databases_of_ended_tests:
        on_postgres(postgres_server, "DROP DATABASE {} WITH (FORCE)", databases_of_ended_tests.pop())
    url = empty_postgres_database(postgres_server)
    yield url
    databases_of_ended_tests.append(url.rpartition("/")[2])


@pytest.fixture(scope="session")
def shared_postgres_url(postgres_server: str) -> str:
    """The URL of a database of the whole session: tests keep apart by key prefixes."""
    return empty_postgres_database(postgres_server)


def empty_postgres_database(server: str) -> str:
    """Make a database on *server* and return its URL."""
    name = f"test_{new_id()}"
    on_postgres(server, "CREATE DATABASE {} STRATEGY FILE_COPY", name)
    return f"{server.rpartition('/')[0]}/{name}"


def on_postgres(server: str, statement: LiteralString, name: str) -> None:
    """Execute a statement about the database called *name*."""
    import psycopg
    from psycopg.sql import SQL, Identifier

    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(SQL(statement).format(Identifier(name)))


@pytest.fixture(scope="session")
def redis_server() -> Iterator[str]:
    """The URL of a Redis without modules."""
    from threadkeep_conformance.servers import RedisServer

    yield from server_url("THREADKEEP_TEST_REDIS_URL", RedisServer)


@pytest.fixture(scope="session")
def redis_stack_server() -> Iterator[str]:
    """The URL of a Redis with the JSON and Search modules."""
    from threadkeep_conformance.servers import RedisStackServer

    yield from server_url("THREADKEEP_TEST_REDIS_STACK_URL", RedisStackServer)


def emptied(url: str) -> str:
    """Return *url*, its server emptied: Redis has no database for each test."""
    import redis

    with redis.Redis.from_url(url) as client:
        client.flushall()
    return url


@pytest.fixture
def redis_url(redis_server: str) -> str:
    """The URL of an empty Redis without modules."""
    return emptied(redis_server)


@pytest.fixture
def redis_stack_url(redis_stack_server: str) -> str:
    """The URL of an empty Redis with modules."""
    return emptied(redis_stack_server)


@pytest.fixture(scope="session")
def redis_cluster_server() -> Iterator[RedisCluster]:
    """A cluster of two nodes."""
    from tests.redis_cluster import RedisCluster
    from threadkeep_conformance.servers import RedisServer

    if lacking := RedisServer.missing():
        missing(f"{', '.join(lacking)}, without which no Redis can be started; run `make setup`")
    with RedisCluster() as cluster:
        yield cluster


@pytest.fixture
def redis_cluster(redis_cluster_server: RedisCluster) -> RedisCluster:
    """The cluster, empty."""
    redis_cluster_server.empty()
    return redis_cluster_server


@pytest.fixture(scope="session")
def mongodb_server() -> Iterator[str]:
    """The URL of a server that speaks MongoDB's protocol, without a database."""
    from threadkeep_conformance.servers import MongoServer

    yield from server_url("THREADKEEP_TEST_MONGODB_URL", MongoServer)


@pytest.fixture
def mongodb_url(mongodb_server: str) -> str:
    """The URL of an empty database, of this test alone."""
    return f"{mongodb_server}/test_{new_id()}"
