"""Waiting for others: one timeout budget for the storage calls of a turn, and one retry loop for revision conflicts.

A turn calls the storage several times: for the owner of its thread, its memories, each checkpoint's binding and its
turn record. Were each call to wait for its own timeout, a locked storage would cost a turn seconds; so all calls
together wait about as long as the timeout says.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, Final, TypeVar

from threadkeep.errors import RevisionConflictError

T = TypeVar("T")

CONFLICT_ATTEMPTS: Final = 20
_FIRST_PAUSE_SECONDS: Final = 0.005
_LONGEST_PAUSE_SECONDS: Final = 2.0

_FIRST: Final = 0.6
"""The share of the time-out that the first wait may take; the rest is for those that come after it."""

_SHORT_SECONDS: Final = 0.02
"""Enough for a read: whether a thread is another's is told even while every write waits."""

_RECALL_SECONDS: Final = 0.05
"""Enough to embed a question and to read: what is remembered is recalled even while every write waits."""

_AGAIN_SECONDS: Final = 5.0
"""After so long the full time-out is waited again, though the old call never answered."""


class TimeoutBudget:
    """Shares one timeout among a turn's waits; work that is not waited for runs to its end.

    Args:
        timeout: How long to wait while no earlier work hangs.
    """

    def __init__(self, timeout: timedelta) -> None:
        self._timeout = timeout
        self._hanging: dict[asyncio.Future[Any], float] = {}

    async def wait(self, work: Awaitable[T], *, timeout: timedelta | None = None) -> T:
        """Return the result of *work*, if it is ready in time.

        Args:
            work: Runs to its end, even if the caller stops waiting or is cancelled.
            timeout: Replaces the usual timeout.

        Raises:
            TimeoutError: The budget is used up; *work* goes on.
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
            task.exception()  # marks it as retrieved: the caller may not wait any more


async def retry_conflicts(
    operation: Callable[[], Awaitable[T]],
    *,
    attempts: int = CONFLICT_ATTEMPTS,
    retry_if: Callable[[RevisionConflictError], bool] = lambda _: True,
    message: str = "Other writers kept getting in the way; try again.",
    **details: object,
) -> T:
    """Return the result of *operation*; run it again after a conflict with another writer.

    Between two attempts it pauses for a random time, up to 5 ms at first and up to 2 s later: writers that met once
    do not meet again.

    Args:
        operation: Reads what it decides by and commits, anew at each call.
        attempts: How often *operation* is called, 1 or more.
        retry_if: Whether a conflict is worth another attempt; by default every conflict is.
        message: The message of the error after the last attempt.
        details: The details of that error.

    Raises:
        RevisionConflictError: The conflict that is not worth another attempt, or the last attempt met one, too.
    """
    for attempt in range(attempts):
        try:
            return await operation()
        except RevisionConflictError as error:
            if not retry_if(error):
                raise
            if attempt + 1 == attempts:
                raise RevisionConflictError(message, **details) from error
        pause = min(_FIRST_PAUSE_SECONDS * 2**attempt, _LONGEST_PAUSE_SECONDS)
        await asyncio.sleep(random.uniform(0, pause))  # noqa: S311
    msg = f"attempts must be 1 or more, got {attempts}."
    raise ValueError(msg)
