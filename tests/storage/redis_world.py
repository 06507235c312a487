"""What the tests of the Redis storage share: an owner, short ways to say a batch, and what a server holds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import redis

from threadkeep.clock import Clock
from threadkeep.storage.interface import Batch, Embedding, Item, Operation, Partition, Position, Put, Ref
from threadkeep.storage.redis.storage import RedisStorage
from threadkeep.testing.clock import FrozenClock

ANA = Partition("owner", ("", "ana"))
BOB = Partition("owner", ("", "bob"))
NOTES = ("memories", "ana")
VECTOR = Embedding("hashing", 2, b"\0\0\x80?\0\0\0\0")


def note(key: str, text: str = "likes tea", **more: Any) -> Put:
    return Put(NOTES, key, {"data": text}, ("data",), VECTOR, **more)


@asynccontextmanager
async def opened(url: str, *, clock: Clock | None = None, **options: Any) -> AsyncIterator[RedisStorage]:
    storage = RedisStorage(url, clock=clock or FrozenClock(), **options)
    try:
        await storage.connect()
        yield storage
    finally:
        await storage.close()


async def commit(
    storage: RedisStorage, *operations: Operation, partition: Partition = ANA, epoch: str | None = None
) -> Position:
    return await storage.commit(Batch(partition, operations, epoch))


async def get(storage: RedisStorage, key: str, partition: Partition = ANA) -> Item | None:
    (item,) = await storage.get([Ref(partition, NOTES, key)])
    return item


def contents(url: str) -> dict[bytes, Any]:
    """Return everything that the server holds."""
    reads: dict[bytes, Any] = {
        b"hash": lambda client, key: client.hgetall(key),
        b"zset": lambda client, key: client.zrange(key, 0, -1, withscores=True),
        b"string": lambda client, key: client.get(key),
    }
    with redis.Redis.from_url(url) as client:
        return {key: reads[client.type(key)](client, key) for key in client.scan_iter(count=1000)}


def lasting(contents: dict[bytes, Any]) -> dict[bytes, Any]:
    """Return *contents* without the results of writes, which expire by themselves."""
    return {key: value for key, value in contents.items() if b":results:" not in key}


def patient(milliseconds: int) -> timedelta:
    """Return a time-out; tests that stall a server take a short one, and slow machines never meet it otherwise."""
    return timedelta(milliseconds=milliseconds)
