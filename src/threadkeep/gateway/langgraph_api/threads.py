"""``/lg/threads``: the conversations of the user, their states and their history."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from typing import Annotated, Any, Final, cast

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from langgraph.errors import InvalidUpdateError

from threadkeep.errors import ConflictError, ThreadkeepError
from threadkeep.gateway.events import encode_json
from threadkeep.gateway.langgraph_api.assistants import graph_metadata
from threadkeep.gateway.langgraph_api.bodies import (
    CheckpointBody,
    CountBody,
    GraphThreadBody,
    MetadataBody,
    SearchBody,
    StateAtBody,
    StatesBody,
    UpdateBody,
)
from threadkeep.gateway.langgraph_api.calls import require_update
from threadkeep.gateway.langgraph_api.states import config_at, error_body, find_checkpoint, state_body
from threadkeep.gateway.problems import ProblemError
from threadkeep.gateway.routers.chat import Chatting
from threadkeep.gateway.routers.threads import ThreadPath
from threadkeep.ids import new_id

router = APIRouter(prefix="/threads")

_PAGE: Final = 100
_MAX_THREADS: Final = 10_000
"""How many threads a search looks at."""

_STATES_AT_ONCE: Final = 8


@router.post("")
async def create(body: GraphThreadBody, request: Request, principal: Chatting) -> Response:
    """Create a thread."""
    threads, thread_id = _mine(request, principal).threads, body.thread_id or new_id()
    try:
        await threads.create(thread_id, metadata=body.metadata)
    except ConflictError:
        if body.if_exists != "do_nothing":
            raise
    return _answer(await _thread(request, principal, await threads.require(thread_id)))


@router.post("/search")
async def search(body: SearchBody, request: Request, principal: Chatting) -> Response:
    """List threads, the last turn first."""
    ascending = body.sort_order == "asc"
    found: list[Any] = []
    if body.sort_by in (None, "updated_at", "state_updated_at") and not ascending:
        async for thread in _matching(request, principal, body):
            found.append(thread)
            if len(found) >= body.offset + body.limit:
                break
    else:
        key = {"updated_at": "last_turn_at", "state_updated_at": "last_turn_at"}.get(name := str(body.sort_by), name)
        found = [thread async for thread in _matching(request, principal, body)]
        found.sort(key=lambda thread: str(getattr(thread, key, "")), reverse=not ascending)
    limit = asyncio.Semaphore(_STATES_AT_ONCE)

    async def shown(thread: Any) -> dict[str, Any]:
        async with limit:
            return await _thread(request, principal, thread, body.select)

    page = found[body.offset : body.offset + body.limit]
    return _answer(await asyncio.gather(*(shown(thread) for thread in page)))


@router.post("/count")
async def count(body: CountBody, request: Request, principal: Chatting) -> int:
    """Count threads."""
    return sum([1 async for _ in _matching(request, principal, body)])


@router.get("/{thread_id}")
async def show(thread_id: ThreadPath, request: Request, principal: Chatting) -> Response:
    """Return a thread."""
    return _answer(await _thread(request, principal, await _mine(request, principal).threads.require(thread_id)))


@router.patch("/{thread_id}")
async def change(thread_id: ThreadPath, body: MetadataBody, request: Request, principal: Chatting) -> Response:
    """Add to the metadata of a thread."""
    threads = _mine(request, principal).threads
    changed = await threads.update(thread_id, metadata=body.metadata)
    if "return=minimal" in request.headers.get("prefer", ""):
        return Response(status_code=204)
    return _answer(await _thread(request, principal, changed))


@router.delete("/{thread_id}", status_code=204)
async def delete(thread_id: ThreadPath, request: Request, principal: Chatting) -> None:
    """Delete a thread with its checkpoints; runs on it are stopped, and memories that were learnt in it stay."""
    gateway = request.app.state.gateway
    threads = _mine(request, principal).threads
    await threads.require(thread_id)
    for run in gateway.runs.of_thread(principal.owner, thread_id):
        run.halt("cancelled")
        await run.wait()
    await threads.delete([thread_id])


@router.post("/{thread_id}/copy")
async def copy(thread_id: ThreadPath, request: Request, principal: Chatting) -> Response:
    """Copy a thread."""
    threads = _mine(request, principal).threads
    source, target = await threads.require(thread_id), new_id()
    if source.stats.checkpoints:
        await threads.copy(thread_id, target)
        await threads.update(target, title=source.title, metadata=source.metadata)
    else:
        await threads.create(target, title=source.title, metadata=source.metadata)
    return _answer(await _thread(request, principal, await threads.require(target)))


@router.get("/{thread_id}/state")
@router.get("/{thread_id}/state/{checkpoint_id}")
async def show_state(
    thread_id: ThreadPath,
    request: Request,
    principal: Chatting,
    checkpoint_id: str | None = None,
    select: Annotated[list[str] | None, Query()] = None,
    *,
    subgraphs: bool = False,
) -> Response:
    """Return the state of a thread: the newest, or that of a checkpoint."""
    place = CheckpointBody(checkpoint_id=checkpoint_id)
    body = StateAtBody(checkpoint=place, subgraphs=subgraphs, select=select)
    return await show_state_at(thread_id, body, request, principal)


@router.post("/{thread_id}/state/checkpoint")
async def show_state_at(thread_id: ThreadPath, body: StateAtBody, request: Request, principal: Chatting) -> Response:
    """Return the state of a thread at a checkpoint, also of a subgraph."""
    gateway = request.app.state.gateway
    await find_checkpoint(gateway, principal.owner, thread_id, body.checkpoint)
    config = config_at(gateway, principal.owner, thread_id, body.checkpoint)
    state = await _subgraph_errors(gateway.graph.aget_state(config, subgraphs=body.subgraphs))
    return _answer(state_body(state, thread_id, body.select))


@router.post("/{thread_id}/state")
async def update_state(thread_id: ThreadPath, body: UpdateBody, request: Request, principal: Chatting) -> Response:
    """Change the state of a thread, as if a node had."""
    gateway = request.app.state.gateway
    place = body.checkpoint or CheckpointBody(checkpoint_id=body.checkpoint_id)
    stored = await find_checkpoint(gateway, principal.owner, thread_id, place)
    require_update(gateway.graph, body, stored)
    config = config_at(gateway, principal.owner, thread_id, place)
    try:
        written = await gateway.graph.aupdate_state(config, body.values, as_node=body.as_node)
    except (InvalidUpdateError, TypeError, ValueError, KeyError) as error:
        if isinstance(error, ThreadkeepError):
            raise
        detail = f"The graph does not take these values, or has no such node ({type(error).__name__})."
        raise ProblemError(422, "input_invalid", detail) from error
    keys = written["configurable"]
    named = {"thread_id": thread_id, "checkpoint_ns": keys.get("checkpoint_ns", "")}
    named["checkpoint_id"] = keys["checkpoint_id"]
    return _answer({"checkpoint": named, "configurable": named, "checkpoint_id": keys["checkpoint_id"]})


@router.get("/{thread_id}/history")
async def list_history(
    thread_id: ThreadPath,
    request: Request,
    principal: Chatting,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 10,
    before: str | None = None,
) -> Response:
    """List the states of a thread, newest first."""
    return await search_history(thread_id, StatesBody(limit=limit, before=before), request, principal)


@router.post("/{thread_id}/history")
async def search_history(thread_id: ThreadPath, body: StatesBody, request: Request, principal: Chatting) -> Response:
    """List the states of a thread, newest first."""
    gateway = request.app.state.gateway
    await find_checkpoint(gateway, principal.owner, thread_id)
    place = CheckpointBody(checkpoint_ns=body.checkpoint.checkpoint_ns) if body.checkpoint else None
    config = config_at(gateway, principal.owner, thread_id, place)
    older = config_at(gateway, principal.owner, thread_id, _before(body.before)) if body.before else None
    states = gateway.graph.aget_state_history(config, filter=body.metadata, before=older, limit=body.limit)
    return _answer([state_body(one, thread_id, body.select) async for one in states])


def _before(before: CheckpointBody | str | dict[str, Any] | None) -> CheckpointBody:
    """Return the checkpoint that a history ends before: given as such, by its id, or as a config."""
    if isinstance(before, CheckpointBody):
        return before
    keys: Any = before.get("configurable") if isinstance(before, dict) else {"checkpoint_id": before}
    named: Any = cast("dict[str, Any]", keys).get("checkpoint_id") if isinstance(keys, dict) else None
    if not isinstance(named, str):
        raise ProblemError(422, "input_invalid", "before names no checkpoint.")
    return CheckpointBody(checkpoint_id=named)


async def _subgraph_errors(reading: Any) -> Any:
    try:
        return await reading
    except ValueError as error:
        if isinstance(error, ThreadkeepError):
            raise
        raise ProblemError(404, "checkpoint_not_found", "There is no checkpoint with this id.") from error


async def _matching(request: Request, principal: Chatting, body: CountBody) -> AsyncIterator[Any]:
    """Yield the threads that *body* asks for, the last turn first."""
    gateway, threads = request.app.state.gateway, _mine(request, principal).threads
    always, running = graph_metadata(gateway.graph), gateway.runs.running_threads(principal.owner)
    named = getattr(body, "ids", None)
    ids = None if named is None else frozenset(named)
    seen, cursor = 0, None
    while seen < _MAX_THREADS:
        page = await threads.list(limit=_PAGE, cursor=cursor)
        for thread in page:
            fits = (ids is None or thread.thread_id in ids) and _holds({**always, **thread.metadata}, body.metadata)
            if not fits or body.status not in (None, _status(running, thread)):
                continue
            if body.values is None or _holds(await _values(request, principal, thread.thread_id), body.values):
                yield thread
        seen, cursor = seen + len(page), page.cursor
        if cursor is None:
            return


def _holds(value: Any, wanted: Mapping[str, Any] | None) -> bool:
    """Return whether *value* has all that *wanted* has, also in objects below."""
    if not wanted:
        return True
    if not isinstance(value, Mapping):
        return False
    held = cast("Mapping[str, Any]", value)
    return all(key in held and _fits(held[key], part) for key, part in wanted.items())


def _fits(value: Any, wanted: Any) -> bool:
    return _holds(value, cast("Mapping[str, Any]", wanted)) if isinstance(wanted, Mapping) else value == wanted


async def _values(request: Request, principal: Chatting, thread_id: str) -> Any:
    gateway = request.app.state.gateway
    return (await gateway.graph.aget_state(config_at(gateway, principal.owner, thread_id))).values


def _status(running: Collection[str], thread: Any) -> str:
    return "busy" if thread.thread_id in running else thread.status


def _error(request: Request, principal: Chatting, thread: Any) -> dict[str, str] | None:
    """Return what the newest run failed with, if this process keeps it."""
    runs = request.app.state.gateway.runs.of_thread(principal.owner, thread.thread_id)
    failure = runs[0].failure if runs and thread.status == "error" else None
    return None if failure is None else error_body(failure)


async def _thread(
    request: Request, principal: Chatting, thread: Any, select: list[str] | None = None
) -> dict[str, Any]:
    gateway = request.app.state.gateway
    updated = thread.last_turn_at or thread.created_at
    body: dict[str, Any] = {
        "thread_id": thread.thread_id,
        "created_at": thread.created_at,
        "updated_at": updated,
        "state_updated_at": updated,
        "metadata": {**graph_metadata(gateway.graph), **thread.metadata},
        "status": _status(gateway.runs.running_threads(principal.owner), thread),
        "config": {"configurable": {}},
        "error": _error(request, principal, thread),
        "values": None,
        "interrupts": {},
    }
    if select is None or {"values", "interrupts"} & {*select}:
        state = await gateway.graph.aget_state(config_at(gateway, principal.owner, thread.thread_id))
        body["values"] = state.values if state.created_at else None
        asked = {task.id: [{"id": one.id, "value": one.value} for one in task.interrupts] for task in state.tasks}
        body["interrupts"] = {task_id: questions for task_id, questions in asked.items() if questions}
    return {key: value for key, value in body.items() if select is None or key in select}


def _mine(request: Request, principal: Chatting) -> Any:
    return request.app.state.gateway.tk.for_owner(principal.owner)


def _answer(value: Any) -> Response:
    return Response(encode_json(value), media_type="application/json")
