"""The documents of a MongoDB storage, in three collections. Pure rules.

``threadkeep_batches``: one **batch record** (entry) for each commit and erasure of a partition. Its ``_id``
is the partition's key and a number, so the unique index gives each number to one writer. The newest record
has the partition's position; it is *open* until it is folded, and all records before it are folded.

``threadkeep_items``: **versions** of items, and **notes** of items that ceased to be searchable. They are
inserted before their record and are *pending* until it is folded; a pending one counts only if the newest
record has its token. Folding removes the mark and deletes the versions that these replace. No ``_id`` is
used again after it was deleted, so folding a record late, or twice, changes nothing.

``threadkeep_about``: one document with the schema's version and the epoch of partitions never erased.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import Any, Final, TypeAlias, TypeVar

from threadkeep.errors import TooLargeError
from threadkeep.ids import short_digest
from threadkeep.storage.encoding import Cursor
from threadkeep.storage.interface import Partition, Position
from threadkeep.storage.rows import NO_PATHS, ItemRow, RowKey, parse_partition

T = TypeVar("T")

Document: TypeAlias = dict[str, Any]

PART_CHARACTERS: Final = 64
"""A partition's key: SHA-256 of the key prefix and its digest, in hexadecimal; other keys begin with it."""

MAX_DOCUMENT_BYTES: Final = 16 * 1024 * 1024
"""MongoDB's limit for one document."""

MAX_COMMAND_IDS: Final = 1_000
"""How many ids one command names."""

_INSERTED_BYTES: Final = 8 * 1024 * 1024
_PLACE_CHARACTERS: Final = 32
_TOKEN_CHARACTERS: Final = 32
_AFTER_ALL: Final = "~"
"""Sorts after every key that begins with a partition's key."""

_NOTE_CHARACTERS: Final = 1_000_000
_NOTE_PLACES: Final = 1_000
_LOWEST_MOMENT: Final = -(1 << 63)
_PLACE_BYTES: Final = _PLACE_CHARACTERS // 2
_ENDED_BYTES: Final = (_PLACE_CHARACTERS + _TOKEN_CHARACTERS) // 2


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """A batch record; the newest one of a partition has its position.

    Attributes:
        part: The partition's key.
        number: Counts records from 1 on; 0: there is none.
        token: Unique; the ids of its versions and notes contain it.
        previous: The token of the previous record.
        epoch: The partition's epoch after it.
        sequence: The partition's sequence after it; an erasure does not change it.
        floor: The notes are complete after this sequence.
        logged: How many removals the notes contain.
        kind: The partition's kind; ``None`` after an erasure.
        parts: The partition's parts as JSON.
        wrote: The keys of the rows that it writes, 16 bytes each.
        ended: The versions that it deletes: row key and token, 32 bytes each.
        notes: How many notes it has.
        trimmed: Whether folding deletes the notes up to *floor*.
        erased: The epoch that it ended.
        is_open: Whether it is not folded yet.
        as_of: When it was known to be the newest, by this process's monotonic clock, in seconds.
    """

    part: str
    number: int
    token: str
    previous: str
    epoch: str
    sequence: int
    floor: int = 0
    logged: int = 0
    kind: str | None = None
    parts: str | None = None
    wrote: bytes = b""
    ended: bytes = b""
    notes: int = 0
    trimmed: bool = False
    erased: str | None = None
    is_open: bool = False
    as_of: float = field(default=0.0, compare=False)

    @property
    def position(self) -> Position:
        """The partition's position after it."""
        return Position(self.epoch, self.sequence)

    @property
    def partition(self) -> Partition | None:
        """The partition; ``None`` after an erasure, or if there is no record."""
        return parse_partition(self.kind, self.parts)

    @property
    def prepared(self) -> Iterator[str]:
        """The ids of its versions and notes."""
        for place in _split(self.wrote, _PLACE_BYTES):
            yield f"{self.part}{place}{self.token}"
        for ordinal in range(self.notes):
            yield note_id(self.part, self.token, ordinal)

    @property
    def replaced(self) -> Iterator[str]:
        """The ids of the versions that it deletes."""
        for place_and_token in _split(self.ended, _ENDED_BYTES):
            yield f"{self.part}{place_and_token}"

    @property
    def changed(self) -> set[str]:
        """The keys of the rows that it writes or deletes."""
        places = {f"{self.part}{place}" for place in _split(self.wrote, _PLACE_BYTES)}
        places.update(f"{self.part}{ended[:_PLACE_CHARACTERS]}" for ended in _split(self.ended, _ENDED_BYTES))
        return places

    def document(self, prefix: str) -> Document:
        """Return its document; *prefix* is the deployment's."""
        document: Document = {
            "_id": entry_id(self.part, self.number),
            "partition": self.part,
            "prefix": prefix,
            "token": self.token,
            "previous": self.previous,
            "epoch": self.epoch,
            "sequence": self.sequence,
            "floor": self.floor,
            "logged": self.logged,
            "kind": self.kind,
            "parts": self.parts,
            "wrote": self.wrote or None,
            "ended": self.ended or None,
            "notes": self.notes or None,
            "trimmed": self.trimmed or None,
            "erased": self.erased,
            "open": prefix if self.is_open else None,
        }
        return {name: value for name, value in document.items() if value is not None}


