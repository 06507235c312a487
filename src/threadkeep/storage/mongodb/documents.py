"""How a MongoDB storage spells what it keeps, in three collections. Pure rules.

``threadkeep_batches``: one **entry** for each commit and erasure of a partition, newest last. Its ``_id``
is the partition's key and a number, so the unique index lets one writer have each number. The newest
entry says how far the partition has come; it is *open* until it is folded, and every one before it was.

``threadkeep_items``: **versions** of items, and **notes** of what ceased to be searchable. They are
inserted before the entry that they belong to and *pending* until it is folded; one that is pending
counts where the newest entry has its token, and nowhere else. Folding takes the mark away and removes
the versions that these replace. Nothing is ever inserted again under an ``_id`` that was removed, so
whoever folds an entry late, or twice, changes nothing.

``threadkeep_about``: one document with the schema's version and the epoch of partitions never erased.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
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
"""A partition's key: SHA-256 of the key prefix and its digest, in hexadecimal; it leads every other key."""

MAX_DOCUMENT_BYTES: Final = 16 * 1024 * 1024
"""What MongoDB keeps in one document."""

MAX_COMMAND_IDS: Final = 1_000
"""How many ids one command names."""

_INSERTED_BYTES: Final = 8 * 1024 * 1024
_PLACE_CHARACTERS: Final = 32
_TOKEN_CHARACTERS: Final = 32
_BEHIND: Final = "~"
"""Sorts behind whatever follows a partition's key."""

_NOTE_CHARACTERS: Final = 1_000_000
_NOTE_PLACES: Final = 1_000
_LOWEST_MOMENT: Final = -(1 << 63)
_PLACE_BYTES: Final = _PLACE_CHARACTERS // 2
_ENDED_BYTES: Final = (_PLACE_CHARACTERS + _TOKEN_CHARACTERS) // 2


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """What one entry says; the newest one of a partition is how far that has come.

    Attributes:
        part: The partition's key.
        number: Counts entries from 1 on; 0: there is none.
        token: Whose it is; its versions and notes have the same one in their ids.
        previous: The token of the entry before.
        epoch: Of the partition, after this.
        sequence: The same; it moves with each commit, but not with an erasure.
        floor: Notes tell everything after this sequence.
        logged: How many removals the notes tell of.
        kind: The partition's spelling, ``None`` once it was erased.
        parts: The same, as JSON.
        wrote: The places that have versions of this entry, 16 bytes each.
        ended: The versions that it removes: place and token, 32 bytes each.
        notes: How many notes it has.
        trimmed: Whether notes up to *floor* are to be removed.
        erased: The epoch that ended with it.
        is_open: Whether it is still to be folded.
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
        """How far the partition has come with it."""
        return Position(self.epoch, self.sequence)

    @property
    def partition(self) -> Partition | None:
        """The partition as it is spelled; ``None`` once it was erased, or where there is nothing."""
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
        """The ids of the versions that it removes."""
        for place_and_token in _split(self.ended, _ENDED_BYTES):
            yield f"{self.part}{place_and_token}"

    @property
    def changed(self) -> set[str]:
        """The keys of the places that it writes or removes."""
        places = {f"{self.part}{place}" for place in _split(self.wrote, _PLACE_BYTES)}
        places.update(f"{self.part}{ended[:_PLACE_CHARACTERS]}" for ended in _split(self.ended, _ENDED_BYTES))
        return places

    def document(self, prefix: str) -> Document:
        """Return it as it is kept, *prefix* being the deployment's."""
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


def entry_of(document: Document, *, as_of: float) -> BatchRecord:
    """Undo :meth:`BatchRecord.document`, also where it was read without its lists."""
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
def part_of(prefix: str, digest: bytes) -> str:
    """Return the key of the partition with *digest* in the deployment with the encoded key *prefix*."""
    return hashlib.sha256(prefix.encode("ascii") + digest).hexdigest()


def entry_id(part: str, number: int) -> str:
    """Return the ``_id`` of an entry; ids of one partition sort by number."""
    return f"{part}{number:016x}"


def entries_of(part: str, *, first: int = 0) -> Document:
    """Return the query for the entries of a partition from number *first* on."""
    return {"partition": part, "_id": {"$gte": entry_id(part, first), "$lt": part + _BEHIND}}


