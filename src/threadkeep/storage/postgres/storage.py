"""Items in a PostgreSQL database, which many processes may share.

Each method is one statement: it calls a function that takes on its role for that transaction, so
that row-level security holds whoever connected, and does the rest there. ``tables`` makes the
calls, ``pool`` lends the connections, ``schema`` makes the tables.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Final, TypeVar

from threadkeep.clock import Clock
from threadkeep.errors import ClosedError
from threadkeep.storage.encoding import check_limit, micros
from threadkeep.storage.matching import distinct_namespaces
from threadkeep.storage.port import (
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
from threadkeep.storage.postgres.pool import Connection, PostgresPool
from threadkeep.storage.postgres.schema import PostgresSchema
from threadkeep.storage.postgres.tables import PostgresTables, weight
from threadkeep.storage.row import encoded
from threadkeep.storage.scan import Scan

T = TypeVar("T")

SERVICE_TIMEOUT: Final = timedelta(seconds=60)
"""What goes across partitions, loads a whole one or erases it is no part of a turn and may take so long."""

_FEW: Final = 64
"""So many operations are encoded on the event loop, in about 0.01 ms each; more of them in a thread."""

_WHOLE_TAKES: Final = 5
"""A small partition that is read whole may take so many times what a turn's statement may."""

_OPERATIONS_A_SECOND: Final = 2_000
_BYTES_A_SECOND: Final = 4 * 1024 * 1024
"""A commit may take as much longer as these say, a tenth of what a small server writes."""


