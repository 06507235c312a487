"""Items in Redis, on core commands and Lua: Redis from 6.2 on, Valkey, managed services, clusters; no modules.

A commit is one call of one script, which Redis runs to its end before anything else: it checks every expectation
first and then writes, all or nothing. Each commit carries a token under which the server keeps the result for a
while, so a commit whose reply was lost is sent again and done once. Reads of one partition are one call, too; those
of more than a few megabytes come in parts.
"""

from __future__ import annotations

import asyncio
import os
from collections import defaultdict
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from datetime import datetime, timedelta
from itertools import count
from typing import Any, Final, NamedTuple

from threadkeep.clock import Clock
from threadkeep.errors import ClosedError, PartitionErasedError, StorageError
from threadkeep.ids import new_id
from threadkeep.storage.encoding import Cursor, check_limit, to_micros
from threadkeep.storage.interface import (
    MAX_CHANGE_LOG_ROWS,
    Batch,
    Changes,
    Direction,
    Filter,
    Item,
    Namespace,
    NamespaceMatch,
    Page,
    Partition,
    Position,
    Ref,
    Stats,
)
from threadkeep.storage.matching import ScanQuery, distinct_namespaces
from threadkeep.storage.redis.client import RedisClient
from threadkeep.storage.redis.codec import (
    GROUPS,
    ItemAddress,
    RedisKeys,
    due_range,
    encode_change,
    encode_cursor_member,
    encode_expiry,
    encode_moment,
    encode_partition,
    encode_place,
    expired_bound,
    item_fields,
    parse_conflict,
    parse_due_member,
    parse_expiring_member,
    parse_partition,
    parse_place,
    parse_position,
    parse_row,
    parse_rows_reply,
    to_digest,
)
from threadkeep.storage.redis.location import VARIABLE, RedisLocation
from threadkeep.storage.redis.scripts import (
    CHANGES,
    COMMIT,
    DUE,
    ERASE,
    NAMESPACES,
    SCAN,
    STATS,
    Argument,
    Command,
    command,
)
from threadkeep.storage.redis.server import InitialEpoch, connect, read_advice
from threadkeep.storage.rows import (
    ItemRow,
    RowChange,
    RowKey,
    check_expectation,
    encode_batch,
    parse_row_key,
    parse_rows,
    to_items,
    to_row_key,
)

TIMEOUT: Final = timedelta(seconds=1)

_LONG_CALL: Final = 10.0
"""The timeout factor of calls that go through many items."""

_BYTES_PER_TIMEOUT: Final = 8_000_000
_ARGUMENTS_PER_TIMEOUT: Final = 8_000
_RESULT_SECONDS: Final = 60.0
"""How long the server keeps the result of a write, besides twice the timeout of the call that may ask again."""

_SWEEP_ROWS: Final = 1_000
_GROUPS_PER_CALL: Final = 32
_PART_ROWS: Final = 1_000
_PART_BYTES: Final = 4_000_000
"""A script collects so much before it replies; nothing else runs on the server meanwhile."""

_PART_MEMBERS: Final = 4_000
_FILTERED_PART_ROWS: Final = 64


class _ChangedRows(NamedTuple):
    """What happened in a partition: *rows* by revision, and places that ceased to be searchable."""

    position: Position
    reset: bool
    rows: list[ItemRow]
    removed: list[RowKey]


