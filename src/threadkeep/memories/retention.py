"""Retention: note when memories were used last, and archive those that are unused or too many."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, Protocol

from threadkeep.concurrency import retry_conflicts
from threadkeep.errors import (
    DamagedItemError,
    MemoryNotFoundError,
    PartitionErasedError,
    RevisionConflictError,
    SealError,
)
from threadkeep.identity import Owner
from threadkeep.ids import MemoryId
from threadkeep.memories.audited_writer import AuditedWriter
from threadkeep.memories.codec import archived_value, memory_of, moment_of, uses_namespace
from threadkeep.memories.kinds import family
from threadkeep.memories.models import Archived, Memory
from threadkeep.memories.reader import OF_ONE_OWNER, MemoryReader, OwnersInTurn
from threadkeep.storage.interface import (
    Batch,
    Delete,
    Item,
    Operation,
    Partition,
    Put,
    Ref,
    Storage,
    iterate_items,
)

if TYPE_CHECKING:
    from threadkeep.clock import Clock
    from threadkeep.observability import Telemetry


_MOST_OWNERS: Final = 10_000
"""Of so many owners uses are noted until they are written; of more, those noted longest ago are let go."""
_BATCH: Final = 500


class LastUsed:
    """Notes which memories were used.

    Args:
        storage: Where that is kept.
        clock: What the time is.
        grain: How coarsely; ``None``: nothing is noted.
    """

    def __init__(self, storage: Storage, clock: Clock, *, grain: timedelta | None) -> None:
        self._storage = storage
        self._rows = MemoryReader(storage)
        self._clock = clock
        self._grain = grain
        self._noted: OrderedDict[Owner, dict[MemoryId, datetime]] = OrderedDict()
        self._guard = threading.Lock()

    def note(self, owner: Owner, memory_ids: Iterable[MemoryId]) -> None:
        """Note that these memories of *owner* were used now, from any thread; it costs a turn no I/O."""
        if self._grain is None:
            return
        now = self._clock.now()
        with self._guard:
            noted = self._noted.setdefault(owner, {})
            self._noted.move_to_end(owner)
            noted.update(dict.fromkeys(memory_ids, now))
            while len(self._noted) > _MOST_OWNERS:
                self._noted.popitem(last=False)

    async def write(self, owner: Owner | None = None) -> list[tuple[Owner, MemoryId]]:
        """Write what was noted of *owner*; ``None``: of all.

        Returns:
            What was used here and laid aside meanwhile by another process, which could not know.

        Raises:
            StorageError: It could not be written; it is still noted.
        """
        aside: list[tuple[Owner, MemoryId]] = []
        with self._guard:
            owners = [owner] if owner is not None else list(self._noted)
        for one in owners:
            with self._guard:
                noted = dict(self._noted.get(one, {}))
            with suppress(PartitionErasedError):
                try:
                    aside += [(one, key) for key in await self._write(one, noted)]
                except (SealError, DamagedItemError):
                    if owner is not None:
                        raise
                    continue  # the others' can be written
            self._drop_written(one, noted)
        return aside

    async def last(self, memory_id: str, owner: Owner) -> datetime | None:
        """Return when a memory was used last, as far as known."""
        noted = self._noted.get(owner, {}).get(MemoryId(memory_id))
        (item,) = await self._storage.get([Ref(owner.partition, uses_namespace(owner), memory_id)])
        return noted or (moment_of(item.value.get("at")) if item is not None else None)

    async def of(self, owner: Owner) -> dict[MemoryId, datetime]:
        """Return when which of *owner*'s memories was used last, as far as it is written."""
        return {
            MemoryId(item.ref.key): at
            async for item in iterate_items(self._storage, owner.partition, prefix=uses_namespace(owner))
            if (at := moment_of(item.value.get("at"))) is not None
        }

    def _drop_written(self, owner: Owner, written: dict[MemoryId, datetime]) -> None:
        """Drop the notes that are written; until the commit they stay, so that a concurrent reader misses none."""
        with self._guard:
            left = {key: at for key, at in self._noted.get(owner, {}).items() if written.get(key) != at}
            if left:
                self._noted[owner] = left
            else:
                self._noted.pop(owner, None)

    async def _write(self, owner: Owner, noted: dict[MemoryId, datetime]) -> list[MemoryId]:
        aside: list[MemoryId] = []
        if not noted:
            return aside
        # The epoch first: of an owner who was erased in between, nothing is written.
        epoch = (await self._storage.position(owner.partition)).epoch
        grain, keys = self._grain or timedelta(), list(noted)
        for start in range(0, len(keys), _BATCH):
            part = keys[start : start + _BATCH]
            there = await self._rows.items(part, owner)
            refs = [Ref(owner.partition, uses_namespace(owner), key) for key in there]
            kept = {
                item.ref.key: at
                for item in await self._storage.get(refs)
                if item is not None and (at := moment_of(item.value.get("at"))) is not None
            }
            puts: list[Operation] = []
            for key, item in there.items():
                memory = memory_of(item)
                changed = memory.archived.used_at if memory and memory.archived else item.updated_at
                known = max(changed, kept.get(key, changed))
                if memory is None or noted[MemoryId(key)] - known < grain:
                    continue
                if memory.archived:
                    aside.append(memory.memory_id)
                else:
                    puts.append(Put(uses_namespace(owner), key, {"at": noted[MemoryId(key)].isoformat()}))
            if puts:
                await self._storage.commit(Batch(owner.partition, puts, epoch))
        return aside


