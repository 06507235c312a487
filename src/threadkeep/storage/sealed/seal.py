"""One partition's items as they are stored, sealed, and back.

What has to be found again is a keyed digest: the beginnings of a namespace, one after the other, so that a
prefix can be asked for. Beside them stands what the digests are of, encrypted so that the same name
gives the same text (AES-SIV). Everything else, value, vectors, paths, kind of work, is one sealed text
(AES-256-GCM) in the place of the vectors, bound to its row: moved to another one it does not open.

Source:
    AES-SIV: RFC 5297. AES-GCM: NIST SP 800-38D; nonces are random, 96 bits.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import os
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, AESSIV

from threadkeep.errors import DamagedItemError
from threadkeep.storage.encoding import (
    decode_namespace,
    decode_text,
    encode_namespace,
    encode_text,
    micros,
    ttl_micros,
)
from threadkeep.storage.port import Delete, Due, Embedding, Item, Namespace, Operation, Partition, Put, Ref, Touch
from threadkeep.storage.sealed.master import KEY_BYTES, NONCE_BYTES, derived

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from threadkeep.storage.row import Change, Content

SEALED_INDEX: Final = ("sealed",)
"""Stands for the paths of an item that is searchable."""

KEY_ID_BYTES: Final = 8

_MAGIC: Final = b"TKS1"
_MODEL: Final = "sealed"
_HEADER: Final = len(_MAGIC) + KEY_ID_BYTES + NONCE_BYTES
_LENGTHS: Final = struct.Struct(">II")
_STEP: Final = 64
"""Sealed texts are as long as the next multiple, so that their length says less."""

_PATH_BYTES: Final = 12
_LABELS_FOUND: Final = 64
"""So many labels of a namespace can be asked for by prefix in the backend; deeper ones are told after opening."""

_SPELLED_NAME: Final = 512
_SPELLED_KEY: Final = 1024
"""So many bytes are encrypted beside the digests; of longer names there is a digest only, and the row says the rest."""

_BLOCK: Final = 16
_NAMES_KEPT: Final = 32
_CHUNK: Final = 256


class UnknownKeyError(Exception):
    """Something was sealed with another key than this one. Inside this package only."""


class _Names(NamedTuple):
    """Both spellings of a namespace, and how the first labels of it are stored."""

    stored: Namespace
    paths: tuple[str, ...]


class PartitionSeal:
    """Seals and opens what belongs to one partition.

    Args:
        data_key: 32 random bytes, this partition's own.
        partition: As it is spelled.
        pid: As it is stored.
        former: Ids of the keys that this partition had before and that were destroyed.
    """

    def __init__(self, data_key: bytes, *, partition: Partition, pid: str, former: Iterable[bytes] = ()) -> None:
        self.partition: Partition = partition
        self.stored_partition: Partition = stored_partition(pid)
        self.key_id: bytes = key_id_of(data_key)
        self.former: frozenset[bytes] = frozenset(former)
        self._pid = pid
        self._content = AESGCM(derived(data_key, b"content"))
        self._spelling = AESSIV(derived(data_key, b"names", 2 * KEY_BYTES))
        self._digesting = derived(data_key, b"digests")
        self._names: dict[Namespace, _Names] = {}
        self._namespaces: dict[Namespace, Namespace] = {}

    def namespace(self, namespace: Namespace) -> Namespace:
        """Return how *namespace* is stored."""
        return self._named(namespace).stored

    def prefix(self, prefix: Namespace) -> Namespace:
        """Return what the stored form of every namespace that begins with *prefix* begins with."""
        if not prefix:
            return ()
        return self._named(prefix).paths

    def key(self, key: str) -> str:
        """Return how *key* is stored."""
        return self._spelled(b"key", encode_text(key).encode("ascii"), _SPELLED_KEY)

    def namespace_of(self, stored: Namespace) -> Namespace | None:
        """Return the namespace that is stored as *stored*; ``None`` where only a row of it can say so."""
        known = self._namespaces.get(stored)
        if known is not None:
            return known
        text = self._unspelled(b"namespace", stored[-1]) if stored else None
        if text is None:
            return None
        namespace = decode_namespace(text)
        return namespace if self.namespace(namespace) == stored else None

    def key_of(self, stored: str) -> str | None:
        """Return the key that is stored as *stored*; ``None`` where only its row can say so."""
        text = self._unspelled(b"key", stored)
        key = None if text is None else decode_text(text)
        return key if key is not None and self.key(key) == stored else None

    def note(self, text: str) -> str:
        """Return *text*, ASCII, encrypted; the same text gives the same note."""
        return _spell(self._spelling.encrypt(_padded(text.encode("ascii")), [b"note"]))

    def note_of(self, note: str) -> str | None:
        """Undo :meth:`note`; ``None`` where it is none of this partition's."""
        return self._decrypted(b"note", note)

    def operation(
        self, change: Change, operation: Operation, *, now: datetime, due_kind: Callable[[str], str]
    ) -> Operation:
        """Return *operation*, which was checked and encoded to *change*, as it is committed.

        Args:
            change: The same operation, encoded.
            operation: What was asked for.
            now: When it is put, where it does not say so itself.
            due_kind: Tells how a kind of work is stored.
        """
        namespace, key = self.namespace(operation.namespace), self.key(operation.key)
        match operation:
            case Put() as put:
                index = SEALED_INDEX if put.index else ()
                due = None if put.due is None else Due(due_kind(put.due.kind), put.due.at)
                updated_at = put.updated_at or now
                place = _bound(namespace, key, index, put.ttl, due, updated_at)
                data = self._sealed(_plain(change.place, cast("Content", change.content)), place)
                return replace(
                    put,
                    namespace=namespace,
                    key=key,
                    value={},
                    index=index,
                    embedding=Embedding(_MODEL, 1, data),
                    due=due,
                    updated_at=updated_at,
                )
            case Delete(expect=expect):
                return Delete(namespace, key, expect)
            case Touch():
                return Touch(namespace, key)

    def opened(self, stored: Sequence[Item]) -> list[Item | None]:
        """Return the items of this partition that were *stored*; ``None`` where the key was destroyed.

        Texts are parsed by the hundred, as :func:`threadkeep.storage.row.items_of` does.

        Raises:
            UnknownKeyError: One was sealed with a key that this partition does not have.
            DamagedItemError: One was changed.
        """
        found: list[Item | None] = []
        for start in range(0, len(stored), _CHUNK):
            chunk = stored[start : start + _CHUNK]
            plain = [self._plain_of(item) for item in chunk]
            texts = b",".join([text for text, _ in filter(None, plain)])
            contents = iter(json.loads(b"[" + texts + b"]"))
            found += [
                None if parts is None else self._item(item, next(contents), parts[1])
                for item, parts in zip(chunk, plain, strict=True)
            ]
        return found

    def _plain_of(self, item: Item) -> tuple[bytes, bytes] | None:
        """Return the JSON and the vectors of *item*; ``None`` where its key was destroyed."""
        data = item.embedding.data if item.embedding is not None else b""
        if data[: len(_MAGIC)] != _MAGIC or item.ref.partition != self.stored_partition:
            raise damaged(item.ref)
        key_id, nonce = data[len(_MAGIC) : len(_MAGIC) + KEY_ID_BYTES], data[_HEADER - NONCE_BYTES : _HEADER]
        if key_id != self.key_id:
            if key_id in self.former:
                return None
            raise UnknownKeyError
        ref = item.ref
        place = _bound(ref.namespace, ref.key, item.index, item.ttl, item.due, item.updated_at)
        try:
            plain = self._content.decrypt(nonce, data[_HEADER:], place)
        except (InvalidTag, ValueError) as error:
            raise damaged(ref) from error
        text, vectors = _LENGTHS.unpack_from(plain)
        end = _LENGTHS.size + text
        return plain[_LENGTHS.size : end], plain[end : end + vectors]

    def _item(self, stored: Item, content: list[Any], vectors: bytes) -> Item:
        labels, key, paths, model, dims, due_kind, imported, value = content
        namespace = self._namespaces.get(stored.ref.namespace)
        if namespace is None:
            if len(self._namespaces) >= _NAMES_KEPT:
                self._namespaces.clear()
            namespace = self._namespaces.setdefault(stored.ref.namespace, tuple(labels))
        return Item(
            Ref(self.partition, namespace, key),
            value,
            stored.revision,
            # The backend's moment of a first put is a little after the one that was sealed with it.
            stored.created_at if imported else min(stored.created_at, stored.updated_at),
            stored.updated_at,
            tuple(paths),
            None if model is None else Embedding(model, dims, vectors),
            stored.ttl,
            stored.expires_at,
            None if due_kind is None or stored.due is None else Due(due_kind, stored.due.at),
        )

    def _sealed(self, plain: bytes, place: bytes) -> bytes:
        nonce = os.urandom(NONCE_BYTES)
        return _MAGIC + self.key_id + nonce + self._content.encrypt(nonce, plain, place)

    def _named(self, namespace: Namespace) -> _Names:
        known = self._names.get(namespace)
        if known is not None:
            return known
        # Internal namespaces stay so, and the partition stands first, so that a list of all can be told apart.
        paths = [f".{self._pid}" if namespace and namespace[0].startswith(".") else self._pid]
        digest = b""
        for label in namespace[:_LABELS_FOUND]:
            digest = hmac.digest(self._digesting, b"path" + digest + encode_text(label).encode("ascii"), "sha256")
            paths.append(_spell(digest[:_PATH_BYTES]))
        spelled = self._spelled(b"namespace", encode_namespace(namespace).encode("ascii"), _SPELLED_NAME)
        if len(self._names) >= _NAMES_KEPT:
            self._names.clear()
        return self._names.setdefault(namespace, _Names((*paths, spelled), tuple(paths)))

    def _spelled(self, what: bytes, text: bytes, longest: int) -> str:
        if len(text) > longest:
            return "~" + _spell(hmac.digest(self._digesting, what + text, "sha256"))
        return "=" + _spell(self._spelling.encrypt(_padded(text), [what]))

    def _unspelled(self, what: bytes, stored: str) -> str | None:
        return self._decrypted(what, stored[1:]) if stored.startswith("=") else None

    def _decrypted(self, what: bytes, text: str) -> str | None:
        try:
            padded = self._spelling.decrypt(base64.b64decode(text + "=" * (-len(text) % 4), b"-_"), [what])
        except (InvalidTag, ValueError, binascii.Error):
            return None
        return _unpadded(padded).decode("ascii")


