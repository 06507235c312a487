"""Build the index of a partition (vectors, postings, conversations, values of memories), and cache indexes."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import compress
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from cachetools import LRUCache

from threadkeep.concurrency import SharedTask
from threadkeep.ids import digest
from threadkeep.memories.codec import is_memory_namespace, memory_of
from threadkeep.search.conversations import Conversations, traits_of
from threadkeep.search.lexical import Postings
from threadkeep.search.ranking import IndexSnapshot
from threadkeep.search.vectors import Column, Matrix, Precision, total_bytes
from threadkeep.storage.interface import Item, Partition, Ref
from threadkeep.storage.rows import NEVER, read_columns
from threadkeep.text.semantics import content_words, ended_by, signature
from threadkeep.text.slots import slot_of
from threadkeep.text.tokenizing import TIME_TERMS, texts_of_each, tokenise_each

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from threadkeep.memories.models import Memory
    from threadkeep.search.vectors import VectorKind
    from threadkeep.storage.interface import Changes, Namespace, Position
    from threadkeep.storage.rows import ItemColumns
    from threadkeep.text.tokenizing import Language


_SMALLEST_WASTE: Final = 256
_NAME_BYTES: Final = 88  # a tuple of namespace and key, and the slot's number
_NAMESPACE_BYTES: Final = 500  # its labels, and its entries under each of its prefixes


class PartitionIndex:
    """The searchable items of one partition; one writer at a time. Queries read its :attr:`snapshot`.

    Items are appended and never changed in place; a new version of an item is a new row, and queries skip
    the old one until enough of them are dropped together. So a snapshot stays as it was while the index
    changes, and no change costs more than its own size, amortized.

    An item has one row for each of its texts; the best row counts. An item with vectors of
    another model or length, or that cannot be used, is found by its words only.

    Args:
        model: Name of the embedder of the vectors that are compared; ``None``: none are.
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
        self._values = Values()
        self._statements = StatementKeys()
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
        self._below: dict[Namespace, list[int]] = {}  # prefix -> numbers of the namespaces that begin with it
        self._name_bytes = 0
        self._next_expiry = NEVER
        self.snapshot = self._snapshot()

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
        """Bytes in RAM: the arrays with their reserve, the dictionaries, and an estimate of their entries."""
        names = sys.getsizeof(self._names) + sys.getsizeof(self._slots) + len(self._names) * _NAME_BYTES
        namespaces = len(self._namespaces) * _NAMESPACE_BYTES
        columns = (self._starts, self._revisions, self._updated_at, self._expires_at, self._alive, self._namespace_of)
        parts = (self._matrix, self._postings, self._conversations, self._values, self._statements)
        return total_bytes((*columns, *parts)) + names + self._name_bytes + namespaces

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
        self.snapshot = self._snapshot()
        return kinds

    def expire(self, now: datetime) -> None:
        """Drop the items that have expired by *now*; they come back only by a change."""
        if now.timestamp() < self._next_expiry:
            return
        expires_at, alive = self._expires_at.filled, self._alive.filled
        expired = np.flatnonzero(alive & (expires_at <= now.timestamp())).tolist()
        for slot in expired:
            del self._slots[self._names[slot]]
        self._drop(expired)
        left = expires_at[alive]
        self._next_expiry = float(left.min()) if len(left) else NEVER
        self.snapshot = self._snapshot()

    def forget_values(self) -> None:
        """Remove the values and texts of all memories from RAM, also from snapshots that are still in use."""
        self._values.clear()
        self._conversations.forget_events()

    def _snapshot(self) -> IndexSnapshot:
        alive, revisions = self._alive.filled.copy(), self._revisions.filled
        return IndexSnapshot(
            names=self._names,
            slots=self._slots,
            alive=alive,
            revisions=revisions,
            updated_at=self._updated_at.filled,
            starts=self._starts.filled,
            namespace_of=self._namespace_of.filled,
            namespaces_below=self._below,
            namespace_count=len(self._namespaces),
            vectors=self._matrix.rows,
            postings=self._postings.snapshot(),
            conversations=self._conversations.snapshot(alive=alive, revisions=revisions, names=self._names),
            values=self._values,
            statements=self._statements,
            next_expiry=self._next_expiry,
            language=self._language,
        )

    def _drop(self, slots: Sequence[int]) -> None:
        """Let *slots* be passed over from now on; their names are out of the dictionary already."""
        if not slots:
            return
        self._alive.filled[list(slots)] = False
        self._conversations.drop(slots)
        self._values.drop(slots)
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
        for part in read_columns(items):
            replaced += self._name(part)
            texts = texts_of_each(part.values, part.indexes)
            self._conversations.extend(traits_of(part.values, texts, part.created_at))
            self._values.extend(part)
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

    def _name(self, part: ItemColumns) -> list[int]:
        """Give each item of *part* the next slot, and return those that they had before."""
        replaced: list[int] = []
        slots = self._slots
        for slot, name in enumerate(part.names, len(self._names)):
            if (before := slots.setdefault(name, slot)) != slot:
                replaced.append(before)
                slots[name] = slot
        self._names += part.names
        namespaces, keys = zip(*part.names, strict=True)
        self._name_bytes += sum(map(sys.getsizeof, keys))
        numbers = {namespace: self._number(namespace) for namespace in dict.fromkeys(namespaces)}
        self._namespace_of.extend(list(map(numbers.__getitem__, namespaces)))
        return replaced

    def _number(self, namespace: Namespace) -> int:
        number = self._namespaces.get(namespace)
        if number is None:
            number = self._namespaces[namespace] = len(self._namespaces)
            for depth in range(len(namespace) + 1):
                self._below.setdefault(namespace[:depth], []).append(number)
        return number

    def _compact(self) -> None:
        """Drop all rows that are passed over, and number the rest anew."""
        alive = self._alive.filled
        per_slot = np.diff(self._starts.filled, append=self.rows)
        kept = np.repeat(alive, per_slot)
        self._postings.keep(kept)
        self._conversations.keep(alive)
        self._values = self._values.kept(alive)
        self._statements = self._statements.kept(alive)
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


