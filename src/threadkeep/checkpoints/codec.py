"""Checkpoints and writes as items: what is encoded, under which namespace and key, and how it is read again.

A thread is a partition. Its items are

- ``(".thread",)``, ``head``: the :class:`~threadkeep.checkpoints.head.Head`;
- ``(".checkpoints", namespace, checkpoint id)``, ``checkpoint``: a checkpoint with its metadata and small values;
- ``(".checkpoints", namespace, checkpoint id)``, ``write:<task>:…``: what a task wrote at once after that checkpoint;
- ``(".values", namespace, channel)``, checkpoint id: a large value, stored once by the first checkpoint that has it.

Data that is longer than :data:`CHUNK_BYTES` continues in items with the keys ``chunk:1:<key>``, ``chunk:2:<key>``, …

The serializer of values is LangGraph's, strict, with an explicit list of the types it keeps. An object of a type that
is not on the list is refused when it is written, by name: stored and read again it would come back as a dict. The types
of a graph's state are added when the graph is compiled.
"""

from __future__ import annotations

import dataclasses
import itertools
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, cast

import ormsgpack
from langgraph.checkpoint.base import WRITES_IDX_MAP, CheckpointTuple, writes_sort_key
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.jsonplus import _create_msgpack_ext_hook as create_hook  # pyright: ignore[reportPrivateUsage]

from threadkeep.clock import SystemClock
from threadkeep.errors import DamagedItemError, InvalidInputError
from threadkeep.ids import new_id
from threadkeep.storage.interface import Item, Namespace, Partition, Put, Ref

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata
    from langgraph.checkpoint.serde.base import SerializerProtocol


AllowedType: TypeAlias = type | tuple[str, str]
"""A class, or its module and name."""

_CONSTRUCTORS: Final = frozenset({0, 1, 2, 4, 5})
"""LangGraph's msgpack extensions that name a class to construct (``langgraph.checkpoint.serde.jsonplus``)."""

_EXTENSIONS: Final = (*range(0xC7, 0xCA), *range(0xD4, 0xD9))
"""The bytes that an extension begins with in msgpack; other data seldom holds one of them. A megabyte is searched for
all of them in 0.3 ms, by a regular expression in 9 ms."""

_ARRAY: Final = 6
"""The extension of numpy arrays."""

_METHOD: Final = 3
"""The extension that names a class and a method of it to call, such as ``datetime.fromisoformat``."""

_FIXED_TEXT: Final = 0xA0
_SHORT_TEXT: Final = 0xD9
"""How msgpack marks a text of up to 31 bytes (the length is added), and of up to 255 (the length follows)."""

_NEVER: Final = ("threadkeep", "")
"""Makes the list of types a set of its own, also where no type is listed."""

_LISTS: Final[Mapping[str, Any]] = vars(import_module("langgraph.checkpoint.serde._msgpack"))
_SAFE: Final[Collection[tuple[str, ...]]] = _LISTS.get("SAFE_MSGPACK_TYPES", frozenset())
_SAFE_METHODS: Final[Collection[tuple[str, ...]]] = _LISTS.get("SAFE_MSGPACK_METHODS", frozenset())
"""What LangGraph constructs and calls without being asked to."""


