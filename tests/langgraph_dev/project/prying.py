"""A graph that writes to the server's store and reads there, in whatever namespace its input names."""

from __future__ import annotations

from typing import Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime

from threadkeep.errors import OwnerMismatchError


class State(TypedDict, total=False):
    """What to do where, and what came of it."""

    namespace: list[str]
    value: dict[str, Any] | None
    found: list[Any]


async def pry(state: State, runtime: Runtime[Any]) -> State:
    """Write ``value`` where there is one, then list the namespace."""
    assert runtime.store is not None
    namespace = tuple(state["namespace"])
    try:
        if state.get("value"):
            await runtime.store.aput(namespace, "pried", state["value"])
        return {"found": [item.value for item in await runtime.store.asearch(namespace)]}
    except OwnerMismatchError as error:
        return {"found": [error.code]}


builder = StateGraph(State)
builder.add_node(pry)
builder.add_edge(START, "pry")
builder.add_edge("pry", END)
graph = builder.compile()
