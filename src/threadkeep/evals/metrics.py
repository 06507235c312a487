"""What the quality figures mean: pure functions on one question's ranking, and their means.

Source:
    LoCoMo's retrieval metric (share of the evidence turns among the first k) and Järvelin & Kekäläinen 2002
    for NDCG, with binary gains.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Final

RECALL_DEPTHS: Final = (5, 10, 20)
"""The depths at which recall is reported."""

METRICS: Final = (*(f"recall@{k}" for k in RECALL_DEPTHS), "all@10", "ndcg@10")
"""The names of the quality figures, in the order in which they are printed."""

CATEGORY_GROUPS: Final[Mapping[str, frozenset[int | str]]] = {
    "1-4": frozenset({1, 2, 3, 4}),
    "1-5": frozenset({1, 2, 3, 4, 5}),
    "1": frozenset({1}),
    "2": frozenset({2}),
    "3": frozenset({3}),
    "4": frozenset({4}),
    "5": frozenset({5}),
}
"""The groups of LoCoMo's question categories that are reported; ``1-4`` leaves the adversarial ones out."""


def recall_at(k: int, ranking: Sequence[str], evidence: frozenset[str]) -> float:
    """Return the share of *evidence* among the first *k* of *ranking*, in [0, 1].

    A ranking never counts an id twice. *evidence* must not be empty: a question without evidence
    has no recall, and the caller leaves it out.
    """
    return len(evidence.intersection(ranking[:k])) / len(evidence)


def all_at(k: int, ranking: Sequence[str], evidence: frozenset[str]) -> float:
    """Return 1.0 when everything in *evidence* is among the first *k* of *ranking*, else 0.0."""
    return float(evidence.issubset(ranking[:k]))


def ndcg_at(k: int, ranking: Sequence[str], evidence: frozenset[str]) -> float:
    """Return the normalised discounted cumulative gain of the first *k*, with gain 1 for evidence and 0 else."""
    gained = sum(1 / math.log2(rank + 1) for rank, key in enumerate(ranking[:k], start=1) if key in evidence)
    ideal = sum(1 / math.log2(rank + 1) for rank in range(1, min(k, len(evidence)) + 1))
    return gained / ideal


def first_seen(keys: Iterable[str]) -> tuple[str, ...]:
    """Return *keys* in order, each only where it is first met.

    Applied to the sessions of a ranking of turns, best first, it ranks sessions by their best turn.
    """
    return tuple(dict.fromkeys(keys))


def score(ranking: Sequence[str], evidence: frozenset[str]) -> dict[str, float]:
    """Return every figure of :data:`METRICS` for one question."""
    figures = {f"recall@{k}": recall_at(k, ranking, evidence) for k in RECALL_DEPTHS}
    figures["all@10"] = all_at(10, ranking, evidence)
    figures["ndcg@10"] = ndcg_at(10, ranking, evidence)
    return figures


def mean_scores(scores: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of each figure over questions; *scores* must not be empty."""
    return {name: fmean(one[name] for one in scores) for name in METRICS}


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which *share* of *values* lies, interpolating between neighbours.

    Args:
        values: One or more, in any order.
        share: In [0, 1]; 0.5 is the median.
    """
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def bootstrap_interval(
    values: Sequence[float], *, seed: int = 0, rounds: int = 1000, confidence: float = 0.95
) -> tuple[float, float]:
    """Return an interval that holds the mean of *values* with *confidence*, by resampling the questions.

    Args:
        values: One figure for each question; at least one.
        seed: The same seed gives the same interval.
        rounds: How many resamples; 1,000 steady the second digit.
        confidence: In (0, 1).

    Source:
        The percentile bootstrap: Efron 1979.
    """
    import numpy as np

    sample = np.asarray(values, dtype=np.float64)
    picks = np.random.default_rng(seed).integers(0, len(sample), size=(rounds, len(sample)))
    means = sample[picks].mean(axis=1)
    tail = (1 - confidence) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low), float(high)
