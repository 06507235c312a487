"""``/lg/threads/{id}/runs`` and ``/lg/runs``: begin runs, stream them, wait for them, join them and stop them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import Annotated, Any, Final, Literal, cast
from urllib.parse import quote

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import AfterValidator, Field

from threadkeep.errors import InvalidInputError, RunCancelledError, RunNotFoundError
from threadkeep.gateway.bodies import ID_CHARACTERS, as_object
from threadkeep.gateway.events import HEARTBEAT, encode_event, encode_json
from threadkeep.gateway.idempotency import body_key
from threadkeep.gateway.inputs import ChatUser, LastEventId, RunPath, Starter, ThreadPath, User, restore_slashes
from threadkeep.gateway.langgraph_api.assistants import graph_metadata, require_graph
from threadkeep.gateway.langgraph_api.calls import GraphRunBody, graph_call
from threadkeep.gateway.langgraph_api.events import STATUSES, GraphEvents, error_body
from threadkeep.gateway.langgraph_api.states import Names, Offset, Page, answer, selected
from threadkeep.gateway.run_models import (
    AnyRun,
    ChatRun,
    RunElsewhere,
    TurnRequest,
    event_number,
    token_of_run,
)
from threadkeep.ids import new_id
from threadkeep.models.langchain import question_and_messages

router = APIRouter()
of_thread = APIRouter(prefix="/threads/{thread_id}/runs")
of_run = APIRouter(prefix="/threads/{thread_id}/runs/{run_id}")

_EVENT: Final = re.compile(rb"id: .*\nevent: ([a-z_-]+).*\ndata: .*\n\n")
"""An event, and the name of its mode."""

_STOPPED: Final = (
    "The run was stopped before its end, by a request or by another run on its thread. Read the state of the thread, "
    "which has what the run finished."
)

NewRunThread = Annotated[str | None, Field(max_length=ID_CHARACTERS), AfterValidator(restore_slashes)]
"""The thread of the address; ``None``: the run has one of its own, which is deleted after it."""


async def _begin(request: Request, user: Starter, body: GraphRunBody, thread_id: NewRunThread = None) -> AnyRun:
    """Check what is asked for, and begin it; a request with the ``Idempotency-Key`` of an earlier one gets its run."""
    graph, named = require_graph(user, body.assistant_id), thread_id or new_id()
    creates = thread_id is None or body.if_not_exists == "create"
    stored = await user.find_checkpoint(named, creates=creates, **body.place.keys(named))
    turn = TurnRequest(
        user.owner,
        named,
        _question(body.input),
        cancel_on_disconnect=body.on_disconnect == "cancel",
        call=graph_call(graph, body, named, stored),
        temporary=thread_id is None and body.on_completion != "keep",
    )
    run = await user.runs.begin(turn, key=await body_key(request, user.principal))
    return run if isinstance(run, ChatRun) else await user.runs.locate(user.owner, run.run_id)


async def _locate(thread_id: ThreadPath, run_id: RunPath, user: User) -> AnyRun:
    """Return the run of the address, unless it is on another thread or was undone."""
    run = await user.runs.locate(user.owner, run_id)
    if run.thread_id != thread_id or _is_undone(run):
        raise RunNotFoundError("The run is on another thread, or was undone.")
    return run


Begun = Annotated[AnyRun, Depends(_begin)]
Located = Annotated[AnyRun, Depends(_locate)]
Status = Annotated[str | None, Query(max_length=20)]


@router.post("/runs/stream")
@of_thread.post("/stream")
async def stream(run: Begun, user: Starter) -> Response:
    """Begin a run and stream its events."""
    return _events(user, run, headers=_addresses(run, "stream"))


@router.post("/runs/wait")
@of_thread.post("/wait")
async def wait(run: Begun, user: Starter) -> Response:
    """Begin a run and answer with the state at its end."""
    return _result(user, run)


@of_thread.post("")
async def create(run: Begun, user: Starter) -> Response:
    """Begin a run."""
    return answer(await _run(user, run), headers=_addresses(run))


@of_thread.get("")
async def list_runs(
    thread_id: ThreadPath, user: User, limit: Page = 10, offset: Offset = 0, status: Status = None, select: Names = None
) -> Response:
    """List the runs on a thread that this process keeps, newest first."""
    await user.tk.threads.require(thread_id)
    runs = [await _run(user, run) for run in user.runs.of_thread(user.owner, thread_id) if not _is_undone(run)]
    chosen = [run for run in runs if status in (None, run["status"])][offset : offset + limit]
    return answer([selected(run, select) for run in chosen])


@of_run.get("")
async def show(run: Located, user: User) -> Response:
    """Return a run."""
    return answer(await _run(user, run))


@of_run.get("/stream")
async def join_stream(
    run: Located,
    user: User,
    stream_mode: Names = None,
    last_event_id: LastEventId = "",
    *,
    cancel_on_disconnect: bool = False,
) -> Response:
    """Stream the events of a run behind ``Last-Event-ID``; without it, from the first."""
    # The modes are one for each or one JSON list; the SDK sends an empty text for all of them.
    modes = frozenset(mode for text in stream_mode or () for mode in re.findall(r"[a-z-]+", text))
    after = event_number(last_event_id, run.run_id)
    return _events(user, run, after, modes=modes, cancels=cancel_on_disconnect)


@of_run.get("/join")
async def join(run: Located, user: User) -> Response:
    """Wait for the end of a run and answer with the state."""
    return _result(user, run)


@of_run.post("/cancel")
async def cancel(run: Located, user: User, action: Literal["interrupt", "rollback"] = "interrupt") -> Response:
    """Stop a run, and answer after its end; *rollback*: undo what it wrote, too."""
    await user.runs.cancel(user.owner, run.run_id, undo=action == "rollback")
    return answer({}, status=HTTPStatus.ACCEPTED)


for _part in (of_thread, of_run):
    router.include_router(_part)


def _question(given: Any) -> str | None:
    """Return the text of the user's newest message in an input; the first one of a thread gives it its title."""
    messages: Any = as_object(given).get("messages")
    alone = as_object(messages)
    with suppress(InvalidInputError):  # the graph may keep other things under the name
        return question_and_messages([alone] if alone else messages)[0]
    return None


