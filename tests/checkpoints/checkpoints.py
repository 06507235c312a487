"""Checkpoints to put, graphs to run and configurations to name them by."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Annotated, Any, TypedDict

from langchain_core.language_models import GenericFakeChatModel
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.checkpoint.base import BaseCheckpointSaver, Checkpoint, CheckpointMetadata, empty_checkpoint
from langgraph.graph import START, StateGraph

from tests.checkpoints.conftest import TIMEOUT, storage_at
from threadkeep.checkpoints.saver import ThreadkeepCheckpointer
from threadkeep.clock import SystemClock
from threadkeep.event_loop import EventLoopThread

KEY = "fZx0mJ5sQw8dLr2VtY7bNc4GhUkPeA9i+1oRj3TzWq6="
METADATA: CheckpointMetadata = {"source": "loop", "step": 0, "parents": {}}


class Words(TypedDict):
    words: Annotated[list[str], operator.add]


class ScriptedModel(GenericFakeChatModel):
    """Says its lines, whatever tools it is given."""

    def bind_tools(self, tools: Sequence[BaseTool | Any], **options: Any) -> Any:
        return self


def config_of(thread_id: Any, **configurable: Any) -> RunnableConfig:
    return {"configurable": {"thread_id": thread_id, **configurable}}


def checkpoint_of(value: Any) -> Checkpoint:
    """Return a checkpoint whose only channel ``x`` holds *value*, in a version of its own."""
    blank = empty_checkpoint()
    return {**blank, "channel_values": {"x": value}, "channel_versions": {"x": blank["id"]}}


def put(saver: BaseCheckpointSaver[str], config: RunnableConfig, value: Any) -> RunnableConfig:
    checkpoint = checkpoint_of(value)
    return saver.put(config, checkpoint, METADATA, checkpoint["channel_versions"])


async def aput(saver: BaseCheckpointSaver[str], config: RunnableConfig, value: Any) -> RunnableConfig:
    checkpoint = checkpoint_of(value)
    return await saver.aput(config, checkpoint, METADATA, checkpoint["channel_versions"])


def value_of(saver: BaseCheckpointSaver[str], config: RunnableConfig) -> Any:
    found = saver.get_tuple(config)
    return None if found is None else found.checkpoint["channel_values"]["x"]


async def avalue_of(saver: BaseCheckpointSaver[str], config: RunnableConfig) -> Any:
    found = await saver.aget_tuple(config)
    return None if found is None else found.checkpoint["channel_values"]["x"]


def elsewhere(url: str, **options: Any) -> ThreadkeepCheckpointer:
    """Return a checkpointer over the storage at *url*, on an event loop of its own, in another process."""
    clock = SystemClock()
    options.setdefault("timeout", TIMEOUT)
    return ThreadkeepCheckpointer(storage_at(url, clock=clock), loop=EventLoopThread(), clock=clock, **options)


def echo_graph(checkpointer: Any = None, **options: Any) -> Any:
    """Compile a graph with one node that says each last word once more, louder."""

    def echo(state: Words) -> dict[str, list[str]]:
        return {"words": [state["words"][-1].upper()]}

    graph = StateGraph(Words, **options)
    graph.add_node("echo", echo)
    graph.add_edge(START, "echo")
    return graph.compile(checkpointer=checkpointer)
