"""Encrypt and decrypt the items of a partition, and cache the keys in use.

What queries look up is a keyed digest: of each prefix of a namespace, so that a scan can use prefixes. The names
themselves are stored beside the digests, encrypted deterministically (AES-SIV). Value, vectors, paths and kind of
work are one ciphertext (AES-256-GCM) in the place of the vectors, bound to its row: copied to another row it does
not decrypt. Data is a second ciphertext, and the first one is bound to it.

Source:
    AES-SIV: RFC 5297. AES-GCM: NIST SP 800-38D; nonces are random, 96 bits.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import json
import logging
import os
import struct
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast

from cachetools import LRUCache
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, AESSIV
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from threadkeep.errors import DamagedItemError, PartitionErasedError, SealError
from threadkeep.ids import base64url
from threadkeep.storage.base import call_in_thread_if
from threadkeep.storage.encoding import (
    decode_namespace,
    decode_text,
    encode_namespace,
    encode_text,
    to_micros,
    ttl_to_micros,
)
from threadkeep.storage.interface import Delete, Due, Embedding, Item, Namespace, Operation, Partition, Put, Ref, Touch

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from threadkeep.storage.encryption.key_store import KeyStore
    from threadkeep.storage.interface import Storage
    from threadkeep.storage.rows import PutRow, RowChange

T = TypeVar("T")

log: Final = logging.getLogger("threadkeep")

INLINE_ITEMS: Final = 64
INLINE_BYTES: Final = 256 * 1024
"""Larger work runs in a thread (64 items take about half a millisecond)."""

ENCRYPTED_INDEX: Final = ("sealed",)
"""The stored paths of a searchable item."""

KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12
KEY_ID_BYTES: Final = 8

_MAGIC: Final = b"TKS1"
_MODEL: Final = "sealed"
_HEADER: Final = len(_MAGIC) + KEY_ID_BYTES + NONCE_BYTES
_LENGTHS: Final = struct.Struct(">II")
_DATA: Final = b"data|"
_DATA_LENGTH: Final = struct.Struct(">Q")
_STEP: Final = 64
"""Plaintexts are padded to a multiple of this, so that lengths reveal less."""

_PATH_BYTES: Final = 12
_INDEXED_LABELS: Final = 64
"""How many labels of a prefix the backend can match; the rest is matched after decryption."""

_MAX_NAME_BYTES: Final = 512
_MAX_KEY_BYTES: Final = 1024
"""Longer names are stored as a digest only; the row's ciphertext has the plaintext."""

_BLOCK: Final = 16
_CACHED_NAMES: Final = 32
_CHUNK: Final = 256
_CACHED_PARTITIONS: Final = 4096
"""How many partitions' keys are cached."""

_TRIES: Final = 8


class UnknownKeyError(Exception):
    """An item is encrypted with another key. Internal to this package."""


class _StoredNames(NamedTuple):
    """A stored namespace, and the digests of its first labels."""

    stored: Namespace
    paths: tuple[str, ...]


