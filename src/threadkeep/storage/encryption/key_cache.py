"""A cache of partitions' keys: loaded at first use, and again after the partition was erased."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from cachetools import LRUCache

from threadkeep.errors import DamagedItemError, PartitionErasedError, SealError
from threadkeep.storage.base import call_in_thread_if
from threadkeep.storage.encryption.cipher import (
    PartitionCipher,
    UnknownKeyError,
    damaged_item,
    encrypted_with,
    stored_partition,
)

if TYPE_CHECKING:
    from threadkeep.storage.encryption.key_store import KeyStore
    from threadkeep.storage.interface import Item, Namespace, Partition, Storage

T = TypeVar("T")

log: Final = logging.getLogger("threadkeep")

INLINE_ITEMS: Final = 64
INLINE_BYTES: Final = 256 * 1024
"""Larger work runs in a thread (64 items take about half a millisecond)."""

_CACHED_PARTITIONS: Final = 4096
"""How many partitions' keys are cached."""

_TRIES: Final = 8


class ReplacedError(Exception):
    """The partition was erased since its key was read. Internal to this package."""


@dataclass(frozen=True, slots=True)
class CachedKeys:
    """The keys of a partition in *epoch*; *cipher* is ``None`` if it has no key."""

    pid: str
    cipher: PartitionCipher | None
    former: frozenset[bytes]
    epoch: str

    def decrypt(self, rows: Sequence[Item]) -> list[Item | None]:
        """See :meth:`PartitionCipher.decrypt`; without a key, *rows* must be of destroyed keys."""
        if self.cipher is not None:
            return self.cipher.decrypt(rows)
        if any(encrypted_with(row) not in self.former for row in rows):
            raise UnknownKeyError
        return [None] * len(rows)


