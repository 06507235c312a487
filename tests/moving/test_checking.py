"""Checking finds what is not as it must be, and says what to do about vectors."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import numpy as np
import pytest
import pytest_asyncio

from tests.moving.world import ANA, BOB, DAY, EMBEDDER, commit, embedding, fill, memory, memory_of
from threadkeep.storage.interface import Embedding, Put
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
    yield storage
    await storage.close()


@pytest.fixture
def moving(storage: InMemoryStorage, clock: FrozenClock) -> Moving:
    return Moving(storage, EMBEDDER, clock)


class TestCheck:
    async def test_a_sound_storage_is_sound(self, storage: InMemoryStorage, moving: Moving, clock: FrozenClock):
        """And counted: partitions, items, vectors by their model."""
        items = await fill(storage, clock)

        found = await moving.check()

        assert found.sound
        assert (found.partitions, found.items, found.searchable) == (4, items, 5)
        assert found.vectors == {f"{EMBEDDER.name} (16 dimensions)": 3, "none": 2}
        assert found.wrong == []

    async def test_vectors_that_do_not_fit_the_texts(self, storage: InMemoryStorage, moving: Moving):
        """Too few, too many, not of unit length, no numbers."""
        nan = Embedding(EMBEDDER.name, 2, np.array([[np.nan, 1]], "<f4").tobytes())
        long = Embedding(EMBEDDER.name, 2, np.array([[3, 4]], "<f4").tobytes())
        await commit(
            storage,
            ANA.partition,
            memory(ANA, "many", "likes tea", embedding=embedding("a", "b")),
            memory(ANA, "nan", "likes tea", embedding=nan),
            memory(ANA, "long", "likes tea", embedding=long),
            memory(ANA, "right", "likes tea"),
        )

        found = await moving.check()

        assert found.counts == {"vectors": 3}
        assert {wrong.key for wrong in found.wrong} == {"many", "nan", "long"}
        assert all("re-embed" in wrong.detail for wrong in found.wrong)

    async def test_an_item_in_a_partition_that_is_not_its_own(self, storage: InMemoryStorage, moving: Moving):
        await commit(storage, BOB.partition, memory(ANA, "lost", "likes tea"))

        assert (await moving.check()).counts == {"partition": 1}

    async def test_a_memory_in_no_known_shape(self, storage: InMemoryStorage, moving: Moving):
        await commit(storage, ANA.partition, Put(("memories", ANA.label), "k", {"fact": "likes tea"}))

        assert (await moving.check()).counts == {"memory": 1}

    async def test_index_with_another_content_is_found(self, storage: InMemoryStorage, moving: Moving):
        await commit(storage, ANA.partition, memory(ANA, "tea", "likes tea"), memory(ANA, "bike", "rides a bike"))
        part = storage._parts[ANA.partition.digest]
        for place, row in list(part.rows.items()):
            part.rows[place] = row._replace(revision=-5)

        assert set((await moving.check()).counts) >= {"index"}

    async def test_an_end_without_a_life(self, storage: InMemoryStorage, moving: Moving):
        await commit(storage, ANA.partition, memory(ANA, "tea", "likes tea", ttl=DAY))
        part = storage._parts[ANA.partition.digest]
        for place, row in list(part.rows.items()):
            part.rows[place] = row._replace(ttl=None)

        assert (await moving.check()).counts == {"expiry": 1}

    async def test_many_are_counted_and_some_are_shown(self, storage: InMemoryStorage, moving: Moving):
        puts = [Put(("memories", ANA.label), f"{number}", {"fact": "x"}) for number in range(150)]
        await commit(storage, ANA.partition, *puts)

        found = await moving.check()

        assert found.counts == {"memory": 150}
        assert len(found.wrong) == 100

    async def test_another_model_is_advised_about(self, storage: InMemoryStorage, clock: FrozenClock):
        """Dimensions that do not match the stored vectors, and items without any: run re-embed."""
        await fill(storage, clock)

        found = await Moving(storage, HashingEmbedder(dims=32), clock).check()

        assert found.sound
        assert found.advice == [
            (
                f"3 items have vectors of {EMBEDDER.name} (16 dimensions), and the embedder is hashing@1:32: they are "
                "found by words only; run threadkeep storage re-embed."
            ),
            "2 searchable items have no vectors: they are found by words only; run threadkeep storage re-embed.",
        ]
        assert (await Moving(storage, None, clock).check()).advice == []

    async def test_another_length_under_the_same_name_is_advised_about(
        self, storage: InMemoryStorage, clock: FrozenClock
    ):
        """As of a model that was replaced behind its name; embedding anew mends it."""
        await fill(storage, clock)
        longer = HashingEmbedder(dims=32)
        longer.name = EMBEDDER.name
        moving = Moving(storage, longer, clock)

        advice = (await moving.check()).advice
        done = await moving.embed_anew()

        assert advice[0].startswith(f"3 items have vectors of {EMBEDDER.name} (16 dimensions), and the embedder is ")
        assert f"{EMBEDDER.name} (32 dimensions)" in advice[0]
        assert advice[0].endswith("run threadkeep storage re-embed.")
        assert (done.current, done.embedded) == (0, 5)
        assert (await moving.check()).advice == []
