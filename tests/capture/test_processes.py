"""Several processes, and processes that die, on one SQLite file."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from tests.capture.world import ANA, LONG, facts, memories, room, rows, turn
from tests.processes import PIPE, start_python
from threadkeep.capture.queue import QueueTerms
from threadkeep.capture.service import CaptureService
from threadkeep.clock import SystemClock
from threadkeep.ids import ThreadId
from threadkeep.storage.sqlite.storage import SqliteStorage

ROOT = Path(__file__).parents[2]
TH = ThreadId("th")
SHORT = QueueTerms(lease=timedelta(seconds=1))


@asynccontextmanager
async def process(path: Path) -> AsyncGenerator[tuple[CaptureService, SqliteStorage]]:
    """Open what one process would: a storage and a room of its own on the file."""
    clock = SystemClock()
    storage = SqliteStorage(path, clock=clock)
    await storage.connect()
    captures = room(storage, clock, terms=SHORT)
    try:
        yield captures, storage
    finally:
        await captures.stop()
        await storage.close()


class TestTwoWorkers:
    async def test_they_never_double(self, tmp_path: Path):
        """Whoever comes second reads again and finds the turn done."""
        async with AsyncExitStack() as stack:
            one, storage = await stack.enter_async_context(process(tmp_path / "m.db"))
            other, _ = await stack.enter_async_context(process(tmp_path / "m.db"))
            for number in range(12):
                said = turn(f"I have a cat called Cat{number % 3}", key=f"k{number}")
                await one.record(said, owner=ANA, thread_id=TH)

            for _ in range(3):
                await asyncio.gather(one.drain(LONG), other.drain(LONG))

            found = [memory for memory in await memories(storage) if memory.kind == "semantic"]
            assert sorted(memory.text for memory in found) == [f"I have a cat called Cat{n}" for n in range(3)]
            assert [len(memory.sources) for memory in found] == [4] * 3

    async def test_waiting_caller_sees_what_the_other_process_finished(self, tmp_path: Path):
        """Settling looks at the record, not only at this process's own worker."""
        async with AsyncExitStack() as stack:
            one, _ = await stack.enter_async_context(process(tmp_path / "m.db"))
            other, _ = await stack.enter_async_context(process(tmp_path / "m.db"))
            receipt = await one.record(turn("I live in Lisbon"), owner=ANA, thread_id=TH)

            waiting = asyncio.create_task(one.settle(receipt, owner=ANA, timeout=LONG))
            await other.drain(LONG)

            assert (await waiting).status == "done"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="kills with SIGKILL")
class TestKilled:
    async def test_no_acknowledged_turn_is_lost_and_none_counts_twice(self, tmp_path: Path):
        """Killed at whatever it was doing, again and again; the next process finishes it."""
        path = tmp_path / "m.db"
        acknowledged: set[int] = set()
        for attempt in range(5):
            acknowledged |= await asyncio.to_thread(run_and_kill, path, first=attempt * 10_000, lines=3 + 4 * attempt)

        async with process(path) as (captures, storage):
            assert await captures.drain(LONG, others=True)

            known = await facts(storage)
            assert len(known) == len(set(known))
            assert {f"I have a cat called Cat{number}" for number in acknowledged} <= set(known)
            assert all(len(memory.sources) == 1 for memory in await memories(storage))
            states = {row.value["state"] for row in await rows(storage, ANA, ".turns")}
            assert states == {"done"}


def run_and_kill(path: Path, *, first: int, lines: int) -> set[int]:
    """Run the victim until it acknowledged so many turns, kill it, and return which it did."""
    arguments = (path, ANA.user_id, str(first))
    with start_python("-m", "tests.capture.victim", *arguments, cwd=ROOT, stdout=PIPE) as victim:
        assert victim.stdout is not None
        said = [victim.stdout.readline() for _ in range(lines)]
        victim.kill()
        said += victim.stdout.readlines()
    return {int(line) for line in said if line.endswith("\n")}
