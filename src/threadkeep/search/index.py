"""One partition's index: a matrix of unit vectors and the postings of its terms, searched exactly."""

from __future__ import annotations

import json
import sys
from array import array
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from itertools import compress
from typing import TYPE_CHECKING, Final

import numpy as np

from threadkeep.memories.codec import is_memory_namespace
from threadkeep.search.columns import Column
from threadkeep.search.conversations import Conversations
from threadkeep.search.features import traits_of
from threadkeep.search.lexical import Postings
from threadkeep.search.matrix import Matrix, Precision, unit
from threadkeep.search.query import Reading, named, read
from threadkeep.search.scoring import WEIGHTS, recency
from threadkeep.search.snapshot import COSINE_DECIMALS, Far, Priors, Snapshot
from threadkeep.storage.fields import NEVER, fields_of
from threadkeep.storage.port import Item, Ref
from threadkeep.text.tokenizing import TIME_TERMS, texts_of_each, tokenise, tokenise_each

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from threadkeep.search.compatibility import VectorKind
    from threadkeep.search.hits import Method, Ranking
    from threadkeep.search.scoring import Spread
    from threadkeep.search.vectorstores.base import Near
    from threadkeep.storage.fields import Fields
    from threadkeep.storage.port import Changes, Namespace
    from threadkeep.text.languages import Language


_SMALLEST_WASTE: Final = 256
_PREFIXES_REMEMBERED: Final = 8
_NAME_BYTES: Final = 88  # a tuple of namespace and key, and the slot's number
_NAMESPACE_BYTES: Final = 500  # its labels, and its entries under each of its prefixes


