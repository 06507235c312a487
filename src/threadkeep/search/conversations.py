"""What was said beside what: the order of conversations, kept as items come and go."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from threadkeep.search.columns import Column
from threadkeep.search.features import USER
from threadkeep.search.scoring import WEIGHTS, Weights, runs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from threadkeep.search.features import Traits
    from threadkeep.storage.port import Namespace


SESSION_GAP_SECONDS: Final = 6 * 3600.0
"""After so long a silence a thread goes on as another session. In LoCoMo, sessions are days apart."""

_FEW: Final = 512
"""So many new items are put into their places; more are sorted with all others."""


@dataclass(frozen=True, slots=True, eq=False)
class Said:
    """Columns of an index, one element for each slot.

    Attributes:
        threads: Number of the conversation; -1: none.
        said_at: Seconds since 1970.
        revisions: Of the item.
        roles: See :mod:`threadkeep.search.features`.
        asks: Whether it ends in a question.
        names: Namespace and key.
    """

    threads: NDArray[np.int32]
    said_at: NDArray[np.float64]
    revisions: NDArray[np.int64]
    roles: NDArray[np.int8]
    asks: NDArray[np.bool_]
    names: Sequence[tuple[Namespace, str]]


@dataclass(frozen=True, slots=True, eq=False)
class Neighbours:
    """The items of conversations in the order in which they were said, session by session.

    Attributes:
        order: Their slots.
        starts: Where in *order* each session begins.
        lengths: How many items each session has.
        previous: Of each item in *order*, the share of the item before it that counts for it.
        second: The same of the item two before; it is as much of the item two after, for that one.
        follows: 1 where an item is of the same session as the one before it.
    """

    order: NDArray[np.intp]
    starts: NDArray[np.intp]
    lengths: NDArray[np.intp]
    previous: NDArray[np.float64]
    follows: NDArray[np.float64]
    second: NDArray[np.float64]

    def smoothed(self, similarity: NDArray[np.float64], weights: Weights = WEIGHTS) -> NDArray[np.float64]:
        """Return *similarity* (one element for each slot) with what was said beside each item counted in.

        An item gains shares of its neighbours', of what it answers more, and moves towards the best
        of its session. An item of no conversation is a session of its own.

        Source:
            LoCoMo: neighbours and session are worth 6 points of recall@10, and an answer's question
            another point (2.6 of NDCG), with no text embedded twice.
        """
        smoothed = (1 + weights.session) * similarity
        if not len(self.order):
            return smoothed
        own = similarity[self.order]
        gained = np.repeat(np.maximum.reduceat(own, self.starts), self.lengths)
        gained -= own
        gained *= weights.session
        gained[1:] += self.previous[1:] * own[:-1]
        gained[:-1] += weights.next * self.follows[1:] * own[1:]
        gained[2:] += self.second[2:] * own[:-2]
        gained[:-2] += self.second[2:] * own[2:]
        smoothed[self.order] += gained
        return smoothed


_NO_SLOTS: Final = np.zeros(0, np.intp)
_NO_SHARES: Final = np.zeros(0, np.float64)
NOBODY: Final = Neighbours(_NO_SLOTS, _NO_SLOTS, _NO_SLOTS, _NO_SHARES, _NO_SHARES, _NO_SHARES)


def ordered(said: Said, alive: NDArray[np.bool_], known: NDArray[np.intp], fresh: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the slots of conversations in their order: by thread, time, revision, and name.

    Args:
        said: The columns.
        alive: Which slots are there.
        known: The order before, which may hold slots that are there no more.
        fresh: Slots that are not in it.
    """
    fresh = fresh[alive[fresh] & (said.threads[fresh] >= 0)]
    known = known[alive[known]]
    if not len(fresh):
        return known
    if len(fresh) > min(_FEW, len(known)):
        return _sorted(said, np.concatenate((known, fresh)))
    fresh = _sorted(said, fresh)
    threads, said_at = said.threads[known], said.said_at[known]
    places: list[int] = []
    for slot in fresh.tolist():
        start, end = (
            np.searchsorted(threads, said.threads[slot], "left"),
            np.searchsorted(threads, said.threads[slot], "right"),
        )
        moment = said.said_at[slot]
        place = int(start + np.searchsorted(said_at[start:end], moment, "left"))
        while place < end and said_at[place] == moment and _rank(said, int(known[place])) < _rank(said, slot):
            place += 1
        places.append(place)
    return np.insert(known, places, fresh)


def neighbours(said: Said, order: NDArray[np.intp], weights: Weights = WEIGHTS) -> Neighbours:
    """Tell where sessions begin in *order*, and what follows what."""
    if not len(order):
        return NOBODY
    threads, said_at = said.threads[order], said.said_at[order]
    follows = np.zeros(len(order), np.bool_)
    follows[1:] = (threads[1:] == threads[:-1]) & (said_at[1:] - said_at[:-1] <= SESSION_GAP_SECONDS)
    starts = np.flatnonzero(~follows)
    answers = np.zeros(len(order), np.bool_)
    answers[1:] = said.asks[order[:-1]] & (said.roles[order[1:]] == USER)
    second = np.zeros(len(order), np.bool_)
    second[2:] = follows[2:] & follows[1:-1]
    return Neighbours(
        order=order,
        starts=starts,
        lengths=np.diff(starts, append=len(order)),
        previous=np.where(follows, np.where(answers, weights.previous + weights.answer, weights.previous), 0.0),
        follows=follows.astype(np.float64),
        second=np.where(second, weights.second, 0.0),
    )