class PartitionCipher:
    """Encrypts and decrypts the items of one partition.

    Args:
        data_key: The partition's key, 32 random bytes.
        partition: The partition.
        pid: Its stored id.
        former: Ids of its destroyed keys.
    """

    def __init__(self, data_key: bytes, *, partition: Partition, pid: str, former: Iterable[bytes] = ()) -> None:
        self.partition: Partition = partition
        self.stored_partition: Partition = stored_partition(pid)
        self.key_id: bytes = key_id_of(data_key)
        self.former: frozenset[bytes] = frozenset(former)
        self._pid = pid
        self._content_cipher = AESGCM(derive_key(data_key, b"content"))
        self._name_cipher = AESSIV(derive_key(data_key, b"names", 2 * KEY_BYTES))
        self._digesting = derive_key(data_key, b"digests")
        self._names: dict[Namespace, _StoredNames] = {}
        self._namespaces: dict[Namespace, Namespace] = {}

    def namespace(self, namespace: Namespace) -> Namespace:
        """Return the stored form of *namespace*."""
        return self._stored_names(namespace).stored

    def prefix(self, prefix: Namespace) -> Namespace:
        """Return the stored prefix of every namespace that begins with *prefix*."""
        if not prefix:
            return ()
        return self._stored_names(prefix).paths

    def key(self, key: str) -> str:
        """Return the stored form of *key*."""
        return self._encrypt_name(b"key", encode_text(key).encode("ascii"), _MAX_KEY_BYTES)

    def namespace_of(self, stored: Namespace) -> Namespace | None:
        """Return the plaintext of a stored namespace; ``None`` if only a row of it has it."""
        known = self._namespaces.get(stored)
        if known is not None:
            return known
        text = self._decrypt_name(b"namespace", stored[-1]) if stored else None
        if text is None:
            return None
        namespace = decode_namespace(text)
        return namespace if self.namespace(namespace) == stored else None

    def key_of(self, stored: str) -> str | None:
        """Return the plaintext of a stored key; ``None`` if only its row has it."""
        text = self._decrypt_name(b"key", stored)
        key = None if text is None else decode_text(text)
        return key if key is not None and self.key(key) == stored else None

    def encrypt_text(self, text: str) -> str:
        """Return *text*, ASCII, encrypted deterministically."""
        return base64url(self._name_cipher.encrypt(_padded(text.encode("ascii")), [b"note"]))

    def decrypt_text(self, note: str) -> str | None:
        """Undo :meth:`encrypt_text`; ``None`` if it is not of this partition."""
        return self._decrypt_siv(b"note", note)

    def encrypt_operation(
        self, change: RowChange, operation: Operation, *, now: datetime, due_kind: Callable[[str], str]
    ) -> Operation:
        """Return *operation* as it is committed to the inner storage.

        Args:
            change: The same operation, encoded.
            operation: The operation in plaintext.
            now: The time of a put without ``updated_at``.
            due_kind: Returns the stored form of a kind of work.
        """
        namespace, key = self.namespace(operation.namespace), self.key(operation.key)
        match operation:
            case Put() as put:
                index = ENCRYPTED_INDEX if put.index else ()
                due = None if put.due is None else Due(due_kind(put.due.kind), put.due.at)
                updated_at = put.updated_at or now
                place = _associated_data(namespace, key, index, put.ttl, due, updated_at)
                data = None if put.data is None else self._encrypt(_pad_data(put.data), _DATA + place)
                plain = _to_plaintext(change.row_key, cast("PutRow", change.content))
                return replace(
                    put,
                    namespace=namespace,
                    key=key,
                    value={},
                    index=index,
                    embedding=Embedding(_MODEL, 1, self._encrypt(plain, _bind_data(place, data))),
                    due=due,
                    updated_at=updated_at,
                    data=data,
                )
            case Delete(expect=expect):
                return Delete(namespace, key, expect)
            case Touch():
                return Touch(namespace, key)

    def decrypt(self, stored: Sequence[Item]) -> list[Item | None]:
        """Return the plaintext of *stored* items; ``None`` for one of a destroyed key.

        Texts are parsed by the hundred, as :func:`threadkeep.storage.rows.parse_rows` does.

        Raises:
            UnknownKeyError: One is encrypted with an unknown key.
            DamagedItemError: One was changed.
        """
        items: list[Item | None] = []
        for start in range(0, len(stored), _CHUNK):
            chunk = stored[start : start + _CHUNK]
            plain = [self._decrypt_item(item) for item in chunk]
            texts = b",".join([text for text, _, _ in filter(None, plain)])
            contents = iter(json.loads(b"[" + texts + b"]"))
            items += [
                None if parts is None else self._item(item, next(contents), *parts[1:])
                for item, parts in zip(chunk, plain, strict=True)
            ]
        return items

    def _decrypt_item(self, item: Item) -> tuple[bytes, bytes, bytes | None] | None:
        """Return the JSON, the vectors and the data of *item*; ``None`` if its key was destroyed."""
        sealed = item.embedding.data if item.embedding is not None else b""
        if sealed[: len(_MAGIC)] != _MAGIC or item.ref.partition != self.stored_partition:
            raise damaged_item(item.ref)
        key_id = sealed[len(_MAGIC) : len(_MAGIC) + KEY_ID_BYTES]
        if key_id != self.key_id:
            if key_id in self.former:
                return None
            raise UnknownKeyError
        ref = item.ref
        place = _associated_data(ref.namespace, ref.key, item.index, item.ttl, item.due, item.updated_at)
        try:
            plain = self._decrypt(sealed, _bind_data(place, item.data))
            data = None if item.data is None else _unpad_data(self._decrypt(item.data, _DATA + place))
        except (InvalidTag, ValueError) as error:
            raise damaged_item(ref) from error
        text, vectors = _LENGTHS.unpack_from(plain)
        end = _LENGTHS.size + text
        return plain[_LENGTHS.size : end], plain[end : end + vectors], data

    def _item(self, stored: Item, content: list[Any], vectors: bytes, data: bytes | None) -> Item:
        labels, key, paths, model, dims, due_kind, imported, value = content
        namespace = self._namespaces.get(stored.ref.namespace)
        if namespace is None:
            if len(self._namespaces) >= _CACHED_NAMES:
                self._namespaces.clear()
            namespace = self._namespaces.setdefault(stored.ref.namespace, tuple(labels))
        return Item(
            Ref(self.partition, namespace, key),
            value,
            stored.revision,
            # The backend's time of a first put is a little later than the encrypted one.
            stored.created_at if imported else min(stored.created_at, stored.updated_at),
            stored.updated_at,
            tuple(paths),
            None if model is None else Embedding(model, dims, vectors),
            stored.ttl,
            stored.expires_at,
            None if due_kind is None or stored.due is None else Due(due_kind, stored.due.at),
            data,
        )

    def _encrypt(self, plain: bytes, place: bytes) -> bytes:
        nonce = os.urandom(NONCE_BYTES)
        return _MAGIC + self.key_id + nonce + self._content_cipher.encrypt(nonce, plain, place)

    def _decrypt(self, ciphertext: bytes, place: bytes) -> bytes:
        nonce = ciphertext[_HEADER - NONCE_BYTES : _HEADER]
        return self._content_cipher.decrypt(nonce, ciphertext[_HEADER:], place)

    def _stored_names(self, namespace: Namespace) -> _StoredNames:
        known = self._names.get(namespace)
        if known is not None:
            return known
        # Internal namespaces stay internal; the partition comes first, so that a list of all namespaces shows it.
        paths = [f".{self._pid}" if namespace and namespace[0].startswith(".") else self._pid]
        digest = b""
        for label in namespace[:_INDEXED_LABELS]:
            digest = hmac.digest(self._digesting, b"path" + digest + encode_text(label).encode("ascii"), "sha256")
            paths.append(base64url(digest[:_PATH_BYTES]))
        name = self._encrypt_name(b"namespace", encode_namespace(namespace).encode("ascii"), _MAX_NAME_BYTES)
        if len(self._names) >= _CACHED_NAMES:
            self._names.clear()
        return self._names.setdefault(namespace, _StoredNames((*paths, name), tuple(paths)))

    def _encrypt_name(self, what: bytes, text: bytes, longest: int) -> str:
        if len(text) > longest:
            return "~" + base64url(hmac.digest(self._digesting, what + text, "sha256"))
        return "=" + base64url(self._name_cipher.encrypt(_padded(text), [what]))

    def _decrypt_name(self, what: bytes, stored: str) -> str | None:
        return self._decrypt_siv(what, stored[1:]) if stored.startswith("=") else None

    def _decrypt_siv(self, what: bytes, text: str) -> str | None:
        try:
            padded = self._name_cipher.decrypt(base64.b64decode(text + "=" * (-len(text) % 4), b"-_"), [what])
        except (InvalidTag, ValueError, binascii.Error):
            return None
        return _unpadded(padded).decode("ascii")


