"""How the last changes of memories are undone, by what the audit says of how they stood: pure rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from threadkeep.memories.audit import ADDED, REMOVED, Change, Entry
from threadkeep.memories.record import Memory, Status, least_trusted
from threadkeep.memories.shapes import moment_of

UNDO: Final = "undo"
"""How the reason of an entry begins that undid others; their numbers follow."""


@dataclass(frozen=True, slots=True)
class Undoing:
    """What is to be done to undo entries.

    Attributes:
        numbers: The entries that are undone, newest first.
        before: How each memory stood before them; ``None``: it was not there.
        left: Ids of what cannot be undone, with the reason.
    """

    numbers: tuple[int, ...]
    before: Mapping[str, Mapping[str, Any] | None]
    left: Mapping[str, str]


def undoing(entries: Sequence[Entry], *, last: int) -> Undoing:
    """Return how to undo the *last* entries that changed memories and were not undone yet.

    Args:
        entries: Everything, newest first.
        last: How many.
    """
    done = {number for entry in entries for number in undone_by(entry)}
    wanted = [
        entry
        for entry in entries
        if entry.number not in done
        and not undone_by(entry)
        and any(change.thing == "memory" for change in entry.changes)
    ][:last]
    before: dict[str, Mapping[str, Any] | None] = {}
    left: dict[str, str] = {}
    for entry in wanted:
        for change in entry.changes:
            if change.thing != "memory":
                continue
            if change.what == REMOVED:
                left[change.id] = "it was removed, and nothing of it is kept"
            elif change.what == ADDED:
                before[change.id] = None
            else:
                earlier = _earlier(change, entry, entries)
                if earlier is None:
                    left[change.id] = "how it was before is not in the audit"
                else:
                    before[change.id] = earlier.state or {}
    kept = {key: state for key, state in before.items() if key not in left}
    return Undoing(tuple(entry.number for entry in wanted), kept, left)


def undone_by(entry: Entry) -> tuple[int, ...]:
    """Return the numbers of the entries that *entry* undid."""
    what, _, numbers = entry.why.partition(":")
    if what != UNDO:
        return ()
    found: list[int] = []
    for part in numbers.split(","):
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            found += range(int(first), int(last or first) + 1)
    return tuple(found)


def why_undo(numbers: Iterable[int]) -> str:
    """Return the reason of an entry that undoes those with these *numbers*, with runs joined: ``undo:3-5,8``."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return f"{UNDO}:{','.join(f'{a}-{b}' if a < b else str(a) for a, b in runs)}"


def as_it_was(memory: Memory, state: Mapping[str, Any]) -> Memory | None:
    """Return *memory* as it stood at *state*; ``None`` where its history does not reach back to that."""
    versions = state.get("versions", 0)
    status: Status = "active"
    match state.get("status"):
        case "rejected" | "proposed" | "merged" | "archived" as other:
            status = other
        case _:
            pass
    memory = replace(
        memory, valid_to=moment_of(state.get("valid_to")), pinned=state.get("pinned") is True, status=status
    )
    if status != "merged":
        memory = replace(memory, merged_into=None)
    if status != "archived":
        memory = replace(memory, archived=None)
    if not isinstance(versions, int) or versions > len(memory.history):
        return None
    if versions == len(memory.history):
        return memory
    old = memory.history[versions]
    sources = old.sources or memory.sources
    return replace(
        memory,
        text=old.text,
        sources=sources,
        trust=least_trusted(sources),
        approval=old.approval,
        valid_from=old.valid_from,
        history=memory.history[:versions],
    )


def _earlier(change: Change, entry: Entry, entries: Sequence[Entry]) -> Change | None:
    """Return the change of the same memory before *entry*, if the audit goes back so far."""
    for other in entries:
        if other.number < entry.number:
            for one in other.changes:
                if (one.thing, one.id) == (change.thing, change.id):
                    return None if one.what == REMOVED else one
    return None