MAX_VALUE_BYTES: Final = 2_048
"""A longer value stays in the storage only; a statement with its provenance is 200 to 400 bytes."""

_MAX_PARSED: Final = 2_048
"""So many parsed memories are kept in RAM for each partition."""

_PARSED_BYTES: Final = 1_200

_KEY_BYTES: Final = 150

_ANY_PARTITION: Final = Partition("root", ())  # a memory does not say in which it is

_to_json: Final = json.JSONEncoder(separators=(",", ":")).encode


class Values:
    """The value of each slot of an index, as JSON; of memories only, and only short ones.

    A value as text takes a fifth of the bytes of the objects that it is parsed to, and parsing it a
    microsecond or two. One writer at a time; :meth:`memories` is safe to call from any thread.
    """

    def __init__(self) -> None:
        self._texts: list[str | None] = []
        self._created_at = Column(np.float64)
        self._bytes = 0
        self._parsed: dict[int, Memory | None] = {}

    @property
    def nbytes(self) -> int:
        """Bytes in RAM."""
        parsed = len(self._parsed) * _PARSED_BYTES
        return self._bytes + sys.getsizeof(self._texts) + self._created_at.nbytes + parsed

    def extend(self, fields: ItemColumns) -> None:
        """Append a slot for each item of *fields*."""
        texts = _json_texts(fields)
        self._texts += texts
        self._created_at.extend(fields.created_at)
        self._bytes += _size(texts)

    def drop(self, slots: Sequence[int]) -> None:
        """Forget the values in *slots*."""
        for slot in slots:
            self._bytes -= _size([self._texts[slot]])
            self._texts[slot] = None
            self._parsed.pop(slot, None)

    def clear(self) -> None:
        """Forget all values."""
        self._texts[:] = [None] * len(self._texts)
        self._parsed.clear()
        self._bytes = 0

    def kept(self, alive: NDArray[np.bool_]) -> Values:
        """Return the values of the slots in the mask *alive*, numbered anew."""
        kept = Values()
        kept._texts = list(compress(self._texts, alive.tolist()))
        kept._created_at.extend(self._created_at.filled[alive])
        kept._bytes = _size(kept._texts)
        return kept

    def memories(self, slots: Iterable[int], snapshot: IndexSnapshot) -> dict[int, Memory | None]:
        """Return the memories in *slots* of *snapshot*, by slot; ``None`` for what is no memory.

        What only the storage has, or is gone, is left out.
        """
        memories: dict[int, Memory | None] = {}
        for slot in slots:
            try:
                memories[slot] = self._parsed[slot]
            except KeyError:
                text = self._texts[slot]
                if text is None:
                    continue
                item = Item(
                    Ref(_ANY_PARTITION, *snapshot.names[slot]),
                    json.loads(text),
                    snapshot.revisions.item(slot),
                    datetime.fromtimestamp(self._created_at.filled.item(slot), UTC),
                    datetime.fromtimestamp(snapshot.updated_at.item(slot), UTC),
                )
                if len(self._parsed) >= _MAX_PARSED:
                    self._parsed.clear()
                memories[slot] = self._parsed[slot] = memory_of(item)
        return memories


