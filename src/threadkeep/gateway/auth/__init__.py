"""From a request to a principal: one function, and a dependency that requires a scope."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from fastapi import Request

from threadkeep.clock import SystemClock
from threadkeep.errors import InvalidInputError, OwnerRequiredError, SettingsError
from threadkeep.gateway.auth.api_keys import PREFIX
from threadkeep.gateway.auth.claims import InvalidTokenError
from threadkeep.gateway.principals import SCOPES, USER_SCOPES, Principal
from threadkeep.identity import Owner

if TYPE_CHECKING:
    from threadkeep.gateway.app import Gateway
    from threadkeep.gateway.auth.issuers import Issuer, TokenVerifier
    from threadkeep.gateway.settings import GatewaySettings

__all__ = [
    "SCOPES",
    "USER_SCOPES",
    "Authenticate",
    "TokenAuthentication",
    "admit",
    "admit_turn",
    "authentication",
    "check_issuers",
    "principal_of",
    "require",
    "require_turn",
]

Authenticate: TypeAlias = Callable[[Request], Awaitable[Principal | None]]
"""Returns who makes a request; ``None``: it names no user."""

ACTING_FOR: Final = "X-Threadkeep-Acting-For"
"""The header that names the user for whom a principal with the scope ``act`` acts."""

LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "[::1]"})


def require(scope: str) -> Callable[[Request], Awaitable[Principal]]:
    """Return a dependency that gives the principal of a request.

    Args:
        scope: What the request needs.

    Raises:
        OwnerRequiredError: In a request without a user.
        ScopeRequiredError: In a request that lacks the scope.
        ProblemError: In a request of an owner with too many requests.
    """

    async def authenticated(request: Request) -> Principal:
        principal = await admit(request)
        principal.require(scope)
        return principal

    return authenticated


async def admit(request: Request) -> Principal:
    """Return the principal of a request, and count the request once, however often this is called.

    Raises:
        OwnerRequiredError: The request names no user.
        ProblemError: The owner has made too many requests.
    """
    gateway = request.app.state.gateway
    principal = await principal_of(request)
    if principal is None:
        msg = "Authentication is required."
        raise OwnerRequiredError(msg)
    if not hasattr(request.state, "rate_limit"):
        request.state.rate_limit = gateway.rate_limiter.admit(principal.owner)
    return principal


_require_chat: Final = require("chat")


async def require_turn(request: Request) -> Principal:
    """Return the principal of a request that begins a turn.

    Raises:
        OwnerRequiredError: In a request without a user.
        ScopeRequiredError: In a request that lacks the scope ``chat``.
        ProblemError: In a request of an owner with too many requests or turns.
    """
    principal = await _require_chat(request)
    admit_turn(request.app.state.gateway, principal)
    return principal


def admit_turn(gateway: Gateway, principal: Principal) -> None:
    """Count a turn that *principal* begins.

    Raises:
        ProblemError: The owner has too many turns, in progress or in this minute.
    """
    gateway.runs.require_place(principal.owner)
    gateway.turn_limiter.admit(principal.owner)


async def principal_of(request: Request) -> Principal | None:
    """Return who makes a request, or None if it names no user; asked again, without another verification."""
    state = request.state
    if not hasattr(state, "principal"):
        gateway = request.app.state.gateway
        secret = _bearer_token(request)
        if secret is not None and secret.startswith(PREFIX):
            principal = await gateway.api_keys.verify(secret)
        elif gateway.sessions is not None and "authorization" not in request.headers:
            principal = await gateway.sessions.principal(request)
        else:
            principal = await gateway.authenticate(request)
        if principal is not None:
            acting = _acting_for(request, principal)
            for owner in {principal.owner, acting.owner}:
                await gateway.suspensions.require_active(owner)
            principal = acting
        state.principal = principal
    return state.principal


def _bearer_token(request: Request) -> str | None:
    """Return the bearer token of a request, or the API key that clients of LangGraph send; of two, neither counts."""
    values = request.headers.getlist("authorization")
    keys = request.headers.getlist("x-api-key")
    if not values and len(keys) == 1 and keys[0].startswith(PREFIX):
        return keys[0]
    scheme, _, token = values[0].partition(" ") if len(values) == 1 else ("", "", "")
    return token if scheme.lower() == "bearer" else None


def _acting_for(request: Request, principal: Principal) -> Principal:
    """Return *principal* as it acts for the user that the request names, of the same tenant.

    Raises:
        ScopeRequiredError: It may not act for others.
        InvalidInputError: The header names no user, or several do.
    """
    named = [value for name, value in request.headers.raw if name == ACTING_FOR.lower().encode()]
    if not named:
        return principal
    principal.require("act")
    try:
        (user_id,) = (value.decode("utf-8") for value in named)
    except ValueError as error:  # of two, or of bytes that are no text, neither is the user
        msg = f"{ACTING_FOR} must name one user, in UTF-8."
        raise InvalidInputError(msg) from error
    owner = Owner(user_id, principal.owner.tenant)
    return Principal(owner, principal.scopes - {"act", "admin"}, principal.subject)


class TokenAuthentication:
    """Takes the principal from the bearer token of a request.

    Args:
        verifier: Verifies tokens.
    """

    def __init__(self, verifier: TokenVerifier) -> None:
        self.verifier = verifier

    async def __call__(self, request: Request) -> Principal | None:
        """Return the principal, or None if there is no valid token."""
        token = _bearer_token(request)
        if token is None:
            return None
        try:
            return await self.verifier.verify(token)
        except InvalidTokenError:
            return None


async def check_issuers(authenticate: Authenticate) -> Sequence[Issuer]:
    """Return the issuers; keys that are missing or old are fetched, at most once in 30 seconds."""
    if not isinstance(authenticate, TokenAuthentication):
        return ()
    issuers = [*authenticate.verifier.issuers.values()]
    await asyncio.gather(*(issuer.check() for issuer in issuers))
    return issuers


def authentication(settings: GatewaySettings) -> Authenticate:
    """Return the authentication of the settings.

    Raises:
        SettingsError: The settings name none, or two.
    """
    if settings.issuers:
        if settings.single_user is not None:
            msg = "THREADKEEP_ISSUERS and THREADKEEP_SINGLE_USER exclude each other; unset one of them."
            raise SettingsError(msg, variable="THREADKEEP_SINGLE_USER")
        if not settings.audience:
            msg = "THREADKEEP_ISSUERS needs THREADKEEP_AUDIENCE: what the claim aud of the tokens must name."
            raise SettingsError(msg, variable="THREADKEEP_AUDIENCE")
        from threadkeep.gateway.auth.issuers import TokenVerifier

        return TokenAuthentication(TokenVerifier(settings, SystemClock()))
    if settings.single_user is None:
        msg = (
            "The gateway has no authentication: set THREADKEEP_ISSUERS or THREADKEEP_SINGLE_USER, "
            "or pass authenticate= to create_app()."
        )
        raise SettingsError(msg, variable="THREADKEEP_ISSUERS")
    try:
        only = Principal(Owner(settings.single_user), USER_SCOPES, settings.single_user)
    except InvalidInputError as error:
        msg = f"THREADKEEP_SINGLE_USER is invalid: {error}"
        raise SettingsError(msg, variable="THREADKEEP_SINGLE_USER") from error

    async def single_user(request: Request) -> Principal | None:
        origin = request.headers.get("origin")
        is_local = _is_loopback(request.headers.get("host", ""))
        # A page of another site may send forms here, and its browser says where the page is from.
        return only if is_local and (origin is None or _is_loopback(origin.partition("://")[2])) else None

    return single_user


def _is_loopback(host: str) -> bool:
    """Whether *host*, which may have a port, is this machine."""
    name = host[: host.index("]") + 1] if host.startswith("[") and "]" in host else host.partition(":")[0]
    return name in LOOPBACK
