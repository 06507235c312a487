"""Refuses turns at once while the storage of the threads does not answer: each would wait for its timeout."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from threadkeep.errors import StorageUnavailableError
from threadkeep.observability import log
from threadkeep.process_state import threads_answer

if TYPE_CHECKING:
    from threadkeep.client import Threadkeep

SUSPECT_SECONDS: Final = 0.5
"""How long a turn waits for its thread until the storage is probed, and the pause between probes."""


class StallGuard:
    """Notices that the storage of the threads does not answer. Belongs to one event loop.

    Args:
        tk: The memory.

    Attributes:
        stalled: Whether a turn waited for its thread, and the storage did not answer a probe since.
    """

    def __init__(self, tk: Threadkeep) -> None:
        self._tk = tk
        self._probing: asyncio.Task[None] | None = None
        self.stalled = False

    def require_answering(self) -> None:
        """Refuse a turn while the storage does not answer.

        Raises:
            StorageUnavailableError: It does not; nothing of the turn was written.
        """
        if self.stalled:
            msg = "The storage of the threads does not answer; nothing of this turn was kept. Try again in a moment."
            raise StorageUnavailableError(msg)

    @asynccontextmanager
    async def watching(self) -> AsyncGenerator[asyncio.TimerHandle]:
        """Probe the storage if the block takes long; cancel what it yields once the thread was read."""
        timer = asyncio.get_running_loop().call_later(SUSPECT_SECONDS, self._suspect)
        try:
            yield timer
        finally:
            timer.cancel()

    def _suspect(self) -> None:
        if self._probing is None or self._probing.done():
            self._probing = asyncio.create_task(self._probe(), name="threadkeep-stall-guard")

    async def _probe(self) -> None:
        """Probe the storage until it answers."""
        while not await threads_answer(self._tk.app):
            if not self.stalled:
                log.warning("The storage of the threads does not answer: turns are refused until it does.")
            self.stalled = True
            await asyncio.sleep(SUSPECT_SECONDS)
        self.stalled = False

    async def aclose(self) -> None:
        """End the probing."""
        if self._probing is not None:
            self._probing.cancel()
            await asyncio.wait([self._probing])
