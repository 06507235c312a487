"""Authenticates the requests of an MCP client as one user."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from typing import TYPE_CHECKING

from threadkeep.errors import CredentialRequiredError, InvalidInputError, optional_import

with optional_import("Credentials of users for MCP servers", extra="mcp"):
    import httpx

if TYPE_CHECKING:
    from httpx import Request, Response


class OwnerAuth(httpx.Auth):
    """Sends the owner's token to one server; a token that the server refuses is refreshed once.

    Args:
        server: The URL of the server.
        token: Returns an access token that is not the one it is given.
    """

    def __init__(self, server: str, token: Callable[[str | None], Awaitable[str]]) -> None:
        self._server = httpx.URL(server)
        self._token = token

    async def async_auth_flow(self, request: Request) -> AsyncGenerator[Request, Response]:
        """See :class:`httpx.Auth`."""
        if (request.url.scheme, request.url.host, request.url.port) != (
            self._server.scheme,
            self._server.host,
            self._server.port,
        ):
            msg = f"The token for {self._server} is not sent to another server."
            raise InvalidInputError(msg)
        token = await self._token(None)
        request.headers["Authorization"] = f"Bearer {token}"
        response = yield request
        if response.status_code != httpx.codes.UNAUTHORIZED:
            return
        request.headers["Authorization"] = f"Bearer {await self._token(token)}"
        response = yield request
        if response.status_code == httpx.codes.UNAUTHORIZED:
            msg = f"{self._server} refuses the user's new token, too: let the user connect it again."
            raise CredentialRequiredError(msg, server=str(self._server))

    def sync_auth_flow(self, request: Request) -> Generator[Request, Response]:
        """Refuse: tokens are read and refreshed in an event loop."""
        msg = "Use httpx.AsyncClient: tokens are read and refreshed in Threadkeep's event loop."
        raise InvalidInputError(msg)
        yield request
