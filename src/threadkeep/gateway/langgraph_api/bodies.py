"""The bodies of requests. An unknown field is refused, as nothing would come of it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any, Final, Literal, Self, TypeAlias, cast

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from threadkeep.gateway.bodies import NewId, RequestBody
from threadkeep.gateway.run_models import MultitaskStrategy

StreamMode: TypeAlias = Literal[
    "values", "updates", "messages", "messages-tuple", "custom", "tasks", "checkpoints", "debug"
]
Nodes: TypeAlias = Literal["*"] | list[str]
ThreadStatus: TypeAlias = Literal["idle", "busy", "interrupted", "error"]
SortBy: TypeAlias = Literal["thread_id", "status", "created_at", "updated_at", "state_updated_at"]

_IDENTITY: Final = frozenset({"user_id", "checkpoint_ns", "checkpoint_id", "checkpoint_map", "multitask_strategy"})


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
Page = Annotated[int, Field(ge=1, le=1_000)]
"""How many rows are listed."""

Offset = Annotated[int, Field(ge=0, le=100_000)]


def selected(body: dict[str, Any], names: Collection[str] | None) -> dict[str, Any]:
    """Return of *body* what is to be shown; ``None``: all of it."""
    return {key: value for key, value in body.items() if names is None or key in names}


class CheckpointBody(RequestBody):
    """A checkpoint of a thread."""

    thread_id: str | None = None
    checkpoint_ns: str | None = None
    checkpoint_id: str | None = None
    checkpoint_map: dict[str, Any] | None = None


class PlacedBody(RequestBody):
    """A body that names a checkpoint, by all its keys or by its id alone."""

    checkpoint: CheckpointBody | None = None
    checkpoint_id: str | None = None

    def place(self) -> CheckpointBody:
        """Return the checkpoint."""
        return self.checkpoint or CheckpointBody(checkpoint_id=self.checkpoint_id)


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
    goto: Annotated[tuple[SendBody | str, ...], BeforeValidator(lambda goto: _as_list(goto) if goto else ())] = ()

    @model_validator(mode="after")
    def _require_part(self) -> Self:
        if self.resume is None and self.update is None and not self.goto:
            msg = "the command is empty"
            raise ValueError(msg)
        return self


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
    interrupt_before: Nodes | None = None
    interrupt_after: Nodes | None = None
    multitask_strategy: MultitaskStrategy | None = None
    if_not_exists: Literal["create", "reject"] | None = None
    on_disconnect: Literal["cancel", "continue"] | None = None
    on_completion: Literal["delete", "keep"] | None = None
    strict_resume: bool | None = None  # always
    webhook: str | None = None
    after_seconds: float | None = None
    feedback_keys: list[str] | None = None

    @model_validator(mode="after")
    def _require_one(self) -> Self:
        if self.input is not None and self.command is not None:
            msg = "it has an input and a command"
            raise ValueError(msg)
        return self


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
    status: ThreadStatus | None = None


class PageBody(RequestBody):
    """Which rows to show, in which order, and what of each."""

    limit: Page = 10
    offset: Offset = 0
    sort_order: Literal["asc", "desc"] | None = None
    select: list[str] | None = None


class SearchBody(CountBody, PageBody):
    """Which threads to list."""

    ids: list[NewId] | None = None
    sort_by: SortBy | None = None


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


class AssistantsBody(PageBody):
    """Which assistants to list."""

    graph_id: str | None = None
    name: str | None = None
    metadata: dict[str, Any] | None = None
    sort_by: str | None = None
