"""Whose turn a LangGraph run says it is: pure rules over its ``configurable``, context and server user.

Messages and metadata are never asked: whoever can write a message could write a name into it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from threadkeep.errors import InvalidInputError, OwnerConflictError
from threadkeep.owners.owner import Owner, owner_of_label

RUNTIME: Final = "__pregel_runtime"
"""Where LangGraph 1.2 puts the run's ``Runtime`` in ``configurable``; nothing depends on its being there."""

_SERVER_USER: Final = "langgraph_auth_user"
_SERVER_KEYS: Final = (_SERVER_USER, "assistant_id", "graph_id")


def claimed_owner(configurable: Mapping[str, Any], *, runtime: object = None) -> Owner | None:
    """Return whose turn it is by what the run was given, ``None`` where nothing that counts says so.

    On a LangGraph server only the user that it authenticated counts: what else is in
    ``configurable`` or the context came from the client. Elsewhere the application wrote
    ``context.user_id``, ``configurable.user_id`` and ``configurable.langgraph_user_id`` (a label),
    and all that are there must mean the same owner.

    Args:
        configurable: The run's.
        runtime: Its ``Runtime`` or ``ToolRuntime``; ``None``: the one in *configurable*, if it is there.

    Raises:
        InvalidInputError: A name is no user id, or no label of one.
        OwnerConflictError: Two name different owners.
    """
    runtime = configurable.get(RUNTIME) if runtime is None else runtime
    if on_server(configurable, runtime=runtime):
        info = getattr(runtime, "server_info", None)
        return _server_owner(configurable.get(_SERVER_USER) if info is None else getattr(info, "user", None))
    claims = _claims(configurable, getattr(runtime, "context", None))
    if len(set(claims.values())) > 1:
        msg = f"{' and '.join(claims)} name different owners; give the owner once, or the same one everywhere."
        raise OwnerConflictError(msg, sources=tuple(claims))
    return next(iter(claims.values()), None)


def claims_of(configurable: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the places that :func:`claimed_owner` goes by."""
    runtime = configurable.get(RUNTIME)
    if on_server(configurable, runtime=runtime):
        return ("the server's user",)
    return tuple(_claims(configurable, getattr(runtime, "context", None)))


def on_server(configurable: Mapping[str, Any], *, runtime: object = None) -> bool:
    """Whether a LangGraph server started the run.

    Source:
        ``_build_server_info`` of LangGraph 1.2, which makes ``runtime.server_info`` of the same keys.
    """
    runtime = configurable.get(RUNTIME) if runtime is None else runtime
    if getattr(runtime, "server_info", None) is not None:
        return True
    return any(configurable.get(key) is not None for key in _SERVER_KEYS)


def _server_owner(user: object) -> Owner | None:
    identity = getattr(user, "identity", None)
    # Without authentication a server makes up a user; some have an empty identity, some only say so.
    if not isinstance(identity, str) or not identity or not getattr(user, "is_authenticated", True):
        return None
    return Owner(identity)


def _claims(configurable: Mapping[str, Any], context: object) -> dict[str, Owner]:
    claims: dict[str, Owner] = {}
    said: tuple[tuple[str, object], ...] = (
        ("context.user_id", _user_of(context)),
        ("configurable.user_id", configurable.get("user_id")),
    )
    for place, user_id in said:
        if isinstance(user_id, str):
            claims[place] = Owner(user_id)
        elif user_id is not None:
            msg = f"{place} must be a text, not {type(user_id).__name__}; give str(…) of it."
            raise InvalidInputError(msg)
    label = configurable.get("langgraph_user_id")
    if label is not None:
        owner = owner_of_label(label) if isinstance(label, str) else None
        if owner is None:
            msg = "configurable.langgraph_user_id is no owner's label; make it with tk.label(user_id) or tk.config()."
            raise InvalidInputError(msg)
        claims["configurable.langgraph_user_id"] = owner
    return claims


def _user_of(context: object) -> object:
    if isinstance(context, Mapping):
        return cast("Mapping[str, object]", context).get("user_id")
    return getattr(context, "user_id", None)
