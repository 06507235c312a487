"""``/a2a``: the protocol over JSON-RPC, in versions 1.0 and 0.3, and the agent card."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from a2a.server.context import ServerCallContext
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.routes.common import DefaultServerCallContextBuilder
from a2a.utils.constants import AGENT_CARD_WELL_KNOWN_PATH
from starlette.requests import Request
from starlette.routing import Route
from typing_extensions import override

from threadkeep.a2a.card import PATH, agent_card
from threadkeep.a2a.requests import REQUEST, GatewayRequests
from threadkeep.gateway.auth.resources import ProtectedResource, restarting, sender_with_status

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.responses import Response
    from starlette.types import Receive, Scope, Send

    from threadkeep.gateway.app import Gateway


def mount(app: FastAPI, gateway: Gateway) -> Callable[[], AbstractAsyncContextManager[None]]:
    """Add the routes to *app*, and return what ends the tasks in progress."""
    endpoint = A2aEndpoint(gateway)
    app.router.routes.append(Route(PATH, endpoint))
    app.router.routes.append(Route(AGENT_CARD_WELL_KNOWN_PATH, endpoint.card))
    return endpoint.running


class A2aEndpoint:
    """Answers the requests at ``/a2a``.

    Args:
        gateway: What the routes share.
    """

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._resource = ProtectedResource(gateway.settings)
        self._card = lru_cache(maxsize=16)(self._card_endpoint)
        self._dispatch: Any = None

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Answer requests inside the context."""
        handler = GatewayRequests(self._gateway, agent_card(self._gateway.settings, ""), self._resource)
        (route,) = create_jsonrpc_routes(handler, PATH, _CallContexts(), enable_v0_3_compat=True)
        self._dispatch = route.app
        try:
            yield
        finally:
            self._dispatch = None
            await handler.aclose()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request.

        Raises:
            ProblemError: The owner has made too many requests, or the issuer is unreachable.
            ThreadkeepError: The owner is suspended, or the storage is away.
        """
        request = Request(scope, receive)
        refused = await self._resource.refusal(request)
        answer: Any = refused or self._dispatch or restarting()
        await answer(scope, receive, sender_with_status(request, send))

    async def card(self, request: Request) -> Response:
        """Return the agent card; it needs no user."""
        return await self._card(self._resource.origin(request))(request)

    def _card_endpoint(self, origin: str) -> Any:
        (route,) = create_agent_card_routes(agent_card(self._gateway.settings, origin))
        return route.endpoint


class _CallContexts(DefaultServerCallContextBuilder):
    """Makes the context of a call, with the HTTP request that names the principal."""

    @override
    def build(self, request: Request) -> ServerCallContext:
        context = super().build(request)
        context.state[REQUEST] = request
        return context
