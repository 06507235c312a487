"""Items in MongoDB: a standalone server, a replica set or a cluster, without transactions.

A commit is one insert into ``threadkeep_batches`` whose ``_id`` is the partition and a number: the unique
index lets one writer have it, and the others decide anew. What the commit writes was inserted before,
where nobody sees it yet, and becomes part of the items afterwards, by this process or any other.
``documents`` says what is kept, ``collections`` why that is right.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

from pymongo import AsyncMongoClient

from threadkeep.clock import Clock
from threadkeep.errors import ClosedError
from threadkeep.storage.encoding import check_limit, micros
from threadkeep.storage.matching import distinct_namespaces
from threadkeep.storage.mongodb.client import check_uri, client_of, database_of, make_ready, masked
from threadkeep.storage.mongodb.collections import MongoCollections
from threadkeep.storage.mongodb.commits import MongoCommits
from threadkeep.storage.mongodb.documents import Document, place_key
from threadkeep.storage.mongodb.errors import VARIABLE, mongo_errors
from threadkeep.storage.mongodb.moments import MongoMoments
from threadkeep.storage.mongodb.service import MongoService
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
from threadkeep.storage.row import encoded, items_of, place_of
from threadkeep.storage.scan import Scan

T = TypeVar("T")

_FEW: Final = 64
"""So many operations are encoded on the event loop, in about 0.01 ms each; more of them in a thread."""

ORPHANED_AFTER: Final = timedelta(hours=1)
"""What was prepared so long ago and not decided is of a writer that is gone."""


class MongoStorage:
    """Keeps items in the database that *uri* names, by default ``threadkeep``.

    Args:
        uri: ``mongodb://`` or ``mongodb+srv://``; its options win over our defaults.
        key_prefix: Deployments with different ones share the database and nothing else.
        clock: What the time is.
        migrate: Whether the first connection makes the collections' indexes; otherwise they must be there.
        variable: The setting that *uri* came from, for the message where it cannot be used.

    Raises:
        SettingsError: The URI cannot be used.
    """

    name: str = "mongodb"

    def __init__(
        self,
        uri: str,
        *,
        key_prefix: str = "",
        clock: Clock,
        migrate: bool = True,
        variable: str = VARIABLE,
    ) -> None:
        check_uri(uri, variable)
        self.location: str = masked(uri, variable)
        self._variable = variable
        self._uri = uri
        self._key_prefix = key_prefix
        self._clock = clock
        self._migrate = migrate
        self._open: _Opened | None = None
        self._opening = asyncio.Lock()
        self._closed = False

    async def connect(self) -> None:
        """See :meth:`threadkeep.storage.port.Storage.connect`."""
        async with self._opening:
            if self._open is not None or self._closed:
                self._require_open()
                return
            with mongo_errors(self.location, self._variable):
                client = client_of(self._uri)
                try:
                    collections = MongoCollections(database_of(client), key_prefix=self._key_prefix)
                    await make_ready(client, collections, location=self.location, migrate=self._migrate)
                except BaseException:
                    await client.close()
                    raise
            self._open = _Opened(client, collections, self._now)

    async def close(self) -> None:
        """See :meth:`threadkeep.storage.port.Storage.close`."""
        self._closed = True
        opened, self._open = self._open, None
        if opened is not None and opened.pid == os.getpid():
            await opened.close()

    async def get(self, refs: Sequence[Ref]) -> tuple[Item | None, ...]:
        """See :meth:`threadkeep.storage.port.Storage.get`."""
        opened = self._require_open()
        asked: dict[Partition, dict[str, list[int]]] = {}
        for index, ref in enumerate(refs):
            key = place_key(opened.collections.part(ref.partition), place_of(ref.namespace, ref.key))
            asked.setdefault(ref.partition, {}).setdefault(key, []).append(index)
        now = self._now()
        found: list[Item | None] = [None] * len(refs)

        async def read(partition: Partition, places: dict[str, list[int]]) -> None:
            rows = await opened.moments.rows(opened.collections.part(partition), list(places))
            alive = {place: row for place, row in rows.items() if row.expires_at is None or row.expires_at > now}
            for place, item in zip(alive, items_of(list(alive.values()), partition), strict=True):
                for index in places[place]:
                    found[index] = item

        async def read_all() -> None:
            await asyncio.gather(*(read(partition, places) for partition, places in asked.items()))

        await self._done(opened, read_all())
        return tuple(found)

    async def commit(self, batch: Batch) -> Position:
        """See :meth:`threadkeep.storage.port.Storage.commit`.

        A caller that is cancelled leaves the commit to come to its end.
        """
        opened = self._require_open()
        few = len(batch.operations) <= _FEW
        changes = encoded(batch) if few else await asyncio.to_thread(encoded, batch)
        return await self._done(opened, opened.commits.commit(batch, changes))

    async def position(self, partition: Partition) -> Position:
        """See :meth:`threadkeep.storage.port.Storage.position`."""
        opened = self._require_open()
        return (await self._done(opened, opened.collections.head(opened.collections.part(partition)))).position

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
        return scan.page(await self._done(opened, opened.moments.scan(scan, self._now())))

    async def changes(self, partition: Partition, since: Position | None) -> Changes:
        """See :meth:`threadkeep.storage.port.Storage.changes`."""
        opened = self._require_open()
        return await self._done(opened, opened.moments.changes(partition, since, self._now()))

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
        texts = await self._done(opened, opened.service.namespaces(match, self._now()))
        return distinct_namespaces(texts, match=match, max_depth=max_depth)[offset : offset + limit]

    async def partitions(self, *, after: Partition | None = None, limit: int = 100) -> tuple[Partition, ...]:
        """See :meth:`threadkeep.storage.port.Storage.partitions`."""
        opened = self._require_open()
        check_limit(limit, name="limit")
        return await self._done(opened, opened.service.partitions(after, limit))

    async def due(self, kind: str, *, now: datetime, limit: int) -> tuple[Item, ...]:
        """See :meth:`threadkeep.storage.port.Storage.due`."""
        opened = self._require_open()
        check_limit(limit, name="limit")
        return await self._done(opened, opened.service.due(kind, micros(now), limit))

    async def erase(self, partition: Partition) -> int:
        """See :meth:`threadkeep.storage.port.Storage.erase`.

        For a minute, the numbers of earlier entries stay beside the row, without anything in them.
        """
        opened = self._require_open()
        return await self._done(opened, opened.commits.erase(partition))

    async def sweep(self, *, now: datetime) -> int:
        """See :meth:`threadkeep.storage.port.Storage.sweep`.

        It also clears up what writers left behind that ended in the middle of a commit.
        """
        opened = self._require_open()
        orphaned = micros(now - ORPHANED_AFTER)
        return await self._done(opened, opened.service.sweep(micros(now), orphaned=orphaned))

    async def stats(self) -> Stats:
        """See :meth:`threadkeep.storage.port.Storage.stats`."""
        opened = self._require_open()
        return await self._done(opened, opened.service.stats())

    async def _done(self, opened: _Opened, work: Coroutine[Any, Any, T]) -> T:
        """Return what *work* returns, in a task of its own.

        A caller that is cancelled must not leave half a commit behind; and the driver, on Python 3.11,
        may lose a cancellation that arrives as it is done.
        """

        async def with_our_errors() -> T:
            with mongo_errors(self.location, self._variable):
                return await work

        return await opened.to_the_end(with_our_errors())

    def _now(self) -> int:
        return micros(self._clock.now())

    def _require_open(self) -> _Opened:
        opened = self._open
        if opened is None:
            msg = "This storage was closed; open a new one." if self._closed else "Call connect() first."
            raise ClosedError(msg)
        if opened.pid != os.getpid():
            msg = "This storage was opened before the process forked; open one in the child."
            raise ClosedError(msg)
        return opened


class _Opened:
    """What there is between ``connect`` and ``close``."""

    def __init__(self, client: AsyncMongoClient[Document], collections: MongoCollections, clock: Any) -> None:
        self.pid = os.getpid()
        self.collections = collections
        self.commits = MongoCommits(collections, clock)
        self.moments = MongoMoments(collections)
        self.service = MongoService(collections, self.commits)
        self._client = client
        self._running: set[asyncio.Task[Any]] = set()

    async def to_the_end(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what *work* returns; it goes on where the caller is cancelled, and closing waits for it."""
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return await asyncio.shield(task)

    async def close(self) -> None:
        """Wait for what runs, and let go of the connections."""
        if self._running:
            await asyncio.wait(set(self._running))
        await self.commits.drain()
        await self._client.close()

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # whoever waits raises it; nobody may be left who does
