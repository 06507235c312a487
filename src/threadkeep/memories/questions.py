"""What a question asks for, where there can be only one answer at a time. Pure rules, English only.

A question is turned into a statement that would answer it, whatever the answer is, and that statement's
slot is what it asks for. So a question finds the answer by what both are about, in whichever words it was told.
"""

# ruff: noqa: E501 - a pattern is a flat list of alternatives; broken up, it could not be searched for a word

from __future__ import annotations

import re
from typing import Final

from threadkeep.memories.meaning import as_said
from threadkeep.memories.slots import slot_of
from threadkeep.memories.wording import plain, straight

_MAX_CHARACTERS: Final = 400
"""A longer text is a story rather than a question."""

_ASKING: Final = re.compile(
    r"(?i)^(?:(?:and|so|but|ok|okay|hey|hi|hello|please|sorry|well|now)[,:]? +)*"
    r"(?:(?:do|can|could|would|will) you (?:please )?(?:still |also )?(?:remember|know|recall|tell me|remind me|say)(?: of)?|(?:please )?(?:remind|tell) me(?: again)?(?: of)?)? *"
)
_IN_PASSING: Final = re.compile(
    r"(?i),? \b(?:now|currently|nowadays|again|still|these days|at the moment|right now|at present|today|actually|exactly|by the way)\b(?= |$)"
)
_OURS: Final = r"((?:my|our) [\w' -]{2,60}?)"
_KIND: Final = r"(?:(?!(?:did|was|were|had|do|am|should|could|would|can|will|might|may|must|if)\b)[\w'-]+ ){1,3}?"
_PLACED: Final = r"(I (?:live|reside|work)(?: in| at| for)?)"

_ANSWERS: Final[tuple[tuple[re.Pattern[str], tuple[str, ...]], ...]] = tuple(
    (re.compile(f"(?i){question}"), answers)
    for question, answers in (
        (
            rf"(?:(?:what|who|which(?: one)?)(?:'s| is| are) )?{_OURS}|(?:what|who|which) {_OURS} (?:is|are)",
            ("{} is Ada", "{} is 1 May", "{} is CET", "{} is 30"),
        ),
        (
            rf"(?:when|(?:at )?what time)(?:'s| is| does| do| are) {_OURS}(?: start| begin)?|when {_OURS} (?:is|starts?|begins?)",
            ("{} is 1 May", "{} is at 9"),
        ),
        (rf"(?:what|which) {_KIND}(?:do )?(I (?!am\b)[\w' ]{{3,40}})", ("{} Ada",)),
        (rf"(?:what|which) {_KIND}(?:am I|I am) ([\w' ]{{3,40}})", ("I am {} Ada",)),
        (r"where (?:am I|I am) ([\w' ]{3,40})", ("I am {} Ada", "I am {} in Ada", "I am {} at Ada")),
        (rf"(?:where|whom?)(?: do)? {_PLACED}", ("{} Ada", "{} in Ada", "{} at Ada")),
        (r"where does (my [\w-]+) live|where (my [\w-]+) lives", ("{} lives in Ada",)),
        (r"where does (my [\w-]+) work|where (my [\w-]+) works", ("{} works at Ada",)),
        (r"how old (?:am I|I am)", ("I am 30",)),
        (r"how many (\w+) (?:do )?(?:I|we) have", ("I have 2 {}",)),
        (r"what (?:(?:do (?:people|you)|should (?:people|you)|can you) call me|should I be called)", ("call me Ada",)),
        (r"am I (.{3,80})", ("I am {}",)),
        (r"do (I .{3,80})", ("{}",)),
    )
)
"""How a question is put, and what would answer it: the words in a statement's order, with any value."""


def slots_asked(text: str) -> frozenset[str]:
    """Return the slots that the questions in *text* ask for.

    ``Which company do I work at?`` asks for the slot of ``I joined Acme.``; see :func:`threadkeep.memories.slots.slot_of`.
    A text of more than 400 characters asks for none.
    """
    if len(text) > _MAX_CHARACTERS:
        return frozenset()
    sentences = re.split(r"(?<=[.!?;:])\s+", straight(plain(as_said(text))))
    return frozenset(slot for one in sentences if (slot := _slot_asked(one.strip(" .!?;:"))) is not None)


def _slot_asked(question: str) -> str | None:
    asked = _IN_PASSING.sub("", _ASKING.sub("", question, count=1)).strip(" ,")
    for pattern, answers in _ANSWERS:
        if found := pattern.fullmatch(asked):
            said = next((part for part in found.groups() if part), "")
            return next((slot for answer in answers if (slot := slot_of(answer.format(said))) is not None), None)
    return None
