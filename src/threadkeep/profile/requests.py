"""Whether a text asks to do something on the user's behalf, and whether a statement is about the user."""

# ruff: noqa: E501 - a pattern is a flat list of alternatives; broken up, it could not be searched for a word

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from threadkeep.search.query import is_declarative, is_interrogative
from threadkeep.text.facts import statements
from threadkeep.text.semantics import straight

_LONGEST: Final = 400
"""A longer text is a story, or brings what it needs."""

_ASKED_FOR: Final = re.compile(
    r"(?ix)^(?:(?:please|pls|now|ok|okay|hey|hi|hello|so|and|then|also|just|bitte|por\ favor|s'il\ (?:te|vous)\ pla[iî]t)[,\s]+)*"
    r"(?:(?:can|could|would|will)\ you\ (?:please\ |kindly\ )?|i(?:'d|\ would)\ like\ (?:you\ to\ )?|i\ (?:need|want)\ (?:you\ to\ )?|we\ need\ (?:you\ to\ )?|help\ (?:me|us)\ (?:to\ )?"
    r"|kannst\ du\ (?:mir\ )?|können\ sie\ (?:mir\ )?|ich\ (?:brauche|möchte)\ |(?:peux|pourrais)-tu\ |(?:pouvez|pourriez)-vous\ |j'ai\ besoin\ d[e']\ ?|(?:puedes|podrías)\ |necesito\ |(?:podes|pode|poderia)\ |preciso\ de\ )?"
)
_ADVICE: Final = re.compile(
    r"(?i)^(?:what|where|which|when|how|was|wo|welche\w*|que|qué|où|dónde|o que|onde)\b[^.!?]{0,60}\b(?:should|could|can|soll|sollte|devrais|devrions|debería|podría|devo|devia) (?:i|we|ich|wir|je|nous|eu)\b"
)
"""Asks for advice on what the user is about to do."""

_GENERAL: Final = re.compile(
    r"""(?ix)^(?:explain|define|translate|convert|calculate|compute|solve|prove|derive|list|name|count|spell|sort|multiply|divide|add\ up|compare|contrast|describe|rewrite|reword|rephrase|paraphrase|correct|proof-?read|shorten|simplify|integrate|differentiate|imagine|pretend|guess|recite|rhyme|teach\ me|tell\ (?:me|us)|show\ (?:me|us)|give\ (?:me|us)|summari[sz]e\ (?:the\ (?:plot|story|book|film|movie|novel|history)|\w+\ in)
        |check\ (?:whether|if)|thank|thanks
        |erklär\w*|übersetz\w*|berechne|nenne?|löse|beschreib\w*|vergleich\w*|erzähl\w*
        |expli\w+|tradui\w*|calcule\w*|décri\w*|compare\w*|raconte\w*|défini\w*|traduc\w*|calcula\w*|describe\w*|descrev\w*|traduz\w*|define\w*|cuenta\w*|conta\w*|resolv\w*|resuelv\w*)\b(?!.{0,80}\b(?:before|to|for)\ (?:i|me|my|us|our)\b)
    | \b(?:poems?|haikus?|limericks?|sonnets?|lyrics|songs?|jokes?|riddles?|stor(?:y|ies)|novel|slogan|mnemonic|synonyms?|rhymes?|fictional|fictitious|imaginary|made-up|generic|placeholder|dummy|regex|regular\ expression|haiku|gedichte?|witze?|poèmes?|blagues?|poemas?|chistes?|piadas?)\b
    | \ba\ (?:function|for\ loop|one-liner|word|commit\ message|random\ \w+)\b"""
)
"""A task that is the same for anyone: about the world, about the text it brings, or invented."""

