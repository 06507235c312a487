"""The MCP server over standard input and output, for one user of this machine."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import anyio
from mcp import types
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from threadkeep.gateway.bodies import as_object
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
    checked, accepted = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    async with stdio_server() as (requests, answers), anyio.create_task_group() as group:
        group.start_soon(_pass_on, requests, checked, answers)
        await server.run(accepted, answers, server.create_initialization_options())


async def _pass_on(requests: Any, checked: Any, answers: Any) -> None:
    """Pass *requests* on; one that the SDK cannot read is answered, as it would otherwise be noted alone."""
    async with requests, checked:
        async for request in requests:
            error = _error_of(request) if isinstance(request, ValidationError) else None
            if error is None:
                await checked.send(request)
            else:
                await answers.send(SessionMessage(types.JSONRPCMessage(error)))


def _error_of(invalid: ValidationError) -> types.JSONRPCError | None:
    """Return the answer to a line with half a surrogate pair; ``None``: the line names no request."""
    error = invalid.errors(include_url=False)[0]
    if error["type"] == "json_invalid":
        with suppress(ValueError, RecursionError):  # it is no JSON, or its id is no text
            message = "The request is invalid: it has half a surrogate pair, or too many levels."
            told = {"code": types.PARSE_ERROR, "message": message}
            request_id = as_object(json.loads(error["input"])).get("id")
            answer = json.dumps({"jsonrpc": "2.0", "id": request_id, "error": told})
            return types.JSONRPCError.model_validate_json(answer)
    return None
