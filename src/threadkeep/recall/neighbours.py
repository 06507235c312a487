"""What was said beside what: the order of conversations, kept as items come and go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from threadkeep.recall.rank import WEIGHTS, Weights, runs
from threadkeep.recall.traits import USER

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
        roles: See :mod:`threadkeep.recall.traits`.
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
