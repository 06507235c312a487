"""What a config names: the thread, the run and its owner; and the ids of checkpoints, in the order they were made.

LangGraph names a checkpoint by the clock of the machine that makes it and takes the one with the largest id for the
newest. If two machines take turns on a thread and the second one's clock is behind, what it adds would be older than
what it continues; so this process makes every further id later than those it has read.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, cast
from uuid import UUID

from langgraph.checkpoint.base import id as ids

from threadkeep.checkpoints.codec import CheckpointPlace, config_of
from threadkeep.clock import SystemClock
from threadkeep.errors import InvalidInputError, TooLargeError
from threadkeep.identity import RUNTIME, Owner, claimed_owner
from threadkeep.ids import ThreadId

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import CheckpointTuple

    from threadkeep.checkpoints.leases import Lease
    from threadkeep.checkpoints.thread_store import ThreadStore

MAX_THREAD_ID_CHARACTERS: Final = 1000

_VERSION: Final = 6
_BEGAN: Final = datetime(1582, 10, 15, tzinfo=UTC)
"""When the times of ids begin."""

_AHEAD: Final = timedelta(days=3652)
"""How far an id may be ahead of this machine's clock and be followed: ten years, which no clock is wrong by. Every
later id of this process is as far ahead, so an id that is further ahead concerns its own thread alone."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a config addresses.

    Attributes:
        configurable: What the run is configured with.
        thread: The thread.
        place: The namespace and the checkpoint; an empty id: the newest one.
        owner: The owner that the run names; ``None``: none.
        lease: The lease of the run; ``None``: it has none.
        run: What identifies the run, if LangGraph's loop made the config; ``None``: it did not.
        is_sync: Whether the run waits until a step is durable. LangGraph names no durability if it is the default.
    """

    configurable: Mapping[str, Any]
    thread: ThreadStore
    place: CheckpointPlace
    owner: Owner | None
    lease: Lease | None
    run: object | None
    is_sync: bool

    def wrote(self, checkpoint_id: str) -> RunnableConfig:
        """Note that the run put this checkpoint, and return the config that names it."""
        if self.lease is not None and not self.place.namespace:
            self.lease.written = checkpoint_id
        return config_of(self.thread.thread_id, CheckpointPlace(self.place.namespace, checkpoint_id))


def thread_id_from(value: object) -> ThreadId:
    """Return *value* as a thread id; a UUID or a number counts by its ``str()``.

    Raises:
        InvalidInputError: There is none, or it is empty.
        TooLargeError: It has more than 1,000 characters.
    """
    text = "" if value is None else str(value)
    if not text:
        msg = "The thread id is empty; give configurable.thread_id, the id of the conversation."
        raise InvalidInputError(msg)
    if len(text) > MAX_THREAD_ID_CHARACTERS:
        msg = f"The thread id has {len(text):,} characters; at most {MAX_THREAD_ID_CHARACTERS:,} are allowed."
        raise TooLargeError(msg, characters=len(text))
    return ThreadId(text)


def come_after(found: CheckpointTuple | None) -> None:
    """Make every checkpoint id of this process from now on later than that of *found*."""
    seen = _time_of(found.checkpoint["id"]) if found is not None else 0
    if seen <= _latest():
        _raise_to(cast("Any", ids), seen)


def _raise_to(clock: Any, seen: int) -> None:
    """Move the last time of *clock* to *seen*, unless it is later already.

    Nothing is called between the comparison and the assignment, so no other thread runs in between.
    """
    if seen > (clock._last_v6_timestamp or 0):  # noqa: SLF001 - it is kept nowhere else
        clock._last_v6_timestamp = seen  # noqa: SLF001


def _latest() -> int:
    """Return the latest time that an id is followed to, in 100 ns since 1582."""
    return (SystemClock().now() + _AHEAD - _BEGAN) // timedelta(microseconds=1) * 10


def _time_of(checkpoint_id: str) -> int:
    """Return the time that an id holds, in 100 ns since 1582; 0 if it holds none."""
    try:
        parsed = UUID(checkpoint_id)
    except ValueError:
        return 0
    time = (parsed.int >> 80 << 12) | (parsed.int >> 64 & 0xFFF)
    return time if parsed.version == _VERSION else 0


def claimed_owner_of(config: RunnableConfig) -> Owner | None:
    """Return the owner that a run names; ``None``: it names none."""
    return claimed_owner(config.get("configurable", {}))


def run_of(configurable: Mapping[str, Any]) -> object | None:
    """Return what identifies the run: the control that LangGraph shares among a run, its tasks and its subgraphs."""
    runtime = configurable.get(RUNTIME)
    return None if runtime is None else (getattr(runtime, "control", None) or runtime)
