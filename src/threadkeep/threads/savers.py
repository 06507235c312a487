"""What stands behind every view of a checkpointer: one saver, opened and closed once, and waited for within limits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar, cast

from langgraph.checkpoint.base import get_checkpoint_metadata

from threadkeep.errors import ConflictError, StorageUnavailableError
from threadkeep.event_loop import closed_error
from threadkeep.threads.base import Backend, Saver
from threadkeep.threads.fencing import ADDRESSED, RUN, ThreadClaim, claim_of_put, claim_of_subgraph, claim_of_writes
from threadkeep.threads.thread_access import configurable_of, place_of, thread_id_from

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata
    from langgraph.checkpoint.serde.base import SerializerProtocol

    from threadkeep.event_loop import EventLoopThread
    from threadkeep.ids import ThreadId
    from threadkeep.threads.maintenance import ThreadMaintenance


T = TypeVar("T")

ANSWER: Final = timedelta(seconds=10)
"""How long a checkpoint is waited for, connecting included."""

_RUNS_KEPT: Final = 10_000


class SharedSaver:
    """The real saver behind all views of one checkpointer: opened once, closed once, used on the home loop.

    Args:
        backend: Where the checkpoints are kept.
        timeout: How long a call may take.
    """

    def __init__(self, backend: Backend, *, timeout: timedelta = ANSWER) -> None:
        self.backend = backend
        self.closed = False
        self._timeout = timeout
        self._opening: asyncio.Task[Saver] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._active = 0
        self._late: set[asyncio.Future[Any]] = set()
        self._idle = asyncio.Event()
        self._begun: dict[str, None] = {}

    @asynccontextmanager
    async def using(self) -> AsyncGenerator[None]:
        """Keep the saver open, opening it first."""
        if self.closed:
            raise closed_error()
        self._active += 1
        try:
            await self._opened()
            yield
        finally:
            self._active -= 1
            if not self._active:
                self._idle.set()

    async def run(
        self,
        serde: SerializerProtocol,
        work: Callable[[Saver], Awaitable[T]],
        *,
        claim: ThreadClaim | None = None,
        patience: int = 1,
    ) -> T:
        """Return what *work* does with the saver, with its driver's errors in our words.

        Args:
            serde: What the saver reads and writes by.
            work: One call of the saver. Where a connection breaks it is made once more, which does no harm.
            claim: Who writes what, if it is a write.
            patience: How many times the usual time it may take.

        Raises:
            StorageUnavailableError: It took too long. It may still be carried out.
            ThreadBusyError, ThreadMovedOnError: Another run is at work there, or was first.
        """
        saver = self.backend.with_serializer(await self._opened(), serde)
        seconds = self._timeout.total_seconds() * patience
        return await self._limited(lambda: self.backend.call(saver, work, seconds=seconds, claim=claim), seconds)

    @property
    def reachable(self) -> bool:
        """Whether :meth:`reach` and :meth:`give_back` can be used now; asked from any thread."""
        opening = self._opening
        return (
            self.backend.reachable
            and not self.closed
            and opening is not None
            and opening.done()
            and not (opening.cancelled() or opening.exception())
        )

    async def reach(
        self,
        serde: SerializerProtocol,
        work: Callable[[Saver], T],
        *,
        claim: ThreadClaim | None = None,
        lost: Callable[[T], object] | None = None,
    ) -> T:
        """Return what *work*, one blocking call of the saver, does: as :meth:`run`, but from whichever loop.

        Args:
            serde: What the saver reads and writes by.
            work: The call.
            claim: Who writes what, if it is a write.
            lost: Is told what *work* returned where nobody waits for it any more; in whichever thread.

        Raises:
            ClosedError: It was closed at this moment.
        """
        saver = self.backend.with_serializer(self._there, serde)
        try:
            answer = self.backend.begin(saver, work, claim=claim, lost=lost)
        except RuntimeError:
            raise closed_error() from None
        late = answer.get_loop().call_later(self._timeout.total_seconds(), self._give_up, answer)
        try:
            return await answer
        except asyncio.CancelledError:
            if lost is not None and answer.done() and not answer.cancelled() and answer.exception() is None:
                lost(answer.result())  # it came at the very moment at which nobody waited any more
            raise
        except self.backend.errors as error:
            raise self.backend.explained(error) from error
        finally:
            late.cancel()

    def give_back(self, thread: str, token: int, *, then: Callable[[], object]) -> None:
        """End a lease, some time soon; *then* is called in whichever thread, also where it has to expire.

        Raises:
            RuntimeError: It was closed.
        """
        self.backend.begin_giving_back(self._there, thread, token, then=then)

    async def leasing(
        self, work: Callable[[Backend, Saver], Awaitable[T]], *, serde: SerializerProtocol | None = None
    ) -> T:
        """Return what *work* does with the backend and its saver, as :meth:`run` would; with *serde* it may read."""
        saver = await self._opened()
        if serde is not None:
            saver = self.backend.with_serializer(saver, serde)
        return await self._limited(lambda: work(self.backend, saver))

    async def forget_newer(self, thread: str, checkpoint_id: str) -> None:
        """Delete what is newer than a checkpoint in a thread that the caller has a lease on."""
        await self.leasing(lambda backend, saver: backend.forget_newer(saver, thread, checkpoint_id))

    def begins(self, run: str) -> bool:
        """Whether *run* writes for the first time; asked before each of its writes."""
        if run in self._begun:
            return False
        self._begun[run] = None
        if len(self._begun) > _RUNS_KEPT:
            self._begun.pop(next(iter(self._begun)))
        return True

    async def close(self) -> None:
        """Let what is under way finish, then let go; the second call waits for the first."""
        self.closed = True
        self._closing = self._closing or asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _limited(self, work: Callable[[], Awaitable[T]], seconds: float | None = None) -> T:
        """Return what *work* returns, if that is soon; what is late is told to end, and not waited for."""
        if not self.backend.waits:
            return await work()
        seconds = seconds or self._timeout.total_seconds()
        doing = asyncio.ensure_future(self._twice(work))
        try:
            await asyncio.wait({doing}, timeout=seconds)
        finally:
            if not doing.done():
                doing.cancel()
                self._late.add(doing)
                doing.add_done_callback(self._ended)
        if doing.done():
            return doing.result()
        raise self._too_late(seconds)

    @property
    def _there(self) -> Saver:
        return cast("asyncio.Task[Saver]", self._opening).result()

    def _give_up(self, answer: asyncio.Future[Any]) -> None:
        if not answer.done():
            answer.set_exception(self._too_late(self._timeout.total_seconds()))

    def _too_late(self, seconds: float) -> StorageUnavailableError:
        msg = (
            f"{self.backend.location} did not answer within {seconds:g} seconds; look at its load, or try again. "
            "What was to be written there may still arrive."
        )
        return StorageUnavailableError(msg, location=self.backend.location)

    async def _twice(self, work: Callable[[], Awaitable[T]]) -> T:
        try:
            return await work()
        except self.backend.errors as error:
            if not self.backend.gone(error):
                raise self.backend.explained(error) from error
        try:
            return await work()
        except self.backend.errors as error:
            raise self.backend.explained(error) from error

    async def _opened(self) -> Saver:
        if self._opening and self._opening.done() and (self._opening.cancelled() or self._opening.exception()):
            self._opening = None  # what was wrong may be right by now
        self._opening = self._opening or asyncio.ensure_future(self._limited(self.backend.open))
        return await asyncio.shield(self._opening)

    async def _close(self) -> None:
        while self._active:
            self._idle.clear()
            await self._idle.wait()
        if self._late:
            await asyncio.wait(self._late, timeout=self._timeout.total_seconds())
        await self._limited(self.backend.close)

    def _ended(self, late: asyncio.Future[Any]) -> None:
        self._late.discard(late)
        if not late.cancelled():
            late.exception()  # whoever waited has been told that it took too long


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """One write.

    Attributes:
        claim: Who writes what.
        blocking: Makes it by a blocking call of the saver.
        waiting: Makes it by one that is awaited on the home loop.
    """

    claim: ThreadClaim
    blocking: Callable[[Saver], T]
    waiting: Callable[[Saver], Awaitable[T]]


Planned: TypeAlias = "Callable[[RunnableConfig], Change[T]]"
"""Makes the change, given the configuration for the real saver; it is called once."""


@dataclass(frozen=True, slots=True)
class Writing:
    """Makes the changes of one view of a checkpointer.

    Attributes:
        upkeep: Its threads.
        home: The loop that its saver lives on.
    """

    upkeep: ThreadMaintenance
    home: EventLoopThread

    async def written(self, config: RunnableConfig, planned: Planned[T]) -> tuple[ThreadId, T]:
        """Return the thread of *config*, and what a change of it returned; on any loop.

        Where it is known already whose thread it is, the caller's loop hands the change to the saver's thread itself:
        the home loop may be busy with what the same turn recalls.
        """
        upkeep = self.upkeep
        admitted = None
        if self.home.here and upkeep.shared.reachable:
            admitted = upkeep.admission.admitted_at_once(config)
        if admitted is None:
            return await self.home.run(self.at_home(config, planned))
        thread_id, inner = admitted
        change = planned(inner)
        try:
            return thread_id, await upkeep.shared.reach(upkeep.serde, change.blocking, claim=change.claim)
        except ConflictError:
            await self.home.run(upkeep.let_go_of_deleted(thread_id))
            raise

    async def at_home(self, config: RunnableConfig, planned: Planned[T]) -> tuple[ThreadId, T]:
        """Do the same on the home loop."""
        upkeep = self.upkeep
        async with upkeep.shared.using():
            thread_id, inner = await upkeep.admitted_to_write(config)
            change = planned(inner)
            try:
                return thread_id, await upkeep.shared.run(upkeep.serde, change.waiting, claim=change.claim)
            except ConflictError:
                await upkeep.let_go_of_deleted(thread_id)
                raise

    def planned_put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> Planned[RunnableConfig]:
        """Return the change that keeps *checkpoint*."""
        thread_id = thread_id_from(configurable_of(config).get("thread_id"))

        def planned(inner: RunnableConfig) -> Change[RunnableConfig]:
            name, namespace = place_of(inner)
            noted = {**get_checkpoint_metadata(config, metadata), **self.upkeep.admission.notes(thread_id, name)}

            def packed() -> tuple[RunnableConfig, Checkpoint, CheckpointMetadata, ChannelVersions]:
                envelope, serde = self.upkeep.envelope, self.upkeep.serde
                kept = envelope.checkpoint(checkpoint, serde=serde, thread=name, namespace=namespace)
                return inner, kept, envelope.metadata(noted, serde=serde, thread=name), new_versions

            return Change(
                self._claim_of_put(config, name, namespace, checkpoint["id"], str(metadata.get("source", ""))),
                lambda saver: saver.put(*packed()),
                lambda saver: saver.aput(*packed()),
            )

        return planned

    def planned_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
    ) -> Planned[None]:
        """Return the change that keeps what a task wrote: all of it or nothing."""

        def planned(inner: RunnableConfig) -> Change[None]:
            name, namespace = place_of(inner)
            configurable = configurable_of(config)

            def packed() -> tuple[RunnableConfig, Sequence[tuple[str, Any]], str, str]:
                kept = self.upkeep.envelope.writes(writes, serde=self.upkeep.serde, thread=name, namespace=namespace)
                return inner, kept, task_id, task_path

            return Change(
                claim_of_subgraph(configurable, name, self.upkeep.leases.hold_of(name))
                if namespace
                else claim_of_writes(configurable, name),
                lambda saver: saver.put_writes(*packed()) if writes else None,
                lambda saver: saver.aput_writes(*packed()) if writes else _nothing(),
            )

        return planned

    def _claim_of_put(
        self, config: RunnableConfig, thread: str, namespace: str, checkpoint_id: str, source: str
    ) -> ThreadClaim:
        configurable = configurable_of(config)
        if namespace:
            return claim_of_subgraph(configurable, thread, self.upkeep.leases.hold_of(thread))
        run = str(configurable.get(RUN, ""))
        # A run that was told where to begin is free to do so, once; from then on it continues what it wrote.
        begins = run.startswith(ADDRESSED) and self.upkeep.shared.begins(run)
        return claim_of_put(configurable, thread, checkpoint_id, source=source, begins=begins)


async def _nothing() -> None:
    """Write nothing."""