class PartitionIndex:
    """The searchable items of one partition.

    Items are appended and never changed in place; a new version of an item is a new row, and the old
    one is passed over until enough of them are dropped together. So a :class:`Snapshot` stays what it
    was while the index moves on, and no change costs more than its own size, amortised.

    An item has one row for each of its texts; the best row counts. An item whose vectors are of
    another model or length, or that cannot be used, is found by its words only.

    Args:
        model: Name of the embedder whose vectors are compared; ``None``: none are.
        dims: Their length; ``None``: that of the first one seen.
        precision: How their numbers are held.
        language: What all texts are in; ``None``: each in its own.
    """

    def __init__(
        self,
        *,
        model: str | None,
        dims: int | None = None,
        precision: Precision = "float32",
        language: Language | None = None,
    ) -> None:
        self._model = model
        self._precision: Precision = precision
        self._language: Language | None = language
        self._clear(dims)

    def _clear(self, dims: int | None) -> None:
        self._postings = Postings(TIME_TERMS)
        self._conversations = Conversations()
        self._shelf = Shelf()
        self._matrix = Matrix(self._model, dims, self._precision)
        self._starts = Column(np.int64)  # of each item: its first row
        self._revisions = Column(np.int64)
        self._updated_at = Column(np.float64)
        self._expires_at = Column(np.float64)
        self._alive = Column(np.bool_)
        self._namespace_of = Column(np.int32)
        self._names: list[tuple[Namespace, str]] = []
        self._slots: dict[tuple[Namespace, str], int] = {}
        self._namespaces: dict[Namespace, int] = {}
        self._below: dict[Namespace, array[int]] = {}  # prefix -> numbers of the namespaces that begin with it
        self._name_bytes = 0
        self._next_expiry = NEVER
        self._recompute()

    def _recompute(self) -> None:
        """Forget what was worked out from what has changed now."""
        self._stands: NDArray[np.float64] | None = None
        self._looked: dict[tuple[Namespace, ...], NDArray[np.intp] | None] = {}

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def rows(self) -> int:
        """How many texts are compared at each search, dropped ones included."""
        return len(self._matrix)

    @property
    def dims(self) -> int | None:
        """The length of the vectors that are compared; ``None``: not known yet."""
        return self._matrix.dims

    @property
    def nbytes(self) -> int:
        """Bytes held: the arrays with their reserve, the dictionaries, and an estimate of what these hold."""
        columns = (
            self._starts,
            self._revisions,
            self._updated_at,
            self._expires_at,
            self._alive,
            self._namespace_of,
        )
        names = sys.getsizeof(self._names) + sys.getsizeof(self._slots) + len(self._names) * _NAME_BYTES
        namespaces = len(self._namespaces) * _NAMESPACE_BYTES
        parts = (*columns, self._matrix, self._postings, self._conversations, self._shelf)
        return sum(part.nbytes for part in parts) + names + self._name_bytes + namespaces

    @property
    def participants(self) -> tuple[str, ...]:
        """The names of who takes part in the conversations that are kept here, where texts begin with them."""
        return self._conversations.participants

    def settled(self, now: datetime) -> bool:
        """Whether a snapshot only reads: what the last change means is worked out, and nothing expired by *now*."""
        worked_out = self._stands is not None and self._postings.settled and self._conversations.settled
        return worked_out and now.timestamp() < self._next_expiry

    def apply(self, changes: Changes) -> Collection[VectorKind]:
        """Bring the index from one position to the next: removals first, then puts.

        Returns:
            The kinds of vectors among the puts, each once, in the order of the puts.
        """
        if changes.reset:
            self._clear(self.dims)
        else:
            self._drop([slot for name in changes.removed if (slot := self._slots.pop(name, None)) is not None])
        kinds = self._append(changes.puts) if changes.puts else ()
        waste = len(self._names) - len(self._slots)
        if waste > max(_SMALLEST_WASTE, len(self._slots) // 4):
            self._compact()
        self._recompute()
        return kinds

    def snapshot(
        self,
        asked: Reading,
        vector: NDArray[np.float32] | None,
        *,
        aspect: NDArray[np.float32] | None = None,
        prefixes: Sequence[Namespace] = ((),),
        threads: Sequence[str] = (),
        now: datetime,
        far: Far | None = None,
    ) -> Snapshot:
        """Gather what answering one question needs, of this moment.

        Args:
            asked: The question as it was read.
            vector: Of the question, shape ``(dims,)``; ``None``: compare words only.
            aspect: Of the question without its names; ``None``: it has none.
            prefixes: Only items whose namespace begins with one of these.
            threads: The conversation that is going on, and those that it branched off.
            now: Items that expired by then are not there.
            far: What :meth:`far` made of what an engine has found; then *vector* and *aspect* are its own.
        """
        self._expire(now.timestamp())
        usable = vector is not None and len(vector) == self.dims
        talk = self._conversations
        return Snapshot(
            slots=self._looked_at(prefixes),
            question=self._postings.question(self._postings.chosen(asked.terms)),
            vectors=self._matrix.rows if usable else None,
            vector=unit(vector) if usable and vector is not None else None,
            aspect=unit(aspect) if usable and aspect is not None else None,
            starts=self._starts.filled,
            revisions=self._revisions.filled,
            neighbours=talk.neighbours(alive=self._alive.filled, revisions=self._revisions.filled, names=self._names),
            priors=self._priors(asked, threads),
            names=self._names,
            far=far,
        )

    def far(self, near: Sequence[Sequence[Near]], spread: Sequence[Spread]) -> Far:
        """Place what an engine has found in the slots of its items; what has changed since is passed over.

        Args:
            near: For the question, and where it has an aspect for that.
            spread: For each, the mean and standard deviation of the cosines in the partition.
        """
        cosines: list[NDArray[np.float64]] = []
        for found in near:
            column = np.full(len(self._names), np.nan)
            for one in found:
                slot = self._slots.get((one.namespace, one.key))
                if slot is not None and int(self._revisions.filled[slot]) == one.revision:
                    column[slot] = round(min(one.cosine, 1.0), COSINE_DECIMALS)
            cosines.append(column)
        more = len(cosines) > 1
        return Far((cosines[0], cosines[1] if more else None), (spread[0], spread[1] if more else None))

    def search(
        self,
        question: str,
        vector: NDArray[np.float32] | None,
        *,
        prefixes: Sequence[Namespace] = ((),),
        method: Method = "hybrid",
        limit: int | None,
        now: datetime,
    ) -> Ranking:
        """Return the *limit* best items for *question*, best first; see :meth:`Snapshot.search`."""
        snapshot = self.snapshot(read(question, now=now, language=self._language), vector, prefixes=prefixes, now=now)
        return snapshot.search(method, limit)

    def item(self, ref: Ref) -> Item | None:
        """Return the item at *ref* as it is now, without vectors; ``None`` where only the storage can tell."""
        slot = self._slots.get((ref.namespace, ref.key))
        if slot is None:
            return None
        revision, updated_at = int(self._revisions.filled[slot]), float(self._updated_at.filled[slot])
        return self._shelf.item(slot, ref, revision=revision, updated_at=updated_at)

    def _priors(self, asked: Reading, threads: Sequence[str]) -> Priors:
        talk = self._conversations
        people = named(asked.people, talk.participants)
        whom = set(people.values())
        names = [
            [term for word in name if word not in people for term in tokenise(word, self._language)]
            for name in asked.names
        ]
        return Priors(
            standing=self._standing(),
            said_at=talk.said_at.filled if asked.dates else None,
            dates=asked.dates,
            participants=bool(people),
            names=[self._postings.holding(name) for name in names if name],
            labels=talk.labels.filled if len(whom) == 1 else None,
            label=talk.label(whom.pop()) if len(whom) == 1 else 0,
            roles=talk.roles.filled if asked.first_person and not people else None,
            of_time=self._postings.marked if asked.when else None,
            threads=talk.threads.filled if threads else None,
            branch=tuple(map(talk.thread, threads)),
        )

    def _standing(self) -> NDArray[np.float64]:
        """Return what speaks for each slot whatever is asked: trust, being pinned, being new."""
        if self._stands is None:
            alive, updated_at = self._alive.filled, self._updated_at.filled
            self._stands = self._conversations.standing.filled.astype(np.float64)
            self._stands[alive] += WEIGHTS.recency * recency(updated_at[alive])
        return self._stands

    def _looked_at(self, prefixes: Sequence[Namespace]) -> NDArray[np.intp] | None:
        """Return the slots that are there and below one of *prefixes*; ``None``: all slots."""
        asked = tuple(map(tuple, prefixes))
        if asked not in self._looked:
            if len(self._looked) >= _PREFIXES_REMEMBERED:
                self._looked.clear()
            self._looked[asked] = self._below_any(asked)
        return self._looked[asked]

    def _below_any(self, prefixes: Sequence[Namespace]) -> NDArray[np.intp] | None:
        mask = self._alive.filled
        allowed = np.zeros(len(self._namespaces), np.bool_)
        for prefix in prefixes:
            if numbers := self._below.get(prefix):
                allowed[np.frombuffer(numbers, np.int32)] = True
        if not allowed.all():
            mask = mask & allowed[self._namespace_of.filled]
        elif len(self._names) == len(self._slots):
            return None
        return mask.nonzero()[0]

    def _expire(self, now: float) -> None:
        """Drop what has expired; it comes back only by being written or touched, which is a change."""
        if now < self._next_expiry:
            return
        expires_at, alive = self._expires_at.filled, self._alive.filled
        expired = np.flatnonzero(alive & (expires_at <= now)).tolist()
        for slot in expired:
            del self._slots[self._names[slot]]
        self._drop(expired)
        self._recompute()
        left = expires_at[alive]
        self._next_expiry = float(left.min()) if len(left) else NEVER

    def _drop(self, slots: Sequence[int]) -> None:
        """Let *slots* be passed over from now on; their names are out of the dictionary already."""
        if not slots:
            return
        self._alive.filled[list(slots)] = False
        self._conversations.drop(slots)
        self._shelf.drop(slots)
        starts, rows = self._starts.filled, self.rows
        ends = (int(starts[slot + 1]) if slot + 1 < len(starts) else rows for slot in slots)
        self._postings.remove(
            row for slot, end in zip(slots, ends, strict=True) for row in range(int(starts[slot]), end)
        )

    def _append(self, items: Sequence[Item]) -> Collection[VectorKind]:
        """Append *items*, each read once and let go of at once; what they replace is dropped.

        Returns:
            The kinds of their vectors.
        """
        tokens: list[str] = []  # of all texts together: ten thousand small lists would keep the collector busy
        lengths: list[int] = []
        per_item: list[int] = []
        replaced: list[int] = []
        kinds: dict[VectorKind, None] = {}
        first_row = self.rows
        self._matrix.reserve(len(items))  # no array of them grows step by step
        for part in fields_of(items):
            replaced += self._name(part)
            texts = texts_of_each(part.values, part.indexes)
            self._conversations.extend(traits_of(part.values, texts, part.created_at))
            self._shelf.extend(part)
            kinds |= self._matrix.extend(part, texts)
            # An item without texts has a row all the same: it can be asked for, and comes last.
            per_item += [len(own) or 1 for own in texts]
            terms, own_lengths = tokenise_each([text for own in texts for text in own or ("",)], self._language)
            tokens += terms
            lengths += own_lengths
            self._revisions.extend(part.revisions)
            self._updated_at.extend(part.updated_at)
            self._expires_at.extend(part.expires_at)
            self._next_expiry = min(self._next_expiry, *part.expires_at)
        self._postings.extend(tokens, lengths)
        self._starts.extend(first_row + np.cumsum(per_item) - per_item)
        self._alive.extend(np.ones(len(per_item), np.bool_))
        self._drop(replaced)
        return kinds

    def _name(self, part: Fields) -> list[int]:
        """Give each item of *part* the next slot, and return those that they had before."""
        replaced: list[int] = []
        slots = self._slots
        for slot, name in enumerate(part.names, len(self._names)):
            if (before := slots.setdefault(name, slot)) != slot:
                replaced.append(before)
                slots[name] = slot
        self._names += part.names
        self._name_bytes += sum(sys.getsizeof(key) for _, key in part.names)
        numbers = {namespace: self._number(namespace) for namespace in dict.fromkeys(one for one, _ in part.names)}
        self._namespace_of.extend([numbers[namespace] for namespace, _ in part.names])
        return replaced

    def _number(self, namespace: Namespace) -> int:
        number = self._namespaces.get(namespace)
        if number is None:
            number = self._namespaces[namespace] = len(self._namespaces)
            for depth in range(len(namespace) + 1):
                self._below.setdefault(namespace[:depth], array("i")).append(number)
        return number

    def _compact(self) -> None:
        """Drop all rows that are passed over, and number the rest anew."""
        alive = self._alive.filled
        per_slot = np.diff(self._starts.filled, append=self.rows)
        kept = np.repeat(alive, per_slot)
        self._postings.keep(kept)
        self._conversations.keep(alive)
        self._shelf.keep(alive)
        self._matrix.keep(kept)
        per_slot = per_slot[alive]
        self._starts.replace(np.cumsum(per_slot) - per_slot)
        for column in (self._revisions, self._updated_at, self._expires_at):
            column.replace(column.filled[alive])
        self._names = [self._names[slot] for slot in np.flatnonzero(alive).tolist()]
        self._slots = {name: slot for slot, name in enumerate(self._names)}
        self._namespaces, self._below = {}, {}
        self._namespace_of.replace(np.array([self._number(namespace) for namespace, _ in self._names], np.int32))
        self._name_bytes = sum(sys.getsizeof(key) for _, key in self._names)
        self._alive.replace(np.ones(len(self._names), np.bool_))


MAX_SPELLED_BYTES: Final = 2_048
"""A longer value is left to the storage; a statement with its provenance is 200 to 400 bytes."""

_spell: Final = json.JSONEncoder(separators=(",", ":")).encode


class Shelf:
    """The value of each slot of an index, as JSON; memories only, and only short ones.

    A value as text takes a fifth of the room of the objects that it is read to, and reading it a
    microsecond or two.
    """

    def __init__(self) -> None:
        self._spelled: list[str | None] = []
        self._created_at = Column(np.float64)
        self._bytes = 0

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._bytes + sys.getsizeof(self._spelled) + self._created_at.nbytes

    def extend(self, fields: Fields) -> None:
        """Append a slot for each item of *fields*."""
        spelled = _spelled(fields)
        self._spelled += spelled
        self._created_at.extend(fields.created_at)
        self._bytes += _size(spelled)

    def drop(self, slots: Sequence[int]) -> None:
        """Forget what is in *slots*."""
        for slot in slots:
            self._bytes -= _size([self._spelled[slot]])
            self._spelled[slot] = None

    def keep(self, alive: NDArray[np.bool_]) -> None:
        """Drop all slots but those of the mask *alive*, and number the rest anew."""
        self._spelled = list(compress(self._spelled, alive.tolist()))
        self._created_at.replace(self._created_at.filled[alive])
        self._bytes = _size(self._spelled)

    def item(self, slot: int, ref: Ref, *, revision: int, updated_at: float) -> Item | None:
        """Read an item, without vectors, paths and expiry; ``None`` where it is left to the storage."""
        spelled = self._spelled[slot]
        if spelled is None:
            return None
        created_at = float(self._created_at.filled[slot])
        return Item(
            ref,
            json.loads(spelled),
            revision,
            datetime.fromtimestamp(created_at, UTC),
            datetime.fromtimestamp(updated_at, UTC),
        )


def _spelled(fields: Fields) -> list[str | None]:
    """Return the values of *fields* as JSON; ``None`` where one is left to the storage."""
    spaces = {namespace: is_memory_namespace(namespace) for namespace in {namespace for namespace, _ in fields.names}}
    kept = [spaces[namespace] for namespace, _ in fields.names]
    texts: Iterable[str | None] | None = fields.spelled
    if texts is None:
        texts = (_json_of(value) if one else None for one, value in zip(kept, fields.values, strict=True))
    return [
        text if one and text is not None and len(text) <= MAX_SPELLED_BYTES else None
        for one, text in zip(kept, texts, strict=True)
    ]


def _json_of(value: object) -> str | None:
    try:
        return _spell(value)
    except (TypeError, ValueError):  # something that is no JSON, which the storage may read in its own way
        return None


def _size(spelled: Iterable[str | None]) -> int:
    return sum(map(sys.getsizeof, filter(None, spelled)))
