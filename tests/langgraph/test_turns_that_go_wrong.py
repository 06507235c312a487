"""Turns that are cancelled, outlive their memory, or meet what changed under them."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage, RemoveMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

import threadkeep
from threadkeep.errors import PartitionErasedError, ThreadMovedOnError
from threadkeep.search.index import CachedIndex
from threadkeep.testing import HashingEmbedder, Held, ScriptedModel

ANA = "ana@x.org"
FACT = "My passport is in the blue drawer."
CORRECTED = "My passport is in the red safe."
QUESTION = "Where is my passport?"


@pytest.fixture
def tk(tmp_path: Path) -> Iterator[threadkeep.Threadkeep]:
    """Return a memory in a file."""
    with threadkeep.open(f"sqlite:///{tmp_path}/memory.db", embedder=HashingEmbedder()) as opened:
        yield opened


def said(text: str, message_id: str | None = None) -> dict[str, Any]:
    return {"messages": [HumanMessage(text, id=message_id)]}


def facts(tk: threadkeep.Threadkeep) -> list[str]:
    assert tk.sync.drain()
    return sorted(memory.text for memory in tk.sync.memories.list(owner=ANA, kind="semantic"))


def two_steps(tk: threadkeep.Threadkeep, last: Any, saver: Any = None) -> Any:
    """Return a graph that runs *last* after an agent that recorded its turn."""
    builder = StateGraph(MessagesState)
    builder.add_node("agent", create_agent(ScriptedModel(), [], middleware=[tk.middleware()]))
    builder.add_node("last", last)
    builder.add_edge(START, "agent")
    builder.add_edge("agent", "last")
    return builder.compile(checkpointer=saver)


def asked(model: ScriptedModel) -> str:
    return next(message for message in reversed(model.prompts[-1]) if message.type == "human").text


class TestCancel:
    """A user who stops waiting."""

    async def test_a_cancelled_turn_is_learnt_with_the_next_one(self, tk: threadkeep.Threadkeep) -> None:
        """What was said before the reply was cancelled is in the thread, and is learnt."""
        held = asyncio.Event()
        model = ScriptedModel(replies=[Held(held), "Noted."])
        agent = create_agent(model, [], middleware=[tk.middleware()], checkpointer=tk.checkpointer)
        config = tk.config(user_id=ANA, thread_id="1")
        turn = asyncio.create_task(agent.ainvoke(said("I live in Lisbon."), config))
        while not model.prompts:
            await asyncio.sleep(0)

        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        await agent.ainvoke(said("I work at Acme."), config)
        await tk.drain()

        kept = [memory.text for memory in await tk.memories.list(owner=ANA, kind="semantic")]
        assert sorted(kept) == ["I live in Lisbon.", "I work at Acme."]


class TestRetry:
    """A turn whose model failed runs again, later."""

    @pytest.mark.parametrize("change", ["correct", "forget"])
    def test_it_is_given_what_holds_now(self, tk: threadkeep.Threadkeep, change: str) -> None:
        """What was corrected or forgotten in between is not said again, though the turn is the same."""
        kept = tk.sync.memories.remember(FACT, owner=ANA)
        model = ScriptedModel(replies=[RuntimeError("down"), "It is there."])
        agent = create_agent(model, [], middleware=[tk.middleware()], checkpointer=tk.checkpointer)
        config = tk.config(user_id=ANA, thread_id="1")
        with pytest.raises(RuntimeError, match="down"):
            agent.invoke(said(QUESTION), config)
        assert FACT in asked(model)

        if change == "correct":
            tk.sync.memories.correct(kept.memory_id, CORRECTED, owner=ANA)
        else:
            tk.sync.memories.forget(kept.memory_id, owner=ANA)
        agent.invoke(None, config)

        assert FACT not in asked(model)
        assert (CORRECTED in asked(model)) == (change == "correct")

    def test_an_agent_that_learns_nothing_recalls_every_turn(self, tk: threadkeep.Threadkeep) -> None:
        """The same message id in a second run is a second turn."""
        model = ScriptedModel()
        agent = create_agent(model, [], middleware=[tk.middleware(capture=False)])
        config = {"configurable": {"user_id": ANA}}
        agent.invoke(said(QUESTION, "m1"), config)

        tk.sync.memories.remember(FACT, owner=ANA)
        agent.invoke(said(QUESTION, "m1"), config)

        assert FACT in asked(model)


class TestErase:
    """Erasing somebody who is in the middle of a turn."""

    @pytest.mark.parametrize("saver", ["ours", "own"])
    def test_nothing_comes_back(self, tk: threadkeep.Threadkeep, saver: str) -> None:
        """Neither the turn in flight nor the next one on that thread teaches what was said before."""
        held = threading.Event()
        model = ScriptedModel(replies=["Noted.", Held(held), "Noted."])
        checkpointer = tk.checkpointer if saver == "ours" else InMemorySaver()
        agent = create_agent(model, [], middleware=[tk.middleware()], checkpointer=checkpointer)
        config = tk.config(user_id=ANA, thread_id="1")
        agent.invoke(said("I live in Lisbon."), config)
        assert facts(tk) == ["I live in Lisbon."]

        with ThreadPoolExecutor(1) as pool:
            turn = pool.submit(lambda: agent.invoke(said("I work at Acme."), config))
            while len(model.prompts) < 2:
                time.sleep(0.001)
            tk.sync.owners.erase(ANA)
            held.set()
            if saver == "ours":  # what the turn would still write is refused, so nothing of the thread is left
                with pytest.raises((PartitionErasedError, ThreadMovedOnError)):  # whoever sees it first
                    turn.result()
                assert checkpointer is not None
                assert list(checkpointer.list(config)) == []
            else:
                turn.result()
        assert facts(tk) == []
        agent.invoke(said("I have a dog called Rex."), config)

        assert facts(tk) == ["I have a dog called Rex."]

    def test_a_thread_of_the_applications_own_is_not_learnt_again(self, tk: threadkeep.Threadkeep) -> None:
        """Its checkpointer still has the old turns; they were said before, and stay unlearnt."""
        agent = create_agent(ScriptedModel(), [], middleware=[tk.middleware()], checkpointer=InMemorySaver())
        config = tk.config(user_id=ANA, thread_id="1")
        agent.invoke(said("I live in Lisbon."), config)
        assert facts(tk) == ["I live in Lisbon."]

        tk.sync.owners.erase(ANA)
        agent.invoke(said("I work at Acme."), config)

        assert facts(tk) == ["I work at Acme."]


class TestClose:
    """Closing while a turn waits for its model."""

    def test_the_reply_arrives(self, tmp_path: Path) -> None:
        """The turn ends without its record; the application's own thread has it."""
        held = threading.Event()
        model = ScriptedModel(replies=[Held(held, "There you are.")])
        tk = threadkeep.open(f"sqlite:///{tmp_path}/memory.db", embedder=HashingEmbedder())
        agent = create_agent(model, [], middleware=[tk.middleware()], checkpointer=InMemorySaver())

        with ThreadPoolExecutor(1) as pool:
            config = tk.config(user_id=ANA, thread_id="1")
            turn = pool.submit(lambda: agent.invoke(said("I live in Lisbon."), config))
            while not model.prompts:
                time.sleep(0.001)
            tk.close()
            held.set()
            reply = turn.result()["messages"][-1]

        assert reply.text == "There you are."

    async def test_a_turn_on_record_is_learnt_after_opening_again(self, tmp_path: Path) -> None:
        """The run continues with another step; the next process need not wait for a lease to end."""
        url = f"sqlite:///{tmp_path}/memory.db"
        tk = threadkeep.open(url, embedder=HashingEmbedder())

        async def close(_: MessagesState) -> None:
            await tk.aclose()

        await two_steps(tk, close).ainvoke(said("I live in Lisbon."), tk.config(user_id=ANA, thread_id="1"))

        async with threadkeep.open(url, embedder=HashingEmbedder()) as opened:
            assert await opened.drain(timeout=timedelta(seconds=5))
            kept = await opened.memories.list(owner=ANA, kind="semantic")
        assert [memory.text for memory in kept] == ["I live in Lisbon."]


