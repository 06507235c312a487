"""The head of a thread: its owner, its newest checkpoint and its lease; and the rules that admit a write.

Every commit to a thread writes the head and expects the revision that it read, so two writers never commit on the
same state. LangGraph names a checkpoint by the clock of the machine that makes it, and takes the one with the largest
id for the newest: a late writer would hide what another run added. So a write is admitted only if it continues the
thread from where it is, and a process makes every further id later than those it has read. A config names the thread,
the run and its owner.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast
from uuid import UUID

from langgraph.checkpoint.base import id as ids
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT

from threadkeep.checkpoints.codec import CheckpointPlace, config_of
from threadkeep.clock import SystemClock
from threadkeep.errors import (
    ConflictError,
    InvalidInputError,
    OwnerMismatchError,
    OwnerRequiredError,
    RunCancelledError,
    ThreadBusyError,
    ThreadMovedOnError,
    TooLargeError,
)
from threadkeep.identity import RUNTIME, Owner, claimed_owner
from threadkeep.ids import ThreadId, new_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import CheckpointTuple

    from threadkeep.checkpoints.leases import Lease
    from threadkeep.checkpoints.thread_store import ThreadStore

ThreadStatus: TypeAlias = Literal["idle", "interrupted", "error"]
"""How the last turn of a thread ended: with a reply, with a question to the user, or with an error."""

Strategy: TypeAlias = Literal["enqueue", "reject", "interrupt", "rollback"]
"""What a run does if another run has the lease: it waits, fails, or takes the lease and keeps or undoes its work."""

_MOST_CANCELLED: Final = 15
"""Of a process that was killed while it cancelled a run, the token stays until so many came after it."""

STRATEGIES: Final[tuple[Strategy, ...]] = ("enqueue", "reject", "interrupt", "rollback")


@dataclass(frozen=True, slots=True)
class HeadLease:
    """The lease of a run as the head records it.

    Attributes:
        run: The fencing token: the random id of the run that holds it.
        until: When it expires unless it is renewed, by the clock of its holder.
        seconds: How long it lasts without renewal.
        began: The newest checkpoint when the run began; ``""``: there was none.
    """

    run: str
    until: datetime
    seconds: float
    began: str = ""

    def renewed(self, now: datetime) -> HeadLease:
        """Return the lease as it is after a renewal."""
        return replace(self, until=now + timedelta(seconds=self.seconds))

    @classmethod
    def from_value(cls, value: Mapping[str, Any]) -> HeadLease:
        """Parse the value of a stored lease."""
        return cls(value["run"], datetime.fromisoformat(value["until"]), value["seconds"], value["began"])


@dataclass(frozen=True, slots=True)
class Head:
    """The state of a thread.

    Attributes:
        thread_id: The id as the application gave it.
        owner: The label of the owner; ``""``: no run has named one yet.
        newest: The largest checkpoint id of the root graph; ``""``: there is none.
        writer: The run that wrote it; ``""``: it was written outside of a run.
        lease: The lease; ``None``: no run has one.
        cancelled: The tokens of runs that wait for the lease, and are to stop; each removes its own.
        status: How the last run ended.
        next_run: The token of a run of another process that has waited long, and takes the lease next; ``""``: none.
        commit: The id of the commit that wrote it, by which a writer without an answer finds out whether it did.
    """

    thread_id: str
    owner: str = ""
    newest: str = ""
    writer: str = ""
    lease: HeadLease | None = None
    cancelled: tuple[str, ...] = ()
    status: ThreadStatus = "idle"
    next_run: str = ""
    commit: str = field(default="", compare=False)

    @classmethod
    def from_value(cls, value: Mapping[str, Any]) -> Head:
        """Parse the value of a stored head."""
        lease = value.get("lease")
        return cls(
            str(value.get("thread", "")),
            str(value.get("owner", "")),
            str(value.get("newest", "")),
            str(value.get("writer", "")),
            None if lease is None else HeadLease.from_value(lease),
            tuple(map(str, value.get("cancelled", ()))),
            value.get("status", "idle"),
            str(value.get("next", "")),
            str(value.get("commit", "")),
        )

    def to_value(self) -> dict[str, Any]:
        """Return the head as a JSON object."""
        value: dict[str, Any] = {"thread": self.thread_id, "newest": self.newest, "writer": self.writer}
        if self.owner:
            value["owner"] = self.owner
        if self.cancelled:
            value["cancelled"] = [*self.cancelled]
        if self.status != "idle":
            value["status"] = self.status
        if self.next_run:
            value["next"] = self.next_run
        if self.commit:
            value["commit"] = self.commit
        if self.lease is not None:
            value["lease"] = {
                "run": self.lease.run,
                "until": self.lease.until.isoformat(),
                "seconds": self.lease.seconds,
                "began": self.lease.began,
            }
        return value

    def require_owner(self, owner: Owner | None) -> None:
        """Check that *owner* may read the thread; a thread without an owner is open to everybody.

        Raises:
            OwnerMismatchError: It belongs to another owner.
        """
        if owner is not None and self.owner not in ("", owner.label):
            msg = "This thread belongs to another owner; use a thread id of your own."
            raise OwnerMismatchError(msg, thread_id=self.thread_id)

    def require_lease(self, run: str) -> HeadLease:
        """Return the lease of *run*.

        Raises:
            ThreadMovedOnError: It has passed to another run, or the thread was deleted.
        """
        if self.lease is None or self.lease.run != run:
            raise lease_lost_error()
        return self.lease

    def require_wanted(self, run: str, *, owner: Owner | None, holder: str | None, named: bool) -> None:
        """Check that *run* may go on waiting for the lease.

        Args:
            run: The token of the run.
            owner: The owner to check the thread by; ``None``: any.
            holder: The token of the run that must have the lease; ``None``: any, or none.
            named: Whether the run may have a thread of an owner: it names an owner, or needs none.

        Raises:
            OwnerRequiredError: The thread belongs to an owner, and the run is not *named*.
            OwnerMismatchError: The thread belongs to another owner.
            ThreadMovedOnError: *holder* does not have the lease.
            RunCancelledError: The run was told to wait no longer.
        """
        if self.owner and not named:
            raise owner_needed()
        self.require_owner(owner)
        if holder is not None:
            self.require_lease(holder)
        if run in self.cancelled:
            raise cancelled()


def cancel_waiting(run: str) -> Callable[[Head], Head]:
    """Return what tells the run with the token *run* to wait for the lease no longer."""
    return lambda head: (
        head if run in head.cancelled else replace(head, cancelled=(*head.cancelled[-_MOST_CANCELLED:], run))
    )


def uncancel(run: str) -> Callable[[Head], Head]:
    """Return what undoes :func:`cancel_waiting`."""
    return lambda head: replace(head, cancelled=tuple(one for one in head.cancelled if one != run))


def reserve(run: str) -> Callable[[Head], Head]:
    """Return what lets the run with the token *run* take the lease next, unless another run does."""
    return lambda head: head if head.next_run else replace(head, next_run=run)


def unreserve(run: str) -> Callable[[Head], Head]:
    """Return what undoes :func:`reserve`."""
    return lambda head: replace(head, next_run="") if head.next_run == run else head


def bind_to(owner: Owner) -> Callable[[Head], Head]:
    """Return what binds a thread without an owner to *owner*."""

    def bind(head: Head) -> Head:
        head.require_owner(owner)
        return replace(head, owner=owner.label)

    return bind


WriteKind: TypeAlias = Literal["put", "writes"]


@dataclass(frozen=True, slots=True)
class Write:
    """A write as the head judges it.

    Attributes:
        kind: A checkpoint, or what a task wrote after one.
        namespace: The checkpoint namespace; ``""``: the root graph's.
        checkpoint_id: The checkpoint that is put, or after which something is written.
        parent_id: The checkpoint before it; ``""``: none.
        run: The run with the lease that it needs; ``None``: it is written outside of a lease.
        in_graph: Whether LangGraph's loop writes it. Other writers name the checkpoint that they continue.
    """

    kind: WriteKind
    namespace: str
    checkpoint_id: str
    parent_id: str = ""
    run: str | None = None
    in_graph: bool = False


def admit(head: Head, write: Write, *, leased: bool = True) -> Head:
    """Return the head after *write*.

    Args:
        head: The head before it.
        write: The write.
        leased: Whether the lease of the head, if it has one, may still be in use.

    Raises:
        ThreadBusyError: Another run has the lease.
        ThreadMovedOnError: The lease has passed to another run, or another writer continued the thread.
        ConflictError: The checkpoint would not become the newest one.
    """
    if write.run is not None:
        lease = head.require_lease(write.run)
        if not write.namespace and head.newest != lease.began and head.writer != write.run:
            raise moved_on()
    elif write.in_graph and not write.namespace:
        if leased:
            raise busy()
        base = write.parent_id if write.kind == "put" else write.checkpoint_id
        if head.newest not in (base, write.checkpoint_id):
            raise moved_on()
    if write.kind == "writes" or write.namespace:
        return head
    if (write.run is not None or write.in_graph) and write.checkpoint_id < head.newest:
        raise _not_newest(head.newest)
    if write.checkpoint_id < head.newest:
        return head
    return replace(head, newest=write.checkpoint_id, writer=write.run or "")


def status_after(writes: Sequence[tuple[str, Any]]) -> ThreadStatus | None:
    """Return how a run ends if a task's *writes* are its last; ``None``: they do not end it. A stopped run is idle."""
    for channel, value in writes:
        if channel == INTERRUPT:
            return "interrupted"
        if channel == ERROR and not isinstance(value, asyncio.CancelledError):
            return "error"
    return None


