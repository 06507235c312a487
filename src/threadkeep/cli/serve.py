"""``threadkeep serve`` and ``threadkeep mcp``: the gateway, and the memory for an MCP client on this machine."""

from __future__ import annotations

import getpass
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from threadkeep.cli.output import DataDir, open_memory, wait
from threadkeep.errors import optional_import


def serve(
    host: Annotated[str, typer.Option(help="The address to bind.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="The port; 0: a free one.")] = 8000,
    workers: Annotated[int, typer.Option(min=1, max=256, help="How many processes.")] = 1,
    graph: Annotated[
        str | None,
        typer.Option(
            help="A function that gets the client and returns a compiled graph, as `module:attribute`.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Serve the agent and its memory over HTTP until SIGTERM or Ctrl-C."""
    with optional_import("threadkeep serve", extra="serve"):
        from threadkeep.gateway.serve import serve as run_server

    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    run_server(host, port, workers=workers, graph=graph)


def mcp(
    user: Annotated[
        str | None,
        typer.Option("--user", "-u", help="The user; unset: that of the operating system.", show_default=False),
    ] = None,
    data_dir: DataDir = None,
    *,
    review: Annotated[bool, typer.Option("--review", help="Let the client decide on proposals.")] = False,
) -> None:
    """Serve one user's memory to an MCP client over standard input and output."""
    with optional_import("threadkeep mcp", extra="mcp"):
        from threadkeep.mcp_server import stdio

    async def run() -> None:
        async with open_memory(data_dir) as tk:
            await stdio.serve(tk, user or getpass.getuser(), review=review)

    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a thread that reads standard input cannot be interrupted
    wait(run())
