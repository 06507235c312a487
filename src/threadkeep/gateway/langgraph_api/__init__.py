"""The interface ``langgraph``: the subset of LangGraph's API that its SDK and chat pages use, under ``/lg``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from threadkeep.gateway.langgraph_api import assistants, runs, store, threads, unsupported

if TYPE_CHECKING:
    from fastapi import FastAPI

    from threadkeep.gateway.app import Gateway

PREFIX: Final = "/lg"


def mount(app: FastAPI, gateway: Gateway) -> None:
    """Add the routes to *app*; they find the *gateway* in its state. Their schema is LangGraph's."""
    del gateway
    for routes in (unsupported, assistants, threads, runs, store):
        app.include_router(routes.router, prefix=PREFIX, include_in_schema=False)
