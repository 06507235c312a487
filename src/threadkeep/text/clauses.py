"""Into which clauses a sentence falls that each stand on their own, in six languages."""

# ruff: noqa: E501 - a pattern is a flat list of alternatives; broken up, it could not be searched for a word

from __future__ import annotations

import re
from typing import Final, NamedTuple

from threadkeep.text.semantics import straight


class Clause(NamedTuple):
    """A part of a sentence that may stand on its own.

    Attributes:
        text: The part, in the words of the sentence.
        whole: The same with its subject.
    """

    text: str
    whole: str


_CLAUSES: Final = re.compile(
    r"(?i)(?:,? (?:and|but)(?: that)?|;| [–—-]+|,(?= now\b)) (?=(?:(?:now|nowadays|currently|these days),? )?(?:I|I'm|I've|im|ive|my|we|we're|our)\b)"
)
_GERMAN_VERB: Final = r"(?:arbeite|wohne|lebe|bin|habe?|mag|liebe|hasse|trinke|esse|spreche|studiere|lerne|spiele|fahre|leite|nutze|benutze|verwende|komme|bevorzuge|heiße|unterrichte|pendle|jogge|singe|koche|reise|vertrage|rauche)"
_FRENCH_VERB: Final = r"(?:travaille|vis|habite|suis|aime|ai|parle|joue|étudie|enseigne|bois|mange|préfère|déteste|adore|utilise|apprends|dirige|gère|cours|nage|fume|viens|m'appelle|n'aime|ne)"
_ROMANCE_VERB: Final = r"""(?:
      (?:no\ |não\ |non\ |ya\ no\ |já\ não\ )?(?:me\ |mi\ )?(?:
        (?:trabajo|estudio|trabalho|estudo|lavoro|studio)\ (?:en|em|no|na|como|come|para|per|de|da|do|con|com|desde|por|pela|pelo|al|alla|allo|a|in|nel|nella|presso)
      | soy|estoy|vivo|tengo|hablo|prefiero|odio|uso|juego|toco|conduzco|enseño|doy|llevo|nací|vengo|bebo|como(?=\ \w)|fumo|llamo|gustan?|encantan?|dedico
      | sou|estou|moro|habito|tenho|falo|chamo|gosto|adoro|prefiro|odeio|jogo|toco|leciono|nasci|venho|ensino
      | abito|ho|parlo|chiamo|piace|piacciono|mangio|bevo|preferisco|gioco|suono|insegno|sto|corro|nuoto|guido
      | sono\ (?:allergic[oa]|intollerante|vegetarian[oa]|vegan[oa]|celiac[oa]|diabetic[oa]|sposat[oa]|single|nat[oa]|una?\b|un'|ingegnere|medico|infermier[ea]|insegnante|student\w+|originari[oa])
      )\b)"""
