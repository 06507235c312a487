"""Proposals, decisions and tombstones: values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias, get_args

from threadkeep.errors import InvalidInputError, ThreadkeepError, TooLargeError
from threadkeep.ids import MemoryId, ProposalId
from threadkeep.memories.labels import Metadata, Scalar, check_metadata, check_tags
from threadkeep.memories.models import (
    MAX_TEXT_CHARACTERS,
    Kind,
    Memory,
    Source,
    Speaker,
    checked_name,
    html_table,
    shortened,
)
from threadkeep.storage.interface import Embedding

Action: TypeAlias = Literal["add", "correct", "forget"]
State: TypeAlias = Literal["pending", "approved", "rejected", "expired"]
Verdict: TypeAlias = Literal["auto", "ask", "never"]
Cause: TypeAlias = Literal["rejected", "erased"]

"""Of who decided, and of a client's key."""
MAX_COMMENT_CHARACTERS: Final = 2_000


@dataclass(frozen=True, slots=True)
class NewProposal:
    """A change of memory that is proposed.

    Attributes:
        text: What shall be remembered; 1–8,000 characters; empty to forget.
        action: ``add`` a memory, ``correct`` or ``forget`` one.
        kind: Of the memory.
        sources: Where it comes from; empty: from an assistant, outside any thread.
        memory_id: What to correct or to forget.
        base_revision: The memory's revision that the change was thought out for; ``None``: what it is now.
        reason: Why it is proposed, for the person who decides.
        key: The client's; the same key is the same proposal, however often it is made.
        tags: Of a memory that is added.
        metadata: Of a memory that is added.
    """

    text: str
    action: Action = "add"
    kind: Kind = "semantic"
    sources: tuple[Source, ...] = ()
    memory_id: MemoryId | None = None
    base_revision: int | None = None
    reason: str = ""
    key: str | None = None
    tags: Sequence[str] = ()
    metadata: Metadata = field(default_factory=dict[str, Scalar], hash=False)


@dataclass(frozen=True, slots=True)
class Decision:
    """What became of a proposal.

    Attributes:
        state: What it is now.
        by: Who decided: a person as the application names them, ``user`` (they said it themselves
            afterwards), ``policy`` or ``time``.
        at: When.
        text: What was approved, where that was edited.
        comment: What they said to it.
        memory_id: The memory that came of it.
        key: The client's; the same decision with the same key is told again, not refused.
    """

    state: Literal["approved", "rejected", "expired"]
    by: str
    at: datetime
    text: str | None = None
    comment: str | None = None
    memory_id: MemoryId | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Proposal:
    """A change to memory that waits for a decision, or waited.

    Attributes:
        proposal_id: Its key.
        action: What would be done.
        text: What would be remembered; empty to forget.
        kind: Of the memory.
        sources: Where it comes from.
        trust: The least trusted speaker of *sources*.
        reason: Why it waits.
        memory_id: What would be corrected or forgotten; of an ``add``, the memory that it becomes.
        base_revision: The memory's revision that it was thought out for; ``None`` for an ``add``.
        base_text: What that memory said then.
        created_at: When it was made.
        expires_at: When it expires without a decision.
        state: ``pending`` until it is decided, once.
        decision: How it was decided.
        revision: Of its row.
        key: The client's.
        tags: Of a memory that is added.
        metadata: Of a memory that is added.
    """

    proposal_id: ProposalId
    action: Action
    text: str
    kind: Kind
    sources: tuple[Source, ...]
    trust: Speaker
    reason: str
    memory_id: MemoryId
    base_revision: int | None
    base_text: str | None
    created_at: datetime
    expires_at: datetime
    state: State = "pending"
    decision: Decision | None = None
    revision: int = 0
    key: str | None = None
    tags: tuple[str, ...] = ()
    metadata: Metadata = field(default_factory=dict[str, Scalar], hash=False)

    def __repr__(self) -> str:
        """Return what is proposed on one line."""
        text = shortened(self.text or self.base_text or "")
        return f"<Proposal {self.proposal_id[:8]} {self.state}: {self.action} {text!r}>"

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        row = (self.action, self.text or self.base_text or "", self.state, self.trust, self.proposal_id[:8])
        return html_table(("proposed", "memory", "state", "said by", "id"), [row])


