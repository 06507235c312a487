"""Who may write to a thread: whoever continues it from where it stands, and nobody who comes late.

A thread has one newest checkpoint. A run reads it, and what it writes goes on from there; when another run
has gone on from the same one in the meantime, LangGraph would take the later for the newest and forget
what the other one said. So each write says what it goes on from, and is judged beside the thread's *head*:
in the same transaction where a database has them.

These are pure rules; each backend keeps the heads beside its checkpoints.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from threadkeep.errors import ThreadBusyError, ThreadMovedOnError

RUN: Final = "__threadkeep_run"
"""Where a run's checkpointer config says which run it is: put there when the run reads, given back when it writes."""

EPOCH: Final = "__threadkeep_epoch"
"""Where a run's config holds its owner's epoch that it began in; savers keep nothing with such a name."""

LEASE: Final = "__threadkeep_lease"
"""Where a run's config holds the token of its lease."""

Refusal: TypeAlias = Literal["busy", "passed on", "moved on"]

Strategy: TypeAlias = Literal["enqueue", "reject", "interrupt", "rollback"]
"""What becomes of a second input: it waits, is refused, or takes the thread from the run that is at work, with
what that one has finished, or without anything of it."""

STRATEGIES: Final[tuple[Strategy, ...]] = ("enqueue", "reject", "interrupt", "rollback")

ADDRESSED: Final = "fork:"
"""How the name of a run begins that was told which checkpoint to go on from."""


@dataclass(frozen=True, slots=True)
class Head:
    """Where a thread stands.

    Attributes:
        run: Which run wrote last; empty: one that did not say.
        newest: The id of the newest checkpoint that was put; empty: none is known. Ids are ordered by time.
        token: The number of the last lease; 0: there was none.
        held: Whether somebody has a lease that has not expired.
    """

    run: str = ""
    newest: str = ""
    token: int = 0
    held: bool = False


@dataclass(frozen=True, slots=True)
class Grant:
    """A lease that was given.

    Attributes:
        token: Its number, larger than all before it.
        back_to: The id of the newest checkpoint when the run began from which it was taken, where nothing of that one
            is to be kept; ``None``: everything is.
    """

    token: int
    back_to: str | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """What a writer says of itself.

    Attributes:
        kind: A checkpoint, what a task wrote after one, or the end of the whole thread.
        thread: The thread's stored name.
        run: Which run it is; empty: the thread had no checkpoint when the run began.
        checkpoint: The id of the checkpoint that is put, or after which something is written.
        parent: The id of the one that it goes on from; empty: of none.
        lease: The token of its lease; ``None``: it has none.
        anywhere: It was told where to go on from, or is no run: it need not be the newest.
    """

    kind: Literal["put", "writes", "delete"]
    thread: str
    run: str = ""
    checkpoint: str = ""
    parent: str = ""
    lease: int | None = None
    anywhere: bool = False


def judge(head: Head, claim: Claim, *, there: str = "") -> None:
    """Return if *claim* may be carried out where the thread stands at *head*.

    Args:
        head: Where it stands, as far as fenced writers know.
        claim: Who wants to write what.
        there: The newest id among the checkpoints themselves: other writers know nothing of heads.

    Raises:
        ThreadBusyError: Another run has a lease on the thread.
        ThreadMovedOnError: Another run went on first, or the lease has passed to another.
    """
    if claim.kind == "delete":
        return
    if claim.lease is not None and head.token != claim.lease:
        raise refused("passed on")
    if claim.lease is None and head.held and not claim.anywhere:
        raise refused("busy")
    mine = head.run == claim.run and (bool(claim.run) or claim.kind == "writes")
    newest = max(head.newest, there)
    goes_on = newest in (claim.parent, claim.checkpoint) if claim.kind == "put" else newest <= claim.checkpoint
    if not (claim.anywhere or mine or goes_on):
        raise refused("moved on")


def goes_by_lease(claim: Claim) -> bool:
    """Whether it is enough for *claim* that the thread's head has its lease and, unless it may write anywhere, its run.

    :func:`judge` allows it then, wherever the thread stands; where the head has others, it says why not.
    """
    return claim.kind != "delete" and claim.lease is not None and (claim.anywhere or bool(claim.run))


def refused(why: Refusal) -> ThreadBusyError | ThreadMovedOnError:
    """Return the error that says *why* a claim was not allowed."""
    if why == "busy":
        return ThreadBusyError("Another run is at work on this thread; wait for it, or try again later.")
    if why == "passed on":
        return ThreadMovedOnError(
            "The lease on this thread has passed to another run, or it was deleted; nothing more of this run is kept."
        )
    msg = "Another run has continued this thread in the meantime; see its state, and give the input again if need be."
    return ThreadMovedOnError(msg)


def moved(head: Head, claim: Claim) -> Head:
    """Return where a thread stands that stood at *head*, once *claim* is carried out."""
    return Head(claim.run, max(head.newest, claim.checkpoint), head.token, head.held)


def lease_of(configurable: Mapping[str, Any]) -> int | None:
    """Return the token of the lease that a run's config holds."""
    token = configurable.get(LEASE)
    return token if isinstance(token, int) else None
