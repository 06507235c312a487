"""Report the progress of a long measurement."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Progress: TypeAlias = Callable[[int, int], object]
"""Called with how many steps are done and how many there are; must be quick."""


def silent(done: int, total: int) -> None:
    """Report nothing."""


class Steps:
    """Counts the steps of a measurement with several parts.

    Args:
        total: How many there are.
        progress: Called after each advance.
    """

    def __init__(self, total: int, progress: Progress) -> None:
        self._total = total
        self._progress = progress
        self._done = 0
        progress(0, total)

    def advance(self, steps: int = 1) -> None:
        """Count *steps* more as done."""
        self._done += steps
        self._progress(self._done, self._total)
