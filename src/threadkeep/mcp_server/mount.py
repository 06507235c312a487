"""``/mcp``: the MCP server over streamable HTTP, without sessions, as an OAuth resource server."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from typing_extensions import override

from threadkeep.gateway.auth.resources import METADATA, ProtectedResource
from threadkeep.gateway.problems import problem
from threadkeep.mcp_server.server import McpServer, create_server

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastapi import FastAPI

    from threadkeep.gateway.app import Gateway
    from threadkeep.gateway.principals import Principal
    from threadkeep.gateway.settings import GatewaySettings

PATH: Final = "/mcp"
METADATA_PATH: Final = f"{METADATA}{PATH}"
SCOPES: Final = ("memory:read", "memory:write", "memory:review")
_LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")


def mount(app: FastAPI, gateway: Gateway) -> Callable[[], AbstractAsyncContextManager[None]]:
    """Add the routes to *app*, and return what runs the server."""
    endpoint = McpEndpoint(gateway)
    app.router.routes.append(Route(PATH, endpoint))
    if gateway.settings.issuers:
        for path in (METADATA_PATH, METADATA):
            app.router.routes.append(Route(path, endpoint.metadata))
    return endpoint.running


class McpEndpoint(ProtectedResource):
    """Answers the requests at ``/mcp``."""

    def __init__(self, gateway: Gateway) -> None:
        super().__init__(gateway.settings, PATH)
        self._server = create_server(gateway.tk, _principal, self.refuse)
        self._security = TransportSecurityMiddleware(_security(gateway.settings))

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Answer requests inside the context."""
        manager = StreamableHTTPSessionManager(self._server, json_response=True, stateless=True)
        async with manager.run():
            with self.answering(manager.handle_request):
                yield

    async def metadata(self, request: Request) -> Response:
        """Return the metadata of the protected resource, as RFC 9728 says."""
        refused = await self._security.validate_request(request)
        return refused or JSONResponse(
            {
                "resource": f"{self.origin(request)}{PATH}",
                "authorization_servers": list(self.settings.issuers),
                "scopes_supported": list(SCOPES),
                "bearer_methods_supported": ["header"],
                "resource_name": "Threadkeep",
            },
            headers={"Access-Control-Allow-Origin": "*"},
        )

    @override
    async def refusal(self, request: Request) -> Response | None:
        refused = await self._security.validate_request(request) or await super().refusal(request)
        if refused is None and request.method != "POST":
            detail = "There are no sessions: each POST is answered by itself."
            return problem(405, "method_not_allowed", detail, headers={"Allow": "POST"})
        return refused


def _principal(server: McpServer) -> Principal:
    """Return who makes the HTTP request that *server* answers."""
    request: Any = server.request_context.request
    return request.state.principal


def _security(settings: GatewaySettings) -> TransportSecuritySettings:
    """Return the hosts and origins of requests that are answered: the public one, and loopback ones."""
    hosts = [host for name in _LOOPBACK for host in (name, f"{name}:*")]
    origins = [f"http://{host}" for host in hosts]
    if settings.public_url is not None:
        hosts.append(urlsplit(settings.public_url).netloc)
        origins.append(settings.public_url)
    return TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=origins)
