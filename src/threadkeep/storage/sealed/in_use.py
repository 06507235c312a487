"""Keys in use: read when a partition is first touched, kept, and read anew where the partition was erased."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from threadkeep.errors import DamagedItemError, PartitionErasedError, SealError
from threadkeep.storage.sealed.seal import PartitionSeal, UnknownKeyError, damaged, sealed_with, stored_partition

if TYPE_CHECKING:
    from threadkeep.storage.port import Item, Namespace, Partition, Storage
    from threadkeep.storage.sealed.keystore import KeyStore

P = ParamSpec("P")
T = TypeVar("T")

log: Final = logging.getLogger("threadkeep")

INLINE_ITEMS: Final = 64
INLINE_BYTES: Final = 256 * 1024
"""More than these are sealed and opened off the loop (64 items take about half a millisecond)."""

_KEPT: Final = 4096
"""The keys of so many partitions are kept in RAM."""

_TRIES: Final = 8


class ReplacedError(Exception):
    """The partition was erased since its key was read. Inside this package only."""


@dataclass(frozen=True, slots=True)
class Held:
    """The keys of a partition as they were in *epoch*; *seal* is ``None`` where it has none."""

    pid: str
    seal: PartitionSeal | None
    former: frozenset[bytes]
    epoch: str

    def opened(self, rows: Sequence[Item]) -> list[Item | None]:
        """Do what :meth:`PartitionSeal.opened` does; without a key, for rows of keys that were destroyed."""
        if self.seal is not None:
            return self.seal.opened(rows)
        if any(sealed_with(row) not in self.former for row in rows):
            raise UnknownKeyError
        return [None] * len(rows)


class KeysInUse:
    """Gives the keys of a partition to whoever reads or writes it.

    A partition's key changes with its epoch: by being erased. What is found is under the key that it was
    looked for with, so only who finds nothing has to ask whether that key is still the present one.

    Args:
        inner: Where the sealed items are.
        keys: Where the keys are.
    """

    def __init__(self, inner: Storage, keys: KeyStore) -> None:
        self._inner = inner
        self._keys = keys
        self._held: OrderedDict[str, Held] = OrderedDict()
        self._reported: set[str] = set()

    def forget(self, pid: str | None = None) -> None:
        """Forget the keys of the partition *pid*, or all."""
        if pid is None:
            self._held.clear()
        else:
            self._held.pop(pid, None)

    async def do(self, pid: str, work: Callable[[Held], Awaitable[T]]) -> T:
        """Do *work* with the keys of the partition *pid*, again where they were replaced meanwhile.

        Work that finds nothing asks :meth:`require_present`.
        """
        for _ in range(_TRIES):
            held = self._held.get(pid)
            if held is None:
                held = await self._load(pid)
            else:
                self._held.move_to_end(pid)
            try:
                return await work(held)
            except ReplacedError:
                self._held.pop(pid, None)
        msg = "The partition is being erased again and again; try again when that is over."
        raise PartitionErasedError(msg)

    async def namespace_of(self, stored: Namespace) -> Namespace | None:
        """Return the namespace that is stored as *stored*, of any partition; what does not open is logged."""
        held = self._held.get(stored[0])
        name = held.seal.namespace_of(stored) if held is not None and held.seal is not None else None
        if name is None:
            page = await self._inner.scan(stored_partition(stored[0]), prefix=stored, limit=1)
            opened = await self.opened_across(page.items)
            name = opened[0].ref.namespace if opened else None
        return name

    async def partitions_of(self, pids: Sequence[str]) -> list[Partition]:
        """Return the partitions that are stored as *pids*, as they are spelled; what cannot be told is logged."""
        await self.load_ahead(pids)
        found: list[Partition] = []
        for pid in pids:
            try:
                held = self._held.get(pid) or await self._load(pid)
            except (SealError, DamagedItemError) as error:
                self._report(pid, error)
                continue
            if held.seal is not None:
                found.append(held.seal.partition)
        return found

    async def require_present(self, held: Held) -> None:
        """Do nothing if *held* is still of the partition's present epoch.

        Raises:
            ReplacedError: It is not.
        """
        if held.seal is None:
            return  # it is never kept, so it was read just now
        position = await self._inner.position(held.seal.stored_partition)
        if position.epoch != held.epoch:
            raise ReplacedError

    async def _load(self, pid: str) -> Held:
        """Read the keys of the partition *pid*.

        Raises:
            SealError: It was written to, and has none; or a master key is missing.
        """
        # In this order: who has written to it has made a key before, and where it is erased next, its epoch tells.
        position = await self._inner.position(stored_partition(pid))
        (keys,) = await self._keys.load([pid])
        if keys.seal is None and position.sequence and not keys.destroyed:
            msg = f"The key of this owner's items is missing from {self._keys.location}; restore the keys' backup."
            raise SealError(msg, partition=pid)
        return self._hold(Held(pid, keys.seal, keys.former, position.epoch))

    async def load_ahead(self, pids: Sequence[str]) -> None:
        """Read the keys of many partitions at once; those that cannot be read are left to :meth:`_load`."""
        missing = [pid for pid in dict.fromkeys(pids) if pid not in self._held]
        if len(missing) <= 1:
            return
        positions = await asyncio.gather(*(self._inner.position(stored_partition(pid)) for pid in missing))
        with suppress(SealError, DamagedItemError):
            loaded = await self._keys.load(missing)
            for pid, keys, position in zip(missing, loaded, positions, strict=True):
                self._hold(Held(pid, keys.seal, keys.former, position.epoch))

    def _hold(self, held: Held) -> Held:
        if held.seal is not None:
            self._held[held.pid] = held
            while len(self._held) > _KEPT:
                self._held.popitem(last=False)
        return held

    async def opened(self, held: Held, rows: Sequence[Item]) -> list[Item | None]:
        """Return the items of *rows*; ``None`` for what is left of an erased time.

        Raises:
            ReplacedError: The partition's key is another one by now.
            DamagedItemError: One does not open.
        """
        try:
            return await off_loop_if(_is_much(rows), held.opened, rows)
        except UnknownKeyError:
            fresh = await self._load(held.pid)
            known = {*fresh.former, fresh.seal.key_id if fresh.seal is not None else b""}
            strange = [row for row in rows if sealed_with(row) not in known]
            if not strange:
                raise ReplacedError from None
        raise damaged(strange[0].ref)

    async def opened_across(self, rows: Sequence[Item]) -> list[Item]:
        """Return those of *rows*, of any partitions, that open, in their order; what does not is logged."""
        found: list[Item] = []
        for row in rows:
            pid = row.ref.partition.parts[0]
            try:
                for _ in range(_TRIES):
                    held = self._held.get(pid) or await self._load(pid)
                    try:
                        found += [item for item in await self.opened(held, [row]) if item is not None]
                        break
                    except ReplacedError:
                        self._held.pop(pid, None)
            except (SealError, DamagedItemError) as error:
                self._report(pid, error)
        return found

    def _report(self, pid: str, error: Exception) -> None:
        """Log once that something of the partition *pid* was left out."""
        if pid not in self._reported and len(self._reported) < _KEPT:
            self._reported.add(pid)
            log.error("Something sealed was left out (partition %s): %s", pid, error)


def _is_much(rows: Sequence[Item]) -> bool:
    return len(rows) > INLINE_ITEMS or _size(rows) > INLINE_BYTES


def _size(rows: Sequence[Item]) -> int:
    return sum(len(row.embedding.data) for row in rows if row.embedding is not None)


async def off_loop_if(much: bool, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:  # noqa: FBT001 - the condition in its name
    """Call *work*, in a thread where it is *much*."""
    return await asyncio.to_thread(work, *args, **kwargs) if much else work(*args, **kwargs)
