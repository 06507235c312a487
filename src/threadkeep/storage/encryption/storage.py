"""A wrapper that encrypts the items of any storage.

The inner storage sees ids instead of partitions, keyed digests instead of namespaces and keys, and everything else as
one ciphertext. It counts, orders by time, expires and reports changes as usual. Filters, names, and the order of
items of one commit need plaintext, so they are applied here after decryption.

A read of one partition raises an error for an item that does not decrypt. A read across partitions leaves it out and
logs it, because one damaged row must not stop the work of everybody else.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from threadkeep.concurrency import PriorityGate
from threadkeep.errors import (
    ClosedError,
    InvalidInputError,
    PartitionErasedError,
    RevisionConflictError,
)
from threadkeep.storage.base import call_in_thread_if
from threadkeep.storage.encoding import (
    Cursor,
    check_filter,
    check_limit,
    check_namespace,
    distinct_namespaces,
    encode_namespace,
    meets,
    scan_position,
)
from threadkeep.storage.encryption import MARKER
from threadkeep.storage.encryption.cipher import (
    INLINE_BYTES,
    INLINE_ITEMS,
    CachedKeys,
    KeyCache,
    PartitionCipher,
    ReplacedError,
    stored_partition,
)
from threadkeep.storage.encryption.key_store import (
    MARKER_ITEMS,
    Deployment,
    VerificationReport,
    open_deployment,
    rewrap_marker,
    verify,
)
from threadkeep.storage.interface import (
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
from threadkeep.storage.rows import encode_batch, partition_erased, to_row_key

if TYPE_CHECKING:
    from threadkeep.clock import Clock
    from threadkeep.storage.encryption.key_store import KeyStore
    from threadkeep.storage.rows import RowChange

_SPARE_ROWS: Final = 8
_FEWEST_FILTERED: Final = 64
_MOST_ROWS: Final = 512
_CHUNK: Final = 256
_ALL: Final = 2**31 - 1
_GROUP_FACTOR: Final = 8
"""A group with this many times more items than the page is cut to the page."""

PageReader: TypeAlias = "Callable[[str | None], Awaitable[tuple[Sequence[Item], str | None]]]"


class EncryptedStorage:
    """Keeps encrypted items in *inner*, and their keys in *keys*.

    Args:
        inner: Any storage that is empty, or was encrypted with these keys.
        keys: The keys.
        clock: Returns the time.
    """

    def __init__(self, inner: Storage, keys: KeyStore, clock: Clock) -> None:
        self.name: str = inner.name
        self.location: str = inner.location
        self.inner: Storage = inner
        self.keys: KeyStore = keys
        self._clock = clock
        self._deployment: Deployment | None = None
        self._key_cache = KeyCache(inner, keys)

    @property
    def gate(self) -> PriorityGate | None:
        """See :attr:`threadkeep.storage.interface.Storage.gate`."""
        return self.inner.gate

    async def connect(self) -> None:
        """See :meth:`threadkeep.storage.interface.Storage.connect`.

        Raises:
            SealError: It is not encrypted, or with other keys.
        """
        await self.inner.connect()
        if self._deployment is not None:
            return
        deployment = await open_deployment(self.inner, self.keys.masters)
        if self.keys.is_file_missing and not await self._is_empty():
            raise self.keys.missing_error()
        await self.keys.storage.connect()  # which creates a file: a storage that is refused gets none
        await self.keys.claim(deployment.storage_id, is_empty=self._is_empty)
        self._deployment = deployment

    async def close(self) -> None:
        """See :meth:`threadkeep.storage.interface.Storage.close`."""
        self._key_cache.drop()
        try:
            await self.inner.close()
        finally:
            await self.keys.storage.close()

    async def get(self, refs: Sequence[Ref]) -> tuple[Item | None, ...]:
        """See :meth:`threadkeep.storage.interface.Storage.get`."""
        for ref in refs:
            to_row_key(ref.namespace, ref.key)
        asked: dict[Partition, list[Ref]] = {}
        for ref in refs:
            asked.setdefault(ref.partition, []).append(ref)
        if len(asked) == 1:
            return tuple(await self._get(refs))
        if not asked:
            return await self.inner.get([])
        parts = await asyncio.gather(*map(self._get, asked.values()))
        items = {partition: iter(part) for partition, part in zip(asked, parts, strict=True)}
        return tuple(next(items[ref.partition]) for ref in refs)

    async def commit(self, batch: Batch) -> Position:
        """See :meth:`threadkeep.storage.interface.Storage.commit`."""
        operations = list(batch.operations)
        many = len(operations) > INLINE_ITEMS
        encoded = await call_in_thread_if(many, encode_batch, Batch(batch.partition, operations))

        async def work(keys: CachedKeys) -> Position:
            if batch.epoch is not None and batch.epoch != keys.epoch:
                await self._key_cache.require_current(keys)
                raise partition_erased()
            if keys.cipher is None:
                await self.keys.make(keys.pid, batch.partition)
                raise ReplacedError
            encrypted = await self._encrypt(keys.cipher, operations, encoded.changes)
            try:
                return await self.inner.commit(Batch(keys.cipher.stored_partition, encrypted, keys.epoch))
            except PartitionErasedError as error:
                raise ReplacedError from error
            except RevisionConflictError as error:
                raise _with_plaintext(error, operations, encrypted) from error

        return await self._key_cache.run(self._pid(batch.partition), work)

    async def position(self, partition: Partition) -> Position:
        """See :meth:`threadkeep.storage.interface.Storage.position`."""
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
        """See :meth:`threadkeep.storage.interface.Storage.scan`."""
        check_limit(limit, name="limit")
        check_namespace(prefix)
        check_filter(filter or {})
        token = None if after is None else parse_page_token(after)

        def wanted(item: Item) -> bool:
            return item.ref.namespace[: len(prefix)] == prefix and (not filter or meets(item.value, filter))

        async def work(keys: CachedKeys) -> Page:
            cipher = keys.cipher
            if cipher is None or limit == 0:
                await self._key_cache.require_current(keys)
                return Page((), None)
            rows = max(limit + _SPARE_ROWS, _FEWEST_FILTERED if filter else 0)
            seen = 0

            async def read(start: str | None) -> tuple[Sequence[Item], str | None]:
                nonlocal seen
                page = await self.inner.scan(
                    cipher.stored_partition,
                    prefix=cipher.prefix(prefix),
                    direction=direction,
                    after=start,
                    limit=min(rows, _MOST_ROWS),
                )
                seen += len(page.items)
                return [
                    item for item in await self._key_cache.decrypt(keys, page.items) if item is not None
                ], page.after

            place = None if token is None else decrypt_page_token(token, cipher)
            newest = direction == "newest"
            items, place = await read_page(read, place=place, newest=newest, limit=limit, wanted=wanted)
            if not seen:
                await self._key_cache.require_current(keys)
            return Page(tuple(items), None if place is None else encrypt_page_position(place, cipher))

        return await self._key_cache.run(self._pid(partition), work)

    async def changes(self, partition: Partition, since: Position | None) -> Changes:
        """See :meth:`threadkeep.storage.interface.Storage.changes`."""
        stored = stored_partition(self._pid(partition))
        changes = await self.inner.changes(stored, since)
        if not changes.puts and not changes.removed:
            return changes

        async def work(keys: CachedKeys) -> Changes:
            nonlocal changes
            if keys.epoch != changes.position.epoch:
                await self._key_cache.require_current(keys)
                changes = await self.inner.changes(stored, since)
            removed = [_decrypt_name(keys, *place) for place in changes.removed]
            if None in removed:  # a name that is too long to decrypt, or encrypted with a destroyed key
                changes = await self.inner.changes(stored, None)
                removed = []
            puts = tuple(item for item in await self._key_cache.decrypt(keys, changes.puts) if item is not None)
            return Changes(changes.position, changes.reset, puts, tuple(place for place in removed if place))

        return await self._key_cache.run(self._pid(partition), work)

    async def namespaces(
        self,
        *,
        match: Sequence[NamespaceMatch] = (),
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> tuple[Namespace, ...]:
        """See :meth:`threadkeep.storage.interface.Storage.namespaces`."""
        check_limit(limit, name="limit")
        check_limit(offset, name="offset")
        stored = await self.inner.namespaces(limit=_ALL)
        texts: set[str] = set()
        for start in range(0, len(stored), _CHUNK):
            chunk = stored[start : start + _CHUNK]
            await self._key_cache.load_ahead([name[0] for name in chunk])
            named = [await self._key_cache.namespace_of(name) for name in chunk]
            texts.update(encode_namespace(name) for name in named if name is not None)
        names = await call_in_thread_if(
            len(texts) > INLINE_ITEMS, lambda: distinct_namespaces(texts, match=match, max_depth=max_depth)
        )
        return names[offset : offset + limit]

    async def partitions(self, *, after: Partition | None = None, limit: int = 100) -> tuple[Partition, ...]:
        """See :meth:`threadkeep.storage.interface.Storage.partitions`."""
        check_limit(limit, name="limit")
        partitions: list[Partition] = []
        place = None if after is None else stored_partition(self._pid(after))
        while len(partitions) < limit:
            stored = await self.inner.partitions(after=place, limit=limit - len(partitions) + MARKER_ITEMS)
            if not stored:
                break
            place = stored[-1]
            partitions += await self._key_cache.partitions_of(
                [each.parts[0] for each in stored if each != MARKER.partition]
            )
        return tuple(partitions[:limit])

    async def due(self, kind: str, *, now: datetime, limit: int) -> tuple[Item, ...]:
        """See :meth:`threadkeep.storage.interface.Storage.due`."""
        check_limit(limit, name="limit")
        stored_kind = self._require_deployment().due_kind(kind)
        asked = limit
        while True:
            rows = await self.inner.due(stored_kind, now=now, limit=asked)
            await self._key_cache.load_ahead([row.ref.partition.parts[0] for row in rows])
            items = await self._key_cache.decrypt_across(rows)
            if len(items) >= limit or len(rows) < asked:
                return tuple(items[:limit])
            asked = min(asked * 2, _ALL)  # some do not decrypt: do not starve those after them

    async def erase(self, partition: Partition) -> int:
        """See :meth:`threadkeep.storage.interface.Storage.erase`.

        The key is destroyed first: from then on no copy of the items can be read.
        """
        pid = self._pid(partition)
        await self.keys.destroy(pid)
        self._key_cache.drop(pid)
        items = await self.inner.erase(stored_partition(pid))
        self._key_cache.drop(pid)
        return items

    async def sweep(self, *, now: datetime) -> int:
        """See :meth:`threadkeep.storage.interface.Storage.sweep`."""
        return await self.inner.sweep(now=now)

    async def scrub(self, *, rewrite: bool = False) -> None:
        """See :meth:`threadkeep.storage.interface.Storage.scrub`."""
        await self.inner.scrub(rewrite=rewrite)

    async def stats(self) -> Stats:
        """See :meth:`threadkeep.storage.interface.Storage.stats`."""
        stats = await self.inner.stats()
        return Stats(stats.partitions - MARKER_ITEMS, stats.items - MARKER_ITEMS, stats.size_bytes)

    async def rewrap(self) -> int:
        """Wrap keys of older master keys with the current one; return how many keys.

        Other calls may run at the same time. Repeat it after an interruption.
        """
        await rewrap_marker(self.inner, self.keys.masters)
        return await self.keys.rewrap()

    async def verify(self, *, remove: bool = False) -> VerificationReport:
        """Decrypt every item: see :func:`verify`."""
        return await verify(self.inner, self.keys, remove=remove)

    async def _is_empty(self) -> bool:
        return (await self.inner.stats()).items <= MARKER_ITEMS

    async def _get(self, refs: Sequence[Ref]) -> list[Item | None]:
        """Return the items at *refs*, all of one partition."""

        async def work(keys: CachedKeys) -> list[Item | None]:
            cipher = keys.cipher
            if cipher is None:
                await self._key_cache.require_current(keys)
                return [None] * len(refs)
            stored = [
                Ref(cipher.stored_partition, cipher.namespace(ref.namespace), cipher.key(ref.key)) for ref in refs
            ]
            rows = await self.inner.get(stored)
            there = [row for row in rows if row is not None]
            if not there:
                await self._key_cache.require_current(keys)
            opened = iter(await self._key_cache.decrypt(keys, there))
            return [None if row is None else next(opened) for row in rows]

        return await self._key_cache.run(self._pid(refs[0].partition), work)

    async def _encrypt(
        self, cipher: PartitionCipher, operations: Sequence[Operation], changes: Sequence[RowChange]
    ) -> list[Operation]:
        due_kind, now = self._require_deployment().due_kind, self._clock.now()

        def work() -> list[Operation]:
            return [
                cipher.encrypt_operation(change, operation, now=now, due_kind=due_kind)
                for change, operation in zip(changes, operations, strict=True)
            ]

        contents = [change.content for change in changes if change.content is not None]
        size = sum(len(content.value) + len(content.data or b"") for content in contents)
        return await call_in_thread_if(len(operations) > INLINE_ITEMS or size > INLINE_BYTES, work)

    def _require_deployment(self) -> Deployment:
        if self._deployment is None:
            msg = "The storage is not connected: call connect() first."
            raise ClosedError(msg)
        return self._deployment

    def _pid(self, partition: Partition) -> str:
        return self._require_deployment().pid(partition)


def _decrypt_name(keys: CachedKeys, namespace: Namespace, key: str) -> tuple[Namespace, str] | None:
    """Return the plaintext of a stored namespace and key, if it can be decrypted from them."""
    plain_namespace = keys.cipher.namespace_of(namespace) if keys.cipher else None
    plain_key = keys.cipher.key_of(key) if keys.cipher else None
    return None if plain_namespace is None or plain_key is None else (plain_namespace, plain_key)


def _with_plaintext(
    error: RevisionConflictError, operations: Sequence[Operation], encrypted: Sequence[Operation]
) -> RevisionConflictError:
    """Return *error* with the plaintext namespace and key of the item."""
    details = dict(error.details)
    for asked, stored in zip(operations, encrypted, strict=True):
        if (stored.namespace, stored.key) == (details.get("namespace"), details.get("key")):
            details.update(namespace=asked.namespace, key=asked.key)
    return RevisionConflictError(str(error), **details)


class PagePosition(NamedTuple):
    """Where a page ended.

    Attributes:
        start: The backend's ``after`` with which the last item's group began; ``None``: from the beginning.
        order: The position of the page's last item.
    """

    start: str | None
    order: Cursor


class PageToken(NamedTuple):
    """A page position as callers see it: the names are encrypted."""

    start: str | None
    updated_at: int
    revision: int
    note: str


def parse_page_token(after: str) -> PageToken:
    """Parse the result of :func:`encrypt_page_position`, without decrypting the names.

    Raises:
        InvalidInputError: No scan returned it.
    """
    try:
        fields: object = json.loads(after)
    except (TypeError, ValueError, RecursionError):
        fields = None
    match fields:
        case [str() | None as start, int() as updated_at, int() as revision, str() as note]:
            return PageToken(start, updated_at, revision, note)
        case _:
            msg = "The cursor of the page is invalid: pass the one that the previous page returned, unchanged."
            raise InvalidInputError(msg)


def decrypt_page_token(token: PageToken, cipher: PartitionCipher) -> PagePosition:
    """Return the page position of *token*.

    Raises:
        PartitionErasedError: It is of another partition, or older than the partition's last erasure.
    """
    text = cipher.decrypt_text(token.note)
    if text is None:
        msg = "The partition was erased during the scan: start the scan again."
        raise PartitionErasedError(msg)
    namespace, key = json.loads(text)
    return PagePosition(token.start, Cursor(token.updated_at, token.revision, namespace, key))


def encrypt_page_position(place: PagePosition, cipher: PartitionCipher) -> str:
    """Return *place* as text that a caller passes back."""
    start, order = place
    note = cipher.encrypt_text(json.dumps([order.namespace, order.key]))
    return json.dumps([start, order.updated_at, order.revision, note])


async def read_page(
    read: PageReader, *, place: PagePosition | None, newest: bool, limit: int, wanted: Callable[[Item], bool]
) -> tuple[list[Item], PagePosition | None]:
    """Return up to *limit* items after *place*, in order, and the position of the next page.

    Items of one commit and time are a group: both sides agree on times and revisions, but the backend orders a group by
    encrypted names. So a group is read whole and sorted here.

    Args:
        read: Returns a decrypted part of the backend's scan, and its ``after``.
        place: The position of the previous page's end.
        newest: Whether the newest come first.
        limit: One or more.
        wanted: Returns whether an item matches.
    """
    entries: list[tuple[Cursor, Item, str | None]] = []
    group: list[tuple[Cursor, Item, str | None]] = []
    time: tuple[int, int] | None = None
    cursor = group_start = place.start if place else None

    def sort_group() -> None:
        group.sort(key=lambda entry: entry[0], reverse=newest)
        del group[limit + 1 :]

    more = True
    while more and len(entries) <= limit:
        items, following = await read(cursor)
        for item in items:
            order = scan_position(item)
            if order[:2] != time:
                sort_group()
                entries += group
                group.clear()
                if len(entries) > limit:
                    break
                time, group_start = order[:2], cursor
            behind = place is None or (order < place.order if newest else order > place.order)
            if behind and wanted(item):
                group.append((order, item, group_start))
                if len(group) > _GROUP_FACTOR * (limit + 1):
                    sort_group()
        cursor, more = following, following is not None
    sort_group()
    entries += group
    page = [item for _, item, _ in entries[:limit]]
    if len(entries) <= limit:
        return page, None
    order, _, start = entries[limit - 1]
    return page, PagePosition(start, order)
