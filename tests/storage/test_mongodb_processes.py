"""Several processes at one place: every commit has a number of its own, and every read is of one moment."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterator

import pytest

from tests.storage.forking import ended_well, forked
from tests.storage.mongodb_world import ANA, NOTES, commit, get, left_over, note, opened, raw, texts
from threadkeep.errors import ClosedError, PartitionErasedError, RevisionConflictError, StorageUnavailableError
from threadkeep.storage.interface import Delete, Put, Ref
from threadkeep.storage.mongodb import commits
from threadkeep.storage.mongodb import storage as reads
from threadkeep.storage.mongodb.storage import MongoStorage
from threadkeep.testing.clock import FrozenClock
from threadkeep.testing.storage_contract.changes import Follower

pytestmark = [pytest.mark.linux, pytest.mark.slow]

WRITERS = 8
SAME = [f"{number}" for number in range(12)]


def process(url: str, work: Callable[[MongoStorage], Awaitable[object]]) -> int:
    """Run *work* on a storage of its own in a process of its own; return its id."""

    async def on_its_own() -> None:
        async with opened(url) as storage:
            await work(storage)

    return forked(lambda: asyncio.run(on_its_own()))


@pytest.fixture
def url(mongodb_url: str) -> str:
    """The database, on a test server that does not sync for every document."""
    return f"{mongodb_url}?journal=false"


class TestRacing:
    @pytest.mark.parametrize("rounds", [3, pytest.param(12, marks=pytest.mark.soak)])
    async def test_eight_writers_on_one_owner_lose_nothing(self, url: str, rounds: int) -> None:
        """Each counts up by a revision, and adds items of its own; in the end all of it is there."""

        async def count_up(storage: MongoStorage) -> None:
            while True:
                item = await get(storage, "counter")
                number = int(item.value["data"]) if item else 0
                mine = note(f"{os.getpid()}-{number}", "mine")
                try:
                    expected = item.revision if item else "absent"
                    await commit(storage, note("counter", f"{number + 1}", expect=expected), mine)
                except RevisionConflictError:
                    continue
                return

        async def work(storage: MongoStorage) -> None:
            for number in range(rounds):
                await count_up(storage)
                await commit(storage, note(f"{os.getpid()}-plain-{number}"))

        children = [process(url, work) for _ in range(WRITERS)]

        assert [ended_well(child) for child in children] == [True] * WRITERS
        async with opened(url) as storage:
            there = await texts(storage)
            assert there.pop("counter") == f"{WRITERS * rounds}"
            assert len(there) == 2 * WRITERS * rounds
            assert (await storage.position(ANA)).sequence == 2 * WRITERS * rounds
        assert left_over(url) == {"versions": 2 * WRITERS * rounds + 1, "notes": 0, "pending": 0, "open": 0}

    async def test_an_erasure_is_before_or_after_each_write(self, url: str) -> None:
        """Writers whose work began before it are refused from then on, and nothing of theirs is left."""
        async with opened(url) as storage:
            begun = await commit(storage, note("first"))

        async def work(storage: MongoStorage) -> None:
            try:
                for number in range(100_000):
                    await commit(storage, note(f"{os.getpid()}-{number}"), epoch=begun.epoch)
            except PartitionErasedError:
                return
            pytest.fail("it was never refused")

        children = [process(url, work) for _ in range(4)]
        async with opened(url) as storage:
            while (await storage.position(ANA)).sequence < 20:
                await asyncio.sleep(0.01)
            erased = await storage.erase(ANA)
            assert await texts(storage) == {}
            assert [ended_well(child) for child in children] == [True] * 4

            assert erased >= 20
            assert await texts(storage) == {}
            assert await storage.partitions() == ()
        assert left_over(url) == {"versions": 0, "notes": 0, "pending": 0, "open": 0}
        with raw(url) as database:
            said = [set(entry) - {"_id", "partition", "prefix"} for entry in database["threadkeep_batches"].find()]
            assert all(not fields & {"kind", "parts", "wrote", "ended"} for fields in said)


@pytest.fixture
def writing(url: str) -> Iterator[str]:
    """A database in which a process writes one number into all of ``SAME``, and the next, until the test ends."""

    async def work(storage: MongoStorage) -> None:
        number = 0
        while True:
            number += 1
            await commit(storage, *(Put(NOTES, key, {"n": number, "even": number % 2 == 0}, ("n",)) for key in SAME))

    child = process(url, work)
    yield url
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


class TestOneMoment:
    """What is written together is never seen apart."""

    async def test_however_it_is_read(self, writing: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Also where a read takes many commands, each with commits in between."""
        monkeypatch.setattr(reads, "_LONGEST_PART", 5)
        follower = Follower()
        seen: set[int] = set()
        async with opened(writing) as storage:
            while (await storage.position(ANA)).sequence < 2:
                await asyncio.sleep(0.01)
            for _ in range(25):
                got = [item.value["n"] for item in await storage.get([Ref(ANA, NOTES, key) for key in SAME]) if item]
                some = [
                    item.value["n"] for item in await storage.get([Ref(ANA, NOTES, k) for k in [*SAME, "no"]]) if item
                ]
                newest = [item.value["n"] for item in (await storage.scan(ANA)).items]
                oldest = [item.value["n"] for item in (await storage.scan(ANA, direction="oldest", limit=12)).items]
                even = [item.value["n"] for item in (await storage.scan(ANA, filter={"even": True})).items]
                await follower.follow(storage)
                followed = [item.value["n"] for item in follower.items.values()]
                for read in (got, some, newest, oldest, followed):
                    assert len(read) == len(SAME)
                    assert len(set(read)) == 1
                assert len(even) in (0, len(SAME))
                assert len(set(even)) <= 1
                assert got[0] <= some[0] <= newest[0] <= oldest[0] <= followed[0]
                seen.add(got[0])
        assert len(seen) > 3


