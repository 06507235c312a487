"""Data keys, one for each partition, wrapped by a master key and kept in a storage of their own.

=====================  =============================================================================
partition              holds
=====================  =============================================================================
``.keys``, pid         one item: the data key and the partition's spelling, wrapped
``.destroyed``, pid    one item, once a key of the partition was destroyed: the ids of those keys
``.sealed``            the marker: which storage these keys are of
=====================  =============================================================================

A key is found by who wrapped it (``due``), so that it can be wrapped anew without a list of all.
"""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from threadkeep.errors import ConflictError, DamagedItemError, RevisionConflictError, SealError
from threadkeep.storage.port import Batch, Due, Partition, Put, Ref
from threadkeep.storage.sealed.marker import FORMAT, MARKER
from threadkeep.storage.sealed.master import KEY_BYTES, MasterKeys, Wrapped
from threadkeep.storage.sealed.seal import PartitionSeal, key_id_of

if TYPE_CHECKING:
    from threadkeep.clock import Clock
    from threadkeep.storage.port import Item, Storage

_KEYS: Final = ".keys"
_DESTROYED: Final = ".destroyed"
_KEY: Final = "key"
_ALWAYS: Final = datetime(1970, 1, 1, tzinfo=UTC)
_STEP: Final = 64
_PAGE: Final = 500

MOST_COUNTED: Final = 100_000
"""No more keys than these are counted."""


@dataclass(frozen=True, slots=True)
class KeyCounts:
    """How many keys there are.

    Attributes:
        wrapped: By the id of the master key that wraps them; those of the keys that are set only.
        destroyed: Partitions that had a key which was destroyed.
    """

    wrapped: dict[str, int]
    destroyed: int


@dataclass(frozen=True, slots=True)
class Keys:
    """What is known of the keys of one partition.

    Attributes:
        seal: What seals and opens; ``None``: there is no key.
        former: Ids of the keys that were destroyed.
        destroyed: Whether the partition was erased, with a key or without.
    """

    seal: PartitionSeal | None
    former: frozenset[bytes]
    destroyed: bool


