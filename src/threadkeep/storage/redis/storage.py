"""Items in Redis, on core commands and Lua: Redis from 6.2 on, Valkey, managed services, clusters; no modules.

A commit is one call of one script, which Redis runs to its end before anything else: it checks every expectation
first and then writes, all or nothing. Each commit carries a token under which the server keeps the result for a
while, so a commit with a lost reply is sent again and done once. Reads of one partition are one call, too; those
of more than a few megabytes come in parts.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from datetime import timedelta
from itertools import count
from typing import Any, Final

from typing_extensions import override

from threadkeep.clock import Clock
from threadkeep.concurrency import PriorityGate
from threadkeep.errors import NotAStorageError, StorageError, StorageVersionError
from threadkeep.ids import new_id
from threadkeep.storage.base import ChangedRows, ScanQuery, StorageBase
from threadkeep.storage.encoding import Cursor
from threadkeep.storage.interface import MAX_CHANGE_LOG_ROWS, Item, NamespaceMatch, Partition, Position, Stats
from threadkeep.storage.redis.client import (
    CHANGES,
    COMMIT,
    DUE,
    ERASE,
    NAMESPACES,
    SCAN,
    STATS,
    VARIABLE,
    Argument,
    Command,
    RedisClient,
    RedisLocation,
    command,
)
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
from threadkeep.storage.redis.errors import is_denied
from threadkeep.storage.rows import EncodedBatch, ItemRow, RowChange, RowKey, check_expectation, partition_erased

LAYOUT: Final = 1
"""The version of keys, members and marks; the storage's own hash names it."""

OLDEST_VERSION: Final = (6, 2)


class InitialEpoch:
    """The epoch of every partition that was never erased, kept in the storage's own hash.

    A server without persistence forgets it at a restart, and then gets a new one. Therefore a commit that begins a
    partition names the runs of the server in which the epoch was read.

    Args:
        client: The client of the storage.
        keys: The names of its keys.

    Attributes:
        epoch: The epoch as last read.
        runs: The ids of the server's runs in which it was read, with commas between them.
    """

    def __init__(self, client: RedisClient, keys: RedisKeys) -> None:
        self.epoch: str = ""
        self.runs: str = "-"
        self._client = client
        self._key = keys.storage
        self._runs = {"-"}

    async def refresh(self, run: str | None = None) -> str:
        """Read the epoch, or create it if there is none, and return it.

        Raises:
            StorageVersionError: A newer version of Threadkeep wrote the storage.
            NotAStorageError: The key holds something else.
        """
        version, epoch = await self._read()
        if version is None or epoch is None:
            await self._client.call(command("HSETNX", self._key, "birth", new_id()))
            await self._client.call(command("HSETNX", self._key, "layout", LAYOUT))
            version, epoch = await self._read()
        if version is None or not version.isdigit() or epoch is None:
            msg = (
                f"Redis key {self._key.decode()!r} exists and is not Threadkeep's; choose another "
                "LANGGRAPH_STORE_KEY_PREFIX. Nothing was written."
            )
            raise NotAStorageError(msg, key=self._key.decode())
        if int(version) > LAYOUT:
            msg = (
                f"A newer version of Threadkeep keeps layout {int(version)} in this Redis, and this version reads "
                f"layout {LAYOUT}; upgrade Threadkeep, or choose another LANGGRAPH_STORE_KEY_PREFIX."
            )
            raise StorageVersionError(msg, layout=int(version))
        if run is not None:
            self._runs.add(run)
            self.runs = ",".join(sorted(self._runs))
        self.epoch = epoch.decode("ascii")
        return self.epoch

    async def _read(self) -> tuple[bytes | None, bytes | None]:
        version, epoch = await self._client.call(command("HMGET", self._key, "layout", "birth"))
        return version, epoch


async def connect(
    location: RedisLocation, keys: RedisKeys, *, timeout_seconds: float
) -> tuple[RedisClient, InitialEpoch]:
    """Connect to the server or to its cluster, and create the storage's hash if it is missing.

    Raises:
        StorageError: The server cannot be used, or its content is not a storage that this version reads.
    """
    client = RedisClient(location, timeout_seconds=timeout_seconds)
    try:
        info = await read_info(client, "server", "cluster")
        _check_server(info, location.masked)
        if info.get("cluster_enabled") == "1":
            client.use_cluster()
        epoch = InitialEpoch(client, keys)
        await epoch.refresh(info.get("run_id"))
    except BaseException:
        await client.close()
        raise
    return client, epoch


