"""``/lg/threads``: the conversations of the user, their states and their history."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from typing import Any, Final, Literal

from fastapi import APIRouter, Request, Response
from langgraph.constants import END
from langgraph.errors import InvalidUpdateError
from pydantic import Field

from threadkeep.errors import ConflictError, ThreadkeepError
from threadkeep.gateway.bodies import NewId, RequestBody, as_object
from threadkeep.gateway.events import interrupts_body
from threadkeep.gateway.inputs import ChatUser, ThreadPath, User, checkpoint_not_found
from threadkeep.gateway.langgraph_api import states
from threadkeep.gateway.langgraph_api.assistants import graph_metadata
from threadkeep.gateway.langgraph_api.calls import require_nodes, require_values
from threadkeep.gateway.langgraph_api.events import error_body
from threadkeep.gateway.langgraph_api.states import CheckpointBody, Names, Page, PlacedBody, RowsBody, answer
from threadkeep.gateway.public_errors import ProblemError
from threadkeep.ids import new_id

router = APIRouter(prefix="/threads")

_PAGE: Final = 100
_MAX_THREADS: Final = 10_000
"""How many threads a search looks at."""

_STATES_AT_ONCE: Final = 8


class GraphThreadBody(RequestBody):
    """A thread to create."""

    thread_id: NewId | None = None
    metadata: dict[str, Any] | None = None
    if_exists: Literal["raise", "do_nothing"] | None = None


class MetadataBody(RequestBody):
    """A change of a thread."""

    metadata: dict[str, Any] = Field(default={})


class CountBody(RequestBody):
    """Which threads to count."""

    metadata: dict[str, Any] | None = None
    values: dict[str, Any] | None = None
    status: Literal["idle", "busy", "interrupted", "error"] | None = None


class SearchBody(CountBody, RowsBody):
    """Which threads to list, in which order, and what of each."""

    ids: list[NewId] | None = None
    sort_by: Literal["thread_id", "status", "created_at", "updated_at", "state_updated_at"] | None = None


class StateAtBody(RequestBody):
    """Which state to read."""

    checkpoint: CheckpointBody
    subgraphs: bool = False
    select: list[str] | None = None


class UpdateBody(PlacedBody):
    """A change of a thread's state."""

    values: dict[str, Any] | list[dict[str, Any]] | None = None
    as_node: str | None = None


class StatesBody(RequestBody):
    """Which states to list."""

    limit: Page = 10
    before: CheckpointBody | str | dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    checkpoint: CheckpointBody | None = None
    select: list[str] | None = None


@router.post("")
async def create(body: GraphThreadBody, user: User) -> Response:
    """Create a thread."""
    thread_id = body.thread_id or new_id()
    try:
        await user.tk.threads.create(thread_id, metadata=body.metadata)
    except ConflictError:
        if body.if_exists != "do_nothing":
            raise
    return await show(thread_id, user)


@router.post("/search")
async def search(body: SearchBody, user: User) -> Response:
    """List threads, the last turn first."""
    descends, end = body.sort_order != "asc", body.offset + body.limit
    by = None if body.sort_by in ("updated_at", "state_updated_at") else body.sort_by
    is_sorted = descends and by is None  # as threads are listed
    found: list[Any] = []
    async for thread in _matching(user, body, body.ids):
        found.append(thread)
        if is_sorted and len(found) >= end:
            break
    if not is_sorted:
        found.sort(key=lambda one: str(getattr(one, by) if by else _updated_at(one)), reverse=descends)
    rows: list[dict[str, Any]] = []
    for start in range(body.offset, min(end, len(found)), _STATES_AT_ONCE):
        some = found[start : min(end, start + _STATES_AT_ONCE)]
        rows += await asyncio.gather(*(_thread(user, thread, body.select) for thread in some))
    return answer(rows)


@router.post("/count")
async def count(body: CountBody, user: User) -> int:
    """Count threads."""
    return sum([1 async for _ in _matching(user, body)])


@router.get("/{thread_id}")
async def show(thread_id: ThreadPath, user: User) -> Response:
    """Return a thread."""
    return answer(await _thread(user, await user.tk.threads.require(thread_id)))


@router.patch("/{thread_id}")
async def change(thread_id: ThreadPath, body: MetadataBody, request: Request, user: User) -> Response:
    """Add to the metadata of a thread."""
    changed = await user.tk.threads.update(thread_id, metadata=body.metadata)
    if "return=minimal" in request.headers.get("prefer", ""):
        return Response(status_code=204)
    return answer(await _thread(user, changed))


@router.delete("/{thread_id}", status_code=204)
async def delete(thread_id: ThreadPath, user: User) -> None:
    """Delete a thread with its checkpoints; runs on it are stopped, and memories that were learnt in it stay."""
    await user.tk.threads.require(thread_id)
    for run in user.runs.of_thread(user.owner, thread_id):
        run.halt("cancelled")
        await run.wait()
    await user.tk.threads.delete([thread_id])


@router.post("/{thread_id}/copy")
async def copy(thread_id: ThreadPath, user: User) -> Response:
    """Copy a thread."""
    threads, target = user.tk.threads, new_id()
    source = await threads.require(thread_id)
    if source.stats.checkpoints:
        await threads.copy(thread_id, target)
        await threads.update(target, title=source.title, metadata=source.metadata)
    else:
        await threads.create(target, title=source.title, metadata=source.metadata)
    return await show(target, user)


