"""The seam: items in namespaces, partitioned, with revisions, committed in atomic batches.

Everything that is not a checkpoint is an item, so a backend is written once and every feature works
on every backend. The docstrings here are the specification; ``threadkeep.testing.storage_contract``
is the suite that every backend passes unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Final, Literal, Protocol, TypeAlias, runtime_checkable

from threadkeep.ids import digest

Namespace: TypeAlias = tuple[str, ...]
Filter: TypeAlias = Mapping[str, Any]
Expectation: TypeAlias = int | Literal["any", "absent"]
Direction: TypeAlias = Literal["newest", "oldest"]

MAX_KEY_CHARACTERS: Final = 10_000
MAX_NAMESPACE_CHARACTERS: Final = 50_000
MAX_VALUE_BYTES: Final = 4 * 1024 * 1024
MAX_BATCH_OPERATIONS: Final = 10_000
MAX_BATCH_BYTES: Final = 256 * 1024 * 1024
MAX_CHANGE_LOG_ROWS: Final = 10_000


@dataclass(frozen=True)
class Partition:
    """What a commit is atomic in: an owner, a collection, or the root label of other namespaces.

    Attributes:
        kind: ``owner``, ``collection`` or ``root``.
        parts: What tells it from the others of its kind, e.g. ``(tenant, user_id)``.
    """

    kind: Literal["owner", "collection", "root"]
    parts: tuple[str, ...]

    @cached_property
    def digest(self) -> bytes:
        """32 bytes that lead every key of this partition."""
        return digest(self.kind, *self.parts)


@dataclass(frozen=True, slots=True)
class Ref:
    """Where an item is. A namespace whose first label begins with ``.`` is internal to Threadkeep."""

    partition: Partition
    namespace: Namespace
    key: str


@dataclass(frozen=True, slots=True)
class Embedding:
    """The vectors of an item's searchable texts, opaque to a backend.

    Attributes:
        model: Name of the embedder that made them; vectors of different models are never compared.
        dims: Length of each vector.
        data: ``float32``, little-endian, row-major, shape ``(texts, dims)``; rows have unit length.
    """

    model: str
    dims: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Due:
    """Work that waits: :meth:`Storage.due` finds it by *kind* from *at* on."""

    kind: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Item:
    """One stored row.

    Attributes:
        ref: Where it is.
        value: A JSON object; what a reader does to it changes nothing stored.
        revision: The partition's sequence when it was last written; never used twice in a partition.
        created_at: When the key first appeared; kept by later puts.
        updated_at: When its value was last put.
        index: Paths of *value* whose texts are searchable; empty: not searchable.
        embedding: Vectors of those texts, in the same order; ``None`` where no embedder answered.
        ttl: How long it lives after a put or a touch; ``None``: for ever.
        expires_at: When it ceases to be seen.
        due: The work that it stands for.
    """

    ref: Ref
    value: dict[str, Any]
    revision: int
    created_at: datetime
    updated_at: datetime
    index: tuple[str, ...] = ()
    embedding: Embedding | None = None
    ttl: timedelta | None = None
    expires_at: datetime | None = None
    due: Due | None = None


@dataclass(frozen=True, slots=True)
class Put:
    """Write an item whole: what is not given here is not kept from before, but for *created_at*.

    Attributes:
        namespace: 0 or more labels, any text each.
        key: Any text.
        value: A JSON object: text keys, no NaN, no infinity.
        index: See :class:`Item`.
        embedding: See :class:`Item`.
        ttl: See :class:`Item`; ``expires_at`` becomes the storage's time plus this.
        due: See :class:`Item`.
        expect: What must be there: ``any``, ``absent`` (an expired item counts as absent), or a revision.
        created_at: Overrides the time of creation (imports); ``None``: kept, or now.
        updated_at: Overrides the time of the put (copies); ``None``: now.
        expires_at: Overrides what *ttl*, which must be given, makes of the time (copies).
    """

    namespace: Namespace
    key: str
    value: Mapping[str, Any]
    index: tuple[str, ...] = ()
    embedding: Embedding | None = None
    ttl: timedelta | None = None
    due: Due | None = None
    expect: Expectation = "any"
    created_at: datetime | None = None
    updated_at: datetime | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove an item physically; with ``expect="any"`` it need not be there."""

    namespace: Namespace
    key: str
    expect: Expectation = "any"


