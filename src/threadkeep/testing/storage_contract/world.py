"""What the contract's tests stand on: fixtures, two owners, and short ways to say a batch."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Any, Final, Protocol

import pytest
import pytest_asyncio

from threadkeep.storage.interface import (
    Batch,
    Delete,
    Embedding,
    Item,
    Namespace,
    Operation,
    Partition,
    Position,
    Put,
    Ref,
    Storage,
    Touch,
)
from threadkeep.testing.clock import FrozenClock

ANA: Final = Partition("owner", ("", "ana"))
BOB: Final = Partition("owner", ("", "bob"))
NOTES: Final = ("memories", "ana")
VECTOR: Final = Embedding("hashing", 2, b"\0\0\x80?\0\0\0\0")


class OpenStorage(Protocol):
    """Makes a storage that is not connected, at the one location of the test."""

    def __call__(self, *, key_prefix: str = "") -> Storage:
        """Return a new one; with another *key_prefix* it shares nothing with the rest."""
        ...


class World:
    """The fixtures of every part of the contract."""

    @pytest.fixture
    def clock(self) -> FrozenClock:
        """The storage's time."""
        return FrozenClock()

    @pytest.fixture
    def open_storage(self, clock: FrozenClock) -> OpenStorage:
        """Replaced by the backend's own."""
        raise NotImplementedError

    @pytest_asyncio.fixture
    async def storage(self, open_storage: OpenStorage) -> AsyncIterator[Storage]:
        """A connected storage; closed in the end."""
        storage = open_storage()
        await storage.connect()
        yield storage
        await storage.close()


def note(key: str, text: str = "likes tea", namespace: Namespace = NOTES, **more: Any) -> Put:
    """Return a put of a searchable item; *more* are fields of ``Put``."""
    fields: dict[str, Any] = {"index": ("data",), **more}
    return Put(namespace, key, {"data": text}, **fields)


def plain(key: str, value: dict[str, Any] | None = None, namespace: Namespace = NOTES, **more: Any) -> Put:
    """Return a put of an item that is not searchable."""
    return Put(namespace, key, {"data": "likes tea"} if value is None else value, **more)


def delete(key: str, namespace: Namespace = NOTES, **more: Any) -> Delete:
    """Return a delete."""
    return Delete(namespace, key, **more)


def touch(key: str, namespace: Namespace = NOTES) -> Touch:
    """Return a touch."""
    return Touch(namespace, key)


async def commit(
    storage: Storage, *operations: Operation, partition: Partition = ANA, epoch: str | None = None
) -> Position:
    """Commit *operations* as one batch."""
    return await storage.commit(Batch(partition, operations, epoch))


async def get(storage: Storage, key: str, namespace: Namespace = NOTES, partition: Partition = ANA) -> Item | None:
    """Return one item."""
    (item,) = await storage.get([Ref(partition, namespace, key)])
    return item


async def require(storage: Storage, key: str, namespace: Namespace = NOTES, partition: Partition = ANA) -> Item:
    """Return one item that must be there."""
    item = await get(storage, key, namespace, partition)
    assert item is not None, f"no item at {key!r}"
    return item


def keys(items: Iterable[Item]) -> list[str]:
    """Return the keys of *items*, in their order."""
    return [item.ref.key for item in items]
