"""The runs of this process: begun for a request, read by any number of clients, and independent of all of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextvars import Context
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from threadkeep.clock import SystemClock
from threadkeep.documents.reader import CHILDREN
from threadkeep.errors import (
    RestartingError,
    RunCancelledError,
    RunNotFoundError,
    SettingsError,
    StorageError,
    StorageUnavailableError,
    ThreadkeepError,
    ThreadNotFoundError,
)
from threadkeep.gateway.event_buffer import EventBuffer
from threadkeep.gateway.events import HEARTBEAT, HEARTBEAT_SECONDS, TurnEvents, encode_event
from threadkeep.gateway.graph_runner import LEARNING_SECONDS, GraphRunner
from threadkeep.gateway.idempotency import RequestKey
from threadkeep.gateway.metrics import GatewayMetrics
from threadkeep.gateway.public_errors import ProblemError
from threadkeep.gateway.run_keys import RunKeys
from threadkeep.gateway.run_limiter import RunLimiter
from threadkeep.gateway.run_models import (
    REFUSALS,
    AnyRun,
    ChatRun,
    GraphCall,
    MultitaskStrategy,
    RunElsewhere,
    Status,
    TurnRequest,
    describe_error,
    new_run_id,
    thread_of_run,
    token_of_run,
)
from threadkeep.observability import OwnerDigests, log

if TYPE_CHECKING:
    from threadkeep.client import Threadkeep
    from threadkeep.gateway.settings import GatewaySettings
    from threadkeep.identity import Owner
    from threadkeep.langgraph.thread_models import Thread
    from threadkeep.process_state import StorageProbe

KEPT_SECONDS: Final = 300.0
"""How long the events of a run that ended are kept."""

KEPT_BYTES: Final = 64 * 1024 * 1024
KEPT_RUNS: Final = 10_000
"""Of how many ended runs events are kept, and how many bytes of them; the oldest go first."""

_POLL_SECONDS: Final = 1.0
"""How often another process is asked whether it is at work on a run."""

_FREE_POLLS: Final = 3
"""A run that waits takes a free thread at once: so often in a row the thread is free only if the run waits no more."""

CALL_BYTES: Final = 1024 * 1024
"""How much of a run of LangGraph's API is kept for its clients: an event may hold the whole state of the thread."""


