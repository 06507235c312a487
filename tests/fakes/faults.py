"""A network that fails: a TCP proxy before a server, which cuts connections, stalls them and refuses new ones."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Self
from urllib.parse import urlsplit, urlunsplit

_CHUNK: Final = 65_536
_SOON_SECONDS: Final = 0.05
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)


@dataclass(slots=True)
class _Cut:
    """Cuts the connection whose client sends *pattern*; *delivered*: the server gets it all the same."""

    pattern: bytes
    delivered: bool
    skip: int
    done: threading.Event


class FaultProxy:
    """Passes bytes on between clients and a server on loopback, until it is told to fail.

    It has a thread of its own, so tests of blocking and of asynchronous clients can use it alike::

        with PostgresServer() as server, FaultProxy(server.port) as proxy:
            url = proxy.url_of(server.url)
            cut = proxy.cut_at(b"COMMIT", delivered=True)
            ...                     # the commit is done, and the client is never told
            assert cut.is_set()

    Args:
        port: Where the server listens on loopback.

    Attributes:
        port: Where the proxy listens on loopback.
        accepted: How many connections there have been.
    """

    def __init__(self, port: int) -> None:
        self.accepted = 0
        self._target = port
        self._loop = asyncio.new_event_loop()
        self._listening = _listening()
        self.port: int = self._listening.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, name="threadkeep-fault-proxy", daemon=True)
        self._links: set[_Link] = set()
        self._cuts: list[_Cut] = []
        self._refusing = False
        self._flowing = asyncio.Event()
        self._flowing.set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.cut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def url_of(self, url: str) -> str:
        """Return the server's *url* with this proxy in its place."""
        parts = urlsplit(url)
        user, at, _ = parts.netloc.rpartition("@")
        return urlunsplit(parts._replace(netloc=f"{user}{at}127.0.0.1:{self.port}"))

    def cut(self) -> None:
        """Break every connection at once; new ones are let in."""
        self._do(self._cut_all)

    def cut_at(self, pattern: bytes, *, delivered: bool, skip: int = 0) -> threading.Event:
        """Break the connection on which a client next sends *pattern*, once.

        Args:
            pattern: Bytes of the client's, anywhere in what it sends.
            delivered: ``True``: the server gets what was sent, and its answer is lost. ``False``: what
                was sent is lost.
            skip: How often it is let through before.

        Returns:
            An event that is set when it happened.
        """
        cut = _Cut(pattern, delivered, skip, threading.Event())
        self._do(lambda: self._cuts.append(cut))
        return cut.done

    def stall(self) -> None:
        """Pass nothing on: connections stay open, new ones are let in, and nothing answers."""
        self._do(self._flowing.clear)

    def flow(self) -> None:
        """End :meth:`stall`; what was held up goes on."""
        self._do(self._flowing.set)

    def refuse(self) -> None:
        """Break every connection and close every new one at once, as where the server is gone."""

        def work() -> None:
            self._refusing = True
            self._cut_all()

        self._do(work)

    def accept(self) -> None:
        """End :meth:`refuse`."""

        def work() -> None:
            self._refusing = False

        self._do(work)

    def _do(self, work: Callable[[], object]) -> None:
        """Run *work* in the proxy's thread and wait for it."""
        done = threading.Event()

        def run() -> None:
            try:
                work()
            finally:
                done.set()

        self._loop.call_soon_threadsafe(run)
        done.wait()

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._linked, sock=self._listening))
        self._loop.run_forever()
        server.close()
        self._refusing = True
        self._flowing.set()
        self._loop.run_until_complete(_a_few_turns())
        while tasks := asyncio.all_tasks(self._loop):
            self._cut_all()
            self._loop.run_until_complete(asyncio.wait(tasks, timeout=_SOON_SECONDS))
            self._loop.run_until_complete(_a_few_turns())
        self._loop.close()

    async def _linked(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        if self._refusing:
            _reset(writer)
            return
        try:
            there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            _reset(writer)
            return
        link = _Link(writer, there_writer)
        self._links.add(link)
        try:
            await asyncio.gather(self._forth(reader, link), self._back(there_reader, link))
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self._links.discard(link)
            link.end()

    async def _forth(self, reader: asyncio.StreamReader, link: _Link) -> None:
        """Pass on what the client sends, and look for what a cut waits for."""
        tail = b""
        while data := await reader.read(_CHUNK):
            await self._flowing.wait()
            if cut := self._due(tail, data):
                if cut.delivered:
                    link.there.write(data)
                    link.silent = True
                    await link.there.drain()
                    link.there.write_eof()  # not closed: a reset might take what it has not read yet
                _reset(link.here)
                cut.done.set()
                if not cut.delivered:
                    _reset(link.there)
                return
            longest = max((len(cut.pattern) for cut in self._cuts), default=1)
            tail = (tail + data)[-(longest - 1) :] if longest > 1 else b""
            link.there.write(data)
            await link.there.drain()
        with suppress(OSError):
            link.there.write_eof()

    async def _back(self, reader: asyncio.StreamReader, link: _Link) -> None:
        """Pass on what the server answers; after a delivered cut nobody is there to hear it."""
        while data := await reader.read(_CHUNK):
            await self._flowing.wait()
            if not link.silent:
                link.here.write(data)
                await link.here.drain()
        link.end()

    def _due(self, tail: bytes, data: bytes) -> _Cut | None:
        for cut in self._cuts:
            if cut.pattern in tail[-(len(cut.pattern) - 1) :] + data if len(cut.pattern) > 1 else cut.pattern in data:
                if cut.skip:
                    cut.skip -= 1
                    continue
                self._cuts.remove(cut)
                return cut
        return None

    def _cut_all(self) -> None:
        for link in list(self._links):
            _reset(link.here)
            _reset(link.there)


async def _a_few_turns() -> None:
    """Let a connection that was just accepted come to the task that closes it."""
    for _ in range(5):
        await asyncio.sleep(0)


class _Link:
    """One client's connection and the one to the server that stands behind it."""

    def __init__(self, here: asyncio.StreamWriter, there: asyncio.StreamWriter) -> None:
        self.here = here
        self.there = there
        self.silent = False

    def end(self) -> None:
        self.here.close()
        self.there.close()


def _listening() -> socket.socket:
    """Return a socket that says it is TCP's: only for those asyncio sends small messages without delay."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    return listening


def _reset(writer: asyncio.StreamWriter) -> None:
    """End a connection at once, as a machine does that has forgotten about it."""
    transport = writer.transport
    found = transport.get_extra_info("socket")
    if found is not None:
        with suppress(OSError):
            found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    transport.abort()
