"""``/a2a``: the protocol over JSON-RPC, in versions 1.0 and 0.3. Skills are answered at once, turns are tasks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, suppress
from functools import lru_cache, partial
from typing import Any, Final

import httpx
from a2a.helpers.proto_helpers import new_data_message
from a2a.server.context import ServerCallContext
from a2a.server.events import Event
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_jsonrpc_routes
from a2a.server.routes.common import DefaultServerCallContextBuilder
from a2a.types import a2a_pb2 as pb
from a2a.utils.constants import AGENT_CARD_WELL_KNOWN_PATH
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from typing_extensions import override

from threadkeep.a2a.card import PATH, agent_card, card_endpoint
from threadkeep.a2a.executor import TurnExecutor
from threadkeep.a2a.messages import CALL, CALLER, SKILL, SKILLS, as_protocol_errors, get_caller, read_message
from threadkeep.a2a.tasks import RUN, RUNNING, PushConfigs, PushNotifications, StoredTasks
from threadkeep.errors import RunNotFoundError
from threadkeep.gateway.app import Gateway
from threadkeep.gateway.auth import admit_turn
from threadkeep.gateway.auth.resources import ProtectedResource
from threadkeep.gateway.operations import Caller
from threadkeep.gateway.public_http import PublicTransport, is_public_url

_REQUEST: Final = "threadkeep_request"
"""The state of a call that holds its HTTP request."""

_IDLE_SECONDS: Final = 300.0
_FOLLOWED_SECONDS: Final = 600


def mount(app: FastAPI, gateway: Gateway) -> Callable[[], AbstractAsyncContextManager[None]]:
    """Add the routes to *app*, and return what ends the tasks in progress."""
    endpoint = A2aEndpoint(gateway)
    app.router.routes.extend((Route(PATH, endpoint), Route(AGENT_CARD_WELL_KNOWN_PATH, endpoint.card)))
    return endpoint.running


class A2aEndpoint(ProtectedResource):
    """Answers the requests at ``/a2a``."""

    def __init__(self, gateway: Gateway) -> None:
        super().__init__(gateway.settings)
        self._gateway = gateway
        self._card_endpoint = lru_cache(maxsize=16)(partial(card_endpoint, self.settings))

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Answer requests inside the context."""
        client = httpx.AsyncClient(transport=PublicTransport(), trust_env=False)
        async with client as http, aclosing(GatewayRequests(self._gateway, self, http)) as handler:
            (route,) = create_jsonrpc_routes(handler, PATH, handler, enable_v0_3_compat=True)
            with self.answering(route.app):
                yield

    async def card(self, request: Request) -> Response:
        """Return the agent card; it needs no user."""
        return await self._card_endpoint(self.origin(request))(request)


class GatewayRequests(DefaultRequestHandler, DefaultServerCallContextBuilder):
    """Answers the requests of users; *resource* gives the answer to a refused one its status, *http* notifies."""

    def __init__(self, gateway: Gateway, resource: ProtectedResource, http: httpx.AsyncClient) -> None:
        self._gateway = gateway
        self._resource = resource
        self._tasks = StoredTasks(gateway.runs.is_at_work)
        configs = PushConfigs() if gateway.settings.push_notifications else None
        super().__init__(
            TurnExecutor(gateway.runs),
            self._tasks,
            agent_card(gateway.settings, ""),  # without the schemas, which the SDK would take 14 ms to check
            push_config_store=configs,
            push_sender=configs and PushNotifications(http, configs),
            push_url_validator=is_public_url,
            interrupted_task_timeout=_IDLE_SECONDS,
        )

    @override
    def build(self, request: Request) -> ServerCallContext:
        context, principal = super().build(request), request.state.principal
        context.state[_REQUEST] = request
        context.state[CALLER] = Caller(self._gateway.tk.for_owner(principal.owner), principal, "agent")
        CALL.set(context)
        return context

    @override
    async def on_message_send(self, params: pb.SendMessageRequest, context: ServerCallContext) -> pb.Message | pb.Task:
        handled: Any = super()  # its decorators hide the types
        return await self._answer(params, context) or await handled.on_message_send(params, context)

    @override
    async def on_message_send_stream(
        self, params: pb.SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event, None]:
        answer = await self._answer(params, context)
        if answer is not None:
            yield answer
            return
        handled: Any = super()
        async for event in handled.on_message_send_stream(params, context):
            yield event

    @override
    async def on_cancel_task(self, params: pb.CancelTaskRequest, context: ServerCallContext) -> pb.Task | None:
        handled: Any = super()
        task: pb.Task = await handled.on_cancel_task(params, context)
        # After that: a task in progress without its run has failed. A run that is not found has written nothing.
        with as_protocol_errors(), suppress(RunNotFoundError):
            await self._gateway.runs.cancel(get_caller(context).principal.owner, str(task.metadata[RUN]))
        return task

    @override
    async def on_subscribe_to_task(
        self, params: pb.SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event, None]:
        is_here = await self._active_task_registry.get(params.id) is not None
        task = None if is_here else await self._tasks.get(params.id, context)
        if task is None or task.status.state not in RUNNING:
            handled: Any = super()
            async for event in handled.on_subscribe_to_task(params, context):
                yield event
            return
        yield task  # another process works on it
        for _ in range(_FOLLOWED_SECONDS):
            await asyncio.sleep(1)
            task = await self._tasks.get(params.id, context)
            if task is None or task.status.state not in RUNNING:
                break
        if task is not None:
            yield pb.TaskStatusUpdateEvent(task_id=task.id, context_id=task.context_id, status=task.status)

    async def _answer(self, params: pb.SendMessageRequest, context: ServerCallContext) -> pb.Message | None:
        """Return the answer of a skill; ``None``: the message is a turn, which needs the scope ``chat`` and counts."""
        (skill, content), caller = read_message(params.message), get_caller(context)
        with as_protocol_errors(partial(self._resource.refuse, context.state[_REQUEST])):
            if skill is None:
                caller.principal.require("chat")
                admit_turn(self._gateway, caller.principal)
                return None
            result = await SKILLS[skill].call(caller, content)
        answer = new_data_message(result.model_dump(mode="json"), context_id=params.message.context_id)
        answer.metadata[SKILL] = skill
        return answer