class TestDrop:
    """An application that closes its event loop in the middle of a run."""

    @pytest.mark.parametrize("keeps_threads", [False, True])
    def test_a_recorded_turn_of_a_first_run_is_learnt(
        self, tk: threadkeep.Threadkeep, monkeypatch: pytest.MonkeyPatch, *, keeps_threads: bool
    ) -> None:
        """The tasks of this process that the run started do not keep the run."""
        monkeypatch.setattr(sys, "unraisablehook", lambda _: None)  # pytest's keeps tasks of LangGraph that were cut
        saver = tk.checkpointer if keeps_threads else None

        async def begin() -> Any:
            agent = create_agent(ScriptedModel(), [], middleware=[tk.middleware()], checkpointer=saver)
            config = tk.config(user_id=ANA, thread_id="1")
            stream = agent.astream(said(FACT), config, stream_mode="custom")
            while (await anext(stream))["type"] != "captured":
                pass
            return stream

        loop = asyncio.new_event_loop()
        stream = loop.run_until_complete(begin())
        loop.close()
        del stream, loop
        for _ in range(3):  # the lease, then what waited for its end; in between, cancelled timers are forgotten
            gc.collect()
            assert tk.sync.queue.list(owner=ANA)

        assert facts(tk) == [FACT]


class TestDelete:
    """Deleting the thread of a run."""

    async def test_the_lease_is_forgotten_if_its_renewal_saw_the_loss(self, tk: threadkeep.Threadkeep) -> None:
        """Otherwise each such run would leave something in memory."""
        saver: Any = tk.checkpointer
        leases = saver._leases

        async def delete(_: MessagesState) -> None:
            (lease,) = leases._active.values()
            await tk.threads.delete(["1"], owner=ANA)
            await saver.run(leases._renew_one(lease))
            assert lease.undone

        with pytest.raises(ThreadMovedOnError):
            await two_steps(tk, delete, saver).ainvoke(said("Hello"), tk.config(user_id=ANA, thread_id="1"))

        assert not leases._runs


