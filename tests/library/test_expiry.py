"""LANGGRAPH_STORE_TTL_MINUTES really expires: nothing shows an expired memory, and it leaves the file."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

import threadkeep
from threadkeep.testing import FrozenClock, HashingEmbedder

ANA = "ana@x.org"
SAID = [{"role": "user", "content": "I live in Lisbon."}]


@pytest.fixture
def clock() -> FrozenClock:
    """Return a clock that the test moves."""
    return FrozenClock()


@pytest.fixture
async def tk(tmp_path: Path, clock: FrozenClock) -> AsyncIterator[threadkeep.Threadkeep]:
    """Return a memory whose rows live for half a minute."""
    settings = threadkeep.Settings.load(
        store_type="sqlite", store_sqlite_path=tmp_path / "memory.db", store_ttl_minutes=0.5
    )
    async with threadkeep.open(settings=settings, embedder=HashingEmbedder(), clock=clock) as opened:
        yield opened


def everything_in(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.glob("memory.db*"))


class TestExpire:
    """Half a minute later it is gone, unless it is pinned."""

    async def test_every_read_leaves_it_out(self, tk: threadkeep.Threadkeep, clock: FrozenClock) -> None:
        """List, get, search, recall and the LangGraph store agree; what was captured expires, too."""
        kept = await tk.memories.remember("I have two cats.", owner=ANA)
        await tk.capture(SAID, owner=ANA, thread_id="1", wait=True)
        await tk.memories.search("cats", owner=ANA)

        clock.advance(timedelta(seconds=31))

        assert await tk.memories.list(owner=ANA) == []
        assert await tk.memories.get(kept.memory_id, owner=ANA) is None
        assert await tk.memories.search("cats", owner=ANA) == []
        assert (await tk.recall("How many cats have I?", owner=ANA)).memories == ()
        assert await tk.store.asearch(("memories", tk.label(ANA)), query="cats") == []

    async def test_pinned_ones_stay(self, tk: threadkeep.Threadkeep, clock: FrozenClock) -> None:
        """A pin outlives the setting; taking it away lets the memory expire."""
        kept = await tk.memories.remember("I have two cats.", owner=ANA, pinned=True)
        clock.advance(timedelta(days=400))

        assert [memory.text for memory in await tk.memories.list(owner=ANA)] == ["I have two cats."]
        await tk.memories.pin(kept.memory_id, owner=ANA, pinned=False)
        clock.advance(timedelta(seconds=31))
        assert await tk.memories.list(owner=ANA) == []

    async def test_it_leaves_the_file(self, tk: threadkeep.Threadkeep, clock: FrozenClock, tmp_path: Path) -> None:
        """The sweeper removes the row itself; after closing no byte of it is left."""
        tk.app.sweep_every = timedelta(milliseconds=10)
        await tk.memories.remember("My cats are Whiskerwick and Mittensworth.", owner=ANA)
        clock.advance(timedelta(seconds=31))

        async with asyncio.timeout(20):
            while not tk.app.telemetry.counts().get("storage.swept"):
                await asyncio.sleep(0.01)
        await tk.aclose()

        assert b"Whiskerwick" not in everything_in(tmp_path)

    async def test_items_of_the_store_expire_by_the_setting(
        self, tk: threadkeep.Threadkeep, clock: FrozenClock
    ) -> None:
        """What is put through LangGraph's store lives as long, and reading it does not prolong it."""
        await tk.store.aput(("notes",), "1", {"text": "cats"})
        clock.advance(timedelta(seconds=20))
        assert await tk.store.aget(("notes",), "1") is not None

        clock.advance(timedelta(seconds=11))

        assert await tk.store.aget(("notes",), "1") is None
