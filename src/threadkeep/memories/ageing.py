"""Which memories leave when they are not used, or when there are too many: pure rules."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from threadkeep.ids import MemoryId
from threadkeep.memories.record import Archived, Memory

ARCHIVED_KEPT: Final = timedelta(days=30)
"""How long an archived memory can be had back; then it goes."""

_DAY: Final = timedelta(days=1)
_PARTS: Final = 8
_POLICY: Final = "policy"
_AGES: Final = {"semantic": 1, "procedural": 1, "episodic": 2}
"""An episode grows old twice as fast as a fact: there is one for every turn, and each matters less."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How long and how many memories are kept of each owner.

    Attributes:
        inactive_after: After how long without use a memory is archived; ``None``: never.
        most: How many active memories an owner has at most; ``None``: any number.
    """

    inactive_after: timedelta | None = None
    most: int | None = None

    @property
    def any(self) -> bool:
        """Whether there is a limit."""
        return self.inactive_after is not None or self.most is not None

    @property
    def grain(self) -> timedelta | None:
        """How coarsely uses are noted: by an eighth of the time without use, or a day; ``None``: not at all."""
        if self.inactive_after is None:
            return None if self.most is None else _DAY
        return min(max(_DAY, self.inactive_after / _PARTS), self.inactive_after / 2)


@dataclass(frozen=True, slots=True)
class Standing:
    """How an owner's memories stand to the limits.

    Attributes:
        leaving: What is archived, with the reason; what goes first comes first.
        active: How many are active, those included.
        over: By how many the rest exceeds the most: everything else is pinned, approved or asked about.
        next_at: When one of those that stay may have been unused for too long; ``None``: none ever.
    """

    leaving: tuple[tuple[Memory, Archived], ...]
    active: int
    over: int
    next_at: datetime | None


def stays(memory: Memory) -> bool:
    """Whether somebody wants *memory* kept: it is pinned, or a person approved it (a policy is no person)."""
    return memory.pinned or (memory.approval is not None and memory.approval.by != _POLICY)


def standing(
    memories: Sequence[Memory],
    used: Mapping[MemoryId, datetime],
    limits: Limits,
    *,
    now: datetime,
    counted_since: datetime,
    asked_about: Collection[MemoryId] = (),
) -> Standing:
    """Return which of an owner's memories leave.

    A memory is used when it is recalled, found, or changed. As uses are noted coarsely, it is given the grain in
    addition: nothing leaves that was used within ``inactive_after``. Nothing leaves that is pinned, that a person
    approved, or that a proposal which waits is about. Of the others, those leave that were not used for
    ``inactive_after``; where more than ``most`` are left, first what is not true any more, then what was not used for
    longest, an episode counting twice the time.

    Args:
        memories: All of an owner's; only active ones are looked at.
        used: When which was recalled or found last, coarsely.
        limits: What is allowed.
        now: The time.
        counted_since: Since when uses are noted: nothing counts as unused for longer than that.
        asked_about: What proposals that wait would change.
    """
    active = [memory for memory in memories if memory.status == "active"]
    free = [memory for memory in active if not stays(memory) and memory.memory_id not in asked_about]
    last = {memory.memory_id: max(memory.updated_at, used.get(memory.memory_id, memory.updated_at)) for memory in free}
    leaving: list[tuple[Memory, Archived]] = []
    next_at: datetime | None = None
    left: list[Memory] = []
    for memory in free:
        ends = None
        if limits.inactive_after is not None:
            ends = max(last[memory.memory_id], counted_since) + limits.inactive_after + (limits.grain or timedelta())
        if ends is not None and ends <= now:
            leaving.append((memory, Archived(now, "inactive", last[memory.memory_id])))
            continue
        left.append(memory)
        if ends is not None:
            next_at = ends if next_at is None else min(next_at, ends)
    too_many = 0 if limits.most is None else max(0, len(active) - len(leaving) - limits.most)
    left.sort(key=lambda memory: _first_to_go(memory, last[memory.memory_id], now))
    leaving += [(memory, Archived(now, "budget", last[memory.memory_id])) for memory in left[:too_many]]
    return Standing(tuple(leaving), len(active), max(0, too_many - len(left)), next_at)


def _first_to_go(memory: Memory, used_at: datetime, now: datetime) -> tuple[bool, timedelta, datetime, str]:
    true = memory.valid_to is None or memory.valid_to > now
    return true, _AGES[memory.kind] * (used_at - now), memory.created_at, memory.memory_id
