"""Facts that contradict each other are asked about once: approved, the newer one counts; rejected, both stay."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Final

import pytest

import threadkeep
from threadkeep.errors import InvalidInputError, RevisionConflictError
from threadkeep.settings import Settings
from threadkeep.testing import FrozenClock, HashingEmbedder

NOW: Final = datetime(2026, 6, 1, tzinfo=UTC)
OLDER: Final = "I live in Rome."
NEWER: Final = "I live in Oslo."


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock(NOW)


@pytest.fixture
async def tk(clock: FrozenClock) -> AsyncIterator[threadkeep.Threadkeep]:
    async with threadkeep.open("memory://", owner="ana", embedder=HashingEmbedder(), clock=clock) as opened:
        yield opened


async def tell(tk: threadkeep.Threadkeep, clock: FrozenClock, *texts: str) -> list[str]:
    """Keep facts a day apart, as an application does that reconciles nothing."""
    ids: list[str] = []
    for text in texts:
        ids.append((await tk.memories.remember(text)).memory_id)
        clock.advance(timedelta(days=1))
    return ids


async def texts(tk: threadkeep.Threadkeep) -> set[str]:
    return {one.text for one in await tk.memories.list() if one.valid_to is None}


async def test_a_contradiction_is_asked_once_with_both_texts(tk: threadkeep.Threadkeep, clock: FrozenClock):
    older, newer = await tell(tk, clock, OLDER, NEWER)

    (asked,) = await tk.proposals.ask_contradictions()

    assert asked.proposal is not None
    told = asked.proposal
    assert (told.action, told.base_text, told.text) == ("supersede", OLDER, NEWER)
    assert (told.memory_id, told.by_memory_id) == (older, newer)
    assert await tk.proposals.ask_contradictions() == ()
    assert await texts(tk) == {OLDER, NEWER}


async def test_approved_the_newer_one_counts_and_the_older_is_listed_with_its_end(
    tk: threadkeep.Threadkeep, clock: FrozenClock
):
    older, newer = await tell(tk, clock, OLDER, NEWER)
    (asked,) = await tk.proposals.ask_contradictions()
    assert asked.proposal is not None

    await tk.proposals.approve(asked.proposal.proposal_id, by="ana")

    ended, holds = await tk.memories.require(older), await tk.memories.require(newer)
    assert (ended.text, ended.status, ended.valid_to) == (OLDER, "active", holds.created_at)
    assert [one.memory.memory_id for one in await tk.memories.search("Where do I live?")] == [newer]
    assert OLDER not in (await tk.recall("Where do I live?")).text
    assert await tk.proposals.ask_contradictions() == ()
    assert (await tk.memories.undo()).memory_ids == (older,)
    assert (await tk.memories.require(older)).valid_to is None


async def test_rejected_both_stay_and_nothing_is_asked_again(tk: threadkeep.Threadkeep, clock: FrozenClock):
    await tell(tk, clock, OLDER, NEWER)
    (asked,) = await tk.proposals.ask_contradictions()
    assert asked.proposal is not None

    decided = await tk.proposals.reject(asked.proposal.proposal_id, by="ana")
    clock.advance(timedelta(days=400))  # decided proposals of other kinds are gone by then

    assert (decided.text, decided.base_text) == ("", None)  # what stays says nothing that may be forgotten later
    assert await tk.proposals.ask_contradictions() == ()
    assert await texts(tk) == {OLDER, NEWER}
    assert await tk.proposals.tombstones() == []
    assert (await tk.memories.remember("I live in Oslo!")).status == "duplicate"


async def test_an_expired_question_is_not_asked_again(tk: threadkeep.Threadkeep, clock: FrozenClock):
    await tell(tk, clock, OLDER, NEWER)
    assert await tk.proposals.ask_contradictions()

    clock.advance(timedelta(days=400))

    assert await tk.proposals.list(state="pending") == []
    assert await tk.proposals.ask_contradictions() == ()


async def test_another_statement_is_another_question(tk: threadkeep.Threadkeep, clock: FrozenClock):
    _, newer = await tell(tk, clock, OLDER, NEWER)
    (asked,) = await tk.proposals.ask_contradictions()
    assert asked.proposal is not None
    await tk.proposals.reject(asked.proposal.proposal_id, by="ana")

    await tk.memories.correct(newer, "I live in Bergen.")

    (again,) = await tk.proposals.ask_contradictions()
    assert again.proposal is not None
    assert again.proposal.text == "I live in Bergen."


async def test_a_memory_that_changed_meanwhile_is_a_conflict(tk: threadkeep.Threadkeep, clock: FrozenClock):
    older, newer = await tell(tk, clock, OLDER, NEWER)
    (asked,) = await tk.proposals.ask_contradictions()
    assert asked.proposal is not None
    key = asked.proposal.proposal_id

    await tk.memories.correct(newer, "I live in Bergen.")
    with pytest.raises(RevisionConflictError):
        await tk.proposals.approve(key, by="ana")

    assert (await tk.proposals.require(key)).state == "pending"
    assert (await tk.memories.require(older)).valid_to is None


async def test_forgetting_either_memory_takes_the_question_with_it(tk: threadkeep.Threadkeep, clock: FrozenClock):
    for place in (0, 1):
        ids = await tell(tk, clock, OLDER, NEWER)
        assert await tk.proposals.ask_contradictions()

        await tk.memories.forget(ids[place])

        assert await tk.proposals.list(state=None) == []
        await tk.memories.forget(ids[1 - place])


async def test_what_is_true_side_by_side_is_not_asked_about(tk: threadkeep.Threadkeep, clock: FrozenClock):
    await tell(
        tk, clock, "I'm vegetarian.", "My sister Maria is a nurse.", "We deploy with ArgoCD on prod-west.", OLDER
    )

    assert await tk.proposals.ask_contradictions() == ()


async def test_at_most_five_questions_wait(tk: threadkeep.Threadkeep, clock: FrozenClock):
    pets = ("dog", "cat", "parrot", "hamster", "tortoise", "goldfish")
    await tell(
        tk, clock, *(f"My {pet}'s name is Rex." for pet in pets), *(f"My {pet}'s name is Max now." for pet in pets)
    )

    first = await tk.proposals.ask_contradictions()
    assert len(first) == 5
    assert await tk.proposals.ask_contradictions() == ()
    await tk.proposals.decide([threadkeep.Choice(one.proposal.proposal_id, False) for one in first if one.proposal])
    assert len(await tk.proposals.ask_contradictions()) == 1


async def test_it_cannot_be_edited_or_proposed_by_hand(tk: threadkeep.Threadkeep, clock: FrozenClock):
    older, _ = await tell(tk, clock, OLDER, NEWER)
    (asked,) = await tk.proposals.ask_contradictions()
    assert asked.proposal is not None

    with pytest.raises(InvalidInputError, match="supersede a memory cannot be edited"):
        await tk.proposals.edit(asked.proposal.proposal_id, "I live in Bergen.", by="ana")
    with pytest.raises(InvalidInputError, match="ask_contradictions"):
        await tk.proposals.propose(NEWER, action="supersede", memory_id=older)


async def test_the_background_asks_where_reflection_is_on():
    settings = Settings(THREADKEEP_REFLECT_DAYS=30)
    clock = FrozenClock(NOW)
    async with threadkeep.open(
        "memory://", owner="ana", embedder=HashingEmbedder(), settings=settings, clock=clock
    ) as tk:
        tk.app.sweep_every = timedelta(milliseconds=10)
        await tell(tk, clock, OLDER, NEWER)
        async with asyncio.timeout(20):
            while not (asked := await tk.proposals.list()):
                await asyncio.sleep(0.02)
    assert [one.action for one in asked] == ["supersede"]
