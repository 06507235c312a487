"""Clients of the MCP server: over HTTP for users of a gateway, and over standard input and output."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import get_default_environment, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.stdio import stdio_server

from tests.gateway.conftest import Open, open_gateway, provider, storage_url
from tests.gateway.world import USER, GatewayWorld
from tests.processes import PIPE, THREADKEEP, start_python

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
def environment(tmp_path: Path) -> dict[str, str]:
    """The variables of ``threadkeep mcp`` on the memory of this test."""
    return {
        **get_default_environment(),
        "LANGGRAPH_STORE_TYPE": "sqlite",
        "LANGGRAPH_STORE_SQLITE_PATH": str(tmp_path / "memory.db"),
        "EMBEDDINGS_PROVIDER": "none",
    }


@pytest.fixture
def open_command(tmp_path: Path, environment: dict[str, str]) -> Callable[..., Session]:
    """Return what connects the official client to ``threadkeep mcp``, by its command."""

    @asynccontextmanager
    async def opened(*arguments: str, **callbacks: Any) -> AsyncGenerator[ClientSession]:
        parameters = StdioServerParameters(
            command=sys.executable, args=[*THREADKEEP, "mcp", *arguments], env=environment, cwd=tmp_path
        )
        async with stdio_client(parameters) as (read, write), ClientSession(read, write, **callbacks) as client:
            await client.initialize()
            yield client

    return opened


@pytest.fixture
def open_stdio(tmp_path: Path, environment: dict[str, str]) -> Callable[..., Session]:
    """Return what connects the official client to a forked ``threadkeep mcp``.

    The lines that it reads and writes are those of the other side, so its transport is the one that servers have.
    """

    @asynccontextmanager
    async def opened(*arguments: str, **callbacks: Any) -> AsyncGenerator[ClientSession]:
        command = (*THREADKEEP, "mcp", *arguments)
        with start_python(*command, cwd=tmp_path, env=environment, stdin=PIPE, stdout=PIPE) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            answers, requests = anyio.wrap_file(process.stdout), anyio.wrap_file(process.stdin)
            async with stdio_server(answers, requests) as (read, write):
                async with ClientSession(read, write, **callbacks) as client:
                    await client.initialize()
                    yield client
                process.stdin.close()  # the server ends, and so does reading

    return opened
