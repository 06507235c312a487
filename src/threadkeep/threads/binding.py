"""Whose thread it is: a thread is bound to the first owner who writes to it."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from threadkeep.errors import NotYoursError, PartitionErasedError, RevisionConflictError, StorageError
from threadkeep.ids import ThreadId, digest
from threadkeep.owners.owner import Owner, owner_of_label
from threadkeep.storage.port import Batch, Delete, Partition, Put, Ref, Storage, Telling
from threadkeep.storage.walking import items_in

if TYPE_CHECKING:
    from threadkeep.patience import Patience
    from threadkeep.telemetry import Telemetry

THREADS: Final = ".threads"

_TRIES: Final = 5
_ANSWER_SECONDS: Final = 1.0
_ANSWERS_KEPT: Final = 4_096

_Question: TypeAlias = tuple[str, str, Owner, str | None]


class Binder(Protocol):
    """What a checkpointer needs to know of whose thread it is; :class:`ThreadBinding` keeps it in storage."""

    async def epoch(self, owner: Owner) -> str | None:
        """Tell the epoch of *owner* that a run begins in; ``None``: nobody knows, and nothing is refused by it."""
        ...

    def epoch_at_once(self, owner: Owner) -> str | None:
        """Return what :meth:`epoch` would, from any thread; ``None``: that cannot be told without waiting."""
        ...

    async def bind(self, thread_id: str, owner: Owner, *, epoch: str | None = None) -> None:
        """Bind the thread to *owner*; it being so already is fine.

        Args:
            thread_id: Which thread.
            owner: To whom.
            epoch: The one that the run began in; ``None``: whichever it is now.

        Raises:
            NotYoursError: It is bound to somebody else.
            PartitionErasedError: The owner was erased since *epoch*; nothing was written.
        """
        ...

    def known(self, thread_id: str, owner: Owner, *, epoch: str | None, scoped: bool) -> bool:
        """Whether :meth:`bind`, or :meth:`enter` where it is *scoped*, would return at once; asked from any thread."""
        ...

    async def check(self, thread_id: str, owner: Owner) -> None:
        """Do nothing if the thread is bound to *owner* or to nobody.

        Raises:
            NotYoursError: It is bound to somebody else.
        """
        ...

    def checked(self, thread_id: str, owner: Owner) -> bool:
        """Whether :meth:`check` would return at once; asked from any thread."""
        ...

    async def enter(self, thread_id: str, owner: Owner, *, epoch: str | None = None) -> None:
        """Note that *owner* has this thread in a scoped view, where no other can name it.

        Raises:
            PartitionErasedError: The owner was erased since *epoch*; nothing was written.
        """
        ...

    async def owner_of(self, thread_id: str) -> Owner | None:
        """Return whom the thread is bound to."""
        ...

    async def unbind(self, thread_id: str) -> None:
        """Forget whom the thread was bound to, after its checkpoints are gone."""
        ...

    async def leave(self, thread_id: str, owner: Owner) -> None:
        """Undo :meth:`enter`."""
        ...


class ThreadBinding:
    """Bindings as items: one a thread, found by its digest, and one in its owner's partition to list and erase by.

    The thread's item is committed with ``expect="absent"``, so of two owners who come at once
    exactly one has it; it says in which epoch of its owner it was made. Nothing is remembered
    between calls: another process may delete a thread, and its id may begin again as somebody else's.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._telling = storage if isinstance(storage, Telling) else None

    async def epoch(self, owner: Owner) -> str | None:
        """See :meth:`Binder.epoch`."""
        return (await self._storage.position(owner.partition)).epoch

    def epoch_at_once(self, owner: Owner) -> str | None:
        """See :meth:`Binder.epoch_at_once`."""
        standing = self._telling.standing(owner.partition) if self._telling is not None else None
        return standing.epoch if standing is not None else None

    async def bind(self, thread_id: str, owner: Owner, *, epoch: str | None = None) -> None:
        """See :meth:`Binder.bind`."""
        for _ in range(_TRIES):
            holder, entered = await self._storage.get([_binding(thread_id), _entry(thread_id, owner)])
            if holder is None:
                value = {"owner": owner.label} if epoch is None else {"owner": owner.label, "epoch": epoch}
                put = Put((THREADS,), _key(thread_id), value, expect="absent")
                try:
                    await self._storage.commit(Batch(_partition(thread_id), [put]))
                except RevisionConflictError:
                    continue  # somebody came first: read who
            elif holder.value.get("owner") != owner.label:
                raise _not_yours(thread_id)
            # Also after a crash between the two commits, so that erasing the owner finds the thread.
            if entered is None:
                try:
                    await self._list_for(owner, thread_id, key=_key(thread_id), epoch=epoch)
                except PartitionErasedError:  # the binding stands outside of the owner's partition
                    await self._take_back(thread_id, owner, epoch)
                    raise
            return
        raise _not_yours(thread_id)

    def known(self, thread_id: str, owner: Owner, *, epoch: str | None, scoped: bool) -> bool:  # noqa: ARG002 - see the class
        """See :meth:`Binder.known`; nothing is."""
        return False

    async def check(self, thread_id: str, owner: Owner) -> None:
        """See :meth:`Binder.check`."""
        if await self._label(thread_id) not in (None, owner.label):
            raise _not_yours(thread_id)

    def checked(self, thread_id: str, owner: Owner) -> bool:  # noqa: ARG002 - see the class
        """See :meth:`Binder.checked`; nothing is."""
        return False

    async def enter(self, thread_id: str, owner: Owner, *, epoch: str | None = None) -> None:
        """See :meth:`Binder.enter`."""
        key = _scoped_key(thread_id)
        (entered,) = await self._storage.get([Ref(owner.partition, (THREADS, owner.label), key)])
        if entered is None:
            await self._list_for(owner, thread_id, key=key, epoch=epoch)

    async def owner_of(self, thread_id: str) -> Owner | None:
        """See :meth:`Binder.owner_of`."""
        label = await self._label(thread_id)
        return None if label is None else owner_of_label(label)

    async def unbind(self, thread_id: str) -> None:
        """See :meth:`Binder.unbind`."""
        owner = await self.owner_of(thread_id)
        if owner is None:
            return
        # In this order: what a crash between the two leaves is in the owner's partition, and goes with it.
        await self._storage.commit(Batch(_partition(thread_id), [Delete((THREADS,), _key(thread_id))]))
        await self._delist(owner, _key(thread_id))

    async def leave(self, thread_id: str, owner: Owner) -> None:
        """See :meth:`Binder.leave`."""
        await self._delist(owner, _scoped_key(thread_id))

    async def of_owner(self, owner: Owner) -> tuple[ThreadId, ...]:
        """Return the ids of the owner's threads, bound and scoped, newest first, each once."""
        rows = items_in(self._storage, owner.partition, prefix=(THREADS, owner.label))
        return tuple({ThreadId(item.value["thread"]): None async for item in rows})

    async def release(self, owner: Owner) -> None:
        """Forget every thread of *owner*."""
        for thread_id in await self.of_owner(owner):
            if await self.owner_of(thread_id) == owner:
                await self.unbind(thread_id)
            await self.leave(thread_id, owner)

    async def _label(self, thread_id: str) -> str | None:
        (holder,) = await self._storage.get([_binding(thread_id)])
        return None if holder is None else str(holder.value.get("owner"))

    async def _take_back(self, thread_id: str, owner: Owner, epoch: str | None) -> None:
        """Remove the binding of a run of *epoch*; one that the owner made since they came back stays."""
        (holder,) = await self._storage.get([_binding(thread_id)])
        if holder is None or (holder.value.get("owner"), holder.value.get("epoch")) != (owner.label, epoch):
            return
        with suppress(RevisionConflictError):  # somebody else did
            gone = Delete((THREADS,), _key(thread_id), expect=holder.revision)
            await self._storage.commit(Batch(_partition(thread_id), [gone]))

    async def _list_for(self, owner: Owner, thread_id: str, *, key: str, epoch: str | None) -> None:
        put = Put((THREADS, owner.label), key, {"thread": thread_id})
        await self._storage.commit(Batch(owner.partition, [put], epoch))

    async def _delist(self, owner: Owner, key: str) -> None:
        """Remove a row of the owner's, if there is one: of the erased not even an empty partition is to come back."""
        (entry,) = await self._storage.get([Ref(owner.partition, (THREADS, owner.label), key)])
        if entry is None:
            return
        with suppress(RevisionConflictError, PartitionErasedError):  # somebody else did
            gone = Delete((THREADS, owner.label), key, expect=entry.revision)
            await self._storage.commit(Batch(owner.partition, [gone], await self.epoch(owner)))


