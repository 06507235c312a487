"""Going through everything: each once, however many pages there are."""

from __future__ import annotations

from contextlib import aclosing

from threadkeep.storage.interface import (
    PAGE_SIZE,
    Batch,
    Partition,
    Put,
    iterate_items,
    iterate_pages,
    iterate_partitions,
)
from threadkeep.storage.memory import InMemoryStorage
from threadkeep.testing.clock import FrozenClock

ANA = Partition("owner", ("", "ana"))
MANY = 2 * PAGE_SIZE


async def filled() -> InMemoryStorage:
    """Return a storage with two full pages of notes, and one item elsewhere."""
    storage = InMemoryStorage(clock=FrozenClock())
    await storage.connect()
    notes = [Put(("notes",), f"{number:04}", {"data": "tea"}) for number in range(MANY)]
    await storage.commit(Batch(ANA, [*notes, Put(("other",), "last", {"data": "milk"})]))
    return storage


class TestItems:
    async def test_each_comes_once_in_the_order_that_is_asked_for(self) -> None:
        storage = await filled()
        newest = [item.ref.key async for item in iterate_items(storage, ANA)]
        oldest = [item.ref.key async for item in iterate_items(storage, ANA, direction="oldest")]
        assert len(newest) == MANY + 1
        assert newest == oldest[::-1]

    async def test_only_what_is_below_the_prefix(self) -> None:
        storage = await filled()
        assert [item.ref.key async for item in iterate_items(storage, ANA, prefix=("other",))] == ["last"]

    async def test_who_has_seen_enough_may_stop(self) -> None:
        storage = await filled()
        async with aclosing(iterate_items(storage, ANA)) as found:
            first = await anext(found)
        assert first.ref.partition == ANA


class TestPages:
    async def test_none_is_empty(self) -> None:
        storage = await filled()
        assert [len(page) async for page in iterate_pages(storage, ANA, prefix=("notes",))] == [PAGE_SIZE, PAGE_SIZE]
        assert [page async for page in iterate_pages(storage, Partition("owner", ("", "bob")))] == []


class TestPartitions:
    async def test_each_comes_once(self) -> None:
        storage = await filled()
        many = [Partition("owner", ("", f"user-{number}")) for number in range(PAGE_SIZE)]
        for partition in many:
            await storage.commit(Batch(partition, [Put(("notes",), "a", {"data": "tea"})]))
        found = [partition async for partition in iterate_partitions(storage)]
        assert len(found) == PAGE_SIZE + 1
        assert set(found) == {ANA, *many}