def _sorted(said: Said, slots: NDArray[np.intp]) -> NDArray[np.intp]:
    columns = (said.revisions[slots], said.said_at[slots], said.threads[slots])
    by = np.lexsort(columns)
    order = slots[by]
    tied = np.ones(max(len(order) - 1, 0), np.bool_)  # with the one before
    for column in columns:
        in_order = column[by]
        tied &= in_order[1:] == in_order[:-1]
    if not tied.any():
        return order
    # What was learnt from one message stands in the order of its names, however it came here.
    place = order.tolist()
    for start, end in runs(tied):
        place[start:end] = sorted(place[start:end], key=said.names.__getitem__)
    return np.array(place, np.intp)


def _rank(said: Said, slot: int) -> tuple[int, tuple[Namespace, str]]:
    return int(said.revisions[slot]), said.names[slot]


NONE: Final = -1

_A_PARTICIPANT_SAYS: Final = 3
"""From so many statements on a name that texts begin with is somebody who takes part, rather than a heading."""

_NAME_BYTES: Final = 120


class Conversations:
    """Columns of traits, one element for each slot of an index, and what follows from them.

    They are appended to and dropped from together with the index's own; what follows from them is
    worked out when it is next asked for, from what has changed.
    """

    def __init__(self) -> None:
        self.said_at = Column(np.float64)
        self.roles = Column(np.int8)
        self.labels = Column(np.int32)  # number of the name that the text begins with
        self.threads = Column(np.int32)  # number of the conversation
        self.standing = Column(np.float32)  # what speaks for an item whatever is asked
        self._asks = Column(np.bool_)
        self._thread_numbers: dict[str, int] = {}
        self._label_numbers: dict[str, int] = {}
        self._said_by: list[int] = []  # how many items each label has
        self._participants: tuple[str, ...] | None = ()
        self._order: NDArray[np.intp] = np.zeros(0, np.intp)
        self._ordered_to = 0  # slot up to which the order goes
        self._neighbours: Neighbours | None = NOBODY

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        columns = (self.said_at, self.roles, self.labels, self.threads, self.standing, self._asks)
        beside = self._neighbours or NOBODY
        arrays = (beside.order, beside.starts, beside.lengths, beside.previous, beside.follows, beside.second)
        names = len(self._thread_numbers) + len(self._label_numbers)
        dictionaries = sys.getsizeof(self._thread_numbers) + sys.getsizeof(self._label_numbers)
        return sum(one.nbytes for one in (*columns, *arrays)) + dictionaries + names * _NAME_BYTES

    @property
    def participants(self) -> tuple[str, ...]:
        """The names of who takes part, as texts begin with them: ``Melanie: …``."""
        if self._participants is None:
            counted = zip(self._label_numbers, self._said_by, strict=True)
            self._participants = tuple(sorted(name for name, count in counted if count >= _A_PARTICIPANT_SAYS))
        return self._participants

    @property
    def settled(self) -> bool:
        """Whether what follows from the last change is worked out."""
        return self._neighbours is not None and self._participants is not None

    def label(self, participant: str) -> int:
        """Return the number of *participant* in :attr:`labels`."""
        return self._label_numbers.get(participant, NONE)

    def thread(self, thread_id: str) -> int:
        """Return the number of a conversation in :attr:`threads`; one that no item has, where it is not known."""
        return self._thread_numbers.get(thread_id, NONE - 1)

    def extend(self, traits: Traits) -> None:
        """Append a slot for each item of *traits*."""
        threads = self._thread_numbers
        self.labels.extend(self._numbered(traits.labels))
        self.threads.extend(
            [NONE if thread is None else threads.setdefault(thread, len(threads)) for thread in traits.threads]
        )
        self.said_at.extend(traits.said_at)
        self.roles.extend(traits.roles)
        self.standing.extend(WEIGHTS.trust * np.array(traits.trust) + WEIGHTS.pinned * np.array(traits.pinned))
        self._asks.extend(traits.asks)
        self._neighbours = None

    def _numbered(self, labels: Sequence[str]) -> list[int]:
        """Return the number of each label, new ones included, and count who said what."""
        if not any(labels):
            return [NONE] * len(labels)
        numbers: list[int] = []
        for label in labels:
            if not label:
                numbers.append(NONE)
                continue
            number = self._label_numbers.setdefault(label, len(self._label_numbers))
            if number == len(self._said_by):
                self._said_by.append(0)
            self._said_by[number] += 1
            numbers.append(number)
        self._participants = None
        return numbers

    def drop(self, slots: Iterable[int]) -> None:
        """Let *slots* be passed over from now on."""
        labels = self.labels.filled
        for slot in slots:
            if (label := int(labels[slot])) != NONE:
                self._said_by[label] -= 1
                self._participants = None
        self._neighbours = None

    def keep(self, alive: NDArray[np.bool_]) -> None:
        """Drop all slots but those of the mask *alive*, and number the rest anew."""
        self._order = (np.cumsum(alive) - 1)[self._order[alive[self._order]]]
        self._ordered_to = int(np.count_nonzero(alive[: self._ordered_to]))
        for column in (self.said_at, self.roles, self.labels, self.threads, self.standing, self._asks):
            column.replace(column.filled[alive])
        self._neighbours = None

    def neighbours(
        self, *, alive: NDArray[np.bool_], revisions: NDArray[np.int64], names: Sequence[tuple[Namespace, str]]
    ) -> Neighbours:
        """Return what was said beside what, among the slots of the mask *alive*."""
        if self._neighbours is None:
            said = Said(
                threads=self.threads.filled,
                said_at=self.said_at.filled,
                revisions=revisions,
                roles=self.roles.filled,
                asks=self._asks.filled,
                names=names,
            )
            fresh = np.arange(self._ordered_to, len(names))
            self._order = ordered(said, alive=alive, known=self._order, fresh=fresh)
            self._ordered_to = len(names)
            self._neighbours = neighbours(said, self._order)
        return self._neighbours
