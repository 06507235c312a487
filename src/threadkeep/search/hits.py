"""What a search has found, in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from math import inf, isnan
from typing import TYPE_CHECKING, NamedTuple, cast, overload

import numpy as np

from threadkeep.search.scoring import runs
from threadkeep.storage.interface import Namespace

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
        return iter(self[:])

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

    def closest_places(self, count: int) -> list[int]:
        """Return the places of the *count* closest hits, the closest first and of equals the stronger one."""
        self._settle(self._length - 1)
        return np.argsort(-self.closeness[self._rows[: self._length]], kind="stable")[:count].tolist()

    def closeness_at(self, place: int) -> float:
        """Return how close the hit at *place* is, wherever it stands."""
        if self._tied:
            self._settle(place)
        return self.closeness.item(self._rows.item(place))

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
