"""The newest events of a run, for the clients that read them now and those that join later."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

MAX_BYTES: Final = 256 * 1024
"""How much of a run is kept for clients that join or lag behind."""


class EventBuffer:
    """Keeps the newest events of one run, numbered from 1, up to a number of bytes. Belongs to one event loop.

    Args:
        max_bytes: How many bytes of events are kept; the newest event is kept whatever its size.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._events: deque[bytes] = deque()
        self._size = 0
        self._last = 0
        self._closed = False
        self._waiting: set[asyncio.Future[bool]] = set()

    @property
    def last(self) -> int:
        """The number of the newest event; 0: there is none."""
        return self._last

    @property
    def size(self) -> int:
        """How many bytes of events are kept."""
        return self._size

    @property
    def is_closed(self) -> bool:
        """Whether no further event follows."""
        return self._closed

    def append(self, event: bytes) -> None:
        """Add an event, and wake the clients that wait for it."""
        self._events.append(event)
        self._size += len(event)
        self._last += 1
        while self._size > self._max_bytes and len(self._events) > 1:
            self._size -= len(self._events.popleft())
        self._wake()

    def close(self) -> None:
        """Add nothing any more; clients that have read everything end."""
        self._closed = True
        self._wake()

    def after(self, number: int) -> list[bytes] | None:
        """Return the events behind *number*; ``None``: some of them are no longer kept."""
        missing = self._last - number
        if missing > len(self._events) or missing < 0:
            return None
        return [self._events[place] for place in range(len(self._events) - missing, len(self._events))]

    async def wait(self, number: int, seconds: float) -> bool:
        """Wait until there is an event behind *number* or the end; return whether there is, within *seconds*."""
        if self._last > number or self._closed:
            return True
        loop = asyncio.get_running_loop()
        changed: asyncio.Future[bool] = loop.create_future()
        self._waiting.add(changed)
        timer = loop.call_later(seconds, _resolve, changed, False)  # noqa: FBT003 - the result: it waited too long
        try:
            return await changed
        finally:
            timer.cancel()
            self._waiting.discard(changed)

    def _wake(self) -> None:
        for changed in self._waiting:
            _resolve(changed, True)  # noqa: FBT003 - the result


def _resolve(changed: asyncio.Future[bool], result: bool) -> None:  # noqa: FBT001 - called by the loop
    if not changed.done():
        changed.set_result(result)
