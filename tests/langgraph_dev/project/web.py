"""A route of the application's own: what is remembered about whoever asks."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from threadkeep.langgraph.graph import tk
from threadkeep.langgraph.server import owner_of_request


async def memories(request: Request) -> JSONResponse:
    """List the memories of the user that the server authenticated, whatever the query says."""
    found = await tk.memories.list(owner=owner_of_request(request))
    return JSONResponse([memory.text for memory in found])


app = Starlette(routes=[Route("/memories", memories)])
