"""Sentences about what a person did or what happened to them, with the time. Pure rules, English only.

A person says ``Had an interview yesterday`` and ``my car broke down last Friday`` with any verb at all, so
these are known by their grammar: the first person, a verb in the past, and a time.
"""

# ruff: noqa: E501 - a pattern is a flat list of alternatives; broken up, it could not be searched for a word

from __future__ import annotations

import re
from typing import Final

IRREGULAR_PASTS: Final = (
    r"(?:ate|beat|became|began|bent|bet|bit|blew|bought|bred|broke|brought|built|came|caught|chose|cut|dealt|did|dove|drank|drew|drove|dug|fed|fell|felt|fought|flew|forgave|froze|gave|got|grew"
    r"|had|heard|held|hid|hit|hosted|hurt|kept|knelt|laid|lay|led|left|lent|lost|made|met|paid|put|quit|ran|rang|rode|rose|sang|sat|saw|sent|set|shook|shot|shut|slept|sold|spent|spoke|spun|stole|stood|struck|swam|swept"
    r"|swore|taught|threw|tore|told|took|understood|went|were|woke|won|wore|wove|wrote)"
)
"""Verbs in the past that do not end in ``-ed``."""
# Of these the bare form is a command, too, so a sentence that begins with one has no certain subject.
_ALSO_COMMANDS: Final = r"(?:beat|bet|cut|hit|hurt|lay|let|put|quit|set|shut|bit|were|read|run|come|become)"
_PAST: Final = (
    rf"(?:{IRREGULAR_PASTS}|(?!(?:need|feed|seed|speed|weed|bleed|breed|exceed|proceed|succeed|indeed)\b)[a-z]{{2,}}ed)"
)
_ADVERBS: Final = (
    r"(?:(?:just|recently|finally|actually|also|both|even|once|already|officially|really|only|first|then|\w+ly) )*+"
)
_BEEN: Final = rf"(?:(?:I|we)(?:'ve| have) {_ADVERBS}been|been) {_ADVERBS}(?!(?:trying|having (?:trouble|issues|problems)|getting (?:an?|this|the|these) (?:\w+ )?errors?|wondering|looking|seeing|thinking|meaning|going (?:over|through) (?:this|the))\b)[a-z]+ing"

_HAPPENED: Final = re.compile(
    rf"(?i)^(?:I|we|(?:my|our) (?:[\w'-]+ ){{0,3}}?[\w'-]+|(?:me|my [\w-]+) and (?:I|my [\w-]+)) {_ADVERBS}{_PAST}\b"
)
_WITHOUT_SUBJECT: Final = re.compile(rf"^(?i:{_ADVERBS}(?!{_ALSO_COMMANDS}\b){_PAST}|been [a-z]+ing) (?=\S)")
_LATELY: Final = re.compile(rf"(?i)^{_BEEN}\b")

_UNIT: Final = r"(?:second|minute|hour|day|night|weekend|week|month|year|decade|summer|winter|spring|autumn|fall|season|semester|term|mon|tues?|wed(?:nes)?|thur?s?|fri|sat(?:ur)?|sun)(?:day)?s?"
_SOME: Final = r"(?:an?|one|two|three|four|five|six|seven|eight|nine|ten|a few|a couple of|several|some|many|\d+)"
_WHEN: Final = re.compile(
    rf"(?i)\b(?:yesterday|the other (?:day|night|week)|the day before|lately|recently|last (?:\w+ )?{_UNIT}|(?:this|the) past {_UNIT}|{_SOME} {_UNIT} (?:ago|back)|(?:this|over the|on the) weekend|earlier this {_UNIT}"
    r"|(?:in|since|back in) (?:(?:early|late|mid-?) ?)?(?:january|february|march|april|june|july|august|september|october|november|december|19\d\d|20\d\d)"
    r"|on (?:mon|tues|wednes|thurs|fri|satur|sun)day|ago|since (?:I|we) (?:was|were)|for (?:\w+ )?(?:years|months)|at the age of|when I (?:was|turned)|as a (?:kid|child|teenager))\b"
)


def has_happened(text: str, *, said: str) -> bool:
    """Return whether *text* tells what happened to the person, and *said*, the whole of it, says when.

    Args:
        text: Without a time that it begins with.
        said: With it.
    """
    return tells_when(said) and any(rule.search(text) for rule in (_HAPPENED, _WITHOUT_SUBJECT, _LATELY))


def tells_when(text: str) -> bool:
    """Return whether *text* names a time that is past."""
    return _WHEN.search(text) is not None
