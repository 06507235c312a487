from __future__ import annotations

import pytest

import threadkeep
from threadkeep.testing import HashingEmbedder
from threadkeep.text.semantics import denies, ended_by


class TestEndedBy:
    @pytest.mark.parametrize(
        ("said", "positive"),
        [
            ("I don't live in Lisbon any more.", "I live in Lisbon"),
            ("Actually, I no longer work at Acme", "I work at Acme"),
            ("I'm not vegan anymore", "I'm vegan"),
            ("My sister doesn't live in Porto any more", "My sister lives in Porto"),
            ("I've quit drinking coffee", "I drinking coffee"),
            ("I left my job at Acme last month", "I work at Acme"),
            ("I left Acme", "I work at Acme"),
            ("I've just left Acme Foods to start a bakery", "I work at Acme Foods"),
            ("I got laid off from Acme in May", "I work at Acme"),
            ("I used to live in Lisbon", "I live in Lisbon"),
            ("My favourite colour isn't red any more", "My favourite colour is red"),
            ("The user doesn't live in Lisbon any more", "I live in Lisbon"),
        ],
    )
    def test_what_has_ended(self, said: str, positive: str):
        """Who, what, and as it was."""
        assert ended_by(said) == positive

    @pytest.mark.parametrize(
        "said",
        [
            "I don't like tea",
            "I don't know any more",
            "Don't I live in Lisbon any more?",
            "If I no longer work at Acme, who does?",
            "I left my keys",
            "I left home early",
            "I left for Lisbon",
            "I live in Lisbon",
            "I used to be a nurse",
            "x" * 500,
            "",
        ],
    )
    def test_what_ends_nothing(self, said: str):
        """A question, a supposition, a passing word, and what leaves open what has ended."""
        assert ended_by(said) is None


class TestDenies:
    @pytest.mark.parametrize(
        ("ending", "answer", "denied"),
        [
            ("I don't live in Lisbon any more", "I live in Lisbon", True),
            ("I don't live in Lisbon any more", "I moved to Lisbon", True),
            ("I don't live in Lisbon any more", "I moved to Berlin", False),
            ("I stopped smoking", "I smoke", True),
            ("I stopped smoking", "I drink", False),
            ("I live in Lisbon", "I live in Lisbon", False),
        ],
    )
    def test_only_what_it_names(self, ending: str, answer: str, denied: bool):
        """By its names, or by its words where it has none."""
        assert denies(ending, answer) == denied


class TestTurn:
    @pytest.mark.parametrize(
        "said",
        [
            ("I live in Lisbon.", "I moved to Berlin.", "I'm back in Lisbon now."),
            ("I work at Acme.", "I left Acme."),
            ("I work at Acme.", "I left Acme.", "I started a new job at Globex."),
        ],
    )
    async def test_what_was_so_is_history(self, said: tuple[str, ...]):
        """In whatever words it ended or came back; nothing beside the newest word is told as a fact."""
        async with threadkeep.open("memory://", owner="ana", embedder=HashingEmbedder()) as tk:
            for number, text in enumerate(said):
                await tk.capture([{"role": "user", "content": text, "id": f"m{number}"}], thread_id="t", wait=True)

            (memory,) = await tk.memories.list(kind="semantic")

        assert memory.text == said[-1]
        assert [old.text for old in memory.history] == list(said[:-1])

    async def test_memory_ends_with_the_turn_that_says_so(self):
        """What was so is history, and the block no longer says it."""
        async with threadkeep.open("memory://", owner="ana", embedder=HashingEmbedder()) as tk:
            for number, text in enumerate(("I live in Lisbon.", "I don't live in Lisbon any more.")):
                await tk.capture([{"role": "user", "content": text, "id": f"m{number}"}], thread_id="t", wait=True)

            (memory,) = await tk.memories.list(kind="semantic")
            block = (await tk.recall("Where do I live?")).text

        assert memory.text == "I don't live in Lisbon any more."
        assert [(old.text, old.valid_to is not None) for old in memory.history] == [("I live in Lisbon.", True)]
        assert '"I live in Lisbon."' not in block
        assert "I don't live in Lisbon any more." in block


class TestForget:
    @pytest.mark.parametrize(
        ("known", "asked"),
        [
            ("I like fennel tea.", "Forget that I like fennel tea."),
            ("I'm from Bolivia.", "Don't remember that I'm from Bolivia."),
            ("My phone number is 555 1234.", "Thanks! Please forget my phone number."),
            ("Ich mag Tango.", "Vergiss bitte, dass ich Tango mag."),
            ("J'aime le tango.", "Oublie que j'aime le tango."),
            ("Me gusta el tango.", "Olvida que me gusta el tango."),
        ],
    )
    async def test_what_the_user_asks_to_forget_is_proposed(self, known: str, asked: str):
        """Approved, it is gone; until then nothing is lost by a misunderstood sentence."""
        async with threadkeep.open("memory://", owner="ana", embedder=HashingEmbedder()) as tk:
            memory_id = (await tk.memories.remember(known)).memory_id
            receipt = await tk.capture([{"role": "user", "content": asked, "id": "m1"}], thread_id="t", wait=True)

            (proposal,) = await tk.proposals.list()
            assert [one.text for one in await tk.memories.list(kind="semantic")] == [known]
            await tk.proposals.approve(proposal.proposal_id)
            left = await tk.memories.list(kind="semantic")

        assert (proposal.action, proposal.memory_id, proposal.base_text) == ("forget", memory_id, known)
        assert (proposal.trust, proposal.reason) == ("user", "the user asks to forget it")
        assert receipt.proposal_ids == (proposal.proposal_id,)
        assert left == []

    async def test_it_is_proposed_once(self):
        async with threadkeep.open("memory://", owner="ana", embedder=HashingEmbedder()) as tk:
            await tk.memories.remember("I like fennel tea.")
            for number in range(2):
                said = {"role": "user", "content": "Forget that I like fennel tea.", "id": f"m{number}"}
                await tk.capture([said], thread_id=f"t{number}", wait=True)

            assert len(await tk.proposals.list()) == 1

    async def test_what_the_same_turn_replaces_stays(self):
        async with threadkeep.open("memory://", owner="ana", embedder=HashingEmbedder()) as tk:
            await tk.memories.remember("I live in Rome.")
            said = {"role": "user", "content": "Forget that I live in Rome. I live in Milan now.", "id": "m1"}
            await tk.capture([said], thread_id="t", wait=True)

            assert await tk.proposals.list() == []
            assert [one.text for one in await tk.memories.list(kind="semantic")] == ["I live in Milan now."]
