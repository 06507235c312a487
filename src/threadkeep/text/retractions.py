"""Statements that something is no longer so, and what it is that has ended. Pure rules, English only."""

# ruff: noqa: E501 - a pattern is a flat list of alternatives; broken up, it could not be searched for a word

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from threadkeep.text.normalization import plain, straight
from threadkeep.text.semantics import as_said, gist_of, same_meaning

_MAX_CHARACTERS: Final = 300
_SUBJECT: Final = r"(?P<who>I|we|my [\w'-]+(?: [A-Z][\w'-]+)?|our [\w' -]{2,40}?)"
_LEAD: Final = re.compile(
    r"(?i)^(?:(?:hi|hey|oh|ah|well|so|ok|okay|yes|yeah|no|actually|btw|by the way|fyi|also|and|but|update)[,:!]?\s+)+"
)
_ENDS: Final = r"(?:any ?more|any longer)"
_DO_NOT: Final = re.compile(rf"(?i)^{_SUBJECT} (?:don't|do not) (?P<rest>.+?),? {_ENDS}$")
_DOES_NOT: Final = re.compile(rf"(?i)^{_SUBJECT} (?:doesn't|does not) (?P<verb>\w+)(?P<rest>.*?),? {_ENDS}$")
_IS_NOT: Final = re.compile(
    rf"(?i)^{_SUBJECT}(?P<be>'m| am| are|'re| is) not (?P<rest>.+?),? {_ENDS}$|^(?P<who2>{_SUBJECT[8:-1]}) "
    rf"(?P<be2>is|are)n't (?P<rest2>.+?),? {_ENDS}$"
)
_NO_LONGER: Final = re.compile(rf"(?i)^{_SUBJECT}(?P<be>'m| am| are|'re| is| have| has)? no longer (?P<rest>.+)$")
_STOPPED: Final = re.compile(
    rf"(?i)^{_SUBJECT}(?:'ve| have| has)? (?:just |recently |finally )?(?:stopped|quit|given up|gave up) "
    r"(?P<rest>\w+ing\b.*)$"
)
_FIRM: Final = r"(?P<firm>[A-Z][\w&.-]*(?: [A-Z][\w&.-]*){0,3})"
_AFTERWARDS: Final = r"(?:,? (?:last|this|in|on|for|today|yesterday|recently|to|after|two|three|a) .*| for good| today| yesterday| recently)?"
# A name alone is taken for an employer's: who left a town says more often where they moved to.
_LEFT: Final = re.compile(
    r"(?i:I)(?i:'ve| have|'m| am| was| got| have been)? (?:just |recently |finally |now )?(?i:"
    r"(?:left|quit)(?: (?:my|the) (?:job|position|role|post) (?:at|with))?|resigned from|retired from|(?:was |got |been )?(?:laid off|let go|fired|made redundant|dismissed) (?:from|by|at)"
    rf") {_FIRM}{_AFTERWARDS}$"
)
_USED_TO: Final = re.compile(rf"(?i)^{_SUBJECT} used to (?!be )(?P<rest>.+)$")
_PASSING: Final = re.compile(r"(?i)\b(?:know|understand|remember|see|care|think|want|need|have (?:time|questions?))\b")


@lru_cache(maxsize=4096)
def ended_by(text: str) -> str | None:
    """Return the statement that *text* says is no longer so: ``I live in Lisbon`` for ``I don't live there any more``.

    ``None`` where it ends nothing.
    """
    if len(text) > _MAX_CHARACTERS:
        return None
    said = _LEAD.sub("", straight(plain(as_said(text))).rstrip(".! "))
    if "?" in said or re.search(r"(?i)\b(?:if|when|unless|because|since|maybe|perhaps)\b", said):
        return None
    found = _positive(said)
    return None if found is None or _PASSING.search(found.split(maxsplit=1)[-1].split(maxsplit=1)[0]) else found


def _positive(said: str) -> str | None:
    for pattern, make in _ENDINGS:
        if found := pattern.match(said):
            return make(found)
    return None


def _is_not(found: re.Match[str]) -> str:
    who, be, rest = (found[name] or found[f"{name}2"] for name in ("who", "be", "rest"))
    return f"{who} {be.strip()} {rest}".replace(" '", "'")


_ENDINGS: Final[tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...]] = (
    (_DO_NOT, lambda found: f"{found['who']} {found['rest']}"),
    (_DOES_NOT, lambda found: f"{found['who']} {found['verb']}s{found['rest']}"),
    (_IS_NOT, _is_not),
    (_NO_LONGER, lambda found: f"{found['who']}{found['be'] or ''} {found['rest']}"),
    (_STOPPED, lambda found: f"{found['who']} {found['rest']}"),
    (_LEFT, lambda found: f"I work at {found['firm']}"),
    (_USED_TO, lambda found: f"{found['who']} {found['rest']}"),
)


def denies(ending: str, answer: str) -> bool:
    """Return whether *ending* says that *answer* is no longer so.

    Of two answers on one subject it is enough that they have the same names: who no longer lives in
    Lisbon does not live where they moved to when they ``moved to Lisbon``.
    """
    positive = ended_by(ending)
    if positive is None:
        return False
    wanted, said = gist_of(positive), gist_of(answer)
    if same_meaning(wanted, said):
        return True
    return bool(wanted.names) and set(wanted.names) <= set(said.words) and not said.denied
