"""What a checkpoint holds, packed so that a saver keeps it as it is: encrypted, or as text that any JSON can hold.

Savers treat values differently: the one for PostgreSQL writes texts and numbers into JSON in the clear,
where NUL and NaN cannot be, and the one for Redis turns everything into JSON that makes objects of any
class. So the values go through here first. A text or number that has to be packed becomes a text, anything
else becomes bytes, so that a saver puts it where it would have put the original.
"""

from __future__ import annotations

import base64
import binascii
import math
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import ormsgpack
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from threadkeep.errors import SettingsError, StorageError, missing_extra

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from langgraph.checkpoint.base import Checkpoint, CheckpointMetadata, CheckpointTuple, DeltaChannelHistory
    from langgraph.checkpoint.serde.base import SerializerProtocol


PLAIN_METADATA: Final = frozenset(
    {"source", "step", "parents", "counters_since_delta_snapshot", "delta_writes_versioned", "threadkeep_owner"}
)
"""What is never packed: savers prune by it, lists are filtered by it, and none of it says what anybody wrote."""

_REST: Final = "threadkeep_rest"
_PACKED: Final = "~tk~packed~"
_SEALED: Final = "~tk~sealed~"
_MARKS: Final = {_PACKED: False, _SEALED: True}
_LENGTH: Final = len(_PACKED)
_NOT_IN_JSONB: Final = re.compile(r"[\x00\ud800-\udfff]")
_EXACT_IN_JSONB: Final = 1e15
"""Larger floats come back as whole numbers."""


