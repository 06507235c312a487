"""The queue of turn records: leases them to workers, keeps aside what failed too often, and says how workers are woken.

A worker takes records by a commit that names it and makes them due again when its lease ends. So a record
that is not finished becomes due again, whatever became of the worker. The commit is the one that records a turn where
a worker of the same process learns from it soon. An engine only wakes workers: a lost wake-up delays, a repeated one
changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Protocol

from threadkeep.arguments import checked_list
from threadkeep.capture.models import QueuedTurn
from threadkeep.capture.turns import DUE, DUE_PARKED, TURNS, TurnRecord, put_of, record_of, turns_namespace
from threadkeep.concurrency import retry_conflicts
from threadkeep.errors import PartitionErasedError, RevisionConflictError
from threadkeep.identity import Owner, Service, operation, owner_of_label
from threadkeep.ids import ThreadId, TurnId, short_digest
from threadkeep.storage.interface import Batch, Item, Put, Ref, Storage, iterate_items

if TYPE_CHECKING:
    from threadkeep.clock import Clock
    from threadkeep.observability import Telemetry


@dataclass(frozen=True, slots=True)
class DueTurns:
    """What a worker found to do.

    Attributes:
        keys: Threads with turns that are due, the longest waiting first.
        next_at: When there may be more, as far as is known.
    """

    keys: tuple[str, ...]
    next_at: datetime | None


class Work(Protocol):
    """What an engine calls, on the loop that it was started on; safe to call from many tasks at once."""

    async def find(self, *, woken: bool = False) -> DueTurns:
        """Look for what waits.

        Args:
            woken: Whether this is only because of a wake-up, or because a thread was learnt from: then the storage is
                not asked if this process knows which turns wait.

        Raises:
            StorageError: The storage does not answer; try again later.
        """
        ...

    async def learn(self, key: str | None = None) -> bool:
        """Take the turns of the thread with this key, by a lease, and learn from them to the end.

        Where that thread is not among those that wait longest, or none is named, it takes the one that does.
        Cancelled, it gives back what it has not finished.

        Returns:
            Whether there was anything to do.

        Raises:
            StorageError: The storage does not answer; what was taken is anybody's when its lease ends.
        """
        ...


class Engine(Protocol):
    """Wakes workers for recorded turns."""

    name: str
    """``embedded``, ``procrastinate``, …"""

    workers: int
    """How many threads this process learns from at once; 0: it leaves that to others."""

    @property
    def learns_here(self) -> bool:
        """Whether turns that this process records are learnt from by this process, and soon."""
        ...

    async def start(self, work: Work) -> None:
        """Begin to serve; the second call does nothing. It does not fail because something is away."""
        ...

    def wake(self, key: str, *, at: datetime | None = None) -> None:
        """Say that turns of the thread with this key wait, from *at* on. It neither blocks nor raises."""
        ...

    async def stop(self) -> None:
        """Take nothing more, and cancel what is being learnt from: cancelled work gives back what it had."""
        ...


WORKER_DIED: Final = "The worker that had it did not come back."
MAX_TAKEN: Final = 8
"""How many turns are taken by one commit; each is written anew while the lease goes on."""
MAX_LISTED: Final = 10_000

GIVEN_BACK: Final = timedelta(seconds=1)
"""How long a turn waits that its worker could not finish, as the storage was away or other writers were in the way."""

_LIMIT: Final = 200
_FAR: Final = timedelta(days=36_500)


@dataclass(eq=False, slots=True)
class TurnClaim:
    """Turn records that a worker has taken.

    Attributes:
        key: Of the thread; see :func:`threadkeep.capture.queue.key_of`.
        owner: The owner.
        refs: Those that it still has to finish, in order.
        until: When the lease ends that they were recorded with; ``None``: it has just begun.
        epoch: The owner's epoch when they were recorded; ``None``: it has to be read.
    """

    key: str
    owner: Owner
    refs: list[Ref] = field(default_factory=list[Ref])
    until: datetime | None = None
    epoch: str | None = None

    def drop(self, ref: Ref) -> None:
        """Note that *ref* is finished, or taken by another worker."""
        if ref in self.refs:
            self.refs.remove(ref)


class Outbox:
    """The turn records that wait, of all owners.

    Args:
        storage: Where they are.
        clock: What the time is; leases of several machines are told by each one's own.
        telemetry: Counts what was taken over and kept aside.
        terms: See :class:`~threadkeep.capture.queue.QueueTerms`.
        worker: Names this worker; different for every process.
    """

    def __init__(self, storage: Storage, clock: Clock, telemetry: Telemetry, *, terms: QueueTerms, worker: str) -> None:
        self._storage = storage
        self._clock = clock
        self._telemetry = telemetry
        self.terms = terms
        self.worker = worker

    @property
    def lease_ends(self) -> datetime:
        """When a lease ends that begins now."""
        return self._clock.now() + self.terms.lease

    async def ready(self, *, running: Iterable[str], hurried: Iterable[str] | None) -> Ready:
        """Return which threads' turns may be taken now; see :func:`threadkeep.capture.queue.ready`."""
        now = self._clock.now()
        soon = now + max(self.terms.lease, self.terms.debounce)
        items = await self._storage.due(DUE, now=soon, limit=_LIMIT)
        return ready(
            items,
            now=now,
            terms=self.terms,
            worker=self.worker,
            running=frozenset(running),
            hurried=None if hurried is None else frozenset(hurried),
        )

    async def take(self, waiting: Waiting) -> TurnClaim | None:
        """Lease turns for this worker; None if another worker was faster with any of them.

        Of what a worker had that died, the first one counts as failed once more: it was at that one. So what kills
        every worker ends aside as well.
        """
        claim = TurnClaim(waiting.key, waiting.owner)
        puts: list[Put] = []
        dead: set[str] = set()
        parked = 0
        for item in waiting.items:
            record = record_of(item)
            if record is None:
                continue
            if record.worker is not None and record.worker not in (self.worker, *dead):
                dead.add(record.worker)
                record = self._failed(record, WORKER_DIED)
            if record.state == "failed":
                parked += 1
                puts.append(put_of(record, waiting.owner, due_at=self._clock.now(), expect=item.revision))
                continue
            record = replace(record, worker=self.worker)
            puts.append(put_of(record, waiting.owner, due_at=self.lease_ends, expect=item.revision))
            claim.refs.append(item.ref)
        try:
            await self._storage.commit(Batch(waiting.owner.partition, puts))
        except (RevisionConflictError, PartitionErasedError):
            return None
        if dead:
            self._telemetry.count("capture.taken_over", len(dead))
        if parked:
            self._telemetry.count("capture.parked", parked)
        return claim

    async def refresh(self, claim: TurnClaim) -> None:
        """Renew the lease of *claim* if a third of it is over."""
        if claim.until is not None and claim.until - self._clock.now() < self.terms.lease * 2 / 3:
            await self.renew(claim)

    async def renew(self, claim: TurnClaim) -> None:
        """Let the lease of *claim* begin anew; what is not this worker's any more is dropped from it."""
        await self._rewrite(claim, lambda record: (record, self.lease_ends))

    async def release(self, claim: TurnClaim, *, delay: timedelta) -> None:
        """Give back what *claim* still has, for anybody to take after *delay*."""
        await self._rewrite(claim, lambda record: (replace(record, worker=None), self._clock.now() + delay))
        claim.refs.clear()

    async def fail(self, ref: Ref, owner: Owner, reason: str) -> datetime | None:
        """Let a turn wait, longer each time; after enough tries it is kept aside, with its text and the reason.

        Returns:
            When it is due again; None if it is dead, or another worker has finished it.
        """

        async def fail() -> datetime | None:
            (item,) = await self._storage.get([ref])
            record = record_of(item) if item else None
            if item is None or record is None or record.state != "pending" or record.worker not in (None, self.worker):
                return None
            failed = replace(self._failed(record, reason), worker=None)
            due_at = self._clock.now() + retry_delay(failed)
            put = put_of(failed, owner, due_at=due_at, expect=item.revision)
            await self._storage.commit(Batch(owner.partition, [put]))
            if failed.state == "failed":
                self._telemetry.count("capture.parked")
                return None
            return due_at

        with suppress(PartitionErasedError, RevisionConflictError):
            return await retry_conflicts(fail)
        return None

    async def listed(self, owner: Owner | None = None) -> list[QueuedTurn]:
        """Return every turn that waits, runs or is kept aside, of *owner* or of all; 10,000 of each at most."""
        now = self._clock.now()
        found = [queued_turn(item, now=now) for item in await self._items((DUE, DUE_PARKED), owner)]
        return sorted((turn for turn in found if turn is not None), key=lambda turn: (turn.recorded_at, turn.turn_id))

    async def retry(self, owner: Owner | None, turn_ids: Sequence[TurnId] | None) -> list[QueuedTurn]:
        """Let turns that are kept aside, or wait after a failure, be tried at once, as if never tried.

        Args:
            owner: The owner; ``None``: all owners.
            turn_ids: Which; ``None``: all that are kept aside.
        """
        retried: list[QueuedTurn] = []
        for item in await self._items((DUE_PARKED,) if turn_ids is None else (DUE, DUE_PARKED), owner):
            now = self._clock.now()
            record, queued, whose = record_of(item), queued_turn(item, now=now), owner_of(item.ref)
            if record is None or queued is None or whose is None or queued.state == "running":
                continue
            if turn_ids is not None and record.turn.turn_id not in turn_ids:
                continue
            again = replace(record, state="pending", tries=0, worker=None)
            try:
                put = put_of(again, whose, due_at=now, expect=item.revision)
                await self._storage.commit(Batch(whose.partition, [put]))
            except (RevisionConflictError, PartitionErasedError):
                continue  # a worker has finished it
            retried.append(queued)
        return retried

    async def counts(self) -> tuple[int, int, int, datetime | None]:
        """Return how many wait, run and are kept aside, and since when the oldest waits; 10,000 of each at most."""
        turns = await self.listed()
        states = [turn.state for turn in turns]
        oldest = min((turn.recorded_at for turn in turns if turn.state != "dead"), default=None)
        return states.count("waiting"), states.count("running"), states.count("dead"), oldest

    async def _items(self, kinds: Sequence[str], owner: Owner | None) -> list[Item]:
        if owner is None:
            far = self._clock.now() + _FAR
            return [item for kind in kinds for item in await self._storage.due(kind, now=far, limit=MAX_LISTED)]
        rows = iterate_items(self._storage, owner.partition, prefix=turns_namespace(owner))
        return [item async for item in rows if item.due is not None and item.due.kind in kinds]

    async def _rewrite(self, claim: TurnClaim, change: Callable[[TurnRecord], tuple[TurnRecord, datetime]]) -> None:
        """Write what *claim* has as *change* says; what is not this worker's any more is dropped from it."""

        async def rewrite() -> None:
            refs = list(claim.refs)
            puts: list[Put] = []
            for ref, item in zip(refs, await self._storage.get(refs) if refs else (), strict=True):
                record = record_of(item) if item else None
                if item is None or record is None or record.state != "pending" or record.worker != self.worker:
                    claim.drop(ref)
                    continue
                changed, due_at = change(record)
                puts.append(put_of(changed, claim.owner, due_at=due_at, expect=item.revision))
            if puts:
                await self._storage.commit(Batch(claim.owner.partition, puts))

        try:
            with suppress(RevisionConflictError):
                await retry_conflicts(rewrite)
        except PartitionErasedError:
            claim.refs.clear()

    def _failed(self, record: TurnRecord, reason: str) -> TurnRecord:
        tries = record.tries + 1
        return replace(record, tries=tries, reason=reason, state="failed" if tries >= self.terms.tries else "pending")


