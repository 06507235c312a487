"""An embedder on a server of its own, which may be away, hang or refuse a text, and answers again later."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from threadkeep.errors import EmbedderUnavailableError
from threadkeep.testing.models import hashed

DIMS: Final = 64
MEANING: Final = {"vessel": "boat", "anchored": "moored", "ship": "boat"}
"""Words that mean the same have the same vector."""


class EmbeddingServer:
    """Serves vectors on a port of 127.0.0.1: a line of JSON in, another one out.

    Attributes:
        port: Where it listens.
        away: Whether it hangs up on every call.
        hangs: Whether it keeps every call waiting, until :meth:`answer`.
        refused: A word; a call with it gets an error.
        asked: The texts of every call.
        called: Set at every call.
    """

    def __init__(self) -> None:
        self.port = 0
        self.away = False
        self.hangs = False
        self.refused: str | None = None
        self.asked: list[list[str]] = []
        self.called = asyncio.Event()
        self._answers = asyncio.Event()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", limit=2**20)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self.answer()
        assert self._server is not None
        self._server.close()

    def hang(self) -> None:
        """Keep calls waiting from now on."""
        self.hangs = True
        self._answers.clear()
        self.called.clear()

    def answer(self) -> None:
        """Answer every call, also those that wait."""
        self.away = self.hangs = False
        self._answers.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            texts: list[str] = json.loads(await reader.readline())
            self.asked.append(texts)
            self.called.set()
            if self.hangs:
                await self._answers.wait()
            if not self.away and not any(self.refused and self.refused in text for text in texts):
                meant = [" ".join(MEANING.get(word, word) for word in text.strip(".?").split()) for text in texts]
                writer.write(json.dumps(hashed(meant, dims=DIMS).tolist()).encode() + b"\n")
                await writer.drain()
        finally:
            writer.close()


class RemoteEmbedder:
    """Asks the server at *port* of this machine."""

    name = "remote@1"
    remote = True

    def __init__(self, port: int) -> None:
        self.port = port
        self.dims: int | None = DIMS

    async def ready(self) -> None:
        """Ask it for a vector."""
        await self.embed(["ready"])

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the server's vectors."""
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=2**22)
        except OSError as error:
            raise EmbedderUnavailableError("The embedder refuses the connection.") from error
        try:
            writer.write(json.dumps(list(texts)).encode() + b"\n")
            line = await reader.readline()
        finally:
            writer.close()
        if not line:
            raise EmbedderUnavailableError("The embedder hung up.")
        return np.asarray(json.loads(line), np.float32)
