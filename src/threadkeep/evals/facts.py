"""Recall of one fact among many: a seeded world of facts about one user, and a question for each.

The figure is the share of questions whose fact stands in the rendered block that the model would see.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from threadkeep.errors import InvalidInputError
from threadkeep.evals.fact_bank import FAMILIES, Aspect, Family

DEFAULT_SIZES: Final = (10, 100, 1_000, 10_000)
_DIGIT: Final = re.compile("#")


@dataclass(frozen=True, slots=True)
class Fact:
    """One statement about the user, and the question that it alone answers.

    Attributes:
        text: The statement, one sentence.
        question: Holds the subject but never the answer.
        answer: What the question asks for.
    """

    text: str
    question: str
    answer: str


def capacity() -> int:
    """Return how many distinct facts there can be."""
    return sum(len(family.subjects) * len(family.aspects) for family in FAMILIES)


def make_facts(count: int, *, seed: int) -> tuple[Fact, ...]:
    """Return *count* distinct facts in random order; the same for the same seed.

    Each family gives its share, as a block of subjects crossed with aspects, so that at every size facts
    share their subject with some and their aspect with others.

    Raises:
        InvalidInputError: There are not that many.
    """
    if not 1 <= count <= capacity():
        msg = f"The fact benchmark has between 1 and {capacity():,} facts, not {count:,}."
        raise InvalidInputError(msg)
    rng = random.Random(seed)  # noqa: S311 - reproducible on purpose; nothing here is a secret
    facts = [
        _make_fact(subject, aspect, rng)
        for family, share in zip(FAMILIES, _shares(count), strict=True)
        for subject, aspect in _block(family, share, rng)
    ]
    rng.shuffle(facts)
    return tuple(facts)


def _shares(count: int) -> list[int]:
    """Split *count* over the families in proportion to their sizes, by largest remainder."""
    sizes = [len(family.subjects) * len(family.aspects) for family in FAMILIES]
    exact = [count * size / sum(sizes) for size in sizes]
    shares = [math.floor(one) for one in exact]
    by_remainder = sorted(range(len(sizes)), key=lambda place: shares[place] - exact[place])
    for place in by_remainder[: count - sum(shares)]:
        shares[place] += 1
    return shares


def _block(family: Family, share: int, rng: random.Random) -> list[tuple[str, Aspect]]:
    """Choose *share* pairs of subject and aspect that overlap as much as they can.

    Subjects are taken from the front, where names share their parts; aspects at random.
    """
    width = min(len(family.aspects), max(1, round(math.sqrt(share)), math.ceil(share / len(family.subjects))))
    aspects = rng.sample(family.aspects, width)
    subjects = family.subjects[: math.ceil(share / width)]
    return [(subject, aspect) for subject in subjects for aspect in aspects][:share]


def _make_fact(subject: str, aspect: Aspect, rng: random.Random) -> Fact:
    answer = _DIGIT.sub(lambda _: str(rng.randrange(10)), rng.choice(aspect.answers))
    text = aspect.fact.format(subject=subject, answer=answer)
    question = rng.choice(aspect.questions).format(subject=subject)
    return Fact(_sentence(text), _sentence(question), answer)


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]


def sampled(facts: Sequence[Fact], count: int, *, seed: int) -> tuple[Fact, ...]:
    """Return *count* of *facts* to ask about, or all of them where there are no more."""
    rng = random.Random(seed)  # noqa: S311 - reproducible on purpose; nothing here is a secret
    return tuple(facts) if len(facts) <= count else tuple(rng.sample(facts, count))
