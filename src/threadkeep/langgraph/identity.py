"""Whose turn it is, and on which thread: what the middleware, the tools and plain nodes ask first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from langgraph.config import get_config

from threadkeep.errors import OwnerConflictError, OwnerRequiredError
from threadkeep.identity import RUNTIME, Owner, claimed_owner, claims_of, on_server
from threadkeep.ids import ThreadId
from threadkeep.threads.checkpointers import ThreadkeepCheckpointer
from threadkeep.threads.thread_access import thread_id_from

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

_CHECKPOINTER: Final = "__pregel_checkpointer"
"""Where LangGraph 1.2 tells nodes who keeps their thread; nothing but a clearer message depends on its being there."""

OwnerSource: TypeAlias = "str | Owner | Callable[[Any], str | Owner | None]"


def owner_from(
    source: OwnerSource | None = None, *, runtime: object = None, config: Mapping[str, Any] | None = None
) -> Owner:
    """Return whose turn it is.

    1. An explicit *source* wins, and nothing else is asked: where it is a function that names
       nobody, the turn has no owner.
    2. On a LangGraph server, only the user that it authenticated. Without authentication, as under
       ``langgraph dev`` with no ``auth`` in ``langgraph.json``, identity cannot be proved there, so
       an explicit *source* is needed.
    3. Elsewhere ``context.user_id``, ``configurable.user_id`` and ``configurable.langgraph_user_id``
       (a label), which must not disagree.

    Messages and metadata never say whose turn it is, and there is no shared default.

    Args:
        source: A user id, an :class:`Owner`, or a function of *runtime* (of *config* where there is none).
        runtime: The run's ``Runtime`` or ``ToolRuntime``.
        config: The run's configuration; ``None``: the runtime's, or that of the node that runs now.

    Raises:
        OwnerRequiredError: Nothing says whose turn it is.
        OwnerConflictError: Two sources disagree.
        InvalidInputError: What is given is no user id.
    """
    config = _config(runtime, config)
    if source is not None:
        told = source(runtime if runtime is not None else config) if callable(source) else source
        if told is None:
            msg = "The function given as owner= names nobody for this run; have it return a user id."
            raise OwnerRequiredError(msg)
        return told if isinstance(told, Owner) else Owner(told)
    configurable: Mapping[str, Any] = config.get("configurable") or {}
    owner = claimed_owner(configurable, runtime=runtime)
    if owner is not None:
        return owner
    if on_server(configurable, runtime=runtime):
        msg = (
            "Whose turn is it? The LangGraph server authenticated nobody, and what a client sends is no proof. "
            "Set up auth in langgraph.json, or pass owner= to tk.middleware(), tk.tools() or threadkeep.open()."
        )
    else:
        msg = (
            "Whose turn is it? Pass context with a user_id, or configurable.user_id (tk.config() writes it), "
            "or owner= to tk.middleware(), tk.tools() or threadkeep.open()."
        )
    raise OwnerRequiredError(msg)


def require_agreement(owner: Owner, config: Mapping[str, Any]) -> None:
    """Refuse a turn of *owner*, as ``owner=`` says, on a thread that our checkpointer keeps for somebody else.

    The checkpointer goes by the run's own configuration, so two that name different owners would meet in
    the thread, which can belong to one of them only.

    Raises:
        OwnerConflictError: They do; the message names both places.
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
        f"{sources[0]} and {sources[1]} name different owners, and tk.checkpointer keeps the thread for the latter. "
        "Name the same one in both, or only once: owner= of threadkeep.open() holds for both."
    )
    raise OwnerConflictError(msg, sources=sources)


def thread_id_of(runtime: object = None, config: Mapping[str, Any] | None = None) -> ThreadId | None:
    """Return the thread that runs; ``None`` where the run has none.

    Raises:
        TooLargeError: Its id has more than 1,000 characters.
    """
    config = _config(runtime, config)
    configurable: Mapping[str, Any] = config.get("configurable") or {}
    runtime = configurable.get(RUNTIME) if runtime is None else runtime
    given = getattr(getattr(runtime, "execution_info", None), "thread_id", None) or configurable.get("thread_id")
    return None if given in (None, "") else thread_id_from(given)


def _config(runtime: object, config: Mapping[str, Any] | None) -> Mapping[str, Any]:
    if config is None:
        config = getattr(runtime, "config", None)
    if config is None:
        try:
            config = get_config()
        except RuntimeError:  # no node is running
            config = {}
    return config
