"""An encrypted storage keeps the promises of ``threadkeep.storage.interface``.

The wrapper sees the storage interface only. The whole contract therefore runs over memory and SQLite, and one test
per server checks that the wrapper and a real backend work together.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.contract.test_storage_contract import LargeInSoak
from threadkeep.errors import RevisionConflictError
from threadkeep.ids import new_id
from threadkeep.storage.encryption.cipher import new_master_key
from threadkeep.storage.encryption.key_store import KeyStore, MasterKeys
from threadkeep.storage.encryption.storage import EncryptedStorage
from threadkeep.storage.interface import Ref, Storage
from threadkeep.storage.memory import InMemoryStorage
from threadkeep.storage.mongodb.storage import MongoStorage
from threadkeep.storage.postgres.pool import PostgresPool
from threadkeep.storage.postgres.storage import PostgresStorage
from threadkeep.storage.redis.storage import RedisStorage
from threadkeep.storage.sqlite.storage import SqliteStorage
from threadkeep.testing.clock import FrozenClock
from threadkeep.testing.storage_contract import OpenStorage, SharedStorageContract
from threadkeep.testing.storage_contract.world import ANA, BOB, NOTES, VECTOR, commit, delete, get, keys, note, require

pytestmark = pytest.mark.slow
"""The contract runs over the plain storages in `make test-fast`."""

MASTERS: Final = MasterKeys(new_master_key(), variable="THREADKEEP_MASTER_KEY")


def over(clock: FrozenClock, open_inner: Callable[[str], Storage]) -> OpenStorage:
    """Return a function that opens an encrypted storage over *open_inner*; the keys have a key prefix of their own."""

    def opened(*, key_prefix: str = "") -> EncryptedStorage:
        return EncryptedStorage(
            open_inner(key_prefix), KeyStore(open_inner(f"{key_prefix}~keys"), MASTERS, clock), clock
        )

    return opened


class TestEncryptedInMemoryStorage(LargeInSoak):
    @pytest.fixture
    def open_storage(self, clock: FrozenClock) -> OpenStorage:
        return over(clock, lambda prefix: InMemoryStorage(key_prefix=prefix, clock=clock))


class TestEncryptedSqliteStorage(LargeInSoak, SharedStorageContract):
    @pytest.fixture
    def open_storage(self, clock: FrozenClock, tmp_path: Path) -> OpenStorage:
        return over(clock, lambda prefix: SqliteStorage(tmp_path / "memory.db", key_prefix=prefix, clock=clock))


class TestEncryptedServers:
    @pytest.fixture
    def clock(self) -> FrozenClock:
        return FrozenClock()

    @pytest.fixture(params=["redis", "postgres", "mongodb"])
    def open_storage(self, request: pytest.FixtureRequest, clock: FrozenClock) -> OpenStorage:
        """Each server in turn, empty."""
        server: str = request.param
        url: str = request.getfixturevalue("shared_postgres_url" if server == "postgres" else f"{server}_url")
        of_this_test = new_id()

        def open_inner(prefix: str) -> Storage:
            key_prefix = f"{of_this_test}{prefix}"
            if server == "redis":
                return RedisStorage(url, key_prefix=key_prefix, clock=clock)
            if server == "postgres":
                return PostgresStorage(PostgresPool(url), key_prefix=key_prefix, clock=clock)
            return MongoStorage(f"{url}?journal=false", key_prefix=key_prefix, clock=clock)

        return over(clock, open_inner)

    async def test_items_survive_a_reopening_and_end_with_an_erasure(self, open_storage: OpenStorage):
        """Commit, refuse a conflict, reopen, read by every method, delete and erase."""
        storage = open_storage()
        await storage.connect()
        start = await storage.position(ANA)
        await commit(storage, note("tea", embedding=VECTOR), note("bread", "bakes bread", data=b"\0crumb"))
        await commit(storage, note("tea", "likes coffee"), partition=BOB)
        with pytest.raises(RevisionConflictError):
            await commit(storage, note("tea", "hates tea", expect="absent"), note("late"))
        await storage.close()

        storage = open_storage()
        await storage.connect()
        tea, late = await storage.get([Ref(ANA, NOTES, "tea"), Ref(ANA, NOTES, "late")])
        assert tea is not None
        assert (tea.value, tea.embedding, late) == ({"data": "likes tea"}, VECTOR, None)
        assert (await require(storage, "bread")).data == b"\0crumb"
        assert sorted(keys((await storage.scan(ANA, prefix=NOTES)).items)) == ["bread", "tea"]
        assert await storage.namespaces() == (NOTES,)
        assert set(await storage.partitions()) == {ANA, BOB}
        changes = await storage.changes(ANA, start)
        assert sorted(keys(changes.puts)) == ["bread", "tea"]

        await commit(storage, delete("bread"))
        assert await get(storage, "bread") is None
        await storage.erase(ANA)
        assert await get(storage, "tea") is None
        assert (await require(storage, "tea", partition=BOB)).value == {"data": "likes coffee"}
        await storage.close()
