"""Behind a LangGraph server: a store, rules and an identity for which only the user counts that it authenticated.

A server limits its HTTP interface by the rules of :func:`protect`, and nothing limits ``runtime.store`` inside a graph;
:func:`server_store` limits both.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

from langgraph.config import get_config
from langgraph.store.base import GetOp, ListNamespacesOp, MatchCondition, Op, PutOp, Result, SearchOp
from typing_extensions import override

from threadkeep.errors import OwnerMismatchError, OwnerRequiredError
from threadkeep.identity import Owner, claimed_owner, on_server, replace_label
from threadkeep.langgraph.operations import CallPlan, is_shared, labels_of, planned, require_own
from threadkeep.langgraph.store import ThreadkeepStore
from threadkeep.storage.interface import Namespace

if TYPE_CHECKING:
    from langgraph_sdk import Auth

    from threadkeep.client import Threadkeep

_CONTEXT: Final = "langgraph_api.utils"
"""The server's own module that holds the authenticated user; it is loaded in every server."""


ME: Final = "@me"
"""The label that stands for the authenticated user: ``("memories", "@me")`` is that user's namespace."""

_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
_STUDIO: Final = "https://smith.langchain.com"


class ServerStore(ThreadkeepStore):
    """The LangGraph store of the authenticated user: requests and graphs cannot name another user's namespaces."""

    @override
    def batch(self, ops: Iterable[Op]) -> list[Result]:
        with _http_errors():
            return super().batch(ops)

    @override
    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        with _http_errors():
            return await super().abatch(ops)

    @override
    def _planned(self, ops: Iterable[Op]) -> CallPlan:
        owner, given = self._resolve_owner(), list(ops)
        # A request lists the user's own namespaces, unless it names a shared root.
        shared = _in_graph() or all(_lists_shared(op) for op in given if isinstance(op, ListNamespacesOp))
        return planned([_resolved(op, owner) for op in given], fields=self._fields, owner=owner, shared=shared)

    @override
    def _resolve_owner(self) -> Owner:
        return server_user()


