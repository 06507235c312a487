"""Whether anything that is kept has to do with a question, and what of it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from threadkeep.search.hits import Ranking, Subject

LEAST_CLOSENESS: Final = 0.34
"""From so close on, a question is about something that is kept. Words alone are compared by another measure."""

SHORT: Final = 90
"""A text of no more characters is one statement, of one thing."""

_SHORT_NEEDS_LESS: Final = 0.06
"""A long text is near to much of what is asked about its field; one statement that is as near says just that.

Source:
    Replays of LoCoMo's development half, whose facts are 65 characters long in the middle and are asked for as ``When
    did I ...?``: with it a block of 300 tokens holds 62 % of the evidence that the user spoke, without it 57, and 69
    with no floor at all; others' questions of that form then bring nothing in 71 % instead of 88. LoCoMo's and BEAM's
    own questions of others' memories move by less than a point.
"""

_MANY: Final = 200
_FEWER: Final = 0.05
"""The nearest of few is less near by chance than the nearest of many, so with a tenth of :data:`_MANY` so much less is
enough: with eight memories 0.27. Source: the maximum of a sample grows with the logarithm of its size; the halves below
have hundreds of memories each, so nothing there changes.
"""

LEAST_LEXICAL: Final = 0.10
"""The same where words alone are compared; among few memories a word that they share is not worth more."""

_NEARER: Final[dict[Subject | None, float]] = {"participant": 0.2, "known": 0.05, "unknown": -0.1, None: 0.0}
"""A question that names somebody who takes part is about them, and one that names a stranger hardly is.

Source:
    Questions of LoCoMo's and BEAM's development halves, asked of another conversation's memory: 93 and 91 %
    bring nothing, and their own memory's blocks hold .9 and .6 points less of the evidence than a list without a floor.
    In BEAM others' chats are about the same subjects. From .32 to .36 both move by less than a point of evidence.
    How much of a question's words is kept at all, and how far the nearest stands out from the rest, tell less.
"""

_IN_ITS_WORDS: Final = 0.40
"""What holds so much of a question's words, as a share of BM25, is what it is about, however far the vectors are.

Source:
    A text of usual length that holds all of them once has .45. On both halves this changes nothing; it is for questions
    of one word and for embedders whose cosines are lower.
"""

_OF_THE_LINE: Final = 0.10
"""A memory so close to the question stands for itself. Source: LoCoMo; at .15 a block holds a point less."""

_OF_THE_LINE_LEXICAL: Final = 0.02

_WITH_THE_BEST: Final = 2.0
"""So many standard deviations from the best, what speaks for a memory beside its words is enough: it answers a
question that is close, for example."""

ALIKE: Final = 1.5
"""What a memory loses, in standard deviations, for each part of a cosine that it shares with one that was chosen.

Source:
    Maximal marginal relevance: Carbonell & Goldstein 1998. From 1 to 2, blocks hold .1 points more of the evidence.
"""


def concerns(ranking: Ranking, *, short: bool = False) -> bool:
    """Whether the question has to do with anything that was found.

    Args:
        ranking: What was found.
        short: Whether the nearest text is no longer than :data:`SHORT`.
    """
    hits = ranking.hits
    if not hits:
        return False
    less = max(_FEWER * math.log10(_MANY / len(hits)), _SHORT_NEEDS_LESS if short else 0.0)
    least = LEAST_LEXICAL if ranking.by_words else LEAST_CLOSENESS - less
    if ranking.closest + _NEARER[ranking.subject] >= least:
        return True
    return ranking.subject != "unknown" and bool(hits.where(hits.lexical >= _IN_ITS_WORDS))


def matters(ranking: Ranking) -> list[int]:
    """Return the places of the hits that have to do with the question, once it has to do with any; ascending."""
    hits = ranking.hits
    if not hits:
        return []
    least = _OF_THE_LINE_LEXICAL if ranking.by_words else _OF_THE_LINE
    return hits.where((hits.closeness >= least) | (hits.strength >= hits.strength[0] - _WITH_THE_BEST))


def in_order(ranking: Ranking) -> Iterator[int]:
    """Yield the places of the hits in the order in which they are offered: the best by what they add to each other."""
    first = 0 if ranking.alike is None else len(ranking.alike)
    if ranking.alike is not None:
        yield from spread(ranking.hits.strength[:first], ranking.alike)
    yield from range(first, len(ranking.hits))


def spread(strengths: NDArray[np.float64], alike: NDArray[np.float32], *, weight: float = ALIKE) -> Iterator[int]:
    """Yield the places of *strengths* so that each next one is strong and unlike those before it.

    Args:
        strengths: Of the candidates, in standard deviations.
        alike: Their cosines with each other, shape ``(n, n)``.
        weight: How much being alike costs.
    """
    left = strengths.astype(np.float64)
    beside = left - weight * alike.astype(np.float64)  # of each, what is left of the others once it is chosen
    for _ in range(len(left)):
        place = int(left.argmax())
        yield place
        left[place] = -np.inf
        np.minimum(left, beside[place], out=left)
