"""What was rejected or forgotten is not learnt again; what only sounds like it is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

import threadkeep
from tests.proposals.world import ANA
from threadkeep.memories.models import Source
from threadkeep.testing import FrozenClock, HashingEmbedder

SAID = "I owe Bob 200 dollars."


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
async def tk(clock: FrozenClock) -> AsyncIterator[threadkeep.Threadkeep]:
    async with threadkeep.open("memory://", owner=ANA, embedder=HashingEmbedder(), clock=clock) as opened:
        yield opened


async def learn(tk: threadkeep.Threadkeep, text: str, *, thread: str = "t") -> None:
    said = [{"role": "user", "content": text}, {"role": "assistant", "content": "All right."}]
    receipt = await tk.capture(said, thread_id=thread, wait=True)
    assert receipt.status == "done"


async def facts(tk: threadkeep.Threadkeep) -> list[str]:
    return sorted(memory.text for memory in await tk.memories.list(kind="semantic"))


async def rejected(tk: threadkeep.Threadkeep, text: str) -> None:
    proposed = await tk.proposals.propose(text)
    assert proposed.proposal is not None
    await tk.proposals.reject(proposed.proposal.proposal_id, by="ana")


async def forgotten(tk: threadkeep.Threadkeep, text: str) -> None:
    kept = await tk.memories.remember(text)
    await tk.memories.forget(kept.memory_id)


@pytest.fixture(params=[rejected, forgotten], ids=["rejected", "forgotten"])
def taken_away(request: pytest.FixtureRequest):
    return request.param


class TestLearning:
    @pytest.mark.parametrize("again", [SAID, "I owe 200 dollars to Bob", "I really owe Bob 200 dollars now."])
    async def test_it_is_not_learnt_again(self, tk: threadkeep.Threadkeep, taken_away, again: str):
        """Neither from the same words nor from others that say the same."""
        await taken_away(tk, SAID)

        await learn(tk, again)

        assert await facts(tk) == []

    @pytest.mark.parametrize(
        "other", ["I owe Bob 20 dollars.", "I owe Rob 200 dollars.", "I owe my sister 200 dollars."]
    )
    async def test_what_says_something_else_is(self, tk: threadkeep.Threadkeep, taken_away, other: str):
        """Another number, another name, another person."""
        await taken_away(tk, SAID)

        await learn(tk, other)

        assert await facts(tk) == [other]

    async def test_another_owner_learns_it(self, tk: threadkeep.Threadkeep, taken_away):
        """It was taken away from one."""
        await taken_away(tk, SAID)

        said = [{"role": "user", "content": SAID}]
        await tk.capture(said, owner="bob", thread_id="t", wait=True)

        assert [m.text for m in await tk.memories.list(owner="bob", kind="semantic")] == [SAID]

    async def test_neither_is_it_proposed_again(self, tk: threadkeep.Threadkeep, taken_away):
        """The answer says why."""
        await taken_away(tk, SAID)

        proposed = await tk.proposals.propose(SAID)

        assert (proposed.status, proposed.proposal_id) == ("rejected", None)
        assert "Embedding" not in repr(await tk.proposals.tombstones())
        assert proposed.reason is not None
        assert "before" in proposed.reason

    async def test_rejecting_reaches_a_turn_that_is_being_learnt(self, tk: threadkeep.Threadkeep):
        """What was recorded before and is learnt after it, is not kept."""
        await tk.app.call(lambda services: services.captures.stop())
        await tk.capture([{"role": "user", "content": SAID}], thread_id="t")
        await rejected(tk, SAID)

        await tk.drain()

        assert await facts(tk) == []


class TestEpisodes:
    """The user's words of a turn are kept as episodes, and what was taken away does not come back in them."""

    OTHER = "My sister Maria is a nurse in Porto."

    async def episodes(self, tk: threadkeep.Threadkeep) -> str:
        return " ".join(memory.text for memory in await tk.memories.list(kind="episodic"))

    async def test_its_words_are_not_kept_as_an_episode_either(self, tk: threadkeep.Threadkeep, taken_away):
        """The rest of the turn is, and the receipt tells what was not kept and why."""
        await taken_away(tk, SAID)

        said = [{"role": "user", "content": f"{SAID} {self.OTHER}"}]
        receipt = await tk.capture(said, thread_id="t", wait=True)

        assert SAID not in await self.episodes(tk)
        assert self.OTHER in await self.episodes(tk)
        assert SAID not in (await tk.recall("How much do I owe Bob?")).text
        assert [(one.kind, "before" in one.reason) for one in receipt.not_kept] == [("semantic", True)]

    async def test_a_turn_that_says_nothing_else_leaves_nothing(self, tk: threadkeep.Threadkeep, taken_away):
        """Of the episode the receipt tells that, too."""
        await taken_away(tk, SAID)

        receipt = await tk.capture([{"role": "user", "content": SAID}], thread_id="t", wait=True)

        assert await tk.memories.list() == []
        assert {one.kind for one in receipt.not_kept} == {"semantic", "episodic"}

    @pytest.mark.parametrize("how", ["forget", "correct"])
    async def test_what_was_kept_before_loses_it(self, tk: threadkeep.Threadkeep, how: str):
        """So does what another turn said of it."""
        await learn(tk, f"{self.OTHER} {SAID}", thread="monday")
        await learn(tk, f"As you know, {SAID} {self.OTHER}", thread="tuesday")
        (fact,) = [one for one in await tk.memories.list(kind="semantic") if one.text == SAID]

        if how == "forget":
            await tk.memories.forget(fact.memory_id)
        else:
            await tk.memories.correct(fact.memory_id, "I owe Bob 20 dollars.")

        assert SAID not in await self.episodes(tk)
        assert self.OTHER in await self.episodes(tk)

    async def test_a_rejected_rule_leaves_the_episodes(self, tk: threadkeep.Threadkeep):
        """The fourth statement of a message is no fact, so an episode keeps it; a tool proposed it later."""
        await learn(tk, f"{self.OTHER} Never use tables. Never use emojis. Never use jokes. Always answer in French.")
        assert "French" in await self.episodes(tk)
        proposal = (await tk.proposals.propose("Always answer in French.", kind="procedural")).proposal
        assert proposal is not None

        await tk.proposals.reject(proposal.proposal_id, by="ana")

        assert "French" not in await self.episodes(tk)
        assert self.OTHER in await self.episodes(tk)

    async def test_a_forgotten_episode_is_not_learnt_again(self, tk: threadkeep.Threadkeep):
        """Sentence by sentence, as another turn puts them together otherwise."""
        await learn(tk, "The weather was lovely in Kyoto back then. The trains there ran every two minutes.")
        for episode in await tk.memories.list(kind="episodic"):
            await tk.memories.forget(episode.memory_id)

        await learn(tk, "The trains there ran every two minutes.", thread="later")

        assert await self.episodes(tk) == ""


