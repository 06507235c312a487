"""The only place that reads the wall clock."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Where the time comes from; ``threadkeep.testing.FrozenClock`` stands still."""

    def now(self) -> datetime:
        """Return the present moment as an aware UTC datetime."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """Return the present moment as an aware UTC datetime."""
        return datetime.now(UTC)
