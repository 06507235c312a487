"""Behind a LangGraph server: a store, a rule and an identity for which only the user counts that it authenticated.

A server limits what its HTTP interface for the store shows by ``@auth.on.store``, and nothing limits ``runtime.store``
inside a graph; :func:`server_store` limits both.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from langgraph.config import get_config

from threadkeep.errors import OwnerMismatchError, OwnerRequiredError
from threadkeep.identity import Owner, claimed_owner, on_server
from threadkeep.langgraph.operations import labels_of, require_own
from threadkeep.langgraph.store import ThreadkeepStore

if TYPE_CHECKING:
    from threadkeep.client import Threadkeep

_CONTEXT: Final = "langgraph_api.utils"
"""The server's own module that holds the authenticated user; it is loaded in every server."""


class ServerStore(ThreadkeepStore):
    """The LangGraph store of the authenticated user: requests and graphs cannot name other namespaces."""

    def _whose(self) -> Owner:
        return server_user()


def server_store(tk: Threadkeep) -> ServerStore:
    """Return the store for ``"store": {"path": …}`` in ``langgraph.json``; no I/O happens before its first use.

    Every operation is the authenticated user's: ``("memories", label)``, ``("summaries", label)`` and
    ``("users", label, …)`` with the label of that user. Another namespace raises ``OwnerMismatchError``; a request
    without an authenticated user raises ``OwnerRequiredError``.
    """
    minutes = tk.app.settings.store_ttl_minutes
    ttl: Any = {"default_ttl": minutes, "refresh_on_read": False} if minutes else None
    return ServerStore(tk.app.event_loop, tk.app.connect, ttl_config=ttl)


def server_user() -> Owner:
    """Return the user that the server authenticated for the current run or request.

    Raises:
        OwnerRequiredError: There is no authenticated user, or no server.
    """
    try:
        configurable: Mapping[str, Any] = get_config().get("configurable") or {}
    except RuntimeError:  # no node is running: a request for the store, then
        configurable = {}
    owner = claimed_owner(configurable) if on_server(configurable) else _requesting()
    if owner is None:
        msg = (
            "owner is required: the LangGraph server authenticated no user. Set up auth in langgraph.json. For a "
            "server on your own machine, leave its store out and pass tk.middleware(owner=…)."
        )
        raise OwnerRequiredError(msg)
    return owner


def owner_of_request(request: Any) -> Owner:
    """Return the owner of a request, in a route of your own.

    Args:
        request: Starlette's or FastAPI's.

    Raises:
        OwnerRequiredError: The server did not authenticate it.
    """
    user = cast("Mapping[str, Any]", request.scope).get("user")
    identity = getattr(user, "identity", None) if getattr(user, "is_authenticated", False) else None
    if not isinstance(identity, str) or not identity:
        msg = 'owner is required: set "enable_custom_route_auth": true under "http" in langgraph.json.'
        raise OwnerRequiredError(msg)
    return Owner(identity)


async def only_own(ctx: Any, value: Mapping[str, Any]) -> None:
    """Refuse a request for the store that is not for the user's own namespaces, with status 403.

    Register it: ``auth.on.store(only_own)``.
    """
    from langgraph_sdk import Auth

    try:
        require_own(labels_of(value.get("namespace") or ()), Owner(str(ctx.user.identity)))
    except (OwnerMismatchError, ValueError) as error:
        raise Auth.exceptions.HTTPException(status_code=403, detail=str(error)) from error


def _requesting() -> Owner | None:
    context: Any = sys.modules.get(_CONTEXT)
    found = context.get_auth_ctx() if context is not None else None
    return claimed_owner({"langgraph_auth_user": found.user}) if found is not None else None
