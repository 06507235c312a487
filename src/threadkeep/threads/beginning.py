"""How a run begins: by a lease on its thread and what it goes on from, where it asks for them or over the home loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from threadkeep.threads.admission import configurable_of
from threadkeep.threads.backend import Read
from threadkeep.threads.leases import Hold, Reading, strategy_of

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import CheckpointTuple

    from threadkeep.home import Home
    from threadkeep.ids import ThreadId
    from threadkeep.threads.upkeep import Upkeep


class Begun(NamedTuple):
    """What a run begins with.

    Attributes:
        hold: Its lease.
        found: The checkpoint that it goes on from; ``None``: there is none.
        epoch: Its owner's; ``None``: nobody knows.
    """

    hold: Hold
    found: CheckpointTuple | None
    epoch: str | None


@dataclass(frozen=True, slots=True)
class Beginning:
    """Begins runs on the threads of one view of a checkpointer.

    Attributes:
        upkeep: Its threads.
        home: The loop that its saver lives on.
    """

    upkeep: Upkeep
    home: Home

    async def begun(self, config: RunnableConfig) -> Begun:
        """Return what the run of *config* begins with, which may have to wait for another run; on any loop.

        Where nobody has to be asked or waited for, the caller's loop takes and reads from the saver's thread itself.
        """
        upkeep = self.upkeep
        if self.home.here and upkeep.shared.reachable:
            known = upkeep.admission.begins_at_once(config)
            if known is not None and (begun := await self._at_once(config, *known)) is not None:
                return begun
        return await self.home.run(self.at_home(config))

    async def at_home(self, config: RunnableConfig) -> Begun:
        """Do the same on the home loop."""
        upkeep = self.upkeep
        epoch = await upkeep.admission.epoch(config)  # before it waits: what was said before an erasure is not kept
        async with upkeep.shared.using():
            thread_id, inner = await upkeep.admission.admitted(config, writing=False)
            reading = Reading(inner, upkeep.serde)
            hold = await self._leased(config, thread_id, reading)
            try:
                read = reading.read or Read(await upkeep.run(lambda saver: saver.aget_tuple(inner)))
                await upkeep.admission.admitted(config, writing=False)  # it may have waited, and be another's by now
                return Begun(hold, upkeep.seen(read.found, config, thread_id), epoch)
            except BaseException:
                hold.end()
                raise

    async def leased(self, config: RunnableConfig) -> Hold:
        """Return a lease on the thread of *config*; on the home loop."""
        async with self.upkeep.shared.using():
            thread_id, _ = await self.upkeep.admission.admitted(config, writing=False)
            return await self._leased(config, thread_id)

    async def _at_once(
        self, config: RunnableConfig, thread_id: ThreadId, inner: RunnableConfig, epoch: str | None
    ) -> Begun | None:
        upkeep, configurable = self.upkeep, configurable_of(config)
        reading = Reading(inner, upkeep.serde)
        hold = await upkeep.leases.take_at_once(
            upkeep.admission.name(thread_id),
            strategy_of(configurable, upkeep.leases.terms),
            reading,
            addressed=bool(configurable.get("checkpoint_id")),
            at_home=self.home.run,
        )
        if hold is None:
            return None
        try:
            read = reading.read or Read(await self.home.run(upkeep.run(lambda saver: saver.aget_tuple(inner))))
            if not upkeep.admission.still_reads(config, thread_id):  # it may be another's by now
                await self.home.run(upkeep.admission.admitted(config, writing=False))
            return Begun(hold, upkeep.seen(read.found, config, thread_id), epoch)
        except BaseException:
            hold.end()
            raise

    async def _leased(self, config: RunnableConfig, thread_id: ThreadId, reading: Reading | None = None) -> Hold:
        configurable = configurable_of(config)
        return await self.upkeep.leases.take(
            self.upkeep.admission.name(thread_id),
            strategy_of(configurable, self.upkeep.leases.terms),
            addressed=bool(configurable.get("checkpoint_id")),
            reading=reading,
        )
