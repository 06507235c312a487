"""An embedder that never answers takes the meaning away, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

import threadkeep
from threadkeep.concurrency import TimeoutBudget
from threadkeep.container import Container
from threadkeep.identity import Owner
from threadkeep.observability import Telemetry
from threadkeep.search.retriever import Retriever
from threadkeep.settings import Settings
from threadkeep.storage.interface import Batch, Put
from threadkeep.storage.memory import InMemoryStorage
from threadkeep.testing import FrozenClock, HashingEmbedder

ANA = Owner("ana").partition
MOMENT = timedelta(milliseconds=1)
SLOW_SECONDS = 0.4
"""Longer than calls wait for an embedder that did not answer the one before."""

MANY = [f"green tea {number}" for number in range(600)]
"""They take a minute to be given up, if they are waited for."""


class StuckEmbedder:
    """Somebody's model that hangs."""

    name = "stuck@1"
    dims = 4
    remote = False

    async def ready(self) -> None:
        """Be loaded already."""

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Wait for ever."""
        await asyncio.Event().wait()
        raise AssertionError(texts)


class NeverReadyEmbedder(StuckEmbedder):
    """A server that accepts connections and never answers."""

    remote = True

    @override
    async def ready(self) -> None:
        await asyncio.Event().wait()


class LaterStuckEmbedder(HashingEmbedder):
    """Does not answer from when :attr:`stuck` is set until it is released, and slowly after that."""

    stuck = False

    def __init__(self) -> None:
        super().__init__()
        self.released = asyncio.Event()

    @override
    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if self.stuck:
            await self.released.wait()
            await asyncio.sleep(SLOW_SECONDS)
        return await super().embed(texts)


class TestEmbed:
    """It counts as down after its time, so that no caller and no worker waits for ever."""

    async def test_writers_go_on_without_vectors(self) -> None:
        """What is being kept is kept, to be found by its words."""
        telemetry, clock = Telemetry(), FrozenClock()
        search = Retriever(
            InMemoryStorage(clock=clock), StuckEmbedder(), clock, telemetry=telemetry, embed_timeout=MOMENT
        )

        assert await search.embed_put(["green tea"]) is None
        assert telemetry.counts() == {"embedder.degraded": 1}

    async def test_only_the_first_writer_waits(self) -> None:
        """Each of them would wait in vain."""
        clock = FrozenClock()
        search = Retriever(InMemoryStorage(clock=clock), StuckEmbedder(), clock, embed_timeout=MOMENT)
        assert await search.embed_put(["green tea"]) is None

        async with asyncio.timeout(20):
            assert await search.embed_put(MANY) is None

        await search.close()

    async def test_writers_wait_again_once_it_answers(self) -> None:
        """The probe, which no writer waits for, tells."""
        clock, embedder = FrozenClock(), LaterStuckEmbedder()
        search = Retriever(InMemoryStorage(clock=clock), embedder, clock, embed_timeout=MOMENT)
        embedder.stuck = True
        assert await search.embed_put(["green tea"]) is None
        embedder.released.set()

        async with asyncio.timeout(20):
            while await search.embed_put(MANY) is None:
                await asyncio.sleep(0.05)

        await search.close()

    async def test_questions_are_compared_by_words(self) -> None:
        """And the answer says so."""
        clock = FrozenClock()
        storage = InMemoryStorage(clock=clock)
        search = Retriever(storage, StuckEmbedder(), clock, embed_timeout=MOMENT)
        await storage.commit(Batch(ANA, [Put(("memories", "ana"), "tea", {"data": "green tea"}, index=("data",))]))

        found = await search.ranking(ANA, "tea", limit=1)

        assert [hit.key for hit in found.hits] == ["tea"]
        assert found.degraded == ("embedder",)
        await search.close()

    async def test_recall_gives_a_block_by_words_within_its_own_timeout(self) -> None:
        """The embedder's own timeout is far longer than that of a recall."""
        embedder, settings = LaterStuckEmbedder(), Settings.load(recall_timeout_ms="1000")
        async with threadkeep.open("memory://", embedder=embedder, settings=settings) as tk:
            await tk.memories.remember("The boat is moored in Trieste.", owner="ana")
            embedder.stuck = True

            found = await tk.recall("Where is the boat moored?", owner="ana")

        assert "Trieste" in found.text
        assert found.degraded == ("embedder",)


class TestWarm:
    """Loading an embedder has an end, too."""

    async def test_the_time_of_a_server_that_never_answers_counts(self) -> None:
        """A first recall asks it whether it is ready, and waited for ten times its timeout."""
        container = Container(Settings.load(), InMemoryStorage(clock=FrozenClock()), NeverReadyEmbedder())

        async with asyncio.timeout(10):
            missing = await container.warm(TimeoutBudget(MOMENT))

        assert missing == ("embedder",)