class StrictSerializer(JsonPlusSerializer):
    """LangGraph's serializer that writes objects of listed types only, imports nothing and never unpickles.

    Messages, documents, dates and LangGraph's own types are always listed. What was written with a longer list, by a
    process that knew an agent's ``response_format`` say, is read as it was if its class is a dataclass, an enum or a
    pydantic model that this process has imported already; anything else is an error that names the type.

    Args:
        allowed_types: Further types.
    """

    def __init__(self, allowed_types: Collection[AllowedType] = ()) -> None:
        super().__init__(pickle_fallback=False, allowed_msgpack_modules=(_NEVER, *allowed_types))
        self._check_types_read()

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Encode *obj*.

        Raises:
            InvalidInputError: It holds an object of a type that is not listed, or that cannot be encoded.
        """
        try:
            encoding, data = super().dumps_typed(obj)
        except (TypeError, ValueError) as error:  # ormsgpack's error is a TypeError
            msg = f"The state has a value that a checkpoint cannot store ({error}); convert it, or leave it out."
            raise InvalidInputError(msg) from error
        if encoding == "msgpack":
            for byte in _EXTENSIONS:
                if byte in data:
                    self._require_allowed(data)
                    break
        return encoding, data

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Decode what :meth:`dumps_typed` returned.

        Raises:
            DamagedItemError: It cannot be decoded, or holds an object of a type that this process must not construct.
        """
        try:
            return super().loads_typed(data)
        except ormsgpack.MsgpackDecodeError as error:
            unknown = vars(self).pop("_unknown", None)
            msg = "A checkpoint is damaged and cannot be read: restore it from a backup, or delete it."
            raise DamagedItemError(_how_to_allow(*unknown) if unknown else msg) from error
        except NotImplementedError as error:
            msg = f"A checkpoint is encoded as {data[0][:40]!r}, which is never loaded; only LangGraph's own format is."
            raise DamagedItemError(msg) from error

    def with_msgpack_allowlist(self, extra_allowlist: Any) -> StrictSerializer:
        """Return a serializer that keeps these types, too."""
        clone = cast("StrictSerializer", super().with_msgpack_allowlist(extra_allowlist))
        if clone is not self:
            clone._check_types_read()  # noqa: SLF001 - a copy of this very object
        return clone

    def allow(self, *types: type) -> None:
        """Keep objects of these types from now on."""
        self._listed.update((one.__module__, one.__name__) for one in types)

    def _check_types_read(self) -> None:
        """Put a check of the type in front of LangGraph's hook that constructs objects."""
        # The types that are allowed; LangGraph's hook looks into the same set.
        listed: set[tuple[str, ...]] = vars(self)["_allowed_msgpack_modules"]
        self._listed = listed
        construct: Callable[[int, bytes], Any] = create_hook(listed)

        def hook(code: int, data: bytes) -> Any:
            if code in _CONSTRUCTORS:
                named = _type_of(data)
                if named not in _SAFE and named not in listed:
                    if not _is_known_data_class(*named):
                        vars(self)["_unknown"] = named  # ormsgpack replaces the error by one of its own
                        raise ValueError(named)
                    listed.add(named)
            return construct(code, data)

        vars(self)["_unpack_ext_hook"] = hook

    def _require_allowed(self, data: bytes) -> None:
        """Check the types of all objects in encoded *data*.

        Raises:
            InvalidInputError: One is not allowed.
        """
        refused: list[tuple[str, str]] = []
        hook = partial(_collect_refused, self._listed, refused)
        ormsgpack.unpackb(data, ext_hook=hook, option=ormsgpack.OPT_NON_STR_KEYS)
        if refused:
            raise InvalidInputError(_how_to_allow(*refused[-1]), type=".".join(refused[-1]))


def _collect_refused(
    listed: Collection[tuple[str, ...]], refused: list[tuple[str, str]], code: int, part: bytes
) -> None:
    """Add the types in an extension that are not *listed* to *refused*.

    A hook that calls itself by its name would be a reference cycle, which each write to a thread leaves.
    """
    if code == _ARRAY:
        return
    hook = partial(_collect_refused, listed, refused)
    inner: Any = ormsgpack.unpackb(part, ext_hook=hook, option=ormsgpack.OPT_NON_STR_KEYS)
    if code in _CONSTRUCTORS or code == _METHOD:
        named = (str(inner[0]), str(inner[1]))
        safe = (*named, str(inner[3])) in _SAFE_METHODS if code == _METHOD else named in _SAFE
        if not safe and (code == _METHOD or named not in listed):
            refused.append(named)


def _type_of(data: bytes) -> tuple[str, str]:
    """Return the module and name that an extension begins with, without decoding the rest."""
    texts: list[str] = []
    position = 1
    for _ in range(2):
        head = data[position]
        if _FIXED_TEXT <= head < _FIXED_TEXT + 32:
            length, position = head - _FIXED_TEXT, position + 1
        elif head == _SHORT_TEXT:
            length, position = data[position + 1], position + 2
        else:
            return "?", "?"
        texts.append(data[position : position + length].decode("utf-8", "replace"))
        position += length
    return texts[0], texts[1]


