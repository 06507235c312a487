"""From the signals of a search to its order and its scores."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan, sqrt
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SAME: Final = 1e-6
"""Cosines are told apart from here on; what spreads less is noise, and is not stretched to a signal."""


@dataclass(frozen=True, slots=True)
class Weights:
    """How much each signal counts, in standard deviations of that signal.

    Attributes:
        dense: Of the cosine.
        lexical: Of BM25.
        aspect: Of the cosine with what the question asks for, its names left out.
        recency: Of being the newest rather than the oldest; so little that it only decides between near-equals.

    Source:
        .6 and .4: best of a grid on LoCoMo, where recall@10 is 66.0 (dense alone 45.4, BM25 alone 61.0,
        reciprocal rank fusion with k = 60 58.2). Aspect: best of a grid on LoCoMo's development half
        and on 1,000 facts; .3 to .4 are alike. Recency: a fiftieth of a deviation, by choice.
    """

    dense: float = 0.6
    lexical: float = 0.4
    aspect: float = 0.3
    recency: float = 0.02


WEIGHTS: Final = Weights()


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """The signals of the items among which is chosen, one element each.

    Attributes:
        cosine: ``float64``, NaN where there is no vector; ``None`` where no item has one.
        lexical: BM25 in [0, 1], ``float64``.
        updated_at: Seconds since 1970, ``float64``.
        aspect: As *cosine*, of the question without its names; ``None`` where it has none.
    """

    cosine: NDArray[np.float64] | None
    lexical: NDArray[np.float64]
    updated_at: NDArray[np.float64]
    aspect: NDArray[np.float64] | None = None


def fuse(candidates: Candidates, weights: Weights = WEIGHTS) -> NDArray[np.float64]:
    """Return what to order *candidates* by, higher first: the weighted sum of the standardised signals.

    An item without a vector stands at the mean of those that have one. With no vector at all the
    order is lexical.
    """
    fused = weights.lexical * standardised(candidates.lexical)
    if candidates.cosine is not None:
        fused += weights.dense * standardised(candidates.cosine)
    if candidates.aspect is not None:
        fused += weights.aspect * standardised(candidates.aspect)
    fused += weights.recency * recency(candidates.updated_at)
    return fused


def standardised(signal: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return *signal* in standard deviations from its mean; what is missing (NaN) stands at the mean."""
    present = signal
    if isnan(signal.sum()):
        present = signal[~np.isnan(signal)]
    if not len(present):
        return np.zeros(len(signal))
    mean = present.sum() / len(present)
    spread = sqrt(np.square(present - mean).sum() / len(present))
    if spread < _SAME:
        return np.zeros(len(signal))
    levels = (signal - mean) / spread
    return levels if present is signal else np.nan_to_num(levels, nan=0.0)


def recency(updated_at: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return 1 for the newest, 0 for the oldest, and between them in proportion to time."""
    if not len(updated_at):
        return np.zeros(0)
    oldest = updated_at.min()
    span = updated_at.max() - oldest
    return (updated_at - oldest) / span if span > 0 else np.zeros(len(updated_at))


def closeness(candidates: Candidates, weights: Weights = WEIGHTS) -> NDArray[np.float64]:
    """Return how close each item is to the question, in [0, 1], whatever else is in the partition."""
    lexical = candidates.lexical
    if candidates.cosine is None:
        return lexical
    dense = np.maximum(candidates.cosine, 0.0)
    both = (weights.dense * dense + weights.lexical * lexical) / (weights.dense + weights.lexical)
    return np.where(np.isnan(dense), lexical, both)


def descending(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the public scores of items in their order: none is higher than one before it.

    The order is decided by comparison within the partition, the closeness is absolute; where the two
    disagree the order stands.
    """
    return np.minimum.accumulate(scores)


def best(scores: NDArray[np.float64], revisions: NDArray[np.int64], limit: int | None) -> NDArray[np.intp]:
    """Return the places of the *limit* highest scores, ties among the last going to the newest revisions.

    In no particular order; items that tie with the last in both are all there, so that the caller,
    who knows their names, can cut.
    """
    if limit is None or limit >= len(scores):
        return np.arange(len(scores))
    if limit <= 0:
        return np.zeros(0, np.intp)
    last = np.partition(scores, len(scores) - limit)[len(scores) - limit]
    above = (scores > last).nonzero()[0]
    tied = (scores == last).nonzero()[0]
    wanted = limit - len(above)
    if len(tied) > wanted:
        newest = revisions[tied]
        oldest_in = np.partition(newest, len(tied) - wanted)[len(tied) - wanted]
        tied = tied[newest >= oldest_in]
    return np.concatenate((above, tied))
