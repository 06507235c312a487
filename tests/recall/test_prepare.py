"""Tests of searches and recalls on the calling thread, while the event loop changes indexes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.recall.world import ANA, MEMORIES, ImmediateHashingEmbedder, StillClock, keep, put
from threadkeep.identity import Owner
from threadkeep.memories.audited_writer import AuditedWriter
from threadkeep.memories.models import NewMemory
from threadkeep.memories.repository import MemoryRepository
from threadkeep.observability import Telemetry
from threadkeep.recall.models import Recall
from threadkeep.recall.service import RecallRequest, RecallService
from threadkeep.search.conversations import Conversations
from threadkeep.search.ranking import Ranking
from threadkeep.search.retriever import Retriever
from threadkeep.storage.interface import Batch, Delete, Partition, Position
from threadkeep.storage.memory import InMemoryStorage
from threadkeep_evals.facts import make_facts

BOB = Partition("owner", ("", "bob"))
WORDS = ("tea", "green", "cat", "Biscuit", "Lisbon", "Melanie", "runs", "the", "of", "when", "yesterday")

texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)
statements = st.builds(lambda name, text: f"{name}{text}", st.sampled_from(["", "Melanie: ", "Leo: "]), texts)


class PausingStorage(InMemoryStorage):
    """Tells its position at once; a caller on another thread can be paused after that."""

    def __init__(self, clock: StillClock) -> None:
        super().__init__(clock=clock)
        self._home = threading.get_ident()
        self.told = threading.Event()
        self.go = threading.Event()
        self.go.set()

    def is_at(self, partition: Partition, position: Position) -> bool:
        stands = super().is_at(partition, position)
        if threading.get_ident() != self._home:
            self.told.set()
            assert self.go.wait(10)
        return stands


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
async def storage(clock: StillClock) -> PausingStorage:
    return PausingStorage(clock)


@pytest.fixture
def model() -> ImmediateHashingEmbedder:
    return ImmediateHashingEmbedder()


@pytest.fixture
async def search(
    storage: PausingStorage, model: ImmediateHashingEmbedder, clock: StillClock
) -> AsyncIterator[Retriever]:
    opened = Retriever(storage, model, clock)
    yield opened
    await opened.close()


def ranked(
    search: Retriever, query: str = "tea", partition: Partition = ANA, limit: int | None = 100
) -> Ranking | None:
    """Rank on the calling thread; ``None``: something has to be prepared."""
    prepared = search.try_prepare(partition, lambda: search.parse(query))
    return None if prepared is None else prepared.rank(limit=limit)


class TestTryPrepare:
    @given(
        st.lists(statements, min_size=1, max_size=12, unique=True),
        st.lists(texts, min_size=1, max_size=4),
        st.sets(st.integers(0, 11)),
        st.integers(0, 12),
    )
    @settings(max_examples=60)
    def test_ranking_is_the_same_on_the_calling_thread(
        self, kept: list[str], questions: list[str], gone: set[int], limit: int
    ):
        """Every hit with every number of it, with participants, removals, vectors and without."""

        async def compare(model: ImmediateHashingEmbedder | None) -> None:
            clock = StillClock()
            storage = InMemoryStorage(clock=clock)
            search = Retriever(storage, model, clock)
            await keep(storage, search, *kept)
            await search.ranking(ANA, "tea", limit=1)
            if removed := [Delete(MEMORIES, kept[n]) for n in gone if n < len(kept)]:
                await storage.commit(Batch(ANA, removed))
            for question in questions:
                prepared = await search.ranking(ANA, question, limit=limit)
                result = ranked(search, question, limit=limit)

                assert result == prepared
                assert result is not None
                places = range(len(result.hits))
                memories = result.memories(places)
                assert [memories[place] for place in places] == await search.memories(ANA, prepared, places)
            await search.close()

        asyncio.run(compare(ImmediateHashingEmbedder()))
        asyncio.run(compare(None))

    async def test_stale_index_must_be_prepared(
        self, search: Retriever, storage: PausingStorage, model: ImmediateHashingEmbedder
    ):
        """No index, a change, a slow embedder, another owner, an erased owner."""
        await keep(storage, search, "tea one")
        assert ranked(search) is None, "no index in the cache"
        await search.ranking(ANA, "tea", limit=1)
        assert ranked(search) is not None

        assert ranked(search, partition=BOB) is None
        model.embeds_now = False
        assert ranked(search) is None, "the question has to be embedded"
        model.embeds_now = True
        await keep(storage, search, "tea two")
        assert ranked(search) is None, "a change"
        await search.ranking(ANA, "tea", limit=1)
        assert ranked(search) is not None
        await storage.erase(ANA)
        assert ranked(search) is None, "the owner was erased"

    async def test_refreshed_index_is_current(self, search: Retriever, storage: PausingStorage):
        """A turn that was learnt refreshes the index; the next question needs no preparation."""
        await keep(storage, search, "tea one")
        await search.ranking(ANA, "tea", limit=1)
        await keep(storage, search, "tea two")

        search.refresh(ANA)
        while search._tasks:
            await asyncio.wait(search._tasks)
        result = ranked(search)

        assert result is not None
        assert {hit.key for hit in result.hits} == {"tea one", "tea two"}

    async def test_expired_items_are_dropped_first(self, search: Retriever, storage: PausingStorage, clock: StillClock):
        """Dropping them changes the index, which the event loop does."""
        await keep(storage, search, "tea one")
        await storage.commit(Batch(ANA, [put("tea two", "tea two", ttl=timedelta(seconds=60))]))
        await search.ranking(ANA, "tea", limit=1)
        both = ranked(search)
        clock.move(seconds=61)

        assert both is not None
        assert len(both.hits) == 2
        assert ranked(search) is None
        assert [hit.key for hit in (await search.ranking(ANA, "tea", limit=None)).hits] == ["tea one"]
        assert ranked(search) is not None

    async def test_large_index_is_ranked_in_a_worker_thread(
        self, search: Retriever, storage: PausingStorage, monkeypatch: pytest.MonkeyPatch
    ):
        """Comparing very many texts takes milliseconds."""
        await keep(storage, search, "tea one", "tea two")
        await search.ranking(ANA, "tea", limit=1)
        monkeypatch.setattr("threadkeep.search.retriever._INLINE_ROWS", 1)

        assert ranked(search) is None


class TestRecall:
    @pytest.mark.parametrize("by_words", [True, False])
    @pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.soak)])
    async def test_recall_is_the_same_on_the_calling_thread(
        self, storage: PausingStorage, clock: StillClock, by_words: bool, every: int
    ):
        """Every memory, its score, the text and its length; also if many are read to find one answer."""
        owner, facts = Owner("ana"), make_facts(200, seed=7)
        search = Retriever(storage, None if by_words else ImmediateHashingEmbedder(), clock)
        memories = MemoryRepository(storage, search, clock, audited_writer=AuditedWriter(storage, clock))
        recalls = RecallService(search, storage, memories, clock, Telemetry())
        statements = ["I joined Acme.", *(fact.text for fact in facts)]
        await memories.bring([NewMemory(text) for text in statements], owner=owner, by="user")
        await recalls.run(RecallRequest("tea", owner))
        results: list[Recall] = []

        asked = (one.question for one in facts[::every])
        for question in ("Which company do I work at?", "What do you know about me?", *asked):
            result = recalls.try_run(RecallRequest(question, owner, budget_tokens=120))

            assert result == await recalls.run(RecallRequest(question, owner, budget_tokens=120))
            assert result is not None
            results.append(result)
        assert sum(bool(result.memories) for result in results) > 140 // every
        await search.close()


async def test_reader_on_another_thread_sees_all_of_a_change_or_nothing(
    search: Retriever, storage: PausingStorage, monkeypatch: pytest.MonkeyPatch
):
    """A reader that was told that its index is current goes on while a change is half applied."""
    await keep(storage, search, "tea one")
    warm = await search.ranking(ANA, "tea", limit=100)
    half, go = threading.Event(), threading.Event()
    extend = Conversations.extend

    def paused(self: Conversations, traits: Any) -> None:
        half.set()
        assert go.wait(10)
        extend(self, traits)

    monkeypatch.setattr(Conversations, "extend", paused)
    storage.go.clear()
    with ThreadPoolExecutor(1) as thread:
        asked = thread.submit(ranked, search)
        assert await asyncio.to_thread(storage.told.wait, 10)
        await storage.commit(Batch(ANA, [put(f"tea {n}", f"tea {n}") for n in range(100)]))
        searched = asyncio.create_task(search.ranking(ANA, "tea", limit=None))
        assert await asyncio.to_thread(half.wait, 10)

        storage.go.set()
        result = await asyncio.wrap_future(asked)
        go.set()

        assert result == warm
        assert len((await searched).hits) == 101
