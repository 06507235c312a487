"""Rows that other programs left among the memories: whatever they look like, they hide nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import threadkeep
from threadkeep.functions import search_relevant_memories, store_get_cross_thread_context
from threadkeep.testing import HashingEmbedder

ANA = "ana@x.org"
FACT = "My passport is in the blue drawer."
STRANGE: list[dict[str, Any]] = [
    {},
    {"data": None},
    {"data": ["passport"]},
    {"data": "passport row", "status": []},
    {"data": "passport row", "kind": {}},
    {"kind": ["Memory"], "content": {"content": "passport row"}},
    {"data": "passport row", "trust": {"x": 1}},
    {"data": "passport row", "sources": [{"speaker": []}, None, 7]},
    {"data": "passport row", "type": [], "derived_from": [1, None]},
    {"data": "passport row", "history": [{"text": 1}, None, 3]},
    {"data": "passport row", "timestamp": 1e300},
    {"data": "passport row", "timestamp": "0001-01-01T00:00:00+14:00"},
    {"data": "passport row \ud800 \x00"},
    {"content": {"content": {"deep": 1}}},
    {"content": {"": "passport row", "a.b": "passport row"}},
]


@pytest.fixture
def tk() -> Iterator[threadkeep.Threadkeep]:
    """Return a memory in RAM with one good memory and every strange row in each place of memories."""
    with threadkeep.open("memory://", embedder=HashingEmbedder()) as opened:
        opened.sync.memories.remember(FACT, owner=ANA)
        label = opened.label(ANA)
        for place, value in enumerate(STRANGE):
            for namespace in (("memories", label), ("users", label, "memories", "user"), ("summaries", label)):
                opened.store.put(namespace, f"strange-{place}", value)
        yield opened


class TestReading:
    """Every door goes on."""

    def test_the_good_memory_is_recalled_listed_and_searched(self, tk: threadkeep.Threadkeep) -> None:
        """One strange row does not hide the others, and degrades nothing."""
        found = tk.sync.recall("Where is my passport?", owner=ANA)

        assert found.degraded == ()
        assert FACT in [recalled.memory.text for recalled in found.memories]
        assert FACT in [memory.text for memory in tk.sync.memories.list(owner=ANA)]
        assert FACT in [one.memory.text for one in tk.sync.memories.search("passport", owner=ANA, limit=50)]

    async def test_the_documents_functions_go_on(self, tk: threadkeep.Threadkeep) -> None:
        """Cross-thread context and search read the same rows."""
        context = await store_get_cross_thread_context(tk.store, ANA)
        found = search_relevant_memories(tk.store, ANA, "Where is my passport?", k_user=50)

        assert FACT in context
        assert FACT in [recalled.memory.text for recalled in found]

    def test_turns_are_learnt_from(self, tk: threadkeep.Threadkeep) -> None:
        """Capture reads what is known first."""
        said = [{"role": "user", "content": "I live in Lisbon."}]

        receipt = tk.sync.capture(said, owner=ANA, thread_id="t", wait=True)

        assert receipt.status == "done"
        assert "I live in Lisbon." in [memory.text for memory in tk.sync.memories.list(owner=ANA)]

    def test_an_owner_is_shown_and_exported(self, tk: threadkeep.Threadkeep) -> None:
        """Nothing is left out of what is held."""
        exported = [row["type"] for row in tk.sync.owners.export(ANA)]

        assert exported.count("memory") == 1 + 2 * len(STRANGE)
        assert exported.count("summary") == len(STRANGE)
        assert tk.sync.owners.show(ANA).summaries == len(STRANGE)
