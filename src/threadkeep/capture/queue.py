"""The worker: takes turn records from the outbox, one owner after the other, in the order of recording."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from threadkeep.capture.turns import DUE, DUE_PARKED, TURNS, TurnRecord, put_of, record_of
from threadkeep.errors import ClosedError, ConflictError, RevisionConflictError, StorageError, ThreadkeepError
from threadkeep.owners.owner import Owner, owner_of_label
from threadkeep.storage.port import Batch, Item, Ref, Storage

if TYPE_CHECKING:
    from datetime import datetime

    from threadkeep.clock import Clock
    from threadkeep.telemetry import Telemetry

MAX_TRIES: Final = 5
_FIRST_DELAY: Final = timedelta(seconds=2)
_LIMIT: Final = 200
_COUNTED: Final = 10_000
_FIRST_PAUSE_SECONDS: Final = 0.2
_LONGEST_PAUSE_SECONDS: Final = 30.0
_FAR: Final = timedelta(days=36_500)

_AFTER_THE_TURN_SECONDS: Final = 0.05
"""A turn wakes the worker before it is over; learning at once would slow down its end."""

Learn = Callable[[Ref, Owner], Awaitable[bool]]


class Queue:
    """Runs *learn* for every record that is due; nothing that it holds in memory is needed to go on.

    Args:
        storage: Where the records are.
        learn: Learns from one record; returns whether it finished it.
        clock: What the time is.
        telemetry: Counts and logs what was survived.
        poll: How often to look for what another process left.
    """

    def __init__(self, storage: Storage, learn: Learn, clock: Clock, telemetry: Telemetry, *, poll: timedelta) -> None:
        self._storage = storage
        self._learn = learn
        self._clock = clock
        self._telemetry = telemetry
        self._poll_seconds = poll.total_seconds()
        self._woken = asyncio.Event()
        self._progress = asyncio.Event()
        self._one_round = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self.processed = 0

    def start(self) -> None:
        """Start the worker on the running loop, unless it runs."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._work(), name="threadkeep-capture")

    def wake(self) -> None:
        """Say that there is work."""
        self._woken.set()

    def progress(self) -> asyncio.Event:
        """Return an event that is set when the next record is through."""
        return self._progress

    async def stop(self) -> None:
        """Stop the worker, wherever it is; the storage is in the state before or after a record."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def drain(self, timeout: timedelta) -> bool:
        """Process what is due now, at most for *timeout*; return whether nothing of it is left."""
        try:
            async with asyncio.timeout(timeout.total_seconds()):
                while await self._round():
                    pass
                return not await self._storage.due(DUE, now=self._clock.now(), limit=1)
        except (TimeoutError, StorageError) as error:
            self._telemetry.degraded("capture.drain", error)
            return False

    async def waiting(self) -> tuple[int, int]:
        """Return how many records wait, and how many are parked."""
        far = self._clock.now() + _FAR
        waiting = await self._storage.due(DUE, now=far, limit=_COUNTED)
        return len(waiting), len(await self._storage.due(DUE_PARKED, now=far, limit=_COUNTED))

    async def _work(self) -> None:
        pause = _FIRST_PAUSE_SECONDS
        while True:
            self._woken.clear()
            wait = self._poll_seconds
            try:
                while await self._round():
                    pass
                pause = _FIRST_PAUSE_SECONDS
            except ClosedError:
                return
            except StorageError as error:
                self._telemetry.degraded("capture.worker", error)
                wait, pause = pause, min(pause * 2, _LONGEST_PAUSE_SECONDS)
                await asyncio.sleep(wait)  # not to be woken: every new turn would ask a storage that is down
                continue
            with suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), wait)
                await asyncio.sleep(_AFTER_THE_TURN_SECONDS)

    async def _round(self) -> int:
        """Process what is due; return how many records are through, so that 0 means: wait."""
        async with self._one_round:
            due = await self._storage.due(DUE, now=self._clock.now(), limit=_LIMIT)
            through = 0
            for item in _in_order(due):
                through += await self._process(item)
            return through

    async def learn_now(self, refs: Sequence[Ref], owner: Owner, learn: Learn) -> None:
        """Run *learn* for records of *owner*, inside :meth:`alone`; what fails waits as it would have."""
        for ref in refs:
            await self._attempt(ref, owner, learn)

    def alone(self) -> AbstractAsyncContextManager[None]:
        """Keep the worker from taking anything meanwhile."""
        return self._one_round

    async def _process(self, item: Item) -> bool:
        owner = _owner_of(item.ref)
        return await self._attempt(item.ref, owner, self._learn) if owner is not None else False

    async def _attempt(self, ref: Ref, owner: Owner, learn: Learn) -> bool:
        try:
            finished = await learn(ref, owner)
        except (StorageError, ClosedError):
            raise
        except RevisionConflictError as error:
            self._telemetry.degraded("capture.busy", error)
            return False
        except Exception as error:  # noqa: BLE001 - an extractor is anybody's code: its failure is this record's, and the others go on
            self._telemetry.degraded("capture.extract", error)
            return await self._failed(ref, owner, error)
        self.processed += finished
        self._tell()
        return finished

    async def _failed(self, ref: Ref, owner: Owner, error: Exception) -> bool:
        """Let a record wait, longer each time; after five tries it is parked, kept and visible."""
        (item,) = await self._storage.get([ref])
        record = record_of(item) if item else None
        if item is None or record is None or record.state != "pending":
            return False
        tried = _tried(record, str(error) if isinstance(error, ThreadkeepError) else type(error).__name__)
        due_at = self._clock.now() + _FIRST_DELAY * 4 ** (tried.tries - 1)
        try:
            put = put_of(tried, owner, due_at=due_at, expect=item.revision)
            await self._storage.commit(Batch(owner.partition, [put]))
        except ConflictError:  # somebody else has dealt with it
            return False
        if tried.state == "failed":
            self._telemetry.count("capture.parked")
        self._tell()
        return True

    def _tell(self) -> None:
        """Let those who wait look again."""
        progress, self._progress = self._progress, asyncio.Event()
        progress.set()


def _owner_of(ref: Ref) -> Owner | None:
    match ref.namespace:
        case (root, label) if root == TURNS:
            owner = owner_of_label(label)
            return owner if owner is not None and owner.partition == ref.partition else None
        case _:
            return None


def _tried(record: TurnRecord, reason: str) -> TurnRecord:
    tries = record.tries + 1
    return replace(record, tries=tries, reason=reason, state="failed" if tries >= MAX_TRIES else "pending")


def _in_order(items: Sequence[Item]) -> list[Item]:
    """Return the records owner by owner, the one that waits longest first, each owner's in the order of recording."""
    first: dict[bytes, datetime] = {}
    for item in items:
        at = item.due.at if item.due else item.created_at
        key = item.ref.partition.digest
        first[key] = min(at, first.get(key, at))

    def place(item: Item) -> tuple[datetime, bytes, str, int]:
        key = item.ref.partition.digest
        return first[key], key, str(item.value.get("at", "")), item.revision

    return sorted(items, key=place)
