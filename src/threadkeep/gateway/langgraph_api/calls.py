"""What a request asks a graph to run, checked before anything is written."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias, cast

from langgraph.channels.base import BaseChannel
from langgraph.channels.delta import DeltaChannel
from langgraph.constants import END, START
from langgraph.types import Command, Send
from pydantic import AfterValidator, BeforeValidator, Field, PydanticUserError, TypeAdapter, ValidationError

from threadkeep.errors import InvalidInputError
from threadkeep.gateway.bodies import RequestBody, as_object
from threadkeep.gateway.langgraph_api.assistants import graph_metadata
from threadkeep.gateway.langgraph_api.events import GraphEvents
from threadkeep.gateway.langgraph_api.states import PlacedBody
from threadkeep.gateway.langgraph_api.unsupported import NO_SCHEDULE, NO_WEBHOOK, not_implemented
from threadkeep.gateway.run_models import GraphCall, MultitaskStrategy

if TYPE_CHECKING:
    from langgraph.checkpoint.base import CheckpointTuple

StreamMode: TypeAlias = Literal[
    "values", "updates", "messages", "messages-tuple", "custom", "tasks", "checkpoints", "debug"
]
Nodes: TypeAlias = Literal["*"] | list[str] | None

_IDENTITY: Final = frozenset({"user_id", "checkpoint_ns", "checkpoint_id", "checkpoint_map", "multitask_strategy"})
_INTERRUPT_ID: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)
_OPTIONS: Final = {"context", "interrupt_before", "interrupt_after", "durability"}
_ROOT: Final = "__root__"


def _refusing(*prefixes: str, names: Collection[str] = ()) -> AfterValidator:
    """Return a validator that refuses the keys that only the server sets."""

    def require_free(keys: dict[str, Any]) -> dict[str, Any]:
        for key in keys:
            if key in names or key.startswith(prefixes):
                msg = f"must not hold {key[:40]}: the server sets it, the user is the one of the token"
                raise ValueError(msg)
        return keys

    return AfterValidator(require_free)


Keys = Annotated[dict[str, Any], _refusing("__", "langgraph_", "threadkeep_", names=_IDENTITY)]
"""What a client puts into ``configurable`` or the context."""

Metadata = Annotated[dict[str, Any], _refusing("threadkeep_")]


def _as_list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else [value]


class SendBody(RequestBody):
    """A node to go to, with an input of its own."""

    node: str
    input: Any = None


class CommandBody(RequestBody):
    """What a run continues with, instead of an input."""

    update: dict[str, Any] | list[tuple[str, Any]] | None = None
    resume: Any = None
    goto: Annotated[
        tuple[SendBody | str, ...], BeforeValidator(lambda goto: () if goto is None else _as_list(goto))
    ] = ()


class ConfigBody(RequestBody):
    """The config of a run."""

    tags: list[str] = Field(default=[])
    recursion_limit: int | None = Field(default=None, ge=1, le=10_000)
    max_concurrency: int | None = Field(default=None, ge=1)
    run_name: str | None = None
    metadata: Metadata = Field(default={})
    configurable: Keys = Field(default={})


class GraphRunBody(PlacedBody):
    """A run to begin."""

    assistant_id: str
    input: Any = None
    command: CommandBody | None = None
    stream_mode: Annotated[frozenset[StreamMode], BeforeValidator(_as_list)] = frozenset({"values"})
    stream_subgraphs: bool = False
    stream_resumable: bool = False  # every stream is
    metadata: Metadata | None = None
    config: ConfigBody | None = None
    context: Keys | None = None
    checkpoint_during: bool | None = None
    durability: Literal["sync", "async", "exit"] | None = None
    interrupt_before: Nodes = None
    interrupt_after: Nodes = None
    multitask_strategy: MultitaskStrategy | None = None
    if_not_exists: Literal["create", "reject"] | None = None
    on_disconnect: Literal["cancel", "continue"] | None = None
    on_completion: Literal["delete", "keep"] | None = None
    strict_resume: bool | None = None  # always
    webhook: str | None = None
    after_seconds: float | None = None
    feedback_keys: list[str] | None = None


def graph_call(graph: Any, body: GraphRunBody, thread_id: str, stored: CheckpointTuple | None) -> GraphCall:
    """Return what *body* asks to run on a thread, from the checkpoint *stored*; ``None``: the thread has none.

    Raises:
        InvalidInputError: The graph does not take it, there is nothing to run, or the config names another thread.
        ProblemError: It asks for what is not served, or names a checkpoint of another thread.
    """
    if body.webhook:
        raise not_implemented(NO_WEBHOOK)
    if body.after_seconds:
        raise not_implemented(NO_SCHEDULE)
    config, command, given = body.config or ConfigBody(), body.command, body.input
    if config.configurable.get("thread_id", thread_id) != thread_id:
        raise _invalid("config.configurable.thread_id is not the thread of the address")
    changes, answered = [given], frozenset[str]()
    if command is not None:
        if given not in (None, {}):  # chat pages send an empty input with a command
            raise _invalid("it has an input and a command")
        if command.resume is None and not command.update and not command.goto:
            raise _invalid("the command is empty")
        goto = [step if isinstance(step, str) else Send(step.node, step.input) for step in command.goto]
        given = Command(update=command.update, resume=command.resume, goto=goto)
        answered = frozenset(as_object(command.resume))
        changes = [dict([pair]) for pair in command.update] if isinstance(command.update, list) else [command.update]
        _require_fields(changes)
        _require_steps(graph, command.goto)
    elif given is None and stored is None:
        raise _invalid("the thread has no state to continue from, and there is no input")
    require_values(graph, changes, stored)
    _require_context(graph, body.context)
    for nodes in (body.interrupt_before, body.interrupt_after):
        require_nodes(graph, nodes if isinstance(nodes, list) else ())
    options = body.model_dump(include=_OPTIONS, exclude_none=True)
    if body.checkpoint_during is not None:
        options.setdefault("durability", "async" if body.checkpoint_during else "exit")
    kept = config.model_dump(exclude={"configurable"}, exclude_unset=True, exclude_none=True)
    metadata = {**kept.get("metadata", {}), **(body.metadata or {}), **graph_metadata(graph)}
    answers = command is not None and command.resume is not None
    # As LangGraph does, tell an object with an answer for each question by its keys.
    by_id = command is not None and isinstance(command.resume, dict) and all(map(_INTERRUPT_ID.fullmatch, answered))
    return GraphCall(
        given=given,
        config={**kept, "metadata": metadata},
        configurable={**config.configurable, **body.place.keys(thread_id)},
        options=options,
        events=GraphEvents(modes=body.stream_mode, subgraphs=body.stream_subgraphs),
        strategy=body.multitask_strategy or "enqueue",
        answers=answers,
        answered=answered if by_id else frozenset(),
        answers_one=answers and not by_id,
    )


def require_values(graph: Any, changes: Iterable[Any], stored: CheckpointTuple | None) -> None:
    """Raise InvalidInputError for *changes* of the state of *stored* that a reducer of the graph does not take."""
    channels: Mapping[str, Any] = graph.channels
    if _ROOT in channels or not hasattr(graph, "builder"):
        return  # its input is one value of any kind
    values: Mapping[str, Any] = {} if stored is None else stored.checkpoint["channel_values"]
    for change in changes:
        fields = as_object(change)
        if change is not None and not isinstance(change, dict):
            raise _invalid("the input must be an object")
        for key, value in fields.items():
            if not isinstance(channels.get(key), BaseChannel):
                continue
            known = key in values and not isinstance(channels[key], DeltaChannel)
            try:
                current = channels[key].from_checkpoint(values[key]) if known else channels[key].copy()
                current.update([value])
            except Exception as error:
                what = f"the state of the graph does not take this {key[:60]} ({type(error).__name__})"
                raise _invalid(what) from error


def _require_fields(changes: Iterable[Any]) -> None:
    """Raise InvalidInputError for an update of what LangGraph itself keeps beside the state."""
    for key in (key for change in changes for key in as_object(change)):
        if key.startswith("__") and key != _ROOT:
            what = f"the command updates {key[:40]}, which is no field of the state"
            raise _invalid(what)


def _require_steps(graph: Any, steps: Iterable[SendBody | str]) -> None:
    """Raise InvalidInputError for steps to what is no node; one to the end adds nothing to do, as for LangGraph."""
    nodes = [step if isinstance(step, str) else step.node for step in steps if step != END]
    require_nodes(graph, nodes)
    if START in nodes:
        raise _invalid("the command goes to the start; give an input instead")


def require_nodes(graph: Any, nodes: Iterable[str]) -> None:
    """Raise InvalidInputError for nodes that the graph does not have."""
    if any(node not in graph.nodes for node in nodes):
        raise _invalid("it names a node that the graph does not have")


def _require_context(graph: Any, context: dict[str, Any] | None) -> None:
    schema = getattr(graph, "context_schema", None)
    if schema is None or context is None:
        return
    try:
        TypeAdapter(schema).validate_python(context)
    except PydanticUserError:
        return  # a type that pydantic cannot check, and that LangGraph does not
    except ValidationError as error:
        raise _invalid("the context does not fit the schema of the graph") from error


def _invalid(what: str) -> InvalidInputError:
    return InvalidInputError(f"The request is invalid: {what}.")
