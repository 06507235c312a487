"""Items in Redis, on core commands and Lua: Redis from 6.2 on, Valkey, managed services, clusters; no modules.

A commit is one call of one script, which Redis runs to its end before anything else: it checks every
expectation first and then writes, all or nothing. Reads of one partition are one call, too, but for
those that give more than a few megabytes, which come in parts.
"""

from __future__ import annotations

import asyncio
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from datetime import datetime, timedelta
from typing import Final

from threadkeep.clock import Clock
from threadkeep.errors import ClosedError, PartitionErasedError, StorageError
from threadkeep.ids import new_id
from threadkeep.storage.commit import check_expectation
from threadkeep.storage.encoding import Cursor, check_limit, micros
from threadkeep.storage.matching import distinct_namespaces
from threadkeep.storage.port import (
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
from threadkeep.storage.redis.durability import advice
from threadkeep.storage.redis.keys import GROUPS, Keys, digest_of
from threadkeep.storage.redis.link import Link
from threadkeep.storage.redis.location import VARIABLE, RedisLocation
from threadkeep.storage.redis.opening import Birth, allowed, opened, server_info
from threadkeep.storage.redis.reading import followed, scanned
from threadkeep.storage.redis.rows import (
    Located,
    due_bounds,
    due_member,
    expired_bound,
    expired_operation,
    expiring_member,
    field_names,
    is_alive,
    known_at,
    moment_text,
    operation_of,
    partition_of,
    place_text,
    position_of,
    row_of,
    spelling_of,
)
from threadkeep.storage.redis.scripts import COMMIT, DUE, ERASE, NAMESPACES, STATS, Argument, Command, command
from threadkeep.storage.row import Change, changed_of, encoded, items_of, spelled
from threadkeep.storage.scan import Scan

TIMEOUT: Final = timedelta(seconds=1)

_LONGER: Final = 10.0
"""What goes through many items may take so many times as long as a read or a commit."""

_SWEPT_AT_ONCE: Final = 1_000
_GROUPS_AT_ONCE: Final = 32
_BYTES_PER_TIMEOUT: Final = 8_000_000
_ARGUMENTS_PER_TIMEOUT: Final = 8_000


class RedisStorage:
    """Keeps items in the Redis at *url*.

    Args:
        url: ``redis://user:password@host:6379/0``, ``rediss://`` for TLS; a cluster is recognised.
        key_prefix: Deployments with different ones share the server and nothing else.
        clock: What the time is.
        timeout: How long one call may take; large ones are given more.
        variable: The setting that *url* came from, for the message where it is none.

    Raises:
        SettingsError: *url* is no URL of Redis.
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
        self._where = RedisLocation(url, variable)
        self.location: str = self._where.masked
        self._keys = Keys(key_prefix)
        self._clock = clock
        self._timeout = timeout
        self._link: Link | None = None
        self._birth: Birth | None = None
        self._opening = asyncio.Lock()
        self._closed = False
        self._pid = os.getpid()

    async def connect(self) -> None:
        """See :meth:`threadkeep.storage.port.Storage.connect`."""
        async with self._opening:
            if self._link is not None or self._closed:
                self._require_open()
                return
            self._pid = os.getpid()
            self._link, self._birth = await opened(self._where, self._keys, self._timeout)

    async def close(self) -> None:
        """See :meth:`threadkeep.storage.port.Storage.close`."""
        self._closed = True
        link, self._link = self._link, None
        if link is not None and self._pid == os.getpid():
            await link.close()

    async def get(self, refs: Sequence[Ref]) -> tuple[Item | None, ...]:
        """See :meth:`threadkeep.storage.port.Storage.get`."""
        link = self._require_open()
        now = micros(self._clock.now())
        places: dict[Partition, list[tuple[int, str]]] = defaultdict(list)
        for i, ref in enumerate(refs):
            places[ref.partition].append((i, place_text(ref.namespace, ref.key)))
        commands = [self._fields(digest_of(part), [place for _, place in wanted]) for part, wanted in places.items()]
        found: list[Item | None] = [None] * len(refs)
        replies = [await link.call(commands[0])] if len(commands) == 1 else await link.many(commands)
        for (partition, wanted), fields in zip(places.items(), replies, strict=True):
            rows = [
                (i, row)
                for (i, place), mark, body in zip(wanted, fields[::2], fields[1::2], strict=True)
                if mark is not None and is_alive(row := row_of(mark, place.encode("ascii"), body), now)
            ]
            for (i, _), item in zip(rows, items_of([row for _, row in rows], partition), strict=True):
                found[i] = item
        return tuple(found)

    async def commit(self, batch: Batch) -> Position:
        """See :meth:`threadkeep.storage.port.Storage.commit`."""
        self._require_open()
        changes = encoded(batch)
        now = micros(self._clock.now())
        arguments = [argument for change in changes for argument in operation_of(change, now=now)]
        position, _ = await self._commit(digest_of(batch.partition), batch, changes, arguments, now=now)
        return position

    async def position(self, partition: Partition) -> Position:
        """See :meth:`threadkeep.storage.port.Storage.position`."""
        link = self._require_open()
        digest = digest_of(partition)
        head: bytes | None = await link.call(command("HGET", self._keys.of(digest).heads, digest))
        return await self._never_written() if head is None else position_of(head)

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
        """See :meth:`threadkeep.storage.port.Storage.scan`."""
        link = self._require_open()
        scan = Scan.checked(partition, prefix=prefix, filter=filter, direction=direction, after=after, limit=limit)
        if limit == 0:
            return Page((), None)
        found: list[tuple[Cursor, Item]] = []
        parts = scanned(link, self._keys.of(digest_of(partition)), scan, now=micros(self._clock.now()))
        async with aclosing(parts):
            async for rows in parts:
                found += scan.meeting(rows)
                if len(found) >= scan.wanted:
                    break
        return scan.page(found)

    async def changes(self, partition: Partition, since: Position | None) -> Changes:
        """See :meth:`threadkeep.storage.port.Storage.changes`."""
        link = self._require_open()
        digest = digest_of(partition)
        now = micros(self._clock.now())
        read = await followed(link, self._keys.of(digest), digest, since)
        if read is None:
            position = await self._never_written()
            return Changes(position, reset=position != since, puts=(), removed=())
        alive = [row for row in read.rows if is_alive(row, now)]
        removed = dict.fromkeys(read.removed)
        if not read.reset:
            # What a follower holds of an expired item may be an older version, which did not expire.
            removed.update(dict.fromkeys(row.place for row in read.rows if not is_alive(row, now)))
        return Changes(read.position, read.reset, changed_of(alive, partition), tuple(map(spelled, removed)))

    async def namespaces(
        self,
        *,
        match: Sequence[NamespaceMatch] = (),
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> tuple[Namespace, ...]:
        """See :meth:`threadkeep.storage.port.Storage.namespaces`."""
        link = self._require_open()
        check_limit(limit, name="limit")
        check_limit(offset, name="offset")
        bound = expired_bound(micros(self._clock.now()))
        commands = [NAMESPACES.command(keys, bound) for keys in self._groups("namespaces", "expiring")]
        texts = {text.decode("ascii") for found in await link.many(commands, longer=_LONGER) for text in found}
        return distinct_namespaces(texts, match=match, max_depth=max_depth)[offset : offset + limit]

    async def partitions(self, *, after: Partition | None = None, limit: int = 100) -> tuple[Partition, ...]:
        """See :meth:`threadkeep.storage.port.Storage.partitions`."""
        link = self._require_open()
        check_limit(limit, name="limit")
        behind = "" if after is None else digest_of(after)
        groups = [group for group in GROUPS if group >= behind[:2]]
        found: list[Partition] = []
        while groups and len(found) < limit:
            asked = [
                command("ZRANGEBYLEX", key, f"({behind}" if behind else "-", "+", "LIMIT", 0, limit)
                for key in self._keys.of_groups("partitions", groups=groups[:_GROUPS_AT_ONCE])
            ]
            listed: list[list[bytes]] = await link.many(asked)
            digests = [digest.decode("ascii") for part in listed for digest in part][:limit]
            heads = await link.many([command("HGET", self._keys.of(digest).heads, digest) for digest in digests])
            found += [partition for head in heads if head is not None and (partition := partition_of(head))]
            if len(digests) < limit:
                del groups[:_GROUPS_AT_ONCE]
            else:  # some were erased meanwhile
                behind = digests[-1]
        return tuple(found[:limit])

    async def due(self, kind: str, *, now: datetime, limit: int) -> tuple[Item, ...]:
        """See :meth:`threadkeep.storage.port.Storage.due`."""
        link = self._require_open()
        check_limit(limit, name="limit")
        if limit == 0:
            return ()
        moment = micros(now)
        first, last, length = due_bounds(kind, moment)
        asked = [
            DUE.command(keys, first, last, length, moment_text(moment), limit)
            for keys in self._groups("due", at_once=len(GROUPS))
        ]
        members = sorted({member for found in await link.many(asked) for member in found})[:limit]
        found = await self._items_at([due_member(member, length) for member in members])
        wanted = [item for item in found if item.due is not None and item.due.kind == kind and item.due.at <= now]
        return tuple(item for item in wanted if item.expires_at is None or item.expires_at > now)

    async def erase(self, partition: Partition) -> int:
        """See :meth:`threadkeep.storage.port.Storage.erase`.

        Redis's append-only file keeps what was written to it until it is rewritten, which the server
        does when the file has grown enough, or on ``BGREWRITEAOF``.
        """
        link = self._require_open()
        digest = digest_of(partition)
        asked = ERASE.command(self._keys.of(digest), digest, new_id())
        return await link.call(asked, repeatable=False, longer=_LONGER)

    async def sweep(self, *, now: datetime) -> int:
        """See :meth:`threadkeep.storage.port.Storage.sweep`."""
        self._require_open()
        moment = micros(now)
        keys = self._keys.of_groups("expiring")
        first = await self._require_open().many([_expired(key, "-", moment) for key in keys])
        return sum([await self._swept(key, members, moment) for key, members in zip(keys, first, strict=True)])

    async def stats(self) -> Stats:
        """See :meth:`threadkeep.storage.port.Storage.stats`."""
        link = self._require_open()
        commands = [STATS.command(keys) for keys in self._groups("partitions", "namespaces")]
        counted: list[list[int]] = await link.many(commands, longer=_LONGER)
        return Stats(sum(partitions for partitions, _ in counted), sum(items for _, items in counted), None)

    async def advice(self) -> list[str]:
        """See :meth:`threadkeep.storage.port.Advising.advice`."""
        link = self._require_open()
        info = await server_info(link, "persistence", "memory", "replication")
        config: dict[str, str] = {}
        for name in ("appendfsync", "save"):
            reply = await allowed(link, command("CONFIG", "GET", name))
            config |= {name: reply[1].decode()} if reply else {}
        return advice(info, config)

    async def _commit(
        self, digest: str, batch: Batch | None, changes: Sequence[Change], arguments: Sequence[Argument], *, now: int
    ) -> tuple[Position, int]:
        """Run the script that commits; return the position and how many operations changed something."""
        link, birth = self._require_open(), self._require_birth()
        spelling = "" if batch is None else spelling_of(batch.partition)
        size = sum(len(argument) for argument in arguments if isinstance(argument, bytes))
        longer = 1 + size / _BYTES_PER_TIMEOUT + len(arguments) / _ARGUMENTS_PER_TIMEOUT
        while True:
            asked = COMMIT.command(
                self._keys.of(digest),
                *(digest, (batch and batch.epoch) or "", birth.epoch, birth.runs, moment_text(now), spelling),
                *(MAX_CHANGE_LOG_ROWS, *arguments),
            )
            match await link.call(asked, repeatable=False, longer=longer):
                case [b"done", bytes() as epoch, int() as sequence, int() as changed]:
                    return Position(epoch.decode("ascii"), sequence), changed
                case [b"unborn", bytes() as run]:
                    await birth.learn(run.decode("ascii"))
                case [b"conflict", int() as place, bytes() as revision]:
                    check_expectation(changes[place - 1], known_at(revision))
                case [b"erased"]:
                    msg = "The partition was erased while this work was in flight; nothing was written."
                    raise PartitionErasedError(msg)
                case other:
                    msg = f"Redis at {self.location} answered {str(other)[:40]} to a commit; see the server's log."
                    raise StorageError(msg)

    async def _swept(self, key: str, members: list[bytes], moment: int) -> int:
        """Remove what expired of one group, of which *members* are the first."""
        link = self._require_open()
        swept = 0
        while members:
            places: dict[str, list[bytes]] = defaultdict(list)
            for member in members:
                digest, place = expiring_member(member)
                places[digest].append(place)
            for digest, expired in places.items():
                operations = [argument for place in expired for argument in expired_operation(place)]
                _, changed = await self._commit(digest, None, (), operations, now=moment)
                swept += changed
            if len(members) < _SWEPT_AT_ONCE:
                break
            members = await link.call(_expired(key, f"({members[-1].decode('ascii')}", moment))
        return swept

    async def _items_at(self, places: Sequence[Located]) -> list[Item]:
        """Return the items that are still there, with partitions as they are spelled."""
        link = self._require_open()
        by_digest: dict[str, list[bytes]] = defaultdict(list)
        for digest, place in places:
            by_digest[digest].append(place)
        commands: list[Command] = []
        for digest, wanted in by_digest.items():
            commands += [command("HGET", self._keys.of(digest).heads, digest), self._fields(digest, wanted)]
        replies = await link.many(commands)
        found: dict[Located, Item] = {}
        for (digest, wanted), head, fields in zip(by_digest.items(), replies[::2], replies[1::2], strict=True):
            partition = partition_of(head) if head else None
            if partition:
                there = [found_at for found_at in zip(wanted, fields[::2], fields[1::2], strict=True) if found_at[1]]
                rows = [row_of(mark, place, body) for place, mark, body in there]
                items = items_of(rows, partition)
                found.update((Located(digest, place), item) for (place, _, _), item in zip(there, items, strict=True))
        return [found[place] for place in places if place in found]

    async def _never_written(self) -> Position:
        """Return the position of a partition that was never written to."""
        return Position(await self._require_birth().learn(), 0)

    def _fields(self, digest: str, places: Sequence[str] | Sequence[bytes]) -> Command:
        """Return what reads marks and bodies in turn."""
        names = [name for place in places for name in field_names(place)]
        return command("HMGET", self._keys.of(digest).items, *names)

    def _groups(self, *kinds: str, at_once: int = _GROUPS_AT_ONCE) -> Iterator[list[str]]:
        """Yield the keys of these kinds of all groups, those of several together where one command may name them."""
        if self._require_open().one_slot:
            at_once = 1
        for first in range(0, len(GROUPS), at_once):
            yield self._keys.of_groups(*kinds, groups=GROUPS[first : first + at_once])

    def _require_birth(self) -> Birth:
        self._require_open()
        if self._birth is None:
            msg = "Call connect() first."
            raise ClosedError(msg)
        return self._birth

    def _require_open(self) -> Link:
        link = self._link
        if self._closed or link is None:
            msg = "This storage was closed; open a new one." if self._closed else "Call connect() first."
            raise ClosedError(msg)
        if self._pid != os.getpid():
            msg = "This storage was opened before the process forked; open one in the child."
            raise ClosedError(msg)
        return link


def _expired(key: str, start: str, moment: int) -> Command:
    """Return what lists members of the expiring index *key* that had expired by *moment*, from *start* on."""
    return command("ZRANGEBYLEX", key, start, expired_bound(moment), "LIMIT", 0, _SWEPT_AT_ONCE)
