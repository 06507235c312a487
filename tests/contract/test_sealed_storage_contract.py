"""A sealed storage keeps what ``threadkeep.storage.interface`` promises, over every backend."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest

from threadkeep.ids import new_id
from threadkeep.storage.encryption.cipher import new_master_key
from threadkeep.storage.encryption.key_store import KeyStore, MasterKeys
from threadkeep.storage.encryption.storage import EncryptedStorage
from threadkeep.storage.interface import Storage
from threadkeep.storage.memory import InMemoryStorage
from threadkeep.storage.mongodb.storage import MongoStorage
from threadkeep.storage.postgres.pool import PostgresPool
from threadkeep.storage.postgres.storage import PostgresStorage
from threadkeep.storage.redis.storage import RedisStorage
from threadkeep.storage.sqlite.storage import SqliteStorage
from threadkeep.testing.clock import FrozenClock
from threadkeep.testing.storage_contract import OpenStorage, SharedStorageContract, StorageContract

pytestmark = pytest.mark.slow
"""Seven hundred tests, on what `make test-fast` tests in the clear."""

MASTERS: Final = MasterKeys(new_master_key(), variable="THREADKEEP_MASTER_KEY")


def over(clock: FrozenClock, open_inner: Callable[[str], Storage]) -> OpenStorage:
    """Return what opens a sealed storage over what *open_inner* opens for a key prefix; its keys are beside."""

    def opened(*, key_prefix: str = "") -> EncryptedStorage:
        return EncryptedStorage(
            open_inner(key_prefix), KeyStore(open_inner(f"{key_prefix}~keys"), MASTERS, clock), clock
        )

    return opened


class TestSealedInMemoryStorage(StorageContract):
    @pytest.fixture
    def open_storage(self, clock: FrozenClock) -> OpenStorage:
        return over(clock, lambda prefix: InMemoryStorage(key_prefix=prefix, clock=clock))


class TestSealedSqliteStorage(SharedStorageContract):
    @pytest.fixture
    def open_storage(self, clock: FrozenClock, tmp_path: Path) -> OpenStorage:
        return over(clock, lambda prefix: SqliteStorage(tmp_path / "memory.db", key_prefix=prefix, clock=clock))


class TestSealedRedisStorage(SharedStorageContract):
    @pytest.fixture
    def open_storage(self, clock: FrozenClock, redis_url: str) -> OpenStorage:
        return over(clock, lambda prefix: RedisStorage(redis_url, key_prefix=prefix, clock=clock))


@pytest.mark.soak
class TestSealedPostgresStorage(SharedStorageContract):
    """With time for ten thousand rows at once on a busy machine; that a statement ends in time is tested elsewhere."""

    @pytest.fixture
    def open_storage(self, clock: FrozenClock, shared_postgres_url: str) -> OpenStorage:
        of_this_test = new_id()

        def opened(prefix: str) -> PostgresStorage:
            pool = PostgresPool(shared_postgres_url, statement_timeout=timedelta(seconds=20))
            return PostgresStorage(pool, key_prefix=f"{of_this_test}{prefix}", clock=clock)

        return over(clock, opened)


@pytest.mark.soak
class TestSealedMongoStorage(SharedStorageContract):
    """In the soak, as the one above: the wrapper sees the port only, so what it needs was seen on the others."""

    @pytest.fixture
    def open_storage(self, clock: FrozenClock, mongodb_url: str) -> OpenStorage:
        url = f"{mongodb_url}?journal=false"  # the test server would sync for every document
        return over(clock, lambda prefix: MongoStorage(url, key_prefix=prefix, clock=clock))
