"""Threads of another checkpointer that begin before Threadkeep is installed."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

import threadkeep
from tests.langgraph.test_middleware import calling, look_up
from threadkeep.errors import OwnerMismatchError
from threadkeep.testing import ScriptedModel


@pytest.fixture
def tk() -> Any:
    with threadkeep.open("memory://", embedder="none") as opened:
        yield opened


def continued(tk: threadkeep.Threadkeep | None, saver: InMemorySaver, text: str, **named: str) -> Any:
    middleware = [] if tk is None else [tk.middleware()]
    agent = create_agent(ScriptedModel(), [], middleware=middleware, checkpointer=saver)
    return agent.invoke({"messages": [("user", text)]}, {"configurable": {"thread_id": "1", **named}})


def facts(tk: threadkeep.Threadkeep, owner: str) -> list[str]:
    tk.sync.drain()
    return sorted(one.text for one in tk.sync.memories.list(owner=owner) if one.kind == "semantic")


def test_another_user_cannot_continue_it(tk: threadkeep.Threadkeep):
    """Neither read it, nor learn from it, nor lock its owner out."""
    saver = InMemorySaver()
    continued(None, saver, "I live in Lisbon.", user_id="ana")

    with pytest.raises(OwnerMismatchError, match="name another user"):
        continued(tk, saver, "What did I say?", user_id="bob")

    assert facts(tk, "bob") == []


@pytest.mark.parametrize("named_from_the_beginning", [True, False])
def test_attempts_of_another_user_do_not_lock_its_owner_out(tk: threadkeep.Threadkeep, named_from_the_beginning: bool):
    """LangGraph keeps each refused input in the thread, with the name of the other user."""
    saver = InMemorySaver()
    continued(None, saver, "I live in Lisbon.", **({"user_id": "ana"} if named_from_the_beginning else {}))
    continued(None, saver, "I work at Acme.", user_id="ana")
    if not named_from_the_beginning:
        tk.sync.threads.adopt(owners={"1": "ana"}, source=saver)
    for _ in range(30):
        with pytest.raises(OwnerMismatchError, match="name another user"):
            continued(tk, saver, "I own a red car.", user_id="bob")

    continued(tk, saver, "I like tea.", user_id="ana")

    learnt = ["I like tea.", "I live in Lisbon.", "I work at Acme."] if named_from_the_beginning else ["I like tea."]
    assert facts(tk, "ana") == learnt
    assert facts(tk, "bob") == []


@pytest.mark.parametrize("named_from_the_beginning", [True, False])
def test_several_messages_of_one_input_are_learnt(tk: threadkeep.Threadkeep, named_from_the_beginning: bool):
    """All of them, and none of another user's attempt that stands before them."""
    saver = InMemorySaver()
    continued(None, saver, "I live in Lisbon.", **({"user_id": "ana"} if named_from_the_beginning else {}))
    continued(None, saver, "I work at Acme.", user_id="ana")
    if not named_from_the_beginning:
        tk.sync.threads.adopt(owners={"1": "ana"}, source=saver)
    with pytest.raises(OwnerMismatchError, match="name another user"):
        continued(tk, saver, "I own a red car.", user_id="bob")
    agent: Any = create_agent(ScriptedModel(), [], middleware=[tk.middleware()], checkpointer=saver)
    for texts in (["I like tea.", "I play chess.", "I own a boat."], ["I have two sons."]):
        given = [("user", texts[0]), *({"role": "user", "content": text} for text in texts[1:])]
        agent.invoke({"messages": given}, {"configurable": {"thread_id": "1", "user_id": "ana"}})

    learnt = {"I like tea.", "I play chess.", "I own a boat.", "I have two sons."}
    before = {"I live in Lisbon.", "I work at Acme."} if named_from_the_beginning else set[str]()
    assert {*facts(tk, "ana")} == learnt | before


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_several_messages_before_a_question_are_learnt(tk: threadkeep.Threadkeep, asynchronous: bool):
    """Also by a process that has not seen the input; none of another user's attempt that stands before them."""
    saver = InMemorySaver()
    continued(None, saver, "I live in Lisbon.", user_id="ana")
    with pytest.raises(OwnerMismatchError, match="name another user"):
        continued(tk, saver, "I own a red car.", user_id="bob")
    config: Any = {"configurable": {"thread_id": "1", "user_id": "ana"}}
    said = [{"role": "user", "content": text} for text in ("I like tea.", "I play chess.", "I own a boat.")]
    answer = Command(resume={"decisions": [{"type": "approve"}]})

    for given, reply in (({"messages": said}, calling("look_up", what="passport")), (answer, "Done.")):
        asking = HumanInTheLoopMiddleware(interrupt_on={"look_up": True})
        middleware: Any = [tk.middleware(), asking]
        model = ScriptedModel(replies=[reply])
        agent: Any = create_agent(model, [look_up], middleware=middleware, checkpointer=saver)
        await agent.ainvoke(given, config) if asynchronous else agent.invoke(given, config)

    assert facts(tk, "ana") == ["I like tea.", "I live in Lisbon.", "I own a boat.", "I play chess."]
    assert facts(tk, "bob") == []


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_message_without_a_reply_is_learnt_with_the_next_one(tk: threadkeep.Threadkeep, asynchronous: bool):
    """The model fails, and the user writes on; attempts of another user in between are not the user's."""
    saver = InMemorySaver()
    model = ScriptedModel(replies=[RuntimeError("down"), RuntimeError("down"), "Noted."])
    agent: Any = create_agent(model, [], middleware=[tk.middleware()], checkpointer=saver)

    async def say(user: str, text: str, error: type[Exception] | None) -> None:
        given, config = {"messages": [("user", text)]}, tk.config(user_id=user, thread_id="1")
        with pytest.raises(error) if error else nullcontext():
            await agent.ainvoke(given, config) if asynchronous else agent.invoke(given, config)

    await say("ana", "I live in Lisbon.", RuntimeError)
    await say("bob", "I own a red car.", OwnerMismatchError)
    await say("ana", "I work at Acme.", RuntimeError)
    await say("ana", "I like tea.", None)

    assert facts(tk, "ana") == ["I like tea.", "I live in Lisbon.", "I work at Acme."]
    assert facts(tk, "bob") == []