class TestCachedRecords:
    async def test_what_another_process_wrote_is_read_at_once(self, url: str) -> None:
        """In every way, although this process has a recent record of its own to read from."""
        async with opened(url) as storage, opened(url) as other:
            position = await commit(storage, note("a"), note("b"))
            for text in ("likes tea", "likes coffee", "likes water"):
                await commit(other, note("a", text), note("b", text))
                got = await storage.get([Ref(ANA, NOTES, key) for key in ("a", "b")])
                assert [item.value["data"] for item in got if item] == [text, text]

                await commit(other, note("c", text))
                assert {item.ref.key for item in (await storage.scan(ANA)).items} == {"a", "b", "c"}

                await commit(other, Delete(NOTES, "c"))
                changes = await storage.changes(ANA, position)
                assert [item.value["data"] for item in changes.puts] == [text, text]
                assert list(changes.removed) == [(NOTES, "c")]
                position = changes.position


class TestForking:
    def test_a_fork_cannot_use_its_parent_s_storage(self, url: str) -> None:
        """It is told to open its own, and the parent goes on."""

        async def inherited(storage: MongoStorage) -> None:
            with pytest.raises(ClosedError, match="fork"):
                await commit(storage, note("never"))
            await storage.close()

        loop = asyncio.new_event_loop()
        storage = MongoStorage(url, clock=FrozenClock())
        loop.run_until_complete(storage.connect())
        loop.run_until_complete(commit(storage, note("before")))

        child = forked(lambda: asyncio.run(inherited(storage)))

        assert ended_well(child)
        loop.run_until_complete(commit(storage, note("after")))
        assert set(loop.run_until_complete(texts(storage))) == {"before", "after"}
        loop.run_until_complete(storage.close())
        loop.close()


class TestCancelling:
    async def test_a_commit_comes_to_its_end(self, url: str) -> None:
        """Its caller is let go at once; closing waits for it."""
        storage = MongoStorage(url, clock=FrozenClock())
        await storage.connect()
        writing = asyncio.create_task(commit(storage, note("1"), note("2")))
        await asyncio.sleep(0)
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        await storage.close()

        async with opened(url) as other:
            assert set(await texts(other)) == {"1", "2"}
        assert left_over(url) == {"versions": 2, "notes": 0, "pending": 0, "open": 0}

    async def test_it_is_never_lost(self, url: str) -> None:
        """Whenever it comes: a sweep that is told to end ends, and does not go to sleep instead."""

        async def for_ever(storage: MongoStorage) -> None:
            while True:
                await storage.due("work", now=FrozenClock().now(), limit=1)
                await asyncio.sleep(3600)

        async with opened(url) as storage:
            for turn in range(60):
                task = asyncio.create_task(for_ever(storage))
                for _ in range(turn):
                    await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task


class TestPatience:
    async def test_writer_that_is_never_first_gets_an_error(self, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """After a while, in one sentence, with nothing written."""
        monkeypatch.setattr(commits, "_RETRY_SECONDS", 0.0)
        async with opened(url) as storage:
            with pytest.raises(StorageUnavailableError, match="at the same time"):
                await commit(storage, note("1"))
            assert await get(storage, "1") is None
