"""``/lg/threads/{id}/runs`` and ``/lg/runs``: begin runs, stream them, wait for them, join them and stop them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from http import HTTPStatus
from typing import Annotated, Any, Final, Literal, cast
from urllib.parse import quote

from fastapi import APIRouter, Header, Path, Query, Request
from fastapi.responses import Response

from threadkeep.errors import RunNotFoundError
from threadkeep.gateway.events import HEARTBEAT, EventStreamResponse, encode_event, encode_json
from threadkeep.gateway.idempotency import body_key
from threadkeep.gateway.langgraph_api.assistants import assistant_id, graph_metadata, require_graph
from threadkeep.gateway.langgraph_api.bodies import GraphRunBody
from threadkeep.gateway.langgraph_api.calls import graph_call, require_fitting
from threadkeep.gateway.langgraph_api.events import GraphEvents
from threadkeep.gateway.langgraph_api.states import config_at, find_checkpoint, run_values
from threadkeep.gateway.principals import Principal
from threadkeep.gateway.routers.chat import Chatting, TurnStarter
from threadkeep.gateway.routers.threads import ThreadPath
from threadkeep.gateway.run_models import ChatRun, RunElsewhere, TurnRequest, event_number, thread_of_run
from threadkeep.gateway.runs import RunRegistry
from threadkeep.ids import new_id

router = APIRouter()

RunPath = Annotated[str, Path(min_length=1, max_length=6_000)]

_STATUSES: Final = {"running": "running", "done": "success", "interrupted": "success", "cancelled": "interrupted"}
_ELSEWHERE: Final = {"idle": "success", "interrupted": "success", "error": "error"}


@router.post("/threads/{thread_id}/runs/stream")
async def stream(thread_id: ThreadPath, body: GraphRunBody, request: Request, principal: TurnStarter) -> Response:
    """Begin a run and stream its events."""
    run = await _begin(request, principal, body, thread_id)
    return await _events_of(request, principal, run)


@router.post("/threads/{thread_id}/runs/wait")
async def wait(thread_id: ThreadPath, body: GraphRunBody, request: Request, principal: TurnStarter) -> Response:
    """Begin a run and answer with the state at its end."""
    run = await _begin(request, principal, body, thread_id)
    return await _result_of(request, principal, run)


@router.post("/threads/{thread_id}/runs")
async def create(thread_id: ThreadPath, body: GraphRunBody, request: Request, principal: TurnStarter) -> Response:
    """Begin a run."""
    run = await _begin(request, principal, body, thread_id)
    if isinstance(run, RunElsewhere):
        return _answer(await _run_elsewhere(request, principal, run.thread_id, run.run_id))
    return _answer(_run(request, run), {"Content-Location": _place(run)})


@router.post("/runs/stream")
async def stream_once(body: GraphRunBody, request: Request, principal: TurnStarter) -> Response:
    """Run on a thread of its own, which is deleted after it, and stream the events."""
    run = await _begin(request, principal, body, None)
    return await _events_of(request, principal, run)


@router.post("/runs/wait")
async def wait_once(body: GraphRunBody, request: Request, principal: TurnStarter) -> Response:
    """Run on a thread of its own, which is deleted after it, and answer with the state at its end."""
    run = await _begin(request, principal, body, None)
    return await _result_of(request, principal, run)


@router.get("/threads/{thread_id}/runs")
async def list_runs(
    thread_id: ThreadPath,
    request: Request,
    principal: Chatting,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 10,
    offset: Annotated[int, Query(ge=0)] = 0,
    status: Annotated[str | None, Query(max_length=20)] = None,
    select: Annotated[list[str] | None, Query()] = None,
) -> Response:
    """List the runs on a thread that this process keeps, newest first."""
    await _mine(request, principal).threads.require(thread_id)
    runs = [
        _run(request, run) for run in _registry(request).of_thread(principal.owner, thread_id) if not _is_undone(run)
    ]
    chosen = [run for run in runs if status in (None, run["status"])][offset : offset + limit]
    return _answer([{key: run[key] for key in run if select is None or key in select} for run in chosen])


@router.get("/threads/{thread_id}/runs/{run_id}")
async def show(thread_id: ThreadPath, run_id: RunPath, request: Request, principal: Chatting) -> Response:
    """Return a run."""
    run = _find(request, principal, thread_id, run_id)
    if run is not None:
        return _answer(_run(request, run))
    return _answer(await _run_elsewhere(request, principal, thread_id, run_id))


@router.get("/threads/{thread_id}/runs/{run_id}/stream")
async def join_stream(
    thread_id: ThreadPath,
    run_id: RunPath,
    request: Request,
    principal: Chatting,
    stream_mode: Annotated[list[str] | None, Query()] = None,
    last_event_id: Annotated[str, Header(max_length=7_000)] = "",
    *,
    cancel_on_disconnect: bool = False,
) -> Response:
    """Stream the events of a run behind ``Last-Event-ID``; without it, from the first."""
    run = _find(request, principal, thread_id, run_id)
    if run is None:
        return await _events_of(request, principal, RunElsewhere(principal.owner, run_id, thread_id))
    after = event_number(last_event_id, run_id)
    modes = _modes_of(stream_mode or ())
    return _events(request, run, after, {}, modes=modes, cancel=cancel_on_disconnect)


@router.get("/threads/{thread_id}/runs/{run_id}/join")
async def join(thread_id: ThreadPath, run_id: RunPath, request: Request, principal: Chatting) -> Response:
    """Wait for the end of a run and answer with the state."""
    run = _find(request, principal, thread_id, run_id)
    return await _result_of(request, principal, run or RunElsewhere(principal.owner, run_id, thread_id))


@router.post("/threads/{thread_id}/runs/{run_id}/cancel")
async def cancel(
    thread_id: ThreadPath,
    run_id: RunPath,
    request: Request,
    principal: Chatting,
    action: Literal["interrupt", "rollback"] = "interrupt",
    *,
    wait: bool = False,
) -> Response:
    """Stop a run; *rollback*: undo what it wrote, too."""
    del wait  # the answer always comes after the end
    run = _find(request, principal, thread_id, run_id)
    if run is None:
        await _run_elsewhere(request, principal, thread_id, run_id)
    await _registry(request).cancel(principal.owner, run_id, undo=action == "rollback")
    return _answer({}, status=HTTPStatus.ACCEPTED)


async def _begin(
    request: Request, principal: Principal, body: GraphRunBody, thread_id: str | None
) -> ChatRun | RunElsewhere:
    """Check what is asked for, and begin it; ``None``: on a new thread.

    A request with the ``Idempotency-Key`` of an earlier one gets the run of that one.
    """
    gateway = request.app.state.gateway
    graph = require_graph(request, body.assistant_id)
    named, temporary = thread_id or new_id(), thread_id is None and body.on_completion != "keep"
    creates = thread_id is None or body.if_not_exists == "create"
    stored = await find_checkpoint(gateway, principal.owner, named, body.place(), creates=creates)
    call = graph_call(graph, body, named)
    require_fitting(graph, body, stored)
    turn = TurnRequest(
        principal.owner,
        named,
        _question(body.input),
        cancel_on_disconnect=body.on_disconnect == "cancel",
        call=call,
        temporary=temporary,
    )
    return await gateway.runs.begin(turn, key=await body_key(request, principal))


def _question(given: Any) -> str | None:
    """Return the text of the newest message of an input; the first one of a thread gives it its title."""
    messages: Any = cast("Mapping[str, Any]", given).get("messages") if isinstance(given, Mapping) else None
    last: Any = messages
    if isinstance(messages, list):
        last = cast("list[Any]", messages)[-1] if messages else None
    content: Any = cast("Mapping[str, Any]", last).get("content") if isinstance(last, Mapping) else last
    if isinstance(content, list):
        parts = [cast("Mapping[str, Any]", part) for part in cast("list[Any]", content) if isinstance(part, Mapping)]
        content = " ".join(str(part.get("text", "")) for part in parts)
    return content if isinstance(content, str) else None


async def _events_of(request: Request, principal: Principal, run: ChatRun | RunElsewhere) -> EventStreamResponse:
    """Return the response that sends the events of a run, or the state if this process does not keep the run."""
    if isinstance(run, ChatRun):
        return _events(request, run, 0, _places(run, "stream"))
    await _run_elsewhere(request, principal, run.thread_id, run.run_id)
    return EventStreamResponse(_newest(request, run.owner, run.thread_id, run.run_id, 0), lambda _: None)


async def _result_of(request: Request, principal: Principal, run: ChatRun | RunElsewhere) -> Response:
    """Return the response that sends the state at the end of a run, or now if this process does not keep the run."""
    if isinstance(run, ChatRun):
        return _result(request, run, _places(run, "join"))
    await _run_elsewhere(request, principal, run.thread_id, run.run_id)
    return _answer((await _state(request, run.owner, run.thread_id)).values)


def _events(
    request: Request,
    run: ChatRun,
    after: int,
    headers: dict[str, str],
    *,
    modes: frozenset[str] = frozenset(),
    cancel: bool = False,
) -> EventStreamResponse:
    """Return the response that sends the events of *run* behind number *after*."""
    runs = _registry(request)
    runs.enter(run)

    def leave(left: bool) -> None:  # noqa: FBT001 - what EventStreamResponse calls
        runs.leave(run)
        if left and cancel:
            run.halt("cancelled")

    async def newest(number: int) -> bytes:
        parts = _newest(request, run.request.owner, run.request.thread_id, run.run_id, number, ends=False)
        return b"".join([part async for part in parts])

    chunks = runs.follow(run, after, reset=newest)
    return EventStreamResponse(_only(chunks, modes) if modes else chunks, leave, headers=headers)


async def _only(chunks: AsyncIterator[bytes], modes: frozenset[str]) -> AsyncIterator[bytes]:
    """Yield the events of some modes, and those that every client reads."""
    kept = {mode.partition("-")[0] for mode in modes} | {"metadata", "error", "end"}
    async for chunk in chunks:
        events = [event for event in chunk.split(b"\n\n") if event]
        chosen = [event for event in events if event.startswith(b":") or _mode_of(event) in kept]
        if chosen:
            yield b"\n\n".join(chosen) + b"\n\n"


def _modes_of(named: Sequence[str]) -> frozenset[str]:
    """Return the modes of a query, once for each or as one JSON list; the SDK sends an empty text for all of them."""
    return frozenset(mode for text in named for mode in re.findall(r"[a-z-]+", text))


def _mode_of(event: bytes) -> str:
    name = event.split(b"\n", 2)[1].removeprefix(b"event: ").decode("ascii")
    return name.partition("|")[0].partition("/")[0]


async def _newest(
    request: Request, owner: Any, thread_id: str, run_id: str, number: int, *, ends: bool = True
) -> AsyncIterator[bytes]:
    """Yield the state of the thread, in place of events that this process does not keep."""
    state = await _state(request, owner, thread_id)
    yield encode_event(f"{run_id}:{number}", "values", state.values)
    if ends:
        yield encode_event(f"{run_id}:{number}", "end", {"run_id": run_id})


def _result(request: Request, run: ChatRun, headers: dict[str, str]) -> EventStreamResponse:
    """Return the response that sends the state at the end of *run*, after white space while it lasts."""
    runs = _registry(request)
    runs.enter(run)

    async def chunks() -> AsyncIterator[bytes]:
        async for chunk in runs.follow(run, run.buffer.last):
            if chunk == HEARTBEAT:
                yield b"\n"
        events = run.events
        values = events.values if isinstance(events, GraphEvents) else None
        yield run_values(values, events.interrupts, run.failure)

    return EventStreamResponse(chunks(), lambda _: runs.leave(run), headers=headers, media_type="application/json")


def _run(request: Request, run: ChatRun) -> dict[str, Any]:
    graph, call = request.app.state.gateway.graph, run.request.call
    status = _STATUSES.get("cancelled" if run.stop and run.status == "running" else run.status, run.status)
    return {
        "run_id": run.run_id,
        "thread_id": run.request.thread_id,
        "assistant_id": assistant_id(graph),
        "metadata": graph_metadata(graph) if call is None else call.config["metadata"],
        "status": "pending" if status == "running" and not run.began.is_set() else status,
        "kwargs": {},
        "multitask_strategy": "enqueue" if call is None else call.strategy,
        "created_at": run.created_at,
        "updated_at": run.updated_at,
    }


async def _run_elsewhere(request: Request, principal: Principal, thread_id: str, run_id: str) -> dict[str, Any]:
    """Return what is known of a run that this process does not keep.

    Raises:
        RunNotFoundError: It is none of this thread, or the user has no such thread.
    """
    thread = await _mine(request, principal).threads.get(thread_id)
    if thread is None or thread_of_run(run_id) != thread_id:
        raise _not_found()
    graph = request.app.state.gateway.graph
    times = {"created_at": thread.created_at, "updated_at": thread.last_turn_at}
    about = {"run_id": run_id, "thread_id": thread_id, "assistant_id": assistant_id(graph), **times}
    more = {"metadata": graph_metadata(graph), "kwargs": {}, "multitask_strategy": "enqueue"}
    return {**about, **more, "status": _ELSEWHERE[thread.status]}


def _find(request: Request, principal: Principal, thread_id: str, run_id: str) -> ChatRun | None:
    """Return a run on a thread that this process keeps.

    Raises:
        RunNotFoundError: It is on another thread, or was undone.
    """
    run = _registry(request).find(principal.owner, run_id)
    if run is not None and (run.request.thread_id != thread_id or _is_undone(run)):
        raise _not_found()
    return run


def _is_undone(run: ChatRun) -> bool:
    return run.stop == "undone" and run.status != "running"


def _not_found() -> RunNotFoundError:
    msg = "There is no such run; it never was, or ended too long ago."
    return RunNotFoundError(msg)


def _place(run: ChatRun) -> str:
    return f"/threads/{quote(run.request.thread_id, safe='')}/runs/{run.run_id}"


def _places(run: ChatRun, how: str) -> dict[str, str]:
    """Return the headers with the addresses of a run, below the base that clients of the API know."""
    return {"Content-Location": _place(run), "Location": f"{_place(run)}/{how}"}


async def _state(request: Request, owner: Any, thread_id: str) -> Any:
    gateway = request.app.state.gateway
    return await gateway.graph.aget_state(config_at(gateway, owner, thread_id))


def _registry(request: Request) -> RunRegistry:
    return request.app.state.gateway.runs


def _mine(request: Request, principal: Principal) -> Any:
    return request.app.state.gateway.tk.for_owner(principal.owner)


def _answer(value: Any, headers: dict[str, str] | None = None, *, status: int = 200) -> Response:
    return Response(encode_json(value), status, headers, "application/json")
