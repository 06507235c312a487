"""A protected resource of OAuth: how it challenges clients, and how a protocol's answer gets another HTTP status."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.datastructures import MutableHeaders

from threadkeep.errors import OwnerRequiredError
from threadkeep.gateway.auth import admit
from threadkeep.gateway.problems import ProblemError, problem

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import Message, Send

    from threadkeep.gateway.settings import GatewaySettings

METADATA: Final = "/.well-known/oauth-protected-resource"


class ProtectedResource:
    """An address that only requests of users reach.

    Args:
        settings: The settings of the gateway.
        path: The path of the resource, if its metadata are served as RFC 9728 says.
    """

    def __init__(self, settings: GatewaySettings, path: str | None = None) -> None:
        self._settings = settings
        self._path = path

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
        return self._settings.public_url or str(request.base_url).rstrip("/")

    def deny(self, request: Request, scope: str) -> None:
        """Make the status of the answer to *request* 403, and name the scope that it needs."""
        challenge = self._challenge(request, 'error="insufficient_scope"', f'scope="{scope}"')
        request.state.override = (403, {"WWW-Authenticate": challenge})

    def limit(self, request: Request, error: ProblemError) -> None:
        """Make the status of the answer to *request* that of *error*, and say when to try again."""
        after = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
        request.state.override = (error.status, after)

    def _challenge(self, request: Request, *parts: str) -> str:
        if self._settings.issuers and self._path is not None:
            parts = (*parts, f'resource_metadata="{self.origin(request)}{METADATA}{self._path}"')
        return " ".join(("Bearer", ", ".join(parts))).strip()


def restarting() -> Response:
    """Return the answer of a protocol while the application starts or stops."""
    return problem(503, "restarting", "The server is starting or stopping.", headers={"Retry-After": "1"})


def sender_with_status(request: Request, send: Send) -> Send:
    """Return what sends the answer to *request* with the status that it was given, if any."""

    async def send_checked(message: Message) -> None:
        override: tuple[int, dict[str, str]] | None = getattr(request.state, "override", None)
        if message["type"] == "http.response.start" and override is not None:
            message["status"], headers = override
            MutableHeaders(scope=message).update(headers)
        await send(message)

    return send_checked