def undone() -> ThreadMovedOnError:
    """Return the error for a run that another one undid."""
    msg = "Another run took this thread and undid what this run had written; send the input again if needed."
    return ThreadMovedOnError(msg)


def cancelled() -> RunCancelledError:
    """Return the error for a run that is to wait no longer."""
    return RunCancelledError("The run was stopped while it waited for its thread; nothing of it was kept.")


def busy() -> ThreadBusyError:
    """Return the error for a thread that another run has the lease on."""
    return ThreadBusyError("Another run is at work on this thread; wait for it, or try again later.")


def lease_lost_error() -> ThreadMovedOnError:
    """Return the error for a run that lost its lease."""
    msg = (
        "The lease on this thread has passed to another run, or it was deleted; "
        "nothing more of this run is kept. Give the input again."
    )
    return ThreadMovedOnError(msg)


def owner_needed() -> OwnerRequiredError:
    """Return the error for a run without an owner on a thread that belongs to one."""
    msg = (
        "owner is required: this thread belongs to an owner. Name the owner in the run's config "
        "(tk.config(user_id=...) writes it), or use a thread id of your own."
    )
    return OwnerRequiredError(msg)


def moved_on() -> ThreadMovedOnError:
    """Return the error for a run that another writer overtook."""
    msg = "Another writer continued this thread in the meantime; read its state, and send the input again if needed."
    return ThreadMovedOnError(msg)


