"""Captures: commits turns as they end, and learns from them in the background."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from threadkeep.capture.models import ImportedTurns, QueuedTurn, Receipt
from threadkeep.capture.queue import MAX_TAKEN, TurnClaim, key_of
from threadkeep.capture.turn_history import (
    NewestTurn,
    OnRecord,
    TurnLookup,
    imported_moments,
    off_loop_if,
    played_turns,
    turn_puts,
)
from threadkeep.capture.turns import (
    MAX_UNKNOWN,
    TURN_SPACING,
    TURNS,
    SpokenTurn,
    TurnRecall,
    TurnRecord,
    done,
    put_of,
    record_of,
    turns_namespace,
)
from threadkeep.concurrency import Priority, current_priority, retry_conflicts
from threadkeep.errors import PartitionErasedError, RevisionConflictError
from threadkeep.ids import MessageId, ThreadId, TurnId
from threadkeep.memories.codec import MEMORIES
from threadkeep.models.base import EMBEDDER, Message
from threadkeep.search.missing_vectors import lacks_vectors
from threadkeep.storage.interface import Batch, Partition, Put, Ref, Storage
from threadkeep.text.redaction import redact

if TYPE_CHECKING:
    from threadkeep.capture.extractors import Extractor
    from threadkeep.capture.learning import Learning
    from threadkeep.capture.worker import Queue
    from threadkeep.checkpoints.directory import TurnNote
    from threadkeep.clock import Clock
    from threadkeep.identity import Owner
    from threadkeep.observability import Telemetry

_INLINE_CHARACTERS: Final = 16_384
"""More text than this is made a record of off the loop (a megabyte takes up to half a second)."""

_CHUNK: Final = 200
"""How many turns are written in one commit; an outage may have left more."""
POLL: Final = timedelta(seconds=5)
"""How often to look for work that another process left."""

_HAS_MEMORY: Final[Callable[[SpokenTurn], bool]] = attrgetter("memory")

_NEVER_WRITTEN: Final = Partition("root", (TURNS,))
_SETTLE_POLL_SECONDS: Final = 0.25
"""When a caller that waits looks at the records first; another process may learn from them."""

_SETTLE_MAX_POLL_SECONDS: Final = 1.0
"""How often a settling caller looks for what another process finished."""


class _Lease(NamedTuple):
    """The lease of this worker on turns that it records.

    Attributes:
        until: When it ends; ``None``: the turns are any worker's, at once.
        most: More turns than this are any worker's, too; ``None``: no number is.
    """

    until: datetime | None
    most: int | None


@dataclass(frozen=True, slots=True)
class CaptureStats:
    """What capture has done and has to do.

    Attributes:
        pending: Turns that wait, of all owners and processes, those that run included; at most 10,000 are counted.
        failed: Turns that were tried often enough and are kept aside, of all; at most 10,000 are counted.
        processed: Turns that this process learnt from since it started.
        running: Turns that a worker has.
        oldest_at: Since when the oldest of those that wait does; ``None`` where none does.
    """

    pending: int
    failed: int
    processed: int
    running: int = 0
    oldest_at: datetime | None = None


class CaptureService:
    """The turns of all owners; every method runs on one event loop.

    Args:
        storage: Where turns and memories are kept.
        learning: Learns from one turn.
        queue: Where turns wait for it.
        clock: What the time is.
        telemetry: Counts what was recorded.
        redact: Cuts out what is not to be kept: secrets at least.
        opted_in_again: Returns since when an owner, who had opted out at all or in a thread, is in again.

    Attributes:
        on_record: Looks up what is on record of threads.
    """

    def __init__(
        self,
        storage: Storage,
        learning: Learning,
        queue: Queue,
        clock: Clock,
        telemetry: Telemetry,
        *,
        redact: Callable[[str], str] = redact,
        opted_in_again: Callable[[Owner, str | None], datetime | None] = lambda _owner, _thread_id: None,
    ) -> None:
        self._opted_in_again = opted_in_again
        self.on_record = OnRecord(storage)
        self._storage = storage
        self._learning = learning
        self._queue = queue
        self._clock = clock
        self._telemetry = telemetry
        self._redact = redact
        self._last_at: datetime | None = None

    async def record(  # noqa: PLR0913 - the one way by which turns are recorded
        self,
        messages: Sequence[Message],
        *,
        owner: Owner,
        thread_id: ThreadId | None,
        recalled: Sequence[str] = (),
        given: TurnRecall | None = None,
        epoch: str | None = None,
        mine: bool = False,
        later: Callable[[Callable[[], object], Sequence[TurnId]], object] | None = None,
        note: TurnNote | None = None,
        without_memory: bool = False,
        imported: ImportedTurns | None = None,
        answers: Sequence[Message] = (),
        overdue: Sequence[Message] = (),
    ) -> Receipt:
        """Commit the turns of *messages* that are not on record, redacted, and wake the worker.

        When this returns, the turns are durable; they are learnt from in the background. A turn of
        which the user says that it shall not be remembered is only marked as seen.

        Args:
            messages: The thread so far, the reply included; or its last turns.
            owner: The user who wrote the user's messages.
            thread_id: The thread, if there is one.
            recalled: Texts that recall had put in before the newest turn.
            given: What recall gave to the newest turn; its record keeps it.
            epoch: The owner's epoch when the newest turn began; ``None``: now. Where the owner was erased
                since, nothing of *messages* is learnt, now or later.
            mine: Whether the caller learns from them at once: they are born with this worker's lease.
            later: Gets the function that wakes the worker, to call it later in this event loop; and for
                :meth:`withdraw` the id of the newest turn, if that is learnt from. ``None``: the worker is woken at
                once. Until the call, this process learns from no turn of the thread. Where nothing refers to the
                function any more, the worker finds the turns at its next poll.
            note: What the list of threads says of the turn, in the same partition of the same storage: it is committed
                with the record. Where nothing is to be recorded, it is not written.
            without_memory: Whether the newest turn is without memory: it is only marked as seen.
            imported: When the turns took place, and whether they are asked about; ``None``: they take place now.
            answers: What the user answered to questions of the newest turn's run, which no message says.
            overdue: The same of the turn before, which ended without a reply; it is learnt with the newest turn.

        Returns:
            ``queued`` with the new turns; ``duplicate`` with the newest one, which is known;
            ``nothing`` where no message is a user's, or all of it was said before the owner was erased.

        Raises:
            StorageError: Nothing was recorded; the next turn's recording brings it along.
        """
        turns = self.on_record.newest_turns(messages, thread_id=thread_id)
        if not turns:
            return Receipt("nothing")
        began = time.monotonic()
        if current_priority.get() is not Priority.LEARNING:  # no turn waits for it any more
            current_priority.set(Priority.RECORD)
        until = self._queue.outbox.lease_ends if mine or self._queue.may_lease() else None
        begun = epoch or (await self._storage.position(owner.partition)).epoch
        current = begun
        with self._queue.hold(owner, thread_id) as hold:  # else a worker may find the turns once they are committed
            while True:
                try:
                    turn_ids = await retry_conflicts(
                        partial(
                            self._commit_turns,
                            turns,
                            messages,
                            owner=owner,
                            thread_id=thread_id,
                            newest=NewestTurn(recalled, given, imported, without_memory, answers, overdue),
                            begun=begun,
                            epoch=current,
                            lease=_Lease(until, None if mine else MAX_TAKEN),
                            note=note,
                        )
                    )
                    break
                except PartitionErasedError:  # digests are kept of what was said before if the thread has gone on since
                    current = (await self._storage.position(owner.partition)).epoch
                except RevisionConflictError:  # another process keeps recording the same turns
                    turn_ids = None
                    break
            if turn_ids is None:
                return await self._duplicate(turns[-1], owner)
            if not turn_ids:
                return Receipt("nothing")
            self._telemetry.count("capture.turns", len(turn_ids))
            self._telemetry.measure("record.seconds", time.monotonic() - began)
            if not mine:
                wake = partial(self._queue.wake, owner, thread_id)
                if until is not None and len(turn_ids) <= MAX_TAKEN:
                    hold.claim = replace(self._claim(turn_ids, owner, hold.key), until=until, epoch=current)
                    wake = partial(self._queue.add, hold.claim)
                hold.goes_on = True
                newest = tuple({turns[-1].turn_id}.intersection(turn_ids))
                (later or _wake_now)(partial(self._queue.release, hold, wake), newest)
        return Receipt("queued", turn_ids)

    @staticmethod
    def _claim(turn_ids: Sequence[TurnId], owner: Owner, thread_key: str) -> TurnClaim:
        namespace = turns_namespace(owner)
        return TurnClaim(thread_key, owner, [Ref(owner.partition, namespace, turn_id) for turn_id in turn_ids])

    async def _commit_turns(
        self,
        turns: tuple[SpokenTurn, ...],
        messages: Sequence[Message],
        *,
        owner: Owner,
        thread_id: ThreadId | None,
        newest: NewestTurn,
        begun: str,
        epoch: str,
        lease: _Lease,
        note: TurnNote | None,
    ) -> tuple[TurnId, ...] | None:
        """Commit the turns that are missing; return the ids of those to learn from, or None if none are new.

        Args:
            turns: The newest ones of *messages*.
            messages: The thread's messages.
            owner: The owner of the thread.
            thread_id: The thread.
            newest: What is known of the newest turn besides its messages.
            begun: The owner's epoch when the turn began; nothing that was said in another one is learnt.
            epoch: The owner's epoch now.
            lease: The lease of this worker on the turns.
            note: What is committed with the newest turn.

        Raises:
            RevisionConflictError: Another process recorded the same turn at the same time.
            PartitionErasedError: The owner was erased since *epoch*.
        """
        found = await self.on_record.find(
            turns, messages, owner=owner, thread_id=thread_id, beside=note.ref if note else None
        )
        if not found.missing:
            return None
        if begun != epoch and found.unknown:
            return ()  # nothing shows that there was such an owner, and what is older than the next turn is not learnt
        branch, imported = await self.on_record.branch(found, owner=owner, thread_id=thread_id), newest.imported
        missing = found.missing[-MAX_UNKNOWN:] if found.unknown else found.missing
        wanted = () if begun != epoch else await self._wanted(found, missing, newest, epoch=epoch)
        if len(wanted) > 1 and imported is None and await self._may_be_unwanted(found, owner, thread_id):
            wanted = wanted[-1:]
        off: set[TurnId] = {turns[-1].turn_id} if newest.without_memory else set()
        if found.without_memory or not all(map(_HAS_MEMORY, missing)):  # a turn is recorded again when it has its reply
            off.update([turn.turn_id for turn in missing if not turn.memory or found.is_without_memory(turn)])
        if off:
            wanted = [turn for turn in wanted if turn.turn_id not in off]
        until = None if lease.most is not None and len(wanted) > lease.most else lease.until
        now = self._clock.now()
        moments = imported_moments(missing, imported) if imported else self._moments(len(missing), now=now)
        said = (*[part for turn in missing for part in turn.messages], *newest.answers, *newest.overdue)
        texts = [one.text for one in said]
        much = sum(map(len, texts)) > _INLINE_CHARACTERS
        played = await off_loop_if(much, played_turns, messages, missing)
        for start in range(0, len(missing), _CHUNK):  # the oldest first: what is missing then is found again
            chunk = slice(start, start + _CHUNK)
            last = chunk.stop >= len(missing)
            puts = await off_loop_if(
                much,
                turn_puts,
                missing[chunk],
                moments[chunk],
                uses={turn.turn_id: turn.turn_id in played for turn in wanted} | dict.fromkeys(off),
                found=replace(found, branch=branch),
                owner=owner,
                thread_id=thread_id,
                newest=newest if last else NewestTurn(imported=imported),
                due_at=until or now,
                worker=self._queue.outbox.worker if until is not None else None,
                redact=self._redact,
            )
            noted = note.puts(found.beside) if note and last else []
            await self._storage.commit(Batch(owner.partition, [*puts, *noted], epoch))
        if note:
            note.written = True
        if wanted:
            return tuple([turn.turn_id for turn in wanted])
        return () if begun != epoch else None

    async def learn_with(
        self,
        extractor: Extractor,
        messages: Sequence[Message],
        *,
        owner: Owner,
        thread_id: ThreadId | None,
    ) -> Receipt:
        """Record the turns of *messages*, and learn from those that are new by *extractor*, at once.

        Where that fails, they wait and are learnt from as any other turn.

        Raises:
            StorageError: Nothing was recorded.
        """
        receipt = await self.record(messages, owner=owner, thread_id=thread_id, mine=True)
        if receipt.status != "queued":
            return receipt
        learn = partial(self._learning.learn, extractor=extractor)
        await self._queue.work(self._claim(receipt.turn_ids, owner, key_of(owner, thread_id)), learn)
        records = await self.on_record.records(receipt.turn_ids, owner=owner)
        waits = next(iter(_waiting(records)), None)
        if waits:
            return replace(receipt, reason=waits.reason)
        return await self._checked(_settled(receipt, records), owner)

    async def learn_imported(
        self,
        messages: Sequence[Message],
        *,
        at: Mapping[MessageId, datetime],
        ask: bool,
        owner: Owner,
        thread_id: ThreadId,
    ) -> Receipt:
        """Record turns of an earlier conversation, and learn from those that are new, at once.

        Where that fails, they wait and are learnt from as any other turn.

        Args:
            messages: The conversation.
            at: When the user's messages with these ids were written; they are learnt from as of then.
            ask: Whether every statement is proposed; then episodes are not kept.
            owner: The user who wrote the user's messages.
            thread_id: The thread that stands for the conversation.

        Raises:
            StorageError: Nothing was recorded.
        """
        imported = ImportedTurns(at, ask)
        receipt = await self.record(messages, owner=owner, thread_id=thread_id, mine=True, imported=imported)
        if receipt.status == "queued":
            await self._queue.work(self._claim(receipt.turn_ids, owner, key_of(owner, thread_id)), self._learning.learn)
        return receipt

    async def settle(self, receipt: Receipt, *, owner: Owner, timeout: timedelta) -> Receipt:
        """Wait until the turns of *receipt* are processed, by this process or another.

        Returns:
            ``done`` (or ``duplicate``, as before) with what they taught; ``failed`` where one was
            parked; or *receipt* with ``timeout`` in ``degraded``.
        """
        if receipt.status not in ("queued", "duplicate") or not receipt.turn_ids:
            return receipt
        deadline = asyncio.get_running_loop().time() + timeout.total_seconds()
        poll, read_at = _SETTLE_POLL_SECONDS, None
        records = await self.on_record.records(receipt.turn_ids, owner=owner)
        waiting = _waiting(records)
        with self._queue.watch(owner, {record.turn.thread_id for record in waiting}) as progress:
            while waiting:
                left = deadline - asyncio.get_running_loop().time()
                if left <= 0:
                    reason = next((record.reason for record in waiting if record.reason), None)
                    degraded = (*receipt.degraded, "timeout")
                    return Receipt(receipt.status, receipt.turn_ids, degraded=degraded, reason=reason)
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(left, poll)):
                        await progress.wait()
                poll = min(2 * poll, _SETTLE_MAX_POLL_SECONDS)
                position = None if progress.is_set() else await self._storage.position(owner.partition)
                progress.clear()
                if position is None or position != read_at:
                    read_at = position
                    records = await self.on_record.records(receipt.turn_ids, owner=owner)
                    waiting = _waiting(records)
        return await self._checked(_settled(receipt, records), owner)

    async def _checked(self, receipt: Receipt, owner: Owner) -> Receipt:
        """Return *receipt*, with ``embedder`` in ``degraded`` while one of its memories waits for its vectors."""
        refs = [Ref(owner.partition, (MEMORIES, owner.label), key) for key in receipt.memory_ids]
        items = await self._storage.get(refs) if refs else ()
        lacking = any(item is not None and lacks_vectors(item) for item in items)
        return replace(receipt, degraded=(*receipt.degraded, EMBEDDER)) if lacking else receipt

    async def forgetting(self, owner: Owner, turn_ids: Sequence[TurnId]) -> Sequence[Put]:
        """Return the puts that empty the records of these turns of their texts; for one commit with the rest.

        A turn that is emptied stays known, so it is not recorded again; nothing is learnt from it any more.
        """
        puts: list[Put] = []
        for item in await self._storage.get([Ref(owner.partition, turns_namespace(owner), key) for key in turn_ids]):
            record = record_of(item) if item else None
            if item and record and record.state != "done":
                puts.append(put_of(done(record, ()), owner, due_at=None, expect=item.revision))
        return puts

    async def withdraw(self, owner: Owner, turn_ids: Sequence[TurnId]) -> None:
        """Empty the records of turns of which their thread keeps nothing; what was learnt from one already stays."""

        async def empty() -> None:
            if puts := await self.forgetting(owner, turn_ids):
                await self._storage.commit(Batch(owner.partition, puts))

        await retry_conflicts(empty)

    async def drop(self, owner: Owner, *, thread_id: str | None) -> None:
        """Empty what waits to be learnt from, of one thread or of all, of its texts."""

        async def empty() -> None:
            waiting = [turn.turn_id for turn in await self.queued(owner) if thread_id in (None, turn.thread_id)]
            for start in range(0, len(waiting), _CHUNK):
                if puts := await self.forgetting(owner, waiting[start : start + _CHUNK]):
                    await self._storage.commit(Batch(owner.partition, puts))

        await retry_conflicts(empty)

    async def start(self) -> None:
        """Start the worker: what was left by an earlier process is done first. The second call does nothing."""
        await self._queue.start()

    async def drain(self, timeout: timedelta, *, others: bool = False) -> bool:
        """Learn from what may be taken, at most for *timeout*; return whether nothing is left.

        Args:
            timeout: How long.
            others: Wait for what other workers are at, too, or take it over when their leases end.
        """
        return await self._queue.drain(timeout, others=others)

    async def learn_all(self) -> None:
        """Learn from what may be taken, until nothing is left.

        Raises:
            StorageError: The storage did not answer.
        """
        await self._queue.learn_all()

    async def stop(self) -> None:
        """Stop the worker; what it was at is given back, for others to take at once. The second call does nothing."""
        await self._queue.stop()

    @property
    def works(self) -> bool:
        """Whether this process learns from turns by itself."""
        return self._queue.engine.workers > 0

    async def queued(self, owner: Owner | None = None) -> list[QueuedTurn]:
        """Return the turns that wait, run or are kept aside, of *owner* or of all; 10,000 of each at most."""
        return await self._queue.outbox.listed(owner)

    async def retry(self, turn_ids: Sequence[TurnId] | None = None, *, owner: Owner | None = None) -> list[QueuedTurn]:
        """Let turns be tried at once, as if they had never been: these, or all that are kept aside."""
        return await self._queue.retry(owner, turn_ids)

    async def stats(self) -> CaptureStats:
        """Return how much waits, failed and was done."""
        waiting, running, dead, oldest = await self._queue.outbox.counts()
        return CaptureStats(waiting + running, dead, self._queue.processed, running, oldest)

    async def _wanted(
        self, found: TurnLookup, missing: Sequence[SpokenTurn], newest: NewestTurn, *, epoch: str
    ) -> Sequence[SpokenTurn]:
        """Return which of *missing* are to be learnt from: imported ones even if nothing of the thread is known."""
        if len(missing) > 1 and newest.imported is None and found.unknown and await self._was_erased(epoch):
            missing = missing[-1:]  # nothing of this thread is known: what is older was said before
        # Where only the reply is new, what the user said was learnt from, and perhaps forgotten since.
        answered = missing[-1] if newest.answers else None
        return [turn for turn in missing if turn.said not in found.known or turn is answered]

    async def _may_be_unwanted(self, found: TurnLookup, owner: Owner, thread_id: ThreadId | None) -> bool:
        """Whether turns before the newest one may have been said while the owner had opted out.

        Not so if a turn of the thread was recorded since the owner is in again: then they came after that.
        """
        since = self._opted_in_again(owner, thread_id)
        if since is None:
            return False
        if found.unknown or found.newest is None:
            return True
        (record,) = await self.on_record.records([found.newest], owner=owner)
        return record is None or record.turn.at < since

    async def _was_erased(self, epoch: str) -> bool:
        """Whether a partition in this epoch was ever erased: until then it has the one that all begin with."""
        return epoch != (await self._storage.position(_NEVER_WRITTEN)).epoch

    def _moments(self, count: int, *, now: datetime) -> list[datetime]:
        """Return the times of *count* turns, oldest first, later than all before, however fast they come."""
        first = now if self._last_at is None else max(now, self._last_at + TURN_SPACING)
        moments = [first + place * TURN_SPACING for place in range(count)]
        self._last_at = moments[-1]
        return moments

    async def _duplicate(self, newest: SpokenTurn, owner: Owner) -> Receipt:
        (record,) = await self.on_record.records([newest.turn_id], owner=owner)
        if record is None:
            return Receipt("duplicate", (newest.turn_id,))
        return _settled(Receipt("duplicate", (newest.turn_id,)), [record])


def _wake_now(wake: Callable[[], object], _: Sequence[TurnId]) -> None:
    wake()


def _waiting(records: Sequence[TurnRecord | None]) -> list[TurnRecord]:
    return [record for record in records if record is not None and record.state == "pending"]


def _settled(receipt: Receipt, records: Sequence[TurnRecord | None]) -> Receipt:
    known = list(filter(None, records))
    failed = next((record for record in known if record.state == "failed"), None)
    return Receipt(
        "failed" if failed else "duplicate" if receipt.status == "duplicate" else "done",
        receipt.turn_ids,
        tuple(dict.fromkeys([key for record in known for key in record.memory_ids])),
        receipt.degraded,
        tuple(dict.fromkeys([key for record in known for key in record.proposal_ids])),
        failed.reason if failed else None,
        tuple([record.usage for record in known if record.usage]),
        tuple(dict.fromkeys([reason for record in known for reason in record.rejected])),
        tuple([one for record in known for one in record.not_kept]),
        tuple(dict.fromkeys([key for record in known for key in record.lifted])),
    )
