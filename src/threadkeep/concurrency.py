"""Waiting: timeouts that do not count queues of this process, connections by priority, one retry loop for conflicts.

Overload is not an outage: while work waits in a queue of this process, no timeout runs. A timeout measures how long a
server, a file or a model was asked and did not answer.

A turn calls the storage several times: for the owner of its thread, its memories, each checkpoint's binding and its
turn record. Were each call to wait for its own timeout, a locked storage would cost a turn seconds; so all calls
together wait about as long as the timeout says.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from datetime import timedelta
from enum import IntEnum
from functools import partial
from types import TracebackType
from typing import Any, Final, Generic, TypeVar, final

from threadkeep.errors import OverloadedError, RevisionConflictError, StorageUnavailableError

T = TypeVar("T")


class Priority(IntEnum):
    """The order in which calls get connections; the lowest number goes first."""

    CHECKPOINT = 0
    RECORD = 1
    RECALL = 2
    LEARNING = 3


current_priority: ContextVar[Priority] = ContextVar("threadkeep_priority", default=Priority.RECALL)
"""The priority of the calls of this context."""

MAX_WAITING: Final = 5_000
"""With so many calls waiting for a connection, no further run begins."""

_LEARNING_SHARE: Final = 4
_LONGEST_FACTOR: Final = 20
_LONGEST_SECONDS: Final = 30.0
_ROUNDS: Final = 3
_LOOK_SECONDS: Final = 0.005
"""How often it is looked whether the event loop is late."""
_SHORTEST_SECONDS: Final = 1e-6


class PriorityGate:
    """Lets so many calls through at once, by priority and then by arrival; learning gets a quarter of the places.

    Waiting here is no time of the storage, as long as calls get their answers. The time since the last answer is: the
    storage that the calls in front wait for is slow or away.

    Args:
        places: How many calls at once.
        patience: How long a call waits at most while no other call gets an answer; ``None``: as long as it takes.

    Attributes:
        answered_at: When a call got its answer last, as :func:`time.monotonic` says it.
        waited_seconds: How long calls have waited here, all together.
    """

    def __init__(self, places: int, *, patience: timedelta | None = None) -> None:
        self._places = self._free = places
        self._free_to_learn = max(1, places // _LEARNING_SHARE)
        self._waiting: list[tuple[Priority, int, asyncio.Future[None]]] = []
        self._arrivals = itertools.count()
        self._patience = math.inf if patience is None else patience.total_seconds()
        self.answered_at = -math.inf
        self.waited_seconds = 0.0

    @property
    def waiting(self) -> int:
        """How many calls wait."""
        return len(self._waiting)

    def require_capacity(self) -> None:
        """Check that another run can begin.

        Raises:
            OverloadedError: Too many calls wait already.
        """
        if len(self._waiting) >= MAX_WAITING:
            msg = (
                f"{len(self._waiting):,} calls wait for a connection to the storage; try again later, or add processes."
            )
            raise OverloadedError(msg)

    @asynccontextmanager
    async def place(self) -> AsyncGenerator[None]:
        """Hold one of the places.

        Raises:
            StalledError: No call got an answer for as long as the patience lasts.
        """
        priority = current_priority.get()
        if self._waiting or not self._can_start(priority):
            began = time.monotonic()
            try:
                await self._wait(priority)
            finally:
                self.waited_seconds += time.monotonic() - began
        else:
            self._take(priority)
        try:
            yield
        except (asyncio.CancelledError, TimeoutError, StorageUnavailableError, OSError):
            self._release(priority)
            raise
        except BaseException:  # an answer, too
            self.answered_at = time.monotonic()
            self._release(priority)
            raise
        else:
            self.answered_at = time.monotonic()
            self._release(priority)

    async def settle(self) -> None:
        """Take every place, and give it back: wait for the calls that have one or wait."""
        for _ in range(self._places):
            await self._turn(Priority.RECALL)
        for _ in range(self._places):
            self._release(Priority.RECALL)

    async def _wait(self, priority: Priority) -> None:
        arrived, turn = time.monotonic(), asyncio.ensure_future(self._turn(priority))
        try:
            with queued(lambda: self.answered_at):
                while not turn.done():
                    left = self._seconds_left(arrived)
                    await asyncio.wait([turn], timeout=None if math.isinf(left) else left)
        except BaseException:
            if not turn.cancel():
                self._release(priority)
            raise

    def _seconds_left(self, arrived: float) -> float:
        """Return how long a call that arrived then waits at most for the next answer that another one gets."""
        left = self._patience - (time.monotonic() - max(arrived, self.answered_at))
        if left <= 0:
            raise StalledError
        return left

    async def _turn(self, priority: Priority) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (priority, next(self._arrivals), turn))
        self._admit()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._release(priority)
            raise

    def _can_start(self, priority: Priority) -> bool:
        return self._free > 0 and (priority is not Priority.LEARNING or self._free_to_learn > 0)

    def _take(self, priority: Priority) -> None:
        self._free -= 1
        if priority is Priority.LEARNING:
            self._free_to_learn -= 1

    def _release(self, priority: Priority) -> None:
        self._free += 1
        if priority is Priority.LEARNING:
            self._free_to_learn += 1
        self._admit()

    def _admit(self) -> None:
        while self._waiting and (self._waiting[0][2].done() or self._can_start(self._waiting[0][0])):
            priority, _, turn = heapq.heappop(self._waiting)
            if not turn.done():
                self._take(priority)
                turn.set_result(None)


class StalledError(Exception):
    """No call got an answer for as long as a gate waits."""


@dataclass(slots=True, eq=False)
class AnswerTime:
    """How long a piece of work has waited for a storage or a model to answer, without the queues of this process.

    It counts the time in ``with`` blocks of it, which may be nested or overlap.

    Attributes:
        outers: Count the same time, too.
    """

    outers: list[AnswerTime] = field(default_factory=list["AnswerTime"])
    _queues: list[Callable[[], float]] = field(default_factory=list[Callable[[], float]])
    _asked: int = 0
    _since: float = 0.0
    _spent: float = 0.0

    @property
    def spent(self) -> float:
        """Seconds until now. In a queue they are fewer again once it moves."""
        if not self._asked:
            return self._spent
        since = self._since
        for moved_at in self._queues:
            since = max(since, moved_at())
        return self._spent + max(0.0, time.monotonic() - since)

    def __enter__(self) -> None:
        """Count from now on."""
        if not self._asked:
            self._since = time.monotonic()
        self._asked += 1
        for outer in self.outers:
            outer.__enter__()

    def __exit__(self, *_: object) -> None:
        """End what the beginning of the block began."""
        if self._asked == 1:
            self._spent = self.spent if self._queues else self._spent + time.monotonic() - self._since
        self._asked -= 1
        for outer in self.outers:
            outer.__exit__()

    def enter_queue(self, moved_at: Callable[[], float]) -> None:
        """Count only what has passed since the time that *moved_at* returns, whatever is asked."""
        self._spent, self._since = self.spent, time.monotonic()
        self._queues.append(moved_at)
        for outer in self.outers:
            outer.enter_queue(moved_at)

    def leave_queue(self, moved_at: Callable[[], float]) -> None:
        """End what :meth:`enter_queue` began."""
        self._spent, self._since = self.spent, time.monotonic()
        self._queues.remove(moved_at)
        for outer in self.outers:
            outer.leave_queue(moved_at)

    @contextmanager
    def counting_for(self, other: AnswerTime) -> Generator[None]:
        """Let *other* count in this block what this one counts."""
        for _ in range(self._asked):
            other.__enter__()
        for moved_at in self._queues:
            other.enter_queue(moved_at)
        self.outers.append(other)
        try:
            yield
        finally:
            self.outers.remove(other)
            for moved_at in self._queues:
                other.leave_queue(moved_at)
            for _ in range(self._asked):
                other.__exit__()


_answer_time: ContextVar[AnswerTime | None] = ContextVar("threadkeep_answer_time", default=None)


_NOT_COUNTED: Final = nullcontext()


def asking() -> AbstractContextManager[None]:
    """Return the context manager in which time counts as time of a storage or a model, where a timeout counts it."""
    return _answer_time.get() or _NOT_COUNTED


@contextmanager
def queued(moved_at: Callable[[], float] = time.monotonic) -> Generator[None]:
    """Leave the time in this block out, also inside :func:`asking`: it is spent in a queue of this process.

    Args:
        moved_at: Returns when the queue moved last; the time since then is not left out. By default it always moves.
    """
    answers = _answer_time.get()
    if answers is None:
        yield
        return
    answers.enter_queue(moved_at)
    try:
        yield
    finally:
        answers.leave_queue(moved_at)


class SharedTask(Generic[T]):
    """Work that several callers wait for. It runs to its end if they give up; each counts what it asks meanwhile.

    Of the context of the caller that begins it, it has the priority: a task keeps its context, and that keeps a run.

    Args:
        work: The work; it begins at once.
    """

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._answers, context = AnswerTime(), Context()
        context.run(current_priority.set, current_priority.get())
        context.run(_answer_time.set, self._answers)
        self.task: Final = asyncio.get_running_loop().create_task(work, context=context)
        self.task.add_done_callback(lambda task: task.cancelled() or task.exception())  # all callers may have given up

    async def wait(self) -> T:
        """Return what the work returns, or raise what it raises."""
        await self.until_ended()
        return self.task.result()

    async def until_ended(self) -> None:
        """Wait until the work has ended, whatever came of it."""
        answers = _answer_time.get()
        with _NOT_COUNTED if answers is None else self._answers.counting_for(answers):
            await asyncio.wait([self.task])


@final
class AnswerTimeout:
    """Raise ``TimeoutError`` once a storage or a model was asked for so long in this block and did not answer.

    An answer that has arrived is taken even if this process was too busy to read it in time, and time by which the
    event loop is late does not count. Whatever it waits for, the block ends after 20 times as long, and 30 seconds at
    least. A turn has a dozen of these blocks, so one that has ended is in no reference cycle.

    Args:
        seconds: The timeout.
        answers: Counts the time; ``None``: a counter of this block.
        longest: Ends the block after so many seconds by the clock; ``None``: as said above.
    """

    __slots__ = (
        "_allowed",
        "_counted",
        "_due",
        "_ends",
        "_handle",
        "_limit",
        "_longest",
        "_loop",
        "_outer",
        "_own",
        "_spent",
    )

    def __init__(self, seconds: float, answers: AnswerTime | None = None, *, longest: float | None = None) -> None:
        self._own, self._outer = answers is None, _answer_time.get()
        self._counted = answers or AnswerTime([self._outer] if self._outer else [])
        self._allowed, self._spent = seconds, 0.0
        self._longest = max(seconds * _LONGEST_FACTOR, _LONGEST_SECONDS) if longest is None else longest
        self._limit = asyncio.timeout(None)

    async def __aenter__(self) -> None:
        loop = self._loop = asyncio.get_running_loop()
        await self._limit.__aenter__()
        now, seconds = loop.time(), self._allowed
        self._ends = now + self._longest
        self._due = now + min(seconds, _LOOK_SECONDS)
        self._handle: asyncio.Handle | None = loop.call_at(self._due, self._look)
        if self._own:
            _answer_time.set(self._counted)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        if self._own:
            _answer_time.set(self._outer)
        await self._limit.__aexit__(kind, error, trace)

    def shorten(self, seconds: float) -> None:
        """End the block after *seconds* more of that time at most."""
        self._allowed = min(self._allowed, self._counted.spent + seconds)

    def _look(self) -> None:
        """Allow as much more as this process was late since the last look: it reads no answer meanwhile."""
        now, before = self._loop.time(), self._spent
        self._spent = self._counted.spent
        self._allowed += max(0.0, min(now - self._due, self._spent - before))
        if self._has_time_left():
            self._due = now + max(_SHORTEST_SECONDS, min(self._allowed - self._spent, _LOOK_SECONDS))
            self._handle = self._loop.call_at(self._due, self._look)
        else:
            self._check(_ROUNDS)

    def _check(self, rounds: int) -> None:
        if rounds:  # what has arrived is read first
            self._handle = self._loop.call_soon(self._check, rounds - 1)
        elif self._has_time_left():  # a queue has moved
            self._look()
        else:
            self._limit.reschedule(self._loop.time())

    def _has_time_left(self) -> bool:
        return self._allowed - self._counted.spent > _SHORTEST_SECONDS and self._loop.time() < self._ends


_FIRST_AWAY_SECONDS: Final = 0.05
_LONGEST_AWAY_SECONDS: Final = 0.5


async def until_available(ask: Callable[[], Awaitable[T]], timeout: timedelta) -> T:
    """Return what *ask* returns; call it again while the storage is away.

    Args:
        ask: Calls the storage; may be repeated although no answer came.
        timeout: How long to go on.

    Raises:
        StorageUnavailableError: The storage stayed away.
    """
    loop = asyncio.get_running_loop()
    deadline, pause = loop.time() + timeout.total_seconds(), _FIRST_AWAY_SECONDS
    while True:
        try:
            return await ask()
        except StorageUnavailableError:
            if loop.time() + pause > deadline:
                raise
        with asking():
            await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_AWAY_SECONDS)


CONFLICT_ATTEMPTS: Final = 20
_FIRST_PAUSE_SECONDS: Final = 0.005
_LONGEST_PAUSE_SECONDS: Final = 2.0

_FIRST: Final = 0.6
"""The share of the time-out that the first wait may take; the rest is for those that come after it."""

_SHORT_SECONDS: Final = 0.02
"""Enough for a read: whether a thread is another's is told even while every write waits."""

