"""A pooler in transaction mode, as PgBouncer is one: whatever a session remembers is gone with the transaction.

Each transaction of a client runs on another connection to the server, and each is cleaned by ``DISCARD ALL``
behind it. It speaks as much of PostgreSQL's protocol as that needs, and lets everybody in.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from dataclasses import dataclass, field
from typing import Final, Self
from urllib.parse import urlsplit, urlunsplit

_ENCRYPTION_REQUESTS: Final = (80877103, 80877104)
_CANCEL_REQUEST: Final = 80877102
_DISCARD: Final = b"Q" + struct.pack("!i", 4 + len(b"DISCARD ALL\0")) + b"DISCARD ALL\0"


@dataclass
class Session:
    """A connection to the server, and the messages that it greets with."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    greeting: bytes = b""


@dataclass
class Client:
    """A client: on which session its transaction runs, and how many answers it waits for."""

    startup: bytes
    writer: asyncio.StreamWriter
    session: Session | None = None
    waiting: int = 0


@dataclass
class TransactionPooler:
    """Listens at ``port`` of loopback in a thread of its own.

    Attributes:
        transactions: How many there have been.
    """

    server_port: int
    transactions: int = 0
    _idle: dict[bytes, list[Session]] = field(default_factory=dict)
    _writers: list[asyncio.StreamWriter] = field(default_factory=list)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        # Only a socket that says it is TCP's sends small messages without delay.
        self._listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._listening.bind(("127.0.0.1", 0))
        self._listening.listen()
        self._thread = threading.Thread(target=self._serve, name="pooler", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def url_of(self, url: str) -> str:
        parts = urlsplit(url)
        netloc = f"{parts.netloc.rpartition('@')[0]}@127.0.0.1:{self._listening.getsockname()[1]}"
        return urlunsplit(parts._replace(netloc=netloc))

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._client, sock=self._listening))
        self._loop.run_forever()
        server.close()
        for writer in self._writers:
            writer.transport.abort()
        while tasks := asyncio.all_tasks(self._loop):
            for task in tasks:
                task.cancel()
            self._loop.run_until_complete(asyncio.wait(tasks))
        self._loop.run_until_complete(asyncio.sleep(0))  # what was aborted is closed in the next round
        self._loop.close()

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        with contextlib.suppress(asyncio.IncompleteReadError, OSError, asyncio.CancelledError):
            startup = await _startup(reader, writer)
            client = Client(startup, writer)
            if startup:
                session = await self._taken(startup)
                writer.write(session.greeting)
                self._idle[startup].append(session)
            while startup:
                kind, message = await _message(reader)
                if kind == b"X":
                    break
                client.waiting += kind in b"QS"
                if client.session is None:
                    self.transactions += 1
                    client.session = await self._taken(startup)
                    task = asyncio.ensure_future(self._answer(client, client.session))
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)
                client.session.writer.write(message)
        writer.close()

    async def _answer(self, client: Client, session: Session) -> None:
        """Pass on what the server answers until the transaction is over; then clean the session and put it back."""
        with contextlib.suppress(asyncio.IncompleteReadError, OSError, asyncio.CancelledError):
            while True:
                kind, message = await _message(session.reader)
                client.waiting -= kind == b"Z"
                over = kind == b"Z" and message[-1:] == b"I" and not client.waiting
                if over:
                    client.session = None
                client.writer.write(message)
                if over:
                    break
            session.writer.write(_DISCARD)
            while (await _message(session.reader))[0] != b"Z":
                pass
            self._idle[client.startup].append(session)

    async def _taken(self, startup: bytes) -> Session:
        """Return a session, the one that has rested longest; there are always two at least, so it is another one."""
        idle = self._idle.setdefault(startup, [])
        while len(idle) < 2:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.server_port)
            writer.write(startup)
            self._writers.append(writer)
            session = Session(reader, writer)
            kind = b""
            while kind != b"Z":
                kind, message = await _message(reader)
                session.greeting += message
            idle.append(session)
        return idle.pop(0)


async def _startup(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """Return the message that opens a session, once encryption was asked for and refused; none for a cancellation."""
    while True:
        size = await reader.readexactly(4)
        body = await reader.readexactly(struct.unpack("!i", size)[0] - 4)
        code = struct.unpack("!i", body[:4])[0]
        if code == _CANCEL_REQUEST:
            return b""
        if code not in _ENCRYPTION_REQUESTS:
            return size + body
        writer.write(b"N")


async def _message(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = await reader.readexactly(5)
    return head[:1], head + await reader.readexactly(struct.unpack("!i", head[1:])[0] - 4)
