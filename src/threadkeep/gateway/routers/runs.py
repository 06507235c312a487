"""``/runs/{id}``: join a run, look at it, stop it, and answer what it asks."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel

from threadkeep.gateway.bodies import RequestBody
from threadkeep.gateway.events import EventStreamResponse
from threadkeep.gateway.idempotency import body_key
from threadkeep.gateway.inputs import LastEventId, RunPath, Starter, User
from threadkeep.gateway.routers.chat import STREAM, IdempotencyKey
from threadkeep.gateway.run_models import RunElsewhere, Status, event_number

router = APIRouter(prefix="/runs", tags=["runs"])


class RunBody(BaseModel):
    """A run.

    Attributes:
        run_id: Its id.
        thread_id: Its thread.
        status: How far it is; ``unknown``: another process has it, or it ended some minutes ago.
        message_ids: The messages that it added.
        recorded: Whether the turn is recorded for learning.
        interrupts: What it asks.
        memories: What was learnt from it.
        proposals: What waits for a decision of the user.
    """

    run_id: str
    thread_id: str
    status: Status
    message_ids: list[str] = []
    recorded: bool = False
    interrupts: list[dict[str, Any]] = []
    memories: list[dict[str, Any]] = []
    proposals: list[dict[str, Any]] = []


class AnswerBody(RequestBody):
    """An answer to what a run asks.

    Attributes:
        answer: The answer, as the graph takes it; several questions: an object with an answer for each interrupt id.
        on_disconnect: Whether the run continues if the client disconnects.
    """

    answer: Any
    on_disconnect: Literal["continue", "cancel"] = "continue"


class StoppedBody(BaseModel):
    """A run that was stopped, or had ended before.

    Attributes:
        run_id: Its id.
        status: How it ended.
    """

    run_id: str
    status: Status


@router.get("/{run_id}")
async def show(run_id: RunPath, user: User) -> RunBody:
    """Return how far a run is, and what was learnt from it."""
    run = await user.runs.locate(user.owner, run_id)
    if isinstance(run, RunElsewhere):
        return RunBody(run_id=run_id, thread_id=run.thread_id, status=run.status)
    return RunBody(
        run_id=run_id,
        thread_id=run.thread_id,
        status=run.status,
        message_ids=run.events.message_ids,
        recorded=run.events.recorded,
        interrupts=run.events.interrupts,
        memories=run.memories,
        proposals=run.proposals,
    )


@router.get("/{run_id}/stream", response_class=EventStreamResponse, status_code=200, responses=STREAM)
async def join(run_id: RunPath, user: User, last_event_id: LastEventId = "") -> EventStreamResponse:
    """Stream the events of a run behind ``Last-Event-ID``; without it, from the first."""
    run = await user.runs.locate(user.owner, run_id)
    return user.follow(run, event_number(last_event_id, run_id))


@router.post("/{run_id}/cancel")
async def cancel(run_id: RunPath, user: User) -> StoppedBody:
    """Stop a run; what it has finished stays in the thread."""
    return StoppedBody(run_id=run_id, status=await user.runs.cancel(user.owner, run_id))


@router.post("/{run_id}/resume", response_class=EventStreamResponse, status_code=200, responses=STREAM)
async def resume(
    run_id: RunPath, body: AnswerBody, request: Request, user: Starter, idempotency_key: IdempotencyKey = None
) -> EventStreamResponse:
    """Answer what a run asks; the run that goes on has an id of its own."""
    del idempotency_key  # declared for the schema
    run = await user.runs.resume(
        user.owner,
        run_id,
        body.answer,
        cancel_on_disconnect=body.on_disconnect == "cancel",
        key=await body_key(request, user.principal),
    )
    return user.follow(run)
