"""What a run's configuration says of who writes, in the fence's words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from langchain_core.runnables.config import var_child_runnable_config

from threadkeep.ids import new_id
from threadkeep.owners.claims import RUNTIME
from threadkeep.threads.fence import ADDRESSED, EPOCH, LEASE, RUN, Claim, lease_of
from threadkeep.threads.order import require_later

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import CheckpointTuple

    from threadkeep.threads.leases import Hold

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
) -> Claim:
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
    return Claim(
        "put",
        thread,
        run=str(configurable.get(RUN, "")),
        checkpoint=checkpoint_id,
        parent=parent,
        lease=lease_of(configurable),
        anywhere=begins or source == "update" or not of_a_run,
    )


def claim_of_writes(configurable: Mapping[str, Any], thread: str) -> Claim:
    """Return what the fence has to know of what a task of the root graph wrote."""
    run = str(configurable.get(RUN, ""))
    return Claim(
        "writes",
        thread,
        run=run,
        checkpoint=str(configurable.get("checkpoint_id") or ""),
        lease=lease_of(configurable),
        anywhere=run.startswith(ADDRESSED) or not _of_a_run(configurable),
    )


def claim_of_subgraph(configurable: Mapping[str, Any], thread: str, hold: Hold | None) -> Claim:
    """Return what the fence has to know of whatever a subgraph writes: whether its run still has its lease.

    Args:
        configurable: Of the configuration that it is put with.
        thread: The thread's stored name.
        hold: The lease that this process has on the thread, for subgraphs whose configuration does not say.
    """
    lease = lease_of(configurable)
    if lease is None and hold is not None and RUNTIME in configurable:
        lease = hold.token
    return Claim("writes", thread, lease=lease, anywhere=True)


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
