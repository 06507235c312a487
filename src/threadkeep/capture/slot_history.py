"""What was said on one subject, in the order in which it was said: pure rules.

A memory with a history is a row of *runs*: stretches of time in which the same answer was given. A
saying may arrive late; it is put where it belongs, and what is said now stays what it is.

Some sayings only end an answer: ``I don't live in Lisbon any more``. Such a one counts where it denies the
answer that was in force; elsewhere it is *idle*: kept in its place, of no length, and never in force.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from threadkeep.memories.models import Approval, Memory, Source, Speaker, Version
from threadkeep.text.facts import denies, ended_by
from threadkeep.text.semantics import normalised

MAX_SOURCES: Final = 64
_LONG_AGO: Final = datetime(1, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Saying:
    """One statement, said once.

    Attributes:
        text: The statement.
        source: Where it was said.
        at: When.
        valid_from: From when it is true, where the words say so.
        approval: Its approval, if it needed one.
    """

    text: str
    source: Source
    at: datetime
    valid_from: datetime | None = None
    approval: Approval | None = None


@dataclass(frozen=True, slots=True)
class AnswerPeriod:
    """A stretch of time in which the same answer was given.

    Attributes:
        text: The answer.
        sources: Everywhere it was given, oldest first.
        start: When it was given first.
        valid_from: As the words or an edit say; ``None``: from *start* on, as far as known.
        valid_to: As it was kept; ``None``: until the next run.
        replaced_at: When the next run was learnt; ``None`` for the last.
        approval: Its approval, if it had one.
    """

    text: str
    sources: tuple[Source, ...]
    start: datetime
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    replaced_at: datetime | None = None
    approval: Approval | None = None


def same_saying(one: Source, other: Source) -> bool:
    """Return whether both are one saying, though a turn may have been recorded twice."""
    if one == other:
        return True
    if one.message_id is not None and one.message_id == other.message_id:
        return True
    return one.turn_id is not None and one.turn_id == other.turn_id


def runs_of(memory: Memory) -> tuple[AnswerPeriod, ...]:
    """Return the runs of *memory* by time, idle ones among them; the starts of the others never go back."""
    told = [old for old in memory.history if not _is_idle(old)]
    idle = [
        AnswerPeriod(old.text, old.sources, _first_said(old, memory), None, None, old.replaced_at, old.approval)
        for old in memory.history
        if _is_idle(old)
    ]
    rows: list[AnswerPeriod] = []
    earliest = _LONG_AGO
    for row in (*told, memory):
        start = max(_first_said(row, memory), earliest)
        valid_from = None if row.valid_from == start else row.valid_from
        replaced_at = row.replaced_at if isinstance(row, Version) else None
        rows.append(AnswerPeriod(row.text, row.sources, start, valid_from, row.valid_to, replaced_at, row.approval))
        earliest = start
    effective = [
        # What only follows from the order is left open, so that it is worked out anew when the order changes.
        replace(row, valid_to=None) if place + 1 < len(rows) and row.valid_to == _valid_from(rows, place + 1) else row
        for place, row in enumerate(rows)
    ]
    return tuple(sorted((*effective, *idle), key=lambda run: run.start)) if idle else tuple(effective)


def _first_said(row: Version | Memory, memory: Memory) -> datetime:
    said = [source.at for source in row.sources if source.at is not None]
    return min(said, default=row.valid_from or memory.created_at)


def _is_idle(old: Version) -> bool:
    return old.valid_from is not None and old.valid_from == old.valid_to and ended_by(old.text) is not None


def bounded(sources: Sequence[Source]) -> tuple[Source, ...]:
    """Return the first and the last of *sources*: a thing said every day must not grow without end."""
    return tuple(sources) if len(sources) <= MAX_SOURCES else (sources[0], *sources[1 - MAX_SOURCES :])


def with_saying(
    runs: Sequence[AnswerPeriod], saying: Saying, *, same: Callable[[str, str], bool]
) -> tuple[AnswerPeriod, ...]:
    """Return *runs* with *saying* where it belongs; the very same where it is there already.

    Between two different answers it makes a run of its own; beside the same answer it joins it; in
    the middle of a longer run of another answer it parts that run in two.
    """
    if any(same(run.text, saying.text) and _has(run, saying.source) for run in runs):
        return tuple(runs)
    place = sum((run.start, normalised(run.text)) <= (saying.at, normalised(saying.text)) for run in runs)
    before, after = list(runs[:place]), list(runs[place:])
    if before and same(before[-1].text, saying.text):
        return (*before[:-1], _joined(before[-1], saying), *after)
    later = _said_after(before[-1], saying) if before else ()
    if later:
        run = before.pop()
        first = replace(run, sources=tuple(s for s in run.sources if s not in later), replaced_at=None, valid_to=None)
        again = replace(run, sources=later, start=later[0].at or run.start, valid_from=None)
        before, after = [*before, first], [again, *after]
    elif after and same(after[0].text, saying.text):
        return (*before, _joined(after[0], saying), *after[1:])
    new = AnswerPeriod(saying.text, (saying.source,), saying.at, saying.valid_from, approval=saying.approval)
    return (*before, new, *after)


def in_force(runs: Sequence[AnswerPeriod]) -> tuple[AnswerPeriod, ...]:
    """Return the runs that count, the present one last: an ending counts where it denies what was in force."""
    found: list[AnswerPeriod] = []
    for run in runs:
        if ended_by(run.text) is None or not found or denies(run.text, found[-1].text):
            found.append(run)
    return tuple(found)


def to_memory(memory: Memory, runs: Sequence[AnswerPeriod], *, trust: Speaker, now: datetime) -> Memory:
    """Return *memory* with *runs* as its history and its present statement."""
    effective = in_force(runs)
    last = effective[-1]
    history: list[Version] = []
    for run in runs:
        if run is last:
            continue
        place = next((place for place, one in enumerate(effective) if one is run), None)
        begin = run.start if place is None else _valid_from(effective, place)
        end = run.start if place is None else run.valid_to or _valid_from(effective, place + 1)
        history.append(Version(run.text, begin, end, run.replaced_at or now, run.sources, run.approval))
    return replace(
        memory,
        text=last.text,
        sources=last.sources,
        trust=trust if normalised(last.text) != normalised(memory.text) else memory.trust,
        valid_from=_valid_from(effective, len(effective) - 1),
        valid_to=None,
        history=tuple(history),
        approval=last.approval,
        updated_at=now,
    )


def _valid_from(runs: Sequence[AnswerPeriod], place: int) -> datetime | None:
    """An answer that followed another is true from when it was given; of the first one that is not known."""
    run = runs[place]
    return run.valid_from or (run.start if place else None)


def _has(run: AnswerPeriod, source: Source) -> bool:
    return any(same_saying(source, known) for known in run.sources)


def _said_after(run: AnswerPeriod, saying: Saying) -> tuple[Source, ...]:
    return tuple(source for source in run.sources if source.at is not None and source.at > saying.at)


def _joined(run: AnswerPeriod, saying: Saying) -> AnswerPeriod:
    sources = sorted((*run.sources, saying.source), key=lambda one: (one.at or run.start, one.turn_id or ""))
    start = min(run.start, saying.at)
    text = saying.text if sources[0] == saying.source else run.text  # of two wordings, the one that was said first
    return replace(
        run, text=text, sources=bounded(sources), start=start, valid_from=run.valid_from or saying.valid_from
    )
