"""Tools with which a model works on the memory of whoever it talks to.

The owner comes from the runtime, never from the model's arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

from langchain.tools import ToolRuntime
from langchain_core.tools import BaseTool, StructuredTool

from threadkeep.errors import InvalidInputError, ThreadkeepError
from threadkeep.ids import ThreadId
from threadkeep.langgraph.identity import owner_from, thread_id_of
from threadkeep.memories.record import Memory, Source

if TYPE_CHECKING:
    from threadkeep.library import OwnerSource, Threadkeep
    from threadkeep.owners.owner import Owner

NAMES: Final = ("remember", "search_memory", "list_memories", "correct_memory", "forget_memory")
_MOST: Final = 50


def memory_tools(tk: Threadkeep, names: tuple[str, ...] = (), *, owner: OwnerSource | None = None) -> list[BaseTool]:
    """Return the tools called *names* (none: all), for the owner that the runtime names.

    Raises:
        InvalidInputError: There is no tool of such a name.
    """
    if unknown := [name for name in names if name not in NAMES]:
        msg = f"There is no tool {unknown[0][:40]!r}; there are {', '.join(NAMES)}."
        raise InvalidInputError(msg)
    work = _Work(tk, owner)
    made = {tool.name: tool for tool in work.tools()}
    return [made[name] for name in names or NAMES]


class _Work:
    """What the tools do; each method is one tool, and its docstring is what the model reads."""

    def __init__(self, tk: Threadkeep, owner: OwnerSource | None) -> None:
        self._tk = tk
        self._owner = owner if owner is not None else tk.owner_source

    def tools(self) -> list[BaseTool]:
        return [self._tool(name, getattr(self, name)) for name in NAMES]

    async def remember(self, statement: str, runtime: ToolRuntime[Any, Any]) -> str:
        """Keep one short statement about the user, in the user's own words, when they ask you to remember it."""
        source = Source("user", self._thread(runtime))
        kept = await self._tk.memories.remember(statement, owner=self._whose(runtime), source=source)
        known = "Known already" if kept.status == "duplicate" else "Remembered"
        return f"{known} as {kept.memory_id}."

    async def search_memory(self, query: str, runtime: ToolRuntime[Any, Any], limit: int = 10) -> str:
        """Search what is remembered about the user; returns one memory a line with its id."""
        limit = max(1, min(limit, _MOST))
        found = await self._tk.memories.search(query, owner=self._whose(runtime), limit=limit)
        return _lines([recalled.memory for recalled in found])

    async def list_memories(self, runtime: ToolRuntime[Any, Any], limit: int = 20) -> str:
        """List what is remembered about the user, newest first, one memory a line with its id."""
        limit = max(1, min(limit, _MOST))
        return _lines(await self._tk.memories.list(owner=self._whose(runtime), limit=limit))

    async def correct_memory(self, memory_id: str, statement: str, runtime: ToolRuntime[Any, Any]) -> str:
        """Replace what a memory says, when the user says that it is wrong or has changed."""
        source = Source("user", self._thread(runtime))
        memory = await self._tk.memories.correct(memory_id, statement, owner=self._whose(runtime), source=source)
        return f"Corrected {memory.memory_id}."

    async def forget_memory(self, memory_id: str, runtime: ToolRuntime[Any, Any]) -> str:
        """Remove a memory for good, when the user asks you to forget it."""
        gone = await self._tk.memories.forget(memory_id, owner=self._whose(runtime))
        return f"Forgotten: {', '.join(gone.memory_ids)}."

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

    def _whose(self, runtime: ToolRuntime[Any, Any]) -> Owner:
        return self._tk.whose(owner_from(self._owner, runtime=runtime, config=runtime.config))

    def _thread(self, runtime: ToolRuntime[Any, Any]) -> ThreadId | None:
        thread_id = thread_id_of(runtime, runtime.config)
        return ThreadId(thread_id) if thread_id is not None else None


def _lines(memories: list[Memory]) -> str:
    if not memories:
        return "Nothing is remembered about this."
    return "\n".join(f"{m.memory_id} ({m.kind}, {m.created_at:%Y-%m-%d}): {' '.join(m.text.split())}" for m in memories)
