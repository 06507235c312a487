"""What happened, for people and programs: counters, and one log line for what was survived."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from dataclasses import dataclass
from typing import Final

log: Final = logging.getLogger("threadkeep")

_REPEAT_AFTER_SECONDS: Final = 60.0


BOUNDS_SECONDS: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)


@dataclass(frozen=True, slots=True)
class Measured:
    """What a duration was, over all times that it was measured.

    Attributes:
        count: How often.
        seconds: All together.
        longest: The longest, in seconds.
        buckets: How many were at most 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300 and 3,600 seconds.
    """

    count: int = 0
    seconds: float = 0.0
    longest: float = 0.0
    buckets: tuple[int, ...] = (0,) * len(BOUNDS_SECONDS)


class Telemetry:
    """Counts events of one Threadkeep; a failure that was survived is counted and logged.

    The same failure is logged once a minute, with how often it came, so that a storage that is
    down for an hour does not fill the log.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._measured: dict[str, Measured] = {}
        self._logged_at: dict[tuple[str, str], float] = {}

    def measure(self, name: str, seconds: float) -> None:
        """Note that *name* took so long, e.g. ``capture.lag_seconds``."""
        with self._guard:
            before = self._measured.get(name, Measured())
            buckets = zip(before.buckets, BOUNDS_SECONDS, strict=True)
            self._measured[name] = Measured(
                before.count + 1,
                before.seconds + seconds,
                max(before.longest, seconds),
                tuple(number + (seconds <= bound) for number, bound in buckets),
            )

    def measured(self) -> dict[str, Measured]:
        """Return all durations by name."""
        with self._guard:
            return dict(self._measured)

    def count(self, name: str, amount: int = 1) -> None:
        """Add *amount* to the counter *name*, e.g. ``recall.turns``."""
        with self._guard:
            self._counts[name] += amount

    def degraded(self, where: str, error: BaseException) -> None:
        """Count and log that *where* went on without what *error* took away.

        Only the type and the message of our own errors are logged; others may quote data.
        """
        kind = type(error).__name__
        key = (where, kind)
        with self._guard:
            self._counts[f"{where}.degraded"] += 1
            now = time.monotonic()
            last = self._logged_at.get(key)
            if last is not None and now - last < _REPEAT_AFTER_SECONDS:
                return
            self._logged_at[key] = now
            times = self._counts[f"{where}.degraded"]
        detail = f": {error}" if hasattr(error, "code") else ""
        log.warning("%s went on degraded (%s%s); %d so far", where, kind, detail, times)

    def counts(self) -> dict[str, int]:
        """Return all counters by name."""
        with self._guard:
            return dict(self._counts)
