"""Checkpoints in the order in which they were made, whatever the clocks of the machines say.

LangGraph names a checkpoint by the time of the machine that makes it and takes the one with the largest name for
the newest. Where two machines take turns on a thread and the second one's clock is behind, what it adds would be
the older one, and gone with the next read.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, cast
from uuid import UUID

from langgraph.checkpoint.base import id as ids

from threadkeep.clock import SystemClock
from threadkeep.errors import ConflictError

if TYPE_CHECKING:
    from langgraph.checkpoint.base import CheckpointTuple

_VERSION: Final = 6
_BEGAN: Final = datetime(1582, 10, 15, tzinfo=UTC)
"""When the times of ids begin."""

_AHEAD: Final = timedelta(days=3652)
"""How far an id may be ahead of this machine's clock, and be followed: ten years, which no clock is wrong by. What is
made after one that was followed is as far ahead, in every thread that this process serves, so an id that is further
stays alone with its thread."""


def come_after(found: CheckpointTuple | None) -> None:
    """Let every checkpoint that this process makes from now on be newer than *found*.

    LangGraph numbers by its clock, and by one more than the last where the clock is not ahead of that.
    """
    seen = _time_of(found.checkpoint["id"]) if found is not None else 0
    if seen <= _latest():
        _raise_to(cast("Any", ids), seen)


def require_later(checkpoint_id: str, parent: str) -> None:
    """Let a checkpoint pass only where it is newer than the one that its run goes on from.

    Raises:
        ConflictError: It is not: the next read would not see it, so it is not written either.
    """
    if checkpoint_id < parent:
        msg = (
            "Nothing can come after the thread's newest checkpoint: its id is of a time far ahead of this machine's "
            "clock, or is no time. Set the clock right, or fork the thread at a checkpoint before that one."
        )
        raise ConflictError(msg, checkpoint_id=parent)


def _raise_to(clock: Any, seen: int) -> None:
    """Bring the last time of *clock* to *seen*, unless it is later by now.

    Between the comparison and what follows it, nothing is called: no other thread gets the interpreter there.
    """
    if seen > (clock._last_v6_timestamp or 0):  # noqa: SLF001 - it is said nowhere else
        clock._last_v6_timestamp = seen  # noqa: SLF001


def _latest() -> int:
    """Return the latest time that an id is followed to, in 100 ns since 1582."""
    return (SystemClock().now() + _AHEAD - _BEGAN) // timedelta(microseconds=1) * 10


def _time_of(checkpoint_id: str) -> int:
    """Return the time that an id holds, in 100 ns since 1582; 0 where it holds none."""
    try:
        parsed = UUID(checkpoint_id)
    except ValueError:
        return 0
    time = (parsed.int >> 80 << 12) | (parsed.int >> 64 & 0xFFF)
    return time if parsed.version == _VERSION else 0
