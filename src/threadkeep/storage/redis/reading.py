"""Reads that may give more than fits into one reply: a part at a time, as if they had been one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, Final, NamedTuple

from threadkeep.storage.port import Position
from threadkeep.storage.redis.keys import PartitionKeys
from threadkeep.storage.redis.link import Link
from threadkeep.storage.redis.rows import moment_text, order_member, place_of_bytes, position_of, rows_of
from threadkeep.storage.redis.scripts import CHANGES, SCAN, command
from threadkeep.storage.row import Place, Row
from threadkeep.storage.scan import Scan

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
    if since is not None:  # mostly nothing happened, and this is the smallest question
        head: bytes | None = await link.call(command("HGET", keys.heads, digest))
        if head is None:
            return None
        if position_of(head) == since:
            return Followed(since, reset=False, rows=[], removed=[])
    while True:
        read = await _parts(link, keys, digest, since)
        if not isinstance(read, _Anew):
            return read
        since = None


class _Anew:
    """The change log has moved on between two parts."""


async def _parts(link: Link, keys: PartitionKeys, digest: str, since: Position | None) -> Followed | _Anew | None:
    def part(asked: Position, last: bytes) -> asyncio.Future[list[Any]]:
        arguments = (digest, asked.epoch, asked.sequence, last, PART_ROWS, PART_BYTES)
        read_keys = (keys.heads, keys.items, keys.searchable, keys.removed)
        return asyncio.ensure_future(link.call(CHANGES.command(read_keys, *arguments)))

    rows: dict[Place, Row] = {}
    asked, last, reset = since or Position("", 0), b"", False
    coming = part(asked, last)
    try:
        while True:
            reply = await coming
            if not reply:
                return None
            epoch, sequence, begins, following, lengths, texts, removals = reply
            position = Position(epoch.decode("ascii"), int(sequence))
            if begins == b"1":
                if last:
                    return _Anew()
                reset, asked = True, position
            last = following
            if last:
                coming = part(asked, last)
                await asyncio.sleep(0)  # it is sent, so the server collects it while this part is read
            for row in rows_of(lengths, texts):
                rows.pop(row.place, None)
                rows[row.place] = row
            if not last:
                removed = {
                    place_of_bytes(at): int(when) for at, when in zip(removals[::2], removals[1::2], strict=True)
                }
                kept = [row for row in rows.values() if row.revision > removed.get(row.place, 0)]
                return Followed(position, reset, kept, [] if reset else list(removed))
    finally:
        coming.cancel()


async def scanned(link: Link, keys: PartitionKeys, scan: Scan, *, now: int) -> AsyncGenerator[list[Row]]:
    """Yield the rows below the scan's prefix that have not expired *now*, in its order, whatever their values."""
    beginning, whole = scan.namespaces
    newest = scan.direction == "newest"
    name, first, end = ("ZREVRANGEBYLEX", b"+", "-") if newest else ("ZRANGEBYLEX", b"-", "+")
    start = first if scan.after is None else b"(" + order_member(scan.after)
    rows_at_once = min(max(scan.wanted, _ROWS_AT_LEAST if scan.filter else 1), PART_ROWS)
    while start:
        last, lengths, texts = await link.call(
            SCAN.command(
                (keys.items, keys.order),
                *(name, start, end, whole, beginning, moment_text(now), rows_at_once, _MEMBERS_AT_ONCE, PART_BYTES),
            )
        )
        yield list(rows_of(lengths, texts))
        start = b"(" + last if last else b""