_FIRST_DELAY: Final = timedelta(seconds=2)
_GROWTH: Final = 8
_MOST_GROWTHS: Final = 8
_LONGEST_DELAY: Final = timedelta(hours=1)
_JITTER: Final = 0.25
_MOST_DEBOUNCES: Final = 10
"""A thread that is never quiet is learnt from after so many times the debounce all the same."""


@dataclass(frozen=True, slots=True)
class QueueTerms:
    """How workers share the waiting turns.

    Attributes:
        lease: How long a turn is its worker's, unless it says that it is still at it; afterwards it is anybody's.
        tries: After how many failures a turn is kept aside.
        debounce: How long a thread has to be quiet before it is learnt from.
    """

    lease: timedelta = timedelta(seconds=10)
    tries: int = 5
    debounce: timedelta = timedelta(0)


@dataclass(frozen=True, slots=True)
class Waiting:
    """Turns of one thread that wait, in the order in which they were recorded.

    Attributes:
        key: A digest of owner and thread.
        owner: The owner of the turns.
        items: Their rows.
    """

    key: str
    owner: Owner
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Ready:
    """What there is to do.

    Attributes:
        waiting: What may be taken now, the longest waiting first.
        next_at: When something else may be, as far as is known.
        elsewhere: Whether other workers are at something, or have just given it back.
    """

    waiting: tuple[Waiting, ...] = ()
    next_at: datetime | None = None
    elsewhere: bool = False

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of what may be taken now."""
        return tuple(found.key for found in self.waiting)


@lru_cache(maxsize=4096)
def key_of(owner: Owner, thread_id: ThreadId | None) -> str:
    """Return the key of a thread's waiting turns; it reveals no id."""
    return short_digest("waiting", *owner.parts, *([] if thread_id is None else [thread_id]))


