"""The interface ``api``: the routes under ``/api``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fastapi import APIRouter

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

_MODULES: Final = (
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

router = APIRouter(prefix="/api")
for _module in _MODULES:
    router.include_router(_module.router)


def mount(app: FastAPI, gateway: Gateway) -> None:
    """Add the routes to *app*; they find the *gateway* in its state.

    Applications share the routes: FastAPI takes a tenth of a second to build the routes of an included router.
    """
    del gateway
    app.router.routes.extend(router.routes)
