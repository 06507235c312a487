"""Tests of searches that are answered where they are asked, on any thread, while the event loop changes indexes."""

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

from tests.recall.world import ANA, MEMORIES, RememberingEmbedder, StillClock, keep, put
from threadkeep.evals.facts import make_facts
from threadkeep.identity import Owner
from threadkeep.memories.audited_writer import Ledger
from threadkeep.memories.models import NewMemory
from threadkeep.memories.service import Memories
from threadkeep.observability import Telemetry
from threadkeep.recall.models import Recall
from threadkeep.recall.service import Recalls
from threadkeep.search.conversations import Conversations
from threadkeep.search.hits import Ranking
from threadkeep.search.retriever import Search
from threadkeep.storage.in_memory import InMemoryStorage
from threadkeep.storage.port import Batch, Delete, Partition, Position

BOB = Partition("owner", ("", "bob"))
WORDS = ("tea", "green", "cat", "Biscuit", "Lisbon", "Melanie", "runs", "the", "of", "when", "yesterday")

texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)
said = st.builds(lambda name, text: f"{name}{text}", st.sampled_from(["", "Melanie: ", "Leo: "]), texts)


class NearStorage(InMemoryStorage):
    """Tells at once where it stands; whoever asks on another thread can be held up after being told."""

    def __init__(self, clock: StillClock) -> None:
        super().__init__(clock=clock)
        self._home = threading.get_ident()
        self.told = threading.Event()
        self.go = threading.Event()
        self.go.set()

    def stands_at(self, partition: Partition, position: Position) -> bool:
        stands = super().stands_at(partition, position)
        if threading.get_ident() != self._home:
            self.told.set()
            assert self.go.wait(10)
        return stands


class Watched:
    """The guard, which tells when somebody has to wait for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.waited_for = threading.Event()

    def locked(self) -> bool:
        return self._lock.locked()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self.waited_for.set()
            self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
async def storage(clock: StillClock) -> NearStorage:
    return NearStorage(clock)


@pytest.fixture
def model() -> RememberingEmbedder:
    return RememberingEmbedder()


@pytest.fixture
async def search(storage: NearStorage, model: RememberingEmbedder, clock: StillClock) -> AsyncIterator[Search]:
    opened = Search(storage, model, clock)
    yield opened
    await opened.close()


def at_hand(search: Search, query: str = "tea", partition: Partition = ANA, limit: int | None = 100) -> Ranking | None:
    return search.ranking_at_hand(partition, query, prefixes=((),), limit=limit)


async def slowly_applied(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Let indexes be changed half way only; return what tells that one is, and what lets it go on."""
    half, go = threading.Event(), threading.Event()
    extend = Conversations.extend

    def held_up(self: Conversations, traits: Any) -> None:
        half.set()
        assert go.wait(10)
        extend(self, traits)

    monkeypatch.setattr(Conversations, "extend", held_up)
    return half, go


class TestRankingAtHand:
    @given(
        st.lists(said, min_size=1, max_size=12, unique=True),
        st.lists(texts, min_size=1, max_size=4),
        st.sets(st.integers(0, 11)),
        st.integers(0, 12),
    )
    @settings(max_examples=60)
    def test_both_ways_find_the_same(self, told: list[str], questions: list[str], gone: set[int], limit: int):
        """Every hit with every number of it, whoever takes part, whatever was removed, with vectors and without."""

        async def both_ways(model: RememberingEmbedder | None) -> None:
            clock = StillClock()
            storage = InMemoryStorage(clock=clock)
            search = Search(storage, model, clock)
            await keep(storage, search, *told)
            await search.ranking(ANA, "tea", limit=1)
            if removed := [Delete(MEMORIES, told[n]) for n in gone if n < len(told)]:
                await storage.commit(Batch(ANA, removed))
            for question in questions:
                waited_for = await search.ranking(ANA, question, limit=limit)
                found = at_hand(search, question, limit=limit)

                assert found == waited_for
                assert found is not None
                assert search.memories_at_hand(ANA, found.hits) == await search.memories(ANA, found.hits)
            await search.close()

        asyncio.run(both_ways(RememberingEmbedder()))
        asyncio.run(both_ways(None))

    async def test_what_has_to_be_waited_for_is_not_at_hand(
        self, search: Search, storage: NearStorage, model: RememberingEmbedder, clock: StillClock
    ):
        """Nothing held, something new, something expired, a question that is new, another owner: each takes the way."""
        await keep(storage, search, "tea one")
        assert at_hand(search) is None, "nothing is held"
        await search.ranking(ANA, "tea", limit=1)
        assert at_hand(search) is not None

        assert at_hand(search, partition=BOB) is None
        model.remembers = False
        assert at_hand(search) is None, "the question has to be embedded"
        model.remembers = True
        await keep(storage, search, "tea two")
        assert at_hand(search) is None, "something is new"
        await search.ranking(ANA, "tea", limit=1)
        assert at_hand(search) is not None
        await storage.erase(ANA)
        assert at_hand(search) is None, "the owner was erased"

    async def test_what_has_expired_is_looked_through_first(
        self, search: Search, storage: NearStorage, clock: StillClock
    ):
        """To drop it is work on the index, which is done on the event loop."""
        await keep(storage, search, "tea one")
        await storage.commit(Batch(ANA, [put("tea two", "tea two", ttl=timedelta(seconds=60))]))
        await search.ranking(ANA, "tea", limit=1)
        both = at_hand(search)
        clock.move(seconds=61)

        assert both is not None
        assert len(both.hits) == 2
        assert at_hand(search) is None
        assert [hit.key for hit in (await search.ranking(ANA, "tea", limit=None)).hits] == ["tea one"]
        assert at_hand(search) is not None

    async def test_a_large_one_is_searched_off_the_callers_loop(
        self, search: Search, storage: NearStorage, monkeypatch: pytest.MonkeyPatch
    ):
        """Comparing very many takes milliseconds."""
        await keep(storage, search, "tea one", "tea two")
        await search.ranking(ANA, "tea", limit=1)
        monkeypatch.setattr("threadkeep.search.retriever._INLINE_ROWS", 1)

        assert at_hand(search) is None


