"""The backend of Claude's memory tool (``anthropic``): the files of one owner, in Threadkeep's storage."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING

from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError
from typing_extensions import override

from threadkeep.adapters.memory_files import MemoryFiles
from threadkeep.errors import ThreadkeepError

if TYPE_CHECKING:
    from anthropic.types.beta import (
        BetaMemoryTool20250818CreateCommand as CreateCommand,
    )
    from anthropic.types.beta import (
        BetaMemoryTool20250818DeleteCommand as DeleteCommand,
    )
    from anthropic.types.beta import (
        BetaMemoryTool20250818InsertCommand as InsertCommand,
    )
    from anthropic.types.beta import (
        BetaMemoryTool20250818RenameCommand as RenameCommand,
    )
    from anthropic.types.beta import (
        BetaMemoryTool20250818StrReplaceCommand as ReplaceCommand,
    )
    from anthropic.types.beta import (
        BetaMemoryTool20250818ViewCommand as ViewCommand,
    )

    from threadkeep.client import Threadkeep


class AsyncClaudeMemoryTool(BetaAsyncAbstractMemoryTool):
    """Keeps the files of Claude's memory tool for one owner, for ``AsyncAnthropic``.

    Args:
        tk: A client that is locked to the owner: ``tk.for_owner(owner)``.
    """

    def __init__(self, tk: Threadkeep) -> None:
        super().__init__()
        self._files = MemoryFiles(tk)

    @override
    async def view(self, command: ViewCommand) -> str:
        return await _answer(self._files.view(command.path, command.view_range))

    @override
    async def create(self, command: CreateCommand) -> str:
        return await _answer(self._files.create(command.path, command.file_text))

    @override
    async def str_replace(self, command: ReplaceCommand) -> str:
        return await _answer(self._files.replace(command.path, command.old_str, command.new_str or ""))

    @override
    async def insert(self, command: InsertCommand) -> str:
        return await _answer(self._files.insert(command.path, command.insert_line, command.insert_text))

    @override
    async def delete(self, command: DeleteCommand) -> str:
        return await _answer(self._files.delete(command.path))

    @override
    async def rename(self, command: RenameCommand) -> str:
        return await _answer(self._files.rename(command.old_path, command.new_path))

    @override
    async def clear_all_memory(self) -> str:
        return await _answer(self._files.clear())


class ClaudeMemoryTool(BetaAbstractMemoryTool):
    """Keeps the files of Claude's memory tool for one owner, for ``Anthropic``.

    Args:
        tk: A client that is locked to the owner: ``tk.for_owner(owner)``.
    """

    def __init__(self, tk: Threadkeep) -> None:
        super().__init__()
        self._tk = tk
        self._files = MemoryFiles(tk)

    def _run(self, command: Coroutine[object, object, str]) -> str:
        return self._tk.app.event_loop.run_sync(_answer(command))

    @override
    def view(self, command: ViewCommand) -> str:
        return self._run(self._files.view(command.path, command.view_range))

    @override
    def create(self, command: CreateCommand) -> str:
        return self._run(self._files.create(command.path, command.file_text))

    @override
    def str_replace(self, command: ReplaceCommand) -> str:
        return self._run(self._files.replace(command.path, command.old_str, command.new_str or ""))

    @override
    def insert(self, command: InsertCommand) -> str:
        return self._run(self._files.insert(command.path, command.insert_line, command.insert_text))

    @override
    def delete(self, command: DeleteCommand) -> str:
        return self._run(self._files.delete(command.path))

    @override
    def rename(self, command: RenameCommand) -> str:
        return self._run(self._files.rename(command.old_path, command.new_path))

    @override
    def clear_all_memory(self) -> str:
        return self._run(self._files.clear())


async def _answer(command: Coroutine[object, object, str]) -> str:
    """Return the result of *command*; an error of ours becomes an error of the tool, which the model reads."""
    try:
        return await command
    except ThreadkeepError as error:
        raise ToolError(str(error)) from error
