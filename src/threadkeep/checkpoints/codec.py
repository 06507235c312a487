"""Checkpoints and writes as items: what is encoded, under which namespace and key, and how it is read again.

A thread is a partition. Its items are

- ``(".thread",)``, ``head``: the :class:`~threadkeep.checkpoints.head.Head`;
- ``(".checkpoints", namespace, checkpoint id)``, ``checkpoint``: a checkpoint with its metadata and small values;
- ``(".checkpoints", namespace, checkpoint id)``, ``write:<task>:…``: what a task wrote at once after that checkpoint;
- ``(".values", namespace, channel)``, checkpoint id: a large value, stored once by the first checkpoint that has it.

Data that is longer than :data:`CHUNK_BYTES` continues in items with the keys ``chunk:1:<key>``, ``chunk:2:<key>``, …
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, cast

import ormsgpack
from langgraph.checkpoint.base import WRITES_IDX_MAP, CheckpointTuple, writes_sort_key
from langgraph.checkpoint.serde.types import TASKS
from langgraph.constants import START

from threadkeep.clock import SystemClock
from threadkeep.errors import DamagedItemError
from threadkeep.ids import new_id
from threadkeep.storage.interface import Item, Namespace, Partition, Put, Ref

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata
    from langgraph.checkpoint.serde.base import SerializerProtocol

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

_TRIGGERS: Final = (START, TASKS, "branch:", "join:")
"""How the channels begin that make a node of a ``StateGraph`` run in the next step."""

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
    rest = {name: value for name, value in checkpoint.items() if name != "channel_values"}
    data = ormsgpack.packb([*serde.dumps_typed([rest, dict(metadata)]), inline])
    value: dict[str, Any] = {"parent": parent_id, "run": run}
    if refs:
        value["values"] = {channel: list(ref) for channel, ref in refs.items()}
    return [*to_puts(CheckpointPlace(namespace, checkpoint["id"]).path, CHECKPOINT, value, data), *puts]


def ends_run(checkpoint: Checkpoint) -> bool:
    """Return whether *checkpoint* is a ``StateGraph``'s after which no node runs; of other graphs that is not known."""
    triggers = map(str.startswith, checkpoint["channel_values"], itertools.repeat(_TRIGGERS))
    return START in checkpoint["versions_seen"] and not any(triggers)


def encode_writes(
    place: CheckpointPlace,
    writes: Sequence[tuple[str, Any]],
    *,
    task_id: str,
    task_path: str,
    run: str,
    serde: SerializerProtocol,
) -> list[Put]:
    """Return the puts that store what a task wrote at once after the checkpoint at *place*.

    What it writes to LangGraph's own channels replaces what it wrote there before. Everything else gets an item of its
    own, and the first counts.
    """
    entries: list[Entry] = [
        (WRITES_IDX_MAP.get(channel, index), channel, *serde.dumps_typed(value))
        for index, (channel, value) in enumerate(writes)
    ]
    channels = [channel for channel, _ in writes]
    special = WRITES_IDX_MAP.keys() >= {*channels}
    rest = ",".join(channels) if special else new_id()
    value = {"task": task_id, "path": task_path, "run": run, "order": next(_order)}
    return to_puts(place.path, f"{WRITE}{task_id}:{rest}", value, ormsgpack.packb(entries))


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
                place = task_of(item), entry[0]
                if entry[0] < 0 or place not in entries:
                    entries[place] = item, entry
        return [*entries.values()]

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
        written = self.written
        written.sort(key=lambda one: writes_sort_key(str(one[0].value.get("path", "")), task_of(one[0]), one[1][0]))
        return [
            (task_of(item), channel, serde.loads_typed((encoding, data)))
            for item, (_, channel, encoding, data) in written
        ]

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


def task_of(item: Item) -> str:
    """Return the task that wrote an item; earlier versions kept all that a task wrote in one."""
    return item.value.get("task") or item.ref.key.removeprefix(WRITE)


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
