"""What a turn teaches an agent: corrections by the user, and which tool call succeeded after one that failed.

Pure rules. A procedure is made of the user's own sentence and of names of tools and their arguments. Nothing that a
tool returned or a model wrote enters it, so no output of a tool can become how to behave.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from threadkeep.memories.models import Source
from threadkeep.models.base import WorkStep
from threadkeep.proposals.models import NewProposal
from threadkeep.text.pastes import is_pasted
from threadkeep.text.sentences import sentences

MOST: Final = 3
"""So many procedures are proposed from a turn at most."""

_MOST_CHARACTERS: Final = 200
_MOST_TOOLS: Final = 3
_NAME: Final = re.compile(r"[A-Za-z][\w-]{0,63}")

_LEAD: Final = re.compile(
    r"^(?:no+(?:,? no+)*|nope|wrong(?: \w+)?|stop|not (?:like that|that one|that way)|"
    r"that(?:'s| is) (?:wrong|not (?:right|how)|the wrong [\w ]+?))[,.:;!]+\s*",
    re.IGNORECASE,
)
"""How a correction begins; what follows it may say how it is done."""

_ORDER: Final = re.compile(
    r"\b(?:first|before|after|instead|always|never|must|need to|make sure|next time|should have|forgot to)\b",
    re.IGNORECASE,
)
"""A sentence with one of these says how it is done, after :data:`_LEAD`."""

_INSTRUCTS: Final = re.compile(
    r"^(?:please )?(?:you (?:should(?: have|n't have)|need to|must|have to|forgot to)\b|next time\b|"
    r"(?:don't|do not|never)\b.*\b(?:instead|before|first)\b)",
    re.IGNORECASE,
)
"""A sentence that corrects by itself."""

_ABOUT_OTHERS: Final = re.compile(r"^(?:I|we|he|she|they|it|my|our|his|her|their|there)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _CallResult:
    name: str
    arguments: Mapping[str, Any]
    failed: bool


@dataclass(slots=True)
class _Turn:
    """What a user asked, and the calls that answered.

    Attributes:
        asked: The user's message; ``None`` before the first.
        calls: The calls with a result, in the order of the results.
    """

    asked: WorkStep | None
    calls: list[_CallResult] = field(default_factory=list[_CallResult])


def procedures(steps: Sequence[WorkStep], *, source: Source) -> list[NewProposal]:
    """Return the procedures that the newest turn of a thread teaches, at most :data:`MOST`.

    Args:
        steps: The messages of the thread, oldest first.
        source: The thread and time of the newest turn.
    """
    *_, before, newest = [_Turn(None), _Turn(None), *_turns(steps)]
    found = [_proposal(text, "user", source, newest) for text in _corrections(newest, before)]
    found += [_proposal(text, "tool", source, newest) for text in _outcomes(newest.calls)]
    return list({one.text: one for one in found}.values())[:MOST]


def corrections_in(text: str) -> list[str]:
    """Return the sentences of a user's message that correct how something was done, without how they begin."""
    found: list[str] = []
    corrects = False
    for sentence in sentences(text):
        if is_pasted(sentence, text):
            continue
        lead = _LEAD.match(sentence if sentence[-1:] in ".!?:;," else f"{sentence}.")
        said = sentence[lead.end() :] if lead else sentence
        corrects = corrects or lead is not None
        if not said or said.rstrip().endswith("?") or len(said) > _MOST_CHARACTERS or _ABOUT_OTHERS.match(said):
            continue
        if _INSTRUCTS.match(said) or (corrects and _ORDER.search(said)):
            found.append(said.strip())
    return found


def _proposal(text: str, speaker: Literal["user", "tool"], source: Source, turn: _Turn) -> NewProposal:
    message_id = turn.asked.message_id if turn.asked is not None else None
    said = Source(speaker, source.thread_id, message_id, source.turn_id, source.at)
    reason = "a user corrected the agent" if speaker == "user" else "a call failed, and another one succeeded"
    return NewProposal(text, "add", "procedural", (said,), reason=reason)


def _turns(steps: Sequence[WorkStep]) -> Iterator[_Turn]:
    turn, waiting = _Turn(None), dict[str, tuple[str, Mapping[str, Any]]]()
    for step in steps:
        if step.role == "user":
            yield turn
            turn, waiting = _Turn(step), {}
        for call in step.calls:
            waiting[call.call_id] = (call.name, call.arguments)
        if step.answers in waiting:
            name, arguments = waiting.pop(step.answers)
            turn.calls.append(_CallResult(name, arguments, step.failed))
    yield turn


def _corrections(newest: _Turn, before: _Turn) -> Iterator[str]:
    """Yield what the user says of the work before: nothing is corrected where no tool was used."""
    used = list(dict.fromkeys(call.name for call in before.calls if _NAME.fullmatch(call.name)))
    if newest.asked is None or not used:
        return
    for said in corrections_in(newest.asked.text):
        yield f"When using {_listed(used[-_MOST_TOOLS:])}: {said[0].lower()}{said[1:]}"


def _outcomes(calls: Sequence[_CallResult]) -> Iterator[str]:
    """Yield what helped after a call had failed: the next call that succeeded, in names alone."""
    for place, failed in enumerate(calls):
        if not failed.failed or not _NAME.fullmatch(failed.name):
            continue
        after = [call for call in calls[place + 1 :] if not call.failed and _NAME.fullmatch(call.name)]
        again = next((call for call in after if call.name == failed.name), None)
        between = list(dict.fromkeys(call.name for call in after[: after.index(again)])) if again is not None else []
        if again is None and after:
            yield f"If {failed.name} fails, try {after[0].name}."
        elif again is not None and between:
            yield f"If {failed.name} fails, call {_listed(between[:_MOST_TOOLS])} first, then {failed.name} again."
        elif again is not None and (changed := _changed(failed, again)):
            yield f"If {failed.name} fails, call it again with another {_listed(changed[:_MOST_TOOLS])}."


def _changed(failed: _CallResult, again: _CallResult) -> list[str]:
    names = dict.fromkeys((*failed.arguments, *again.arguments))
    return [one for one in names if _NAME.fullmatch(one) and failed.arguments.get(one) != again.arguments.get(one)]


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
