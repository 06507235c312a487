"""One compiled graph for all owners: each run is of the owner that its config names."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage
from langchain_core.tools import BaseTool, tool
from langgraph.config import get_store
from langgraph.types import Command

import threadkeep
from threadkeep import Owner
from threadkeep.errors import InvalidInputError, OwnerMismatchError, OwnerRequiredError
from threadkeep.testing import HashingEmbedder, ScriptedModel

ANA, BOB = Owner("ana", "https://a.example"), Owner("ana", "https://b.example")
OWNERS = [Owner(f"u{n}", f"tenant{n % 2}") for n in range(8)]


@pytest.fixture
def tk(tmp_path: Path) -> Iterator[threadkeep.Threadkeep]:
    with threadkeep.open(f"sqlite:///{tmp_path}/memory.db", embedder=HashingEmbedder()) as opened:
        yield opened


def call_of(name: str, **arguments: Any) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": "1"}])


def said(text: str) -> dict[str, Any]:
    return {"messages": [("user", text)]}


def agent_of(tk: threadkeep.Threadkeep, *replies: Any, tools: list[BaseTool] | None = None, more: Any = ()) -> Any:
    view = tk.per_run_owner()
    return create_agent(
        ScriptedModel(replies=replies or ("Noted.",)),
        [*view.tools(), *(tools or [])],
        middleware=[view.middleware(), *more],
        checkpointer=view.checkpointer,
        store=view.store,
    )


async def run(agent: Any, face: str, inputs: list[Any], configs: list[Any]) -> list[Any]:
    if face == "async":
        return await agent.abatch(inputs, configs)
    return await asyncio.to_thread(agent.batch, inputs, configs)


class TestTurns:
    @pytest.mark.parametrize("face", ["sync", "async"])
    async def test_the_same_thread_id_is_a_thread_of_each_owner(self, tk: threadkeep.Threadkeep, face: str):
        """Two turns each, all at once: prompts, states and memories hold one owner's words."""
        view, agent = tk.per_run_owner(), agent_of(tk)
        configs = [view.config(owner, thread_id="1") for owner in OWNERS]

        await run(agent, face, [said(f"I live in Zebra{n}.") for n in range(8)], configs)
        await tk.drain()
        await run(agent, face, [said("Where do I live?") for _ in OWNERS], configs)

        for n, owner in enumerate(OWNERS):
            messages = (await agent.aget_state(configs[n])).values["messages"]
            assert len(messages) == 4
            assert set(re.findall(r"Zebra\d", str(messages))) == {f"Zebra{n}"}
            assert [one.text for one in await tk.memories.list(owner=owner, kind="semantic")] == [
                f"I live in Zebra{n}."
            ]
            assert list(await tk.threads.ids(owner)) == ["1"]
        assert await tk.memories.list(owner="u1") == []

    async def test_the_prompt_holds_the_memories_of_the_run(self, tk: threadkeep.Threadkeep):
        model = ScriptedModel()
        view = tk.per_run_owner()
        agent: Any = create_agent(model, [], middleware=[view.middleware()], checkpointer=view.checkpointer)
        for n, owner in enumerate(OWNERS):
            await tk.memories.remember(f"My code word is zebra{n}.", owner=owner)

        configs = [view.config(owner, thread_id="1") for owner in OWNERS]
        await agent.abatch([said(f"What is my code word? Asked by {n}.") for n in range(8)], configs)

        for prompt in model.prompts:
            found = re.search(r"zebra(\d).*Asked by (\d)", prompt[-1].text, re.DOTALL)
            assert found is not None
            assert found[1] == found[2]

    async def test_tools_work_on_the_memory_of_the_run(self, tk: threadkeep.Threadkeep):
        """A tool remembers for the owner of the run, and an argument cannot name another one."""
        view = tk.per_run_owner()
        agent = agent_of(tk, call_of("remember", text="I like tea.", owner="u1", threadkeep_owner="u1"), "Done.")

        await agent.ainvoke(said("Remember that I like tea."), view.config(ANA, thread_id="1"))
        await tk.drain()

        assert "I like tea." in [one.text for one in await tk.memories.list(owner=ANA)]
        assert await tk.memories.list(owner=BOB) == []
        assert await tk.memories.list(owner="u1") == []

    @pytest.mark.parametrize("face", ["sync", "async"])
    async def test_a_subagent_is_of_the_same_owner(self, tk: threadkeep.Threadkeep, face: str):
        """A graph that a tool runs takes the owner from the run around it, for memories, thread and store."""
        view = tk.per_run_owner()
        for owner, word in ((ANA, "lion"), (BOB, "bear")):
            await tk.memories.remember(f"My code word is {word}.", owner=owner)
        inner_model = ScriptedModel(replies=("It is in the notes.",))
        inner: Any = create_agent(inner_model, view.tools(), middleware=[view.middleware(capture=False)])
        seen: list[tuple[str, ...]] = []

        @tool
        def ask(question: str) -> str:
            """Ask another agent."""
            label = get_store().list_namespaces(limit=1)[0][1]
            seen.append((label,))
            return inner.invoke(said(question))["messages"][-1].text

        agent = agent_of(tk, call_of("ask", question="What is my code word?"), "Done.", call_of("x"), tools=[ask])
        config = view.config(BOB, thread_id="1")
        await (
            agent.ainvoke(said("Ask."), config)
            if face == "async"
            else asyncio.to_thread(agent.invoke, said("Ask."), config)
        )

        assert "bear" in inner_model.prompts[-1][-1].text
        assert "lion" not in str(inner_model.prompts)
        assert seen == [(BOB.label,)]

    async def test_a_turn_without_memory(self, tk: threadkeep.Threadkeep):
        """Nothing is recalled, learnt or changed by a tool; the thread goes on, and its next turn has memory again."""
        await tk.memories.remember("My code word is lion.", owner=ANA)
        view, model = tk.per_run_owner(), ScriptedModel(replies=(call_of("list_memories"), "Done."))
        agent: Any = create_agent(
            model, view.tools(), middleware=[view.middleware(), view.window()], checkpointer=view.checkpointer
        )
        config = view.config(ANA, thread_id="1", memory=False)

        parts = [
            part async for part in agent.astream(said("I live in Rome. My code word?"), config, stream_mode="custom")
        ]
        state = await agent.aget_state(config)
        await tk.drain()

        assert parts == []
        assert "lion" not in str(model.prompts)
        assert "Memory is off" in state.values["messages"][-2].text
        assert [one.text for one in await tk.memories.list(owner=ANA)] == ["My code word is lion."]
        checkpoints = [one async for one in agent.checkpointer.alist(config)]
        assert {one.metadata["threadkeep_memory"] for one in checkpoints} == {"off"}
        await agent.ainvoke(said("What is my code word?"), view.config(ANA, thread_id="1"))
        assert "lion" in model.prompts[-1][-1].text
        await tk.drain()
        assert "Rome" not in str([one.text for one in await tk.memories.list(owner=ANA)])  # the next turn, too


