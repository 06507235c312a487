"""Tests of search over an engine: what was missed is repaired, what is down is done without, nobody meets another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.recall.world import ANA, MEMORIES, HeldStorage, StillClock, embedder, keep, put
from threadkeep.errors import VectorEngineError
from threadkeep.observability import Telemetry
from threadkeep.search.retriever import VECTORS, Retriever
from threadkeep.search.vectorstores.base import FENCE, Replicator, Space, VectorUpdate
from threadkeep.storage.interface import Batch, Delete, Partition, Put
from threadkeep.testing.models import HashingEmbedder
from threadkeep.testing.vectors_contract import ExactVectors

TOPICS = ("tea", "trains", "chess", "rain", "copper", "violins", "bread", "tides")


class Flaky(ExactVectors):
    """An engine that can be made to fail: before it has written, or after, before the answer is there."""

    def __init__(self) -> None:
        super().__init__()
        self.down = False
        self.loses_answers = False
        self.hangs = False
        self.updates: list[VectorUpdate] = []

    async def apply(self, update: VectorUpdate) -> bool:
        self.require_up()
        self.updates.append(update)
        done = await super().apply(update)
        if self.loses_answers:
            raise VectorEngineError("lost")
        return done

    async def search(self, *args, **kwargs):
        self.require_up()
        if self.hangs:
            await asyncio.Event().wait()
        return await super().search(*args, **kwargs)

    async def erase(self, partition: Partition) -> None:
        self.require_up()
        await super().erase(partition)

    def require_up(self) -> None:
        if self.down:
            raise VectorEngineError("down")


@pytest.fixture
def engine() -> Flaky:
    return Flaky()


@pytest.fixture
async def storage() -> AsyncIterator[HeldStorage]:
    opened = HeldStorage(StillClock())
    await opened.connect()
    yield opened
    await opened.close()


@pytest.fixture
def telemetry() -> Telemetry:
    return Telemetry()


@pytest.fixture
async def search(storage: HeldStorage, engine: Flaky, telemetry: Telemetry) -> AsyncIterator[Retriever]:
    opened = Retriever(
        storage,
        embedder(),
        StillClock(),
        telemetry=telemetry,
        replicator=Replicator(engine, storage, telemetry, large_from=1),
    )
    yield opened
    await opened.close()


def texts(number: int) -> list[str]:
    return [f"{TOPICS[n % len(TOPICS)]} number {n} and {TOPICS[(n * 3 + 1) % len(TOPICS)]}" for n in range(number)]


async def keys(search: Retriever, query: str = "tea", *, limit: int = 5) -> list[str]:
    return [hit.key for hit in (await search.ranking(ANA, query, limit=limit)).hits]


class TestRanking:
    async def test_an_engine_gives_what_the_index_gives(self, search: Retriever, storage: HeldStorage):
        """The same order, scores and likenesses, where the engine names as many as there are."""
        await keep(storage, search, *texts(120))
        alone = Retriever(storage, embedder(), StillClock())

        for query in ("tea and chess", "copper number 12", "What about tides?"):
            with_engine = await search.ranking(ANA, query, limit=10, compared=4)
            without = await alone.ranking(ANA, query, limit=10, compared=4)
            assert [hit.key for hit in with_engine.hits] == [hit.key for hit in without.hits]
            assert [hit.score for hit in with_engine.hits] == pytest.approx([hit.score for hit in without.hits])
            assert with_engine.alike is not None
            assert without.alike is not None
            assert np.allclose(with_engine.alike, without.alike, atol=1e-5)
            assert with_engine.degraded == ()
        await alone.close()

    async def test_only_a_large_partition_is_given_to_the_engine(self, storage: HeldStorage, engine: Flaky):
        """One that grows past the bound is, from the next search on."""
        search = Retriever(storage, embedder(), StillClock(), replicator=Replicator(engine, storage, large_from=10))
        await keep(storage, search, *texts(9))
        assert len(await keys(search)) == 5
        assert engine.updates == []

        await keep(storage, search, "tea at last")
        await keys(search)
        assert "tea at last" in await keys(search, "tea at last")

        assert len(engine.updates) == 1
        assert search.stats().items == 10
        await search.close()

    async def test_what_changed_is_seen_at_once(self, search: Retriever, storage: HeldStorage, engine: Flaky):
        """Corrections and deletions, by what the feed tells, not by everything anew."""
        await keep(storage, search, *texts(40))
        await keys(search)
        await storage.commit(
            Batch(ANA, [Delete(MEMORIES, texts(40)[0]), put("new", "zinc", vectors=await search.embed_put(["zinc"]))])
        )

        assert (await keys(search, "zinc"))[0] == "new"
        assert texts(40)[0] not in await keys(search, texts(40)[0], limit=40)
        assert [(update.reset, len(list(update.removed))) for update in engine.updates] == [(True, 0), (False, 1)]

    async def test_a_vector_of_before_is_passed_over(self, search: Retriever, storage: HeldStorage, engine: Flaky):
        """An engine that is behind cannot bring back what was said before."""
        await keep(storage, search, "tea", "rain")
        await keys(search)
        held = engine._copies[ANA.digest]
        vectors = await search.embed_put(["chess"])
        await storage.commit(Batch(ANA, [Put(MEMORIES, "tea", {"data": "chess"}, ("data",), vectors)]))
        await keys(search)
        engine._copies[ANA.digest] = (held[0], engine._copies[ANA.digest][1], held[2])

        found = await search.ranking(ANA, "tea", limit=5)

        assert {hit.key: hit.cosine for hit in found.hits}["tea"] is None


class TestDown:
    async def test_words_are_compared_and_it_says_so(
        self, search: Retriever, storage: HeldStorage, engine: Flaky, telemetry: Telemetry
    ):
        """In what is returned, and in the counter; and with the engine back everything is as before."""
        await keep(storage, search, *texts(30))
        engine.down = True

        found = await search.ranking(ANA, "copper number 12", limit=5)

        assert found.degraded == (VECTORS,)
        assert found.by_words
        assert found.hits[0].key == texts(30)[12]
        assert telemetry.counts()["vectors.degraded"] == 1
        engine.down = False
        assert (await search.ranking(ANA, "copper", limit=5)).degraded == ()

    async def test_one_that_never_answers_is_not_waited_for(self, storage: HeldStorage, engine: Flaky):
        """For longer than it may take; words are compared then."""
        search = Retriever(
            storage,
            embedder(),
            StillClock(),
            replicator=Replicator(engine, storage, timeout=timedelta(milliseconds=30), large_from=1),
        )
        await keep(storage, search, *texts(30))
        engine.hangs = True

        found = await search.ranking(ANA, "copper number 12", limit=5)

        assert found.degraded == (VECTORS,)
        assert found.hits[0].key == texts(30)[12]
        await search.close()

    async def test_an_erasure_fails_while_it_is_down(self, search: Retriever, storage: HeldStorage, engine: Flaky):
        """What cannot be removed is not said to be gone."""
        await keep(storage, search, "tea")
        await keys(search)
        engine.down = True

        with pytest.raises(VectorEngineError):
            await search.erase(ANA)

        engine.down = False
        await search.erase(ANA)
        assert await engine.position(ANA, Space("hashing@1", 64)) == FENCE


steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 7)),
        st.tuples(st.just("delete"), st.integers(0, 7)),
        st.tuples(st.sampled_from(("search", "down", "up", "lose", "restart", "erase")), st.just(0)),
    ),
    max_size=30,
)


@given(steps)
@settings(max_examples=min(60, settings().max_examples))
def test_whatever_fails_the_copy_is_what_the_storage_says(done: Sequence[tuple[str, int]]):
    """Crashes between the two writes, answers that are lost, restarts and erasures, in any order."""
    asyncio.run(_walk(done))


async def _walk(done: Sequence[tuple[str, int]]) -> None:
    storage, engine, model = HeldStorage(StillClock()), Flaky(), embedder()
    await storage.connect()

    def opened() -> Retriever:
        return Retriever(storage, model, StillClock(), replicator=Replicator(engine, storage, large_from=1))

    search, partition = opened(), ANA
    for number, (what, which) in enumerate(done):
        if what == "put":
            text = f"{TOPICS[which]} {number}"
            vectors = await search.embed_put([text])
            await storage.commit(Batch(partition, [put(str(which), text, vectors=vectors)]))
        elif what == "delete":
            await storage.commit(Batch(partition, [Delete(MEMORIES, str(which))]))
        elif what == "search":
            await search.ranking(partition, "tea", limit=3)
        elif what == "restart":
            await search.close()
            search = opened()
        elif what == "erase" and not engine.down:
            await search.erase(partition)
            await storage.erase(partition)
            await search.erase(partition)
        else:
            engine.down, engine.loses_answers = what == "down", what == "lose"
    engine.down = engine.loses_answers = False
    await search.ranking(partition, "tea", limit=None)  # which may be the one that finds that there is something now
    found = await search.ranking(partition, "tea", limit=None)
    await _same(storage, engine, model, partition)
    assert found.degraded == ()
    await search.close()
    await storage.close()


async def _same(storage: HeldStorage, engine: Flaky, model: HashingEmbedder, partition: Partition) -> None:
    kept = (await storage.changes(partition, None)).puts
    _, _, entries = engine._copies.get(partition.digest, (None, None, {}))
    assert {(item.ref.key, item.revision) for item in kept} == {(one.key, one.revision) for one in entries.values()}