log: Final = logging.getLogger("threadkeep")

TIME: Final = "time"
"""Who archives, as the audit tells it."""

_LIMITS: Final = ".limits"
_COUNTING: Final = Ref(Partition("root", (_LIMITS,)), (_LIMITS,), "counting")
_AT_ONCE: Final = 500
_OWNERS_A_ROUND: Final = 500
_REMEMBERED: Final = 10_000


class PendingProposals(Protocol):
    """What this room needs of proposals."""

    async def asked_about(self, owner: Owner) -> Collection[MemoryId]:
        """Return the memories that proposals which wait would change or forget."""
        ...


class MemoryRestorer(Protocol):
    """What has memories back: :class:`threadkeep.memories.maintenance.MemoryMaintenance`."""

    async def restore(self, memory_id: str, *, owner: Owner, by: str) -> Memory:
        """Let a memory that was laid aside be recalled again."""
        ...


@dataclass(frozen=True, slots=True)
class RetentionReport:
    """What became of an owner's memories.

    Attributes:
        archived: What was archived, or would be, with the reason; what went first comes first.
        active: How many are active now, or would be.
        over: By how many that is more than the most: what is left is pinned, approved or asked about.
    """

    archived: tuple[tuple[Memory, Archived], ...]
    active: int
    over: int


