"""An export as it is sent: JSON Lines, or a ZIP file of them with a README. Both are written while they are read."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncGenerator, AsyncIterable, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final
from zipfile import ZIP_DEFLATED, ZipFile

from typing_extensions import override

from threadkeep.owners.service import README

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_CHUNK_BYTES: Final = 65_536


async def to_json_lines(rows: AsyncIterable[Mapping[str, Any]]) -> AsyncGenerator[bytes]:
    """Yield each row as a line of JSON."""
    async for row in rows:
        yield json.dumps(row, default=str).encode() + b"\n"


async def to_zip(rows: AsyncIterable[Mapping[str, Any]]) -> AsyncGenerator[bytes]:
    """Yield a ZIP file with ``README.md`` and the rows in ``export.jsonl``, in parts of about 64 KiB."""
    written = _Written()
    with ZipFile(written, "w", ZIP_DEFLATED) as archive:
        archive.writestr("README.md", README)
        with archive.open("export.jsonl", "w", force_zip64=True) as file:
            async with aclosing(to_json_lines(rows)) as lines:
                async for line in lines:
                    file.write(line)
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
