"""The threads of each owner, listed in the owner's partition of the storage that keeps the threads.

A thread is listed before it is bound, in the owner's epoch, so erasing an owner finds every thread. While an owner is
being erased no thread can be listed; an erasure that was killed is found again as due work.
"""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from threadkeep.checkpoints.head import bind_to
from threadkeep.concurrency import retry_conflicts
from threadkeep.errors import PartitionErasedError, RevisionConflictError
from threadkeep.identity import Owner, owner_of_partition
from threadkeep.ids import ThreadId, digest
from threadkeep.storage.interface import Batch, Delete, Due, Partition, Put, Ref, Storage, iterate_items

if TYPE_CHECKING:
    from threadkeep.checkpoints.thread_store import Threads, ThreadStore
    from threadkeep.clock import Clock

THREADS: Final = ".threads"
ERASING: Final = ".erasing"

_SCOPED: Final = "scoped-"
_MARK: Final = ((ERASING,), "owner")


class ListedThread(NamedTuple):
    """A thread of an owner; *scoped*: kept in a view that no other owner can name."""

    thread_id: ThreadId
    scoped: bool

    def partition_of(self, owner: Owner) -> Partition:
        """Return the partition that it is kept in."""
        return thread_partition(self.thread_id, owner if self.scoped else None)


class ThreadDirectory:
    """Lists the threads of each owner.

    Args:
        storage: Keeps the threads.
        clock: Returns the time.
    """

    def __init__(self, storage: Storage, clock: Clock) -> None:
        self._storage = storage
        self._clock = clock

    async def epoch(self, owner: Owner) -> str:
        """Return the owner's epoch: another one once the owner was erased."""
        return (await self._storage.position(owner.partition)).epoch

    async def enter(self, owner: Owner, thread_id: str, *, scoped: bool, epoch: str | None) -> None:
        """List a thread of *owner*; it may be listed already.

        Raises:
            PartitionErasedError: The owner was erased since *epoch*, or is being erased; nothing was written.
        """
        put = Put((THREADS, owner.label), _key(thread_id, scoped=scoped), {"thread": thread_id})
        barrier = Delete(*_MARK, expect="absent")
        try:
            await self._storage.commit(Batch(owner.partition, [put, barrier], epoch))
        except RevisionConflictError as error:
            msg = "The owner is being erased; try again when that is done."
            raise PartitionErasedError(msg) from error

    async def leave(self, owner: Owner, thread_id: str, *, scoped: bool) -> None:
        """Remove a thread from the list, after it was deleted."""
        ref = Ref(owner.partition, (THREADS, owner.label), _key(thread_id, scoped=scoped))
        (item,) = await self._storage.get([ref])
        if item is None:  # an owner who was erased must not get a partition again
            return
        with suppress(RevisionConflictError, PartitionErasedError):  # another writer removed it
            gone = Delete(ref.namespace, ref.key, expect=item.revision)
            await self._storage.commit(Batch(owner.partition, [gone], await self.epoch(owner)))

    async def of_owner(self, owner: Owner) -> tuple[ListedThread, ...]:
        """Return the threads of *owner*, newest first."""
        await self._storage.connect()  # the first read may come before any run
        rows = iterate_items(self._storage, owner.partition, prefix=(THREADS, owner.label))
        return tuple(
            [
                ListedThread(
                    ThreadId(item.value["thread"]), bool(item.value.get("scoped", item.ref.key[:6] == "scoped"))
                )
                async for item in rows
            ]
        )

    async def ids_of(self, owner: Owner) -> tuple[ThreadId, ...]:
        """Return the ids of the threads of *owner*, newest first, each once."""
        return tuple(dict.fromkeys(one.thread_id for one in await self.of_owner(owner)))

    async def begin_erasing(self, owner: Owner) -> None:
        """From now on no thread of *owner* can be listed, until the owner's partition is erased."""
        mark = Put(*_MARK, {}, due=Due(ERASING, self._clock.now()))
        await retry_conflicts(lambda: self._storage.commit(Batch(owner.partition, [mark])))

    async def unfinished(self) -> tuple[Owner, ...]:
        """Return the owners with an erasing that has begun and not ended."""
        await self._storage.connect()
        items = await self._storage.due(ERASING, now=self._clock.now(), limit=100)
        owners = [owner_of_partition(item.ref.partition) for item in items]
        return tuple(owner for owner in owners if owner is not None)


class ThreadOwners:
    """Binds threads to their owners, also threads that another saver keeps.

    Args:
        threads: The threads.
        directory: The threads of each owner.
    """

    def __init__(self, threads: Threads, directory: ThreadDirectory) -> None:
        self._threads = threads
        self._directory = directory

    async def bind(self, thread: ThreadStore | str, owner: Owner, *, epoch: str | None, scoped: bool = False) -> None:
        """Bind a thread to *owner*; it may be bound to the owner already.

        Args:
            thread: The thread, or the id of an unscoped one.
            owner: The owner.
            scoped: Whether it is of a scoped view.
            epoch: The owner's epoch when the run began; ``None``: the present one.

        Raises:
            OwnerMismatchError: It belongs to another owner.
            PartitionErasedError: The owner was erased since *epoch*.
        """
        if isinstance(thread, str):
            thread = self._threads.get(thread_partition(thread, None), thread)
        head = await thread.head()
        if head is not None:
            head.require_owner(owner)
        if head is None or not head.owner:
            await self._directory.enter(owner, thread.thread_id, scoped=scoped, epoch=epoch)
            await thread.commit(bind_to(owner))

    async def check(self, thread_id: str, owner: Owner) -> None:
        """Check that a thread belongs to *owner* or to no owner.

        Raises:
            OwnerMismatchError: It belongs to another owner.
        """
        head = await self._threads.get(thread_partition(thread_id, None), thread_id).head()
        if head is not None:
            head.require_owner(owner)


@lru_cache(maxsize=4096)
def thread_partition(thread_id: str, owner: Owner | None) -> Partition:
    """Return the partition of a thread; *owner*: of that owner's scoped view."""
    parts = (thread_id,) if owner is None else (owner.tenant, owner.user_id, thread_id)
    return Partition("thread", parts)


def _key(thread_id: str, *, scoped: bool) -> str:
    key = digest("thread", thread_id).hex()
    return f"{_SCOPED}{key}" if scoped else key
