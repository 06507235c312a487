"""What is read and written in the tables of a SQLite storage.

Every method works on a connection that is inside a transaction, which makes it of one moment and
all or nothing; it knows nothing of threads, files or errors of the driver.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from threadkeep.errors import PartitionErasedError
from threadkeep.ids import new_id
from threadkeep.storage.commit import Known, decide
from threadkeep.storage.encoding import Cursor, encode_text, partition_key
from threadkeep.storage.port import (
    MAX_CHANGE_LOG_ROWS,
    Batch,
    Changes,
    Item,
    Partition,
    Position,
    Ref,
)
from threadkeep.storage.row import EXPIRES_AT, Change, Columns, Place, Row, changed_of, items_of, place_of, spelled
from threadkeep.storage.scan import Scan
from threadkeep.storage.sqlite.file import SQL

_HIGHEST: Final = (1 << 63) - 1
_LOWEST: Final = -(1 << 63)
_PART: Final = 64


class _Head(NamedTuple):
    """The row of a partition, without its names."""

    epoch: str
    sequence: int
    floor: int
    logged: int


class SqliteTables:
    """The tables, as the deployment with *key_prefix* sees them.

    Args:
        key_prefix: Of the deployment.
        birth: The epoch of partitions that were never erased.
    """

    def __init__(self, *, key_prefix: str, birth: str) -> None:
        self._prefix = encode_text(key_prefix)
        self._birth = birth

    def commit(self, connection: sqlite3.Connection, batch: Batch, changes: Sequence[Change], now: int) -> Position:
        """Write *changes*, which *batch* was encoded to, and return the position after them."""
        digest = self._digest(batch.partition)
        head = self._head(connection, digest)
        if batch.epoch is not None and batch.epoch != head.epoch:
            msg = "The partition was erased while this work was in flight; nothing was written."
            raise PartitionErasedError(msg)
        known = dict(_known(connection, digest, changes))
        sequence = head.sequence + 1
        outcome = decide(changes, known, revision=sequence, now=now)
        if outcome.rows:
            connection.executemany(SQL["put"], [(digest, *row) for row in outcome.rows])
        if outcome.touched:
            connection.executemany(
                SQL["touch"], [(sequence, expires_at, digest, *place) for expires_at, *place in outcome.touched]
            )
        if outcome.deleted:
            connection.executemany(SQL["delete"], [(digest, *place) for place in outcome.deleted])
        if outcome.removed:
            connection.executemany(SQL["log"], [(digest, sequence, *place) for place in outcome.removed])
            head = _trimmed(connection, digest, head._replace(logged=head.logged + len(outcome.removed)))
        self._write_head(connection, digest, head._replace(sequence=sequence), batch.partition)
        return Position(head.epoch, sequence)

    def position(self, connection: sqlite3.Connection, partition: Partition) -> Position:
        """Return how far *partition* has come; one statement, so it needs no transaction around it."""
        rows = connection.execute(SQL["position"], (self._digest(partition),)).fetchall()
        return Position(*rows[0]) if rows else Position(self._birth, 0)

    def get(self, connection: sqlite3.Connection, refs: Sequence[Ref], now: int) -> tuple[Item | None, ...]:
        """Return the items at *refs*, ``None`` where there is none."""
        digests = {ref.partition: self._digest(ref.partition) for ref in refs}
        found: list[Item | None] = [None] * len(refs)
        rows: dict[Partition, list[tuple[int, Row]]] = {}
        for i, ref in enumerate(refs):
            place = place_of(ref.namespace, ref.key)
            for row in connection.execute(SQL["get"], (digests[ref.partition], *place, now)):
                rows.setdefault(ref.partition, []).append((i, Row._make(row)))
        for partition, placed in rows.items():
            items = items_of([row for _, row in placed], partition)
            for (i, _), item in zip(placed, items, strict=True):
                found[i] = item
        return tuple(found)

    def scan(self, connection: sqlite3.Connection, scan: Scan, now: int) -> list[tuple[Cursor, Item]]:
        """Return up to one more than ``scan.limit`` items with their places in the order."""
        first, last = scan.namespaces
        cursor = connection.execute(
            SQL["scan_newest" if scan.direction == "newest" else "scan_oldest"],
            {
                "digest": self._digest(scan.partition),
                **scan.start._asdict(),
                "first": first,
                "last": last,
                "now": now,
                "limit": -1 if scan.filter else scan.wanted,
            },
        )
        found: list[tuple[Cursor, Item]] = []
        part = _PART if scan.filter else scan.wanted
        while len(found) < scan.wanted and (rows := _rows(cursor.fetchmany(part))):
            found += scan.meeting(rows)
        cursor.close()
        return found[: scan.wanted]

    def changes(
        self, connection: sqlite3.Connection, partition: Partition, since: Position | None, now: int
    ) -> Changes:
        """Return what happened after *since*."""
        digest = self._digest(partition)
        head = self._head(connection, digest)
        position = Position(head.epoch, head.sequence)
        reset = since is None or since.epoch != head.epoch or not head.floor <= since.sequence <= head.sequence
        after = -1 if since is None or reset else since.sequence
        rows: list[Columns] = connection.execute(SQL["searchable"], (digest, after)).fetchall()
        alive = [row for row in rows if _is_alive(row, now)]
        removed: dict[Place, None] = {}
        if not reset:
            removed.update(dict.fromkeys(connection.execute(SQL["removed"], (digest, after)).fetchall()))
            # What a follower holds of an expired item may be an older version, which did not expire.
            removed.update(dict.fromkeys(row[:2] for row in rows if not _is_alive(row, now)))
        return Changes(position, reset, changed_of(alive, partition), tuple(map(spelled, removed)))

    def namespaces(self, connection: sqlite3.Connection, now: int) -> set[str]:
        """Return the encoded namespaces that hold an unexpired item."""
        return {text for (text,) in connection.execute(SQL["namespaces"], {"prefix": self._prefix, "now": now})}

    def partitions(self, connection: sqlite3.Connection, after: Partition | None, limit: int) -> tuple[Partition, ...]:
        """Return the partitions behind *after*, in the order of their digests."""
        asked = {
            "prefix": self._prefix,
            "after": b"" if after is None else self._digest(after),
            "limit": min(limit, _HIGHEST),
        }
        rows = connection.execute(SQL["partitions"], asked).fetchall()
        return tuple(Partition(kind, tuple(json.loads(parts))) for kind, parts in rows)

    def due(self, connection: sqlite3.Connection, kind: str, now: int, limit: int) -> tuple[Item, ...]:
        """Return the unexpired items whose work waits since *now*, longest first."""
        rows = connection.execute(
            SQL["due"], {"prefix": self._prefix, "kind": encode_text(kind), "now": now, "limit": min(limit, _HIGHEST)}
        ).fetchall()
        return tuple(
            item
            for partition_kind, parts, *row in rows
            for item in items_of(_rows([row]), Partition(partition_kind, tuple(json.loads(parts))))
        )

    def erase(self, connection: sqlite3.Connection, partition: Partition) -> int:
        """Remove everything of *partition* but the row that says so; return how many items there were."""
        digest = self._digest(partition)
        head = self._head(connection, digest)
        items = connection.execute(SQL["erase_items"], (digest,)).rowcount
        connection.execute(SQL["erase_log"], (digest,))
        self._write_head(connection, digest, _Head(new_id(), head.sequence, head.sequence, 0), None)
        return items

    def sweep(self, connection: sqlite3.Connection, now: int) -> int:
        """Remove what expired by *now*; return how many."""
        expired = connection.execute(SQL["expired_partitions"], {"prefix": self._prefix, "now": now}).fetchall()
        swept = 0
        for digest, kind, parts, *fields in expired:
            head = _Head(*fields)
            head = head._replace(sequence=head.sequence + 1)
            named = {"digest": digest, "revision": head.sequence, "now": now}
            logged = connection.execute(SQL["log_expired"], named).rowcount
            swept += connection.execute(SQL["delete_expired"], named).rowcount
            head = _trimmed(connection, digest, head._replace(logged=head.logged + logged))
            partition = Partition(kind, tuple(json.loads(parts)))
            self._write_head(connection, digest, head, partition)
        return swept

    def count(self, connection: sqlite3.Connection) -> tuple[int, int]:
        """Return how many partitions and items there are."""
        ((partitions, items),) = connection.execute(SQL["stats"], (self._prefix,)).fetchall()
        return partitions, items

    def _digest(self, partition: Partition) -> bytes:
        return partition_key(self._prefix, partition.digest)

    def _head(self, connection: sqlite3.Connection, digest: bytes) -> _Head:
        rows = connection.execute(SQL["partition"], (digest,)).fetchall()
        return _Head(*rows[0]) if rows else _Head(self._birth, 0, 0, 0)

    def _write_head(
        self, connection: sqlite3.Connection, digest: bytes, head: _Head, partition: Partition | None
    ) -> None:
        connection.execute(
            SQL["write_partition"],
            {
                "digest": digest,
                "prefix": self._prefix,
                "kind": partition.kind if partition else None,
                "parts": json.dumps(partition.parts) if partition else None,
                **head._asdict(),
            },
        )


def _known(connection: sqlite3.Connection, digest: bytes, changes: Sequence[Change]) -> Iterator[tuple[Place, Known]]:
    for change in changes:
        rows = connection.execute(SQL["known"], (digest, *change.place)).fetchall()
        if rows:
            yield change.place, Known(*rows[0])


def _trimmed(connection: sqlite3.Connection, digest: bytes, head: _Head) -> _Head:
    """Remove what no longer fits the change log, whole revisions at a time."""
    if head.logged <= MAX_CHANGE_LOG_ROWS:
        return head
    ((floor,),) = connection.execute(SQL["log_floor"], (digest, MAX_CHANGE_LOG_ROWS)).fetchall()
    gone = connection.execute(SQL["trim_log"], (digest, floor)).rowcount
    return head._replace(floor=floor, logged=head.logged - gone)


def _is_alive(row: Columns, now: int) -> bool:
    expires_at = row[EXPIRES_AT]
    return expires_at is None or expires_at > now


def _rows(rows: Iterable[Any]) -> list[Row]:
    return list(map(Row._make, rows))
