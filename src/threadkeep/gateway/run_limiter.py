"""How many runs are in progress at a time: as many more wait for a moment, and further ones are refused."""

from __future__ import annotations

import asyncio
from typing import Final

from threadkeep.errors import OverloadedError

WAIT_SECONDS: Final = 10.0
"""How long a turn waits until another one ends."""


class RunLimiter:
    """Admits runs in the order in which they ask. Belongs to one event loop.

    Args:
        limit: How many runs may be in progress, and as many may wait.
        wait_seconds: How long a run waits; ``None``: 10 seconds.
    """

    def __init__(self, limit: int, *, wait_seconds: float | None = None) -> None:
        self._limit = limit
        self._wait_seconds = WAIT_SECONDS if wait_seconds is None else wait_seconds
        self._places = asyncio.Semaphore(limit)
        self.running = 0
        self.waiting = 0

    async def enter(self) -> None:
        """Take a place; :meth:`leave` gives it back.

        Raises:
            OverloadedError: Too many runs wait, or none ended in time. Nothing of the turn was written.
        """
        if self._places.locked():
            if self.waiting >= self._limit:
                raise _overloaded()
            self.waiting += 1
            try:
                async with asyncio.timeout(self._wait_seconds):
                    await self._places.acquire()
            except TimeoutError:
                raise _overloaded() from None
            finally:
                self.waiting -= 1
        else:
            await self._places.acquire()
        self.running += 1

    def leave(self) -> None:
        """Give a place back."""
        self.running -= 1
        self._places.release()


def _overloaded() -> OverloadedError:
    return OverloadedError("Too many turns are in progress; nothing of this one was kept. Try again in a moment.")
