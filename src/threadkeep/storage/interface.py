"""The storage interface: items in namespaces, partitioned, with revisions, committed in atomic batches.

Everything that is not a checkpoint is an item, so a backend is written once and every feature works
on every backend. The docstrings here are the specification; ``threadkeep.testing.storage_contract``
is the suite that every backend passes unchanged.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, runtime_checkable

from threadkeep.ids import Namespace, Partition

if TYPE_CHECKING:
    from threadkeep.concurrency import PriorityGate

Filter: TypeAlias = Mapping[str, Any]
Expectation: TypeAlias = int | Literal["any", "absent"]
Direction: TypeAlias = Literal["newest", "oldest"]

MAX_KEY_CHARACTERS: Final = 10_000
MAX_NAMESPACE_CHARACTERS: Final = 50_000
MAX_VALUE_BYTES: Final = 4 * 1024 * 1024
MAX_DATA_BYTES: Final = 8 * 1024 * 1024
MAX_BATCH_OPERATIONS: Final = 10_000
MAX_BATCH_BYTES: Final = 256 * 1024 * 1024
MAX_CHANGE_LOG_ROWS: Final = 10_000

PAGE_SIZE: Final = 200
"""How many items or partitions the iterators below read at a time."""


@dataclass(frozen=True, slots=True)
class Ref:
    """The address of an item. Namespaces with a first label that begins with ``.`` are internal to Threadkeep."""

    partition: Partition
    namespace: Namespace
    key: str


@dataclass(frozen=True, slots=True)
class Embedding:
    """The vectors of an item's searchable texts, opaque to a backend.

    Attributes:
        model: The name of the embedding model; vectors of different models are never compared.
        dims: Length of each vector.
        data: ``float32``, little-endian, row-major, shape ``(texts, dims)``; rows have unit length.
    """

    model: str
    dims: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Due:
    """Scheduled work: :meth:`Storage.due` returns the item by *kind* from *at* on."""

    kind: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Item:
    """One stored row.

    Attributes:
        ref: Its address.
        value: A JSON object; changing it does not change what is stored.
        revision: The partition's sequence when the item was last written; unique in a partition.
        created_at: When the key was first put; later puts keep it.
        updated_at: When the value was last put.
        index: Paths of the searchable texts in *value*; empty: not searchable.
        embedding: Vectors of those texts, in the same order; ``None`` if there is none.
        ttl: How long the item lives after a put or a touch; ``None``: it does not expire.
        expires_at: When it expires; expired items are not returned.
        due: The work that is scheduled with it.
        data: Bytes beside the value, stored as such; ``None``: there are none.
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
    data: bytes | None = None


@dataclass(frozen=True, slots=True)
class Put:
    """Write a whole item: fields that are left out are not kept from before, except *created_at*.

    Attributes:
        namespace: 0 or more labels, any string each.
        key: Any string.
        value: A JSON object: string keys, no NaN, no infinity.
        index: See :class:`Item`.
        embedding: See :class:`Item`.
        ttl: See :class:`Item`; ``expires_at`` becomes the storage's time plus this.
        due: See :class:`Item`.
        expect: The required state: ``any``, ``absent`` (an expired item counts as absent), or a revision.
        created_at: Overrides the time of creation (imports); ``None``: kept, or now.
        updated_at: Overrides the time of the put (copies); ``None``: now.
        expires_at: Overrides the expiry (copies); requires *ttl*.
        data: See :class:`Item`; at most 8 MiB.
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
    data: bytes | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete an item physically; with ``expect="any"`` it may be missing."""

    namespace: Namespace
    key: str
    expect: Expectation = "any"


@dataclass(frozen=True, slots=True)
class Touch:
    """Renew an item's expiry by its ``ttl``; value and ``updated_at`` stay. A missing item is ignored."""

    namespace: Namespace
    key: str


Operation: TypeAlias = Put | Delete | Touch


@dataclass(frozen=True, slots=True)
class Batch:
    """Operations on one partition: all or nothing.

    Attributes:
        partition: The partition of all operations.
        operations: At most one for each namespace and key; 1–10,000.
        epoch: The epoch in which the work began; if the partition was erased since, the commit is refused.
            ``None``: the current epoch.
    """

    partition: Partition
    operations: Sequence[Operation]
    epoch: str | None = None


@dataclass(frozen=True, slots=True)
class Position:
    """The state of a partition: *epoch* changes when it is erased, *sequence* with each commit."""

    epoch: str
    sequence: int


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a scan; *after* continues it, ``None`` at the end."""

    items: tuple[Item, ...]
    after: str | None


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes of a partition's searchable items.

    Attributes:
        position: The position to pass as ``since`` next time.
        reset: Whether *puts* are all searchable items, so that a follower drops what it has.
        puts: Searchable items written since, in the order of their revisions: a tuple, or, if there
            are many, a sequence that parses them when it is read. Each item occurs once.
        removed: Items deleted since, or written without an index; apply them before *puts*.
    """

    position: Position
    reset: bool
    puts: Sequence[Item]
    removed: tuple[tuple[Namespace, str], ...]


