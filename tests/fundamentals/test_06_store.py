"""Chapter 6: ``tk.store`` is a LangGraph store over the same memory."""

from __future__ import annotations

import threadkeep

ANA = "ana@x.org"


class TestStore:
    async def test_an_item_is_found_by_its_words(self, tk: threadkeep.Threadkeep) -> None:
        """Programs keep what they like below the user's label."""
        namespace = ("users", tk.label(ANA), "files")
        await tk.store.aput(namespace, "trip", {"text": "The night train to Porto leaves at nine."})
        await tk.store.aput(namespace, "cats", {"text": "Two cats need food."})

        found = await tk.store.asearch(namespace, query="When does the night train leave?", limit=1)

        assert [item.key for item in found] == ["trip"]

    async def test_an_item_in_memories_is_a_memory(self, tk: threadkeep.Threadkeep) -> None:
        """It is listed and recalled as one."""
        await tk.store.aput(("memories", tk.label(ANA)), "home", {"data": "Ana lives in Lisbon."})

        assert [memory.text for memory in await tk.memories.list(owner=ANA)] == ["Ana lives in Lisbon."]

    def test_sync_calls_return_the_same(self, tk: threadkeep.Threadkeep) -> None:
        """The store works without an event loop, too."""
        tk.store.put(("notes",), "a", {"text": "A note."})

        item = tk.store.get(("notes",), "a")

        assert item is not None
        assert item.value == {"text": "A note."}
