"""Suspended owners: every request of theirs is refused, in all processes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from cachetools import LRUCache, TTLCache

from threadkeep.errors import StorageError
from threadkeep.gateway.problems import ProblemError
from threadkeep.ids import short_digest
from threadkeep.observability import log

if TYPE_CHECKING:
    from langgraph.store.base import BaseStore

    from threadkeep.clock import Clock
    from threadkeep.identity import Owner

CACHE_SECONDS: Final = 2.0
"""How long a process uses an answer without reading again."""

_SUSPENDED: Final = ("threadkeep", "gateway", "suspended")
_WAIT_SECONDS: Final = 1.0
_OWNERS: Final = 100_000


class Suspensions:
    """The suspended owners, apart from the owners' own items: an erasure does not end a suspension.

    Args:
        store: Keeps them.
        clock: The time.
    """

    def __init__(self, store: BaseStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._current: TTLCache[Owner, bool] = TTLCache(_OWNERS, CACHE_SECONDS)
        self._last: LRUCache[Owner, bool] = LRUCache(_OWNERS)

    async def suspend(self, owner: Owner, *, by: str, reason: str) -> None:
        """Refuse every request of *owner* from now on."""
        value = {"by": by, "reason": reason, "at": self._clock.now().isoformat()}
        await self._store.aput(_SUSPENDED, _key(owner), value, index=False)
        self._keep(owner, suspended=True)

    async def restore(self, owner: Owner) -> None:
        """End the suspension of *owner*."""
        await self._store.adelete(_SUSPENDED, _key(owner))
        self._keep(owner, suspended=False)

    async def require_active(self, owner: Owner) -> None:
        """Refuse a request of a suspended owner.

        While the storage is away, the last answer holds: a chat goes on without its memory.

        Raises:
            ProblemError: The owner is suspended.
        """
        suspended = self._current.get(owner)
        if suspended is None:
            try:
                async with asyncio.timeout(_WAIT_SECONDS):
                    suspended = await self._store.aget(_SUSPENDED, _key(owner)) is not None
            except (StorageError, TimeoutError) as error:
                log.warning("Whether an owner is suspended could not be read: %s", error)
                suspended = self._last.get(owner, False)
            self._keep(owner, suspended=suspended)
        if suspended:
            detail = "This user is suspended; ask an administrator."
            raise ProblemError(403, "suspended", detail)

    def _keep(self, owner: Owner, *, suspended: bool) -> None:
        self._current[owner] = suspended
        self._last[owner] = suspended


def _key(owner: Owner) -> str:
    return short_digest(owner.tenant, owner.user_id)