class GuardedBinding:
    """A binder for a checkpointer whose storage may be away: the turn goes on, and it is counted.

    While the storage does not answer, an unscoped thread is not checked: its id is the embedding
    application's. A scoped view needs no answer, for it cannot name another's thread.

    What was answered holds for a second, because a turn asks the same for each of its checkpoints.

    Args:
        connected: Who knows, once the storage is connected.
        telemetry: Where it is counted.
        patience: How long an answer is waited for.
        there: Who knows, where it is connected already.
    """

    def __init__(
        self,
        connected: Callable[[], Awaitable[Binder]],
        telemetry: Telemetry,
        *,
        patience: Patience,
        there: Callable[[], Binder | None] | None = None,
    ) -> None:
        self._connected = connected
        self._there = there
        self._telemetry = telemetry
        self._patience = patience
        self._answered: dict[_Question, float] = {}

    async def epoch(self, owner: Owner) -> str | None:
        """See :meth:`Binder.epoch`."""

        async def told() -> str | None:
            return await (await self._connected()).epoch(owner)

        try:
            return await self._patience.wait(told())
        except (StorageError, TimeoutError) as error:
            self._telemetry.degraded("binding", error)
            return None

    def epoch_at_once(self, owner: Owner) -> str | None:
        """See :meth:`Binder.epoch_at_once`."""
        binder = self._there() if self._there is not None else None
        try:
            return binder.epoch_at_once(owner) if binder is not None else None
        except StorageError:  # it is counted where it is waited for
            return None

    async def bind(self, thread_id: str, owner: Owner, *, epoch: str | None = None) -> None:
        """See :meth:`Binder.bind`."""
        question = ("bind", thread_id, owner, epoch)
        await self._survived(question, lambda binder: binder.bind(thread_id, owner, epoch=epoch))

    def known(self, thread_id: str, owner: Owner, *, epoch: str | None, scoped: bool) -> bool:
        """See :meth:`Binder.known`."""
        return self._answers(("enter" if scoped else "bind", thread_id, owner, epoch))

    async def check(self, thread_id: str, owner: Owner) -> None:
        """See :meth:`Binder.check`."""
        await self._survived(("check", thread_id, owner, None), lambda binder: binder.check(thread_id, owner))

    def checked(self, thread_id: str, owner: Owner) -> bool:
        """See :meth:`Binder.checked`."""
        return self._answers(("check", thread_id, owner, None))

    async def enter(self, thread_id: str, owner: Owner, *, epoch: str | None = None) -> None:
        """See :meth:`Binder.enter`."""
        question = ("enter", thread_id, owner, epoch)
        await self._survived(question, lambda binder: binder.enter(thread_id, owner, epoch=epoch))

    async def owner_of(self, thread_id: str) -> Owner | None:
        """See :meth:`Binder.owner_of`."""
        return await (await self._connected()).owner_of(thread_id)

    async def unbind(self, thread_id: str) -> None:
        """See :meth:`Binder.unbind`."""
        self._answered.clear()
        await (await self._connected()).unbind(thread_id)
        self._answered.clear()

    async def leave(self, thread_id: str, owner: Owner) -> None:
        """See :meth:`Binder.leave`."""
        self._answered.clear()
        await (await self._connected()).leave(thread_id, owner)
        self._answered.clear()

    def _answers(self, question: _Question) -> bool:
        return time.monotonic() < self._answered.get(question, 0.0)

    async def _survived(self, question: _Question, work: Callable[[Binder], Awaitable[None]]) -> None:
        if self._answers(question):
            return

        async def whole() -> None:
            await work(await self._connected())
            if len(self._answered) >= _ANSWERS_KEPT:
                self._answered.clear()
            self._answered[question] = time.monotonic() + _ANSWER_SECONDS

        try:
            await self._patience.wait(whole())
        except (StorageError, TimeoutError) as error:
            self._telemetry.degraded("binding", error)


def _key(thread_id: str) -> str:
    return digest("thread", thread_id).hex()


def _scoped_key(thread_id: str) -> str:
    return f"scoped-{_key(thread_id)}"


def _partition(thread_id: str) -> Partition:
    # 256 partitions: commits of different threads seldom wait for each other, and none is per thread.
    return Partition("root", (THREADS, _key(thread_id)[:2]))


def _binding(thread_id: str) -> Ref:
    return Ref(_partition(thread_id), (THREADS,), _key(thread_id))


def _entry(thread_id: str, owner: Owner) -> Ref:
    return Ref(owner.partition, (THREADS, owner.label), _key(thread_id))


def _not_yours(thread_id: str) -> NotYoursError:
    msg = "This thread belongs to another owner; use a thread id of your own."
    return NotYoursError(msg, thread_id=thread_id)
