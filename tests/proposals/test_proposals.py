"""Proposals through the Python door: made, decided once, lapsed, and what follows for memory and learning."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import pytest

import threadkeep
from tests.proposals.world import ANA, TOOL
from threadkeep.errors import (
    ApprovalRequiredError,
    InvalidInputError,
    MemoryNotFoundError,
    ProposalDecidedError,
    ProposalNotFoundError,
    RevisionConflictError,
    TooLargeError,
)
from threadkeep.ids import MemoryId
from threadkeep.memories.models import NewMemory, Source
from threadkeep.proposals.models import Choice
from threadkeep.settings import Settings
from threadkeep.testing import FrozenClock, HashingEmbedder

QUESTION = "Which vendor does the user prefer?"
SAID = "The user prefers vendor X."


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture(params=["memory", "sqlite"])
async def tk(
    request: pytest.FixtureRequest, clock: FrozenClock, tmp_path: object
) -> AsyncIterator[threadkeep.Threadkeep]:
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/m.db"
    async with threadkeep.open(url, owner=ANA, embedder=HashingEmbedder(), clock=clock) as opened:
        yield opened


async def texts(tk: threadkeep.Threadkeep) -> list[str]:
    return sorted(memory.text for memory in await tk.memories.list())


class TestPropose:
    async def test_proposal_waits_and_is_not_recalled(self, tk: threadkeep.Threadkeep):
        """It is listed with its reason, and no memory shows it."""
        proposed = await tk.proposals.propose(SAID, source=TOOL)

        assert proposed.status == "proposed"
        (waiting,) = await tk.proposals.list()
        assert (waiting.text, waiting.state, waiting.trust) == (SAID, "pending", "tool")
        assert waiting.proposal_id == proposed.proposal_id
        assert await tk.memories.list() == []
        assert (await tk.recall(QUESTION)).text == ""
        assert await tk.memories.search("vendor") == []

    async def test_same_key_is_the_same_proposal(self, tk: threadkeep.Threadkeep):
        """However often, and however many at once."""
        made = await asyncio.gather(*(tk.proposals.propose(SAID, key="k1") for _ in range(5)))

        assert len({one.proposal.proposal_id for one in made if one.proposal}) == 1
        assert len(await tk.proposals.list()) == 1

    async def test_what_waits_already_is_not_proposed_twice(self, tk: threadkeep.Threadkeep):
        """Though it is worded otherwise."""
        first = await tk.proposals.propose(SAID)

        again = await tk.proposals.propose("User prefers vendor X")

        assert again.status == "duplicate"
        assert again.proposal == first.proposal

    async def test_what_is_known_is_not_proposed(self, tk: threadkeep.Threadkeep):
        """The memory that says it is named."""
        kept = await tk.memories.remember(SAID)

        proposed = await tk.proposals.propose(SAID)

        assert (proposed.status, proposed.memory_id, proposed.proposal) == ("duplicate", kept.memory_id, None)

    @pytest.mark.parametrize("speaker", ["tool", "document", "assistant"])
    async def test_remembering_what_others_say_is_proposing_it(self, tk: threadkeep.Threadkeep, speaker: str):
        """``remember`` with such a source gives a receipt that says so, and keeps nothing."""
        kept = await tk.memories.remember(SAID, source=Source(speaker))  # pyright: ignore[reportArgumentType]

        assert (kept.status, kept.memory.status) == ("proposed", "proposed")
        assert await tk.memories.get(kept.memory_id) is None
        assert kept.proposal_id is not None
        await tk.proposals.approve(kept.proposal_id)
        memory = await tk.memories.require(kept.memory_id)
        assert (memory.text, memory.trust, memory.status) == (SAID, speaker, "active")

    async def test_others_words_cannot_be_written_past_it(self, tk: threadkeep.Threadkeep):
        """Neither in bulk nor as a correction."""
        kept = await tk.memories.remember("I live in Lisbon")

        (proposed,) = await tk.memories.remember_many([NewMemory(SAID, sources=(TOOL,))])
        (again,) = await tk.memories.remember_many([NewMemory(SAID, sources=(Source("user"), TOOL))])
        assert (proposed.status, again.status) == ("proposed", "proposed")
        assert again.proposal_id == proposed.proposal_id
        with pytest.raises(ApprovalRequiredError):
            await tk.memories.correct(kept.memory_id, SAID, source=TOOL)

        assert await texts(tk) == ["I live in Lisbon"]

    async def test_behaviour_is_proposed_for_every_speaker(self, tk: threadkeep.Threadkeep):
        """The application, too: it is recalled once somebody approved it, and what it says changes only so."""
        kept = await tk.memories.remember("Always answer in French.", kind="procedural")
        assert (kept.status, kept.memory.status) == ("proposed", "proposed")
        assert kept.proposal_id is not None
        assert await tk.memories.list() == []
        await tk.proposals.approve(kept.proposal_id, by="carla")
        with pytest.raises(ApprovalRequiredError, match="How to behave"):
            await tk.memories.correct(kept.memory_id, "Always answer in German.")
        source, change = Source("user"), "Always answer in Greek."
        proposed = await tk.proposals.propose(change, action="correct", memory_id=kept.memory_id, source=source)
        assert proposed.status == "proposed"

        assert await texts(tk) == ["Always answer in French."]

    @pytest.mark.parametrize("kind", ["semantic", "procedural"])
    async def test_behaviour_among_many_statements_is_proposed(self, tk: threadkeep.Threadkeep, kind: str):
        """The others are kept, each statement has its result, and repeating the call changes nothing."""
        rule = "Always answer in French."
        news = [NewMemory("I live in Lisbon."), NewMemory(rule, kind), NewMemory("I have two cats.")]
        news = [replace(new, memory_id=MemoryId(f"m{number}")) for number, new in enumerate(news)]
        steps: list[int] = []

        results = await tk.memories.remember_many(news, progress=steps.append)
        again = await tk.memories.remember_many(news)

        assert [one.status for one in results] == ["accepted", "proposed", "accepted"]
        assert [one.status for one in again] == ["duplicate", "proposed", "duplicate"]
        assert sorted(await texts(tk)) == ["I have two cats.", "I live in Lisbon."]
        assert steps[-1] == 3
        (waiting,) = await tk.proposals.list()
        assert (waiting.proposal_id, waiting.text) == (results[1].proposal_id, rule)
        await tk.proposals.approve(waiting.proposal_id)
        assert rule in await texts(tk)
        assert (await tk.memories.remember_many(news))[1].status == "duplicate"

    async def test_one_invalid_statement_among_many_proposes_nothing(self, tk: threadkeep.Threadkeep):
        with pytest.raises(InvalidInputError):
            await tk.memories.remember_many([NewMemory("Always answer in French."), NewMemory(" ")])

        assert await tk.proposals.list() == []

    async def test_a_fact_is_not_corrected_to_how_to_behave(self, tk: threadkeep.Threadkeep):
        """A statement of any kind that says how to behave needs an approval, and an approved one is kept."""
        kept = await tk.memories.remember("I speak French.")

        with pytest.raises(ApprovalRequiredError, match="How to behave"):
            await tk.memories.correct(kept.memory_id, "Always answer in French.")
        proposed = await tk.proposals.propose("Always answer in French.", source=Source("user"))

        assert proposed.status == "proposed"
        assert await texts(tk) == ["I speak French."]
        await tk.memories.correct(kept.memory_id, "Always answer in French.", approved_by="carla")
        assert await texts(tk) == ["Always answer in French."]

    async def test_how_to_behave_is_asked_when_the_user_says_it(self, tk: threadkeep.Threadkeep):
        """Without a model, too; no episode recalls it before."""
        said = {"role": "user", "content": "Always answer in French.", "id": "m1"}
        receipt = await tk.capture([said], thread_id="t", wait=True)

        (waiting,) = await tk.proposals.list()
        assert receipt.proposal_ids == (waiting.proposal_id,)
        assert (waiting.text, waiting.kind, waiting.trust) == ("Always answer in French.", "procedural", "user")
        assert await tk.memories.list() == []

    async def test_who_has_asked_already_says_whom(self, tk: threadkeep.Threadkeep):
        """Then it is kept at once, and tells approved_by must be a string."""
        kept = await tk.memories.remember("Always answer in French.", kind="procedural", approved_by="carla")
        changed = await tk.memories.correct(kept.memory_id, "Always answer in German.", approved_by="dave")

        assert kept.status == "accepted"
        assert kept.memory.approval is not None
        assert changed.approval is not None
        assert (kept.memory.approval.by, changed.approval.by) == ("carla", "dave")
        assert [entry.by for entry in await tk.owners.audit()] == ["dave", "carla"]
        assert await texts(tk) == ["Always answer in German."]
        with pytest.raises(InvalidInputError, match="approved_by must be a string"):
            await tk.memories.remember("Never ask back.", kind="procedural", approved_by=" ")

    @pytest.mark.parametrize(
        ("arguments", "error"),
        [
            ({"text": " "}, InvalidInputError),
            ({"text": "x" * 8_001}, TooLargeError),
            ({"text": "x", "action": "correct"}, InvalidInputError),
            ({"text": "x", "action": "burn"}, InvalidInputError),
            ({"text": "x", "kind": "odd"}, InvalidInputError),
            ({"text": "x", "key": ""}, InvalidInputError),
            ({"action": "forget", "memory_id": "none"}, MemoryNotFoundError),
        ],
    )
    async def test_what_names_no_change_is_refused(
        self, tk: threadkeep.Threadkeep, arguments: dict[str, str], error: type[Exception]
    ):
        """Nothing waits afterwards."""
        with pytest.raises(error):
            await tk.proposals.propose(**arguments)  # pyright: ignore[reportArgumentType]

        assert await tk.proposals.list() == []

    async def test_secret_is_taken_out(self, tk: threadkeep.Threadkeep):
        """Of a proposal as of a memory."""
        await tk.proposals.propose("The password is hunter2!", reason="password: hunter2!")

        assert "hunter2" not in str([row async for row in tk.owners.export()])


class TestApprove:
    async def test_approved_statement_is_a_memory_that_says_who_approved_it(self, tk: threadkeep.Threadkeep):
        """It is recalled, and knows its proposal."""
        proposed = await tk.proposals.propose(SAID, source=TOOL)
        assert proposed.proposal is not None

        decided = await tk.proposals.approve(proposed.proposal.proposal_id, by="carla", comment="seen the contract")

        assert decided.state == "approved"
        assert decided.decision is not None
        memory = await tk.memories.require(decided.decision.memory_id or "")
        assert memory.approval is not None
        assert (memory.text, memory.trust, memory.approval.by) == (SAID, "tool", "carla")
        assert memory.approval.proposal_id == decided.proposal_id
        assert SAID in (await tk.recall(QUESTION)).text

    async def test_it_can_be_edited(self, tk: threadkeep.Threadkeep):
        """What is remembered is what was approved; what was proposed stays to be seen."""
        proposed = await tk.proposals.propose(SAID)
        assert proposed.proposal is not None

        decided = await tk.proposals.edit(proposed.proposal.proposal_id, "I prefer vendor Y.")

        assert await texts(tk) == ["I prefer vendor Y."]
        assert (decided.text, decided.decision and decided.decision.text) == (SAID, "I prefer vendor Y.")

    async def test_decided_once(self, tk: threadkeep.Threadkeep):
        """A second decision is an error that names the first."""
        proposed = await tk.proposals.propose(SAID)
        assert proposed.proposal is not None
        key = proposed.proposal.proposal_id
        await tk.proposals.approve(key, by="carla")

        with pytest.raises(ProposalDecidedError, match="approved by carla"):
            await tk.proposals.reject(key, by="dave")
        with pytest.raises(ProposalDecidedError, match="approved by carla"):
            await tk.proposals.approve(key, by="dave")

        assert await texts(tk) == [SAID]
        assert await tk.proposals.tombstones() == []

    async def test_only_one_of_two_concurrent_decisions_succeeds(self, tk: threadkeep.Threadkeep):
        """One decision stands, whichever."""
        proposed = await tk.proposals.propose(SAID)
        assert proposed.proposal is not None
        key = proposed.proposal.proposal_id

        ends = await asyncio.gather(
            *(tk.proposals.approve(key, by=f"a{n}") for n in range(3)),
            *(tk.proposals.reject(key, by=f"r{n}") for n in range(3)),
            return_exceptions=True,
        )

        decided = [end for end in ends if not isinstance(end, BaseException)]
        assert len(decided) == 1
        assert all(isinstance(end, ProposalDecidedError) for end in ends if isinstance(end, BaseException))
        assert await texts(tk) == ([SAID] if decided[0].state == "approved" else [])

    async def test_same_decision_with_the_same_key_is_repeated(self, tk: threadkeep.Threadkeep):
        """A client that was cut off may ask once more."""
        proposed = await tk.proposals.propose(SAID)
        assert proposed.proposal is not None
        key = proposed.proposal.proposal_id
        first = await tk.proposals.approve(key, by="carla", key="click-1")

        assert await tk.proposals.approve(key, by="carla", key="click-1") == first
        with pytest.raises(ProposalDecidedError):
            await tk.proposals.reject(key, by="carla", key="click-1")

    async def test_approving_what_was_said_meanwhile_doubles_nothing(self, tk: threadkeep.Threadkeep):
        """The memory that says it is what came of it."""
        proposed = await tk.proposals.propose(SAID)
        assert proposed.proposal is not None
        kept = await tk.memories.remember(SAID)

        decided = await tk.proposals.approve(proposed.proposal.proposal_id)

        assert decided.decision is not None
        assert decided.decision.memory_id == kept.memory_id
        assert await texts(tk) == [SAID]

    async def test_anothers_proposal_is_not_there(self, tk: threadkeep.Threadkeep):
        """An id is of no use to another owner."""
        proposed = await tk.proposals.propose(SAID)
        assert proposed.proposal is not None

        with pytest.raises(ProposalNotFoundError):
            await tk.proposals.approve(proposed.proposal.proposal_id, owner="bob")

    async def test_approved_memory_does_not_expire(self, clock: FrozenClock):
        """A time to live is for what nobody looked at."""
        settings = Settings.load(store_ttl_minutes="1")
        async with threadkeep.open("memory://", owner=ANA, settings=settings, clock=clock, embedder="none") as tk:
            proposed = await tk.proposals.propose(SAID)
            assert proposed.proposal is not None
            await tk.proposals.approve(proposed.proposal.proposal_id)
            await tk.memories.remember("I live in Lisbon")

            clock.advance(timedelta(hours=1))

            assert await texts(tk) == [SAID]


class TestChange:
    async def test_correction_replaces_what_it_was_thought_out_for(self, tk: threadkeep.Threadkeep):
        """The old statement is history, and the memory says whose word the new one is."""
        kept = await tk.memories.remember("The user prefers vendor W.")
        proposed = await tk.proposals.propose(SAID, action="correct", memory_id=kept.memory_id, source=TOOL)
        assert proposed.proposal is not None
        assert (await tk.memories.require(kept.memory_id)).text == "The user prefers vendor W."

        await tk.proposals.approve(proposed.proposal.proposal_id)

        memory = await tk.memories.require(kept.memory_id)
        assert (memory.text, memory.trust) == (SAID, "tool")
        assert [old.text for old in memory.history] == ["The user prefers vendor W."]

    @pytest.mark.parametrize("action", ["correct", "forget"])
    async def test_base_that_changed_is_a_conflict(self, tk: threadkeep.Threadkeep, action: str):
        """It still waits, and may be approved for what the memory says now."""
        kept = await tk.memories.remember("The user prefers vendor W.")
        text = SAID if action == "correct" else ""
        proposed = await tk.proposals.propose(text, action=action, memory_id=kept.memory_id)  # pyright: ignore[reportArgumentType]
        assert proposed.proposal is not None
        key = proposed.proposal.proposal_id
        changed = await tk.memories.correct(kept.memory_id, "The user prefers vendor Z.")

        with pytest.raises(RevisionConflictError):
            await tk.proposals.approve(key)

        assert await texts(tk) == ["The user prefers vendor Z."]
        assert (await tk.proposals.require(key)).state == "pending"
        await tk.proposals.approve(key, base_revision=changed.revision)
        assert await texts(tk) == ([SAID] if action == "correct" else [])

    async def test_base_that_says_the_same_is_no_conflict(self, tk: threadkeep.Threadkeep):
        """A memory that was pinned meanwhile, or counted anew by a copy, still says what the change is about."""
        kept = await tk.memories.remember("The user prefers vendor W.")
        proposed = await tk.proposals.propose(SAID, action="correct", memory_id=kept.memory_id)
        assert proposed.proposal is not None
        await tk.memories.pin(kept.memory_id)

        await tk.proposals.approve(proposed.proposal.proposal_id)

        assert await texts(tk) == [SAID]

    async def test_stale_base_is_not_even_proposed(self, tk: threadkeep.Threadkeep):
        """Whoever read an older revision thinks anew."""
        kept = await tk.memories.remember("The user prefers vendor W.")
        await tk.memories.correct(kept.memory_id, "The user prefers vendor Z.")

        with pytest.raises(RevisionConflictError):
            await tk.proposals.propose(
                SAID, action="correct", memory_id=kept.memory_id, base_revision=kept.memory.revision
            )

    async def test_approved_forgetting_leaves_nothing_of_it(self, tk: threadkeep.Threadkeep):
        """Not even in the proposal."""
        kept = await tk.memories.remember("The user prefers vendor W.")
        proposed = await tk.proposals.propose(action="forget", memory_id=kept.memory_id)
        assert proposed.proposal is not None

        decided = await tk.proposals.approve(proposed.proposal.proposal_id)

        assert decided.state == "approved"
        assert "vendor" not in str([row async for row in tk.owners.export()])


class TestExpire:
    async def test_decision_is_not_final_for_ever(self, tk: threadkeep.Threadkeep, clock: FrozenClock):
        """After its time it can be decided no more, and the error says why."""
        proposed = await tk.proposals.propose(SAID)
        assert proposed.proposal is not None

        clock.advance(timedelta(days=31))

        assert await tk.proposals.list() == []
        assert [one.state for one in await tk.proposals.list(state="expired")] == ["expired"]
        with pytest.raises(ProposalDecidedError, match="expired"):
            await tk.proposals.approve(proposed.proposal.proposal_id)
        assert await texts(tk) == []

    async def test_it_lapses_in_the_storage_too(self, tk: threadkeep.Threadkeep, clock: FrozenClock):
        """And in time it is gone."""
        await tk.proposals.propose(SAID)
        clock.advance(timedelta(days=31))

        assert await tk.app.call(lambda services: services.proposal_repository.lapse()) == 1
        assert await tk.app.call(lambda services: services.proposal_repository.lapse()) == 0

        (lapsed,) = await tk.proposals.list(state="expired")
        assert lapsed.decision is not None
        assert lapsed.decision.by == "time"
        clock.advance(timedelta(days=91))
        assert await tk.proposals.list(state=None) == []


class TestMany:
    async def test_each_is_decided_by_itself(self, tk: threadkeep.Threadkeep):
        """What cannot be decided says why; the others are."""
        made = [await tk.proposals.propose(f"The user's lucky number is {n}.") for n in range(3)]
        keys = [one.proposal.proposal_id for one in made if one.proposal]

        done = await tk.proposals.decide(
            [
                Choice(keys[0], approve=True),
                Choice("unknown", approve=True),
                Choice(keys[1], approve=False, comment="no"),
                Choice(keys[0], approve=False),
                Choice(keys[2], approve=True, text="My lucky number is 7."),
            ]
        )

        assert [one.proposal.state if one.proposal else type(one.error).__name__ for one in done] == [
            "approved",
            "ProposalNotFoundError",
            "rejected",
            "ProposalDecidedError",
            "approved",
        ]
        assert await texts(tk) == ["My lucky number is 7.", "The user's lucky number is 0."]

    async def test_pages_fit_together(self, tk: threadkeep.Threadkeep):
        """Newest first, nothing twice, nothing left out."""
        for n in range(7):
            await tk.proposals.propose(f"The user's lucky number is {n}.")

        pages = [await tk.proposals.list(limit=3, offset=offset) for offset in (0, 3, 6)]

        said = [one.text for page in pages for one in page]
        assert said == [f"The user's lucky number is {n}." for n in range(6, -1, -1)]


class TestPolicy:
    async def test_owner_may_let_pass_or_refuse(self, tk: threadkeep.Threadkeep):
        """By rules of their own, which hold for them only."""
        await tk.proposals.set_policy("assistant=auto, tool=never")

        passed = await tk.proposals.propose(SAID)
        refused = await tk.proposals.propose("The user prefers vendor Q.", source=TOOL)
        other = await tk.proposals.propose(SAID, owner="bob")

        assert (passed.status, refused.status, other.status) == ("approved", "rejected", "proposed")
        (memory,) = await tk.memories.list()
        assert memory.approval is not None
        assert memory.approval.by == "policy"
        await tk.proposals.set_policy("")
        assert (await tk.proposals.policy()).verdict("semantic", "tool") == "ask"

    async def test_learning_follows_it(self, tk: threadkeep.Threadkeep):
        """Where the user's facts are asked for, too, a turn teaches proposals."""
        await tk.proposals.set_policy("user.semantic=ask, user.episodic=never")

        receipt = await tk.capture([{"role": "user", "content": "I live in Lisbon."}], thread_id="t", wait=True)

        assert (receipt.status, receipt.memory_ids) == ("done", ())
        (waiting,) = await tk.proposals.list()
        assert receipt.proposal_ids == (waiting.proposal_id,)
        assert (waiting.text, waiting.trust) == ("I live in Lisbon.", "user")
        await tk.proposals.approve(waiting.proposal_id)
        assert await texts(tk) == ["I live in Lisbon."]
