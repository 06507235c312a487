"""What the tests of the capture room share: a room on a storage, with a clock and an embedder of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from threadkeep.capture.extractors import Extraction, Extractor
from threadkeep.capture.extractors.local import LocalExtractor
from threadkeep.capture.learning import Learning
from threadkeep.capture.models import Candidate, Turn
from threadkeep.capture.queue import QueueTerms
from threadkeep.capture.service import CaptureService
from threadkeep.capture.worker import EmbeddedEngine, Queue
from threadkeep.clock import Clock
from threadkeep.identity import Owner
from threadkeep.ids import MessageId
from threadkeep.memories.audited_writer import AuditedWriter
from threadkeep.memories.codec import memory_of
from threadkeep.memories.models import Memory, Source
from threadkeep.models.base import Message, Role
from threadkeep.observability import Telemetry
from threadkeep.search.retriever import Retriever
from threadkeep.storage.interface import Batch, Changes, Item, Partition, Position, Ref, Storage
from threadkeep.storage.memory import InMemoryStorage
from threadkeep.testing import HashingEmbedder

ANA: Final = Owner("ana@example.org")
BOB: Final = Owner("bob")
LONG: Final = timedelta(seconds=30)
NEVER: Final = timedelta(days=1)
"""Nothing here waits for a worker to look by itself."""


@dataclass(eq=False)
class FailingExtractor:
    """Fails on turns that hold a word, as often as told; on others it does as the local one."""

    word: str
    times: int = 1_000
    failed: int = 0
    name: str = "failing"
    uses_known: bool = False

    async def extract(self, turn: Turn, known: Sequence[Memory]) -> Extraction:
        if any(self.word in message.text for message in turn.messages) and self.failed < self.times:
            self.failed += 1
            msg = "no model"
            raise RuntimeError(msg)
        return await LocalExtractor().extract(turn, known)


@dataclass(eq=False)
class CountingExtractor:
    """Says which turns it was given."""

    turns: list[Turn] = field(default_factory=list)
    known: list[Sequence[Memory]] = field(default_factory=list)
    name: str = "counting"
    uses_known: bool = True

    async def extract(self, turn: Turn, known: Sequence[Memory]) -> Extraction:
        self.turns.append(turn)
        self.known.append(known)
        return await LocalExtractor().extract(turn, known)


@dataclass(eq=False)
class RepeatingExtractor:
    """Says the same of every turn."""

    said: str
    name: str = "repeating"
    uses_known: bool = False

    async def extract(self, turn: Turn, known: Sequence[Memory]) -> Extraction:
        source = Source("user", turn.thread_id, None, turn.turn_id, turn.at)
        return Extraction((Candidate(self.said, "semantic", source),))


class Interleaving(InMemoryStorage):
    """A storage that lets others run before every call, as one behind a wire does."""

    async def get(self, refs: Sequence[Ref]) -> tuple[Item | None, ...]:
        await asyncio.sleep(0)
        return await super().get(refs)

    async def changes(self, partition: Partition, since: Position | None) -> Changes:
        await asyncio.sleep(0)
        return await super().changes(partition, since)

    async def position(self, partition: Partition) -> Position:
        await asyncio.sleep(0)
        return await super().position(partition)

    async def commit(self, batch: Batch) -> Position:
        await asyncio.sleep(0)
        return await super().commit(batch)


class Interrupted(InMemoryStorage):
    """A storage where somebody else is faster, once: *first* runs just before the next commit."""

    first: Callable[[], Awaitable[object]] | None = None

    async def commit(self, batch: Batch) -> Position:
        first, self.first = self.first, None
        if first is not None:
            await first()
        return await super().commit(batch)


def room(
    storage: Storage,
    clock: Clock,
    *,
    extractor: Extractor | None = None,
    telemetry: Telemetry | None = None,
    embedder: HashingEmbedder | None = None,
    ttl: timedelta | None = None,
    terms: QueueTerms | None = None,
    workers: int = 4,
    search: Retriever | None = None,
    poll: timedelta = NEVER,
) -> CaptureService:
    """Return the capture room on *storage*, as the composition root makes it."""
    search = search or Retriever(storage, embedder or HashingEmbedder(), clock)
    telemetry = telemetry or Telemetry()
    extractor = extractor or LocalExtractor()
    learning = Learning(
        storage, search, extractor, clock, telemetry, audited_writer=AuditedWriter(storage, clock), ttl=ttl
    )
    engine = EmbeddedEngine(clock, telemetry, workers=workers, poll=poll)
    queue = Queue(storage, learning.learn, clock, telemetry, engine=engine, terms=terms or QueueTerms())
    return CaptureService(storage, learning, queue, clock, telemetry)


def talk(*said: tuple[Role, str], ids: str = "m") -> list[Message]:
    return [Message(role, text, MessageId(f"{ids}{place}")) for place, (role, text) in enumerate(said)]


def turn(text: str, reply: str = "All right.", *, key: str | None = None) -> list[Message]:
    return talk(("user", text), ("assistant", reply), ids=key or f"{text}#")


async def rows(storage: Storage, owner: Owner, *prefix: str) -> list[Item]:
    page = await storage.scan(owner.partition, prefix=prefix, direction="oldest", limit=1000)
    return list(page.items)


async def memories(storage: Storage, owner: Owner = ANA) -> list[Memory]:
    found = [memory_of(item) for item in await rows(storage, owner, "memories", owner.label)]
    return [memory for memory in found if memory is not None]


async def facts(storage: Storage, owner: Owner = ANA) -> list[str]:
    return sorted(memory.text for memory in await memories(storage, owner) if memory.kind != "episodic")


async def episodes(storage: Storage, owner: Owner = ANA) -> list[str]:
    return sorted(memory.text for memory in await memories(storage, owner) if memory.kind == "episodic")


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until *condition* holds, letting everything else run meanwhile."""
    async with asyncio.timeout(30):
        while not await condition():
            await asyncio.sleep(0)