class RunRegistry:
    """Begins runs and keeps them until a while after their end. Belongs to one event loop.

    Args:
        tk: The memory.
        graph: The graph, compiled with the parts of ``tk.per_run_owner()``.
        settings: The settings of the gateway.
        threads: Tells whether the storage of the threads answers.

    Attributes:
        limiter: Limits the runs in progress.
        children: Limits the child processes that read files.
        metrics: Counts the turns.
        view: The parts of one graph that serves all owners.

    Raises:
        SettingsError: The graph takes its owner from elsewhere.
    """

    def __init__(self, tk: Threadkeep, graph: Any, settings: GatewaySettings, threads: StorageProbe) -> None:
        self._tk = tk
        self.view = tk.per_run_owner()
        saver: Any = getattr(graph, "checkpointer", None)
        if not getattr(saver, "takes_owner_from_run", False):
            msg = "The graph must be compiled with checkpointer=tk.per_run_owner().checkpointer, for all owners."
            raise SettingsError(msg, variable="THREADKEEP_GRAPH")
        self.limiter = RunLimiter(settings.max_runs)
        self.metrics = GatewayMetrics(lambda: self.limiter.running, lambda: self.limiter.waiting)
        self._runner = GraphRunner(tk, self.view, graph, self.metrics)
        self._runs: dict[str, ChatRun] = {}
        self._active: dict[ChatRun, None] = {}
        self._ended: dict[ChatRun, None] = {}
        self._ended_bytes = 0
        self._max_turns_per_owner = settings.max_turns_per_owner
        self._keys = RunKeys(tk)
        self._tasks: set[asyncio.Task[None]] = set()
        self.children = asyncio.Semaphore(CHILDREN)
        secret = tk.app.settings.erasure_key
        self._owners_in_logs = OwnerDigests(secret.get_secret_value() if secret else None)
        self._threads = threads
        self._draining = False
        self._draining_task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Admit runs from now on."""
        self._draining, self._draining_task = False, None

    @property
    def draining(self) -> bool:
        """Whether the process stops, and begins no run any more."""
        return self._draining

    def drain_soon(self, seconds: float) -> asyncio.Task[None]:
        """Do what :meth:`drain` does, without waiting for it; the second call does nothing but return the task."""
        self._draining = True
        if self._draining_task is None:
            self._draining_task = asyncio.create_task(self.drain(seconds))
        return self._draining_task

    async def drain(self, seconds: float) -> None:
        """Begin no further run, wait until those in progress end, and stop the rest after *seconds*.

        The clients of a run that is stopped get an ``error`` with the code ``restarting``.
        """
        self._draining = True
        tasks = [*self._tasks]
        if tasks and seconds > 0:
            await asyncio.wait(tasks, timeout=seconds)
        for run in [*self._active]:
            run.halt("restarting")
        if self._tasks:
            await asyncio.wait([*self._tasks], timeout=LEARNING_SECONDS)
        for task in [*self._tasks]:
            task.cancel()

    def of_thread(self, owner: Owner, thread_id: str) -> list[ChatRun]:
        """Return the runs on a thread that are kept in this process, the newest first."""
        runs = reversed(self._runs.values())
        return [run for run in runs if run.thread_id == thread_id and run.owner == owner]

    def running(self, owner: Owner) -> int:
        """Return how many runs of *owner* are in progress in this process."""
        return sum(run.owner == owner for run in self._active)

    def running_threads(self, owner: Owner) -> frozenset[str]:
        """Return the threads of *owner* with a run in progress in this process."""
        return frozenset(run.thread_id for run in self._active if run.owner == owner)

    def owners(self) -> frozenset[Owner]:
        """Return the owners of the runs in progress in this process."""
        return frozenset(run.owner for run in self._active)

    def cancel_all(self, owner: Owner) -> None:
        """Cancel the runs of *owner* that are in progress in this process, without waiting for their end."""
        for run in [*self._active]:
            if run.owner == owner:
                run.halt("cancelled")

    def require_place(self, owner: Owner) -> None:
        """Refuse a further turn of an owner with too many in progress.

        Raises:
            ProblemError: There are too many.
        """
        if self.running(owner) >= self._max_turns_per_owner:
            detail = "This user has too many turns in progress; wait for one to end."
            raise ProblemError(429, "too_many_turns", detail, retry_after=1)

    async def begin(
        self, request: TurnRequest, *, key: RequestKey | None = None, thread: Thread | None = None
    ) -> AnyRun:
        """Begin a run; nothing is written before it is admitted.

        Args:
            request: What to run.
            key: The client's ``Idempotency-Key``; one that was used returns the run that was begun with it.
            thread: The thread of the request, if it was read already.

        Raises:
            OverloadedError: Too many runs are in progress.
            RestartingError: The process is stopping.
            StorageUnavailableError: The storage of the threads has stalled.
            ThreadBusyError: Another run is at work on the thread, and the request is not to wait.
            NothingToResumeError: The request answers what the thread does not ask.
            ProblemError: The owner has too many turns in progress, or the key is one of another request.
        """
        owner = request.owner
        if key is not None and (earlier := await self._find_by_key(owner, key)) is not None:
            return earlier
        self._require_open()
        self.require_place(owner)
        if request.call is not None and request.call.answers:  # the turn goes on with memory or without, as it began
            thread = thread or await self._tk.for_owner(owner).threads.get(request.thread_id)
            request = replace(request, memory=request.memory and (thread is None or thread.memory))
        run = ChatRun(new_run_id(request.thread_id), request, key=key)
        if request.call is not None:
            run.events, run.buffer = request.call.events, EventBuffer(CALL_BYTES)
        self._runs[run.run_id] = run
        self._active[run] = None  # counts as one of its owner while it waits, too
        try:
            earlier = await self._admit(run)
        except BaseException:
            self._drop(run)
            raise
        if earlier is not None:
            self._drop(run)
            return earlier
        run.emit(*run.events.begin(run.run_id, request.thread_id))
        run.task = asyncio.create_task(self._drive(run), name=f"run {run.run_id[:32]}")
        self._track(run.task)
        if request.call is not None and request.call.is_refusable:
            await self._require_begun(run)
        return run

    def _track(self, task: asyncio.Task[None]) -> None:
        """Let :meth:`drain` wait for *task*."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _admit(self, run: ChatRun) -> AnyRun | None:
        """Wait for a place, and claim the key; return the run that has the key, which then keeps it."""
        await self.limiter.enter()
        admitted = False
        try:
            self._require_open()
            earlier = None
            if run.key is not None and not await self._keys.claim(run, run.key):
                earlier = await self._find_by_key(run.owner, run.key)
            admitted = earlier is None
            return earlier
        finally:
            if not admitted:
                self.limiter.leave()

    def _drop(self, run: ChatRun) -> None:
        """Forget a run that did not begin."""
        run.abort()
        self._active.pop(run, None)
        self._runs.pop(run.run_id, None)

    async def _require_begun(self, run: ChatRun) -> None:
        """Raise what a run is refused with, and forget it."""
        await run.began.wait()
        if isinstance(run.failure, REFUSALS):
            self._forget(run)
            raise run.failure

    def find(self, owner: Owner, run_id: str) -> ChatRun | None:
        """Return a run of *owner* that is kept in this process."""
        run = self._runs.get(run_id)
        return run if run is not None and run.owner == owner else None

    async def locate(self, owner: Owner, run_id: str) -> AnyRun:
        """Return a run of any process.

        Raises:
            RunNotFoundError: The owner has no such run.
        """
        run = self.find(owner, run_id)
        return run or RunElsewhere(owner, run_id, (await self._thread_of(owner, run_id)).thread_id)

    async def _thread_of(self, owner: Owner, run_id: str) -> Thread:
        thread_id = thread_of_run(run_id)
        thread = None if thread_id is None else await self._tk.for_owner(owner).threads.get(thread_id)
        if thread is None:
            msg = "The run was not found; it does not exist, or ended too long ago."
            raise RunNotFoundError(msg)
        return thread

    async def resume(
        self,
        owner: Owner,
        run_id: str,
        answer: Any,
        *,
        cancel_on_disconnect: bool = False,
        key: RequestKey | None = None,
    ) -> AnyRun:
        """Begin a run that answers what the run *run_id*, of any process, has asked.

        Raises:
            RunNotFoundError: The owner has no such run.
            NothingToResumeError: Its thread asks nothing.
            ThreadBusyError: Another run is at work on its thread.
        """
        if key is not None and (earlier := await self._find_by_key(owner, key)) is not None:
            return earlier
        thread = await self._thread_of(owner, run_id)
        before = self.find(owner, run_id)
        memory = before is None or before.request.memory
        call = GraphCall(self.view.resume(answer), TurnEvents(), strategy="reject", answers=True)
        cancels = cancel_on_disconnect
        turn = TurnRequest(owner, thread.thread_id, None, memory=memory, cancel_on_disconnect=cancels, call=call)
        return await self.begin(turn, key=key, thread=thread)

    async def cancel(self, owner: Owner, run_id: str, *, undo: bool = False) -> Status:
        """Stop a run, also one of another process, and return how it ended.

        Args:
            owner: The owner.
            run_id: The run.
            undo: Whether what it wrote is undone.

        Raises:
            RunNotFoundError: The owner has no such run.
        """
        run = await self.locate(owner, run_id)
        if isinstance(run, RunElsewhere):
            ended = await self.view.end_run(owner, run.thread_id, token_of_run(run_id), undo=undo)
            return "cancelled" if ended else "unknown"
        undoes = undo and run.status == "running"
        if undoes and await self.view.end_run(owner, run.thread_id, run.token, undo=True):
            run.halt("undone")
        run.halt("cancelled")
        await run.wait()
        return run.status

    async def is_at_work(self, owner: Owner, run_id: str) -> bool:
        """Return whether a run, of any process, has its thread, or waits for it in this process."""
        run, thread_id = self.find(owner, run_id), thread_of_run(run_id)
        if run is not None and run.status == "running":
            return True
        return thread_id is not None and await self.view.leaseholder(owner, thread_id) == token_of_run(run_id)

    async def _is_over(self, run: RunElsewhere) -> bool:
        """Return whether a run of another process has written and has its thread no longer; ``False``: it may wait."""
        place, token = (run.owner, run.thread_id), token_of_run(run.run_id)
        if await self.view.leaseholder(*place) == token or await self.view.last_checkpoint(*place, token) is None:
            return False
        return await self.view.leaseholder(*place) != token  # it may have begun in between

    async def follow(
        self,
        run: AnyRun,
        after: int = 0,
        *,
        reset: Callable[[int], Awaitable[bytes]] | None = None,
        waits: bool = False,
    ) -> AsyncGenerator[bytes]:
        """Yield the events of a run behind number *after*, and what comes, with heartbeats.

        Events that this process does not keep are replaced by what *reset* returns for the number of the newest one; by
        default ``reset``, with the messages of the thread. With *waits*, those of another process are so at its end.
        """
        if isinstance(run, RunElsewhere):
            free = 0
            while waits and free < _FREE_POLLS and not await self._is_over(run):
                holder = await self.view.leaseholder(run.owner, run.thread_id)
                free = free + 1 if holder is None else 0
                yield HEARTBEAT
                await asyncio.sleep(_POLL_SECONDS)
            yield await (reset(0) if reset else self._reset(run, 0))
            return
        buffer = run.buffer
        while True:
            events = buffer.after(after)
            if events is None:
                after = buffer.last
                yield await (reset(after) if reset else self._reset(run, after))
            elif events:
                after += len(events)
                yield b"".join(events)
            elif buffer.is_closed:
                return
            elif not await buffer.wait(after, HEARTBEAT_SECONDS):
                yield HEARTBEAT

    def enter(self, run: ChatRun) -> None:
        """Count a client that reads the run."""
        run.readers += 1

    def leave(self, run: ChatRun, *, cancels: bool = False) -> None:
        """Count a client that reads no longer; the last one may stop the run, as was asked; with *cancels*, any."""
        run.readers -= 1
        if cancels or (run.readers == 0 and run.request.cancel_on_disconnect):
            run.halt("cancelled")

    async def _find_by_key(self, owner: Owner, key: RequestKey) -> AnyRun | None:
        """Return the run of an earlier request with *key*, of any process."""
        run_id = await self._keys.find(owner, key)
        if run_id is None:
            return None
        return self.find(owner, run_id) or RunElsewhere(owner, run_id, thread_of_run(run_id) or "")

    def _require_open(self) -> None:
        if self._draining:
            msg = "The server is stopping; nothing of this turn was kept. Try again in a moment."
            raise RestartingError(msg)
        if self._threads.stalled:
            msg = "The storage of the threads does not answer; nothing of this turn was kept. Try again in a moment."
            raise StorageUnavailableError(msg)

    async def _reset(self, run: AnyRun, number: int) -> bytes:
        about = {"run_id": run.run_id, "thread_id": run.thread_id}
        messages: list[Any] = []
        try:
            messages = await self._tk.for_owner(run.owner).threads.messages(run.thread_id)
        except ThreadNotFoundError:
            pass  # the run wrote nothing yet, or its thread was deleted
        except ThreadkeepError as error:
            return encode_event(f"{run.run_id}:{number}", "error", {**about, **describe_error(error)})
        return encode_event(f"{run.run_id}:{number}", "reset", {**about, "status": run.status, "messages": messages})

    async def _drive(self, run: ChatRun) -> None:
        run.started = True
        try:
            try:
                await self._stream(run)
            finally:
                self.limiter.leave()
                self._active.pop(run, None)
            if run.events.tells_learning and run.events.turn_ids and not self._draining:
                await self._runner.learn(run)
        finally:
            run.abort()
            if run.claim is not None:
                run.claim.stop()
            self._keep_ended(run)

    def _keep_ended(self, run: ChatRun) -> None:
        """Keep the events of a run for a while, and of all ended runs only so many."""
        asyncio.get_running_loop().call_later(KEPT_SECONDS, self._forget, run, context=Context())
        run.task = None  # a task and a timer keep their context, and so the lease and what the turn has read
        self._ended[run] = None
        self._ended_bytes += run.buffer.size
        while self._ended_bytes > KEPT_BYTES or len(self._ended) > KEPT_RUNS:
            self._forget(next(iter(self._ended)))

    async def _stream(self, run: ChatRun) -> None:
        """Run the graph and tell its end; what the graph raises is told, too."""
        began = time.monotonic()
        failure: Exception | None = None
        try:
            if run.stop is not None:
                raise asyncio.CancelledError  # noqa: TRY301 - it was stopped before it started
            await self._runner.run(run, self._stop_others)
        except asyncio.CancelledError:
            if run.stop is None:
                raise
            if (task := asyncio.current_task()) is not None:
                task.uncancel()
        except Exception as error:  # noqa: BLE001 - the client is told, and the log has it
            failure = _failure_of(run, error)
        if run.stop == "restarting":
            failure = RestartingError("The server is stopping. Send the message again.")
        run.settling, run.failure = True, failure
        status = run.status_after(failure)
        settling = self._runner.settle(run, status)
        if isinstance(failure, StorageError):  # the client has waited for the storage already
            self._track(asyncio.create_task(settling))
        else:
            await settling
        if failure is not None:  # it is kept for a while: not its frames, which hold what the turn has read
            failure.__cause__ = failure.__context__ = failure.__traceback__ = None
        await self._keys.settle(run, again=run.stop == "restarting" or isinstance(failure, REFUSALS))
        run.status, run.updated_at = status, SystemClock().now()
        run.began.set()
        if not (isinstance(failure, REFUSALS) and run.request.call is not None and run.request.call.is_refusable):
            self._count(run, status, time.monotonic() - began)
        described = None if failure is None else describe_error(failure)
        run.emit(*run.events.end(run.run_id, run.thread_id, status, described))

    def _count(self, run: ChatRun, status: Status, seconds: float) -> None:
        """Count a turn that ended after *seconds*, and log it."""
        unrecorded = status == "done" and run.request.memory and run.events.unrecorded
        outcome = "restarting" if run.stop == "restarting" else status
        self.metrics.end_turn(outcome, seconds, unrecorded=unrecorded)
        about = {"owner": self._owners_in_logs.of(run.owner), "run": run.run_id.partition(".")[0]}
        log.info("A turn ended.", extra={**about, "outcome": outcome, "seconds": round(seconds, 3)})

    def _stop_others(self, run: ChatRun, strategy: MultitaskStrategy) -> None:
        """Stop the runs of this process that have lost their thread to *run*."""
        if strategy in ("interrupt", "rollback"):
            for other in [*self._active]:
                same = other.thread_id == run.thread_id and other.owner == run.owner
                if same and other is not run and other.began.is_set():
                    other.halt("undone" if strategy == "rollback" else "cancelled")

    def _forget(self, run: ChatRun) -> None:
        if run in self._ended:
            del self._ended[run]
            self._ended_bytes -= run.buffer.size
        self._runs.pop(run.run_id, None)
        self._keys.forget(run)


def _failure_of(run: ChatRun, error: Exception) -> Exception | None:
    """Return what a run failed with; ``None``: it was stopped, also by another process while it waited."""
    if isinstance(error, RunCancelledError):
        run.stop = run.stop or "cancelled"
    if not isinstance(error, ThreadkeepError):
        log.exception("A run failed.")
    return error if run.stop is None else None  # of a stopped run writes are refused, as another has its thread
