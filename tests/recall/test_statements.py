"""Tests of the secondary keys of statements: what may be a duplicate of a statement, or in conflict with it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.recall.world import ANA, MEMORIES, HeldStorage, StillClock, embedder, put
from threadkeep.search.retriever import Retriever
from threadkeep.storage.interface import Batch, Delete


@pytest.fixture
async def storage() -> HeldStorage:
    return HeldStorage(StillClock())


@pytest.fixture
async def search(storage: HeldStorage) -> AsyncIterator[Retriever]:
    opened = Retriever(storage, embedder(), StillClock())
    yield opened
    await opened.close()


async def keys(search: Retriever, *texts: str) -> set[str]:
    return {key for _, key in await search.statements(ANA, texts)}


class TestStatements:
    async def test_same_words_and_same_slot_are_found(self, search: Retriever, storage: HeldStorage):
        """However many other memories are more alike."""
        others = [put(f"{n}", f"I live for {n} hours of tea.") for n in range(100)]
        await storage.commit(Batch(ANA, [put("home", "I live in Lisbon."), *others]))

        assert await keys(search, "i live in Lisbon") == {"home"}
        assert "home" in await keys(search, "I live in Porto now.")
        assert await keys(search, "My cat is called Biscuit.") == set()

    async def test_changes_are_seen(self, search: Retriever, storage: HeldStorage):
        """New, changed and removed memories, also after the index was compacted."""
        await storage.commit(Batch(ANA, [put("a", "I live in Lisbon."), put("b", "My cat is called Biscuit.")]))
        assert await keys(search, "I live in Lisbon.") == {"a"}

        await storage.commit(Batch(ANA, [put("a", "I drink tea."), put("c", "I live in Lisbon!")]))
        assert await keys(search, "I live in Lisbon.") == {"c"}
        for _ in range(4):
            await storage.commit(Batch(ANA, [put(f"{n}", f"I own {n} teapots.") for n in range(100)]))
            await keys(search, "tea")
        await storage.commit(Batch(ANA, [Delete(MEMORIES, "c")]))

        assert await keys(search, "I live in Lisbon.") == set()
        assert await keys(search, "My cat is called Biscuit.", "I drink tea.") == {"a", "b"}

    async def test_long_values_are_read_from_storage(self, search: Retriever, storage: HeldStorage):
        """The index does not hold them."""
        long = put("long", "I live in Lisbon.")
        await storage.commit(
            Batch(ANA, [type(long)(long.namespace, long.key, {**long.value, "note": "tea" * 1000}, index=long.index)])
        )

        assert await keys(search, "I live in Lisbon.") == {"long"}
        assert [ref.key for refs in storage.gets for ref in refs] == ["long"]
        assert await keys(search, "I live in Lisbon.") == {"long"}
        assert len(storage.gets) == 1
