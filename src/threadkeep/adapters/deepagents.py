"""What is remembered about one user as the file ``/AGENTS.md`` of a deep agent."""

from __future__ import annotations

import difflib
import fnmatch
from typing import TYPE_CHECKING, Final

from deepagents.backends.protocol import (
    BackendProtocol,
    DeleteResult,
    EditResult,
    FileDownloadResponse,
    FileInfo,
    FileUploadResponse,
    GlobResult,
    GrepMatch,
    GrepResult,
    LsResult,
    ReadResult,
    WriteResult,
)
from typing_extensions import override

from threadkeep.adapters.owned_items import require_owner
from threadkeep.errors import ThreadkeepError
from threadkeep.memories.models import Source
from threadkeep.recall.models import render_block

if TYPE_CHECKING:
    from threadkeep.client import Threadkeep
    from threadkeep.memories.models import Memory

PATH: Final = "/AGENTS.md"
MAX_CHARACTERS: Final = 8_000
"""The file is put into every prompt."""

_LISTED: Final = 500
_MAX_PROPOSED: Final = 20


class AgentsFile(BackendProtocol):
    """Shows the facts and rules of one owner as ``/AGENTS.md``; what an agent writes into it waits for the user.

    Give it to deep agents as a route: ``CompositeBackend(default=…, routes={"/memory/": AgentsFile(tk)})`` with
    ``memory=["/memory/AGENTS.md"]``.

    Args:
        tk: A client that is locked to the owner: ``tk.for_owner(owner)``.
    """

    def __init__(self, tk: Threadkeep) -> None:
        require_owner(tk)
        self._tk = tk

    @override
    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        return [
            FileDownloadResponse(path, self._text().encode("utf-8"))
            if path == PATH
            else FileDownloadResponse(path, error="file_not_found")
            for path in paths
        ]

    @override
    def ls(self, path: str) -> LsResult:
        return LsResult(entries=[self._info()] if path in ("/", "") else [])

    @override
    def read(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        if file_path != PATH:
            return ReadResult(error=_missing(file_path))
        lines = self._text().splitlines()
        first = max(0, offset)
        shown = lines[first : first + max(0, limit)]
        if not shown:
            return ReadResult(file_data={"content": "", "encoding": "utf-8"}, no_lines_requested=limit <= 0)
        end = first + len(shown)
        return ReadResult(
            file_data={"content": "\n".join(shown), "encoding": "utf-8"},
            total_lines=len(lines),
            start_line=first + 1,
            end_line=end,
            next_offset=end if end < len(lines) else None,
        )

    @override
    def grep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> GrepResult:
        if path not in (None, "", "/", PATH) or (glob and not fnmatch.fnmatch(PATH[1:], glob)):
            return GrepResult(matches=[])
        found: list[GrepMatch] = [
            {"path": PATH, "line": number, "text": line}
            for number, line in enumerate(self._text().splitlines(), 1)
            if pattern in line
        ]
        return GrepResult(matches=found[:max_count], truncated=max_count is not None and len(found) > max_count)

    @override
    def glob(self, pattern: str, path: str | None = None) -> GlobResult:
        here = path in (None, "", "/") and fnmatch.fnmatch(PATH[1:], pattern.removeprefix("/").removeprefix("**/"))
        return GlobResult(matches=[self._info()] if here else [])

    @override
    def write(self, file_path: str, content: str) -> WriteResult:
        return WriteResult(error=self._propose(file_path, self._text(), content))

    @override
    def edit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> EditResult:
        return EditResult(error=self._propose(file_path, old_string, new_string))

    @override
    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        return [FileUploadResponse(path=path, error="permission_denied") for path, _ in files]

    @override
    def delete(self, file_path: str) -> DeleteResult:
        return DeleteResult(error="The memory is not deleted as a file. The user forgets single memories.")

    def _propose(self, path: str, old: str, new: str) -> str:
        """Propose each line that *new* has and *old* has not; return the message for the agent.

        The file stays as it is until the user approves: it is part of every prompt.
        """
        if path != PATH:
            return _missing(path)
        added = [line for line in difflib.ndiff(_statements(old), _statements(new)) if line.startswith("+ ")]
        texts = [line.removeprefix("+ ") for line in added]
        if len(texts) > _MAX_PROPOSED:
            return f"Nothing was written: the text adds {len(texts)} statements, at most {_MAX_PROPOSED} at once."
        if not texts:
            return "Nothing was written: the text adds no statement. Only the user can forget what is remembered."
        try:
            for text in texts:
                self._tk.sync.proposals.propose(text, source=Source("assistant"))
        except ThreadkeepError as error:
            return str(error)
        return f"{len(texts)} statements wait for the user's approval and appear in {PATH} then. Do not write again."

    def _text(self) -> str:
        """Return the file: rules and pinned memories first, then the newest."""
        kept = [one for one in self._tk.sync.memories.list(limit=_LISTED) if one.kind != "episodic"]
        kept.sort(key=lambda one: (one.kind != "procedural", not one.pinned))
        return f"# What is remembered about the user\n\n{_fitting(kept)}\n"

    def _info(self) -> FileInfo:
        return {"path": PATH, "is_dir": False, "size": len(self._text())}


def _fitting(memories: list[Memory]) -> str:
    """Return the block of as many of *memories* as fit."""
    while len(text := render_block(memories)) > MAX_CHARACTERS:
        memories = memories[: len(memories) * MAX_CHARACTERS // len(text)]
    return text or "Nothing is remembered yet."


def _statements(text: str) -> list[str]:
    """Return the lines of a Markdown text without its marks, empty ones and headings left out."""
    lines = (line.strip().lstrip("-*• ").strip() for line in text.splitlines() if not line.lstrip().startswith("#"))
    return [line.strip('"') for line in lines if line]


def _missing(path: str) -> str:
    return f"{path} does not exist; the memory has the file {PATH} only."
