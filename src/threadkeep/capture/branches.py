"""Branches of a thread: which turns led to the one that goes on, where somebody went back and took another way.

A branch is known by the turn that it begins with; a thread that nobody went back in has one without a name.
These are pure rules on turns and on what is on record of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from threadkeep.ids import TurnId

MAX_FORKS: Final = 100
"""How many of the newest forks on its way a branch knows."""


@dataclass(frozen=True, slots=True)
class Branch:
    """One way through a thread.

    Attributes:
        name: The turn that it begins with; empty: the thread's first one.
        forks: The branches that led to it, oldest first, each with the time of its last turn on this way.
    """

    name: TurnId | str = ""
    forks: tuple[tuple[str, datetime], ...] = ()

    def left(self, *, at: datetime, by: TurnId) -> Branch:
        """Return the branch that the turn *by* begins, by going on from what was said *at* that time on this one."""
        return Branch(by, (*self.forks, (self.name, at))[-MAX_FORKS:])

    def led_to(self, other: Branch, *, at: datetime, until: datetime) -> bool:
        """Whether a turn of this branch, recorded *at* a time, led to what was recorded *until* a time on *other*."""
        return any(name == self.name and at <= end for name, end in (*other.forks, (other.name, until)))


THE_FIRST: Final = Branch()


def spell_branch(branch: Branch) -> dict[str, Any]:
    """Return *branch* as it is kept; empty for a thread's first one."""
    if branch == THE_FIRST:
        return {}
    return {"name": branch.name, "forks": [[name, end.isoformat()] for name, end in branch.forks]}


def branch_of(value: object) -> Branch:
    """Read what :func:`spell_branch` wrote; what cannot be understood is a thread's first one."""
    if not isinstance(value, Mapping):
        return THE_FIRST
    fields = cast("Mapping[str, Any]", value)
    name, forks = fields.get("name"), fields.get("forks")
    if not isinstance(name, str) or not isinstance(forks, list):
        return THE_FIRST
    try:
        return Branch(name, tuple(_forks(cast("list[object]", forks))))
    except ValueError:
        return THE_FIRST


def _forks(rows: Sequence[object]) -> Iterator[tuple[str, datetime]]:
    for row in rows:
        match row:
            case [str() as name, str() as end]:
                yield name, datetime.fromisoformat(end)
            case _:
                pass
