"""Whose thread it is: a thread is bound to the first owner who writes to it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, TypeVar

from threadkeep.errors import OwnerMismatchError, PartitionErasedError, RevisionConflictError, StorageError
from threadkeep.identity import Owner, owner_of_label
from threadkeep.ids import ThreadId, digest
from threadkeep.storage.interface import (
    Batch,
    Delete,
    ImmediateReads,
    Item,
    MultiPartitionCommits,
    Partition,
    Put,
    Ref,
    Storage,
    iterate_items,
)

if TYPE_CHECKING:
    from threadkeep.concurrency import TimeoutBudget
    from threadkeep.observability import Telemetry

THREADS: Final = ".threads"

_TRIES: Final = 5
_ANSWER_SECONDS: Final = 1.0
_ANSWERS_KEPT: Final = 4_096

T = TypeVar("T")

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
            OwnerMismatchError: It is bound to somebody else.
            PartitionErasedError: The owner was erased since *epoch*; nothing was written.
        """
        ...

    def known(self, thread_id: str, owner: Owner, *, epoch: str | None, scoped: bool) -> bool | None:
        """Whether :meth:`bind`, or :meth:`enter` where it is *scoped*, has nothing to do; asked from any thread.

        Returns:
            ``None``: that cannot be told without waiting.
        """
        ...

    async def check(self, thread_id: str, owner: Owner) -> None:
        """Do nothing if the thread is bound to *owner* or to nobody.

        Raises:
            OwnerMismatchError: It is bound to somebody else.
        """
        ...

    def checked(self, thread_id: str, owner: Owner) -> bool | None:
        """Whether :meth:`check` has nothing to say; asked from any thread.

        Returns:
            ``None``: that cannot be told without waiting.
        """
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
    exactly one has it; it says in which epoch of its owner it was made. Both are committed in one
    step where the storage can do that, else one after the other. Nothing is remembered
    between calls: another process may delete a thread, and its id may begin again as somebody else's.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._telling = storage if isinstance(storage, ImmediateReads) else None
        self._spanning = storage if isinstance(storage, MultiPartitionCommits) else None

    async def epoch(self, owner: Owner) -> str | None:
        """See :meth:`Binder.epoch`."""
        return (await self._storage.position(owner.partition)).epoch

    def epoch_at_once(self, owner: Owner) -> str | None:
        """See :meth:`Binder.epoch_at_once`."""
        standing = self._telling.try_position(owner.partition) if self._telling is not None else None
        return standing.epoch if standing is not None else None

    async def bind(self, thread_id: str, owner: Owner, *, epoch: str | None = None) -> None:
        """See :meth:`Binder.bind`."""
        for _ in range(_TRIES):
            holder, entered = await self._storage.get(_rows(thread_id, owner))
            missing: list[Batch] = []
            if holder is None:
                value = {"owner": owner.label} if epoch is None else {"owner": owner.label, "epoch": epoch}
                put = Put((THREADS,), _key(thread_id), value, expect="absent")
                missing.append(Batch(_partition(thread_id), [put]))
            elif holder.value.get("owner") != owner.label:
                raise _not_yours(thread_id)
            # Also after a crash between the two commits, so that erasing the owner finds the thread.
            if entered is None:
                missing.append(_listing(owner, thread_id, key=_key(thread_id), epoch=epoch))
            try:
                await self._commit(missing)
            except RevisionConflictError:
                continue  # somebody came first: read who
            except PartitionErasedError:  # a binding that was committed stands outside of the owner's partition
                await self._take_back(thread_id, owner, epoch)
                raise
            return
        raise _not_yours(thread_id)

    def known(self, thread_id: str, owner: Owner, *, epoch: str | None, scoped: bool) -> bool | None:  # noqa: ARG002 - as bind
        """See :meth:`Binder.known`."""
        told = self._told([_scoped_entry(thread_id, owner)] if scoped else _rows(thread_id, owner))
        return None if told is None else all(told) and (scoped or _holds(told[0], owner))

    async def check(self, thread_id: str, owner: Owner) -> None:
        """See :meth:`Binder.check`."""
        if await self._label(thread_id) not in (None, owner.label):
            raise _not_yours(thread_id)

    def checked(self, thread_id: str, owner: Owner) -> bool | None:
        """See :meth:`Binder.checked`."""
        told = self._told([_binding(thread_id)])
        return None if told is None else told[0] is None or _holds(told[0], owner)

    async def enter(self, thread_id: str, owner: Owner, *, epoch: str | None = None) -> None:
        """See :meth:`Binder.enter`."""
        (entered,) = await self._storage.get([_scoped_entry(thread_id, owner)])
        if entered is None:
            await self._storage.commit(_listing(owner, thread_id, key=_scoped_key(thread_id), epoch=epoch))

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
        rows = iterate_items(self._storage, owner.partition, prefix=(THREADS, owner.label))
        return tuple({ThreadId(item.value["thread"]): None async for item in rows})

    async def release(self, owner: Owner) -> None:
        """Forget every thread of *owner*."""
        for thread_id in await self.of_owner(owner):
            if await self.owner_of(thread_id) == owner:
                await self.unbind(thread_id)
            await self.leave(thread_id, owner)

    def _told(self, refs: Sequence[Ref]) -> tuple[Item | None, ...] | None:
        return self._telling.try_get(refs) if self._telling is not None else None

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

    async def _commit(self, batches: Sequence[Batch]) -> None:
        """Commit *batches*: all or none where the storage can do that, else one after the other."""
        if self._spanning is not None and len(batches) > 1:
            await self._spanning.commit_all(batches)
            return
        for batch in batches:
            await self._storage.commit(batch)

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

    What has to be waited for holds for a second when it was answered, because a turn asks the same
    for each of its checkpoints; who asks meanwhile what is being asked already, waits for that answer.
    What can be told at once holds for a second for the writes of a run only, which the fence looks at, too.

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
        patience: TimeoutBudget,
        there: Callable[[], Binder | None] | None = None,
    ) -> None:
        self._connected = connected
        self._there = there
        self._telemetry = telemetry
        self._patience = patience
        self._answered: dict[_Question, float] = {}
        self._asked: dict[_Question, asyncio.Future[None]] = {}

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
        return self._at_once(lambda binder: binder.epoch_at_once(owner))

    async def bind(self, thread_id: str, owner: Owner, *, epoch: str | None = None) -> None:
        """See :meth:`Binder.bind`."""
        if self.known(thread_id, owner, epoch=epoch, scoped=False):
            return
        question = ("bind", thread_id, owner, epoch)
        await self._survived(question, lambda binder: binder.bind(thread_id, owner, epoch=epoch))

    def known(self, thread_id: str, owner: Owner, *, epoch: str | None, scoped: bool) -> bool:
        """See :meth:`Binder.known`."""
        question, answered = ("enter" if scoped else "bind", thread_id, owner, epoch), self._answered
        if epoch is not None and _holds_still(question, answered):
            return True
        told = self._at_once(lambda binder: binder.known(thread_id, owner, epoch=epoch, scoped=scoped))
        if told:
            _note(question, answered)
        return _holds_still(question, answered) if told is None else told

    async def check(self, thread_id: str, owner: Owner) -> None:
        """See :meth:`Binder.check`."""
        if self.checked(thread_id, owner):
            return
        await self._survived(("check", thread_id, owner, None), lambda binder: binder.check(thread_id, owner))

    def checked(self, thread_id: str, owner: Owner) -> bool:
        """See :meth:`Binder.checked`."""
        told = self._at_once(lambda binder: binder.checked(thread_id, owner))
        return _holds_still(("check", thread_id, owner, None), self._answered) if told is None else told

    async def enter(self, thread_id: str, owner: Owner, *, epoch: str | None = None) -> None:
        """See :meth:`Binder.enter`."""
        if self.known(thread_id, owner, epoch=epoch, scoped=True):
            return
        question = ("enter", thread_id, owner, epoch)
        await self._survived(question, lambda binder: binder.enter(thread_id, owner, epoch=epoch))

    async def owner_of(self, thread_id: str) -> Owner | None:
        """See :meth:`Binder.owner_of`."""
        return await (await self._connected()).owner_of(thread_id)

    async def unbind(self, thread_id: str) -> None:
        """See :meth:`Binder.unbind`."""
        self._forget()
        await (await self._connected()).unbind(thread_id)
        self._forget()

    async def leave(self, thread_id: str, owner: Owner) -> None:
        """See :meth:`Binder.leave`."""
        self._forget()
        await (await self._connected()).leave(thread_id, owner)
        self._forget()

    def _at_once(self, ask: Callable[[Binder], T | None]) -> T | None:
        binder = self._there() if self._there is not None else None
        try:
            return ask(binder) if binder is not None else None
        except StorageError:  # it is counted where it is waited for
            return None

    def _forget(self) -> None:
        self._answered = {}  # another one: what is on its way is noted where nobody looks any more
        self._asked = {}

    async def _survived(self, question: _Question, work: Callable[[Binder], Awaitable[None]]) -> None:
        async def whole() -> None:
            answered = self._answered
            await work(await self._connected())
            _note(question, answered)

        def ended(asked: asyncio.Future[None]) -> None:
            if self._asked.get(question) is asked:
                del self._asked[question]

        asked = self._asked.get(question)
        if asked is None:
            asked = self._asked[question] = asyncio.ensure_future(whole())
            asked.add_done_callback(ended)
        try:
            await self._patience.wait(asyncio.shield(asked))
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


def _rows(thread_id: str, owner: Owner) -> list[Ref]:
    return [_binding(thread_id), Ref(owner.partition, (THREADS, owner.label), _key(thread_id))]


def _scoped_entry(thread_id: str, owner: Owner) -> Ref:
    return Ref(owner.partition, (THREADS, owner.label), _scoped_key(thread_id))


def _listing(owner: Owner, thread_id: str, *, key: str, epoch: str | None) -> Batch:
    return Batch(owner.partition, [Put((THREADS, owner.label), key, {"thread": thread_id})], epoch)


def _holds(holder: Item | None, owner: Owner) -> bool:
    return holder is not None and holder.value.get("owner") == owner.label


def _holds_still(question: _Question, answered: Mapping[_Question, float]) -> bool:
    return time.monotonic() < answered.get(question, 0.0)


def _note(question: _Question, answered: dict[_Question, float]) -> None:
    if len(answered) >= _ANSWERS_KEPT:
        answered.clear()
    answered[question] = time.monotonic() + _ANSWER_SECONDS


def _not_yours(thread_id: str) -> OwnerMismatchError:
    msg = "This thread belongs to another owner; use a thread id of your own."
    return OwnerMismatchError(msg, thread_id=thread_id)
