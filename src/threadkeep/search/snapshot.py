"""An index at one moment: what a search reads, and nothing that changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

from threadkeep.search.features import near_dates, not_the_users, said_by
from threadkeep.search.hits import Hits, Method, Ranking, Subject
from threadkeep.search.scoring import WEIGHTS, Candidates, best, closeness, similarity

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from threadkeep.search.conversations import Neighbours
    from threadkeep.search.lexical import Question
    from threadkeep.search.matrix import Rows
    from threadkeep.search.scoring import Spread
    from threadkeep.storage.port import Namespace
    from threadkeep.text.dates import Span, Yearly

_Scalar = TypeVar("_Scalar", bound=np.generic)

COSINE_DECIMALS: Final = 6
_COSINE_STEPS: Final = 10.0**COSINE_DECIMALS
_FEW: Final = 8
"""Below an eighth of the items, their vectors are gathered before they are multiplied."""


@dataclass(frozen=True, slots=True, eq=False)
class Priors:
    """The columns that a question makes matter beside the texts; ``None`` where it does not.

    Attributes:
        standing: What speaks for each item whatever is asked, its recency included.
        said_at: When each item was said; the question names *dates*.
        dates: Days and months.
        participants: Whether the question names somebody who takes part.
        names: For each other name in the question, the rows that hold all of its words, ascending.
        labels: Who said each item; the question names one participant, *label*.
        label: Their number.
        roles: In which role each item was said; the question is the user's about themselves.
        of_time: Which rows hold a word of time; the question asks when.
        threads: Of which conversation each item is.
        branch: The numbers of the one that is going on and of those that it branched off.
    """

    standing: NDArray[np.float64]
    said_at: NDArray[np.float64] | None = None
    dates: tuple[Span | Yearly, ...] = ()
    participants: bool = False
    names: Sequence[NDArray[np.int32]] = ()
    labels: NDArray[np.int32] | None = None
    label: int = 0
    roles: NDArray[np.int8] | None = None
    of_time: NDArray[np.bool_] | None = None
    threads: NDArray[np.int32] | None = None
    branch: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Far:
    """What an engine has found near a question.

    Attributes:
        cosines: Of each slot with the question, and with the question without its names: NaN where the engine did
            not name it, because others are nearer. ``None``: not asked for.
        spread: Mean and standard deviation of each in the partition, by a sample.
    """

    cosines: tuple[NDArray[np.float64], NDArray[np.float64] | None]
    spread: tuple[Spread, Spread | None]


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """An index as it was at one moment, with a question's postings: may be searched in any thread.

    Attributes:
        slots: Which items are looked at; ``None``: every slot.
        question: The terms asked for.
        vectors: Of all texts; ``None``: nothing to compare with.
        vector: What to compare them with, unit length.
        aspect: The same for the question without its names; ``None``: it has none.
        starts: First row of each item.
        revisions: Of each item.
        neighbours: What was said beside what.
        priors: What else matters.
        names: Namespace and key of each item.
        far: What an engine has found, where the vectors are there; then *vectors* is ``None``.
    """

    slots: NDArray[np.intp] | None
    question: Question
    vectors: Rows | None
    vector: NDArray[np.float32] | None
    aspect: NDArray[np.float32] | None
    starts: NDArray[np.int64]
    revisions: NDArray[np.int64]
    neighbours: Neighbours
    priors: Priors
    names: list[tuple[Namespace, str]]
    far: Far | None = None

    def search(self, method: Method, limit: int | None, *, compared: int = 0) -> Ranking:
        """Return the *limit* best items, best first; all that there are, where there are fewer.

        For ``dense`` the score is the cosine and items without a vector come last with a score of -1;
        for ``lexical`` it is BM25 as a share. Equals are ordered newest revision first, then by
        namespace and key.

        Args:
            method: What is compared.
            limit: How many; ``None``: all.
            compared: So many of the first ones are compared with each other, too.
        """
        lexical = self._of_items(self.question.score())
        named = [self._holding(rows) for rows in self.priors.names] if method == "hybrid" else []
        asked = () if method == "lexical" else (self.vector, self.aspect if method == "hybrid" else None)
        cosine, aspect = self._cosines(*asked) if asked else (None, None)
        if method == "hybrid":
            spread = self.far.spread if self.far is not None else (None, None)
            order_by = self._fused(Candidates(cosine, lexical, aspect, spread), named)
        elif method == "lexical":
            order_by = lexical
        else:
            order_by = np.full(len(lexical), -1.0) if cosine is None else np.where(np.isnan(cosine), -1.0, cosine)
        places = best(order_by, self._picked(self.revisions), limit)
        slots = places if self.slots is None else self.slots[places]
        strength, lexical, cosine = order_by[places], lexical[places], None if cosine is None else cosine[places]
        hits = Hits(
            self.names,
            slots,
            strength=strength,
            revisions=self.revisions[slots],
            closeness=closeness(cosine, lexical) if method == "hybrid" else strength,
            cosine=cosine,
            lexical=lexical,
            limit=limit,
        )
        return Ranking(
            hits,
            subject=self._subject(named) if method == "hybrid" else None,
            closest=float(hits.closeness.max()) if len(places) else 0.0,
            by_words=cosine is None,
            alike=self._alike(hits, compared) if compared else None,
        )

    def _subject(self, named: Sequence[NDArray[np.intp]]) -> Subject | None:
        if self.priors.participants:
            return "participant"
        if not named:
            return None
        if any(map(len, named)):
            return "known"
        return None if self.priors.roles is not None else "unknown"  # of themselves a user may say something new

    def _alike(self, hits: Hits, first: int) -> NDArray[np.float32] | None:
        """Return the cosines of the *first* hits with each other, by the first text of each; ``None``: no vectors."""
        if self.vectors is None:
            return None
        vectors = self.vectors.at(self.starts[hits.slots(first)]).floats()
        return np.vecdot(vectors[:, None], vectors[None])

    def _fused(self, candidates: Candidates, named: Sequence[NDArray[np.intp]]) -> NDArray[np.float64]:
        """Return what to order the items by that are looked at, higher first; *named*: which hold which name."""
        near = similarity(candidates)
        if self.slots is None:
            fused = self.neighbours.smoothed(near)
        else:
            of_all = np.zeros(len(self.names))  # what is not looked at stands at the mean
            of_all[self.slots] = near
            fused = self.neighbours.smoothed(of_all)[self.slots]
        priors = self.priors
        fused += self._picked(priors.standing)
        for places in named:
            fused[places] += WEIGHTS.name / len(named)
        if priors.labels is not None:
            fused += WEIGHTS.speaker * said_by(self._picked(priors.labels), priors.label)
        if priors.roles is not None:
            fused += WEIGHTS.speaker * not_the_users(self._picked(priors.roles))
        if priors.said_at is not None:
            fused += WEIGHTS.date * near_dates(self._picked(priors.said_at), priors.dates)
        if priors.of_time is not None:
            fused += WEIGHTS.when * self._of_items(priors.of_time.astype(np.float64))
        if priors.threads is not None:
            threads = self._picked(priors.threads)
            for one in set(priors.branch):
                fused += WEIGHTS.branch * (threads == one)
        return fused

    def _picked(self, of_items: NDArray[_Scalar]) -> NDArray[_Scalar]:
        return of_items if self.slots is None else of_items[self.slots]

    def _holding(self, rows: NDArray[np.int32]) -> NDArray[np.intp]:
        """Return the places of the items that are looked at and have one of *rows*, which are ascending."""
        slots: NDArray[np.intp] = rows.astype(np.intp)
        if len(self.starts) != len(self.question.lengths):
            slots = np.unique(self.starts.searchsorted(slots, "right") - 1)
        if self.slots is None:
            return slots
        places = self.slots.searchsorted(slots)
        return places[self.slots.take(places, mode="clip") == slots] if len(self.slots) else places[:0]

    def _of_items(self, of_rows: NDArray[_Scalar]) -> NDArray[_Scalar]:
        """Reduce a signal of texts to the items that are looked at: the best text counts."""
        if len(of_rows) != len(self.starts):
            of_rows = np.maximum.reduceat(of_rows, self.starts)
        return self._picked(of_rows)

    def _cosines(
        self, vector: NDArray[np.float32] | None, aspect: NDArray[np.float32] | None
    ) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
        """Return the cosines of each item that is looked at with both, NaN without a vector; ``None``: none has one."""
        if self.far is not None:
            near, others = self.far.cosines
            cosine = self._picked(near)
            return (
                (None, None) if np.isnan(cosine).all() else (cosine, None if others is None else self._picked(others))
            )
        if self.vectors is None or vector is None:
            return None, None
        asked = np.array((vector,) if aspect is None else (vector, aspect))
        vectors, rows = self.vectors, len(self.vectors)
        of_items = self.slots is not None and len(self.starts) == rows and len(self.slots) * _FEW < rows
        if self.slots is not None and of_items:
            vectors = vectors.at(self.slots)
        # What np.round does, and the only passes over all of them that are needed.
        cosines = np.multiply(vectors.products(asked), _COSINE_STEPS, dtype=np.float64)
        np.rint(cosines, out=cosines)
        cosines /= _COSINE_STEPS
        np.minimum(cosines, 1.0, out=cosines)
        missing = np.count_nonzero(vectors.present) < len(vectors)  # a tenth of what all() costs
        if missing:
            cosines[:, ~vectors.present] = -np.inf
        each = [row if of_items else self._of_items(row) for row in cosines]
        if missing:
            without = np.isneginf(each[0])
            if without.all():
                return None, None
            for row in each:
                row[without] = np.nan
        return each[0], each[1] if aspect is not None else None
