"""Checkpoints with a key: nothing that anybody said is readable where they are kept."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

import pytest
from deepagents import create_deep_agent
from langchain_core.messages import AIMessage
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

from tests.checkpoints.checkpoints import (
    ScriptedModel,
    config_of,
    put,
)
from tests.checkpoints.conftest import Places
from tests.checkpoints.dumps import dump_of
from tests.servers import SERVERS_IN_SOAK
from threadkeep.checkpoints.saver import ThreadkeepCheckpointer
from threadkeep.identity import Owner

ANA = Owner("ana@x.org")
HERE = config_of("1", checkpoint_ns="")
Make = Callable[..., ThreadkeepCheckpointer]

lasting = pytest.mark.parametrize("kind", ["sqlite", *SERVERS_IN_SOAK], indirect=True)


class Asked(TypedDict):
    words: Annotated[list[str], operator.add]
    summary: str
    phone: int
    nothing: str | None


def _ask(state: Asked) -> dict[str, Any]:
    return {"words": ["canary-in-a-list"], "summary": "canary-in-a-text", "phone": 7700900461}


def _wait(state: Asked) -> dict[str, Any]:
    answer = interrupt({"question": "canary-in-an-interrupt"})
    return {"words": [answer]}


def _graph(checkpointer: ThreadkeepCheckpointer) -> Any:
    graph = StateGraph(Asked)
    graph.add_node("ask", _ask)
    graph.add_node("wait", _wait)
    graph.add_edge(START, "ask")
    graph.add_edge("ask", "wait")
    return graph.compile(checkpointer=checkpointer)


class TestEncrypting:
    @lasting
    def test_no_canary_is_in_a_dump(self, kind: str, make: Make, places: Places):
        """Texts, numbers, lists, interrupts, answers and metadata: planted, run, and looked for in every byte."""
        url = places.url(kind)
        graph = _graph(make(kind, url=url, encrypted=True).scoped(ANA))
        config = {**config_of("canary-thread"), "metadata": {"note": "canary-in-metadata", "count": 7700900462}}

        graph.invoke({"words": ["canary-in-the-input"], "summary": "canary-first", "nothing": None}, config)
        said = graph.invoke(Command(resume="canary-in-the-answer"), config)

        assert said["words"][-1] == "canary-in-the-answer"
        assert said["phone"] == 7700900461
        dump = dump_of(kind, path=places.path, url=url)
        assert len(dump) > 1000
        assert [secret for secret in _secrets() if secret in dump] == []

    @lasting
    def test_without_a_key_the_canaries_are_there(self, kind: str, make: Make, places: Places):
        """So the search for them finds what is there to be found."""
        url = places.url(kind)
        graph = _graph(make(kind, url=url).scoped(ANA))

        graph.invoke(
            {"words": ["canary-in-the-input"], "summary": "", "nothing": None},
            {**config_of("1"), "metadata": {"note": "canary-in-metadata"}},
        )

        dump = dump_of(kind, path=places.path, url=url)
        assert all(secret in dump for secret in (b"canary-in-a-text", b"canary-in-metadata", b"canary-in-an-interrupt"))

    def test_a_graph_runs_on_encrypted_checkpoints(self, kind: str, make: Make):
        """State, history, forks and filters are as without a key."""
        graph = _graph(make(kind, encrypted=True))
        config = {**config_of("1"), "metadata": {"customer": "acme"}}

        graph.invoke({"words": ["a"], "summary": "s", "nothing": None}, config)
        before = graph.get_state(config)
        graph.invoke(Command(resume="yes"), config)
        forked = graph.update_state(before.config, {"summary": "edited"}, as_node="ask")
        said = graph.invoke(Command(resume="no"), forked)

        assert said["words"] == ["a", "canary-in-a-list", "no"]
        assert graph.get_state(config).values["summary"] == "edited"
        assert graph.get_state(before.config).values["summary"] == "canary-in-a-text"
        assert len([*graph.get_state_history(config, filter={"customer": "acme"})]) >= 4
        assert [*graph.get_state_history(config, filter={"customer": "other"})] == []
        assert [one.metadata["source"] for one in graph.get_state_history(config, filter={"source": "input"})] == [
            "input"
        ]

    def test_a_deep_agent_keeps_its_channels_of_changes(self, kind: str, make: Make):
        """Its messages are kept as changes since a snapshot, and each change is encrypted."""
        checkpointer = make(kind, encrypted=True)
        model = ScriptedModel(messages=iter([AIMessage(f"canary-{n}") for n in range(4)]))
        agent = create_deep_agent(model, checkpointer=checkpointer)

        for n in range(3):
            agent.invoke({"messages": [("user", f"question {n}")]}, config_of("1"))

        said = [message.content for message in agent.get_state(config_of("1")).values["messages"]]
        assert said == ["question 0", "canary-0", "question 1", "canary-1", "question 2", "canary-2"]
        checkpointer.prune(["1"])
        assert [message.content for message in agent.get_state(config_of("1")).values["messages"]] == said


class TestPacking:
    @pytest.mark.parametrize(
        "value",
        [
            "nul\x00 and half \ud800"[:5],
            float("inf"),
            -0.0,
            1e22,
            1.5,
            2**63 - 1,
            True,
            None,
            "~tk~packed~AAAA",
            b"~tk~encrypted~\x00",
            "~tk~encrypted~",
            {"nul": "\x00"},
        ],
        ids=repr,
    )
    def test_values_that_json_cannot_hold_come_back_as_they_were(self, kind: str, make: Make, value: Any):
        """Also those that look like what was packed."""
        checkpointer = make(kind)
        saved = put(checkpointer, HERE, value)
        checkpointer.put_writes(saved, [("x", value)], "task")

        found = checkpointer.get_tuple(HERE)

        assert found is not None
        back = found.checkpoint["channel_values"]["x"]
        assert (back, type(back)) == (value, type(value))
        assert found.pending_writes == [("task", "x", value)]


def _secrets() -> list[bytes]:
    return [b"canary", b"7700900461", b"7700900462", (7700900461).to_bytes(8), b"canary".hex().encode(), b"ana@x.org"]
