"""What becomes of whole threads at a checkpointer: deleted, thinned, copied and counted, each its owner's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from threadkeep.errors import InvalidInputError, PartitionErasedError
from threadkeep.ids import ThreadId
from threadkeep.threads.admission import configurable_of
from threadkeep.threads.claiming import named
from threadkeep.threads.fence import Claim
from threadkeep.threads.names import thread_id_from
from threadkeep.threads.order import come_after
from threadkeep.threads.pruning import Keep
from threadkeep.threads.whole import LONG, ThreadStats, WholeThread

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import CheckpointTuple
    from langgraph.checkpoint.serde.base import SerializerProtocol

    from threadkeep.owners.owner import Owner
    from threadkeep.threads.admission import Admission
    from threadkeep.threads.backend import Saver
    from threadkeep.threads.envelope import Envelope
    from threadkeep.threads.leases import Leases
    from threadkeep.threads.savers import SharedSaver

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Upkeep:
    """The threads of one view of a checkpointer; called on the loop that the saver lives on.

    Attributes:
        shared: The saver.
        leases: Who is at work on which thread.
        envelope: Packs what goes to the saver and opens what comes back.
        serde: What it reads and writes by.
        admission: Whose threads these are, and what they are called there.
    """

    shared: SharedSaver
    leases: Leases
    envelope: Envelope
    serde: SerializerProtocol
    admission: Admission

    async def delete(self, thread_id: ThreadId) -> None:
        """Delete everything of the thread, and whose it was."""
        async with self.shared.using():
            name = self.admission.name(thread_id)
            claim = Claim("delete", name, anywhere=True)
            await self.run(lambda saver: saver.adelete_thread(name), claim=claim, patience=LONG)
            await self.admission.let_go(thread_id)

    async def delete_of_owner(self, thread_ids: Sequence[ThreadId], owner: Owner) -> None:
        """Delete threads as *owner* has them, and rid the place of what is left of them."""
        scoped, binder = replace(self, admission=replace(self.admission, owner=owner)), self.admission.binder
        for thread_id in thread_ids:
            await scoped.delete(thread_id)
            if binder and await binder.owner_of(thread_id) == owner:
                await self.delete(thread_id)
        if thread_ids:
            async with self.shared.using():
                await self.run(self.shared.backend.scrub, patience=LONG)

    async def admitted_to_write(self, config: RunnableConfig) -> tuple[ThreadId, RunnableConfig]:
        """Return what :meth:`Admission.admitted` does, to whoever writes.

        A run whose owner was erased just as it bound the thread may have kept something that the erasure did not
        find: it goes as soon as the run is refused.

        Raises:
            NotYoursError: It is a thread of somebody else.
            PartitionErasedError: Its owner was erased since the run began; nothing of the thread is left.
        """
        try:
            return await self.admission.admitted(config, writing=True)
        except PartitionErasedError:
            thread_id, binder = thread_id_from(configurable_of(config).get("thread_id")), self.admission.binder
            if self.admission.owner or binder is None or await binder.owner_of(thread_id) is None:
                await self.delete(thread_id)
                await self.run(self.shared.backend.scrub, patience=LONG)
            raise

    async def let_go_of_deleted(self, thread_id: ThreadId) -> None:
        """Forget whose a thread is of which nothing is there: a run that came too late has bound it again."""
        last: RunnableConfig = {"configurable": {"thread_id": self.admission.name(thread_id), "checkpoint_ns": ""}}
        if await self.run(lambda saver: saver.aget_tuple(last)) is None:
            await self.admission.let_go(thread_id)

    def seen(
        self, found: CheckpointTuple | None, config: RunnableConfig, thread_id: ThreadId
    ) -> CheckpointTuple | None:
        """Return *found*, which the saver gave, as whoever asked by *config* sees it; on any thread."""
        come_after(found)
        if found is None:
            return None
        outward = self.admission.outward(self.envelope.opened(found, serde=self.serde), thread_id)
        return named(outward, configurable_of(config))

    async def prune(self, thread_ids: Sequence[str], strategy: str) -> None:
        """Keep the newest checkpoint of each namespace, or delete the threads, as LangGraph's *strategy* says."""
        if isinstance(thread_ids, str) or strategy not in ("keep_latest", "delete"):
            msg = "Give the ids of the threads as a list, and keep_latest or delete as the strategy."
            raise InvalidInputError(msg)
        for thread_id in [thread_id_from(one) for one in thread_ids]:
            if strategy == "delete":
                await self.delete(thread_id)
            else:
                await self.thin(thread_id, Keep(every_namespace=True))

    async def thin(self, thread_id: ThreadId, keep: Keep, *, wait: bool = True) -> int:
        """Remove what *keep* does not name, under the thread's lease; return how many checkpoints went."""
        async with self.shared.using():
            hold = await self.leases.take(self.admission.name(thread_id), "enqueue" if wait else "reject")
            try:
                return await self._whole(thread_id).prune(keep)
            finally:
                await self.leases.give_back(hold)

    async def copy(self, source_thread_id: str, target_thread_id: str, until: str | None) -> int:
        """Copy what led to the checkpoint *until*, or all, into a thread that has none; return how many."""
        source, target = thread_id_from(source_thread_id), thread_id_from(target_thread_id)
        async with self.shared.using():
            return await self._whole(source).copy_to(self._whole(target), until=until)

    async def stats(self, thread_id: ThreadId) -> ThreadStats:
        """Return how large the thread is."""
        async with self.shared.using():
            return await self._whole(thread_id).stats()

    async def run(self, work: Callable[[Saver], Awaitable[T]], *, claim: Claim | None = None, patience: int = 1) -> T:
        """Return what *work* does with the saver; see :meth:`SharedSaver.run`."""
        return await self.shared.run(self.serde, work, claim=claim, patience=patience)

    def _whole(self, thread_id: ThreadId) -> WholeThread:
        name = self.admission.name(thread_id)
        return WholeThread(self.shared, self.envelope, self.serde, name, self.admission.notes(thread_id, name))
