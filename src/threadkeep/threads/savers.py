"""What stands behind every view of a checkpointer: one saver, opened and closed once, and waited for within limits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from threadkeep.errors import StorageUnavailableError
from threadkeep.home import closed_error
from threadkeep.threads.backend import Backend, Saver

if TYPE_CHECKING:
    from langgraph.checkpoint.serde.base import SerializerProtocol

    from threadkeep.threads.fence import Claim

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
        claim: Claim | None = None,
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
        claim: Claim | None = None,
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