_RECALL_SECONDS: Final = 0.05
"""Enough to embed a question and to read: what is remembered is recalled even while every write waits."""

_LATE_SECONDS: Final = 0.05
_LATE_RECALL_SECONDS: Final = 0.2
"""After so long by the clock such waits end: a storage that is back answers first what has waited for it."""

_AGAIN_SECONDS: Final = 5.0
"""After so long one call finds out for all whether the storage answers again, though the old call never did."""


LEAST_WAIT: Final = timedelta(seconds=0.1)
"""How long a request asks the storage at least for what it cannot go on without, while others get no answer."""


class TimeoutBudget:
    """Shares one timeout among a turn's waits; work that is not waited for runs to its end.

    While work hangs that was not waited for, all other callers wait hardly at all: they would wait in vain. One call in
    five seconds is a probe: its caller waits no longer than the others, and if the call has an answer within the full
    timeout, callers wait for the storage again. Callers may be on several event loops.

    Args:
        timeout: How long to wait while no earlier work hangs.
    """

    def __init__(self, timeout: timedelta) -> None:
        self._timeout = timeout
        self._running: set[asyncio.Future[Any]] = set()
        self._hanging: set[asyncio.Future[Any]] = set()
        self._patient: dict[AnswerTimeout, float] = {}
        self._again_at = 0.0

    async def wait(
        self, work: Coroutine[Any, Any, T], *, timeout: timedelta | None = None, least: timedelta = timedelta(0)
    ) -> T:
        """Return the result of *work*, if it is ready in time.

        Args:
            work: Runs to its end, even if the caller stops waiting or is cancelled.
            timeout: Replaces the usual timeout.
            least: How long to wait at least, even while other work hangs, or from when it does.

        Raises:
            TimeoutError: The budget is used up; *work* goes on.
        """
        outer, context = _answer_time.get(), copy_context()
        answers = AnswerTime([outer] if outer else [])
        context.run(_answer_time.set, answers)
        task = asyncio.get_running_loop().create_task(work, context=context)
        task.add_done_callback(self._ended)
        self._running.add(task)  # the loop itself would forget it
        seconds, others = _FIRST * (timeout or self._timeout).total_seconds(), len(self._hanging)
        longest: float | None = None
        if others:
            if self._is_probe():
                task.add_done_callback(partial(self._judge, answers, seconds))
            seconds = min(seconds, max(_SHORT_SECONDS / others, least.total_seconds()))
            longest = max(_LATE_SECONDS, least.total_seconds())
        limit = AnswerTimeout(seconds, answers, longest=longest)
        if least:
            self._patient[limit] = least.total_seconds()
        try:
            async with limit:
                return await asyncio.shield(task)
        except TimeoutError:
            if task.done():
                raise
            if not self._hanging:
                self._again_at = time.monotonic() + _AGAIN_SECONDS
            self._hanging.add(task)
            for patient, rest in [*self._patient.items()]:
                patient.shorten(rest)
            context.run(current_priority.set, Priority.LEARNING)  # what no caller waits for goes last
            raise
        finally:
            self._patient.pop(limit, None)

    @contextmanager
    def for_recall(self, timeout: timedelta | None) -> Generator[tuple[timedelta, AnswerTimeout]]:
        """Return how long a recall in this block may take, by default the usual timeout, and what ends it.

        While other work hangs it is given a little while only, and also from when it does.
        """
        allowed, longest = self._timeout if timeout is None else timeout, None
        if self._hanging:
            allowed, longest = min(allowed, timedelta(seconds=_RECALL_SECONDS)), _LATE_RECALL_SECONDS
        limit = AnswerTimeout(allowed.total_seconds(), longest=longest)
        self._patient[limit] = _RECALL_SECONDS
        try:
            yield allowed, limit
        finally:
            del self._patient[limit]

    async def settle(self, timeout: timedelta) -> None:
        """Wait for the work of this event loop that was not waited for, *timeout* at most."""
        loop = asyncio.get_running_loop()
        if running := {task for task in self._running.copy() if task.get_loop() is loop}:
            await asyncio.wait(running, timeout=timeout.total_seconds())

    def _is_probe(self) -> bool:
        """Return whether a call finds out for all others whether the storage answers; one does every 5 seconds."""
        now = time.monotonic()
        if now < self._again_at:
            return False
        self._again_at = now + _AGAIN_SECONDS
        return True

    def _judge(self, answers: AnswerTime, seconds: float, probe: asyncio.Future[Any]) -> None:
        """Let callers wait again if *probe* got an answer, and *answers* says that it took no longer than *seconds*."""
        silent = probe.cancelled() or isinstance(probe.exception(), StorageUnavailableError | TimeoutError)
        if not silent and answers.spent <= seconds:
            self._hanging.clear()

    def _ended(self, task: asyncio.Future[Any]) -> None:
        self._running.discard(task)
        self._hanging.discard(task)
        if not task.cancelled():
            task.exception()  # marks it as retrieved: the caller may not wait any more