def _is_known_data_class(module: str, name: str) -> bool:
    """Return whether an imported module has this class, and it only holds data."""
    found: object = getattr(sys.modules.get(module), name, None)
    if not isinstance(found, type):
        return False
    kept = cast("type[Any]", found)
    return dataclasses.is_dataclass(kept) or issubclass(kept, Enum) or hasattr(kept, "model_validate")


def _how_to_allow(module: str, name: str) -> str:
    return (
        f"The state holds an object of {module}.{name}, a type that checkpoints are not allowed to keep: it would be "
        f"read as plain data. Allow it with threadkeep.open(allowed_types=[{name}]) or THREADKEEP_ALLOWED_TYPES="
        f"{module}:{name}, or name it in the type of the graph's state."
    )


def patch_type_allowlist() -> None:
    """Make LangGraph tell a checkpointer the types of a graph's state when the graph is compiled.

    By default it does so only if ``LANGGRAPH_STRICT_MSGPACK`` was set before its first import. A checkpointer that is
    not strict ignores the list.

    Source:
        ``langgraph/graph/state.py`` (``compile``) and ``langgraph/pregel/main.py`` of LangGraph 1.2.
    """
    with suppress(ImportError):  # private: without it, ``allowed_types`` still works
        vars(import_module("langgraph._internal._serde"))["STRICT_MSGPACK_ENABLED"] = True


CHECKPOINTS: Final = ".checkpoints"
VALUES: Final = ".values"
HEAD: Final[tuple[Namespace, str]] = (".thread",), "head"

CHECKPOINT: Final = "checkpoint"
WRITE: Final = "write:"

INLINE_BYTES: Final = 2_048
"""Up to this size a value is stored in the checkpoint; a larger one is stored once and referred to."""

CHUNK_BYTES: Final = 4 * 1024 * 1024
"""How much data one item carries; every backend takes twice as much."""

_CHUNK: Final = "chunk:"

