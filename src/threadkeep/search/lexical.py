"""BM25 over rows of text, kept as rows come and go."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from math import log1p
from typing import TYPE_CHECKING, Final, cast

import numpy as np

from threadkeep.search.vectors import Column, total_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

K1: Final = 1.2
"""How soon a repeated word stops counting more. Source: LoCoMo; it hardly matters on short texts."""

B: Final = 0.75
"""How much a long text is held back. Source: LoCoMo and BEAM; .4 loses 10 points where answers are long."""

_ALWAYS_SORTED: Final = 16_384
"""Up to so many postings, all of them are sorted after every change: that takes less than a millisecond."""

_LONGEST_TAIL: Final = 1_024
"""Beyond that, at least so many postings, and a sixteenth of all, may stay unsorted; each query scans them."""

_NO_ROWS: Final = np.zeros(0, np.int32)


@dataclass(frozen=True, slots=True, eq=False)
class QueryPostings:
    """The postings of a query's terms.

    Attributes:
        rows: Row of each posting, ``int32``.
        counts: How often the term stands in that row, ``uint16``.
        weights: The term's inverse document frequency, ``float64``.
        lengths: Terms of every row, ``int32``, shape ``(rows of the index,)``.
        mean_length: Mean of the rows that are there.
        bound: The highest score that any text can have for this query.
    """

    rows: NDArray[np.int32]
    counts: NDArray[np.uint16]
    weights: NDArray[np.float64]
    lengths: NDArray[np.int32]
    mean_length: float
    bound: float

    def score(self) -> NDArray[np.float64]:
        """Return BM25 of every row as a share of its upper bound, in [0, 1], shape ``(rows,)``.

        The upper bound is a constant of the query: the order is BM25's, and different queries are comparable.
        """
        if not len(self.rows) or not self.bound:
            return np.zeros(len(self.lengths))
        counts = self.counts.astype(np.float64)
        held_back = K1 * (1 - B + B * self.lengths[self.rows] / self.mean_length)
        parts = self.weights * counts * (K1 + 1) / (counts + held_back)
        return np.bincount(self.rows, parts, minlength=len(self.lengths)) / self.bound


@dataclass(frozen=True, slots=True, eq=False)
class PostingsSnapshot:
    """The postings of an index at one moment; safe to read from any thread.

    Attributes:
        marked: Which rows hold one of the marks, ``bool``, shape ``(rows,)``.
    """

    marked: NDArray[np.bool_]
    _term_ids: Mapping[str, int]  # shared with the writer, which only adds to it
    _frequencies: NDArray[np.int32]
    _lengths: NDArray[np.int32]
    _rows: int
    _tokens: int
    _sorted_rows: NDArray[np.int32]
    _sorted_counts: NDArray[np.uint16]
    _offsets: NDArray[np.int64]
    _tail_rows: NDArray[np.int32]
    _tail_terms: NDArray[np.int32]
    _tail_counts: NDArray[np.uint16]

    def query(self, alternatives: Sequence[Sequence[str]]) -> QueryPostings:
        """Gather the postings of the terms that a query's words stand for; each term counts once.

        Args:
            alternatives: For each word, the terms that it may stand for. Those that occur count, or else the first.
        """
        known = len(self._offsets) - 1  # terms that the sorted postings know
        weight_of: dict[int, float] = {}
        starts: list[int] = []
        ends: list[int] = []
        weights: list[float] = []
        bound = 0.0
        for term in dict.fromkeys(self._chosen(alternatives)):
            number = self._number(term)
            frequency = 0 if number is None else self._frequencies.item(number)
            weight = log1p((self._rows - frequency + 0.5) / (frequency + 0.5))
            bound += weight * (K1 + 1)
            if number is None:
                continue
            weight_of[number] = weight
            if number < known:
                starts.append(self._offsets.item(number))
                ends.append(self._offsets.item(number + 1))
                weights.append(weight)
        rows = [self._sorted_rows[start:end] for start, end in zip(starts, ends, strict=True)]
        counts = [self._sorted_counts[start:end] for start, end in zip(starts, ends, strict=True)]
        of_postings = np.array(weights).repeat(list(map(len, rows))) if rows else np.zeros(0)
        if weight_of and len(self._tail_terms):
            places, tail_weights = self._in_tail(weight_of)
            rows.append(self._tail_rows[places])
            counts.append(self._tail_counts[places])
            of_postings = np.concatenate((of_postings, tail_weights))
        return QueryPostings(
            rows=np.concatenate(rows) if rows else _NO_ROWS,
            counts=np.concatenate(counts) if counts else np.zeros(0, np.uint16),
            weights=of_postings,
            lengths=self._lengths,
            mean_length=max(self._tokens, 1) / max(self._rows, 1),
            bound=bound,
        )

    def holding(self, terms: Sequence[str]) -> NDArray[np.int32]:
        """Return the rows that hold every one of *terms*, ascending; none if there are no terms."""
        numbers = [self._number(term) for term in dict.fromkeys(terms)]
        if not numbers or None in numbers:
            return _NO_ROWS
        result, *others = sorted(map(self._rows_of, cast("list[int]", numbers)), key=len)
        for rows in others:
            result = result[rows.take(rows.searchsorted(result), mode="clip") == result]
        return result

    def _number(self, term: str) -> int | None:
        """Return the number of *term*; ``None`` if it was not known when the snapshot was taken."""
        number = self._term_ids.get(term)
        return number if number is not None and number < len(self._frequencies) else None

    def _chosen(self, alternatives: Sequence[Sequence[str]]) -> list[str]:
        terms: list[str] = []
        for each in alternatives:
            if len(each) == 1:
                terms += each
            else:
                occurring = [
                    term
                    for term in each
                    if (number := self._number(term)) is not None and self._frequencies[number] > 0
                ]
                terms += occurring or each[:1]
        return terms

    def _rows_of(self, number: int) -> NDArray[np.int32]:
        """Return the rows that hold the term of this *number*, ascending."""
        known = number < len(self._offsets) - 1
        rows = self._sorted_rows[self._offsets.item(number) : self._offsets.item(number + 1)] if known else _NO_ROWS
        return np.concatenate((rows, self._tail_rows[self._tail_terms == number])) if len(self._tail_terms) else rows

    def _in_tail(self, weight_of: dict[int, float]) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Return the places in the tail that hold one of these terms, and their weights.

        In the order of *weight_of* as in the sorted part: sums in another order differ in the last bit.
        """
        numbers = np.fromiter(weight_of, np.int32, len(weight_of))
        weights = np.fromiter(weight_of.values(), np.float64, len(weight_of))
        ascending = numbers.argsort()
        nearest = ascending[np.minimum(numbers.searchsorted(self._tail_terms, sorter=ascending), len(numbers) - 1)]
        places = (numbers[nearest] == self._tail_terms).nonzero()[0]
        terms = nearest[places]
        in_order = terms.argsort(kind="stable")
        return places[in_order], weights[terms[in_order]]