def parse_entry(document: Document, *, as_of: float) -> BatchRecord:
    """Undo :meth:`BatchRecord.document`; the lists may be missing."""
    part, number = document["_id"][:PART_CHARACTERS], int(document["_id"][PART_CHARACTERS:], 16)
    return BatchRecord(
        part,
        number,
        document["token"],
        document["previous"],
        document["epoch"],
        document["sequence"],
        document["floor"],
        document["logged"],
        document.get("kind"),
        document.get("parts"),
        bytes(document.get("wrote", b"")),
        bytes(document.get("ended", b"")),
        document.get("notes", 0),
        document.get("trimmed", False),
        document.get("erased"),
        "open" in document,
        as_of,
    )


@lru_cache(maxsize=4096)
def to_part(prefix: str, digest: bytes) -> str:
    """Return the key of the partition with *digest* in the deployment with the encoded key *prefix*."""
    return hashlib.sha256(prefix.encode("ascii") + digest).hexdigest()


def entry_id(part: str, number: int) -> str:
    """Return the ``_id`` of a record; ids of one partition sort by number."""
    return f"{part}{number:016x}"


def entries_query(part: str, *, first: int = 0) -> Document:
    """Return the query for the records of a partition from number *first* on."""
    return {"partition": part, "_id": {"$gte": entry_id(part, first), "$lt": part + _AFTER_ALL}}


def everything_query(part: str) -> Document:
    """Return the query for the versions and notes of a partition."""
    return {"partition": part, "_id": {"$gt": part, "$lt": part + _AFTER_ALL}}


def place_key(part: str, place: RowKey) -> str:
    """Return the key of a row, which its versions share."""
    return part + short_digest(*place)


def any_of(keys: Sequence[str]) -> Any:
    """Return the condition that a field is one of *keys*."""
    return keys[0] if len(keys) == 1 else {"$in": list(keys)}


def any_place(keys: Collection[str]) -> Any:
    """Return the condition that ``place`` is one of *keys*.

    The bounds add nothing to the list. A server that has no index for a list of values has one for a range.
    """
    if len(keys) == 1:
        return next(iter(keys))
    return {"$in": list(keys), "$gte": min(keys), "$lte": max(keys)}


def note_id(part: str, token: str, ordinal: int) -> str:
    """Return the ``_id`` of a note."""
    return f"{part}{token}{ordinal:08x}"


def order_key(part: str, cursor: Cursor) -> str:
    """Return a key that sorts in the order of a scan; no encoded namespace is a prefix of another."""
    updated_at = cursor.updated_at - _LOWEST_MOMENT
    return f"{part}{updated_at:020d}{cursor.revision:020d}{cursor.namespace}{cursor.key}"


def order_range(part: str, after: str | None, *, newest: bool) -> Document:
    """Return the condition on ``order`` for the rest of a scan after the order key *after*."""
    if newest:
        return {"$gt": part, "$lt": after or part + _AFTER_ALL}
    return {"$gt": after or part, "$lt": part + _AFTER_ALL}


def feed_key(part: str, revision: int) -> str:
    """Return a key that sorts by revision, for the change feed."""
    return f"{part}{revision:016x}"


def feed_after(part: str, revision: int) -> Document:
    """Return the condition on ``feed`` for later revisions than *revision*."""
    return {"$gt": feed_key(part, revision) if revision >= 0 else part, "$lt": part + _AFTER_ALL}


