"""What capture works on: our own messages, turns and candidates, free of any framework."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, Literal, cast

from threadkeep.identity import Owner
from threadkeep.ids import MemoryId, MessageId, ProposalId, ThreadId, TurnId
from threadkeep.memories.codec import ACCOUNTS
from threadkeep.memories.kinds import Kind
from threadkeep.memories.labels import Metadata, Scalar
from threadkeep.memories.models import Source
from threadkeep.models.base import Message
from threadkeep.storage.interface import Item, Put, Ref


@dataclass(frozen=True, slots=True)
class Turn:
    """One input to a thread and everything until the reply was complete.

    Attributes:
        turn_id: Digest of its content; the same turn has the same id in every process.
        thread_id: Where it happened.
        messages: The turn's own messages, redacted, in order.
        at: When it was recorded.
        recalled: Texts that recall had put in; never learnt as new.
        played: Whether the user plays a part in it, so that nothing of it is a fact about them.
    """

    turn_id: TurnId
    thread_id: ThreadId | None
    messages: tuple[Message, ...]
    at: datetime
    recalled: tuple[str, ...] = ()
    played: bool = False


@dataclass(frozen=True, slots=True)
class ImportedTurns:
    """What is said of turns that come from an export of earlier conversations.

    Attributes:
        at: When the user's message with this id was written; the turn is learnt from as of then.
        ask: Whether its statements are proposed; then episodes are not kept.
    """

    at: Mapping[MessageId, datetime]
    ask: bool


@dataclass(frozen=True, slots=True)
class Candidate:
    """What an extractor thinks is worth keeping.

    Attributes:
        text: The statement.
        kind: ``semantic``, ``episodic``, ``procedural``, or one of the application's.
        source: Where it was said.
        slot: What it is about, where the extractor can tell (``"favourite colour"``): a later
            statement with the same slot replaces an earlier one. ``None``: nothing is replaced.
        valid_from: From when it is true, where the words say so.
        target: The memory that it takes the place of, where the extractor can tell.
        asked: Whether the user asks that it is remembered: then it is also if it was forgotten or rejected before.
        metadata: What the memory gets as its metadata, beside what it has.
    """

    text: str
    kind: Kind
    source: Source
    slot: str | None = None
    valid_from: datetime | None = None
    target: MemoryId | None = None
    asked: bool = False
    metadata: Metadata = field(default_factory=dict[str, Scalar], hash=False)


@dataclass(frozen=True, slots=True)
class NotKept:
    """A statement of a turn that was not kept; of its text nothing stays.

    Attributes:
        kind: What it would have been.
        reason: Why: ``erased before``, ``rejected before``, ``secret``, ``too long``, ``recalled``, ``policy``, …
        message_id: The message that makes it, where that is known.
    """

    kind: Kind
    reason: str
    message_id: MessageId | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """What extracting from turns took of a model.

    Attributes:
        model: The model's name.
        prompt: The prompt file's name with its version.
        calls: How often it was called.
        input_tokens: What it read, as its provider counts; 0 where that is not told.
        output_tokens: What it wrote, likewise.
        cost_usd: What that cost by ``THREADKEEP_EXTRACTION_PRICES``; ``None`` where no prices are set.
    """

    model: str
    prompt: str
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a turn that was given to capture.

    Attributes:
        status: ``queued``: it is committed and will be learnt from; ``duplicate``: it was recorded before;
            ``pending``: it is still being committed, as the storage is slow; ``nothing``: there was no turn, or it
            could not be recorded; ``done``: it was learnt from;
            ``failed``: it was tried often enough and is kept aside.
        turn_ids: The turns, oldest first.
        memory_ids: What they taught, where that is known already.
        proposal_ids: What of it waits for approval, where that is known already.
        reason: Why it failed, or failed last.
        usage: What a model took for it, where one was asked and that is known already; one a turn.
        rejected: Why statements were not kept, or that a model gave none, where that is known already.
        not_kept: Each statement that was not kept, with the reason, where that is known already.
        lifted: Tombstones that are gone, as the user asked to remember what they kept from being learnt.
        degraded: What was missing: ``storage`` (slow, or not recorded; the next turn records it), ``timeout``
            (it is recorded, and was not learnt from in time), ``embedder`` (a memory is found by words only until the
            embedder answers again).
    """

    status: Literal["queued", "pending", "duplicate", "nothing", "done", "failed"]
    turn_ids: tuple[TurnId, ...] = ()
    memory_ids: tuple[MemoryId, ...] = ()
    degraded: tuple[str, ...] = ()
    proposal_ids: tuple[ProposalId, ...] = ()
    reason: str | None = None
    usage: tuple[Usage, ...] = ()
    rejected: tuple[str, ...] = ()
    not_kept: tuple[NotKept, ...] = ()
    lifted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class QueuedTurn:
    """A recorded turn that is not learnt from yet, as the queue shows it: never its text.

    Attributes:
        turn_id: Which turn.
        owner: The owner.
        thread_id: Where it happened.
        state: ``waiting``; ``running``: a worker has it; ``dead``: it failed too often and is kept
            until it is retried by hand.
        tries: How often it failed.
        reason: Why it failed last.
        recorded_at: Since when it waits.
        due_at: When it may be taken, or while it runs, when its lease ends; ``None`` where it is dead.
        worker: Who has it, while it runs.
    """

    turn_id: TurnId
    owner: Owner
    thread_id: ThreadId | None
    state: Literal["waiting", "running", "dead"]
    tries: int
    reason: str | None
    recorded_at: datetime
    due_at: datetime | None
    worker: str | None


