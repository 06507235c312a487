"""The outbox: takes turn records for a worker by leases, and keeps aside what failed too often.

A worker takes records by a commit that names it and makes them due again when its lease ends. So a record
that nobody finishes is found again by itself, whatever became of the worker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from threadkeep.capture.record import QueuedTurn
from threadkeep.capture.turns import DUE, DUE_PARKED, TurnRecord, put_of, record_of, turns_namespace
from threadkeep.capture.waiting import Ready, Terms, Waiting, owner_of, queued_turn, ready, retry_delay
from threadkeep.errors import PartitionErasedError, RevisionConflictError
from threadkeep.ids import TurnId
from threadkeep.memories.ledger import TRIES, give_way
from threadkeep.storage.port import Batch, Item, Put, Ref, Storage
from threadkeep.storage.walking import items_in

if TYPE_CHECKING:
    from threadkeep.clock import Clock
    from threadkeep.owners.owner import Owner
    from threadkeep.telemetry import Telemetry

WORKER_DIED: Final = "The worker that had it did not come back."
MAX_TAKEN: Final = 8
"""How many turns are taken by one commit; each is written anew while the lease goes on."""
MAX_LISTED: Final = 10_000

_LIMIT: Final = 200
_FAR: Final = timedelta(days=36_500)


@dataclass(eq=False, slots=True)
class Claim:
    """Turn records that a worker has taken.

    Attributes:
        key: Of the thread; see :func:`threadkeep.capture.waiting.key_of`.
        owner: Whose.
        refs: Those that it still has to finish, in order.
    """

    key: str
    owner: Owner
    refs: list[Ref] = field(default_factory=list[Ref])

    def drop(self, ref: Ref) -> None:
        """Note that *ref* is finished, or somebody else's."""
        if ref in self.refs:
            self.refs.remove(ref)


class Outbox:
    """The turn records that wait, of all owners.

    Args:
        storage: Where they are.
        clock: What the time is; leases of several machines are told by each one's own.
        telemetry: Counts what was taken over and kept aside.
        terms: See :class:`~threadkeep.capture.waiting.Terms`.
        worker: Names this worker; different for every process.
    """

    def __init__(self, storage: Storage, clock: Clock, telemetry: Telemetry, *, terms: Terms, worker: str) -> None:
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
        """Return which threads' turns may be taken now; see :func:`threadkeep.capture.waiting.ready`."""
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

    async def take(self, waiting: Waiting) -> Claim | None:
        """Take turns for this worker; ``None`` where somebody else was faster, with any of them.

        Of what a worker had that died, the first one counts as failed once more: it was at that one. So what kills
        every worker ends aside as well.
        """
        claim = Claim(waiting.key, waiting.owner)
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

    async def renew(self, claim: Claim) -> None:
        """Let the lease of *claim* begin anew; what is not this worker's any more is dropped from it."""
        await self._rewrite(claim, lambda record: (record, self.lease_ends))

    async def release(self, claim: Claim, *, delay: timedelta) -> None:
        """Give back what *claim* still has, for anybody to take after *delay*."""
        await self._rewrite(claim, lambda record: (replace(record, worker=None), self._clock.now() + delay))
        claim.refs.clear()

    async def fail(self, ref: Ref, owner: Owner, reason: str) -> datetime | None:
        """Let a turn wait, longer each time; after enough tries it is kept aside, with its text and the reason.

        Returns:
            When it is due again; ``None`` where it is kept aside, or somebody else has dealt with it.
        """
        for attempt in range(TRIES):
            (item,) = await self._storage.get([ref])
            record = record_of(item) if item else None
            if item is None or record is None or record.state != "pending" or record.worker not in (None, self.worker):
                return None
            failed = replace(self._failed(record, reason), worker=None)
            due_at = self._clock.now() + retry_delay(failed)
            try:
                await self._storage.commit(
                    Batch(owner.partition, [put_of(failed, owner, due_at=due_at, expect=item.revision)])
                )
            except RevisionConflictError:  # the lease went on at that moment, or somebody has dealt with it
                await give_way(attempt)
                continue
            except PartitionErasedError:
                return None
            if failed.state == "failed":
                self._telemetry.count("capture.parked")
                return None
            return due_at
        return None

    async def listed(self, owner: Owner | None = None) -> list[QueuedTurn]:
        """Return every turn that waits, runs or is kept aside, of *owner* or of all; 10,000 of each at most."""
        now = self._clock.now()
        found = [queued_turn(item, now=now) for item in await self._items((DUE, DUE_PARKED), owner)]
        return sorted((turn for turn in found if turn is not None), key=lambda turn: (turn.recorded_at, turn.turn_id))

    async def retry(self, owner: Owner | None, turn_ids: Sequence[TurnId] | None) -> list[QueuedTurn]:
        """Let turns that are kept aside, or wait after a failure, be tried at once, as if never tried.

        Args:
            owner: Whose; ``None``: anybody's.
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
                continue  # somebody has dealt with it
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
        rows = items_in(self._storage, owner.partition, prefix=turns_namespace(owner))
        return [item async for item in rows if item.due is not None and item.due.kind in kinds]

    async def _rewrite(self, claim: Claim, change: Callable[[TurnRecord], tuple[TurnRecord, datetime]]) -> None:
        """Write what *claim* has as *change* says; what is not this worker's any more is dropped from it."""
        for attempt in range(TRIES):
            refs = list(claim.refs)
            puts: list[Put] = []
            for ref, item in zip(refs, await self._storage.get(refs) if refs else (), strict=True):
                record = record_of(item) if item else None
                if item is None or record is None or record.state != "pending" or record.worker != self.worker:
                    claim.drop(ref)
                    continue
                changed, due_at = change(record)
                puts.append(put_of(changed, claim.owner, due_at=due_at, expect=item.revision))
            if not puts:
                return
            try:
                await self._storage.commit(Batch(claim.owner.partition, puts))
            except RevisionConflictError:  # one was finished meanwhile
                await give_way(attempt)
                continue
            except PartitionErasedError:
                claim.refs.clear()
            return

    def _failed(self, record: TurnRecord, reason: str) -> TurnRecord:
        tries = record.tries + 1
        return replace(record, tries=tries, reason=reason, state="failed" if tries >= self.terms.tries else "pending")
