"""Threads and their turns, as ``tk.threads`` returns them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from threadkeep.capture.turns import WITHOUT_MEMORY
from threadkeep.checkpoints.maintenance import ThreadStats

if TYPE_CHECKING:
    from threadkeep.capture.models import NotKept
    from threadkeep.capture.turns import TurnRecall, TurnRecord
    from threadkeep.checkpoints.head import ThreadStatus
    from threadkeep.identity import Owner
    from threadkeep.ids import MemoryId, MessageId, ProposalId, TurnId


@dataclass(frozen=True, slots=True)
class ThreadSummary:
    """A thread in the list of an owner's threads.

    Attributes:
        thread_id: Its id.
        title: The first seven words of the user, or the title that was given; ``""``: there is none yet.
        status: How the last turn ended: ``idle``, with a reply; ``interrupted``, with a question; or ``error``.
        pinned: Whether it is pinned.
        created_at: When it began.
        last_turn_at: When its last turn ended.
        metadata: What the application keeps with it.
        memory: Whether the turn that was interrupted uses memory when it goes on; otherwise ``True``.
    """

    thread_id: str
    title: str = ""
    status: ThreadStatus = "idle"
    pinned: bool = False
    created_at: datetime | None = None
    last_turn_at: datetime | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    memory: bool = True


@dataclass(frozen=True, slots=True)
class Thread(ThreadSummary):
    """A thread of an owner.

    Attributes:
        stats: How large it is.
    """

    stats: ThreadStats = field(default_factory=lambda: ThreadStats(0, 0, None, None, waits=False))


class ThreadPage(list[ThreadSummary]):
    """A part of an owner's threads, the last turn first.

    Attributes:
        cursor: What to pass to ``list`` for the next page; ``None``: this is the last one.
    """

    def __init__(self, threads: Iterable[ThreadSummary], cursor: str | None) -> None:
        super().__init__(threads)
        self.cursor = cursor


@dataclass(frozen=True, slots=True)
class Pruned:
    """What pruning did to a thread.

    Attributes:
        thread_id: Its id.
        removed: How many checkpoints went.
        busy: Whether it was left alone because a run was at work on it.
    """

    thread_id: str
    removed: int = 0
    busy: bool = False


@dataclass(frozen=True, slots=True)
class ImportedThread:
    """A thread of another saver, or one without an owner.

    Attributes:
        thread_id: Its id.
        checkpoints: How many checkpoints it has; 0 if it was adopted or left.
        state: ``copied``, ``present`` if all of it was there already, ``adopted``, or ``left`` where it is.
        owner: The owner it is bound to; ``None``: it was left.
        reason: Why it was left.
    """

    thread_id: str
    checkpoints: int
    state: Literal["copied", "present", "adopted", "left"]
    owner: Owner | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class TurnMemory:
    """What memory had to do with a turn: ids, and no text, so what is forgotten later leaves nothing here.

    Attributes:
        message_id: The message of the user.
        turn_id: The turn.
        state: ``pending``: it is not learnt from yet; ``done``; or ``failed``: it was tried often enough.
        recall: What it was given; ``None``: it is not known, or nothing was looked up.
        memory_ids: The memories that it taught, changed or said again.
        proposal_ids: What of it waited for approval.
        not_kept: Statements that were not kept.
        memory: Whether the turn used memory.
    """

    message_id: MessageId
    turn_id: TurnId
    state: Literal["pending", "done", "failed"]
    recall: TurnRecall | None
    memory_ids: tuple[MemoryId, ...]
    proposal_ids: tuple[ProposalId, ...]
    not_kept: tuple[NotKept, ...]
    memory: bool = True

    @classmethod
    def from_record(cls, message_id: MessageId, record: TurnRecord) -> TurnMemory:
        """Return what is kept of the turn of a message."""
        return cls(
            message_id,
            record.turn.turn_id,
            record.state,
            record.given,
            record.memory_ids,
            record.proposal_ids,
            record.not_kept,
            WITHOUT_MEMORY not in record.rejected,
        )
