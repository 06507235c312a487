"""From the signals of a search to what it has found: the order, the scores and the hits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import inf, isnan, sqrt
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, cast, overload

import numpy as np

from threadkeep.storage.interface import Namespace
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
    aspect: float = 0.3
    previous: float = 0.1
    answer: float = 0.5
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


class Hit(NamedTuple):
    """Where something was found.

    Attributes:
        namespace: Of the item.
        key: Of the item.
        score: Higher is closer. In [0, 1] for ``hybrid`` and ``lexical``; the raw cosine for ``dense``.
        cosine: Of the question and the nearest of the item's texts, in [-1, 1]; ``None`` where either has no vector.
        lexical: BM25 of the best of the item's texts as a share of what is possible for the question, in [0, 1].
        strength: What the order is by; for ``hybrid`` in standard deviations from the partition's mean.
    """

    namespace: Namespace
    key: str
    score: float
    cosine: float | None
    lexical: float
    strength: float


class Hits(Sequence[Hit]):
    """What was found, best first: the strongest, of equals the newest revision, then by namespace and key.

    A block holds a tenth of what is looked at for it, so a hit is made when it is asked for, and names are compared
    when one of those that they decide between is. To its readers this is a tuple.

    No hit's score is higher than one before it: the order is decided by comparison within the partition, how close
    something is is absolute, and where the two disagree the order stands.

    Args:
        names: Namespace and key of every slot of the index.
        slots: Where each row was found; the rows are in order, but for their names.
        strength: What the order is by.
        revisions: Of the items.
        closeness: What the scores are made from.
        cosine: NaN where there is no vector; ``None`` where no item has one.
        lexical: BM25 in [0, 1].
        limit: How many hits there are at most; ``None``: one for each row.

    Attributes:
        strength: As given.
        closeness: As given.
        lexical: As given.
    """

    def __init__(
        self,
        names: Sequence[tuple[Namespace, str]],
        slots: NDArray[np.intp],
        *,
        strength: NDArray[np.float64],
        revisions: NDArray[np.int64],
        closeness: NDArray[np.float64],
        cosine: NDArray[np.float64] | None,
        lexical: NDArray[np.float64],
        limit: int | None,
    ) -> None:
        self.strength = strength
        self.closeness = closeness
        self.lexical = lexical
        self._names = names
        self._slots = slots
        self._revisions = revisions
        self._cosine = cosine
        self._length = len(slots) if limit is None else min(limit, len(slots))
        self._rows = np.arange(len(slots))  # of each place
        self._scores = np.minimum.accumulate(closeness)
        equal = (strength[1:] == strength[:-1]) & (revisions[1:] == revisions[:-1])
        self._tied = runs(equal)[::-1]  # from where to where only names decide, the first one last

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, place: int) -> Hit: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Hit, ...]: ...
    def __getitem__(self, place: int | slice) -> Hit | tuple[Hit, ...]:
        places = range(self._length)[place]
        return self._hits([places])[0] if isinstance(places, int) else tuple(self._hits(places))

    def __iter__(self) -> Iterator[Hit]:
        return iter(self._hits(range(self._length)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Hits | tuple):
            return NotImplemented
        return tuple(self) == tuple(cast("Sequence[object]", other))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __add__(self, other: Sequence[Hit]) -> tuple[Hit, ...]:
        return (*self, *other)

    def __repr__(self) -> str:
        return repr(tuple(self))

    def rescaled(self, carry: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> Hits:
        """Return the same hits in the same order, as close as the cosines that *carry* returns for theirs say."""
        if self._cosine is None:
            return self
        return Hits(
            self._names,
            self._slots,
            strength=self.strength,
            revisions=self._revisions,
            closeness=closeness(carry(self._cosine), self.lexical),
            cosine=self._cosine,
            lexical=self.lexical,
            limit=self._length,
        )

    def closest_places(self, count: int) -> list[int]:
        """Return the places of the *count* closest hits, the closest first and of equals the stronger one."""
        if self._tied:
            self._settle(self._length - 1)
        return np.argsort(-self.closeness[self._rows[: self._length]], kind="stable")[:count].tolist()

    def closeness_at(self, place: int) -> float:
        """Return how close the hit at *place* is, wherever it stands."""
        if self._tied:
            self._settle(place)
        return self.closeness.item(self._rows.item(place))

    def closeness_of(self, first: int) -> NDArray[np.float64]:
        """Return how close each of the *first* so many hits is."""
        if self._tied:
            self._settle(first - 1)
        return self.closeness[self._rows[:first]]

    def lexical_at(self, place: int) -> float:
        """Return the share of BM25 of the hit at *place*; ties are settled by :meth:`closeness_at` before."""
        return self.lexical.item(self._rows.item(place))

    def scores(self, places: Sequence[int]) -> list[float]:
        """Return the scores of the hits at *places*."""
        if self._tied:
            self._settle(max(places, default=-1))
        return list(map(self._scores.item, places))

    def where(self, mask: NDArray[np.bool_]) -> list[int]:
        """Return the places of the hits with rows where *mask* is true, ascending."""
        if self._tied:
            mixed = [start for start, end in self._tied if 0 < np.count_nonzero(mask[start:end]) < end - start]
            self._settle(max(mixed, default=-1))
        return mask[self._rows[: self._length]].nonzero()[0].tolist()

    def slots(self, first: int) -> NDArray[np.intp]:
        """Return where the *first* so many hits stand in the index, or all if there are fewer."""
        first = min(first, self._length)
        if self._tied:
            self._settle(first - 1)
        return self._slots[self._rows[:first]]

    def slots_at(self, places: Sequence[int]) -> list[int]:
        """Return the slots of the hits at *places* in the index."""
        if self._tied:
            self._settle(max(places, default=-1))
        return self._slots[self._rows[list(places)]].tolist()

    def _hits(self, places: Sequence[int]) -> list[Hit]:
        if self._tied:
            self._settle(max(places, default=-1))
        hits: list[Hit] = []
        for place in places:
            row = self._rows.item(place)
            cosine = None if self._cosine is None else self._cosine.item(row)
            hits.append(
                Hit(
                    *self._names[self._slots.item(row)],
                    self._scores.item(place),
                    None if cosine is None or isnan(cosine) else cosine,
                    self.lexical.item(row),
                    self.strength.item(row),
                )
            )
        return hits

    def _settle(self, place: int) -> None:
        """Let names decide among the equals that begin at *place* or before."""
        while self._tied and self._tied[-1][0] <= place:
            start, end = self._tied.pop()
            slots: list[int] = self._slots[start:end].tolist()
            names = [self._names[slot] for slot in slots]
            order = sorted(range(len(names)), key=[key for _, key in names].__getitem__)
            order.sort(key=[namespace for namespace, _ in names].__getitem__)  # one by one: a third of the time
            self._rows[start:end] = [start + one for one in order]
            closeness = self.closeness[start:end].tolist()
            if len(set(closeness)) > 1:
                least = self._scores.item(start - 1) if start else inf
                self._scores[start:end] = list(accumulate((closeness[one] for one in order), min, initial=least))[1:]