class TestIndex:
    """The index of an owner stays in memory for long."""

    async def test_it_keeps_no_task_of_a_turn(self, tk: threadkeep.Threadkeep) -> None:
        """A task refers to its run; a run that was dropped without an end would hold its thread as long."""
        agent = create_agent(ScriptedModel(), [], middleware=[tk.middleware()])
        await agent.ainvoke(said("I live in Lisbon."), tk.config(user_id=ANA, thread_id="1"))
        await tk.drain()

        indexes = [found for found in gc.get_objects() if isinstance(found, CachedIndex)]

        assert indexes
        assert all(index.running is None for index in indexes)


@pytest.mark.slow
class TestLock:
    """Another process holds the file."""

    def test_a_turn_goes_on_and_loses_nothing(self, tmp_path: Path) -> None:
        """The reply arrives while nothing can be written; afterwards everything is learnt."""
        path = tmp_path / "memory.db"
        with threadkeep.open(f"sqlite:///{path}", embedder=HashingEmbedder()) as tk:
            agent = create_agent(ScriptedModel(), [], middleware=[tk.middleware()], checkpointer=InMemorySaver())
            agent.invoke(said("I live in Lisbon."), tk.config(user_id=ANA, thread_id="1"))
            with closing(sqlite3.connect(path, isolation_level=None)) as other:
                other.execute("BEGIN EXCLUSIVE")

                reply = agent.invoke(said("I work at Acme."), tk.config(user_id=ANA, thread_id="2"))
                other.execute("ROLLBACK")

            assert reply["messages"][-1].text == "Noted."
            assert facts(tk) == ["I live in Lisbon.", "I work at Acme."]


