"""The LangGraph store: many calls at the same moment."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.langgraph.store_world import StoreWorld, on_memory
from threadkeep.errors import ClosedError, TooLargeError
from threadkeep.event_loop import EventLoopThread
from threadkeep.identity import partition_of
from threadkeep.langgraph.operations import AT_ONCE
from threadkeep.langgraph.store import ThreadkeepStore
from threadkeep.storage.interface import MAX_VALUE_BYTES

DOCS = ("docs",)


class Gate:
    """Holds the calls of a store until it is opened: those under way, and so those that wait for them."""

    def __init__(self, world: StoreWorld) -> None:
        self._world = world
        self._open = asyncio.Event()
        self.store = ThreadkeepStore(world.home, self._connect)

    async def _connect(self) -> StoreWorld:
        await self._open.wait()
        return await self._world.services()

    def open(self) -> None:
        self._world.home.soon(self._open.set)

    def fill(self) -> list[asyncio.Task[Any]]:
        """Begin as many calls as may be under way."""
        return [asyncio.create_task(self.store.aget(("other",), "k")) for _ in range(AT_ONCE)]


@pytest.fixture
def gate(world: StoreWorld) -> Iterator[Gate]:
    world.home.run_sync(world.services())
    gate = Gate(world)
    yield gate
    gate.open()


async def begun(*calls: Any) -> list[asyncio.Task[Any]]:
    """Begin *calls*, each as far as it comes by itself."""
    tasks = [asyncio.create_task(call) for call in calls]
    await asyncio.sleep(0)
    return tasks


class TestCallsThatWait:
    async def test_puts_of_one_partition_are_one_commit(self, gate: Gate, world: StoreWorld):
        """A hundred puts that waited move the partition by one, and all of them are there."""
        first = gate.fill()
        puts = await begun(*(gate.store.aput(DOCS, f"k{number}", {"n": number}) for number in range(100)))
        gate.open()
        await asyncio.gather(*first, *puts)

        items = await gate.store.asearch(DOCS, limit=200)
        position = await gate.store.call(lambda services: services.storage.position(partition_of(DOCS)))

        assert {item.key: item.value["n"] for item in items} == {f"k{number}": number for number in range(100)}
        assert position.sequence == 1

    async def test_of_several_puts_of_one_key_the_last_one_counts(self, gate: Gate):
        """They are performed in the order in which they were called, a delete among them."""
        first = gate.fill()
        puts = await begun(
            gate.store.aput(DOCS, "a", {"n": 1}),
            gate.store.aput(DOCS, "b", {"n": 1}),
            gate.store.aput(DOCS, "a", {"n": 2}),
            gate.store.adelete(DOCS, "b"),
        )
        gate.open()
        await asyncio.gather(*first, *puts)

        assert [(item.key, item.value) for item in await gate.store.asearch(DOCS)] == [("a", {"n": 2})]

    async def test_each_get_has_its_own_answer(self, gate: Gate, world: StoreWorld):
        """Gets are one read; each caller has the item that it asked for, or none, as a copy."""
        await world.store().aput(DOCS, "a", {"list": [1]})
        first = gate.fill()
        gets = await begun(*(gate.store.aget(DOCS, key) for key in ("a", "missing", "a")))
        gate.open()
        await asyncio.gather(*first)
        one, none, other = await asyncio.gather(*gets)

        one.value["list"].append(2)

        assert none is None
        assert other.value == {"list": [1]}

    async def test_the_same_search_is_answered_once_for_all(self, gate: Gate, world: StoreWorld):
        """Callers that ask the same have equal answers, and what one does to its own changes no other."""
        await world.store().aput(DOCS, "a", {"list": [1]})
        first = gate.fill()
        searches = await begun(
            *(gate.store.asearch(DOCS, filter=None) for _ in range(3)), gate.store.asearch(("else",))
        )
        gate.open()
        await asyncio.gather(*first)
        one, other, third, elsewhere = await asyncio.gather(*searches)

        one[0].value["list"].append(2)

        assert [item.value for item in (*other, *third)] == [{"list": [1]}] * 2
        assert elsewhere == []

    async def test_filters_that_python_takes_for_equal_are_two_searches(self, gate: Gate, world: StoreWorld):
        """1 and True are not the same question."""
        await world.store().aput(DOCS, "number", {"f": 1})
        await world.store().aput(DOCS, "truth", {"f": True})
        first = gate.fill()
        searches = await begun(gate.store.asearch(DOCS, filter={"f": 1}), gate.store.asearch(DOCS, filter={"f": True}))
        gate.open()
        await asyncio.gather(*first)

        found = [[item.key for item in items] for items in await asyncio.gather(*searches)]

        assert found == [["number"], ["truth"]]

    @on_memory
    async def test_a_call_that_is_refused_takes_no_other_with_it(self, gate: Gate):
        """What can be kept is kept, and only the caller whose value cannot be is told."""
        first = gate.fill()
        puts = await begun(
            gate.store.aput(DOCS, "good", {"n": 1}),
            gate.store.aput(DOCS, "bad", {"text": "x" * (MAX_VALUE_BYTES + 1)}),
            gate.store.aput(DOCS, "late", {"n": 2}),
        )
        gate.open()
        await asyncio.gather(*first)

        good, bad, late = await asyncio.gather(*puts, return_exceptions=True)

        assert (good, late) == (None, None)
        assert isinstance(bad, TooLargeError)
        assert {item.key for item in await gate.store.asearch(DOCS)} == {"good", "late"}

    async def test_who_is_cancelled_while_waiting_changes_nothing(self, gate: Gate):
        """Nothing of the call is performed, and those beside it are."""
        first = gate.fill()
        cancelled, kept = await begun(gate.store.aput(DOCS, "a", {"n": 1}), gate.store.aput(DOCS, "b", {"n": 2}))
        cancelled.cancel()
        await asyncio.wait([cancelled])
        gate.open()
        await asyncio.gather(*first, kept)

        assert [item.key for item in await gate.store.asearch(DOCS)] == ["b"]

    async def test_closing_ends_what_waits(self):
        """Nobody waits for a home that was closed: those under way and those that wait are told so."""
        home = EventLoopThread()

        async def never() -> Any:
            await asyncio.Event().wait()

        store = ThreadkeepStore(home, never)
        calls = await begun(*(store.aput(DOCS, f"k{number}", {}) for number in range(AT_ONCE + 3)))

        await asyncio.to_thread(home.close)
        ended = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 10)

        assert {type(error) for error in ended} == {ClosedError}

    async def test_threads_that_block_wait_as_well(self, world: StoreWorld):
        """Three times as many threads as calls may be under way put and read, and all of it is there."""
        store = world.store()
        store.get(DOCS, "connects")

        def put(number: int) -> Any:
            store.put(DOCS, f"k{number}", {"n": number})
            return store.get(DOCS, f"k{number}")

        with ThreadPoolExecutor(3 * AT_ONCE) as threads:
            items = await asyncio.gather(
                *(asyncio.wrap_future(threads.submit(put, number)) for number in range(6 * AT_ONCE))
            )

        assert [item.value["n"] for item in items] == list(range(6 * AT_ONCE))
