"""How checkpoints are written: over the home loop, or straight to where they are kept, where nobody has to be asked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from langgraph.checkpoint.base import get_checkpoint_metadata

from threadkeep.errors import ConflictError
from threadkeep.threads.admission import configurable_of, place_of
from threadkeep.threads.claiming import claim_of_put, claim_of_subgraph, claim_of_writes
from threadkeep.threads.fence import ADDRESSED, RUN, Claim
from threadkeep.threads.names import thread_id_from

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata

    from threadkeep.home import Home
    from threadkeep.ids import ThreadId
    from threadkeep.threads.backend import Saver
    from threadkeep.threads.upkeep import Upkeep

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """One write.

    Attributes:
        claim: Who writes what.
        blocking: Makes it by a blocking call of the saver.
        waiting: Makes it by one that is awaited on the home loop.
    """

    claim: Claim
    blocking: Callable[[Saver], T]
    waiting: Callable[[Saver], Awaitable[T]]


Planned: TypeAlias = "Callable[[RunnableConfig], Change[T]]"
"""Makes the change, given the configuration for the real saver; it is called once."""


@dataclass(frozen=True, slots=True)
class Writing:
    """Makes the changes of one view of a checkpointer.

    Attributes:
        upkeep: Its threads.
        home: The loop that its saver lives on.
    """

    upkeep: Upkeep
    home: Home

    async def written(self, config: RunnableConfig, planned: Planned[T]) -> tuple[ThreadId, T]:
        """Return the thread of *config*, and what a change of it returned; on any loop.

        Where it is known already whose thread it is, the caller's loop hands the change to the saver's thread itself:
        the home loop may be busy with what the same turn recalls.
        """
        upkeep = self.upkeep
        admitted = None
        if self.home.here and upkeep.shared.reachable:
            admitted = upkeep.admission.admitted_at_once(config)
        if admitted is None:
            return await self.home.run(self.at_home(config, planned))
        thread_id, inner = admitted
        change = planned(inner)
        try:
            return thread_id, await upkeep.shared.reach(upkeep.serde, change.blocking, claim=change.claim)
        except ConflictError:
            await self.home.run(upkeep.let_go_of_deleted(thread_id))
            raise

    async def at_home(self, config: RunnableConfig, planned: Planned[T]) -> tuple[ThreadId, T]:
        """Do the same on the home loop."""
        upkeep = self.upkeep
        async with upkeep.shared.using():
            thread_id, inner = await upkeep.admitted_to_write(config)
            change = planned(inner)
            try:
                return thread_id, await upkeep.shared.run(upkeep.serde, change.waiting, claim=change.claim)
            except ConflictError:
                await upkeep.let_go_of_deleted(thread_id)
                raise

    def planned_put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> Planned[RunnableConfig]:
        """Return the change that keeps *checkpoint*."""
        thread_id = thread_id_from(configurable_of(config).get("thread_id"))

        def planned(inner: RunnableConfig) -> Change[RunnableConfig]:
            name, namespace = place_of(inner)
            noted = {**get_checkpoint_metadata(config, metadata), **self.upkeep.admission.notes(thread_id, name)}

            def packed() -> tuple[RunnableConfig, Checkpoint, CheckpointMetadata, ChannelVersions]:
                envelope, serde = self.upkeep.envelope, self.upkeep.serde
                kept = envelope.checkpoint(checkpoint, serde=serde, thread=name, namespace=namespace)
                return inner, kept, envelope.metadata(noted, serde=serde, thread=name), new_versions

            return Change(
                self._claim_of_put(config, name, namespace, checkpoint["id"], str(metadata.get("source", ""))),
                lambda saver: saver.put(*packed()),
                lambda saver: saver.aput(*packed()),
            )

        return planned

    def planned_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
    ) -> Planned[None]:
        """Return the change that keeps what a task wrote: all of it or nothing."""

        def planned(inner: RunnableConfig) -> Change[None]:
            name, namespace = place_of(inner)
            configurable = configurable_of(config)

            def packed() -> tuple[RunnableConfig, Sequence[tuple[str, Any]], str, str]:
                kept = self.upkeep.envelope.writes(writes, serde=self.upkeep.serde, thread=name, namespace=namespace)
                return inner, kept, task_id, task_path

            return Change(
                claim_of_subgraph(configurable, name, self.upkeep.leases.hold_of(name))
                if namespace
                else claim_of_writes(configurable, name),
                lambda saver: saver.put_writes(*packed()) if writes else None,
                lambda saver: saver.aput_writes(*packed()) if writes else _nothing(),
            )

        return planned

    def _claim_of_put(
        self, config: RunnableConfig, thread: str, namespace: str, checkpoint_id: str, source: str
    ) -> Claim:
        configurable = configurable_of(config)
        if namespace:
            return claim_of_subgraph(configurable, thread, self.upkeep.leases.hold_of(thread))
        run = str(configurable.get(RUN, ""))
        # A run that was told where to begin is free to do so, once; from then on it continues what it wrote.
        begins = run.startswith(ADDRESSED) and self.upkeep.shared.begins(run)
        return claim_of_put(configurable, thread, checkpoint_id, source=source, begins=begins)


async def _nothing() -> None:
    """Write nothing."""