class StatementKeys:
    """The secondary keys of the memories of an index: what each says, in other words too, and which slot it fills.

    They find the memories that may be duplicates of a statement, or in conflict with it, which must not depend on
    what else is alike. They are computed when they are first asked for, about 50 µs a memory.
    """

    def __init__(self) -> None:
        self.keyed_to = 0
        self.filled: dict[int, str | None] = {}
        self._slots: dict[bytes, list[int]] = {}

    @property
    def nbytes(self) -> int:
        """Bytes in RAM, an estimate."""
        return sum(map(sys.getsizeof, (self.filled, self._slots))) + (len(self._slots) + len(self.filled)) * _KEY_BYTES

    def add(self, slot: int, memory: Memory) -> None:
        """Add the keys of the *memory* in *slot*."""
        for key in statement_keys(memory.text):
            self._slots.setdefault(key, []).append(slot)

    def find(self, text: str) -> list[int]:
        """Return the slots of the memories that may say the same as *text*, or fill the same slot; dead ones, too."""
        return [slot for key in statement_keys(text) for slot in self._slots.get(key, ())]

    def fill(self, slot: int, memory: Memory) -> None:
        """Note which slot of meaning the *memory* in *slot* fills; ``None``: none, or it is an episode."""
        self.filled[slot] = None if memory.kind == "episodic" else slot_of(memory.text)

    def kept(self, alive: NDArray[np.bool_]) -> StatementKeys:
        """Return the keys of the slots in the mask *alive*, numbered anew."""
        kept, numbers = StatementKeys(), (np.cumsum(alive) - 1).tolist()
        kept.keyed_to = int(np.count_nonzero(alive[: self.keyed_to]))
        is_alive = alive.tolist()
        for key, slots in list(self._slots.items()):
            if left := [numbers[slot] for slot in slots if is_alive[slot]]:
                kept._slots[key] = left
        kept.filled = {numbers[slot]: fills for slot, fills in list(self.filled.items()) if is_alive[slot]}
        return kept


def statement_keys(text: str) -> tuple[bytes, ...]:
    """Return the keys of a statement: its words, its meaning, that of what it ends, and the slot that it fills."""
    positive = ended_by(text) or text
    keys = [digest("words", *content_words(text)), digest("meaning", *sorted(signature(text)))]
    if positive != text:
        keys.append(digest("meaning", *sorted(signature(positive))))
    slot = slot_of(positive)
    if slot is not None:
        keys.append(digest("slot", slot))
    return tuple([key[:16] for key in keys])


def _json_texts(fields: ItemColumns) -> list[str | None]:
    """Return the values of *fields* as JSON; ``None`` for one that stays in the storage only."""
    spaces = {namespace: is_memory_namespace(namespace) for namespace in {namespace for namespace, _ in fields.names}}
    kept = [spaces[namespace] for namespace, _ in fields.names]
    texts: Iterable[str | None] | None = fields.texts
    if texts is None:
        texts = (_json_of(value) if one else None for one, value in zip(kept, fields.values, strict=True))
    return [
        text if one and text is not None and len(text) <= MAX_VALUE_BYTES else None
        for one, text in zip(kept, texts, strict=True)
    ]