class RedisStorage:
    """Keep items in the Redis at *url*.

    Args:
        url: ``redis://user:password@host:6379/0``, ``rediss://`` for TLS; a cluster is detected.
        key_prefix: Deployments with different prefixes share the server and nothing else.
        clock: The storage's time.
        timeout: The time limit of one call; large calls get more.
        variable: The setting that holds *url*, for error messages.

    Raises:
        SettingsError: *url* is not a valid Redis URL.
    """

    name: str = "redis"

    def __init__(
        self,
        url: str,
        *,
        key_prefix: str = "",
        clock: Clock,
        timeout: timedelta = TIMEOUT,
        variable: str = VARIABLE,
    ) -> None:
        self._redis = RedisLocation(url, variable)
        self.location: str = self._redis.masked
        self._keys = RedisKeys(key_prefix)
        self._clock = clock
        self._timeout_seconds = timeout.total_seconds()
        self._client: RedisClient | None = None
        self._initial_epoch: InitialEpoch | None = None
        self._id = new_id()
        self._writes = count()
        self._opening = asyncio.Lock()
        self._closed = False
        self._pid = os.getpid()

    async def connect(self) -> None:
        """See :meth:`threadkeep.storage.interface.Storage.connect`."""
        async with self._opening:
            if self._client is not None or self._closed:
                self._require_client()
                return
            self._pid = os.getpid()
            self._client, self._initial_epoch = await connect(
                self._redis, self._keys, timeout_seconds=self._timeout_seconds
            )

    async def close(self) -> None:
        """See :meth:`threadkeep.storage.interface.Storage.close`."""
        self._closed = True
        client, self._client = self._client, None
        if client is not None and self._pid == os.getpid():
            await client.close()

    async def get(self, refs: Sequence[Ref]) -> tuple[Item | None, ...]:
        """See :meth:`threadkeep.storage.interface.Storage.get`."""
        client = self._require_client()
        now = self._now()
        indexes: dict[Partition, list[tuple[int, str]]] = defaultdict(list)
        for i, ref in enumerate(refs):
            indexes[ref.partition].append((i, encode_place(to_row_key(ref.namespace, ref.key))))
        commands = [
            self._read_fields(to_digest(part), [place for _, place in wanted]) for part, wanted in indexes.items()
        ]
        items: list[Item | None] = [None] * len(refs)
        for (partition, wanted), fields in zip(indexes.items(), await client.call_all(commands), strict=True):
            rows = [
                (i, row)
                for (i, place), mark, body in zip(wanted, fields[::2], fields[1::2], strict=True)
                if mark is not None and _is_alive(row := parse_row(mark, place.encode("ascii"), body), now)
            ]
            for (i, _), item in zip(rows, parse_rows([row for _, row in rows], partition), strict=True):
                items[i] = item
        return tuple(items)

    async def commit(self, batch: Batch) -> Position:
        """See :meth:`threadkeep.storage.interface.Storage.commit`."""
        self._require_client()
        changes = encode_batch(batch).changes
        now = self._now()
        operations = [argument for change in changes for argument in encode_change(change, now=now)]
        position, _ = await self._write(
            to_digest(batch.partition),
            operations,
            changes=changes,
            epoch=batch.epoch or "",
            spelling=encode_partition(batch.partition),
            now=now,
        )
        return position

    async def position(self, partition: Partition) -> Position:
        """See :meth:`threadkeep.storage.interface.Storage.position`."""
        head = await self._read_head(partition)
        return await self._unwritten_position() if head is None else parse_position(head)

    async def scan(
        self,
        partition: Partition,
        *,
        prefix: Namespace = (),
        filter: Filter | None = None,  # noqa: A002 - the field's name for it
        direction: Direction = "newest",
        after: str | None = None,
        limit: int = 100,
    ) -> Page:
        """See :meth:`threadkeep.storage.interface.Storage.scan`."""
        self._require_client()
        scan = ScanQuery.create(partition, prefix=prefix, filter=filter, direction=direction, after=after, limit=limit)
        if limit == 0:
            return Page((), None)
        found: list[tuple[Cursor, Item]] = []
        async with aclosing(self._scan_parts(scan, now=self._now())) as parts:
            async for rows in parts:
                found += scan.select(rows)
                if len(found) >= scan.fetch_limit:
                    break
        return scan.to_page(found)

    async def changes(self, partition: Partition, since: Position | None) -> Changes:
        """See :meth:`threadkeep.storage.interface.Storage.changes`."""
        self._require_client()
        now = self._now()
        part = await self._changed_rows(partition, since)
        alive = [row for row in part.rows if _is_alive(row, now)]
        removed = dict.fromkeys(part.removed)
        if not part.reset:
            # A follower's copy of an expired item may be an older version, which did not expire.
            removed.update(dict.fromkeys(row.row_key for row in part.rows if not _is_alive(row, now)))
        return Changes(part.position, part.reset, to_items(alive, partition), tuple(map(parse_row_key, removed)))

    async def namespaces(
        self,
        *,
        match: Sequence[NamespaceMatch] = (),
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> tuple[Namespace, ...]:
        """See :meth:`threadkeep.storage.interface.Storage.namespaces`."""
        client = self._require_client()
        check_limit(limit, name="limit")
        check_limit(offset, name="offset")
        bound = expired_bound(self._now())
        commands = [NAMESPACES.command(keys, bound) for keys in self._group_keys("namespaces", "expiring")]
        replies: list[list[bytes]] = await client.call_all(commands, timeout_factor=_LONG_CALL)
        texts = {text.decode("ascii") for reply in replies for text in reply}
        return distinct_namespaces(texts, match=match, max_depth=max_depth)[offset : offset + limit]

    async def partitions(self, *, after: Partition | None = None, limit: int = 100) -> tuple[Partition, ...]:
        """See :meth:`threadkeep.storage.interface.Storage.partitions`."""
        client = self._require_client()
        check_limit(limit, name="limit")
        last = "" if after is None else to_digest(after)
        groups = [group for group in GROUPS if group >= last[:2]]
        partitions: list[Partition] = []
        while groups and len(partitions) < limit:
            commands = [
                command("ZRANGEBYLEX", key, f"({last}" if last else "-", "+", "LIMIT", 0, limit)
                for key in self._keys.groups("partitions", groups=groups[:_GROUPS_PER_CALL])
            ]
            replies: list[list[bytes]] = await client.call_all(commands)
            digests = [digest.decode("ascii") for reply in replies for digest in reply][:limit]
            heads = await client.call_all([self._head_command(digest) for digest in digests])
            partitions += [partition for head in heads if head is not None and (partition := parse_partition(head))]
            if len(digests) < limit:
                del groups[:_GROUPS_PER_CALL]
            else:  # some were erased meanwhile
                last = digests[-1]
        return tuple(partitions[:limit])

    async def due(self, kind: str, *, now: datetime, limit: int) -> tuple[Item, ...]:
        """See :meth:`threadkeep.storage.interface.Storage.due`."""
        client = self._require_client()
        check_limit(limit, name="limit")
        if limit == 0:
            return ()
        moment = to_micros(now)
        first, last, length = due_range(kind, moment)
        commands = [
            DUE.command(keys, first, last, length, encode_moment(moment), limit)
            for keys in self._group_keys("due", groups_per_call=len(GROUPS))
        ]
        members = sorted({member for reply in await client.call_all(commands) for member in reply})[:limit]
        rows = await self._rows_at([parse_due_member(member, length) for member in members])
        items = [item for partition, row in rows for item in parse_rows([row], partition)]
        wanted = [item for item in items if item.due is not None and item.due.kind == kind and item.due.at <= now]
        return tuple(item for item in wanted if item.expires_at is None or item.expires_at > now)

    async def erase(self, partition: Partition) -> int:
        """See :meth:`threadkeep.storage.interface.Storage.erase`.

        Redis's append-only file keeps the erased commands until it is rewritten: when it has grown enough, or on
        ``BGREWRITEAOF``.
        """
        client = self._require_client()
        digest = to_digest(partition)
        keys = self._write_keys(digest)
        erase = ERASE.command(keys, digest, new_id(), self._result_milliseconds(_LONG_CALL))
        return await client.call(erase, timeout_factor=_LONG_CALL)

    async def sweep(self, *, now: datetime) -> int:
        """See :meth:`threadkeep.storage.interface.Storage.sweep`."""
        client = self._require_client()
        moment = to_micros(now)
        keys = self._keys.groups("expiring")
        replies = await client.call_all([_list_expired(key, "-", moment) for key in keys])
        return sum([await self._sweep_group(key, members, moment) for key, members in zip(keys, replies, strict=True)])

    async def stats(self) -> Stats:
        """See :meth:`threadkeep.storage.interface.Storage.stats`."""
        client = self._require_client()
        commands = [STATS.command(keys) for keys in self._group_keys("partitions", "namespaces")]
        counts: list[list[int]] = await client.call_all(commands, timeout_factor=_LONG_CALL)
        return Stats(sum(partitions for partitions, _ in counts), sum(items for _, items in counts), None)

    async def advice(self) -> list[str]:
        """See :meth:`threadkeep.storage.interface.ServerAdvice.advice`."""
        return await read_advice(self._require_client())

    async def _write(
        self,
        digest: str,
        operations: Sequence[Argument],
        *,
        changes: Sequence[RowChange] = (),
        epoch: str = "",
        spelling: str = "",
        now: int,
    ) -> tuple[Position, int]:
        """Run the commit script; return the position and how many operations changed something."""
        client, initial_epoch = self._require_client(), self._require_epoch()
        size = sum(len(argument) for argument in operations if isinstance(argument, bytes))
        factor = 1 + size / _BYTES_PER_TIMEOUT + len(operations) / _ARGUMENTS_PER_TIMEOUT
        keys = self._write_keys(digest)
        while True:
            head = (
                f"{digest} {epoch or '-'} {initial_epoch.epoch} {initial_epoch.runs} {encode_moment(now)} "
                f"{MAX_CHANGE_LOG_ROWS} {self._result_milliseconds(factor)} {spelling}"
            )
            match await client.call(COMMIT.command(keys, head, *operations), timeout_factor=factor):
                case [b"done", bytes() as written_epoch, int() as sequence, int() as changed]:
                    return Position(written_epoch.decode("ascii"), sequence), changed
                case [b"unborn", bytes() as run]:
                    await initial_epoch.refresh(run.decode("ascii"))
                case [b"conflict", int() as number, bytes() as revision]:
                    check_expectation(changes[number - 1], parse_conflict(revision))
                case [b"erased"]:
                    msg = "The partition was erased while this work was in flight; nothing was written."
                    raise PartitionErasedError(msg)
                case other:
                    msg = f"Redis at {self.location} answered {str(other)[:40]} to a commit; see the server's log."
                    raise StorageError(msg)

    async def _changed_rows(self, partition: Partition, since: Position | None) -> _ChangedRows:
        """Return what happened in *partition* after *since*, as of the moment of the last part."""
        if since is not None:  # usually nothing happened, and this is the smallest read
            head = await self._read_head(partition)
            if head is not None and parse_position(head) == since:
                return _ChangedRows(since, reset=False, rows=[], removed=[])
        while (changed := await self._read_changes(partition, since)) is None:
            since = None  # the change log moved on between two parts
        return changed

    async def _read_changes(self, partition: Partition, since: Position | None) -> _ChangedRows | None:
        """Read the changes part by part; ``None`` if a reset follows a part, which makes the parts worthless.

        Writes between two parts have later revisions, so they come with a later part; removals come with the last.
        """
        rows: dict[RowKey, ItemRow] = {}
        asked, reset = since or Position("", 0), False
        coming = self._request_changes(partition, asked, b"")
        try:
            while True:
                reply = await coming
                if not reply:
                    position = await self._unwritten_position()
                    return _ChangedRows(position, reset=position != since, rows=[], removed=[])
                epoch, sequence, begins, last, lengths, texts, removals = reply
                position = Position(epoch.decode("ascii"), int(sequence))
                if begins == b"1":
                    if rows:
                        return None
                    reset, asked = True, position
                if last:
                    coming = self._request_changes(partition, asked, last)
                    await asyncio.sleep(0)  # it is sent, so the server collects it while this part is parsed
                for row in parse_rows_reply(lengths, texts):
                    rows.pop(row.row_key, None)
                    rows[row.row_key] = row
                if not last:
                    removed = {
                        parse_place(at): int(when) for at, when in zip(removals[::2], removals[1::2], strict=True)
                    }
                    kept = [row for row in rows.values() if row.revision > removed.get(row.row_key, 0)]
                    return _ChangedRows(position, reset, kept, [] if reset else list(removed))
        finally:
            coming.cancel()

    def _request_changes(self, partition: Partition, asked: Position, last: bytes) -> asyncio.Future[list[Any]]:
        """Ask for the changes after *asked*, from the member behind *last* on."""
        digest = to_digest(partition)
        keys = self._keys.partition(digest)
        request = CHANGES.command(
            (keys.heads, keys.items, keys.searchable, keys.removed),
            *(digest, asked.epoch, asked.sequence, last, _PART_ROWS, _PART_BYTES),
        )
        return asyncio.ensure_future(self._require_client().call(request))

    async def _scan_parts(self, scan: ScanQuery, *, now: int) -> AsyncGenerator[list[ItemRow]]:
        """Yield the unexpired rows below the scan's prefix in its order, whatever their values."""
        client, keys = self._require_client(), self._keys.partition(to_digest(scan.partition))
        beginning, whole = scan.namespace_range
        newest = scan.direction == "newest"
        name, first, end = ("ZREVRANGEBYLEX", b"+", "-") if newest else ("ZRANGEBYLEX", b"-", "+")
        start = first if scan.after is None else b"(" + encode_cursor_member(scan.after)
        rows_per_part = min(max(scan.fetch_limit, _FILTERED_PART_ROWS if scan.filter else 1), _PART_ROWS)
        while start:
            arguments = (
                name,
                start,
                end,
                whole,
                beginning,
                encode_moment(now),
                rows_per_part,
                _PART_MEMBERS,
                _PART_BYTES,
            )
            last, lengths, texts = await client.call(SCAN.command((keys.items, keys.order), *arguments))
            yield list(parse_rows_reply(lengths, texts))
            start = b"(" + last if last else b""

    async def _sweep_group(self, key: bytes, members: list[bytes], moment: int) -> int:
        """Remove the expired items of one group; *members* are the first of its expiring index *key*."""
        swept = 0
        while members:
            places: dict[str, list[bytes]] = defaultdict(list)
            for member in members:
                digest, place = parse_expiring_member(member)
                places[digest].append(place)
            for digest, expired in places.items():
                operations = [argument for place in expired for argument in encode_expiry(place)]
                _, changed = await self._write(digest, operations, now=moment)
                swept += changed
            if len(members) < _SWEEP_ROWS:
                break
            last = members[-1].decode("ascii")
            members = await self._require_client().call(_list_expired(key, f"({last}", moment))
        return swept

    async def _rows_at(self, addresses: Sequence[ItemAddress]) -> list[tuple[Partition, ItemRow]]:
        """Return the rows that still exist, in the order of *addresses*."""
        places: dict[str, list[bytes]] = defaultdict(list)
        for digest, place in addresses:
            places[digest].append(place)
        commands: list[Command] = []
        for digest, wanted in places.items():
            commands += [self._head_command(digest), self._read_fields(digest, wanted)]
        replies = await self._require_client().call_all(commands)
        rows: dict[ItemAddress, tuple[Partition, ItemRow]] = {}
        for (digest, wanted), head, fields in zip(places.items(), replies[::2], replies[1::2], strict=True):
            partition = parse_partition(head) if head else None
            if partition:
                for place, mark, body in zip(wanted, fields[::2], fields[1::2], strict=True):
                    if mark is not None:
                        rows[ItemAddress(digest, place)] = partition, parse_row(mark, place, body)
        return [rows[address] for address in addresses if address in rows]

    async def _unwritten_position(self) -> Position:
        """Return the position of a partition that was never written."""
        return Position(await self._require_epoch().refresh(), 0)

    async def _read_head(self, partition: Partition) -> bytes | None:
        return await self._require_client().call(self._head_command(to_digest(partition)))

    def _head_command(self, digest: str) -> Command:
        return command("HGET", self._keys.partition(digest).heads, digest)

    def _read_fields(self, digest: str, places: Sequence[str] | Sequence[bytes]) -> Command:
        """Return the command that reads marks and bodies in turn."""
        names = [name for place in places for name in item_fields(place)]
        return command("HMGET", self._keys.partition(digest).items, *names)

    def _write_keys(self, digest: str) -> tuple[bytes, ...]:
        """Return the KEYS of one call of a script that writes: its result has a key of its own."""
        return (*self._keys.partition(digest), self._keys.result(digest, f"{self._id}{next(self._writes)}"))

    def _result_milliseconds(self, timeout_factor: float) -> int:
        return int(1_000 * (_RESULT_SECONDS + 2 * timeout_factor * self._timeout_seconds))

    def _group_keys(self, *kinds: str, groups_per_call: int = _GROUPS_PER_CALL) -> Iterator[list[bytes]]:
        """Yield the keys of these kinds of all groups, of several groups together unless it is a cluster."""
        if self._require_client().is_cluster:
            groups_per_call = 1
        for first in range(0, len(GROUPS), groups_per_call):
            yield self._keys.groups(*kinds, groups=GROUPS[first : first + groups_per_call])

    def _now(self) -> int:
        return to_micros(self._clock.now())

    def _require_epoch(self) -> InitialEpoch:
        self._require_client()
        if self._initial_epoch is None:
            msg = "Call connect() first."
            raise ClosedError(msg)
        return self._initial_epoch

    def _require_client(self) -> RedisClient:
        client = self._client
        if self._closed or client is None:
            msg = "This storage is closed; open a new one." if self._closed else "Call connect() first."
            raise ClosedError(msg)
        if self._pid != os.getpid():
            msg = "This storage was opened before the process forked; open one in the child."
            raise ClosedError(msg)
        return client


def _is_alive(row: ItemRow, now: int) -> bool:
    return row.expires_at is None or row.expires_at > now


def _list_expired(key: bytes, start: str, moment: int) -> Command:
    """Return the command that lists members of the expiring index *key* that expired by *moment*, from *start* on."""
    return command("ZRANGEBYLEX", key, start, expired_bound(moment), "LIMIT", 0, _SWEEP_ROWS)
