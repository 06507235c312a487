"""``tk.per_run_owner()``: one compiled graph for all owners, each run locked to the owner of its config.

The owner travels as an :class:`~threadkeep.identity.Owner` object in ``configurable["threadkeep_owner"]``. A client
that sends JSON cannot make such an object, and every other value is refused.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, cast

from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware
from langchain.agents.middleware.types import AgentState, ModelRequest, ModelResponse
from langchain_core.messages import SystemMessage, ToolMessage
from langgraph.config import get_config
from langgraph.prebuilt.tool_node import ToolCallRequest
from typing_extensions import override

from threadkeep.checkpoints.head import RUN, RunName
from threadkeep.checkpoints.saver import ThreadkeepCheckpointer
from threadkeep.errors import InvalidInputError, OwnerRequiredError
from threadkeep.identity import Owner, check_read_scopes, checked_user
from threadkeep.langgraph.agent_servers import AgentStatus, Declaration, absent_text, check_agent, require_adapter
from threadkeep.langgraph.identity import (
    PARTICIPANTS_KEY,
    READ_SCOPES_KEY,
    memory_keys,
    participants_from,
    participants_of_run,
)
from threadkeep.langgraph.operations import require_embedder
from threadkeep.langgraph.store import ThreadkeepStore
from threadkeep.observability import log
from threadkeep.run_events import CurrentRun, current_run, listen

if TYPE_CHECKING:
    from datetime import timedelta
    from pathlib import Path

    from langchain_core.runnables import RunnableConfig
    from langchain_core.tools import BaseTool
    from langgraph.checkpoint.base import (
        ChannelVersions,
        Checkpoint,
        CheckpointMetadata,
        CheckpointTuple,
        DeltaChannelHistory,
    )
    from langgraph.graph.state import CompiledStateGraph
    from langgraph.store.base import BaseStore, IndexConfig, TTLConfig
    from langgraph.types import Command

    from threadkeep.checkpoints.leases import Lease
    from threadkeep.checkpoints.maintenance import Maintenance
    from threadkeep.client import ChatModel, Keep, Threadkeep
    from threadkeep.langgraph.identity import ParticipantsSource, ScopesSource

    ToolResult = ToolMessage | Command[Any]

OWNER_KEY: Final = "threadkeep_owner"
"""The key of ``configurable`` that holds the owner of a run."""


def run_owner(source: object = None) -> Owner:
    """Return the owner that a run's config names.

    Args:
        source: A config, or a runtime with a config; otherwise the config of the current node counts.

    Raises:
        OwnerRequiredError: The config names no owner, or no run is in progress.
        InvalidInputError: It names something other than an ``Owner`` object.
    """
    config: Any = cast("Any", source) if isinstance(source, Mapping) else getattr(source, "config", None)
    if config is None:
        try:
            config = get_config()
        except RuntimeError:  # no node is running
            config = {}
    configurable: Mapping[str, object] = config.get("configurable") or {}
    owner = configurable.get(OWNER_KEY)
    if isinstance(owner, Owner):
        return owner
    if owner is None:
        raise _missing_owner()
    msg = f"configurable.{OWNER_KEY} must be an Owner object, got {type(owner).__name__}; view.config() sets it."
    raise InvalidInputError(msg)


def _missing_owner() -> OwnerRequiredError:
    msg = (
        f"owner is required: pass the config of tk.per_run_owner().config(owner, thread_id=…), which sets {OWNER_KEY}."
    )
    return OwnerRequiredError(msg)


class PerRunOwnerView:
    """The parts of a graph that serves all owners: each takes the owner from the run, and is locked to that owner.

    Threads are kept by owner and thread id: the same thread id of two owners is two threads.
    """

    def __init__(self, tk: Threadkeep) -> None:
        self._tk = tk

    @cached_property
    def checkpointer(self) -> PerRunCheckpointer | None:
        """The checkpointer; ``None`` under a LangGraph server, which brings its own."""
        saver = self._tk.app.threads.checkpointer
        return None if saver is None else PerRunCheckpointer(saver)

    @cached_property
    def store(self) -> BaseStore:
        """LangGraph's store, for calls within a run: it has the namespaces of the run's owner only."""
        return self.store_with()

    def store_with(
        self,
        *,
        ranking: Literal["hybrid", "dense"] = "hybrid",
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
    ) -> BaseStore:
        """Return another view of :attr:`store`; the options are those of ``tk.store_with``."""
        if ranking not in ("hybrid", "dense"):
            msg = f"ranking must be hybrid or dense, got {ranking!r}."
            raise InvalidInputError(msg)
        app = self._tk.app
        minutes = app.settings.store_ttl_minutes
        if ttl is None and minutes:
            ttl = {"default_ttl": minutes, "refresh_on_read": False}
        require_embedder(index, app.embedder)
        return PerRunStore(app.event_loop, app.connect, index=index, ttl_config=ttl, ranking=ranking)

    def middleware(
        self,
        *,
        recall: bool = True,
        capture: bool = True,
        budget_tokens: int | None = None,
        timeout: timedelta | None = None,
        placement: str = "user",
        events: str = "full",
        read_scopes: ScopesSource = (),
        experience: Owner | None = None,
        participants: ParticipantsSource = participants_of_run,
    ) -> AgentMiddleware[Any, Any, Any]:
        """Return the middleware; the options are those of ``tk.middleware``.

        Its events have the texts of the memories by default, which the gateway and its page show to their owner.
        Of a thread of several people, :meth:`config` names the participants, unless *participants* does.
        """
        return self._tk.middleware(
            recall=recall,
            capture=capture,
            budget_tokens=budget_tokens,
            timeout=timeout,
            placement=placement,
            events=events,
            read_scopes=read_scopes,
            experience=experience,
            participants=participants,
        )

    def window(
        self, *, max_tokens: int | None = None, keep: Keep | None = None, compress: bool | None = None
    ) -> AgentMiddleware[Any, Any, Any]:
        """Return the middleware that keeps threads within the context window; see ``tk.window``."""
        return self._tk.window(max_tokens=max_tokens, keep=keep, compress=compress)

    def tools(self, *names: str) -> list[BaseTool]:
        """Return the memory tools called *names*, by default all; see ``tk.tools``."""
        return self._tk.tools(*names)

    def agent_tools(self, *names: str, file: str | Path | None = None) -> list[AgentMiddleware[Any, Any, Any]]:
        """Return middleware that gives each run the tools of declared agents, with the access of the run's owner.

        A run asks the agents' servers for their tools with the credential of its owner. Without one, or where a server
        does not answer, the run continues without the tools, and the prompt says so.

        Args:
            names: The names of the agents; they need not have ``oauth = true``.
            file: The file that declares them, as for ``tk.agents.declared``.

        Raises:
            InvalidInputError: No such agent is declared.
            SettingsError: The file cannot be read or understood, or ``threadkeep[agents]`` is not installed.
        """
        if not names:
            return []
        require_adapter()
        declarations = [self._tk.agents.require(name, file) for name in names]
        asking: dict[str, Any] = {tool: True for one in declarations for tool in one.interrupt_on}
        tools: list[AgentMiddleware[Any, Any, Any]] = [PerRunTools(self._tk, one) for one in declarations]
        return [*tools, AgentApprovals(interrupt_on=asking)] if asking else tools

    def graph(
        self,
        *,
        model: ChatModel | None = None,
        tools: Sequence[BaseTool] = (),
        agents: Sequence[str] = (),
        **options: Any,
    ) -> CompiledStateGraph[Any, Any, Any, Any]:
        """Compile an agent with a model, memory tools, middleware, window and checkpointer; see ``tk.graph``.

        It has the tools of the declared *agents*, too: see :meth:`agent_tools`.
        """
        from langchain.agents import create_agent  # pyright: ignore[reportUnknownVariableType] - a saver of any version

        from threadkeep.langgraph.agents import SYSTEM_PROMPT, resolve_model

        options.setdefault("system_prompt", SYSTEM_PROMPT)
        options.setdefault("checkpointer", self.checkpointer)
        chosen = resolve_model(self._tk, model or self._tk.default_model)
        middleware = [self.middleware(), self.window(), *self.agent_tools(*agents)]
        return create_agent(chosen, [*self.tools(), *tools], middleware=middleware, **options)

    def resume(self, answer: Any) -> Any:
        """Return the input with which a run continues that waits for *answer*."""
        from langgraph.types import Command

        return Command(resume=answer)

    async def leaseholder(self, owner: Owner, thread_id: str) -> str | None:
        """Return the name of the run that has the lease on a thread; ``None``: no run has it.

        A run without a name has a random one. The lease of a process that was killed expires after 12 seconds.
        """
        saver = self._scoped_saver(owner)
        return await saver.run(saver.maintenance.leaseholder(thread_id))

    async def last_checkpoint(self, owner: Owner, thread_id: str, run_name: str) -> str | None:
        """Return the newest checkpoint that a run wrote; ``None``: it wrote none yet, or was undone."""
        saver = self._scoped_saver(owner)
        return await saver.run(saver.maintenance.last_checkpoint(thread_id, run_name))

    async def end_run(self, owner: Owner, thread_id: str, run_name: str, *, undo: bool = False) -> bool:
        """Stop a run of any process: it cannot write any more, and waits for its thread no longer.

        A run that waited raises ``RunCancelledError``, one that had the lease ``ThreadMovedOnError`` at its next write.

        Args:
            owner: The owner of the thread.
            thread_id: The thread.
            run_name: The name of the run, as its config says it.
            undo: Whether what it wrote is undone.

        Returns:
            Whether it had the lease on the thread, or waited for it. If neither, that is known after 3 seconds.
        """
        saver = self._scoped_saver(owner)
        return await saver.run(saver.maintenance.end_run(thread_id, run_name, undo=undo))

    def _scoped_saver(self, owner: Owner) -> ThreadkeepCheckpointer:
        if self.checkpointer is None:
            msg = "Under a LangGraph server, its own routes stop runs."
            raise InvalidInputError(msg)
        return self.checkpointer.scoped(owner)

    def config(
        self,
        owner: str | Owner,
        /,
        *,
        thread_id: str,
        memory: bool = True,
        run_name: str | None = None,
        read_scopes: Sequence[Owner] = (),
        participants: Mapping[str, str | Owner] | None = None,
        **configurable: Any,
    ) -> RunnableConfig:
        """Return the config of a run.

        Args:
            owner: The owner of the run, verified by the application.
            thread_id: The thread of the run; another owner's thread of the same id is another thread.
            memory: Whether the run recalls and learns; otherwise the memory tools refuse, too.
            run_name: A name that no other run has, for :meth:`end_run`.
            read_scopes: Shared scopes that the run may read beside the owner's memory.
            participants: The owner of each name that messages carry, in a thread of several people: each is learnt
                about from the turns that they began, and nothing is recalled. ``None``: the thread is *owner*'s alone.
            configurable: Further keys.

        Raises:
            InvalidInputError: *configurable* names an owner, scopes or participants, too; or a scope cannot be read by
                the owner.
        """
        keys = ((READ_SCOPES_KEY, "read_scopes"), (PARTICIPANTS_KEY, "participants"))
        for key, argument in ((OWNER_KEY, "the owner as the first argument"), *keys):
            if key in configurable:
                msg = f"Pass {argument}, not as {key}."
                raise InvalidInputError(msg)
        named = self._user(owner)
        check_read_scopes(named, tuple(read_scopes))
        named_keys: dict[str, Any] = {"thread_id": thread_id, OWNER_KEY: named, **memory_keys(memory=memory)}
        if read_scopes:
            named_keys[READ_SCOPES_KEY] = tuple(read_scopes)
        if participants is not None:
            people = participants_from(participants, None) or {}
            named_keys[PARTICIPANTS_KEY] = {name: self._user(one) for name, one in people.items()}
        if run_name is not None:
            named_keys[RUN] = RunName(run_name)
        return {"configurable": {**configurable, **named_keys}}

    def _user(self, owner: str | Owner) -> Owner:
        return checked_user(self._tk.resolve_owner(owner if isinstance(owner, Owner) else Owner(owner)))


class PerRunStore(ThreadkeepStore):
    """The LangGraph store of the owner of the current run."""

    @override
    def _resolve_owner(self) -> Owner:
        return run_owner()


class PerRunCheckpointer(ThreadkeepCheckpointer):
    """The checkpointer of a graph for all owners: each call is one of the owner that its config names.

    Calls without a config, such as ``delete_thread`` and ``prune``, raise ``OwnerRequiredError``: use ``tk.threads``.

    Args:
        saver: Keeps the threads.

    Attributes:
        takes_owner_from_run: Tells this checkpointer from others.
    """

    takes_owner_from_run = True

    def __init__(self, saver: ThreadkeepCheckpointer) -> None:
        vars(self).update(vars(saver))
        self._saver = saver

    def _scoped_saver(self, config: RunnableConfig) -> ThreadkeepCheckpointer:
        return self._saver.scoped(run_owner(config))

    @property
    @override
    def is_scoped(self) -> bool:
        return True

    @override
    def owner_by(self, config: RunnableConfig) -> Owner | None:
        return run_owner(config)

    @override
    def with_allowlist(self, extra_allowlist: Collection[type | tuple[str, ...]]) -> ThreadkeepCheckpointer:
        return PerRunCheckpointer(self._saver.with_allowlist(extra_allowlist))

    @override
    def identified(self, owner_of: Callable[[RunnableConfig], Owner | None]) -> NoReturn:
        raise _missing_owner()

    @override
    def scoped(self, owner: Owner) -> ThreadkeepCheckpointer:
        return self._saver.scoped(owner)

    @override
    def connected(self) -> ThreadkeepCheckpointer:
        return PerRunCheckpointer(self._saver.connected())

    @override
    @asynccontextmanager
    async def leased(self, config: RunnableConfig) -> AsyncGenerator[None]:
        async with self._scoped_saver(config).leased(config):
            yield

    @override
    def lease_of(self, config: RunnableConfig) -> Lease | None:
        return self._scoped_saver(config).lease_of(config)

    @override
    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return self._scoped_saver(config).get_tuple(config)

    @override
    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await self._scoped_saver(config).aget_tuple(config)

    @override
    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        return self._scoped_saver(config or {}).list(config, filter=filter, before=before, limit=limit)

    @override
    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        async for found in self._scoped_saver(config or {}).alist(config, filter=filter, before=before, limit=limit):
            yield found

    @override
    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        return self._scoped_saver(config).put(config, checkpoint, metadata, new_versions)

    @override
    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        return await self._scoped_saver(config).aput(config, checkpoint, metadata, new_versions)

    @override
    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        self._scoped_saver(config).put_writes(config, writes, task_id, task_path)

    @override
    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        await self._scoped_saver(config).aput_writes(config, writes, task_id, task_path)

    @override
    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        return self._scoped_saver(config).get_delta_channel_history(config=config, channels=channels)

    @override
    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        return await self._scoped_saver(config).aget_delta_channel_history(config=config, channels=channels)

    # What is inherited and has no config ends here, before anything is read.

    @override
    def _target(self, config: RunnableConfig) -> NoReturn:
        raise _missing_owner()

    @property
    @override
    def maintenance(self) -> Maintenance:
        raise _missing_owner()

    @override
    async def _view_threads(self) -> NoReturn:
        raise _missing_owner()


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
