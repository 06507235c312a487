"""A clock that stands still until a test moves it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

START: Final = datetime(2025, 3, 14, 9, 26, 53, 589793, tzinfo=UTC)
"""A moment with microseconds, so that a backend that rounds them is found out."""


class FrozenClock:
    """Says *start* until it is advanced.

    Args:
        start: An aware moment.
    """

    def __init__(self, start: datetime = START) -> None:
        self._now = start.astimezone(UTC)

    def now(self) -> datetime:
        """Return the present moment as an aware UTC datetime."""
        return self._now

    def advance(self, by: timedelta) -> datetime:
        """Move on by *by*, which may be negative, as machines' clocks are; return the moment then."""
        self._now += by
        return self._now
