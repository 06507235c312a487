"""The bodies of requests. An unknown field is refused, as nothing would come of it."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from threadkeep.gateway.routers.chat import ID_CHARACTERS, without_nul
from threadkeep.gateway.run_models import MultitaskStrategy

StreamMode: TypeAlias = Literal[
    "values", "updates", "messages", "messages-tuple", "custom", "tasks", "checkpoints", "debug"
]
Nodes: TypeAlias = Literal["*"] | list[str]
ThreadStatus: TypeAlias = Literal["idle", "busy", "interrupted", "error"]
SortBy: TypeAlias = Literal["thread_id", "status", "created_at", "updated_at", "state_updated_at"]

Id = Annotated[str, Field(min_length=1, max_length=ID_CHARACTERS), AfterValidator(without_nul)]
"""An id that a client chose."""

_IDENTITY: Final = frozenset({"user_id", "checkpoint_ns", "checkpoint_id", "checkpoint_map", "multitask_strategy"})
_PREFIXES: Final = ("__", "langgraph_", "threadkeep_")


def without_identity(keys: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return what a client puts into ``configurable`` or the context.

    Raises:
        ValueError: It names the user, or what the server sets.
    """
    for key in keys or {}:
        if key in _IDENTITY or key.startswith(_PREFIXES):
            msg = f"must not hold {key[:40]}: the server sets it, the user is the one of the token"
            raise ValueError(msg)
    return keys


def without_ours(metadata: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the metadata of a client.

    Raises:
        ValueError: They have what only the server writes.
    """
    for key in metadata or {}:
        if key.startswith("threadkeep_"):
            msg = f"must not hold {key[:40]}: the server sets it"
            raise ValueError(msg)
    return metadata


Keys = Annotated[dict[str, Any], AfterValidator(without_identity)]
Metadata = Annotated[dict[str, Any], AfterValidator(without_ours)]


class Body(BaseModel):
    """A body without unknown fields."""

    model_config = ConfigDict(extra="forbid")


class CheckpointBody(Body):
    """A checkpoint of a thread."""

    thread_id: str | None = None
    checkpoint_ns: str | None = None
    checkpoint_id: str | None = None
    checkpoint_map: dict[str, Any] | None = None


class CommandBody(Body):
    """What a run continues with, instead of an input."""

    update: dict[str, Any] | list[tuple[str, Any]] | None = None
    resume: Any = None
    goto: Any = None


class ConfigBody(Body):
    """The config of a run."""

    tags: list[str] = []
    recursion_limit: int | None = Field(default=None, ge=1, le=10_000)
    max_concurrency: int | None = Field(default=None, ge=1)
    run_name: str | None = None
    metadata: Metadata = {}
    configurable: Keys = {}


class GraphRunBody(Body):
    """A run to begin."""

    assistant_id: str
    input: Any = None
    command: CommandBody | None = None
    stream_mode: StreamMode | list[StreamMode] = "values"
    stream_subgraphs: bool = False
    stream_resumable: bool = False  # every stream is
    metadata: Metadata | None = None
    config: ConfigBody | None = None
    context: Keys | None = None
    checkpoint: CheckpointBody | None = None
    checkpoint_id: str | None = None
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

    def modes(self) -> frozenset[str]:
        """Return the stream modes."""
        modes = self.stream_mode
        return frozenset({modes} if isinstance(modes, str) else modes)

    def place(self) -> CheckpointBody:
        """Return the checkpoint that the run begins at."""
        return self.checkpoint or CheckpointBody(checkpoint_id=self.checkpoint_id)


class GraphThreadBody(Body):
    """A thread to create."""

    thread_id: Id | None = None
    metadata: dict[str, Any] | None = None
    if_exists: Literal["raise", "do_nothing"] | None = None


class MetadataBody(Body):
    """A change of a thread."""

    metadata: dict[str, Any] = {}


class CountBody(Body):
    """Which threads to count."""

    metadata: dict[str, Any] | None = None
    values: dict[str, Any] | None = None
    status: ThreadStatus | None = None


class SearchBody(CountBody):
    """Which threads to list."""

    ids: list[Id] | None = None
    limit: int = Field(default=10, ge=1, le=1_000)
    offset: int = Field(default=0, ge=0, le=100_000)
    sort_by: SortBy | None = None
    sort_order: Literal["asc", "desc"] | None = None
    select: list[str] | None = None


class StateAtBody(Body):
    """Which state to read."""

    checkpoint: CheckpointBody
    subgraphs: bool = False
    select: list[str] | None = None


class UpdateBody(Body):
    """A change of a thread's state."""

    values: dict[str, Any] | list[dict[str, Any]] | None = None
    as_node: str | None = None
    checkpoint: CheckpointBody | None = None
    checkpoint_id: str | None = None


class StatesBody(Body):
    """Which states to list."""

    limit: int = Field(default=10, ge=1, le=1_000)
    before: CheckpointBody | str | dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    checkpoint: CheckpointBody | None = None
    select: list[str] | None = None


class AssistantsBody(Body):
    """Which assistants to list."""

    graph_id: str | None = None
    name: str | None = None
    metadata: dict[str, Any] | None = None
    limit: int = Field(default=10, ge=1, le=1_000)
    offset: int = Field(default=0, ge=0)
    sort_by: str | None = None
    sort_order: Literal["asc", "desc"] | None = None
    select: list[str] | None = None