class KeyCache:
    """Caches the keys of partitions.

    A partition's key changes with its epoch, when it is erased. A row that was found under a key is encrypted with that
    key, so only a read that finds nothing must check that its key is still the current one.

    Args:
        inner: The storage of the encrypted items.
        keys: The storage of the keys.
    """

    def __init__(self, inner: Storage, keys: KeyStore) -> None:
        self._inner = inner
        self._keys = keys
        self._cached: LRUCache[str, CachedKeys] = LRUCache(_CACHED_PARTITIONS)
        self._reported: set[str] = set()

    def drop(self, pid: str | None = None) -> None:
        """Drop the keys of the partition *pid*, or all."""
        if pid is None:
            self._cached.clear()
        else:
            self._cached.pop(pid, None)

    async def run(self, pid: str, work: Callable[[CachedKeys], Awaitable[T]]) -> T:
        """Run *work* with the keys of the partition *pid*; repeat it if they were replaced.

        Work that finds nothing calls :meth:`require_current`.
        """
        for _ in range(_TRIES):
            keys = self._cached.get(pid)
            if keys is None:
                keys = await self._load(pid)
            try:
                return await work(keys)
            except ReplacedError:
                self._cached.pop(pid, None)
        msg = "The partition is erased repeatedly: try again later."
        raise PartitionErasedError(msg)

    async def namespace_of(self, stored: Namespace) -> Namespace | None:
        """Return the plaintext of a stored namespace of any partition; log it if it does not decrypt."""
        keys = self._cached.get(stored[0])
        name = keys.cipher.namespace_of(stored) if keys is not None and keys.cipher is not None else None
        if name is None:
            page = await self._inner.scan(stored_partition(stored[0]), prefix=stored, limit=1)
            opened = await self.decrypt_across(page.items)
            name = opened[0].ref.namespace if opened else None
        return name

    async def partitions_of(self, pids: Sequence[str]) -> list[Partition]:
        """Return the partitions with these *pids*; log those that do not decrypt."""
        await self.load_ahead(pids)
        found: list[Partition] = []
        for pid in pids:
            try:
                keys = self._cached.get(pid) or await self._load(pid)
            except (SealError, DamagedItemError) as error:
                self._report(pid, error)
                continue
            if keys.cipher is not None:
                found.append(keys.cipher.partition)
        return found

    async def require_current(self, keys: CachedKeys) -> None:
        """Check that *keys* are of the partition's current epoch.

        Raises:
            ReplacedError: They are not.
        """
        if keys.cipher is None:
            return  # it is never cached, so it was read just now
        position = await self._inner.position(keys.cipher.stored_partition)
        if position.epoch != keys.epoch:
            raise ReplacedError

    async def _load(self, pid: str) -> CachedKeys:
        """Read the keys of the partition *pid*.

        Raises:
            SealError: It has items and no key; or a master key is missing.
        """
        # The position first: a writer makes a key before it writes, and a later erasure changes the epoch.
        position = await self._inner.position(stored_partition(pid))
        (keys,) = await self._keys.load([pid])
        if keys.cipher is None and position.sequence and not keys.destroyed:
            msg = f"The key of this partition is missing from {self._keys.location}: restore the keys from a backup."
            raise SealError(msg, partition=pid)
        return self._add(CachedKeys(pid, keys.cipher, keys.former, position.epoch))

    async def load_ahead(self, pids: Sequence[str]) -> None:
        """Load the keys of many partitions at once; :meth:`_load` reports those that fail."""
        missing = [pid for pid in dict.fromkeys(pids) if pid not in self._cached]
        if len(missing) <= 1:
            return
        positions = await asyncio.gather(*(self._inner.position(stored_partition(pid)) for pid in missing))
        with suppress(SealError, DamagedItemError):
            loaded = await self._keys.load(missing)
            for pid, keys, position in zip(missing, loaded, positions, strict=True):
                self._add(CachedKeys(pid, keys.cipher, keys.former, position.epoch))

    def _add(self, keys: CachedKeys) -> CachedKeys:
        if keys.cipher is not None:
            self._cached[keys.pid] = keys
        return keys

    async def decrypt(self, keys: CachedKeys, rows: Sequence[Item]) -> list[Item | None]:
        """Return the items of *rows*; ``None`` for one of a destroyed key.

        Raises:
            ReplacedError: The partition has another key now.
            DamagedItemError: One does not decrypt.
        """
        try:
            return await call_in_thread_if(_is_large(rows), keys.decrypt, rows)
        except UnknownKeyError:
            fresh = await self._load(keys.pid)
            known = {*fresh.former, fresh.cipher.key_id if fresh.cipher is not None else b""}
            unknown = [row for row in rows if encrypted_with(row) not in known]
            if not unknown:
                raise ReplacedError from None
        raise damaged_item(unknown[0].ref)

    async def decrypt_across(self, rows: Sequence[Item]) -> list[Item]:
        """Return the items of *rows*, of any partitions, in their order; log those that do not decrypt."""
        found: list[Item] = []
        for row in rows:
            pid = row.ref.partition.parts[0]
            try:
                for _ in range(_TRIES):
                    keys = self._cached.get(pid) or await self._load(pid)
                    try:
                        found += [item for item in await self.decrypt(keys, [row]) if item is not None]
                        break
                    except ReplacedError:
                        self._cached.pop(pid, None)
            except (SealError, DamagedItemError) as error:
                self._report(pid, error)
        return found

    def _report(self, pid: str, error: Exception) -> None:
        """Log once that an item of the partition *pid* was left out."""
        if pid not in self._reported and len(self._reported) < _CACHED_PARTITIONS:
            self._reported.add(pid)
            log.error("An encrypted item was left out (partition %s): %s", pid, error)


def _is_large(rows: Sequence[Item]) -> bool:
    return len(rows) > INLINE_ITEMS or _size(rows) > INLINE_BYTES


def _size(rows: Sequence[Item]) -> int:
    return sum(len(row.embedding.data) + len(row.data or b"") for row in rows if row.embedding is not None)
