"""What a statement is about, compared with another one: whether the newer may tell that the older is no longer so.

No single mark decides. Two statements give a vector of what speaks for and against it: shared words, a definite mention
of what the older introduced, numbers of one form, relatives, marks of a change. ``recall/currency`` weighs it.
"""

# ruff: noqa: E501 - a pattern is a flat list of alternatives; broken up, it could not be searched for a word

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final

from threadkeep.text.changes import adds_to_it, change_in, count_marks, subjects_of
from threadkeep.text.semantics import straight, words
from threadkeep.text.tokenizing import FUNCTION_WORDS, STOP_WORDS, language_of, tokenise

_MAX_CHARACTERS: Final = 400
_MOST_SHARED: Final = 3
_UNSPACED: Final = "\u0e00"
"""Scripts without spaces between words begin here."""
_WORD: Final = re.compile(r"[^\W\d_]+(?:['-][^\W\d_]+)*|\d+(?:[.,:/]\d+)*")
_NUMBER: Final = re.compile(r"\d+(?:[.:,/-]\d+)*")
_DIGIT: Final = re.compile(r"\d")
_SENTENCE: Final = re.compile(r"(?<=[.!?;:])\s+")
_FUNCTION: Final = STOP_WORDS.union(
    *(FUNCTION_WORDS[language] for language in ("english", "french", "german", "italian", "portuguese", "spanish"))
)
_DETERMINERS: Final = words(
    """
    the that this my our his her their its der die das dem den mein meine meinen meinem unser unsere le la les mon ma
    mes notre nos ce cette l el los las mi mis nuestro nuestra ese esa o a os as meu minha nosso nossa il lo mio mia
    """
)
_SPEAKER: Final = words("i we i'm i've we're we've i'd i'll ich wir je nous j yo nosotros eu nós io noi")
_WITHOUT_SUBJECT: Final = re.compile(
    r"(?i)^\W*(?:(?:just|finally|actually|already|have|had|been|is|am|are)\ )*(?:[a-z]{2,}ed|went|gave|took|got|put|quit|left|made|bought|sold|broke|cut|threw|fell|ran|came|found|told|met|lost|won|set|let|up\ to|down\ to|back\ (?:on|to|at|in)|no\ more|not\ any\ ?more)\b"
)
"""A statement that begins with what was done continues one that named the subject: ``Went with Obsidian after all.``"""
_MOST_MARKS: Final = 3
_RELATIVES: Final[Mapping[str, str]] = {
    member: group.split()[0]
    for group in (
        "sister soeur sœur schwester hermana irmã sorella",
        "brother frère bruder hermano irmão fratello",
        "mother mum mom mama mutter mère maman madre mamá mãe",
        "father dad papa vater père papá padre pai",
        "wife frau femme esposa mujer mulher moglie",
        "husband mann mari marido esposo marito",
        "partner girlfriend boyfriend freundin freund copain copine novia novio namorada namorado",
        "son sohn fils hijo filho figlio",
        "daughter tochter fille hija filha figlia",
        "child kid kids children kinder kind enfants enfant hijos niños filhos figli",
        "grandmother gran grandma oma grand-mère abuela avó nonna",
        "grandfather grandad opa grand-père abuelo avô nonno",
        "cousin cousine primo prima cugino cugina",
        "uncle onkel oncle tío tio zio",
        "aunt tante tía tia zia",
        "nephew neffe neveu sobrino sobrinho",
        "niece nichte nièce sobrina sobrinha",
        "parents eltern pais genitori",
        "boss manager chef chefin jefe jefa capo",
        "colleague kollege kollegin collègue colega compañero collega",
        "friend ami amie amigo amiga amico",
        "neighbour neighbor nachbar nachbarin voisin voisine vecino vecina vizinho vicino",
        "dog hund chien perro cão cachorro cane",
        "cat kitten katze chat gato gatto",
        "baby bébé bebé bebê eldest youngest",
        "flatmate roommate mitbewohner colocataire",
    )
    for member in group.split()
}
"""Relatives, companions and pets in six languages: people and animals of whom a user has one or several."""

