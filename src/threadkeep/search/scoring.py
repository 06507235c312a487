"""From the signals of a search to its order and its scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan, sqrt
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from threadkeep.text.dates import Span, Yearly

if TYPE_CHECKING:
    from numpy.typing import NDArray

OTHER: Final = 0
USER: Final = 1
ASSISTANT: Final = 2
TOOL: Final = 3
DOCUMENT: Final = 4
ROLES: Final = 5

Spread: TypeAlias = tuple[float, float]
"""A mean and a standard deviation."""

_DAY_SECONDS: Final = 86_400.0
_YEAR_DAYS: Final = 365.2425

_HELD_BACK: Final = np.zeros(ROLES)
_HELD_BACK[[ASSISTANT, TOOL, DOCUMENT]] = -1.0
_NEAR_A_DAY: Final = ((21, 0.25), (7, 0.6), (1, 1.0))
_NEAR_A_MONTH: Final = ((14, 0.25), (0, 1.0))

_ROUGHLY: Final = 7
"""A period that is so many times as long as the question's says little of when."""

OF_ANOTHER_DAY: Final = 0.75
"""What was said on the day of the question and tells of another day counts so much less.

Source:
    LoCoMo: dated questions find 94 % of the evidence among ten with .75 and with 1, 92 % with .5.
"""

_SAME: Final = 1e-6
"""Cosines are told apart from here on; what spreads less is noise, and is not stretched to a signal."""


@dataclass(frozen=True, slots=True)
class Weights:
    """How much each signal counts.

    What compares texts is summed first and brought to a standard deviation of 1 (the *similarity*),
    so that one set of weights serves with an embedder and without. The other weights are shares of
    another item's similarity, or standard deviations of it.

    Attributes:
        dense: Of the cosine with the question, participants' names left out.
        lexical: Of BM25.
        aspect: Of the cosine with the question without any names.
        previous: Share of what was said just before in the same session.
        answer: Further share of it, where it asked something and this is the user's answer.
        next: Share of what was said just after.
        second: Share of what was said two before, and two after.
        session: How far an item moves towards the best of its session.
        name: Of holding all words of a name in the question, other than those of who takes part.
        speaker: Of being said by the one person whom the question names, or, where the question is
            the user's about themselves, of not being said by the assistant, a tool or a document.
        date: Of being from the time that the question names.
        when: Of holding a word of time, where the question asks when or how long.
        branch: Of being from the thread that is going on.
        trust: Of being said by the user rather than the assistant.
        pinned: Of being pinned.
        recency: Of being the newest rather than the oldest. It, *trust* and *branch* decide between near-equals.

    Source:
        ``docs/recall.md`` and decision record 0021: a coordinate search over five conversations of
        LoCoMo and eight chats of BEAM-100K, each left out in turn; the values are rounded to where
        the folds agree, and each may move by a quarter without moving recall@10 by half a point.
        *name* was found on 10,000 generated facts about some hundreds of people, where it is worth half
        a point (four without an embedder); on the other two it changes nothing. The last four are by
        choice.
    """

    dense: float = 0.6
    lexical: float = 0.35
    aspect: float = 0.2
    previous: float = 0.1
    answer: float = 0.4
    next: float = 0.25
    second: float = 0.1
    session: float = 0.3
    name: float = 1.0
    speaker: float = 2.2
    date: float = 4.0
    when: float = 1.7
    branch: float = 0.05
    trust: float = 0.05
    pinned: float = 0.1
    recency: float = 0.02


WEIGHTS: Final = Weights()


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """What compares the question with the texts of the items among which is chosen, one element each.

    Attributes:
        cosine: ``float64``, NaN where there is no vector; ``None`` where no item has one.
        lexical: BM25 in [0, 1], ``float64``.
        aspect: As *cosine*, of the question without its names; ``None`` where it has none.
        spread: Mean and standard deviation of *cosine* and of *aspect* in the partition, where only the nearest items
            have one; ``None``: they are those of the elements.
    """

    cosine: NDArray[np.float64] | None
    lexical: NDArray[np.float64]
    aspect: NDArray[np.float64] | None = None
    spread: tuple[Spread | None, Spread | None] = (None, None)


