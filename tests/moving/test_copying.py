"""A copy is the same items: every field, every partition, whatever happens on the way."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.moving.world import ANA, DAY, EMBEDDER, commit, fill, items_of, memory, memory_of, told
from threadkeep.clock import Clock
from threadkeep.errors import InvalidInputError, StorageUnavailableError
from threadkeep.ids import new_id
from threadkeep.storage.interface import Batch, Delete, Position, Storage
from threadkeep.storage.memory import InMemoryStorage
from threadkeep.storage.sqlite.storage import SqliteStorage
from threadkeep.testing import FrozenClock
from threadkeep.transfer.copying import Moving
from threadkeep.transfer.sources import MARKS, StorageSource


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest_asyncio.fixture
async def source(clock: FrozenClock) -> AsyncGenerator[InMemoryStorage]:
    storage = memory_of(clock)
    await storage.connect()
    await fill(storage, clock)
    yield storage
    await storage.close()


@pytest_asyncio.fixture
async def target(clock: FrozenClock, tmp_path: Path) -> AsyncGenerator[SqliteStorage]:
    storage = SqliteStorage(tmp_path / "target.db", clock=clock)
    await storage.connect()
    yield storage
    await storage.close()


def moving(target: Storage, clock: FrozenClock) -> Moving:
    return Moving(target, EMBEDDER, clock)


async def require_the_same(source: Storage, target: Storage) -> None:
    ours, theirs = await items_of(source), await items_of(target)
    assert {place: told(item) for place, item in theirs.items()} == {place: told(item) for place, item in ours.items()}


class TestACopy:
    async def test_is_the_same_items(self, source: InMemoryStorage, target: SqliteStorage, clock: FrozenClock):
        """Values, moments, lives, waiting work, vectors and paths, of partitions of every kind, internal items too."""
        seen: list[tuple[int, int]] = []

        copied = await moving(target, clock).copy(
            StorageSource(source), progress=lambda done, total: seen.append((done, total))
        )

        await require_the_same(source, target)
        items = len(await items_of(source))
        assert (copied.read, copied.written, copied.verified, copied.present) == (items, items, items, 0)
        assert copied.complete
        assert copied.partitions == 4
        assert seen[-1][0] == 2 * items
        assert all(done <= total for done, total in seen)

    async def test_keeps_the_order_of_scans(self, source: InMemoryStorage, target: SqliteStorage, clock: FrozenClock):
        await moving(target, clock).copy(StorageSource(source))

        for partition in await source.partitions():
            ours, theirs = [[item.ref.key for item in (await s.scan(partition)).items] for s in (source, target)]
            assert theirs == ours

    async def test_can_be_searched_as_before(self, source: InMemoryStorage, target: SqliteStorage, clock: FrozenClock):
        """What is searchable is told to an index, vectors included, and waiting work is found."""
        await moving(target, clock).copy(StorageSource(source))

        ours, theirs = [
            {item.ref.key for item in (await s.changes(ANA.partition, None)).puts} for s in (source, target)
        ]
        assert theirs == ours == {"tea", "bike", "unembedded"}
        assert [item.ref.key for item in await target.due("capture", now=clock.now(), limit=9)] == ["turn"]

    async def test_leaves_no_mark(self, source: InMemoryStorage, target: SqliteStorage, clock: FrozenClock):
        """The target is as if it had been written by itself."""
        await moving(target, clock).copy(StorageSource(source))

        assert MARKS not in await target.partitions()
        assert (await target.stats()).items == len(await items_of(source))

    async def test_has_the_checksum_of_its_source(
        self, source: InMemoryStorage, target: SqliteStorage, clock: FrozenClock
    ):
        """As ``check`` tells it of either; another value anywhere is another checksum."""
        copied = await moving(target, clock).copy(StorageSource(source))

        checked = [await moving(storage, clock).check() for storage in (source, target)]
        assert {copied.checksum} == {found.checksum for found in checked}
        await commit(target, ANA.partition, memory(ANA, "tea", "likes black tea"))
        assert (await moving(target, clock).check()).checksum != copied.checksum

    async def test_of_nothing_is_nothing(self, target: SqliteStorage, clock: FrozenClock):
        empty = memory_of(clock)

        copied = await moving(target, clock).copy(StorageSource(empty))

        assert (copied.read, copied.complete) == (0, True)

    async def test_can_be_tried_dry(self, source: InMemoryStorage, target: SqliteStorage, clock: FrozenClock):
        """It counts and sums, and writes nothing."""
        dry = await moving(target, clock).copy(StorageSource(source), dry=True)

        assert (await target.stats()).partitions == 0
        assert dry.written == 0
        assert dry.checksum == (await moving(target, clock).copy(StorageSource(source))).checksum


class TestAnInterruptedCopy:
    @pytest.mark.parametrize("commits", [1, 2, 4])
    async def test_goes_on_where_it_was(
        self, source: InMemoryStorage, target: SqliteStorage, clock: FrozenClock, commits: int
    ):
        """What was written before is found and left alone; nothing is there twice."""
        breaking = Breaking(target, commits)
        with pytest.raises(StorageUnavailableError):
            await moving(breaking, clock).copy(StorageSource(source))

        copied = await moving(target, clock).copy(StorageSource(source))

        assert copied.resumed
        assert copied.complete
        assert copied.present > 0 or commits == 1
        assert copied.present + copied.written == copied.read
        await require_the_same(source, target)

    async def test_takes_over_what_changed_meanwhile(
        self, source: InMemoryStorage, target: SqliteStorage, clock: FrozenClock
    ):
        """The second run brings what was written to the source after the first one."""
        with pytest.raises(StorageUnavailableError):
            await moving(Breaking(target, 3), clock).copy(StorageSource(source))
        for partition in await source.partitions():
            if partition == ANA.partition:
                await commit(source, partition, memory(ANA, "tea", "likes black tea"))

        copied = await moving(target, clock).copy(StorageSource(source))

        assert copied.complete
        await require_the_same(source, target)

    async def test_says_so_where_the_source_is_written_to(
        self, source: InMemoryStorage, target: SqliteStorage, clock: FrozenClock
    ):
        """What was changed between reading and reading back is told, and the next run sets it right."""
        copied = await moving(target, clock).copy(Meddled(source))

        assert copied.unequal == 1
        assert not copied.complete
        again = await moving(target, clock).copy(StorageSource(source))
        assert again.resumed
        assert (again.written, again.complete) == (1, True)
        await require_the_same(source, target)

    async def test_tells_what_was_deleted_at_the_source(
        self, source: InMemoryStorage, target: SqliteStorage, clock: FrozenClock
    ):
        """An item that only an earlier run has brought is one too many."""
        with pytest.raises(StorageUnavailableError):
            await moving(Breaking(target, 5), clock).copy(StorageSource(source))
        held = await items_of(target)
        gone = next(item for item in held.values() if item.ref.partition != MARKS)
        await commit(source, gone.ref.partition, Delete(gone.ref.namespace, gone.ref.key))

        copied = await moving(target, clock).copy(StorageSource(source))

        assert copied.unequal == 1


class TestATargetThatHoldsSomething:
    async def test_is_refused(self, source: InMemoryStorage, target: SqliteStorage, clock: FrozenClock):
        """And not touched."""
        await commit(target, ANA.partition, memory(ANA, "mine", "was here before"))

        with pytest.raises(InvalidInputError, match="already has 1 items"):
            await moving(target, clock).copy(StorageSource(source))

        assert len(await items_of(target)) == 1

    async def test_that_has_expired_is_empty(self, source: InMemoryStorage, target: SqliteStorage, clock: FrozenClock):
        await commit(target, ANA.partition, memory(ANA, "mine", "was here before", ttl=DAY))
        clock.advance(DAY)

        assert (await moving(target, clock).copy(StorageSource(source))).complete

    async def test_is_added_to_where_that_is_asked(
        self, source: InMemoryStorage, target: SqliteStorage, clock: FrozenClock
    ):
        """What is there stays, also where the source has something else in its place."""
        await commit(target, ANA.partition, memory(ANA, "mine", "was here"), memory(ANA, "tea", "was here, too"))

        copied = await moving(target, clock).copy(StorageSource(source), merge=True)

        held = {place[2]: item.value for place, item in (await items_of(target)).items()}
        assert held["mine"] == {"data": "was here"}
        assert held["tea"] == {"data": "was here, too"} or copied.differing == 1
        assert (copied.differing, copied.unequal, copied.complete) == (1, 0, False)
        assert MARKS not in await target.partitions()

    async def test_is_replaced_where_that_is_asked(
        self, source: InMemoryStorage, target: SqliteStorage, clock: FrozenClock
    ):
        await commit(target, ANA.partition, memory(ANA, "mine", "was here"), memory(ANA, "tea", "was here, too"))

        copied = await moving(target, clock).copy(StorageSource(source), merge=True, overwrite=True)

        assert (copied.differing, copied.complete) == (0, True)
        held = await items_of(target)
        for place, item in (await items_of(source)).items():
            assert told(held[place]) == told(item)

    async def test_source_wins_over_concurrent_writes(
        self, source: InMemoryStorage, target: SqliteStorage, clock: FrozenClock
    ):
        """A write that comes between looking and writing is seen: it is looked at again, and kept."""
        racing = Racing(target, memory(ANA, "tea", "written meanwhile"))

        copied = await moving(racing, clock).copy(StorageSource(source), merge=True)

        assert copied.differing == 1
        held = await items_of(target)
        (tea,) = [item for item in held.values() if item.ref.key == "tea" and item.ref.partition == ANA.partition]
        assert tea.value == {"data": "written meanwhile"}


@pytest.mark.slow
class TestEveryBackend:
    """To each of them and back."""

    @pytest.mark.parametrize("kind", ["redis_url", "postgres_url", "mongodb_url"])
    async def test_there_and_back(
        self,
        source: InMemoryStorage,
        target: SqliteStorage,
        clock: FrozenClock,
        kind: str,
        request: pytest.FixtureRequest,
    ):
        url = request.getfixturevalue(kind)
        there = storage_at(f"{url}?journal=false" if kind == "mongodb_url" else url, clock)
        try:
            await there.connect()
            out = await moving(there, clock).copy(StorageSource(source))
            checked = await moving(there, clock).check()
            back = await moving(target, clock).copy(StorageSource(there, key_prefix="x"))
        finally:
            await there.close()

        assert out.complete
        assert back.complete
        assert out.checksum == checked.checksum == back.checksum
        assert checked.sound
        await require_the_same(source, target)


def storage_at(url: str, clock: Clock) -> Storage:
    from threadkeep.registry import create_storage, resolve_settings
    from threadkeep.settings import Settings

    settings = Settings().model_copy(update={"store_key_prefix": new_id(), "postgres_statement_timeout_ms": 60_000})
    return create_storage(resolve_settings(url, settings), clock)


class Meddled(StorageSource):
    """Somebody writes to it before it is read a second time."""

    _read = 0

    async def pages(self) -> AsyncGenerator[Any]:
        self._read += 1
        if self._read == 2:
            await commit(self._storage, ANA.partition, memory(ANA, "tea", "likes black tea"))
        async for page in super().pages():
            yield page


class Wrapped:
    """A storage, with one method changed."""

    def __init__(self, inner: Storage) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class Breaking(Wrapped):
    """Goes away after so many commits."""

    def __init__(self, inner: Storage, commits: int) -> None:
        super().__init__(inner)
        self._left = commits

    async def commit(self, batch: Batch) -> Position:
        if not self._left:
            raise StorageUnavailableError("It went away.")
        self._left -= 1
        return await self._inner.commit(batch)


class Racing(Wrapped):
    """Somebody else writes one item, just before the first commit to its partition."""

    def __init__(self, inner: Storage, put: Any) -> None:
        super().__init__(inner)
        self._put: Any = put

    async def commit(self, batch: Batch) -> Position:
        if self._put is not None and batch.partition == ANA.partition:
            put, self._put = self._put, None
            await self._inner.commit(Batch(batch.partition, [put]))
        return await self._inner.commit(batch)


def test_the_checksum_knows_no_order():
    from threadkeep.transfer.importer import Tally

    one, other = Tally(), Tally()
    for tally, order in ((one, "abc"), (other, "cab")):
        for letter in order:
            tally.add(letter.encode())

    assert one.checksum == other.checksum
    other.add(b"a")
    assert one.checksum != other.checksum
    assert len(one.checksum) == 64