_order: Final = itertools.count((SystemClock().now() - datetime(2020, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1))
"""Numbers what tasks write, so that the order is known of what one commit stored; later processes go on from there."""

Entry: TypeAlias = tuple[int, str, str, bytes]
"""One write of a task: its index (negative for LangGraph's own channels), channel, encoding and data."""


class ValueRef(NamedTuple):
    """Where a large value is stored: the checkpoint that stored it, its encoding and its number of chunks."""

    checkpoint_id: str
    encoding: str
    chunks: int


StoredValues: TypeAlias = MutableMapping[tuple[str, str, str], ValueRef]
"""The large values that are stored already, by namespace, channel and version."""


class CheckpointPlace(NamedTuple):
    """The address of a checkpoint within its thread."""

    namespace: str
    checkpoint_id: str

    @property
    def path(self) -> Namespace:
        """The namespace of its items."""
        return (CHECKPOINTS, self.namespace, self.checkpoint_id)


def encode_checkpoint(
    namespace: str,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    *,
    parent_id: str,
    run: str,
    serde: SerializerProtocol,
    stored: StoredValues,
) -> list[Put]:
    """Return the puts that store *checkpoint*; large values that are *stored* already are not written again.

    Args:
        namespace: The checkpoint namespace.
        checkpoint: The checkpoint, as LangGraph gives it.
        metadata: Its metadata.
        parent_id: The checkpoint before it; ``""``: none.
        run: The run that writes it; ``""``: none.
        serde: Encodes values.
        stored: Gets the large values of this checkpoint, too.
    """
    puts: list[Put] = []
    inline: dict[str, tuple[str, bytes]] = {}
    refs: dict[str, Sequence[Any]] = {}
    versions = checkpoint["channel_versions"]
    for channel, value in checkpoint["channel_values"].items():
        known = (namespace, channel, str(versions.get(channel)))
        if known in stored:
            refs[channel] = stored[known]
            continue
        encoding, data = serde.dumps_typed(value)
        if len(data) <= INLINE_BYTES:
            inline[channel] = encoding, data
            continue
        chunks = to_puts((VALUES, namespace, channel), checkpoint["id"], {}, data)
        puts += chunks
        refs[channel] = stored[known] = ValueRef(checkpoint["id"], encoding, len(chunks))
    rest: dict[str, Any] = {**checkpoint}
    del rest["channel_values"]
    data = ormsgpack.packb([*serde.dumps_typed([rest, dict(metadata)]), inline])
    value: dict[str, Any] = {"parent": parent_id, "run": run}
    if refs:
        value["values"] = {channel: list(ref) for channel, ref in refs.items()}
    return [*to_puts((CHECKPOINTS, namespace, checkpoint["id"]), CHECKPOINT, value, data), *puts]


def encode_writes(
    place: CheckpointPlace,
    writes: Sequence[tuple[str, Any]],
    *,
    task_id: str,
    task_path: str,
    run: str,
    serde: SerializerProtocol,
    memory: bool = True,
) -> list[Put]:
    """Return the puts that store what a task wrote at once after the checkpoint at *place*.

    What it writes to LangGraph's own channels replaces what it wrote there before. Everything else gets an item of its
    own, and the first counts. What a run without *memory* writes stays marked as such, whatever replaces it.
    """
    entries: list[Entry] = [
        (WRITES_IDX_MAP.get(channel, index), channel, *serde.dumps_typed(value))
        for index, (channel, value) in enumerate(writes)
    ]
    channels = dict(writes)
    rest = ",".join(channels) if WRITES_IDX_MAP.keys() >= channels.keys() else new_id()
    value = {"task": task_id, "path": task_path, "run": run, "order": next(_order)}
    if not memory:
        value["memory"] = memory
        rest = f"{rest}:without-memory"
    return to_puts((CHECKPOINTS, *place), f"{WRITE}{task_id}:{rest}", value, ormsgpack.packb(entries))


def to_puts(namespace: Namespace, key: str, value: Mapping[str, Any], data: bytes) -> list[Put]:
    """Return the puts of one item; long data needs several."""
    if len(data) <= CHUNK_BYTES:
        return [Put(namespace, key, value, data=data)]
    parts = [data[start : start + CHUNK_BYTES] for start in range(0, len(data), CHUNK_BYTES)]
    first = Put(namespace, key, {**value, "chunks": len(parts)}, data=parts[0])
    return [first, *(Put(namespace, _chunk(key, number), {}, data=part) for number, part in enumerate(parts[1:], 1))]


def value_refs(partition: Partition, namespace: str, channel: str, ref: Sequence[Any]) -> list[Ref]:
    """Return the refs of all chunks of a large value."""
    checkpoint_id, _, chunks = ref
    path = (VALUES, namespace, channel)
    return [Ref(partition, path, checkpoint_id)] + [
        Ref(partition, path, _chunk(checkpoint_id, number)) for number in range(1, chunks)
    ]


def _chunk(key: str, number: int) -> str:
    return f"{_CHUNK}{number}:{key}"


@dataclass(slots=True)
class StoredCheckpoint:
    """The items of one checkpoint.

    Attributes:
        place: Its address.
        item: The checkpoint's item.
        writes: The items of its writes.
        chunks: Further chunks of these, by their keys.
    """

    place: CheckpointPlace
    item: Item
    writes: list[Item] = field(default_factory=list[Item])
    chunks: dict[str, bytes] = field(default_factory=dict[str, bytes])

    @property
    def parent_id(self) -> str:
        """The checkpoint before it; ``""``: none."""
        return str(self.item.value.get("parent", ""))

    @property
    def refs(self) -> Mapping[str, Sequence[Any]]:
        """The :class:`ValueRef` of each channel with a large value."""
        return self.item.value.get("values", {})

    @property
    def size_bytes(self) -> int:
        """The bytes of its items, without the large values it refers to."""
        items = [self.item, *self.writes]
        return sum(len(item.data or b"") for item in items) + sum(map(len, self.chunks.values()))

    @property
    def written(self) -> list[tuple[Item, Entry]]:
        """What tasks wrote: of an index of a task the first, of LangGraph's own channels the last; each with its item.

        Raises:
            DamagedItemError: It cannot be read.
        """
        entries: dict[tuple[str, int], tuple[Item, Entry]] = {}
        for item in sorted(self.writes, key=_written_order) if len(self.writes) > 1 else self.writes:
            for entry in _parse_entries(self._data(item)):
                place = str(item.value["task"]), entry[0]
                if entry[0] < 0 or place not in entries:
                    entries[place] = item, entry
        return [*entries.values()]

    @property
    def all_with_memory(self) -> bool:
        """Whether every run that wrote something after it used memory."""
        return all(item.value.get("memory", True) for item in self.writes)

    def note_values(self, stored: StoredValues, versions: ChannelVersions) -> None:
        """Add to *stored* the large values that this checkpoint refers to."""
        for channel, ref in self.refs.items():
            stored[self.place.namespace, channel, str(versions.get(channel))] = ValueRef(*ref)

    def read(self, serde: SerializerProtocol) -> tuple[Checkpoint, CheckpointMetadata, dict[str, tuple[str, bytes]]]:
        """Return the checkpoint without its values, its metadata, and its small values, encoded.

        Raises:
            DamagedItemError: It cannot be read.
        """
        data = self._data(self.item)
        try:
            encoding, rest, inline = ormsgpack.unpackb(data)
            checkpoint, metadata = serde.loads_typed((encoding, rest))
        except (ValueError, TypeError) as error:
            raise damaged() from error
        return checkpoint, metadata, inline

    def pending_writes(self, serde: SerializerProtocol) -> list[tuple[str, str, Any]]:
        """Return what tasks wrote after it, in the order in which LangGraph applies it."""
        if not self.writes:
            return []
        written = [(str(item.value["path"]), str(item.value["task"]), *entry) for item, entry in self.written]
        written.sort(key=lambda one: writes_sort_key(*one[:3]))
        return [(task, channel, serde.loads_typed((encoding, data))) for _, task, _, channel, encoding, data in written]

    def to_tuple(
        self, thread_id: str, serde: SerializerProtocol, values: Mapping[str, tuple[str, bytes]]
    ) -> CheckpointTuple:
        """Return the checkpoint as LangGraph reads it.

        Args:
            thread_id: The id of the thread as the application gave it.
            serde: Decodes.
            values: Its large values, encoded, by channel.
        """
        checkpoint, metadata, inline = self.read(serde)
        namespace, parent_id = self.place.namespace, self.parent_id
        encoded = {**inline, **values}
        checkpoint["channel_values"] = {
            channel: serde.loads_typed((encoding, data)) for channel, (encoding, data) in encoded.items()
        }
        return CheckpointTuple(
            config_of(thread_id, self.place),
            checkpoint,
            metadata,
            config_of(thread_id, CheckpointPlace(namespace, parent_id)) if parent_id else None,
            self.pending_writes(serde),
        )

    def _data(self, item: Item) -> bytes:
        data = item.data or b""
        if "chunks" in item.value:
            keys = (_chunk(item.ref.key, number) for number in range(1, int(item.value["chunks"])))
            data += b"".join(self.chunks.get(key, b"") for key in keys)
        return data


def _written_order(item: Item) -> tuple[int, int]:
    return item.revision, item.value.get("order", 0)


def _parse_entries(data: bytes) -> list[Entry]:
    try:
        return [cast("Entry", tuple(entry)) for entry in ormsgpack.unpackb(data)]
    except (ValueError, TypeError) as error:
        raise damaged() from error


def group_items(items: Iterable[Item]) -> dict[CheckpointPlace, StoredCheckpoint]:
    """Return the checkpoints among *items*; writes without a checkpoint are left out."""
    checkpoints: dict[CheckpointPlace, StoredCheckpoint] = {}
    others: list[tuple[CheckpointPlace, Item]] = []
    for item in items:
        _, namespace, checkpoint_id = item.ref.namespace
        place = CheckpointPlace(namespace, checkpoint_id)
        if item.ref.key == CHECKPOINT:
            checkpoints[place] = StoredCheckpoint(place, item)
        else:
            others.append((place, item))
    for place, item in others:
        stored = checkpoints.get(place)
        if stored is None:
            continue
        key = item.ref.key
        if key.startswith(_CHUNK):
            stored.chunks[key] = item.data or b""
        else:
            stored.writes.append(item)
    return checkpoints


def config_of(thread_id: str, place: CheckpointPlace) -> RunnableConfig:
    """Return the config that addresses a checkpoint."""
    return {
        "configurable": {
            "thread_id": thread_id,
            "checkpoint_ns": place.namespace,
            "checkpoint_id": place.checkpoint_id,
        }
    }


def damaged() -> DamagedItemError:
    """Return the error for a checkpoint that cannot be read."""
    return DamagedItemError("A checkpoint cannot be read: it is damaged; restore it from a backup, or delete it.")
