"""What the routes share: pages of rows, checkpoints of a thread, and its state as LangGraph's API shows it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Any, Final, Literal

from fastapi import Query, Response
from pydantic import Field

from threadkeep.gateway.bodies import RequestBody, as_object
from threadkeep.gateway.events import encode_json, interrupts_body
from threadkeep.gateway.inputs import checkpoint_not_found
from threadkeep.gateway.langgraph_api.events import public_metadata

Page = Annotated[int, Field(ge=1, le=1_000)]
"""How many rows are listed."""

Offset = Annotated[int, Field(ge=0, le=100_000)]
Names = Annotated[list[str] | None, Query()]
"""Names in the query; the parameter may be repeated."""

_CHECKPOINT: Final = ("thread_id", "checkpoint_ns", "checkpoint_id")


class PageBody(RequestBody):
    """Which rows to list."""

    limit: Page = 10
    offset: Offset = 0


class RowsBody(PageBody):
    """Which rows to list, in which order, and what of each."""

    sort_order: Literal["asc", "desc"] | None = None
    select: list[str] | None = None


class CheckpointBody(RequestBody):
    """A checkpoint of a thread."""

    thread_id: str | None = None
    checkpoint_ns: str | None = None
    checkpoint_id: str | None = None
    checkpoint_map: dict[str, Any] | None = None

    def keys(self, thread_id: str) -> dict[str, Any]:
        """Return the keys of ``configurable`` that name it; raise ProblemError if it is not one of this thread."""
        if self.thread_id not in (None, thread_id):
            raise checkpoint_not_found()
        return {name: value for name in ("checkpoint_id", "checkpoint_ns") if (value := getattr(self, name))}


class PlacedBody(RequestBody):
    """A body that names a checkpoint, by all its keys or by its id alone."""

    checkpoint: CheckpointBody | None = None
    checkpoint_id: str | None = None

    @property
    def place(self) -> CheckpointBody:
        """The checkpoint."""
        return self.checkpoint or CheckpointBody(checkpoint_id=self.checkpoint_id)


def answer(value: Any, *, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return the response with *value*, which may be what a graph holds, as JSON."""
    return Response(encode_json(value), status, headers, "application/json")


def selected(body: Mapping[str, Any], names: Collection[str] | None) -> dict[str, Any]:
    """Return of *body* what is to be shown; ``None``: all of it."""
    return {key: value for key, value in body.items() if names is None or key in names}


def state_body(state: Any, select: Collection[str] | None = None) -> dict[str, Any]:
    """Return a state, or of it what *select* names."""
    checkpoint, parent = checkpoint_body(state.config), checkpoint_body(state.parent_config)
    body: dict[str, Any] = {
        "values": state.values,
        "next": [*state.next],
        "tasks": [_task(task) for task in state.tasks],
        "metadata": public_metadata(state.metadata),
        "created_at": state.created_at,
        "checkpoint": checkpoint,
        "parent_checkpoint": parent,
        "interrupts": interrupts_body(state.interrupts),
        "checkpoint_id": checkpoint and checkpoint["checkpoint_id"],
        "parent_checkpoint_id": parent and parent["checkpoint_id"],
    }
    chosen, values = selected(body, select), as_object(state.values)
    keys = {one.partition(".")[2] for one in select or () if one.startswith("values.")}
    if keys and isinstance(state.values, dict):
        chosen["values"] = selected(values, keys)
    return chosen


def checkpoint_body(config: Any) -> dict[str, Any] | None:
    """Return the checkpoint that a config names; ``None``: it names none."""
    keys = as_object(as_object(config).get("configurable"))
    return selected(keys, _CHECKPOINT) if keys.get("checkpoint_id") else None


def _task(task: Any) -> dict[str, Any]:
    state, is_config = task.state, isinstance(task.state, dict)
    return {
        "id": task.id,
        "name": task.name,
        "path": [str(one) for one in task.path if isinstance(one, str | int) and one != "__pregel_pull"],
        "error": None if task.error is None else "The node failed; the server's log says why.",
        "interrupts": interrupts_body(task.interrupts),
        "checkpoint": selected(state["configurable"], _CHECKPOINT) if is_config else None,
        "state": None if state is None or is_config else state_body(state),
        "result": task.result,
    }
