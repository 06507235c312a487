"""How old a statement says people and animals to be: ``Tom is 4``, ``Lina a eu 6 ans``, ``meine Tochter (7)``."""

# ruff: noqa: E501 - a pattern is a flat list of alternatives; broken up, it could not be searched for a word

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

from threadkeep.text.claims import MAX_CHARACTERS
from threadkeep.text.relatives import LOSABLE, RELATIVES
from threadkeep.text.semantics import straight


class Age(NamedTuple):
    """How old a person or an animal is.

    Attributes:
        name: The name, in small letters; empty where none is said.
        kin: Which relative or animal, in English; empty where only the name is said.
        years: The age.
    """

    name: str
    kin: str
    years: int

    def is_of(self, other: Age) -> bool:
        """Return whether both are certainly of the same one."""
        return self.name == other.name and (self.name != "" or self.kin == other.kin)

    def is_not_of(self, other: Age) -> bool:
        """Return whether both are certainly of different ones."""
        if self.name and other.name:
            return self.name != other.name
        return self.kin != "" and other.kin not in ("", self.kin)


_KIN: Final = {**RELATIVES, **LOSABLE}
_NAME: Final = r"(?-i:[A-ZÀ-Ý][\w'-]{0,24}[\w-])"
_NO_NAME: Final = r"(?:i|it|he|she|they|we|you|this|that|er|sie|es|wir|il|elle|on|él|ella|ele|ela|lui|lei|si|y|ya|a|e)"
_LATELY: Final = r"(?:(?:now|just|already|recently|finally|only|about|almost|jetzt|nun|schon|gerade|bald|heute|gestern|erst|maintenant|déjà|presque|ya|ahora|casi|ora|adesso|già|quasi|agora|já|quase|am\ \w+tag|letzte\ woche)\ ){0,2}"
_YEARS: Final = r"(?:years?|yrs?|y/?o|jahre?|ans?|años?|anos?|ann[oi])"
_STATES: Final = r"(?:is|ist|a|tiene|tem|ha)"
_TURNS: Final = r"(?:turned|turns|turning|is\ turning|has\ turned|wird|wurde|a\ eu|vient\ d'avoir|a\ fêté\ ses|fête\ ses|cumplió|cumple|ha\ cumplido|acaba\ de\ cumplir|fez|faz|completou|acabou\ de\ fazer|ha\ compiuto|compie|ha\ fatto)"
_AGE: Final = re.compile(
    rf"""(?ix)(?:\b(?P<kin>{"|".join(sorted(_KIN, key=len, reverse=True))})\b(?:,?\ (?P<called>{_NAME}),?)?|(?<![\w'-])(?!{_NO_NAME}\b)(?P<name>{_NAME}))
    (?:(?:'s\ |\ {_LATELY}{_STATES}\ ){_LATELY}(?P<a>1?\d{{1,2}})(?=\ {_YEARS}\b|\ ?$|[,.;!)]|\ (?:and|und|et|y|e|on|now|today|yesterday|jetzt|heute|geworden|maintenant|ahora|ora|agora)\b)
      |\ {_LATELY}{_TURNS}\ {_LATELY}(?P<b>1?\d{{1,2}})(?!\d|[.,:]\d|\ ?(?:am|pm|h|%|km|kg|cm|euros?|€|\$)(?!\w))
      |,?\ ?\((?P<c>1?\d{{1,2}})(?:\ {_YEARS})?\))"""
)


@lru_cache(maxsize=4096)
def ages_in(text: str) -> tuple[Age, ...]:
    """Return the ages that *text* tells; ages that are spelled out, and those of the user, are not found."""
    if len(text) > MAX_CHARACTERS or not any(map(str.isdecimal, text)):
        return ()
    return tuple(
        Age(
            (found["called"] or found["name"] or "").casefold(),
            _KIN[found["kin"].casefold()] if found["kin"] else "",
            int(found["a"] or found["b"] or found["c"]),
        )
        for found in _AGE.finditer(straight(text))
    )


def is_older_now(newer: str, older: str) -> bool:
    """Return whether *newer* says another age of the only one of whom *older* says how old they are."""
    before = ages_in(older)
    return len(before) == 1 and any(now.is_of(before[0]) and now.years != before[0].years for now in ages_in(newer))


def leaves_ages(newer: str, older: str) -> bool:
    """Return whether *older* says the age of a person of whom *newer* does not tell it, and *newer* is about ages."""
    now, before = ages_in(newer), ages_in(older)
    if not now or not before:
        return False
    if len(before) == 1:
        return all(one.is_not_of(before[0]) for one in now)
    return not all(any(one.is_of(other) for one in now) for other in before)
