"""The state of a thread, as LangGraph's API shows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from threadkeep.gateway.events import encode_json
from threadkeep.gateway.langgraph_api.bodies import CheckpointBody
from threadkeep.gateway.langgraph_api.events import public_metadata
from threadkeep.gateway.problems import ProblemError
from threadkeep.gateway.run_models import describe_error

if TYPE_CHECKING:
    from langgraph.checkpoint.base import CheckpointTuple

    from threadkeep.gateway.app import Gateway
    from threadkeep.identity import Owner


def place_keys(place: CheckpointBody, thread_id: str) -> dict[str, Any]:
    """Return the keys of ``configurable`` that name a checkpoint of a thread.

    Raises:
        ProblemError: It is one of another thread.
    """
    if place.thread_id not in (None, thread_id):
        raise checkpoint_not_found()
    keys = {"checkpoint_id": place.checkpoint_id, "checkpoint_ns": place.checkpoint_ns}
    return {key: value for key, value in keys.items() if value}


def config_at(gateway: Gateway, owner: Owner, thread_id: str, place: CheckpointBody | None = None) -> Any:
    """Return the config that names a thread of *owner*, at a checkpoint."""
    keys = {} if place is None else place_keys(place, thread_id)
    return gateway.tk.per_run_owner().config(owner, thread_id=thread_id, **keys)


async def find_checkpoint(
    gateway: Gateway, owner: Owner, thread_id: str, place: CheckpointBody | None = None, *, creates: bool = False
) -> CheckpointTuple | None:
    """Return a checkpoint of a thread, by default the newest; ``None``: the thread has none yet.

    The list of threads is read only for a thread without a checkpoint, and the size of a thread never.

    Raises:
        ThreadNotFoundError: There is no such thread, and the request does not create it.
        ProblemError: The thread has no such checkpoint.
    """
    keys = {} if place is None else place.model_dump(include={"checkpoint_id", "checkpoint_ns"}, exclude_none=True)
    elsewhere = place is not None and place.thread_id not in (None, thread_id)
    if not elsewhere:
        config = gateway.tk.per_run_owner().config(owner, thread_id=thread_id, **keys)
        stored = await gateway.graph.checkpointer.aget_tuple(config)
        if stored is not None:
            return stored
    if not creates:
        await gateway.tk.for_owner(owner).threads.require(thread_id)
    if elsewhere or any(keys.values()):
        raise checkpoint_not_found()
    return None


def checkpoint_not_found() -> ProblemError:
    """Return the answer to a checkpoint that the thread does not have."""
    return ProblemError(404, "checkpoint_not_found", "There is no checkpoint with this id.")


def state_body(state: Any, thread_id: str, select: Sequence[str] | None = None) -> dict[str, Any]:
    """Return a state, or of it what *select* names."""
    checkpoint, parent = _checkpoint(state.config, thread_id), _checkpoint(state.parent_config, thread_id)
    body: dict[str, Any] = {
        "values": state.values,
        "next": [*state.next],
        "tasks": [_task(task, thread_id) for task in state.tasks],
        "metadata": public_metadata(state.metadata),
        "created_at": state.created_at,
        "checkpoint": checkpoint,
        "parent_checkpoint": parent,
        "interrupts": [{"id": one.id, "value": one.value} for one in state.interrupts],
        "checkpoint_id": None if checkpoint is None else checkpoint["checkpoint_id"],
        "parent_checkpoint_id": None if parent is None else parent["checkpoint_id"],
    }
    if select is None:
        return body
    chosen = {key: value for key, value in body.items() if key in select}
    keys = {one.partition(".")[2] for one in select if one.startswith("values.")}
    values: Any = state.values
    if keys and isinstance(values, dict):
        chosen["values"] = {key: value for key, value in cast("dict[str, Any]", values).items() if key in keys}
    return chosen


def error_body(failure: Exception) -> dict[str, str]:
    """Return what clients are told of an error."""
    described = describe_error(failure)
    return {"error": described["code"], "message": described["message"]}


def run_values(values: Any, interrupts: Sequence[dict[str, Any]], failure: Exception | None) -> bytes:
    """Return what a client gets that waits for the end of a run, as JSON."""
    if failure is not None:
        return encode_json({"__error__": error_body(failure)}).encode()
    if interrupts and isinstance(values, dict | None):
        values = {"__interrupt__": interrupts, **cast("dict[str, Any]", values or {})}
    return encode_json(values).encode()


def _checkpoint(config: Any, thread_id: str) -> dict[str, Any] | None:
    keys: dict[str, Any] = config["configurable"] if config else {}
    if not keys.get("checkpoint_id"):
        return None
    named = {"thread_id": thread_id, "checkpoint_ns": keys.get("checkpoint_ns") or ""}
    return {**named, "checkpoint_id": keys["checkpoint_id"]}


def _task(task: Any, thread_id: str) -> dict[str, Any]:
    state = task.state
    is_config = isinstance(state, dict)
    return {
        "id": task.id,
        "name": task.name,
        "path": [str(one) for one in task.path if isinstance(one, str | int) and one != "__pregel_pull"],
        "error": None if task.error is None else "The node failed; the server's log says why.",
        "interrupts": [{"id": one.id, "value": one.value} for one in task.interrupts],
        "checkpoint": _named(state, thread_id) if is_config else None,
        "state": None if state is None or is_config else state_body(state, thread_id),
        "result": task.result,
    }


def _named(config: Any, thread_id: str) -> dict[str, Any]:
    keys = config["configurable"]
    return {"thread_id": thread_id, "checkpoint_ns": keys.get("checkpoint_ns") or ""}
