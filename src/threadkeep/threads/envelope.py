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
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from threadkeep.errors import StorageError
from threadkeep.threads.cipher import VARIABLE, Cipher

if TYPE_CHECKING:
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
