"""How a run waits for a lease that a run of another process has, or takes next."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from threadkeep.checkpoints.head import Head
    from threadkeep.checkpoints.leases import Strategy

FIRST_PAUSE_SECONDS: Final = 0.02
LONGEST_PAUSE_SECONDS: Final = 0.5
_RESERVE_SECONDS: Final = 2.0
"""After how long a run that waits for one of another process reserves the lease: no run in between takes it."""

_RESERVED_SECONDS: Final = 3 * LONGEST_PAUSE_SECONDS
"""How long a free lease stays reserved: the run that waits asks every half a second, unless its process died."""


class LeaseWait:
    """How one run waits for the lease, which a run of another process has or has reserved.

    Clocks of machines differ, so a reservation has expired once the lease was free for long enough since this run
    first saw it.

    Args:
        run: The token of the run.
        strategy: Of a run that takes the lease from another one, nothing is waited for.
    """

    def __init__(self, run: str, strategy: Strategy) -> None:
        self._run = run
        self._strategy = strategy
        self._pause = FIRST_PAUSE_SECONDS
        self._began = time.monotonic()
        self._next_run = ""
        self._free_since = 0.0

    def is_blocked(self, head: Head, *, leased: bool) -> bool:
        """Return whether another run has the lease of *head*, or takes it next."""
        now = time.monotonic()
        if leased or head.next_run != self._next_run:
            self._next_run, self._free_since = head.next_run, now
        if leased:
            return self._strategy in ("enqueue", "reject")
        reserved = head.next_run not in ("", self._run) and now - self._free_since < _RESERVED_SECONDS
        return reserved and self._strategy == "enqueue"

    def is_to_reserve(self, head: Head) -> bool:
        """Return whether the run has waited so long that it asks to be the next one."""
        return not head.next_run and time.monotonic() - self._began > _RESERVE_SECONDS

    async def pause(self) -> None:
        """Wait before the next look, longer each time."""
        await asyncio.sleep(self._pause)
        self._pause = min(self._pause * 1.5, LONGEST_PAUSE_SECONDS)
