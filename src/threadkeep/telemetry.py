"""What happened, for people and programs: counters, and one log line for what was survived."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from typing import Final

log: Final = logging.getLogger("threadkeep")

_REPEAT_AFTER_SECONDS: Final = 60.0


class Telemetry:
    """Counts events of one Threadkeep; a failure that was survived is counted and logged.

    The same failure is logged once a minute, with how often it came, so that a storage that is
    down for an hour does not fill the log.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._logged_at: dict[tuple[str, str], float] = {}

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