def test_its_owner_continues_it(tk: threadkeep.Threadkeep):
    """What was said before is theirs, so it is learnt, too."""
    saver = InMemorySaver()
    continued(None, saver, "I live in Lisbon.", user_id="ana")

    told = continued(tk, saver, "I work at Acme.", user_id="ana")

    assert len(told["messages"]) == 4
    assert facts(tk, "ana") == ["I live in Lisbon.", "I work at Acme."]


async def test_asynchronous_runs_are_refused_as_well():
    saver = InMemorySaver()
    continued(None, saver, "I live in Lisbon.", user_id="ana")
    async with threadkeep.open("memory://", embedder="none") as tk:
        agent: Any = create_agent(ScriptedModel(), [], middleware=[tk.middleware()], checkpointer=saver)

        with pytest.raises(OwnerMismatchError, match="name another user"):
            await agent.ainvoke({"messages": [("user", "Hello.")]}, tk.config(user_id="bob", thread_id="1"))


def test_a_thread_that_names_no_user_has_no_owner(tk: threadkeep.Threadkeep, caplog: pytest.LogCaptureFixture):
    """Memory is off in it until it is adopted, and then nothing is learnt of what was said before."""
    saver = InMemorySaver()
    continued(None, saver, "I live in Lisbon.")
    tk.sync.memories.remember("I have a cat.", owner="bob")

    for text in ("I work at Acme.", "Do I have a cat?"):
        told = continued(tk, saver, text, user_id="bob")
    assert len(told["messages"]) == 6
    assert facts(tk, "bob") == ["I have a cat."]
    assert "threadkeep threads adopt" in caplog.text

    tk.sync.threads.adopt(owners={"1": "ana"}, source=saver)
    with pytest.raises(OwnerMismatchError):
        continued(tk, saver, "I own a red car.", user_id="bob")
    continued(tk, saver, "I like tea.", user_id="ana")
    assert facts(tk, "ana") == ["I like tea."]


async def test_a_thread_that_names_no_user_has_no_owner_in_asynchronous_runs():
    saver, model = InMemorySaver(), ScriptedModel()
    continued(None, saver, "I live in Lisbon.")
    async with threadkeep.open("memory://", embedder="none") as tk:
        await tk.memories.remember("I have a cat.", owner="bob")
        agent: Any = create_agent(model, [], middleware=[tk.middleware()], checkpointer=saver)
        await agent.ainvoke({"messages": [("user", "Do I have a cat?")]}, tk.config(user_id="bob", thread_id="1"))

        assert "I have a cat" not in str(model.prompts[-1][:-1])
        await tk.drain()
        assert [one.text for one in await tk.memories.list(owner="bob")] == ["I have a cat."]


def test_a_thread_that_began_here_goes_on(tk: threadkeep.Threadkeep):
    """Its metadata name no user, as the application names the owner itself."""
    saver = InMemorySaver()
    agent: Any = create_agent(ScriptedModel(), [], middleware=[tk.middleware(owner="ana")], checkpointer=saver)
    for text in ("I live in Lisbon.", "I work at Acme.", "I like tea."):
        agent.invoke({"messages": [("user", text)]}, {"configurable": {"thread_id": "1"}})

    assert facts(tk, "ana") == ["I like tea.", "I live in Lisbon.", "I work at Acme."]


def test_a_turn_without_memory_is_not_learnt_from_later(tk: threadkeep.Threadkeep):
    """What came before it and was not learnt yet is; of the turn itself its digests are kept alone."""
    saver = InMemorySaver()
    continued(None, saver, "I live in Lisbon.", user_id="ana")
    agent: Any = create_agent(ScriptedModel(), [], middleware=[tk.middleware()], checkpointer=saver)
    for text, memory in (("I own a red car.", False), ("I work at Acme.", True)):
        agent.invoke({"messages": [("user", text)]}, tk.config(user_id="ana", thread_id="1", memory=memory))

    assert facts(tk, "ana") == ["I live in Lisbon.", "I work at Acme."]


@pytest.mark.parametrize("named", [True, False])
def test_a_turn_without_memory_takes_no_thread_of_another(tk: threadkeep.Threadkeep, named: bool):
    """It neither binds the thread nor learns from what the other user said before."""
    saver = InMemorySaver()
    continued(None, saver, "I live in Lisbon.", **({"user_id": "ana"} if named else {}))
    agent: Any = create_agent(ScriptedModel(), [], middleware=[tk.middleware()], checkpointer=saver)
    off = tk.config(user_id="bob", thread_id="1", memory=False)
    with pytest.raises(OwnerMismatchError) if named else nullcontext():
        agent.invoke({"messages": [("user", "Hello.")]}, off)

    assert facts(tk, "bob") == []
    tk.sync.threads.adopt(owners={"1": "ana"}, source=saver)
    continued(tk, saver, "I like tea.", user_id="ana")
    assert "I like tea." in facts(tk, "ana")