def new_master_key() -> str:
    """Return a new master key as text."""
    return base64.b64encode(os.urandom(KEY_BYTES)).decode("ascii")


def derive_key(key: bytes, purpose: bytes, length: int = KEY_BYTES) -> bytes:
    """Derive a key of *length* bytes for one *purpose* from *key*, which is random."""
    return HKDFExpand(algorithm=SHA256(), length=length, info=b"threadkeep sealed 1: " + purpose).derive(key)


@lru_cache(maxsize=4096)
def stored_partition(pid: str) -> Partition:
    """Return the partition of the inner storage for *pid*."""
    return Partition("root", (pid,))


def key_id_of(data_key: bytes) -> bytes:
    """Return 8 bytes that identify *data_key* and reveal nothing else of it."""
    return derive_key(data_key, b"id", KEY_ID_BYTES)


def encrypted_with(item: Item) -> bytes:
    """Return the id of the key in the header of *item*."""
    data = item.embedding.data if item.embedding is not None else b""
    return data[len(_MAGIC) : len(_MAGIC) + KEY_ID_BYTES]


def damaged_item(ref: Ref) -> DamagedItemError:
    """Return the error for the stored row at *ref*."""
    msg = (
        "An encrypted item is damaged, or was changed outside Threadkeep. "
        "Restore it from a backup, or remove it with: threadkeep keys check --remove"
    )
    return DamagedItemError(msg, partition=ref.partition.parts, namespace=ref.namespace, key=ref.key)


