"""How a row is spelled in Redis. Pure rules; ``lua/partition.lua`` reads and writes the same.

A **place** is the encoded namespace, a newline and the encoded key. A **mark** holds what scripts look
at, each at its own columns. A **body** holds the rest: three lengths, then value, paths, dims and model, and
the vectors.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, cast

from threadkeep.storage.commit import Known
from threadkeep.storage.encoding import Cursor, encode_text
from threadkeep.storage.port import Namespace, Partition, Position
from threadkeep.storage.row import NO_PATHS, Change, Content, Place, Row, place_of

NEVER: Final = "9" * 18
"""Later than any moment that there is."""

_SHIFT: Final = 10**17
"""Moments before 1970 sort, too."""

_LENGTHS: Final = struct.Struct("<III")
_MAX_REVISION: Final = 10**16
_DIGEST: Final = 64


class Located(NamedTuple):
    """Where an item is: *place* of the partition with *digest*."""

    digest: str
    place: bytes


def moment_text(microseconds: int) -> str:
    """Return a moment as 18 digits that sort as moments do."""
    return f"{microseconds + _SHIFT:018d}"


def place_text(namespace: Namespace, key: str) -> str:
    """Return the place of an item, checked."""
    return "\n".join(place_of(namespace, key))


def field_names(place: str | bytes) -> tuple[str, str] | tuple[bytes, bytes]:
    """Return the fields that hold the mark and the body of the item at *place*."""
    return (f"m{place}", f"b{place}") if isinstance(place, str) else (b"m" + place, b"b" + place)


def position_of(head: bytes) -> Position:
    """Read how far a partition has come from its head: epoch, sequence, floor, run and spelling."""
    epoch, sequence, _ = head.split(b" ", 2)
    return Position(epoch.decode("ascii"), int(sequence))


def spelling_of(partition: Partition) -> str:
    """Return how *partition* is spelled in its head."""
    return json.dumps([partition.kind, *partition.parts])


def partition_of(head: bytes) -> Partition | None:
    """Read which partition a head is of; ``None`` once it was erased."""
    spelling = head.split(b" ", 4)[4]
    if not spelling:
        return None
    kind, *parts = json.loads(spelling)
    return Partition(kind, tuple(parts))


def operation_of(change: Change, *, now: int) -> tuple[str, str, str, bytes]:
    """Return *change* as ``commit.lua`` takes it: what, place, rest of the mark, body."""
    place = "\n".join(change.place)
    content = change.content
    if content is None:
        return f"{change.kind[0]}{NEVER}{_expected(change)}", place, "", b""
    created = NEVER if content.created_at is None else moment_text(content.created_at)
    return f"p{created}{_expected(change)}", place, _rest(content, now), _body(content)


def expired_operation(place: bytes) -> tuple[str, bytes, str, bytes]:
    """Return what removes the item at *place* where it has expired, as ``commit.lua`` takes it."""
    return f"x{NEVER}any", place, "", b""


def row_of(mark: bytes, place: bytes, body: bytes) -> Row:
    """Put a row together."""
    text = mark.decode("ascii")
    namespace, key = place.decode("ascii").split("\n")
    value_bytes, paths_bytes, model_bytes = _LENGTHS.unpack_from(body)
    value_end = _LENGTHS.size + value_bytes
    paths_end = value_end + paths_bytes
    model_end = paths_end + model_bytes
    model = dims = embedding = None
    if model_bytes:
        dims, model = body[paths_end:model_end].decode("ascii").split(" ", 1)
        embedding = body[model_end:]
    expires, due = text[52:70], text[71:89]
    return Row(
        namespace=namespace,
        key=key,
        value=body[_LENGTHS.size : value_end].decode("ascii"),
        revision=int(text[:16]),
        created_at=int(text[16:34]) - _SHIFT,
        updated_at=int(text[34:52]) - _SHIFT,
        paths=body[value_end:paths_end].decode("ascii"),
        model=model,
        dims=None if dims is None else int(dims),
        embedding=embedding,
        ttl=int(text[89:107]) or None,
        expires_at=None if expires == NEVER else int(expires) - _SHIFT,
        due_kind=None if due == NEVER else text[107:],
        due_at=None if due == NEVER else int(due) - _SHIFT,
    )


def rows_of(lengths: bytes, texts: Sequence[bytes]) -> Iterator[Row]:
    """Read rows that a script has joined into *texts*; *lengths* are three for each: of mark, place and body."""
    ends = list(map(int, lengths.split()))
    text = b"".join(texts)
    at = 0
    for i in range(0, len(ends), 3):
        place = at + ends[i]
        body = place + ends[i + 1]
        end = body + ends[i + 2]
        yield row_of(text[at:place], text[place:body], text[body:end])
        at = end


def is_alive(row: Row, now: int) -> bool:
    """Whether *row* has not expired."""
    return row.expires_at is None or row.expires_at > now


def order_member(cursor: Cursor) -> bytes:
    """Return the member of the scan's order that stands at *cursor*."""
    at = min(max(cursor.updated_at + _SHIFT, 0), 10**18 - 1)
    revision = min(max(cursor.revision, 0), _MAX_REVISION - 1)
    return f"{at:018d}{revision:016d}{cursor.namespace}\n{cursor.key}".encode("utf-8", "surrogatepass")


def due_bounds(kind: str, now: int) -> tuple[str, str, int]:
    """Return the first and last bound of the work of *kind* that is due *now*, and the length of the kind."""
    text = encode_text(kind)
    return f"[{text}\n", f"({text}\n{moment_text(now + 1)}", len(text)


def due_member(member: bytes, kind_length: int) -> Located:
    """Read a member of the due index whose kind has *kind_length* characters."""
    at = kind_length + 1 + 18 + 18
    return Located(member[at : at + _DIGEST].decode("ascii"), member[at + _DIGEST :])


def expired_bound(now: int) -> str:
    """Return the bound up to which members of the expiring index have expired."""
    return f"({moment_text(now + 1)}"


def expiring_member(member: bytes) -> Located:
    """Read a member of the expiring index."""
    return Located(member[18 : 18 + _DIGEST].decode("ascii"), member[18 + _DIGEST :])


def known_at(revision: bytes) -> Known | None:
    """Return what a refused commit tells of an item: its revision, or nothing where it is absent."""
    return Known(int(revision), 0, None, None, NO_PATHS) if revision else None


def place_of_bytes(place: bytes) -> Place:
    """Return a place as rows spell it."""
    return cast("Place", tuple(place.decode("ascii").split("\n")))


def _expected(change: Change) -> str:
    return change.expect if isinstance(change.expect, str) else _revision_text(change.expect)


def _revision_text(revision: int) -> str:
    return f"{revision:016d}" if 0 <= revision < _MAX_REVISION else "no revision"


def _rest(content: Content, now: int) -> str:
    expires = NEVER
    if content.ttl is not None:
        expires = moment_text(now + content.ttl if content.expires_at is None else content.expires_at)
    updated = moment_text(now if content.updated_at is None else content.updated_at)
    searchable = 0 if content.paths == NO_PATHS else 1
    due = NEVER if content.due_at is None else moment_text(content.due_at)
    return f"{updated}{expires}{searchable}{due}{content.ttl or 0:018d}{content.due_kind or ''}"


def _body(content: Content) -> bytes:
    value, paths = content.value.encode("ascii"), content.paths.encode("ascii")
    model = b"" if content.model is None else f"{content.dims} {content.model}".encode("ascii")
    return b"".join((_LENGTHS.pack(len(value), len(paths), len(model)), value, paths, model, content.embedding or b""))
