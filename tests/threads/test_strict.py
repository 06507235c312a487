"""What is read back from a checkpoint: listed classes only."""

from __future__ import annotations

import logging
import pickle
import sqlite3
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, TypedDict

import ormsgpack
import pytest
from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Interrupt, Send
from pydantic import BaseModel

from tests.threads.checkpoints import ScriptedModel, config_of, put, value_of
from threadkeep.errors import StorageError
from threadkeep.threads.checkpointers import ThreadkeepCheckpointer

HERE = config_of("1", checkpoint_ns="")
Make = Callable[..., ThreadkeepCheckpointer]


class Colour(Enum):
    RED = "red"


@dataclass
class Ticket:
    number: int
    colour: Colour = Colour.RED


class Answer(BaseModel):
    text: str


class Asked(TypedDict):
    ticket: Ticket
    answers: Annotated[list[Answer], lambda old, new: [*old, *new]]


class TestReading:
    @pytest.mark.parametrize(
        "value",
        [
            HumanMessage("hello", id="1"),
            AIMessage("", tool_calls=[{"name": "look", "args": {"q": "x"}, "id": "c1"}]),
            [SystemMessage("s"), ToolMessage("found", tool_call_id="c1")],
            Document("page", metadata={"n": 1}),
            Send("node", {"x": 1}),
            Command(resume="yes", goto=["node"]),
            (Interrupt("why?", id="i"),),
            {"when": datetime(2026, 1, 1, tzinfo=UTC), "set": {1, 2}, "bytes": b"\x00"},
            "text with NUL \x00 and 日本語",
        ],
        ids=lambda value: type(value).__name__,
    )
    def test_messages_and_langgraphs_own_types_come_back(
        self, checkpointer: ThreadkeepCheckpointer, value: Any, caplog: pytest.LogCaptureFixture
    ):
        """What every graph keeps needs no list, and nothing is warned about."""
        put(checkpointer, HERE, value)

        back = value_of(checkpointer, HERE)

        assert back == (list(value) if isinstance(value, tuple) else value)
        assert caplog.records == []

    def test_a_class_of_nobodys_list_comes_back_as_plain_data(self, checkpointer: ThreadkeepCheckpointer):
        """It is not made, whoever wrote it."""
        put(checkpointer, HERE, [Ticket(7), Answer(text="yes")])

        assert value_of(checkpointer, HERE) == [{"number": 7, "colour": "red"}, {"text": "yes"}]

    def test_an_allowed_class_comes_back_as_itself(self, kind: Any, make: Make, caplog: pytest.LogCaptureFixture):
        """Given as a class, or by module and name."""
        checkpointer = make(kind, allowed_types=[Ticket, Colour, (Answer.__module__, "Answer")])

        put(checkpointer, HERE, [Ticket(7), Answer(text="yes")])

        assert value_of(checkpointer, HERE) == [Ticket(7), Answer(text="yes")]
        assert caplog.records == []

    def test_a_planted_class_is_not_even_imported(
        self, make: Make, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ):
        """Who can write to the file still cannot run code: not by a module, not by a callable, not by a method."""
        (tmp_path / "planted.py").write_text("raise SystemExit('imported')\n")
        monkeypatch.syspath_prepend(tmp_path)
        checkpointer = make("sqlite")
        put(checkpointer, HERE, "honest")
        for code, call in [
            (0, ("planted", "Evil", "x")),
            (1, ("planted", "Evil", ["x"])),
            (2, ("planted", "Evil", {"x": 1})),
            (3, ("planted", "Evil", "x", "method")),
            (4, ("planted", "Evil", {"x": 1})),
            (5, ("planted", "Evil", {"x": 1})),
            (0, ("os", "system", f"touch {tmp_path / 'ran'}")),
        ]:
            _plant(path, "msgpack", ormsgpack.packb({"x": ormsgpack.Ext(code, ormsgpack.packb(call))}))

            with caplog.at_level(logging.ERROR):
                assert value_of(checkpointer, HERE) == call[2]

        assert "planted" not in sys.modules
        assert not (tmp_path / "ran").exists()

    @pytest.mark.parametrize(
        ("form", "data"),
        [("pickle", pickle.dumps({"x": 1})), ("msgpack", b"\xc1 not msgpack"), ("aes", b"1234")],
        ids=["pickle", "damaged", "unknown"],
    )
    def test_what_cannot_be_read_safely_is_refused(self, make: Make, path: Path, form: str, data: bytes):
        """A pickle is never loaded; a damaged or unknown row is an error of ours."""
        checkpointer = make("sqlite")
        put(checkpointer, HERE, "honest")
        _plant(path, form, data, whole=True)

        with pytest.raises(StorageError, match="checkpoint"):
            value_of(checkpointer, HERE)