def _not_newest(newest: str) -> ConflictError:
    msg = (
        "Nothing can come after the thread's newest checkpoint: its id is of a time far ahead of this machine's "
        "clock, or is no time. Set the clock right, or fork the thread at a checkpoint before that one."
    )
    return ConflictError(msg, checkpoint_id=newest)


MAX_THREAD_ID_CHARACTERS: Final = 1000

_TASK: Final = "__pregel_task_id"
_VERSION: Final = 6
_BEGAN: Final = datetime(1582, 10, 15, tzinfo=UTC)
"""When the times of ids begin."""

_AHEAD: Final = timedelta(days=3652)
"""How far an id may be ahead of this machine's clock and be followed: ten years, which no clock is wrong by. Every
later id of this process is as far ahead, so an id that is further ahead concerns its own thread alone."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a config addresses.

    Attributes:
        configurable: What the run is configured with.
        thread: The thread.
        place: The namespace and the checkpoint; an empty id: the newest one.
        owner: The owner that the run names; ``None``: none.
        lease: The lease of the run; ``None``: it has none.
        run: What identifies the run, if LangGraph's loop made the config; ``None``: it did not.
        is_sync: Whether the run waits until a step is durable. LangGraph names no durability if it is the default.
    """

    configurable: Mapping[str, Any]
    thread: ThreadStore
    place: CheckpointPlace
    owner: Owner | None
    lease: Lease | None
    run: object | None
    is_sync: bool

    @property
    def begins_run(self) -> bool:
        """Whether a graph reads the checkpoint that its run begins with: its first read, not a subgraph's."""
        if self.run is None or _TASK in self.configurable or self.place.namespace:
            return False
        return self.lease is None or self.lease.over

    def wrote(self, checkpoint_id: str) -> RunnableConfig:
        """Note that the run put this checkpoint, and return the config that names it."""
        if self.lease is not None and not self.place.namespace:
            self.lease.written = checkpoint_id
        return config_of(self.thread.thread_id, CheckpointPlace(self.place.namespace, checkpoint_id))


