"""How a run waits for the lease on a thread: by its strategy, and for how long."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from threadkeep.checkpoints.head import STRATEGIES, Head, Strategy, reserve
from threadkeep.errors import ConflictError, InvalidInputError, StorageError

if TYPE_CHECKING:
    from threadkeep.checkpoints.leases import Lease

STRATEGY: Final = "multitask_strategy"
"""The key of a run's ``configurable`` that says what the run does if another run has the lease."""

LEASE_TIME: Final = timedelta(seconds=12)
"""How long a lease lasts without renewal: after a crash the next run waits no longer."""

QUEUE_TIME: Final = timedelta(minutes=5)
"""How long a run waits for the one before it."""

FIRST_PAUSE_SECONDS: Final = 0.02
LONGEST_PAUSE_SECONDS: Final = 0.5
_RESERVE_SECONDS: Final = 2.0
"""After how long a run that waits for one of another process reserves the lease: no run in between takes it."""

_RESERVED_SECONDS: Final = 3 * LONGEST_PAUSE_SECONDS
"""How long a free lease stays reserved: the run that waits asks every half a second, unless its process died."""


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    """How leases are given.

    Attributes:
        strategy: What a run does that names no strategy.
        lease: How long a lease lasts without renewal.
        queue: How long a run waits for the one before it.
    """

    strategy: Strategy = "enqueue"
    lease: timedelta = LEASE_TIME
    queue: timedelta = QUEUE_TIME

    def strategy_of(self, configurable: Mapping[str, Any]) -> Strategy:
        """Return the strategy of a run.

        Raises:
            InvalidInputError: It names one that there is not.
        """
        named = configurable.get(STRATEGY) or self.strategy
        for strategy in STRATEGIES:
            if named == strategy:
                return strategy
        msg = f"{STRATEGY} is one of {', '.join(STRATEGIES)}, not {str(named)[:40]!r}."
        raise InvalidInputError(msg)


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

    async def pause(self, lease: Lease, head: Head) -> None:
        """Wait before the next look, longer each time; once the run has waited long, ask to be the next one."""
        if not head.next_run and time.monotonic() - self._began > _RESERVE_SECONDS:
            lease.reserved = True
            with suppress(ConflictError, StorageError):
                await lease.thread.commit(reserve(lease.run))
        await asyncio.sleep(self._pause)
        self._pause = min(self._pause * 1.5, LONGEST_PAUSE_SECONDS)