class TestRecallAtHand:
    @pytest.mark.parametrize("by_words", [True, False])
    async def test_both_ways_recall_the_same(self, storage: NearStorage, clock: StillClock, by_words: bool):
        """Every memory, its score, the text and its length; also where many are read to find one answer."""
        owner, facts = Owner("ana"), make_facts(200, seed=7)
        search = Search(storage, None if by_words else RememberingEmbedder(), clock)
        memories = Memories(storage, search, clock, ledger=Ledger(storage, clock))
        recalls = Recalls(search, storage, memories, clock, Telemetry())
        told = ["I joined Acme.", *(fact.text for fact in facts)]
        await memories.remember_many([NewMemory(text) for text in told], owner=owner)
        await recalls.recall("tea", owner=owner)
        found: list[Recall] = []

        for question in ("Which company do I work at?", "What do you know about me?", *(one.question for one in facts)):
            at_once = recalls.recall_at_hand(question, owner=owner, budget_tokens=120)

            assert at_once == await recalls.recall(question, owner=owner, budget_tokens=120)
            assert at_once is not None
            found.append(at_once)
        assert sum(bool(one.memories) for one in found) > 150
        await search.close()


class TestChangingBeside:
    async def test_an_index_is_not_read_while_it_is_changed(
        self, search: Search, storage: NearStorage, monkeypatch: pytest.MonkeyPatch
    ):
        """Whoever was told that nothing is new, and comes when a change is half done, takes the way of all others."""
        await keep(storage, search, "tea one")
        warm = await search.ranking(ANA, "tea", limit=None)
        half, go = await slowly_applied(monkeypatch)
        storage.go.clear()
        with ThreadPoolExecutor(1) as thread:
            asked = thread.submit(at_hand, search)
            assert await asyncio.to_thread(storage.told.wait, 10)
            await storage.commit(Batch(ANA, [put(f"tea {n}", f"tea {n}") for n in range(100)]))
            searched = asyncio.create_task(search.ranking(ANA, "tea", limit=None))
            assert await asyncio.to_thread(half.wait, 10)

            storage.go.set()
            found = await asyncio.wrap_future(asked)
            unpacked = search.memories_at_hand(ANA, warm.hits)
            go.set()

            assert found is None
            assert unpacked is None
            assert len((await searched).hits) == 101

    async def test_an_index_is_not_changed_while_it_is_read(
        self, search: Search, storage: NearStorage, model: RememberingEmbedder, monkeypatch: pytest.MonkeyPatch
    ):
        """A change waits for the moment that a reader on another thread needs, and that reader sees all or nothing."""
        await keep(storage, search, "tea one")
        await search.ranking(ANA, "tea", limit=None)
        half, go = await slowly_applied(monkeypatch)
        guard = Watched()
        monkeypatch.setattr(search._held, "_guard", guard)
        inside, order = threading.Event(), list[str]()
        remembered = model.remembered

        def held_up(texts: Any) -> Any:
            inside.set()
            while not guard.waited_for.wait(0.01) and not half.is_set():
                pass
            order.append("changed" if half.is_set() else "read")
            return remembered(texts)

        monkeypatch.setattr(model, "remembered", held_up)
        with ThreadPoolExecutor(1) as thread:
            asked = thread.submit(at_hand, search)
            assert await asyncio.to_thread(inside.wait, 10)
            await storage.commit(Batch(ANA, [put(f"tea {n}", f"tea {n}") for n in range(100)]))
            go.set()
            search.refresh(ANA)  # asks for the guard only where it begins to change the index
            found = await asyncio.wrap_future(asked)

            assert order == ["read"]
            assert found is not None
            assert [hit.key for hit in found.hits] == ["tea one"]
            assert len((await search.ranking(ANA, "tea", limit=None)).hits) == 101

    async def test_nobody_waits_for_whoever_is_at_an_index(self, search: Search, storage: NearStorage):
        """Where the guard is taken, the event loop is asked."""
        await keep(storage, search, "tea one")
        warm = await search.ranking(ANA, "tea", limit=None)

        with search._held._guard:
            assert at_hand(search) is None
            assert search.memories_at_hand(ANA, warm.hits) is None

        assert at_hand(search) == warm