ACCOUNT_KEY: Final = "extraction"
_MILLION: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Prices:
    """What a million tokens cost, in US dollars.

    Attributes:
        read: Of what a model reads.
        written: Of what it writes.
    """

    read: float
    written: float


def account_ref(owner: Owner) -> Ref:
    """Return where *owner*'s account is."""
    return Ref(owner.partition, (ACCOUNTS, owner.label), ACCOUNT_KEY)


def priced(usage: Usage, prices: Prices | None) -> Usage:
    """Return *usage* with what it cost."""
    if prices is None:
        return usage
    cost = (usage.input_tokens * prices.read + usage.output_tokens * prices.written) / _MILLION
    return replace(usage, cost_usd=round(cost, 9))


def account_put(owner: Owner, before: Item | None, usage: Usage, *, turns: int, failed: int, at: datetime) -> Put:
    """Return the put that adds *usage* to what is on the account; it conflicts with another writer's addition."""
    held: Mapping[str, Any] = before.value if before else {}
    value = {
        "since": held.get("since", at.isoformat()),
        "turns": _number(held, "turns") + turns,
        "failed": _number(held, "failed") + failed,
        "calls": _number(held, "calls") + usage.calls,
        "input_tokens": _number(held, "input_tokens") + usage.input_tokens,
        "output_tokens": _number(held, "output_tokens") + usage.output_tokens,
        "cost_usd": round(_number(held, "cost_usd") + (usage.cost_usd or 0), 9),
        "model": usage.model,
        "prompt": usage.prompt,
    }
    return Put((ACCOUNTS, owner.label), ACCOUNT_KEY, value, expect=before.revision if before else "absent")


def spell_usage(usage: Usage) -> dict[str, Any]:
    """Spell *usage* for a turn record."""
    row = {
        "model": usage.model,
        "prompt": usage.prompt,
        "calls": usage.calls,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cost_usd": usage.cost_usd,
    }
    return {name: field for name, field in row.items() if field is not None}


def usage_of(row: object) -> Usage | None:
    """Read what :func:`spell_usage` spelled; ``None`` where it is something else."""
    if not isinstance(row, Mapping):
        return None
    fields = cast("Mapping[str, Any]", row)
    model, prompt, cost = fields.get("model"), fields.get("prompt"), fields.get("cost_usd")
    if not isinstance(model, str) or not isinstance(prompt, str):
        return None
    return Usage(
        model,
        prompt,
        int(_number(fields, "calls")),
        int(_number(fields, "input_tokens")),
        int(_number(fields, "output_tokens")),
        float(cost) if isinstance(cost, int | float) else None,
    )


def _number(row: Mapping[str, Any], name: str) -> float:
    value = row.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else 0