_ASKS_FOR_SEVERAL: Final = re.compile(
    r"""(?ix)\b(?:which|what|whose)\ (?:\w+\ )?(?:\w{2,}(?<![isu])s|children|people|kids)\ (?:do|are|have|did|am|were|can|should|must|in|on|at)\b
    | \b(?:do|are|did|were|have)\ (?:(?:my|our|the|both|all)\ ){1,2}(?:[\w-]+\ ){0,2}?(?:\w{2,}(?<![isu])s|children|people|kids)\b
    | ^\W*(?:please\ )?(?:list|name|tell|state|describe|enumerate)\b | \b(?:both|all|each|every(?:thing)?)\b | \bwho\ are\b
    | \bwelche\ \w+(?:en|er|te|ve|s)\b | \b(?:sind|haben|\w{3,}en)\ (?:meine|unsere|die|beide)\b
    | \bquel(?:le)?s\b | \b(?:mes|nos)\ \w+s\b | \bcuáles\b | \bqué\ \w+s\b | \b(?:mis|nuestros|nuestras)\ \w+s\b
    | \bquais\b | \bque\ \w+s\b | \b(?:meus|minhas|nossos|nossas)\ \w+s\b"""
)


@dataclass(frozen=True, slots=True)
class Claim:
    """What a statement is about.

    Attributes:
        stems: The stems that tell it.
        words: All its words, in small letters.
        names: Words with a capital inside a sentence.
        definite: Stems after ``the``, ``my`` and the like.
        modifiers: The stems that stand right before another one.
        subjects: The stems of the subjects ``my …``, ``the …``; of each sentence that begins with one.
        of_speaker: Whether a sentence begins with ``I`` or ``we``.
        relatives: The relatives that it mentions.
        relative_names: The name that follows one.
        numbers: Its numbers.
        forms: The forms of them: ``00:00`` for ``18:05``.
        adds: Whether it adds to what was said: ``also``, ``another``.
        change: Whether it has a mark of a change.
        correction: Whether it has a mark of a correction.
        marks: How many marks of a change it has.
        elliptical: Whether it begins without a subject.
        foreign: Whether it is in another language than English, for which cosines tell less.
    """

    stems: frozenset[str]
    words: frozenset[str]
    names: frozenset[str]
    definite: frozenset[str]
    modifiers: Mapping[str, frozenset[str]]
    subjects: tuple[frozenset[str], ...]
    of_speaker: bool
    relatives: frozenset[str]
    relative_names: Mapping[str, str]
    numbers: frozenset[str]
    forms: frozenset[str]
    adds: bool
    change: bool
    correction: bool
    marks: int
    elliptical: bool
    foreign: bool


@lru_cache(maxsize=4096)
def parse_claim(text: str) -> Claim:
    """Return what *text* is about; the first 400 characters count."""
    said = straight(text)[:_MAX_CHARACTERS]
    spelled = [_WORD.findall(sentence) for sentence in _SENTENCE.split(said)]
    tokens = [token for sentence in spelled for token in sentence]
    lowered = [token.casefold() for token in tokens]
    numbers = frozenset(_NUMBER.findall(said))
    change = change_in(said)
    return Claim(
        stems=frozenset(stem for stem in subjects_of(said) if stem < _UNSPACED),  # a character is no word
        words=frozenset(lowered),
        names=frozenset(_names(spelled)),
        definite=frozenset(_definite(lowered)),
        modifiers=_modifiers(lowered),
        subjects=tuple(_subjects(spelled)),
        of_speaker=any(sentence[0].casefold() in _SPEAKER for sentence in spelled if sentence),
        relatives=frozenset(_RELATIVES[word] for word in lowered if word in _RELATIVES),
        relative_names={
            _RELATIVES[word]: name
            for word, name in zip(lowered, tokens[1:], strict=False)
            if word in _RELATIVES and name[:1].isupper()
        },
        numbers=numbers,
        forms=frozenset(_DIGIT.sub("0", number) for number in numbers),
        adds=adds_to_it(said),
        change=change == "change",
        correction=change == "correction",
        marks=0 if adds_to_it(said) else min(count_marks(said), _MOST_MARKS),
        elliptical=_WITHOUT_SUBJECT.match(said) is not None,
        foreign=language_of(lowered) != "english",
    )


