"""Tests of searches on the calling thread, while the background loop is busy or changes the indexes."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

import threadkeep
from tests.recall.world import ImmediateHashingEmbedder
from tests.storage.forking import ended_well, forked
from threadkeep.errors import ClosedError, InvalidInputError
from threadkeep.settings import Settings

ANA, BOB = "ana", "bob"


@contextmanager
def home_busy(tk: threadkeep.Threadkeep) -> Iterator[None]:
    """Keep the home loop at something else, as long as it is not needed."""
    busy, go = threading.Event(), threading.Event()

    def wait() -> None:
        busy.set()
        go.wait(20)

    tk.app.event_loop.soon(wait)
    assert busy.wait(10)
    try:
        yield
    finally:
        go.set()


@pytest.fixture(params=["sqlite", "memory"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/memory.db" if request.param == "sqlite" else "memory://"


async def found(tk: threadkeep.Threadkeep, query: str = "tea", owner: str = ANA) -> list[str]:
    """Return what a search says."""
    async with asyncio.timeout(10):
        return [one.memory.text for one in await tk.memories.search(query, owner=owner)]


class TestSearch:
    async def test_warm_search_does_not_use_the_background_loop(self, url: str) -> None:
        """From any loop, whatever the home loop is at; and each owner finds their own."""
        async with threadkeep.open(url, embedder=ImmediateHashingEmbedder()) as tk:
            for owner in (ANA, BOB):
                await tk.memories.remember(f"I am {owner} and drink tea.", owner=owner)
                await found(tk, owner=owner)

            with home_busy(tk):
                assert await found(tk) == ["I am ana and drink tea."]
                assert await found(tk, owner=BOB) == ["I am bob and drink tea."]
                assert await asyncio.to_thread(lambda: asyncio.run(found(tk))) == ["I am ana and drink tea."]
                with pytest.raises(InvalidInputError):
                    await tk.memories.search("tea", owner=ANA, limit=-1)

    async def test_what_has_changed_is_seen_at_once(self, url: str) -> None:
        """What was acknowledged is found, what was corrected says what is new, what was forgotten is gone."""
        async with threadkeep.open(url, embedder=ImmediateHashingEmbedder()) as tk:
            kept = await tk.memories.remember("I drink green tea.", owner=ANA)
            assert kept.memory_id is not None
            for _ in range(2):
                assert await found(tk) == ["I drink green tea."]

            await tk.memories.correct(kept.memory_id, "I drink black tea.", owner=ANA)
            for _ in range(2):
                assert await found(tk) == ["I drink black tea."]
            await tk.memories.forget(kept.memory_id, owner=ANA)
            for _ in range(2):
                assert await found(tk) == []
            await tk.memories.remember("I own a teapot.", owner=ANA)
            assert await found(tk) == ["I own a teapot."]
            await tk.owners.erase(ANA)
            for _ in range(2):
                assert await found(tk) == []

    async def test_what_another_process_writes_is_seen_at_once(self, tmp_path: Path) -> None:
        """Whoever shares the file tells nobody; the file does."""
        url = f"sqlite:///{tmp_path}/memory.db"
        async with (
            threadkeep.open(url, embedder=ImmediateHashingEmbedder()) as one,
            threadkeep.open(url, embedder=ImmediateHashingEmbedder()) as other,
        ):
            for number in range(5):
                await one.memories.remember(f"I drink tea number {number}.", owner=ANA)

                assert len(await found(other)) == number + 1
                assert len(await found(other)) == number + 1

    async def test_what_was_found_counts_as_used(self, url: str) -> None:
        """However it was found."""
        settings = Settings.load().model_copy(update={"inactive_days": 90})
        async with threadkeep.open(url, settings=settings, embedder=ImmediateHashingEmbedder()) as tk:
            await tk.memories.remember("I drink tea.", owner=ANA)
            await found(tk)
            uses = tk.app.services.recalls._uses
            assert uses is not None
            uses._noted.clear()
            with home_busy(tk):
                await found(tk)

                assert list(uses._noted) == [threadkeep.Owner(ANA)]

    async def test_after_the_end_it_is_refused(self, url: str) -> None:
        """In a process that was forked, and where it was closed: as the home loop does."""
        async with threadkeep.open(url, embedder=ImmediateHashingEmbedder()) as tk:
            await tk.memories.remember("I drink tea.", owner=ANA)
            await found(tk)

            def refused() -> None:
                with pytest.raises(ClosedError, match="before the process forked"):
                    tk.memories.search("tea", owner=ANA).send(None)

            if hasattr(os, "fork"):
                assert ended_well(forked(refused))
        with pytest.raises(ClosedError, match="was closed"):
            await tk.memories.search("tea", owner=ANA)


class AwaitableCount:
    """What each owner was told is kept, and what is gone."""

    def __init__(self) -> None:
        self.kept: dict[str, dict[str, str]] = {ANA: {}, BOB: {}}
        self.gone: set[str] = set()
        self.over = threading.Event()


async def change(tk: threadkeep.Threadkeep, told: AwaitableCount, rounds: int) -> None:
    """Keep, correct, forget and erase; what is told is told when it has happened, and what goes before it begins."""
    for number in range(rounds):
        for owner, kept in told.kept.items():
            text = f"I am {owner} and drink tea number {number}."
            new = await tk.memories.remember(text, owner=owner)
            assert new.memory_id is not None
            kept[text] = new.memory_id
            if number % 3 == 1:
                old = min(kept)
                memory_id = kept.pop(old)
                if number % 2:
                    await tk.memories.forget(memory_id, owner=owner)
                else:
                    corrected = f"I am {owner} and drink coffee number {number}."
                    await tk.memories.correct(memory_id, corrected, owner=owner)
                    kept[corrected] = memory_id
                told.gone.add(old)
            if number % 15 == 14:
                erased = list(kept)
                kept.clear()
                await tk.owners.erase(owner)
                told.gone.update(erased)


async def look(tk: threadkeep.Threadkeep, told: AwaitableCount) -> int:
    """Search until all is over; return how often."""
    searches = 0
    while not told.over.is_set():
        for owner, kept in told.kept.items():
            gone, there = set(told.gone), list(kept)
            question = there[-1] if there else "tea"
            answers = [one.memory.text for one in await tk.memories.search(question, owner=owner, limit=60)]
            searches += 1

            assert all(f"I am {owner} " in text for text in answers)
            assert gone.isdisjoint(answers)
            assert not there or there[-1] in answers or there[-1] not in kept
    return searches


@pytest.mark.slow
@pytest.mark.parametrize("max_bytes", [1024 * 1024, 0], ids=["all fit", "one fits"])
async def test_many_threads_search_while_everything_changes(
    url: str, max_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody sees what was forgotten, or another's, or misses what was kept; nothing fails."""
    monkeypatch.setattr("threadkeep.search.index._MAX_PARSED", 8)
    monkeypatch.setattr("threadkeep.services._MEGABYTE", max_bytes)
    model, told = ImmediateHashingEmbedder(), AwaitableCount()
    async with threadkeep.open(url, embedder=model) as tk:
        await tk.ready()
        with ThreadPoolExecutor(3) as threads:
            looking = [threads.submit(lambda: asyncio.run(look(tk, told))) for _ in range(3)]
            try:
                await change(tk, told, rounds=30)
            finally:
                told.over.set()
            searches = [await asyncio.wrap_future(one) for one in looking]

        assert min(searches) > 0
        assert model.embedded_now > 0
