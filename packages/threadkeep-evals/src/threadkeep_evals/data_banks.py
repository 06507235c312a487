"""The data banks of the generated benchmarks, read from the JSON files beside this module.

``facts.json`` crosses *families* of subjects (people, projects, trips, …) with *aspects*, the things that can be known
about every subject of a family. Facts then share words with many others, so no single word tells which fact a question
is about. In the templates ``{subject}`` and ``{answer}`` are replaced; in an answer ``#`` becomes a random digit. A
question never contains its answer.

``paraphrases.json`` has statements, two to three wordings of each that must not be learnt once the statement is
rejected, and two to three statements that differ in a name, number, person, time, attitude or aspect. The rules were
written with the *known* cases in view. The *unseen* cases were written before the first measurement, and no rule was
changed for one of them.

``changes.json`` has subjects with changing values, each with statements that repeat the subject and statements as
people make them in passing. ``carriers.json`` has what stands around a statement in a message.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files
from random import Random
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Aspect:
    """One thing that can be known about a subject.

    Attributes:
        fact: The statement, with ``{subject}`` and ``{answer}``.
        questions: Ways to ask for it, with ``{subject}``; some share words with the statement, some do not.
        answers: What may stand for ``{answer}``.
    """

    fact: str
    questions: tuple[str, ...]
    answers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Family:
    """A kind of subject, the subjects in it, and what can be known about each."""

    name: str
    subjects: tuple[str, ...]
    aspects: tuple[Aspect, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """A rejected statement, wordings with the same meaning, and statements with another meaning.

    Attributes:
        statement: What was rejected.
        again: Wordings that say the same.
        other: Statements that say something else.
    """

    statement: str
    again: tuple[str, ...]
    other: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Subject:
    """A fact about the user with a changing value.

    Attributes:
        first: The first statement, with ``{}`` for the value.
        later: Statements of a change that repeat the subject.
        natural: Statements of a change as people make them in passing, in other words.
        questions: Ask for the value; the first one in the words of the statement, the others in other words.
        values: Seven or more that no other subject has.
    """

    first: str
    later: tuple[str, ...]
    natural: tuple[str, ...]
    questions: tuple[str, ...]
    values: tuple[str, ...]


def read_bank(name: str) -> Any:
    """Return the content of ``data/{name}.json``."""
    return json.loads((files("threadkeep_evals") / "data" / f"{name}.json").read_text(encoding="utf-8"))


def _parse_families(bank: dict[str, Any]) -> tuple[Family, ...]:
    """Return the families; an aspect's answers are a list, or the name of a list that several aspects share."""
    lists: dict[str, tuple[str, ...]] = {name: tuple(words) for name, words in bank["lists"].items()}

    def parse_aspect(aspect: dict[str, Any]) -> Aspect:
        answers = aspect["answers"]
        shared = lists[answers] if isinstance(answers, str) else tuple(answers)
        return Aspect(aspect["fact"], tuple(aspect["questions"]), shared)

    return tuple(
        Family(family["name"], tuple(family["subjects"]), tuple(map(parse_aspect, family["aspects"])))
        for family in bank["families"]
    )


def _parse_cases(cases: list[dict[str, Any]]) -> tuple[Case, ...]:
    return tuple(Case(case["statement"], tuple(case["again"]), tuple(case["other"])) for case in cases)


_PARAPHRASES: Final = read_bank("paraphrases")

FAMILIES: Final = _parse_families(read_bank("facts"))
"""Every family; together they have more than 10,000 facts."""
KNOWN: Final = _parse_cases(_PARAPHRASES["known"])
UNSEEN: Final = _parse_cases(_PARAPHRASES["unseen"])
SUBJECTS: Final = tuple(
    Subject(
        subject["first"],
        tuple(subject["later"]),
        tuple(subject["natural"]),
        tuple(subject["asked"]),
        tuple(subject["values"]),
    )
    for subject in read_bank("changes")
)


@dataclass(frozen=True, slots=True)
class Carriers:
    """What stands around a statement in a message; many are empty.

    Attributes:
        before: Sentences in front of it.
        leads: What leads the statement's own sentence, such as ``By the way, ``.
        after: Sentences behind it.
    """

    before: tuple[str, ...]
    leads: tuple[str, ...]
    after: tuple[str, ...]

    def told(self, statement: str, rng: Random) -> str:
        """Return a message that tells *statement* in passing."""
        lead = rng.choice(self.leads)
        begins = statement.split(" ", 1)[0]
        own = begins in _OPENERS and lead
        said = f"{lead}{statement[0].lower()}{statement[1:]}" if own else statement
        return " ".join(part for part in (rng.choice(self.before), said, rng.choice(self.after)) if part)


_OPENERS: Final = frozenset(("The", "My", "Our", "A", "An", "At", "In", "On", "For"))
"""A statement that begins with one of these can follow a lead; a name or "I" keeps its capital and stands alone."""
_CARRIERS: Final = read_bank("carriers")
CARRIERS: Final = Carriers(tuple(_CARRIERS["before"]), tuple(_CARRIERS["leads"]), tuple(_CARRIERS["after"]))
