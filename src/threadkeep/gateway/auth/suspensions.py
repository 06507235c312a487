"""Suspended owners: every request of theirs is refused, in all processes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, NamedTuple

from cachetools import LRUCache

from threadkeep.concurrency import LEAST_WAIT
from threadkeep.errors import StorageError
from threadkeep.gateway.auth.reading import READ_TIMEOUT
from threadkeep.gateway.public_errors import ProblemError
from threadkeep.gateway.shared_secret import NAMESPACE
from threadkeep.ids import new_id, short_digest
from threadkeep.observability import log

if TYPE_CHECKING:
    from langgraph.store.base import BaseStore

    from threadkeep.clock import Clock
    from threadkeep.concurrency import TimeoutBudget
    from threadkeep.identity import Owner

CACHE_SECONDS: Final = 2.0
"""How long a process uses what it knows without looking for changes."""

_SUSPENDED: Final = ("threadkeep", "gateway", "suspended")
_CHANGE: Final = "last_suspension"
_OWNERS: Final = 100_000


class _Known(NamedTuple):
    """Whether an owner is suspended, and the change after which that was read."""

    suspended: bool
    change: str


class Suspensions:
    """The suspended owners, apart from the owners' own items: an erasure does not end a suspension.

    Each suspension and restoration writes a new id into one item. A process reads that item every 2 seconds, and reads
    an owner anew only after the id has changed.

    Args:
        store: Keeps them.
        clock: The time.
        budget: How long a request waits for the store; what takes longer counts as soon as it is read.
    """

    def __init__(self, store: BaseStore, clock: Clock, budget: TimeoutBudget) -> None:
        self._store = store
        self._clock = clock
        self._budget = budget
        self._known: LRUCache[Owner, _Known] = LRUCache(_OWNERS)
        self._change = ""
        self._checked = float("-inf")

    async def suspend(self, owner: Owner, *, by: str, reason: str) -> None:
        """Refuse every request of *owner* from now on."""
        value = {"by": by, "reason": reason, "at": self._clock.now().isoformat()}
        await self._store.aput(_SUSPENDED, _key(owner), value, index=False)
        await self._announce(owner, suspended=True)

    async def restore(self, owner: Owner) -> None:
        """End the suspension of *owner*."""
        await self._store.adelete(_SUSPENDED, _key(owner))
        await self._announce(owner, suspended=False)

    async def require_active(self, owner: Owner) -> None:
        """Refuse a request of a suspended owner.

        Raises:
            ProblemError: The owner is suspended.
        """
        if await self.is_suspended(owner):
            detail = "This user is suspended; ask an administrator."
            raise ProblemError(403, "suspended", detail)

    async def is_suspended(self, owner: Owner) -> bool:
        """Return whether *owner* is suspended.

        While the storage is unavailable, the last answer holds: a chat goes on without its memory.
        """
        await self._look_for_changes()
        known, change = self._known.get(owner), self._change
        if known is None or known.change != change:
            try:
                known = await self._budget.wait(self._read_owner(owner, change), timeout=READ_TIMEOUT, least=LEAST_WAIT)
            except (StorageError, TimeoutError) as error:
                log.warning("The suspension of an owner could not be read: %s", str(error) or "it took too long")
                return known is not None and known.suspended
        return known.suspended

    async def _look_for_changes(self) -> None:
        now = time.monotonic()
        if now - self._checked < CACHE_SECONDS:
            return
        self._checked = now
        try:
            await self._budget.wait(self._read_change())
        except (StorageError, TimeoutError) as error:
            log.warning("Suspensions could not be read: %s", str(error) or "it took too long")

    async def _read_change(self) -> None:
        item = await self._store.aget(NAMESPACE, _CHANGE)
        self._change = "" if item is None else item.value["change"]

    async def _read_owner(self, owner: Owner, change: str) -> _Known:
        item = await self._store.aget(_SUSPENDED, _key(owner))
        known = self._known[owner] = _Known(item is not None, change)
        return known

    async def _announce(self, owner: Owner, *, suspended: bool) -> None:
        change = new_id()
        await self._store.aput(NAMESPACE, _CHANGE, {"change": change}, index=False)
        self._change = change
        self._known[owner] = _Known(suspended, change)


def _key(owner: Owner) -> str:
    return short_digest(*owner.parts)
