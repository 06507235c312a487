"""``/healthz`` and ``/readyz``: whether the process lives, and whether it can answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from threadkeep.gateway.auth import check_issuers
from threadkeep.models.base import EMBEDDER

if TYPE_CHECKING:
    from threadkeep.gateway.app import Gateway

router = APIRouter(tags=["health"])


class HealthBody(BaseModel):
    """Whether the process lives.

    Attributes:
        status: Always ``ok``.
    """

    status: str = "ok"


class ReadyBody(BaseModel):
    """Whether the process can answer requests.

    Attributes:
        ready: Whether everything is reachable, the embedder was loaded if it can be, and the process is not stopping.
        stopping: Whether the process got a signal to stop: it begins no run any more.
        storage: ``ok``, or the code of the error of the memories' or the threads' storage.
        degraded: What works less well, such as ``embedder``.
        unreachable_issuers: The issuers that the keys could not be fetched from the last time. Without earlier keys
            all their tokens get status 503, and the process is not ready.
    """

    ready: bool
    stopping: bool
    storage: str
    degraded: list[str]
    unreachable_issuers: list[str]


@router.get("/healthz")
async def show_health() -> HealthBody:
    """Return that the process lives."""
    return HealthBody()


@router.get("/readyz", responses={503: {"model": ReadyBody}})
async def show_readiness(request: Request, response: Response) -> ReadyBody:
    """Return whether requests are answered: the storage answers, and each issuer's keys are there; else status 503."""
    gateway: Gateway = request.app.state.gateway
    monitor = gateway.monitor
    issuers = await check_issuers(gateway.authenticate)
    with_keys = all(issuer.has_keys for issuer in issuers)
    stopping, error = gateway.runs.draining, monitor.error
    ready = error is None and monitor.degraded is not None and with_keys and not stopping
    response.status_code = 200 if ready else 503
    return ReadyBody(
        ready=ready,
        stopping=stopping,
        storage=error or "ok",
        degraded=[EMBEDDER] if monitor.degraded is None else [*monitor.degraded],
        unreachable_issuers=[issuer.url for issuer in issuers if not issuer.reachable],
    )
