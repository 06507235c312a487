"""A gateway with the graph of ``project``, and LangGraph's SDK for its users."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph_sdk import get_client

import threadkeep
from tests.gateway.conftest import Open
from tests.gateway.langgraph_api.project.graph import builder
from tests.gateway.world import USER, GatewayWorld


def served_graph(tk: threadkeep.Threadkeep) -> Any:
    return builder.compile(checkpointer=tk.per_run_owner().checkpointer)


def sdk(world: GatewayWorld, user: str = "ana") -> Any:
    """Return LangGraph's client for a user, without the types of its many overloads."""
    return get_client(url=f"{world.origin}/lg", headers={USER: user})


@pytest.fixture
def world(open_gateway: Open) -> GatewayWorld:
    """A gateway with that graph."""
    return open_gateway(graph=served_graph, max_requests_per_minute=10**6)


@pytest.fixture
async def client(world: GatewayWorld) -> Any:
    """LangGraph's client of a user."""
    async with sdk(world) as opened:
        yield opened
