"""Tools with which a model works on the memory of whoever it talks to.

The owner comes from the runtime, never from the model's arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

from langchain.tools import ToolRuntime
from langchain_core.tools import BaseTool, StructuredTool

from threadkeep.errors import InvalidInputError, ThreadkeepError
from threadkeep.ids import ThreadId, short_digest
from threadkeep.langgraph.identity import owner_from, thread_id_of
from threadkeep.langgraph.review import review
from threadkeep.langgraph.turns import TurnSoFar
from threadkeep.memories.record import Memory, NewMemory, Source
from threadkeep.owners.opt_out import require_wanted

if TYPE_CHECKING:
    from threadkeep.library import OwnerSource, Threadkeep
    from threadkeep.owners.owner import Owner
    from threadkeep.proposals.record import Proposed

NAMES: Final = ("remember", "search_memory", "list_memories", "correct_memory", "forget_memory")
ON_REQUEST: Final = ("propose_memory_update",)
"""It pauses the run, so it is there only where it is asked for by name."""
_MOST: Final = 50


def memory_tools(tk: Threadkeep, names: tuple[str, ...] = (), *, owner: OwnerSource | None = None) -> list[BaseTool]:
    """Return the tools called *names* (none: all), for the owner that the runtime names.

    Raises:
        InvalidInputError: There is no tool of such a name.
    """
    every = (*NAMES, *ON_REQUEST)
    if unknown := [name for name in names if name not in every]:
        msg = f"There is no tool {unknown[0][:40]!r}; there are {', '.join(every)}."
        raise InvalidInputError(msg)
    work = _Work(tk, owner)
    return [work.tool(name) for name in names or NAMES]


class _Work:
    """What the tools do; each method is one tool, and its docstring is what the model reads."""

    def __init__(self, tk: Threadkeep, owner: OwnerSource | None) -> None:
        self._tk = tk
        self._owner = owner if owner is not None else tk.owner_source

    async def remember(self, statement: str, runtime: ToolRuntime[Any, Any]) -> str:
        """Keep one short statement about the user, in the user's own words, when they ask you to remember it."""
        turn = TurnSoFar(runtime.state, runtime.config)
        source = turn.source(statement, "semantic", self._thread(runtime))
        new = NewMemory(statement, sources=(source,))
        asked = source.speaker == "user" and turn.asks_to_keep()
        owner = await self._whose(runtime)
        kept = await self._tk.app.call(lambda rooms: rooms.proposals.keep(new, owner=owner, asked=asked))
        match kept.status:
            case "accepted":
                return f"Remembered as {kept.memory_id}."
            case "duplicate":
                return f"Known already as {kept.memory_id}."
            case "proposed":
                return f"Proposed as {kept.proposal_id}: it is remembered when the user approves it."
            case "rejected":
                return f"Not remembered: {kept.reason}."

    async def search_memory(self, query: str, runtime: ToolRuntime[Any, Any], limit: int = 10) -> str:
        """Search what is remembered about the user; returns one memory a line with its id."""
        limit = max(1, min(limit, _MOST))
        found = await self._tk.memories.search(query, owner=await self._whose(runtime), limit=limit)
        return _lines([recalled.memory for recalled in found])

    async def list_memories(self, runtime: ToolRuntime[Any, Any], limit: int = 20) -> str:
        """List what is remembered about the user, newest first, one memory a line with its id."""
        limit = max(1, min(limit, _MOST))
        return _lines(await self._tk.memories.list(owner=await self._whose(runtime), limit=limit))

    async def correct_memory(self, memory_id: str, statement: str, runtime: ToolRuntime[Any, Any]) -> str:
        """Replace what a memory says, when the user says that it is wrong or has changed."""
        owner, thread = await self._whose(runtime), self._thread(runtime)
        source = TurnSoFar(runtime.state, runtime.config).source(statement, "semantic", thread)
        known = await self._tk.memories.require(memory_id, owner=owner)
        if source.speaker == "user" and known.kind != "procedural":
            memory = await self._tk.memories.correct(memory_id, statement, owner=owner, source=source)
            return f"Corrected {memory.memory_id}."
        proposed = await self._tk.proposals.propose(
            statement, action="correct", memory_id=memory_id, owner=owner, source=source
        )
        return _told(proposed)

    async def forget_memory(self, memory_id: str, runtime: ToolRuntime[Any, Any]) -> str:
        """Remove a memory for good, when the user asks you to forget it."""
        owner = await self._whose(runtime)
        memory = await self._tk.memories.require(memory_id, owner=owner)
        if TurnSoFar(runtime.state, runtime.config).asks_to_forget(memory_id, memory.text):
            gone = await self._tk.memories.forget(memory_id, owner=owner)
            return f"Forgotten: {', '.join(gone.memory_ids)}."
        source = Source("assistant", self._thread(runtime))
        return _told(await self._tk.proposals.propose(action="forget", memory_id=memory_id, owner=owner, source=source))

    async def propose_memory_update(
        self, statement: str, runtime: ToolRuntime[Any, Any], memory_id: str | None = None
    ) -> str:
        """Ask the user whether to remember a statement, or to replace what the memory with this id says."""
        owner = await self._whose(runtime)
        proposed = await self._tk.proposals.propose(
            statement,
            owner=owner,
            action="correct" if memory_id else "add",
            memory_id=memory_id,
            source=TurnSoFar(runtime.state, runtime.config).source(statement, "semantic", self._thread(runtime)),
            key=short_digest("tool call", self._thread(runtime) or "", runtime.tool_call_id or "", statement),
        )
        proposal = proposed.proposal
        if proposal is None or proposed.status == "approved":
            return _told(proposed)
        if proposal.state == "pending":
            proposal = await review(self._tk, proposal, owner=owner)
        decision = proposal.decision
        if decision is None or proposal.state != "approved":
            said = f": {decision.comment}" if decision and decision.comment else ""
            return f"The user did not approve it ({proposal.state}){said}. Do not propose it again."
        return f"Approved, remembered as {decision.memory_id}: {decision.text or proposal.text}"

    def tool(self, name: str) -> BaseTool:
        """Make the tool called *name*."""
        return self._tool(name, getattr(self, name))

    def _tool(self, name: str, method: Callable[..., Coroutine[Any, Any, str]]) -> BaseTool:
        """Make a tool of *method*: our errors go back to the model as text, so that a wrong id ends no turn."""
        home = self._tk.app.home

        async def answered(**arguments: Any) -> str:
            try:
                return await method(**arguments)
            except ThreadkeepError as error:
                return f"Error ({error.code}): {error}"

        def blocking(**arguments: Any) -> str:
            return home.run_sync(answered(**arguments))

        described = StructuredTool.from_function(coroutine=method, name=name, description=method.__doc__)
        described.coroutine = answered
        described.func = blocking
        return described

    async def _whose(self, runtime: ToolRuntime[Any, Any]) -> Owner:
        owner = self._tk.whose(owner_from(self._owner, runtime=runtime, config=runtime.config))
        thread_id = thread_id_of(runtime, runtime.config)
        require_wanted(await self._tk.app.home.run(self._tk.app.is_off(owner, thread_id)))
        return owner

    def _thread(self, runtime: ToolRuntime[Any, Any]) -> ThreadId | None:
        thread_id = thread_id_of(runtime, runtime.config)
        return ThreadId(thread_id) if thread_id is not None else None


def _told(proposed: Proposed) -> str:
    match proposed.status:
        case "proposed":
            return (
                f"Proposed as {proposed.proposal.proposal_id if proposed.proposal else ''}: the user has to approve it."
            )
        case "approved":
            return f"Done: {proposed.memory_id}."
        case "duplicate":
            return f"Nothing new: {proposed.reason}."
        case "rejected":
            return f"Not done: {proposed.reason}."


def _lines(memories: list[Memory]) -> str:
    if not memories:
        return "Nothing is remembered about this."
    return "\n".join(f"{m.memory_id} ({m.kind}, {m.created_at:%Y-%m-%d}): {' '.join(m.text.split())}" for m in memories)
