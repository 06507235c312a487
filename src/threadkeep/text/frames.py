"""The circumstances that a statement begins with and is limited to: ``At work I use a Mac``, ``Los sábados …``."""

# ruff: noqa: E501 - a pattern is a flat list of alternatives; broken up, it could not be searched for a word

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

from threadkeep.text.claims import FUNCTION, MAX_CHARACTERS, WORD, parse_claim, subjects_of
from threadkeep.text.semantics import straight
from threadkeep.text.tokenizing import tokenise


class Frame(NamedTuple):
    """The circumstances of a statement.

    Attributes:
        stems: The stems that name them.
        rest: The stems of what follows.
    """

    stems: frozenset[str]
    rest: frozenset[str]


_AND: Final = r"(?:(?:and|but|und|aber|et|mais|y|pero|e|mas|ma),?\ )?"
_PREPOSITION: Final = r"(?:por|in|at|for|during|with|im|beim?|für|mit|auf|en|dans|aux?|chez|pour|avec|para|con|com|em|n[ao]s?|à|per|nel|nell[ao]|da|dal|dalla)"
_DAYS: Final = r"(?:(?:on\ )?(?:(?:mon|tues|wednes|thurs|fri|satur|sun)days|weekdays|weekends)|(?:montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonnabend|sonntag|werktag|wochentag)s|le\ (?:lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche|week-end)|los\ (?:lunes|martes|miércoles|jueves|viernes|sábados|domingos)|los\ fines\ de\ semana|(?:às|aos)\ (?:segundas|terças|quartas|quintas|sextas|sábados|domingos)|(?:il|di)\ (?:lunedì|martedì|mercoledì|giovedì|venerdì|sabato)|(?:la|di)\ domenica|nei\ fine\ settimana)"
_SUBJECT: Final = r"(?:i|i'm|i've|we|we're|it|it's|the|you|he|she|they|my|our|ich|wir|es|er|sie|arbeite|habe|je|j'ai|on|nous|il|elle|c'est|yo|se|eu|io|non|no|trabajo|trabalho|lavoro|tengo|tenho|uso|is|are|ist|es|é|è|est)"
_OPENING: Final = re.compile(
    rf"(?ix)^\W*{_AND}(?:{_DAYS}|{_PREPOSITION}\ (?:[\w'-]+\ ){{0,4}}?[\w'-]+)(?:,|(?=\ (?:{_SUBJECT}|\w+\ (?:ich|wir|man))\b))"
)
_AT_A_TIME: Final = re.compile(
    r"""(?ix)\d|\b(?:january|february|march|april|may|june|july|august|september|october|november|december|januar|februar|märz|mai|juni|juli|oktober|dezember|janvier|février|mars|avril|juin|juillet|août|septembre|octobre|novembre|décembre|enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|octubre|noviembre|diciembre|janeiro|fevereiro|março|maio|junho|julho|setembro|outubro|novembro|dezembro|gennaio|febbraio|aprile|maggio|giugno|luglio|settembre|ottobre|dicembre
    |moment|momento|end|ende|fin|fim|fine|final|first|last|least|beginning|start|begin|anfang|début|principio|início|inizio|meantime|meanwhile|past|future|zukunft|avenir|futuro|fact|fait|realidad|realtà|verdade|general|général|geral|generale|grunde|case|fall|cas|caso|other|another|anderen|autre|otr[oa]|outr[oa]|altr[oa]|now|present|years?|jahre\w?|ans|años|anos|anni)\b"""
)
"""Tells when something was, or nothing, and so limits no statement."""


@lru_cache(maxsize=4096)
def frame_of(text: str) -> Frame | None:
    """Return the circumstances that *text* begins with; ``None``: it is not limited to any."""
    said = straight(text)[:MAX_CHARACTERS]
    found = _OPENING.match(said)
    if found is None or _AT_A_TIME.search(found[0]):
        return None
    stems = _stems(found[0])
    return Frame(stems, subjects_of(said[found.end() :]) - stems) if stems else None


def have_other_frames(newer: str, older: str) -> bool:
    """Return whether both are true as they tell of different circumstances, and neither names the other's.

    Where *newer* says nothing else than *older* did, the circumstances are what has changed.
    """
    now, before = frame_of(newer), frame_of(older)
    if now is None or before is None or parse_claim(newer).correction:
        return False
    apart = now.stems.isdisjoint(before.stems | before.rest) and before.stems.isdisjoint(now.rest)
    return apart and not now.rest <= before.rest


def _stems(text: str) -> frozenset[str]:
    spoken = (word.casefold() for word in WORD.findall(text))
    return frozenset(stem for word in spoken if word not in FUNCTION for stem in tokenise(word))
