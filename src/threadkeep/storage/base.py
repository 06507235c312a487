"""The base class of every backend: it checks, encodes and pages once, and a backend moves rows.

A backend derives from :class:`StorageBase`, passes its location and clock to ``super().__init__``, and
implements the hooks, which are the abstract methods below. Hooks get checked and encoded arguments and
times in microseconds since 1970. Their docstrings say what they return. A hook raises ``StorageError`` or
a subclass of it for what its driver raises.

:class:`CallRunner` is for backends on a network: it runs a call to its end although its caller is
cancelled, and repeats a call after a lost connection.
"""

from __future__ import annotations

import asyncio
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar

from threadkeep.clock import Clock
from threadkeep.concurrency import PriorityGate, asking
from threadkeep.errors import ClosedError
from threadkeep.event_loop import start_background
from threadkeep.storage.encoding import (
    EPOCH,
    MICROSECOND,
    Cursor,
    check_filter,
    check_limit,
    decode_cursor,
    distinct_namespaces,
    encode_cursor,
    encode_text,
    meets,
    prefix_range,
    to_micros,
)
from threadkeep.storage.interface import (
    Batch,
    Changes,
    Direction,
    Filter,
    Item,
    Namespace,
    NamespaceMatch,
    Page,
    Partition,
    Position,
    Ref,
    Stats,
)
from threadkeep.storage.rows import (
    EXPIRES_AT,
    EncodedBatch,
    ItemRow,
    RowColumns,
    RowKey,
    encode_batch,
    get_expiry,
    parse_row_key,
    parse_rows,
    to_items,
    to_row_key,
)

P = ParamSpec("P")
T = TypeVar("T")

_INLINE_OPERATIONS: Final = 64
"""Up to this many operations are encoded on the event loop, in about 0.01 ms each; more of them in a thread."""

_INLINE_NAMESPACES: Final = 1_000

CLOSE_SECONDS: Final = 2.0
"""How long closing a storage waits for the calls in progress: as long as a turn's statement may take by default."""

_MAX_INT64: Final = (1 << 63) - 1
# "~" sorts after, and the empty text before, every encoded namespace and key.
_BEFORE_NEWEST: Final = Cursor(_MAX_INT64, _MAX_INT64, "~", "~")
_BEFORE_OLDEST: Final = Cursor(-_MAX_INT64 - 1, -_MAX_INT64 - 1, "", "")
_get_item: Final[Callable[[tuple[Cursor, Item]], Item]] = itemgetter(1)

_STATEMENT_HEADING: Final = re.compile(r"^-- name: *(\w+)\s*$", re.MULTILINE)


class ChangedRows(NamedTuple):
    """What a backend read of a partition's change log.

    Attributes:
        position: The partition's position when it was read.
        reset: Whether *rows* are all searchable rows, because the log does not reach back.
        rows: Searchable rows in the order of their revisions; expired ones may be among them.
        removed: Rows that were deleted, or written without an index.
    """

    position: Position
    reset: bool
    rows: Sequence[RowColumns]
    removed: Collection[RowKey]


@dataclass(frozen=True, slots=True)
class ScanQuery:
    """The checked arguments of a scan, and what a backend needs to know of them.

    Attributes:
        partition: The partition.
        prefix: The first labels of the namespaces.
        filter: The conditions on a value; ``None``: none.
        direction: Which items come first.
        after: The position of the previous page's last item; ``None``: the first page.
        limit: How many items the page holds at most.
        fetch_limit: How many items a backend reads: one more shows that another page follows.
        namespace_range: The first and the last encoded namespace, both included.
        start: The position after which the page begins.
    """

    partition: Partition
    prefix: Namespace
    filter: Filter | None
    direction: Direction
    after: Cursor | None
    limit: int
    fetch_limit: int
    namespace_range: tuple[str, str]
    start: Cursor

    @classmethod
    def create(
        cls,
        partition: Partition,
        *,
        prefix: Namespace,
        filter: Filter | None,  # noqa: A002 - the field's name for it
        direction: Direction,
        after: str | None,
        limit: int,
    ) -> ScanQuery:
        """Check the arguments of :meth:`threadkeep.storage.interface.Storage.scan`.

        Raises:
            InvalidInputError, TooLargeError: One of them is invalid.
        """
        if type(limit) is not int or limit < 0:
            check_limit(limit, name="limit")
        namespaces = prefix_range(prefix)
        if filter:
            check_filter(filter)
        cursor = None if after is None else decode_cursor(after)
        start = cursor or (_BEFORE_NEWEST if direction == "newest" else _BEFORE_OLDEST)
        return cls(partition, prefix, filter, direction, cursor, limit, limit + 1, namespaces, start)

    def select(self, rows: Sequence[ItemRow]) -> list[tuple[Cursor, Item]]:
        """Return the items of *rows* that match the filter, with their positions in the order."""
        cursors = [Cursor(row.updated_at, row.revision, row.namespace, row.key) for row in rows]
        selected = list(zip(cursors, parse_rows(rows, self.partition), strict=True))
        conditions = self.filter
        return [one for one in selected if meets(one[1].value, conditions)] if conditions else selected

    def to_page(self, items: Sequence[tuple[Cursor, Item]]) -> Page:
        """Return the page of *items*, of which there are up to :attr:`fetch_limit`."""
        more = len(items) > self.limit
        after = encode_cursor(items[self.limit - 1][0]) if more else None
        return Page(tuple(map(_get_item, items[: self.limit])), after)