def thread_id_from(value: object) -> ThreadId:
    """Return *value* as a thread id; a UUID or a number counts by its ``str()``.

    Raises:
        InvalidInputError: There is none, or it is empty.
        TooLargeError: It has more than 1,000 characters.
    """
    text = "" if value is None else str(value)
    if not text:
        msg = "The thread id is empty; give configurable.thread_id, the id of the conversation."
        raise InvalidInputError(msg)
    if len(text) > MAX_THREAD_ID_CHARACTERS:
        msg = f"The thread id has {len(text):,} characters; at most {MAX_THREAD_ID_CHARACTERS:,} are allowed."
        raise TooLargeError(msg, characters=len(text))
    return ThreadId(text)


def come_after(found: CheckpointTuple) -> None:
    """Make every checkpoint id of this process from now on later than that of *found*."""
    clock, seen = cast("Any", ids), _time_of(found.checkpoint["id"])
    followed = seen <= (SystemClock().now() + _AHEAD - _BEGAN) // timedelta(microseconds=1) * 10
    # Nothing is called between the comparison and the assignment, so no other thread runs in between.
    if followed and seen > (clock._last_v6_timestamp or 0):  # noqa: SLF001 - it is kept nowhere else
        clock._last_v6_timestamp = seen  # noqa: SLF001


def _time_of(checkpoint_id: str) -> int:
    """Return the time that an id holds, in 100 ns since 1582; 0 if it holds none."""
    try:
        parsed = UUID(checkpoint_id)
    except ValueError:
        return 0
    time = (parsed.int >> 80 << 12) | (parsed.int >> 64 & 0xFFF)
    return time if parsed.version == _VERSION else 0


def claimed_owner_of(config: RunnableConfig) -> Owner | None:
    """Return the owner that a run names; ``None``: it names none."""
    return claimed_owner(config.get("configurable", {}))


def run_of(configurable: Mapping[str, Any]) -> object | None:
    """Return what identifies the run: the control that LangGraph shares among a run, its tasks and its subgraphs."""
    runtime = configurable.get(RUNTIME)
    return None if runtime is None else (getattr(runtime, "control", None) or runtime)


RUN: Final = "threadkeep_run"
"""The key of a run's ``configurable`` that names the run; its value is a :class:`RunName`."""


@dataclass(frozen=True, slots=True)
class RunName:
    """The name of a run. An object, because LangGraph puts texts into streams, and a client's JSON cannot make it.

    Attributes:
        text: The name, which no other run has: the fencing token of its lease.
    """

    text: str


def token_of(configurable: Mapping[str, Any]) -> str:
    """Return the fencing token of a run: its name, or a new id."""
    name = configurable.get(RUN)
    return name.text if isinstance(name, RunName) else new_id()
