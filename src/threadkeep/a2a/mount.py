"""``/a2a``: the protocol over JSON-RPC, in versions 1.0 and 0.3. Skills are answered at once, turns are tasks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final

from a2a.helpers.proto_helpers import new_data_message
from a2a.server.context import ServerCallContext
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.routes.common import DefaultServerCallContextBuilder
from a2a.types.a2a_pb2 import (
    CancelTaskRequest,
    Message,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
    TaskStatusUpdateEvent,
)
from a2a.utils.constants import AGENT_CARD_WELL_KNOWN_PATH
from starlette.requests import Request
from starlette.routing import Route
from typing_extensions import override

from threadkeep.a2a.card import PATH, agent_card
from threadkeep.a2a.executor import TurnExecutor
from threadkeep.a2a.messages import CALLER, SKILL, SKILLS, SkillCall, as_protocol_errors, get_caller, read_message
from threadkeep.a2a.notifications import PushConfigs, PushNotifications
from threadkeep.a2a.tasks import RUN, RUNNING, StoredTasks
from threadkeep.gateway.auth import admit_turn
from threadkeep.gateway.auth.resources import ProtectedResource
from threadkeep.gateway.operations import Caller
from threadkeep.gateway.public_http import is_public_url

if TYPE_CHECKING:
    from a2a.server.events import Event
    from fastapi import FastAPI
    from starlette.responses import Response
    from starlette.types import Receive, Scope, Send

    from threadkeep.gateway.app import Gateway

_REQUEST: Final = "threadkeep_request"
"""The state of a call that holds its HTTP request."""

_IDLE_SECONDS: Final = 300.0
_FOLLOWED_SECONDS: Final = 600


def mount(app: FastAPI, gateway: Gateway) -> Callable[[], AbstractAsyncContextManager[None]]:
    """Add the routes to *app*, and return what ends the tasks in progress."""
    endpoint = A2aEndpoint(gateway)
    app.router.routes.append(Route(PATH, endpoint))
    app.router.routes.append(Route(AGENT_CARD_WELL_KNOWN_PATH, endpoint.card))
    return endpoint.running


class A2aEndpoint(ProtectedResource):
    """Answers the requests at ``/a2a``."""

    def __init__(self, gateway: Gateway) -> None:
        super().__init__(gateway.settings)
        self._gateway = gateway
        self._card = lru_cache(maxsize=16)(self._card_endpoint)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Answer requests inside the context.

        The first request makes what handles them: the SDK takes 20 ms to check the agent card.
        """
        async with AsyncExitStack() as stack:

            async def answer_first(scope: Scope, receive: Receive, send: Send) -> None:
                handler = GatewayRequests(self._gateway, self)
                stack.push_async_callback(handler.aclose)
                (route,) = create_jsonrpc_routes(handler, PATH, _CallContexts(self._gateway), enable_v0_3_compat=True)
                self.app = route.app  # before anything is awaited: no other request comes here
                await route.app(scope, receive, send)

            self.app = answer_first
            try:
                yield
            finally:
                self.app = None

    async def card(self, request: Request) -> Response:
        """Return the agent card; it needs no user."""
        return await self._card(self.origin(request))(request)

    def _card_endpoint(self, origin: str) -> Any:
        (route,) = create_agent_card_routes(agent_card(self.settings, origin))
        return route.endpoint


class _CallContexts(DefaultServerCallContextBuilder):
    """Makes the context of a call, with its HTTP request and the program that makes it."""

    def __init__(self, gateway: Gateway) -> None:
        super().__init__()
        self._gateway = gateway

    @override
    def build(self, request: Request) -> ServerCallContext:
        context, principal = super().build(request), request.state.principal
        context.state[_REQUEST] = request
        context.state[CALLER] = Caller(self._gateway.tk.for_owner(principal.owner), principal, "agent")
        return context


class GatewayRequests(DefaultRequestHandler):
    """Answers the requests of users; *resource* gives the answer to a refused one its status."""

    def __init__(self, gateway: Gateway, resource: ProtectedResource) -> None:
        self._gateway = gateway
        self._resource = resource
        self._tasks = StoredTasks(gateway.runs.is_at_work)
        configs = PushConfigs() if gateway.settings.push_notifications else None
        self._notifications = configs and PushNotifications(configs)
        super().__init__(
            TurnExecutor(gateway.runs, configs and configs.callers),
            self._tasks,
            agent_card(gateway.settings, ""),
            push_config_store=configs,
            push_sender=self._notifications,
            push_url_validator=is_public_url,
            interrupted_task_timeout=_IDLE_SECONDS,
        )

    @override
    async def aclose(self) -> None:
        await super().aclose()
        if self._notifications is not None:
            await self._notifications.aclose()

    @override
    async def on_message_send(self, params: SendMessageRequest, context: ServerCallContext) -> Message | Task:
        handled: Any = super()  # its decorators hide the types
        return await self._answer(params, context) or await handled.on_message_send(params, context)

    @override
    async def on_message_send_stream(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event, None]:
        answer = await self._answer(params, context)
        if answer is not None:
            yield answer
            return
        handled: Any = super()
        async for event in handled.on_message_send_stream(params, context):
            yield event

    @override
    async def on_cancel_task(self, params: CancelTaskRequest, context: ServerCallContext) -> Task | None:
        task = await self._elsewhere(params.id, context)
        handled: Any = super()
        cancelled = await handled.on_cancel_task(params, context)
        if task is not None and RUN in task.metadata:  # after that: a task in progress without its run has failed
            with as_protocol_errors():
                await self._gateway.runs.cancel(get_caller(context).principal.owner, str(task.metadata[RUN]))
        return cancelled

    @override
    async def on_subscribe_to_task(
        self, params: SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event, None]:
        task = await self._elsewhere(params.id, context)
        if task is None:
            handled: Any = super()
            async for event in handled.on_subscribe_to_task(params, context):
                yield event
            return
        yield task
        for _ in range(_FOLLOWED_SECONDS):
            await asyncio.sleep(1)
            task = await self._tasks.get(params.id, context)
            if task is None or task.status.state not in RUNNING:
                break
        if task is not None:
            yield TaskStatusUpdateEvent(task_id=task.id, context_id=task.context_id, status=task.status)

    async def _elsewhere(self, task_id: str, context: ServerCallContext) -> Task | None:
        """Return a task in progress that another process works on."""
        if await self._active_task_registry.get(task_id) is not None:
            return None
        task = await self._tasks.get(task_id, context)
        return task if task is not None and task.status.state in RUNNING else None

    async def _answer(self, params: SendMessageRequest, context: ServerCallContext) -> Message | None:
        """Return the answer of a skill; ``None``: the message is a turn, which needs the scope ``chat`` and counts.

        Raises:
            A2AError: The message is invalid, a scope is missing, or the owner has too many turns.
        """
        asked, caller = read_message(params.message), get_caller(context)
        with as_protocol_errors(partial(self._resource.refuse, context.state[_REQUEST])):
            if isinstance(asked, SkillCall):
                result = await SKILLS[asked.name].call(caller, asked.arguments)
                answer = new_data_message(result.model_dump(mode="json"), context_id=params.message.context_id)
                answer.metadata[SKILL] = asked.name
                return answer
            caller.principal.require("chat")
            admit_turn(self._gateway, caller.principal)
            return None