def to_version(row: ItemRow, entry: BatchRecord, *, prefix: str, pending: int) -> Document:
    """Return *row* as a version of *entry*.

    Args:
        row: The row.
        entry: Its record.
        prefix: The deployment's prefix.
        pending: The time, in microseconds.

    Raises:
        TooLargeError: It does not fit in one document.
    """
    part, place = entry.part, place_key(entry.part, row.row_key)
    document: Document = {name: value for name, value in row._asdict().items() if value is not None}
    document.update(
        _id=place + entry.token,
        partition=part,
        prefix=prefix,
        epoch=entry.epoch,
        place=place,
        order=order_key(part, Cursor(row.updated_at, row.revision, *row.row_key)),
        pending=pending,
    )
    if row.paths != NO_PATHS:
        document["feed"] = feed_key(part, row.revision)
    if row.due_kind is not None:
        document.update(kind=entry.kind, parts=entry.parts)
    size = size_of(document)
    if size > MAX_DOCUMENT_BYTES:
        msg = (
            f"An item is too large: {size:,} bytes with its vectors, and MongoDB allows {MAX_DOCUMENT_BYTES:,} "
            "in one document. Split it, or store a reference to it."
        )
        raise TooLargeError(msg, size_bytes=size)
    return document


def size_of(document: Document) -> int:
    """Return an upper bound of the size of *document*."""
    return 2_048 + sum(len(value) for value in document.values() if isinstance(value, str | bytes))


def parse_row(version: Document) -> ItemRow:
    """Undo :func:`to_version`."""
    return ItemRow._make(version.get(name) for name in ItemRow._fields)


def to_notes(removed: Sequence[RowKey], entry: BatchRecord, *, prefix: str, pending: int) -> Iterator[Document]:
    """Yield the notes of *entry* that *removed* ceased to be searchable."""
    for ordinal, places in enumerate(_by_size(removed)):
        yield {
            "_id": note_id(entry.part, entry.token, ordinal),
            "partition": entry.part,
            "prefix": prefix,
            "epoch": entry.epoch,
            "feed": feed_key(entry.part, entry.sequence),
            "revision": entry.sequence,
            "gone": [list(place) for place in places],
            "pending": pending,
        }


def get_token(document: Document) -> str:
    """Return the token in the id of a version or note."""
    start = PART_CHARACTERS if "gone" in document else PART_CHARACTERS + _PLACE_CHARACTERS
    return document["_id"][start : start + _TOKEN_CHARACTERS]


def packed_places(keys: Iterable[str]) -> bytes:
    """Return :attr:`BatchRecord.wrote` for the keys of rows."""
    return bytes.fromhex("".join(key[PART_CHARACTERS:] for key in keys))


def packed_versions(ids: Iterable[str]) -> bytes:
    """Return :attr:`BatchRecord.ended` for the ids of versions."""
    return bytes.fromhex("".join(version[PART_CHARACTERS:] for version in ids))


def encode_partition(partition: Partition) -> tuple[str, str]:
    """Return kind and parts of *partition* as stored."""
    return partition.kind, json.dumps(partition.parts)


def shows(document: Document, entry: BatchRecord, hidden: frozenset[str]) -> bool:
    """Return whether a version or note exists if *entry* is the newest record and removes *hidden*.

    One that is later than *entry* may show, too; its revision tells.
    """
    return (
        document["epoch"] == entry.epoch
        and ("pending" not in document or get_token(document) == entry.token)
        and document["_id"] not in hidden
    )


def hidden_by(entry: BatchRecord) -> frozenset[str]:
    """Return the ids of the versions that an open *entry* removes."""
    return frozenset(entry.replaced) if entry.is_open else frozenset()


def is_folded(version: Document, head: BatchRecord) -> bool:
    """Return whether *version* exists if everything up to *head* is folded."""
    return version["epoch"] == head.epoch and "pending" not in version


def chunked(values: Iterable[T], size: int) -> Iterator[list[T]]:
    """Cut *values* into lists of at most *size*."""
    iterator = iter(values)
    while chunk := list(islice(iterator, size)):
        yield chunk


def chunked_by_size(documents: Iterable[Document]) -> Iterator[list[Document]]:
    """Cut *documents* into lists that each fit one insert command."""
    chunk: list[Document] = []
    size = 0
    for document in documents:
        chunk.append(document)
        size += size_of(document)
        if size > _INSERTED_BYTES or len(chunk) == MAX_COMMAND_IDS:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _split(packed: bytes, size: int) -> Iterator[str]:
    text, width = packed.hex(), size * 2
    return (text[start : start + width] for start in range(0, len(text), width))


def _by_size(places: Sequence[RowKey]) -> Iterator[list[RowKey]]:
    """Cut *places* into lists that each fit in one document."""
    part: list[RowKey] = []
    characters = 0
    for place in places:
        size = len(place[0]) + len(place[1])
        if part and (characters + size > _NOTE_CHARACTERS or len(part) == _NOTE_PLACES):
            yield part
            part, characters = [], 0
        part.append(place)
        characters += size
    if part:
        yield part
