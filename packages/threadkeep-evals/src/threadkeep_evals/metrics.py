"""What the quality figures mean: pure functions on one question's ranking, and their means.

Source:
    LoCoMo's retrieval metric (share of the evidence turns among the first k) and Järvelin & Kekäläinen 2002
    for NDCG, with binary gains.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from statistics import NormalDist, fmean
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

RECALL_DEPTHS: Final = (5, 10, 20)
"""The depths at which recall is reported."""

METRICS: Final = (*(f"recall@{k}" for k in RECALL_DEPTHS), "all@10", "ndcg@10", "any@10")
"""The names of the quality figures."""

ROUNDS: Final = 1_000
"""How often the questions are resampled for an interval."""

CONFIDENCE: Final = 0.95
"""The share of resamples with a mean in the interval."""

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


def any_at(k: int, ranking: Sequence[str], evidence: frozenset[str]) -> float:
    """Return 1.0 when something of *evidence* is among the first *k* of *ranking*, else 0.0."""
    return float(not evidence.isdisjoint(ranking[:k]))


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
    figures["any@10"] = any_at(10, ranking, evidence)
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
    values: Sequence[float],
    *,
    clusters: Sequence[str] | None = None,
    seed: int = 0,
    rounds: int = ROUNDS,
    confidence: float = CONFIDENCE,
) -> tuple[float, float]:
    """Return an interval that holds the mean of *values* with *confidence*, by resampling.

    Args:
        values: One figure for each question; at least one.
        clusters: The conversation of each question, where whole conversations are resampled; ``None``: the questions.
        seed: The same seed gives the same interval.
        rounds: How many resamples; 1,000 steady the second digit.
        confidence: In (0, 1).

    Source:
        The percentile bootstrap: Efron 1979; of clusters: Davison & Hinkley 1997, section 3.8.
    """
    import numpy as np

    sums = np.asarray(values, dtype=np.float64)
    sizes = np.ones(len(sums))
    if clusters is not None:
        _, places = np.unique(np.asarray(clusters), return_inverse=True)
        sums, sizes = np.bincount(places, weights=sums), np.bincount(places).astype(np.float64)
    picks = _picks(len(sums), seed, rounds)
    means = (picks @ sums) / (picks @ sizes)
    tail = (1 - confidence) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low), float(high)


def rounded_interval(values: Sequence[float], *, clusters: Sequence[str] | None = None) -> list[float]:
    """Return the ends of :func:`bootstrap_interval` as they are printed."""
    return [round(end, 4) for end in bootstrap_interval(values, clusters=clusters)]


def share_interval(part: int, whole: int) -> list[float] | None:
    """Return an interval that holds the share *part* / *whole* with :data:`CONFIDENCE`; ``None`` of nothing.

    Also where *part* is nothing or everything, of which resampling knows nothing else.

    Source:
        Wilson 1927, the score interval.
    """
    if whole == 0:
        return None
    z = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)
    share, weight = part / whole, z * z / whole
    middle, reach = share + weight / 2, z * math.sqrt(share * (1 - share) / whole + weight / (4 * whole))
    return [round(max(0.0, (middle - reach) / (1 + weight)), 4), round(min(1.0, (middle + reach) / (1 + weight)), 4)]


def told_interval(ends: Sequence[float] | None) -> str:
    """Return an interval of shares for people."""
    return "–" if ends is None else f"{ends[0]:.1%} – {ends[1]:.1%}"


@lru_cache(maxsize=8)
def _picks(size: int, seed: int, rounds: int) -> NDArray[np.float64]:
    """Return how often each of *size* is drawn in each round, with replacement; shape ``(rounds, size)``."""
    import numpy as np

    return np.random.default_rng(seed).multinomial(size, np.full(size, 1 / size), size=rounds).astype(np.float64)
