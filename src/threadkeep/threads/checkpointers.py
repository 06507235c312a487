"""LangGraph's checkpoint savers as we wrap them: lazy, at home on every loop, strict, and each thread one owner's."""

from __future__ import annotations

import copy
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)
from langgraph.checkpoint.memory import InMemorySaver

from threadkeep.event_loop import EventLoopThread
from threadkeep.identity import Owner, claimed_owner
from threadkeep.threads.base import Backend, Saver, ThreadListing
from threadkeep.threads.codec import (
    PLAIN_METADATA,
    AllowedType,
    Cipher,
    Envelope,
    StrictSerializer,
    let_graphs_list_their_types,
)
from threadkeep.threads.fencing import (
    LEASE,
    RUN,
    begins_a_run,
    is_inside_of,
    named,
    note,
    refused,
)
from threadkeep.threads.leases import Beginning, Begun, Leases, LeaseTerms, RunName
from threadkeep.threads.maintenance import ANCHOR, KeptCheckpoints, ThreadMaintenance, ThreadStats
from threadkeep.threads.run_events import current_run, listen
from threadkeep.threads.savers import ANSWER, SharedSaver, Writing
from threadkeep.threads.thread_access import Admission, Names, configurable_of, place_of, thread_id_from, with_thread
from threadkeep.threads.thread_ownership import Binder

# All of LangGraph's savers number channel versions in the same way; this one does it for ours, so
# that asking for a number never waits for the real one to open.
_versions: Final = InMemorySaver()