FEATURES: Final = (
    "shared words",
    "definite mention",
    "name",
    "number of one form",
    "other relatives",
    "relatives of one",
    "other names of a relative",
    "other modifiers",
    "adds",
    "change",
    "correction",
    "other subjects",
    "same subject",
    "both of the speaker",
    "marks",
    "elliptical",
    "foreign",
)
"""The names of the elements of :func:`compare`."""


@lru_cache(maxsize=32_768)
def compare(newer: str, older: str) -> tuple[float, ...]:
    """Return what speaks for and against *newer* telling that *older* is no longer so, by :data:`FEATURES`."""
    new, old = parse_claim(newer), parse_claim(older)
    shared = new.stems & old.stems
    unshared_subjects = not any(one & new.stems for one in old.subjects) and not any(
        one & old.stems for one in new.subjects
    )
    return (
        min(len(shared), _MOST_SHARED) / 2,
        bool(shared & new.definite),
        any(name in new.words for name in old.names),
        bool(new.forms & old.forms) and new.numbers != old.numbers,
        bool(new.relatives and old.relatives) and new.relatives.isdisjoint(old.relatives),
        bool(new.relatives) != bool(old.relatives),
        any(new.relative_names.get(one, name) != name for one, name in old.relative_names.items()),
        any(_apart(new.modifiers.get(stem), old.modifiers.get(stem)) for stem in shared),
        new.adds,
        new.change,
        new.correction,
        bool(new.subjects and old.subjects) and unshared_subjects,
        any(one & other for one in new.subjects for other in old.subjects),
        new.of_speaker and old.of_speaker,
        new.marks / _MOST_MARKS,
        new.elliptical,
        new.foreign or old.foreign,
    )


def asks_for_several(question: str) -> bool:
    """Return whether *question* asks for several things, as ``Which languages do I speak?`` does."""
    return len(question) <= _MAX_CHARACTERS and _ASKS_FOR_SEVERAL.search(straight(question)) is not None


def _apart(one: frozenset[str] | None, other: frozenset[str] | None) -> bool:
    return one is not None and other is not None and one.isdisjoint(other)


def _names(sentences: list[list[str]]) -> Iterator[str]:
    """Yield the names, in small letters."""
    for sentence in sentences:
        for word in sentence[1:]:
            lowered = word.casefold()
            if word[:1].isupper() and len(word) > 1 and lowered not in _FUNCTION and not lowered.startswith("i'"):
                yield lowered


def _definite(lowered: list[str]) -> Iterator[str]:
    """Yield the stems of the two words after a determiner."""
    for place, word in enumerate(lowered):
        if word in _DETERMINERS and lowered[place + 1 : place + 2]:
            if lowered[place + 1] not in _FUNCTION:
                yield from tokenise(lowered[place + 1])
            for following in lowered[place + 2 : place + 3]:
                yield from tokenise(following)


def _modifiers(lowered: list[str]) -> Mapping[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for before, word in pairwise(lowered):
        if before not in _FUNCTION and word not in _FUNCTION and (stems := tokenise(word)):
            found[stems[0]] = found.get(stems[0], frozenset()).union(tokenise(before)[:1])
    return found


def _subjects(sentences: list[list[str]]) -> Iterator[frozenset[str]]:
    for sentence in sentences:
        if sentence and sentence[0].casefold() in _DETERMINERS and sentence[0].casefold() not in _SPEAKER:
            heads: list[str] = []
            for word in sentence[1:4]:
                if word.casefold() in _FUNCTION:
                    break
                heads += tokenise(word)
            yield frozenset(heads)
