"""Reads of who makes a request: bounded, because every request waits for them."""

from __future__ import annotations

from collections.abc import Coroutine
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

from threadkeep.concurrency import LEAST_WAIT
from threadkeep.errors import StorageUnavailableError

if TYPE_CHECKING:
    from threadkeep.concurrency import TimeoutBudget

T = TypeVar("T")

READ_TIMEOUT: Final = timedelta(seconds=1.7)
"""Of which the first caller waits a second for what this process does not know yet."""


async def read_in_time(budget: TimeoutBudget, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of *work*, which reads a session or a key; it runs to its end if the request stops waiting.

    Raises:
        StorageUnavailableError: The storage does not answer in time.
    """
    try:
        return await budget.wait(work, timeout=READ_TIMEOUT, least=LEAST_WAIT)
    except TimeoutError as error:
        msg = "The storage does not answer, so the user of this request is unknown. Try again in a moment."
        raise StorageUnavailableError(msg) from error
