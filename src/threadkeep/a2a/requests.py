"""Answers the requests: skills at once, turns as tasks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

from a2a.helpers.proto_helpers import new_data_part
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.types.a2a_pb2 import (
    CancelTaskRequest,
    Message,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
    TaskStatusUpdateEvent,
)
from typing_extensions import override

from threadkeep.a2a.executor import TurnExecutor
from threadkeep.a2a.messages import SKILL, SKILLS, AgentTurn, SkillCall, protocol_error, read_message
from threadkeep.a2a.notifications import PushNotifications
from threadkeep.a2a.tasks import RUN, RUNNING, StoredTasks
from threadkeep.errors import ScopeRequiredError
from threadkeep.gateway.auth import admit_turn
from threadkeep.gateway.operations import Caller
from threadkeep.gateway.problems import ProblemError
from threadkeep.gateway.public_http import is_public_url
from threadkeep.ids import new_id

if TYPE_CHECKING:
    from a2a.server.context import ServerCallContext
    from a2a.server.events import Event
    from a2a.types.a2a_pb2 import AgentCard
    from starlette.requests import Request

    from threadkeep.gateway.app import Gateway
    from threadkeep.gateway.auth.resources import ProtectedResource

REQUEST = "threadkeep_request"
"""The state of a call that holds its HTTP request."""

_IDLE_SECONDS = 300.0
_FOLLOWED_SECONDS = 600


class GatewayRequests(DefaultRequestHandler):
    """Answers the requests of users.

    Args:
        gateway: What the routes share.
        card: The agent card.
        resource: Names a missing scope to the client.
    """

    def __init__(self, gateway: Gateway, card: AgentCard, resource: ProtectedResource) -> None:
        self._gateway = gateway
        self._resource = resource
        self._tasks = StoredTasks(self._caller, gateway.runs.is_at_work)
        pushes = card.capabilities.push_notifications
        self._notifications = PushNotifications(self._caller, gateway.tk) if pushes else None
        configs = self._notifications and self._notifications.configs
        super().__init__(
            TurnExecutor(gateway.runs, self._caller, configs and configs.owners),
            self._tasks,
            card,
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
        asked = await self._admit(params, context)
        if isinstance(asked, SkillCall):
            return await self._answer(asked, params.message, context)
        handled: Any = super()  # its decorators hide the types
        return await handled.on_message_send(params, context)

    @override
    async def on_message_send_stream(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event, None]:
        asked = await self._admit(params, context)
        if isinstance(asked, SkillCall):
            yield await self._answer(asked, params.message, context)
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
            try:
                await self._gateway.runs.cancel(self._caller(context).principal.owner, str(task.metadata[RUN]))
            except Exception as error:
                raise protocol_error(error) from error
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

    async def _admit(self, params: SendMessageRequest, context: ServerCallContext) -> SkillCall | AgentTurn:
        """Return what is asked for; a turn needs the scope ``chat`` and counts.

        Raises:
            A2AError: The message is invalid, the scope is missing, or the owner has too many turns.
        """
        asked = read_message(params.message)
        if isinstance(asked, AgentTurn):
            try:
                self._caller(context).require("chat")
                admit_turn(self._gateway, self._caller(context).principal)
            except (ScopeRequiredError, ProblemError) as error:
                raise self._refused(error, context) from error
        return asked

    async def _answer(self, call: SkillCall, message: Message, context: ServerCallContext) -> Message:
        try:
            result = await SKILLS[call.name].call(self._caller(context), call.arguments)
        except Exception as error:
            raise self._refused(error, context) from error
        part = new_data_part(result.model_dump(mode="json"))
        answer = Message(message_id=new_id(), context_id=message.context_id, role=Role.ROLE_AGENT, parts=[part])
        answer.metadata[SKILL] = call.name
        return answer

    def _refused(self, error: Exception, context: ServerCallContext) -> Exception:
        """Return *error* as the protocol says it, and give the HTTP answer its status."""
        request: Request = context.state[REQUEST]
        if isinstance(error, ScopeRequiredError):
            self._resource.deny(request, str(error.details["scope"]))
        if isinstance(error, ProblemError):
            self._resource.limit(request, error)
        return protocol_error(error)

    def _caller(self, context: ServerCallContext) -> Caller:
        request: Any = context.state[REQUEST]
        principal = request.state.principal
        return Caller(self._gateway.tk.for_owner(principal.owner), principal, "agent")
