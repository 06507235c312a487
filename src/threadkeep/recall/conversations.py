"""The traits of a partition's items as columns: who said what, when and in which conversation."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from threadkeep.recall.columns import Column
from threadkeep.recall.neighbours import NOBODY, Neighbours, Said, neighbours, ordered
from threadkeep.recall.rank import WEIGHTS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from threadkeep.recall.traits import Traits
    from threadkeep.storage.port import Namespace

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
