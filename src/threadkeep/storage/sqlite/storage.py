"""Items in one SQLite file, which several processes may share.

One thread holds the connection that writes: a commit is one call into it, and commits that wait for
it at the same moment share one wait for the disk. Up to four threads read,
each on a connection of its own: they see the last commit and never wait for the next one, because
the file has a write-ahead log.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Final, Literal, TypeVar

from threadkeep.clock import Clock
from threadkeep.errors import ClosedError
from threadkeep.storage.encoding import (
    check_limit,
    micros,
)
from threadkeep.storage.matching import distinct_namespaces
from threadkeep.storage.port import (
    Batch,
    Changes,
    Delete,
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
from threadkeep.storage.scan import Scan
from threadkeep.storage.sqlite.connections import SqliteConnections, opened_at
from threadkeep.storage.sqlite.file import size_bytes, transaction
from threadkeep.storage.sqlite.group_commit import GroupCommit
from threadkeep.storage.sqlite.rewriting import rewrite

T = TypeVar("T")

_FEW: Final = 64
"""So many items are read on the event loop, in about 0.01 ms each; more of them by a reader."""


class SqliteStorage:
    """Keeps items in the file at *path*.

    Args:
        path: The file; it and its folder are made by the first connection, for this user only.
        key_prefix: Deployments with different ones share the file and nothing else.
        clock: What the time is.
        synchronous: ``FULL``: a commit that returned outlives a power cut. ``NORMAL``: it outlives the
            process, and a power cut may take the last ones; it saves the wait for the disk.
    """

    name: str = "sqlite"

    def __init__(
        self,
        path: Path,
        *,
        key_prefix: str = "",
        clock: Clock,
        synchronous: Literal["FULL", "NORMAL"] = "FULL",
    ) -> None:
        self.location: str = str(path)
        self._path = path
        self._key_prefix = key_prefix
        self._clock = clock
        self._synchronous: Literal["FULL", "NORMAL"] = synchronous
        self._open: SqliteConnections | None = None
        self._commits = GroupCommit(clock)
        self._opening = asyncio.Lock()
        self._closed = False

    async def connect(self) -> None:
        """See :meth:`threadkeep.storage.port.Storage.connect`."""
        async with self._opening:
            if self._open is not None or self._closed:
                self._require_open()
                return
            writer = ThreadPoolExecutor(1, "threadkeep-sqlite-writer")
            try:
                opened = await asyncio.get_running_loop().run_in_executor(
                    writer, opened_at, self._path, self._key_prefix, self._synchronous, writer
                )
            except BaseException:
                writer.shutdown()
                raise
            self._open = opened
            weakref.finalize(self, opened.let_go)

    async def close(self) -> None:
        """See :meth:`threadkeep.storage.port.Storage.close`."""
        self._closed = True
        opened, self._open = self._open, None
        if opened is None or opened.pid != os.getpid():
            return
        opened.stop_scrubbing()
        # The writer waits for the readers, the loop for the writer: nothing blocks the loop.
        await asyncio.get_running_loop().run_in_executor(opened.writer, opened.close)
        opened.writer.shutdown()

    async def get(self, refs: Sequence[Ref]) -> tuple[Item | None, ...]:
        """See :meth:`threadkeep.storage.port.Storage.get`."""
        found = self.get_at_once(refs) if len(refs) <= _FEW else None
        return found if found is not None else await self._read(self._getting(refs))

    async def commit(self, batch: Batch) -> Position:
        """See :meth:`threadkeep.storage.port.Storage.commit`."""
        (position,) = await self.commit_all([batch])
        return position

    async def commit_all(self, batches: Sequence[Batch]) -> tuple[Position, ...]:
        """See :meth:`threadkeep.storage.port.Spanning.commit_all`."""
        opened = self._require_open()
        positions = await self._commits.add(opened, batches)
        if any(isinstance(operation, Delete) for batch in batches for operation in batch.operations):
            opened.scrub_later()
        return positions

    async def position(self, partition: Partition) -> Position:
        """See :meth:`threadkeep.storage.port.Storage.position`."""
        opened = self._require_open()

        def work(connection: sqlite3.Connection) -> Position:
            return opened.tables.position(connection, partition)

        position = opened.glance(work)
        return await self._read(work) if position is None else position

    def standing(self, partition: Partition) -> Position | None:
        """See :meth:`threadkeep.storage.port.Telling.standing`."""
        opened = self._require_open()
        return opened.glance(lambda connection: opened.tables.position(connection, partition))

    def stands_at(self, partition: Partition, position: Position) -> bool:
        """See :meth:`threadkeep.storage.port.Telling.stands_at`."""
        return position == self.standing(partition)

    def get_at_once(self, refs: Sequence[Ref]) -> tuple[Item | None, ...] | None:
        """See :meth:`threadkeep.storage.port.Telling.get_at_once`."""
        work = self._getting(refs)
        return self._require_open().glance(lambda connection: _at_one_moment(connection, work))

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
        opened = self._require_open()
        scan = Scan.checked(partition, prefix=prefix, filter=filter, direction=direction, after=after, limit=limit)
        if limit == 0:
            return Page((), None)
        now = micros(self._clock.now())
        return scan.page(await self._read(lambda connection: opened.tables.scan(connection, scan, now)))

    async def changes(self, partition: Partition, since: Position | None) -> Changes:
        """See :meth:`threadkeep.storage.port.Storage.changes`."""
        opened = self._require_open()
        if since is not None and self.stands_at(partition, since):
            return Changes(since, reset=False, puts=(), removed=())
        now = micros(self._clock.now())
        return await self._read(lambda connection: opened.tables.changes(connection, partition, since, now))

    async def namespaces(
        self,
        *,
        match: Sequence[NamespaceMatch] = (),
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> tuple[Namespace, ...]:
        """See :meth:`threadkeep.storage.port.Storage.namespaces`."""
        opened = self._require_open()
        check_limit(limit, name="limit")
        check_limit(offset, name="offset")
        now = micros(self._clock.now())

        def work(connection: sqlite3.Connection) -> tuple[Namespace, ...]:
            texts = opened.tables.namespaces(connection, now)
            return distinct_namespaces(texts, match=match, max_depth=max_depth)[offset : offset + limit]

        return await self._read(work)

    async def partitions(self, *, after: Partition | None = None, limit: int = 100) -> tuple[Partition, ...]:
        """See :meth:`threadkeep.storage.port.Storage.partitions`."""
        opened = self._require_open()
        check_limit(limit, name="limit")
        return await self._read(lambda connection: opened.tables.partitions(connection, after, limit))

    async def due(self, kind: str, *, now: datetime, limit: int) -> tuple[Item, ...]:
        """See :meth:`threadkeep.storage.port.Storage.due`."""
        opened = self._require_open()
        check_limit(limit, name="limit")
        moment = micros(now)
        return await self._read(lambda connection: opened.tables.due(connection, kind, moment, limit))

    async def erase(self, partition: Partition) -> int:
        """See :meth:`threadkeep.storage.port.Storage.erase`.

        Where another process reads for longer than a second, the write-ahead log, from where nothing
        reads the erased rows, is emptied later.
        """
        opened = self._require_open()

        def work() -> tuple[int, bool]:
            items = opened.write(lambda connection: opened.tables.erase(connection, partition))
            if items:
                rewrite(opened.connection, self._path)
            return items, opened.empty_log()

        items, emptied = await asyncio.get_running_loop().run_in_executor(opened.writer, work)
        if not emptied:
            opened.scrub_later()
        return items

    async def sweep(self, *, now: datetime) -> int:
        """See :meth:`threadkeep.storage.port.Storage.sweep`."""
        opened = self._require_open()
        moment = micros(now)

        def work() -> int:
            return opened.write(lambda connection: opened.tables.sweep(connection, moment))

        swept = await asyncio.get_running_loop().run_in_executor(opened.writer, work)
        if swept:
            opened.scrub_later()
        return swept

    async def stats(self) -> Stats:
        """See :meth:`threadkeep.storage.port.Storage.stats`."""
        opened = self._require_open()
        partitions, items = await self._read(opened.tables.count)
        return Stats(partitions, items, size_bytes(self._path))

    def _getting(self, refs: Sequence[Ref]) -> Callable[[sqlite3.Connection], tuple[Item | None, ...]]:
        tables, now = self._require_open().tables, micros(self._clock.now())
        return lambda connection: tables.get(connection, refs, now)

    async def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        opened = self._require_open()
        return await asyncio.get_running_loop().run_in_executor(opened.readers, opened.read, work)

    def _require_open(self) -> SqliteConnections:
        opened = self._open
        if opened is None:
            msg = "This storage was closed; open a new one." if self._closed else "Call connect() first."
            raise ClosedError(msg)
        if opened.pid != os.getpid():
            msg = "This storage was opened before the process forked; open one in the child."
            raise ClosedError(msg)
        return opened


def _at_one_moment(connection: sqlite3.Connection, work: Callable[[sqlite3.Connection], T]) -> T:
    with transaction(connection, "DEFERRED"):
        return work(connection)
