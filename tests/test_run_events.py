"""What a run that is over leaves behind."""

from __future__ import annotations

import gc
import weakref
from contextvars import copy_context
from typing import Any

from langchain_core.runnables import RunnableLambda
from langgraph.graph import START, MessagesState, StateGraph

from threadkeep.run_events import CurrentRun, current_run, listen


class _Held:
    """What somebody who waits for the end of a run holds: a middleware, or a lease."""


def _run() -> weakref.ref[_Held]:
    held = _Held()

    def wait(given: int) -> int:
        run = current_run()
        assert run is not None
        run.root.when_ended(lambda: held)
        return given

    RunnableLambda(wait).invoke(1)
    return weakref.ref(held)


def test_ended_run_does_not_block_others() -> None:
    """The context that began it remembers the run itself until the next one."""
    listen()
    held = _run()
    gc.collect()
    assert held() is None


def test_ended_run_calls_at_once_and_keeps_nothing() -> None:
    """A lease that is shared by several runs ends after they did."""
    listen()
    runs: list[CurrentRun | None] = []
    RunnableLambda(lambda _: runs.append(current_run())).invoke(1)
    assert runs[0] is not None
    calls: list[bool] = []
    held = _Held()
    left = weakref.ref(held)

    runs[0].root.when_ended(lambda held=held: calls.append(held is not None))

    del held
    gc.collect()
    assert calls == [True]
    assert left() is None


def test_run_ends_although_its_stream_is_read_in_several_contexts() -> None:
    """A web server reads a blocking stream in threads, each part in a context of its own."""
    listen()
    ended: list[bool] = []

    def first(_: MessagesState) -> dict[str, Any]:
        run = current_run()
        assert run is not None
        run.root.when_ended(lambda: ended.append(True))
        return {"messages": []}

    steps = StateGraph(MessagesState).add_node(first).add_node("second", lambda _: {"messages": []})
    graph = steps.add_edge(START, "first").add_edge("first", "second").compile()
    parts = graph.stream({"messages": []})

    while copy_context().run(next, parts, None) is not None:
        gc.collect()

    assert ended == [True]
