"""The keys of an encrypted storage: master keys, the deployment's key, and data keys in a storage of their own.

Master keys are settings: they are never stored, and wrap the keys that are. The deployment's key names partitions
and kinds of work; it is wrapped in the storage's marker. Each partition has a data key, wrapped and stored so:

=====================  =============================================================================
partition              content
=====================  =============================================================================
``.keys``, pid         one item: the data key and the partition's name, wrapped
``.destroyed``, pid    one item, after a key of the partition was destroyed: the ids of those keys
``.sealed``            the marker: the id of the storage that these keys belong to
=====================  =============================================================================

``due`` finds a data key by the master key that wraps it, so that it can be wrapped again without a list of all.

Every encrypted item can be checked: it decrypts, or it is named.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from cachetools import LRUCache
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from threadkeep.errors import ConflictError, DamagedItemError, RevisionConflictError, SealError, SettingsError
from threadkeep.ids import base64url, new_id
from threadkeep.storage.encryption import FORMAT, MARKER
from threadkeep.storage.encryption.cipher import (
    KEY_BYTES,
    NONCE_BYTES,
    PartitionCipher,
    UnknownKeyError,
    derive_key,
    encrypted_with,
    key_id_of,
)
from threadkeep.storage.interface import (
    Batch,
    Delete,
    Due,
    Expectation,
    Item,
    Partition,
    Put,
    Ref,
    Storage,
    iterate_pages,
    iterate_partitions,
)

if TYPE_CHECKING:
    from threadkeep.clock import Clock


_ID_CHARACTERS: Final = 12
_PID_BYTES: Final = 16
_CACHED_PIDS: Final = 4096

_KEYS: Final = ".keys"
_DESTROYED: Final = ".destroyed"
_KEY: Final = "key"
_ALWAYS: Final = datetime(1970, 1, 1, tzinfo=UTC)
_STEP: Final = 64
_PAGE: Final = 500

MOST_COUNTED: Final = 100_000
"""The largest number of keys that is counted."""

MARKER_ITEMS: Final = 1
"""How many items, each in a partition of its own, belong to the wrapper."""


class WrappedKey(NamedTuple):
    """A wrapped key, and the id of the master key that wraps it."""

    master_id: str
    data: str


class MasterKeys:
    """The master keys of *text*: the first one wraps, and all of them unwrap, so that a key can be replaced.

    A key has an id that reveals nothing of it; a wrapped key names the id of its master key.

    Args:
        text: One or more keys of 32 bytes in base64, separated by blanks, commas or newlines; lines that
            begin with ``#`` are ignored.
        variable: The setting that it is from, for messages.

    Raises:
        SettingsError: It is invalid. The message does not quote it.
    """

    def __init__(self, text: str, *, variable: str) -> None:
        lines = (line for line in text.splitlines() if not line.lstrip().startswith("#"))
        keys = [_decoded(word, variable) for word in " ".join(lines).replace(",", " ").split()]
        if not keys:
            msg = f"{variable} has no key: create one with threadkeep keys new"
            raise SettingsError(msg, variable=variable)
        self._ciphers = {key_id(key): AESGCM(derive_key(key, b"wrap")) for key in reversed(keys)}
        self._variable = variable
        self.current: str = key_id(keys[0])

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of all keys, the one that wraps first."""
        return tuple(reversed(self._ciphers))

    def wrap(self, plain: bytes, *, bound_to: str) -> WrappedKey:
        """Return *plain* wrapped by the current key; unwrapping needs the same *bound_to*."""
        nonce = os.urandom(NONCE_BYTES)
        sealed = self._ciphers[self.current].encrypt(nonce, plain, bound_to.encode("ascii"))
        return WrappedKey(self.current, base64.b64encode(nonce + sealed).decode("ascii"))

    def unwrap(self, wrapped: WrappedKey, *, bound_to: str) -> bytes:
        """Undo :meth:`wrap`.

        Raises:
            SealError: It was wrapped by a key that is not among these.
            DamagedItemError: It was changed, or bound to something else.
        """
        cipher = self._ciphers.get(wrapped.master_id)
        if cipher is None:
            msg = (
                f"The master key {wrapped.master_id[:_ID_CHARACTERS]} is missing from "
                f"{self._variable} ({', '.join(self.ids)}): add it after the current one."
            )
            raise SealError(msg, master_id=wrapped.master_id)
        try:
            data = base64.b64decode(wrapped.data, validate=True)
            return cipher.decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], bound_to.encode("ascii"))
        except (InvalidTag, ValueError) as error:
            msg = "A wrapped key is damaged, or was changed outside Threadkeep: restore the keys from a backup."
            raise DamagedItemError(msg) from error


def key_id(key: bytes) -> str:
    """Return a short id of *key* that reveals nothing of it."""
    return hmac.digest(key, b"threadkeep: id of a key", "sha256").hex()[:_ID_CHARACTERS]


