"""The circumstances that a statement is limited to: ``At work I use a Mac``, ``I take bus 12 to work``."""

# ruff: noqa: E501 - a pattern is a flat list of alternatives; broken up, it could not be searched for a word

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

from threadkeep.text.claims import FUNCTION, MAX_CHARACTERS, WORD, are_other_values, parse_claim, subjects_of
from threadkeep.text.semantics import straight, words
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
_THE: Final = r"(?:the|my|our|her|his|der|die|das|den|dem|mein\w*|unser\w*|le|la|les|mon|ma|mes|notre|nos|el|los|las|mi|mis|nuestr\w+|[ao]s?|(?:[ao]\ )?(?:meus?|minhas?|noss[ao]s?)|il|lo|gli|i|(?:il|la)\ mi[oa])"
_BARE: Final = r"(?:work|home|school|church|university|college|training)"
_PURPOSE: Final = rf"(?P<preposition>(?:to|at|in)\ (?={_THE}\ |{_BARE}\b)|for\ |(?:zum|zur|für|im|am|beim|ins)\ |(?:bei|in|an|auf)\ (?={_THE}\ )|zu\ (?=hause\b)|(?:pour|para|per)\ (?![\w]+(?:[aei]r|re)\b)|(?:pour\ aller|para\ ir|per\ andare)\ (?:à|au|al|ao|a|in)\ |(?:au|à\ la|al|alla|chez|dans|en|no|na|em|nel|nella|in)\ )"
_ONE_SENTENCE: Final = r"(?:(?![.!?;:]\ ).)"
_WHAT: Final = r"(?:[\w'-]+\ ){0,3}?[\w'-]+"
_ENDING: Final = re.compile(
    rf"(?ix)^(?P<start>(?:i|we|ich|wir|je|nous)\ [\w']+|(?:yo|eu|io)\ \w+o|(?!who\b|no\b|so\b)\w+(?:o|[aei]mos|iamo))\ (?P<value>{_ONE_SENTENCE}+?)\ {_PURPOSE}(?P<what>{_WHAT})\W*$"
)
"""What the speaker does, and for what or where: ``I take bus 12 to work.``"""
_PART: Final = re.compile(
    rf"(?ix)^(?P<start>{_THE}\ (?:[\w'-]+\ )?[\w'-]+)\ (?:{_PURPOSE}|of\ )(?P<what>{_WHAT})\ (?:is|are|costs?|ist|sind|kostet|est|sont|coûte|es|son|cuesta|é|são|custa|è|sono|costa)\ (?P<value>{_ONE_SENTENCE}+)$"
)
"""A thing for something or somewhere, and what is said of it: ``My locker at the gym is number 12.``"""
_ONE_AT_A_TIME: Final = re.compile(
    r"""(?ix)\b(?:am|are|was|were|bin|sind|war|suis|sommes|soy|somos|sou|sono|siamo|live|work|study|stay|job|flat|apartment|house|room|rent|shift|meeting|wohne\w*|arbeite\w*|studiere\w*|wohnung|zimmer|miete|stelle|habit\w+|travaille|étudie|appartement|loyer|emploi|viv\w+|trabaj\w+|estudi\w+|piso|alquiler|mor[oa]\w*|trabalh\w+|estud\w+|apartamento|renda|abit\w+|lavor\w+|studi\w*|appartamento|affitto)\b"""
)
"""Tells of a home or a job, of which a user has one at a time, or of what is moved from one place to another."""
_ALIKE: Final = tuple(
    map(
        words,
        (
            "work office job desk arbeit büro job travail bureau boulot trabajo oficina curro trabalho escritório emprego lavoro ufficio",
            "home house flat apartment room place zuhause hause haus wohnung maison appartement casa piso apartamento appartamento",
            "gym training workout sport sports exercise fitness fitnessstudio muscu gimnasio deporte ginásio treino palestra allenamento",
            "school class uni university college schule école fac escuela colegio universidad escola faculdade scuola università",
        ),
    )
)
"""Words for one place, by place."""
_KEPT_IN_SEVERAL: Final = re.compile(
    r"(?i)\b(?:use|have|keep|wear|speak|drink|eat|take|need|pay|benutze|nutze|habe|trage|spreche|trinke|esse|nehme|brauche|zahle|utilise|ai|j'ai|porte|parle|bois|mange|prends|paie|uso|usamos|tengo|llevo|hablo|bebo|como|tomo|pago|tenho|levo|falo|ho|porto|parlo|bevo|mangio|prendo)$"
)
"""What is done with different things for different purposes; other verbs, as ``I teach``, may tell of a job."""
_FOR: Final = re.compile(r"(?i)(?:for|of|to|zum|zur|für|im|am|beim|ins|pour|para|per)\b")
_GERMAN: Final = re.compile(r"(?i)^(?:ich|wir|der|die|das|mein\w*|unser\w*)\b")


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
    if _end_in_others(newer, older):
        return True
    now, before = frame_of(newer), frame_of(older)
    if now is None or before is None or parse_claim(newer).correction:
        return False
    apart = now.stems.isdisjoint(before.stems | before.rest) and before.stems.isdisjoint(now.rest)
    return apart and not now.rest <= before.rest


def _end_in_others(newer: str, older: str) -> bool:
    """Return whether both say the same, with another value, for different purposes or places."""
    claim = parse_claim(newer)
    if claim.change or claim.correction or max(len(newer), len(older)) > MAX_CHARACTERS:
        return False
    for pattern in (_ENDING, _PART):
        new, old = pattern.match(straight(newer)), pattern.match(straight(older))
        if new and old and new["start"].casefold() == old["start"].casefold():
            return _differ(new, old)
    return False


def _differ(new: re.Match[str], old: re.Match[str]) -> bool:
    """Return whether both purposes and both values differ, and neither is of what one has one at a time."""
    what, other, value, other_value = map(_stems, (new["what"], old["what"], new["value"], old["value"]))
    if not what or not other or not what.isdisjoint(other | other_value) or not other.isdisjoint(value):
        return False
    spoken, also = (frozenset(WORD.findall(one["what"].casefold())) for one in (new, old))
    is_one_place = any(spoken & alike and also & alike for alike in _ALIKE)
    if is_one_place or any(_AT_A_TIME.search(one["what"]) or _may_have_moved(one) for one in (new, old)):
        return False
    if _ONE_AT_A_TIME.search(f"{new['start']} {new['value']} {old['value']}"):
        return False
    return are_other_values(value, other_value)


def _may_have_moved(found: re.Match[str]) -> bool:
    """Return whether another place or name may mean a new home or job: ``in Porto``, ``I teach art at the academy``."""
    is_named = any(word[0].isupper() for word in WORD.findall(found["what"])) and not _GERMAN.search(found[0])
    is_purpose = _FOR.match(found["preposition"] or "of") is not None
    if found.re is _PART or _KEPT_IN_SEVERAL.search(found["start"]):
        return is_named and not is_purpose
    return is_named or not is_purpose


def _stems(text: str) -> frozenset[str]:
    spoken = (word.casefold() for word in WORD.findall(text))
    return frozenset(stem for word in spoken if word not in FUNCTION for stem in tokenise(word))