class Envelope:
    """Packs what goes to a saver, and opens what comes back; what was never packed comes back as it is.

    Args:
        cipher: Encrypts everything; ``None``: nothing is encrypted, and what is cannot be read.
        texts_only: Everything is packed, as text.
        plain_texts: Texts and numbers that JSONB cannot hold are packed.
    """

    def __init__(self, cipher: Cipher | None = None, *, texts_only: bool = False, plain_texts: bool = False) -> None:
        self._cipher = cipher
        self._texts_only = texts_only
        self._plain_texts = plain_texts

    @property
    def everything(self) -> bool:
        """Whether every value and all metadata but :data:`PLAIN_METADATA` is packed."""
        return self._cipher is not None or self._texts_only

    def checkpoint(self, given: Checkpoint, *, serde: SerializerProtocol, thread: str, namespace: str) -> Checkpoint:
        """Return *given* with its values packed where they have to be."""
        values = given["channel_values"]
        packed = {name: self._in(value, serde, thread, f"{namespace}|{name}") for name, value in values.items()}
        return cast("Checkpoint", {**given, "channel_values": packed})

    def writes(
        self, given: Sequence[tuple[str, Any]], *, serde: SerializerProtocol, thread: str, namespace: str
    ) -> Sequence[tuple[str, Any]]:
        """Return *given* writes with their values packed where they have to be."""
        return [(name, self._in(value, serde, thread, f"{namespace}|{name}")) for name, value in given]

    def metadata(self, given: Mapping[str, Any], *, serde: SerializerProtocol, thread: str) -> CheckpointMetadata:
        """Return *given*, all of it but :data:`PLAIN_METADATA` as one packed text."""
        rest = {name: value for name, value in given.items() if name not in PLAIN_METADATA}
        if not rest or not self.everything:
            return cast("CheckpointMetadata", dict(given))
        plain = {name: value for name, value in given.items() if name in PLAIN_METADATA}
        packed = self._pack(rest, serde, thread, "metadata", text=True)
        return cast("CheckpointMetadata", {**plain, _REST: packed})

    def opened(self, found: CheckpointTuple, *, serde: SerializerProtocol) -> CheckpointTuple:
        """Return *found*, which a saver gave, as it was put.

        Raises:
            StorageError: It is damaged, or encrypted with a key that is not set.
        """
        where = found.config.get("configurable", {})
        thread, namespace = str(where["thread_id"]), str(where.get("checkpoint_ns", ""))
        unpacked = self._opener(serde, thread, namespace)
        values = {name: unpacked(name, value) for name, value in found.checkpoint["channel_values"].items()}
        metadata = dict(found.metadata)
        if _REST in metadata:
            metadata |= self._out(metadata.pop(_REST), serde, thread, "metadata")
        return found._replace(
            checkpoint=cast("Checkpoint", {**found.checkpoint, "channel_values": values}),
            metadata=cast("CheckpointMetadata", metadata),
            pending_writes=[(task, name, unpacked(name, value)) for task, name, value in found.pending_writes or ()],
        )

    def opened_history(
        self, found: Mapping[str, DeltaChannelHistory], *, serde: SerializerProtocol, thread: str, namespace: str
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return *found*, which a saver gave, as it was put."""
        unpacked = self._opener(serde, thread, namespace)
        opened: dict[str, DeltaChannelHistory] = {}
        for channel, history in found.items():
            writes = [(task, name, unpacked(name, value)) for task, name, value in history["writes"]]
            opened[channel] = {**history, "writes": writes}
            if "seed" in history:
                opened[channel]["seed"] = unpacked(channel, history["seed"])
        return opened

    def _opener(self, serde: SerializerProtocol, thread: str, namespace: str) -> Callable[[str, Any], Any]:
        return lambda name, value: self._out(value, serde, thread, f"{namespace}|{name}")

    def _in(self, value: Any, serde: SerializerProtocol, thread: str, place: str) -> Any:
        inline = value is None or isinstance(value, str | int | float)
        if not self.everything and not self._has_to_be_packed(value):
            return value
        return self._pack(value, serde, thread, place, text=inline or self._texts_only)

    def _has_to_be_packed(self, value: Any) -> bool:
        if isinstance(value, str | bytes) and _mark_of(value):
            return True  # or it would be opened
        if not self._plain_texts:
            return False
        if isinstance(value, str):
            return _NOT_IN_JSONB.search(value) is not None
        return isinstance(value, float) and not (math.isfinite(value) and abs(value) < _EXACT_IN_JSONB)

    def _pack(self, value: Any, serde: SerializerProtocol, thread: str, place: str, *, text: bool) -> str | bytes:
        kind, data = serde.dumps_typed(value)
        framed = kind.encode() + b"\0" + data
        mark = _SEALED if self._cipher else _PACKED
        if self._cipher:
            framed = self._cipher.seal(framed, thread=thread, place=place)
        return mark + base64.b64encode(framed).decode() if text else mark.encode() + framed

    def _out(self, value: Any, serde: SerializerProtocol, thread: str, place: str) -> Any:
        mark = _mark_of(value) if isinstance(value, str | bytes) else None
        if mark is None:
            return value
        framed = value[_LENGTH:] if isinstance(value, bytes) else _decoded(value[_LENGTH:])
        if _MARKS[mark]:
            if self._cipher is None:
                msg = f"This checkpoint is encrypted; set {VARIABLE} to the key that it was written with."
                raise StorageError(msg, variable=VARIABLE)
            framed = self._cipher.open(framed, thread=thread, place=place)
        kind, _, data = framed.partition(b"\0")
        return serde.loads_typed((kind.decode(errors="replace"), data))


def _mark_of(value: str | bytes) -> str | None:
    head = value[:_LENGTH]
    mark = head if isinstance(head, str) else head.decode("ascii", "replace")
    return mark if mark in _MARKS else None


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        msg = "A checkpoint cannot be read: it is damaged; restore it from a backup."
        raise StorageError(msg) from error


VARIABLE: Final = "THREADKEEP_CHECKPOINT_KEY"
SHORTEST_KEY: Final = 32

_NONCE_BYTES: Final = 12
_KEY_BYTES: Final = 32
_ID_BYTES: Final = 4
_THREADS_KEPT: Final = 1024


class Cipher:
    """Seals and opens bytes of a thread; what was sealed for one place cannot be opened at another.

    A key of its own for each thread keeps the number of random nonces under one key small.

    Args:
        keys: One or more keys, of 32 or more characters each, parted by commas or blanks. The first
            seals and all of them open, so a key can be replaced: put the new one in front.

    Raises:
        SettingsError: A key is too short, or ``cryptography`` is not installed.
    """

    def __init__(self, keys: str) -> None:
        parts = keys.replace(",", " ").split()
        if not parts or any(len(part) < SHORTEST_KEY for part in parts):
            msg = (
                f"{VARIABLE} needs keys of {SHORTEST_KEY} or more characters, parted by commas; "
                "make one with: openssl rand -base64 32"
            )
            raise SettingsError(msg, variable=VARIABLE)
        if find_spec("cryptography") is None:
            raise missing_extra(VARIABLE, extra="encryption", variable=VARIABLE)
        secrets = [part.encode("utf-8", "surrogatepass") for part in parts]
        self._ids = [_derived(secret, _ID_BYTES, "id") for secret in secrets]
        self._secret_of = dict(zip(reversed(self._ids), reversed(secrets), strict=True))
        self._of_thread = lru_cache(_THREADS_KEPT)(self._aead)

    def seal(self, plain: bytes, *, thread: str, place: str) -> bytes:
        """Return *plain* sealed: the key's id (4 bytes), a nonce (12 bytes), the text and its tag (16 bytes).

        Args:
            plain: Anything.
            thread: The name of the thread that it is of.
            place: Where in the thread it is kept; has to be said again to open it.
        """
        nonce = os.urandom(_NONCE_BYTES)
        return self._ids[0] + nonce + self._of_thread(self._ids[0], thread).encrypt(nonce, plain, place.encode())

    def open(self, sealed: bytes, *, thread: str, place: str) -> bytes:
        """Return what :meth:`seal` sealed.

        Raises:
            StorageError: It was sealed with another key, for another place, or is damaged.
        """
        from cryptography.exceptions import InvalidTag

        key_id, nonce = sealed[:_ID_BYTES], sealed[_ID_BYTES : _ID_BYTES + _NONCE_BYTES]
        if key_id not in self._secret_of:
            msg = f"A checkpoint was encrypted with another key; add that key to {VARIABLE}, behind the present one."
            raise StorageError(msg, variable=VARIABLE)
        try:
            return self._of_thread(key_id, thread).decrypt(nonce, sealed[_ID_BYTES + _NONCE_BYTES :], place.encode())
        except (InvalidTag, ValueError) as error:
            msg = "An encrypted checkpoint is damaged, or was moved to another place; restore it from a backup."
            raise StorageError(msg) from error

    def _aead(self, key_id: bytes, thread: str) -> AESGCM:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        return AESGCM(_derived(self._secret_of[key_id], _KEY_BYTES, f"thread {thread}"))


def _derived(secret: bytes, length: int, what: str) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    info = f"threadkeep checkpoints: {what}".encode()
    return HKDF(algorithm=SHA256(), length=length, salt=None, info=info).derive(secret)


AllowedType: TypeAlias = type | tuple[str, str]


class StrictSerializer(JsonPlusSerializer):
    """LangGraph's serializer that makes objects of listed classes only, and never unpickles.

    An object of any other class comes back as plain data, a dict mostly: its module is not
    imported, and LangGraph logs which class was blocked. Messages, documents and LangGraph's own
    types are listed always, and the types of a graph's state once the graph is compiled.

    Args:
        allowed_types: Further classes, each as itself or as ``(module, name)``.
    """

    def __init__(self, allowed_types: Collection[AllowedType] = ()) -> None:
        super().__init__(pickle_fallback=False, allowed_msgpack_modules=tuple(allowed_types))

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Return the object that ``dumps_typed`` wrote as *data*.

        Raises:
            StorageError: It cannot be read.
        """
        try:
            return super().loads_typed(data)
        except ormsgpack.MsgpackDecodeError as error:
            msg = "A checkpoint cannot be read: it is damaged, or was written encrypted."
            raise StorageError(msg) from error
        except NotImplementedError as error:
            msg = f"A checkpoint is kept as {data[0][:40]!r}, which is never loaded; only LangGraph's own format is."
            raise StorageError(msg) from error


def let_graphs_list_their_types() -> None:
    """Have LangGraph tell a checkpointer which types a graph's state has, when the graph is compiled.

    It does so only if ``LANGGRAPH_STRICT_MSGPACK`` was set before the first import. Ours is strict
    always and needs the list: without it, a dataclass in the state would come back as a dict. A
    checkpointer that is not strict ignores it.

    Source:
        ``langgraph/graph/state.py`` (``compile``) and ``langgraph/pregel/main.py`` of LangGraph 1.2.
    """
    with suppress(ImportError):  # private: where it is gone, ``allowed_types`` still works
        vars(import_module("langgraph._internal._serde"))["STRICT_MSGPACK_ENABLED"] = True
