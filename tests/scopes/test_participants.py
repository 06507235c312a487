"""A thread of several people: each is learnt about from their own messages."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage

import threadkeep
from threadkeep.errors import InvalidInputError, OwnerMismatchError
from threadkeep.identity import Owner
from threadkeep.testing import HashingEmbedder, ScriptedModel

BOB: Final = Owner("bob", "acme")
PEOPLE: Final[dict[str, str | Owner]] = {"Ana": "ana", "Bob": BOB}


def says(name: str | None, text: str) -> dict[str, Any]:
    return {"role": "user", "content": text, **({"name": name} if name else {})}


def replies(text: str = "Noted.") -> dict[str, Any]:
    return {"role": "assistant", "content": text}


THREAD: Final = [
    says("Ana", "I live in Porto."),
    replies("Porto is lovely."),
    says("Bob", "I am allergic to peanuts."),
    replies("Bob is allergic to peanuts, I see."),
    says("Eve", "I work at Initech."),
    replies(),
    says(None, "I have two cats."),
    replies(),
    says("Ana", "I play the cello."),
    says("Bob", "I drive a tram."),
    replies(),
]


@pytest.fixture
async def tk() -> AsyncIterator[threadkeep.Threadkeep]:
    async with threadkeep.open("memory://", embedder=HashingEmbedder()) as opened:
        yield opened


async def everything(tk: threadkeep.Threadkeep, owner: str | Owner) -> str:
    """Return all that is kept and proposed of *owner*."""
    return str([*await tk.memories.list(owner=owner), *await tk.proposals.list(owner=owner, state=None)])


async def test_each_is_learnt_about_from_their_own_messages(tk: threadkeep.Threadkeep):
    receipts = await tk.capture_participants(THREAD, participants=PEOPLE, thread_id="t", wait=True)

    assert {name: receipt.status for name, receipt in receipts.items()} == {"Ana": "done", "Bob": "done"}
    facts = {
        owner: sorted(one.text for one in await tk.memories.list(owner=owner, kind="semantic"))
        for owner in ("ana", BOB)
    }
    assert facts == {
        "ana": ["I live in Porto.", "I play the cello."],
        BOB: ["I am allergic to peanuts.", "I drive a tram."],
    }
    of_ana, of_bob = await everything(tk, "ana"), await everything(tk, BOB)
    for word in ("peanuts", "tram", "Initech", "cats"):
        assert word not in of_ana
    for word in ("Porto", "cello", "Initech", "cats"):
        assert word not in of_bob


async def test_capturing_again_learns_nothing_twice(tk: threadkeep.Threadkeep):
    await tk.capture_participants(THREAD, participants=PEOPLE, thread_id="t", wait=True)
    before = len(await tk.memories.list(owner="ana"))

    await tk.capture_participants(THREAD, participants=PEOPLE, thread_id="t", wait=True)

    assert len(await tk.memories.list(owner="ana")) == before


async def test_locked_client_captures_no_other_owner(tk: threadkeep.Threadkeep):
    with pytest.raises(OwnerMismatchError):
        await tk.for_owner("ana").capture_participants(THREAD, participants=PEOPLE, thread_id="t")

    assert await tk.memories.list(owner="ana") == []


def human(name: str | None, text: str) -> dict[str, Any]:
    return {"messages": [HumanMessage(text, name=name)]}


def standup(tk: threadkeep.Threadkeep, participants: Any) -> tuple[Any, Any]:
    """Return an agent of the thread that Carla opened, and its config."""
    middleware = tk.middleware(owner="carla", recall=False, participants=participants)
    model = ScriptedModel()
    agent = create_agent(model, [], middleware=[middleware], checkpointer=tk.checkpointer)
    return agent, tk.config(user_id="carla", thread_id="standup")


@pytest.mark.parametrize("source", [PEOPLE, lambda _: PEOPLE])
async def test_the_middleware_learns_about_each_from_their_own_messages(tk: threadkeep.Threadkeep, source: Any):
    """Of the owner of the thread, of strangers and of messages without a name, nothing is learnt."""
    agent, config = standup(tk, source)
    said = [
        ("Ana", "I live in Porto."),
        ("Bob", "I am allergic to peanuts."),
        ("Eve", "I work at Initech."),
        (None, "I have two cats."),
        ("carla", "I collect stamps."),
        ("Ana", "I play the cello."),
    ]
    for name, text in said:
        await agent.ainvoke(human(name, text), config)
    await tk.drain()

    facts = {
        owner: sorted(one.text for one in await tk.memories.list(owner=owner, kind="semantic"))
        for owner in ("ana", BOB)
    }
    assert facts == {"ana": ["I live in Porto.", "I play the cello."], BOB: ["I am allergic to peanuts."]}
    assert await tk.memories.list(owner="carla") == []
    of_ana, of_bob = await everything(tk, "ana"), await everything(tk, BOB)
    assert [word for word in ("peanuts", "Initech", "cats", "stamps") if word in of_ana] == []
    assert [word for word in ("Porto", "cello", "Initech", "cats", "stamps") if word in of_bob] == []
    (thread,) = await tk.threads.list(owner="carla")
    assert thread.title.startswith("I live in Porto")


async def test_a_participant_who_opted_out_is_not_learnt_about(tk: threadkeep.Threadkeep):
    await tk.owners.opt_out("ana")
    agent, config = standup(tk, PEOPLE)

    await agent.ainvoke(human("Ana", "I live in Porto."), config)
    await agent.ainvoke(human("Bob", "I drive a tram."), config)
    await tk.drain()

    assert await tk.memories.list(owner="ana") == []
    assert [one.text for one in await tk.memories.list(owner=BOB, kind="semantic")] == ["I drive a tram."]


async def test_participants_that_cannot_be_are_refused(tk: threadkeep.Threadkeep):
    with pytest.raises(InvalidInputError, match="recall=False"):
        tk.middleware(participants=PEOPLE)
    with pytest.raises(InvalidInputError, match="mapping of names"):
        tk.middleware(participants={"": "ana"}, recall=False)
    with pytest.raises(OwnerMismatchError):
        tk.for_owner("ana").middleware(participants=PEOPLE, recall=False)