"""Verbs that by their form are those of the speaker; nouns of the same form are told by what follows."""
SUBJECT_IN_VERB: Final = re.compile(rf"(?ix)(?!(?:no\ |non\ )?m[ei]\ (?:gust|encant|piac)){_ROMANCE_VERB}")
"""How a sentence begins, in Spanish, Portuguese or Italian, that leaves out its subject, which its verb tells."""
_NOWADAYS: Final = r"(?:(?:jetzt|nun|inzwischen|mittlerweile|maintenant|désormais|aujourd'hui|ahora|actualmente|hoy|agora|atualmente|hoje|adesso|ora|attualmente|oggi),?\ )"
_OWN_SUBJECT: Final = rf"(?:ich(?!\ \w+en\b)|wir|je|j'|nous|yo(?!\ \w+mos\b)|eu(?!\ \w+mos\b)|io(?!\ \w+iamo\b)|(?:jetzt|nun|inzwischen|mittlerweile|derzeit|seit\ (?:\w+\ ){{1,2}}){_GERMAN_VERB}\ ich\b)"
_OURS: Final = r"(?:meine?|unsere?|mon|ma|mes|notre|nos|mis?|nuestr[oa]s?|(?:[oa]s?\ )?(?:meus?|minhas?|noss[oa]s?)|(?:il\ |la\ |i\ |le\ )?(?:mi[oae]|miei|nostr[oaie]))"
_BEGINS_CLAUSE: Final = rf"(?:{_NOWADAYS}?(?:(?P<subject>{_OWN_SUBJECT})|(?P<german>{_GERMAN_VERB})|(?P<french>{_FRENCH_VERB})|(?P<romance>{_ROMANCE_VERB}))(?:\b|(?<='))|(?P<ours>{_OURS})\ )"
_CLAUSES_ELSEWHERE: Final = re.compile(
    rf"(?ix)(?:,?\ (?:und|aber|et|mais|y|e|ed|pero|mas|ma)|;|\ [–—-]+|(?P<comma>,))\ (?={_BEGINS_CLAUSE})"
)
_FORMERLY: Final = r"(?:(?:früher|bis\ vor\ kurzem|damals)\ (?:habe?|hatte|war|wohnte|lebte|arbeitete)\ ich|(?:avant|autrefois),?\ j(?:e|')|antes\ (?:vivía|trabajaba|tenía|usaba|era|vivia|morava|trabalhava|tinha|usava)|prima\ (?:vivevo|abitavo|lavoravo|avevo|usavo|ero))"
_OF_SPEAKER: Final = re.compile(rf"(?ix){_FORMERLY}(?:\b|(?<='))|{_BEGINS_CLAUSE}")
_LATER: Final = re.compile(
    r"""(?ix)\b(?:bald|demnächst|nächste[snrm]?|kommende[snrm]?|morgen|dann|später|werde|bientôt|prochain\w*|demain|puis|ensuite|vais|pronto|próxim[oa]s?|(?<!la\ )mañana|luego|después|voy\ a|que\ viene|em\ breve
    |amanhã|depois|vou|que\ vem|presto|prossim[oa]|domani|poi|dopo|möchte|will|würde|veux|voudrais|quiero|quisiera|quero|queria|voglio|vorrei|wenn|falls|si|se|quand|wäre|hätte|als\ ob|zwischen|entre|tra|fra)\b"""
)
"""Tells of a plan, a wish, a supposition or a range, which may go on over the next clause."""
_OTHER_SUBJECT: Final = re.compile(r"(?i)\b(?:qui|que|dont|où|comme|ils?|elles?|on)\b|qu'|,")
"""May be the subject of a French verb, which is the same for the speaker and others."""


def split_clauses(text: str) -> list[Clause]:
    """Return the clauses of *text*, a sentence, that each stand on their own; itself where it has no several.

    In English a clause begins with its subject. In German, French, Spanish, Portuguese and Italian it may leave the
    subject out (``Ich wohne in Graz und arbeite bei Zeiss``): then its verb tells that it is the speaker's.
    """
    found: list[Clause] = []
    if _CLAUSES.search(text) is None:
        said = straight(text)
        first = _OF_SPEAKER.match(said)
        if first is not None and len(said) == len(text) and not _LATER.search(said):
            found = _split_elsewhere(text, said, first)
    if not found:
        for clause in _CLAUSES.split(text):
            if part := clause.strip(" ,;"):
                found.append(Clause(part, part))
    return found


def _split_elsewhere(text: str, said: str, first: re.Match[str]) -> list[Clause]:
    """Return the clauses of a sentence that begins with the speaker; nothing where one may not be theirs."""
    found: list[Clause] = []
    start, before = 0, first
    for end in _CLAUSES_ELSEWHERE.finditer(said):
        if end["comma"] and end["ours"]:  # more likely in apposition
            continue
        part = text[start : end.start()].strip(" ,;")
        leaves_out = not (end["subject"] or end["ours"])
        if leaves_out and (before["ours"] or (end["french"] and _OTHER_SUBJECT.search(part))):
            return []
        found.append(Clause(part, _with_subject(part, before)))
        start, before = end.end(), end
    last = text[start:].strip(" ,;")
    return [*found, Clause(last, _with_subject(last, before))] if found else []


def _with_subject(part: str, begins: re.Match[str]) -> str:
    if begins["german"]:
        return f"ich {part}"
    if begins["french"]:
        subject = "j'" if part[0].casefold() in "aeéhiu" else "je "
        return f"{subject}{part}"
    return part