def server_store(tk: Threadkeep) -> ServerStore:
    """Return the store for ``"store": {"path": …}`` in ``langgraph.json``; no I/O happens before its first use.

    ``("memories", label)``, ``("summaries", label)`` and ``("users", label, …)`` are those of the authenticated user;
    ``@me`` stands for the label. Another user's raise ``OwnerMismatchError``. Other roots, such as ``("prefs",)``, are
    shared by all users, as in LangGraph's own stores; the rule of :func:`protect` decides which of them clients reach.
    Without an authenticated user every operation raises ``OwnerRequiredError``. In a request for the store these
    errors are answered with 403 and 401.
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


def protect(auth: Auth, *, shared: Collection[str] = ()) -> None:
    """Register rules that show each user their own threads, runs, crons, assistants and namespaces of the store.

    The server's own assistants, one for each graph, stay visible to all. ``@auth.authenticate`` is the application's.

    Args:
        auth: The object that ``langgraph.json`` names under ``auth``.
        shared: Roots of the store that belong to no user and that clients may read and write over HTTP.
    """
    roots = frozenset(shared)

    async def store(ctx: Any, value: dict[str, Any]) -> None:
        await _allow_store(ctx, value, roots)

    auth.on.store(store)
    auth.on.threads(_own)
    auth.on.crons(_own)
    auth.on.assistants(_own_assistants)


async def only_own(ctx: Any, value: dict[str, Any]) -> None:
    """Refuse a request for the store that is not for the user's own namespaces, with status 403.

    Register it with ``auth.on.store(only_own)``, or all rules with :func:`protect`.
    """
    await _allow_store(ctx, value, frozenset())


def development_user(request: Any, authorization: str | None) -> dict[str, Any]:
    """Return the user that a caller on this machine says to be; for development only.

    The user of ``Authorization: Bearer NAME`` is NAME, and ``me`` without it.

    Args:
        request: Starlette's.
        authorization: The header.

    Raises:
        HTTPException: Status 401: the caller, or the web page that calls, is not on this machine.
    """
    from langgraph_sdk import Auth

    host = getattr(request.client, "host", None)
    origin: str | None = request.headers.get("origin")
    page = urlsplit(origin).hostname if origin else None
    if host not in (None, *_LOOPBACK) or (page is not None and page not in _LOOPBACK and origin != _STUDIO):
        detail = "auth.py is for development on one machine; replace its authenticate() to serve others."
        raise Auth.exceptions.HTTPException(status_code=401, detail=detail)
    name = (authorization or "").removeprefix("Bearer ").strip()
    return {"identity": name or "me", "is_authenticated": True}


async def _own(ctx: Any, value: dict[str, Any]) -> dict[str, Any]:
    """Mark what is written with its user, and show only what is marked so."""
    value.setdefault("metadata", {})["owner"] = ctx.user.identity
    return {"owner": ctx.user.identity}


async def _own_assistants(ctx: Any, value: dict[str, Any]) -> dict[str, Any]:
    """Do what :func:`_own` does, and show the assistants that the server made for its graphs."""
    own = {"owner": ctx.user.identity}
    if ctx.action in ("read", "search"):
        return {"$or": [own, {"created_by": "system"}]}
    metadata = value.setdefault("metadata", {})
    metadata["owner"] = ctx.user.identity
    metadata.pop("created_by", None)
    return own


async def _allow_store(ctx: Any, value: dict[str, Any], shared: frozenset[str]) -> None:
    """Let a request pass that names the user's own namespaces or *shared* roots.

    Raises:
        HTTPException: Status 403: it names others.
    """
    from langgraph_sdk import Auth

    owner = Owner(str(ctx.user.identity))
    try:
        labels = _with_label(labels_of(value.get("namespace") or ()), owner)
        whole_list = ctx.action == "list_namespaces" and not is_shared(labels)  # ServerStore lists the user's own
        if not whole_list and not (labels and labels[0] in shared):
            require_own(labels, owner)
    except (OwnerMismatchError, ValueError) as error:
        raise Auth.exceptions.HTTPException(status_code=403, detail=str(error)) from error
    if labels:
        value["namespace"] = labels


def _with_label(labels: Namespace, owner: Owner) -> Namespace:
    """Return *labels* with the label of *owner* in place of ``@me``."""
    return replace_label(labels, ME, owner.label)


def _resolved(op: Any, owner: Owner) -> Any:
    """Return *op* with the label of *owner* in place of ``@me``."""
    match op:
        case GetOp() | PutOp():
            return op._replace(namespace=_with_label(labels_of(op.namespace), owner))
        case SearchOp():
            return op._replace(namespace_prefix=_with_label(labels_of(op.namespace_prefix), owner))
        case ListNamespacesOp():
            conditions = [
                condition
                if condition.match_type != "prefix"
                else MatchCondition("prefix", _with_label(labels_of(condition.path), owner))
                for condition in op.match_conditions or ()
            ]
            return op._replace(match_conditions=tuple(conditions))
        case _:
            return op


def _lists_shared(op: ListNamespacesOp) -> bool:
    prefixes = [condition.path for condition in op.match_conditions or () if condition.match_type == "prefix"]
    return any(is_shared(tuple(map(str, path))) for path in prefixes)


def _in_graph() -> bool:
    """Return whether a node runs; otherwise a request for the store is answered."""
    try:
        get_config()
    except RuntimeError:
        return False
    return True


@contextmanager
def _http_errors() -> Generator[None]:
    """Turn the errors of a request for the store into answers with a status and our message; nodes get our errors."""
    try:
        yield
    except (OwnerMismatchError, OwnerRequiredError) as error:
        if _in_graph() or _CONTEXT not in sys.modules:
            raise
        from starlette.exceptions import HTTPException

        raise HTTPException(403 if isinstance(error, OwnerMismatchError) else 401, str(error)) from error


def _requesting() -> Owner | None:
    context: Any = sys.modules.get(_CONTEXT)
    found = context.get_auth_ctx() if context is not None else None
    return claimed_owner({"langgraph_auth_user": found.user}) if found is not None else None
