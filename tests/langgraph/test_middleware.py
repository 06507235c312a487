"""The middleware in real agents: what the model sees, what the state holds, what is learnt, and what goes wrong."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command
from numpy.typing import NDArray

import threadkeep
import threadkeep.errors
from threadkeep.errors import (
    EmbedderUnavailableError,
    OwnerConflictError,
    OwnerRequiredError,
    StorageUnavailableError,
)
from threadkeep.storage.interface import Batch, Position
from threadkeep.storage.memory import InMemoryStorage
from threadkeep.testing import HashingEmbedder, ScriptedModel
from threadkeep.text.quoted import HEADING

ANA = "ana@x.org"
FACT = "My passport is in the blue drawer."
QUESTION = "Where is my passport?"


@pytest.fixture
def tk() -> Iterator[threadkeep.Threadkeep]:
    """Return a memory in RAM that knows one fact about Ana."""
    with threadkeep.open("memory://", embedder=HashingEmbedder()) as opened:
        opened.sync.memories.remember(FACT, owner=ANA)
        yield opened


def said(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


def human(prompt: Sequence[Any]) -> str:
    return next(message for message in reversed(prompt) if message.type == "human").text


@tool
def look_up(what: str) -> str:
    """Look something up."""
    return f"nothing about {what}"


def calling(name: str, **arguments: Any) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": "call-1"}])


class NoticingEmbedder(HashingEmbedder):
    """Lets others wait until it was asked."""

    def __init__(self, *, remote: bool = False) -> None:
        super().__init__(remote=remote)
        self.asked = threading.Event()

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.asked.set()
        return await super().embed(texts)


class TestRecall:
    """What the model is given."""

    def test_block_stands_before_the_question_and_not_in_the_state(self, tk: threadkeep.Threadkeep) -> None:
        """The model sees the memory in front of the question; the thread holds the question as it was written."""
        model = ScriptedModel()
        agent = create_agent(model, [], middleware=[tk.middleware()], checkpointer=tk.checkpointer)

        result = agent.invoke(said(QUESTION), tk.config(user_id=ANA, thread_id="1"))

        seen = human(model.prompts[0])
        assert FACT in seen
        assert seen.endswith(QUESTION)
        assert HEADING in seen
        assert result["messages"][0].text == QUESTION
        assert FACT not in str(agent.get_state(tk.config(user_id=ANA, thread_id="1")).values)

    def test_system_prompt_stays_untouched(self, tk: threadkeep.Threadkeep) -> None:
        """A provider's cache of the system prompt holds."""
        model = ScriptedModel()
        agent = create_agent(model, [], system_prompt="Be brief.", middleware=[tk.middleware()])

        agent.invoke(said(QUESTION), tk.config(user_id=ANA, thread_id="1"))

        assert model.prompts[0][0].text == "Be brief."

    def test_system_placement_has_the_documents_form(self, tk: threadkeep.Threadkeep) -> None:
        """Asked for, the memories stand in the system message, behind the application's own words."""
        model = ScriptedModel()
        middleware = tk.middleware(placement="system")
        agent = create_agent(model, [], system_prompt="Be brief.", middleware=[middleware])

        agent.invoke(said(QUESTION), tk.config(user_id=ANA, thread_id="1"))

        system = model.prompts[0][0].text
        assert system.startswith("Be brief.\n\nYou have durable memory about this user")
        assert f"• {FACT}" in system
        assert human(model.prompts[0]) == QUESTION

    def test_nothing_relevant_changes_nothing(self, tk: threadkeep.Threadkeep) -> None:
        """Where nothing matters, the prompt is the user's own."""
        model = ScriptedModel()
        agent = create_agent(model, [], middleware=[tk.middleware()])

        agent.invoke(said("Hello!"), tk.config(user_id=ANA, thread_id="1"))

        assert human(model.prompts[0]) == "Hello!"

    def test_a_turn_recalls_once(self, tk: threadkeep.Threadkeep) -> None:
        """A turn with a tool call has two model calls, one recall and the same block in both."""
        model = ScriptedModel(replies=[calling("look_up", what="passport"), "It is in the drawer."])
        agent = create_agent(model, [look_up], middleware=[tk.middleware()])

        events = list(agent.stream(said(QUESTION), tk.config(user_id=ANA, thread_id="1"), stream_mode="custom"))

        assert [event["type"] for event in events] == ["recalled", "captured"]
        assert len(model.prompts) == 2
        assert human(model.prompts[0]) == human(model.prompts[1])

    def test_nothing_is_embedded_for_who_recalls_nothing(self) -> None:
        """A middleware that only learns has no use for its question's vector."""
        embedder = NoticingEmbedder()
        with threadkeep.open("memory://", embedder=embedder) as tk:
            agent = create_agent(ScriptedModel(), [], middleware=[tk.middleware(recall=False, capture=False)])

            for _ in range(2):
                agent.invoke(said(QUESTION), tk.config(user_id=ANA, thread_id="1"))

        assert embedder.calls == []

    def test_a_remote_embedder_is_asked_for_an_owner_only(self) -> None:
        """Until somebody's turn recalls, no text leaves the machine: the owner may want no memory."""
        embedder = NoticingEmbedder(remote=True)
        with threadkeep.open("memory://", embedder=embedder) as tk:
            agent = create_agent(ScriptedModel(), [], middleware=[tk.middleware(capture=False)])
            agent.invoke(said(QUESTION), tk.config(user_id=ANA, thread_id="1"))
            embedder.calls.clear()

            with pytest.raises(OwnerRequiredError):
                agent.invoke(said("Where is my umbrella?"), {"configurable": {"thread_id": "2"}})

        assert embedder.calls == []

    def test_a_resumed_turn_recalls(self, tk: threadkeep.Threadkeep) -> None:
        """After an interrupt the model is called with the memories again, by a process that never saw the question."""
        first = ScriptedModel(replies=[calling("look_up", what="passport")])
        second = ScriptedModel(replies=["It is in the drawer."])
        config = tk.config(user_id=ANA, thread_id="1")

        def agent(model: ScriptedModel) -> Any:
            asking = HumanInTheLoopMiddleware(interrupt_on={"look_up": True})
            middleware = [tk.middleware(), asking]
            return create_agent(model, [look_up], middleware=middleware, checkpointer=tk.checkpointer)

        agent(first).invoke(said(QUESTION), config)
        agent(second).invoke(Command(resume={"decisions": [{"type": "approve"}]}), config)

        assert FACT in human(second.prompts[0])

    def test_nothing_shows_in_values_and_updates(self, tk: threadkeep.Threadkeep) -> None:
        """The user's streams hold messages only: no key of ours, no block."""
        agent = create_agent(ScriptedModel(), [], middleware=[tk.middleware()])

        shown = list(
            agent.stream(said(QUESTION), tk.config(user_id=ANA, thread_id="1"), stream_mode=["values", "updates"])
        )

        assert FACT not in str(shown)
        assert {key for mode, event in shown if mode == "values" for key in event} == {"messages"}

    def test_tools_work_on_the_runs_owner(self, tk: threadkeep.Threadkeep) -> None:
        """The model cannot choose whose memory a tool works on."""
        model = ScriptedModel(replies=[calling("search_memory", query="passport", owner="bob@x.org"), "Done."])
        agent = create_agent(model, tk.tools("search_memory"), middleware=[tk.middleware(capture=False)])

        for user, expected in ((ANA, FACT), ("bob@x.org", "Nothing is remembered")):
            model.prompts.clear()
            agent.invoke(said(QUESTION), tk.config(user_id=user, thread_id=user))

            assert expected in model.prompts[1][-1].text

    @pytest.mark.parametrize("face", ["invoke", "ainvoke"])
    async def test_tools_remember_correct_and_forget(self, tk: threadkeep.Threadkeep, face: str) -> None:
        """The whole round by tool calls, on both faces."""

        async def run(message: str, *replies: Any) -> str:
            model = ScriptedModel(replies=[*replies, "Done."])
            agent = create_agent(model, tk.tools(), middleware=[tk.middleware(capture=False)])
            config = tk.config(user_id="eve@x.org", thread_id="1")
            if face == "invoke":
                agent.invoke(said(message), config)
            else:
                await agent.ainvoke(said(message), config)
            return model.prompts[1][-1].text

        kept = await run("Remember that I have two cats.", calling("remember", text="I have two cats."))
        memory_id = kept.removeprefix("Remembered as ").rstrip(".")
        corrected = await run(
            "I have three cats.", calling("correct_memory", memory_id=memory_id, text="I have three cats.")
        )
        listed = await run("What do you know?", calling("list_memories"))
        forgotten = await run("Forget my cats.", calling("forget_memory", memory_id=memory_id))
        missing = await run("Forget my cats.", calling("forget_memory", memory_id=memory_id))

        assert corrected == f"Corrected {memory_id}."
        assert "I have three cats." in listed
        assert forgotten == f"Forgotten: {memory_id}."
        assert missing.startswith("Error (memory_not_found)")

    async def test_what_the_thread_shows_anyway_is_not_recalled_as_an_episode(self, tk: threadkeep.Threadkeep) -> None:
        """The question of the turn before stands in the thread; in another thread it is recalled."""
        model = ScriptedModel()
        agent = create_agent(model, tools=[], middleware=[tk.middleware()], checkpointer=tk.checkpointer)
        await agent.ainvoke(said("Where can I find a passport office nearby?"), tk.config(user_id=ANA, thread_id="a"))
        await tk.drain()

        await agent.ainvoke(said(QUESTION), tk.config(user_id=ANA, thread_id="a"))
        await agent.ainvoke(said(QUESTION), tk.config(user_id=ANA, thread_id="b"))

        same, other = (human(prompt) for prompt in model.prompts[-2:])
        assert FACT in same
        assert "Asked: " not in same
        assert "Asked: Where can I find a passport office nearby?" in other


