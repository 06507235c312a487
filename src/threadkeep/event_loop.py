"""Threadkeep's event loop: one private loop in one thread, which runs every driver and checkpointer.

A driver belongs to the loop that opened it, but a library is called from any loop: a notebook cell,
a sync function inside a running loop, two loops in two threads. So everything that does I/O runs
here, and both faces, async and sync, submit to it. A submission costs about 0.1 ms.
"""

from __future__ import annotations

import asyncio
import concurrent.futures.thread  # its hook has to run after ours
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Generic, Protocol, TypeVar, cast
from weakref import WeakSet

from threadkeep.errors import ClosedError, ThreadkeepError

T = TypeVar("T")

_END_SECONDS: Final = 2.0
"""How long closing waits for tasks that were cancelled, and again for calls in threads: a model may never answer."""

OUTCOMES: Final = (Exception, asyncio.CancelledError, GeneratorExit, KeyboardInterrupt, SystemExit)
"""Exceptions that a submission passes to its caller: a ``sys.exit`` in it must not end the shared loop."""


class EventLoopThread:
    """One event loop in one daemon thread, started by the first submission.

    Constructing it does nothing. A process that forks must open its own: using one from the
    parent raises.
    """

    def __init__(self, *, name: str = "threadkeep-event-loop") -> None:
        self._name = name
        self._guard = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._pid = 0
        self._closed = False

    async def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run *coroutine* in this event loop and await its result from any loop.

        Cancelling the caller cancels the coroutine, too. From the event loop itself it is awaited
        directly, so services may call each other.
        """
        here = asyncio.get_running_loop()
        if here is self._loop:
            return await coroutine
        answer: asyncio.Future[T] = here.create_future()
        tell: Any = partial(cast("Any", here.call_soon_threadsafe), settle, answer)
        errand = self._submitted(coroutine, tell)
        try:
            return await answer
        except asyncio.CancelledError:
            errand.cancel()
            caller = asyncio.current_task()
            if self._closed and not (caller and caller.cancelling()):  # it was not the caller who was cancelled
                raise closed_error() from None
            raise

    def run_sync(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run *coroutine* in this event loop and block the calling thread until it is done.

        Works inside a running loop, too: it blocks that loop, as a sync call does.

        Raises:
            ClosedError: This event loop was closed.
            RuntimeError: Called on the event loop itself, where waiting would never end.
        """
        if threading.current_thread() is self._thread:
            coroutine.close()
            msg = "A blocking call (tk.sync) was made on Threadkeep's own loop: await the async method there."
            raise RuntimeError(msg)
        future: Future[T] = Future()

        def tell(result: T | None, error: BaseException | None) -> None:
            if error is None:
                future.set_result(cast("T", result))
            else:
                future.set_exception(error)

        errand = self._submitted(coroutine, tell)
        try:
            return future.result()
        except asyncio.CancelledError:
            raise (closed_error() if self._closed else CancelledError()) from None
        except BaseException:  # Ctrl-C while waiting: the work must not go on unseen
            errand.cancel()
            raise

    def begin(self, coroutine: Coroutine[Any, Any, None], ended: Callable[[], None]) -> None:
        """Run *coroutine*, which passes on its result itself; *ended* is called in this event loop at its end.

        That is called for certain: also where the loop is closed before the first step.

        Raises:
            ClosedError: This event loop was closed; nothing was begun.
        """

        def tell(_: object, __: BaseException | None) -> None:
            ended()

        self._submitted(coroutine, tell)

    def require_open(self) -> None:
        """Raise ClosedError if the loop was closed, or was started before this process was forked."""
        if self._pid not in (0, os.getpid()):
            msg = "This Threadkeep was opened before the process forked; open one in the child."
            raise ClosedError(msg)
        if self._closed:
            raise closed_error()

    def soon(self, call: Callable[[], object]) -> None:
        """Call *call* in this event loop, from any thread: fire and forget; dropped if the loop is not running."""
        if self._pid != os.getpid():
            return  # in a forked child, no thread may ever release the lock
        with self._guard, suppress(RuntimeError):  # the loop may have ended with the interpreter
            if self._loop is not None:
                self._loop.call_soon_threadsafe(call)

    @property
    def running(self) -> bool:
        """Whether the loop was started and not closed."""
        return self._loop is not None and not self._closed

    @property
    def here(self) -> bool:
        """Whether the loop runs in this process, and not in one that it was forked from."""
        return self.running and self._pid == os.getpid()

    @property
    def pid(self) -> int:
        """The process that the loop runs in; 0 before it was started."""
        return self._pid

    def close(self) -> None:
        """Stop the loop and its thread; the second call does nothing."""
        with self._guard:
            self._closed = True
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None or self._pid != os.getpid():
            return
        with suppress(RuntimeError):  # the loop may have ended with the interpreter
            loop.call_soon_threadsafe(loop.stop)
        if threading.current_thread() is not thread:
            thread.join()

    def _submitted(
        self, coroutine: Coroutine[Any, Any, T], callback: Callable[[T | None, BaseException | None], None]
    ) -> _Submission[T]:
        """Hand *coroutine* to the loop; what is handed over before it is closed comes to an end, done or cancelled."""
        with self._guard:
            if self._loop is None or self._pid != os.getpid():
                try:
                    self.require_open()
                except ThreadkeepError:
                    coroutine.close()
                    raise
                self._loop = self._start()
            submission = _Submission(coroutine, self._loop, callback)
            self._loop.call_soon_threadsafe(submission.begin)
        return submission

    def _start(self) -> asyncio.AbstractEventLoop:
        loop = Context().run(asyncio.new_event_loop)  # the loop keeps the context that it was made in
        ready = threading.Event()
        self._thread = threading.Thread(target=_serve, args=(loop, ready), name=self._name, daemon=True)
        self._thread.start()
        ready.wait()
        self._pid = os.getpid()
        return loop