class Retention:
    """Keeps owners within the limits.

    Args:
        storage: Where memories are.
        audited_writer: Commits with an audit entry.
        uses: Knows when memories were used.
        asked: Knows what is asked about.
        upkeep: Has back what was laid aside.
        clock: What the time is.
        telemetry: Counts what was archived.
        limits: What is allowed.
    """

    def __init__(
        self,
        storage: Storage,
        audited_writer: AuditedWriter,
        uses: LastUsed,
        asked: PendingProposals,
        upkeep: MemoryRestorer,
        clock: Clock,
        telemetry: Telemetry,
        *,
        limits: Limits,
    ) -> None:
        self._storage = storage
        self._rows = MemoryReader(storage)
        self._audited_writer = audited_writer
        self._uses = uses
        self._asked = asked
        self._upkeep = upkeep
        self._clock = clock
        self._telemetry = telemetry
        self._owners = OwnersInTurn(storage, _OWNERS_A_ROUND)
        self._looked: OrderedDict[bytes, tuple[str, int, datetime | None]] = OrderedDict()
        self._since: datetime | None = None
        self.limits = limits

    async def tidy(self, owner: Owner, *, dry: bool = False) -> RetentionReport:
        """Archive what is too much of *owner*'s memories, or was not used for too long.

        Archived memories are not recalled, are listed, come back by ``undo`` or ``restore``, and go after thirty days.

        Args:
            owner: The owner.
            dry: Only tell what would be archived.

        Raises:
            RevisionConflictError: Other writers kept getting in the way; what was archived until then is.
        """
        if not self.limits.any:
            return RetentionReport((), sum([one.status == "active" async for one in self._rows.walk(owner=owner)]), 0)
        await self._write_uses(owner)
        done: list[tuple[Memory, Archived]] = []

        async def archive() -> RetentionReport:
            # Before anything is read: of an owner who is erased meanwhile, nothing is written.
            epoch = (await self._storage.position(owner.partition)).epoch
            found = await self._plan(owner)
            if dry:
                return RetentionReport(found.leaving, found.active - len(found.leaving), found.over)
            for start in range(0, len(found.leaving), _AT_ONCE):
                await self._archive(found.leaving[start : start + _AT_ONCE], owner, epoch, done)
            await self._note_looked(owner, found)
            return RetentionReport(tuple(done), found.active - len(found.leaving), found.over)

        return await retry_conflicts(archive)

    async def round(self) -> int:
        """Write what was used, and look at some owners: those that were written to, and the next ones in turn.

        Returns:
            How many memories were archived.
        """
        await self._write_uses()
        if not self.limits.any:
            return 0
        archived = 0
        for owner in dict.fromkeys([*self._audited_writer.written(), *await self._owners.next()]):
            try:
                if await self._needs_review(owner):
                    archived += len((await self.tidy(owner)).archived)
            except OF_ONE_OWNER as error:
                self._telemetry.degraded("memories.tidying", error)
        if archived:
            log.info("%d memories were archived: unused, or more than an owner may have", archived)
        return archived

    async def start(self) -> None:
        """Begin to count, where there are limits; where there are none, uses are not noted, and others' counting ends.

        Raises:
            StorageError: The storage cannot be used; it is tried again when it is needed.
        """
        if self.limits.any:
            await self._counted_since()
            return
        (item,) = await self._storage.get([_COUNTING])
        if item is not None:
            await self._storage.commit(Batch(_COUNTING.partition, [Delete(_COUNTING.namespace, _COUNTING.key)]))

    async def settle(self) -> None:
        """Write what was used: nothing more comes.

        Raises:
            StorageError: It could not be written; those memories count as unused since.
        """
        await self._write_uses()

    async def _write_uses(self, owner: Owner | None = None) -> None:
        """Write what was used, and have back what another process laid aside because it did not know."""
        for whose, memory_id in await self._uses.write(owner):
            try:
                with suppress(MemoryNotFoundError, PartitionErasedError):  # gone meanwhile
                    await self._upkeep.restore(memory_id, owner=whose, by=TIME)
            except RevisionConflictError as error:  # it stays laid aside, from where anybody can have it back
                self._telemetry.degraded("memories.tidying", error)

    async def _plan(self, owner: Owner) -> RetentionPlan:
        since = await self._counted_since()
        memories = [memory async for memory in self._rows.walk(owner=owner)]
        used, asked = await self._uses.of(owner), await self._asked.asked_about(owner)
        return await asyncio.to_thread(
            plan_retention, memories, used, self.limits, now=self._clock.now(), counted_since=since, asked_about=asked
        )

    async def _archive(
        self,
        leaving: Sequence[tuple[Memory, Archived]],
        owner: Owner,
        epoch: str,
        done: list[tuple[Memory, Archived]],
    ) -> None:
        """Archive some, in one commit for each reason, and put them into *done*.

        Raises:
            RevisionConflictError: One of them was changed or removed meanwhile.
            PartitionErasedError: The owner was erased since *epoch*.
        """
        for reason in dict.fromkeys(archived.reason for _, archived in leaving):
            some = [(memory, archived) for memory, archived in leaving if archived.reason == reason]
            items = await self._storage.get([Ref(owner.partition, one.namespace, one.memory_id) for one, _ in some])
            operations: list[Operation] = []
            for item, (memory, archived) in zip(items, some, strict=True):
                if item is None:
                    msg = f"Memory {memory.memory_id} was removed meanwhile; read the memories again and repeat."
                    raise RevisionConflictError(msg, memory_id=memory.memory_id)
                operations.append(_put(item, archived, expect=memory.revision))
            stamps = dict.fromkeys(memory.memory_id for memory, _ in some)
            operations += [Delete(uses_namespace(owner), key) for key in stamps]
            await self._audited_writer.commit(owner, operations, by=TIME, why=reason, epoch=epoch)
            self._telemetry.count(f"memories.archived.{reason}", len(some))
            done += some

    async def _needs_review(self, owner: Owner) -> bool:
        """Whether anything was written since *owner* was looked at, or the time has come for one of the memories."""
        looked = self._looked.get(owner.partition.digest)
        if looked is None:
            return True
        position = await self._storage.position(owner.partition)
        epoch, sequence, next_at = looked
        return (position.epoch, position.sequence) != (epoch, sequence) or (
            next_at is not None and next_at <= self._clock.now()
        )

    async def _note_looked(self, owner: Owner, found: RetentionPlan) -> None:
        position = await self._storage.position(owner.partition)
        key = owner.partition.digest
        self._looked[key] = (position.epoch, position.sequence, found.next_at)
        self._looked.move_to_end(key)
        while len(self._looked) > _REMEMBERED:
            self._looked.popitem(last=False)

    async def _counted_since(self) -> datetime:
        """Return the time since when uses are noted; before a limit was set, none were."""
        if self._since is None:
            (item,) = await self._storage.get([_COUNTING])
            if item is None:
                put = Put(_COUNTING.namespace, _COUNTING.key, {})
                await self._storage.commit(Batch(_COUNTING.partition, [put]))
            self._since = item.created_at if item is not None else self._clock.now()
        return self._since


