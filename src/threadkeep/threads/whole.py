"""What is done with whole threads: counted, pruned and copied, on every place for checkpoints alike."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from langgraph.checkpoint.base import empty_checkpoint

from threadkeep.errors import ConflictError, InvalidInputError
from threadkeep.ids import new_id
from threadkeep.threads.pruning import ANCHOR, Keep, Place, Row, kept, row_of, to_anchor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import Checkpoint, CheckpointMetadata, CheckpointTuple
    from langgraph.checkpoint.serde.base import SerializerProtocol

    from threadkeep.threads.backend import Saver
    from threadkeep.threads.envelope import Envelope
    from threadkeep.threads.savers import SharedSaver

T = TypeVar("T")

LONG: Final = 12
"""How many times longer than others these may take: they touch all of a thread."""


@dataclass(frozen=True, slots=True)
class ThreadStats:
    """How large a thread is.

    Attributes:
        checkpoints: How many there are, those of subgraphs included.
        size_bytes: Its values, what tasks wrote and the checkpoints themselves, encoded, each value counted once.
        began_at: When its oldest checkpoint was made.
        updated_at: When its newest one was.
        waits: Whether it waits for an answer.
    """

    checkpoints: int = 0
    size_bytes: int = 0
    began_at: datetime | None = None
    updated_at: datetime | None = None
    waits: bool = False


class WholeThread:
    """All checkpoints of one thread, under its stored name; whoever changes them holds its lease.

    Args:
        shared: The saver.
        envelope: Packs what goes to it and opens what comes back.
        serde: What it reads and writes by.
        name: The thread's stored name.
        notes: What is kept in the metadata of its checkpoints to list by.
    """

    def __init__(
        self, shared: SharedSaver, envelope: Envelope, serde: SerializerProtocol, name: str, notes: Mapping[str, str]
    ) -> None:
        self._shared = shared
        self._envelope = envelope
        self._serde = serde
        self._name = name
        self._notes = notes

    async def checkpoints(self) -> list[CheckpointTuple]:
        """Return all checkpoints, oldest first."""
        config: RunnableConfig = {"configurable": {"thread_id": self._name}}

        async def read(saver: Saver) -> list[CheckpointTuple]:
            return [one async for one in saver.alist(config)]

        found = [self._envelope.opened(one, serde=self._serde) for one in await self._run(read)]
        return sorted(found, key=lambda one: one.checkpoint["id"])

    async def stats(self) -> ThreadStats:
        """Return how large the thread is."""
        found = await self.checkpoints()
        if not found:
            return ThreadStats()
        size, counted = 0, set[tuple[str, str, str]]()
        for one in found:
            namespace = str(one.config.get("configurable", {}).get("checkpoint_ns", ""))
            values = one.checkpoint["channel_values"]
            size += self._size({**one.checkpoint, "channel_values": {}}) + self._size(dict(one.metadata))
            size += sum(self._size(value) for _, _, value in one.pending_writes or ())
            for channel, value in values.items():
                version = (namespace, channel, str(one.checkpoint["channel_versions"].get(channel)))
                if version not in counted:
                    counted.add(version)
                    size += self._size(value)
        rows = [row for row in map(row_of, found) if not row.anchor]
        newest = max((row for row in rows if not row.place[0]), key=lambda row: row.place[1], default=None)
        return ThreadStats(len(rows), size, rows[0].at, rows[-1].at, newest is not None and newest.waits)

    async def prune(self, keep: Keep) -> int:
        """Remove what *keep* does not name; return how many checkpoints went.

        What stays is rebuilt as before: where its channels keep differences only, these are gathered first.
        A crash leaves more than was to stay, never less.
        """
        found = await self.checkpoints()
        rows = [row_of(one) for one in found]
        stays = kept(rows, keep)
        there = {row.place: one for row, one in zip(rows, found, strict=True)}
        for parent, children in to_anchor(rows, stays).items():
            anchor = await self._anchor(there[parent], children)
            for child in children:
                await self._reparent(child.place, anchor)
        gone = [row.place for row in rows if row.place not in stays]
        if gone:
            await self._shared.leasing(lambda backend, saver: backend.remove(saver, self._name, gone))
        return sum(not row.anchor for row in rows if row.place not in stays)

    async def copy_to(self, other: WholeThread, *, until: str | None = None) -> int:
        """Put the checkpoints of this thread into *other*, which has none; return how many.

        Args:
            other: Where to.
            until: The id of a checkpoint: only that one and what led to it.

        Raises:
            ConflictError: The other one has checkpoints.
            InvalidInputError: There is nothing to copy.
        """
        if await other.checkpoints():
            msg = "The thread that is to be copied to has checkpoints already; give another id."
            raise ConflictError(msg)
        found = await self.checkpoints()
        if until is not None:
            found = _leading_to(found, until)
        if not found:
            msg = "There is no such thread, or no such checkpoint in it; list them to see which there are."
            raise InvalidInputError(msg, checkpoint_id=until)
        stored: set[tuple[str, str, str]] = set()
        for one in found:
            namespace, _ = row_of(one).place
            versions = {
                channel: version
                for channel, version in one.checkpoint["channel_versions"].items()
                if (namespace, channel, str(version)) not in stored
            }
            stored |= {(namespace, channel, str(version)) for channel, version in versions.items()}
            await other._put(namespace, one.checkpoint, dict(one.metadata), versions, row_of(one).parent_id)
            await other._put_writes((namespace, one.checkpoint["id"]), one.pending_writes or ())
        return len(found)

    async def _anchor(self, parent: CheckpointTuple, children: Sequence[Row]) -> Place:
        """Put a checkpoint that holds all that was written to the children's channels until *parent*."""
        namespace, parent_id = row_of(parent).place
        channels = sorted({channel for child in children for channel in child.deltas})
        child: RunnableConfig = {
            "configurable": {
                "thread_id": self._name,
                "checkpoint_ns": namespace,
                "checkpoint_id": children[0].place[1],
            }
        }
        packed = await self._run(lambda saver: saver.aget_delta_channel_history(config=child, channels=channels))
        history = self._envelope.opened_history(packed, serde=self._serde, thread=self._name, namespace=namespace)
        seeds = {channel: one["seed"] for channel, one in history.items() if "seed" in one}
        blank = empty_checkpoint()
        mark = new_id()
        anchor_id = f"{parent_id[:-12]}{mark[-12:]}"  # before its children, which are younger than the parent
        checkpoint = cast(
            "Checkpoint",
            {
                **blank,
                "id": anchor_id,
                "ts": parent.checkpoint["ts"],
                "channel_values": seeds,
                "channel_versions": dict.fromkeys(seeds, f"{0:032}.{mark}"),
            },
        )
        metadata: dict[str, Any] = {"source": "fork", "step": -2, "parents": {}, ANCHOR: True}
        # The writes before the checkpoint by which they are found.
        writes = [(channel, channel, value) for channel in channels for _, _, value in history[channel]["writes"]]
        await self._put_writes((namespace, anchor_id), writes)
        await self._put(namespace, checkpoint, metadata, checkpoint["channel_versions"], None)
        return namespace, anchor_id

    async def _reparent(self, place: Place, parent: Place) -> None:
        await self._shared.leasing(lambda backend, saver: backend.reparent(saver, self._name, place, parent[1]))

    async def _put(
        self,
        namespace: str,
        checkpoint: Checkpoint,
        metadata: Mapping[str, Any],
        versions: Any,
        parent_id: str | None,
    ) -> None:
        config = self._config(namespace, parent_id)
        packed = self._envelope.checkpoint(checkpoint, serde=self._serde, thread=self._name, namespace=namespace)
        noted: CheckpointMetadata = self._envelope.metadata(
            {**metadata, **self._notes}, serde=self._serde, thread=self._name
        )
        await self._run(lambda saver: saver.aput(config, packed, noted, versions))

    async def _put_writes(self, place: Place, writes: Sequence[tuple[str, str, Any]]) -> None:
        """Keep writes by their tasks, in the order in which they are given."""
        namespace, checkpoint_id = place
        config = self._config(namespace, checkpoint_id)
        by_task: dict[str, list[tuple[str, Any]]] = {}
        for task_id, channel, value in writes:
            by_task.setdefault(task_id, []).append((channel, value))
        for number, (task_id, given) in enumerate(by_task.items()):
            packed = self._envelope.writes(given, serde=self._serde, thread=self._name, namespace=namespace)
            await self._run(partial(_put_writes, config=config, writes=packed, task=task_id, path=f"{number:06}"))

    def _config(self, namespace: str, checkpoint_id: str | None) -> RunnableConfig:
        named = {"checkpoint_id": checkpoint_id} if checkpoint_id else {}
        return {"configurable": {"thread_id": self._name, "checkpoint_ns": namespace, **named}}

    def _size(self, value: Any) -> int:
        return len(self._serde.dumps_typed(value)[1])

    async def _run(self, work: Callable[[Saver], Awaitable[T]]) -> T:
        return await self._shared.run(self._serde, work, patience=LONG)


async def _put_writes(
    saver: Saver, *, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task: str, path: str
) -> None:
    await saver.aput_writes(config, writes, task, path)


def _leading_to(found: Sequence[CheckpointTuple], checkpoint_id: str) -> list[CheckpointTuple]:
    """Return a checkpoint of the root graph, what led to it, and the subgraphs' of these."""
    rows = {row.place: row for row in map(row_of, found)}
    chain: set[str] = set()
    here: str | None = checkpoint_id
    while here is not None and ("", here) in rows and here not in chain:
        chain.add(here)
        here = rows["", here].parent_id
    return [one for one in found if (row := row_of(one)).place == ("", row.place[1]) and row.place[1] in chain] + [
        one for one in found if (row := row_of(one)).place[0] and row.root_id in chain
    ]
