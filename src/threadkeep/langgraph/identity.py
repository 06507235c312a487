"""The owner and the thread of a turn, for the middleware, the tools and plain nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, cast

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.config import get_config
from langgraph.constants import START

from threadkeep.checkpoints.head import thread_id_from
from threadkeep.checkpoints.saver import ThreadkeepCheckpointer
from threadkeep.errors import InvalidInputError, OwnerConflictError, OwnerRequiredError
from threadkeep.identity import RUNTIME, Owner, claimed_owner, claims_of, on_server
from threadkeep.ids import ThreadId
from threadkeep.models.langchain import PlainMessages, plain_messages
from threadkeep.run_events import MEMORY_KEY, CurrentRun, MemorySwitch

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import CheckpointTuple

_CHECKPOINTER: Final = "__pregel_checkpointer"
"""The key under which LangGraph 1.2 passes the checkpointer to nodes; only a clearer message depends on it."""

USER_KEYS: Final = ("user_id", "langgraph_user_id")
"""The keys of ``configurable`` that name the user; LangGraph copies them into the metadata of checkpoints."""

READ_SCOPES_KEY: Final = "threadkeep_read_scopes"
"""The key of ``configurable`` that grants a run shared scopes to read; its value is a tuple of ``Owner`` objects."""

ScopesSource: TypeAlias = "Sequence[Owner] | Callable[[Any], Sequence[Owner]]"

Participants: TypeAlias = "Mapping[str, str | Owner]"
"""The owner of each name that messages carry."""

ParticipantsSource: TypeAlias = "Participants | Callable[[Any], Participants | None]"
"""The participants, or a function of the runtime that returns them; ``None``: the thread is of its owner alone."""

PARTICIPANTS_KEY: Final = "threadkeep_participants"
"""The key of ``configurable`` that names the participants of a thread; its value maps names to ``Owner`` objects."""

OwnerSource: TypeAlias = "str | Owner | Callable[[Any], str | Owner | None]"


def owner_from(
    source: OwnerSource | None = None, *, runtime: object = None, config: Mapping[str, Any] | None = None
) -> Owner:
    """Return the owner of the turn.

    1. An explicit *source* wins. A function that returns no owner leaves the turn without one.
    2. On a LangGraph server, only the authenticated user counts. Without authentication, as under ``langgraph dev``
       with no ``auth`` in ``langgraph.json``, an explicit *source* is needed.
    3. Elsewhere ``context.user_id``, ``configurable.user_id`` and ``configurable.langgraph_user_id`` (a label) count,
       and must agree.

    Messages and metadata never count, and there is no shared default.

    Args:
        source: A user id, an :class:`Owner`, or a function of *runtime* (of *config* without a runtime).
        runtime: The run's ``Runtime`` or ``ToolRuntime``.
        config: The run's configuration; ``None``: the runtime's, or that of the current node.

    Raises:
        OwnerRequiredError: No source names an owner.
        OwnerConflictError: Two sources disagree.
        InvalidInputError: A source is not a user id.
    """
    config = current_config(runtime) if config is None else config
    if source is not None:
        told = source(runtime if runtime is not None else config) if callable(source) else source
        if told is None:
            msg = "The function passed as owner= returned no owner for this run; it must return a user id."
            raise OwnerRequiredError(msg)
        return told if isinstance(told, Owner) else Owner(told)
    configurable: Mapping[str, Any] = config.get("configurable") or {}
    owner = claimed_owner(configurable, runtime=runtime)
    if owner is not None:
        return owner
    if on_server(configurable, runtime=runtime):
        msg = (
            "owner is required: the LangGraph server authenticated no user, and a client's values are not trusted. "
            "Set up auth in langgraph.json, or pass owner= to tk.middleware(), tk.tools() or threadkeep.open()."
        )
    else:
        msg = (
            "owner is required: pass context with a user_id, or configurable.user_id (tk.config() writes it), "
            "or owner= to tk.middleware(), tk.tools() or threadkeep.open()."
        )
    raise OwnerRequiredError(msg)


def read_scopes_from(source: ScopesSource, *, runtime: object, config: Mapping[str, Any]) -> tuple[Owner, ...]:
    """Return the shared scopes that a run may read, each once: those of *source*, and those of its config.

    Args:
        source: Scopes, or a function of *runtime* that returns some.
        runtime: The run's ``Runtime``.
        config: The run's configuration. A client that sends JSON cannot make the objects that count there.

    Raises:
        InvalidInputError: The config has something other than ``Owner`` objects.
    """
    configurable: Mapping[str, object] = config.get("configurable") or {}
    given = configurable.get(READ_SCOPES_KEY, ())
    if not source and given == ():
        return ()
    if not isinstance(given, tuple) or not all(isinstance(one, Owner) for one in cast("tuple[object, ...]", given)):
        msg = f"configurable.{READ_SCOPES_KEY} must be a tuple of Owner objects; view.config(read_scopes=…) sets it."
        raise InvalidInputError(msg)
    named = source(runtime) if callable(source) else source
    return tuple(dict.fromkeys((*named, *cast("tuple[Owner, ...]", given))))


def participants_from(source: ParticipantsSource | None, runtime: object) -> Participants | None:
    """Return the participants of a run; ``None``: *source*, or its result, is None, and the thread its owner's alone.

    Raises:
        InvalidInputError: It is no mapping of names to owners.
    """
    people: object = source(runtime) if callable(source) else source
    if people is None:
        return None
    if not isinstance(people, Mapping) or not all(isinstance(name, str) and name for name in people):
        msg = 'participants must be a mapping of names to owners, such as {"Ana": "ana@x.org"}.'
        raise InvalidInputError(msg)
    return people


def participants_of_run(runtime: object) -> Participants | None:
    """Return the participants that the config of a run names; ``None``: it names none.

    Raises:
        InvalidInputError: It names something other than ``Owner`` objects: a client that sends JSON cannot make those.
    """
    configurable: Mapping[str, object] = current_config(runtime).get("configurable") or {}
    people = configurable.get(PARTICIPANTS_KEY)
    if people is None:
        return None
    owners = cast("Mapping[str, object]", people).values() if isinstance(people, Mapping) else (people,)
    if not all(isinstance(one, Owner) for one in owners):
        msg = f"configurable.{PARTICIPANTS_KEY} must map names to Owner objects; view.config(participants=…) sets it."
        raise InvalidInputError(msg)
    return cast("Participants", people)


def require_agreement(owner: Owner, config: Mapping[str, Any]) -> None:
    """Refuse a turn of *owner* if our checkpointer takes another owner from the run's configuration.

    A thread belongs to one owner only, so the middleware and the checkpointer must agree.

    Raises:
        OwnerConflictError: They disagree; the message names both sources.
    """
    configurable: Mapping[str, Any] = config.get("configurable") or {}
    saver = configurable.get(_CHECKPOINTER)
    if not isinstance(saver, ThreadkeepCheckpointer):
        return
    other = saver.owner_by(cast("RunnableConfig", config))
    if other is None or other == owner:
        return
    sources = ("owner= of tk.middleware()", " and ".join(claims_of(configurable)) or "owner= of threadkeep.open()")
    msg = (
        f"{sources[0]} and {sources[1]} name different owners, and tk.checkpointer stores the thread for the latter. "
        "Pass the same owner to both, or only owner= of threadkeep.open(), which both use."
    )
    raise OwnerConflictError(msg, sources=sources)


def uses_our_checkpointer(config: Mapping[str, Any]) -> bool:
    """Return whether our checkpointer keeps the thread of the run, and so has bound it to its owner."""
    configurable: Mapping[str, Any] = config.get("configurable") or {}
    return isinstance(configurable.get(_CHECKPOINTER), ThreadkeepCheckpointer)


def memory_keys(*, memory: bool) -> dict[str, Any]:
    """Return the keys of ``configurable`` for a run with memory, or without.

    Raises:
        InvalidInputError: *memory* is no bool: a text such as ``"off"`` would turn memory on.
    """
    if not isinstance(cast("object", memory), bool):
        msg = f"memory must be True or False, got {type(memory).__name__}."
        raise InvalidInputError(msg)
    return {} if memory else {MEMORY_KEY: MemorySwitch.OFF}


def is_scoped(config: Mapping[str, Any]) -> bool:
    """Return whether our checkpointer keeps the thread of the run where other owners cannot name it."""
    configurable: Mapping[str, Any] = config.get("configurable") or {}
    saver = configurable.get(_CHECKPOINTER)
    return isinstance(saver, ThreadkeepCheckpointer) and saver.is_scoped


_CHECKPOINTS_READ: Final = 1_000
"""So many of the newest checkpoints are looked at for an owner if the first one names none."""

_FIRST: Final = {"step": -1}
"""The metadata of the checkpoint that begins a thread."""


def foreign_saver(config: Mapping[str, Any]) -> BaseCheckpointSaver[Any] | None:
    """Return the checkpointer of the run if it is not ours; ``None``: it is ours, or there is none."""
    saver = saver_of(config)
    return None if isinstance(saver, ThreadkeepCheckpointer) else saver


def saver_of(config: Mapping[str, Any]) -> BaseCheckpointSaver[Any] | None:
    """Return the checkpointer of the run; ``None``: there is none."""
    configurable: Mapping[str, Any] = config.get("configurable") or {}
    saver = configurable.get(_CHECKPOINTER)
    return cast("BaseCheckpointSaver[Any]", saver) if isinstance(saver, BaseCheckpointSaver) else None


class NamedOwner(NamedTuple):
    """The user id that the metadata of a thread's checkpoints name.

    Attributes:
        name: The id that is named first; ``""``: none is.
        begun: Whether the thread's first checkpoint names it, so that every message is this user's.
        continued: Whether the thread has more than one input, the newest of which is that of this run.
    """

    name: str
    begun: bool
    continued: bool = False


async def afind_owner(saver: BaseCheckpointSaver[Any], thread_id: str, key: str) -> NamedOwner:
    """Return the owner that the metadata of a thread's checkpoints name first under *key*.

    Later names do not count: an attempt of another user that was refused leaves a checkpoint with that user's name.
    """
    config: RunnableConfig = {"configurable": {"thread_id": thread_id}}
    try:
        first = [_name_in(one, key) async for one in saver.alist(config, filter=_FIRST) if is_root(one)]
        if _oldest(first):
            return NamedOwner(_oldest(first), begun=True)
        found = [one async for one in saver.alist(config, limit=_CHECKPOINTS_READ)]
    except NotImplementedError:  # a sync checkpointer; a run would fail with it, too
        return await asyncio.to_thread(find_owner, saver, thread_id, key)
    return _named_later(found, key)


def find_owner(saver: BaseCheckpointSaver[Any], thread_id: str, key: str) -> NamedOwner:
    """Do what :func:`afind_owner` does, blocking."""
    config: RunnableConfig = {"configurable": {"thread_id": thread_id}}
    first = [_name_in(one, key) for one in saver.list(config, filter=_FIRST) if is_root(one)]
    if _oldest(first):
        return NamedOwner(_oldest(first), begun=True)
    return _named_later([*saver.list(config, limit=_CHECKPOINTS_READ)], key)


def _named_later(found: Sequence[CheckpointTuple], key: str) -> NamedOwner:
    inputs = sum(is_root(one) and dict(one.metadata).get("source") == "input" for one in found)
    return NamedOwner(_oldest([_name_in(one, key) for one in found]), begun=False, continued=inputs > 1)


def names_owner(one: CheckpointTuple, owner: Owner) -> bool:
    """Return whether the metadata of a checkpoint name *owner* as the user of its run; not for use under a server."""
    user_id, label = (dict(one.metadata).get(key) for key in USER_KEYS)
    if label is None:
        return user_id == owner.user_id and not owner.tenant
    return label == owner.label and user_id in (None, owner.user_id)


def _name_in(one: CheckpointTuple, key: str) -> str:
    return str(dict(one.metadata).get(key) or "")


def is_root(one: CheckpointTuple) -> bool:
    """Return whether a checkpoint is of the root graph."""
    configurable: Mapping[str, Any] = one.config.get("configurable") or {}
    return not configurable.get("checkpoint_ns")


def _oldest(names: Sequence[str]) -> str:
    """Return the last name of *names*, which are those of the newest checkpoint first."""
    return next(filter(None, reversed(names)), "")


def allow_response_types(response_format: object, config: Mapping[str, Any]) -> None:
    """Let our checkpointer keep the structured responses of an agent: LangGraph does not list their types."""
    configurable: Mapping[str, Any] = config.get("configurable") or {}
    saver = configurable.get(_CHECKPOINTER)
    if isinstance(saver, ThreadkeepCheckpointer):
        specs: Sequence[Any] = getattr(response_format, "schema_specs", ())
        schemas = [spec.schema for spec in specs] or [getattr(response_format, "schema", response_format)]
        saver.allow(*(schema for schema in schemas if isinstance(schema, type)))


def thread_id_of(runtime: object = None, config: Mapping[str, Any] | None = None) -> ThreadId | None:
    """Return the thread of the run, or None if it has none.

    Raises:
        TooLargeError: Its id has more than 1,000 characters.
    """
    config = current_config(runtime) if config is None else config
    configurable: Mapping[str, Any] = config.get("configurable") or {}
    runtime = configurable.get(RUNTIME) if runtime is None else runtime
    given = getattr(getattr(runtime, "execution_info", None), "thread_id", None) or configurable.get("thread_id")
    return None if given in (None, "") else thread_id_from(given)


def current_config(runtime: object) -> Mapping[str, Any]:
    """Return the configuration of *runtime*, or of the node that is running; empty: none is."""
    config: Mapping[str, Any] | None = getattr(runtime, "config", None)
    try:
        return get_config() if config is None else config
    except RuntimeError:
        return {}


def written_by_a_model(config: Mapping[str, Any]) -> bool:
    """Whether this agent runs within another's tool call: its human message is a task that a model wrote.

    A run that was given a thread id of its own has a namespace of its own, too; then only the
    metadata, which are handed down, name the tool call.
    """
    own = str(config.get("configurable", {}).get("checkpoint_ns", ""))
    metadata: Mapping[str, Any] = config.get("metadata") or {}
    handed_down = str(metadata.get("checkpoint_ns", ""))
    # The last part is the node that runs: of a tool that is "tools", too.
    parts = [*own.split("|")[:-1], *(handed_down.split("|")[:-1] if handed_down == own else handed_down.split("|"))]
    return any(part.split(":")[0] == "tools" for part in parts)


def saver_with_input(messages: PlainMessages, run: CurrentRun | None, config: Any) -> BaseCheckpointSaver[Any] | None:
    """Return the application's checkpointer if it alone knows how many messages of the user the turn began with.

    The input of a run that answers a question has none; the run that asked it may have been in another process.
    """
    if run is None or isinstance(run.root.inputs, Mapping):
        return None
    newest = messages.newest_human[0]
    return foreign_saver(config) if newest > 0 and messages[newest - 1].role == "user" else None


def count_stored_input(saver: BaseCheckpointSaver[Any], thread_id: str) -> int:
    """Return how many messages of the user the newest input of a thread holds; from any thread of the process."""
    config: RunnableConfig = {"configurable": {"thread_id": thread_id}}
    inputs = (one for one in saver.list(config, filter={"source": "input"}) if is_root(one))
    newest = next(inputs, None)
    return 0 if newest is None else count_user_messages(newest.checkpoint["channel_values"].get(START))


def count_user_messages(inputs: object) -> int:
    """Return how many messages of the user the input of a graph holds; 0: it is no input with messages."""
    given: Any = cast("Mapping[str, Any]", inputs).get("messages") if isinstance(inputs, Mapping) else None
    listed = cast("list[Any]", given) if isinstance(given, list) else [given]
    try:
        return sum(one.role == "user" for one in plain_messages(listed)) if given else 0
    except InvalidInputError:
        return 0
