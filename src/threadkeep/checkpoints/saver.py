"""LangGraph's checkpoint saver over the storage interface: sync and async, on any loop, connected at its first use."""

from __future__ import annotations

import asyncio
import copy
import inspect
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeAlias, TypeVar, cast

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.memory import InMemorySaver
from typing_extensions import override

from threadkeep.checkpoints.codec import (
    AllowedType,
    CheckpointPlace,
    StrictSerializer,
    encode_checkpoint,
    encode_writes,
    patch_type_allowlist,
)
from threadkeep.checkpoints.directory import ThreadDirectory, ThreadOwners, thread_partition
from threadkeep.checkpoints.head import (
    Target,
    Write,
    admit,
    busy,
    claimed_owner_of,
    come_after,
    run_of,
    status_after,
    thread_id_from,
    token_of,
)
from threadkeep.checkpoints.lease_waits import LeaseTerms
from threadkeep.checkpoints.leases import Beginning, Lease, Leases, SharedLease, current_lease
from threadkeep.checkpoints.maintenance import ListedCheckpoints, Maintenance
from threadkeep.checkpoints.thread_store import Change, Threads, ThreadStore
from threadkeep.errors import StorageUnavailableError, ThreadkeepError
from threadkeep.event_loop import closed_error, wait_for
from threadkeep.identity import RUNTIME, Owner
from threadkeep.ids import ThreadId
from threadkeep.observability import Telemetry
from threadkeep.run_events import current_run, is_memory_off, listen

if TYPE_CHECKING:
    from datetime import timedelta

    from threadkeep.clock import Clock
    from threadkeep.event_loop import EventLoopThread
    from threadkeep.storage.interface import Storage

P = ParamSpec("P")
T = TypeVar("T")
MoveIn: TypeAlias = "Callable[[ThreadkeepCheckpointer, ThreadId, Owner | None], Coroutine[Any, Any, None]]"

_DURABILITY: Final = "__pregel_durability"


