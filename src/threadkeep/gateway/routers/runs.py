"""``/runs/{id}``: join a run, look at it, stop it, and answer what it asks."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Path, Request
from pydantic import BaseModel, ConfigDict

from threadkeep.gateway.events import EventStreamResponse
from threadkeep.gateway.idempotency import body_key
from threadkeep.gateway.routers.chat import STREAM, Chatting, IdempotencyKey, TurnStarter, followed
from threadkeep.gateway.run_models import RunElsewhere, Status, event_number
from threadkeep.gateway.runs import RunRegistry

router = APIRouter(prefix="/runs", tags=["runs"])

RunId = Annotated[str, Path(min_length=1, max_length=6_000)]


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


class AnswerBody(BaseModel):
    """An answer to what a run asks.

    Attributes:
        answer: The answer, as the graph takes it; several questions: an object with an answer for each interrupt id.
        on_disconnect: Whether the run continues if the client disconnects.
    """

    model_config = ConfigDict(extra="forbid")

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
async def show(run_id: RunId, request: Request, principal: Chatting) -> RunBody:
    """Return how far a run is, and what was learnt from it."""
    runs: RunRegistry = request.app.state.gateway.runs
    run = runs.find(principal.owner, run_id)
    if run is None:
        thread_id = await runs.require_thread(principal.owner, run_id)
        return RunBody(run_id=run_id, thread_id=thread_id, status="unknown")
    return RunBody(
        run_id=run_id,
        thread_id=run.request.thread_id,
        status=run.status,
        message_ids=run.events.message_ids,
        recorded=run.events.recorded,
        interrupts=run.events.interrupts,
        memories=run.memories,
        proposals=run.proposals,
    )


@router.get("/{run_id}/stream", response_class=EventStreamResponse, status_code=200, responses=STREAM)
async def join(
    run_id: RunId,
    request: Request,
    principal: Chatting,
    last_event_id: Annotated[str, Header(max_length=7_000)] = "",
) -> EventStreamResponse:
    """Stream the events of a run behind ``Last-Event-ID``; without it, from the first."""
    runs: RunRegistry = request.app.state.gateway.runs
    run = runs.find(principal.owner, run_id)
    if run is None:
        thread_id = await runs.require_thread(principal.owner, run_id)
        return followed(runs, RunElsewhere(principal.owner, run_id, thread_id), 0)
    return followed(runs, run, event_number(last_event_id, run_id))


@router.post("/{run_id}/cancel")
async def cancel(run_id: RunId, request: Request, principal: Chatting) -> StoppedBody:
    """Stop a run; what it has finished stays in the thread."""
    runs: RunRegistry = request.app.state.gateway.runs
    return StoppedBody(run_id=run_id, status=await runs.cancel(principal.owner, run_id))


@router.post("/{run_id}/resume", response_class=EventStreamResponse, status_code=200, responses=STREAM)
async def resume(
    run_id: RunId,
    body: AnswerBody,
    request: Request,
    principal: TurnStarter,
    idempotency_key: IdempotencyKey = None,
) -> EventStreamResponse:
    """Answer what a run asks; the run that goes on has an id of its own."""
    runs: RunRegistry = request.app.state.gateway.runs
    del idempotency_key  # declared for the schema
    run = await runs.resume(
        principal.owner,
        run_id,
        body.answer,
        cancel_on_disconnect=body.on_disconnect == "cancel",
        key=await body_key(request, principal),
    )
    return followed(runs, run, 0)