async def read_advice(client: RedisClient) -> list[str]:
    """Return one or two sentences for each setting of the server that risks acknowledged writes."""
    info = await read_info(client, "persistence", "memory", "replication")
    config: dict[str, str] = {}
    for name in ("appendfsync", "save"):
        reply = await _call_if_allowed(client, command("CONFIG", b"GET", name))
        config |= {name: reply[1].decode()} if reply else {}
    return durability_advice(info, config)


async def read_info(client: RedisClient, *sections: str) -> dict[str, str]:
    """Return the reply to ``INFO``; nothing if the user may not call it."""
    info: dict[str, str] = {}
    for section in sections:
        info |= _parse_info(await _call_if_allowed(client, command("INFO", section.encode())) or b"")
    return info


def durability_advice(info: Mapping[str, str], config: Mapping[str, str]) -> list[str]:
    """Return what to change so that no acknowledged write is lost, one or two sentences each.

    Args:
        info: The reply to ``INFO``.
        config: ``appendfsync`` and ``save`` from ``CONFIG GET``; empty if the server does not tell.
    """
    advice = (_advise_on_role(info), _advise_on_persistence(info, config), _advise_on_eviction(info))
    return [sentence for sentence in advice if sentence]


def _advise_on_role(info: Mapping[str, str]) -> str | None:
    if info.get("role") != "slave" or info.get("slave_read_only") != "1":
        return None
    return "Redis is a read-only replica, and nothing can be remembered there. Give the address of the primary."


def _advise_on_persistence(info: Mapping[str, str], config: Mapping[str, str]) -> str | None:
    if info.get("aof_enabled") == "0":
        risk = (
            "Redis keeps nothing on disk: a restart loses every memory."
            if config.get("save") == ""
            else "Redis writes snapshots only: a crash loses what was acknowledged since the last one."
        )
        return f"{risk} Set appendonly yes and appendfsync always."
    if "aof_enabled" not in info or "appendfsync" not in config:
        return (
            "Redis does not say how it keeps data; check that its operator set appendonly yes and appendfsync always."
        )
    risk = {
        "everysec": "Redis syncs its append-only file once a second: a power cut loses what was acknowledged in the "
        "last one or two.",
        "no": "Redis leaves it to the system when its append-only file is synced: a power cut loses what was "
        "acknowledged in the last half minute or so.",
    }.get(config["appendfsync"])
    return f"{risk} Set appendfsync always." if risk else None


def _advise_on_eviction(info: Mapping[str, str]) -> str | None:
    policy = info.get("maxmemory_policy", "noeviction")
    if policy == "noeviction":
        return None
    risk = (
        "Redis evicts any key once it has reached maxmemory, memories among them"
        if policy.startswith("allkeys-")
        else "Redis evicts keys with a time to live once it has reached maxmemory; memories have none, but commit "
        "tokens have one, and threads may"
    )
    return f"{risk} (maxmemory-policy {policy}). Set maxmemory-policy noeviction."


def _parse_info(text: bytes) -> dict[str, str]:
    lines = (line.partition(":") for line in text.decode("utf-8", "replace").splitlines() if not line.startswith("#"))
    return {name: value for name, _, value in lines if name}


async def _call_if_allowed(client: RedisClient, wanted: Command) -> Any:
    """Return the reply, or None if the user may not send the command or the server does not know it."""
    try:
        return await client.call(wanted)
    except StorageError as error:
        if is_denied(error.__cause__):
            return None
        raise


def _check_server(info: Mapping[str, str], location: str) -> None:
    if "sentinel" in (info.get("redis_mode"), info.get("server_mode")):
        msg = f"Redis at {location} is a Sentinel; give the address of the primary that it watches."
        raise StorageError(msg, location=location)
    version = info.get("redis_version", "")
    numbers = tuple(int(number) for number in version.split(".")[:2] if number.isdigit())
    if len(numbers) == len(OLDEST_VERSION) and numbers < OLDEST_VERSION:
        msg = f"Redis at {location} is version {version[:20]}; Threadkeep needs 6.2 or newer, or Valkey. Upgrade it."
        raise StorageError(msg, location=location, version=version)


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


