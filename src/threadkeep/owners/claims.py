"""Whose turn a LangGraph configuration says it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from threadkeep.errors import InvalidInputError, OwnerConflictError
from threadkeep.owners.owner import Owner, owner_of_label

SERVER_USER: Final = "langgraph_auth_user"
"""Where a LangGraph server puts the user that it authenticated; a client cannot set it."""

_SERVER_KEYS: Final = (SERVER_USER, "assistant_id", "graph_id")


def on_server(configurable: Mapping[str, Any]) -> bool:
    """Whether a LangGraph server made this ``configurable``; then what else is in it comes from the client.

    Source:
        The same keys that LangGraph 1.2 makes ``runtime.server_info`` of.
    """
    return any(configurable.get(key) is not None for key in _SERVER_KEYS)


def server_owner(user: object) -> Owner | None:
    """Return the owner that a server's *user* is; ``None`` where nobody was authenticated."""
    identity = getattr(user, "identity", None)
    if not isinstance(identity, str) or not identity or not getattr(user, "is_authenticated", True):
        return None
    return Owner(identity)


def claims_of(configurable: Mapping[str, Any]) -> dict[str, Owner]:
    """Return the owners that *configurable* names, by where it names them.

    Raises:
        InvalidInputError: A name is no user id, or no label of one.
    """
    claims: dict[str, Owner] = {}
    user_id = configurable.get("user_id")
    if user_id is not None:
        claims["configurable.user_id"] = Owner(user_id)
    label = configurable.get("langgraph_user_id")
    if label is not None:
        owner = owner_of_label(label) if isinstance(label, str) else None
        if owner is None:
            msg = "configurable.langgraph_user_id is no owner's label; make it with tk.label(user_id) or tk.config()."
            raise InvalidInputError(msg)
        claims["configurable.langgraph_user_id"] = owner
    return claims


def agreed(claims: Mapping[str, Owner]) -> Owner | None:
    """Return the one owner of all *claims*, ``None`` where there are none.

    Raises:
        OwnerConflictError: They are not all the same.
    """
    owners = set(claims.values())
    if len(owners) > 1:
        msg = f"{' and '.join(claims)} name different owners; give the owner once, or the same one everywhere."
        raise OwnerConflictError(msg, sources=tuple(claims))
    return next(iter(owners), None)


def configured_owner(configurable: Mapping[str, Any]) -> Owner | None:
    """Return whose turn *configurable* says it is, ``None`` where it says nothing that counts.

    On a LangGraph server only the user that it authenticated counts.

    Raises:
        InvalidInputError, OwnerConflictError: See :func:`claims_of` and :func:`agreed`.
    """
    if on_server(configurable):
        return server_owner(configurable.get(SERVER_USER))
    return agreed(claims_of(configurable))
