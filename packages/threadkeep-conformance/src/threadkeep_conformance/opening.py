"""How a store is opened and called: from any loop, blocking or not, and by several at once."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

from threadkeep_conformance.check import CALL_SECONDS, CheckFailedError, check, same
from threadkeep_conformance.world import DIMS, World, index_of


@check("opening.together", source="measured: three of four PostgresStore.setup() fail on an empty database")
async def several_may_open_an_empty_place(world: World) -> None:
    """Four processes can open a store at an empty database concurrently."""
    async with world.place() as open_store, AsyncExitStack() as opened:
        stores = await asyncio.gather(
            *(opened.enter_async_context(open_store()) for _ in range(4)), return_exceptions=True
        )
        failed = [store for store in stores if isinstance(store, BaseException)]
        same([f"{type(error).__name__}: {error}" for error in failed], [], "the errors")
        for store in stores:
            if not isinstance(store, BaseException):
                await store.aput(world.at(), "k", {"n": 1})


@check("opening.later-index", source="IndexConfig is given when a store is opened")
async def an_index_may_come_later(world: World) -> None:
    """A database made without an index can be opened with one; new items are found by meaning."""
    async with world.place() as open_store:
        async with open_store() as store:
            await store.aput(world.at(), "old", {"text": "rides a red bike"})
        async with open_store(index=index_of(dims=DIMS)) as store:
            await store.aput(world.at(), "new", {"text": "likes green tea"})
            found = await store.asearch(world.at(), query="likes green tea")
            same([item.key for item in found][:1], ["new"], "the best")


@check("opening.from-a-thread", source="BaseStore has synchronous and asynchronous methods")
async def the_blocking_face_works_in_a_thread(world: World) -> None:
    """A synchronous node in a worker thread can use the store."""

    def node() -> Any:
        world.store.put(world.at(), "k", {"n": 1})
        return world.store.get(world.at(), "k")

    item = await asyncio.wait_for(asyncio.to_thread(node), CALL_SECONDS)
    same(item and item.value, {"n": 1}, "the value")


@check("opening.blocking-in-a-loop", source="AsyncBatchedBaseStore raises InvalidStateError")
async def the_blocking_face_works_in_a_loop(world: World) -> None:
    """A synchronous call works inside a running event loop, as in a notebook."""
    world.store.put(world.at(), "k", {"n": 1})
    item = world.store.get(world.at(), "k")
    same(item and item.value, {"n": 1}, "the value")
    same([found.key for found in world.store.search(world.at())], ["k"], "the search")


@check("opening.another-loop", source="langgraph dev runs graphs on loops of their own")
async def another_loop_may_use_it(world: World) -> None:
    """A store opened in one event loop can be used from another."""

    async def elsewhere() -> Any:
        await asyncio.wait_for(world.store.aput(world.at(), "k", {"n": 1}), CALL_SECONDS)
        return await asyncio.wait_for(world.store.aget(world.at(), "k"), CALL_SECONDS)

    try:
        item = await asyncio.wait_for(asyncio.to_thread(asyncio.run, elsewhere()), 3 * CALL_SECONDS)
    except TimeoutError:
        msg = "a call from another loop does not come back"
        raise CheckFailedError(msg) from None
    same(item and item.value, {"n": 1}, "the value")
