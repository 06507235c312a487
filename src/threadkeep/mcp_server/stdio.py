"""The MCP server over standard input and output, for one user of this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp.server.stdio import stdio_server

from threadkeep.gateway.principals import Principal
from threadkeep.identity import Owner
from threadkeep.mcp_server.server import create_server

if TYPE_CHECKING:
    from threadkeep.client import Threadkeep


async def serve(tk: Threadkeep, owner: Owner, *, review: bool) -> None:
    """Answer requests until standard input ends.

    Args:
        tk: The memory.
        owner: The user.
        review: Whether the client may decide on proposals.
    """
    scopes = {"memory:read", "memory:write", *(("memory:review",) if review else ())}
    principal = Principal(owner, frozenset(scopes), owner.user_id)
    server = create_server(tk, lambda _: principal)
    async with stdio_server() as (requests, answers):
        await server.run(requests, answers, server.create_initialization_options())