def ready(
    items: Sequence[Item],
    *,
    now: datetime,
    terms: QueueTerms,
    worker: str,
    running: Collection[str] = (),
    hurried: Collection[str] | None = (),
) -> Ready:
    """Tell which threads' turns may be taken.

    A thread of which another worker has a turn, or this one (*running*), is left alone until then. A turn that
    is to be tried again later holds up no other.

    Args:
        items: Turn records that are due by now, or will be soon; rows that cannot be read are passed over.
        now: What the time is.
        terms: See :class:`QueueTerms`.
        worker: Who asks; what it holds itself and is not *running* may be taken again.
        running: Keys that this worker is at.
        hurried: Keys that a caller waits for, so that they are not debounced; ``None``: all.
    """
    threads: dict[str, tuple[Owner, list[tuple[Item, TurnRecord]]]] = {}
    for item in items:
        owner, record = owner_of(item.ref), record_of(item)
        if owner is not None and record is not None and record.state == "pending":
            key = key_of(owner, record.turn.thread_id)
            threads.setdefault(key, (owner, []))[1].append((item, record))
    found: list[tuple[datetime, Waiting]] = []
    moments: list[datetime] = []
    elsewhere = False
    for key, (owner, rows) in threads.items():
        if key in running:
            continue
        held = [_due(item) for item, record in rows if record.worker not in (None, worker) and _due(item) > now]
        if held:
            elsewhere = True
            moments.append(max(held))
            continue
        free = [(item, record) for item, record in rows if _due(item) <= now or record.worker == worker]
        later = [_due(item) for item, record in rows if _due(item) > now and record.worker != worker]
        elsewhere = elsewhere or any(due_at <= now + GIVEN_BACK for due_at in later)
        moments += later
        if not free:
            continue
        debounced = terms.debounce and hurried is not None and key not in hurried
        quiet_at = _debounce_ends([record.turn.at for _, record in rows], terms.debounce)
        if debounced and quiet_at > now:
            moments.append(quiet_at)
            continue
        free.sort(key=lambda row: (row[1].turn.at, row[0].revision))
        found.append((min(_due(item) for item, _ in free), Waiting(key, owner, tuple(item for item, _ in free))))
    found.sort(key=lambda pair: (pair[0], pair[1].key))
    return Ready(tuple(waiting for _, waiting in found), min(moments, default=None), elsewhere)


