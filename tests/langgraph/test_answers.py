"""What a user answers to `interrupt()`: no message of the thread says it for them, and it is learnt all the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

import threadkeep
from threadkeep.errors import OwnerMismatchError
from threadkeep.models.base import SPEAKER_KEY
from threadkeep.testing import HashingEmbedder, ScriptedModel

ANA = "ana@x.org"
HOME = "I live in Graz with my sister."
WORK = "I work at Zeiss as an optician."


@tool
def ask_user(question: str) -> str:
    """Ask the user."""
    return str(interrupt(question))


@tool
def ask_twice(question: str) -> str:
    """Ask the user two questions."""
    return f"{interrupt(question)} {interrupt('And your work?')}"


@tool
def send_mail(to: str) -> str:
    """Send a mail."""
    return f"Sent to {to}."


def calling(name: str, **arguments: str) -> AIMessage:
    return AIMessage("", tool_calls=[{"id": f"call-{name}-{arguments}", "name": name, "args": arguments}])


def asking(question: str) -> AIMessage:
    return calling("ask_user", question=question)


def said(text: str) -> dict[str, Any]:
    return {"messages": [HumanMessage(text)]}


@pytest.fixture
def tk(tmp_path: Path) -> Iterator[threadkeep.Threadkeep]:
    with threadkeep.open(f"sqlite:///{tmp_path}/memory.db", embedder=HashingEmbedder()) as opened:
        yield opened


@pytest.fixture(params=["ours", "own"])
def saver(request: pytest.FixtureRequest, tk: threadkeep.Threadkeep) -> BaseCheckpointSaver[Any]:
    saver = tk.checkpointer if request.param == "ours" else InMemorySaver()
    assert saver is not None
    return saver


def agent_of(tk: threadkeep.Threadkeep, saver: Any, *replies: Any) -> Any:
    tools = [ask_user, ask_twice, send_mail]
    return create_agent(ScriptedModel(replies=replies), tools, middleware=[tk.middleware()], checkpointer=saver)


def facts(tk: threadkeep.Threadkeep, owner: str = ANA) -> set[str]:
    tk.sync.drain()
    return {memory.text for memory in tk.sync.memories.list(owner=owner, kind="semantic")}


def episodes(tk: threadkeep.Threadkeep) -> set[str]:
    tk.sync.drain()
    return {memory.text for memory in tk.sync.memories.list(owner=ANA, kind="episodic")}


class TestAnswers:
    def test_an_answer_is_learnt(self, tk: threadkeep.Threadkeep, saver: Any):
        """Its source is the message that has it: the result of the tool that asked."""
        agent, config = agent_of(tk, saver, asking("Where?"), "Thanks."), tk.config(user_id=ANA, thread_id="1")
        agent.invoke(said("Help me with a form."), config)

        state = agent.invoke(Command(resume=HOME), config)

        assert facts(tk) == {HOME}
        (memory,) = tk.sync.memories.list(owner=ANA, kind="semantic")
        assert memory.trust == "user"
        assert [source.message_id for source in memory.sources] == [state["messages"][2].id]

    def test_each_answer_of_a_turn_is_learnt_once(self, tk: threadkeep.Threadkeep):
        """Also by a process that never saw the first one; the next turn learns nothing again."""
        saver = tk.checkpointer
        config = tk.config(user_id=ANA, thread_id="1")
        agent_of(tk, saver, asking("Where?")).invoke(said("Help me with a form."), config)
        agent_of(tk, saver, asking("And your work?")).invoke(Command(resume=HOME), config)
        agent_of(tk, saver, "Thanks.").invoke(Command(resume=WORK), config)

        assert facts(tk) == {HOME, WORK}
        for memory in tk.sync.memories.list(owner=ANA, kind="semantic"):
            tk.sync.memories.forget(memory.memory_id, owner=ANA)
        agent_of(tk, saver, "Hello.").invoke(said("My cat is called Minka."), config)
        assert facts(tk) == {"My cat is called Minka."}

    def test_two_answers_to_one_task_are_learnt(self, tk: threadkeep.Threadkeep):
        agent = agent_of(tk, tk.checkpointer, calling("ask_twice", question="Where?"), "Thanks.")
        config = tk.config(user_id=ANA, thread_id="1")
        agent.invoke(said("Help me with a form."), config)
        agent.invoke(Command(resume=HOME), config)
        agent.invoke(Command(resume=WORK), config)

        assert facts(tk) == {HOME, WORK}

    def test_answers_by_the_ids_of_interrupts_are_learnt(self, tk: threadkeep.Threadkeep, saver: Any):
        both = AIMessage("", tool_calls=[*asking("Where?").tool_calls, *asking("And your work?").tool_calls])
        agent, config = agent_of(tk, saver, both, "Thanks."), tk.config(user_id=ANA, thread_id="1")
        asked = agent.invoke(said("Help me with a form."), config)["__interrupt__"]

        answers = {"Where?": HOME, "And your work?": WORK}
        agent.invoke(Command(resume={one.id: answers[one.value] for one in asked}), config)

        assert facts(tk) == {HOME, WORK}

    def test_the_words_of_a_rejection_are_learnt(self, tk: threadkeep.Threadkeep, saver: Any):
        model = ScriptedModel(replies=[calling("send_mail", to="Bob"), "I did not."])
        middleware: list[Any] = [tk.middleware(), HumanInTheLoopMiddleware(interrupt_on={"send_mail": True})]
        agent: Any = create_agent(model, [send_mail], middleware=middleware, checkpointer=saver)
        config = tk.config(user_id=ANA, thread_id="1")
        agent.invoke(said("Tell Bob about the party."), config)

        decision = {"type": "reject", "message": "No, Bob is my former husband."}
        agent.invoke(Command(resume={"decisions": [decision]}), config)

        assert "Said: No, Bob is my former husband." in episodes(tk)

    @pytest.mark.parametrize("answer", ["yes", "approve", {"decision": HOME}, {"decisions": [{"type": "approve"}]}, 7])
    def test_a_decision_alone_teaches_nothing(self, tk: threadkeep.Threadkeep, answer: Any):
        agent = agent_of(tk, tk.checkpointer, asking("May I?"), "Done.")
        config = tk.config(user_id=ANA, thread_id="1")
        agent.invoke(said("My cat is called Minka."), config)

        agent.invoke(Command(resume=answer), config)

        assert facts(tk) == {"My cat is called Minka."}
        assert episodes(tk) == {"Said: My cat is called Minka."}

    async def test_async_runs_learn_them_too(self, tk: threadkeep.Threadkeep):
        agent = agent_of(tk, tk.checkpointer, asking("Where?"), asking("And your work?"), "Thanks.")
        config = tk.config(user_id=ANA, thread_id="1")
        await agent.ainvoke(said("Help me with a form."), config)
        await agent.ainvoke(Command(resume=HOME), config)
        await agent.ainvoke(Command(resume=WORK), config)
        await tk.drain()

        assert {one.text for one in await tk.memories.list(owner=ANA, kind="semantic")} == {HOME, WORK}

    def test_an_answer_of_a_turn_without_a_reply_is_learnt_with_the_next_one(self, tk: threadkeep.Threadkeep):
        """The model fails after the answer, and the user writes on."""
        agent = agent_of(tk, tk.checkpointer, asking("Where?"), RuntimeError("down"), "Thanks.", "Hello.")
        config = tk.config(user_id=ANA, thread_id="1")
        agent.invoke(said("My cat is called Minka."), config)
        with pytest.raises(RuntimeError, match="down"):
            agent.invoke(Command(resume=HOME), config)

        agent.invoke(said(WORK), config)

        assert facts(tk) == {"My cat is called Minka.", HOME, WORK}

    def test_what_the_user_writes_after_an_answer_is_newer(self, tk: threadkeep.Threadkeep):
        agent = agent_of(tk, tk.checkpointer, asking("Where?"), RuntimeError("down"), "Thanks.")
        config = tk.config(user_id=ANA, thread_id="1")
        agent.invoke(said("Help me with a form."), config)
        with pytest.raises(RuntimeError, match="down"):
            agent.invoke(Command(resume="I live in Graz."), config)

        agent.invoke(said("I live in Oslo."), config)

        tk.sync.drain()
        recall = tk.sync.recall("Where do I live?", owner=ANA)
        assert next(one.memory.text for one in recall.memories if not one.earlier) == "I live in Oslo."

    def test_a_failing_tool_that_is_tried_again_leaves_the_answer(self, tk: threadkeep.Threadkeep):
        failures = [RuntimeError("down")]

        @tool
        def ask_and_look_up(question: str) -> str:
            """Ask the user."""
            answer = str(interrupt(question))
            if failures:
                raise failures.pop()
            return answer

        model = ScriptedModel(replies=[calling("ask_and_look_up", question="Where?"), "Thanks."])
        agent: Any = create_agent(model, [ask_and_look_up], middleware=[tk.middleware()], checkpointer=tk.checkpointer)
        config = tk.config(user_id=ANA, thread_id="1")
        agent.invoke(said("Help me with a form."), config)
        with pytest.raises(RuntimeError, match="down"):
            agent.invoke(Command(resume=HOME), config)

        agent.invoke(None, config)

        assert facts(tk) == {HOME}

    def test_what_a_sub_agent_asked_is_learnt(self, tk: threadkeep.Threadkeep):
        """At two steps of the agent that the user talks to; the sub-agent itself learns nothing."""
        replies = [asking("Where?"), "Noted.", asking("And your work?"), "Noted."]
        inner: Any = create_agent(ScriptedModel(replies=replies), [ask_user], middleware=[tk.middleware(capture=False)])

        @tool
        def delegate(task: str) -> str:
            """Let the sub-agent do it."""
            inner.invoke(said(task))
            return "Done."

        tasks = [calling("delegate", task="I live in Moscow."), calling("delegate", task="Go on.")]
        model = ScriptedModel(replies=[*tasks, "Thanks."])
        agent: Any = create_agent(model, [delegate], middleware=[tk.middleware()], checkpointer=tk.checkpointer)
        config = tk.config(user_id=ANA, thread_id="1")
        agent.invoke(said("Help me with a form."), config)
        agent.invoke(Command(resume=HOME), config)
        agent.invoke(Command(resume=WORK), config)

        assert facts(tk) == {HOME, WORK}


class TestGoBack:
    def test_another_answer_at_the_same_place_is_learnt(self, tk: threadkeep.Threadkeep):
        """The question before it is not learnt again."""
        agent = agent_of(tk, tk.checkpointer, asking("Where?"), "Thanks.")
        config = tk.config(user_id=ANA, thread_id="1")
        agent.invoke(said("My cat is called Minka."), config)
        place = agent.get_state(config).config["configurable"]["checkpoint_id"]
        agent.invoke(Command(resume=HOME), config)
        assert facts(tk) == {"My cat is called Minka.", HOME}
        cat = next(one for one in tk.sync.memories.list(owner=ANA, kind="semantic") if "Minka" in one.text)
        tk.sync.memories.forget(cat.memory_id, owner=ANA)

        agent.invoke(Command(resume=WORK), tk.config(user_id=ANA, thread_id="1", checkpoint_id=place))

        assert facts(tk) == {HOME, WORK}


class TestAnotherCheckpointer:
    def test_the_last_answer_of_a_turn_is_learnt(self, tk: threadkeep.Threadkeep):
        """Nothing tells whether the first one was that of the user, or of one who was refused."""
        agent = agent_of(tk, InMemorySaver(), asking("Where?"), asking("And your work?"), "Thanks.")
        config = tk.config(user_id=ANA, thread_id="1")
        agent.invoke(said("Help me with a form."), config)
        agent.invoke(Command(resume=HOME), config)
        agent.invoke(Command(resume=WORK), config)

        assert facts(tk) == {WORK}


class TestNotLearnt:
    @pytest.mark.parametrize("run", ["first", "second", "third"])
    def test_answers_of_a_turn_without_memory(self, tk: threadkeep.Threadkeep, saver: Any, run: str):
        """Whichever of its runs is without: nothing of the turn is learnt, and no later turn brings it along."""
        agent = agent_of(tk, saver, asking("Where?"), asking("And your work?"), "Thanks.", "Hello.")
        inputs: Mapping[str, Any] = {
            "first": said("Help."),
            "second": Command(resume=HOME),
            "third": Command(resume=WORK),
        }
        for name, given in inputs.items():
            agent.invoke(given, tk.config(user_id=ANA, thread_id="1", memory=name != run))
        agent.invoke(said("My cat is called Minka."), tk.config(user_id=ANA, thread_id="1"))

        assert facts(tk) == {"My cat is called Minka."}

    def test_an_answer_without_memory_to_a_task_that_asks_again(self, tk: threadkeep.Threadkeep):
        """Its run ends before the task does, so no checkpoint and no message tells of it."""
        agent = agent_of(tk, tk.checkpointer, calling("ask_twice", question="Where?"), "Thanks.")
        agent.invoke(said("Help me with a form."), tk.config(user_id=ANA, thread_id="1"))
        agent.invoke(Command(resume=HOME), tk.config(user_id=ANA, thread_id="1", memory=False))
        agent.invoke(Command(resume=WORK), tk.config(user_id=ANA, thread_id="1"))

        assert facts(tk) == {WORK}
        assert not any(HOME in one for one in episodes(tk))

    @pytest.mark.parametrize("text", ["Don't write this down. I live in Graz with my sister."])
    def test_answers_that_the_user_wants_left_out(self, tk: threadkeep.Threadkeep, saver: Any, text: str):
        agent, config = agent_of(tk, saver, asking("Where?"), "Thanks."), tk.config(user_id=ANA, thread_id="1")
        agent.invoke(said("Help me with a form."), config)

        agent.invoke(Command(resume=text), config)

        assert facts(tk) == set()
        assert not any("Graz" in one for one in episodes(tk))

    def test_what_another_user_answered_who_was_refused(self, tk: threadkeep.Threadkeep):
        """A thread of the application's checkpointer: the tool takes the answer before the model call is refused."""
        saver, config = InMemorySaver(), tk.config(user_id=ANA, thread_id="1")
        agent = agent_of(tk, saver, asking("Where?"), "Thanks.")
        agent.invoke(said("Help me with a form."), config)
        with pytest.raises(OwnerMismatchError):
            agent.invoke(Command(resume=HOME), tk.config(user_id="eve@x.org", thread_id="1"))

        agent.invoke(None, config)

        assert facts(tk) == set()
        assert facts(tk, "eve@x.org") == set()

    @pytest.mark.parametrize("refusal", ["words", "memory"])
    def test_answers_of_an_unfinished_turn_that_was_not_to_be_remembered(
        self, tk: threadkeep.Threadkeep, saver: Any, refusal: str
    ):
        agent = agent_of(tk, saver, asking("Where?"), RuntimeError("down"), "Thanks.")
        config = tk.config(user_id=ANA, thread_id="1")
        first = "Help me." if refusal == "memory" else "Don't write this down. Help me."
        agent.invoke(said(first), tk.config(user_id=ANA, thread_id="1", memory=refusal != "memory"))
        with pytest.raises(RuntimeError, match="down"):
            agent.invoke(Command(resume=HOME), config)

        agent.invoke(said(WORK), config)

        assert facts(tk) == {WORK}

    def test_what_another_agent_answers_in_a_turn_of_its_own(self, tk: threadkeep.Threadkeep, saver: Any):
        """As what it says: a proposal, and never the user's word."""
        agent, config = agent_of(tk, saver, asking("Where?"), "Thanks."), tk.config(user_id=ANA, thread_id="1")
        task = HumanMessage("Book the hotel.", additional_kwargs={SPEAKER_KEY: "agent"})
        agent.invoke({"messages": [task]}, config)

        agent.invoke(Command(resume=HOME), config)

        assert facts(tk) == set()
        (proposal,) = tk.sync.proposals.list(owner=ANA)
        assert (proposal.text, proposal.trust) == (HOME, "agent")

    def test_what_the_thread_shows_as_a_message(self, tk: threadkeep.Threadkeep):
        """A graph that puts an answer into the thread as the user's message has it learnt from there, once."""
        agent = agent_of(tk, tk.checkpointer, asking("Where?"), "Thanks.")
        config = tk.config(user_id=ANA, thread_id="1")
        agent.invoke(said("Help me with a form."), config)
        told = HumanMessage(f"Fine. {HOME}", id="told")

        agent.invoke(Command(resume=HOME, update={"messages": [told]}), config)

        tk.sync.drain()
        sources = [source for one in tk.sync.memories.list(owner=ANA) if HOME in one.text for source in one.sources]
        assert {source.message_id for source in sources} == {"told"}
