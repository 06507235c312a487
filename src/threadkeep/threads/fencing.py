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
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from langchain_core.runnables.config import var_child_runnable_config

from threadkeep.errors import ThreadBusyError, ThreadMovedOnError
from threadkeep.identity import RUNTIME
from threadkeep.ids import new_id
from threadkeep.threads.checkpoint_ids import require_later

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import CheckpointTuple

    from threadkeep.threads.leases import Hold


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
class ThreadClaim:
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


def judge(head: Head, claim: ThreadClaim, *, there: str = "") -> None:
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


def goes_by_lease(claim: ThreadClaim) -> bool:
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


def moved(head: Head, claim: ThreadClaim) -> Head:
    """Return where a thread stands that stood at *head*, once *claim* is carried out."""
    return Head(claim.run, max(head.newest, claim.checkpoint), head.token, head.held)


def lease_of(configurable: Mapping[str, Any]) -> int | None:
    """Return the token of the lease that a run's config holds."""
    token = configurable.get(LEASE)
    return token if isinstance(token, int) else None


_TASK: Final = "__pregel_task_id"


def begins_a_run(configurable: Mapping[str, Any]) -> bool:
    """Whether a graph reads where it is to go on from: no subgraph, nobody who only looks, and not twice."""
    return (
        RUNTIME in configurable
        and _TASK not in configurable
        and not configurable.get("checkpoint_ns")
        and LEASE not in configurable
    )


def is_inside_of(hold: Hold) -> bool:
    """Whether a node of the run that has this lease is at work in this context: it cannot wait for itself."""
    around = var_child_runnable_config.get()
    return around is not None and around.get("configurable", {}).get(RUN) == hold.run


def claim_of_put(
    configurable: Mapping[str, Any], thread: str, checkpoint_id: str, *, source: str, begins: bool
) -> ThreadClaim:
    """Return what the fence has to know of a checkpoint of the root graph.

    Args:
        configurable: Of the configuration that it is put with.
        thread: The thread's stored name.
        checkpoint_id: Its id.
        source: What LangGraph says made it.
        begins: Whether its run was told which checkpoint to go on from and puts its first.

    Raises:
        ConflictError: It would not be newer than the one that its run goes on from.
    """
    parent, of_a_run = str(configurable.get("checkpoint_id") or ""), _of_a_run(configurable)
    if of_a_run:
        require_later(checkpoint_id, parent)
    return ThreadClaim(
        "put",
        thread,
        run=str(configurable.get(RUN, "")),
        checkpoint=checkpoint_id,
        parent=parent,
        lease=lease_of(configurable),
        anywhere=begins or source == "update" or not of_a_run,
    )


def claim_of_writes(configurable: Mapping[str, Any], thread: str) -> ThreadClaim:
    """Return what the fence has to know of what a task of the root graph wrote."""
    run = str(configurable.get(RUN, ""))
    return ThreadClaim(
        "writes",
        thread,
        run=run,
        checkpoint=str(configurable.get("checkpoint_id") or ""),
        lease=lease_of(configurable),
        anywhere=run.startswith(ADDRESSED) or not _of_a_run(configurable),
    )


def claim_of_subgraph(configurable: Mapping[str, Any], thread: str, hold: Hold | None) -> ThreadClaim:
    """Return what the fence has to know of whatever a subgraph writes: whether its run still has its lease.

    Args:
        configurable: Of the configuration that it is put with.
        thread: The thread's stored name.
        hold: The lease that this process has on the thread, for subgraphs whose configuration does not say.
    """
    lease = lease_of(configurable)
    if lease is None and hold is not None and RUNTIME in configurable:
        lease = hold.token
    return ThreadClaim("writes", thread, lease=lease, anywhere=True)


def named(found: CheckpointTuple, configurable: Mapping[str, Any]) -> CheckpointTuple:
    """Return *found* with the name of the run that reads it, which LangGraph hands back with each write of that run.

    A run without a lease is given a name here; the configuration of one that has a lease says it.
    """
    if RUNTIME not in configurable or configurable.get("checkpoint_ns"):
        return found
    own = dict(found.config.get("configurable", {}))
    addressed = ADDRESSED if configurable.get("checkpoint_id") else ""
    own[RUN] = configurable.get(RUN) or f"{addressed}{new_id()}"
    return found._replace(config={**found.config, "configurable": own})


def note(config: RunnableConfig, hold: Hold, run: str, epoch: str | None) -> None:
    """Write into a run's own configuration which lease it has, for its writes, its nodes and its subgraphs.

    LangGraph makes this dictionary for each run and hands it down; it writes into it in the same way.
    """
    config.get("configurable", {}).update({RUN: run, LEASE: hold.token, EPOCH: epoch})


def epoch_of(configurable: Mapping[str, Any]) -> str | None:
    """Return the owner's epoch that a run began in, as its config says."""
    epoch = configurable.get(EPOCH)
    return epoch if isinstance(epoch, str) else None


def _of_a_run(configurable: Mapping[str, Any]) -> bool:
    """Whether LangGraph's loop writes; anybody else names the checkpoint that they write after themselves."""
    return RUNTIME in configurable or RUN in configurable