@dataclass(frozen=True, slots=True)
class NamespaceMatch:
    """A condition on a namespace: its beginning or end equals *path*, where ``*`` matches one label."""

    where: Literal["prefix", "suffix"]
    path: Namespace


@dataclass(frozen=True, slots=True)
class Stats:
    """The size of a storage: rows and bytes (``None`` if the backend does not know)."""

    partitions: int
    items: int
    size_bytes: int | None


class Storage(Protocol):
    """Stores items. A backend derives from :class:`threadkeep.storage.base.StorageBase`.

    A backend is constructed without I/O from its location, a key prefix and a :class:`Clock`; two
    storages with different key prefixes on one server share nothing, in any method. Every method
    raises ``StorageError`` or a subclass for a driver's error; a method that raised has changed
    nothing, except that after ``StorageUnavailableError`` from :meth:`commit` on a networked backend
    the batch may have been applied. Safe for concurrent use from one event loop, and several
    processes may share one location.
    """

    name: str
    """``memory``, ``sqlite``, …"""

    location: str
    """A path, or a URL with the password masked, for messages."""

    @property
    def gate(self) -> PriorityGate | None:
        """What grants connections by priority; ``None``: calls do not wait for one."""
        ...

    async def connect(self) -> None:
        """Open, create or migrate what is needed; the second call does nothing.

        Raises:
            NotAStorageError: The location holds something else; it was not touched.
            StorageVersionError: A newer version wrote it.
            StorageReadOnlyError, StorageFullError, StorageUnavailableError: See there.
        """
        ...

    async def close(self) -> None:
        """Release connections and threads; the second call does nothing."""
        ...

    async def get(self, refs: Sequence[Ref]) -> tuple[Item | None, ...]:
        """Return the items at *refs*, in their order, ``None`` for one that is missing or expired.

        The refs may name several partitions; items of one partition are of one moment.
        """
        ...

    async def commit(self, batch: Batch) -> Position:
        """Apply a batch, all of it or nothing; expectations are checked in the same transaction.

        The partition's sequence moves by one, and every item that the batch puts or touches has
        that number as its revision. When this returns, the batch is durable and every later read,
        by any process, sees it.

        Raises:
            RevisionConflictError: An expectation is not met.
            PartitionErasedError: ``batch.epoch`` is not the partition's.
            InvalidInputError, TooLargeError: No backend can store the batch.
        """
        ...

    async def position(self, partition: Partition) -> Position:
        """Return the position of *partition*; one that was never written to has an epoch, too."""
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
        """Return items with a namespace that begins with the labels *prefix*, and a value that meets *filter*.

        The order is total: by ``updated_at``, then revision, namespace and key. Labels match whole
        (``("user1",)`` does not match ``("user10",)``). Paging with *after* repeats no item and skips
        only items that are written in between. ``limit=0`` returns an empty page. For the filter, see
        :func:`threadkeep.storage.encoding.matches`.
        """
        ...

    async def changes(self, partition: Partition, since: Position | None) -> Changes:
        """Return the changes of *partition*'s searchable items after *since*, as of one moment.

        The result is a reset for ``since=None``, another epoch, or a change log that does not reach back.
        Expired items are not among the puts; a consumer also checks ``expires_at`` against its own clock.
        Without changes it costs one small read.
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

        With *max_depth* they are cut to that many labels before duplicates are removed. Internal
        namespaces are left out. Service role: across partitions.
        """
        ...

    async def partitions(self, *, after: Partition | None = None, limit: int = 100) -> tuple[Partition, ...]:
        """Return partitions that were written to and not erased since, as :meth:`stats` counts them.

        The order is the storage's own and stable: pass the last one as *after* to continue, even if it was
        erased. Service role.
        """
        ...

    async def due(self, kind: str, *, now: datetime, limit: int) -> tuple[Item, ...]:
        """Return unexpired items with due work of *kind*, longest due first.

        Service role: across partitions. The result may include work that another process is finishing;
        it omits none.
        """
        ...

    async def erase(self, partition: Partition) -> int:
        """Delete everything of *partition* physically; return how many items there were.

        One row stays: the digest, a new epoch and the sequence, so that later writes with the old epoch
        are refused. The name of the partition is deleted, too.
        """
        ...

    async def sweep(self, *, now: datetime) -> int:
        """Delete items that expired by *now* physically; return how many. Service role."""
        ...

    async def scrub(self, *, rewrite: bool = False) -> None:
        """Remove what was deleted from logs of the storage, where no query reads it; soon, if a reader prevents it.

        A file may also hold copies of deleted rows in its pages. They go some minutes later and when the storage is
        closed; with *rewrite*, now: the file is rewritten, and commits wait for that.
        """
        ...

    async def stats(self) -> Stats:
        """Return how much the storage holds. Service role."""
        ...