class TestCapture:
    """What is learnt from a turn."""

    def test_the_users_words_are_learnt_with_where_they_were_said(self, tk: threadkeep.Threadkeep) -> None:
        """A fact carries thread and message; the reply's content may be a list of blocks."""
        blocks = AIMessage([{"type": "text", "text": "Nice city."}])
        agent = create_agent(ScriptedModel(replies=[blocks]), [], middleware=[tk.middleware()])

        result = agent.invoke(said("I live in Lisbon."), tk.config(user_id=ANA, thread_id="t-7"))
        tk.sync.drain()

        learnt = {m.kind: m for m in tk.sync.memories.list(owner=ANA) if m.text != FACT}
        assert learnt["semantic"].text == "I live in Lisbon."
        source = learnt["semantic"].sources[0]
        assert (source.speaker, source.thread_id) == ("user", "t-7")
        assert source.message_id == result["messages"][0].id
        assert "Lisbon" in learnt["episodic"].text

    async def test_nothing_is_learnt_before_the_run_is_over(
        self, tk: threadkeep.Threadkeep, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The worker is woken at the end of the run, however much of it comes after the agent."""
        engine = (await tk.app.event_loop.run(tk.app.connect())).captures._queue.engine
        woken: list[str] = []
        wake = engine.wake

        def noting(key: str, *, at: datetime | None = None) -> None:
            woken.append(key)
            wake(key, at=at)

        monkeypatch.setattr(engine, "wake", noting)
        at_the_last_step: list[list[str]] = []

        async def last_step(_: Any) -> None:
            await tk.app.event_loop.run(tk.app.connect())  # whatever was on its way to the worker has come there
            at_the_last_step.append(list(woken))

        graph: StateGraph[Any, Any, Any, Any] = StateGraph(MessagesState)
        graph.add_node("agent", create_agent(ScriptedModel(), [], middleware=[tk.middleware()]))
        graph.add_node("last", last_step)
        graph.add_edge(START, "agent").add_edge("agent", "last")

        await graph.compile().ainvoke(said("I live in Lisbon."), tk.config(user_id=ANA, thread_id="1"))
        await tk.drain()

        assert at_the_last_step == [[]]
        assert len(woken) == 1
        assert "I live in Lisbon." in [memory.text for memory in await tk.memories.list(owner=ANA)]

    def test_a_turn_is_learnt_from_once(self, tk: threadkeep.Threadkeep) -> None:
        """Later turns of the thread bring its history along; nothing is there twice."""
        agent = create_agent(ScriptedModel(), [], middleware=[tk.middleware()], checkpointer=tk.checkpointer)
        config = tk.config(user_id=ANA, thread_id="1")

        for text in ("I live in Lisbon.", "I have two cats.", "I work as a nurse."):
            agent.invoke(said(text), config)
        tk.sync.drain()

        texts = [memory.text for memory in tk.sync.memories.list(owner=ANA, kind="semantic")]
        assert sorted(texts) == sorted([FACT, "I live in Lisbon.", "I have two cats.", "I work as a nurse."])

    def test_what_was_recalled_is_not_learnt_from_the_reply(self, tk: threadkeep.Threadkeep) -> None:
        """A reply that repeats a memory, and a user who pastes the block, teach nothing."""
        agent = create_agent(ScriptedModel(replies=[f"You told me: {FACT}"]), [], middleware=[tk.middleware()])
        found = tk.sync.recall(QUESTION, owner=ANA)

        agent.invoke(said(f"{found.text}\n\n{QUESTION}"), tk.config(user_id=ANA, thread_id="1"))
        tk.sync.drain()

        assert [m.text for m in tk.sync.memories.list(owner=ANA, kind="semantic")] == [FACT]

    def test_a_task_of_another_agent_is_not_the_users_word(self, tk: threadkeep.Threadkeep) -> None:
        """An agent within a tool call is given its task by a model; nothing of it is learnt."""
        inner = create_agent(ScriptedModel(), [], middleware=[tk.middleware()])

        @tool
        def delegate(task: str) -> str:
            """Give a task to another agent."""
            return str(inner.invoke(said(task), tk.config(user_id=ANA, thread_id="1"))["messages"][-1].text)

        model = ScriptedModel(replies=[calling("delegate", task="I live in Lisbon."), "Done."])
        outer = create_agent(model, [delegate], middleware=[tk.middleware()])

        outer.invoke(said("Ask the other one."), tk.config(user_id=ANA, thread_id="1"))
        tk.sync.drain()

        assert "Lisbon" not in str(tk.sync.memories.list(owner=ANA))

    def test_capture_can_be_off(self) -> None:
        """THREADKEEP_CAPTURE=off records nothing at all."""
        settings = threadkeep.Settings.load(store_type="memory", capture="off")
        with threadkeep.open(settings=settings, embedder="none") as tk:
            agent = create_agent(ScriptedModel(), [], middleware=[tk.middleware()])

            agent.invoke(said("I live in Lisbon."), tk.config(user_id=ANA, thread_id="1"))

            assert [row["type"] for row in tk.sync.owners.export(ANA)] == ["owner", "thread"]

    def test_what_does_not_learn_costs_no_step(self, tk: threadkeep.Threadkeep) -> None:
        """LangGraph makes a step, with a checkpoint, of every hook after the agent: only who learns has one."""
        learning = create_agent(ScriptedModel(), [], middleware=[tk.middleware()])
        recalling = create_agent(ScriptedModel(), [], middleware=[tk.middleware(capture=False)])

        assert set(learning.nodes) - set(recalling.nodes) == {"ThreadkeepMiddleware.after_agent"}


class TestIdentify:
    """Whose turn it is, before the model is called."""

    def test_no_owner_is_refused(self, tk: threadkeep.Threadkeep) -> None:
        """There is no default owner, and the model is not called."""
        model = ScriptedModel()
        agent = create_agent(model, [], middleware=[tk.middleware()])

        with pytest.raises(OwnerRequiredError):
            agent.invoke(said(QUESTION), {"configurable": {"thread_id": "1"}})

        assert model.prompts == []

    def test_two_owners_are_refused(self, tk: threadkeep.Threadkeep) -> None:
        """A context and a config that name different users are a mistake, not a choice."""

        @dataclass
        class Ctx:
            user_id: str

        model = ScriptedModel()
        agent = create_agent(model, [], middleware=[tk.middleware()], context_schema=Ctx)

        with pytest.raises(OwnerConflictError):
            agent.invoke(said(QUESTION), tk.config(user_id=ANA, thread_id="1"), context=Ctx("bob@x.org"))

        assert model.prompts == []

    def test_an_owner_who_is_not_the_runs_is_refused(self, tk: threadkeep.Threadkeep) -> None:
        """Where the middleware is told one owner and the run another, both places are named, not the thread."""
        model = ScriptedModel()
        agent = create_agent(model, [], middleware=[tk.middleware(owner="bob")], checkpointer=tk.checkpointer)
        config = tk.config(user_id=ANA, thread_id="1")

        with pytest.raises(OwnerConflictError, match=r"owner= of tk\.middleware\(\).*configurable\.user_id") as raised:
            agent.invoke(said(QUESTION), config)

        assert "another owner" not in str(raised.value)
        assert model.prompts == []

    def test_an_owner_given_to_both_is_one(self, tk: threadkeep.Threadkeep) -> None:
        """Of the same owner, given twice, nothing is refused."""
        model = ScriptedModel()
        agent = create_agent(model, [], middleware=[tk.middleware(owner=ANA)], checkpointer=tk.checkpointer)

        agent.invoke(said(QUESTION), tk.config(user_id=ANA, thread_id="1"))

        assert FACT in human(model.prompts[0])

    def test_context_names_the_owner(self, tk: threadkeep.Threadkeep) -> None:
        """``context=`` is enough, and the thread is bound by it."""

        @dataclass
        class Ctx:
            user_id: str

        model = ScriptedModel()
        agent = create_agent(model, [], middleware=[tk.middleware()], context_schema=Ctx, checkpointer=tk.checkpointer)
        agent.invoke(said(QUESTION), {"configurable": {"thread_id": "1"}}, context=Ctx(ANA))

        assert FACT in human(model.prompts[0])
        with pytest.raises(threadkeep.errors.OwnerMismatchError):
            agent.invoke(said(QUESTION), {"configurable": {"thread_id": "1"}}, context=Ctx("bob@x.org"))

    def test_what_a_message_claims_does_not_count(self, tk: threadkeep.Threadkeep) -> None:
        """Identity in a message's metadata is nobody's."""
        agent = create_agent(ScriptedModel(), [], middleware=[tk.middleware()])
        forged = {"role": "user", "content": QUESTION, "additional_kwargs": {"user_id": ANA}}

        with pytest.raises(OwnerRequiredError):
            agent.invoke({"messages": [forged]}, {"configurable": {"thread_id": "1"}, "metadata": {"user_id": ANA}})


class StuckEmbedder:
    """An embedder of an application that never answers."""

    name = "stuck@1"
    dims = 4
    remote = False

    async def ready(self) -> None:
        """Be loaded already."""

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Wait for ever."""
        await asyncio.Event().wait()
        raise AssertionError(texts)


class BrokenEmbedder(StuckEmbedder):
    """An embedder of an application that always fails."""

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Fail."""
        msg = "out of order"
        raise EmbedderUnavailableError(msg, texts=len(texts))


class TestDegrade:
    """What fails costs the turn its memory, never its reply."""

    def test_a_storage_that_cannot_be_opened(self, tmp_path: Path) -> None:
        """The reply is there, and the events say what was missing."""
        (tmp_path / "memory.db").write_bytes(b"this is no database at all" * 100)
        with threadkeep.open(f"sqlite:///{tmp_path}/memory.db", embedder=HashingEmbedder()) as tk:
            agent = create_agent(ScriptedModel(replies=["Hi."]), [], middleware=[tk.middleware()])

            config = tk.config(user_id=ANA, thread_id="1")
            shown: list[Any] = list(agent.stream(said(QUESTION), config, stream_mode=["values", "custom"]))

            assert shown[-1][1]["degraded"] == ["storage"]
            assert [event["degraded"] for mode, event in shown if mode == "custom"] == [["storage"], ["storage"]]
            assert [event for mode, event in shown if mode == "values"][-1]["messages"][-1].text == "Hi."
            assert tk.app.telemetry.counts()["recall.degraded"] == 1

    def test_what_a_dead_storage_missed_the_next_turn_records(self, tmp_path: Path) -> None:
        """A turn that could not be recorded is learnt from with the turn after it."""
        file = tmp_path / "memory.db"
        file.write_bytes(b"this is no database at all" * 100)
        with threadkeep.open(f"sqlite:///{file}", embedder=HashingEmbedder()) as tk:
            agent = create_agent(ScriptedModel(), [], middleware=[tk.middleware()])
            first = agent.invoke(said("I live in Lisbon."), tk.config(user_id=ANA, thread_id="1"))
            file.unlink()

            history = [*first["messages"], {"role": "user", "content": "I have two cats."}]
            agent.invoke({"messages": history}, tk.config(user_id=ANA, thread_id="1"))
            tk.sync.drain()

            texts = {memory.text for memory in tk.sync.memories.list(owner=ANA, kind="semantic")}
            assert texts == {"I live in Lisbon.", "I have two cats."}

    def test_a_record_is_tried_again_while_the_storage_is_away(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """No later turn is needed: the turn goes on, and its record is committed once the storage is back."""
        commit, tries, recorded = InMemoryStorage.commit, list[Batch](), threading.Event()

        async def away(self: InMemoryStorage, batch: Batch) -> Position:
            if not any(one.namespace[0] == ".turns" for one in batch.operations) or recorded.is_set():
                return await commit(self, batch)
            tries.append(batch)
            if len(tries) <= 3:
                msg = "The storage is away."
                raise StorageUnavailableError(msg)
            position = await commit(self, batch)
            recorded.set()
            return position

        monkeypatch.setattr(InMemoryStorage, "commit", away)
        with threadkeep.open("memory://", embedder=HashingEmbedder()) as tk:
            agent = create_agent(ScriptedModel(), [], middleware=[tk.middleware()], checkpointer=tk.checkpointer)
            agent.invoke(said("I live in Lisbon."), tk.config(user_id=ANA, thread_id="1"))
            assert recorded.wait(timeout=10)
            tk.sync.drain()

            assert [one.text for one in tk.sync.memories.list(owner=ANA, kind="semantic")] == ["I live in Lisbon."]

    def test_a_stuck_embedder_leaves_search_by_words(self) -> None:
        """The turn ends within the time-out, and its event names the embedder."""
        with threadkeep.open("memory://", embedder=StuckEmbedder()) as tk:
            middleware = tk.middleware(capture=False, timeout=timedelta(milliseconds=20))
            agent = create_agent(ScriptedModel(), [], middleware=[middleware])

            events = list(agent.stream(said(QUESTION), tk.config(user_id=ANA, thread_id="1"), stream_mode="custom"))

            assert events[0]["degraded"] == ["embedder"]

    def test_a_broken_embedder_leaves_search_by_words(self) -> None:
        """Memories are kept and found by their words."""
        with threadkeep.open("memory://", embedder=BrokenEmbedder()) as tk:
            kept = tk.sync.memories.remember(FACT, owner=ANA)
            model = ScriptedModel()
            agent = create_agent(model, [], middleware=[tk.middleware(capture=False)])

            events = list(agent.stream(said(QUESTION), tk.config(user_id=ANA, thread_id="1"), stream_mode="custom"))

            assert kept.degraded == ("embedder",)
            assert events[0]["degraded"] == ["embedder"]
            assert FACT in human(model.prompts[0])

    def test_a_model_that_raises_loses_no_turn(self, tk: threadkeep.Threadkeep) -> None:
        """The error is the application's; what the user said is learnt with the next turn of the thread."""
        model = ScriptedModel(replies=[RuntimeError("out of order"), "Hi."])
        agent = create_agent(model, [], middleware=[tk.middleware()], checkpointer=tk.checkpointer)
        config = tk.config(user_id=ANA, thread_id="1")

        with pytest.raises(RuntimeError, match="out of order"):
            agent.invoke(said("I live in Lisbon."), config)
        agent.invoke(said("I have two cats."), config)
        tk.sync.drain()

        texts = {memory.text for memory in tk.sync.memories.list(owner=ANA, kind="semantic")}
        assert {"I live in Lisbon.", "I have two cats."} <= texts

    async def test_a_model_that_streams_nothing(self, tk: threadkeep.Threadkeep) -> None:
        """An empty reply is a reply; the user's words are learnt."""
        agent = create_agent(ScriptedModel(replies=[AIMessage("")]), [], middleware=[tk.middleware()])

        await agent.ainvoke(said("I live in Lisbon."), tk.config(user_id=ANA, thread_id="1"))
        await tk.drain()

        assert "I live in Lisbon." in [memory.text for memory in await tk.memories.list(owner=ANA)]


class TestOwnerGivenAtOpen:
    """An application that knows its one user says so once."""

    def test_it_wins_over_what_the_config_says(self) -> None:
        """Memory and thread are the given owner's, whatever a client put into the config."""
        with threadkeep.open("memory://", embedder=HashingEmbedder(), owner=ANA) as tk:
            tk.sync.memories.remember(FACT)
            model = ScriptedModel()
            agent = create_agent(model, [], middleware=[tk.middleware()], checkpointer=tk.checkpointer)

            for claimed in ("bob@x.org", "eve@x.org"):
                config = {"configurable": {"thread_id": "1", "user_id": claimed}}
                agent.invoke(said(QUESTION), config)

                assert FACT in human(model.prompts[-1])
            assert tk.sync.owners.show().threads == ("1",)


class TestChangedFacts:
    """A fact that changed is recalled as it is now."""

    def test_what_was_replaced_is_not_recalled(self, tk: threadkeep.Threadkeep) -> None:
        """Neither the old statement nor the episode of the turn that made it stands in the block."""
        model = ScriptedModel()
        agent = create_agent(model, [], middleware=[tk.middleware()], checkpointer=tk.checkpointer)
        for text in ("My favourite colour is red.", "My favourite colour is blue now."):
            agent.invoke(said(text), tk.config(user_id=ANA, thread_id="1"))
            tk.sync.drain()

        agent.invoke(said("What is my favourite colour?"), tk.config(user_id=ANA, thread_id="2"))

        seen = human(model.prompts[-1])
        assert "My favourite colour is blue now." in seen
        assert "red" not in seen
        (fact,) = [m for m in tk.sync.memories.list(owner=ANA, kind="semantic") if "colour" in m.text]
        assert [old.text for old in fact.history] == ["My favourite colour is red."]
