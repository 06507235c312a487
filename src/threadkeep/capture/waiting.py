"""Which turns wait together, who may take them and when they are tried again: pure rules on turn records."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from threadkeep.capture.record import QueuedTurn
from threadkeep.capture.turns import DUE_PARKED, TURNS, TurnRecord, record_of
from threadkeep.ids import ThreadId, short_digest
from threadkeep.owners.owner import Owner, owner_of_label
from threadkeep.storage.port import Item, Ref

_FIRST_DELAY: Final = timedelta(seconds=2)
_GROWTH: Final = 8
_MOST_GROWTHS: Final = 8
_LONGEST_DELAY: Final = timedelta(hours=1)
_JITTER: Final = 0.25
_MOST_DEBOUNCES: Final = 10
"""A thread that is never quiet is learnt from after so many times the debounce all the same."""


@dataclass(frozen=True, slots=True)
class Terms:
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
        owner: Whose they are.
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
        elsewhere: Whether other workers are at something.
    """

    waiting: tuple[Waiting, ...] = ()
    next_at: datetime | None = None
    elsewhere: bool = False

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of what may be taken now."""
        return tuple(found.key for found in self.waiting)


def key_of(owner: Owner, thread_id: ThreadId | None) -> str:
    """Return the key of a thread's waiting turns; nobody's id can be read from it."""
    return short_digest("waiting", owner.tenant, owner.user_id, *([] if thread_id is None else [thread_id]))


def ready(
    items: Sequence[Item],
    *,
    now: datetime,
    terms: Terms,
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
        terms: See :class:`Terms`.
        worker: Who asks; what it holds itself and is not *running* may be taken again.
        running: Keys that this worker is at.
        hurried: Keys that somebody waits for, so that they are not debounced; ``None``: all.
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
        moments += [_due(item) for item, record in rows if _due(item) > now and record.worker != worker]
        if not free:
            continue
        debounced = terms.debounce and hurried is not None and key not in hurried
        quiet_at = _quiet_at([record.turn.at for _, record in rows], terms.debounce)
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
    """Return whose turn record is at *ref*; ``None`` where that is no place of one."""
    match ref.namespace:
        case (root, label) if root == TURNS:
            owner = owner_of_label(label)
            return owner if owner is not None and owner.partition == ref.partition else None
        case _:
            return None


def _quiet_at(recorded: Sequence[datetime], debounce: timedelta) -> datetime:
    return min(max(recorded) + debounce, min(recorded) + _MOST_DEBOUNCES * debounce)


def _due(item: Item) -> datetime:
    return item.due.at if item.due else item.created_at