_RELATIVES: Final = (
    r"(?:(?:grand|step|god)?(?:mother|father|son|daughter|child|children|kids?)|mum|mom|dad|parents|sisters?|brothers?|siblings?|aunt|uncle|cousins?|nephews?|nieces?|in-laws|granny|grandma|grandpa|wife|husband|partner|girlfriend|boyfriend|fiancée?|baby|twins|toddler|dogs?|cats?|pets?"
    r"|schwester|bruder|mutter|vater|oma|opa|tante|onkel|cousine?|sohn|tochter|kind|kinder|frau|mann|hund|katze|kater"
    r"|sœur|soeur|frère|mère|père|fils|fille|femme|mari|enfants?|chien|chat|chatte"
    r"|hermana|hermano|madre|padre|hija|hijo|hijos|abuel[oa]|esposa|marido|perro|gat[oa]|irmã|irmão|mãe|pai|filh[oa]s?|avó|avô|mulher|cachorro)"
)
_OTHERS: Final = r"(?:friends?|colleagues?|neighbou?rs?|landlord|landlady|boss|manager|teacher|doctor|accountant|client|customer|flatmate|roommate|freund(?:in)?|kolleg(?:e|in|en)|nachbar(?:in)?|chef(?:in)?|vermieter|ami[es]?|collègues?|voisine?|propriétaire|amig[oa]s?|compañer[oa]s?|vecin[oa]|jef[ea]|colegas?|vizinh[oa])"
_OWNED: Final = r"(?:my|our|the|meine?|unsere?|mon|ma|mes|notre|nos|mi|mis|nuestr[oa]s?|(?:o |a |os |as )?(?:meus?|minhas?|noss[oa]s?))"
_ABOUT_RELATIVE: Final = re.compile(rf"(?i)^(?:[\w' ]{{0,30}}, )?{_OWNED} (?:[\w'-]+ ){{0,2}}?{_RELATIVES}\b")
_ABOUT_OTHER: Final = re.compile(
    rf"(?i)^(?:[\w' ]{{0,30}}, )?{_OWNED} (?:[\w'-]+ ){{0,2}}?{_OTHERS}\b|^(?:he|she|they|er|sie|il|elle|ils|elles|él|ella|ellos|ele|ela|eles)\b"
)


_NAMED_OTHER: Final = re.compile(
    r"""(?x)^(?!(?:I|My|We|Our|The|It|This|That|Ich|Wir|Mein\w*|Unser\w*|Je|J|Nous|On|Mon|Ma|Mes|Yo|Mi|Mis|Eu|Meu|Minha|Here|There|People|Everyone)\b)
      [A-ZÀ-Þ][\w'-]+(?:\ [A-ZÀ-Þ][\w'-]+)?\ (?:is|has|was|lives|works|likes|loves|hates|prefers|eats|drinks|speaks|uses|moved|goes|can't|cannot|doesn't
      |ist|hat|wohnt|lebt|arbeitet|mag|isst|spricht|est|a|habite|vit|travaille|parle|mange|aime|es|tiene|vive|trabaja|habla|come|é|tem|mora|trabalha|fala|gosta)\b"""
)
"""A name and a verb in the third person."""


@lru_cache(maxsize=1024)
def acts_for_user(text: str) -> bool:
    """Return whether *text* asks to do something for the user, or for advice on what they are about to do.

    ``Book me a table.`` does; a question, a statement, and a task that is the same for anyone do not.
    """
    said = " ".join(straight(text).split())
    if not said or len(said) > _LONGEST:
        return False
    asked = _ASKED_FOR.match(said)
    rest = said[asked.end() :] if asked is not None else said
    if _GENERAL.search(rest):
        return False
    if _ADVICE.search(rest):
        return True
    if rest != said:
        return not is_interrogative(rest.rstrip("?"))
    return not (is_interrogative(said) or is_declarative(said) or statements(said))


def speaks_of_user(statement: str, *, relatives: bool) -> bool:
    """Return whether *statement* is not about another person; *relatives*: a relative or a pet may be its subject."""
    said = straight(statement).strip()
    if _ABOUT_OTHER.match(said):
        return False
    return relatives or not (_ABOUT_RELATIVE.match(said) or _NAMED_OTHER.match(said))
