"""Writers that never stop, and never repeat themselves: what they were told, and what is there in the end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from threadkeep.errors import StorageFullError, StorageUnavailableError
from threadkeep.ids import new_id
from threadkeep.storage.interface import Batch, Partition, Put, Storage

OWNER: Final = Partition("owner", ("", "ana"))
NAMESPACE: Final = ("memories", "ana")
LEAP: Final = 1 << 20
"""So far a sequence in Redis leaps where the server was started anew; nothing here commits as often."""

PATIENCE_SECONDS: Final = 30.0
"""When a test gives up waiting; how soon it should be is measured, not asserted."""

_BREATH_SECONDS: Final = 0.01


class Load:
    """Writers on one owner. Each puts another key with each commit, expects nothing and repeats nothing.

    So a commit that the driver, or the storage, did twice shows as one number too many in the owner's sequence.

    Args:
        storage: Connected.
        writers: How many write at once.
        text: What each item says.

    Attributes:
        acknowledged: The keys whose commits returned.
        unknown: How many commits raised; each may have been done or not.
        said: What they raised, each sentence once.
    """

    def __init__(self, storage: Storage, *, writers: int = 8, text: str = "likes tea") -> None:
        self.acknowledged: list[str] = []
        self.unknown = 0
        self.said: set[str] = set()
        self._storage = storage
        self._writers = writers
        self._text = text
        self._mended_at = 0.0
        self._going_again: dict[int, float] = {}
        self._stopped = False

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Let them write; at the end wait until each has heard of its last commit."""
        tasks = [asyncio.create_task(self._write(number)) for number in range(self._writers)]
        try:
            yield
        finally:
            self._stopped = True
            await asyncio.gather(*tasks)

    async def more(self, *, acknowledged: int = 0, unknown: int = 0) -> None:
        """Wait until so many more were acknowledged, and failed."""
        wanted, expected = len(self.acknowledged) + acknowledged, self.unknown + unknown
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(self.acknowledged) < wanted or self.unknown < expected:
                await asyncio.sleep(_BREATH_SECONDS)

    async def recovered(self) -> float:
        """Wait until every writer was acknowledged something again; return how many seconds that took from now."""
        self._mended_at = time.monotonic()
        self._going_again.clear()
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(self._going_again) < self._writers:
                await asyncio.sleep(_BREATH_SECONDS)
        return max(self._going_again.values()) - self._mended_at

    async def verdict(self) -> tuple[int, int]:
        """Read all back; return how many acknowledged keys are not there, and how many commits were done twice."""
        there: set[str] = set()
        after: str | None = None
        while True:
            page = await self._storage.scan(OWNER, after=after, limit=1_000)
            there |= {item.ref.key for item in page.items}
            after = page.after
            if after is None:
                break
        head = await self._storage.position(OWNER)
        return len(set(self.acknowledged) - there), head.sequence % LEAP - len(there)

    async def _write(self, number: int) -> None:
        while not self._stopped:
            key = new_id()
            try:
                await self._storage.commit(Batch(OWNER, [Put(NAMESPACE, key, {"data": self._text}, ("data",))]))
            except (StorageUnavailableError, StorageFullError) as error:
                self.unknown += 1
                self.said.add(str(error))
                await asyncio.sleep(_BREATH_SECONDS)
            else:
                self.acknowledged.append(key)
                self._going_again.setdefault(number, time.monotonic())