@lru_cache(maxsize=4096)
def stored_partition(pid: str) -> Partition:
    """Return the partition that is stored as *pid*."""
    return Partition("root", (pid,))


def key_id_of(data_key: bytes) -> bytes:
    """Return 8 bytes that tell *data_key* from other keys, and nothing else of it."""
    return derived(data_key, b"id", KEY_ID_BYTES)


def sealed_with(item: Item) -> bytes:
    """Return the id of the key that *item* says it was sealed with."""
    data = item.embedding.data if item.embedding is not None else b""
    return data[len(_MAGIC) : len(_MAGIC) + KEY_ID_BYTES]


def damaged(ref: Ref) -> DamagedItemError:
    """Return the error for the row that is stored at *ref*."""
    msg = (
        "A sealed item does not open: it is damaged, or was changed outside Threadkeep. "
        "Restore it from a backup, or remove it with: threadkeep keys check --remove"
    )
    return DamagedItemError(msg, partition=ref.partition.parts, namespace=ref.namespace, key=ref.key)


def _plain(place: tuple[str, str], content: Content) -> bytes:
    """Return what is sealed of an item: lengths, one JSON array, the vectors, zeros up to the next step."""
    vectors = content.embedding or b""
    text = (
        f"[{place[0]},{place[1]},{content.paths},{content.model or 'null'},"
        f"{'null' if content.dims is None else content.dims},{content.due_kind or 'null'},"
        f"{'false' if content.created_at is None else 'true'},{content.value}]"
    ).encode("ascii")
    size = _LENGTHS.size + len(text) + len(vectors)
    return b"".join((_LENGTHS.pack(len(text), len(vectors)), text, vectors, bytes(-size % _STEP)))


def _bound(
    namespace: Namespace, key: str, index: Sequence[str], ttl: timedelta | None, due: Due | None, updated_at: datetime
) -> bytes:
    """Return what a sealed text is bound to: its place, when it was put, and what the backend acts on."""
    lives = "" if ttl is None else ttl_micros(ttl)
    work = "" if due is None else f"{due.kind} {micros(due.at)}"
    text = f"{'|'.join(namespace)}|{key}|{'|'.join(index)} {micros(updated_at)} {lives} {work}"
    return text.encode("ascii", "backslashreplace")


def _spell(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def _padded(text: bytes) -> bytes:
    size = struct.pack(">I", len(text)) + text
    return size + bytes(-len(size) % _BLOCK)


def _unpadded(padded: bytes) -> bytes:
    (size,) = struct.unpack_from(">I", padded)
    return padded[4 : 4 + size]