def everything_of(part: str) -> Document:
    """Return the query for the versions and notes of a partition."""
    return {"partition": part, "_id": {"$gt": part, "$lt": part + _BEHIND}}


def place_key(part: str, place: RowKey) -> str:
    """Return the key that the versions at *place* share."""
    return part + short_digest(*place)


def any_of(keys: Sequence[str]) -> Any:
    """Return the condition on a field that it is one of *keys*."""
    return keys[0] if len(keys) == 1 else {"$in": list(keys)}


def note_id(part: str, token: str, ordinal: int) -> str:
    """Return the ``_id`` of a note."""
    return f"{part}{token}{ordinal:08x}"


def order_key(part: str, cursor: Cursor) -> str:
    """Return what sorts as the order of a scan does; no encoded namespace is the beginning of another."""
    updated_at = cursor.updated_at - _LOWEST_MOMENT
    return f"{part}{updated_at:020d}{cursor.revision:020d}{cursor.namespace}{cursor.key}"


def order_range(part: str, after: str | None, *, newest: bool) -> Document:
    """Return the condition on ``order`` for what a scan has still to see behind the order key *after*."""
    if newest:
        return {"$gt": part, "$lt": after or part + _BEHIND}
    return {"$gt": after or part, "$lt": part + _BEHIND}


def feed_key(part: str, revision: int) -> str:
    """Return what sorts by revision, for what followers are told."""
    return f"{part}{revision:016x}"


def feed_after(part: str, revision: int) -> Document:
    """Return the condition on ``feed`` for what is later than *revision*."""
    return {"$gt": feed_key(part, revision) if revision >= 0 else part, "$lt": part + _BEHIND}


def version_of(row: ItemRow, entry: BatchRecord, *, prefix: str, pending: int) -> Document:
    """Return *row* as a version that belongs to *entry*.

    Args:
        row: As it was decided.
        entry: What it is inserted before.
        prefix: Of the deployment.
        pending: The time, in microseconds.

    Raises:
        TooLargeError: It does not fit one document.
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
            f"An item takes {size:,} bytes with its vectors, and MongoDB keeps at most {MAX_DOCUMENT_BYTES:,} "
            "in one document. Split it, or store a reference to it."
        )
        raise TooLargeError(msg, size_bytes=size)
    return document


def size_of(document: Document) -> int:
    """Return about how many bytes *document* takes, never less."""
    return 2_048 + sum(len(value) for value in document.values() if isinstance(value, str | bytes))


def row_of(version: Document) -> ItemRow:
    """Undo :func:`version_of`."""
    return ItemRow._make(version.get(name) for name in ItemRow._fields)


def notes_of(removed: Sequence[RowKey], entry: BatchRecord, *, prefix: str, pending: int) -> Iterator[Document]:
    """Yield the notes that *removed* ceased to be searchable with *entry*."""
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


def token_of(document: Document) -> str:
    """Return whose version or note *document* is."""
    start = PART_CHARACTERS if "gone" in document else PART_CHARACTERS + _PLACE_CHARACTERS
    return document["_id"][start : start + _TOKEN_CHARACTERS]


def packed_places(keys: Iterable[str]) -> bytes:
    """Return :attr:`BatchRecord.wrote` for the keys of places."""
    return bytes.fromhex("".join(key[PART_CHARACTERS:] for key in keys))


def packed_versions(ids: Iterable[str]) -> bytes:
    """Return :attr:`BatchRecord.ended` for the ids of versions."""
    return bytes.fromhex("".join(version[PART_CHARACTERS:] for version in ids))


def spelling_of(partition: Partition) -> tuple[str, str]:
    """Return kind and parts of *partition* as stored."""
    return partition.kind, json.dumps(partition.parts)


def shows(document: Document, entry: BatchRecord, hidden: frozenset[str]) -> bool:
    """Return whether a version or note exists if *entry* is the newest record and removes *hidden*.

    One that is later than *entry* may show, too; its revision tells.
    """
    return (
        document["epoch"] == entry.epoch
        and ("pending" not in document or token_of(document) == entry.token)
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
    """Cut *places* into lists that each fit one document."""
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
