"""The backend of Claude's memory tool (``anthropic``): the files of one owner, in Threadkeep's storage."""

from __future__ import annotations

import posixpath
from collections.abc import Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError
from typing_extensions import override

from threadkeep.adapters.owned_items import OwnedItems
from threadkeep.errors import InvalidInputError, ThreadkeepError, TooLargeError

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
    from threadkeep.storage.interface import Delete, Item, Put

ROOT: Final = "/memories"
MAX_CHARACTERS: Final = 100_000
MAX_FILES: Final = 1_000
MAX_PATH: Final = 500
_LISTED_DEPTH: Final = 2
_CONTEXT_LINES: Final = 2
_NAMESPACE: Final = ".memory-files"


class MemoryFiles:
    """The files of one owner. Every change is one commit; one of another process in between is kept.

    Args:
        tk: A client that is locked to the owner: ``tk.for_owner(owner)``.
    """

    def __init__(self, tk: Threadkeep) -> None:
        self._items = OwnedItems(tk, _NAMESPACE)

    async def view(self, path: str, lines: Sequence[int] | None = None) -> str:
        """Return a file with line numbers, or the files of a directory.

        Args:
            path: Of the file or the directory.
            lines: The first and the last line, from 1; -1 is the end; ``None``: all.

        Raises:
            InvalidInputError: There is no such file or directory.
        """
        path = _checked(path)
        items = {item.ref.key: item for item in await self._items.all()}
        if path in items:
            return f"Here's the content of {path} with line numbers:\n{_numbered(_text(items[path]), lines)}"
        below = [key for key in items if key.startswith(f"{path}/")]
        if not below and path != ROOT:
            raise _missing(path)
        rows = [f"{_size(sum(len(_text(items[key])) for key in below))}\t{path}"]
        rows += _listing(path, {key: len(_text(items[key])) for key in below})
        about = (
            f"Here're the files and directories up to {_LISTED_DEPTH} levels deep in {path}, excluding hidden items:"
        )
        return "\n".join((about, *rows))

    async def create(self, path: str, text: str) -> str:
        """Create a file.

        Raises:
            InvalidInputError: It exists already, or is the parent of another file.
            TooLargeError: The text or the number of files is too large.
        """
        path, text = _file(path), await self._checked_text(text)

        async def plan() -> tuple[list[Put], str]:
            items = {item.ref.key: item for item in await self._items.all()}
            _require_free(path, items)
            if len(items) >= MAX_FILES:
                msg = f"There are {MAX_FILES:,} files already. Delete some."
                raise TooLargeError(msg)
            return [self._items.put(path, {"text": text}, before=None)], f"File created successfully at: {path}"

        return await self._items.change(plan)

    async def replace(self, path: str, old: str, new: str) -> str:
        """Replace a text that stands in a file once.

        Raises:
            InvalidInputError: There is no such file, or the text does not stand in it exactly once.
            TooLargeError: The text becomes too large.
        """
        path = _file(path)

        async def plan() -> tuple[list[Put], str]:
            item = await self._require(path)
            text = _text(item)
            _require_once(path, text, old)
            changed = await self._checked_text(text.replace(old, new))
            place = text[: text.find(old)].count("\n") + 1
            shown = _numbered(changed, (max(1, place - _CONTEXT_LINES), place + _CONTEXT_LINES))
            about = "The memory file has been edited. Here is the snippet showing the change (with line numbers):"
            return [self._items.put(path, {"text": changed}, before=item)], f"{about}\n{shown}"

        return await self._items.change(plan)

    async def insert(self, path: str, line: int, text: str) -> str:
        """Insert a text behind line number *line*; 0 is the beginning.

        Raises:
            InvalidInputError: There is no such file or line.
            TooLargeError: The text becomes too large.
        """
        path = _file(path)

        async def plan() -> tuple[list[Put], str]:
            item = await self._require(path)
            lines = _text(item).removesuffix("\n").split("\n") if _text(item) else []
            if not 0 <= line <= len(lines):
                msg = f"Invalid `insert_line` parameter: {line}. It should be within the range [0, {len(lines)}]."
                raise InvalidInputError(msg)
            lines.insert(line, text.removesuffix("\n"))
            changed = await self._checked_text("\n".join(lines) + "\n")
            return [self._items.put(path, {"text": changed}, before=item)], f"The file {path} has been edited."

        return await self._items.change(plan)

    async def delete(self, path: str) -> str:
        """Delete a file, or a directory with everything in it.

        Raises:
            InvalidInputError: There is no such file or directory, or it is the root.
        """
        path = _file(path)

        async def plan() -> tuple[list[Delete], str]:
            gone = _below(path, await self._items.all())
            if not gone:
                raise _missing(path)
            return [self._items.delete(item) for item in gone], f"Successfully deleted {path}"

        return await self._items.change(plan)

    async def rename(self, path: str, new_path: str) -> str:
        """Rename or move a file or a directory.

        Raises:
            InvalidInputError: There is no such file or directory, or the new path is taken.
        """
        path, new_path = _file(path), _file(new_path)

        async def plan() -> tuple[list[Put | Delete], str]:
            items = {item.ref.key: item for item in await self._items.all()}
            moved = _below(path, items.values())
            if not moved:
                raise _missing(path)
            _require_free(new_path, items)
            if new_path.startswith(f"{path}/"):
                msg = f"{path} cannot be moved into itself."
                raise InvalidInputError(msg)
            writes: list[Put | Delete] = []
            for item in moved:
                target = _file(new_path + item.ref.key.removeprefix(path))
                writes += [self._items.put(target, {"text": _text(item)}, before=None), self._items.delete(item)]
            return writes, f"Successfully renamed {path} to {new_path}"

        return await self._items.change(plan)

    async def clear(self) -> str:
        """Delete every file."""

        async def plan() -> tuple[list[Delete], str]:
            return [self._items.delete(item) for item in await self._items.all()], "All memory cleared"

        return await self._items.change(plan)

    async def _require(self, path: str) -> Item:
        (item,) = await self._items.get([path])
        if item is None:
            raise _missing(path)
        return item

    async def _checked_text(self, text: str) -> str:
        if len(text) > MAX_CHARACTERS:
            msg = f"A file holds at most {MAX_CHARACTERS:,} characters; this one has {len(text):,}. Split it."
            raise TooLargeError(msg)
        await self._items.require_memory()
        return await self._items.redacted(text)