class TestForget:
    """A statement that was forgotten, in a thread that still holds it."""

    @pytest.mark.parametrize("how", ["again", "further"])
    def test_a_new_reply_does_not_bring_it_back(self, tk: threadkeep.Threadkeep, how: str) -> None:
        """The reply to it is given again from an older checkpoint, or the turn goes on."""
        agent: Any = create_agent(ScriptedModel(), [], middleware=[tk.middleware()], checkpointer=tk.checkpointer)
        config = tk.config(user_id=ANA, thread_id="1")
        agent.invoke(said("I live in Lisbon."), config)
        assert facts(tk) == ["I live in Lisbon."]

        for memory in tk.sync.memories.list(owner=ANA, kind="semantic"):
            tk.sync.memories.forget(memory.memory_id, owner=ANA)
        if how == "again":
            before = next(state for state in agent.get_state_history(config) if len(state.values["messages"]) == 1)
            agent.invoke(None, {"configurable": {**config["configurable"], **before.config["configurable"]}})
        else:
            agent.invoke({"messages": [("ai", "By the way:")]}, config)

        assert facts(tk) == []


class TestRecordedAgain:
    """A turn that has another reply than when it was recorded first."""

    def test_turn_of_two_agents_tells_what_it_taught(self, tk: threadkeep.Threadkeep) -> None:
        """Each agent of a run records the turn with its own reply, and the first record is learnt from."""
        agents = {
            name: create_agent(ScriptedModel(replies=[reply] * 2), [], middleware=[tk.middleware()], name=name)
            for name, reply in (("front", "I ask Billing."), ("billing", "Paid."))
        }
        builder = StateGraph(MessagesState)
        for name, agent in agents.items():
            builder.add_node(name, agent)
        builder.add_edge(START, "front")
        builder.add_edge("front", "billing")
        graph = builder.compile(checkpointer=tk.checkpointer)
        config = tk.config(user_id=ANA, thread_id="1")
        graph.invoke(said(FACT), config)
        tk.sync.drain()
        graph.invoke(said(QUESTION), config)
        tk.sync.drain()

        first, second = tk.sync.threads.turns("1", owner=ANA)
        learnt = tk.sync.memories.get_many(first.memory_ids, owner=ANA)

        assert FACT in {memory.text for memory in learnt.values()}
        assert all(memory.taught_by(first.turn_id) for memory in learnt.values())
        assert second.recall is not None
        assert set(first.memory_ids) & {memory.memory_id for memory in second.recall.memories}

    def test_regenerated_reply_keeps_what_the_turn_taught(self, tk: threadkeep.Threadkeep) -> None:
        """However often it is regenerated."""
        model = ScriptedModel(replies=["One.", "Two.", "Three."])
        agent = create_agent(model, [], middleware=[tk.middleware()], checkpointer=tk.checkpointer)
        config = tk.config(user_id=ANA, thread_id="1")
        agent.invoke(said(FACT, "h1"), config)
        tk.sync.drain()
        before = tk.sync.threads.turns("1", owner=ANA)
        for _ in range(2):
            reply = agent.get_state(config).values["messages"][-1]
            agent.invoke({"messages": [RemoveMessage(reply.id), HumanMessage(FACT, id="h1")]}, config)
            tk.sync.drain()

        (turn,) = tk.sync.threads.turns("1", owner=ANA)

        assert [message.text for message in agent.get_state(config).values["messages"]] == [FACT, "Three."]
        assert turn.memory_ids
        assert (turn.turn_id, turn.memory_ids) == (before[0].turn_id, before[0].memory_ids)
