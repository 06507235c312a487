"""The runs of this process: begun for a request, read by any number of clients, and independent of all of them."""

from __future__ import annotations

import asyncio
import base64
import binascii
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from threadkeep.errors import (
    NothingToResumeError,
    RestartingError,
    RunNotFoundError,
    SettingsError,
    StorageError,
    ThreadkeepError,
    ThreadNotFoundError,
)
from threadkeep.gateway.event_buffer import EventBuffer
from threadkeep.gateway.events import HEARTBEAT, HEARTBEAT_SECONDS, TurnEvents, encode_event
from threadkeep.gateway.idempotency import MINUTES, KeptAnswers, RequestKey, require_same
from threadkeep.gateway.metrics import GatewayMetrics
from threadkeep.gateway.run_limiter import RunLimiter
from threadkeep.gateway.uploads import CHILDREN
from threadkeep.ids import new_id
from threadkeep.observability import log

if TYPE_CHECKING:
    from threadkeep.client import Threadkeep
    from threadkeep.gateway.settings import GatewaySettings
    from threadkeep.gateway.uploads import UploadedDocument
    from threadkeep.identity import Owner

KEPT_SECONDS: Final = 300.0
"""How long the events of a run that ended are kept."""

LEARNING_SECONDS: Final = 5.0
"""How long a stream stays open after ``done`` for what is learnt from the turn."""

DOCUMENT_NAME: Final = "document"
"""The name of a message that holds a file: what a named message says is not learnt as the user's word."""

_NOTE_SECONDS: Final = 2.0
_MODES: Final = ["messages", "updates", "custom"]

Status: TypeAlias = Literal["running", "done", "interrupted", "cancelled", "error", "unknown"]
"""How far a run is; ``unknown``: another process has it, or it ended some minutes ago."""


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """What a client asks to run.

    Attributes:
        owner: The owner, verified by the gateway.
        thread_id: The thread.
        message: The user's message; ``None``: the run answers a question of an earlier one.
        answer: The answer to that question.
        memory: Whether the turn recalls and learns.
        cancel_on_disconnect: Whether the run is cancelled once no client reads it.
        documents: The files of the message.
    """

    owner: Owner
    thread_id: str
    message: str | None
    answer: Any = None
    memory: bool = True
    cancel_on_disconnect: bool = False
    documents: tuple[UploadedDocument, ...] = ()


@dataclass(frozen=True, slots=True)
class RunElsewhere:
    """A run that was begun with the same key and is not kept in this process.

    Attributes:
        owner: The owner.
        run_id: Its id.
        thread_id: The thread.
    """

    owner: Owner
    run_id: str
    thread_id: str


@dataclass(eq=False)
class ChatRun:
    """A run of this process.

    Attributes:
        run_id: Its id, which names the thread, too.
        request: What was asked.
        status: How far it is.
        events: What happened, translated.
        buffer: What happened, as clients read it.
        readers: How many clients read it.
        memories: What was learnt from the turn.
        proposals: What waits for the user's decision.
        stop: Why the run was stopped: ``cancelled`` or ``restarting``; ``None``: it was not.
        task: Drives the graph.
    """

    run_id: str
    request: TurnRequest
    status: Status = "running"
    events: TurnEvents = field(default_factory=TurnEvents)
    buffer: EventBuffer = field(default_factory=EventBuffer)
    readers: int = 0
    memories: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    proposals: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    stop: Literal["cancelled", "restarting"] | None = None
    task: asyncio.Task[None] | None = None

    def emit(self, kind: str, data: dict[str, Any]) -> None:
        """Add an event for every client."""
        self.buffer.append(encode_event(f"{self.run_id}:{self.buffer.last + 1}", kind, data))

    def halt(self, reason: Literal["cancelled", "restarting"]) -> None:
        """Stop the run; what the graph has finished stays."""
        if self.status == "running" and self.stop is None and self.task is not None:
            self.stop = reason
            self.task.cancel()


