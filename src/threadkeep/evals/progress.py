"""How a long measurement tells how far it is."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Called now and then while something is measured; must be quick."""

    def __call__(self, stage: str, done: int, total: int) -> object:
        """Say that *done* of *total* steps of *stage* are finished; a stage begins with ``done=0``."""
        ...


def silent(stage: str, done: int, total: int) -> None:
    """Tell nobody."""