def retry_delay(record: TurnRecord) -> timedelta:
    """Return how long a turn waits that failed so often: 2 s, 16 s, 2 min, 17 min, then an hour, up to a quarter more.

    The quarter differs from turn to turn, so that what failed together is not tried together.
    """
    delay = min(_FIRST_DELAY * _GROWTH ** min(record.tries - 1, _MOST_GROWTHS), _LONGEST_DELAY)
    spread = int(short_digest("retry", record.turn.turn_id, str(record.tries))[:8], 16) / 0xFFFFFFFF
    return delay * (1 + _JITTER * spread)


def queued_turn(item: Item, *, now: datetime) -> QueuedTurn | None:
    """Return what the queue shows of a turn record; ``None`` where it waits for nothing, or cannot be read."""
    owner, record = owner_of(item.ref), record_of(item)
    if owner is None or record is None or record.state == "done":
        return None
    dead = item.due is not None and item.due.kind == DUE_PARKED
    running = record.worker is not None and _due(item) > now
    return QueuedTurn(
        record.turn.turn_id,
        owner,
        record.turn.thread_id,
        "dead" if dead else "running" if running else "waiting",
        record.tries,
        record.reason,
        record.turn.at,
        None if dead else _due(item),
        record.worker if running else None,
    )


def owner_of(ref: Ref) -> Owner | None:
    """Return the owner of the turn record at *ref*, or None if *ref* is not a turn record's."""
    match ref.namespace:
        case (root, label) if root == TURNS:
            owner = owner_of_label(label)
            return owner if owner is not None and owner.partition == ref.partition else None
        case _:
            return None


def _debounce_ends(recorded: Sequence[datetime], debounce: timedelta) -> datetime:
    return min(max(recorded) + debounce, min(recorded) + _MOST_DEBOUNCES * debounce)


def _due(item: Item) -> datetime:
    return item.due.at if item.due else item.created_at


class QueueService(Service):
    """``tk.queue``: recorded turns that are not learnt from yet."""

    @operation
    async def list(self, owner: str | Owner | None = None) -> list[QueuedTurn]:
        """Return the turns that wait, run or have failed, oldest first: the owner's, or those of all owners.

        A client with a default owner lists that owner's turns only.
        """
        return await self._services.captures.queued(self._optional(owner))

    @operation
    async def retry(
        self, turn_ids: Sequence[str] | None = None, *, owner: str | Owner | None = None
    ) -> list[QueuedTurn]:
        """Try turns again at once, with their count of tries at zero.

        Args:
            turn_ids: The turns; None: all that have failed.
            owner: The owner of the turns; None: the default owner, or all owners if there is none.

        Returns:
            The turns that are tried again, as they were. Turns that a worker has, and turns that do not wait, are left
            out.
        """
        if turn_ids is not None:
            turn_ids = checked_list(turn_ids, "turn_ids", str)
        keys = None if turn_ids is None else [TurnId(turn_id) for turn_id in turn_ids]
        return await self._services.captures.retry(keys, owner=self._optional(owner))

    def _optional(self, owner: str | Owner | None) -> Owner | None:
        return None if owner is None and self._scope.default is None else self._scope.resolve(owner)
