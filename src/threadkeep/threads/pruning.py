"""Which checkpoints of a thread stay: pure rules."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

if TYPE_CHECKING:
    from langgraph.checkpoint.base import CheckpointTuple

Place: TypeAlias = tuple[str, str]
"""A checkpoint's namespace and id."""

ANCHOR: Final = "threadkeep_anchor"
"""What the metadata of a checkpoint says that only holds what newer ones are rebuilt from; nobody is shown it."""

INTERRUPT: Final = "__interrupt__"
TASK_MARK: Final = ":"
"""Stands in the namespaces of subgraphs that live as long as a task; others keep one history for the thread."""


@dataclass(frozen=True, slots=True)
class Row:
    """A checkpoint as far as it matters for whether it stays.

    Attributes:
        place: Its namespace and id; ids are ordered by time.
        parent_id: The one that it went on from, in the same namespace.
        root_id: Of a subgraph's: the checkpoint of the root graph that it belongs to.
        at: When it was made.
        waits: Whether a task of it waits for an answer.
        deltas: The channels whose value stands in what was written before it, and not in it.
        anchor: Whether it only holds such writes.
    """

    place: Place
    parent_id: str | None = None
    root_id: str | None = None
    at: datetime | None = None
    waits: bool = False
    deltas: tuple[str, ...] = ()
    anchor: bool = False


@dataclass(frozen=True, slots=True)
class Keep:
    """What of a thread stays.

    Attributes:
        latest: So many of the newest checkpoints.
        since: All that were made then or later.
        waiting: Those, at the ends of branches, that wait for an answer.
        every_namespace: The newest of each subgraph, whatever it belonged to.
    """

    latest: int = 1
    since: datetime | None = None
    waiting: bool = True
    every_namespace: bool = False


def kept(rows: Sequence[Row], keep: Keep) -> set[Place]:
    """Return what stays: of the root graph what *keep* says, of subgraphs what belongs to that.

    The newest checkpoint always stays, and what holds the writes that one which stays is rebuilt from.
    """
    real = [row for row in rows if not row.anchor]
    root = sorted((row for row in real if not row.place[0]), key=lambda row: row.place[1], reverse=True)
    gone_on = {row.parent_id for row in root}
    stays = {
        row.place
        for number, row in enumerate(root)
        if number < max(1, keep.latest)
        or (keep.since is not None and row.at is not None and row.at >= keep.since)
        or (keep.waiting and row.waits and row.place[1] not in gone_on)
    }
    newest: dict[tuple[str, str | None], str] = {}
    for row in real:
        namespace, checkpoint_id = row.place
        if not namespace:
            continue
        belongs = row.root_id is not None and ("", row.root_id) in stays
        if belongs or keep.every_namespace or TASK_MARK not in namespace:
            group = (namespace, row.root_id if belongs else None)
            newest[group] = max(newest.get(group, ""), checkpoint_id)
    stays |= {(namespace, checkpoint_id) for (namespace, _), checkpoint_id in newest.items()}
    parents = {(row.place[0], row.parent_id) for row in real if row.place in stays and row.deltas}
    return stays | {row.place for row in rows if row.anchor and row.place in parents}


def to_anchor(rows: Sequence[Row], stays: Collection[Place]) -> Mapping[Place, list[Row]]:
    """Return the checkpoints that go although others that stay are rebuilt from them, each with those others."""
    there = {row.place for row in rows}
    found: dict[Place, list[Row]] = {}
    for row in rows:
        parent = (row.place[0], row.parent_id or "")
        if row.place in stays and row.deltas and parent in there and parent not in stays:
            found.setdefault(parent, []).append(row)
    return found


def row_of(found: CheckpointTuple) -> Row:
    """Return what matters of a checkpoint."""
    configurable = found.config.get("configurable", {})
    metadata = cast("Mapping[str, Any]", found.metadata)
    parent = found.parent_config.get("configurable", {}).get("checkpoint_id") if found.parent_config else None
    counters = cast("Mapping[str, Any]", metadata.get("counters_since_delta_snapshot") or {})
    values = found.checkpoint["channel_values"]
    return Row(
        (str(configurable.get("checkpoint_ns", "")), found.checkpoint["id"]),
        parent,
        cast("Mapping[str, str]", metadata.get("parents") or {}).get(""),
        datetime.fromisoformat(found.checkpoint["ts"]),
        any(channel == INTERRUPT for _, channel, _ in found.pending_writes or ()),
        tuple(sorted(channel for channel in counters if channel not in values)),
        bool(metadata.get(ANCHOR)),
    )