def _checked(path: str) -> str:
    """Return *path* without dots and doubled slashes.

    Raises:
        InvalidInputError: It leads out of the root, or is too long.
    """
    if len(path) > MAX_PATH or "\0" in path:
        msg = f"A path has at most {MAX_PATH} characters, and no NUL."
        raise InvalidInputError(msg)
    normal = posixpath.normpath(path)
    if ".." in path.split("/") or (normal != ROOT and not normal.startswith(f"{ROOT}/")):
        msg = f"Path must start with {ROOT}, and not lead out of it, got: {path}"
        raise InvalidInputError(msg)
    return normal


def _file(path: str) -> str:
    if (checked := _checked(path)) == ROOT:
        msg = f"{ROOT} itself cannot be changed; name a file in it."
        raise InvalidInputError(msg)
    return checked


def _missing(path: str) -> InvalidInputError:
    return InvalidInputError(f"The path {path} does not exist. Please provide a valid path.")


def _require_free(path: str, items: dict[str, Item]) -> None:
    parents = {path[:place] for place, letter in enumerate(path) if letter == "/"}
    if path in items or any(key.startswith(f"{path}/") for key in items):
        msg = f"{path} already exists."
        raise InvalidInputError(msg)
    if parent := next((key for key in items if key in parents), None):
        msg = f"{parent} is a file; it cannot hold other files."
        raise InvalidInputError(msg)


def _require_once(path: str, text: str, old: str) -> None:
    count = text.count(old) if old else 0
    if count == 0:
        msg = f"No replacement was performed, old_str `{old}` did not appear verbatim in {path}."
        raise InvalidInputError(msg)
    if count > 1:
        begins = old.split("\n", maxsplit=1)[0]
        lines = ", ".join(str(number) for number, line in enumerate(text.split("\n"), 1) if begins in line)
        msg = (
            f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {lines}. "
            "Please ensure it is unique"
        )
        raise InvalidInputError(msg)


def _below(path: str, items: Iterable[Item]) -> list[Item]:
    return [item for item in items if item.ref.key == path or item.ref.key.startswith(f"{path}/")]


def _text(item: Item) -> str:
    return str(item.value.get("text", ""))


def _numbered(text: str, lines: Sequence[int] | None) -> str:
    rows = list(enumerate(text.split("\n"), 1))
    if lines is not None and len(lines) == 2:  # noqa: PLR2004 - the first and the last line
        first, last = lines
        rows = rows[max(1, first) - 1 : len(rows) if last == -1 else last]
    return "\n".join(f"{number:>6}\t{row}" for number, row in rows)


def _listing(path: str, sizes: dict[str, int]) -> list[str]:
    """Return a row for each file and directory below *path*, without hidden ones and what is too deep."""
    totals: dict[str, int] = {}
    for key, size in sizes.items():
        parts = key.removeprefix(f"{path}/").split("/")
        if any(part.startswith(".") for part in parts):
            continue
        for depth in range(1, min(len(parts), _LISTED_DEPTH) + 1):
            name = "/".join(parts[:depth]) + ("/" if depth < len(parts) else "")
            totals[name] = totals.get(name, 0) + size
    return [f"{_size(size)}\t{path}/{name}" for name, size in sorted(totals.items())]


def _size(count: int) -> str:
    if count < 1024:  # noqa: PLR2004 - a kilobyte
        return f"{count}B"
    return f"{count / 1024:.4g}K"


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