def similarity(candidates: Candidates, weights: Weights = WEIGHTS) -> NDArray[np.float64]:
    """Return how like the question each item is, in standard deviations from the mean of all.

    It is the weighted sum of the standardised signals, standardised itself. An item without a vector
    stands at the mean of those that have one. With no vector at all the order is lexical.

    Source:
        On LoCoMo the sum of standard scores finds 66.0 % within ten, reciprocal rank fusion with
        k = 60 58.2, BM25 alone 61.0.
    """
    fused = standardised(candidates.lexical, weights.lexical)
    if candidates.cosine is not None:
        fused += standardised(candidates.cosine, weights.dense, candidates.spread[0])
    if candidates.aspect is not None:
        fused += standardised(candidates.aspect, weights.aspect, candidates.spread[1])
    return standardised(fused)


def standardised(signal: NDArray[np.float64], weight: float = 1.0, spread: Spread | None = None) -> NDArray[np.float64]:
    """Return *signal* in standard deviations from its mean, times *weight*; what is missing (NaN) stands there.

    Args:
        signal: One element an item.
        weight: What a standard deviation is worth.
        spread: The mean and the standard deviation, where they are not those of the elements.
    """
    if spread is not None:
        mean, deviation = spread
        return np.nan_to_num((signal - mean) * (weight / max(deviation, _SAME)), copy=False, nan=0.0)
    total = float(np.add.reduce(signal))
    present = signal
    if isnan(total):
        present = signal[~np.isnan(signal)]
        total = float(np.add.reduce(present))
    if not len(present):
        return np.zeros(len(signal))
    mean = total / len(present)
    # No product of vectors: from 10,000 elements on it takes threads, and waits for a busy core.
    variance = float(np.einsum("i,i", present, present)) / len(present) - mean * mean
    if variance < _SAME * _SAME:
        return np.zeros(len(signal))
    scale = weight / sqrt(variance)
    levels = signal * scale
    levels -= mean * scale
    return levels if present is signal else np.nan_to_num(levels, copy=False, nan=0.0)


