"""Embedding anew gives every searchable item vectors of the model in use, and changes nothing else."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest
import pytest_asyncio

from tests.moving.test_copying import Wrapped
from tests.moving.world import ANA, commit, embedding, fill, items_of, memory, memory_of, told
from threadkeep.errors import EmbedderUnavailableError
from threadkeep.search.retriever import Retriever
from threadkeep.storage.interface import Batch, Position, Ref
from threadkeep.storage.memory import InMemoryStorage
from threadkeep.testing import FrozenClock, HashingEmbedder
from threadkeep.transfer.copying import Moving


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest_asyncio.fixture
async def storage(clock: FrozenClock) -> AsyncGenerator[InMemoryStorage]:
    storage = memory_of(clock)
    await storage.connect()
    await fill(storage, clock)
    yield storage
    await storage.close()


class TestReEmbedding:
    async def test_every_searchable_item_gets_vectors(self, storage: InMemoryStorage, clock: FrozenClock):
        """Of the new model; all else stays, moments included."""
        before = await items_of(storage)
        seen: list[tuple[int, int]] = []

        done = await Moving(storage, HashingEmbedder(dims=32), clock).embed_anew(
            progress=lambda one, all_: seen.append((one, all_))
        )

        after = await items_of(storage)
        assert (done.model, done.searchable, done.current, done.embedded, done.changed) == ("hashing@1:32", 5, 0, 5, 0)
        assert {item.embedding.dims for item in after.values() if item.embedding} == {32}
        for place, item in after.items():
            assert {**told(item), "embedding": None} == {**told(before[place]), "embedding": None}
        assert seen[-1][0] == len(after)

    async def test_a_search_finds_them_by_meaning(self, storage: InMemoryStorage, clock: FrozenClock):
        embedder = HashingEmbedder(dims=32)
        await Moving(storage, embedder, clock).embed_anew()
        search = Retriever(storage, embedder, clock)

        found = await search.ranking(ANA.partition, "green tea", ranking="dense", limit=1)

        assert [(hit.key, hit.cosine is not None) for hit in found.hits] == [("tea", True)]
        await search.close()

    async def test_the_episode_of_a_question_gets_the_vector_of_the_question(
        self, storage: InMemoryStorage, clock: FrozenClock
    ):
        """As when it was learnt, so that it is found as before."""
        await commit(storage, ANA.partition, memory(ANA, "asked", "Asked: Which tea is green?"))

        await Moving(storage, HashingEmbedder(dims=32), clock).embed_anew()

        (item,) = await storage.get([Ref(ANA.partition, ("memories", ANA.label), "asked")])
        assert item is not None
        assert item.embedding == embedding("Which tea is green?", dims=32, model="hashing@1:32")

    async def test_what_has_them_is_left_alone(self, storage: InMemoryStorage, clock: FrozenClock):
        """So an interrupted run goes on where it was."""
        embedder = HashingEmbedder(dims=32)
        failing = Failing(dims=32, calls=1)
        with pytest.raises(EmbedderUnavailableError):
            await Moving(storage, failing, clock).embed_anew()
        embedded = sum(
            item.embedding is not None and item.embedding.dims == 32 for item in (await items_of(storage)).values()
        )

        done = await Moving(storage, embedder, clock).embed_anew()

        assert 0 < embedded < 5
        assert (done.current, done.embedded) == (embedded, 5 - embedded)
        again = await Moving(storage, embedder, clock).embed_anew()
        assert (again.current, again.embedded) == (5, 0)

    async def test_what_is_written_meanwhile_is_looked_at_again(self, storage: InMemoryStorage, clock: FrozenClock):
        """The other's words win, and get their vectors."""
        racing = Racing(storage, times=1)

        done = await Moving(racing, HashingEmbedder(dims=32), clock).embed_anew()

        items = {
            item.ref.key: item for item in (await items_of(storage)).values() if item.ref.partition == ANA.partition
        }
        assert items["tea"].value == {"data": "version 0"}
        assert items["tea"].embedding is not None
        assert items["tea"].embedding.dims == 32
        assert done.changed == 0

    async def test_continuous_writes_are_reported(self, storage: InMemoryStorage, clock: FrozenClock):
        done = await Moving(Racing(storage, times=9), HashingEmbedder(dims=32), clock).embed_anew()

        assert done.changed == 3

    async def test_without_a_model_it_says_what_to_do(self, storage: InMemoryStorage, clock: FrozenClock):
        with pytest.raises(EmbedderUnavailableError, match="pip install"):
            await Moving(storage, None, clock).embed_anew()


class Failing(HashingEmbedder):
    """Answers so many times, and then no more."""

    def __init__(self, *, dims: int, calls: int) -> None:
        super().__init__(dims=dims)
        self._left = calls

    async def embed(self, texts: Sequence[str]) -> Any:
        if not self._left:
            raise EmbedderUnavailableError("It went away.")
        self._left -= 1
        return await super().embed(texts)


class Racing(Wrapped):
    """Somebody else writes an item just before each of the first commits to its partition."""

    def __init__(self, inner: InMemoryStorage, times: int) -> None:
        super().__init__(inner)
        self._times = times
        self._done = 0

    async def commit(self, batch: Batch) -> Position:
        if batch.partition == ANA.partition and self._done < self._times:
            await commit(self._inner, ANA.partition, memory(ANA, "tea", f"version {self._done}"))
            self._done += 1
        return await self._inner.commit(batch)
