"""A protected resource of OAuth: how it challenges clients, and how a protocol's answer gets another HTTP status."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from starlette.datastructures import MutableHeaders
from starlette.requests import Request

from threadkeep.errors import OwnerRequiredError, ScopeRequiredError
from threadkeep.gateway.auth import admit
from threadkeep.gateway.problems import problem
from threadkeep.gateway.public_errors import ProblemError

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from threadkeep.gateway.settings import GatewaySettings

METADATA: Final = "/.well-known/oauth-protected-resource"


class ProtectedResource:
    """The address of a protocol, which only requests of users reach.

    Args:
        settings: The settings of the gateway.
        path: The path of the resource, if its metadata are served as RFC 9728 says.

    Attributes:
        app: What answers the requests; ``None``: the application starts or stops.
    """

    def __init__(self, settings: GatewaySettings, path: str | None = None) -> None:
        self.settings = settings
        self.app: ASGIApp | None = None
        self._path = path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request.

        Raises:
            ProblemError: The owner has made too many requests, or the issuer is unreachable.
            ThreadkeepError: The owner is suspended, or the storage is away.
        """
        request = Request(scope, receive)
        answer = await self.refusal(request) or self.app
        if answer is None:
            detail = "The server is starting or stopping."
            answer = problem(503, "restarting", detail, headers={"Retry-After": "1"})
        await answer(scope, receive, _sender_with_status(request, send))

    @contextmanager
    def answering(self, app: ASGIApp) -> Generator[None]:
        """Answer requests by *app* inside the context."""
        self.app = app
        try:
            yield
        finally:
            self.app = None

    async def refusal(self, request: Request) -> Response | None:
        """Count a request of a user and return None, or return the answer to a request without a user.

        Raises:
            ProblemError: The owner has made too many requests, or the issuer is unreachable.
            ThreadkeepError: The owner is suspended, or the storage is away.
        """
        try:
            await admit(request)
        except OwnerRequiredError as error:
            return problem(401, error.code, str(error), headers={"WWW-Authenticate": self._challenge(request)})
        return None

    def origin(self, request: Request) -> str:
        """Return the address of the gateway for the client that makes *request*."""
        return self.settings.public_url or str(request.base_url).rstrip("/")

    def refuse(self, request: Request, error: Exception) -> None:
        """Give the answer to *request* the status of *error*: of a missing scope, which is named, or of a limit."""
        if isinstance(error, ScopeRequiredError):
            scope = f'scope="{error.details["scope"]}"'
            challenge = self._challenge(request, 'error="insufficient_scope"', scope)
            request.state.override = (403, {"WWW-Authenticate": challenge})
        elif isinstance(error, ProblemError):
            after = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
            request.state.override = (error.status, after)

    def _challenge(self, request: Request, *parts: str) -> str:
        if self.settings.issuers and self._path is not None:
            parts = (*parts, f'resource_metadata="{self.origin(request)}{METADATA}{self._path}"')
        return " ".join(("Bearer", ", ".join(parts))).strip()


def _sender_with_status(request: Request, send: Send) -> Send:
    """Return what sends the answer to *request* with the status that it was given, if any."""

    async def send_checked(message: Message) -> None:
        override: tuple[int, dict[str, str]] | None = getattr(request.state, "override", None)
        if message["type"] == "http.response.start" and override is not None:
            message["status"], headers = override
            MutableHeaders(scope=message).update(headers)
        await send(message)

    return send_checked
