"""What a request asks a graph to run, checked before anything is written."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from langgraph.channels.base import BaseChannel
from langgraph.channels.delta import DeltaChannel
from langgraph.constants import END
from langgraph.types import Command, Send
from pydantic import PydanticUserError, TypeAdapter, ValidationError

from threadkeep.errors import InvalidInputError
from threadkeep.gateway.langgraph_api.assistants import graph_metadata
from threadkeep.gateway.langgraph_api.bodies import ConfigBody, GraphRunBody, UpdateBody
from threadkeep.gateway.langgraph_api.events import GraphEvents
from threadkeep.gateway.langgraph_api.states import place_keys
from threadkeep.gateway.langgraph_api.unsupported import NO_SCHEDULE, NO_WEBHOOK, not_implemented
from threadkeep.gateway.run_models import GraphCall

if TYPE_CHECKING:
    from langgraph.checkpoint.base import CheckpointTuple

_ROOT: Final = "__root__"
_INTERRUPT_ID: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)


def graph_call(graph: Any, body: GraphRunBody, thread_id: str) -> GraphCall:
    """Return what *body* asks for.

    Raises:
        InvalidInputError: The graph has no such node or context, or the config names another thread.
        ProblemError: It asks for what is not served, or names a checkpoint of another thread.
    """
    if body.webhook:
        raise not_implemented(NO_WEBHOOK)
    if body.after_seconds:
        raise not_implemented(NO_SCHEDULE)
    config = body.config or ConfigBody()
    if config.configurable.get("thread_id", thread_id) != thread_id:
        raise _invalid("config.configurable.thread_id is not the thread of the address")
    _require_context(graph, body.context)
    resume = None if body.command is None else body.command.resume
    kept = config.model_dump(exclude={"configurable"}, exclude_unset=True, exclude_none=True)
    metadata = {**kept.get("metadata", {}), **(body.metadata or {}), **graph_metadata(graph)}
    return GraphCall(
        given=_given(graph, body),
        config={**kept, "metadata": metadata},
        configurable={**config.configurable, **place_keys(body.place(), thread_id)},
        options=_options(graph, body),
        events=GraphEvents(body.stream_mode, subgraphs=body.stream_subgraphs),
        strategy=body.multitask_strategy or "enqueue",
        answers=resume is not None,
        answered=_answered(resume),
    )


def require_fitting(graph: Any, body: GraphRunBody, stored: CheckpointTuple | None) -> None:
    """Refuse an input or an update that a reducer of the graph does not take.

    Args:
        graph: The graph.
        body: The request.
        stored: The checkpoint that the run begins at; ``None``: there is none.

    Raises:
        InvalidInputError: A reducer does not take it, or there is nothing to run.
    """
    if body.input is None and body.command is None and stored is None:
        raise _invalid("the thread has no state to continue from, and there is no input")
    update = None if body.command is None else body.command.update
    for values in [dict([pair]) for pair in update] if isinstance(update, list) else [update or body.input]:
        _require_values(graph, values, stored)


def require_update(graph: Any, body: UpdateBody, stored: CheckpointTuple | None) -> None:
    """Refuse a change of the state that a reducer of the graph does not take, or of a node that there is not.

    Raises:
        InvalidInputError: A reducer does not take it, or there is no such node.
    """
    if body.as_node is not None and body.as_node != END:
        _require_nodes(graph, [body.as_node])
    for values in body.values if isinstance(body.values, list) else [body.values]:
        _require_values(graph, values, stored)


def _require_values(graph: Any, given: Any, stored: CheckpointTuple | None) -> None:
    channels: Mapping[str, Any] = graph.channels
    if given is None or _ROOT in channels or not hasattr(graph, "builder"):
        return  # its input is one value of any kind
    if not isinstance(given, dict):
        raise _invalid("the input must be an object")
    values: Mapping[str, Any] = {} if stored is None else stored.checkpoint["channel_values"]
    for key, value in cast("dict[str, Any]", given).items():
        channel = channels.get(key)
        if isinstance(channel, BaseChannel):
            _require_taken(key, cast("BaseChannel[Any, Any, Any]", channel), values, value)


def _require_taken(key: str, channel: BaseChannel[Any, Any, Any], values: Mapping[str, Any], value: Any) -> None:
    try:
        known = key in values and not isinstance(channel, DeltaChannel)
        current = cast("Any", channel.from_checkpoint(values[key]) if known else channel.copy())
        current.update([value])
    except Exception as error:
        msg = f"The request is invalid: the state of the graph does not take this {key[:60]} ({type(error).__name__})."
        raise InvalidInputError(msg) from error


def _given(graph: Any, body: GraphRunBody) -> Any:
    command = body.command
    if command is None:
        return body.input
    _require_nodes(graph, [step if isinstance(step, str) else step.node for step in command.goto])
    goto = [step if isinstance(step, str) else Send(step.node, step.input) for step in command.goto]
    return Command(update=command.update, resume=command.resume, goto=goto)


def _require_nodes(graph: Any, nodes: Sequence[str]) -> None:
    if any(node not in graph.nodes for node in nodes):
        raise _invalid("it names a node that the graph does not have")


def _options(graph: Any, body: GraphRunBody) -> dict[str, Any]:
    for nodes in (body.interrupt_before, body.interrupt_after):
        if isinstance(nodes, list):
            _require_nodes(graph, nodes)
    during = None if body.checkpoint_during is None else "async" if body.checkpoint_during else "exit"
    options = {
        "context": body.context,
        "interrupt_before": body.interrupt_before,
        "interrupt_after": body.interrupt_after,
        "durability": body.durability or during,
    }
    return {name: value for name, value in options.items() if value is not None}


def _require_context(graph: Any, context: dict[str, Any] | None) -> None:
    schema = getattr(graph, "context_schema", None)
    if schema is None or context is None:
        return
    try:
        TypeAdapter(schema).validate_python(context)
    except PydanticUserError:
        return  # a type that pydantic cannot check, and that LangGraph does not
    except ValidationError as error:
        msg = "the context does not fit the schema of the graph"
        raise _invalid(msg) from error


def _answered(resume: Any) -> frozenset[str]:
    """Return the ids of questions that an answer names, as LangGraph tells them from other keys."""
    if not isinstance(resume, dict) or not resume:
        return frozenset()
    keys = cast("dict[str, Any]", resume).keys()
    return frozenset(keys) if all(_INTERRUPT_ID.fullmatch(key) for key in keys) else frozenset()


def _invalid(what: str) -> InvalidInputError:
    return InvalidInputError(f"The request is invalid: {what}.")
