"""Tools of a declared agent in a graph for all owners: each run has them with the access of its owner."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware
from langchain.agents.middleware.types import AgentState, ModelRequest, ModelResponse
from langchain_core.messages import SystemMessage, ToolMessage
from langgraph.prebuilt.tool_node import ToolCallRequest

from threadkeep.langgraph.agent_servers import AgentStatus, Declaration, absent_text, check_agent
from threadkeep.langgraph.per_run import run_owner
from threadkeep.observability import log
from threadkeep.run_events import CurrentRun, current_run, listen

if TYPE_CHECKING:
    from langgraph.types import Command

    from threadkeep.client import Threadkeep
    from threadkeep.identity import Owner

    ToolResult = ToolMessage | Command[Any]


class AgentApprovals(HumanInTheLoopMiddleware):
    """Lets the tools of declared agents wait for a person, beside a ``HumanInTheLoopMiddleware`` of the application."""


class PerRunTools(AgentMiddleware[AgentState[Any], Any, Any]):
    """Gives each run the tools of one declared agent, which work with the credential of the run's owner.

    The server is asked once in a run. Where the owner cannot use it, the run continues without the tools, and the
    prompt says why.

    Args:
        tk: The memory.
        declaration: The agent.
    """

    def __init__(self, tk: Threadkeep, declaration: Declaration) -> None:
        super().__init__()
        self._tk = tk
        self._declaration = declaration
        self._of_run: dict[tuple[CurrentRun, Owner], AgentStatus] = {}
        listen()

    @property
    def name(self) -> str:
        """The name in the graph: a graph may have the tools of several agents."""
        return f"{type(self).__name__}.{self._declaration.name}"

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Call the model with the tools of the run's owner."""
        return handler(self._with_tools(request, self._status_sync()))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """Call the model with the tools of the run's owner."""
        return await handler(self._with_tools(request, await self._status()))

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolResult]) -> ToolResult:
        """Call a tool of the agent as the run's owner."""
        if not self._is_ours(request):
            return handler(request)
        ready = self._with_tool(request, self._status_sync())
        return ready if isinstance(ready, ToolMessage) else handler(ready)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolResult]]
    ) -> ToolResult:
        """Call a tool of the agent as the run's owner."""
        if not self._is_ours(request):
            return await handler(request)
        ready = self._with_tool(request, await self._status())
        return ready if isinstance(ready, ToolMessage) else await handler(ready)

    async def _status(self) -> AgentStatus:
        owner = run_owner()
        return self._cached(owner) or self._keep(owner, await self._ask(owner))

    def _status_sync(self) -> AgentStatus:
        owner = run_owner()
        return self._cached(owner) or self._keep(owner, self._tk.app.event_loop.run_sync(self._ask(owner)))

    async def _ask(self, owner: Owner) -> AgentStatus:
        authenticate = self._tk.for_owner(owner).credentials.auth
        status = await check_agent(self._declaration, self._tk.app, authenticate)
        if not status.ready and not status.off:
            self._tk.app.telemetry.count("agents.disabled")
            log.warning("The agent %s is disabled for an owner: %s", status.name, status.reason)
        return status

    def _cached(self, owner: Owner) -> AgentStatus | None:
        run = current_run()
        return None if run is None else self._of_run.get((run.root, owner))

    def _keep(self, owner: Owner, status: AgentStatus) -> AgentStatus:
        if (run := current_run()) is not None:
            place = run.root, owner
            self._of_run[place] = status
            run.root.when_ended(lambda: self._of_run.pop(place, None))
        return status

    def _is_ours(self, request: ToolCallRequest) -> bool:
        """Whether a tool is called that the graph was not compiled with, and that the agent declares."""
        return request.tool is None and request.tool_call["name"] in self._declaration.tools

    @staticmethod
    def _with_tools(request: ModelRequest[Any], status: AgentStatus) -> ModelRequest[Any]:
        if status.ready:
            names = {getattr(tool, "name", None) for tool in request.tools}
            return request.override(tools=[*request.tools, *(one for one in status.tools if one.name not in names)])
        before = request.system_message.text if request.system_message else ""
        return request.override(system_message=SystemMessage(f"{before}{absent_text([status])}".strip()))

    @staticmethod
    def _with_tool(request: ToolCallRequest, status: AgentStatus) -> ToolCallRequest | ToolMessage:
        """Return *request* with its tool; a result that says so, where the agent cannot be used or lacks the tool."""
        call = request.tool_call
        tool = next((one for one in status.tools if one.name == call["name"]), None)
        if tool is not None:
            return request.override(tool=tool)
        text = f"{status.name} cannot be used now; nothing was done. The user may have to connect it again."
        return ToolMessage(text, name=call["name"], tool_call_id=call["id"], status="error")