async def retry_conflicts(
    operation: Callable[[], Awaitable[T]],
    *,
    attempts: int = CONFLICT_ATTEMPTS,
    retry_if: Callable[[RevisionConflictError], bool] = lambda _: True,
    message: str = "Other writers kept getting in the way; try again.",
    **details: object,
) -> T:
    """Return the result of *operation*; run it again after a conflict with another writer.

    Between two attempts it pauses for a random time, up to 5 ms at first and up to 2 s later: writers that met once
    do not meet again.

    Args:
        operation: Reads what it decides by and commits, anew at each call.
        attempts: How often *operation* is called, 1 or more.
        retry_if: Whether a conflict is worth another attempt; by default every conflict is.
        message: The message of the error after the last attempt.
        details: The details of that error.

    Raises:
        RevisionConflictError: The conflict that is not worth another attempt, or the last attempt met one, too.
    """
    for attempt in range(attempts):
        try:
            return await operation()
        except RevisionConflictError as error:
            if not retry_if(error):
                raise
            if attempt + 1 == attempts:
                raise RevisionConflictError(message, **details) from error
        pause = min(_FIRST_PAUSE_SECONDS * 2**attempt, _LONGEST_PAUSE_SECONDS)
        await asyncio.sleep(random.uniform(0, pause))  # noqa: S311
    msg = f"attempts must be 1 or more, got {attempts}."
    raise ValueError(msg)
