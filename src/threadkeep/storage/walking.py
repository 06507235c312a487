"""Going through everything of a place, a page at a time; what is written meanwhile may or may not be met."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from threadkeep.storage.port import Direction, Item, Namespace, Partition, Storage

PAGE: Final = 200
"""How many items or partitions are read at once."""


async def pages_in(
    storage: Storage, partition: Partition, *, prefix: Namespace = (), direction: Direction = "newest"
) -> AsyncGenerator[tuple[Item, ...]]:
    """Yield the items of *partition* below *prefix*, a page at a time; no page is empty."""
    after: str | None = None
    while True:
        page = await storage.scan(partition, prefix=prefix, direction=direction, after=after, limit=PAGE)
        if page.items:
            yield page.items
        if page.after is None:
            return
        after = page.after


async def items_in(
    storage: Storage, partition: Partition, *, prefix: Namespace = (), direction: Direction = "newest"
) -> AsyncGenerator[Item]:
    """Yield the items of *partition* below *prefix*."""
    async with aclosing(pages_in(storage, partition, prefix=prefix, direction=direction)) as found:
        async for page in found:
            for item in page:
                yield item


async def partitions_in(storage: Storage) -> AsyncGenerator[Partition]:
    """Yield every partition of *storage*, in the storage's order."""
    after: Partition | None = None
    while found := await storage.partitions(after=after, limit=PAGE):
        for partition in found:
            yield partition
        after = found[-1]