class RedisStorage(StorageBase):
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

    name = "redis"

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
        super().__init__(self._redis.masked, clock)
        self._keys = RedisKeys(key_prefix)
        self._timeout_seconds = timeout.total_seconds()
        self._id = new_id()
        self._writes = count()
        self._client: RedisClient
        self._initial_epoch: InitialEpoch

    @property
    def gate(self) -> PriorityGate | None:
        """What grants the connections of a server by priority."""
        return self._client.gate if self._connected else None

    async def advice(self) -> list[str]:
        """See :meth:`threadkeep.storage.interface.ServerAdvice.advice`."""
        self._require_open()
        return await read_advice(self._client)

    @override
    async def _open(self) -> None:
        self._client, self._initial_epoch = await connect(
            self._redis, self._keys, timeout_seconds=self._timeout_seconds
        )

    @override
    async def _close(self) -> None:
        await self._client.close()

    @override
    async def _get_rows(
        self, keys: Mapping[Partition, Collection[RowKey]], *, now: int
    ) -> Mapping[Partition, Iterable[ItemRow]]:
        places = {partition: [encode_place(key) for key in wanted] for partition, wanted in keys.items()}
        commands = [self._read_fields(to_digest(partition), wanted) for partition, wanted in places.items()]
        replies: list[list[Any]] = await self._client.call_all(commands)
        return {
            partition: [
                parse_row(mark, place, body)
                for place, mark, body in zip(wanted, fields[::2], fields[1::2], strict=True)
                if mark is not None
            ]
            for (partition, wanted), fields in zip(places.items(), replies, strict=True)
        }

    @override
    async def _commit(self, batch: EncodedBatch) -> Position:
        now = self._now()
        position, _ = await self._write(
            to_digest(batch.partition),
            [argument for change in batch.changes for argument in encode_change(change, now=now)],
            changes=batch.changes,
            epoch=batch.epoch,
            spelling=encode_partition(batch.partition),
            now=now,
        )
        return position

    @override
    async def _get_position(self, partition: Partition) -> Position:
        head = await self._read_head(partition)
        return await self._unwritten_position() if head is None else parse_position(head)

    @override
    async def _scan_rows(self, query: ScanQuery, *, now: int) -> list[tuple[Cursor, Item]]:
        found: list[tuple[Cursor, Item]] = []
        async with aclosing(self._scan_parts(query, now=now)) as parts:
            async for rows in parts:
                found += query.select(rows)
                if len(found) >= query.fetch_limit:
                    break
        return found

    @override
    async def _changed_rows(self, partition: Partition, since: Position | None) -> ChangedRows:
        if since is not None:  # usually nothing happened, and this is the smallest read
            head = await self._read_head(partition)
            if head is not None and parse_position(head) == since:
                return ChangedRows(since, reset=False, rows=[], removed=[])
        while (changed := await self._read_changes(partition, since)) is None:
            since = None  # the change log moved on between two parts
        return changed

    @override
    async def _list_namespaces(self, match: Sequence[NamespaceMatch], *, now: int) -> Iterable[str]:
        bound = expired_bound(now)
        commands = [NAMESPACES.command(keys, bound) for keys in self._group_keys("namespaces", "expiring")]
        replies: list[list[bytes]] = await self._client.call_all(commands, timeout_factor=_LONG_CALL)
        return {text.decode("ascii") for reply in replies for text in reply}

    @override
    async def _list_partitions(self, after: Partition | None, limit: int) -> Sequence[Partition]:
        last = "" if after is None else to_digest(after)
        groups = [group for group in GROUPS if group >= last[:2]]
        partitions: list[Partition] = []
        while groups and len(partitions) < limit:
            commands = [
                command("ZRANGEBYLEX", key, f"({last}" if last else "-", "+", "LIMIT", 0, limit)
                for key in self._keys.groups("partitions", groups=groups[:_GROUPS_PER_CALL])
            ]
            replies: list[list[bytes]] = await self._client.call_all(commands)
            digests = [digest.decode("ascii") for reply in replies for digest in reply][:limit]
            heads = await self._client.call_all([self._head_command(digest) for digest in digests])
            partitions += [partition for head in heads if head is not None and (partition := parse_partition(head))]
            if len(digests) < limit:
                del groups[:_GROUPS_PER_CALL]
            else:  # some were erased meanwhile
                last = digests[-1]
        return partitions[:limit]

    @override
    async def _due_rows(self, kind: str, *, now: int, limit: int) -> Iterable[tuple[Partition, ItemRow]]:
        first, last, length = due_range(kind, now)
        commands = [
            DUE.command(keys, first, last, length, encode_moment(now), limit)
            for keys in self._group_keys("due", groups_per_call=len(GROUPS))
        ]
        members = sorted({member for reply in await self._client.call_all(commands) for member in reply})[:limit]
        return [
            (partition, row)
            for partition, row in await self._rows_at([parse_due_member(member, length) for member in members])
            if row.due_kind == kind
            and (row.due_at is not None and row.due_at <= now)
            and (row.expires_at is None or row.expires_at > now)
        ]

    @override
    async def _erase_rows(self, partition: Partition) -> int:
        # The append-only file keeps the erased commands until Redis rewrites it: as it grows, or on BGREWRITEAOF.
        digest = to_digest(partition)
        erase = ERASE.command(self._write_keys(digest), digest, new_id(), self._result_milliseconds(_LONG_CALL))
        return await self._client.call(erase, timeout_factor=_LONG_CALL)

    @override
    async def _sweep_rows(self, now: int) -> int:
        keys = self._keys.groups("expiring")
        replies = await self._client.call_all([_list_expired(key, "-", now) for key in keys])
        return sum([await self._sweep_group(key, members, now) for key, members in zip(keys, replies, strict=True)])

    @override
    async def _count(self) -> Stats:
        commands = [STATS.command(keys) for keys in self._group_keys("partitions", "namespaces")]
        counts: list[list[int]] = await self._client.call_all(commands, timeout_factor=_LONG_CALL)
        return Stats(sum(partitions for partitions, _ in counts), sum(items for _, items in counts), None)

    async def _write(
        self,
        digest: str,
        operations: Sequence[Argument],
        *,
        changes: Sequence[RowChange] = (),
        epoch: str | None = None,
        spelling: str = "",
        now: int,
    ) -> tuple[Position, int]:
        """Run the commit script; return the position and how many operations changed something."""
        initial_epoch = self._initial_epoch
        size = sum(len(argument) for argument in operations if isinstance(argument, bytes))
        factor = 1 + size / _BYTES_PER_TIMEOUT + len(operations) / _ARGUMENTS_PER_TIMEOUT
        keys = self._write_keys(digest)
        while True:
            head = (
                f"{digest} {epoch or '-'} {initial_epoch.epoch} {initial_epoch.runs} {encode_moment(now)} "
                f"{MAX_CHANGE_LOG_ROWS} {self._result_milliseconds(factor)} {spelling}"
            )
            reply = await self._client.call(COMMIT.command(keys, head, *operations), timeout_factor=factor)
            match reply.split(b" "):
                case [b"done", written_epoch, sequence, changed]:
                    return Position(written_epoch.decode("ascii"), int(sequence)), int(changed)
                case [b"unborn", run]:
                    await initial_epoch.refresh(run.decode("ascii"))
                case [b"conflict", number, revision]:
                    check_expectation(changes[int(number) - 1], parse_conflict(revision))
                case [b"erased"]:
                    raise partition_erased()
                case _:
                    msg = f"Redis at {self.location} answered {reply[:40]!r} to a commit; see the server's log."
                    raise StorageError(msg)

    async def _read_changes(self, partition: Partition, since: Position | None) -> ChangedRows | None:
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
                    return ChangedRows(position, reset=position != since, rows=[], removed=[])
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
                    rows.pop(row[:2], None)
                    rows[row[:2]] = row
                if not last:
                    removed = {
                        parse_place(place): int(at) for place, at in zip(removals[::2], removals[1::2], strict=True)
                    }
                    kept = [row for key, row in rows.items() if row.revision > removed.get(key, 0)]
                    return ChangedRows(position, reset, kept, [] if reset else list(removed))
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
        return asyncio.ensure_future(self._client.call(request))

    async def _scan_parts(self, query: ScanQuery, *, now: int) -> AsyncGenerator[list[ItemRow]]:
        """Yield the unexpired rows below the query's prefix in its order, whatever their values."""
        keys = self._keys.partition(to_digest(query.partition))
        beginning, whole = query.namespace_range
        newest = query.direction == "newest"
        name, first, end = ("ZREVRANGEBYLEX", b"+", "-") if newest else ("ZRANGEBYLEX", b"-", "+")
        start = first if query.after is None else b"(" + encode_cursor_member(query.after)
        limit = min(max(query.fetch_limit, _FILTERED_PART_ROWS if query.filter else 1), _PART_ROWS)
        while start:
            arguments = (name, start, end, whole, beginning, encode_moment(now), limit, _PART_MEMBERS, _PART_BYTES)
            last, lengths, texts = await self._client.call(SCAN.command((keys.items, keys.order), *arguments))
            yield list(parse_rows_reply(lengths, texts))
            start = b"(" + last if last else b""

    async def _sweep_group(self, key: bytes, members: list[bytes], now: int) -> int:
        """Remove the expired items of one group; *members* are the first of its expiring index *key*."""
        swept = 0
        while members:
            places: dict[str, list[bytes]] = defaultdict(list)
            for member in members:
                digest, place = parse_expiring_member(member)
                places[digest].append(place)
            for digest, expired in places.items():
                operations = [argument for place in expired for argument in encode_expiry(place)]
                _, changed = await self._write(digest, operations, now=now)
                swept += changed
            if len(members) < _SWEEP_ROWS:
                break
            members = await self._client.call(_list_expired(key, f"({members[-1].decode('ascii')}", now))
        return swept

    async def _rows_at(self, addresses: Sequence[ItemAddress]) -> list[tuple[Partition, ItemRow]]:
        """Return the rows that still exist, in the order of *addresses*."""
        places: dict[str, list[bytes]] = defaultdict(list)
        for digest, place in addresses:
            places[digest].append(place)
        commands: list[Command] = []
        for digest, wanted in places.items():
            commands += [self._head_command(digest), self._read_fields(digest, wanted)]
        replies = await self._client.call_all(commands)
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
        return Position(await self._initial_epoch.refresh(), 0)

    async def _read_head(self, partition: Partition) -> bytes | None:
        return await self._client.call(self._head_command(to_digest(partition)))

    def _head_command(self, digest: str) -> Command:
        return command("HGET", self._keys.partition(digest).heads, digest)

    def _read_fields(self, digest: str, places: Iterable[bytes]) -> Command:
        """Return the command that reads marks and bodies in turn."""
        return command(
            "HMGET", self._keys.partition(digest).items, *(f for place in places for f in item_fields(place))
        )

    def _write_keys(self, digest: str) -> tuple[bytes, ...]:
        """Return the KEYS of one call of a script that writes: its result has a key of its own."""
        return (*self._keys.partition(digest), self._keys.result(digest, f"{self._id}{next(self._writes)}"))

    def _result_milliseconds(self, timeout_factor: float) -> int:
        return int(1_000 * (_RESULT_SECONDS + 2 * timeout_factor * self._timeout_seconds))

    def _group_keys(self, *kinds: str, groups_per_call: int = _GROUPS_PER_CALL) -> Iterator[list[bytes]]:
        """Yield the keys of these kinds of all groups, of several groups together unless it is a cluster."""
        if self._client.is_cluster:
            groups_per_call = 1
        for first in range(0, len(GROUPS), groups_per_call):
            yield self._keys.groups(*kinds, groups=GROUPS[first : first + groups_per_call])


def _list_expired(key: bytes, start: str, now: int) -> Command:
    """Return the command that lists members of the expiring index *key* that expired by *now*, from *start* on."""
    return command("ZRANGEBYLEX", key, start, expired_bound(now), "LIMIT", 0, _SWEEP_ROWS)
