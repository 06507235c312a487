"""``/admin/status`` and ``/admin/queue``: how the service does, for administrators.

Counts concern the whole service and name no owner. Lists have what belongs to the administrator's own tenant.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Final

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from threadkeep.gateway.auth import check_issuers
from threadkeep.gateway.bodies import ID_CHARACTERS, RequestBody, Shown
from threadkeep.gateway.idempotency import IdempotentRoute
from threadkeep.gateway.inputs import Limit
from threadkeep.gateway.routers.admin import Administrator
from threadkeep.gateway.routers.me import QueuedBody, queued_body
from threadkeep.process_state import probe_parts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from threadkeep.capture.models import QueuedTurn
    from threadkeep.gateway.app import Gateway

router = APIRouter(prefix="/admin", tags=["admin"], route_class=IdempotentRoute)

_COUNTED_ANEW: Final = timedelta(minutes=1)
_UNREACHABLE: Final = "issuer_unreachable"
_LAG: Final = "capture.lag_seconds"


class PartBody(BaseModel):
    """A part of the service.

    Attributes:
        part: ``storage``, ``threads``, ``embedder``, ``vectors`` or ``issuer``.
        name: Which one.
        error: The code of the error; ``None``: it answers.
        milliseconds: How long its answer took; ``None``: an issuer, which is asked every 10 minutes at most.
    """

    part: str
    name: Shown
    error: str | None
    milliseconds: float | None


class LearningBody(BaseModel):
    """The turns that are not learnt from yet, and how long learning took.

    Attributes:
        waiting: How many wait.
        running: How many a worker has.
        dead: How many failed too often.
        oldest_seconds: For how long the oldest one waits; 0: none waits.
        learnt: How many turns this process has learnt from.
        mean_lag_seconds: How long after its turn this process learnt from it.
        longest_lag_seconds: The longest of these times.
    """

    waiting: int
    running: int
    dead: int
    oldest_seconds: float
    learnt: int
    mean_lag_seconds: float
    longest_lag_seconds: float


class SampleBody(BaseModel):
    """How much the storage held on a day.

    Attributes:
        at: When it was counted.
        owners: Owners, and a few partitions of the service.
        items: Rows.
        size_bytes: Bytes; ``None``: the storage does not tell.
    """

    at: datetime
    owners: int
    items: int
    size_bytes: int | None


class StatusBody(BaseModel):
    """How the service does.

    Attributes:
        parts: Its parts, with state and latency.
        learning: The queue, and its lag; ``None``: the storage does not answer.
        runs_active: Runs in progress in this process.
        runs_waiting: Runs that wait for a place in this process.
        turns: How many turns of this process ended in which way.
        degraded: How many turns of this process were answered with less, by cause.
        refused: How many requests this process refused, by reason.
        growth: The size of the storage by day, oldest first; at most 90 days; none if the storage does not answer.
    """

    parts: list[PartBody]
    learning: LearningBody | None
    runs_active: int
    runs_waiting: int
    turns: dict[str, int]
    degraded: dict[str, int]
    refused: dict[str, int]
    growth: list[SampleBody]


class OwnedTurnBody(QueuedBody):
    """A turn that is not learnt from yet; no text.

    Attributes:
        label: The label of its owner.
        user_id: The user id of its owner.
    """

    label: str
    user_id: Shown


class OwnedQueueBody(BaseModel):
    """Turns of the tenant that are not learnt from yet: those that failed too often first, then the oldest.

    Attributes:
        turns: The turns.
        total: How many there are.
    """

    turns: list[OwnedTurnBody]
    total: int


class RetryTurnsBody(RequestBody):
    """Which turns to try again.

    Attributes:
        turn_ids: The turns.
    """

    turn_ids: list[Annotated[str, Field(min_length=1, max_length=ID_CHARACTERS)]] = Field(min_length=1, max_length=100)


@router.get("/status")
async def show_status(request: Request, principal: Administrator) -> StatusBody:
    """Return the state of the service: its parts, the queue, degraded turns and growth. It names no owner."""
    del principal
    gateway: Gateway = request.app.state.gateway
    parts = [PartBody.model_validate(one, from_attributes=True) for one in await probe_parts(gateway.tk.app)]
    answers = all(one.error is None for one in parts if one.part == "storage")
    counts = gateway.metrics.counts()
    return StatusBody(
        parts=[*parts, *await _issuers(gateway)],
        learning=_learning(gateway, await gateway.tk.queue.list()) if answers else None,
        runs_active=gateway.runs.limiter.running,
        runs_waiting=gateway.runs.limiter.waiting,
        turns=counts["turns"],
        degraded=counts["degraded"],
        refused=counts["refused"],
        growth=await _growth(gateway) if answers else [],
    )


@router.get("/queue")
async def list_owned_queue(request: Request, principal: Administrator, limit: Limit = 50) -> OwnedQueueBody:
    """List turns of the tenant that are not learnt from yet, with the reason of the last failure and no text."""
    turns = _of_tenant(await request.app.state.gateway.tk.queue.list(), principal.owner.tenant)
    turns.sort(key=lambda turn: turn.state != "dead")
    return OwnedQueueBody(turns=[_owned_body(turn) for turn in turns[:limit]], total=len(turns))


@router.post("/queue/retry")
async def retry_owned_queue(body: RetryTurnsBody, request: Request, principal: Administrator) -> OwnedQueueBody:
    """Try turns of the tenant again at once; return those that are tried, as they were."""
    tk = request.app.state.gateway.tk
    wanted = set(body.turn_ids)
    turns = [turn for turn in _of_tenant(await tk.queue.list(), principal.owner.tenant) if turn.turn_id in wanted]
    retried: list[QueuedTurn] = []
    for owner in {turn.owner for turn in turns}:
        ids = [turn.turn_id for turn in turns if turn.owner == owner]
        retried += await tk.for_owner(owner).queue.retry(ids)
    return OwnedQueueBody(turns=[_owned_body(turn) for turn in retried], total=len(retried))


async def _issuers(gateway: Gateway) -> list[PartBody]:
    issuers = await check_issuers(gateway.authenticate)
    errors = [(issuer.url, None if issuer.reachable else _UNREACHABLE) for issuer in issuers]
    return [PartBody(part="issuer", name=url, error=error, milliseconds=None) for url, error in errors]


async def _growth(gateway: Gateway) -> list[SampleBody]:
    await gateway.growth.note(max_age=_COUNTED_ANEW)
    return [SampleBody.model_validate(one, from_attributes=True) for one in await gateway.growth.list()]


def _of_tenant(turns: Iterable[QueuedTurn], tenant: str) -> list[QueuedTurn]:
    return [turn for turn in turns if turn.owner.tenant == tenant]


def _owned_body(turn: QueuedTurn) -> OwnedTurnBody:
    return OwnedTurnBody(label=turn.owner.label, user_id=turn.owner.user_id, **queued_body(turn).model_dump())


def _learning(gateway: Gateway, turns: list[QueuedTurn]) -> LearningBody:
    states = [turn.state for turn in turns]
    oldest = min((turn.recorded_at for turn in turns if turn.state != "dead"), default=None)
    lag = gateway.tk.app.telemetry.measured().get(_LAG)
    now = gateway.tk.app.clock.now()
    return LearningBody(
        waiting=states.count("waiting"),
        running=states.count("running"),
        dead=states.count("dead"),
        oldest_seconds=0 if oldest is None else max(0.0, (now - oldest).total_seconds()),
        learnt=0 if lag is None else lag.count,
        mean_lag_seconds=0 if lag is None else lag.seconds / lag.count,
        longest_lag_seconds=0 if lag is None else lag.longest,
    )
