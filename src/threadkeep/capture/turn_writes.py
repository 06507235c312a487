"""The puts that record turns, each with what is known of it besides the messages that its thread shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

from threadkeep.capture.models import ImportedTurns
from threadkeep.capture.turns import (
    TURN_SPACING,
    WITHOUT_MEMORY,
    SpokenTurn,
    TurnRecall,
    done,
    newest_put,
    pending,
    put_of,
    trace_puts,
)
from threadkeep.ids import ThreadId, TurnId
from threadkeep.models.base import INPUT_ROLES, Message
from threadkeep.observability import current_traceparent
from threadkeep.storage.interface import Put
from threadkeep.text.refusals import unwanted

if TYPE_CHECKING:
    from threadkeep.capture.turn_history import TurnLookup
    from threadkeep.identity import Owner

NOT_WANTED: Final = "not to be remembered"


@dataclass(frozen=True, slots=True)
class NewestTurn:
    """What is known of the newest turn besides its messages.

    Attributes:
        texts: What recall had put in.
        given: What the record keeps of that.
        imported: When imported turns took place, and whether they are asked about.
        without_memory: Whether nothing is learnt from it.
        answers: What the user answered to questions of its run, oldest first; the thread does not show it as theirs.
        overdue: The same of the turn before, which ended without a reply.
    """

    texts: Sequence[str] = ()
    given: TurnRecall | None = None
    imported: ImportedTurns | None = None
    without_memory: bool = False
    answers: Sequence[Message] = ()
    overdue: Sequence[Message] = ()


def turn_puts(
    turns: Sequence[SpokenTurn],
    moments: Sequence[datetime],
    *,
    uses: Mapping[TurnId, bool | None],
    found: TurnLookup,
    owner: Owner,
    thread_id: ThreadId | None,
    newest: NewestTurn,
    due_at: datetime,
    worker: str | None,
    redact: Callable[[str], str],
) -> list[Put]:
    """Record *turns* at one of *moments*.

    *uses* says of those to learn from whether they may play a part, and ``None`` of those without memory. Others are
    only marked as seen, beside the record that is learnt from, if *found* has one of the same words.
    """
    puts: dict[tuple[str, str], Put] = {}
    for turn, at in zip(turns, moments, strict=True):
        before = newest if turn is turns[-1] else NewestTurn()
        messages = _with_answers(turn, before, learnt=turn.said in found.known)
        record = pending(
            turn if messages is turn.messages else replace(turn, messages=messages),
            thread_id=thread_id,
            at=at,
            recalled=before.texts,
            redact=redact,
            played=uses.get(turn.turn_id) or False,
        )
        record = replace(
            record,
            turn=replace(record.turn, turn_id=turn.turn_id),
            worker=worker,
            branch=found.branch,
            given=before.given,
            trace=current_traceparent(),
            ask=newest.imported is not None and newest.imported.ask,
        )
        without_memory = turn.turn_id in uses and uses[turn.turn_id] is None
        if without_memory or turn.turn_id not in uses:
            record = done(record, (), rejected=[WITHOUT_MEMORY] if without_memory else ())
        elif any(
            map(
                unwanted,
                [one.text for one in (*turn.messages, *before.answers, *before.overdue) if one.role in INPUT_ROLES],
            )
        ):
            record = done(record, (), rejected=[NOT_WANTED])
        left = [
            put_of(record, owner, due_at=due_at, expect="absent"),
            *trace_puts(
                turn,
                owner,
                memory=not without_memory,
                taught_by=None if turn.turn_id in uses else found.taught_by.get(turn.said or ""),
            ),
        ]
        if thread_id is not None:
            left.append(newest_put(thread_id, turn.turn_id, found.branch, owner))
        for put in left:
            puts[put.namespace[0], put.key] = put
    return [*puts.values()]


def _with_answers(turn: SpokenTurn, known: NewestTurn, *, learnt: bool) -> tuple[Message, ...]:
    """Return the messages of *turn* with the user's answers in the order said; not what was *learnt* already."""
    if not known.answers:
        return (*known.overdue, *turn.messages) if known.overdue else turn.messages
    said = [one for one in turn.messages if not learnt or one.role not in INPUT_ROLES]
    place = len(said) - 1 if said and said[-1].role == "assistant" else len(said)
    return (*known.overdue, *said[:place], *known.answers, *said[place:])


def imported_moments(turns: Sequence[SpokenTurn], imported: ImportedTurns) -> list[datetime]:
    """Return when each of *turns* took place; those of one moment keep their order."""
    moments: list[datetime] = []
    for turn in turns:
        at = min(
            imported.at[key] for one in turn.messages if (key := one.message_id) is not None and key in imported.at
        )
        moments.append(max(at, moments[-1] + TURN_SPACING) if moments else at)
    return moments
