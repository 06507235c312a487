"""The interface ``langgraph``: the subset of LangGraph's API that its SDK and chat pages use, under ``/lg``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fastapi import APIRouter

import threadkeep
from threadkeep.gateway.langgraph_api import assistants, runs, store, threads, unsupported

if TYPE_CHECKING:
    from fastapi import FastAPI

    from threadkeep.gateway.app import Gateway

PREFIX: Final = "/lg"

router = APIRouter(prefix=PREFIX, include_in_schema=False)


def mount(app: FastAPI, gateway: Gateway) -> None:
    """Add the routes to *app*, which shares them with others; they find the *gateway* in its state."""
    del gateway
    app.router.routes.extend(router.routes)


@router.get("/ok")
async def ok() -> dict[str, bool]:
    """Answer that the process serves."""
    return {"ok": True}


@router.get("/info")
async def info() -> dict[str, Any]:
    """Tell what there is of LangGraph's API."""
    return {"version": threadkeep.__version__, "flags": {"assistants": True, "crons": False, "langsmith": False}}


for _module in (unsupported, assistants, threads, runs, store):
    router.include_router(_module.router)
