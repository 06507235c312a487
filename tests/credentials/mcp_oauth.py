"""An MCP server that users authorize, with its authorization server, on the loopback interface."""

from __future__ import annotations

import asyncio
import secrets
import socket
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import uvicorn
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    RefreshToken,
    TokenError,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.server.fastmcp import FastMCP
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from mcp.types import Tool
from pydantic import AnyHttpUrl

from tests.gateway.oidc import LoopbackServer

REDIRECT_URI = "http://127.0.0.1:9/callback"


@dataclass
class AuthorizationServer:
    """Issues tokens to the user who is logged in; a refresh token is good once.

    Attributes:
        user: Who is logged in in the browser.
        lifetime: Of access tokens, in seconds.
        seconds: How long it takes to exchange a refresh token.
        answers: Whether it exchanges refresh tokens.
        clients: The registered clients.
        codes: The codes that were not exchanged.
        access: Access tokens that are good.
        refresh: Refresh tokens that are good.
        refreshed: How often tokens were refreshed.
        reused: How often a refresh token was sent that was used before.
        revoked: The tokens that clients revoked.
        listed: How often the tools were listed.
    """

    user: str = "ana"
    lifetime: int = 3600
    seconds: float = 0
    answers: bool = True
    clients: dict[str, OAuthClientInformationFull] = field(default_factory=dict)
    codes: dict[str, AuthorizationCode] = field(default_factory=dict)
    access: dict[str, AccessToken] = field(default_factory=dict)
    refresh: dict[str, RefreshToken] = field(default_factory=dict)
    refreshed: int = 0
    reused: int = 0
    revoked: list[str] = field(default_factory=list)
    listed: int = 0

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        assert client_info.client_id is not None
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        code = AuthorizationCode(
            code=secrets.token_urlsafe(16),
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=client.client_id or "",
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
            subject=self.user,
        )
        self.codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self._issue(client, authorization_code.subject, authorization_code.scopes)

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        if not self.answers:
            raise ConnectionError
        found = self.refresh.get(refresh_token)
        await asyncio.sleep(self.seconds)
        self.reused += found is None and refresh_token not in self.revoked
        return found

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        if self.refresh.pop(refresh_token.token, None) is None:
            self.reused += 1
            raise TokenError("invalid_grant")
        self.refreshed += 1
        return self._issue(client, refresh_token.subject, scopes)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.access.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.revoked.append(token.token)
        self.end(token.subject)

    def end(self, user: str | None) -> None:
        """Revoke everything that *user* gave."""
        self.access = {key: one for key, one in self.access.items() if one.subject != user}
        self.refresh = {key: one for key, one in self.refresh.items() if one.subject != user}

    def _issue(self, client: OAuthClientInformationFull, user: str | None, scopes: list[str]) -> OAuthToken:
        access, refresh = f"access-{secrets.token_urlsafe(16)}", f"refresh-{secrets.token_urlsafe(16)}"
        about: dict[str, Any] = {"client_id": client.client_id or "", "scopes": scopes, "subject": user}
        self.access[access] = AccessToken(token=access, **about)
        self.refresh[refresh] = RefreshToken(token=refresh, **about)
        return OAuthToken(
            access_token=access, refresh_token=refresh, expires_in=self.lifetime, scope=" ".join(scopes) or None
        )


class CountingServer(FastMCP[Any]):
    """Counts how often its tools are listed."""

    def __init__(self, users: AuthorizationServer, name: str, **options: Any) -> None:
        self._users = users
        super().__init__(name, **options)

    async def list_tools(self) -> list[Tool]:
        self._users.listed += 1
        return await super().list_tools()


class McpServer(LoopbackServer):
    """An MCP server with the tool ``whoami``, and its authorization server.

    Attributes:
        users: The authorization server.
        url: Of the MCP server.
    """

    def __init__(self) -> None:
        self.users = AuthorizationServer()
        self._socket = socket.create_server(("127.0.0.1", 0))
        origin = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.url = f"{origin}/mcp"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # tokens are those of this server
            auth = AuthSettings(
                issuer_url=AnyHttpUrl(origin),
                resource_server_url=AnyHttpUrl(self.url),
                client_registration_options=ClientRegistrationOptions(enabled=True),
                revocation_options=RevocationOptions(enabled=True),
                validate_token_resource=False,
            )
        made: FastMCP[Any] = CountingServer(self.users, "billing", auth_server_provider=self.users, auth=auth)

        @made.tool()
        def whoami() -> str:
            """Return the user of these invoices."""
            token = get_access_token()
            assert token is not None
            return f"invoices of {token.subject}"

        super().__init__(made.streamable_http_app())
        port = self._socket.getsockname()[1]
        self._socket.close()
        self._server = uvicorn.Server(uvicorn.Config(made.streamable_http_app(), port=port, log_level="critical"))

    def consent(self, url: str, user: str) -> tuple[str, str]:
        """Open *url* in the browser of *user*, who agrees; return ``state`` and ``code`` of the way back."""
        self.users.user = user
        response = httpx.get(url)
        assert response.status_code == 302, response.text
        query = parse_qs(urlsplit(response.headers["location"]).query)
        return query["state"][0], query["code"][0]


@contextmanager
def serving_mcp() -> Iterator[McpServer]:
    """Start the server."""
    with McpServer() as server:
        yield server