def _events(
    user: ChatUser, run: AnyRun, after: int = 0, *, modes: frozenset[str] = frozenset(), **options: Any
) -> Response:
    """Return the response that sends the events of *run*; the state is in place of those that are not kept."""

    async def newest(number: int) -> bytes:
        event_id = f"{run.run_id}:{number}"
        if isinstance(run, ChatRun):
            return encode_event(event_id, "values", (await user.state(run.thread_id)).values)
        values = await _values_elsewhere(user, run)
        if error := as_object(values).get("__error__"):
            return encode_event(event_id, "error", error)
        return encode_event(event_id, "values", values) + encode_event(event_id, "end", {"run_id": run.run_id})

    through = partial(_only, modes=modes) if modes else None
    return user.follow(run, after, reset=newest, waits=True, through=through, **options)


async def _only(chunks: AsyncIterator[bytes], modes: frozenset[str]) -> AsyncIterator[bytes]:
    """Yield the events of some modes, and those that every client reads."""
    kept = {*(mode.partition("-")[0].encode() for mode in modes), b"metadata", b"error", b"end"}
    async for chunk in chunks:
        chosen = b"".join(event[0] for event in _EVENT.finditer(chunk) if event[1] in kept)
        if chosen or chunk == HEARTBEAT:
            yield chosen or chunk


def _result(user: ChatUser, run: AnyRun) -> Response:
    """Return the response that sends the state at the end of *run*, after white space while it lasts."""

    async def nothing(_: int) -> bytes:
        return b""

    async def through(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for chunk in chunks:
            if chunk == HEARTBEAT:
                yield b"\n"
        values = _values(run) if isinstance(run, ChatRun) else await _values_elsewhere(user, run)
        yield encode_json(values).encode()

    after = run.buffer.last if isinstance(run, ChatRun) else 0
    kind: dict[str, Any] = {"headers": _addresses(run, "join"), "media_type": "application/json"}
    return user.follow(run, after, reset=nothing, waits=True, through=through, **kind)


def _values(run: ChatRun) -> Any:
    """Return what a client gets that waits for the end of *run*."""
    if run.failure is not None:
        return {"__error__": error_body(run.failure)}
    if run.status not in ("done", "interrupted"):  # its newest values may be in no checkpoint: another run goes on
        return {"__error__": error_body(RunCancelledError(_STOPPED))}
    values: Any = None
    asked = run.events.interrupts
    if isinstance(run.events, GraphEvents):
        values, asked = run.events.values, run.events.asked
    if asked and isinstance(values, dict | None):
        fields = as_object(cast("object", values))
        return {**fields, "__interrupt__": asked}  # the values may have the last of several
    return values


async def _values_elsewhere(user: ChatUser, run: RunElsewhere) -> Any:
    """Return what a client gets that waits for the end of a run of another process: by what its thread keeps of it."""
    last = await user.runs.view.last_checkpoint(user.owner, run.thread_id, token_of_run(run.run_id))
    state = await user.state(run.thread_id)
    moved_on = as_object(as_object(state.config).get("configurable")).get("checkpoint_id") != last
    if last is not None and moved_on:
        state = await user.state(run.thread_id, checkpoint_id=last)
    if last is None or (moved_on and state.next and not state.interrupts):
        return {"__error__": error_body(RunCancelledError(_STOPPED))}
    return state.values


async def _run(user: ChatUser, run: AnyRun) -> dict[str, Any]:
    call, metadata = None, graph_metadata(user.graph)
    if isinstance(run, ChatRun):
        call, status, created_at, updated_at = run.request.call, _status(run), run.created_at, run.updated_at
    else:
        thread = await user.tk.threads.require(run.thread_id)
        running = await user.runs.is_at_work(user.owner, run.run_id)
        status = "running" if running else STATUSES.get(thread.status, thread.status)
        created_at, updated_at = thread.created_at, thread.last_turn_at
    return {
        "run_id": run.run_id,
        "thread_id": run.thread_id,
        "assistant_id": metadata["assistant_id"],
        "status": status,
        "created_at": created_at,
        "updated_at": updated_at,
        "metadata": call.config["metadata"] if call else metadata,
        "kwargs": {},
        "multitask_strategy": call.strategy if call else "enqueue",
    }


def _status(run: ChatRun) -> str:
    if run.status != "running":
        return STATUSES.get(run.status, run.status)
    return "interrupted" if run.stop else "running" if run.began.is_set() else "pending"


def _is_undone(run: AnyRun) -> bool:
    return isinstance(run, ChatRun) and run.stop == "undone" and run.status != "running"


def _addresses(run: AnyRun, then: str = "") -> dict[str, str]:
    """Return the headers with the address of a run, below the base that clients of the API know."""
    address = f"/threads/{quote(run.thread_id, safe='')}/runs/{run.run_id}"
    return {"Content-Location": address} | ({"Location": f"{address}/{then}"} if then else {})
