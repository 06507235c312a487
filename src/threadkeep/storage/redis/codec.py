"""Names of keys and encoding of rows in Redis. Pure rules; ``lua/partition.lua`` reads and writes the same.

Every key begins with ``threadkeep:<prefix>:``, the deployment's key prefix percent-encoded. A partition belongs to one
of 256 groups, by the first byte of its digest, and the group is the hash tag of all its keys:
``threadkeep::{4f}:heads``, ``threadkeep::{4f}:<digest>:items``. So a commit touches one hash slot, which includes its
indexes across partitions, and a cluster spreads the groups over its nodes.

A **place** is the encoded namespace, a newline and the encoded key. A **mark** has a fixed width and holds what scripts
read, each part at its own columns. A **body** holds the rest: three lengths, then value, paths, dims and model, the
vectors, and the item's bytes.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple, cast
from urllib.parse import quote

from threadkeep.storage.encoding import Cursor
from threadkeep.storage.interface import Partition, Position
from threadkeep.storage.rows import NO_PATHS, ItemRow, PutRow, RowChange, RowKey, RowState

GROUPS: Final = tuple(f"{number:02x}" for number in range(256))

NEVER: Final = "9" * 18
"""Later than any moment."""

_NEVER_BYTES: Final = NEVER.encode("ascii")

_SHIFT: Final = 10**17
"""Added to microseconds, so that moments before 1970 sort as texts, too."""

_LENGTHS: Final = struct.Struct("<III")
_DATA_LENGTH: Final = struct.Struct("<I")
_HAS_DATA: Final = 1 << 31
"""Set in the first length of a body that ends with an item's bytes; their length follows the three others."""

_MAX_REVISION: Final = 10**16
_DIGEST_LENGTH: Final = 64


class PartitionKeys(NamedTuple):
    """The keys of one partition, in the order of the KEYS of the scripts that write it."""

    heads: bytes
    partitions: bytes
    namespaces: bytes
    due: bytes
    expiring: bytes
    items: bytes
    order: bytes
    searchable: bytes
    removed: bytes


class RedisKeys:
    """The names of the keys of the deployment with *key_prefix*."""

    def __init__(self, key_prefix: str) -> None:
        self.prefix: str = f"threadkeep:{quote(key_prefix, safe='', errors='surrogatepass')}:"

    @property
    def storage(self) -> bytes:
        """The hash with the version of the layout and the epoch of partitions that were never erased."""
        return f"{self.prefix}storage".encode("ascii")

    def partition(self, digest: str) -> PartitionKeys:
        """Return the keys of the partition with the hexadecimal *digest*."""
        return _partition_keys(self.prefix, digest)

    def result(self, digest: str, token: str) -> bytes:
        """Return the key that keeps the result of the write with *token*."""
        return f"{self.prefix}{{{digest[:2]}}}:results:{token}".encode("ascii")

    def groups(self, *kinds: str, groups: Sequence[str] = GROUPS) -> list[bytes]:
        """Return the keys of these *kinds* of each group, group by group."""
        return [f"{self.prefix}{{{group}}}:{kind}".encode("ascii") for group in groups for kind in kinds]


class ItemAddress(NamedTuple):
    """An item's address across partitions: the *digest* of its partition and its *place* there."""

    digest: str
    place: bytes


def to_digest(partition: Partition) -> str:
    """Return the digest of *partition*: 64 hexadecimal characters."""
    return partition.digest.hex()


def encode_moment(microseconds: int) -> str:
    """Return a moment as 18 digits that sort as moments do."""
    return f"{microseconds + _SHIFT:018d}"


def encode_place(row_key: RowKey) -> bytes:
    """Return the place of an item: as fields and members spell its encoded namespace and key."""
    return "\n".join(row_key).encode("ascii")


def parse_place(place: bytes) -> RowKey:
    """Undo :func:`encode_place`."""
    return cast("RowKey", tuple(place.decode("ascii").split("\n")))


def item_fields(place: bytes) -> tuple[bytes, bytes]:
    """Return the fields that hold the mark and the body of the item at *place*."""
    return b"m" + place, b"b" + place


def parse_position(head: bytes) -> Position:
    """Read the position of a partition from its head: epoch, sequence, floor, run and spelling."""
    epoch, sequence, _ = head.split(b" ", 2)
    return Position(epoch.decode("ascii"), int(sequence))


@lru_cache(maxsize=4096)
def encode_partition(partition: Partition) -> str:
    """Return *partition* as its head spells it."""
    return json.dumps([partition.kind, *partition.parts])


def parse_partition(head: bytes) -> Partition | None:
    """Read the partition from its head; ``None`` after it was erased."""
    spelling = head.split(b" ", 4)[4]
    if not spelling:
        return None
    kind, *parts = json.loads(spelling)
    return Partition(kind, tuple(parts))


def encode_change(change: RowChange, *, now: int) -> tuple[str, bytes, bytes]:
    """Return *change* as ``commit.lua`` takes it: the change, the place, the body."""
    place, expected, content = encode_place(change.row_key), _encode_expectation(change), change.content
    if content is None:
        return f"{change.kind[0]}{NEVER}{expected}", place, b""
    created = NEVER if content.created_at is None else encode_moment(content.created_at)
    return f"p{created}{expected}{_encode_mark(content, now)}", place, _encode_body(content)


def encode_expiry(place: bytes) -> tuple[str, bytes, bytes]:
    """Return the change that removes the item at *place* if it has expired, as ``commit.lua`` takes it."""
    return f"x{NEVER}{'any':16}", place, b""