class KeyStore:
    """Keeps the data keys.

    Args:
        storage: Where; nothing else is in it.
        masters: What they are wrapped with.
        clock: What the time is.
    """

    def __init__(self, storage: Storage, masters: MasterKeys, clock: Clock) -> None:
        self.storage: Storage = storage
        self.masters: MasterKeys = masters
        self._clock = clock

    @property
    def location(self) -> str:
        """Where the keys are, for people."""
        return f"{self.storage.name} {self.storage.location}"

    async def claim(self, storage_id: str, *, is_empty: Callable[[], Awaitable[bool]]) -> None:
        """Note that these keys are of the storage *storage_id*.

        Args:
            storage_id: What its marker says.
            is_empty: Tells whether it holds no item yet, so that it is no wonder if there are no keys.

        Raises:
            SealError: They are another storage's, or they are gone.
        """
        (marker,) = await self.storage.get([MARKER])
        if marker is None:
            empty = await is_empty()
            (marker,) = await self.storage.get([MARKER])  # another process may have been here, and written
            if marker is None and not empty:
                msg = f"The keys of this storage are not in {self.location}; set THREADKEEP_KEYS to where they are."
                raise SealError(msg)
        if marker is None:
            put = Put(MARKER.namespace, MARKER.key, {"format": FORMAT, "storage": storage_id}, expect="absent")
            with suppress(RevisionConflictError):
                await self.storage.commit(Batch(MARKER.partition, [put]))
            (marker,) = await self.storage.get([MARKER])
        if marker is not None and marker.value.get("storage") != storage_id:
            msg = f"The keys in {self.location} are of another storage; set THREADKEEP_KEYS to where this one's are."
            raise SealError(msg)

    async def load(self, pids: Sequence[str]) -> list[Keys]:
        """Return the keys of the partitions that are stored as *pids*, in their order.

        Raises:
            SealError: One is wrapped by a master key that is not set.
            DamagedItemError: One was changed.
        """
        refs = [ref for pid in pids for ref in (_key_ref(pid), _destroyed_ref(pid))]
        found = await self.storage.get(refs)
        return [self._keys(pid, *found[2 * i : 2 * i + 2]) for i, pid in enumerate(pids)]

    async def make(self, pid: str, partition: Partition) -> None:
        """Make a key for *partition*, which is stored as *pid*, unless it has one by now."""
        key, note = await self.storage.get([_key_ref(pid), _destroyed_ref(pid)])
        if key is not None and _id_of(key) not in _ids(note):
            return
        # A key that was destroyed and is still there, because somebody was stopped in the middle, is overwritten.
        put = self._put(pid, os.urandom(KEY_BYTES) + _spell(partition), expect=key.revision if key else "absent")
        with suppress(RevisionConflictError):
            await self.storage.commit(Batch(_key_ref(pid).partition, [put]))

    async def destroy(self, pid: str) -> None:
        """Destroy the key of the partition that is stored as *pid*, where it has one.

        That it was destroyed is noted first: from then on it is not used, whatever happens.
        """
        noted = False
        while not noted:
            key, note = await self.storage.get([_key_ref(pid), _destroyed_ref(pid)])
            ids = {*_ids(note), *([_id_of(key)] if key else [])}
            value = {"ids": sorted(key_id.hex() for key_id in ids), "at": self._clock.now().isoformat()}
            ref = _destroyed_ref(pid)
            expect = "absent" if note is None else note.revision
            put = Put(ref.namespace, ref.key, value, due=Due(_DESTROYED, _ALWAYS), expect=expect)
            try:
                await self.storage.commit(Batch(ref.partition, [put]))
                noted = True
            except RevisionConflictError:
                continue
        await self.storage.erase(_key_ref(pid).partition)

    async def rewrap(self) -> int:
        """Wrap what older master keys wrap with the current one; return how many keys that were.

        May run beside anything else, be interrupted, and be repeated.
        """
        done = 0
        damaged: dict[Ref, DamagedItemError] = {}
        for master_id in self.masters.ids[1:]:
            while True:
                items = await self._wrapped_by(master_id, limit=_PAGE + len(damaged))
                items = [item for item in items if item.ref not in damaged]
                for item in items:
                    try:
                        done += await self._rewrap(item)
                    except DamagedItemError as error:  # the others shall not wait for this one
                        damaged[item.ref] = error
                if not items:
                    break
        for error in damaged.values():
            raise error
        return done

    async def pids(self) -> list[str]:
        """Return every partition that has a key, as it is stored."""
        found: list[str] = []
        for master_id in self.masters.ids:
            found += [item.ref.partition.parts[-1] for item in await self._wrapped_by(master_id, limit=MOST_COUNTED)]
        return found

    async def counts(self) -> KeyCounts:
        """Return how many keys there are."""
        wrapped = {each: len(await self._wrapped_by(each, limit=MOST_COUNTED)) for each in self.masters.ids}
        now = self._clock.now()
        return KeyCounts(wrapped, len(await self.storage.due(_DESTROYED, now=now, limit=MOST_COUNTED)))

    async def _rewrap(self, item: Item) -> bool:
        pid = item.ref.partition.parts[-1]
        plain = self.masters.unwrap(_wrapped(item), bound_to=pid)
        try:
            await self.storage.commit(Batch(item.ref.partition, [self._put(pid, plain, expect=item.revision)]))
        except ConflictError:  # destroyed meanwhile, or wrapped anew by somebody else
            return False
        return True

    async def _wrapped_by(self, master_id: str, *, limit: int) -> Sequence[Item]:
        return await self.storage.due(_due_kind(master_id), now=self._clock.now(), limit=limit)

    def _keys(self, pid: str, key: Item | None, note: Item | None) -> Keys:
        former = frozenset(_ids(note))
        destroyed = note is not None
        if key is None:
            return Keys(None, former, destroyed)
        plain = self.masters.unwrap(_wrapped(key), bound_to=pid)
        data_key, partition = plain[:KEY_BYTES], _partition(plain[KEY_BYTES:])
        if key_id_of(data_key) in former:  # whoever destroyed it was stopped in the middle
            return Keys(None, former, destroyed)
        return Keys(PartitionSeal(data_key, partition=partition, pid=pid, former=former), former, destroyed)

    def _put(self, pid: str, plain: bytes, *, expect: Any) -> Put:
        wrapped = self.masters.wrap(plain, bound_to=pid)
        ref = _key_ref(pid)
        value = {**wrapped._asdict(), "id": key_id_of(plain[:KEY_BYTES]).hex()}
        return Put(ref.namespace, ref.key, value, due=Due(_due_kind(wrapped.master_id), _ALWAYS), expect=expect)


def _key_ref(pid: str) -> Ref:
    return Ref(Partition("root", (_KEYS, pid)), (_KEYS,), _KEY)


def _destroyed_ref(pid: str) -> Ref:
    return Ref(Partition("root", (_DESTROYED, pid)), (_DESTROYED,), _KEY)


def _due_kind(master_id: str) -> str:
    return f"{_KEYS}:{master_id}"


def _wrapped(item: Item) -> Wrapped:
    try:
        return Wrapped(str(item.value["master_id"]), str(item.value["data"]))
    except KeyError as error:
        msg = "A wrapped key is damaged, or was changed outside Threadkeep; restore the keys from their backup."
        raise DamagedItemError(msg) from error


def _id_of(key: Item) -> bytes:
    try:
        return bytes.fromhex(key.value["id"])
    except (KeyError, TypeError, ValueError) as error:
        msg = "A wrapped key is damaged, or was changed outside Threadkeep; restore the keys from their backup."
        raise DamagedItemError(msg) from error


def _ids(note: Item | None) -> list[bytes]:
    """Return the ids of the keys that *note* says were destroyed."""
    try:
        return [] if note is None else [bytes.fromhex(text) for text in note.value["ids"]]
    except (KeyError, TypeError, ValueError) as error:
        msg = "The note of a destroyed key is damaged, or was changed outside Threadkeep; restore the keys' backup."
        raise DamagedItemError(msg) from error


def _spell(partition: Partition) -> bytes:
    text = json.dumps([partition.kind, *partition.parts]).encode("ascii")
    return text.ljust(-(-len(text) // _STEP) * _STEP)


def _partition(text: bytes) -> Partition:
    kind, *parts = json.loads(text)
    return Partition(kind, tuple(parts))