@dataclass(frozen=True, slots=True)
class Touch:
    """Let an item live its ``ttl`` once more from now; value and ``updated_at`` stay. Absent: nothing."""

    namespace: Namespace
    key: str


Operation: TypeAlias = Put | Delete | Touch


@dataclass(frozen=True, slots=True)
class Batch:
    """Operations on one partition: all or nothing.

    Attributes:
        partition: What they belong to.
        operations: At most one for each namespace and key; 1–10,000.
        epoch: The epoch that the work began in; where it is given and the partition was erased
            since, the commit is refused. ``None``: whichever epoch it is now.
    """

    partition: Partition
    operations: Sequence[Operation]
    epoch: str | None = None


@dataclass(frozen=True, slots=True)
class Position:
    """How far a partition has come: *epoch* changes when it is erased, *sequence* with each commit."""

    epoch: str
    sequence: int


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a scan; *after* continues it, ``None`` at the end."""

    items: tuple[Item, ...]
    after: str | None


@dataclass(frozen=True, slots=True)
class Changes:
    """What has happened to the searchable items of a partition.

    Attributes:
        position: Ask for what comes after it next time.
        reset: Forget what you have: *puts* is everything there is.
        puts: Searchable items written since, in the order of their revisions: a tuple, or, where there
            are many, a sequence that makes them as it is read. An item is there once.
        removed: What was deleted since, or written without an index; apply before *puts*.
    """

    position: Position
    reset: bool
    puts: Sequence[Item]
    removed: tuple[tuple[Namespace, str], ...]


@dataclass(frozen=True, slots=True)
class NamespaceMatch:
    """A condition on a namespace: its beginning or end equals *path*, where ``*`` is any one label."""

    where: Literal["prefix", "suffix"]
    path: Namespace


@dataclass(frozen=True, slots=True)
class Stats:
    """How much a storage holds: rows and bytes (``None`` where the backend cannot tell)."""

    partitions: int
    items: int
    size_bytes: int | None


class Storage(Protocol):
    """Where items are kept.

    A backend is constructed without I/O from its location, a key prefix and a :class:`Clock`; two
    storages with different key prefixes on one server share nothing, in any method. Every method
    raises ``StorageError`` or one below it for what the driver raises; a method that raised has
    changed nothing, but for ``StorageUnavailableError`` from :meth:`commit` on a networked backend,
    after which a reader may find the batch applied. Safe for concurrent use from one event loop,
    and several processes may share one location.
    """

    name: str
    """``memory``, ``sqlite``, …"""

    location: str
    """Where it is, for people: a path or a URL with the password masked."""

    async def connect(self) -> None:
        """Open, create or migrate what is needed; the second call does nothing.

        Raises:
            NotAStorageError: Something else is there; it was not touched.
            StorageVersionError: A newer version wrote it.
            StorageReadOnlyError, StorageFullError, StorageUnavailableError: As they say.
        """
        ...

    async def close(self) -> None:
        """Let go of connections and threads; the second call does nothing."""
        ...

    async def get(self, refs: Sequence[Ref]) -> tuple[Item | None, ...]:
        """Return the items at *refs*, in the order asked, ``None`` where there is none or it has expired.

        The refs may name several partitions; items of one partition are of one moment.
        """
        ...

    async def commit(self, batch: Batch) -> Position:
        """Apply a batch: all of it or nothing, checked and written in one step.

        The partition's sequence moves by one, and every item that the batch puts or touches has
        that number as its revision. When this returns, the batch is durable and every later read,
        by any process, sees it.

        Raises:
            RevisionConflictError: An expectation is not met.
            PartitionErasedError: ``batch.epoch`` is not the partition's.
            InvalidInputError, TooLargeError: The batch cannot be kept on any backend.
        """
        ...

    async def position(self, partition: Partition) -> Position:
        """Return how far *partition* has come; one that was never written to has an epoch, too."""
        ...

    async def scan(
        self,
        partition: Partition,
        *,
        prefix: Namespace = (),
        filter: Filter | None = None,  # noqa: A002 - the field's name for it
        direction: Direction = "newest",
        after: str | None = None,
        limit: int = 100,
    ) -> Page:
        """Return items whose namespace begins with the labels *prefix* and whose value meets *filter*.

        The order is total: by ``updated_at``, then revision, namespace and key. Labels match whole
        (``("user1",)`` never finds ``("user10",)``). Paging with *after* repeats nothing and leaves
        out nothing that was not written meanwhile, however far it goes. ``limit=0`` gives an empty
        page. The filter's rules are those of :func:`threadkeep.storage.matching.matches`.
        """
        ...

    async def changes(self, partition: Partition, since: Position | None) -> Changes:
        """Return what happened to the searchable items of *partition* after *since*, of one moment.

        ``since=None``, another epoch, or a change log that no longer reaches back gives a reset.
        Expired items are not among the puts; a consumer also tests ``expires_at`` by its own clock.
        Where nothing happened, it costs one small read.
        """
        ...

    async def namespaces(
        self,
        *,
        match: Sequence[NamespaceMatch] = (),
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> tuple[Namespace, ...]:
        """Return the distinct namespaces that hold an unexpired item and meet every condition, sorted.

        With *max_depth* they are cut to so many labels first and then made distinct. Internal
        namespaces are left out. Service role: it sees every partition.
        """
        ...

    async def partitions(self, *, after: Partition | None = None, limit: int = 100) -> tuple[Partition, ...]:
        """Return partitions that were written to and not erased since, as :meth:`stats` counts them.

        The order is the storage's own and never changes, so asking again with the last one as *after*
        continues it; that one need not be there any more. Service role.
        """
        ...

    async def due(self, kind: str, *, now: datetime, limit: int) -> tuple[Item, ...]:
        """Return unexpired items whose ``due`` is of *kind* and not later than *now*, longest due first.

        Service role: across partitions. May repeat what another process is about to finish, never
        misses.
        """
        ...

    async def erase(self, partition: Partition) -> int:
        """Remove everything of *partition* physically; return how many items there were.

        What stays is one row: the digest, a new epoch and the sequence, so that writes of work in
        flight are refused. The spelling of the partition goes, too.
        """
        ...

    async def sweep(self, *, now: datetime) -> int:
        """Remove items that expired by *now* physically; return how many. Service role."""
        ...

    async def stats(self) -> Stats:
        """Return how much there is. Service role."""
        ...


@runtime_checkable
class Telling(Protocol):
    """A storage in this process or file, which can tell a little without being waited for.

    It is asked from any thread, while the event loop is at other methods.
    """

    def standing(self, partition: Partition) -> Position | None:
        """Return what ``position`` would; ``None`` where that cannot be told at once."""
        ...

    def stands_at(self, partition: Partition, position: Position) -> bool:
        """Return whether *partition* is at *position* now; ``False``, too, where that cannot be told at once."""
        ...

    def get_at_once(self, refs: Sequence[Ref]) -> tuple[Item | None, ...] | None:
        """Return what ``get`` would of a few *refs*, all of one moment; ``None`` where that cannot be told at once."""
        ...


@runtime_checkable
class Spanning(Protocol):
    """A storage that can write to several partitions in one step."""

    async def commit_all(self, batches: Sequence[Batch]) -> tuple[Position, ...]:
        """Apply batches, in their order: all of them or nothing, and otherwise as ``commit`` does each.

        Raises:
            RevisionConflictError, PartitionErasedError, InvalidInputError, TooLargeError: What ``commit`` would
                raise for one of them; none was applied.
        """
        ...


@runtime_checkable
class Advising(Protocol):
    """A storage on a server that other people set up, and that tells what they should change."""

    async def advice(self) -> Sequence[str]:
        """Return what would lose acknowledged writes or open a partition to others, a sentence or two for each.

        Nothing to say is nothing. It needs no right that reading and writing do not.
        """
        ...
