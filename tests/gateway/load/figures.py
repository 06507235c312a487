"""What is measured: figures beside their limits, and what processes take of the machine."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

import psutil


class Figure(NamedTuple):
    """A measured figure and its limit: *limit* from above, *least* from below."""

    name: str
    value: float
    limit: float | None = None
    least: float | None = None

    @property
    def holds(self) -> bool:
        """Whether the figure is within its limits."""
        return (self.limit is None or self.value <= self.limit) and (self.least is None or self.value >= self.least)

    def __str__(self) -> str:
        missed = "" if self.holds else ", MISSED"
        limit = "" if self.limit is None else f"  (at most {self.limit:g}{missed})"
        least = "" if self.least is None else f"  (at least {self.least:g}{missed})"
        return f"{self.name:52} {self.value:10.3f}{limit}{least}"


def cpu_seconds(pid: int) -> float:
    """Return the processor time so far of a process and of those that it started."""
    total = 0.0
    with suppress(psutil.NoSuchProcess):
        for process in (main := psutil.Process(pid), *main.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                total += times.user + times.system + times.children_user + times.children_system
    return total


def cpu_of_all(pids: Iterable[int]) -> float:
    """Return the processor time of several processes and of those that they started."""
    return sum(map(cpu_seconds, pids))


def resident_megabytes(pid: int) -> float:
    """Return how much memory a process holds."""
    return psutil.Process(pid).memory_info().rss / 1e6