def recency(updated_at: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return 1 for the newest, 0 for the oldest, and between them in proportion to time."""
    if not len(updated_at):
        return np.zeros(0)
    oldest = updated_at.min()
    span = updated_at.max() - oldest
    return (updated_at - oldest) / span if span > 0 else np.zeros(len(updated_at))


def said_by(labels: NDArray[np.int32], label: int) -> NDArray[np.float64]:
    """Return 1 for what the one person whom a question names has said.

    Source:
        LoCoMo: 3.7 points of recall@10 where the question is about what that person said, minus 6
        on questions that swap the speakers on purpose. Hence the moderate weight.
    """
    return (labels == label).astype(np.float64)


def penalty_for_others(roles: NDArray[np.int8]) -> NDArray[np.float64]:
    """Return -1 for what the assistant, a tool or a document said: a question about oneself asks for one's own words.

    Source:
        BEAM-100K: 77 % of the evidence are the user's messages, and the long answers swamp them; 8 points of recall@10.
    """
    return _HELD_BACK[roles]


def near_dates(said_at: NDArray[np.float64], dates: Sequence[Span | Yearly]) -> NDArray[np.float64]:
    """Return how near the day on which something was said is to one that the question names, in [0, 1].

    A day: 1 on it and beside it, .6 within a week, .25 within three. A month: 1 within it, .25 within
    two weeks of it.

    Source:
        LoCoMo, where a quarter of the questions name a date: 7 points of recall@10 on the temporal ones.
    """
    days = np.floor(said_at / _DAY_SECONDS)
    nearest = np.zeros(len(said_at))
    if not len(days):
        return nearest
    first, last = (1970 + int(day // _YEAR_DAYS) for day in (days.min(), days.max()))
    years = range(first, last + 1)  # a day more or less at the turn of the year does not matter
    for span in (span for date in dates for span in (date.spans(years) if isinstance(date, Yearly) else (date,))):
        away = np.maximum(np.maximum(span.first - days, days - span.last), 0.0)
        for within, worth in _NEAR_A_DAY if span.is_day else _NEAR_A_MONTH:
            np.maximum(nearest, span.certainty * worth, out=nearest, where=away <= within)
    return nearest


def near_events(
    first: NDArray[np.float32], last: NDArray[np.float32], dates: Sequence[Span | Yearly]
) -> NDArray[np.float64]:
    """Return how well the period that something tells of fits one that the question names, in [0, 1].

    1 where they meet; half of it where the period is a month and the question names a day, or a year and it names less.

    Args:
        first: The first day of the period, days since 1970; NaN: none.
        last: The last one.
        dates: The question's.
    """
    nearest = np.zeros(len(first))
    told = np.flatnonzero(~np.isnan(first))
    if not len(told):
        return nearest
    begins, ends = first[told].astype(np.float64), last[told].astype(np.float64)
    years = range(1970 + int(begins.min() // _YEAR_DAYS), 1971 + int(ends.max() // _YEAR_DAYS))
    length = ends - begins
    found = np.zeros(len(told))
    for span in (span for date in dates for span in (date.spans(years) if isinstance(date, Yearly) else (date,))):
        meets = (begins <= span.last) & (ends >= span.first)
        rough = length > _ROUGHLY * (span.last - span.first + 1)
        np.maximum(found, span.certainty * np.where(rough, 0.5, 1.0), out=found, where=meets)
    nearest[told] = found
    return nearest


def closeness(
    cosine: NDArray[np.float64] | None, lexical: NDArray[np.float64], weights: Weights = WEIGHTS
) -> NDArray[np.float64]:
    """Return how close each item is to the question, in [0, 1], whatever else is in the partition.

    Args:
        cosine: Of each item and the question; NaN where there is no vector, ``None`` where no item has one.
        lexical: BM25 in [0, 1].
        weights: Of the two.
    """
    if cosine is None:
        return lexical
    both = weights.dense * np.maximum(cosine, 0.0) + weights.lexical * lexical
    return np.where(np.isnan(cosine), lexical, both / (weights.dense + weights.lexical))


def best(scores: NDArray[np.float64], revisions: NDArray[np.int64], limit: int | None) -> NDArray[np.intp]:
    """Return the places of the *limit* highest scores, best first, and of equals those of the newest revisions.

    Items that tie with the last in both are all there, so that the caller, who knows their names, can cut.
    """
    places = _select_best(scores, revisions, limit)
    return places[np.lexsort((-revisions[places], -scores[places]))]


def runs(equal: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return where runs of equals begin and end; *equal*: whether each but the first is like the one before it."""
    if not np.count_nonzero(equal):
        return []
    edges: list[int] = ((equal[1:] != equal[:-1]).nonzero()[0] + 1).tolist()
    edges = [0] * bool(equal[0]) + edges + [len(equal)] * bool(equal[-1])
    return [(start, end + 1) for start, end in zip(edges[::2], edges[1::2], strict=True)]


def _select_best(scores: NDArray[np.float64], revisions: NDArray[np.int64], limit: int | None) -> NDArray[np.intp]:
    if limit is None or limit >= len(scores):
        return np.arange(len(scores))
    if limit <= 0:
        return np.zeros(0, np.intp)
    last = np.partition(scores, len(scores) - limit)[len(scores) - limit]
    found = (scores >= last).nonzero()[0]
    if len(found) == limit:
        return found
    is_tied = scores[found] == last
    above, tied = found[~is_tied], found[is_tied]
    wanted = limit - len(above)
    newest = revisions[tied]
    oldest_in = np.partition(newest, len(tied) - wanted)[len(tied) - wanted]
    return np.concatenate((above, tied[newest >= oldest_in]))
