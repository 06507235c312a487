"""What a run is: what was asked, how far it is, and the ids that name it."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from threadkeep.clock import SystemClock
from threadkeep.errors import NothingToResumeError, ThreadBusyError, ThreadkeepError
from threadkeep.gateway.event_buffer import EventBuffer
from threadkeep.gateway.events import TurnEvents, encode_event
from threadkeep.gateway.public_errors import public_detail
from threadkeep.ids import base64url, new_id

if TYPE_CHECKING:
    from threadkeep.gateway.idempotency import KeyClaim, RequestKey
    from threadkeep.gateway.uploads import UploadedDocument
    from threadkeep.identity import Owner

REFUSALS: Final = (ThreadBusyError, NothingToResumeError)
"""What a run fails with that did not get its thread: another run has it, or the run answers no question."""

_WAIT_SECONDS: Final = 5.0
_now: Final = SystemClock().now

MultitaskStrategy: TypeAlias = Literal["enqueue", "reject", "interrupt", "rollback"]
"""What a run does if another one is at work on its thread: wait, be refused, or stop it and keep or undo its work."""

StopReason: TypeAlias = Literal["cancelled", "undone", "restarting"]

Status: TypeAlias = Literal["running", "done", "interrupted", "cancelled", "error", "unknown"]
"""How far a run is; ``unknown``: another process has it, or it ended some minutes ago."""


@dataclass(frozen=True, slots=True)
class GraphCall:
    """What a graph is to run, in LangGraph's words.

    Attributes:
        given: The input of the graph, or a command.
        events: Translates what the graph streams.
        config: Further keys of the config, without ``configurable``.
        configurable: Further keys of ``configurable``.
        options: Further arguments of ``astream``.
        strategy: What the run does if another one is at work on the thread.
        answers: Whether it answers what the thread asks, and is refused if that waits for no such answer.
        answered: The ids of the questions that it answers; empty: whichever there are.
        answers_one: Whether it answers one question without its id, and is refused if there are several.
    """

    given: Any
    events: TurnEvents
    config: Mapping[str, Any] = field(default_factory=dict[str, Any])
    configurable: Mapping[str, Any] = field(default_factory=dict[str, Any])
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    strategy: MultitaskStrategy = "enqueue"
    answers: bool = False
    answered: frozenset[str] = frozenset()
    answers_one: bool = False

    @property
    def is_refusable(self) -> bool:
        """Whether the client waits until the run has its thread, and gets a refusal as the answer."""
        return self.answers or self.strategy == "reject"


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """What a client asks to run.

    Attributes:
        owner: The owner, verified by the gateway.
        thread_id: The thread.
        message: The user's message; ``None``: there is none, as in an answer to a question.
        checkpoint_id: The checkpoint that the run extends; ``None``: the newest.
        memory: Whether the turn recalls and learns.
        cancel_on_disconnect: Whether the run is cancelled once no client reads it.
        documents: The files of the message.
        call: What is run instead of the message, which then only gives the thread its title.
        temporary: Whether the thread is deleted after the run.
        speaker: Who says the message: the user, or another agent.
    """

    owner: Owner
    thread_id: str
    message: str | None
    checkpoint_id: str | None = None
    memory: bool = True
    cancel_on_disconnect: bool = False
    documents: tuple[UploadedDocument, ...] = ()
    call: GraphCall | None = None
    temporary: bool = False
    speaker: Literal["user", "agent"] = "user"


@dataclass(frozen=True, slots=True)
class RunElsewhere:
    """A run that this process does not keep: another process has it, or it ended some minutes ago.

    Attributes:
        owner: The owner.
        run_id: Its id.
        thread_id: The thread.
        status: How far it is.
    """

    owner: Owner
    run_id: str
    thread_id: str
    status: Status = "unknown"


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
        stop: Why the run was stopped; ``None``: it was not.
        task: Drives the graph.
        started: Whether the task has begun: one that is cancelled before never ends its run.
        settling: Whether the graph has ended: then nothing of it is left to stop.
        key: The client's ``Idempotency-Key``; ``None``: there is none.
        claim: The claim of that key in the storage; ``None``: only this process knows the key.
        failure: What the run failed with.
        began: Is set once the run has its thread, or has ended without.
        created_at: When it was begun.
        updated_at: When it ended, or was begun.
    """

    run_id: str
    request: TurnRequest
    status: Status = "running"
    events: TurnEvents = field(default_factory=TurnEvents)
    buffer: EventBuffer = field(default_factory=EventBuffer)
    readers: int = 0
    memories: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    proposals: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    stop: StopReason | None = None
    task: asyncio.Task[None] | None = None
    started: bool = False
    settling: bool = False
    key: RequestKey | None = None
    claim: KeyClaim | None = None
    failure: Exception | None = None
    began: asyncio.Event = field(default_factory=asyncio.Event)
    created_at: datetime = field(default_factory=_now)
    updated_at: datetime = field(default_factory=_now)

    @property
    def owner(self) -> Owner:
        """The owner."""
        return self.request.owner

    @property
    def thread_id(self) -> str:
        """The thread."""
        return self.request.thread_id

    @property
    def token(self) -> str:
        """The name of its lease."""
        return token_of_run(self.run_id)

    def status_after(self, failure: Exception | None) -> Status:
        """Return the status in which it ends."""
        if failure is not None:
            return "error"
        if self.stop is not None:
            return "cancelled"
        return "interrupted" if self.events.interrupts else "done"

    def emit(self, kind: str, data: Any) -> None:
        """Add an event for every client."""
        self.buffer.append(encode_event(f"{self.run_id}:{self.buffer.last + 1}", kind, data))

    async def wait(self) -> None:
        """Wait until it has ended."""
        while self.status == "running":
            await self.buffer.wait(self.buffer.last, _WAIT_SECONDS)

    def halt(self, reason: StopReason) -> None:
        """Stop the run; what the graph has finished stays. One that is settling is not cut off."""
        if self.status != "running" or self.stop is not None or (self.settling and self.failure is None):
            return
        self.stop = reason
        if self.task is not None and self.started and not self.settling:
            self.task.cancel()

    def abort(self) -> None:
        """End a run that never began, or was cut off: what waits for it goes on."""
        if self.status == "running":
            self.status = "error"
        self.began.set()
        self.buffer.close()


AnyRun: TypeAlias = ChatRun | RunElsewhere


def new_run_id(thread_id: str) -> str:
    """Return an id for a run on a thread: every process can read from it which thread it is."""
    return f"{new_id()}.{base64url(thread_id.encode('utf-8', 'surrogatepass'))}"


def token_of_run(run_id: str) -> str:
    """Return the part of a run's id that no other run has, whatever its thread."""
    return run_id.partition(".")[0]


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


def describe_error(error: Exception) -> dict[str, str]:
    """Return the code and the message of an error, as clients are told; the log has those that are not ours."""
    if isinstance(error, ThreadkeepError):
        return {"code": error.code, "message": public_detail(error)}
    return {"code": "internal_error", "message": "The turn failed; the server's log says why."}
