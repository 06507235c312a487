"""The worker: takes waiting turns from the outbox, thread by thread, and learns from them.

The embedded engine needs nothing but the storage: it looks for turns when it is woken, and now and then.
"""

from __future__ import annotations

import asyncio
import os
import platform
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

from threadkeep.capture.models import QueuedTurn
from threadkeep.capture.queue import (
    GIVEN_BACK,
    MAX_TAKEN,
    DueTurns,
    Engine,
    Outbox,
    QueueTerms,
    Ready,
    TurnClaim,
    Waiting,
    key_of,
)
from threadkeep.concurrency import Priority, current_priority, until_available
from threadkeep.errors import ClosedError, RevisionConflictError, StorageError, ThreadkeepError
from threadkeep.event_loop import start_background
from threadkeep.identity import Owner
from threadkeep.ids import ThreadId, TurnId, new_id
from threadkeep.storage.interface import Ref, Storage

if TYPE_CHECKING:
    from threadkeep.capture.queue import Work
    from threadkeep.clock import Clock
    from threadkeep.observability import Telemetry


_FIRST_PAUSE_SECONDS: Final = 0.2
_LONGEST_PAUSE_SECONDS: Final = 30.0
_SHORTEST_WAIT_SECONDS: Final = 0.02

_AFTER_THE_TURN_SECONDS: Final = 0.01
"""A run is over a moment before its caller has the answer; learning at once would slow that down."""


