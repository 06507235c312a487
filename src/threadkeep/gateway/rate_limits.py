"""How many requests of an owner this process answers in a minute."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Final

from cachetools import LRUCache

from threadkeep.gateway.public_errors import ProblemError

if TYPE_CHECKING:
    from threadkeep.identity import Owner

_OWNERS: Final = 100_000


class RateLimiter:
    """A token bucket for each owner: full at first, and refilled steadily.

    Args:
        per_minute: How many requests it admits in a minute.
    """

    def __init__(self, per_minute: int) -> None:
        self._per_minute = per_minute
        self._buckets: LRUCache[Owner, tuple[float, float]] = LRUCache(_OWNERS)

    def admit(self, owner: Owner) -> str:
        """Count a request of *owner*, and return what is left as the header ``RateLimit`` says it.

        Raises:
            ProblemError: The owner has no request left; it says when there is one again.
        """
        now = time.monotonic()
        left, at = self._buckets.get(owner, (float(self._per_minute), now))
        left = min(self._per_minute, left + (now - at) * self._per_minute / 60)
        if left < 1:
            wait = math.ceil((1 - left) * 60 / self._per_minute)
            self._buckets[owner] = (left, now)
            detail = "This user has made too many requests; try again later."
            raise ProblemError(429, "too_many_requests", detail, retry_after=wait)
        self._buckets[owner] = (left - 1, now)
        return f'"requests";r={int(left - 1)};t={math.ceil(60 / self._per_minute)}'