class ThreadkeepCheckpointer(BaseCheckpointSaver[str]):
    """Keeps LangGraph's checkpoints as items of a storage, one partition for each thread.

    Thread ids are any text of 1–1,000 characters. If the run names its owner (its context, ``user_id``,
    ``langgraph_user_id``, or a LangGraph server's user), the first run binds the thread to that owner, and every run of
    another owner is refused before a checkpoint is read or written; so is one of none that names no checkpoint.

    Listing without a thread lists the threads of this view: unscoped, all but scoped threads; scoped, its owner's.

    Args:
        storage: Keeps the threads; :meth:`connect` connects it at the first use.
        loop: The event loop that the storage runs in.
        clock: Returns the time that leases expire by.
        connect: Connects the storage; ``None``: its own ``connect``.
        owner_of: Returns the owner that a config names; by default :func:`~threadkeep.identity.claimed_owner`.
        allowed_types: Types that checkpoints may keep, besides those of the graph's state.
        timeout: How long a call of the storage may take.
        terms: How runs get leases.
        move_in: Copies a thread from elsewhere into this checkpointer at its first use in this process; gets a view,
            the id of the thread and the owner of the run.
        ttl: After how long without a write a thread expires; ``None``: never.
        telemetry: Measures commits; ``None``: nothing does.
    """

    def __init__(  # noqa: PLR0913 - the composition root hands everything in
        self,
        storage: Storage,
        *,
        loop: EventLoopThread,
        clock: Clock,
        timeout: timedelta,
        connect: Callable[[], Coroutine[Any, Any, Any]] | None = None,
        owner_of: Callable[[RunnableConfig], Owner | None] | None = None,
        allowed_types: Collection[AllowedType] = (),
        terms: LeaseTerms | None = None,
        move_in: MoveIn | None = None,
        ttl: timedelta | None = None,
        telemetry: Telemetry | None = None,
    ) -> None:
        super().__init__(serde=StrictSerializer(allowed_types))
        patch_type_allowlist()
        listen()
        self.storage = storage
        self.directory = ThreadDirectory(storage, clock)
        self._owner: Owner | None = None
        self._owner_of = owner_of or claimed_owner_of
        self._loop = loop
        self._move_in = move_in
        self._moved_in: set[tuple[str, Owner | None]] = set()
        self._connect = connect or storage.connect
        self._threads = Threads(storage, clock, timeout=timeout, ttl=ttl, telemetry=telemetry)
        self.owners = ThreadOwners(self._threads, self.directory)
        self._leases = Leases(self._threads, self.owners, loop, terms or LeaseTerms())

    @property
    def is_scoped(self) -> bool:
        """Whether the threads of this view are kept where other owners cannot name them."""
        return self._owner is not None

    def scoped(self, owner: Owner) -> ThreadkeepCheckpointer:
        """Return a view of *owner*'s threads only: it cannot name another owner's thread, nor others one of its."""
        return self._view(_owner=owner)

    @override
    def with_allowlist(self, extra_allowlist: Collection[Any]) -> ThreadkeepCheckpointer:
        return cast("ThreadkeepCheckpointer", super().with_allowlist(extra_allowlist))

    def allow(self, *types: type) -> None:
        """Keep objects of these types from now on, in this view."""
        cast("StrictSerializer", self.serde).allow(*types)

    def identified(self, owner_of: Callable[[RunnableConfig], Owner | None]) -> ThreadkeepCheckpointer:
        """Return a view that takes the owner of a run from *owner_of*."""
        return self._view(_owner_of=owner_of)

    def owner_by(self, config: RunnableConfig) -> Owner | None:
        """Return the owner that a run's threads are bound to; ``None``: the view is scoped, or the run names none."""
        return None if self._owner is not None else self._owner_of(config)

    @property
    def maintenance(self) -> Maintenance:
        """What is done with whole threads, in this view; its coroutines run in the storage's loop, see :meth:`run`."""
        return Maintenance(self._threads, self._leases, self.directory, self.owners, self.serde, self._owner)

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run *work* of :attr:`maintenance` in the storage's loop, connected, as long as one call of it may take."""
        try:
            return await self._call(lambda: work)
        finally:
            if inspect.getcoroutinestate(work) == inspect.CORO_CREATED:  # it has not begun: the loop was closed, say
                work.close()

    async def connect(self) -> None:
        """Connect the storage now, instead of at the first use."""
        await self._loop.run(self._connect())

    def connected(self) -> ThreadkeepCheckpointer:
        """Return a view of the same threads over the connected storage."""
        return self._view(_connect=self.storage.connect)

    async def aclose(self) -> None:
        """Give back the leases and let writes in progress end; the storage stays open. It closes all views."""
        self._leases.closed = True
        if self._loop.running:
            await self._loop.run(self._leases.close())

    def close(self) -> None:
        """Do what :meth:`aclose` does, blocking."""
        self._leases.closed = True
        if self._loop.running:
            self._loop.run_sync(self._leases.close())

    @asynccontextmanager
    async def leased(self, config: RunnableConfig) -> AsyncGenerator[None]:
        """Hold the lease on a thread for several calls; runs on that thread in this block use it.

        Args:
            config: As for a run: the thread, its owner, and the ``multitask_strategy``.

        Raises:
            ThreadBusyError: Another run has the lease, and the strategy is not to wait; or it took too long.
        """
        target = self._target(config)
        self._require_outside(target)
        lease, _ = await self._begun(target, Beginning(), reads=False)
        around = current_lease.get()
        current_lease.set(lease)
        try:
            yield
        except StorageUnavailableError:
            self._leases.release_soon(lease)  # the block has waited for the timeout already
            raise
        except BaseException:
            with suppress(ThreadkeepError):  # the block's own error is raised
                await lease.arelease()
            raise
        else:
            await lease.arelease()
        finally:
            current_lease.set(around)

    @override
    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        if self._move_in is not None:
            wait_for(self._moved(config, self._move_in))
        target = self._target(config)
        if not target.begins_run:
            return self._call_sync(self._load, target)
        self._require_outside(target)
        beginning = Beginning(current_lease.get())
        lease, found = self._loop.run_sync(self._ready(self._begin, target, beginning, reads=True))
        self._follow(target, lease)
        return found

    @override
    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        if self._move_in is not None:
            await self._moved(config, self._move_in)
        target = self._target(config)
        if not target.begins_run:
            return await self._call(self._load, target)
        self._require_outside(target)
        lease, found = await self._begun(target, Beginning(current_lease.get()), reads=True)
        self._follow(target, lease)
        return found

    async def _begun(
        self, target: Target, beginning: Beginning, *, reads: bool
    ) -> tuple[Lease, CheckpointTuple | None]:
        """Do what :meth:`_begin` does; if the caller is cancelled meanwhile, the lease that it takes is given back."""
        try:
            return await self._loop.run(self._ready(self._begin, target, beginning, reads=reads))
        except BaseException:
            beginning.abandoned = True
            if beginning.lease is not None:  # otherwise it is given back once there is one
                self._leases.release_soon(beginning.lease)
            raise

    @override
    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        yield from self._call_sync(self._list, config, filter, before, limit)

    @override
    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        for found in await self._call(self._list, config, filter, before, limit):
            yield found

    @override
    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        target, work = self._put(config, checkpoint, metadata)
        if work is not None:
            self._call_sync(work)
        return target.wrote(checkpoint["id"])

    @override
    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        target, work = self._put(config, checkpoint, metadata)
        if work is not None:
            await self._call(work)
        return target.wrote(checkpoint["id"])

    @override
    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        if (work := self._put_writes(config, writes, task_id, task_path)) is not None:
            self._call_sync(work)

    @override
    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        if (work := self._put_writes(config, writes, task_id, task_path)) is not None:
            await self._call(work)

    @override
    def delete_thread(self, thread_id: str) -> None:
        self._call_sync(self.maintenance.delete, thread_id)

    @override
    async def adelete_thread(self, thread_id: str) -> None:
        await self._call(self.maintenance.delete, thread_id)

    @override
    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        self._call_sync(self._delete_for_runs, run_ids)

    @override
    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        await self._call(self._delete_for_runs, run_ids)

    @override
    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        self._call_sync(self.maintenance.prune, thread_ids, strategy)

    @override
    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        await self._call(self.maintenance.prune, thread_ids, strategy)

    @override
    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        self._call_sync(self.maintenance.copy, source_thread_id, target_thread_id)

    @override
    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await self._call(self.maintenance.copy, source_thread_id, target_thread_id)

    @override
    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        return self._call_sync(self._delta_history, config, channels)

    @override
    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        return await self._call(self._delta_history, config, channels)

    get_next_version = InMemorySaver.get_next_version
    """Numbers channel versions as all of LangGraph's savers do."""

    async def _moved(self, config: RunnableConfig, move_in: MoveIn) -> None:
        """Move in the thread of *config*, on the loop of the caller, where the other checkpointer may be at home."""
        thread_id = thread_id_from(config.get("configurable", {}).get("thread_id"))
        owner = self._owner or self._owner_of(config)
        if (thread_id, owner) not in self._moved_in:
            await move_in(self, thread_id, owner)
            self._moved_in.add((thread_id, owner))

    def _view(self, **changes: object) -> ThreadkeepCheckpointer:
        view = copy.copy(self)
        vars(view).update(changes)
        return view

    def _call(
        self, work: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, T]:
        """Call *work* in the storage's loop, connected; it may take as long as one call of the storage."""
        return self._loop.run(self._ready(self._threads.call, work, *args, **kwargs))

    def _call_sync(self, work: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do what :meth:`_call` does, blocking."""
        return self._loop.run_sync(self._ready(self._threads.call, work, *args, **kwargs))

    def _ready(
        self, work: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, T]:
        """Return what calls *work* in the storage's loop, connected."""
        if self._leases.closed:
            raise closed_error()
        return work(*args, **kwargs) if self._leases.connected else self._connected(work, *args, **kwargs)

    async def _connected(self, work: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Connect at the first call."""
        await self._threads.call(self._connect)
        self._leases.connected = True
        return await work(*args, **kwargs)

    def lease_of(self, config: RunnableConfig) -> Lease | None:
        """Return the lease that the run of *config* writes with; ``None``: it has none."""
        return self._target(config).lease

    def _target(self, config: RunnableConfig) -> Target:
        configurable = config.get("configurable", {})
        thread_id = thread_id_from(configurable.get("thread_id"))
        partition, run = thread_partition(thread_id, self._owner), run_of(configurable)
        lease = None if run is None else self._leases.of(run, partition)
        thread = lease.thread if lease is not None else self._threads.get(partition, thread_id)
        namespace, checkpoint_id = configurable.get("checkpoint_ns"), configurable.get("checkpoint_id")
        place = CheckpointPlace(str(namespace or ""), str(checkpoint_id or ""))
        # A run with a lease has shown its owner when it began.
        owner = lease.owner if lease is not None else self._owner or self._owner_of(config)
        return Target(configurable, thread, place, owner, lease, run, configurable.get(_DURABILITY) == "sync")

    async def _load(self, target: Target, lease: Lease | None = None) -> CheckpointTuple | None:
        """Return a checkpoint; *lease*: of the run that begins with it, which notes the large values it refers to."""
        if target.lease is not None:
            await target.lease.settle()
        owner = target.owner if lease is None and self._owner is None else None
        loaded = await target.thread.load(target.place, fresh=lease is None, owner=owner)
        if loaded is None:
            return None
        found = await target.thread.to_tuple(loaded, self.serde)
        come_after(found)
        if lease is not None:
            loaded.note_values(lease.stored, found.checkpoint["channel_versions"])
        return found

    async def _require_owner(self, target: Target) -> None:
        """Check the owner; a run with a lease has shown its owner, and reads what it wrote."""
        if target.lease is not None:
            await target.lease.settle()
        elif self._owner is None and target.owner is not None:
            await self.owners.check(target.thread, target.owner)

    def _take(self, target: Target) -> Coroutine[Any, Any, Lease]:
        configurable, scoped = target.configurable, self._owner is not None
        strategy, token = self._leases.terms.strategy_of(configurable), token_of(configurable)
        locked_to = None if scoped else target.owner
        latest = not target.place[1]  # the configs of a thread's history, from which LangGraph forks, name no owner
        return self._leases.take(
            target.thread, target.owner, strategy, scoped=scoped, locked_to=locked_to, token=token, needs_owner=latest
        )

    async def _begin(
        self, target: Target, beginning: Beginning, *, reads: bool
    ) -> tuple[Lease, CheckpointTuple | None]:
        """Return the lease of a run or a block that begins; if it *reads*, with the checkpoint that it continues."""
        around = beginning.around
        shared = around is not None and not around.over and around.thread.partition == target.thread.partition
        lease = around if shared and around is not None else await self._take(target)
        beginning.lease = None if shared else lease
        try:
            found = await self._threads.call(self._load, target, lease) if reads else None
            if beginning.abandoned:
                raise asyncio.CancelledError  # noqa: TRY301 - the lease is given back
            return lease, found  # noqa: TRY300
        except BaseException:
            if not shared:  # in a task of its own: the cancellation may still be on its way to this one
                self._leases.release_soon(lease)
            raise

    def _require_outside(self, target: Target) -> None:
        """Refuse a run that a node of a run on the same thread begins: it would wait for itself."""
        around = var_child_runnable_config.get()
        run = None if around is None else run_of(around.get("configurable", {}))
        lease = None if run is None else self._leases.of(run, target.thread.partition)
        if lease is not None and not lease.over:
            raise busy()

    def _follow(self, target: Target, lease: Lease) -> None:
        """Give the run its lease, and give the lease back when the run ends."""
        identity = target.run
        self._leases.assign(identity, lease)
        run = current_run()
        if current_lease.get() is lease:  # of the block around the run
            if run is not None:
                run.resource = SharedLease(lease, identity)
            return
        if run is not None:
            run.resource = lease
        writer = getattr(target.configurable.get(RUNTIME), "stream_writer", None)
        with suppress(TypeError):  # it lives as long as the run, which may be dropped without an end
            weakref.finalize(writer, self._leases.release_soon, lease).atexit = False

    def _put(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata
    ) -> tuple[Target, Callable[[], Coroutine[Any, Any, None]] | None]:
        """Encode on the caller's thread; return what writes it; ``None``: the run does so with what comes next.

        With ``durability="sync"`` the latter is the checkpoint of its input alone: no node runs before the next one.
        """
        target = self._target(config)
        lease, (namespace, parent_id) = target.lease, target.place
        run = lease.run if lease is not None else ""
        if lease is not None and not namespace:
            lease.status = "idle"
        puts = encode_checkpoint(
            namespace,
            checkpoint,
            get_checkpoint_metadata(config, metadata),
            parent_id=parent_id,
            run=run,
            serde=self.serde,
            stored={} if lease is None else lease.stored,
        )
        write = Write("put", namespace, checkpoint["id"], parent_id, run or None, target.run is not None)
        change = Change(partial(target.thread.admit if lease is None else admit, write=write), puts, lease=lease)
        if lease is None:
            return target, partial(self._write, target, change)
        if target.is_sync and metadata.get("source") != "input":
            return target, partial(lease.write, change)
        lease.require_no_failure()
        lease.defer(change)
        return target, None

    def _put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
    ) -> Callable[[], Coroutine[Any, Any, None]] | None:
        """Encode on the caller's thread; return what writes it; ``None``: the run does so with what comes next."""
        target = self._target(config)
        if not writes:
            return partial(self._require_owner, target)
        lease = target.lease
        run, memory = lease.run if lease is not None else "", not is_memory_off(config)
        if lease is not None and not target.place.namespace and (status := status_after(writes)):
            lease.status = status
        write = Write("writes", *target.place, run=run or None, in_graph=target.run is not None)
        puts = encode_writes(
            target.place, writes, task_id=task_id, task_path=task_path, run=run, serde=self.serde, memory=memory
        )
        change = Change(partial(target.thread.admit if lease is None else admit, write=write), puts, lease=lease)
        if lease is None:
            return partial(self._write, target, change)
        if target.is_sync:
            return partial(lease.write_with_next, change)
        lease.defer(change)
        return None

    async def _write(self, target: Target, change: Change) -> None:
        """Commit *change* outside of a lease, in the thread of its owner."""
        if target.owner is not None:
            await self.owners.bind(target.thread, target.owner, epoch=None, scoped=self._owner is not None)
        await target.thread.write(change)

    async def _list(
        self,
        config: RunnableConfig | None,
        wanted: Mapping[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> Sequence[CheckpointTuple]:
        """Return checkpoints, newest first."""
        if limit is not None and limit <= 0:
            return []
        older = str(before.get("configurable", {}).get("checkpoint_id") or "") if before is not None else ""
        if config is not None:
            target = self._target(config)
            await self._require_owner(target)
            namespace = target.configurable.get("checkpoint_ns")
            listed = ListedCheckpoints(
                None if namespace is None else str(namespace), target.place[1], older, wanted or {}
            )
            return await self.maintenance.list(target.thread, listed, limit)
        found: list[CheckpointTuple] = []
        for thread in await self._view_threads():
            found += await self.maintenance.list(thread, ListedCheckpoints(None, "", older, wanted or {}))
        return sorted(found, key=lambda one: one.checkpoint["id"], reverse=True)[:limit]

    async def _view_threads(self) -> Sequence[ThreadStore]:
        if self._owner is not None:
            ids = [one.thread_id for one in await self.directory.of_owner(self._owner) if one.scoped]
        else:
            ids = [ThreadId(one) for one in await self._threads.unscoped_ids()]
        return [self._threads.get(thread_partition(one, self._owner), one) for one in ids]

    async def _delete_for_runs(self, run_ids: Sequence[str]) -> None:
        for thread in await self._view_threads():
            await self.maintenance.delete_runs(thread, set(run_ids))

    async def _delta_history(
        self, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Walk from the parent of the checkpoint of *config* to the nearest value of each channel."""
        target = self._target(config)
        await self._require_owner(target)
        return await self.maintenance.delta_history(target.thread, target.place, channels)
