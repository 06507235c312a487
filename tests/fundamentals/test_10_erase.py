"""Chapter 10: forget one statement, or erase everything about an owner."""

from __future__ import annotations

import threadkeep

ANA = "ana@x.org"


class TestForget:
    """Forgetting takes the statement, its history and what was derived from it."""

    async def test_everything_that_holds_it_goes(self, tk: threadkeep.Threadkeep) -> None:
        """The memory, its history, the episode of its turn and the turn record's text are gone."""
        said = [{"role": "user", "content": "I live in Lisbon.", "id": "m1"}, {"role": "assistant", "content": "Nice."}]
        receipt = await tk.capture(said, owner=ANA, thread_id="t1", wait=True)
        assert receipt.status == "done"
        (fact,) = await tk.memories.list(owner=ANA, kind="semantic")
        await tk.memories.correct(fact.memory_id, "I live in Berlin.", owner=ANA)

        gone = await tk.memories.forget(fact.memory_id, owner=ANA)

        held = [row async for row in tk.owners.export(ANA)]
        assert "Lisbon" not in str(held)
        assert "Berlin" not in str(held)
        assert [(source.thread_id, source.message_id) for source in gone.still_in] == [("t1", "m1")]
        assert await tk.memories.search("Lisbon", owner=ANA) == []

    async def test_other_memories_stay(self, tk: threadkeep.Threadkeep) -> None:
        """Nothing else is touched."""
        await tk.memories.remember("I have two cats.", owner=ANA)
        kept = await tk.memories.remember("I live in Lisbon.", owner=ANA)

        await tk.memories.forget(kept.memory_id, owner=ANA)

        assert [memory.text for memory in await tk.memories.list(owner=ANA)] == ["I have two cats."]

    async def test_the_same_turn_does_not_teach_it_again(self, tk: threadkeep.Threadkeep) -> None:
        """The thread goes on with its history; what was forgotten is not learnt from it again."""
        said = [{"role": "user", "content": "I live in Lisbon.", "id": "m1"}, {"role": "assistant", "content": "Nice."}]
        await tk.capture(said, owner=ANA, thread_id="t1", wait=True)
        (fact,) = await tk.memories.list(owner=ANA, kind="semantic")
        await tk.memories.forget(fact.memory_id, owner=ANA)

        more = [*said, {"role": "user", "content": "I have two cats.", "id": "m2"}]
        await tk.capture(more, owner=ANA, thread_id="t1", wait=True)

        assert "Lisbon" not in str([row async for row in tk.owners.export(ANA)])


class TestErase:
    """Erasing an owner leaves nothing of them and everything of others."""

    async def test_nothing_is_left(self, tk: threadkeep.Threadkeep) -> None:
        """Memories, items and what is on its way are gone; another owner's stay."""
        await tk.memories.remember("I live in Lisbon.", owner=ANA)
        await tk.store.aput(("users", tk.label(ANA), "files"), "notes", {"text": "private"})
        await tk.memories.remember("I live in Porto.", owner="bob@x.org")

        gone = await tk.owners.erase(ANA)

        assert gone.items >= 2  # and a row of bookkeeping
        assert [row["type"] async for row in tk.owners.export(ANA)] == ["owner"]
        assert await tk.memories.search("Lisbon", owner=ANA) == []
        assert len(await tk.memories.list(owner="bob@x.org")) == 1
