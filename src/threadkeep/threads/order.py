"""Checkpoints in the order in which they were made, whatever the clocks of the machines say.

LangGraph names a checkpoint by the time of the machine that makes it and takes the one with the largest name for
the newest. Where two machines take turns on a thread and the second one's clock is behind, what it adds would be
the older one, and gone with the next read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast
from uuid import UUID

from langgraph.checkpoint.base import id as ids

if TYPE_CHECKING:
    from langgraph.checkpoint.base import CheckpointTuple

_VERSION: Final = 6
_FAR: Final = 1 << 59
"""A time that is no clock's, in 100 ns since 1582: ids from then on must not bring ours near the last there is."""


def come_after(found: CheckpointTuple | None) -> None:
    """Let every checkpoint that this process makes from now on be newer than *found*.

    LangGraph numbers by its clock, and by one more than the last where the clock is not ahead of that.
    """
    seen = _time_of(found.checkpoint["id"]) if found is not None else 0
    clock = cast("Any", ids)
    if seen > (clock._last_v6_timestamp or 0):  # noqa: SLF001 - there is no other place where it is said
        clock._last_v6_timestamp = seen  # noqa: SLF001


def _time_of(checkpoint_id: str) -> int:
    """Return the time that an id holds, in 100 ns since 1582; 0 where it holds none."""
    try:
        parsed = UUID(checkpoint_id)
    except ValueError:
        return 0
    time = (parsed.int >> 80 << 12) | (parsed.int >> 64 & 0xFFF)
    return time if parsed.version == _VERSION and time < _FAR else 0
