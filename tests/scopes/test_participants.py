"""A thread of several people: each is learnt about from their own messages."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

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


async def test_what_another_user_tried_to_say_is_not_a_participant_s(tk: threadkeep.Threadkeep):
    """In a thread that another checkpointer keeps, a refused run leaves its message, and Ana's name on it."""
    middleware = tk.middleware(recall=False, participants=PEOPLE)
    agent: Any = create_agent(ScriptedModel(), [], middleware=[middleware], checkpointer=InMemorySaver())
    of_carla, of_mallory = (tk.config(user_id=user, thread_id="standup") for user in ("carla", "mallory"))

    await agent.ainvoke(human("Bob", "I drive a tram."), of_carla)
    with pytest.raises(OwnerMismatchError):
        await agent.ainvoke(human("Ana", "I owe Mallory 900 euros."), of_mallory)
    await agent.ainvoke(human("Ana", "I play the cello."), of_carla)
    await tk.drain()

    assert "Mallory" in str((await agent.aget_state(of_carla)).values["messages"])
    assert [one.text for one in await tk.memories.list(owner="ana", kind="semantic")] == ["I play the cello."]
    assert "Mallory" not in await everything(tk, "ana")


async def test_all_that_was_said_before_a_question_is_learnt_when_it_is_answered(tk: threadkeep.Threadkeep):
    """Two people speak at once, a tool asks, and the run that answers has no input of its own."""

    @tool
    def confirm() -> str:
        """Ask."""
        return str(interrupt("Sure?"))

    call = AIMessage("", tool_calls=[{"name": "confirm", "args": {}, "id": "1"}])
    middleware = tk.middleware(recall=False, participants=PEOPLE)
    model = ScriptedModel(replies=(call, "Noted."))
    agent: Any = create_agent(model, [confirm], middleware=[middleware], checkpointer=InMemorySaver())
    config = tk.config(user_id="carla", thread_id="standup")
    said = [HumanMessage("I live in Porto.", name="Ana"), HumanMessage("I drive a tram.", name="Bob")]

    await agent.ainvoke({"messages": said}, config)
    await agent.ainvoke(Command(resume="yes"), config)
    await tk.drain()

    assert [one.text for one in await tk.memories.list(owner="ana", kind="semantic")] == ["I live in Porto."]
    assert [one.text for one in await tk.memories.list(owner=BOB, kind="semantic")] == ["I drive a tram."]


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


class TestPerRunOwner:
    """One graph serves threads of one user and threads of several; the config of a run says which it is."""

    @pytest.fixture
    def model(self) -> ScriptedModel:
        return ScriptedModel()

    @pytest.fixture
    def agent(self, tk: threadkeep.Threadkeep, model: ScriptedModel) -> Any:
        view = tk.per_run_owner()
        return create_agent(model, [], middleware=[view.middleware()], checkpointer=view.checkpointer)

    async def test_participants_of_the_config_are_learnt_about_and_nothing_is_recalled(
        self, tk: threadkeep.Threadkeep, agent: Any, model: ScriptedModel
    ):
        """The owner's memory, which nobody else may read, is recalled in the owner's own thread only."""
        view = tk.per_run_owner()
        await tk.memories.remember("I am allergic to walnuts.", owner="carla")
        standup = view.config("carla", thread_id="standup", participants=PEOPLE)

        await agent.ainvoke(human("Ana", "What am I allergic to? I live in Porto."), standup)
        await agent.ainvoke(human("Bob", "I drive a tram."), standup)
        await agent.ainvoke(human("Eve", "I work at Initech."), standup)
        await agent.ainvoke(
            human(None, "What am I allergic to? I collect stamps."), view.config("carla", thread_id="own")
        )
        await tk.drain()

        assert ["walnuts" in str(prompt) for prompt in model.prompts] == [False, False, False, True]
        facts = {
            owner: [one.text for one in await tk.memories.list(owner=owner, kind="semantic")]
            for owner in ("ana", BOB, "carla")
        }
        assert facts["ana"] == ["I live in Porto."]
        assert facts[BOB] == ["I drive a tram."]
        assert sorted(facts["carla"]) == ["I am allergic to walnuts.", "I collect stamps."]
        assert "Initech" not in str([await everything(tk, owner) for owner in ("ana", BOB, "carla")])

    async def test_without_capture_nothing_is_recalled_either(self, tk: threadkeep.Threadkeep, model: ScriptedModel):
        view = tk.per_run_owner()
        await tk.memories.remember("I am allergic to walnuts.", owner="carla")
        agent: Any = create_agent(
            model, [], middleware=[view.middleware(capture=False)], checkpointer=view.checkpointer
        )

        config = view.config("carla", thread_id="standup", participants=PEOPLE)
        await agent.ainvoke(human("Ana", "What am I allergic to?"), config)

        assert "walnuts" not in str(model.prompts)

    async def test_a_turn_without_memory_is_not_learnt_from_later(self, tk: threadkeep.Threadkeep, agent: Any):
        view = tk.per_run_owner()
        off = view.config("carla", thread_id="standup", participants=PEOPLE, memory=False)

        await agent.ainvoke(human("Ana", "I live in Porto."), off)
        await agent.ainvoke(
            human("Ana", "I play the cello."), view.config("carla", thread_id="standup", participants=PEOPLE)
        )
        await tk.drain()

        assert [one.text for one in await tk.memories.list(owner="ana", kind="semantic")] == ["I play the cello."]

    async def test_a_client_names_no_participants(self, tk: threadkeep.Threadkeep, agent: Any):
        """JSON has no Owner objects, and the keys of the view cannot be passed as further keys."""
        view = tk.per_run_owner()
        config: Any = view.config("carla", thread_id="standup")
        for forged in ({"Ana": "ana"}, "ana", ["ana"]):
            config["configurable"]["threadkeep_participants"] = forged
            with pytest.raises(InvalidInputError, match="threadkeep_participants must map names to Owner objects"):
                await agent.ainvoke(human("Ana", "I live in Porto."), config)
        with pytest.raises(InvalidInputError, match="not as threadkeep_participants"):
            view.config("carla", thread_id="standup", threadkeep_participants=PEOPLE)
        with pytest.raises(InvalidInputError, match="mapping of names"):
            view.config("carla", thread_id="standup", participants={"": "ana"})

        assert await tk.memories.list(owner="ana") == []