class TestThreads:
    async def test_an_interrupted_turn_is_its_owners(self, tk: threadkeep.Threadkeep):
        """Another owner of the same thread id has an empty thread: nothing to resume, read or change."""

        @tool
        def publish(what: str) -> str:
            """Publish something."""
            return f"published {what}"

        approval = HumanInTheLoopMiddleware(interrupt_on={"publish": True})
        view = tk.per_run_owner()
        agent = agent_of(tk, call_of("publish", what="it"), "Done.", tools=[publish], more=[approval])
        own, others = (view.config(owner, thread_id="1") for owner in (ANA, BOB))
        await agent.ainvoke(said("I live in Lisbon."), own)
        approve = Command(resume={"decisions": [{"type": "approve"}]})

        assert (await agent.aget_state(others)).values == {}
        assert [one async for one in agent.aget_state_history(others)] == []
        await agent.aupdate_state(others, {"messages": [("user", "mine")]})
        assert (await agent.ainvoke(approve, own))["messages"][-1].text == "Done."
        assert [one.text for one in (await agent.aget_state(others)).values["messages"]] == ["mine"]

    def test_history_and_forks_stay_the_owners(self, tk: threadkeep.Threadkeep):
        view, agent = tk.per_run_owner(), agent_of(tk)
        config = view.config(ANA, thread_id="1")
        agent.invoke(said("one"), config)
        first = next(iter(agent.get_state_history(config))).config["configurable"]["checkpoint_id"]
        agent.invoke(said("two"), config)

        again = view.config(ANA, thread_id="1", checkpoint_id=first)
        agent.invoke(said("three"), again)

        assert [one.text for one in agent.get_state(config).values["messages"]] == ["one", "Noted.", "three", "Noted."]
        with pytest.raises(OwnerRequiredError):
            agent.get_state({"configurable": {"thread_id": "1", "checkpoint_id": first}})

    async def test_calls_without_a_config_are_refused(self, tk: threadkeep.Threadkeep):
        """A checkpointer for all owners deletes, copies and lists nothing of an owner that is not named."""
        saver: Any = tk.per_run_owner().checkpointer
        await agent_of(tk).ainvoke(said("one"), tk.per_run_owner().config(ANA, thread_id="1"))

        for attempt in (
            lambda: saver.adelete_thread("1"),
            lambda: saver.aprune(["1"]),
            lambda: saver.acopy_thread("1", "2"),
            lambda: saver.adelete_for_runs(["1"]),
            lambda: saver.run(saver.maintenance.stats("1")),
            lambda: saver.run(saver.maintenance.bind("1", BOB)),
            lambda: saver.run(saver.maintenance.erase_owner(ANA)),
            lambda: asyncio.to_thread(list, saver.list(None)),
        ):
            with pytest.raises(OwnerRequiredError):
                await attempt()
        assert len(await tk.for_owner(ANA).threads.messages("1")) == 2


