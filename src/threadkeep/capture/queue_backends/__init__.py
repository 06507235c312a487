"""Queue backends: what wakes a worker when turns wait. This is their interface.

Whether a turn waits, who has it and how often it failed is in its record, in the storage. A queue backend only
wakes workers: a lost wake-up delays, a repeated one changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class DueTurns:
    """What a worker found to do.

    Attributes:
        keys: Threads with turns that are due, the longest waiting first.
        next_at: When there may be more, as far as is known.
    """

    keys: tuple[str, ...]
    next_at: datetime | None


class Work(Protocol):
    """What an engine calls, on the loop that it was started on; safe to call from many tasks at once."""

    async def find(self, *, woken: bool = False) -> DueTurns:
        """Look for what waits.

        Args:
            woken: Whether this is only because of a wake-up, or because a thread was learnt from: then the storage is
                not asked if this process knows which turns wait.

        Raises:
            StorageError: The storage does not answer; try again later.
        """
        ...

    async def learn(self, key: str | None = None) -> bool:
        """Take the turns of the thread with this key, by a lease, and learn from them to the end.

        Where that thread is not among those that wait longest, or none is named, it takes the one that does.
        Cancelled, it gives back what it has not finished.

        Returns:
            Whether there was anything to do.

        Raises:
            StorageError: The storage does not answer; what was taken is anybody's when its lease ends.
        """
        ...


class Engine(Protocol):
    """Wakes workers for recorded turns."""

    name: str
    """``embedded``, ``procrastinate``, …"""

    workers: int
    """How many threads this process learns from at once; 0: it leaves that to others."""

    @property
    def learns_here(self) -> bool:
        """Whether turns that this process records are learnt from by this process, and soon."""
        ...

    async def start(self, work: Work) -> None:
        """Begin to serve; the second call does nothing. It does not fail because something is away."""
        ...

    def wake(self, key: str, *, at: datetime | None = None) -> None:
        """Say that turns of the thread with this key wait, from *at* on. It neither blocks nor raises."""
        ...

    async def stop(self) -> None:
        """Take nothing more, and cancel what is being learnt from: cancelled work gives back what it had."""
        ...
