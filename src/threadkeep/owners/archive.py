"""An export as a ZIP file, written while it is sent."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncGenerator, AsyncIterable, Mapping
from typing import TYPE_CHECKING, Any, Final
from zipfile import ZIP_DEFLATED, ZipFile

from typing_extensions import override

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

README: Final = """# Everything that was remembered about you

`export.jsonl` holds one JSON object a line. `type` says what it is:

| type | what it is |
|---|---|
| owner | whom this is about, when it was written, and which threads there are |
| memory | a statement: `value.data` or `value.text`, who said it where, and what it said before |
| summary | what a conversation was about |
| message | what was said in a thread |
| turn, turn_seen | a turn that waits to be learnt from; one that was (no text) |
| proposal | a statement that was proposed, and the decision about it |
| tombstone | what must not be learnt again: a rejected statement, or digests of a forgotten one |
| audit | what was changed, by whom and why; no text |
| account | how much work of models was spent |
| item | what the application keeps |
| thread, internal | how threads and jobs are found; when a memory was used last |

Another Threadkeep takes the memories over: `threadkeep memories import export.jsonl --user YOU`.
Ids are kept, and it may be repeated.
"""

_CHUNK_BYTES: Final = 65_536


async def to_zip(rows: AsyncIterable[Mapping[str, Any]]) -> AsyncGenerator[bytes]:
    """Yield a ZIP file with ``README.md`` and the rows in ``export.jsonl``, in parts of about 64 KiB."""
    written = _Written()
    with ZipFile(written, "w", ZIP_DEFLATED) as archive:
        archive.writestr("README.md", README)
        with archive.open("export.jsonl", "w", force_zip64=True) as file:
            async for row in rows:
                file.write(json.dumps(row, default=str).encode() + b"\n")
                if len(written) >= _CHUNK_BYTES:
                    yield written.take()
    yield written.take()


class _Written(io.RawIOBase):
    """What was written to an archive and not taken yet."""

    def __init__(self) -> None:
        self._content = bytearray()

    def __len__(self) -> int:
        return len(self._content)

    @override
    def writable(self) -> bool:
        return True

    @override
    def write(self, data: ReadableBuffer, /) -> int:
        view = memoryview(data)
        self._content += view
        return view.nbytes

    def take(self) -> bytes:
        """Return what was written since the last call."""
        taken = bytes(self._content)
        self._content.clear()
        return taken