class TestLift:
    async def test_the_user_lifts_it_in_a_turn(self, tk: threadkeep.Threadkeep, taken_away):
        """They ask that it is remembered, and the receipt says what that lifted."""
        await taken_away(tk, SAID)
        (tombstone,) = await tk.proposals.tombstones()

        said = [{"role": "user", "content": f"Please remember that {SAID}"}]
        receipt = await tk.capture(said, thread_id="t", wait=True)

        assert receipt.lifted == (tombstone.tombstone_id,)
        assert await facts(tk) == [SAID]
        assert await tk.proposals.tombstones() == []

    async def test_tombstone_is_visible_and_can_be_lifted(self, tk: threadkeep.Threadkeep):
        """What was rejected can be read, what was forgotten cannot; both can be let in again."""
        await rejected(tk, SAID)
        await forgotten(tk, "My favourite colour is mauve.")

        shown = {one.cause: one for one in await tk.proposals.tombstones()}

        assert shown["rejected"].text == SAID
        assert (shown["rejected"].by, shown["erased"].text) == ("ana", None)
        for one in shown.values():
            assert await tk.proposals.lift(one.tombstone_id)
        assert not await tk.proposals.lift("unknown")
        await learn(tk, f"{SAID} My favourite colour is mauve.")
        assert await facts(tk) == [SAID, "My favourite colour is mauve."]

    async def test_saying_explicitly_that_it_shall_be_remembered_lifts_it(self, tk: threadkeep.Threadkeep, taken_away):
        """Remembering by hand is a decision, too, and the newer one."""
        await taken_away(tk, SAID)

        kept = await tk.memories.remember(SAID)

        assert kept.status == "accepted"
        assert await tk.proposals.tombstones() == []

    async def test_it_expires(self, tk: threadkeep.Threadkeep, clock: FrozenClock, taken_away):
        """After a year, by default."""
        await taken_away(tk, SAID)
        clock.advance(timedelta(days=366))

        await learn(tk, SAID)

        assert await facts(tk) == [SAID]


class TestErased:
    async def test_nothing_of_the_text_stays(self, tk: threadkeep.Threadkeep):
        """Digests do, which say nothing without the owner's key; proposals and tombstones that say it go, too."""
        waiting = await tk.proposals.propose("The user owes Bob 200 dollars")
        refused = await tk.proposals.propose("I owe Bob 200 dollars", kind="episodic", source=Source("user"))
        kept = await tk.memories.remember(SAID)
        await tk.memories.correct(kept.memory_id, "I owe Rob 300 dollars.")

        await tk.memories.forget(kept.memory_id)

        held = str([row async for row in tk.owners.export()])
        assert not any(word in held for word in ("Bob", "Rob", "dollars")), held
        assert waiting.proposal is not None
        assert await tk.proposals.get(waiting.proposal.proposal_id) is None
        assert refused.status == "approved"
        assert len(await tk.proposals.tombstones()) == 2

    async def test_two_owners_digests_have_nothing_in_common(self, tk: threadkeep.Threadkeep):
        """The key is the owner's, so equal statements cannot be found by comparing."""
        for owner in ("ana", "bob"):
            kept = await tk.memories.remember(SAID, owner=owner)
            await tk.memories.forget(kept.memory_id, owner=owner)

        (ana,), (bob,) = [await tk.proposals.tombstones(owner) for owner in ("ana", "bob")]

        assert ana.digests
        assert not ana.digests & bob.digests

    async def test_erased_owner_leaves_no_tombstone(self, tk: threadkeep.Threadkeep, taken_away):
        """Everything goes with the owner."""
        await taken_away(tk, SAID)

        await tk.owners.erase()

        assert await tk.proposals.tombstones() == []
        await learn(tk, SAID)
        assert await facts(tk) == [SAID]
