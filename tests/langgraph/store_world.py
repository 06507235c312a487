"""What a store under test stands on: a home loop, a storage, a search, a clock that stands still."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from threadkeep.errors import EmbedderUnavailableError
from threadkeep.home import Home
from threadkeep.langgraph.store import ThreadkeepStore
from threadkeep.recall.search import Search
from threadkeep.storage.port import Storage


class StillClock:
    """A clock that moves only when it is told to."""

    def __init__(self) -> None:
        self.moment = datetime(2026, 5, 4, 12, tzinfo=UTC)

    def now(self) -> datetime:
        return self.moment

    def move(self, **by: float) -> None:
        self.moment += timedelta(**by)


class WordEmbedder:
    """Texts that share words are close; nothing else is."""

    name = "words"
    dims: int | None = 64
    remote = False

    def __init__(self) -> None:
        self.down = False
        self.seen: list[list[str]] = []

    async def ready(self) -> None:
        """Nothing to load."""

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if self.down:
            msg = "The model is switched off."
            raise EmbedderUnavailableError(msg)
        self.seen.append(list(texts))
        rows = np.zeros((len(texts), 64), np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in re.findall(r"\w+", text.lower()):
                row[hashlib.sha256(word.encode("utf-8", "replace")).digest()[0] % 64] += 1
        rows[:, 0] += 1e-3
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@dataclass
class StoreWorld:
    """Everything below a store."""

    storage: Storage
    clock: StillClock
    embedder: WordEmbedder | None = field(default_factory=WordEmbedder)
    home: Home = field(default_factory=Home)
    connections: int = 0

    def __post_init__(self) -> None:
        self.search = Search(self.storage, self.embedder, self.clock)

    async def rooms(self) -> StoreWorld:
        if not self.connections:
            self.connections += 1
            await self.storage.connect()
        return self

    def store(self, **options: Any) -> ThreadkeepStore:
        return ThreadkeepStore(self.home, self.rooms, **options)

    def close(self) -> None:
        async def closed() -> None:
            await self.search.close()
            await self.storage.close()

        self.home.run_sync(closed())
        self.home.close()
