"""Answers the requests: skills at once, turns as tasks."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

from a2a.helpers.proto_helpers import new_data_part
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.types.a2a_pb2 import Message, Role, SendMessageRequest, Task
from typing_extensions import override

from threadkeep.a2a.executor import TurnExecutor
from threadkeep.a2a.messages import SKILL, SKILLS, AgentTurn, SkillCall, protocol_error, read_message
from threadkeep.a2a.tasks import StoredTasks
from threadkeep.errors import ScopeRequiredError
from threadkeep.gateway.auth import admit_turn
from threadkeep.gateway.operations import Caller
from threadkeep.gateway.problems import ProblemError
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
        super().__init__(
            TurnExecutor(gateway.runs, self._caller),
            StoredTasks(self._caller),
            card,
            interrupted_task_timeout=_IDLE_SECONDS,
        )

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