class RunRegistry:
    """Begins runs and keeps them until a while after their end. Belongs to one event loop.

    Args:
        tk: The memory.
        graph: The graph, compiled with the parts of ``tk.per_run_owner()``.
        settings: The settings of the gateway.

    Attributes:
        limiter: Limits the runs in progress.
        children: Limits the child processes that read files.
        metrics: Counts the turns.

    Raises:
        SettingsError: The graph takes its owner from elsewhere.
    """

    def __init__(self, tk: Threadkeep, graph: Any, settings: GatewaySettings) -> None:
        self._tk = tk
        self._view = tk.per_run_owner()
        self._graph = graph
        saver: Any = getattr(graph, "checkpointer", None)
        if not getattr(saver, "takes_owner_from_run", False):
            msg = "The graph must be compiled with checkpointer=tk.per_run_owner().checkpointer, for all owners."
            raise SettingsError(msg, variable="THREADKEEP_GRAPH")
        self.limiter = RunLimiter(settings.max_runs)
        self.metrics = GatewayMetrics(lambda: self.limiter.running, lambda: self.limiter.waiting)
        self._runs: dict[str, ChatRun] = {}
        self._begun: dict[tuple[Owner, str], dict[str, Any]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.children = asyncio.Semaphore(CHILDREN)
        self._draining = False
        self._draining_task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Admit runs from now on."""
        self._draining = False

    def drain_soon(self, seconds: float) -> None:
        """Do what :meth:`drain` does, without waiting for it; the second call does nothing."""
        if not self._draining:
            self._draining = True
            self._draining_task = asyncio.create_task(self.drain(seconds))

    async def drain(self, seconds: float) -> None:
        """Begin no further run, wait until those in progress end, and stop the rest after *seconds*.

        The clients of a run that is stopped get an ``error`` with the code ``restarting``.
        """
        self._draining = True
        tasks = [run.task for run in self._runs.values() if run.task is not None and not run.task.done()]
        if tasks and seconds > 0:
            await asyncio.wait(tasks, timeout=seconds)
        for run in [*self._runs.values()]:
            run.halt("restarting")
        if self._tasks:
            await asyncio.wait([*self._tasks], timeout=LEARNING_SECONDS)
        for task in [*self._tasks]:
            task.cancel()

    def running(self, owner: Owner) -> int:
        """Return how many runs of *owner* are in progress in this process."""
        return sum(run.status == "running" and run.request.owner == owner for run in self._runs.values())

    def running_threads(self, owner: Owner) -> frozenset[str]:
        """Return the threads of *owner* with a run in progress in this process."""
        runs = self._runs.values()
        return frozenset(
            run.request.thread_id for run in runs if run.status == "running" and run.request.owner == owner
        )

    def cancel_all(self, owner: Owner) -> None:
        """Cancel the runs of *owner* that are in progress in this process, without waiting for their end."""
        for run in [*self._runs.values()]:
            if run.status == "running" and run.request.owner == owner:
                run.halt("cancelled")

    async def begin(self, request: TurnRequest, *, key: RequestKey | None = None) -> ChatRun | RunElsewhere:
        """Begin a run; nothing is written before it is admitted.

        Args:
            request: What to run.
            key: The client's ``Idempotency-Key``; one that was used returns the run that was begun with it.

        Raises:
            OverloadedError: Too many runs are in progress.
            RestartingError: The process is stopping.
            ProblemError: The key is one of another request.
        """
        owner = request.owner
        if key is not None and (earlier := await self._begun_with(owner, key)) is not None:
            return earlier
        self._require_open()
        run = ChatRun(_run_id(request.thread_id), request)
        self._runs[run.run_id] = run  # counts as one of its owner while it waits, too
        begun = False
        try:
            await self.limiter.enter()
            try:
                self._require_open()
                earlier = None if key is None else await self._claim(run, key)
                begun = earlier is None
            finally:
                if not begun:
                    self.limiter.leave()
        finally:
            if not begun:
                del self._runs[run.run_id]
        if earlier is not None:
            return earlier
        run.emit("run", {"run_id": run.run_id, "thread_id": request.thread_id})
        run.task = asyncio.create_task(self._drive(run, key), name=f"run {run.run_id[:32]}")
        self._tasks.add(run.task)
        run.task.add_done_callback(self._tasks.discard)
        return run

    def find(self, owner: Owner, run_id: str) -> ChatRun | None:
        """Return a run of *owner* that is kept in this process."""
        run = self._runs.get(run_id)
        return run if run is not None and run.request.owner == owner else None

    async def require_thread(self, owner: Owner, run_id: str) -> str:
        """Return the thread of a run of any process.

        Raises:
            RunNotFoundError: The owner has no such thread.
        """
        thread_id = thread_of_run(run_id)
        if thread_id is None or await self._tk.for_owner(owner).threads.get(thread_id) is None:
            raise _not_found()
        return thread_id

    async def resume(
        self,
        owner: Owner,
        run_id: str,
        answer: Any,
        *,
        cancel_on_disconnect: bool = False,
        key: RequestKey | None = None,
    ) -> ChatRun | RunElsewhere:
        """Begin a run that answers what the run *run_id*, of any process, has asked.

        Raises:
            RunNotFoundError: The owner has no such run.
            NothingToResumeError: Its thread asks nothing.
        """
        if key is not None and (earlier := await self._begun_with(owner, key)) is not None:
            return earlier
        thread_id = await self.require_thread(owner, run_id)
        state = await self._graph.aget_state(self._view.config(owner, thread_id=thread_id))
        if not state.interrupts:
            msg = "The thread of this run waits for no answer."
            raise NothingToResumeError(msg, thread_id=thread_id)
        before = self._runs.get(run_id)
        memory = before is None or before.request.memory
        turn = TurnRequest(owner, thread_id, None, answer, memory=memory, cancel_on_disconnect=cancel_on_disconnect)
        return await self.begin(turn, key=key)

    async def cancel(self, owner: Owner, run_id: str) -> Status:
        """Stop a run, also one of another process, and return how it ended.

        Raises:
            RunNotFoundError: The owner has no such run.
        """
        run = self.find(owner, run_id)
        if run is not None:
            run.halt("cancelled")
            while run.status == "running":
                await run.buffer.wait(run.buffer.last, LEARNING_SECONDS)
            return run.status
        thread_id = await self.require_thread(owner, run_id)
        saver: Any = self._graph.checkpointer
        async with saver.leased(self._view.config(owner, thread_id=thread_id, multitask_strategy="interrupt")):
            pass  # the run that had the lease cannot write any more
        return "cancelled"

    async def follow(self, run: ChatRun, after: int) -> AsyncGenerator[bytes]:
        """Yield the events of a run behind number *after*, and what comes, with heartbeats.

        Events that are no longer kept are replaced by ``reset``, with the messages of the thread.
        """
        buffer = run.buffer
        while True:
            events = buffer.after(after)
            if events is None:
                after = buffer.last
                yield await self._reset(run.request.owner, run.request.thread_id, run.run_id, run.status, after)
            elif events:
                after += len(events)
                yield b"".join(events)
            elif buffer.is_closed:
                return
            elif not await buffer.wait(after, HEARTBEAT_SECONDS):
                yield HEARTBEAT

    async def follow_elsewhere(self, owner: Owner, run_id: str, thread_id: str) -> AsyncIterator[bytes]:
        """Yield ``reset`` with the messages of the thread, for a run that this process does not keep."""
        yield await self._reset(owner, thread_id, run_id, "unknown", 0)

    def enter(self, run: ChatRun) -> None:
        """Count a client that reads the run."""
        run.readers += 1

    def leave(self, run: ChatRun) -> None:
        """Count a client that reads no longer; the last one may stop the run, as it was asked for."""
        run.readers -= 1
        if run.readers == 0 and run.request.cancel_on_disconnect:
            run.halt("cancelled")

    async def _begun_with(self, owner: Owner, key: RequestKey) -> ChatRun | RunElsewhere | None:
        """Return the run of an earlier request with *key*, of any process.

        While the storage is away, only this process is asked: the turn is answered in any case.
        """
        value = self._begun.get((owner, key.key))
        if value is None:
            try:
                async with asyncio.timeout(_NOTE_SECONDS):
                    value = await KeptAnswers(self._tk, owner).find(key)
            except (StorageError, TimeoutError) as error:
                log.warning("An Idempotency-Key could not be looked up: %s", error)
        if value is None:
            return None
        require_same(value, key)
        run_id = str(value["run_id"])
        return self.find(owner, run_id) or RunElsewhere(owner, run_id, thread_of_run(run_id) or "")

    async def _claim(self, run: ChatRun, key: RequestKey) -> ChatRun | RunElsewhere | None:
        """Keep *key* for the run, or return the run that has it since this one waited."""
        owner, value = run.request.owner, {"run_id": run.run_id}
        try:
            async with asyncio.timeout(_NOTE_SECONDS):
                claimed = await KeptAnswers(self._tk, owner).claim(key, value, minutes=MINUTES)
        except (StorageError, TimeoutError) as error:
            log.warning("An Idempotency-Key is known to this process only: %s", error)
            claimed = (owner, key.key) not in self._begun
        if not claimed:
            return await self._begun_with(owner, key)
        self._begun[owner, key.key] = {"fingerprint": key.fingerprint, **value}
        return None

    def _require_open(self) -> None:
        if self._draining:
            msg = "The server is stopping; nothing of this turn was kept. Try again in a moment."
            raise RestartingError(msg)

    async def _reset(self, owner: Owner, thread_id: str, run_id: str, status: Status, number: int) -> bytes:
        about = {"run_id": run_id, "thread_id": thread_id}
        messages: list[Any] = []
        try:
            messages = await self._tk.for_owner(owner).threads.messages(thread_id)
        except ThreadNotFoundError:
            pass  # the run wrote nothing yet, or its thread was deleted
        except ThreadkeepError as error:
            return encode_event(f"{run_id}:{number}", "error", {**about, **_described(error)})
        return encode_event(f"{run_id}:{number}", "reset", {**about, "status": status, "messages": messages})

    async def _drive(self, run: ChatRun, key: RequestKey | None) -> None:
        try:
            try:
                await self._stream(run)
            finally:
                self.limiter.leave()
            if run.events.turn_ids and not self._draining:
                await self._learn(run)
        finally:
            run.buffer.close()
            asyncio.get_running_loop().call_later(KEPT_SECONDS, self._forget, run, key)

    async def _stream(self, run: ChatRun) -> None:
        """Run the graph and tell its end; what the graph raises is told, too."""
        began = time.monotonic()
        failure: Exception | None = None
        status: Status = "done"
        try:
            await self._run_graph(run)
            if run.events.interrupts:
                status = "interrupted"
        except asyncio.CancelledError:
            if run.stop is None:
                raise
            if (task := asyncio.current_task()) is not None:
                task.uncancel()
            status = "cancelled"
            if run.stop == "restarting":
                failure = RestartingError("The server is stopping. Send the message again.")
        except Exception as error:  # noqa: BLE001 - the client is told, and the log has it
            failure = error
            if not isinstance(error, ThreadkeepError):
                log.exception("A run failed.")
        status = "error" if failure is not None else status
        await self._note(run, status)
        run.status = status
        unrecorded = status == "done" and run.request.memory and not run.events.recorded
        outcome = "restarting" if run.stop == "restarting" else status
        self.metrics.end_turn(outcome, time.monotonic() - began, unrecorded=unrecorded)
        about = {"run_id": run.run_id, "thread_id": run.request.thread_id}
        if failure is not None:
            run.emit("error", {**about, **_described(failure)})
        else:
            events = run.events
            run.emit(
                "done", {**about, "status": status, "message_ids": events.message_ids, "recorded": events.recorded}
            )

    async def _run_graph(self, run: ChatRun) -> None:
        request = run.request
        config = self._view.config(request.owner, thread_id=request.thread_id, memory=request.memory)
        if request.message is None:
            given = self._view.resume(request.answer)
        else:
            message_id = new_id()
            run.events.message_ids.append(message_id)
            messages = [
                {"role": "user", "name": DOCUMENT_NAME, "content": document.quoted(), "id": new_id()}
                for document in request.documents
            ]
            given = {"messages": [*messages, {"role": "user", "content": request.message, "id": message_id}]}
        begun = run.buffer.last
        try:
            await self._relay(run, self._graph, given, config)
        except StorageError:
            if request.message is None or run.buffer.last > begun:
                raise
            # The thread cannot be read: the user is answered without it, and "recorded" says that nothing was kept.
            await self._relay(run, self._graph.copy({"checkpointer": None}), given, config)

    async def _relay(self, run: ChatRun, graph: Any, given: Any, config: Any) -> None:
        began: float | None = time.monotonic()
        async with aclosing(graph.astream(given, config, stream_mode=_MODES)) as parts:
            async for mode, payload in parts:
                for kind, data in run.events.translate(mode, payload):
                    run.emit(kind, data)
                    if kind == "token" and began is not None:
                        self.metrics.first_token(time.monotonic() - began)
                        began = None
                    elif kind == "memory_recalled":
                        self.metrics.recalled(data)

    async def _note(self, run: ChatRun, status: Status) -> None:
        """Note the end of the turn in the list of threads, unless the middleware did."""
        request = run.request
        if status == "done" and run.events.recorded:
            return
        noted: Literal["idle", "interrupted", "error"] = status if status in ("interrupted", "error") else "idle"
        threads = self._tk.for_owner(request.owner).threads
        with suppress(ThreadkeepError, TimeoutError):
            async with asyncio.timeout(_NOTE_SECONDS):
                await threads.note_turn(request.thread_id, question=request.message or "", status=noted)

    async def _learn(self, run: ChatRun) -> None:
        """Tell what was learnt from the turn, once it was."""
        mine = self._tk.for_owner(run.request.owner)
        with suppress(ThreadkeepError):
            receipt = await mine.settle(run.events.turn_ids, timeout=timedelta(seconds=LEARNING_SECONDS))
            for memory_id in receipt.memory_ids:
                memory = await mine.memories.get(memory_id)
                if memory is not None:
                    written = {"memory_id": memory_id, "text": memory.text, "kind": memory.kind}
                    run.memories.append(written)
                    run.emit("memory_written", written)
            for proposal_id in receipt.proposal_ids:
                proposal = await mine.proposals.get(proposal_id)
                if proposal is not None:
                    names = ("action", "text", "kind", "reason", "memory_id")
                    waiting = {"proposal_id": proposal_id, **{name: getattr(proposal, name) for name in names}}
                    run.proposals.append(waiting)
                    run.emit("proposal", waiting)

    def _forget(self, run: ChatRun, key: RequestKey | None) -> None:
        self._runs.pop(run.run_id, None)
        if key is not None:
            self._begun.pop((run.request.owner, key.key), None)


def _run_id(thread_id: str) -> str:
    """Return an id for a run on a thread: every process can read from it which thread it is."""
    text = base64.urlsafe_b64encode(thread_id.encode("utf-8", "surrogatepass")).rstrip(b"=").decode("ascii")
    return f"{new_id()}.{text}"


def thread_of_run(run_id: str) -> str | None:
    """Return the thread that a run's id names; ``None``: it is no such id."""
    text = run_id.partition(".")[2]
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        thread_id = raw.decode("utf-8")
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return None
    return thread_id or None


def event_number(last_event_id: str, run_id: str) -> int:
    """Return the number of the event that a client has read last; 0: none of this run."""
    named, _, number = last_event_id.rpartition(":")
    return int(number) if named == run_id and number.isascii() and number.isdigit() and len(number) < 12 else 0  # noqa: PLR2004


def _described(error: Exception) -> dict[str, str]:
    if isinstance(error, ThreadkeepError):
        return {"code": error.code, "message": str(error)}
    return {"code": "internal_error", "message": "The turn failed; the server's log says why."}


def _not_found() -> RunNotFoundError:
    return RunNotFoundError("There is no such run; it never was, or ended too long ago.")
