"""Summaries of threads are memories: recall finds them, and what is forgotten or corrected leaves them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

import threadkeep
from threadkeep import functions
from threadkeep.identity import Owner
from threadkeep.testing import HashingEmbedder

ANA = "ana@x.org"
KYOTO = "The user planned the trip to Kyoto in April with her sister Maria."
OWES = "I owe Bob 200 dollars."


@pytest.fixture
async def tk() -> AsyncIterator[threadkeep.Threadkeep]:
    """Return a memory of one owner."""
    async with threadkeep.open("memory://", owner=ANA, embedder=HashingEmbedder()) as opened:
        yield opened


async def summaries(tk: threadkeep.Threadkeep) -> list[str]:
    return [item.value["summary"] for item in await tk.store.asearch(("summaries", tk.label(ANA)))]


async def summarise(tk: threadkeep.Threadkeep, text: str, *, thread_id: str = "first") -> None:
    """Keep a summary as the window does when it compacts a thread."""

    async def keep() -> None:
        services = await tk.app.connect()
        await services.memory_repository.put_summary(text, owner=Owner(ANA), thread_id=thread_id, key=thread_id)

    await tk.app.event_loop.run(keep())


class TestRecall:
    async def test_recall_and_search_find_a_summary(self, tk: threadkeep.Threadkeep) -> None:
        """Memories that are listed are the others."""
        await functions.store_put_summary(tk.store, ANA, KYOTO, "first")

        recall = await tk.recall("When is my trip to Kyoto?", thread_id="second")
        found = await tk.memories.search("trip to Kyoto")

        assert [one.memory.text for one in recall.memories] == [KYOTO]
        assert f'"{KYOTO}" ({recall.memories[0].memory.created_at.date()}, summary)' in recall.text
        assert [one.memory.text for one in found] == [KYOTO]
        assert [one.memory.kind for one in found] == ["episodic"]
        assert await tk.memories.list() == []
        assert [one async for one in tk.memories.walk()] == []

    async def test_the_thread_that_it_sums_up_is_not_given_it(self, tk: threadkeep.Threadkeep) -> None:
        """The window has put it there already."""
        await functions.store_put_summary(tk.store, ANA, KYOTO, "first")

        assert (await tk.recall("When is my trip to Kyoto?", thread_id="first")).memories == ()

    async def test_a_long_summary_gives_the_sentences_that_answer(self, tk: threadkeep.Threadkeep) -> None:
        """The rest of it stays out of the block."""
        rest = " ".join(f"The assistant explained step {number} of the recipe for bread." for number in range(30))
        await functions.store_put_summary(tk.store, ANA, f"{rest} {KYOTO} {rest}", "first")

        recall = await tk.recall("When is my trip to Kyoto?", thread_id="second")

        assert KYOTO in recall.text
        assert len(recall.text) < 600

    async def test_an_owner_who_opted_out_is_given_none(self, tk: threadkeep.Threadkeep) -> None:
        """Nor in a thread that is opted out."""
        await functions.store_put_summary(tk.store, ANA, KYOTO, "first")
        await tk.owners.opt_out(ANA, thread_id="second")

        assert (await tk.recall("When is my trip to Kyoto?", thread_id="second")).memories == ()
        assert (await tk.recall("When is my trip to Kyoto?", thread_id="third")).memories != ()

    async def test_another_owner_is_given_none(self, tk: threadkeep.Threadkeep) -> None:
        await functions.store_put_summary(tk.store, ANA, KYOTO, "first")

        assert (await tk.recall("When is my trip to Kyoto?", owner="bob")).memories == ()


class TestTakenAway:
    @pytest.mark.parametrize("how", ["forget", "correct"])
    @pytest.mark.parametrize("line", [OWES, f"User: {OWES}"])
    async def test_a_statement_leaves_the_summaries(self, tk: threadkeep.Threadkeep, how: str, line: str) -> None:
        """The rest of them stays, also where a line begins with the speaker."""
        kept = await tk.memories.remember(OWES)
        await summarise(tk, f"{KYOTO}\n{line}")

        if how == "forget":
            await tk.memories.forget(kept.memory_id)
        else:
            await tk.memories.correct(kept.memory_id, "I owe Bob 20 dollars.")

        assert await summaries(tk) == [KYOTO]
        assert "200" not in (await tk.recall("How much do I owe Bob?", thread_id="second")).text

    async def test_a_later_summary_does_not_say_it_again(self, tk: threadkeep.Threadkeep) -> None:
        """Nor is a summary kept that says nothing else."""
        kept = await tk.memories.remember(OWES)
        await tk.memories.forget(kept.memory_id)

        await summarise(tk, f"{KYOTO}\nUser: {OWES}")
        await summarise(tk, OWES, thread_id="other")

        assert await summaries(tk) == [KYOTO]

    async def test_a_rejected_statement_leaves_them(self, tk: threadkeep.Threadkeep) -> None:
        await summarise(tk, f"{KYOTO}\nUser: {OWES}")
        proposed = await tk.proposals.propose(OWES)
        assert proposed.proposal is not None

        await tk.proposals.reject(proposed.proposal.proposal_id, by="ana")

        assert await summaries(tk) == [KYOTO]

    async def test_a_summary_can_be_forgotten(self, tk: threadkeep.Threadkeep) -> None:
        """By its id, as any memory."""
        await functions.store_put_summary(tk.store, ANA, KYOTO, "first")
        (found,) = await tk.memories.search("trip to Kyoto")

        await tk.memories.forget(found.memory.memory_id)

        assert await summaries(tk) == []
        assert (await tk.recall("When is my trip to Kyoto?", thread_id="second")).memories == ()
