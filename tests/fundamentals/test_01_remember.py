"""Chapter 1: remember a statement, find it, and correct it."""

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

    async def test_the_same_in_other_words_is_a_duplicate(self, tk: threadkeep.Threadkeep) -> None:
        """What says something else is not, however close it is."""
        first = await tk.memories.remember("I live in Berlin.", owner=ANA)
        again = await tk.memories.remember("I'm currently living in Berlin", owner=ANA)
        other = await tk.memories.remember("I don't live in Berlin.", owner=ANA)

        assert (again.status, again.memory_id) == ("duplicate", first.memory_id)
        assert other.status == "accepted"

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
