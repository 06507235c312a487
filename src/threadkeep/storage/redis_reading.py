"""Reads that may give more than fits into one reply: a part at a time, as if they had been one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final, NamedTuple

from threadkeep.storage.encoding import Cursor, prefix_range
from threadkeep.storage.port import Namespace, Position
from threadkeep.storage.redis_keys import PartitionKeys
from threadkeep.storage.redis_link import Link
from threadkeep.storage.redis_rows import moment_text, order_member, place_of_bytes, rows_of
from threadkeep.storage.redis_scripts import CHANGES, SCAN
from threadkeep.storage.row import Place, Row

PART_ROWS: Final = 1_000
PART_BYTES: Final = 4_000_000
"""What one script collects before it answers; until then nothing else runs on the server."""

_MEMBERS_AT_ONCE: Final = 4_000
_ROWS_AT_LEAST: Final = 64


class Followed(NamedTuple):
    """What happened in a partition: *rows* by revision, and places that ceased to be searchable."""

    position: Position
    reset: bool
    rows: list[Row]
    removed: list[Place]


async def followed(link: Link, keys: PartitionKeys, digest: str, since: Position | None) -> Followed | None:
    """Return what happened after *since*, of the moment of the last part; ``None``: it was never written.

    What is written while the parts are read has later revisions, so it comes with a later part; what
    is removed meanwhile, with the last one.
    """
    while True:
        read = await _parts(link, keys, digest, since)
        if not isinstance(read, _Anew):
            return read
        since = None


class _Anew:
    """The change log has moved on between two parts."""


async def _parts(link: Link, keys: PartitionKeys, digest: str, since: Position | None) -> Followed | _Anew | None:
    rows: dict[Place, Row] = {}
    asked = since or Position("", 0)
    last = b""
    reset = False
    while True:
        reply: list[Any] = await link.call(
            CHANGES.command(
                (keys.heads, keys.items, keys.searchable, keys.removed),
                *(digest, asked.epoch, asked.sequence, last, PART_ROWS, PART_BYTES),
            )
        )
        if not reply:
            return None
        position = Position(reply[0].decode(), int(reply[1]))
        if len(reply) == 2:  # noqa: PLR2004 - nothing happened
            return Followed(position, reset=False, rows=[], removed=[])
        _, _, begins, following, lengths, text, removals = reply
        if begins == b"1":
            if last:
                return _Anew()
            reset, asked = True, position
        for row in rows_of(lengths, text):
            rows.pop(row.place, None)
            rows[row.place] = row
        last = following
        if not last:
            removed = {place_of_bytes(place): int(at) for place, at in zip(removals[::2], removals[1::2], strict=True)}
            kept = [row for row in rows.values() if row.revision > removed.get(row.place, 0)]
            return Followed(position, reset, kept, [] if reset else list(removed))


async def scanned(
    link: Link, keys: PartitionKeys, *, prefix: Namespace, newest: bool, after: Cursor | None, now: int, wanted: int
) -> AsyncIterator[list[Row]]:
    """Yield the unexpired rows below *prefix* in the order of a scan, from behind *after* on.

    Args:
        link: Where the storage is.
        keys: Of the partition.
        prefix: What their namespaces begin with.
        newest: Whether the last updated comes first.
        after: Where an earlier scan ended.
        now: What has expired by then is left out.
        wanted: How many are likely to be enough; so many come at once.
    """
    beginning, whole = prefix_range(prefix)
    start: bytes | str = ("+" if newest else "-") if after is None else b"(" + order_member(after)
    name, end = ("ZREVRANGEBYLEX", "-") if newest else ("ZRANGEBYLEX", "+")
    rows_at_once = min(max(wanted, _ROWS_AT_LEAST), PART_ROWS)
    while start:
        last, lengths, text = await link.call(
            SCAN.command(
                (keys.items, keys.order),
                *(name, start, end, whole, beginning, moment_text(now), rows_at_once, _MEMBERS_AT_ONCE, PART_BYTES),
            )
        )
        yield list(rows_of(lengths, text))
        start = b"(" + last if last else b""
