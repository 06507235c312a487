"""The LangGraph store: what expires, and what lives on."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding
from langgraph.store.base import GetOp, IndexConfig, PutOp

from tests.langgraph.store_world import StoreWorld, on_memory
from threadkeep.errors import InvalidInputError
from threadkeep.langgraph.store import ThreadkeepStore


class TestTtl:
    async def test_fractions_of_a_minute_count(self, store: ThreadkeepStore, world: StoreWorld):
        """0.4 minutes are 24 seconds, neither none nor one minute."""
        await store.aput(("docs",), "k", {"text": "zebra"}, ttl=0.4)
        world.pass_by(seconds=23.9)
        before = await store.aget(("docs",), "k", refresh_ttl=False)
        world.pass_by(seconds=0.2)

        assert before
        assert await store.aget(("docs",), "k") is None
        assert await store.asearch(("docs",)) == []
        assert await store.asearch(("docs",), query="zebra") == []
        assert await store.alist_namespaces() == []

    async def test_reading_lets_it_live_on(self, store: ThreadkeepStore, world: StoreWorld):
        """Each get and each search that returns it starts the time anew; what is not returned gets none."""
        for key in ("got", "found", "asked", "left"):
            await store.aput(("docs",), key, {"text": key}, ttl=1)
        world.pass_by(seconds=50)
        await store.aget(("docs",), "got")
        await store.asearch(("docs",), filter={"text": "found"})
        await store.asearch(("docs",), query="asked", limit=1)
        world.pass_by(seconds=50)

        assert {item.key for item in await store.asearch(("docs",))} == {"got", "found", "asked"}

    async def test_reading_can_leave_it_as_it_is(self, store: ThreadkeepStore, world: StoreWorld):
        """``refresh_ttl=False`` reads without touching."""
        await store.aput(("docs",), "k", {"text": "x"}, ttl=1)
        world.pass_by(seconds=50)
        await store.aget(("docs",), "k", refresh_ttl=False)
        await store.asearch(("docs",), refresh_ttl=False)
        await store.asearch(("docs",), query="x", refresh_ttl=False)
        world.pass_by(seconds=20)

        assert await store.aget(("docs",), "k") is None

    async def test_reading_changes_no_time_but_that_one(self, store: ThreadkeepStore, world: StoreWorld):
        """An item that was read is neither newer nor younger."""
        await store.aput(("docs",), "k", {}, ttl=1)
        world.pass_by(seconds=30)
        first = await store.aget(("docs",), "k")
        world.pass_by(seconds=30)

        assert await store.aget(("docs",), "k") == first

    async def test_the_configuration_says_what_is_usual(self, world: StoreWorld):
        """Its default holds where a put says nothing; ``None`` means for ever; reads touch only if told to."""
        store = world.store(ttl_config={"default_ttl": 1, "refresh_on_read": False})
        await store.aput(("docs",), "usual", {})
        await store.aput(("docs",), "long", {}, ttl=2)
        await store.aput(("docs",), "ever", {}, ttl=None)
        world.pass_by(seconds=50)
        await store.aget(("docs",), "usual")
        await store.asearch(("docs",))
        world.pass_by(seconds=11)

        assert {item.key for item in await store.asearch(("docs",))} == {"long", "ever"}

    async def test_read_that_asks_for_it_touches(self, world: StoreWorld):
        """``refresh_ttl=True`` wins over the configuration."""
        store = world.store(ttl_config={"default_ttl": 1, "refresh_on_read": False})
        await store.aput(("docs",), "k", {})
        world.pass_by(seconds=50)
        await store.aget(("docs",), "k", refresh_ttl=True)
        world.pass_by(seconds=50)

        assert await store.aget(("docs",), "k")

    @pytest.mark.parametrize("default", [None, 0, 0.0])
    async def test_a_default_of_none_is_never(self, world: StoreWorld, default: float | None):
        """0 minutes stand for no expiry, as the setting has it."""
        store = world.store(ttl_config={"default_ttl": default})
        await store.aput(("docs",), "k", {})
        world.pass_by(days=10_000)

        assert await store.aget(("docs",), "k")

    @on_memory
    @pytest.mark.parametrize("ttl", ["abc", "5", True, 0, -1, float("nan"), float("inf"), 1e300, 5.3e8])
    async def test_a_ttl_that_is_none_is_refused(self, store: ThreadkeepStore, world: StoreWorld, ttl: Any):
        """One sentence at the put, or where the store is made; never a crash in the middle of a write."""
        with pytest.raises(InvalidInputError, match="minutes, a thousand years at most"):
            await store.aput(("docs",), "k", {}, ttl=ttl)
        if ttl != 0:
            with pytest.raises(InvalidInputError, match="minutes"):
                world.store(ttl_config={"default_ttl": ttl})

    async def test_an_expired_item_is_not_brought_back(self, store: ThreadkeepStore, world: StoreWorld):
        """Reading does not resurrect; writing makes a new item."""
        await store.aput(("docs",), "k", {"v": 1}, ttl=1)
        world.pass_by(seconds=61)
        await store.aget(("docs",), "k", refresh_ttl=True)
        await store.aput(("docs",), "k", {"v": 2})

        item = await store.aget(("docs",), "k")

        assert item
        assert item.created_at == world.clock.now()

    async def test_a_read_and_a_write_of_one_item_in_one_call(self, store: ThreadkeepStore, world: StoreWorld):
        """The write decides how long it lives, and whether it lives at all."""
        await store.aput(("docs",), "kept", {"v": 1}, ttl=1)
        await store.aput(("docs",), "gone", {"v": 1}, ttl=1)

        await store.abatch(
            [
                GetOp(("docs",), "kept"),
                GetOp(("docs",), "gone"),
                PutOp(("docs",), "kept", {"v": 2}),
                PutOp(("docs",), "gone", None),
            ]
        )

        world.pass_by(minutes=5)
        assert [item.key for item in await store.asearch(("docs",))] == ["kept"]

    async def test_a_pinned_memory_does_not_expire(self, store: ThreadkeepStore, world: StoreWorld):
        """Whoever writes it, and whatever is usual."""
        await store.aput(("memories", "ana"), "pinned", {"data": "likes tea", "pinned": True}, ttl=1)
        await store.aput(("memories", "ana"), "other", {"data": "likes rain"}, ttl=1)
        world.pass_by(minutes=2)

        assert [item.key for item in await store.asearch(("memories", "ana"))] == ["pinned"]


class TestSweeping:
    def test_what_has_expired_is_removed_and_counted(self, store: ThreadkeepStore, world: StoreWorld):
        """As ``PostgresStore.sweep_ttl``: what lives on stays, and the second time there is nothing left."""
        store.setup()
        store.put(("docs",), "gone", {"n": 1}, ttl=1)
        store.put(("docs",), "kept", {"n": 2}, ttl=5)
        store.put(("docs",), "for ever", {"n": 3})
        before = store.sweep_ttl()
        world.pass_by(minutes=2)

        assert (before, store.sweep_ttl(), store.sweep_ttl()) == (0, 1, 0)
        assert {item.key for item in store.search(("docs",))} == {"kept", "for ever"}

    async def test_it_can_be_awaited(self, store: ThreadkeepStore, world: StoreWorld):
        """As ``AsyncPostgresStore.sweep_ttl``; the sweeper needs no starting, and stopping it has succeeded."""
        await store.setup()
        await store.start_ttl_sweeper()
        await store.aput(("docs",), "gone", {}, ttl=1)
        world.pass_by(minutes=2)

        assert await store.sweep_ttl() == 1
        assert await store.stop_ttl_sweeper(timeout=1)

    @on_memory
    def test_the_embedder_of_the_index_is_shown(self, world: StoreWorld):
        """As every store of LangGraph shows it; without an index there is none."""
        embedder = DeterministicFakeEmbedding(size=256)

        assert world.store(index=IndexConfig(dims=256, embed=embedder)).embeddings is embedder
        assert (world.store().embeddings, world.store(index={"fields": ["text"]}).embeddings) == (None, None)
