"""What the tests of recall share: items, changes, a clock that stands still, a storage that can be held."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from threadkeep.concurrency import asking
from threadkeep.search.retriever import Retriever
from threadkeep.storage.interface import (
    Batch,
    Changes,
    Embedding,
    Item,
    Namespace,
    Partition,
    Position,
    Put,
    Ref,
)
from threadkeep.storage.memory import InMemoryStorage
from threadkeep.testing.models import HashingEmbedder, hashed

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
ANA = Partition("owner", ("", "ana"))
MEMORIES: Namespace = ("memories", "ana")
MODEL = "tests"


class StillClock:
    """A clock that moves only when it is told to."""

    def __init__(self) -> None:
        self.moment = NOW

    def now(self) -> datetime:
        return self.moment

    def move(self, **by: float) -> None:
        self.moment += timedelta(**by)


class HeldStorage(InMemoryStorage):
    """A storage that is far away: its change feed can be counted, and held up until it is let go."""

    def __init__(self, clock: StillClock) -> None:
        super().__init__(clock=clock)
        self.polls: list[Position | None] = []
        self.gets: list[Sequence[Ref]] = []
        self.go = asyncio.Event()
        self.go.set()

    async def get(self, refs: Sequence[Ref]) -> tuple[Item | None, ...]:
        self.gets.append(refs)
        return await super().get(refs)

    def is_at(self, partition: Partition, position: Position) -> bool:
        """Say that this cannot be told at once."""
        return False

    async def changes(self, partition: Partition, since: Position | None) -> Changes:
        self.polls.append(since)
        with asking():
            await self.go.wait()
        return await super().changes(partition, since)


class ImmediateHashingEmbedder(HashingEmbedder):
    """An embedder that embeds on the calling thread.

    Attributes:
        embeds_now: Whether it does.
        embedded_now: How often it did.
    """

    embeds_now = True
    embedded_now = 0

    def embed_now(self, texts: Sequence[str]) -> NDArray[np.float32] | None:
        """Return the vectors of *texts*, on any thread."""
        self.embedded_now += 1
        return hashed(texts, dims=self.dims or 0) if self.embeds_now else None


def embedding(*rows: Sequence[float], model: str = MODEL) -> Embedding:
    """Spell *rows* as they are stored, made unit length."""
    matrix = np.array(rows, np.float64)
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    unit = (matrix / np.where(lengths > 0, lengths, 1)).astype("<f4")
    return Embedding(model, unit.shape[1], unit.tobytes())


def item(
    key: str,
    *texts: str,
    vectors: Embedding | None = None,
    namespace: Namespace = MEMORIES,
    revision: int = 1,
    expires_at: datetime | None = None,
    source: Mapping[str, str] | None = None,
) -> Item:
    """Make an item with these searchable texts, said as *source* says."""
    return Item(
        ref=Ref(ANA, namespace, key),
        value={"texts": list(texts), **({"sources": [dict(source)]} if source else {})},
        revision=revision,
        created_at=NOW,
        updated_at=NOW + timedelta(seconds=revision),
        index=("texts[*]",),
        embedding=vectors,
        expires_at=expires_at,
    )


def changes(
    *puts: Item, removed: Sequence[tuple[Namespace, str]] = (), reset: bool = False, sequence: int = 1
) -> Changes:
    """Make what a storage would tell."""
    return Changes(Position("epoch", sequence), reset=reset, puts=puts, removed=tuple(removed))


def put(
    key: str,
    text: str,
    *,
    namespace: Namespace = MEMORIES,
    vectors: Embedding | None = None,
    ttl: timedelta | None = None,
) -> Put:
    """Make a put of one memory."""
    return Put(namespace, key, {"data": text}, index=("data",), embedding=vectors, ttl=ttl)


async def keep(storage: InMemoryStorage, search: Retriever, *texts: str, partition: Partition = ANA) -> None:
    """Write *texts* as a writer does, embedded; each one's key is the text."""
    puts = [put(text, text, vectors=await search.embed_put([text])) for text in texts]
    await storage.commit(Batch(partition, puts))


def embedder() -> HashingEmbedder:
    """Make an embedder for which texts that share words are near."""
    return HashingEmbedder()
