"""Leases: the right to run on a thread. A run takes it when it begins and gives it back before it returns.

A lease is a part of the thread's head: its token is the random id of the run, every write of the run renews it, and
a write without it is refused (:mod:`~threadkeep.checkpoints.head`). The lease of a process that died expires. Runs of
one process wait for each other in the order in which they came; runs of other processes ask again. A run that has
asked for long says so in the head, once, and the next run lets it go first. Everything but :meth:`Leases.of` runs in
the event loop of the storage.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeAlias
from weakref import WeakValueDictionary

from cachetools import LRUCache

from threadkeep.checkpoints.codec import CHECKPOINT, CheckpointPlace
from threadkeep.checkpoints.head import (
    Head,
    HeadLease,
    Strategy,
    ThreadStatus,
    busy,
    cancel_waiting,
    cancelled,
    uncancel,
    undone,
    unreserve,
)
from threadkeep.checkpoints.lease_waits import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, LeaseTerms, LeaseWait
from threadkeep.errors import ConflictError, RunCancelledError, StorageError
from threadkeep.event_loop import start_background
from threadkeep.storage.interface import Operation, Ref

if TYPE_CHECKING:
    from threadkeep.checkpoints.codec import StoredValues, ValueRef
    from threadkeep.checkpoints.directory import ThreadOwners
    from threadkeep.checkpoints.thread_store import Change, Threads, ThreadStore
    from threadkeep.event_loop import EventLoopThread
    from threadkeep.identity import Owner
    from threadkeep.storage.interface import Partition

P = ParamSpec("P")

_NOT_TAKEN: Final = Head("")
_NOT_RELEASED: Final = 10_000
"""Of how many runs it is known that they ended while the storage was away: the next run need not wait."""

_SOON_SECONDS: Final = 0.005
_CANCEL_SECONDS: Final = 3.0
"""How long a run that waits may take to see that it is cancelled: it looks every half a second."""


_AtEnd: TypeAlias = "tuple[Callable[[], object], Callable[[], Awaitable[None]]]"
"""What is called at the end of a lease: if the thread keeps what the run wrote, and if it keeps nothing of it."""


@dataclass(eq=False)
class Lease:
    """The lease of one run of this process on one thread.

    Attributes:
        run: The fencing token.
        thread: The thread.
        owner: The owner that the thread is bound to; ``None``: the run named none.
        epoch: The owner's epoch when the run began to wait for another one; ``None``: it did not wait.
        stored: The large values of the thread that need not be stored again.
        written: The newest checkpoint that the run put; ``""``: none.
        head: The head with the lease, as it was taken.
        status: How the run ends, by what it wrote last; ``None``: it wrote nothing.
        question: Returns what the user said, for the title of a thread that has none; ``""``: it is not known.
        ending: Whether the run has ended and the lease is being given back.
        over: Whether it was given back or lost.
        turn: The lock of this process's runs on the thread; ``None``: the run did not wait for it.
        leases: What gave it.
        reserved: Whether the run asked to be the next one, as it waited for long.
        undone: Whether another run has undone it.
        lost: Whether the run had lost it at its end: to another run, or because the thread was deleted.
        refused: Whether an agent of the run refused it: the thread belongs to an owner, and the run names none.
        failure: Why a write was not committed that the run did not wait for; ``None``: none was.
    """

    run: str
    thread: ThreadStore
    owner: Owner | None
    leases: Leases
    epoch: str | None = None
    stored: StoredValues = field(default_factory=dict["tuple[str, str, str]", "ValueRef"])
    written: str = ""
    head: Head = _NOT_TAKEN
    status: ThreadStatus | None = None
    question: Callable[[], str] = str
    ending: bool = False
    over: bool = False
    turn: asyncio.Lock | None = None
    reserved: bool = False
    undone: bool = False
    lost: bool = False
    refused: bool = False
    failure: BaseException | None = None
    _deferred: deque[Change] = field(default_factory=deque["Change"])
    _waits: bool = False
    _at_end: list[_AtEnd] = field(default_factory=list["_AtEnd"])

    @property
    def is_released(self) -> bool:
        """Whether it was given back; a lost one is not: what the run wrote last may have been refused."""
        return self.over and self.ending

    def when_over(self, kept: Callable[[], object], gone: Callable[[], Awaitable[None]]) -> None:
        """Call *kept* once it was given back; *gone* if the thread then keeps nothing that the run wrote.

        The latter is so if the thread was deleted, or another run has undone this one. In the event loop of the
        storage.
        """
        self._at_end.append((kept, gone))
        if self.is_released:
            self.tell_end()

    def tell_end(self) -> None:
        """Call what waits for the end, of which there is an end now."""
        if self.lost:
            self.leases.tell_lost_soon(self)
            return
        for kept, _ in self.take_calls():
            kept()

    def take_calls(self) -> list[_AtEnd]:
        """Return what waits for the end, once."""
        calls, self._at_end = self._at_end, []
        return calls

    def defer(self, change: Change) -> None:
        """Commit *change* with what the run writes next, at most 5 ms later; from any thread.

        If it fails, so does the run's next write, or its end.
        """
        change.failed = self._note_failure
        self._deferred.append(change)
        if self._waits:
            return
        self._waits = True
        try:
            asyncio.get_running_loop().call_later(_SOON_SECONDS, self._write_soon)
        except RuntimeError:  # a thread of a sync run
            self.leases.loop.soon(lambda: asyncio.get_running_loop().call_later(_SOON_SECONDS, self._write_soon))

    async def write(self, change: Change) -> None:
        """Commit *change* with what was deferred, and wait for it; in the event loop of the storage."""
        change.done = asyncio.get_running_loop().create_future()
        self._deferred.append(change)
        self.write_deferred()
        await change.done

    async def write_with_next(self, change: Change) -> None:
        """Commit *change* with what the run writes next, and wait for it: a finished task does not run again."""
        change.done = asyncio.get_running_loop().create_future()
        self.defer(change)
        await change.done

    def write_deferred(self) -> None:
        """Commit what was deferred; in the event loop of the storage."""
        changes: list[Change] = []
        while self._deferred:  # another thread may add to them meanwhile
            changes.append(self._deferred.popleft())
        if changes:
            self.thread.add(changes)

    async def settle(self) -> None:
        """Commit what was deferred, before the run reads or ends; in the event loop of the storage."""
        self.write_deferred()
        await self.thread.settle()
        self.require_no_failure()

    def _write_soon(self) -> None:
        self._waits = False
        if self._deferred:
            self.leases.loop.soon(self.write_deferred)

    def _note_failure(self, error: BaseException) -> None:
        self.failure = self.failure or error

    def require_no_failure(self) -> None:
        """Raise the error of a write that the run did not wait for."""
        if self.failure is not None:
            raise self.failure

    async def arelease(self) -> None:
        """Give it back before the run returns; see :meth:`Leases.release`."""
        if self.undone or not self.is_released:
            await _to_the_end(self.leases.loop, self.leases.release(self))
        self.require_no_failure()  # also if another release was first

    def release(self) -> None:
        """Do the same, blocking."""
        if self.undone or not self.is_released:
            self.leases.loop.run_sync(self.leases.release(self))
        self.require_no_failure()


@dataclass(frozen=True, slots=True)
class SharedLease:
    """What a run holds that writes with the lease of the block around it.

    Attributes:
        lease: The lease, which goes on after the run.
        run: What identifies the run.
    """

    lease: Lease
    run: object

    async def arelease(self) -> None:
        """Commit what the run has deferred, before it returns."""
        self.lease.leases.unassign(self.run)
        await _to_the_end(self.lease.leases.loop, self.lease.settle())

    def release(self) -> None:
        """Do the same, blocking."""
        self.lease.leases.unassign(self.run)
        self.lease.leases.loop.run_sync(self.lease.settle())


def _to_the_end(loop: EventLoopThread, work: Coroutine[Any, Any, None]) -> Awaitable[None]:
    """Do *work*, also if the run that waits for it is cancelled meanwhile."""
    return asyncio.shield(asyncio.ensure_future(loop.run(work)))


current_lease: ContextVar[Lease | None] = ContextVar("threadkeep_lease", default=None)
"""The lease of the run, or of the block of :meth:`Leases.hold`, that this context belongs to."""


@dataclass(slots=True)
class Beginning:
    """A run or a block that begins, shared by its caller and the event loop of the storage.

    Attributes:
        around: The lease of the block that the run is in; ``None``: it is in none.
        lease: The lease that it took.
        abandoned: Whether the caller was cancelled and will not follow the lease.
    """

    around: Lease | None = None
    lease: Lease | None = None
    abandoned: bool = False


class Leases:
    """Gives the leases of this process's runs.

    Args:
        threads: The threads.
        owners: Binds threads to their owners.
        loop: The event loop of the storage.
        terms: How leases are given.
    """

    def __init__(self, threads: Threads, owners: ThreadOwners, loop: EventLoopThread, terms: LeaseTerms) -> None:
        self.terms = terms
        self._threads = threads
        self._owners = owners
        self.loop = loop
        self.closed = False
        self.connected = False
        self._runs: dict[int, tuple[object, Lease]] = {}
        self._active: dict[Partition, Lease] = {}
        self._not_released: LRUCache[str, None] = LRUCache(_NOT_RELEASED)
        self._turns: WeakValueDictionary[Partition, asyncio.Lock] = WeakValueDictionary()
        self._renewing: asyncio.Task[None] | None = None

    def of(self, run: object, partition: Partition) -> Lease | None:
        """Return the lease on a thread of the run that *run* identifies; from any thread of the process."""
        _, lease = self._runs.get(id(run), (None, None))
        return lease if lease is not None and lease.thread.partition == partition else None

    def assign(self, run: object, lease: Lease) -> None:
        """Let the run that *run* identifies write with *lease*."""
        self._runs[id(run)] = run, lease

    def unassign(self, run: object) -> None:
        """End what :meth:`assign` did."""
        self._runs.pop(id(run), None)

    async def take(
        self,
        thread: ThreadStore,
        owner: Owner | None,
        strategy: Strategy,
        *,
        scoped: bool,
        locked_to: Owner | None,
        token: str,
        taken_from: str | None = None,
        needs_owner: bool = False,
    ) -> Lease:
        """Return the lease on *thread* for a new run, waiting for it if *strategy* says so; bind the thread.

        Args:
            thread: The thread.
            owner: The owner of the run; ``None``: it names none.
            strategy: What to do if another run has it.
            scoped: Whether the thread is of a scoped view.
            locked_to: The owner to check the thread by.
            token: The fencing token, which no other lease has.
            taken_from: The token of the run that must have the lease.
            needs_owner: Whether a thread of an owner is refused where *owner* is ``None``.

        Raises:
            OwnerRequiredError: The thread belongs to an owner, and the run names none.
            ThreadBusyError: Another run has the lease, and *strategy* is not to wait; or it took too long.
            ThreadMovedOnError: *taken_from* does not have the lease.
            RunCancelledError: The run was cancelled while it waited.
            OwnerMismatchError: The thread belongs to another owner.
            PartitionErasedError: The owner was erased since the run began to wait, or is being erased.
            OverloadedError: Too many calls wait for the storage.
        """
        clock = asyncio.get_running_loop()
        deadline = clock.time() + self.terms.queue.total_seconds()
        if (gate := self._threads.storage.gate) is not None:
            gate.require_capacity()
        lease = Lease(token, thread, owner, self)
        waits = strategy in ("enqueue", "reject")
        if waits:
            await self._await_turn(lease, strategy, deadline)
        try:
            waiting, fresh = LeaseWait(token, strategy), taken_from is not None
            while True:
                head = await self._threads.call(thread.head, fresh=fresh) or Head(thread.thread_id)
                head.require_wanted(
                    lease.run, owner=locked_to, holder=taken_from, named=not (needs_owner and owner is None)
                )
                fresh = True
                if waiting.is_blocked(head, leased=thread.is_leased(head) and not self._is_over(head)):
                    if strategy == "reject" or clock.time() > deadline:
                        raise busy()  # noqa: TRY301 - what waits behind it goes on
                    await waiting.pause(lease, head)
                    continue
                if owner is not None and not head.owner:
                    await self._owners.enter(thread, owner, scoped=scoped, epoch=lease.epoch)
                if await self._commit(lease, head, strategy):
                    break
        except BaseException as error:
            self._give_up(lease, error)
            raise
        self._active[thread.partition] = lease
        if self._renewing is None or self._renewing.done():
            self._renewing = start_background(self._renew())
        return lease

    async def cancel(self, thread: ThreadStore, token: str) -> bool:
        """Tell the run with this token, of any process, to wait for the lease no longer; return whether it waited.

        A run that waits sees its token in the thread's head, removes it, and ends.
        """
        if await self._threads.call(thread.head) is None:
            return False
        await thread.commit(cancel_waiting(token))
        until = asyncio.get_running_loop().time() + _CANCEL_SECONDS
        while await thread.is_cancelled(token):
            if asyncio.get_running_loop().time() > until:
                await thread.commit(uncancel(token))
                return False
            await asyncio.sleep(FIRST_PAUSE_SECONDS)
        return True

    def _is_over(self, head: Head) -> bool:
        """Return whether the lease in *head* is of a run of this process that ended while the storage was away."""
        return head.lease is not None and head.lease.run in self._not_released

    def _give_up(self, lease: Lease, error: BaseException) -> None:
        self._confirm_if_cancelled(lease, error)
        if lease.reserved:
            self._soon(lease.thread.commit, unreserve(lease.run))
        if isinstance(error, asyncio.CancelledError):  # it may be committed
            self._soon(self.release, lease)
        else:
            _next_turn(lease)

    def _confirm_if_cancelled(self, lease: Lease, error: BaseException) -> None:
        """Remove the token of a run that was told to wait no longer: what told it so sees that it did wait."""
        if isinstance(error, RunCancelledError):
            self._soon(lease.thread.commit, uncancel(lease.run))

    def _soon(self, work: Callable[P, Awaitable[None]], *args: P.args, **kwargs: P.kwargs) -> None:
        """Do what is not waited for; see :func:`_quietly`."""
        self._threads.track(asyncio.ensure_future(_quietly(work, *args, **kwargs)))

    async def release(self, lease: Lease) -> None:
        """Give *lease* back; when this returns, no other run can undo what its run wrote.

        Raises:
            ThreadMovedOnError: Another run has undone it, or what it wrote last was refused.
            StorageError: The storage did not answer: until the lease expires, another run can undo it.
        """
        if lease.undone:  # also if that was seen when the lease was to be renewed
            lease.lost = lease.ending = True
            self._end(lease)
            await self.tell_lost(lease)
            raise undone()
        if lease.is_released:
            return
        lease.ending = True
        lease.write_deferred()
        try:
            undo, gone = lease.refused and lease.status == "error", list[Operation]()
            if undo:  # the owner's thread stays as it was
                lease.status = lease.head.status
                await lease.thread.settle()
                gone, lease.written = await self._threads.call(lease.thread.undo, lease.run)
            await lease.thread.commit(partial(_without, lease, newest=lease.written if undo else None), gone)
            if lease.status is not None and lease.status != lease.head.status:  # else the list says so after the next
                await _quietly(self._owners.note_end, lease.thread, lease.head.owner, lease.status, lease.question)
        except ConflictError:
            lease.lost = True
            await self.tell_lost(lease)  # before the caller is told: a worker may find the turn then
            lease.require_no_failure()  # it says more: what was refused is not there, but was not undone
            await self._require_kept(lease)
        except StorageError:
            self._not_released[lease.run] = None
            raise
        finally:
            self._end(lease)
            lease.tell_end()
        lease.require_no_failure()

    def _end(self, lease: Lease) -> None:
        """Forget *lease* and its runs, and let the next run begin."""
        lease.over = True
        if self._active.get(lease.thread.partition) is lease:
            del self._active[lease.thread.partition]
        for run, held in [*self._runs.values()]:
            if held is lease:
                self.unassign(run)
        _next_turn(lease)

    def tell_lost_soon(self, lease: Lease) -> None:
        """Do what :meth:`tell_lost` does, without waiting for it; for what asks after the end."""
        self._soon(self.tell_lost, lease)

    async def tell_lost(self, lease: Lease) -> None:
        """Call what waits for the end of a lost lease; read first whether the thread keeps anything of the run.

        If that cannot be read, the thread counts as keeping it: what was acknowledged is not lost.
        """
        if not (calls := lease.take_calls()):
            return
        try:
            operations, _ = await self._threads.call(lease.thread.undo, lease.run)
            keeps = bool(operations)
        except StorageError:
            keeps = True
        for kept, gone in calls:
            if keeps:
                kept()
            else:
                await _quietly(gone)

    def release_soon(self, lease: Lease) -> None:
        """Give *lease* back some time soon, from any thread; for a run that was dropped without an end."""
        if not lease.is_released:
            self.loop.soon(lambda: self._soon(self.release, lease))

    async def close(self) -> None:
        """Give back every lease, and let the commits in progress end; the second call does nothing."""
        self.closed = True
        if self._renewing is not None:
            self._renewing.cancel()
        await asyncio.gather(*(_quietly(self.release, lease) for lease in [*self._active.values()]))
        await self._threads.settle()

    async def _await_turn(self, lease: Lease, strategy: Strategy, deadline: float) -> None:
        """Wait until no other run of this process uses the thread."""
        partition = lease.thread.partition
        turn = self._turns.get(partition)
        if turn is None:
            turn = self._turns[partition] = asyncio.Lock()
        if turn.locked():
            active = self._active.get(partition)
            if strategy == "reject" and (active is None or not active.ending):
                raise busy()
            if lease.owner is not None:  # what was said before an erasure is not kept after it
                lease.epoch = await self._owners.epoch(lease.owner)
        if turn.locked():
            await self._await_lock(turn, lease, deadline)
        else:
            await turn.acquire()
        lease.turn = turn

    async def _await_lock(self, turn: asyncio.Lock, lease: Lease, deadline: float) -> None:
        """Wait for the lock in the order of arrival, and look now and then whether the run is cancelled."""
        acquiring = asyncio.ensure_future(turn.acquire())
        try:
            async with asyncio.timeout_at(deadline):
                while not (await asyncio.wait({acquiring}, timeout=LONGEST_PAUSE_SECONDS))[0]:
                    with suppress(StorageError):  # the run waits for the one before it, not for the storage
                        if await lease.thread.is_cancelled(lease.run):
                            raise cancelled()  # noqa: TRY301 - it leaves the queue
        except BaseException as error:
            if not acquiring.cancel():
                turn.release()
            self._confirm_if_cancelled(lease, error)
            if isinstance(error, TimeoutError):
                raise busy() from None
            raise

    async def _commit(self, lease: Lease, seen: Head, strategy: Strategy) -> bool:
        """Write the lease into the head if it is still as *seen*; return whether it was."""
        thread, now = lease.thread, self._threads.clock.now()
        operations: list[Operation] = []
        newest, writer = seen.newest, seen.writer
        if strategy == "rollback" and seen.lease is not None and thread.is_leased(seen):
            operations, newest = await self._threads.call(thread.undo, seen.lease.run)
            writer = "" if newest != seen.newest else writer
        taken = replace(
            seen,
            owner=seen.owner or (lease.owner.label if lease.owner is not None else ""),
            newest=newest,
            writer=writer,
            next_run="" if strategy == "enqueue" else seen.next_run,
            lease=HeadLease(lease.run, now + self.terms.lease, self.terms.lease.total_seconds(), newest),
        )

        def take(head: Head) -> Head:
            if head != seen:
                msg = "The thread has changed since the lease was decided on."
                raise _ChangedError(msg)
            return taken

        try:
            await thread.commit(take, operations)
        except _ChangedError:
            return False
        lease.head = taken
        return True

    async def _require_kept(self, lease: Lease) -> None:
        """Check that the last checkpoint of a run that lost its lease is still there.

        Raises:
            ThreadMovedOnError: It was undone, or the thread was deleted.
        """
        if not lease.written:
            return
        ref = Ref(lease.thread.partition, CheckpointPlace("", lease.written).path, CHECKPOINT)
        (item,) = await self._threads.call(self._threads.get_items, [ref])
        if item is None:
            lease.undone = True  # whichever release is first, the run is told
            raise undone()

    async def _renew(self) -> None:
        """Renew the leases of runs that write nothing, until there is none."""
        while self._active:
            await asyncio.sleep(self.terms.lease.total_seconds() / 3)
            active = [lease for lease in self._active.values() if not (lease.over or lease.ending)]
            await asyncio.gather(*map(self._renew_one, active))

    async def _renew_one(self, lease: Lease) -> None:
        now = self._threads.clock.now
        try:
            await lease.thread.commit(lambda head: replace(head, lease=head.require_lease(lease.run).renewed(now())))
        except ConflictError:
            await _quietly(self._require_kept, lease)  # the run gets the error at its end
            lease.over = True
            self._active.pop(lease.thread.partition, None)
            _next_turn(lease)
        except StorageError:  # the next time, or it expires
            return


class _ChangedError(ConflictError):
    """The head is not the one that the lease was decided on; decide again."""


async def _quietly(work: Callable[P, Awaitable[None]], *args: P.args, **kwargs: P.kwargs) -> None:
    """Call *work*; if it fails, other runs see what they wait for a moment later, and leases expire."""
    with suppress(ConflictError, StorageError):
        await work(*args, **kwargs)


def _without(lease: Lease, head: Head, *, newest: str | None = None) -> Head:
    head.require_lease(lease.run)
    if newest is not None:
        head = replace(head, newest=newest, writer=lease.head.writer if newest == lease.head.newest else "")
    return replace(head, lease=None, status=lease.status or head.status)


def _next_turn(lease: Lease) -> None:
    turn, lease.turn = lease.turn, None
    if turn is not None and turn.locked():
        turn.release()
