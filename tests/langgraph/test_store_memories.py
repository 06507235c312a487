"""The LangGraph store: an item in an owner's memories is a memory, whoever wrote it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.langgraph.store_world import StoreWorld, on_memory
from threadkeep.identity import Owner
from threadkeep.langgraph.store import ThreadkeepStore
from threadkeep.memories.models import Approval, NewMemory
from threadkeep.recall.service import RecallRequest

ANA = Owner("ana@x.org")

SHAPES: list[dict[str, Any]] = [
    {"data": "My dog is called Rex"},
    {"data": "My dog is called Rex", "source_thread": "t1", "timestamp": "2025-01-01T00:00:00"},
    {"text": "My dog is called Rex", "type": "user", "timestamp": 1735689600},
    {"kind": "Memory", "content": {"content": "My dog is called Rex"}},
    {"content": "My dog is called Rex"},
    {"kind": "Pet", "content": {"about": "My dog", "what": "is called Rex"}},
]
PLACES: list[tuple[str, ...]] = [
    ("memories", ANA.label),
    ("memories", ANA.label, "pets"),
    ("users", ANA.label, "memories", "user"),
    ("users", ANA.label, "memories", "episodic"),
]


async def recalled(world: StoreWorld, question: str) -> list[str]:
    recall = await world.home.run(world.recalls.run(RecallRequest(question, ANA)))
    return [found.memory.text for found in recall.memories]


class TestRecall:
    @on_memory
    @pytest.mark.parametrize("value", SHAPES)
    @pytest.mark.parametrize("namespace", PLACES)
    async def test_what_is_put_here_is_recalled(
        self, store: ThreadkeepStore, world: StoreWorld, value: dict[str, Any], namespace: tuple[str, ...]
    ):
        """In every shape that other programs write, wherever memories may be."""
        await store.aput(namespace, "k", value)

        (text,) = await recalled(world, "What is my dog called?")

        assert "Rex" in text

    async def test_only_the_statement_is_searched(self, store: ThreadkeepStore, world: StoreWorld):
        """What stands beside it (a thread's name, a time) finds nothing."""
        await store.aput(("memories", ANA.label), "k", {"data": "Likes tea", "source_thread": "holiday in Rome"})

        assert await recalled(world, "When is the holiday in Rome?") == []
        assert world.embedder.calls[0] == ["Likes tea"]

    @on_memory
    @pytest.mark.parametrize("withdrawn", [{"status": "rejected"}, {"status": "proposed"}, {"valid_to": "2024-01-01"}])
    @pytest.mark.parametrize("ranking", ["hybrid", "dense"])
    async def test_what_may_not_be_recalled_is_found_by_no_query(
        self, world: StoreWorld, withdrawn: dict[str, str], ranking: str
    ):
        """A rejected, proposed or outdated statement is kept and listed, and that is all."""
        store = world.store(ranking=ranking)
        await store.aput(("memories", ANA.label), "k", {"data": "My dog is called Rex"})
        await store.aput(("memories", ANA.label), "k", {"data": "My dog is called Rex", **withdrawn})

        assert await recalled(world, "What is my dog called?") == []
        assert await store.asearch(("memories", ANA.label), query="dog") == []
        assert len(await store.asearch(("memories", ANA.label))) == 1

    @on_memory
    @pytest.mark.parametrize(
        "asked",
        [
            {"data": "Always answer in French", "kind": "procedural"},
            {"kind": "ProceduralMemory", "content": {"content": "Always answer in French"}},
            {"data": "Always answer in French", "trust": "tool"},
        ],
    )
    async def test_what_needs_an_approval_is_kept_and_not_recalled(
        self, store: ThreadkeepStore, world: StoreWorld, asked: dict[str, Any]
    ):
        """It is got as it was put, and listed; a memory it is once somebody approves it, here or in the row."""
        place = ("memories", ANA.label)
        await store.aput(place, "k", asked, index=["data", "content.content"])
        got = await store.aget(place, "k")
        listed = await store.asearch(place)
        unapproved = await recalled(world, "In which language do you answer?")

        approval = Approval("carla", world.clock.now())
        text = "Always answer in French"
        await world.home.run(world.memories.correct("k", text, owner=ANA, approval=approval))
        approved = await recalled(world, "In which language do you answer?")
        await store.aput(place, "k", {**asked, "approval": {"by": "dora", "at": "2025-01-01T00:00:00"}})

        assert got is not None
        assert got.value == asked
        assert [item.key for item in listed] == ["k"]
        assert unapproved == []
        assert approved == [text]
        assert await recalled(world, "In which language do you answer?") == [text]

    async def test_a_value_without_a_statement_is_searched_whole(self, store: ThreadkeepStore, world: StoreWorld):
        """It is no memory, but an item like any other; and it hides no other row."""
        await store.aput(("memories", ANA.label), "odd", {"settings": {"theme": "dark"}, "timestamp": "yesterday"})
        await store.aput(("memories", ANA.label), "k", {"data": "Prefers the dark theme"})

        found = await store.asearch(("memories", ANA.label), query="dark theme")

        assert {item.key for item in found} == {"odd", "k"}
        assert await recalled(world, "Which theme, dark or light?") == ["Prefers the dark theme"]

    async def test_an_index_of_its_own_wins(self, store: ThreadkeepStore, world: StoreWorld):
        """Who says what is searchable is obeyed here, too."""
        await store.aput(("memories", ANA.label), "none", {"data": "My dog is called Rex"}, index=False)
        await store.aput(("memories", ANA.label), "tag", {"data": "Unrelated", "tag": "My dog"}, index=["tag"])

        assert await recalled(world, "my dog") == ["Unrelated"]

    async def test_what_the_rooms_write_is_seen_here(self, store: ThreadkeepStore, world: StoreWorld):
        """A memory that was remembered is an item, and found by a query."""
        await store.aget(("memories", ANA.label), "connects")
        kept = await world.home.run(world.memories.remember(NewMemory("My dog is called Rex"), owner=ANA))

        (found,) = await store.asearch(("memories",), query="dog")

        assert (found.namespace, found.key) == (("memories", ANA.label), kept.memory.memory_id)
        assert found.value["data"] == "My dog is called Rex"

    async def test_deleting_the_item_forgets_the_memory(self, store: ThreadkeepStore, world: StoreWorld):
        """There is no second copy."""
        await store.aput(("memories", ANA.label), "k", {"data": "My dog is called Rex"})
        await store.adelete(("memories", ANA.label), "k")

        assert await recalled(world, "What is my dog called?") == []
        assert await world.home.run(world.memories.get("k", owner=ANA)) is None
