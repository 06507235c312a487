"""Two storages at one location: "two with different key prefixes share nothing, in any method"."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from threadkeep.errors import PartitionErasedError, RevisionConflictError
from threadkeep.storage.interface import Due, ImmediateReads, Position, Ref, Storage
from threadkeep.testing.clock import FrozenClock
from threadkeep.testing.storage_contract.changes import Follower
from threadkeep.testing.storage_contract.expiring import MINUTE
from threadkeep.testing.storage_contract.world import (
    ANA,
    NOTES,
    OpenStorage,
    World,
    commit,
    get,
    keys,
    note,
    plain,
    require,
)


class Sharing(World):
    """What one sees of the other."""

    @pytest_asyncio.fixture
    async def beside(self, open_storage: OpenStorage, storage: Storage) -> AsyncIterator[Storage]:
        """A second storage at the location of ``storage``, which is made by then."""
        beside = open_storage()
        await beside.connect()
        yield beside
        await beside.close()

    @pytest_asyncio.fixture(params=["staging", "a:b", "\ud800\0%_"])
    async def stranger(
        self, open_storage: OpenStorage, storage: Storage, request: pytest.FixtureRequest
    ) -> AsyncIterator[Storage]:
        """A storage of another deployment at the same location."""
        stranger = open_storage(key_prefix=str(request.param))
        await stranger.connect()
        yield stranger
        await stranger.close()

    async def test_every_later_read_sees_a_commit(self, storage: Storage, beside: Storage) -> None:
        """ "Every later read, by any process, sees it", in every method."""
        before = await beside.position(ANA)

        position = await commit(storage, note("1"))

        assert await beside.position(ANA) == position
        assert (await require(beside, "1")).value == {"data": "likes tea"}
        assert keys((await beside.scan(ANA)).items) == ["1"]
        assert keys((await beside.changes(ANA, before)).puts) == ["1"]
        assert await beside.namespaces() == (("memories", "ana"),)
        assert await beside.partitions() == (ANA,)
        if isinstance(beside, ImmediateReads):
            assert not beside.is_at(ANA, before)
            assert beside.is_at(ANA, position)
            assert beside.try_position(ANA) == await asyncio.to_thread(beside.try_position, ANA) == position
            assert await asyncio.to_thread(beside.is_at, ANA, position)
            assert not await asyncio.to_thread(beside.is_at, ANA, before)
            told = await asyncio.to_thread(beside.try_get, [Ref(ANA, NOTES, "1")])
            assert told == (await require(beside, "1"),)

    async def test_what_was_written_outlives_the_storage(self, open_storage: OpenStorage) -> None:
        """ "When this returns, the batch is durable": a new storage reads it, and goes on counting."""
        first = open_storage()
        await first.connect()
        position = await commit(first, note("1"))
        await first.close()

        second = open_storage()
        await second.connect()
        try:
            assert await second.position(ANA) == position
            assert (await require(second, "1")).revision == position.sequence
            assert (await commit(second, note("1"))).sequence == position.sequence + 1
        finally:
            await second.close()

    async def test_storages_that_connect_together_are_all_connected(self, open_storage: OpenStorage) -> None:
        """The first process creates what is needed, and no process fails."""
        storages = [open_storage() for _ in range(4)]

        await asyncio.gather(*(storage.connect() for storage in storages))

        epochs = {(await storage.position(ANA)).epoch for storage in storages}
        await asyncio.gather(*(storage.close() for storage in storages))
        assert len(epochs) == 1

    async def test_of_two_processes_that_expect_the_same_one_wins(self, storage: Storage, beside: Storage) -> None:
        """Expectations hold between storages, round after round."""
        position = await commit(storage, plain("1", {"by": None}))
        for _ in range(10):
            results = await asyncio.gather(
                commit(storage, plain("1", {"by": 0}, expect=position.sequence)),
                commit(beside, plain("1", {"by": 1}, expect=position.sequence)),
                return_exceptions=True,
            )
            (won,) = [by for by, result in enumerate(results) if isinstance(result, Position)]
            assert isinstance(results[1 - won], RevisionConflictError)
            item = await require(beside, "1")
            assert item.value == {"by": won}
            position = await storage.position(ANA)

    async def test_a_follower_may_ask_any_of_them(self, storage: Storage, beside: Storage) -> None:
        """A position means the same on both."""
        follower = Follower()
        for number in range(6):
            await commit(storage, note(f"{number}"))
            await follower.follow(beside if number % 2 else storage)

        assert (len(follower.items), follower.resets) == (6, 1)

    async def test_an_erasure_is_everybody_s(self, storage: Storage, beside: Storage) -> None:
        """Work in flight of another process is refused."""
        begun = await beside.position(ANA)
        await commit(storage, note("1"))
        await storage.erase(ANA)

        assert (await beside.scan(ANA)).items == ()
        if isinstance(beside, ImmediateReads):
            assert beside.try_get([Ref(ANA, NOTES, "1")]) == (None,)
        with pytest.raises(PartitionErasedError):
            await commit(beside, note("2"), epoch=begun.epoch)

    async def test_another_deployment_reads_nothing(
        self, storage: Storage, stranger: Storage, clock: FrozenClock
    ) -> None:
        """Not through any method, the service's included."""
        await commit(storage, note("1", due=Due("work", clock.now())))

        assert await get(stranger, "1") is None
        if isinstance(stranger, ImmediateReads):
            assert stranger.try_get([Ref(ANA, NOTES, "1")]) == (None,)
        assert (await stranger.position(ANA)).sequence == 0
        assert (await stranger.scan(ANA)).items == ()
        assert (await stranger.changes(ANA, None)).puts == ()
        assert await stranger.namespaces() == ()
        assert await stranger.partitions() == ()
        assert await stranger.due("work", now=clock.now(), limit=10) == ()
        assert ((await stranger.stats()).partitions, (await stranger.stats()).items) == (0, 0)

    async def test_another_deployment_changes_nothing(
        self, storage: Storage, stranger: Storage, clock: FrozenClock
    ) -> None:
        """Writing, erasing and sweeping stay at home."""
        position = await commit(storage, note("1", ttl=MINUTE), note("2"))

        await commit(stranger, note("2", "of a stranger"))
        await stranger.erase(ANA)
        assert await stranger.sweep(now=clock.now() + 2 * MINUTE) == 0

        assert await storage.position(ANA) == position
        assert keys((await storage.scan(ANA, direction="oldest")).items) == ["1", "2"]
        assert (await require(storage, "2")).value == {"data": "likes tea"}
