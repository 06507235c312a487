"""The person the memory is about sees it, corrects it and has it forgotten."""

from __future__ import annotations

import pytest

import threadkeep
import threadkeep.errors
from threadkeep.errors import MemoryNotFoundError, RevisionConflictError

ANA = "ana@x.org"


class TestRemember:
    """A statement is kept once."""

    async def test_a_statement_is_found_by_meaning_and_words(self, tk: threadkeep.Threadkeep) -> None:
        """What was remembered is what a search finds first."""
        await tk.memories.remember("My passport is in the blue drawer.", owner=ANA)
        await tk.memories.remember("I have two cats.", owner=ANA)

        found = await tk.memories.search("where is my passport", owner=ANA)

        assert found[0].memory.text == "My passport is in the blue drawer."
        assert 0 <= found[1].score <= found[0].score <= 1

    async def test_the_same_statement_is_a_duplicate(self, tk: threadkeep.Threadkeep) -> None:
        """Case, spaces and the final stop make no new memory."""
        first = await tk.memories.remember("I have two cats.", owner=ANA)
        second = await tk.memories.remember("i have  two cats", owner=ANA)

        assert (first.status, second.status) == ("accepted", "duplicate")
        assert second.memory_id == first.memory_id

    async def test_secrets_are_cut_out(self, tk: threadkeep.Threadkeep) -> None:
        """A key never reaches the storage, not even when asked to."""
        kept = await tk.memories.remember("My key is sk-proj-Zx81kQpLm20vTrW9sBnE4yHd7uJf5aGc.", owner=ANA)

        assert "Zx81kQpLm20v" not in kept.memory.text

    @pytest.mark.parametrize("text", ["", "   ", "\n\t"])
    async def test_nothing_is_refused(self, tk: threadkeep.Threadkeep, text: str) -> None:
        """An empty statement is an error that says what to do."""
        with pytest.raises(threadkeep.errors.InvalidInputError, match="empty"):
            await tk.memories.remember(text, owner=ANA)

    async def test_too_much_is_refused(self, tk: threadkeep.Threadkeep) -> None:
        """A memory is a short statement."""
        with pytest.raises(threadkeep.errors.TooLargeError, match="8,000"):
            await tk.memories.remember("x" * 1_000_000, owner=ANA)

    @pytest.mark.parametrize("text", ["a\x00b", "half \ud800 a pair", "日本語 العربية 😀", "'; DROP TABLE items"])
    async def test_any_text_survives(self, tk: threadkeep.Threadkeep, text: str) -> None:
        """NUL, lone surrogates and every script come back as they were."""
        kept = await tk.memories.remember(text, owner=ANA)

        assert (await tk.memories.require(kept.memory_id, owner=ANA)).text == text

    @pytest.mark.parametrize("user_id", ["a.b@x.org", "/a/b", "日本", "\x00", "\ud800", "*", "x" * 1000])
    async def test_any_user_id_works(self, tk: threadkeep.Threadkeep, user_id: str) -> None:
        """Ids of any text and of up to 1,000 characters have a memory of their own."""
        await tk.memories.remember("I have two cats.", owner=user_id)

        assert [memory.text for memory in await tk.memories.list(owner=user_id)] == ["I have two cats."]

    @pytest.mark.parametrize("user_id", ["", "x" * 1001])
    async def test_ids_have_1_to_1000_characters(self, tk: threadkeep.Threadkeep, user_id: str) -> None:
        """No id and one that is too long are refused."""
        with pytest.raises(threadkeep.errors.InvalidInputError):
            await tk.memories.remember("I have two cats.", owner=user_id)


class TestCorrect:
    """A correction replaces what is said and keeps what was said."""

    async def test_the_old_statement_is_history(self, tk: threadkeep.Threadkeep) -> None:
        """The new one is found, the old one is not."""
        kept = await tk.memories.remember("I live in Lisbon.", owner=ANA)

        memory = await tk.memories.correct(kept.memory_id, "I live in Berlin.", owner=ANA)

        assert memory.text == "I live in Berlin."
        assert [old.text for old in await tk.memories.history(kept.memory_id, owner=ANA)] == ["I live in Lisbon."]
        assert [found.memory.text for found in await tk.memories.search("Lisbon", owner=ANA)] == ["I live in Berlin."]

    async def test_a_stale_revision_is_refused(self, tk: threadkeep.Threadkeep) -> None:
        """Who read an older revision decides anew."""
        kept = await tk.memories.remember("I live in Lisbon.", owner=ANA)
        await tk.memories.correct(kept.memory_id, "I live in Berlin.", owner=ANA)

        with pytest.raises(RevisionConflictError):
            await tk.memories.correct(kept.memory_id, "I live in Porto.", owner=ANA, revision=kept.memory.revision)

    async def test_anothers_memory_is_not_there(self, tk: threadkeep.Threadkeep) -> None:
        """A memory's id is of no use to another owner."""
        kept = await tk.memories.remember("I live in Lisbon.", owner=ANA)

        with pytest.raises(MemoryNotFoundError):
            await tk.memories.correct(kept.memory_id, "I live in Berlin.", owner="bob@x.org")


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