class Postings:
    """Which rows hold which term, and how often; one writer at a time.

    All postings stand in one log ordered by row, and most of them also in one sorted by term. Queries scan
    the rest (the tail), which stays short against the whole, so an append costs amortized constant time.
    A removed row leaves the statistics at once and its postings at the next :meth:`keep`; until then
    the caller must skip it.

    Args:
        marks: Terms for which the index records whether a row holds one.
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

    @property
    def nbytes(self) -> int:
        """Bytes held: the arrays, and the terms with their numbers."""
        log = (self._log_rows, self._log_terms, self._log_counts)
        columns = (self._frequencies, self._lengths, self._starts, self._marking, self._marked, *log)
        arrays = (self._sorted_rows, self._sorted_counts, self._offsets)
        return total_bytes((*columns, *arrays)) + sys.getsizeof(self._term_ids) + self._term_bytes

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

    def snapshot(self) -> PostingsSnapshot:
        """Return what queries read, as of now; later changes do not show in it."""
        tail = len(self._log_terms) - self._sorted_to
        if tail and (len(self._log_terms) <= _ALWAYS_SORTED or tail > max(_LONGEST_TAIL, len(self._log_terms) // 16)):
            self._sort()
        tail_from = self._sorted_to
        return PostingsSnapshot(
            marked=self._marked.filled,
            _term_ids=self._term_ids,
            _frequencies=self._frequencies.filled.copy(),
            _lengths=self._lengths.filled,
            _rows=self._rows,
            _tokens=self._tokens,
            _sorted_rows=self._sorted_rows,
            _sorted_counts=self._sorted_counts,
            _offsets=self._offsets,
            _tail_rows=self._log_rows.filled[tail_from:],
            _tail_terms=self._log_terms.filled[tail_from:],
            _tail_counts=self._log_counts.filled[tail_from:],
        )

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


class _Numbers(dict[str, int]):
    """The number of each term; a new one gets the next."""

    def __missing__(self, term: str) -> int:
        number = self[term] = len(self)
        return number


def _latest(ids: dict[str, int], known: int) -> list[str]:
    """Return the terms that were numbered *known* and later, in the order of their numbers."""
    return [term for _, term in zip(range(len(ids) - known), reversed(ids), strict=False)][::-1]
