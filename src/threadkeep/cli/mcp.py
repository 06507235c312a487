"""``threadkeep mcp``: the memory for an MCP client on this machine."""

from __future__ import annotations

import getpass
import signal
from typing import Annotated

import typer

from threadkeep.cli.output import DataDir, open_memory, wait
from threadkeep.errors import optional_import


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
        from threadkeep.mcp_server.stdio import serve

    async def run() -> None:
        async with open_memory(data_dir) as tk:
            await serve(tk, user or getpass.getuser(), review=review)

    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a thread that reads standard input cannot be interrupted
    wait(run())
