"""What is written while the embedder is away gets its vectors once it answers again, without a command."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import timedelta
from pathlib import Path
from subprocess import PIPE
from typing import Any, Final

import pytest

import threadkeep
from tests.processes import start_python
from tests.recall.embedding_server import EmbeddingServer, RemoteEmbedder
from threadkeep.identity import Owner
from threadkeep.observability import Telemetry
from threadkeep.search.missing_vectors import UNEMBEDDED, MissingVectors
from threadkeep.search.retriever import Retriever
from threadkeep.storage.encryption.cipher import new_master_key
from threadkeep.storage.interface import Batch, Item, Position, Put, Ref, Storage, read_items
from threadkeep.storage.memory import InMemoryStorage
from threadkeep.testing import FrozenClock

ROOT: Final = Path(__file__).parents[2]
ANA: Final = Owner("ana").partition
NOTES: Final = ("notes", "ana")
BOAT: Final = "Our boat lies moored in Trieste."
QUESTION: Final = "Where is the vessel anchored?"
SOON: Final = timedelta(milliseconds=10)
MOMENT: Final = timedelta(milliseconds=50)
LATER: Final = timedelta(days=36_500)

VICTIM: Final = """
import asyncio, sys
import threadkeep
from tests.recall.embedding_server import RemoteEmbedder

