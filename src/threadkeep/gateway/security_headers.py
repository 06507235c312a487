"""Headers of every response: what a browser may do with it, the version, and how many requests the owner has left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.datastructures import MutableHeaders

import threadkeep

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Strict-Transport-Security": "max-age=31536000; includeSubDomains",
    "X-Content-Type-Options": "nosniff",
    "X-Threadkeep-Version": threadkeep.__version__,
}


class SecurityHeaders:
    """Adds the headers, unless the route has set them.

    Args:
        app: Answers the requests.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if (rate_limit := scope.get("state", {}).get("rate_limit")) is not None:
                    headers["RateLimit"] = rate_limit
            await send(message)

        await self._app(scope, receive, send_with_headers if scope["type"] == "http" else send)
