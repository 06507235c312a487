"""Reading all of an owner's memories at once, and finding one among them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Final

import pytest

from threadkeep.errors import MemoryNotFoundError
from threadkeep.identity import Owner
from threadkeep.memories.reader import MemoryReader, require_one
from threadkeep.storage.interface import Batch, Namespace, Put
from threadkeep.storage.memory import InMemoryStorage
from threadkeep.testing import FrozenClock

ANA: Final = Owner("ana")
OURS: Final = ("memories", "ana")
OTHERS: Final = ("users", "ana", "memories", "user")
DEEPER: Final = ("memories", "ana", "notes")
SUMMARIES: Final = ("summaries", "ana")


@pytest.fixture
def clock() -> FrozenClock:
    """Return a clock that the test moves."""
    return FrozenClock()


@pytest.fixture
async def storage(clock: FrozenClock) -> AsyncIterator[InMemoryStorage]:
    """Return a connected storage."""
    storage = InMemoryStorage(clock=clock)
    await storage.connect()
    yield storage
    await storage.close()


async def put(storage: InMemoryStorage, *rows: tuple[Namespace, str]) -> None:
    """Write a memory that says its namespace and key for each of *rows*, all in one commit."""
    puts = [Put(namespace, key, {"data": " ".join((*namespace, key)), "summary": key}) for namespace, key in rows]
    await storage.commit(Batch(ANA.partition, puts))


class TestEverything:
    """All memories of an owner, and all summaries."""

    async def test_memories_come_in_the_order_of_a_walk(self, storage: InMemoryStorage, clock: FrozenClock):
        """Of several namespaces, more than a page of them, also those of one commit."""
        reader = MemoryReader(storage)
        await put(storage, (SUMMARIES, "s"), *((OURS, f"k{number:03}") for number in range(600)))
        for number in range(4):
            clock.advance(timedelta(seconds=1))
            await put(storage, (OTHERS, f"o{number}"), (DEEPER, f"d{number}"), (OURS, f"n{number}"))
        await put(storage, (("docs",), "no memory"))

        memories, summaries = await reader.everything(ANA)

        assert memories == [memory async for memory in reader.walk(owner=ANA)]
        assert len(memories) == 612
        assert [summary.memory_id for summary in summaries] == ["s"]


class TestRequireOne:
    """One memory among all."""

    async def test_it_is_the_one_that_reading_by_its_key_gives(self, storage: InMemoryStorage, clock: FrozenClock):
        """A key in several namespaces: the owner's own first, deeper ones last; a summary is found, too."""
        reader = MemoryReader(storage)
        await put(storage, (OURS, "both"), (OTHERS, "deep"), (SUMMARIES, "s"))
        clock.advance(timedelta(seconds=1))
        await put(storage, (DEEPER, "both"), (DEEPER, "deep"), (OTHERS, "both"), (DEEPER, "only"))
        memories, summaries = await reader.everything(ANA)

        found = {key: require_one(key, (*memories, *summaries), ANA) for key in ("both", "deep", "only", "s")}

        assert found == {key: await reader.get(key, owner=ANA) for key in found}
        assert [memory.namespace for memory in found.values()] == [OURS, OTHERS, DEEPER, SUMMARIES]
        with pytest.raises(MemoryNotFoundError):
            require_one("missing", memories, ANA)
