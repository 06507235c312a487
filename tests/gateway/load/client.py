"""A client that costs little: it reads streams from bare sockets, so the servers get the processor."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final

DIGITS: Final = str.maketrans("abcdefghij", "0123456789")
_STAMP: Final = re.compile(rb'"text": "z([a-j]{9,})')
_LINE_BYTES: Final = 2**22
_BOUNDARY: Final = "load-boundary-5f1c"


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
        recalled: The texts that were recalled.
        words: How many words of the reply came, as far as its client counts them.
        spoke: When the first of them came, as time.monotonic says it.
        retries: Whether the client is told when to try again.
    """

    status: int = 0
    began: float = 0.0
    delays: list[float] = field(default_factory=list[float])
    size: int = 0
    done: dict[str, Any] | None = None
    degraded: list[str] = field(default_factory=list[str])
    recalled: list[str] = field(default_factory=list[str])
    words: int = 0
    spoke: float = 0.0
    retries: bool = False

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
            told = json.loads(line)
            self.degraded += told["degraded"]
            self.recalled += [one["text"] for one in told["memories"]]


async def stream_turn(
    origin: str, message: str, thread_id: str, headers: dict[str, str], seen: Stream | None = None
) -> Stream:
    """Run a turn and return what came, up to the end of the stream; *seen* is filled while it comes."""
    seen = seen or Stream()
    body = json.dumps({"message": message, "thread_id": thread_id}).encode()
    async with aclosing(_events(origin, "/api/chat/stream", body, "application/json", headers, seen)) as events:
        async for kind, data in events:
            seen.take(kind, data)
    return seen


async def talk_turn(
    origin: str,
    message: str,
    thread_id: str,
    headers: dict[str, str],
    *,
    file: str | None = None,
    leave_after: int | None = None,
) -> Stream:
    """Run a turn and return what came up to ``done``.

    Args:
        origin: The server.
        message: What the user says.
        thread_id: The thread.
        headers: The headers of the request.
        file: The text of a file that is sent with it.
        leave_after: After how many words the client closes the connection; ``None``: it stays.
    """
    seen, path, kind_of_body = Stream(), "/api/chat/stream", "application/json"
    fields = {"message": message, "thread_id": thread_id}
    body = json.dumps(fields).encode()
    if file is not None:
        path, kind_of_body = "/api/chat/stream_files", f"multipart/form-data; boundary={_BOUNDARY}"
        body = _form(fields, file)
    async with aclosing(_events(origin, path, body, kind_of_body, headers, seen)) as events:
        async for kind, data in events:
            seen.take(kind, data)
            if kind == b"token":
                seen.spoke = seen.spoke or time.monotonic()
                seen.words += 1
            if seen.done is not None or kind == b"error" or (leave_after is not None and seen.words >= leave_after):
                break
    return seen


def _form(fields: dict[str, str], file: str) -> bytes:
    parts = [f'Content-Disposition: form-data; name="{name}"\r\n\r\n{value}' for name, value in fields.items()]
    named = 'Content-Disposition: form-data; name="files"; filename="note.txt"\r\nContent-Type: text/plain'
    parts.append(f"{named}\r\n\r\n{file}")
    return "".join(f"--{_BOUNDARY}\r\n{part}\r\n" for part in parts).encode() + f"--{_BOUNDARY}--\r\n".encode()


async def _events(
    origin: str, path: str, body: bytes, kind_of_body: str, headers: dict[str, str], seen: Stream
) -> AsyncGenerator[tuple[bytes, bytes]]:
    """Send a request and yield the events of its answer; a connection that fails is status 0."""
    host, _, port = origin.removeprefix("http://").partition(":")
    head = {"Host": host, "Content-Type": kind_of_body, "Content-Length": str(len(body)), **headers}
    head["Connection"] = "close"
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    try:
        reader, writer = await asyncio.open_connection(host, int(port), limit=_LINE_BYTES)
        try:
            writer.write(f"POST {path} HTTP/1.1\r\n{lines}\r\n".encode() + body)
            seen.status = int((await reader.readline()).split()[1])
            kind = b""
            while line := await reader.readline():
                seen.retries |= line.lower().startswith(b"retry-after:")
                seen.size += len(line) if line.startswith((b"id: ", b"event: ", b"data: ")) else 0
                if line.startswith(b"event: "):
                    kind = line[7:].strip()
                elif line.startswith(b"data: "):
                    yield kind, line[6:]
        finally:
            writer.close()
    except (OSError, IndexError, ValueError):
        seen.status = 0
