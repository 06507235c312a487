"""One thread's reads and commits: every commit writes the thread's head and expects the revision that was read.

The writes of a thread are committed in the order in which they arrive, and those that wait for the same commit are
committed together. Runs in the event loop of the storage.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, ParamSpec, TypeVar

from cachetools import LRUCache

from threadkeep.checkpoints.codec import (
    CHECKPOINT,
    CHECKPOINTS,
    HEAD,
    VALUES,
    CheckpointPlace,
    StoredCheckpoint,
    group_items,
    value_refs,
)
from threadkeep.checkpoints.head import Head, Write, admit
from threadkeep.concurrency import (
    CONFLICT_ATTEMPTS,
    AnswerTimeout,
    Priority,
    current_priority,
    until_available,
)
from threadkeep.errors import RevisionConflictError, StorageUnavailableError, ThreadBusyError, ThreadkeepError
from threadkeep.ids import new_id
from threadkeep.observability import Telemetry
from threadkeep.storage.interface import (
    Batch,
    Delete,
    Due,
    Item,
    Namespace,
    Operation,
    Partition,
    Put,
    Ref,
    Storage,
    iterate_partitions,
)

if TYPE_CHECKING:
    from langgraph.checkpoint.base import CheckpointTuple
    from langgraph.checkpoint.serde.base import SerializerProtocol

    from threadkeep.checkpoints.leases import Lease
    from threadkeep.clock import Clock
    from threadkeep.identity import Owner

P = ParamSpec("P")
T = TypeVar("T")

EXPIRY: Final = ".thread-expiry"
"""The kind of due work that deletes an expired thread."""

_PAGE: Final = 500
_VALUES_PAGE: Final = 20
_LONG_AGO: Final = timedelta(minutes=10)
"""A lease that ended so long ago is not waited for: no clock of a working deployment is wrong by that."""

_LARGEST_COMMIT_BYTES: Final = 32 * 1024 * 1024
_PAUSE_SECONDS: Final = 0.002
_THREADS_CACHED: Final = 10_000


@dataclass(slots=True, eq=False)
class Change:
    """A change of a thread that waits for its commit.

    Attributes:
        revise: Returns the new head, or raises if the change is not allowed.
        operations: What it writes besides the head.
        failed: Called with the error if it is not committed.
        done: Resolved when the change is committed; ``None``: that is not waited for.
        lease: The lease that it renews; ``None``: none.
    """

    revise: Callable[[Head], Head]
    operations: Sequence[Operation] = ()
    failed: Callable[[BaseException], object] | None = None
    done: asyncio.Future[None] | None = None
    lease: Lease | None = None

    def fail(self, error: BaseException) -> None:
        """Raise *error* where the change is waited for."""
        if self.failed is not None:
            self.failed(error)
        if self.done is not None and not self.done.done():
            self.done.set_exception(error)


class _KnownHead(NamedTuple):
    """What is known of a thread.

    Attributes:
        head: The head; ``None``: there is none.
        revision: The revision of the stored head.
        epoch: The epoch of the partition, if there is no head; a thread that is erased meanwhile gets another one.
    """

    head: Head | None
    revision: int = 0
    epoch: str | None = None


class ThreadStore:
    """Reads and commits of one thread.

    Args:
        threads: The storage and its limits.
        partition: The thread's partition.
        thread_id: Its id as the application gave it.
    """

    def __init__(self, threads: Threads, partition: Partition, thread_id: str) -> None:
        self.partition = partition
        self.thread_id = thread_id
        self._threads = threads
        self._known: _KnownHead | None = None
        self._seen: tuple[str, datetime | None, float] = ("", None, 0.0)
        self._waiting: list[Change] = []
        self._committing: asyncio.Task[None] | None = None

    async def head(self, *, fresh: bool = True) -> Head | None:
        """Return the head, or ``None`` if nothing was written yet; *fresh*: not what an earlier call has read."""
        known = self._known
        if known is None or (fresh and self._committing is None):
            known = self._known = await self._read_head()
        return known.head

    async def is_cancelled(self, run: str) -> bool:
        """Return whether the run with the token *run* is to wait for the lease no longer; what is known stays."""
        head = (await self._threads.call(self._read_head)).head
        return head is not None and run in head.cancelled

    def commit(self, revise: Callable[[Head], Head], operations: Sequence[Operation] = ()) -> Coroutine[Any, Any, None]:
        """Commit one change, and wait for it as long as a call of the storage may take; see :meth:`write`."""
        return self._threads.call(self.write, Change(revise, operations))

    async def write(self, change: Change) -> None:
        """Commit *change* after those that wait already.

        Raises:
            ThreadBusyError, ThreadMovedOnError, ConflictError: It is not allowed, and nothing of it was written.
            StorageError: It may not have been written.
        """
        change.done = asyncio.get_running_loop().create_future()
        self.add([change])
        await change.done

    def add(self, changes: Sequence[Change]) -> None:
        """Commit *changes* after those that wait already; nothing waits for them but what is called if they fail."""
        self._waiting += changes
        if self._committing is None:
            self._committing = self._threads.track(asyncio.ensure_future(self._commit_all()))

    async def settle(self) -> None:
        """Wait until what was written so far is committed, or has failed."""
        if self._committing is not None:
            await asyncio.shield(self._committing)

    def admit(self, head: Head, write: Write) -> Head:
        """Return the head after *write*, which is outside of a lease."""
        return admit(head, write, leased=self.is_leased(head))

    async def load(
        self, place: CheckpointPlace, *, fresh: bool = True, owner: Owner | None = None
    ) -> StoredCheckpoint | None:
        """Return a checkpoint with its writes.

        Args:
            place: Its namespace and its id; without an id, the newest of the namespace.
            fresh: Whether to read the head anew; what the lease of a run was just written into is current.
            owner: The owner that the thread has to belong to; ``None``: any.

        Raises:
            OwnerMismatchError: It belongs to another owner.
        """
        namespace, checkpoint_id = place
        if owner is not None or not any(place):
            head = await self.head(fresh=fresh) or Head(self.thread_id)
            head.require_owner(owner)
            checkpoint_id = checkpoint_id or ("" if namespace else head.newest)
        if namespace and not checkpoint_id:
            checkpoint_id = await self._newest_in(namespace)
        place = CheckpointPlace(namespace, checkpoint_id)
        return group_items(await self._scan((CHECKPOINTS, *place))).get(place) if checkpoint_id else None

    async def load_all(self, namespace: str | None = None) -> list[StoredCheckpoint]:
        """Return all checkpoints, newest first; *namespace*: only its."""
        prefix = (CHECKPOINTS,) if namespace is None else (CHECKPOINTS, namespace)
        stored = group_items(await self._scan(prefix))
        return [stored[place] for place in sorted(stored, key=lambda one: one.checkpoint_id, reverse=True)]

    async def to_tuple(self, stored: StoredCheckpoint, serde: SerializerProtocol) -> CheckpointTuple:
        """Return a loaded checkpoint as LangGraph reads it, with its large values."""
        if not stored.refs:
            return stored.to_tuple(self.thread_id, serde, {})
        places = {
            channel: value_refs(self.partition, stored.place.namespace, channel, ref)
            for channel, ref in stored.refs.items()
        }
        refs = [ref for several in places.values() for ref in several]
        items = iter(await self._threads.get_items(refs))
        values: dict[str, tuple[str, bytes]] = {}
        for channel, several in places.items():
            parts = [next(items) for _ in several]
            if None not in parts:
                data = b"".join(part.data or b"" for part in parts if part is not None)
                values[channel] = str(stored.refs[channel][1]), data
        return stored.to_tuple(self.thread_id, serde, values)

    async def undo(self, run: str) -> tuple[list[Operation], str]:
        """Return what deletes the checkpoints and writes of *run*, and the newest checkpoint of the rest."""
        operations: list[Operation] = []
        newest = ""
        for stored in await self.load_all():
            items = [stored.item, *stored.writes]
            if stored.item.value.get("run") != run:
                items = [item for item in stored.writes if item.value.get("run") == run]
                if not stored.place.namespace:
                    newest = max(newest, stored.place.checkpoint_id)
            operations += [Delete(item.ref.namespace, item.ref.key) for item in items]
        return operations, newest

    def values(self) -> AsyncGenerator[Sequence[Item]]:
        """Yield the items of the large values, a page at a time."""
        return self._pages((VALUES,), _VALUES_PAGE)

    def is_leased(self, head: Head) -> bool:
        """Return whether a run has a lease that may still be in use.

        Clocks of machines differ, so a lease has expired if it was not renewed for as long as it lasts since this
        process first saw it; or if it should have been renewed long ago by any clock.
        """
        lease = head.lease
        if lease is None or lease.until + _LONG_AGO < self._threads.clock.now():
            return False
        now, (run, until, since) = time.monotonic(), self._seen
        if (run, until) != (lease.run, lease.until):
            self._seen = lease.run, lease.until, now
            return True
        return now - since < lease.seconds

    async def erase(self) -> None:
        """Delete everything of the thread; later writes of a run are refused."""
        self._known = None
        await self._threads.storage.erase(self.partition)

    async def _newest_in(self, namespace: str) -> str:
        """Return the id of the newest checkpoint of a subgraph; ``""``: there is none."""
        async for items in self._pages((CHECKPOINTS, namespace)):
            ids = [item.ref.namespace[2] for item in items if item.ref.key == CHECKPOINT]
            if ids:
                return max(ids)
        return ""

    async def _scan(self, prefix: Namespace) -> list[Item]:
        items: list[Item] = []
        async for page in self._pages(prefix):
            items += page
        return items

    async def _pages(self, prefix: Namespace, limit: int = _PAGE) -> AsyncGenerator[Sequence[Item]]:
        after: str | None = None
        while True:
            ask = partial(self._threads.storage.scan, self.partition, prefix=prefix, after=after, limit=limit)
            page = await until_available(ask, self._threads.timeout)
            yield page.items
            after = page.after
            if after is None:
                return

    async def _read_head(self) -> _KnownHead:
        threads = self._threads
        (item,) = await threads.get_items([Ref(self.partition, *HEAD)])
        if item is not None and item.due is not None and item.due.at <= threads.clock.now():
            await threads.storage.erase(self.partition)  # it has expired
            item = None
        if item is not None:
            return _KnownHead(Head.from_value(item.value), item.revision)
        position = await until_available(lambda: threads.storage.position(self.partition), threads.timeout)
        return _KnownHead(None, epoch=position.epoch)

    async def _commit_all(self) -> None:
        """Commit what waits, until nothing does."""
        current_priority.set(Priority.CHECKPOINT)
        try:
            while self._waiting:
                changes = self._take()
                try:
                    await self._commit(changes)
                except StorageUnavailableError as error:  # what waits has waited for the timeout, too
                    _fail([*changes, *self._waiting], error)
                    self._waiting = []
                except ThreadkeepError as error:
                    _fail(changes, error)
                except BaseException as error:
                    _fail(changes, error if isinstance(error, Exception) else asyncio.CancelledError())
                    raise
        finally:
            self._committing = None

    def _take(self) -> list[Change]:
        """Return the changes that wait, as many as one commit takes."""
        waiting, size = self._waiting, 0
        for number, change in enumerate(waiting):
            for one in change.operations:
                if isinstance(one, Put) and one.data is not None:
                    size += len(one.data)
            if number and size > _LARGEST_COMMIT_BYTES:
                self._waiting = waiting[number:]
                return waiting[:number]
        self._waiting = []
        return waiting

    async def _commit(self, changes: Sequence[Change]) -> None:
        """Commit those of *changes* that are allowed, and refuse the others.

        If a commit was written although no answer came, the next attempt conflicts with it and finds its id in the
        head. Changes are refused after the commit: the writer of a change that another one rules out reads what is
        left.
        """
        commit_id, threads = new_id(), self._threads
        tried: _Applied | None = None
        for attempt in range(CONFLICT_ATTEMPTS):
            known = self._known or await self._read_head()
            if tried is None or known.head is None or known.head.commit != commit_id:
                head, self._known = known.head or Head(self.thread_id), None
                tried = _apply(changes, head, threads.clock)
                try:
                    if tried.allowed:
                        head, began = replace(tried.head, commit=commit_id), time.monotonic()
                        batch = self._batch(head, tried.operations, known)
                        position = await until_available(partial(threads.storage.commit, batch), threads.timeout)
                        threads.telemetry.measure("checkpoint.seconds", time.monotonic() - began)
                        known = _KnownHead(head, position.sequence)
                except RevisionConflictError:
                    await asyncio.sleep(_PAUSE_SECONDS * attempt)
                    continue
            self._known = known
            for change in tried.allowed:
                if change.done is not None and not change.done.done():
                    change.done.set_result(None)
            for change, error in tried.refused:
                change.fail(error)
            return
        msg = "Other writers kept changing this thread; try again."
        raise ThreadBusyError(msg)

    def _batch(self, head: Head, operations: Sequence[Operation], known: _KnownHead) -> Batch:
        """Return what writes *operations* and *head* if the thread is still as it is *known*."""
        threads = self._threads
        due = None if threads.ttl is None else Due(EXPIRY, threads.clock.now() + threads.ttl)
        expect = "absent" if known.head is None else known.revision
        return Batch(self.partition, [*operations, Put(*HEAD, head.to_value(), expect=expect, due=due)], known.epoch)


class Threads:
    """The threads of one storage.

    Args:
        storage: Keeps them; connected before the first call.
        clock: Returns the time that leases expire by.
        timeout: How long a call of the storage may take.
        ttl: After how long without a write a thread expires; ``None``: never.
        telemetry: Measures the commits; ``None``: nothing does.
    """

    def __init__(
        self,
        storage: Storage,
        clock: Clock,
        *,
        timeout: timedelta,
        ttl: timedelta | None = None,
        telemetry: Telemetry | None = None,
    ) -> None:
        self.storage = storage
        self.clock = clock
        self.timeout = timeout
        self.ttl = ttl
        self.telemetry = telemetry or Telemetry()
        self._tasks: set[asyncio.Task[None]] = set()
        self._threads: LRUCache[Partition, ThreadStore] = LRUCache(_THREADS_CACHED)

    def get(self, partition: Partition, thread_id: str) -> ThreadStore:
        """Return the thread of *partition*: the same object as long as it is in use."""
        thread = self._threads.get(partition)
        if thread is None:
            thread = self._threads[partition] = ThreadStore(self, partition, thread_id)
        return thread

    def track(self, task: asyncio.Task[None]) -> asyncio.Task[None]:
        """Let :meth:`settle` wait for *task*."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def settle(self) -> None:
        """Wait for the commits in progress."""
        if self._tasks:
            await asyncio.wait(set(self._tasks))

    def get_items(self, refs: Sequence[Ref]) -> Awaitable[Sequence[Item | None]]:
        """Return items, or ``None`` for what is not there."""
        return until_available(partial(self.storage.get, refs), self.timeout)

    async def call(self, work: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the result of *work*, which calls the storage.

        Raises:
            StorageUnavailableError: It took too long; what it writes may still arrive.
        """
        before = current_priority.get()
        current_priority.set(Priority.CHECKPOINT)
        seconds = self.timeout.total_seconds()
        try:
            async with AnswerTimeout(seconds):
                return await work(*args, **kwargs)
        except TimeoutError:
            msg = (
                f"{self.storage.location} did not answer within {seconds:g} seconds; look at its load, or try "
                "again. What was to be written there may still arrive."
            )
            raise StorageUnavailableError(msg, location=self.storage.location) from None
        finally:
            current_priority.set(before)

    async def unscoped_ids(self) -> list[str]:
        """Return the ids of all unscoped threads; service role: it reads the names of all partitions."""
        partitions = iterate_partitions(self.storage)
        return [one.parts[0] async for one in partitions if one.kind == "thread" and len(one.parts) == 1]


class _Applied(NamedTuple):
    """What changes make of a head: the new head, what they write besides, and which of them are allowed."""

    head: Head
    operations: Sequence[Operation]
    allowed: Sequence[Change]
    refused: Sequence[tuple[Change, ThreadkeepError]]


def _apply(changes: Sequence[Change], head: Head, clock: Clock) -> _Applied:
    """Apply *changes* to *head*, each to what the one before it made; of two writes of one item the later counts.

    A change with a lease renews it. It is refused with the error of an earlier write of the same run that was not
    committed: nothing is written past a gap.
    """
    renews = False
    operations: dict[tuple[Namespace, str], Operation] = {}
    allowed: list[Change] = []
    refused: list[tuple[Change, ThreadkeepError]] = []
    for change in changes:
        if change.done is not None and change.done.done():
            continue
        lease = change.lease
        try:
            if lease is not None and lease.failure is not None:
                raise lease.failure
            head = change.revise(head)
        except ThreadkeepError as error:
            refused.append((change, error))
            continue
        renews = renews or lease is not None
        allowed.append(change)
        for one in change.operations:
            operations[one.namespace, one.key] = one
    if renews and head.lease is not None:
        head = replace(head, lease=head.lease.renewed(clock.now()))
    return _Applied(head, [*operations.values()], allowed, refused)


def _fail(changes: Sequence[Change], error: BaseException) -> None:
    for change in changes:
        change.fail(error)