@dataclass(slots=True, eq=False)
class _Submission(Generic[T]):
    """One coroutine on its way to the event loop, and its outcome on the way back.

    The outcome is told in the task's last step: callbacks of a task, and futures that are chained to it, come
    one round of the loop later each, which is a third of what the way costs.

    Attributes:
        coroutine: What to run.
        loop: The loop to run it on; it runs in the caller's context.
        callback: Is called once, on that loop, with the result or with what was raised. It raises ``RuntimeError`` if
            the caller's loop was closed.
        task: Runs it; ``None``: it has not begun.
    """

    coroutine: Coroutine[Any, Any, T]
    loop: asyncio.AbstractEventLoop
    callback: Callable[[T | None, BaseException | None], None]
    task: asyncio.Task[None] | None = None

    def cancel(self) -> None:
        """Cancel it, from any thread; what is done stays done."""
        with suppress(RuntimeError):  # the loop was closed, and everything on it cancelled
            self.loop.call_soon_threadsafe(self._cancel)

    def begin(self) -> None:
        """Begin it, in its loop."""
        self.task = self.loop.create_task(self._run())
        self.task.add_done_callback(self._never_ran)

    def _cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()

    async def _run(self) -> None:
        result: T | None = None
        failure: BaseException | None = None
        try:
            result = await self.coroutine
        except OUTCOMES as error:
            failure = error
        if self.task is not None:
            self.task.remove_done_callback(self._never_ran)
        with suppress(RuntimeError):
            self.callback(result, failure)

    def _never_ran(self, _: asyncio.Task[None]) -> None:
        """Tell of a task that was cancelled before its first step."""
        self.coroutine.close()
        with suppress(RuntimeError):
            self.callback(None, asyncio.CancelledError())


def start_background(work: Coroutine[Any, Any, T], *, name: str | None = None) -> asyncio.Task[T]:
    """Start *work*, which outlives its caller, and return its task.

    It runs in an empty context. A task keeps the context that it was started in, and that of a run keeps the run.
    """
    return asyncio.get_running_loop().create_task(work, name=name, context=Context())


def wait_for(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of *work*, from a function that blocks: in a loop of its own, in a thread if one runs here."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


def settle(answer: asyncio.Future[T], result: T | None, error: BaseException | None) -> None:
    """Settle what the caller waits for, unless it waits no more."""
    if answer.done():
        return
    if error is None:
        answer.set_result(cast("T", result))
    elif isinstance(error, asyncio.CancelledError):
        answer.cancel()
    else:
        answer.set_exception(error)


def closed_error() -> ClosedError:
    """Return the error for calls after closing."""
    return ClosedError("This Threadkeep was closed; open a new one.")


def _serve(loop: asyncio.AbstractEventLoop, ready: threading.Event) -> None:
    asyncio.set_event_loop(loop)
    loop.call_soon(ready.set)
    executor = ThreadPoolExecutor(thread_name_prefix="threadkeep-work")
    loop.set_default_executor(executor)
    try:
        loop.run_forever()
    finally:
        pending = asyncio.all_tasks(loop)
        for task in pending:
            task.cancel()
        if pending:
            ended = asyncio.gather(*pending, return_exceptions=True)
            loop.run_until_complete(asyncio.wait([ended], timeout=_END_SECONDS))
        loop.run_until_complete(asyncio.wait({loop.create_task(loop.shutdown_asyncgens())}, timeout=_END_SECONDS))
        ending = threading.Thread(target=executor.shutdown, kwargs={"cancel_futures": True}, daemon=True)
        with suppress(RuntimeError):  # the interpreter is ending, and waits for the threads itself
            ending.start()
            ending.join(_END_SECONDS)
            if ending.is_alive():
                _leave(executor)
        asyncio.set_event_loop(None)
        loop.close()


def _leave(executor: ThreadPoolExecutor) -> None:
    """Let the program end though a thread of *executor* does not, such as one that waits for a model.

    The threads are daemons, as the one that started them is, but Python waits at its end for all that it has listed.
    """
    listed: Any = getattr(concurrent.futures.thread, "_threads_queues", {})
    threads: Any = getattr(executor, "_threads", ())
    for thread in [*threads]:
        listed.pop(thread, None)


class Closeable(Protocol):
    """What uses an event loop of its own until it is closed.

    Attributes:
        event_loop: The event loop.
    """

    event_loop: EventLoopThread

    def close(self) -> None:
        """Close it, and its event loop."""


CLOSED_AT_EXIT: Final[WeakSet[Closeable]] = WeakSet()
"""What is closed before the program ends, if the program has not closed it."""


def _close_all() -> None:
    """Drain what is still open when the program ends; what does not finish is resumed at the next start."""
    for app in list(CLOSED_AT_EXIT):
        if app.event_loop.here:
            app.close()


# Executors refuse work once the interpreter joins its threads, and plain atexit handlers run after
# that: this hook runs before. Where it is missing, nothing is lost, only resumed at the next start.
_before_threads_end = getattr(threading, "_register_atexit", None)
if _before_threads_end is not None:
    _before_threads_end(_close_all)