def _decoded(word: str, variable: str) -> bytes:
    try:
        key = base64.b64decode(word.replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        msg = f"{variable} has an invalid key, not {KEY_BYTES} bytes in base64: create one with threadkeep keys new"
        raise SettingsError(msg, variable=variable)
    return key


class Deployment:
    """Returns the stored names of partitions and kinds of work.

    Args:
        key: 32 random bytes.
        storage_id: The id of the storage.
    """

    def __init__(self, key: bytes, *, storage_id: str) -> None:
        self.storage_id: str = storage_id
        self._partitions = derive_key(key, b"partitions")
        self._kinds = derive_key(key, b"kinds of work")
        self._pids: LRUCache[Partition, str] = LRUCache(_CACHED_PIDS)

    def pid(self, partition: Partition) -> str:
        """Return the stored id of *partition*."""
        pid = self._pids.get(partition)
        if pid is None:
            pid = self._pids[partition] = _to_name(self._partitions, partition.digest)
        return pid

    def due_kind(self, kind: str) -> str:
        """Return the stored form of a *kind* of work."""
        return _to_name(self._kinds, kind.encode("utf-16-le", "surrogatepass"))


async def open_deployment(storage: Storage, masters: MasterKeys) -> Deployment:
    """Return the deployment of the connected *storage*; an empty storage becomes encrypted.

    Raises:
        SealError: It is not encrypted, or with another master key.
        DamagedItemError: Its marker was changed.
    """
    (marker,) = await storage.get([MARKER])
    if marker is None:
        items = (await storage.stats()).items
        (marker,) = await storage.get([MARKER])  # the count may include the marker of another process
        if marker is None and items:
            msg = (
                f"The items in {storage.location} are not encrypted, and a master key is set: unset it, "
                "or choose a new storage and copy them there."
            )
            raise SealError(msg, storage=storage.name)
    if marker is None:
        with suppress(RevisionConflictError):  # another process was first: its marker counts
            await storage.commit(
                Batch(MARKER.partition, [_marker_put(os.urandom(KEY_BYTES), new_id(), masters, "absent")])
            )
        (marker,) = await storage.get([MARKER])
    if marker is None:
        msg = f"The storage in {storage.location} was emptied while it was opened: open it again."
        raise SealError(msg, storage=storage.name)
    key, storage_id = _key_of(marker, masters)
    return Deployment(key, storage_id=storage_id)


async def rewrap_marker(storage: Storage, masters: MasterKeys) -> None:
    """Wrap the deployment's key with the current master key, if an older one wraps it."""
    (marker,) = await storage.get([MARKER])
    if marker is not None and marker.value.get("master_id") != masters.current:
        key, storage_id = _key_of(marker, masters)
        with suppress(RevisionConflictError):  # another process does the same
            await storage.commit(Batch(MARKER.partition, [_marker_put(key, storage_id, masters, marker.revision)]))


def _marker_put(key: bytes, storage_id: str, masters: MasterKeys, expect: Expectation) -> Put:
    value = {"format": FORMAT, "storage": storage_id, **masters.wrap(key, bound_to=storage_id)._asdict()}
    return Put(MARKER.namespace, MARKER.key, value, expect=expect)


def _key_of(marker: Item, masters: MasterKeys) -> tuple[bytes, str]:
    match marker.value:
        case {"format": int() as written} if written > FORMAT:
            msg = "A newer version of Threadkeep encrypted this storage: upgrade Threadkeep."
            raise SealError(msg)
        case {"storage": str() as storage_id, "master_id": str() as master_id, "data": str() as data} if (
            storage_id.isascii()
        ):
            return masters.unwrap(WrappedKey(master_id, data), bound_to=storage_id), storage_id
        case _:
            msg = (
                "The marker of this encrypted storage is damaged, or was changed outside Threadkeep: restore a backup."
            )
            raise DamagedItemError(msg)


def _to_name(key: bytes, what: bytes) -> str:
    digest = hmac.digest(key, what, "sha256")[:_PID_BYTES]
    return base64url(digest)


@dataclass(frozen=True, slots=True)
class KeyCounts:
    """How many keys there are.

    Attributes:
        wrapped: By the id of the master key that wraps them, of the configured master keys only.
        destroyed: How many partitions have a destroyed key.
    """

    wrapped: dict[str, int]
    destroyed: int


@dataclass(frozen=True, slots=True)
class StoredKeys:
    """The stored keys of one partition.

    Attributes:
        cipher: The cipher of its key; ``None``: it has no key.
        former: Ids of its destroyed keys.
        destroyed: Whether the partition was erased, with a key or without.
    """

    cipher: PartitionCipher | None
    former: frozenset[bytes]
    destroyed: bool


class KeyStore:
    """Stores the data keys.

    Args:
        storage: Their storage; it contains nothing else.
        masters: The master keys that wrap them.
        clock: Returns the time.
    """

    def __init__(self, storage: Storage, masters: MasterKeys, clock: Clock) -> None:
        self.storage: Storage = storage
        self.masters: MasterKeys = masters
        self._clock = clock

    @property
    def location(self) -> str:
        """The location of the keys, for messages."""
        return f"{self.storage.name} {self.storage.location}"

    @property
    def is_file_missing(self) -> bool:
        """Whether the keys are to be in a file that does not exist."""
        return self.storage.name == "sqlite" and not Path(self.storage.location).exists()

    def missing_error(self) -> SealError:
        """Return the error for a storage that has items, and keys that are not here."""
        msg = f"The keys of this storage are missing from {self.location}: set THREADKEEP_KEYS to their location."
        return SealError(msg)

    async def claim(self, storage_id: str, *, is_empty: Callable[[], Awaitable[bool]]) -> None:
        """Record that these keys belong to the storage *storage_id*.

        Args:
            storage_id: The id in its marker.
            is_empty: Returns whether it has no items yet, so that no keys are expected.

        Raises:
            SealError: They belong to another storage, or they are missing.
        """
        (marker,) = await self.storage.get([MARKER])
        if marker is None:
            empty = await is_empty()
            (marker,) = await self.storage.get([MARKER])  # another process may have written it
            if marker is None and not empty:
                raise self.missing_error()
        if marker is None:
            put = Put(MARKER.namespace, MARKER.key, {"format": FORMAT, "storage": storage_id}, expect="absent")
            with suppress(RevisionConflictError):
                await self.storage.commit(Batch(MARKER.partition, [put]))
            (marker,) = await self.storage.get([MARKER])
        if marker is not None and marker.value.get("storage") != storage_id:
            msg = f"The keys in {self.location} belong to another storage: set THREADKEEP_KEYS to this one's location."
            raise SealError(msg)

    async def load(self, pids: Sequence[str]) -> list[StoredKeys]:
        """Return the keys of the partitions with these *pids*, in their order.

        Raises:
            SealError: One is wrapped by a master key that is not set.
            DamagedItemError: One was changed.
        """
        refs = [ref for pid in pids for ref in (_key_ref(pid), _destroyed_ref(pid))]
        found = await self.storage.get(refs)
        return [self._keys(pid, *found[2 * i : 2 * i + 2]) for i, pid in enumerate(pids)]

    async def make(self, pid: str, partition: Partition) -> None:
        """Create a key for *partition* with the id *pid*, unless it has one."""
        key, note = await self.storage.get([_key_ref(pid), _destroyed_ref(pid)])
        if key is not None and _key_id(key) not in _destroyed_ids(note):
            return
        # A destroyed key that still exists, because a process was killed in between, is overwritten.
        put = self._put(
            pid, os.urandom(KEY_BYTES) + _encode_partition(partition), expect=key.revision if key else "absent"
        )
        with suppress(RevisionConflictError):
            await self.storage.commit(Batch(_key_ref(pid).partition, [put]))

    async def destroy(self, pid: str) -> None:
        """Destroy the key of the partition *pid*, if it has one.

        The note of its destruction is written first: from then on no process uses the key.
        """
        noted = False
        while not noted:
            key, note = await self.storage.get([_key_ref(pid), _destroyed_ref(pid)])
            ids = {*_destroyed_ids(note), *([_key_id(key)] if key else [])}
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
        """Wrap keys of older master keys with the current one; return how many keys.

        Other calls may run at the same time. Repeat it after an interruption.
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
                    except DamagedItemError as error:  # go on with the others
                        damaged[item.ref] = error
                if not items:
                    break
        for error in damaged.values():
            raise error
        return done

    async def pids(self) -> list[str]:
        """Return the ids of all partitions that have a key."""
        pids: list[str] = []
        for master_id in self.masters.ids:
            pids += [item.ref.partition.parts[-1] for item in await self._wrapped_by(master_id, limit=MOST_COUNTED)]
        return pids

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
        except ConflictError:  # destroyed, or wrapped again by another process
            return False
        return True

    async def _wrapped_by(self, master_id: str, *, limit: int) -> Sequence[Item]:
        return await self.storage.due(_due_kind(master_id), now=self._clock.now(), limit=limit)

    def _keys(self, pid: str, key: Item | None, note: Item | None) -> StoredKeys:
        former = frozenset(_destroyed_ids(note))
        destroyed = note is not None
        if key is None:
            return StoredKeys(None, former, destroyed)
        plain = self.masters.unwrap(_wrapped(key), bound_to=pid)
        data_key, partition = plain[:KEY_BYTES], _decode_partition(plain[KEY_BYTES:])
        if key_id_of(data_key) in former:  # the process that destroyed it was killed in between
            return StoredKeys(None, former, destroyed)
        return StoredKeys(PartitionCipher(data_key, partition=partition, pid=pid, former=former), former, destroyed)

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


def _wrapped(item: Item) -> WrappedKey:
    try:
        return WrappedKey(str(item.value["master_id"]), str(item.value["data"]))
    except KeyError as error:
        msg = "A wrapped key is damaged, or was changed outside Threadkeep: restore the keys from a backup."
        raise DamagedItemError(msg) from error


def _key_id(key: Item) -> bytes:
    try:
        return bytes.fromhex(key.value["id"])
    except (KeyError, TypeError, ValueError) as error:
        msg = "A wrapped key is damaged, or was changed outside Threadkeep: restore the keys from a backup."
        raise DamagedItemError(msg) from error


def _destroyed_ids(note: Item | None) -> list[bytes]:
    """Return the ids of destroyed keys in *note*."""
    try:
        return [] if note is None else [bytes.fromhex(text) for text in note.value["ids"]]
    except (KeyError, TypeError, ValueError) as error:
        msg = (
            "The note of a destroyed key is damaged, or was changed outside Threadkeep: restore the keys from a backup."
        )
        raise DamagedItemError(msg) from error


def _encode_partition(partition: Partition) -> bytes:
    text = json.dumps([partition.kind, *partition.parts]).encode("ascii")
    return text.ljust(-(-len(text) // _STEP) * _STEP)


def _decode_partition(text: bytes) -> Partition:
    kind, *parts = json.loads(text)
    return Partition(kind, tuple(parts))


@dataclass(slots=True)
class VerificationReport:
    """The result of a verification.

    Attributes:
        items: How many items decrypt.
        damaged: How many are damaged or were changed, by partition.
        erased: How many are of destroyed keys: a backup was restored, or an erasure was interrupted.
        no_key: The stored ids of partitions with a missing or unusable key.
        removed: How many were removed.
    """

    items: int = 0
    damaged: dict[Partition, int] = field(default_factory=dict[Partition, int])
    erased: int = 0
    no_key: list[str] = field(default_factory=list[str])
    removed: int = 0

    def __add__(self, other: VerificationReport) -> VerificationReport:
        """Return the report on two storages."""
        return VerificationReport(
            self.items + other.items,
            dict(Counter(self.damaged) + Counter(other.damaged)),
            self.erased + other.erased,
            [*self.no_key, *other.no_key],
            self.removed + other.removed,
        )

    @property
    def sound(self) -> bool:
        """Whether everything decrypts."""
        return not self.damaged and not self.no_key


async def verify(inner: Storage, keys: KeyStore, *, remove: bool = False) -> VerificationReport:
    """Decrypt every item in *inner*.

    Args:
        inner: The connected storage of the encrypted items.
        keys: The connected storage of their keys.
        remove: Whether to remove damaged items and those of destroyed keys; items without a key stay.
    """
    report = VerificationReport()
    async for partition in iterate_partitions(inner):
        if partition == MARKER.partition:
            continue
        try:
            (stored,) = await keys.load(list(partition.parts[:1]))
        except (SealError, DamagedItemError):
            report.no_key.append(partition.parts[0])
            continue
        await _verify_partition(inner, partition, stored, report, remove=remove)
    return report


async def _verify_partition(
    inner: Storage, stored: Partition, keys: StoredKeys, report: VerificationReport, *, remove: bool
) -> None:
    async for page in iterate_pages(inner, stored):
        bad: list[Item] = []
        for row in page:
            if keys.cipher is None and not keys.destroyed:
                report.no_key.append(stored.parts[0])
                return
            if _is_erased(row, keys):
                report.erased += 1
                bad.append(row)
            elif _decrypts(row, keys):
                report.items += 1
            else:
                owner = keys.cipher.partition if keys.cipher is not None else stored
                report.damaged[owner] = report.damaged.get(owner, 0) + 1
                bad.append(row)
        if remove:
            report.removed += await _remove_items(inner, stored, bad)


def _is_erased(row: Item, keys: StoredKeys) -> bool:
    return encrypted_with(row) in keys.former


def _decrypts(row: Item, keys: StoredKeys) -> bool:
    if keys.cipher is None:
        return False
    try:
        keys.cipher.decrypt([row])
    except (DamagedItemError, UnknownKeyError):
        return False
    return True


async def _remove_items(inner: Storage, stored: Partition, rows: list[Item]) -> int:
    removed = 0
    for row in rows:
        delete = Delete(row.ref.namespace, row.ref.key, expect=row.revision)
        try:
            await inner.commit(Batch(stored, [delete]))
        except ConflictError:  # written again in the meantime
            continue
        removed += 1
    return removed
