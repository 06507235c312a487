"""The OAuth client: discovery and registration by the official ``mcp`` package, then code, refresh and revocation.

Discovery, registration and the checks of the issuer are the package's. The code verifier and the state are ours: the
callback may reach another process than the one in which the user began.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from threadkeep.credentials.models import OAuthClient, PendingAuthorization, StoredCredential, Tokens
from threadkeep.errors import AgentUnavailableError, InvalidInputError, optional_import
from threadkeep.ids import base64url

if TYPE_CHECKING:
    import httpx
    from mcp.client.auth import OAuthClientProvider
    from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

_TIMEOUT_SECONDS: Final = 20.0
_REFUSED: Final = (400, 401, 403)
_CLIENT_NAME: Final = "Threadkeep"
_VERIFIER_BYTES: Final = 64
_PROBE: Final = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
_PROBE_HEADERS: Final = {"Accept": "application/json, text/event-stream"}


class TokenRefusedError(Exception):
    """The authorization server refuses a code or a refresh token."""


@dataclass(frozen=True, slots=True)
class _Registration:
    """The package's token storage, for discovery: it knows the client's registration only.

    Attributes:
        client: The registration that is used; ``None``: the client registers itself.
    """

    client: OAuthClientInformationFull | None

    async def get_tokens(self) -> OAuthToken | None:
        """Return None: discovery begins without a token."""
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Keep nothing: tokens are issued by :func:`exchange`."""

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return the registration."""
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Keep nothing: the caller reads the new registration from the provider."""


async def begin(
    server: str, *, redirect_uri: str, registration: Mapping[str, Any] | None
) -> tuple[str, str, PendingAuthorization]:
    """Ask *server* how it is authorized, register the client, and return the URL for the user, the state and the rest.

    Args:
        server: The URL of the MCP server.
        redirect_uri: Where the authorization server sends the browser.
        registration: The client's registration from before, or as an administrator made it; ``None``: register now.

    Raises:
        InvalidInputError: The server asks for no authorization, or its metadata or registration cannot be used.
        AgentUnavailableError: The server or its authorization server does not answer.
    """
    with optional_import("Credentials of users for MCP servers", extra="mcp"):
        from mcp.client.auth import OAuthClientProvider
        from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata
    redirected: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def redirect(url: str) -> None:
        redirected.set_result(url)

    async def never() -> tuple[str, str | None]:
        return await asyncio.get_running_loop().create_future()  # the probe is cancelled here

    metadata = OAuthClientMetadata.model_validate({"redirect_uris": [redirect_uri], "client_name": _CLIENT_NAME})
    known = OAuthClientInformationFull.model_validate(registration) if registration else None
    provider = OAuthClientProvider(server, metadata, _Registration(known), redirect, never)
    url = await _redirect_url(provider, server, redirected)
    state, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(_VERIFIER_BYTES)
    client = _client_of(provider, url)
    return _with_pkce(url, state, verifier), state, PendingAuthorization(server, client, redirect_uri, verifier)


async def exchange(pending: PendingAuthorization, code: str, *, now: datetime) -> Tokens:
    """Exchange *code* for tokens.

    Raises:
        TokenRefusedError: The code is refused.
        AgentUnavailableError: The authorization server does not answer.
    """
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": pending.redirect_uri,
        "code_verifier": pending.verifier,
    }
    return await _tokens(pending.server, pending.client, form, now=now)


async def refresh(stored: StoredCredential, tokens: Tokens, *, now: datetime) -> Tokens:
    """Exchange the refresh token for new tokens.

    Raises:
        TokenRefusedError: It is refused: expired or revoked.
        AgentUnavailableError: The authorization server does not answer.
    """
    form = {"grant_type": "refresh_token", "refresh_token": tokens.refresh or ""}
    return await _tokens(stored.server, stored.client, form, now=now, before=tokens)


async def revoke(stored: StoredCredential, tokens: Tokens) -> None:
    """Revoke the tokens at the authorization server, if it can.

    Raises:
        AgentUnavailableError: It does not answer, or refuses.
    """
    endpoint = stored.client.revocation_endpoint
    if endpoint is None:
        return
    token, hint = (tokens.refresh, "refresh_token") if tokens.refresh else (tokens.access, "access_token")
    response = await _post(endpoint, stored.client, {"token": token, "token_type_hint": hint})
    if not response.is_success:
        msg = f"The authorization server {stored.client.issuer} did not revoke the token ({response.status_code})."
        raise AgentUnavailableError(msg, server=stored.server)


