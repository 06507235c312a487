"""``POST /chat/stream``: a turn of the agent, as server-sent events."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Header, Request
from pydantic import BaseModel, ConfigDict, Field, field_validator

from threadkeep.gateway.auth import require
from threadkeep.gateway.events import EventStreamResponse
from threadkeep.gateway.principals import Principal
from threadkeep.gateway.runs import ChatRun, RunRegistry, TurnRequest
from threadkeep.ids import new_id

router = APIRouter(tags=["chat"])

MESSAGE_CHARACTERS = 64_000
ID_CHARACTERS = 1000

IdempotencyKey = Annotated[str | None, Header(min_length=1, max_length=200)]
Chatting = Annotated[Principal, Depends(require("chat"))]

STREAM: dict[int | str, dict[str, Any]] = {
    200: {"description": "The events of the run.", "content": {"text/event-stream": {}}}
}


def without_nul(text: str | None) -> str | None:
    """Return *text*.

    Raises:
        ValueError: It holds a NUL character, which not every storage keeps.
    """
    if text is not None and "\x00" in text:
        msg = "must hold no NUL character"
        raise ValueError(msg)
    return text


class ChatBody(BaseModel):
    """A turn.

    Attributes:
        message: What the user says.
        thread_id: The conversation; without one, a new one begins.
        memory: Whether the agent uses and learns memories in this turn.
        on_disconnect: Whether the run continues if the client disconnects.
    """

    model_config = ConfigDict(extra="forbid")

    message: str = Field(min_length=1, max_length=MESSAGE_CHARACTERS)
    thread_id: str | None = Field(default=None, min_length=1, max_length=ID_CHARACTERS)
    memory: Literal["on", "off"] = "on"
    on_disconnect: Literal["continue", "cancel"] = "continue"

    _no_nul = field_validator("message", "thread_id")(without_nul)


@router.post("/chat/stream", response_class=EventStreamResponse, responses=STREAM)
async def stream(
    body: ChatBody, request: Request, principal: Chatting, idempotency_key: IdempotencyKey = None
) -> EventStreamResponse:
    """Run a turn and stream its events; the events end some seconds after ``done``."""
    runs: RunRegistry = request.app.state.gateway.runs
    turn = TurnRequest(
        principal.owner,
        body.thread_id or new_id(),
        body.message,
        memory=body.memory == "on",
        cancel_on_disconnect=body.on_disconnect == "cancel",
    )
    return followed(runs, await runs.begin(turn, idempotency_key=idempotency_key), 0)


def followed(runs: RunRegistry, run: ChatRun, after: int) -> EventStreamResponse:
    """Return the response that sends the events of *run* behind number *after*."""
    runs.enter(run)
    return EventStreamResponse(runs.follow(run, after), lambda _: runs.leave(run))
