"""The wrapper: a storage whose items are sealed, over any other storage.

The backend sees partitions, namespaces, keys and kinds of work by keyed digests, and everything else as one
sealed text. It counts, orders by time, expires, and tells what changed as ever; what needs the readable
form (filters, the order of what was written at one moment, names) is done here after opening.

One partition's reads say what does not open. Reads across partitions leave it out and log it, because
one damaged row must not stop everybody's work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from threadkeep.errors import ClosedError, PartitionErasedError, RevisionConflictError
from threadkeep.storage.encoding import check_limit, check_namespace, encode_namespace
from threadkeep.storage.matching import check_filter, distinct_namespaces, meets
from threadkeep.storage.port import (
    Batch,
    Changes,
    Direction,
    Filter,
    Item,
    Namespace,
    NamespaceMatch,
    Operation,
    Page,
    Partition,
    Position,
    Ref,
    Stats,
    Storage,
)
from threadkeep.storage.row import encoded, place_of
from threadkeep.storage.sealed import paging
from threadkeep.storage.sealed.deployment import MARKER_ITEMS, Deployment, deployment_of, rewrap_marker
from threadkeep.storage.sealed.in_use import (
    INLINE_BYTES,
    INLINE_ITEMS,
    Held,
    KeysInUse,
    ReplacedError,
    off_loop_if,
)
from threadkeep.storage.sealed.marker import MARKER
from threadkeep.storage.sealed.seal import PartitionSeal, stored_partition

if TYPE_CHECKING:
    from threadkeep.clock import Clock
    from threadkeep.storage.row import Change
    from threadkeep.storage.sealed.keystore import KeyStore

_SPARE_ROWS: Final = 8
_FEWEST_FILTERED: Final = 64
_MOST_ROWS: Final = 512
_CHUNK: Final = 256
_ALL: Final = 2**31 - 1


class SealedStorage:
    """Keeps sealed items in *inner*, and the keys to them in *keys*.

    Args:
        inner: Any storage that is empty, or was sealed with these keys.
        keys: Where the keys are.
        clock: What the time is.
    """

    def __init__(self, inner: Storage, keys: KeyStore, clock: Clock) -> None:
        self.name: str = inner.name
        self.location: str = inner.location
        self.inner: Storage = inner
        self.keys: KeyStore = keys
        self._clock = clock
        self._deployment: Deployment | None = None
        self._in_use = KeysInUse(inner, keys)

    async def connect(self) -> None:
        """See :meth:`threadkeep.storage.port.Storage.connect`.

        Raises:
            SealError: It is not sealed, or was with other keys.
        """
        await self.inner.connect()
        if self._deployment is not None:
            return
        await self.keys.storage.connect()
        deployment = await deployment_of(self.inner, self.keys.masters)
        await self.keys.claim(deployment.storage_id, is_empty=self._is_empty)
        self._deployment = deployment

    async def close(self) -> None:
        """See :meth:`threadkeep.storage.port.Storage.close`."""
        self._in_use.forget()
        try:
            await self.inner.close()
        finally:
            await self.keys.storage.close()

    async def get(self, refs: Sequence[Ref]) -> tuple[Item | None, ...]:
        """See :meth:`threadkeep.storage.port.Storage.get`."""
        for ref in refs:
            place_of(ref.namespace, ref.key)
        asked: dict[Partition, list[Ref]] = {}
        for ref in refs:
            asked.setdefault(ref.partition, []).append(ref)
        if len(asked) == 1:
            return tuple(await self._get(refs))
        if not asked:
            return await self.inner.get([])
        parts = await asyncio.gather(*map(self._get, asked.values()))
        found = {partition: iter(part) for partition, part in zip(asked, parts, strict=True)}
        return tuple(next(found[ref.partition]) for ref in refs)

    async def commit(self, batch: Batch) -> Position:
        """See :meth:`threadkeep.storage.port.Storage.commit`."""
        operations = list(batch.operations)
        many = len(operations) > INLINE_ITEMS
        changes = await off_loop_if(many, encoded, Batch(batch.partition, operations))

        async def work(held: Held) -> Position:
            if batch.epoch is not None and batch.epoch != held.epoch:
                await self._in_use.require_present(held)
                msg = "The partition was erased while this work was in flight; nothing was written."
                raise PartitionErasedError(msg)
            if held.seal is None:
                await self.keys.make(held.pid, batch.partition)
                raise ReplacedError
            sealed = await self._sealed(held.seal, operations, changes)
            try:
                return await self.inner.commit(Batch(held.seal.stored_partition, sealed, held.epoch))
            except PartitionErasedError as error:
                raise ReplacedError from error
            except RevisionConflictError as error:
                raise _readable(error, operations, sealed) from error

        return await self._in_use.do(self._pid(batch.partition), work)

    async def position(self, partition: Partition) -> Position:
        """See :meth:`threadkeep.storage.port.Storage.position`."""
        return await self.inner.position(stored_partition(self._pid(partition)))

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
        check_limit(limit, name="limit")
        check_namespace(prefix)
        check_filter(filter or {})
        token = None if after is None else paging.token_of(after)

        def wanted(item: Item) -> bool:
            return item.ref.namespace[: len(prefix)] == prefix and (not filter or meets(item.value, filter))

        async def work(held: Held) -> Page:
            seal = held.seal
            if seal is None or limit == 0:
                await self._in_use.require_present(held)
                return Page((), None)
            rows = max(limit + _SPARE_ROWS, _FEWEST_FILTERED if filter else 0)
            seen = 0

            async def read(start: str | None) -> tuple[Sequence[Item], str | None]:
                nonlocal seen
                page = await self.inner.scan(
                    seal.stored_partition,
                    prefix=seal.prefix(prefix),
                    direction=direction,
                    after=start,
                    limit=min(rows, _MOST_ROWS),
                )
                seen += len(page.items)
                return [item for item in await self._in_use.opened(held, page.items) if item is not None], page.after

            place = None if token is None else paging.place_of(token, seal)
            newest = direction == "newest"
            items, place = await paging.page_of(read, place=place, newest=newest, limit=limit, wanted=wanted)
            if not seen:
                await self._in_use.require_present(held)
            return Page(tuple(items), None if place is None else paging.spelled(place, seal))

        return await self._in_use.do(self._pid(partition), work)

    async def changes(self, partition: Partition, since: Position | None) -> Changes:
        """See :meth:`threadkeep.storage.port.Storage.changes`."""
        stored = stored_partition(self._pid(partition))
        changes = await self.inner.changes(stored, since)
        if not changes.puts and not changes.removed:
            return changes

        async def work(held: Held) -> Changes:
            nonlocal changes
            if held.epoch != changes.position.epoch:
                await self._in_use.require_present(held)
                changes = await self.inner.changes(stored, since)
            removed = [_place(held, *place) for place in changes.removed]
            if None in removed:  # a name too long to be told by what is left of it, or of an erased time
                changes = await self.inner.changes(stored, None)
                removed = []
            puts = tuple(item for item in await self._in_use.opened(held, changes.puts) if item is not None)
            return Changes(changes.position, changes.reset, puts, tuple(place for place in removed if place))

        return await self._in_use.do(self._pid(partition), work)

    async def namespaces(
        self,
        *,
        match: Sequence[NamespaceMatch] = (),
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> tuple[Namespace, ...]:
        """See :meth:`threadkeep.storage.port.Storage.namespaces`."""
        check_limit(limit, name="limit")
        check_limit(offset, name="offset")
        stored = await self.inner.namespaces(limit=_ALL)
        texts: set[str] = set()
        for start in range(0, len(stored), _CHUNK):
            chunk = stored[start : start + _CHUNK]
            await self._in_use.load_ahead([name[0] for name in chunk])
            named = [await self._in_use.namespace_of(name) for name in chunk]
            texts.update(encode_namespace(name) for name in named if name is not None)
        names = await off_loop_if(
            len(texts) > INLINE_ITEMS, lambda: distinct_namespaces(texts, match=match, max_depth=max_depth)
        )
        return names[offset : offset + limit]

    async def partitions(self, *, after: Partition | None = None, limit: int = 100) -> tuple[Partition, ...]:
        """See :meth:`threadkeep.storage.port.Storage.partitions`."""
        check_limit(limit, name="limit")
        found: list[Partition] = []
        place = None if after is None else stored_partition(self._pid(after))
        while len(found) < limit:
            stored = await self.inner.partitions(after=place, limit=limit - len(found) + MARKER_ITEMS)
            if not stored:
                break
            place = stored[-1]
            found += await self._in_use.partitions_of([each.parts[0] for each in stored if each != MARKER.partition])
        return tuple(found[:limit])

    async def due(self, kind: str, *, now: datetime, limit: int) -> tuple[Item, ...]:
        """See :meth:`threadkeep.storage.port.Storage.due`."""
        check_limit(limit, name="limit")
        stored_kind = self._require_deployment().due_kind(kind)
        asked = limit
        while True:
            rows = await self.inner.due(stored_kind, now=now, limit=asked)
            await self._in_use.load_ahead([row.ref.partition.parts[0] for row in rows])
            found = await self._in_use.opened_across(rows)
            if len(found) >= limit or len(rows) < asked:
                return tuple(found[:limit])
            asked = min(asked * 2, _ALL)  # some do not open: those behind them shall not wait for ever

    async def erase(self, partition: Partition) -> int:
        """See :meth:`threadkeep.storage.port.Storage.erase`.

        The key goes first: from then on no copy of the items can be read.
        """
        pid = self._pid(partition)
        await self.keys.destroy(pid)
        self._in_use.forget(pid)
        items = await self.inner.erase(stored_partition(pid))
        self._in_use.forget(pid)
        return items

    async def sweep(self, *, now: datetime) -> int:
        """See :meth:`threadkeep.storage.port.Storage.sweep`."""
        return await self.inner.sweep(now=now)

    async def stats(self) -> Stats:
        """See :meth:`threadkeep.storage.port.Storage.stats`."""
        stats = await self.inner.stats()
        return Stats(stats.partitions - MARKER_ITEMS, stats.items - MARKER_ITEMS, stats.size_bytes)

    async def rewrap(self) -> int:
        """Wrap with the current master key what older ones wrap; return how many keys that were.

        Everything goes on meanwhile; interrupted, it is repeated.
        """
        await rewrap_marker(self.inner, self.keys.masters)
        return await self.keys.rewrap()

    async def _is_empty(self) -> bool:
        return (await self.inner.stats()).items <= MARKER_ITEMS

    async def _get(self, refs: Sequence[Ref]) -> list[Item | None]:
        """Return the items at *refs*, which are of one partition."""

        async def work(held: Held) -> list[Item | None]:
            seal = held.seal
            if seal is None:
                await self._in_use.require_present(held)
                return [None] * len(refs)
            stored = [Ref(seal.stored_partition, seal.namespace(ref.namespace), seal.key(ref.key)) for ref in refs]
            rows = await self.inner.get(stored)
            there = [row for row in rows if row is not None]
            if not there:
                await self._in_use.require_present(held)
            opened = iter(await self._in_use.opened(held, there))
            return [None if row is None else next(opened) for row in rows]

        return await self._in_use.do(self._pid(refs[0].partition), work)

    async def _sealed(
        self, seal: PartitionSeal, operations: Sequence[Operation], changes: Sequence[Change]
    ) -> list[Operation]:
        due_kind, now = self._require_deployment().due_kind, self._clock.now()

        def work() -> list[Operation]:
            return [
                seal.operation(change, operation, now=now, due_kind=due_kind)
                for change, operation in zip(changes, operations, strict=True)
            ]

        size = sum(len(change.content.value) for change in changes if change.content is not None)
        return await off_loop_if(len(operations) > INLINE_ITEMS or size > INLINE_BYTES, work)

    def _require_deployment(self) -> Deployment:
        if self._deployment is None:
            msg = "Call connect() first."
            raise ClosedError(msg)
        return self._deployment

    def _pid(self, partition: Partition) -> str:
        return self._require_deployment().pid(partition)


def _place(held: Held, namespace: Namespace, key: str) -> tuple[Namespace, str] | None:
    """Return the readable place of what is stored at *namespace* and *key*, if the place says so itself."""
    if held.seal is None:
        return None
    named, keyed = held.seal.namespace_of(namespace), held.seal.key_of(key)
    return None if named is None or keyed is None else (named, keyed)


def _readable(
    error: RevisionConflictError, operations: Sequence[Operation], sealed: Sequence[Operation]
) -> RevisionConflictError:
    """Return *error* about the item that was asked for, where it is about the row that stands for it."""
    details = dict(error.details)
    for asked, stored in zip(operations, sealed, strict=True):
        if (stored.namespace, stored.key) == (details.get("namespace"), details.get("key")):
            details.update(namespace=asked.namespace, key=asked.key)
    return RevisionConflictError(str(error), **details)