def _answer(state: Any) -> dict[str, Any]:
    return {"answers": [Answer(text=str(state["ticket"].number))]}


class TestKeepingAState:
    def test_the_types_of_a_graphs_state_come_back(self, kind: Any, make: Make, caplog: pytest.LogCaptureFixture):
        """Compiling tells the checkpointer the state's classes; without it they would come back as dicts."""
        graph = StateGraph(Asked)
        graph.add_node("answer", _answer)
        graph.add_edge(START, "answer")
        compiled = graph.compile(checkpointer=make(kind))
        config = config_of("1")

        compiled.invoke({"ticket": Ticket(7)}, config)
        said = compiled.invoke({"ticket": Ticket(8)}, config)

        assert said["answers"] == [Answer(text="7"), Answer(text="8")]
        assert compiled.get_state(config).values == said
        assert caplog.records == []

    def test_an_agents_answer_comes_back_where_it_is_named(
        self, kind: Any, make: Make, caplog: pytest.LogCaptureFixture
    ):
        """LangGraph does not find a ``response_format`` among the state's types; naming it is enough."""
        call = {"name": "Answer", "args": {"text": "yes"}, "id": "c1"}
        model = ScriptedModel(messages=iter([AIMessage("", tool_calls=[call])] * 2))
        checkpointer = make(kind).with_allowlist([Answer])
        agent = create_agent(model, response_format=Answer, context_schema=Ticket, checkpointer=checkpointer)

        for _ in range(2):
            agent.invoke({"messages": [("user", "Well?")]}, config_of("1"), context=Ticket(7))

        assert agent.get_state(config_of("1")).values["structured_response"] == Answer(text="yes")
        assert caplog.records == []

    def test_two_graphs_on_one_checkpointer_do_not_share_their_lists(self, kind: Any, make: Make):
        """What one graph's state may hold is not allowed to all."""
        checkpointer = make(kind)
        listed = checkpointer.with_allowlist([(Ticket.__module__, "Ticket"), (Colour.__module__, "Colour")])

        put(checkpointer, HERE, Ticket(7))

        assert value_of(listed, HERE) == Ticket(7)
        assert value_of(checkpointer, HERE) == {"number": 7, "colour": "red"}


def _plant(path: Path, form: str, value: bytes, *, whole: bool = False) -> None:
    """Write *value* into the file behind the checkpointer's back, as the channels or as the whole checkpoint."""
    other = sqlite3.connect(path)
    ((honest,),) = other.execute("SELECT checkpoint FROM checkpoints").fetchall() if not whole else [(b"",)]
    if not whole:
        kept = ormsgpack.unpackb(honest, ext_hook=lambda code, data: None)
        packed = ormsgpack.packb({key: item for key, item in kept.items() if key != "channel_values"})
        # A map of n pairs, and one more: its header byte counts them.
        value = bytes([packed[0] + 1]) + packed[1:] + ormsgpack.packb("channel_values") + value
    with other:
        other.execute("UPDATE checkpoints SET type = ?, checkpoint = ?", (form, value))
    other.close()
