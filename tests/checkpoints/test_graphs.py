"""The checkpointer behind real graphs: isolation, accumulation, interrupts, deep agents."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from deepagents import create_deep_agent
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

from tests.checkpoints.checkpoints import ScriptedModel, Words, config_of, echo_graph
from threadkeep.checkpoints.saver import ThreadkeepCheckpointer

Make = Callable[..., ThreadkeepCheckpointer]
Invoke = Callable[[Any, Any, Any], Any]


def invoke(graph: Any, given: Any, config: Any) -> Any:
    return graph.invoke(given, config)


def ainvoke(graph: Any, given: Any, config: Any) -> Any:
    return asyncio.run(graph.ainvoke(given, config))


def invoke_in_a_loop(graph: Any, given: Any, config: Any) -> Any:
    async def cell() -> Any:
        return graph.invoke(given, config)

    return asyncio.run(cell())


def stream(graph: Any, given: Any, config: Any) -> Any:
    return list(graph.stream(given, config, stream_mode="values"))[-1]


@pytest.fixture(params=[invoke, ainvoke, invoke_in_a_loop, stream], ids=lambda face: face.__name__)
def run(request: pytest.FixtureRequest) -> Invoke:
    return request.param


class TestCompiling:
    @pytest.mark.parametrize("with_none", [False, True], ids=["without", "None"])
    def test_a_graph_runs_without_a_checkpointer(self, with_none: bool, run: Invoke):
        """Each turn stands alone then."""
        graph = echo_graph(None) if with_none else echo_graph()

        run(graph, {"words": ["one"]}, config_of("1"))

        assert run(graph, {"words": ["two"]}, config_of("1")) == {"words": ["two", "TWO"]}

    def test_a_thread_accumulates_and_others_do_not_see_it(self, checkpointer: ThreadkeepCheckpointer, run: Invoke):
        """The second turn of a thread has the first one's words; another thread has none."""
        graph = echo_graph(checkpointer)

        run(graph, {"words": ["one"]}, config_of("a"))
        other = run(graph, {"words": ["two"]}, config_of("b"))
        same = run(graph, {"words": ["three"]}, config_of("a"))

        assert other == {"words": ["two", "TWO"]}
        assert same == {"words": ["one", "ONE", "three", "THREE"]}

    def test_a_graph_compiled_at_module_level_serves_every_loop(self, checkpointer: ThreadkeepCheckpointer):
        """One graph, three loops and no loop."""
        graph = echo_graph(checkpointer)

        for turn in (invoke, ainvoke, invoke_in_a_loop, ainvoke):
            said = turn(graph, {"words": [turn.__name__]}, config_of("1"))

        assert len(said["words"]) == 8

    @pytest.mark.parametrize("durability", ["sync", "async", "exit"])
    def test_every_durability_keeps_the_thread(self, checkpointer: ThreadkeepCheckpointer, durability: Any):
        """Whenever LangGraph writes, it is there after the run."""
        graph = echo_graph(checkpointer)

        graph.invoke({"words": ["one"]}, config_of("1"), durability=durability)

        assert graph.get_state(config_of("1")).values == {"words": ["one", "ONE"]}

    def test_an_interrupted_run_goes_on_where_it_stopped(self, checkpointer: ThreadkeepCheckpointer, run: Invoke):
        """The answer to a question comes in a later call."""

        def ask(state: Words) -> dict[str, list[str]]:
            return {"words": [interrupt("which?")]}

        graph = StateGraph(Words)
        graph.add_node("ask", ask)
        graph.add_edge(START, "ask")
        compiled = graph.compile(checkpointer=checkpointer)
        run(compiled, {"words": ["one"]}, config_of("1"))

        said = run(compiled, Command(resume="this one"), config_of("1"))

        assert said["words"] == ["one", "this one"]

    def test_a_thread_forks_from_any_point_of_its_history(self, checkpointer: ThreadkeepCheckpointer):
        """History is complete, in order, and each snapshot can be gone on from."""
        graph = echo_graph(checkpointer)
        graph.invoke({"words": ["one"]}, config_of("1"))
        graph.invoke({"words": ["two"]}, config_of("1"))
        history = list(graph.get_state_history(config_of("1")))
        after_one = next(snapshot for snapshot in history if snapshot.values["words"] == ["one", "ONE"])

        forked = graph.update_state(after_one.config, {"words": ["instead"]})

        assert len(history) == 6
        assert graph.get_state(forked).values == {"words": ["one", "ONE", "instead"]}


class TestDeepAgents:
    def test_two_turns_of_a_deep_agent(self, checkpointer: ThreadkeepCheckpointer, run: Invoke):
        """Its messages are kept as deltas, which the second turn puts together again."""
        model = ScriptedModel(messages=iter([AIMessage("Hello Ana."), AIMessage("You are Ana.")]))
        agent = create_deep_agent(model=model, checkpointer=checkpointer)

        run(agent, {"messages": [HumanMessage("I am Ana.")]}, config_of("1"))
        said = run(agent, {"messages": [HumanMessage("Who am I?")]}, config_of("1"))

        words = [message.text for message in said["messages"]]
        assert words == ["I am Ana.", "Hello Ana.", "Who am I?", "You are Ana."]
        restored = agent.get_state(config_of("1")).values["messages"]
        assert [message.text for message in restored] == words

    def test_a_deep_agent_goes_on_after_a_restart(self, make: Make):
        """What the deltas were written by is closed by then."""
        first = make("sqlite")
        model = ScriptedModel(messages=iter([AIMessage("Hello Ana."), AIMessage("You are Ana.")]))
        agent = create_deep_agent(model=model, checkpointer=first)
        agent.invoke({"messages": [HumanMessage("I am Ana.")]}, config_of("1"))
        first.close()

        agent = create_deep_agent(model=model, checkpointer=make("sqlite"))
        said = agent.invoke({"messages": [HumanMessage("Who am I?")]}, config_of("1"))

        assert [message.text for message in said["messages"]][:2] == ["I am Ana.", "Hello Ana."]