def _json_of(value: object) -> str | None:
    try:
        return _to_json(value)
    except (TypeError, ValueError):  # not JSON: only the storage can read it
        return None


def _size(texts: Iterable[str | None]) -> int:
    return sum(map(sys.getsizeof, filter(None, texts)))


class Published(NamedTuple):
    """A snapshot of an index, and the position of the change feed that it shows."""

    position: Position
    snapshot: IndexSnapshot


@dataclass(eq=False, slots=True)
class CachedIndex:
    """The index of one partition. One task at a time changes it; any thread may read :attr:`published`.

    Attributes:
        partition: Its partition.
        index: The index.
        published: Its latest snapshot; ``None`` before the first load.
        nbytes: The size of the index after its last change.
        keying: Held while the keys of its statements are computed.
        running: What reads new changes now.
        waiting: What reads them after it, shared by all callers that came since.
        sample: Some of the vectors, shape ``(n, dims)``, if a vector engine has all of them; else ``None``.
    """

    partition: Partition
    index: PartitionIndex
    published: Published | None = None
    nbytes: int = 0
    keying: asyncio.Lock = field(default_factory=asyncio.Lock)
    running: SharedTask[None] | None = None
    waiting: SharedTask[None] | None = None
    sample: NDArray[np.float32] | None = None

    @property
    def position(self) -> Position | None:
        """The position of the latest snapshot; ``None`` before the first load."""
        return self.published.position if self.published is not None else None

    @property
    def idle(self) -> bool:
        """Whether no task reads new changes, or is about to."""
        return self.waiting is None and (self.running is None or self.running.task.done())


@dataclass(frozen=True, slots=True)
class IndexStats:
    """What the indexes in RAM hold.

    Attributes:
        partitions: How many indexes.
        items: In all of them.
        nbytes: Held by all of them.
        max_bytes: From where on the longest unused are dropped.
    """

    partitions: int
    items: int
    nbytes: int
    max_bytes: int


class IndexCache:
    """The indexes of the partitions in use; safe in threads. The one in use always stays.

    Args:
        max_bytes: Upper bound for all of them together.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._guard = threading.Lock()
        # An index larger than the bound evicts all others, and stays.
        self._entries: LRUCache[bytes, CachedIndex] = LRUCache(max_bytes, lambda entry: min(entry.nbytes, max_bytes))

    def __iter__(self) -> Iterator[CachedIndex]:
        with self._guard:
            return iter(list(self._entries.values()))

    @property
    def nbytes(self) -> int:
        """Bytes in RAM."""
        return sum(entry.nbytes for entry in self)

    def stats(self) -> IndexStats:
        """Return how much is held."""
        indexes = [entry.index for entry in self]
        return IndexStats(len(indexes), sum(map(len, indexes)), self.nbytes, self.max_bytes)

    def get(self, partition: Partition) -> CachedIndex | None:
        """Return the index of *partition*, and mark it as the last used."""
        with self._guard:
            return self._entries.get(partition.digest)

    def add(self, entry: CachedIndex) -> None:
        """Add *entry* as the last used."""
        with self._guard:
            self._entries[entry.partition.digest] = entry

    def drop(self, entry: CachedIndex) -> None:
        """Remove *entry*, if it is in the cache, and the values of its memories from RAM."""
        with self._guard:
            if self._entries.get(entry.partition.digest) is entry:
                del self._entries[entry.partition.digest]
                entry.index.forget_values()

    def clear(self) -> None:
        """Remove all."""
        with self._guard:
            self._entries.clear()

    def publish(self, entry: CachedIndex, position: Position) -> None:
        """Let callers see the index of *entry* as it is now, at *position*; evict others if it has grown."""
        before, entry.published = entry.published, Published(position, entry.index.snapshot)
        if before is not None and before.snapshot is entry.published.snapshot:
            return
        with self._guard:
            if self._entries.pop(entry.partition.digest, None) is entry:
                entry.nbytes = entry.index.nbytes
                self._entries[entry.partition.digest] = entry
