"""Several storages at one place, taking turns at random, come to what one in memory comes to."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any

import pytest

from tests.storage.mongodb_world import opened
from threadkeep.errors import ThreadkeepError
from threadkeep.storage.interface import Batch, Delete, Due, Operation, Partition, Put, Ref, Storage, Touch
from threadkeep.storage.memory import InMemoryStorage
from threadkeep.testing.clock import FrozenClock
from threadkeep.testing.storage_contract.changes import Follower, expired

MINUTE = timedelta(minutes=1)
PARTITIONS = [Partition("owner", ("", "ana")), Partition("owner", ("", "bob")), Partition("root", ("ana",))]
NAMESPACES = [("memories", "ana"), ("memories", "ana", "x"), (".turns",)]
KEYS = "abcdef"
PLACES = [(namespace, key) for namespace in NAMESPACES for key in KEYS]


class World:
    """One storage in memory and several in MongoDB, which are done the same to."""

    def __init__(self, model: Storage, others: list[Storage], clock: FrozenClock, dice: random.Random) -> None:
        self.model = model
        self.others = others
        self.clock = clock
        self.dice = dice
        self.followers = {(by, p): Follower(p) for by in (model, *others) for p in PARTITIONS}

    async def same(
        self, ask: Callable[[Storage], Awaitable[Any]], told: Callable[[Any], Any] = lambda found: found
    ) -> None:
        """Do *ask* to the model and to one of the others; both come to the same."""
        other = self.dice.choice(self.others)
        assert await outcome(ask, other, told) == await outcome(ask, self.model, told)

    def operation(self, namespace: tuple[str, ...], key: str, revisions: int) -> Operation:
        """Return an operation on an item; some expect what is not so."""
        dice = self.dice
        expect: Any = dice.choice(["any"] * 8 + ["absent", dice.randint(0, revisions)])
        kind = dice.choice(["put", "put", "put", "delete", "touch"])
        if kind == "touch":
            return Touch(namespace, key)
        if kind == "delete":
            return Delete(namespace, key, expect)
        return Put(
            namespace,
            key,
            {"n": dice.randint(0, 9), "text": key * dice.randint(0, 30)},
            index=dice.choice([(), ("text",)]),
            ttl=dice.choice([None, None, MINUTE, 9 * MINUTE]),
            due=dice.choice([None, Due("work", self.clock.now() + dice.choice([-1, 1]) * MINUTE)]),
            expect=expect,
            updated_at=dice.choice([None, None, self.clock.now() - MINUTE]),
        )

    async def step(self) -> None:
        """Do one thing to both."""
        dice = self.dice
        partition = dice.choice(PARTITIONS)
        roll = dice.random()
        if roll < 0.04:
            await self.same(lambda storage: storage.erase(partition))
        elif roll < 0.1:
            now = self.clock.now()
            await self.same(lambda storage: storage.sweep(now=now))
        else:
            revisions = (await self.model.position(partition)).sequence
            places = dice.sample(PLACES, dice.randint(1, 5))
            batch = Batch(partition, [self.operation(*place, revisions) for place in places])
            await self.same(lambda storage: storage.commit(batch), lambda position: position.sequence)
        self.clock.advance(dice.choice([timedelta(0), timedelta(microseconds=1), MINUTE / 3]))

    async def compare(self) -> None:
        """Every way of reading tells the same."""
        partition, now = self.dice.choice(PARTITIONS), self.clock.now()
        await self.same(lambda storage: storage.get([Ref(partition, *place) for place in PLACES]))
        await self.same(lambda storage: storage.position(partition), lambda position: position.sequence)
        prefix = self.dice.choice([(), ("memories",), ("memories", "ana", "x")])
        for direction in ("newest", "oldest"):
            condition = self.dice.choice([None, {"n": {"$gte": 4}}])
            await self.same(
                lambda s, d=direction, c=condition: pages(s, partition, prefix=prefix, filter=c, direction=d)
            )
        await self.same(lambda storage: storage.namespaces())
        await self.same(lambda storage: storage.namespaces(max_depth=2, offset=1))
        await self.same(lambda storage: storage.partitions(), set)
        await self.same(lambda storage: storage.stats(), lambda stats: (stats.partitions, stats.items))
        await self.same(
            lambda storage: storage.due("work", now=now, limit=10),
            lambda items: [(item.due.at, item.ref) for item in items],
        )
        expected = await self.followed(self.model, partition)
        other = self.dice.choice(self.others)
        assert await self.followed(other, partition) == expected

    async def followed(self, storage: Storage, partition: Partition) -> dict[Any, Any]:
        """Return what a follower of *storage* holds by now."""
        follower = self.followers[storage, partition]
        await follower.follow(storage)
        return {place: item for place, item in follower.items.items() if not expired(item, self.clock)}


async def outcome(ask: Callable[[Storage], Awaitable[Any]], storage: Storage, told: Callable[[Any], Any]) -> Any:
    try:
        return told(await ask(storage))
    except ThreadkeepError as error:
        return error.code


async def pages(storage: Storage, partition: Partition, **asked: Any) -> list[Any]:
    found: list[Any] = []
    after: str | None = None
    while True:
        page = await storage.scan(partition, after=after, limit=4, **asked)
        found += page.items
        after = page.after
        if after is None:
            return found


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.soak), pytest.param(3, marks=pytest.mark.soak)])
async def test_it_comes_to_what_one_in_memory_comes_to(mongodb_url: str, seed: int) -> None:
    """Whatever was done, refused or erased, by whichever of three storages, and however it is asked for."""
    clock = FrozenClock()
    model = InMemoryStorage(clock=clock)
    async with AsyncExitStack() as stack:
        url = f"{mongodb_url}?journal=false"
        others: list[Storage] = [await stack.enter_async_context(opened(url, clock=clock)) for _ in range(3)]
        world = World(model, others, clock, random.Random(seed))
        for turn in range(120):
            await world.step()
            if turn % 6 == 0:
                await world.compare()
    await model.close()