class ThreadkeepCheckpointer(BaseCheckpointSaver[str]):
    """A checkpointer that works sync and async, on any loop and inside a running one, and opens at its first use.

    Thread ids are kept as given: any text of 1–1,000 characters. Where the run says whose turn it
    is (its context, ``user_id``, ``langgraph_user_id``, or a LangGraph server's user), the first
    write binds the thread to that owner, and everybody else is refused before a row is read or written.

    Listing without a thread lists what this view sees: unscoped all but the scoped threads, scoped
    those of its owner.

    Args:
        backend: Where the checkpoints are kept.
        home: The loop that the real saver lives on.
        binder: Who knows whose thread it is; ``None``: nobody is asked.
        whose: Says whose run a configuration is of, ``None`` for nobody's; by default
            :func:`~threadkeep.identity.claimed_owner`.
        allowed_types: See :class:`StrictSerializer`; what :meth:`with_allowlist` adds.
        key_prefix: Tells deployments that share one database apart.
        cipher: Encrypts what the checkpoints hold; ``None``: nothing is encrypted.
        timeout: How long a call may take, connecting included.
        terms: How runs get leases on threads.

    Attributes:
        backend: Where the checkpoints are kept.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        home: EventLoopThread,
        binder: Binder | None = None,
        whose: Callable[[RunnableConfig], Owner | None] | None = None,
        allowed_types: Collection[AllowedType] = (),
        key_prefix: str = "",
        cipher: Cipher | None = None,
        timeout: timedelta = ANSWER,
        terms: LeaseTerms | None = None,
    ) -> None:
        super().__init__(serde=StrictSerializer(allowed_types))
        let_graphs_list_their_types()
        listen()
        self._home = home
        self.backend = backend
        self._shared = SharedSaver(backend, timeout=timeout)
        self._leases = Leases(self._shared, terms or LeaseTerms())
        self._envelope = Envelope(cipher, texts_only=backend.texts_only, plain_texts=backend.plain_texts)
        self._admission = Admission(Names(key_prefix, backend.longest_name), binder, whose or _claimed_owner)

    @property
    def owner(self) -> Owner | None:
        """Whose threads this view is for; ``None``: everybody's."""
        return self._admission.owner

    def scoped(self, owner: Owner) -> ThreadkeepCheckpointer:
        """Return a view of *owner*'s threads only, over the same checkpoints.

        A thread is stored under a digest of owner and id, so this view cannot name another's thread,
        and nobody else can name its. What it returns carries the ids as given.
        """
        view = copy.copy(self)
        view._admission = replace(self._admission, owner=owner)  # noqa: SLF001 - a copy of this very object
        return view

    def with_allowlist(self, extra_allowlist: Collection[type | tuple[str, ...]]) -> ThreadkeepCheckpointer:
        """Return a view that also reads objects of these classes, each given as itself or as ``(module, name)``.

        Compiling a graph does this for the types of its state. LangGraph does not see an agent's
        ``response_format`` there, so name it: ``tk.checkpointer.with_allowlist([Answer])``.
        """
        return cast(
            "ThreadkeepCheckpointer", super().with_allowlist(cast("Collection[tuple[str, ...]]", extra_allowlist))
        )

    def identified(self, whose: Callable[[RunnableConfig], Owner | None]) -> ThreadkeepCheckpointer:
        """Return a view of the same checkpoints that asks *whose* run a configuration is of."""
        view = copy.copy(self)
        view._admission = replace(self._admission, whose=whose)  # noqa: SLF001 - a copy of this very object
        return view

    def owner_by(self, config: RunnableConfig) -> Owner | None:
        """Return whose a run's threads are by what its configuration says; ``None``: that counts for nothing here."""
        return None if self._admission.owner or not self._admission.binder else self._admission.whose(config)

    async def connect(self) -> None:
        """Open what is needed now, instead of at the first use."""

        async def opened() -> None:
            async with self._shared.using():
                pass

        await self._home.run(opened())

    async def aclose(self) -> None:
        """Finish what is under way and close; all views are closed with it. The second call does nothing."""
        if self._home.running:
            await self._home.run(self._close())
        self._shared.closed = True

    def close(self) -> None:
        """Do what :meth:`aclose` does, blocking."""
        if self._home.running:
            self._home.run_sync(self._close())
        self._shared.closed = True

    @asynccontextmanager
    async def leased(self, config: RunnableConfig) -> AsyncGenerator[Mapping[str, Any]]:
        """Hold the lease on a thread for several calls, e.g. one that looks and one that runs what it found.

        Args:
            config: As for a run: the thread, whose it is, and the ``multitask_strategy``.

        Returns:
            What the ``configurable`` of runs under this lease has to hold.

        Raises:
            ThreadBusyError: Another run is at work, and the strategy is not to wait; or it took too long.
        """
        self._see_inside(config)
        hold = await self._home.run(self._beginning.leased(config))
        try:
            yield {RUN: hold.run, LEASE: hold.token}
        finally:
            hold.end()

    async def adelete_of_owner(self, thread_ids: Sequence[str], *, owner: Owner) -> None:
        """Delete threads as *owner* has them: scoped, and unscoped where they are bound to them.

        Nothing of them is left in the place afterwards, where that is a file.
        """
        await self._home.run(self._upkeep.delete_of_owner([thread_id_from(one) for one in thread_ids], owner))

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that *config* names, or the thread's newest.

        Where a run of LangGraph's begins by that, it gets a lease on the thread, and waits for it.
        """
        if not begins_a_run(configurable_of(config)):
            return self._home.run_sync(self._get_tuple(config))
        self._see_inside(config)
        return self._noted(config, self._home.run_sync(self._beginning.at_home(config)))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that *config* names, or the thread's newest.

        Where a run of LangGraph's begins by that, it gets a lease on the thread, and waits for it.
        """
        if not begins_a_run(configurable_of(config)):
            return await self._home.run(self._get_tuple(config))
        self._see_inside(config)
        return self._noted(config, await self._beginning.begun(config))

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Yield checkpoints, newest first; nothing is held open between them, so a caller may write or stop."""
        listing = ThreadListing(config, filter, before, limit)
        while page := self._home.run_sync(self._next_page(listing)):
            yield from page

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Yield checkpoints, newest first; nothing is held open between them, so a caller may write or stop."""
        listing = ThreadListing(config, filter, before, limit)
        while page := await self._home.run(self._next_page(listing)):
            for found in page:
                yield found

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Keep *checkpoint*; when this returns, it is durable."""
        writing = self._writing
        planned = writing.planned_put(config, checkpoint, metadata, new_versions)
        thread_id, put = self._home.run_sync(writing.at_home(config, planned))
        return with_thread(put, thread_id)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Keep *checkpoint*; when this returns, it is durable."""
        writing = self._writing
        planned = writing.planned_put(config, checkpoint, metadata, new_versions)
        thread_id, put = await writing.written(config, planned)
        return with_thread(put, thread_id)

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Keep what a task wrote after the checkpoint of *config*: all of it or nothing."""
        writing = self._writing
        self._home.run_sync(writing.at_home(config, writing.planned_writes(config, writes, task_id, task_path)))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Keep what a task wrote after the checkpoint of *config*: all of it or nothing."""
        writing = self._writing
        await writing.written(config, writing.planned_writes(config, writes, task_id, task_path))

    def delete_thread(self, thread_id: str) -> None:
        """Delete everything of the thread, and whose it was."""
        self._home.run_sync(self._upkeep.delete(thread_id_from(thread_id)))

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete everything of the thread, and whose it was."""
        await self._home.run(self._upkeep.delete(thread_id_from(thread_id)))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Do what :meth:`aprune` does, blocking."""
        self._home.run_sync(self._upkeep.prune(thread_ids, strategy))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Remove all checkpoints of these threads but the newest of each namespace, or all with ``delete``.

        Raises:
            InvalidInputError: The strategy is none.
            ThreadBusyError: A run is at work on one of them, and did not end in time.
        """
        await self._home.run(self._upkeep.prune(thread_ids, strategy))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all checkpoints of a thread into one that has none."""
        await self.acopy(source_thread_id, target_thread_id)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all checkpoints of a thread into one that has none."""
        self._home.run_sync(self._upkeep.copy(source_thread_id, target_thread_id, None))

    async def acopy(self, source_thread_id: str, target_thread_id: str, *, until: str | None = None) -> int:
        """Copy a thread, or what led to its checkpoint *until*, into one that has none; return how many checkpoints.

        Raises:
            ConflictError: The other one has checkpoints.
            InvalidInputError: There is nothing to copy.
        """
        return await self._home.run(self._upkeep.copy(source_thread_id, target_thread_id, until))

    async def athin(self, thread_id: str, keep: KeptCheckpoints, *, wait: bool = True) -> int:
        """Remove what *keep* does not name from a thread; return how many checkpoints went.

        Raises:
            ThreadBusyError: A run is at work on it, and did not end in time or is not waited for.
        """
        return await self._home.run(self._upkeep.thin(thread_id_from(thread_id), keep, wait=wait))

    async def astats(self, thread_id: str) -> ThreadStats:
        """Return how large a thread is."""
        return await self._home.run(self._upkeep.stats(thread_id_from(thread_id)))

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return what was written to each of *channels* since its last snapshot."""
        return self._home.run_sync(self._delta_history(config, channels))

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return what was written to each of *channels* since its last snapshot."""
        return await self._home.run(self._delta_history(config, channels))

    def get_next_version(self, current: str | None, channel: None) -> str:
        """Return the version after *current*."""
        return _versions.get_next_version(current, channel)

    async def _get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        async with self._shared.using():
            thread_id, inner = await self._admission.admitted(config, writing=False)
            return self._upkeep.seen(await self._upkeep.run(lambda saver: saver.aget_tuple(inner)), config, thread_id)

    async def _close(self) -> None:
        if not self._shared.closed:
            await self._leases.close()
        await self._shared.close()

    def _see_inside(self, config: RunnableConfig) -> None:
        """Refuse a run that a node of the thread's own run began: it would wait for itself."""
        hold = self._leases.hold_of(self._admission.name(thread_id_from(configurable_of(config).get("thread_id"))))
        if hold is not None and is_inside_of(hold):
            raise refused("busy")

    def _noted(self, config: RunnableConfig, begun: Begun) -> CheckpointTuple | None:
        """Let the run know its lease, and the lease the end of the run."""
        hold, found, epoch = begun
        run = RunName(hold.run)
        weakref.finalize(run, hold.forgotten).atexit = False
        note(config, hold, run, epoch)
        if (running := current_run()) is not None:
            hold.running = running
            running.when_ended(hold.end)
        return None if found is None else named(found, configurable_of(config))

    def _can_be_asked_by(self, key: str) -> bool:
        able = self.backend.filters
        return (able is None or key in able) and (key in PLAIN_METADATA or not self._envelope.everything)

    async def _next_page(self, listing: ThreadListing) -> Sequence[CheckpointTuple]:
        async with self._shared.using():
            thread_id, inner, wanted = None, None, dict(listing.filter or {})
            if listing.config is not None:
                thread_id, inner = await self._admission.admitted(listing.config, writing=False)
            elif self.owner is not None:
                wanted |= self._admission.notes_of_owner()
            asked, keeps = self._admission.sieve(
                wanted, able=self._can_be_asked_by, everybodys=inner is None and self.owner is None
            )

            async def fetch(before: RunnableConfig | None, limit: int | None) -> Sequence[CheckpointTuple]:
                found = await self._upkeep.run(lambda saver: _fetch(saver, inner, asked, before, limit))
                return [self._envelope.opened(one, serde=self.serde) for one in found]

            page = await listing.next_page(fetch, keeps)
            return [self._admission.outward(one, thread_id) for one in page if ANCHOR not in one.metadata]

    async def _delta_history(
        self, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        async with self._shared.using():
            _, inner = await self._admission.admitted(config, writing=False)
            name, namespace = place_of(inner)
            found = await self._upkeep.run(
                lambda saver: saver.aget_delta_channel_history(config=inner, channels=channels)
            )
            return self._envelope.opened_history(found, serde=self.serde, thread=name, namespace=namespace)

    @property
    def _beginning(self) -> Beginning:
        return Beginning(self._upkeep, self._home)

    @property
    def _writing(self) -> Writing:
        return Writing(self._upkeep, self._home)

    @property
    def _upkeep(self) -> ThreadMaintenance:
        return ThreadMaintenance(self._shared, self._leases, self._envelope, self.serde, self._admission)


async def _fetch(
    saver: Saver,
    config: RunnableConfig | None,
    filter: dict[str, Any] | None,  # noqa: A002 - LangGraph's name
    before: RunnableConfig | None,
    limit: int | None,
) -> list[CheckpointTuple]:
    return [one async for one in saver.alist(config, filter=filter, before=before, limit=limit)]


def _claimed_owner(config: RunnableConfig) -> Owner | None:
    return claimed_owner(configurable_of(config))
