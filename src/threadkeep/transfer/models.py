"""Values of moving: an entry on its way, the sum over many of them, and what came of it. Pure rules."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from threadkeep.storage.encoding import to_micros
from threadkeep.storage.interface import Embedding, Item, Namespace, Partition, Put, Ref

_MICROSECOND: Final = timedelta(microseconds=1)
_BYTES: Final = 32
_MODULUS: Final = 1 << (8 * _BYTES)


@dataclass(frozen=True, slots=True)
class TransferItem:
    """An item on its way from one place to another: what its put will write, moments included.

    Attributes:
        partition: What it belongs to, in the target.
        put: ``created_at`` and ``updated_at`` are given, and ``expires_at`` where there is a ``ttl``.
    """

    partition: Partition
    put: Put

    @property
    def ref(self) -> Ref:
        """Where it will be."""
        return Ref(self.partition, self.put.namespace, self.put.key)

    def spelled(self, *, vectors: bool = True) -> bytes:
        """Return everything that it is, as bytes that are the same on every storage.

        The revision is not part of it: that is how far a partition has come, there and here.
        """
        put = self.put
        due = put.due and [put.due.kind, to_micros(put.due.at)]
        told: list[Any] = [
            self.partition.kind,
            self.partition.parts,
            put.namespace,
            put.key,
            put.value,
            put.index,
            None if put.created_at is None else to_micros(put.created_at),
            None if put.updated_at is None else to_micros(put.updated_at),
            None if put.ttl is None else put.ttl // _MICROSECOND,
            None if put.expires_at is None else to_micros(put.expires_at),
            due,
            _spelled_embedding(put.embedding) if vectors else None,
        ]
        if put.data is not None:
            told.append(hashlib.sha256(put.data).hexdigest())
        data = put.embedding.data if vectors and put.embedding else b""
        return json.dumps(told, sort_keys=True, separators=(",", ":")).encode("ascii") + data


def entry_of(item: Item) -> TransferItem:
    """Return *item* as an entry that writes the same one."""
    return TransferItem(
        item.ref.partition,
        Put(
            item.ref.namespace,
            item.ref.key,
            item.value,
            index=item.index,
            embedding=item.embedding,
            ttl=item.ttl,
            due=item.due,
            created_at=item.created_at,
            updated_at=item.updated_at,
            expires_at=item.expires_at,
            data=item.data,
        ),
    )


@dataclass(slots=True)
class Tally:
    """How many entries there were, and a checksum over them that does not depend on their order.

    The checksum is the sum of the entries' SHA-256, modulo 2²⁵⁶: two storages have the same one where
    they hold the same entries, whatever they are and however they are ordered.
    """

    count: int = 0
    _sum: int = 0

    def add(self, spelled: bytes) -> None:
        """Count an entry that is :meth:`TransferItem.spelled` so."""
        self.count += 1
        self._sum = (self._sum + int.from_bytes(hashlib.sha256(spelled).digest(), "big")) % _MODULUS

    @property
    def checksum(self) -> str:
        """64 hexadecimal digits."""
        return self._sum.to_bytes(_BYTES, "big").hex()


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Something that was not taken over, and why; the place, never the text."""

    namespace: Namespace
    key: str
    reason: str


@dataclass(slots=True)
class Copied:
    """What copying came to.

    Attributes:
        source: Where from, for people.
        target: Where to.
        dry_run: Whether nothing was written.
        resumed: Whether an interrupted copy was gone on with.
        partitions: Owners and other partitions that were met.
        read: Entries of the source.
        written: Of them, written now.
        present: Of them, there already, the same.
        differing: Of them, there already with another content, which was left as it is.
        without_vectors: Searchable entries without vectors of the embedder in use; ``re-embed`` makes them.
        shapes: How many entries of which shape; of foreign sources only.
        left_out: What could not be taken over.
        checksum: Over what was read, as it is to be in the target.
        verified: Entries that were read back and found to be the same.
        unequal: Entries that were read back and found otherwise, or not at all.
    """

    source: str
    target: str
    dry_run: bool = False
    resumed: bool = False
    partitions: int = 0
    read: int = 0
    written: int = 0
    present: int = 0
    differing: int = 0
    without_vectors: int = 0
    shapes: dict[str, int] = field(default_factory=dict[str, int])
    left_out: list[LeftOut] = field(default_factory=list[LeftOut])
    checksum: str = ""
    verified: int = 0
    unequal: int = 0

    @property
    def complete(self) -> bool:
        """Whether everything that was read is in the target, or would be."""
        return not self.left_out and not self.unequal and not self.differing


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """Something that is not as it must be; the place, never the text.

    Attributes:
        what: Stable name, e.g. ``vector_shape``.
        namespace: Where it is.
        key: Which item; empty: all of them.
        detail: One sentence that says what to do.
    """

    what: str
    namespace: Namespace
    key: str
    detail: str


@dataclass(slots=True)
class Checked:
    """What checking came to.

    Attributes:
        partitions: How many.
        items: How many, in all of them.
        searchable: Items that a query may find.
        vectors: Searchable items by the model and dimensions of their vectors, ``none`` for those without.
        checksum: Over all items; see :class:`Tally`.
        wrong: What is not as it must be; at most 100 of each kind.
        counts: How many of each kind there are.
        advice: Sentences about what works and could be better.
    """

    partitions: int = 0
    items: int = 0
    searchable: int = 0
    vectors: dict[str, int] = field(default_factory=dict[str, int])
    checksum: str = ""
    wrong: list[Discrepancy] = field(default_factory=list[Discrepancy])
    counts: dict[str, int] = field(default_factory=dict[str, int])
    advice: list[str] = field(default_factory=list[str])

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.counts


@dataclass(slots=True)
class Embedded:
    """What embedding anew came to.

    Attributes:
        model: The model of the vectors now.
        searchable: Items that a query may find.
        current: Of them, had vectors of this model already.
        embedded: Of them, were given some.
        changed: Of them, changed three times by other writers meanwhile; run it again.
    """

    model: str
    searchable: int = 0
    current: int = 0
    embedded: int = 0
    changed: int = 0


def _spelled_embedding(embedding: Embedding | None) -> list[Any] | None:
    return None if embedding is None else [embedding.model, embedding.dims]