class PostgresStorage:
    """Keeps items in the schema ``threadkeep`` of the database that *pool* leads to.

    Args:
        pool: Is opened and closed by this storage, and may be used by others meanwhile.
        key_prefix: Deployments with different ones share the database and nothing else.
        clock: What the time is.
        hash_partitions: A new schema's items are spread over so many tables by the digest of their
            partition; 0: they are in one.
    """

    name: str = "postgres"

    def __init__(self, pool: PostgresPool, *, key_prefix: str = "", clock: Clock, hash_partitions: int = 0) -> None:
        self.pool: Final = pool
        self.location: str = pool.location
        self._key_prefix = key_prefix
        self._clock = clock
        self._schema = PostgresSchema(pool, hash_partitions=hash_partitions)
        self._tables: PostgresTables | None = None
        self._opening = asyncio.Lock()
        self._closed = False
        self._pid = 0

    async def connect(self) -> None:
        """See :meth:`threadkeep.storage.port.Storage.connect`."""
        async with self._opening:
            if self._tables is not None or self._closed:
                self._require_open()
                return
            await self.pool.open()
            roles, birth = await self._schema.ready()
            self._tables = PostgresTables(
                key_prefix=self._key_prefix, roles=roles, birth=birth, service_timeout=SERVICE_TIMEOUT
            )
            self._pid = os.getpid()

    async def close(self) -> None:
        """See :meth:`threadkeep.storage.port.Storage.close`."""
        self._closed = True
        self._tables = None
        await self.pool.close()

    async def get(self, refs: Sequence[Ref]) -> tuple[Item | None, ...]:
        """See :meth:`threadkeep.storage.port.Storage.get`."""
        tables = self._require_open()
        now = micros(self._clock.now())
        return await self.pool.run(lambda connection: tables.get(connection, refs, now))

    async def commit(self, batch: Batch) -> Position:
        """See :meth:`threadkeep.storage.port.Storage.commit`."""
        tables = self._require_open()
        changes = encoded(batch) if len(batch.operations) <= _FEW else await asyncio.to_thread(encoded, batch)
        now = micros(self._clock.now())
        arguments = (
            tables.arguments(batch, changes, now)
            if len(changes) <= _FEW
            else await asyncio.to_thread(tables.arguments, batch, changes, now)
        )
        more = len(changes) / _OPERATIONS_A_SECOND + weight(arguments) / _BYTES_A_SECOND
        return await self.pool.run(
            lambda connection: tables.commit(connection, arguments, changes),
            seconds=self.pool.statement_timeout.total_seconds() + more,
            again=lambda: False,  # it may have come through
        )

    async def position(self, partition: Partition) -> Position:
        """See :meth:`threadkeep.storage.port.Storage.position`."""
        tables = self._require_open()
        return await self.pool.run(lambda connection: tables.position(connection, partition))

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
        tables = self._require_open()
        scan = Scan.checked(partition, prefix=prefix, filter=filter, direction=direction, after=after, limit=limit)
        if limit == 0:
            return Page((), None)
        now = micros(self._clock.now())
        return scan.page(await self.pool.run(lambda connection: tables.scan(connection, scan, now)))

    async def changes(self, partition: Partition, since: Position | None) -> Changes:
        """See :meth:`threadkeep.storage.port.Storage.changes`."""
        tables = self._require_open()
        now = micros(self._clock.now())
        seconds = self.pool.statement_timeout.total_seconds() * (1 if since else _WHOLE_TAKES)
        changes = await self.pool.run(
            lambda connection: tables.changes(connection, partition, since, now), seconds=seconds
        )
        if changes is not None:
            return changes
        return await self._serve(lambda connection: tables.load(connection, partition, since, now))

    async def namespaces(
        self,
        *,
        match: Sequence[NamespaceMatch] = (),
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> tuple[Namespace, ...]:
        """See :meth:`threadkeep.storage.port.Storage.namespaces`."""
        tables = self._require_open()
        check_limit(limit, name="limit")
        check_limit(offset, name="offset")
        now = micros(self._clock.now())
        texts = await self._serve(lambda connection: tables.namespaces(connection, now))
        return distinct_namespaces(texts, match=match, max_depth=max_depth)[offset : offset + limit]

    async def partitions(self, *, after: Partition | None = None, limit: int = 100) -> tuple[Partition, ...]:
        """See :meth:`threadkeep.storage.port.Storage.partitions`."""
        tables = self._require_open()
        check_limit(limit, name="limit")
        return await self._serve(lambda connection: tables.partitions(connection, after, limit))

    async def due(self, kind: str, *, now: datetime, limit: int) -> tuple[Item, ...]:
        """See :meth:`threadkeep.storage.port.Storage.due`."""
        tables = self._require_open()
        check_limit(limit, name="limit")
        moment = micros(now)
        return await self._serve(lambda connection: tables.due(connection, kind, moment, limit))

    async def erase(self, partition: Partition) -> int:
        """See :meth:`threadkeep.storage.port.Storage.erase`.

        The rows are gone for every reader at once; the server overwrites their bytes when it vacuums.
        """
        tables = self._require_open()
        return await self._serve(lambda connection: tables.erase(connection, partition), again=False)

    async def sweep(self, *, now: datetime) -> int:
        """See :meth:`threadkeep.storage.port.Storage.sweep`. Each thousand is a transaction of its own."""
        tables = self._require_open()
        moment = micros(now)
        swept = 0
        while True:
            seen, removed = await self._serve(lambda connection: tables.sweep(connection, moment))
            swept += removed
            if not seen:
                return swept

    async def stats(self) -> Stats:
        """See :meth:`threadkeep.storage.port.Storage.stats`."""
        return await self._serve(self._require_open().stats)

    async def advice(self) -> list[str]:
        """See :meth:`threadkeep.storage.port.Advising.advice`."""
        return await self._serve(self._require_open().advice)

    async def _serve(self, work: Callable[[Connection], Awaitable[T]], *, again: bool = True) -> T:
        """Run what is no part of a turn."""
        return await self.pool.run(work, seconds=SERVICE_TIMEOUT.total_seconds(), again=lambda: again)

    def _require_open(self) -> PostgresTables:
        if self._tables is None:
            msg = "This storage was closed; open a new one." if self._closed else "Call connect() first."
            raise ClosedError(msg)
        if self._pid != os.getpid():
            msg = "This storage was opened before the process forked; open one in the child."
            raise ClosedError(msg)
        return self._tables