class TestOwners:
    @pytest.mark.parametrize("forged", ["ana", {"user_id": "ana", "tenant": ""}, ["ana"], 1, ("ana", "")])
    @pytest.mark.parametrize("part", ["checkpointer", "middleware"])
    def test_what_json_can_hold_is_refused(self, tk: threadkeep.Threadkeep, forged: Any, part: str):
        """No model is called for an owner that is a text."""
        view, model = tk.per_run_owner(), ScriptedModel()
        if part == "checkpointer":
            agent: Any = create_agent(model, checkpointer=view.checkpointer)
        else:
            agent = create_agent(model, middleware=[view.middleware()])

        with pytest.raises(InvalidInputError, match="threadkeep_owner must be an Owner object"):
            agent.invoke(said("hi"), {"configurable": {"thread_id": "1", "threadkeep_owner": forged}})
        assert model.prompts == []

    def test_a_tool_has_no_memory_for_a_text(self, tk: threadkeep.Threadkeep):
        """The model reads why, as with every error of a memory tool."""
        tk.sync.memories.remember("I like tea.", owner="ana")
        view, model = tk.per_run_owner(), ScriptedModel(replies=(call_of("list_memories"), "Done."))
        agent: Any = create_agent(model, view.tools())

        found = agent.invoke(said("hi"), {"configurable": {"thread_id": "1", "threadkeep_owner": "ana"}})

        assert "must be an Owner object" in found["messages"][-2].text
        assert "tea" not in str(found)

    def test_no_other_key_names_the_owner(self, tk: threadkeep.Threadkeep):
        agent = agent_of(tk)

        with pytest.raises(OwnerRequiredError):
            agent.invoke(said("hi"), tk.config(user_id="ana", thread_id="1"))
        agent.invoke(said("I live in Rome."), tk.per_run_owner().config(ANA, thread_id="1", user_id="eve"))
        tk.sync.drain()

        assert [one.text for one in tk.sync.memories.list(owner=ANA, kind="semantic")] == ["I live in Rome."]
        assert tk.sync.memories.list(owner="eve") == []

    def test_a_locked_client_has_no_such_view(self, tk: threadkeep.Threadkeep):
        with pytest.raises(OwnerMismatchError):
            tk.for_owner(ANA).per_run_owner()

    def test_the_owner_is_given_once(self, tk: threadkeep.Threadkeep):
        with pytest.raises(InvalidInputError, match="first argument"):
            tk.per_run_owner().config(ANA, thread_id="1", threadkeep_owner=BOB)

    def test_the_store_is_for_runs(self, tk: threadkeep.Threadkeep):
        with pytest.raises(OwnerRequiredError):
            tk.per_run_owner().store.get(("memories", ANA.label), "1")

    def test_the_store_of_a_run_has_no_other_namespace(self, tk: threadkeep.Threadkeep):
        @tool
        def pry() -> str:
            """Read what is another's."""
            return str(get_store().search(("memories", BOB.label)))

        agent = agent_of(tk, call_of("pry"), "Done.", tools=[pry])
        with pytest.raises(OwnerMismatchError):
            agent.invoke(said("hi"), tk.per_run_owner().config(ANA, thread_id="1"))


class TestStreams:
    @pytest.mark.parametrize("mode", ["values", "updates", "messages", "custom", "tasks"])
    async def test_no_key_of_ours_is_in_a_stream(self, tk: threadkeep.Threadkeep, mode: str):
        agent = agent_of(tk, call_of("list_memories"), "Done.")
        config = tk.per_run_owner().config(ANA, thread_id="1")

        parts = [part async for part in agent.astream(said("hi"), config, stream_mode=mode, subgraphs=True)]

        assert parts
        assert "threadkeep_owner" not in repr(parts)
        assert "a.example" not in repr(parts)

    async def test_no_checkpoint_holds_the_owner(self, tk: threadkeep.Threadkeep):
        agent, config = agent_of(tk), tk.per_run_owner().config(ANA, thread_id="1")
        await agent.ainvoke(said("hi"), config)

        found = [one async for one in agent.checkpointer.alist(config)]

        assert found
        assert "threadkeep_owner" not in repr([(one.config, one.metadata) for one in found])
        json.dumps([one.config for one in found])
