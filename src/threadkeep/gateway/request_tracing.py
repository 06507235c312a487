"""A span for each request: where the caller or the application traces, its trace goes on through the run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from threadkeep.observability import HTTP_METHOD, HTTP_ROUTE, HTTP_STATUS, current_trace_id, span

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


class RequestTracing:
    """Records each request, as a child of the caller's ``traceparent``.

    It does nothing without OpenTelemetry, or where an instrumentation of the application has opened a span.

    Args:
        app: Answers the requests.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http" or current_trace_id() is not None:
            await self._app(scope, receive, send)
            return
        method, sent = scope["method"], dict(scope["headers"]).get(b"traceparent")
        parent = None if sent is None else sent.decode("latin-1")
        with span(method, {HTTP_METHOD: method}, parent=parent) as recorded:

            async def send_and_note(message: Message) -> None:
                if message["type"] == "http.response.start":
                    recorded.set({HTTP_STATUS: message["status"]})
                await send(message)

            try:
                await self._app(scope, receive, send_and_note)
            finally:
                route: Any = scope.get("route")
                if path := getattr(route, "path", None):  # the address itself names threads and runs
                    recorded.rename(f"{method} {path}")
                    recorded.set({HTTP_ROUTE: path})