def _put(item: Item, archived: Archived, *, expect: int) -> Put:
    """Return the put that archives a memory: every other program's fields stay as they are."""
    left = ARCHIVED_KEPT if item.expires_at is None else min(ARCHIVED_KEPT, item.expires_at - archived.at)
    value = archived_value(item.value, archived)
    return Put(item.ref.namespace, item.ref.key, value, ttl=left, expect=expect)


ARCHIVED_KEPT: Final = timedelta(days=30)
"""How long an archived memory can be had back; then it goes."""

_DAY: Final = timedelta(days=1)
_PARTS: Final = 8
_POLICY: Final = "policy"
_AGES: Final = {"semantic": 1, "procedural": 1, "episodic": 2}
"""An episode grows old twice as fast as a fact: there is one for every turn, and each matters less."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How long and how many memories are kept of each owner.

    Attributes:
        inactive_after: After how long without use a memory is archived; ``None``: never.
        most: How many active memories an owner has at most; ``None``: any number.
    """

    inactive_after: timedelta | None = None
    most: int | None = None

    @property
    def any(self) -> bool:
        """Whether there is a limit."""
        return self.inactive_after is not None or self.most is not None

    @property
    def grain(self) -> timedelta | None:
        """How coarsely uses are noted: by an eighth of the time without use, or a day; ``None``: not at all."""
        if self.inactive_after is None:
            return None if self.most is None else _DAY
        return min(max(_DAY, self.inactive_after / _PARTS), self.inactive_after / 2)


@dataclass(frozen=True, slots=True)
class RetentionPlan:
    """How an owner's memories stand to the limits.

    Attributes:
        leaving: What is archived, with the reason; what goes first comes first.
        active: How many are active, those included.
        over: By how many the rest exceeds the most: everything else is pinned, approved or asked about.
        next_at: When one of those that stay may have been unused for too long; ``None``: none ever.
    """

    leaving: tuple[tuple[Memory, Archived], ...]
    active: int
    over: int
    next_at: datetime | None


def stays(memory: Memory) -> bool:
    """Return whether *memory* must not be archived: it is pinned, or a person (not a policy) approved it."""
    return memory.pinned or (memory.approval is not None and memory.approval.by != _POLICY)


def plan_retention(
    memories: Sequence[Memory],
    used: Mapping[MemoryId, datetime],
    limits: Limits,
    *,
    now: datetime,
    counted_since: datetime,
    asked_about: Collection[MemoryId] = (),
) -> RetentionPlan:
    """Return which of an owner's memories leave.

    A memory is used when it is recalled, found, or changed. As uses are noted coarsely, it is given the grain in
    addition: nothing leaves that was used within ``inactive_after``. Nothing leaves that is pinned, that a person
    approved, or that a proposal which waits is about. Of the others, those leave that were not used for
    ``inactive_after``; where more than ``most`` are left, first what is not true any more, then what was not used for
    longest, an episode counting twice the time.

    Args:
        memories: All of an owner's; only active ones are looked at.
        used: When which was recalled or found last, coarsely.
        limits: What is allowed.
        now: The time.
        counted_since: Since when uses are noted: nothing counts as unused for longer than that.
        asked_about: What proposals that wait would change.
    """
    active = [memory for memory in memories if memory.status == "active"]
    free = [memory for memory in active if not stays(memory) and memory.memory_id not in asked_about]
    last = {memory.memory_id: max(memory.updated_at, used.get(memory.memory_id, memory.updated_at)) for memory in free}
    leaving: list[tuple[Memory, Archived]] = []
    next_at: datetime | None = None
    left: list[Memory] = []
    for memory in free:
        ends = None
        if limits.inactive_after is not None:
            ends = max(last[memory.memory_id], counted_since) + limits.inactive_after + (limits.grain or timedelta())
        if ends is not None and ends <= now:
            leaving.append((memory, Archived(now, "inactive", last[memory.memory_id])))
            continue
        left.append(memory)
        if ends is not None:
            next_at = ends if next_at is None else min(next_at, ends)
    too_many = 0 if limits.most is None else max(0, len(active) - len(leaving) - limits.most)
    left.sort(key=lambda memory: _archiving_order(memory, last[memory.memory_id], now))
    leaving += [(memory, Archived(now, "budget", last[memory.memory_id])) for memory in left[:too_many]]
    return RetentionPlan(tuple(leaving), len(active), max(0, too_many - len(left)), next_at)


def _archiving_order(memory: Memory, used_at: datetime, now: datetime) -> tuple[bool, timedelta, datetime, str]:
    true = memory.valid_to is None or memory.valid_to > now
    return true, _AGES[family(memory.kind)] * (used_at - now), memory.created_at, memory.memory_id
