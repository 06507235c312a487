"""From a request to a principal: one function, and a dependency that requires a scope."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from fastapi import Request

from threadkeep.errors import OwnerRequiredError, ScopeRequiredError, SettingsError
from threadkeep.gateway.principals import Principal
from threadkeep.identity import Owner

if TYPE_CHECKING:
    from threadkeep.gateway.settings import GatewaySettings

Authenticate: TypeAlias = Callable[[Request], Awaitable[Principal | None]]
"""Returns who makes a request; ``None``: it names no user."""

SCOPES: Final = frozenset({"chat", "memory:read", "memory:write", "memory:review", "admin", "act"})
USER_SCOPES: Final = SCOPES - {"admin", "act"}
LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "[::1]"})


def require(scope: str) -> Callable[[Request], Awaitable[Principal]]:
    """Return a dependency that gives the principal of a request.

    Args:
        scope: What the request needs.

    Raises:
        OwnerRequiredError: In a request without a user.
        ScopeRequiredError: In a request that lacks the scope.
    """

    async def authenticated(request: Request) -> Principal:
        principal: Principal | None = await request.app.state.gateway.authenticate(request)
        if principal is None:
            msg = "Authentication is required."
            raise OwnerRequiredError(msg)
        if scope not in principal.scopes:
            msg = f"The request needs the scope {scope}."
            raise ScopeRequiredError(msg, scope=scope)
        return principal

    return authenticated


def authentication(settings: GatewaySettings) -> Authenticate:
    """Return the authentication of the settings.

    Raises:
        SettingsError: The settings name none.
    """
    if settings.single_user is None:
        msg = "The gateway needs to know its users: set THREADKEEP_SINGLE_USER, or pass authenticate= to create_app()."
        raise SettingsError(msg, variable="THREADKEEP_SINGLE_USER")
    only = Principal(Owner(settings.single_user), USER_SCOPES, settings.single_user)

    async def single_user(request: Request) -> Principal | None:
        host = request.headers.get("host", "")
        name = host[: host.index("]") + 1] if host.startswith("[") and "]" in host else host.partition(":")[0]
        return only if name in LOOPBACK else None

    return single_user
