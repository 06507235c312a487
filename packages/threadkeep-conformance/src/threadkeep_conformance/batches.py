"""Several operations in one call."""

from __future__ import annotations

import asyncio
from typing import Any

from langgraph.store.base import GetOp, ListNamespacesOp, Op, PutOp, SearchOp

from threadkeep_conformance.check import check, keys, refused, same, true
from threadkeep_conformance.world import World


@check("batches.order", source="BaseStore.abatch: “The order of results matches the order of input operations”")
async def results_stand_in_order(world: World) -> None:
    """Results are in the order of the operations; a write returns None."""
    await world.put("k", {"n": 1})
    await world.put("other", {"n": 2}, "deep")
    ops: list[Op] = [
        GetOp(world.at(), "none"),
        PutOp(world.at(), "new", {"n": 3}),
        SearchOp(world.at("deep")),
        GetOp(world.at(), "k"),
        ListNamespacesOp(max_depth=1),
    ]
    found: list[Any] = await world.store.abatch(ops)
    same([found[0], found[1], keys(found[2]), found[3].value], [None, None, ["other"], {"n": 1}], "the results")


@check("batches.reads-first", source="InMemoryStore and PostgresStore perform reads before writes")
async def reads_come_before_writes(world: World) -> None:
    """In a batch, reads run before writes: a Get of a key that is put returns the earlier value."""
    await world.put("k", {"n": 1})
    ops: list[Op] = [PutOp(world.at(), "k", {"n": 2}), GetOp(world.at(), "k")]
    found: list[Any] = await world.store.abatch(ops)
    same(found[1].value, {"n": 1}, "what the Get sees")
    same((await world.require("k")).value, {"n": 2}, "what stays")


@check("batches.last-put", source="langgraph.store.base.batch: of several puts of a key the last one counts")
async def the_last_put_counts(world: World) -> None:
    """The last put or delete of a key in a batch wins."""
    await world.store.abatch([PutOp(world.at(), "k", {"n": number}) for number in range(3)])
    same((await world.require("k")).value, {"n": 2}, "the value")
    await world.store.abatch([PutOp(world.at(), "k", {"n": 9}), PutOp(world.at(), "k", None)])
    same(await world.get("k"), None, "an item that was put and then deleted")


@check("batches.many-gets", source="measured: AsyncRedisStore answers ten Gets of a batch at most")
async def many_gets_are_all_answered(world: World) -> None:
    """A batch of 40 Gets answers all of them."""
    await world.store.abatch([PutOp(world.at(), f"k{number}", {"n": number}) for number in range(40)])
    found: list[Any] = await world.store.abatch([GetOp(world.at(), f"k{number}") for number in range(40)])
    same([item and item.value["n"] for item in found], list(range(40)), "the values")


@check("batches.same-get-twice", source="BaseStore.abatch: a result for each operation")
async def an_operation_may_come_twice(world: World) -> None:
    """The same Get twice in a batch has two results."""
    await world.put("k", {"n": 1})
    found: list[Any] = await world.store.abatch([GetOp(world.at(), "k"), GetOp(world.at(), "k")])
    same([item and item.value for item in found], [{"n": 1}, {"n": 1}], "the results")


@check("batches.empty", source="BaseStore.abatch: a result for each operation")
async def nothing_gives_nothing(world: World) -> None:
    """A batch of no operations has no results."""
    same(await world.store.abatch([]), [], "the results")


@check("batches.atomic", source="PostgresStore: a batch is a transaction; InMemoryStore keeps what others cannot")
async def a_batch_is_all_or_nothing(world: World) -> None:
    """If one put of a batch is refused, nothing of the batch is written."""
    ops: list[Op] = [PutOp(world.at(), f"k{number}", {"n": number}) for number in range(3)]
    ops.insert(2, PutOp(world.at(), "bad", {"n": {1, 2}}))
    await refused(world.store.abatch(ops), "a set")
    same(await world.found(), set(), "what is there")


@check("batches.own-errors", source="measured: AsyncBatchedBaseStore fails all calls of the same batch")
async def a_bad_call_fails_alone(world: World) -> None:
    """A refused call does not fail concurrent calls."""
    good, _ = await asyncio.gather(world.put("good", {"n": 1}), world.put("bad", {"n": {1, 2}}), return_exceptions=True)
    same(good, None, "the good call")
    true("good" in await world.found(), "what the good call put is not there")


@check("batches.many-writers", source="BaseStore.aput")
async def calls_at_once_are_all_done(world: World) -> None:
    """Sixty concurrent puts are all stored."""
    await asyncio.gather(*(world.put(f"k{number}", {"n": number}) for number in range(60)))
    same(len(await world.found()), 60, "the items")
