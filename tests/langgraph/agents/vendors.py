"""Stand-ins for the vendors' MCP servers: they speak the protocol and offer the declared tools, and some more.

``python -m tests.langgraph.agents.vendors NAME`` is one over stdin and stdout.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import uvicorn
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount

from threadkeep.langgraph.agent_servers import read

TOKENS: Final = {
    "github": "github-token-3f9a61c07be245d8",
    "gitlab": "gitlab-token-88c1e07d2b6f4a93",
    "slack": "slack-token-5d1f0c9a7e3b4286",
    "splunk": "splunk-token-c07be24588c1e07d",
}
NOT_DECLARED: Final = "delete_everything"
"""Every one offers this tool, too, and no agent is declared with it."""


@dataclass
class Vendors:
    """The servers over HTTP.

    Attributes:
        port: Of the loopback; the server of *name* is at ``/name/mcp``.
        calls: ``(server, tool, arguments)``, in order.
        failing: Servers that break off in the middle of a call.
    """

    port: int = 0
    calls: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    failing: set[str] = field(default_factory=set)

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.port}/{name}/mcp"


def server(name: str, called: Callable[[str, dict[str, Any]], None]) -> Server[Any, Any]:
    """Return the MCP server *name*, which tells *called* of each call."""
    made: Server[Any, Any] = Server(name)
    declared = next(one for one in read(None) if one.name == name)

    @made.list_tools()
    async def tools() -> list[types.Tool]:
        schema = {"type": "object", "additionalProperties": True}
        names = [*sorted(declared.tools), NOT_DECLARED]
        return [types.Tool(name=tool, description=f"{tool} of {name}", inputSchema=schema) for tool in names]

    @made.call_tool(validate_input=False)
    async def call(tool: str, arguments: dict[str, Any]) -> list[types.TextContent]:
        called(tool, arguments)
        if "fail" in arguments:
            msg = "404: there is no such thing"
            raise ValueError(msg)
        return [types.TextContent(type="text", text=f"{tool} answers {json.dumps(arguments, sort_keys=True)}")]

    return made


@contextmanager
def serving() -> Iterator[Vendors]:
    """Run the four that are reached by URL, each asking for its token, on one port of the loopback."""
    vendors = Vendors()
    listening = socket.create_server(("127.0.0.1", 0))
    vendors.port = listening.getsockname()[1]
    config = uvicorn.Config(_app(vendors), log_level="error", lifespan="on", timeout_graceful_shutdown=1, ws="none")
    running = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(running.serve([listening])), name="vendors")
    thread.start()
    try:
        while not running.started and thread.is_alive():
            threading.Event().wait(0.01)
        yield vendors
    finally:
        running.should_exit = True
        thread.join()
        listening.close()


def _app(vendors: Vendors) -> Starlette:
    managers = {name: StreamableHTTPSessionManager(server(name, _noting(vendors, name))) for name in TOKENS}

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for manager in managers.values():
                await stack.enter_async_context(manager.run())
            yield

    return Starlette(
        routes=[Mount(f"/{name}", _guarded(vendors, name, manager)) for name, manager in managers.items()],
        lifespan=lifespan,
    )


def _noting(vendors: Vendors, name: str) -> Callable[[str, dict[str, Any]], None]:
    return lambda tool, arguments: vendors.calls.append((name, tool, arguments))


def _guarded(vendors: Vendors, name: str, manager: StreamableHTTPSessionManager) -> Callable[..., Awaitable[None]]:
    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        headers = dict(scope["headers"])
        if headers.get(b"authorization") != f"Bearer {TOKENS[name]}".encode():
            await PlainTextResponse("who are you?", 401)(scope, receive, send)
        elif name in vendors.failing:
            await PlainTextResponse("out of order", 503)(scope, receive, send)
        else:
            await manager.handle_request(scope, receive, send)

    return guarded


def _report(tool: str, arguments: dict[str, Any]) -> None:
    """Let a caller see which variables a server was handed: ``{"variables": [...]}`` becomes what they hold."""
    arguments["seen"] = {name: os.environ.get(name) for name in arguments.pop("variables", [])}


async def _over_stdio(name: str) -> None:
    made = server(name, _report)
    async with stdio_server() as (reading, writing):
        await made.run(reading, writing, made.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(_over_stdio(sys.argv[1]))