@router.get("/{thread_id}/state")
@router.get("/{thread_id}/state/{checkpoint_id}")
async def show_state(
    thread_id: ThreadPath,
    user: User,
    checkpoint_id: str | None = None,
    select: Names = None,
    *,
    subgraphs: bool = False,
) -> Response:
    """Return the state of a thread: the newest, or that of a checkpoint."""
    place = CheckpointBody(checkpoint_id=checkpoint_id)
    return await show_state_at(thread_id, StateAtBody(checkpoint=place, subgraphs=subgraphs, select=select), user)


@router.post("/{thread_id}/state/checkpoint")
async def show_state_at(thread_id: ThreadPath, body: StateAtBody, user: User) -> Response:
    """Return the state of a thread at a checkpoint, also of a subgraph."""
    keys = body.checkpoint.keys(thread_id)
    await user.find_checkpoint(thread_id, **keys)
    try:
        state = await user.state(thread_id, subgraphs=body.subgraphs, **keys)
    except ThreadkeepError:
        raise
    except ValueError as error:
        raise checkpoint_not_found() from error  # there is no such subgraph
    return answer(states.state_body(state, body.select))


@router.post("/{thread_id}/state")
async def update_state(thread_id: ThreadPath, body: UpdateBody, user: User) -> Response:
    """Change the state of a thread, as if a node had."""
    keys = body.place.keys(thread_id)
    stored = await user.find_checkpoint(thread_id, **keys)
    require_nodes(user.graph, () if body.as_node in (None, END) else [body.as_node])
    require_values(user.graph, body.values if isinstance(body.values, list) else [body.values], stored)
    try:
        written = await user.graph.aupdate_state(user.config(thread_id, **keys), body.values, as_node=body.as_node)
    except ThreadkeepError:
        raise
    except (InvalidUpdateError, TypeError, ValueError, KeyError) as error:
        detail = f"The graph does not take these values, or has no such node ({type(error).__name__})."
        raise ProblemError(422, "input_invalid", detail) from error
    named = states.checkpoint_body(written)
    return answer({"checkpoint": named, "configurable": named, "checkpoint_id": named and named["checkpoint_id"]})


@router.get("/{thread_id}/history")
async def list_history(thread_id: ThreadPath, user: User, limit: Page = 10, before: str | None = None) -> Response:
    """List the states of a thread, newest first."""
    return await search_history(thread_id, StatesBody(limit=limit, before=before), user)


@router.post("/{thread_id}/history")
async def search_history(thread_id: ThreadPath, body: StatesBody, user: User) -> Response:
    """List the states of a thread, newest first."""
    before = _before(body.before).keys(thread_id) if body.before else None
    within = {"checkpoint_ns": body.checkpoint.checkpoint_ns or ""} if body.checkpoint else {}
    found = user.history(thread_id, limit=body.limit, before=before, metadata=body.metadata, **within)
    return answer([states.state_body(state, body.select) async for state in found])


def _before(before: CheckpointBody | str | dict[str, Any]) -> CheckpointBody:
    """Return the checkpoint that a history ends before: given as such, by its id, or as a config."""
    if isinstance(before, CheckpointBody):
        return before
    keys = before.get("configurable") if isinstance(before, dict) else {"checkpoint_id": before}
    named = as_object(keys).get("checkpoint_id")
    if not isinstance(named, str):
        raise ProblemError(422, "input_invalid", "before names no checkpoint.")
    return CheckpointBody(checkpoint_id=named)


async def _matching(user: ChatUser, body: CountBody, ids: Collection[str] | None = None) -> AsyncIterator[Any]:
    """Yield the threads that *body* asks for, the last turn first."""
    always, running = graph_metadata(user.graph), user.running_threads()
    seen, cursor = 0, None
    while seen < _MAX_THREADS:
        page = await user.tk.threads.list(limit=_PAGE, cursor=cursor)
        for thread in page:
            fits = body.status in (None, _status(running, thread)) and (ids is None or thread.thread_id in ids)
            if not fits or not _holds({**always, **thread.metadata}, body.metadata or {}):
                continue
            if not body.values or _holds((await user.state(thread.thread_id)).values, body.values):
                yield thread
        seen, cursor = seen + len(page), page.cursor
        if cursor is None:
            return


def _holds(value: Any, wanted: Any) -> bool:
    """Return whether *value* is what is *wanted*; of an object, whether it has all of that."""
    held, parts = as_object(value), as_object(wanted).items()
    if not isinstance(wanted, Mapping):
        return value == wanted
    return isinstance(value, Mapping) and all(key in held and _holds(held[key], part) for key, part in parts)


def _updated_at(thread: Any) -> Any:
    return thread.last_turn_at or thread.created_at


def _status(running: Collection[str], thread: Any) -> str:
    return "busy" if thread.thread_id in running else thread.status


async def _thread(user: ChatUser, thread: Any, select: list[str] | None = None) -> dict[str, Any]:
    updated, runs = _updated_at(thread), user.runs.of_thread(user.owner, thread.thread_id)
    failure = runs[0].failure if runs and thread.status == "error" else None  # if this process keeps it
    body: dict[str, Any] = {
        "thread_id": thread.thread_id,
        "created_at": thread.created_at,
        "updated_at": updated,
        "state_updated_at": updated,
        "metadata": {**graph_metadata(user.graph), **thread.metadata},
        "status": _status(user.running_threads(), thread),
        "config": {"configurable": {}},
        "error": failure and error_body(failure),
        "values": None,
        "interrupts": {},
    }
    if select is None or {"values", "interrupts"} & {*select}:
        state = await user.state(thread.thread_id)
        body["values"] = state.values if state.created_at else None
        body["interrupts"] = {task.id: interrupts_body(task.interrupts) for task in state.tasks if task.interrupts}
    return states.selected(body, select)
