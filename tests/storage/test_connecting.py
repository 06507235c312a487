"""Connecting a storage: once for all callers, and to its end although a caller is cancelled."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from threadkeep.clock import SystemClock
from threadkeep.storage.memory import InMemoryStorage


class SlowStorage(InMemoryStorage):
    """Connects when it is let."""

    def __init__(self) -> None:
        super().__init__(clock=SystemClock())
        self.let = asyncio.Event()
        self.opened = self.released = 0

    async def _open(self) -> None:
        await self.let.wait()
        await super()._open()
        self.opened += 1

    async def _close(self) -> None:
        await super()._close()
        self.released += 1


async def test_a_cancelled_caller_does_not_drop_a_connection_half_made():
    storage = SlowStorage()
    first, second = (asyncio.create_task(storage.connect()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    with suppress(asyncio.CancelledError):
        await first
    storage.let.set()
    await second

    assert storage.opened == 1
    await storage.close()
    assert storage.released == 1


async def test_close_releases_what_a_cancelled_caller_began_to_connect():
    storage = SlowStorage()
    connecting = asyncio.create_task(storage.connect())
    await asyncio.sleep(0.01)
    connecting.cancel()
    with suppress(asyncio.CancelledError):
        await connecting
    asyncio.get_running_loop().call_later(0.01, storage.let.set)

    await storage.close()

    assert (storage.opened, storage.released) == (1, 1)
