"""How long a turn waits for a storage that does not answer: most of the time-out once, and hardly at all from then on.

A turn asks several times: whose thread it is, what is remembered, each checkpoint's binding, its turn
record. Were each to wait its own time-out, a locked storage would cost a turn seconds; so all of them
together wait about as long as the time-out says.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from datetime import timedelta
from typing import Any, Final, TypeVar

T = TypeVar("T")

_FIRST: Final = 0.6
"""The share of the time-out that the first wait may take; the rest is for those that come after it."""

_SHORT_SECONDS: Final = 0.02
"""Enough for a read: whether a thread is another's is told even while every write waits."""

_RECALL_SECONDS: Final = 0.05
"""Enough to embed a question and to read: what is remembered is recalled even while every write waits."""

_AGAIN_SECONDS: Final = 5.0
"""After so long the full time-out is waited again, though the old call never answered."""


class TimeoutBudget:
    """Waits for work on the home loop; what is not waited for goes on to its end.

    Args:
        timeout: How long to wait while nothing is known to hang.
    """

    def __init__(self, timeout: timedelta) -> None:
        self._timeout = timeout
        self._hanging: dict[asyncio.Future[Any], float] = {}

    async def wait(self, work: Awaitable[T], *, timeout: timedelta | None = None) -> T:
        """Return what *work* returns, if that is soon.

        Args:
            work: Is run to its end, also where the caller stops waiting or is cancelled.
            timeout: Instead of the usual one.

        Raises:
            TimeoutError: It was not.
        """
        task = asyncio.ensure_future(work)
        task.add_done_callback(self._ended)
        seconds = _FIRST * (timeout or self._timeout).total_seconds()
        if hanging := self._how_many_hang():
            seconds = min(seconds, _SHORT_SECONDS / hanging)
        self._hanging[task] = 0.0  # the loop itself would forget it
        try:
            return await asyncio.wait_for(asyncio.shield(task), seconds)
        except TimeoutError:
            if task in self._hanging:
                self._hanging[task] = time.monotonic() + _AGAIN_SECONDS
            raise

    def for_recall(self, timeout: timedelta) -> timedelta:
        """Return how long recall may take: *timeout*, or a little while something hangs."""
        return min(timeout, timedelta(seconds=_RECALL_SECONDS)) if self._how_many_hang() else timeout

    async def settle(self, timeout: timedelta) -> None:
        """Wait for what was not waited for, *timeout* at most."""
        if self._hanging:
            await asyncio.wait(set(self._hanging), timeout=timeout.total_seconds())

    def _how_many_hang(self) -> int:
        return sum(time.monotonic() < until for until in self._hanging.values())

    def _ended(self, task: asyncio.Future[Any]) -> None:
        self._hanging.pop(task, None)
        if not task.cancelled():
            task.exception()  # whoever waited has raised it; nobody may be left who did