class EmbeddedEngine:
    """Learns in this process, from as many threads at once as it has *workers*.

    Args:
        clock: What the time is.
        telemetry: Counts and logs what was survived.
        workers: See :class:`~threadkeep.capture.queue.Engine`.
        poll: How often to look for what another process left.
    """

    name: str = "embedded"

    def __init__(self, clock: Clock, telemetry: Telemetry, *, workers: int, poll: timedelta) -> None:
        self.workers = workers
        self._clock = clock
        self._telemetry = telemetry
        self._poll_seconds = poll.total_seconds()
        self._woken = asyncio.Event()
        self._serving: asyncio.Task[None] | None = None
        self._learning: set[asyncio.Task[bool]] = set()
        self._look_at = 0.0
        self._paused = False

    @property
    def learns_here(self) -> bool:
        """See :class:`threadkeep.capture.queue.Engine`: while it serves, and the storage answers."""
        return self._serving is not None and not self._serving.done() and not self._paused

    async def start(self, work: Work) -> None:
        """See :meth:`threadkeep.capture.queue.Engine.start`."""
        if self.workers and (self._serving is None or self._serving.done()):
            self._serving = start_background(self._serve(work), name="threadkeep-capture")

    def wake(self, key: str, *, at: datetime | None = None) -> None:
        """See :meth:`threadkeep.capture.queue.Engine.wake`; what waits until *at* is found by looking."""
        del key
        if at is None:
            self._woken.set()

    async def stop(self) -> None:
        """See :meth:`threadkeep.capture.queue.Engine.stop`."""
        serving, self._serving = self._serving, None
        if serving is not None:
            serving.cancel()
            await asyncio.wait({serving})
        for task in self._learning:
            task.cancel()
        if self._learning:
            await asyncio.wait(self._learning)
        self._learning.clear()

    async def _serve(self, work: Work) -> None:
        pause = _FIRST_PAUSE_SECONDS
        while True:
            self._woken.clear()
            try:
                await self._wait(await self._round(work))
                pause, self._paused = _FIRST_PAUSE_SECONDS, False
            except ClosedError:
                return
            except StorageError as error:
                self._telemetry.degraded("capture.worker", error)
                self._paused, self._look_at = True, 0.0
                # Not to be woken: every new turn would ask a storage that is down.
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)

    async def _round(self, work: Work) -> float:
        """Start learning from everything that may be taken; return how many seconds to wait then."""
        loop = asyncio.get_running_loop()
        woken = loop.time() < self._look_at
        found = await work.find(woken=woken)
        keys = deque(found.keys)
        while keys:
            while len(self._learning) >= self.workers:
                await asyncio.wait(self._learning, return_when=asyncio.FIRST_COMPLETED)
                self._reap()
            task = loop.create_task(work.learn(keys.popleft()), name="threadkeep-learn")
            self._learning.add(task)
        seconds = self._poll_seconds
        if found.next_at is not None:
            left = (found.next_at - self._clock.now()).total_seconds()
            seconds = max(_SHORTEST_WAIT_SECONDS, min(left, seconds))
        look_at = loop.time() + seconds
        self._look_at = min(look_at, self._look_at) if woken else look_at
        return max(self._look_at - loop.time(), 0.0)

    async def _wait(self, seconds: float) -> None:
        """Wait until there may be something to do: a turn was recorded, a thread was learnt from, or it is time."""
        woken = asyncio.ensure_future(self._woken.wait())
        try:
            await asyncio.wait({woken, *self._learning}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if woken.done() and len(self._learning) < self.workers:
                await asyncio.sleep(_AFTER_THE_TURN_SECONDS)
        finally:
            woken.cancel()
        self._reap()

    def _reap(self) -> None:
        """Let go of what has ended.

        Raises:
            StorageError, ClosedError: As one of them ended.
        """
        ended = [task for task in self._learning if task.done()]
        self._learning.difference_update(ended)
        errors = [error for task in ended if not task.cancelled() and (error := task.exception()) is not None]
        if errors:
            raise errors[0]


_LOOK_AGAIN_SECONDS: Final = 0.25
_RENEWALS: Final = 3
"""How often a lease is renewed before it would end."""
_RELEASE_SECONDS: Final = 1.0
_REMEMBERED: Final = 8
"""How long learning takes is the mean of about so many threads that were learnt from last."""

Learn = Callable[[Ref, Owner, str | None], Awaitable[bool]]
"""Gets a record, its owner, and the owner's epoch when it was recorded, if that is known."""


@dataclass(eq=False)
class TurnHold:
    """Keeps this process from learning from a thread while a run that records a turn of it goes on.

    With :attr:`goes_on` it ends when the run releases it, or when no object refers to it any more: the application
    dropped the run.

    Attributes:
        key: Of the thread; see :func:`threadkeep.capture.queue.key_of`.
        goes_on: Whether the run has turns that are learnt from at its end.
        claim: The turns, if they were recorded with this worker's lease; other processes leave them alone meanwhile.
    """

    key: str
    goes_on: bool = False
    claim: TurnClaim | None = None


class Queue:
    """Runs *learn* for every turn that waits; nothing that it holds in memory is needed to go on.

    Args:
        storage: Where the records are.
        learn: Learns from one record; returns whether it finished it.
        clock: What the time is.
        telemetry: Counts and logs what was survived.
        engine: Who says that turns wait.
        terms: How workers share them.
    """

    def __init__(
        self, storage: Storage, learn: Learn, clock: Clock, telemetry: Telemetry, *, engine: Engine, terms: QueueTerms
    ) -> None:
        worker = f"{platform.node()}-{os.getpid()}-{new_id()[:8]}"
        self.outbox = Outbox(storage, clock, telemetry, terms=terms, worker=worker)
        self.engine = engine
        self._learn = learn
        self._telemetry = telemetry
        self._progress = asyncio.Event()
        self._watchers: dict[str, set[asyncio.Event]] = {}
        self._found: dict[str, Waiting] = {}
        self._own: dict[str, TurnClaim] = {}
        self._running: set[str] = set()
        self._holds: WeakSet[TurnHold] = WeakSet()
        self._passed_over: set[str] = set()
        self._unknown = True
        self._next_at: datetime | None = None
        self._seconds = 0.0
        self._hurried: Counter[str] = Counter()
        self.processed = 0

    async def start(self) -> None:
        """Let the engine begin; the second call does nothing."""
        await self.engine.start(self)

    async def stop(self) -> None:
        """Stop; what is not finished is given back, also of runs that go on. The second call does nothing."""
        await self.engine.stop()
        own, self._own = self._own, {}
        claims = [*own.values(), *[hold.claim for hold in self._holds if hold.claim is not None]]
        await asyncio.gather(*(self._give_back(claim, delay=timedelta(0)) for claim in claims))

    def may_lease(self) -> bool:
        """Return whether turns that are recorded now get this worker's lease at once, which saves a commit.

        It learns from them long before the lease would end: it does not wait for the thread to be quiet, and those that
        wait before them take less than a third of that time.
        """
        terms, engine = self.outbox.terms, self.engine
        if terms.debounce or not engine.learns_here:
            return False
        return len(self._own) * self._seconds < engine.workers * terms.lease.total_seconds() / _RENEWALS

    @contextmanager
    def hold(self, owner: Owner, thread_id: ThreadId | None) -> Generator[TurnHold]:
        """Learn from no turn of a thread in the block; after it, as long as what it yields says.

        The block may end early or fail, and an error may refer to the hold for long: that does not keep it.
        """
        hold = TurnHold(key_of(owner, thread_id))
        self._holds.add(hold)
        try:
            yield hold
        except BaseException:
            hold.goes_on = False
            raise
        finally:
            if not hold.goes_on:
                self._holds.discard(hold)

    def release(self, hold: TurnHold, wake: Callable[[], object]) -> None:
        """End *hold*, and call *wake*, which says that its turns wait."""
        self._holds.discard(hold)
        wake()

    def add(self, claim: TurnClaim) -> None:
        """Learn from turns that were recorded with this worker's lease."""
        before = self._own.get(claim.key)
        if before is None:
            self._own[claim.key] = claim
        else:
            before.refs += claim.refs
            if before.epoch != claim.epoch:
                before.epoch = None
        self.engine.wake(claim.key)

    def wake(self, owner: Owner, thread_id: ThreadId | None) -> None:
        """Say that turns of a thread wait, for any worker."""
        self._unknown = True
        self.engine.wake(key_of(owner, thread_id))

    @contextmanager
    def watch(self, owner: Owner, thread_ids: Iterable[ThreadId | None]) -> Generator[asyncio.Event]:
        """Yield an event that is set when this process has learnt from one of these threads; the caller clears it.

        Until the caller leaves, this process does not debounce the threads.
        """
        keys = {key_of(owner, thread_id) for thread_id in thread_ids}
        progress = asyncio.Event()
        for key in keys:
            self._watchers.setdefault(key, set()).add(progress)
        hurried = Counter(keys if self.outbox.terms.debounce else ())
        self._hurried += hurried
        self._unknown = self._unknown or bool(hurried)
        for key in hurried:
            self.engine.wake(key)
        try:
            yield progress
        finally:
            self._hurried -= hurried
            for key in keys:
                self._watchers[key].discard(progress)
                if not self._watchers[key]:
                    del self._watchers[key]

    async def find(self, *, woken: bool = False) -> DueTurns:
        """See :meth:`threadkeep.capture.queue.Work.find`."""
        found: tuple[str, ...] = ()
        if not woken:
            for hold in [*self._holds]:
                if hold.claim is not None:
                    await self.outbox.refresh(hold.claim)
        if not woken or self._unknown:
            ready = await self._ready(self._hurried)
            self._next_at, found = ready.next_at, ready.keys
        return DueTurns(self._with_own(found), self._next_at)

    async def learn(self, key: str | None = None) -> bool:
        """See :meth:`threadkeep.capture.queue.Work.learn`."""
        if key in self._own and key not in self._running:
            claim = self._own.pop(key)
            async with self._at(key):
                await self.outbox.refresh(claim)
                await self.work(claim, self._learn)
            return True
        waiting = self._found.pop(key, None) if key else None
        if waiting is None:
            await self._ready(self._hurried)
            waiting = self._found.pop(key, None) if key else None
        if waiting is None:
            waiting = self._found.pop(next(iter(self._found)), None) if self._found else None
        if waiting is None or waiting.key in self._running:
            return False
        async with self._at(waiting.key):
            for start in range(0, len(waiting.items), MAX_TAKEN):
                items = waiting.items[start : start + MAX_TAKEN]
                claim = await self.outbox.take(Waiting(waiting.key, waiting.owner, items))
                if claim is None:  # another worker was faster
                    break
                await self.work(claim, self._learn)
        return True

    @asynccontextmanager
    async def _at(self, key: str) -> AsyncGenerator[None]:
        """Mark the thread with this key as the one that is learnt from."""
        self._running.add(key)
        current_priority.set(Priority.LEARNING)
        began = time.monotonic()
        try:
            yield
        finally:
            self._seconds += (time.monotonic() - began - self._seconds) / _REMEMBERED
            self._running.discard(key)
            if key in self._passed_over:
                self._passed_over.discard(key)
                self._unknown = True
            self._tell(key)

    async def work(self, claim: TurnClaim, learn: Learn) -> None:
        """Run *learn* for what *claim* has, and renew its lease meanwhile; what is not finished is given back."""
        loop = asyncio.get_running_loop()
        renewing: list[asyncio.Task[None]] = []
        timer = loop.call_later(self._renewed_after, lambda: renewing.append(loop.create_task(self._renew(claim))))
        try:
            for ref in list(claim.refs):
                if ref in claim.refs:
                    await self._attempt(ref, claim, learn)
        finally:
            timer.cancel()
            for task in renewing:
                task.cancel()
                await asyncio.wait({task})
            if claim.refs:
                await self._give_back(claim, delay=timedelta(0) if _cancelled() else GIVEN_BACK)

    async def drain(self, timeout: timedelta, *, others: bool = False) -> bool:
        """Learn from what waits, at most for *timeout*; return whether nothing that may be taken is left.

        Args:
            timeout: How long.
            others: Wait for what other workers are at, too, or take it over when their leases end; for what any
                worker has just given back; and for a storage that is away.
        """
        away = timeout if others else timedelta(0)
        try:
            async with asyncio.timeout(timeout.total_seconds()):
                await until_available(partial(self.learn_all, others=others), away)
        except (TimeoutError, StorageError) as error:
            self._telemetry.degraded("capture.drain", error)
            return False
        return True

    async def learn_all(self, *, others: bool = False) -> None:
        """Learn until nothing is left; see :meth:`drain`.

        Raises:
            StorageError: The storage did not answer for one of the turns, which are given back.
        """
        while True:
            progress = self._progress
            ready = await self._ready(None)
            if keys := self._with_own(ready.keys):
                await self._learn_all(keys)
            elif self._running or (others and (ready.elsewhere or self._holds)):
                with suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_AGAIN_SECONDS):
                        await progress.wait()
            else:
                return

    async def retry(self, owner: Owner | None, turn_ids: Sequence[TurnId] | None) -> list[QueuedTurn]:
        """See :meth:`threadkeep.capture.queue.Outbox.retry`; the engine is told."""
        retried = await self.outbox.retry(owner, turn_ids)
        for turn in retried:
            self.wake(turn.owner, turn.thread_id)
        return retried

    def _with_own(self, found: Iterable[str]) -> tuple[str, ...]:
        """Return the keys of what this worker has and has not begun, and then those that were *found*."""
        own = [key for key in self._own if key not in self._running]
        return tuple(dict.fromkeys((*own, *found)))

    async def _ready(self, hurried: Iterable[str] | None) -> Ready:
        self._unknown = False
        self._passed_over |= self._running
        try:
            ready = await self.outbox.ready(running=self._running, hurried=hurried)
        except BaseException:
            self._unknown = True
            raise
        if held := {hold.key for hold in self._holds}:  # not before the rows were read: a hold is older than its row
            self._passed_over |= held
            ready = replace(ready, waiting=tuple([waiting for waiting in ready.waiting if waiting.key not in held]))
        self._found = {waiting.key: waiting for waiting in ready.waiting}
        return ready

    async def _learn_all(self, keys: Sequence[str]) -> None:
        """Learn from all of these threads, as many at once as there are workers.

        Raises:
            StorageError: The storage did not answer for one of them.
        """
        left = list(reversed(keys))
        errors: list[StorageError | ClosedError] = []

        async def one_after_the_other() -> None:
            while left and not errors:
                try:
                    await self.learn(left.pop())
                except (StorageError, ClosedError) as error:
                    errors.append(error)

        async with asyncio.TaskGroup() as group:
            for _ in range(min(max(1, self.engine.workers), len(keys))):
                group.create_task(one_after_the_other())
        if errors:
            raise errors[0]

    async def _attempt(self, ref: Ref, claim: TurnClaim, learn: Learn) -> None:
        owner = claim.owner
        try:
            finished = await learn(ref, owner, claim.epoch)
        except (StorageError, ClosedError):
            raise
        except RevisionConflictError as error:  # other writers kept getting in the way: given back with the rest
            self._telemetry.degraded("capture.busy", error)
            return
        except Exception as error:  # noqa: BLE001 - an extractor is anybody's code: its failure is this record's, and the others go on
            self._telemetry.degraded("capture.extract", error)
            reason = str(error) if isinstance(error, ThreadkeepError) else type(error).__name__
            due_at = await self.outbox.fail(ref, owner, reason)
            if due_at is not None:
                self.engine.wake(claim.key, at=due_at)
        else:
            self.processed += finished
        claim.drop(ref)
        self._tell(claim.key)

    @property
    def _renewed_after(self) -> float:
        return self.outbox.terms.lease.total_seconds() / _RENEWALS

    async def _renew(self, claim: TurnClaim) -> None:
        while claim.refs:
            try:
                await self.outbox.renew(claim)
            except StorageError as error:  # it may end while others take it over; one commit wins
                self._telemetry.degraded("capture.lease", error)
            await asyncio.sleep(self._renewed_after)

    async def _give_back(self, claim: TurnClaim, *, delay: timedelta) -> None:
        """Give back what is not finished; where that fails, its lease ends by itself."""
        try:
            async with asyncio.timeout(_RELEASE_SECONDS):
                await self.outbox.release(claim, delay=delay)
        except (StorageError, TimeoutError) as error:
            self._telemetry.degraded("capture.lease", error)

    def _tell(self, key: str) -> None:
        """Let the callers that wait for a thread look again, and :meth:`drain`."""
        progress, self._progress = self._progress, asyncio.Event()
        progress.set()
        for watcher in self._watchers.get(key, ()):
            watcher.set()


def _cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
