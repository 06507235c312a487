"""An index at one moment: what a search reads, and nothing that changes."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

from threadkeep.recall.rank import Candidates, best, closeness, descending, fuse
from threadkeep.recall.record import Hit, Method

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from threadkeep.recall.lexical import Question
    from threadkeep.storage.port import Namespace

_Scalar = TypeVar("_Scalar", bound=np.generic)

_COSINE_DECIMALS: Final = 6
_FEW: Final = 8
"""Below an eighth of the items, their vectors are gathered before they are multiplied."""


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """An index as it was at one moment, with a question's postings: may be searched in any thread.

    Attributes:
        slots: Which items are looked at; ``None``: every slot.
        question: The terms asked for.
        vectors: Of all texts, rows of unit length or zero; ``None``: nothing to compare with.
        vector: What to compare them with, unit length.
        aspect: The same for the question without its names; ``None``: it has none.
        has_vector: Which rows have one.
        starts: First row of each item.
        revisions: Of each item.
        updated_at: Of each item, seconds since 1970.
        names: Namespace and key of each item.
    """

    slots: NDArray[np.intp] | None
    question: Question
    vectors: NDArray[np.float32] | None
    vector: NDArray[np.float32] | None
    aspect: NDArray[np.float32] | None
    has_vector: NDArray[np.bool_]
    starts: NDArray[np.int64]
    revisions: NDArray[np.int64]
    updated_at: NDArray[np.float64]
    names: list[tuple[Namespace, str]]

    def search(self, method: Method, limit: int | None) -> tuple[Hit, ...]:
        """Return the *limit* best items, best first; all that there are, where there are fewer.

        For ``dense`` the score is the cosine and items without a vector come last with a score of -1;
        for ``lexical`` it is BM25 as a share. Equals are ordered newest revision first, then by
        namespace and key.
        """
        lexical = self._of_items(self.question.score())
        cosine = self._cosines(self.vector) if method != "lexical" else None
        aspect = self._cosines(self.aspect) if method == "hybrid" else None
        candidates = Candidates(cosine, lexical, self._picked(self.updated_at), aspect)
        if method == "hybrid":
            order_by = fuse(candidates)
        elif method == "lexical":
            order_by = lexical
        else:
            order_by = np.full(len(lexical), -1.0) if cosine is None else np.where(np.isnan(cosine), -1.0, cosine)
        revisions = self._picked(self.revisions)
        places = best(order_by, revisions, limit)
        chosen = Candidates(
            cosine[places] if cosine is not None else None, lexical[places], candidates.updated_at[places]
        )
        scores = closeness(chosen) if method == "hybrid" else order_by[places]
        slots = places if self.slots is None else self.slots[places]
        rows = sorted(
            zip(
                (-order_by[places]).tolist(),
                (-revisions[places]).tolist(),
                map(self.names.__getitem__, slots.tolist()),
                scores.tolist(),
                chosen.cosine.tolist() if chosen.cosine is not None else [None] * len(places),
                chosen.lexical.tolist(),
                strict=True,
            )
        )[:limit]
        public = descending(np.array([row[3] for row in rows])).tolist()
        return tuple(
            Hit(namespace, key, score, None if near is None or isnan(near) else near, words)
            for score, (_, _, (namespace, key), _, near, words) in zip(public, rows, strict=True)
        )

    def _picked(self, of_items: NDArray[_Scalar]) -> NDArray[_Scalar]:
        return of_items if self.slots is None else of_items[self.slots]

    def _of_items(self, of_rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Reduce a signal of texts to the items that are looked at: the best text counts."""
        if len(of_rows) != len(self.starts):
            of_rows = np.maximum.reduceat(of_rows, self.starts)
        return self._picked(of_rows)

    def _cosines(self, vector: NDArray[np.float32] | None) -> NDArray[np.float64] | None:
        """Return the cosine of each item that is looked at, NaN without a vector; ``None``: none has one."""
        if self.vectors is None or vector is None:
            return None
        rows = len(self.has_vector)
        if self.slots is not None and len(self.starts) == rows and len(self.slots) * _FEW < rows:
            vectors, has_vector, of_items = self.vectors[self.slots], self.has_vector[self.slots], True
        else:
            vectors, has_vector, of_items = self.vectors, self.has_vector, False
        # Row by row rather than as one matrix product: a product in blocks sums the rows at its ragged
        # end in another order, so that equal vectors differ, and its threads wait for a busy core.
        products: NDArray[np.float32] = np.vecdot(vectors, vector)
        cosines = np.round(products.astype(np.float64), _COSINE_DECIMALS)
        np.minimum(cosines, 1.0, out=cosines)
        if not has_vector.all():
            cosines[~has_vector] = -np.inf
        if not of_items:
            cosines = self._of_items(cosines)
        missing = np.isneginf(cosines)
        if missing.any():
            if missing.all():
                return None
            cosines[missing] = np.nan
        return cosines


def unit(vector: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return *vector* with a length of 1; zero stays zero."""
    length = float(np.linalg.norm(vector))
    return (vector / length if length > 0 else vector).astype(np.float32)