def to_cursor(row: ItemRow) -> Cursor:
    """Return the position of *row* in the order of a scan."""
    return Cursor(row.updated_at, row.revision, row.namespace, row.key)


class StorageBase(ABC):
    """Implements :class:`~threadkeep.storage.interface.Storage` over a few hooks.

    Args:
        location: The path, or the URL with its password masked.
        clock: Returns the storage's time.
    """

    name: str

    def __init__(self, location: str, clock: Clock) -> None:
        self.location: str = location
        self._clock = clock
        self._connecting = asyncio.Lock()
        self._attempts = CallRunner()
        self._connected = False
        self._closed = False
        self._pid = 0

    async def connect(self) -> None:
        """See :meth:`threadkeep.storage.interface.Storage.connect`.

        It goes on if its caller is cancelled: a connection that is dropped half made stays open at the server.
        """
        if self._connected or self._closed:
            self._require_open()
        else:
            with asking():
                await self._attempts.run(lambda: start_background(self._connect()))

    async def close(self) -> None:
        """See :meth:`threadkeep.storage.interface.Storage.close`."""
        self._closed = True
        await self._attempts.drain()
        connected, self._connected = self._connected, False
        if connected and self._pid == os.getpid():
            await self._close()

    async def _connect(self) -> None:
        async with self._connecting:
            if not self._connected:
                await self._open()
                self._pid = os.getpid()
                self._connected = True

    async def get(self, refs: Sequence[Ref]) -> tuple[Item | None, ...]:
        """See :meth:`threadkeep.storage.interface.Storage.get`."""
        self._require_open()
        keys = group_refs(refs)
        now = self._now()
        with asking():
            rows = await self._get_rows(keys, now=now)
        return arrange_items(rows, keys, len(refs), now)

    async def commit(self, batch: Batch) -> Position:
        """See :meth:`threadkeep.storage.interface.Storage.commit`."""
        self._require_open()
        few = len(batch.operations) <= _INLINE_OPERATIONS
        encoded = encode_batch(batch) if few else await self._encode(batch)
        with asking():
            return await self._commit(encoded)

    async def position(self, partition: Partition) -> Position:
        """See :meth:`threadkeep.storage.interface.Storage.position`."""
        self._require_open()
        with asking():
            return await self._get_position(partition)

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
        """See :meth:`threadkeep.storage.interface.Storage.scan`."""
        self._require_open()
        query = ScanQuery.create(partition, prefix=prefix, filter=filter, direction=direction, after=after, limit=limit)
        if limit == 0:
            return Page((), None)
        with asking():
            rows = await self._scan_rows(query, now=self._now())
        return query.to_page(rows)

    async def changes(self, partition: Partition, since: Position | None) -> Changes:
        """See :meth:`threadkeep.storage.interface.Storage.changes`."""
        self._require_open()
        with asking():
            changed = await self._changed_rows(partition, since)
        rows = changed.rows
        if not rows and not changed.removed:
            return Changes(changed.position, changed.reset, (), ())
        removed = dict.fromkeys(changed.removed)
        if not {None}.issuperset(map(get_expiry, rows)):
            now = self._now()
            expired = [row[:2] for row in rows if (at := row[EXPIRES_AT]) is not None and at <= now]
            if expired:
                rows = [row for row in rows if (at := row[EXPIRES_AT]) is None or at > now]
            if not changed.reset:
                # A follower may hold an older version of an expired row, which did not expire.
                removed.update(dict.fromkeys(expired))
        return Changes(changed.position, changed.reset, to_items(rows, partition), tuple(map(parse_row_key, removed)))

    async def namespaces(
        self,
        *,
        match: Sequence[NamespaceMatch] = (),
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> tuple[Namespace, ...]:
        """See :meth:`threadkeep.storage.interface.Storage.namespaces`."""
        self._require_open()
        check_limit(limit, name="limit")
        check_limit(offset, name="offset")
        if max_depth is not None:
            check_limit(max_depth, name="max_depth")
        texts = set(await self._list_namespaces(match, now=self._now()))
        names = await call_in_thread_if(
            len(texts) > _INLINE_NAMESPACES, lambda: distinct_namespaces(texts, match=match, max_depth=max_depth)
        )
        return names[offset : offset + limit]

    async def partitions(self, *, after: Partition | None = None, limit: int = 100) -> tuple[Partition, ...]:
        """See :meth:`threadkeep.storage.interface.Storage.partitions`."""
        self._require_open()
        check_limit(limit, name="limit")
        return tuple(await self._list_partitions(after, limit)) if limit else ()

    async def due(self, kind: str, *, now: datetime, limit: int) -> tuple[Item, ...]:
        """See :meth:`threadkeep.storage.interface.Storage.due`."""
        self._require_open()
        check_limit(limit, name="limit")
        time = to_micros(now)
        if limit == 0:
            return ()
        rows = await self._due_rows(encode_text(kind), now=time, limit=limit)
        return tuple(item for partition, row in rows for item in parse_rows([row], partition))

    async def erase(self, partition: Partition) -> int:
        """See :meth:`threadkeep.storage.interface.Storage.erase`."""
        self._require_open()
        return await self._erase_rows(partition)

    async def sweep(self, *, now: datetime) -> int:
        """See :meth:`threadkeep.storage.interface.Storage.sweep`."""
        self._require_open()
        return await self._sweep_rows(to_micros(now))

    async def scrub(self, *, rewrite: bool = False) -> None:  # noqa: ARG002 - as the interface has it
        """See :meth:`threadkeep.storage.interface.Storage.scrub`; by default there is nothing to remove."""
        self._require_open()

    async def stats(self) -> Stats:
        """See :meth:`threadkeep.storage.interface.Storage.stats`."""
        self._require_open()
        return await self._count()

    @property
    def gate(self) -> PriorityGate | None:
        """What grants connections by priority; ``None``: calls do not wait for one."""
        return None

    def _now(self) -> int:
        """Return the storage's time in microseconds."""
        return (self._clock.now() - EPOCH) // MICROSECOND

    async def _encode(self, batch: Batch) -> EncodedBatch:
        """Check and encode *batch*, in a thread if it is large."""
        return await call_in_thread_if(len(batch.operations) > _INLINE_OPERATIONS, encode_batch, batch)

    def _require_open(self) -> None:
        """Raise ``ClosedError`` unless :meth:`connect` was called in this process and :meth:`close` was not."""
        if not self._connected:
            raise self._closed_error()
        if self._pid != os.getpid():
            msg = "This storage was opened before the process forked: open one in the child."
            raise ClosedError(msg)

    def _closed_error(self) -> ClosedError:
        return ClosedError("This storage was closed: open a new one." if self._closed else "Call connect() first.")

    @abstractmethod
    async def _open(self) -> None:
        """Connect, and create or check what is needed. A call that raises releases what it acquired."""

    @abstractmethod
    async def _close(self) -> None:
        """Release connections and threads. It is called once, after :meth:`_open`, in the same process."""

    @abstractmethod
    def _get_rows(
        self, keys: Mapping[Partition, Collection[RowKey]], *, now: int
    ) -> Awaitable[Mapping[Partition, Iterable[ItemRow]]]:
        """Return the rows with these *keys*, in any order; expired ones may be left out or not.

        Rows of one partition are of one moment. The keys of a partition are distinct.
        """

    @abstractmethod
    def _commit(self, batch: EncodedBatch) -> Awaitable[Position]:
        """Apply *batch* as :func:`~threadkeep.storage.rows.plan_commit` says, all or nothing, and return its position.

        Raises:
            RevisionConflictError: See :func:`~threadkeep.storage.rows.check_expectation`.
            PartitionErasedError: See :func:`~threadkeep.storage.rows.check_epoch`.
        """

    @abstractmethod
    def _get_position(self, partition: Partition) -> Awaitable[Position]:
        """Return the position of *partition*."""

    @abstractmethod
    def _scan_rows(self, query: ScanQuery, *, now: int) -> Awaitable[list[tuple[Cursor, Item]]]:
        """Return the first items after ``query.start`` that match, at most ``query.fetch_limit``.

        Read unexpired rows of ``query.namespace_range`` in the query's order, part by part, and pass each part to
        ``query.select``, until there are enough or no more.
        """

    @abstractmethod
    def _changed_rows(self, partition: Partition, since: Position | None) -> Awaitable[ChangedRows]:
        """Return what happened to the searchable rows of *partition* after *since*, of one moment."""

    @abstractmethod
    async def _list_namespaces(self, match: Sequence[NamespaceMatch], *, now: int) -> Iterable[str]:
        """Return the encoded namespaces with an unexpired row; those that do not meet *match* may be left out."""

    @abstractmethod
    async def _list_partitions(self, after: Partition | None, limit: int) -> Sequence[Partition]:
        """Return up to *limit* partitions after *after*, in the storage's own stable order."""

    @abstractmethod
    async def _due_rows(self, kind: str, *, now: int, limit: int) -> Iterable[tuple[Partition, ItemRow]]:
        """Return up to *limit* unexpired rows with due work of the encoded *kind*, longest due first."""

    @abstractmethod
    async def _erase_rows(self, partition: Partition) -> int:
        """Delete everything of *partition* but its digest, a new epoch and its sequence; return how many rows."""

    @abstractmethod
    async def _sweep_rows(self, now: int) -> int:
        """Delete rows that expired by *now*; return how many."""

    @abstractmethod
    async def _count(self) -> Stats:
        """Return how much the storage holds."""


class CallRunner:
    """Runs calls of a backend to their end although their caller is cancelled, and repeats one after a lost connection.

    A cancelled call would leave half a commit behind, or a connection with an answer still to come.

    Args:
        is_lost: Returns whether an error means that the connection was lost.
        reconnect: Is awaited before a call is repeated.
        gate: Lets the calls through by priority.
    """

    def __init__(
        self,
        *,
        is_lost: Callable[[Exception], bool] = lambda _: False,
        reconnect: Callable[[], Awaitable[None]] | None = None,
        gate: PriorityGate | None = None,
    ) -> None:
        self._is_lost = is_lost
        self._reconnect = reconnect
        self._gate = gate
        self._tasks: set[asyncio.Task[Any]] = set()

    async def run(self, call: Callable[[], Awaitable[T]], *, repeatable: Callable[[], bool] = lambda: True) -> T:
        """Return what *call* returns.

        Args:
            call: The call; it runs in a task of its own.
            repeatable: Returns, after a lost connection, whether *call* may run once more. A commit that may
                have been applied may not.
        """
        task = asyncio.create_task(self._attempt(call, repeatable))
        self._tasks.add(task)
        task.add_done_callback(self._discard)
        return await asyncio.shield(task)

    async def drain(self, seconds: float = CLOSE_SECONDS) -> bool:
        """Wait for the calls that are running, for *seconds* at most; return whether all have ended."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=seconds)
        return not self._tasks

    async def _attempt(self, call: Callable[[], Awaitable[T]], repeatable: Callable[[], bool]) -> T:
        if self._gate is None:
            return await self._attempt_twice(call, repeatable)
        async with self._gate.place():
            return await self._attempt_twice(call, repeatable)

    async def _attempt_twice(self, call: Callable[[], Awaitable[T]], repeatable: Callable[[], bool]) -> T:
        try:
            return await call()
        except Exception as error:
            if not (self._is_lost(error) and repeatable()):
                raise
        if self._reconnect is not None:
            await self._reconnect()
        return await call()

    def _discard(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # the caller raises it, unless it was cancelled


def group_refs(refs: Sequence[Ref]) -> dict[Partition, dict[RowKey, list[int]]]:
    """Return the distinct keys of *refs* by partition, each with its indexes in *refs*.

    Raises:
        InvalidInputError, TooLargeError: A namespace or a key cannot be stored.
    """
    keys: dict[Partition, dict[RowKey, list[int]]] = {}
    for index, ref in enumerate(refs):
        keys.setdefault(ref.partition, {}).setdefault(to_row_key(ref.namespace, ref.key), []).append(index)
    return keys


def arrange_items(
    rows: Mapping[Partition, Iterable[ItemRow]],
    keys: Mapping[Partition, Mapping[RowKey, Sequence[int]]],
    count: int,
    now: int,
) -> tuple[Item | None, ...]:
    """Return *count* items: the unexpired ones of *rows*, at their indexes in *keys* (see :func:`group_refs`)."""
    items: list[Item | None] = [None] * count
    for partition, stored in rows.items():
        wanted = keys[partition]
        alive: list[ItemRow] = []
        indexes: list[int] = []
        for row in stored:
            if row.expires_at is None or row.expires_at > now:
                for index in wanted[row[:2]]:
                    alive.append(row)
                    indexes.append(index)
        for index, item in zip(indexes, parse_rows(alive, partition), strict=True):
            items[index] = item
    return tuple(items)


async def call_in_thread_if(large: bool, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:  # noqa: FBT001 - the condition in its name
    """Call *call*, in a thread if the work is *large*."""
    return await asyncio.to_thread(call, *args, **kwargs) if large else call(*args, **kwargs)


def read_statements(path: Path) -> dict[str, str]:
    """Return the SQL statements of the file at *path* by their ``-- name: …`` headings."""
    _, *parts = _STATEMENT_HEADING.split(path.read_text(encoding="utf-8"))
    return {heading: statement.strip() for heading, statement in zip(parts[::2], parts[1::2], strict=True)}
