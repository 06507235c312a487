"""``POST /chat/stream``: a turn of the agent, as server-sent events."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Annotated, Any, Final, Literal, Self

from fastapi import APIRouter, Header, Request
from fastapi.exceptions import RequestValidationError
from pydantic import AfterValidator, Field, ValidationError, model_validator
from starlette.datastructures import FormData
from starlette.formparsers import FormParser, MultiPartException, MultiPartParser
from typing_extensions import override

from threadkeep.gateway.bodies import ID_CHARACTERS, MESSAGE_CHARACTERS, NewId, RequestBody, refuse_nul
from threadkeep.gateway.event_buffer import MAX_BYTES
from threadkeep.gateway.events import KINDS, EventStreamResponse
from threadkeep.gateway.idempotency import KEY_CHARACTERS, body_key, request_key
from threadkeep.gateway.inputs import ChatUser, Starter
from threadkeep.gateway.public_errors import ProblemError
from threadkeep.gateway.run_models import TurnRequest
from threadkeep.gateway.uploads import (
    MAX_FILE_BYTES,
    MAX_FILES,
    read_upload,
    require_total,
)
from threadkeep.ids import new_id

router = APIRouter(tags=["chat"])

CHECKPOINT_CHARACTERS = 100
FORM_BYTES: Final = MAX_FILES * MAX_FILE_BYTES + 1_000_000
_FIELDS: Final = 10

CheckpointId = Annotated[str, Field(min_length=1, max_length=CHECKPOINT_CHARACTERS), AfterValidator(refuse_nul)]
IdempotencyKey = Annotated[str | None, Header(min_length=1, max_length=KEY_CHARACTERS)]

FORM: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["message"],
    "properties": {
        "message": {"type": "string", "minLength": 1, "maxLength": MESSAGE_CHARACTERS},
        "thread_id": {"type": "string", "minLength": 1, "maxLength": ID_CHARACTERS},
        "checkpoint_id": {"type": "string", "minLength": 1, "maxLength": CHECKPOINT_CHARACTERS},
        "memory": {"type": "string", "enum": ["on", "off"]},
        "on_disconnect": {"type": "string", "enum": ["continue", "cancel"]},
        "files": {
            "type": "array",
            "maxItems": MAX_FILES,
            "items": {"type": "string", "format": "binary", "maxLength": MAX_FILE_BYTES},
        },
    },
}
"""The fields of a turn with files."""

EVENT: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["id", "event", "data"],
    "properties": {
        "id": {"type": "string", "maxLength": 7_000},
        "event": {"type": "string", "enum": [*KINDS]},
        "data": {"type": "string", "contentMediaType": "application/json", "maxLength": MAX_BYTES},
    },
}
"""A server-sent event of a run."""

STREAM: dict[int | str, dict[str, Any]] = {
    200: {"description": "The events of the run.", "content": {"text/event-stream": {"schema": EVENT}}}
}


class ChatBody(RequestBody):
    """A turn.

    Attributes:
        message: What the user says.
        thread_id: The conversation; without one, a new one begins.
        checkpoint_id: The checkpoint of the thread that the turn extends: a branch; without one, the newest.
        memory: Whether the agent uses and learns memories in this turn.
        on_disconnect: Whether the run continues if the client disconnects.
    """

    message: Annotated[str, Field(min_length=1, max_length=MESSAGE_CHARACTERS), AfterValidator(refuse_nul)]
    thread_id: NewId | None = None
    checkpoint_id: CheckpointId | None = None
    memory: Literal["on", "off"] = "on"
    on_disconnect: Literal["continue", "cancel"] = "continue"

    @model_validator(mode="after")
    def _require_thread(self) -> Self:
        if self.checkpoint_id is not None and self.thread_id is None:
            msg = "checkpoint_id needs the thread_id of its thread"
            raise ValueError(msg)
        return self


@router.post("/chat/stream", response_class=EventStreamResponse, status_code=200, responses=STREAM)
async def stream(
    body: ChatBody, request: Request, user: Starter, idempotency_key: IdempotencyKey = None
) -> EventStreamResponse:
    """Run a turn and stream its events; the events end some seconds after ``done``."""
    del idempotency_key  # declared for the schema
    key = await body_key(request, user.principal)
    await _require_checkpoint(user, body)
    return user.follow(await user.runs.begin(_turn(user, body), key=key))


@router.post(
    "/chat/stream_files",
    response_class=EventStreamResponse,
    status_code=200,
    responses=STREAM,
    openapi_extra={"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": FORM}}}},
)
async def stream_files(request: Request, user: Starter, idempotency_key: IdempotencyKey = None) -> EventStreamResponse:
    """Run a turn with files: the fields of ``/chat/stream`` as a form, and up to five ``files``."""
    announced = request.headers.get("content-length", "")
    if not announced.isdecimal() or int(announced) > FORM_BYTES:
        raise ProblemError(413, "too_large", f"The request has more than {FORM_BYTES:,} bytes, or no Content-Length.")
    async with _form(request) as form:
        fields = {name: value for name, value in form.multi_items() if name != "files" or isinstance(value, str)}
        uploads = [file for name, file in form.multi_items() if name == "files" and not isinstance(file, str)]
        if repeated := [name for name in fields if len(form.getlist(name)) > 1]:
            raise ProblemError(
                422, "input_invalid", f"The form has more than one field {repeated[0][:100]!r}; send one."
            )
        try:
            body = ChatBody.model_validate(fields)
        except ValidationError as error:
            raise RequestValidationError(error.errors(include_input=False, include_url=False), body=fields) from error
        documents = [await read_upload(file.filename or "", await file.read(), user.runs.children) for file in uploads]
    require_total(documents)
    await _require_checkpoint(user, body)
    turn = replace(_turn(user, body), documents=tuple(documents))
    del idempotency_key  # declared for the schema
    texts = [part for document in documents for part in (document.name, document.text)]
    key = request_key(request, user.principal, body.model_dump_json(), *texts)
    return user.follow(await user.runs.begin(turn, key=key))


async def _require_checkpoint(user: ChatUser, body: ChatBody) -> None:
    """Refuse a turn on a checkpoint that is not there: the graph would begin a thread without its messages."""
    if body.checkpoint_id is not None and body.thread_id is not None:
        await user.tk.threads.messages(body.thread_id, checkpoint_id=body.checkpoint_id)


@asynccontextmanager
async def _form(request: Request) -> AsyncGenerator[FormData]:
    """Yield the form of a request.

    Raises:
        ProblemError: It is no form, has too many files or fields, or a field is no UTF-8.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    headers, body = request.headers, request.stream()
    if kind == "multipart/form-data":
        parser = _FilesParser(headers, body, max_files=MAX_FILES, max_fields=_FIELDS, max_part_size=FORM_BYTES)
    elif kind == "application/x-www-form-urlencoded":
        parser = FormParser(headers, body, max_fields=_FIELDS, max_part_size=FORM_BYTES)
    else:
        raise ProblemError(422, "input_invalid", "The body is no form; send it with Content-Type: multipart/form-data.")
    try:
        form = await parser.parse()
    except MultiPartException as error:
        raise ProblemError(422, "input_invalid", f"The form is invalid: {error.message}") from error
    try:
        yield form
    finally:
        await form.close()


class _FilesParser(MultiPartParser):
    """Refuses fields that are not UTF-8; Starlette reads them as Latin-1, so other letters would be kept."""

    @override
    def on_part_end(self) -> None:
        part = self._current_part
        if part.file is None:
            try:
                part.data.decode()
            except UnicodeDecodeError as error:
                msg = f"The field {part.field_name[:100]!r} is no UTF-8."
                raise MultiPartException(msg) from error
        super().on_part_end()


def _turn(user: ChatUser, body: ChatBody) -> TurnRequest:
    return TurnRequest(
        user.owner,
        body.thread_id or new_id(),
        body.message,
        checkpoint_id=body.checkpoint_id,
        memory=body.memory == "on",
        cancel_on_disconnect=body.on_disconnect == "cancel",
    )
