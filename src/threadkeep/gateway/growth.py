"""How much the storage holds, noted once a day and kept for 90 days."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from threadkeep.errors import StorageError
from threadkeep.observability import log

if TYPE_CHECKING:
    from threadkeep.client import Threadkeep
    from threadkeep.clock import Clock

DAYS: Final = 90
_NAMESPACE: Final = ("threadkeep", "gateway", "growth")
_FIRST: Final = timedelta(minutes=1)
_EVERY: Final = timedelta(hours=1)
_MINUTES_OF_A_DAY: Final = 1_440


@dataclass(frozen=True, slots=True)
class Sample:
    """The size of the storage, as it was last counted on a day.

    Attributes:
        at: When it was counted.
        owners: Partitions: owners, and a few of the service.
        items: Rows.
        size_bytes: Its size; ``None``: the storage does not tell.
    """

    at: datetime
    owners: int
    items: int
    size_bytes: int | None


class Growth:
    """The samples of all processes of the service; the latest of a day stays.

    Args:
        tk: The memory.
        clock: The time.
    """

    def __init__(self, tk: Threadkeep, clock: Clock) -> None:
        self._tk = tk
        self._clock = clock

    async def watch(self) -> None:
        """Count once an hour, until cancelled; a process that has just started waits for a minute."""
        delay = _FIRST
        while True:
            await asyncio.sleep(delay.total_seconds())
            delay = _EVERY
            try:
                await self.note(max_age=_EVERY)
            except (StorageError, TimeoutError) as error:  # the next round counts
                log.warning("The size of the storage could not be counted: %s", error)

    async def note(self, *, max_age: timedelta) -> None:
        """Count, unless a process has counted in the last *max_age*."""
        now = self._clock.now()
        key = now.date().isoformat()
        item = await self._tk.store.aget(_NAMESPACE, key)
        if item is not None and now - datetime.fromisoformat(item.value["at"]) < max_age:
            return
        storage = self._tk.app.storage
        stats = await self._tk.app.call(lambda _: storage.stats())
        value = {"at": now.isoformat(), "owners": stats.partitions, "items": stats.items, "bytes": stats.size_bytes}
        await self._tk.store.aput(_NAMESPACE, key, value, index=False, ttl=DAYS * _MINUTES_OF_A_DAY)

    async def list(self) -> list[Sample]:
        """Return the samples, oldest first."""
        items = await self._tk.store.asearch(_NAMESPACE, limit=DAYS + 1)
        samples = [
            Sample(datetime.fromisoformat(one["at"]), one["owners"], one["items"], one["bytes"])
            for one in (item.value for item in items)
        ]
        return sorted(samples, key=lambda sample: sample.at)