async def main():
    async with threadkeep.open(sys.argv[1], embedder=RemoteEmbedder(int(sys.argv[2])), owner="ana") as tk:
        kept = await tk.memories.remember(sys.argv[3])
        print(*kept.degraded, flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.fixture
async def server() -> AsyncIterator[EmbeddingServer]:
    """An embedder that is away."""
    async with EmbeddingServer() as server:
        server.away = True
        yield server


def opened(url: str, server: EmbeddingServer) -> threadkeep.Threadkeep:
    """Return Ana's memory, with the embedder of *server*."""
    tk = threadkeep.open(url, embedder=RemoteEmbedder(server.port), owner="ana")
    tk.app.notice_every = SOON
    return tk


async def waiting(storage: Storage) -> list[Item]:
    """Return the items that wait for their vectors, or will."""
    return list(await storage.due(UNEMBEDDED, now=FrozenClock().now() + LATER, limit=1_000))


async def eventually(is_so: Callable[[], Awaitable[bool]]) -> None:
    """Wait until *is_so* returns true."""
    async with asyncio.timeout(20):
        while not await is_so():
            await asyncio.sleep(0.01)


class TestThreadkeep:
    """Its background work restores the vectors."""

    @pytest.mark.parametrize("kind", ["memory", "sqlite", "encrypted", "postgres", "redis", "mongodb"])
    async def test_everything_is_found_by_meaning_again(
        self,
        kind: str,
        server: EmbeddingServer,
        request: pytest.FixtureRequest,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """The first question that the embedder answers is enough, on every storage."""
        file = f"sqlite:///{tmp_path}/memory.db"
        urls = {"memory": "memory://", "sqlite": file, "encrypted": file}
        if kind == "encrypted":
            monkeypatch.setenv("THREADKEEP_MASTER_KEY", new_master_key())
        said: Any = [{"role": "user", "content": "I keep my sails in Muggia.", "id": "m1"}]
        async with opened(urls.get(kind) or request.getfixturevalue(f"{kind}_url"), server) as tk:
            kept = await tk.memories.remember(BOAT)
            learnt = await tk.capture(said, thread_id="t", wait=True)
            await tk.store.aput(("ports",), "harbour", {"text": "a boat may stay moored here"})
            await tk.collections.ingest("manuals", "A bowline keeps a boat moored.", document_id="knots")
            assert kept.degraded == learnt.degraded == ("embedder",)
            assert BOAT not in (await tk.recall(QUESTION)).text
            missing = await tk.app.call(lambda services: waiting(services.storage))
            assert len(missing) == 3 + len(learnt.memory_ids)

            server.answer()
            await tk.recall("Which port do we like?")
            await eventually(lambda: nothing_waits(tk))

            assert BOAT in (await tk.recall(QUESTION)).text
            rows = await rows_of(tk)
            assert all(row.embedding is not None for row in rows if row.index)
            (harbour,) = await tk.store.asearch(("ports",), query="vessel anchored")
            (passage,) = (await tk.collections.search("manuals", QUESTION)).passages
            assert (harbour.key, passage.document_id) == ("harbour", "knots")
            assert tk.app.telemetry.counts()["vectors.restored"] == len(missing)

    async def test_process_killed_in_between(self, server: EmbeddingServer, tmp_path: Path) -> None:
        """The next process knows what lacks its vectors."""
        url = f"sqlite:///{tmp_path}/memory.db"
        with start_python("-c", VICTIM, url, str(server.port), BOAT, cwd=ROOT, stdout=PIPE) as victim:
            assert victim.stdout is not None
            assert await asyncio.to_thread(victim.stdout.readline) == "embedder\n"
            victim.kill()
        server.answer()

        async with opened(url, server) as tk:
            await tk.ready()
            await eventually(lambda: nothing_waits(tk))
            assert BOAT in (await tk.recall(QUESTION)).text

    @pytest.mark.parametrize("way", ["forget", "erase"])
    async def test_what_is_removed_meanwhile_stays_removed(self, way: str, server: EmbeddingServer) -> None:
        """The vectors that arrive late are dropped."""
        async with opened("memory://", server) as tk:
            kept = await tk.memories.remember(BOAT)
            server.hang()
            running = asyncio.create_task(tk.app.call(lambda services: services.missing_vectors.round()))
            async with asyncio.timeout(20):
                await server.called.wait()
            if way == "forget":
                await tk.memories.forget(kept.memory_id)
            else:
                await tk.owners.erase()
            server.answer()

            assert await running == 0
            assert BOAT not in str(await rows_of(tk))
            assert await nothing_waits(tk)

    async def test_later_change_counts(self, server: EmbeddingServer) -> None:
        """A statement that was corrected with the embedder there has its own vectors, and nothing waits any more."""
        async with opened("memory://", server) as tk:
            kept = await tk.memories.remember(BOAT)
            server.answer()
            tk.app.notice_every = timedelta(hours=1)
            await tk.memories.correct(kept.memory_id, "Our boat lies moored in Pula.")

            assert await nothing_waits(tk)

    async def test_restoring_changes_nothing_else(self, server: EmbeddingServer) -> None:
        """Times, history and the audit stay as they are."""
        async with opened("memory://", server) as tk:
            await tk.memories.remember(BOAT, tags=["sea"])
            before, entries = await tk.memories.list(), await tk.owners.audit()
            server.answer()
            await tk.app.call(lambda services: services.missing_vectors.round())

            after = await tk.memories.list()
            assert [memory.updated_at for memory in after] == [memory.updated_at for memory in before]
            assert [memory.tags for memory in after] == [("sea",)]
            assert await tk.owners.audit() == entries

    async def test_without_an_embedder_nothing_is_scheduled(self) -> None:
        """Words are all there is."""
        async with threadkeep.open("memory://", embedder="none", owner="ana") as tk:
            await tk.memories.remember(BOAT)

            assert await nothing_waits(tk)


async def nothing_waits(tk: threadkeep.Threadkeep) -> bool:
    """Return whether no item waits for its vectors."""
    return not await tk.app.call(lambda services: waiting(services.storage))


async def rows_of(tk: threadkeep.Threadkeep) -> list[Item]:
    """Return everything of Ana's."""
    return await tk.app.call(lambda services: read_items(services.storage, ANA, prefix=()))


class CountingStorage(InMemoryStorage):
    """Counts calls that read or write items."""

    calls = 0

    async def due(self, kind: str, **more: Any) -> tuple[Item, ...]:
        self.calls += 1
        return await super().due(kind, **more)

    async def get(self, refs: Sequence[Ref]) -> tuple[Item | None, ...]:
        self.calls += 1
        return await super().get(refs)

    async def commit(self, batch: Batch) -> Position:
        self.calls += 1
        return await super().commit(batch)


class TestMissingVectors:
    """A round over a storage."""

    async def put(self, missing: MissingVectors, storage: Storage, *texts: str) -> None:
        """Write *texts* without vectors."""
        puts = [Put(NOTES, text, {"text": text}, index=("text",)) for text in texts]
        await storage.commit(Batch(ANA, missing.schedule(puts)))

    def over(self, storage: Storage, server: EmbeddingServer, clock: FrozenClock) -> MissingVectors:
        """Return the work of one process over *storage*."""
        search = Retriever(storage, RemoteEmbedder(server.port), clock, embed_timeout=timedelta(seconds=20))
        return MissingVectors(storage, search, clock, Telemetry())

    async def test_embedder_that_hangs(self, server: EmbeddingServer) -> None:
        """A round ends all the same, and what is written meanwhile is not kept waiting; the probe tells the end."""
        clock = FrozenClock()
        storage = InMemoryStorage(clock=clock)
        search = Retriever(storage, RemoteEmbedder(server.port), clock, embed_timeout=MOMENT)
        missing = MissingVectors(storage, search, clock, Telemetry())
        server.hang()
        await self.put(missing, storage, "one note")
        async with asyncio.timeout(20):
            assert await missing.round() == 0
            assert await search.embed_put(["another note"]) is None
        await self.put(missing, storage, "another note")

        server.answer()
        async with asyncio.timeout(20):
            await missing.recovered.wait()

        assert await missing.round() == 2
        await search.close()

    async def test_healthy_storage_costs_one_read(self, server: EmbeddingServer) -> None:
        """No partition is walked over, and the embedder is not asked."""
        clock = FrozenClock()
        storage = CountingStorage(clock=clock)
        missing = self.over(storage, server, clock)

        assert await missing.round() == 0

        assert (storage.calls, server.asked) == (1, [])

    async def test_refused_text_keeps_no_other_waiting(self, server: EmbeddingServer) -> None:
        """It is tried again an hour later."""
        clock = FrozenClock()
        storage = InMemoryStorage(clock=clock)
        missing = self.over(storage, server, clock)
        await self.put(missing, storage, "too odd", *(f"note {number}" for number in range(5)))
        server.answer()
        server.refused = "odd"

        assert await missing.round() == 5
        assert [item.ref.key for item in await waiting(storage)] == ["too odd"]
        assert await missing.round() == 0
        server.refused = None
        clock.advance(timedelta(hours=1, seconds=1))
        assert await missing.round() == 1

    async def test_embedder_that_is_away_is_asked_twice(self, server: EmbeddingServer) -> None:
        """Once for the items, and once whether it answers at all; all of them stay scheduled."""
        clock = FrozenClock()
        storage = InMemoryStorage(clock=clock)
        missing = self.over(storage, server, clock)
        await self.put(missing, storage, *(f"note {number}" for number in range(100)))

        assert await missing.round() == 0

        assert len(server.asked) == 2
        assert len(await waiting(storage)) == 100

    async def test_processes_at_once_embed_each_item_once(self, server: EmbeddingServer) -> None:
        """One that finds another at the same items leaves the rest to it."""
        clock = FrozenClock()
        storage = InMemoryStorage(clock=clock)
        one, other = self.over(storage, server, clock), self.over(storage, server, clock)
        await self.put(one, storage, *(f"note {number}" for number in range(200)))
        server.answer()

        done = await asyncio.gather(one.round(), other.round())

        assert sum(done) == 200
        assert await waiting(storage) == []
        assert len(server.asked) <= 6