@runtime_checkable
class ImmediateReads(Protocol):
    """A storage in this process or in a file, which can do small reads synchronously.

    The methods may be called from any thread, while the event loop runs other methods.
    """

    def try_position(self, partition: Partition) -> Position | None:
        """Return the position of *partition*; ``None`` if it cannot be read now: then await ``position``."""
        ...

    def is_at(self, partition: Partition, position: Position) -> bool:
        """Return whether *partition* is at *position*; also ``False`` if that cannot be read now."""
        ...

    def try_get(self, refs: Sequence[Ref]) -> tuple[Item | None, ...] | None:
        """Return the items at a few *refs*, as of one moment; ``None`` if they cannot be read now."""
        ...


@runtime_checkable
class MultiPartitionCommits(Protocol):
    """A storage that can commit to several partitions in one transaction."""

    async def commit_all(self, batches: Sequence[Batch]) -> tuple[Position, ...]:
        """Apply batches in their order, all of them or nothing, each as ``commit`` does.

        Raises:
            RevisionConflictError, PartitionErasedError, InvalidInputError, TooLargeError: See ``commit``; none
                was applied.
        """
        ...


@runtime_checkable
class ServerAdvice(Protocol):
    """A storage that checks how its server is set up."""

    async def advice(self) -> Sequence[str]:
        """Return a sentence or two for each server setting that can lose acknowledged writes or weaken isolation.

        It needs no more rights than reading and writing.
        """
        ...


@dataclass(frozen=True, slots=True)
class DatabaseUser:
    """The user that a storage works as.

    Attributes:
        name: Its name at the server.
        bypasses: Whether row-level security does not hold it, as a superuser.
        changes_tables: Whether it owns the tables, so that it may change and remove them.
        clock_ahead_seconds: How far the server's clock is ahead of this process's.
    """

    name: str
    bypasses: bool
    changes_tables: bool
    clock_ahead_seconds: float


@runtime_checkable
class ServerUsers(Protocol):
    """A storage on a server that knows users with different rights."""

    async def user(self) -> DatabaseUser:
        """Return the user that this storage works as."""
        ...

    async def admit(self, url: str) -> str:
        """Let the user of *url* read and write items, without any right to change tables; return its name.

        Raises:
            StorageDeniedError: The user of this storage may not do that; the message has the statement.
        """
        ...


def same_put(item: Item) -> Put:
    """Return the put that writes *item* as it is, its times included; it expects the item's revision."""
    return Put(
        item.ref.namespace,
        item.ref.key,
        item.value,
        index=item.index,
        embedding=item.embedding,
        ttl=item.ttl,
        due=item.due,
        expect=item.revision,
        created_at=item.created_at,
        updated_at=item.updated_at,
        expires_at=item.expires_at,
        data=item.data,
    )


async def iterate_pages(
    storage: Storage, partition: Partition, *, prefix: Namespace = (), direction: Direction = "newest"
) -> AsyncGenerator[tuple[Item, ...]]:
    """Yield the items of *partition* below *prefix*, a page at a time; no page is empty.

    Items that are written meanwhile may be left out.
    """
    after: str | None = None
    while True:
        page = await storage.scan(partition, prefix=prefix, direction=direction, after=after, limit=PAGE_SIZE)
        if page.items:
            yield page.items
        if page.after is None:
            return
        after = page.after


async def read_items(storage: Storage, partition: Partition, *, prefix: Namespace) -> list[Item]:
    """Return all items of *partition* below *prefix*, newest first; of a namespace that holds few."""
    page = await storage.scan(partition, prefix=prefix, limit=PAGE_SIZE)
    items = list(page.items)
    while page.after is not None:
        page = await storage.scan(partition, prefix=prefix, after=page.after, limit=PAGE_SIZE)
        items += page.items
    return items


async def iterate_items(
    storage: Storage, partition: Partition, *, prefix: Namespace = (), direction: Direction = "newest"
) -> AsyncGenerator[Item]:
    """Yield the items of *partition* below *prefix*."""
    async with aclosing(iterate_pages(storage, partition, prefix=prefix, direction=direction)) as pages:
        async for page in pages:
            for item in page:
                yield item


async def iterate_partitions(storage: Storage) -> AsyncGenerator[Partition]:
    """Yield every partition of *storage*, in the storage's order."""
    after: Partition | None = None
    while partitions := await storage.partitions(after=after, limit=PAGE_SIZE):
        for partition in partitions:
            yield partition
        after = partitions[-1]
