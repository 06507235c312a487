"""The engine that needs nothing but the storage: it looks when it is woken, and now and then."""

from __future__ import annotations

import asyncio
from collections import deque
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from threadkeep.errors import ClosedError, StorageError

if TYPE_CHECKING:
    from threadkeep.capture.queue_backends import Work
    from threadkeep.clock import Clock
    from threadkeep.observability import Telemetry

_FIRST_PAUSE_SECONDS: Final = 0.2
_LONGEST_PAUSE_SECONDS: Final = 30.0
_SHORTEST_WAIT_SECONDS: Final = 0.02

_AFTER_THE_TURN_SECONDS: Final = 0.01
"""A run is over a moment before its caller has the answer; learning at once would slow that down."""


class EmbeddedEngine:
    """Learns in this process, from as many threads at once as it has *workers*.

    Args:
        clock: What the time is.
        telemetry: Counts and logs what was survived.
        workers: See :class:`~threadkeep.capture.queue_backends.Engine`.
        poll: How often to look for what another process left.
    """

    name: str = "embedded"

    def __init__(self, clock: Clock, telemetry: Telemetry, *, workers: int, poll: timedelta) -> None:
        self.workers = workers
        self._clock = clock
        self._telemetry = telemetry
        self._poll_seconds = poll.total_seconds()
        self._woken = asyncio.Event()
        self._serving: asyncio.Task[None] | None = None
        self._learning: set[asyncio.Task[bool]] = set()
        self._look_at = 0.0
        self._paused = False

    @property
    def learns_here(self) -> bool:
        """See :class:`threadkeep.capture.queue_backends.Engine`: while it serves, and the storage answers."""
        return self._serving is not None and not self._serving.done() and not self._paused

    async def start(self, work: Work) -> None:
        """See :meth:`threadkeep.capture.queue_backends.Engine.start`."""
        if self.workers and (self._serving is None or self._serving.done()):
            self._serving = asyncio.get_running_loop().create_task(self._serve(work), name="threadkeep-capture")

    def wake(self, key: str, *, at: datetime | None = None) -> None:
        """See :meth:`threadkeep.capture.queue_backends.Engine.wake`; what waits until *at* is found by looking."""
        del key
        if at is None:
            self._woken.set()

    async def stop(self) -> None:
        """See :meth:`threadkeep.capture.queue_backends.Engine.stop`."""
        serving, self._serving = self._serving, None
        if serving is not None:
            serving.cancel()
            await asyncio.wait({serving})
        for task in self._learning:
            task.cancel()
        if self._learning:
            await asyncio.wait(self._learning)
        self._learning.clear()

    async def _serve(self, work: Work) -> None:
        pause = _FIRST_PAUSE_SECONDS
        while True:
            self._woken.clear()
            try:
                await self._wait(await self._round(work))
                pause, self._paused = _FIRST_PAUSE_SECONDS, False
            except ClosedError:
                return
            except StorageError as error:
                self._telemetry.degraded("capture.worker", error)
                self._paused, self._look_at = True, 0.0
                # Not to be woken: every new turn would ask a storage that is down.
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)

    async def _round(self, work: Work) -> float:
        """Start learning from everything that may be taken; return how many seconds to wait then."""
        loop = asyncio.get_running_loop()
        woken = loop.time() < self._look_at
        found = await work.find(woken=woken)
        keys = deque(found.keys)
        while keys:
            while len(self._learning) >= self.workers:
                await asyncio.wait(self._learning, return_when=asyncio.FIRST_COMPLETED)
                self._reap()
            task = loop.create_task(work.learn(keys.popleft()), name="threadkeep-learn")
            self._learning.add(task)
        seconds = self._poll_seconds
        if found.next_at is not None:
            left = (found.next_at - self._clock.now()).total_seconds()
            seconds = max(_SHORTEST_WAIT_SECONDS, min(left, seconds))
        look_at = loop.time() + seconds
        self._look_at = min(look_at, self._look_at) if woken else look_at
        return max(self._look_at - loop.time(), 0.0)

    async def _wait(self, seconds: float) -> None:
        """Wait until there may be something to do: a turn was recorded, a thread was learnt from, or it is time."""
        woken = asyncio.ensure_future(self._woken.wait())
        try:
            await asyncio.wait({woken, *self._learning}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if woken.done() and len(self._learning) < self.workers:
                await asyncio.sleep(_AFTER_THE_TURN_SECONDS)
        finally:
            woken.cancel()
        self._reap()

    def _reap(self) -> None:
        """Let go of what has ended.

        Raises:
            StorageError, ClosedError: As one of them ended.
        """
        ended = [task for task in self._learning if task.done()]
        self._learning.difference_update(ended)
        errors = [error for task in ended if not task.cancelled() and (error := task.exception()) is not None]
        if errors:
            raise errors[0]