async def _redirect_url(provider: OAuthClientProvider, server: str, redirected: asyncio.Future[str]) -> str:
    """Return the URL of the consent, which the package makes when *server* refuses a request without a token."""
    import httpx
    from mcp.client.auth import OAuthFlowError
    from pydantic import ValidationError

    async with httpx.AsyncClient(auth=provider, timeout=_TIMEOUT_SECONDS) as client:
        probe = asyncio.ensure_future(client.post(server, json=_PROBE, headers=_PROBE_HEADERS))
        try:
            await asyncio.wait((probe, redirected), return_when=asyncio.FIRST_COMPLETED)
            if redirected.done():
                return redirected.result()
            response = await probe
        except (OAuthFlowError, ValidationError, ValueError) as error:
            msg = f"{server} cannot be authorized: {type(error).__name__}: {error}"
            raise InvalidInputError(msg) from error
        except httpx.HTTPError as error:
            raise _silent(server, error) from error
        finally:
            probe.cancel()
            await asyncio.gather(probe, return_exceptions=True)
    msg = f"{server} asks for no authorization (status {response.status_code}); use it without a credential."
    raise InvalidInputError(msg)


def _client_of(provider: OAuthClientProvider, url: str) -> OAuthClient:
    """Return what *provider* has found out; *url* is the one of the consent."""
    context, parts = provider.context, urlsplit(url)
    metadata, registration = context.oauth_metadata, context.client_info
    base = f"{parts.scheme}://{parts.netloc}"
    revocation = metadata.revocation_endpoint if metadata else None
    return OAuthClient(
        registration=registration.model_dump(mode="json", exclude_none=True) if registration else {},
        issuer=str(metadata.issuer) if metadata else base,
        token_endpoint=str(metadata.token_endpoint) if metadata else f"{base}/token",
        revocation_endpoint=str(revocation) if revocation else None,
        resource=dict(parse_qsl(parts.query)).get("resource"),
    )


def _with_pkce(url: str, state: str, verifier: str) -> str:
    """Return *url* with our state and the challenge of our code verifier."""
    challenge = base64url(hashlib.sha256(verifier.encode()).digest())
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query)) | {"state": state, "code_challenge": challenge}
    return urlunsplit(parts._replace(query=urlencode(query)))


async def _tokens(
    server: str, client: OAuthClient, form: dict[str, str], *, now: datetime, before: Tokens | None = None
) -> Tokens:
    """Return the tokens that the authorization server issues for *form*; what it leaves out stays as *before*."""
    from mcp.shared.auth import OAuthToken

    if client.resource is not None:
        form["resource"] = client.resource
    response = await _post(client.token_endpoint, client, form)
    if response.status_code in _REFUSED:
        raise TokenRefusedError
    if not response.is_success:
        msg = f"The authorization server of {server} did not answer (status {response.status_code}); try again."
        raise AgentUnavailableError(msg, server=server)
    try:
        issued = OAuthToken.model_validate_json(response.content)
    except ValueError:  # it may quote the token
        msg = f"The authorization server of {server} issued no token that can be read."
        raise AgentUnavailableError(msg, server=server) from None
    return Tokens(
        issued.access_token,
        issued.refresh_token or (before.refresh if before else None),
        None if issued.expires_in is None else now + timedelta(seconds=issued.expires_in),
        tuple(issued.scope.split()) if issued.scope else before.scopes if before else (),
    )


async def _post(endpoint: str, client: OAuthClient, form: dict[str, str]) -> httpx.Response:
    """Send *form* as the registered client, by the way of authentication that it was registered with."""
    import httpx
    from mcp.client.auth.oauth2 import OAuthContext
    from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata

    info = OAuthClientInformationFull.model_validate(client.registration)
    metadata = OAuthClientMetadata.model_validate({"redirect_uris": info.redirect_uris})
    context = OAuthContext(endpoint, metadata, _Registration(info), None, None, client_info=info)
    data, headers = context.prepare_token_auth({**form, "client_id": info.client_id or ""}, {})
    try:
        async with httpx.AsyncClient(timeout=_TIMEOUT_SECONDS) as http:
            return await http.post(endpoint, data=data, headers=headers)
    except httpx.HTTPError as error:
        raise _silent(client.issuer, error) from error


def _silent(server: str, error: Exception) -> AgentUnavailableError:
    msg = f"{server} did not answer ({type(error).__name__}); nothing was changed, try again."
    return AgentUnavailableError(msg, server=server)
