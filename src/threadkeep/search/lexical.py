"""BM25 over rows of text, kept as rows come and go."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import compress
from math import log1p
from typing import TYPE_CHECKING, Final, cast

import numpy as np

from threadkeep.search.columns import Column

if TYPE_CHECKING:
    from numpy.typing import NDArray

K1: Final = 1.2
"""How soon a repeated word stops counting more. Source: LoCoMo; it hardly matters on short texts."""

B: Final = 0.75
"""How much a long text is held back. Source: LoCoMo and BEAM; .4 loses 10 points where answers are long."""

_SMALLEST_TAIL: Final = 8_192
_LOOKING_AT_ALL: Final = 1_024
"""To look through a tail costs as much as so many postings of it, however short it is."""

_NO_ROWS: Final = np.zeros(0, np.int32)


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """A question and the postings of its terms, gathered so that scoring reads nothing that changes.

    Attributes:
        rows: Row of each posting, ``int32``.
        counts: How often the term stands in that row, ``uint16``.
        weights: The term's inverse document frequency, ``float64``.
        lengths: Terms of every row, ``int32``, shape ``(rows of the index,)``.
        mean_length: Mean of the rows that are there.
        bound: What no text can score more than, for this question.
    """

    rows: NDArray[np.int32]
    counts: NDArray[np.uint16]
    weights: NDArray[np.float64]
    lengths: NDArray[np.int32]
    mean_length: float
    bound: float

    def score(self) -> NDArray[np.float64]:
        """Return BM25 of every row as a share of what is possible, in [0, 1], shape ``(rows,)``.

        The share is BM25 over its upper bound for the question, a constant: the order is BM25's, and
        questions of different lengths can be compared.
        """
        if not len(self.rows) or not self.bound:
            return np.zeros(len(self.lengths))
        counts = self.counts.astype(np.float64)
        held_back = K1 * (1 - B + B * self.lengths[self.rows] / self.mean_length)
        parts = self.weights * counts * (K1 + 1) / (counts + held_back)
        return np.bincount(self.rows, parts, minlength=len(self.lengths)) / self.bound


class Postings:
    """Which rows hold which term, and how often.

    Everything stands in one log ordered by row; most of it is also sorted by term. What was appended
    since then (the tail) is looked through whole, and sorted in when it has grown to a quarter of the
    rest, or when questions have looked through as much as there is to sort: so an append costs amortised
    constant time, a question at most twice the least, and no search sees anything but the truth. A
    removed row leaves the statistics at once and its postings at the next :meth:`keep`; until then
    whoever asks must look past it.

    Args:
        marks: Terms of which it is kept whether a row holds one.
    """

    def __init__(self, marks: frozenset[str] = frozenset()) -> None:
        self._marks = marks
        self._marking = Column(np.bool_)  # of each term: whether it is a mark
        self._marked = Column(np.bool_)
        self._term_ids = _Numbers()
        self._frequencies = Column(np.int32)
        self._lengths = Column(np.int32)
        self._starts = Column(np.int64)  # of each row in the log
        self._log_rows = Column(np.int32)
        self._log_terms = Column(np.int32)
        self._log_counts = Column(np.uint16)
        self._rows = 0
        self._tokens = 0
        self._sorted_to = 0  # place in the log up to which the sorted postings go
        self._sorted_rows: NDArray[np.int32] = np.zeros(0, np.int32)
        self._sorted_counts: NDArray[np.uint16] = np.zeros(0, np.uint16)
        self._offsets: NDArray[np.int64] = np.zeros(1, np.int64)
        self._term_bytes = 0
        self._looked_through = 0  # how many postings of this tail questions have looked through

    @property
    def nbytes(self) -> int:
        """Bytes held: the arrays, and the terms with their numbers."""
        log = (self._log_rows, self._log_terms, self._log_counts)
        columns = (self._frequencies, self._lengths, self._starts, self._marking, self._marked, *log)
        arrays = (self._sorted_rows, self._sorted_counts, self._offsets)
        return sum(one.nbytes for one in (*columns, *arrays)) + sys.getsizeof(self._term_ids) + self._term_bytes

    @property
    def marked(self) -> NDArray[np.bool_]:
        """Which rows hold one of the marks."""
        return self._marked.filled

    @property
    def settled(self) -> bool:
        """Whether the next question sorts nothing in."""
        tail = len(self._log_terms) - self._sorted_to
        return not tail or self._looked_through + _LOOKING_AT_ALL + tail <= len(self._log_terms)

    def extend(self, tokens: Sequence[str], lengths: Sequence[int]) -> None:
        """Append a row for each of *lengths*: the terms of all rows one after the other, and how many each has."""
        known, ids = len(self._term_ids), self._term_ids
        numbers = np.fromiter(map(ids.__getitem__, tokens), np.int64, len(tokens))
        width = max(len(ids), 1)
        rows = np.repeat(np.arange(len(lengths)), lengths)
        pairs, counts = np.unique(rows * width + numbers, return_counts=True)
        terms = pairs % width
        rows = pairs // width
        per_row = np.bincount(rows, minlength=len(lengths))
        self._log_rows.extend(len(self._starts) + rows)
        self._starts.extend(len(self._log_terms) + np.cumsum(per_row) - per_row)
        self._log_terms.extend(terms)
        self._log_counts.extend(np.minimum(counts, np.iinfo(np.uint16).max))
        self._lengths.extend(lengths)
        self._frequencies.extend(np.zeros(len(ids) - known, np.int32))
        new = _latest(ids, known)
        self._marking.extend([term in self._marks for term in new])
        marked = np.zeros(len(lengths), np.bool_)
        marked[rows[self._marking.filled[terms]]] = True
        self._marked.extend(marked)
        if len(terms) < len(ids):
            np.add.at(self._frequencies.filled, terms, 1)
        else:
            self._frequencies.filled[:] += np.bincount(terms, minlength=len(ids)).astype(np.int32)
        self._rows += len(lengths)
        self._tokens += len(tokens)
        # A text costs 49 bytes and its characters, a number 32.
        self._term_bytes += len(new) * 81 + sum(map(len, new))
        if len(self._log_terms) - self._sorted_to > max(_SMALLEST_TAIL, self._sorted_to // 4):
            self._sort()

    def remove(self, rows: Iterable[int]) -> None:
        """Take *rows* out of the statistics, as if they had never been there."""
        frequencies, lengths = self._frequencies.filled, self._lengths.filled
        for row in rows:
            frequencies[self._log_terms.filled[self._span(row)]] -= 1
            self._rows -= 1
            self._tokens -= int(lengths[row])

    def keep(self, kept: NDArray[np.bool_]) -> None:
        """Drop what belongs to other rows than *kept* (a mask over all rows) and number the rest anew."""
        in_log = kept[self._log_rows.filled]
        per_row = np.diff(self._starts.filled, append=len(self._log_terms))[kept]
        used = self._frequencies.filled > 0
        numbers = np.cumsum(used) - 1
        self._log_terms.replace(numbers[self._log_terms.filled[in_log]])
        self._log_counts.replace(self._log_counts.filled[in_log])
        self._frequencies.replace(self._frequencies.filled[used])
        self._marking.replace(self._marking.filled[used])
        self._marked.replace(self._marked.filled[kept])
        self._lengths.replace(self._lengths.filled[kept])
        self._starts.replace(np.cumsum(per_row) - per_row)
        self._log_rows.replace(np.repeat(np.arange(len(per_row)), per_row))
        self._term_ids = _Numbers(zip(compress(self._term_ids, used.tolist()), range(len(used)), strict=False))
        self._term_bytes = sum(81 + len(term) for term in self._term_ids)
        self._sort()

    def question(self, terms: Sequence[str]) -> Question:
        """Gather what scoring *terms* needs; a term counts once, however often it is asked."""
        if tail := len(self._log_terms) - self._sorted_to:
            self._looked_through += _LOOKING_AT_ALL + tail
            if self._looked_through > len(self._log_terms):
                self._sort()
        known = len(self._offsets) - 1  # terms that the sorted postings know
        frequencies, offsets = self._frequencies.filled, self._offsets
        weight_of: dict[int, float] = {}
        rows: list[NDArray[np.int32]] = []
        counts: list[NDArray[np.uint16]] = []
        weights: list[float] = []
        bound = 0.0
        for term in dict.fromkeys(terms):
            number = self._term_ids.get(term)
            frequency = 0 if number is None else int(frequencies[number])
            weight = log1p((self._rows - frequency + 0.5) / (frequency + 0.5))
            bound += weight * (K1 + 1)
            if number is None:
                continue
            weight_of[number] = weight
            if number < known:
                start, end = int(offsets[number]), int(offsets[number + 1])
                rows.append(self._sorted_rows[start:end])
                counts.append(self._sorted_counts[start:end])
                weights.append(weight)
        of_postings = np.array(weights).repeat([len(part) for part in rows]) if rows else np.zeros(0)
        if weight_of and self._sorted_to < len(self._log_terms):
            places, tail_weights = self._in_tail(weight_of)
            rows.append(self._log_rows.filled[places])
            counts.append(self._log_counts.filled[places])
            of_postings = np.concatenate((of_postings, tail_weights))
        return Question(
            rows=np.concatenate(rows) if rows else np.zeros(0, np.int32),
            counts=np.concatenate(counts) if counts else np.zeros(0, np.uint16),
            weights=of_postings,
            lengths=self._lengths.filled,
            mean_length=max(self._tokens, 1) / max(self._rows, 1),
            bound=bound,
        )

    def chosen(self, alternatives: Sequence[Sequence[str]]) -> list[str]:
        """Return the terms to ask for: of each word's *alternatives* those that some row holds, else the first."""
        terms: list[str] = []
        for each in alternatives:
            held = each if len(each) == 1 else [term for term in each if self._is_held(term)]
            terms += held or each[:1]
        return terms

    def holding(self, terms: Sequence[str]) -> NDArray[np.int32]:
        """Return the rows that hold every one of *terms*, ascending; none do where there are no terms."""
        numbers = [self._term_ids.get(term) for term in dict.fromkeys(terms)]
        if not numbers or None in numbers:
            return _NO_ROWS
        found, *others = sorted(map(self._rows_of, cast("list[int]", numbers)), key=len)
        for rows in others:
            found = found[rows.take(rows.searchsorted(found), mode="clip") == found]
        return found

    def _rows_of(self, number: int) -> NDArray[np.int32]:
        """Return the rows that hold the term of this *number*, ascending."""
        known = number < len(self._offsets) - 1
        rows = self._sorted_rows[int(self._offsets[number]) : int(self._offsets[number + 1])] if known else _NO_ROWS
        if self._sorted_to == len(self._log_terms):
            return rows
        in_tail = self._log_terms.filled[self._sorted_to :] == number
        return np.concatenate((rows, self._log_rows.filled[self._sorted_to :][in_tail]))

    def _is_held(self, term: str) -> bool:
        number = self._term_ids.get(term)
        return number is not None and self._frequencies.filled[number] > 0

    def _in_tail(self, weight_of: dict[int, float]) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Return the places in the log after the sorted part that hold one of these terms, and their weights.

        In the order of *weight_of* as in the sorted part: sums in another order differ in the last bit.
        """
        numbers = np.fromiter(weight_of, np.int32, len(weight_of))
        weights = np.fromiter(weight_of.values(), np.float64, len(weight_of))
        ascending = numbers.argsort()
        terms = self._log_terms.filled[self._sorted_to :]
        nearest = ascending[np.minimum(numbers.searchsorted(terms, sorter=ascending), len(numbers) - 1)]
        places = (numbers[nearest] == terms).nonzero()[0]
        asked = nearest[places]
        in_order = asked.argsort(kind="stable")
        return places[in_order] + self._sorted_to, weights[asked[in_order]]

    def _span(self, row: int) -> slice:
        starts = self._starts.filled
        end = starts[row + 1] if row + 1 < len(starts) else len(self._log_terms)
        return slice(int(starts[row]), int(end))

    def _sort(self) -> None:
        """Sort all postings by term; within a term they stay in the order of rows."""
        terms = self._log_terms.filled
        # Place and term in one number: a plain sort of these is five times as fast as a stable one of terms.
        order = np.sort((terms.astype(np.int64) << 32) + np.arange(len(terms))) & 0xFFFFFFFF
        self._sorted_rows = self._log_rows.filled[order]
        self._sorted_counts = self._log_counts.filled[order]
        per_term = np.bincount(terms, minlength=len(self._frequencies))
        self._offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(per_term)))
        self._sorted_to = len(terms)
        self._looked_through = 0


class _Numbers(dict[str, int]):
    """The number of each term; a new one gets the next."""

    def __missing__(self, term: str) -> int:
        number = self[term] = len(self)
        return number


def _latest(ids: dict[str, int], known: int) -> list[str]:
    """Return the terms that were numbered *known* and later, in the order of their numbers."""
    return [term for _, term in zip(range(len(ids) - known), reversed(ids), strict=False)][::-1]