@dataclass(frozen=True, slots=True)
class Proposed:
    """What became of a change that was proposed.

    Attributes:
        status: ``proposed``: it waits; ``approved``: a policy let it pass at once; ``duplicate``: a memory
            says it, or it was proposed before; ``rejected``: it must not be kept.
        proposal: The proposal, new or known; ``None`` where there is none.
        memory_id: The memory that holds the statement, or would.
        reason: Why it was rejected or waits.
    """

    status: Literal["proposed", "approved", "duplicate", "rejected"]
    proposal: Proposal | None
    memory_id: MemoryId | None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """One decision of several.

    Attributes:
        proposal_id: Which proposal.
        approve: Whether it is approved; else it is rejected.
        text: What is approved instead of what was proposed.
        comment: What there is to say to it.
    """

    proposal_id: str
    approve: bool
    text: str | None = None
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class DecisionResult:
    """What became of one decision of several.

    Attributes:
        proposal_id: Which proposal.
        proposal: As it is now; ``None`` where it was not decided by this.
        error: Why not.
    """

    proposal_id: str
    proposal: Proposal | None
    error: ThreadkeepError | None = None


@dataclass(frozen=True, slots=True)
class Tombstone:
    """What is kept of a statement that must not be learnt again.

    Attributes:
        tombstone_id: Its key.
        cause: ``rejected``, or ``erased``: forgotten.
        text: What was rejected; ``None`` for an erased one, of which there are only keyed digests.
        at: Since when.
        by: Who rejected it.
        expires_at: Until when; ``None``: for ever.
        digests: Of an erased one: keyed digests of its terms.
        embedding: Of a rejected one: its vector.
        authors: Of a rejected one in a shared scope: the labels of the users who said it.
    """

    tombstone_id: str
    cause: Cause
    text: str | None
    at: datetime
    by: str
    expires_at: datetime | None
    digests: frozenset[str] = frozenset()
    embedding: Embedding | None = None
    authors: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class MemoryState:
    """What is known about an owner, and what waits to be.

    Attributes:
        memories: What is remembered and may be recalled, most recently changed first.
        pending: Proposals that wait for a decision, newest first.
    """

    memories: tuple[Memory, ...]
    pending: tuple[Proposal, ...]


def checked(new: NewProposal, redact: Callable[[str], str]) -> NewProposal:
    """Return *new* with its texts redacted and bounded.

    Raises:
        InvalidInputError, TooLargeError: It cannot be kept.
    """
    if new.action not in get_args(Action) or new.kind not in get_args(Kind):
        actions, kinds = ", ".join(get_args(Action)), ", ".join(get_args(Kind))
        msg = f"The action of a proposal must be one of {actions}, and its kind one of {kinds}."
        raise InvalidInputError(msg)
    text = "" if new.action == "forget" else statement(new.text, redact)
    key = None if new.key is None else checked_name(new.key, "key")
    return replace(
        new,
        text=text,
        reason=redact(new.reason)[:MAX_COMMENT_CHARACTERS],
        key=key,
        tags=check_tags(new.tags, redact=redact),
        metadata=check_metadata(new.metadata, redact=redact),
    )


def statement(text: Any, redact: Callable[[str], str]) -> str:
    """Return *text* as a memory may say it.

    Raises:
        InvalidInputError, TooLargeError: It says nothing, or too much.
    """
    if not isinstance(text, str) or not text.strip():
        msg = "The text is empty; pass the statement to remember."
        raise InvalidInputError(msg)
    if len(text.strip()) > MAX_TEXT_CHARACTERS:
        msg = f"The text has {len(text):,} characters; a memory has at most {MAX_TEXT_CHARACTERS:,}. Split it."
        raise TooLargeError(msg, characters=len(text))
    return redact(text.strip())
