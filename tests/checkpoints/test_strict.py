"""What is read back from a checkpoint: listed classes only."""

from __future__ import annotations

import pickle
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

import threadkeep
from tests.checkpoints.checkpoints import ScriptedModel, config_of, put, value_of
from threadkeep.checkpoints.codec import StrictSerializer
from threadkeep.checkpoints.saver import ThreadkeepCheckpointer
from threadkeep.errors import InvalidInputError, StorageError

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

    @pytest.mark.parametrize("value", [Ticket(7), Answer(text="yes"), Colour.RED, {"a": [Answer(text="yes")]}], ids=str)
    def test_a_class_that_is_not_listed_is_refused_when_it_is_written(
        self, checkpointer: ThreadkeepCheckpointer, value: Any
    ):
        """It would come back as a dict; the error names it, and nothing is written."""
        with pytest.raises(InvalidInputError, match=r"test_strict\.\w+, a type .*allowed_types"):
            put(checkpointer, HERE, value)

        assert value_of(checkpointer, HERE) is None

    def test_what_a_longer_list_kept_is_read_as_it_was(self, kind: Any, make: Make):
        """Another process knew the class; here its module is imported, and it only holds data."""
        writer = make(kind, allowed_types=[Answer])
        put(writer, HERE, Answer(text="yes"))
        reader = writer.with_allowlist([(Ticket.__module__, "Ticket")])
        vars(reader)["serde"] = StrictSerializer()

        assert value_of(reader, HERE) == Answer(text="yes")

    def test_an_allowed_class_comes_back_as_itself(self, kind: Any, make: Make, caplog: pytest.LogCaptureFixture):
        """Given as a class, or by module and name."""
        checkpointer = make(kind, allowed_types=[Ticket, Colour, (Answer.__module__, "Answer")])

        put(checkpointer, HERE, [Ticket(7), Answer(text="yes")])

        assert value_of(checkpointer, HERE) == [Ticket(7), Answer(text="yes")]
        assert caplog.records == []

    def test_a_planted_class_is_not_even_imported(self, make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        """Who can write to the storage still cannot run code: not by a module, not by a callable, not by a method."""
        (tmp_path / "planted.py").write_text("raise SystemExit('imported')\n")
        monkeypatch.syspath_prepend(tmp_path)
        serde = StrictSerializer()
        for code, call in [
            (0, ("planted", "Evil", "x")),
            (1, ("planted", "Evil", ["x"])),
            (2, ("planted", "Evil", {"x": 1})),
            (4, ("planted", "Evil", {"x": 1})),
            (5, ("planted", "Evil", {"x": 1})),
            (0, ("os", "system", f"touch {tmp_path / 'ran'}")),
            (0, ("subprocess", "Popen", ["touch", str(tmp_path / "ran")])),
        ]:
            data = ormsgpack.packb({"x": ormsgpack.Ext(code, ormsgpack.packb(call))})
            with pytest.raises(StorageError, match=call[0]):
                serde.loads_typed(("msgpack", data))
        method = ormsgpack.Ext(3, ormsgpack.packb(("planted", "Evil", "x", "method")))
        assert serde.loads_typed(("msgpack", ormsgpack.packb(method))) == "x"

        assert "planted" not in sys.modules
        assert not (tmp_path / "ran").exists()

    @pytest.mark.parametrize(
        ("form", "data"),
        [("pickle", pickle.dumps({"x": 1})), ("msgpack", b"\xc1 not msgpack"), ("aes", b"1234")],
        ids=["pickle", "damaged", "unknown"],
    )
    def test_what_cannot_be_read_safely_is_refused(self, form: str, data: bytes):
        """A pickle is never loaded; damaged or unknown data is an error of ours."""
        with pytest.raises(StorageError, match="checkpoint"):
            StrictSerializer().loads_typed((form, data))


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

    async def test_the_middleware_allows_its_agents_answer(self):
        """In the first process; the next one reads it before it has called a model."""
        call = {"name": "Answer", "args": {"text": "yes"}, "id": "c1"}
        async with threadkeep.open("memory://", embedder="none") as tk:
            config = tk.config(user_id="ana", thread_id="1")
            for model in (ScriptedModel(messages=iter([AIMessage("", tool_calls=[call])] * 2)) for _ in range(2)):
                agent: Any = create_agent(
                    model, response_format=Answer, middleware=[tk.middleware()], checkpointer=tk.checkpointer
                )
                await agent.ainvoke({"messages": [("user", "Well?")]}, config)
                assert (await agent.aget_state(config)).values["structured_response"] == Answer(text="yes")

    def test_two_graphs_on_one_checkpointer_do_not_share_their_lists(self, kind: Any, make: Make):
        """What one graph's state may hold is not allowed to all."""
        checkpointer = make(kind)
        listed = checkpointer.with_allowlist([(Ticket.__module__, "Ticket"), (Colour.__module__, "Colour")])

        put(listed, HERE, Ticket(7))

        assert value_of(listed, HERE) == Ticket(7)
        with pytest.raises(InvalidInputError, match="Ticket"):
            put(checkpointer, HERE, Ticket(7))
