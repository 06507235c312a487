"""One thread's reads and commits: every commit writes the thread's head and expects the revision that was read.

The writes of a thread are committed in the order in which they arrive, and those that wait for the same commit are
committed together. Runs in the event loop of the storage.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from cachetools import LRUCache

from threadkeep.checkpoints.codec import (
    CHECKPOINT,
    CHECKPOINTS,
    HEAD,
    VALUES,
    WRITE,
    CheckpointPlace,
    Entry,
    StoredCheckpoint,
    chunk_keys,
    group_items,
    join_chunks,
    merge_entries,
    parse_entries,
    value_refs,
    writes_to_puts,
)
from threadkeep.checkpoints.head import Head, Write, admit, lease_lost_error
from threadkeep.concurrency import CONFLICT_ATTEMPTS, Priority, answer_timeout, asking, current_priority
from threadkeep.errors import (
    RevisionConflictError,
    StorageUnavailableError,
    ThreadBusyError,
    ThreadkeepError,
)
from threadkeep.storage.interface import Batch, Due, Item, Namespace, Operation, Page, Partition, Put, Ref, Storage

if TYPE_CHECKING:
    from langgraph.checkpoint.base import CheckpointTuple
    from langgraph.checkpoint.serde.base import SerializerProtocol

    from threadkeep.clock import Clock

T = TypeVar("T")

_PAGE: Final = 500
_VALUES_PAGE: Final = 20
_LONG_AGO: Final = timedelta(minutes=10)
"""A lease that ended so long ago is not waited for: no clock of a working deployment is wrong by that."""

EXPIRY: Final = ".thread-expiry"
"""The kind of due work that deletes an expired thread."""

_NEWEST_ITEMS: Final = 60
_LARGEST_COMMIT_BYTES: Final = 32 * 1024 * 1024
_SOON_SECONDS: Final = 0.002
_FIRST_PAUSE_SECONDS: Final = 0.002
_FIRST_AWAY_SECONDS: Final = 0.05
_LONGEST_AWAY_SECONDS: Final = 0.5
_THREADS_CACHED: Final = 10_000
_NAMESPACES_CACHED: Final = 1_000


TaskWrites: TypeAlias = dict[tuple[CheckpointPlace, str], list[Entry]]
"""What tasks wrote after checkpoints."""


@dataclass(slots=True)
class Change:
    """A change of a thread that waits for its commit.

    Attributes:
        revise: Returns the new head, or raises if the change is not allowed.
        operations: What it writes besides the head.
        tasks: What tasks wrote: the place, task, task path and entries, to be merged with what is stored.
        run: The run that writes; ``""``: none.
        put: The checkpoint that is put; its tasks have written nothing yet.
        done: Resolved when the change is committed.
    """

    revise: Callable[[Head], Head]
    operations: Sequence[Operation] = ()
    tasks: tuple[CheckpointPlace, str, str, Sequence[Entry]] | None = None
    run: str = ""
    put: CheckpointPlace | None = None
    done: asyncio.Future[None] | None = None

    @property
    def size_bytes(self) -> int:
        """The bytes that it writes."""
        return sum(len(one.data or b"") for one in self.operations if isinstance(one, Put))


@dataclass(slots=True)
class _KnownHead:
    """What is known of a thread at a revision of its head.

    Attributes:
        head: The head; ``None``: there is none.
        revision: The revision of the stored head.
        epoch: The epoch of the partition, if there is no head; a thread that is erased meanwhile gets another one.
        fresh: The newest checkpoint of each namespace that was put at this or an earlier known revision.
        tasks: What tasks wrote after these.
    """

    head: Head | None
    revision: int = 0
    epoch: str | None = None
    fresh: dict[str, str] = field(default_factory=dict[str, str])
    tasks: dict[tuple[CheckpointPlace, str], list[Entry]] = field(
        default_factory=dict["tuple[CheckpointPlace, str]", "list[Entry]"]
    )


@dataclass(frozen=True, slots=True)
class _Applied:
    """Changes applied to a head.

    Attributes:
        head: The head after them.
        allowed: Those that are allowed.
        refused: The others, each with why.
        operations: What the allowed ones write, besides the head.
    """

    head: Head
    allowed: Sequence[Change]
    refused: Sequence[tuple[Change, ThreadkeepError]]
    operations: dict[tuple[Namespace, str], Operation]


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
        self._timer: asyncio.TimerHandle | None = None

    async def head(self, *, fresh: bool = True) -> Head | None:
        """Return the head, or ``None`` if nothing was written yet; *fresh*: not what an earlier call has read."""
        known = self._known
        if known is None or (fresh and self._committing is None):
            known = self._known = await self._read_head()
        return known.head

    async def commit(self, revise: Callable[[Head], Head], operations: Sequence[Operation] = ()) -> None:
        """Commit one change; see :class:`Change`."""
        await self.write(Change(revise, operations))

    async def write(self, change: Change) -> None:
        """Commit *change* after those that wait already.

        Raises:
            ThreadBusyError, ThreadMovedOnError, ConflictError: It is not allowed, and nothing of it was written.
            StorageError: It may not have been written.
        """
        change.done = asyncio.get_running_loop().create_future()
        self._waiting.append(change)
        if self._committing is None:
            if change.run and change.tasks is not None:
                self._begin_later()
            else:
                self._begin()
        await change.done

    def _begin_later(self) -> None:
        """Commit soon: after what a task wrote, the next checkpoint follows at once, and one commit takes both."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_SOON_SECONDS, self._begin)

    def _begin(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._committing is None and self._waiting:
            self._committing = self._threads.track(asyncio.ensure_future(self._commit_all()))

    async def load(self, namespace: str, checkpoint_id: str | None, *, fresh: bool = True) -> StoredCheckpoint | None:
        """Return a checkpoint with its writes; without an id, the newest of *namespace*.

        Args:
            namespace: Of the checkpoint.
            checkpoint_id: Its id, or ``None``.
            fresh: Whether to read the head anew; what the lease of a run was just written into is current.
        """
        if checkpoint_id is None:
            checkpoint_id = await self._newest(namespace, fresh=fresh)
            if not checkpoint_id:
                return None
        place = CheckpointPlace(namespace, checkpoint_id)
        items = await self._scan(place.path)
        return group_items(items).get(place)

    async def load_all(self, namespace: str | None = None) -> list[StoredCheckpoint]:
        """Return all checkpoints, newest first; *namespace*: only its."""
        prefix = (CHECKPOINTS,) if namespace is None else (CHECKPOINTS, namespace)
        stored = group_items(await self._scan(prefix))
        return [stored[place] for place in sorted(stored, key=lambda one: one.checkpoint_id, reverse=True)]

    async def to_tuple(self, stored: StoredCheckpoint, serde: SerializerProtocol) -> CheckpointTuple:
        """Return a loaded checkpoint as LangGraph reads it, with its large values."""
        refs = stored.refs
        if not refs:
            return stored.to_tuple(self.thread_id, serde, {})
        wanted = {
            channel: value_refs(self.partition, stored.place.namespace, channel, ref) for channel, ref in refs.items()
        }
        items = iter(await self._threads.get_items([one for each in wanted.values() for one in each]))
        values: dict[str, tuple[str, bytes]] = {}
        for channel, places in wanted.items():
            parts = [next(items) for _ in places]
            if not any(part is None for part in parts):
                data = b"".join(part.data or b"" for part in parts if part is not None)
                values[channel] = str(refs[channel][1]), data
        return stored.to_tuple(self.thread_id, serde, values)

    async def values(self) -> AsyncGenerator[Sequence[Item]]:
        """Yield the items of the large values, a page at a time."""
        after: str | None = None
        while True:
            page = await self._threads.scan(self.partition, (VALUES,), after=after, limit=_VALUES_PAGE)
            yield page.items
            after = page.after
            if after is None:
                return

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

    def forget(self) -> None:
        """Read the head anew before the next commit."""
        self._known = None

    async def _newest(self, namespace: str, *, fresh: bool) -> str | None:
        if not namespace:
            head = await self.head(fresh=fresh)
            return head.newest if head is not None else None
        page = await self._threads.scan(self.partition, (CHECKPOINTS, namespace), limit=_NEWEST_ITEMS)
        return max((item.ref.namespace[2] for item in page.items if item.ref.key == CHECKPOINT), default=None)

    async def _scan(self, prefix: tuple[str, ...]) -> list[Item]:
        items: list[Item] = []
        after: str | None = None
        while True:
            page = await self._threads.scan(self.partition, prefix, after=after)
            items += page.items
            after = page.after
            if after is None:
                return items

    async def _read_head(self) -> _KnownHead:
        threads = self._threads
        (item,) = await threads.get_items([Ref(self.partition, *HEAD)])
        if item is not None and threads.has_expired(item):
            await threads.storage.erase(self.partition)
            item = None
        if item is not None:
            return _KnownHead(Head.from_value(item.value), item.revision)
        position = await threads.until_available(lambda: threads.storage.position(self.partition))
        return _KnownHead(None, epoch=position.epoch)

    async def _commit_all(self) -> None:
        """Commit what waits, until nothing does."""
        try:
            while self._waiting:
                changes = self._take()
                try:
                    await self._commit_together(changes)
                except ThreadkeepError as error:
                    self._known = None
                    _fail(changes, error)
                except BaseException as error:
                    self._known = None
                    _fail(changes, error if isinstance(error, Exception) else asyncio.CancelledError())
                    raise
        finally:
            self._committing = None

    def _take(self) -> list[Change]:
        size = 0
        for number, change in enumerate(self._waiting):
            size += change.size_bytes
            if size > _LARGEST_COMMIT_BYTES and number:
                taken, self._waiting = self._waiting[:number], self._waiting[number:]
                return taken
        taken, self._waiting = self._waiting, []
        return taken

    async def _commit_together(self, changes: list[Change]) -> None:
        """Commit what is allowed of *changes*.

        What was written although no answer came is found in the head, which allows the same change once more.
        """

        async def commit() -> None:
            known = self._known = self._known or await self._read_head()
            try:
                await self._try_commit(changes, known)
            except StorageUnavailableError:
                self._known = None
                raise

        for attempt in range(CONFLICT_ATTEMPTS):
            try:
                await self._threads.until_available(commit)
            except RevisionConflictError:
                self._known = None
            else:
                return
            await asyncio.sleep(_FIRST_PAUSE_SECONDS * attempt)
        busy = ThreadBusyError("Other writers kept changing this thread; try again.")
        _fail(changes, busy)

    async def _try_commit(self, changes: list[Change], known: _KnownHead) -> None:
        """Commit those of *changes* that are allowed, and refuse the others.

        They are refused after the commit: the writer of a change that another one rules out reads what is left.
        """
        tasks = await self._read_tasks(changes, known)
        applied = _apply(changes, known.head or Head(self.thread_id), tasks)
        if applied.allowed:
            await self._put(applied, known, tasks)
        for change, error in applied.refused:
            _fail([change], error)

    async def _put(self, applied: _Applied, known: _KnownHead, tasks: TaskWrites) -> None:
        """Commit the allowed changes with the head, and tell their writers."""
        head, puts, ttl = applied.head, applied.operations, self._threads.ttl
        due = None if ttl is None else Due(EXPIRY, self._threads.clock.now() + ttl)
        puts[HEAD] = Put(*HEAD, head.to_value(), expect="absent" if known.head is None else known.revision, due=due)
        batch = Batch(self.partition, [*puts.values()], known.epoch)
        position = await self._threads.storage.commit(batch)
        fresh = known.fresh
        for change in applied.allowed:
            if change.put is not None:
                fresh[change.put.namespace] = change.put.checkpoint_id
            if change.done is not None and not change.done.done():
                change.done.set_result(None)
        if len(fresh) > _NAMESPACES_CACHED:
            fresh.clear()
        kept = {key: tasks[key] for key in tasks if fresh.get(key[0].namespace) == key[0].checkpoint_id}
        self._known = _KnownHead(head, position.sequence, None, fresh, kept)

    async def _read_tasks(
        self, changes: Sequence[Change], known: _KnownHead
    ) -> dict[tuple[CheckpointPlace, str], list[Entry]]:
        """Return what the tasks of *changes* wrote before; of a checkpoint that is put just now, that is nothing."""
        found = dict(known.tasks)
        put = {change.put for change in changes if change.put is not None}
        wanted: dict[tuple[CheckpointPlace, str], Ref] = {}
        for change in changes:
            if change.tasks is None:
                continue
            place, task_id, _, _ = change.tasks
            is_fresh = known.fresh.get(place.namespace) == place.checkpoint_id or place in put
            if not is_fresh and (place, task_id) not in found:
                wanted[place, task_id] = Ref(self.partition, place.path, f"{WRITE}{task_id}")
        if not wanted:
            return found
        items = await self._threads.get_items([*wanted.values()])
        for key, item in zip(wanted, items, strict=True):
            if item is not None:
                more = [Ref(self.partition, item.ref.namespace, one) for one in chunk_keys(item)]
                rest = await self._threads.get_items(more) if more else ()
                found[key] = parse_entries(join_chunks(item, [one.data or b"" for one in rest if one is not None]))
        return found


class Threads:
    """The threads of one storage.

    Args:
        storage: Keeps them; connected before the first call.
        clock: Returns the time that leases expire by.
        timeout: How long a call of the storage may take.
        ttl: After how long without a write a thread expires; ``None``: never.
    """

    def __init__(self, storage: Storage, clock: Clock, *, timeout: timedelta, ttl: timedelta | None = None) -> None:
        self.storage = storage
        self.clock = clock
        self.ttl = ttl
        self._timeout = timeout.total_seconds()
        self._tasks: set[asyncio.Task[None]] = set()
        self._threads: LRUCache[Partition, ThreadStore] = LRUCache(_THREADS_CACHED)

    def get(self, partition: Partition, thread_id: str) -> ThreadStore:
        """Return the thread of *partition*: the same object as long as it is in use."""
        thread = self._threads.get(partition)
        if thread is None:
            thread = self._threads[partition] = ThreadStore(self, partition, thread_id)
        return thread

    def has_expired(self, head: Item) -> bool:
        """Return whether a thread has expired by its stored head."""
        return head.due is not None and head.due.kind == EXPIRY and head.due.at <= self.clock.now()

    def track(self, task: asyncio.Task[None]) -> asyncio.Task[None]:
        """Let :meth:`settle` wait for *task*."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def settle(self) -> None:
        """Wait for the commits in progress, and for those that begin soon."""
        await asyncio.sleep(2 * _SOON_SECONDS)
        if self._tasks:
            await asyncio.wait(set(self._tasks))

    async def until_available(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Return what *ask* returns, asked again while the storage is away, no longer than the timeout.

        Raises:
            StorageUnavailableError: It stayed away.
        """
        loop = asyncio.get_running_loop()
        deadline, pause = loop.time() + self._timeout, _FIRST_AWAY_SECONDS
        while True:
            try:
                return await ask()
            except StorageUnavailableError:
                if loop.time() + pause > deadline:
                    raise
            with asking():
                await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_AWAY_SECONDS)

    async def get_items(self, refs: Sequence[Ref]) -> Sequence[Item | None]:
        """Return items, or ``None`` for what is not there."""
        return await self.until_available(lambda: self.storage.get(refs))

    async def scan(
        self, partition: Partition, prefix: Namespace, *, after: str | None = None, limit: int = _PAGE
    ) -> Page:
        """Return a page of items."""
        return await self.until_available(lambda: self.storage.scan(partition, prefix=prefix, after=after, limit=limit))

    async def call(self, work: Awaitable[T]) -> T:
        """Return the result of calls of the storage.

        Raises:
            StorageUnavailableError: It took too long; what it writes may still arrive.
        """
        before = current_priority.get()
        current_priority.set(Priority.CHECKPOINT)
        try:
            async with answer_timeout(self._timeout):
                return await work
        except TimeoutError:
            msg = (
                f"{self.storage.location} did not answer within {self._timeout:g} seconds; look at its load, or try "
                "again. What was to be written there may still arrive."
            )
            raise StorageUnavailableError(msg, location=self.storage.location) from None
        finally:
            current_priority.set(before)

    def revise(self, thread: ThreadStore, write: Write) -> Callable[[Head], Head]:
        """Return what makes the new head for *write*; the write of a run renews its lease."""

        def revise(head: Head) -> Head:
            after = admit(head, write, leased=thread.is_leased(head))
            if write.run is not None and after.lease is not None:
                until = self.clock.now() + timedelta(seconds=after.lease.seconds)
                after = replace(after, lease=replace(after.lease, until=until))
            return after

        return revise

    def renew(self, run: str) -> Callable[[Head], Head]:
        """Return what renews the lease of *run*."""

        def revise(head: Head) -> Head:
            if head.lease is None or head.lease.run != run:
                raise lease_lost_error()
            until = self.clock.now() + timedelta(seconds=head.lease.seconds)
            return replace(head, lease=replace(head.lease, until=until))

        return revise

    async def unscoped_ids(self) -> list[str]:
        """Return the ids of all unscoped threads; service role: it reads the names of all partitions."""
        found: list[str] = []
        after: Partition | None = None
        while partitions := await self.storage.partitions(after=after, limit=_PAGE):
            after = partitions[-1]
            found += [one.parts[0] for one in partitions if one.kind == "thread" and len(one.parts) == 1]
        return found


def _apply(changes: Sequence[Change], head: Head, tasks: TaskWrites) -> _Applied:
    """Apply *changes* to *head*, each to what the one before it made; *tasks* grows."""
    operations: dict[tuple[Namespace, str], Operation] = {}
    allowed: list[Change] = []
    refused: list[tuple[Change, ThreadkeepError]] = []
    for change in changes:
        if change.done is None or change.done.done():
            continue
        try:
            head = change.revise(head)
        except ThreadkeepError as error:
            refused.append((change, error))
            continue
        allowed.append(change)
        written = [*change.operations]
        if change.tasks is not None:
            place, task_id, path, entries = change.tasks
            tasks[place, task_id] = merge_entries(tasks.get((place, task_id), ()), entries)
            written += writes_to_puts(place, task_id, path, tasks[place, task_id], change.run)
        operations.update({(one.namespace, one.key): one for one in written})
    return _Applied(head, allowed, refused, operations)


def _fail(changes: Sequence[Change], error: BaseException) -> None:
    for change in changes:
        if change.done is not None and not change.done.done():
            change.done.set_exception(error)
