"""Several processes, killed ones among them, and threads that end."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import signal
import threading
import time
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from tests.storage.forking import ended_well, forked
from threadkeep.errors import ClosedError, RevisionConflictError
from threadkeep.storage.interface import Batch, Partition, Put, Ref
from threadkeep.storage.sqlite.storage import SqliteStorage
from threadkeep.testing.clock import FrozenClock

ANA = Partition("owner", ("", "ana"))
NOTES = ("memories", "ana")
COUNTER = Ref(ANA, NOTES, "counter")


def sqlite(path: Path) -> SqliteStorage:
    return SqliteStorage(path, clock=FrozenClock())


def note(key: str) -> Put:
    return Put(NOTES, key, {"data": f"this is {key} " * 50}, ("data",))


async def all_keys(path: Path) -> set[str]:
    storage = sqlite(path)
    await storage.connect()
    page = await storage.scan(ANA, limit=100_000)
    await storage.close()
    return {item.ref.key for item in page.items}


@pytest.mark.linux
class TestProcesses:
    def test_two_processes_write_to_one_file(self, tmp_path: Path) -> None:
        """Each commit has a number of its own, and nothing is lost, the making of the file included."""
        path = tmp_path / "memory.db"

        async def work(name: str) -> None:
            storage = sqlite(path)
            await storage.connect()
            for number in range(50):
                await storage.commit(Batch(ANA, [note(f"{name}-{number}")]))
            await storage.close()

        children = [forked(lambda name=name: asyncio.run(work(name))) for name in ("a", "b")]

        assert [ended_well(child) for child in children] == [True, True]
        assert asyncio.run(all_keys(path)) == {f"{name}-{number}" for name in "ab" for number in range(50)}
        assert asyncio.run(position(path)) == 100

    @pytest.mark.slow
    def test_eight_processes_race_for_one_owner(self, tmp_path: Path) -> None:
        """Each adds to the same counter what it expects to be there: every increment is in it once."""
        path = tmp_path / "memory.db"

        async def work() -> None:
            storage = sqlite(path)
            await storage.connect()
            done = 0
            while done < 10:
                (item,) = await storage.get([COUNTER])
                counted = Put(NOTES, "counter", {"n": item.value["n"] + 1 if item else 1})
                try:
                    await storage.commit(Batch(ANA, [replace(counted, expect=item.revision if item else "absent")]))
                except RevisionConflictError:
                    continue
                done += 1
            await storage.close()

        children = [forked(lambda: asyncio.run(work())) for _ in range(8)]

        async def total() -> int:
            storage = sqlite(path)
            await storage.connect()
            (item,) = await storage.get([COUNTER])
            await storage.close()
            assert item
            return item.value["n"]

        assert [ended_well(child) for child in children] == [True] * 8
        assert (asyncio.run(total()), asyncio.run(position(path))) == (80, 80)

    @pytest.mark.slow
    def test_a_process_that_is_killed_loses_nothing_it_has_acknowledged(self, tmp_path: Path) -> None:
        """Twenty kills in the middle of commits: what was acknowledged is there, and no part of a batch."""
        path = tmp_path / "memory.db"
        dice = random.Random(7)
        acknowledged: set[str] = set()
        for turn in range(20):
            told, tell = os.pipe()

            async def work(turn: int = turn, tell: int = tell) -> None:
                storage = sqlite(path)
                await storage.connect()
                for number in range(1_000_000):
                    await storage.commit(Batch(ANA, [note(f"{turn}-{number}-{part}") for part in range(3)]))
                    os.write(tell, b".")

            child = forked(lambda: asyncio.run(work()))
            os.close(tell)
            count = sum(len(os.read(told, 1)) for _ in range(dice.randint(1, 12)))
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            while more := os.read(told, 4096):
                count += len(more)
            os.close(told)
            acknowledged |= {f"{turn}-{number}-{part}" for number in range(count) for part in range(3)}

        there = asyncio.run(all_keys(path))
        parts = {key.rpartition("-")[0]: 0 for key in there}
        for key in there:
            parts[key.rpartition("-")[0]] += 1
        assert len(acknowledged) >= 60
        assert acknowledged <= there
        assert set(parts.values()) == {3}

    def test_a_fork_cannot_use_its_parent_s_storage(self, tmp_path: Path) -> None:
        """It is told to open its own, and the parent goes on."""
        path = tmp_path / "memory.db"

        async def own() -> None:
            storage = sqlite(path)
            await storage.connect()
            await storage.commit(Batch(ANA, [note("child")]))
            await storage.close()

        async def inherited(storage: SqliteStorage) -> None:
            with pytest.raises(ClosedError, match="fork"):
                await storage.commit(Batch(ANA, [note("never")]))
            with pytest.raises(ClosedError, match="fork"):
                await storage.position(ANA)
            await storage.close()
            await own()

        loop = asyncio.new_event_loop()
        storage = sqlite(path)
        loop.run_until_complete(storage.connect())
        loop.run_until_complete(storage.commit(Batch(ANA, [note("before")])))

        child = forked(lambda: asyncio.run(inherited(storage)))

        assert ended_well(child)
        loop.run_until_complete(storage.commit(Batch(ANA, [note("after")])))
        loop.run_until_complete(storage.close())
        loop.close()
        assert asyncio.run(all_keys(path)) == {"before", "child", "after"}


async def position(path: Path) -> int:
    storage = sqlite(path)
    await storage.connect()
    found = await storage.position(ANA)
    await storage.close()
    return found.sequence


class TestClose:
    async def test_no_thread_is_left(self, tmp_path: Path) -> None:
        """After ``close``, and after a connection that failed."""
        before = threading.active_count()
        storage = sqlite(tmp_path / "memory.db")
        await storage.connect()
        await asyncio.gather(*(storage.scan(ANA) for _ in range(20)))
        assert threading.active_count() > before

        await storage.close()
        with pytest.raises(Exception, match="not a storage"):
            await sqlite(tmp_path).connect()

        assert threading.active_count() == before

    async def test_it_waits_for_what_runs(self, tmp_path: Path) -> None:
        """A commit that was asked for before is made, a read answered."""
        storage = sqlite(tmp_path / "memory.db")
        await storage.connect()
        commits = [asyncio.ensure_future(storage.commit(Batch(ANA, [note(f"{n}")]))) for n in range(20)]
        read = asyncio.ensure_future(storage.scan(ANA))
        await asyncio.sleep(0)

        await storage.close()

        assert sorted(position.sequence for position in await asyncio.gather(*commits)) == list(range(1, 21))
        await read
        assert len(await all_keys(tmp_path / "memory.db")) == 20

    def test_unclosed_storage_releases_its_resources(self, tmp_path: Path) -> None:
        """The file, its log and the threads, and without a warning."""

        async def forgetful() -> None:
            storage = sqlite(tmp_path / "memory.db")
            await storage.connect()
            await storage.commit(Batch(ANA, [note("1")]))
            await storage.scan(ANA)

        with warnings.catch_warnings():
            warnings.simplefilter("error")
            asyncio.run(forgetful())
            until = time.monotonic() + 20
            while {path.name for path in tmp_path.iterdir()} != {"memory.db"} and time.monotonic() < until:
                gc.collect()  # a thread that has just ended may have been the last to hold it

        assert [path.name for path in tmp_path.iterdir()] == ["memory.db"]
        assert asyncio.run(all_keys(tmp_path / "memory.db")) == {"1"}
