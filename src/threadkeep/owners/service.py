"""Everything that is held about an owner: show it and export it."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final

from threadkeep.memories.shapes import memory_of
from threadkeep.owners.places import place_of, says_nothing
from threadkeep.owners.record import Holdings
from threadkeep.storage.port import Item, Storage

if TYPE_CHECKING:
    from threadkeep.clock import Clock
    from threadkeep.owners.erasing import Threads
    from threadkeep.owners.owner import Owner

FORMAT: Final = 1
"""Version of the export's lines."""

_PAGE: Final = 500


class Owners:
    """Everything about one owner at a time."""

    def __init__(self, storage: Storage, threads: Threads, clock: Clock) -> None:
        self._storage = storage
        self._threads = threads
        self._clock = clock

    async def show(self, owner: Owner) -> Holdings:
        """Count what is held about *owner*."""
        account: dict[str, float] = {}
        kinds: Counter[str] = Counter()
        rest: Counter[str] = Counter()
        async for item in self._items(owner):
            place = place_of(item)
            if place == "memory":
                memory = memory_of(item)
                kinds[memory.kind if memory else "unreadable"] += 1
            else:
                rest[place] += 1
            if place == "account":
                account = {name: number for name, number in item.value.items() if isinstance(number, int | float)}
        return Holdings(
            owner=owner,
            memories=dict(kinds),
            summaries=rest["summary"],
            turns_waiting=rest["turn"],
            turns_seen=rest["turn_seen"],
            proposals=rest["proposal"],
            tombstones=rest["tombstone"],
            extraction=account,
            threads=tuple(await self._threads.of_owner(owner)),
            other=rest["item"],
        )

    async def export(self, owner: Owner) -> AsyncIterator[dict[str, Any]]:
        """Yield everything that is held about *owner*, one JSON object a line; the first says whose it is."""
        yield {
            "type": "owner",
            "format": FORMAT,
            "user_id": owner.user_id,
            "tenant": owner.tenant,
            "exported_at": self._clock.now().isoformat(),
            "threads": list(await self._threads.of_owner(owner)),
        }
        async for item in self._items(owner):
            if says_nothing(item):
                continue
            yield {
                "type": place_of(item),
                "namespace": list(item.ref.namespace),
                "key": item.ref.key,
                "value": item.value,
                "created_at": item.created_at.isoformat(),
                "updated_at": item.updated_at.isoformat(),
                "expires_at": item.expires_at.isoformat() if item.expires_at else None,
            }

    async def _items(self, owner: Owner) -> AsyncIterator[Item]:
        after: str | None = None
        while True:
            page = await self._storage.scan(owner.partition, direction="oldest", after=after, limit=_PAGE)
            for item in page.items:
                yield item
            if page.after is None:
                return
            after = page.after
