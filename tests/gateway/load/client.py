"""A client that costs little: it reads streams from bare sockets, so the servers get the processor."""

from __future__ import annotations

import asyncio
import json
import re
import time
from dataclasses import dataclass, field
from typing import Any, Final

DIGITS: Final = str.maketrans("abcdefghij", "0123456789")
_STAMP: Final = re.compile(rb'"text": "z([a-j]{9,})')
_LINE_BYTES: Final = 2**22


@dataclass
class Stream:
    """What a client saw of a turn.

    Attributes:
        status: The HTTP status; 0: the connection failed.
        began: When the first byte of an event came, as time.monotonic says it.
        delays: How long each word was on its way, in seconds.
        size: How many bytes of events came, with their ids.
        done: The data of the event ``done``.
        degraded: What recall went without.
    """

    status: int = 0
    began: float = 0.0
    delays: list[float] = field(default_factory=list[float])
    size: int = 0
    done: dict[str, Any] | None = None
    degraded: list[str] = field(default_factory=list[str])

    @property
    def complete(self) -> bool:
        """Whether the turn was answered to its end."""
        return self.status == 200 and self.done is not None

    def take(self, kind: bytes, line: bytes) -> None:
        """Note the data of an event."""
        now = time.monotonic()
        self.began = self.began or now
        if found := _STAMP.search(line):
            self.delays.append(now - int(found[1].decode().translate(DIGITS)) / 1e9)
        elif kind == b"done":
            self.done = json.loads(line)
        elif kind == b"memory_recalled":
            self.degraded += json.loads(line)["degraded"]


async def stream_turn(
    origin: str, message: str, thread_id: str, headers: dict[str, str], seen: Stream | None = None
) -> Stream:
    """Run a turn and return what came; *seen* is filled while it comes."""
    seen = seen or Stream()
    host, _, port = origin.removeprefix("http://").partition(":")
    body = json.dumps({"message": message, "thread_id": thread_id}).encode()
    head = {"Host": host, "Content-Type": "application/json", "Content-Length": str(len(body)), **headers}
    head["Connection"] = "close"
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    try:
        reader, writer = await asyncio.open_connection(host, int(port), limit=_LINE_BYTES)
        try:
            writer.write(f"POST /api/chat/stream HTTP/1.1\r\n{lines}\r\n".encode() + body)
            seen.status = int((await reader.readline()).split()[1])
            kind = b""
            while line := await reader.readline():
                seen.size += len(line) if line.startswith((b"id: ", b"event: ", b"data: ")) else 0
                if line.startswith(b"event: "):
                    kind = line[7:].strip()
                elif line.startswith(b"data: "):
                    seen.take(kind, line[6:])
        finally:
            writer.close()
    except (OSError, IndexError, ValueError):
        seen.status = 0
    return seen
