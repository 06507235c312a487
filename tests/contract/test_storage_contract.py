"""The storage backends keep what ``threadkeep.storage.interface`` promises."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from tests.redis_cluster import RedisCluster
from tests.servers import empty_postgres_database
from tests.storage.pooler import TransactionPooler
from threadkeep.ids import new_id
from threadkeep.storage.interface import Storage
from threadkeep.storage.memory import InMemoryStorage
from threadkeep.storage.mongodb.storage import MongoStorage
from threadkeep.storage.postgres.pool import PostgresPool
from threadkeep.storage.postgres.storage import PostgresStorage
from threadkeep.storage.redis.storage import RedisStorage
from threadkeep.storage.sqlite.storage import SqliteStorage
from threadkeep.testing.clock import FrozenClock
from threadkeep.testing.storage_contract import OpenStorage, SharedStorageContract, StorageContract


class LargeInSoak(StorageContract):
    """Ten thousand items at once run in CI over each backend alone, in its usual place."""

    @pytest.mark.soak
    async def test_a_batch_of_ten_thousand_is_one_commit(self, storage: Storage) -> None:
        await super().test_a_batch_of_ten_thousand_is_one_commit(storage)

    @pytest.mark.soak
    async def test_a_log_that_no_longer_reaches_back_resets(self, storage: Storage) -> None:
        await super().test_a_log_that_no_longer_reaches_back_resets(storage)


class TestInMemoryStorage(StorageContract):
    @pytest.fixture
    def open_storage(self, clock: FrozenClock) -> OpenStorage:
        return lambda *, key_prefix="": InMemoryStorage(key_prefix=key_prefix, clock=clock)


class TestSqliteStorage(SharedStorageContract):
    @pytest.fixture
    def open_storage(self, clock: FrozenClock, tmp_path: Path) -> OpenStorage:
        return lambda *, key_prefix="": SqliteStorage(tmp_path / "memory.db", key_prefix=key_prefix, clock=clock)


class TestRedisStorage(SharedStorageContract):
    @pytest.fixture
    def open_storage(self, clock: FrozenClock, redis_url: str) -> OpenStorage:
        return lambda *, key_prefix="": RedisStorage(redis_url, key_prefix=key_prefix, clock=clock)


@pytest.mark.slow
class TestRedisStorageOnACluster(LargeInSoak, SharedStorageContract):
    @pytest.fixture
    def open_storage(self, clock: FrozenClock, redis_cluster: RedisCluster) -> OpenStorage:
        return lambda *, key_prefix="": RedisStorage(redis_cluster.url, key_prefix=key_prefix, clock=clock)


class TestPostgresStorage(SharedStorageContract):
    """All in one database, whose tables are made once: each test has a key prefix of its own."""

    @pytest.fixture
    def open_storage(self, clock: FrozenClock, shared_postgres_url: str) -> OpenStorage:
        of_this_test = new_id()

        def opened(*, key_prefix: str = "") -> PostgresStorage:
            pool = PostgresPool(shared_postgres_url, size=4)
            return PostgresStorage(pool, key_prefix=f"{of_this_test}{key_prefix}", clock=clock)

        return opened


@pytest.fixture(scope="module")
def pooled_postgres_url(postgres_server: str) -> Iterator[str]:
    """A pooler in front of a database of a user who may make no roles."""
    user = Identifier(f"plain_{new_id()}")
    url = empty_postgres_database(postgres_server)
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(SQL("CREATE ROLE {} LOGIN").format(user))
        database = Identifier(urlsplit(url).path.removeprefix("/"))
        connection.execute(SQL("GRANT CREATE ON DATABASE {} TO {}").format(database, user))
    with TransactionPooler(urlsplit(url).port or 0) as pooler:
        yield pooler.url_of(url).replace("postgres@", f"{user.as_string()[1:-1]}@")
        assert pooler.transactions


class TestPostgresStorageAsFoundInTheWild(LargeInSoak, SharedStorageContract):
    """Behind a pooler in transaction mode, its tables spread by hash, and a user who may make no roles."""

    @pytest.fixture
    def open_storage(self, clock: FrozenClock, pooled_postgres_url: str) -> OpenStorage:
        of_this_test = new_id()

        def opened(*, key_prefix: str = "") -> PostgresStorage:
            pool = PostgresPool(pooled_postgres_url, size=4)
            return PostgresStorage(pool, key_prefix=f"{of_this_test}{key_prefix}", clock=clock, hash_partitions=3)

        return opened


class TestMongoStorage(LargeInSoak, SharedStorageContract):
    """The server that stands in for MongoDB takes its time for ten thousand items."""

    @pytest.fixture
    def open_storage(self, clock: FrozenClock, mongodb_url: str) -> OpenStorage:
        url = f"{mongodb_url}?journal=false"  # the test server would sync for every document
        return lambda *, key_prefix="": MongoStorage(url, key_prefix=key_prefix, clock=clock)