def parse_row(mark: bytes, place: bytes, body: bytes) -> ItemRow:
    """Put a row together from its mark, its place and its body."""
    value_bytes, paths_bytes, model_bytes = _LENGTHS.unpack_from(body)
    start, end, data = _LENGTHS.size, len(body), None
    if value_bytes & _HAS_DATA:
        value_bytes ^= _HAS_DATA
        end -= _DATA_LENGTH.unpack_from(body, start)[0]
        start += _DATA_LENGTH.size
        data = body[end:]
    value_end = start + value_bytes
    paths_end = value_end + paths_bytes
    model_end = paths_end + model_bytes
    model = dims = embedding = None
    if model_bytes:
        dims_text, model = body[paths_end:model_end].decode("ascii").split(" ", 1)
        dims, embedding = int(dims_text), body[model_end:end]
    namespace, key = place.decode("ascii").split("\n")
    expires, due = mark[52:70], mark[71:89]
    return ItemRow(
        namespace,
        key,
        body[start:value_end].decode("ascii"),
        int(mark[:16]),
        int(mark[16:34]) - _SHIFT,
        int(mark[34:52]) - _SHIFT,
        body[value_end:paths_end].decode("ascii"),
        model,
        dims,
        embedding,
        int(mark[89:107]) or None,
        None if expires == _NEVER_BYTES else int(expires) - _SHIFT,
        None if due == _NEVER_BYTES else mark[107:].decode("ascii"),
        None if due == _NEVER_BYTES else int(due) - _SHIFT,
        data,
    )


def parse_rows_reply(lengths: bytes, texts: Sequence[bytes]) -> Iterator[ItemRow]:
    """Read rows that a script has joined into *texts*; *lengths* are three for each: of mark, place and body."""
    ends = list(map(int, lengths.split()))
    text = b"".join(texts)
    at = 0
    for i in range(0, len(ends), 3):
        place = at + ends[i]
        body = place + ends[i + 1]
        end = body + ends[i + 2]
        yield parse_row(text[at:place], text[place:body], text[body:end])
        at = end


def encode_cursor_member(cursor: Cursor) -> bytes:
    """Return the member of the scan's order at *cursor*."""
    at = min(max(cursor.updated_at + _SHIFT, 0), 10**18 - 1)
    revision = min(max(cursor.revision, 0), _MAX_REVISION - 1)
    return f"{at:018d}{revision:016d}{cursor.namespace}\n{cursor.key}".encode("utf-8", "surrogatepass")


def due_range(kind: str, now: int) -> tuple[str, str, int]:
    """Return the first and last bound of the due members of the encoded *kind* up to *now*, and the kind's length."""
    return f"[{kind}\n", f"({kind}\n{encode_moment(now + 1)}", len(kind)


def parse_due_member(member: bytes, kind_length: int) -> ItemAddress:
    """Read a member of the due index; its kind has *kind_length* characters."""
    at = kind_length + 1 + 18 + 18
    return ItemAddress(member[at : at + _DIGEST_LENGTH].decode("ascii"), member[at + _DIGEST_LENGTH :])


def expired_bound(now: int) -> str:
    """Return the upper bound of the members of the expiring index that have expired."""
    return f"({encode_moment(now + 1)}"


def parse_expiring_member(member: bytes) -> ItemAddress:
    """Read a member of the expiring index."""
    return ItemAddress(member[18 : 18 + _DIGEST_LENGTH].decode("ascii"), member[18 + _DIGEST_LENGTH :])


def parse_conflict(revision: bytes) -> RowState | None:
    """Return the state of an item that made a commit fail: its revision, or nothing if it is absent."""
    return None if revision == b"-" else RowState(int(revision), 0, None, None, NO_PATHS)


@lru_cache(maxsize=4096)
def _partition_keys(prefix: str, digest: str) -> PartitionKeys:
    group = f"{prefix}{{{digest[:2]}}}:"
    shared = (f"{group}{kind}" for kind in PartitionKeys._fields[:5])
    own = (f"{group}{digest}:{kind}" for kind in PartitionKeys._fields[5:])
    return PartitionKeys(*(key.encode("ascii") for key in (*shared, *own)))


def _encode_expectation(change: RowChange) -> str:
    if isinstance(change.expect, str):
        return f"{change.expect:16}"
    return f"{change.expect:016d}" if 0 <= change.expect < _MAX_REVISION else "no such revision"


def _encode_mark(content: PutRow, now: int) -> str:
    """Return the mark from its 35th column on; the script adds the revision and the time of creation."""
    expires = NEVER
    if content.ttl is not None:
        expires = encode_moment(now + content.ttl if content.expires_at is None else content.expires_at)
    updated = encode_moment(now if content.updated_at is None else content.updated_at)
    searchable = 0 if content.paths == NO_PATHS else 1
    due = NEVER if content.due_at is None else encode_moment(content.due_at)
    return f"{updated}{expires}{searchable}{due}{content.ttl or 0:018d}{content.due_kind or ''}"


def _encode_body(content: PutRow) -> bytes:
    value, paths = content.value.encode("ascii"), content.paths.encode("ascii")
    model = b"" if content.model is None else f"{content.dims} {content.model}".encode("ascii")
    rest = (value, paths, model, content.embedding or b"")
    if content.data is None:
        return b"".join((_LENGTHS.pack(len(value), len(paths), len(model)), *rest))
    lengths = _LENGTHS.pack(len(value) | _HAS_DATA, len(paths), len(model))
    return b"".join((lengths, _DATA_LENGTH.pack(len(content.data)), *rest, content.data))
