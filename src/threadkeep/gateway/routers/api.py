"""The interface ``api``: the routes under ``/api``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from threadkeep.gateway.routers import (
    admin,
    chat,
    collections,
    credentials,
    me,
    memories,
    profile,
    proposals,
    runs,
    scopes,
    service_status,
    threads,
)

if TYPE_CHECKING:
    from fastapi import FastAPI

    from threadkeep.gateway.app import Gateway


def mount(app: FastAPI, gateway: Gateway) -> None:
    """Add the routes to *app*; they find the *gateway* in its state."""
    del gateway
    for routes in (
        admin,
        chat,
        collections,
        credentials,
        me,
        memories,
        profile,
        proposals,
        runs,
        scopes,
        service_status,
        threads,
    ):
        app.include_router(routes.router, prefix="/api")