def _to_plaintext(place: tuple[str, str], content: PutRow) -> bytes:
    """Return the plaintext of an item: lengths, one JSON array, the vectors, padding."""
    vectors = content.embedding or b""
    text = (
        f"[{place[0]},{place[1]},{content.paths},{content.model or 'null'},"
        f"{'null' if content.dims is None else content.dims},{content.due_kind or 'null'},"
        f"{'false' if content.created_at is None else 'true'},{content.value}]"
    ).encode("ascii")
    size = _LENGTHS.size + len(text) + len(vectors)
    return b"".join((_LENGTHS.pack(len(text), len(vectors)), text, vectors, bytes(-size % _STEP)))


def _associated_data(
    namespace: Namespace, key: str, index: Sequence[str], ttl: timedelta | None, due: Due | None, updated_at: datetime
) -> bytes:
    """Return the associated data of a ciphertext: its address, time, and what the backend acts on."""
    lives = "" if ttl is None else ttl_to_micros(ttl)
    work = "" if due is None else f"{due.kind} {to_micros(due.at)}"
    text = f"{'|'.join(namespace)}|{key}|{'|'.join(index)} {to_micros(updated_at)} {lives} {work}"
    return text.encode("ascii", "backslashreplace")


def _bind_data(place: bytes, data: bytes | None) -> bytes:
    """Return *place* with a digest of the encrypted *data*, so that it cannot be replaced or removed."""
    return place if data is None else place + hashlib.sha256(data).digest()


def _pad_data(data: bytes) -> bytes:
    size = _DATA_LENGTH.size + len(data)
    return b"".join((_DATA_LENGTH.pack(len(data)), data, bytes(-size % _STEP)))


def _unpad_data(padded: bytes) -> bytes:
    (size,) = _DATA_LENGTH.unpack_from(padded)
    return padded[_DATA_LENGTH.size : _DATA_LENGTH.size + size]


def _padded(text: bytes) -> bytes:
    size = struct.pack(">I", len(text)) + text
    return size + bytes(-len(size) % _BLOCK)


def _unpadded(padded: bytes) -> bytes:
    (size,) = struct.unpack_from(">I", padded)
    return padded[4 : 4 + size]


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
        partitions: list[Partition] = []
        for pid in pids:
            try:
                keys = self._cached.get(pid) or await self._load(pid)
            except (SealError, DamagedItemError) as error:
                self._report(pid, error)
                continue
            if keys.cipher is not None:
                partitions.append(keys.cipher.partition)
        return partitions

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
        items: list[Item] = []
        for row in rows:
            pid = row.ref.partition.parts[0]
            try:
                for _ in range(_TRIES):
                    keys = self._cached.get(pid) or await self._load(pid)
                    try:
                        items += [item for item in await self.decrypt(keys, [row]) if item is not None]
                        break
                    except ReplacedError:
                        self._cached.pop(pid, None)
            except (SealError, DamagedItemError) as error:
                self._report(pid, error)
        return items

    def _report(self, pid: str, error: Exception) -> None:
        """Log once that an item of the partition *pid* was left out."""
        if pid not in self._reported and len(self._reported) < _CACHED_PARTITIONS:
            self._reported.add(pid)
            log.error("An encrypted item was left out (partition %s): %s", pid, error)


def _is_large(rows: Sequence[Item]) -> bool:
    return len(rows) > INLINE_ITEMS or _size(rows) > INLINE_BYTES


def _size(rows: Sequence[Item]) -> int:
    return sum(len(row.embedding.data) + len(row.data or b"") for row in rows if row.embedding is not None)
