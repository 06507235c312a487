"""Logistic regressions over the words of sentences, which are hashed into buckets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_STEPS: Final = 12
_INNER_STEPS: Final = 60
_LEAST_LEFT: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Features:
    """The buckets of sentences, as a sparse matrix of ones.

    Attributes:
        columns: The buckets, of one sentence after the other.
        rows: The number of the sentence of each.
        sentences: How many there are.
        size: How many buckets there are.
    """

    columns: NDArray[np.intp]
    rows: NDArray[np.intp]
    sentences: int
    size: int

    @classmethod
    def of(cls, found: Sequence[Collection[int]], size: int, *, least: int = 1) -> Features:
        """Return the buckets of sentences that at least so many of them have."""
        counted = Counter(bucket for each in found for bucket in each)
        kept = [sorted(bucket for bucket in each if counted[bucket] >= least) for each in found]
        rows = np.repeat(np.arange(len(kept)), [len(each) for each in kept])
        return cls(np.array([bucket for each in kept for bucket in each], np.intp), rows, len(kept), size)

    def times(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the sum of the weights of each sentence."""
        return np.bincount(self.rows, weights[self.columns], minlength=self.sentences).astype(np.float64, copy=False)

    def back(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the sum of the values of the sentences that have each bucket."""
        return np.bincount(self.columns, values[self.rows], minlength=self.size).astype(np.float64, copy=False)


@dataclass(frozen=True, slots=True)
class Regression:
    """A logistic regression with a penalty on the squares of its weights.

    Attributes:
        times: Returns the sum of the weights of each example.
        back: Returns the sum of the values of the examples that have each feature.
        labels: Zeros and ones.
        counted: How much each example counts.
        penalty: Of each weight.
    """

    times: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    back: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    labels: NDArray[np.float64]
    counted: NDArray[np.float64]
    penalty: NDArray[np.float64]

    def fit(self) -> NDArray[np.float64]:
        """Return the weights, by Newton's method."""
        weights = np.zeros_like(self.penalty)
        for _ in range(_STEPS):
            expected = 1 / (1 + np.exp(-self.times(weights)))
            gradient = self.back(self.counted * (expected - self.labels)) + self.penalty * weights
            weights -= self._solved(self.counted * expected * (1 - expected), gradient)
        return weights

    def _solved(self, curvature: NDArray[np.float64], gradient: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the step of Newton's method, by conjugate gradients."""
        step, rest = np.zeros_like(gradient), gradient.copy()
        direction, size = rest.copy(), float(rest @ rest)
        for _ in range(_INNER_STEPS):
            if size < _LEAST_LEFT:
                break
            bent = self.back(curvature * self.times(direction)) + self.penalty * direction
            length = size / float(direction @ bent)
            step += length * direction
            rest -= length * bent
            before, size = size, float(rest @ rest)
            direction = rest + size / before * direction
        return step


def encoded(weights: NDArray[np.float64], scale: float) -> bytes:
    """Return *weights* as they are stored: one byte each, so many to one."""
    return np.clip(np.round(weights * scale), -128, 127).astype(np.int8).tobytes()
