"""Clients of the MCP server: over HTTP for users of a gateway, and over standard input and output."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import get_default_environment, stdio_client
from mcp.client.streamable_http import streamable_http_client

from tests.gateway.conftest import Open, open_gateway, provider, storage_url
from tests.gateway.world import USER, GatewayWorld

__all__ = ["open_gateway", "provider", "storage_url"]

Session = AbstractAsyncContextManager[ClientSession]


@pytest.fixture
def gateway(open_gateway: Open) -> GatewayWorld:
    """A gateway with MCP and HTTP."""
    return open_gateway(interfaces=("api", "mcp"))


@asynccontextmanager
async def session(gateway: GatewayWorld, user: str = "ana", **headers: str) -> AsyncGenerator[ClientSession]:
    """Yield a session of the official client over HTTP."""
    async with (
        httpx.AsyncClient(headers={USER: user, **headers}, timeout=60) as client,
        streamable_http_client(f"{gateway.origin}/mcp", http_client=client) as (read, write, _),
        ClientSession(read, write) as opened,
    ):
        await opened.initialize()
        yield opened


@pytest.fixture
def open_stdio(tmp_path: Path) -> Callable[..., Session]:
    """Return what starts ``threadkeep mcp`` on the memory of this test, and connects the official client to it."""

    @asynccontextmanager
    async def opened(*arguments: str, **callbacks: Any) -> AsyncGenerator[ClientSession]:
        environment = {
            **get_default_environment(),
            "LANGGRAPH_STORE_TYPE": "sqlite",
            "LANGGRAPH_STORE_SQLITE_PATH": str(tmp_path / "memory.db"),
            "EMBEDDINGS_PROVIDER": "none",
        }
        program = "from threadkeep.cli.main import main; main()"
        parameters = StdioServerParameters(
            command=sys.executable, args=["-c", program, "mcp", *arguments], env=environment, cwd=tmp_path
        )
        async with stdio_client(parameters) as (read, write), ClientSession(read, write, **callbacks) as client:
            await client.initialize()
            yield client

    return opened
