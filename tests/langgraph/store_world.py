"""What a store under test stands on: a home loop, a storage, a search, a clock that stands still."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

import pytest

from threadkeep.event_loop import EventLoopThread
from threadkeep.langgraph.store import ThreadkeepStore
from threadkeep.memories.audited_writer import AuditedWriter
from threadkeep.memories.repository import MemoryRepository
from threadkeep.observability import Telemetry
from threadkeep.owners.service import OptOuts
from threadkeep.recall.service import RecallService
from threadkeep.search.missing_vectors import MissingVectors
from threadkeep.search.retriever import Retriever
from threadkeep.storage.interface import Storage
from threadkeep.testing import FrozenClock, HashingEmbedder

on_memory: Final = pytest.mark.parametrize("world", ["memory"], indirect=True)
"""For what is decided before any storage is asked, and so is the same on all."""


@dataclass
class StoreWorld:
    """Everything below a store, and the services beside it."""

    storage: Storage
    clock: FrozenClock
    embedder: HashingEmbedder = field(default_factory=lambda: HashingEmbedder(dims=256))
    home: EventLoopThread = field(default_factory=EventLoopThread)
    connections: int = 0

    def __post_init__(self) -> None:
        self.search = Retriever(self.storage, self.embedder, self.clock)
        self.opt_outs = OptOuts(self.storage, self.clock)
        self.missing_vectors = MissingVectors(self.storage, self.search, self.clock, Telemetry())
        self.audited_writer = AuditedWriter(self.storage, self.clock, schedule=self.missing_vectors.schedule)
        self.memories = MemoryRepository(self.storage, self.search, self.clock, audited_writer=self.audited_writer)
        self.recalls = RecallService(self.search, self.storage, self.memories, self.clock, Telemetry())

    async def services(self) -> StoreWorld:
        if not self.connections:
            self.connections += 1
            await self.storage.connect()
        return self

    def store(self, **options: Any) -> ThreadkeepStore:
        return ThreadkeepStore(self.home, self.services, **options)

    def pass_by(self, **time: float) -> None:
        self.clock.advance(timedelta(**time))

    def close(self) -> None:
        async def closed() -> None:
            await self.search.close()
            await self.storage.close()

        self.home.run_sync(closed())
        self.home.close()
