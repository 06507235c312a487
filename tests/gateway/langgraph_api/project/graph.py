"""A graph with a subgraph, a question, custom events and a streamed reply; without a package of ours."""

from __future__ import annotations

import asyncio
import operator
from typing import Annotated

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AnyMessage
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import interrupt
from typing_extensions import TypedDict


class State(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    count: Annotated[int, operator.add]
    note: str


class Child(TypedDict, total=False):
    note: str


async def talk(state: State) -> State:
    """Reply to what the user said; ``ask``, ``fail`` and ``hang`` in it do what they say."""
    text = str(state["messages"][-1].text)
    get_stream_writer()({"said": text})
    if "hang" in text:
        await asyncio.sleep(600)
    if "fail" in text:
        msg = "broken on purpose"
        raise ValueError(msg)
    if "ask" in text:
        text = f"color {interrupt({'question': 'Which color?'})}"
    model = GenericFakeChatModel(messages=iter([AIMessage(content=f"you said {text}")]))
    return {"messages": [await model.ainvoke(state["messages"])], "count": 1}


async def inner(state: Child) -> Child:
    """Write a note."""
    get_stream_writer()({"inner": True})
    return {"note": f"{len(state.get('note', ''))} letters"}


child = StateGraph(Child)
child.add_node("inner", inner)
child.add_edge(START, "inner")
child.add_edge("inner", END)

builder = StateGraph(State)
builder.add_node("talk", talk)
builder.add_node("child", child.compile())
builder.add_edge(START, "talk")
builder.add_edge("talk", "child")
builder.add_edge("child", END)

graph = builder.compile()
