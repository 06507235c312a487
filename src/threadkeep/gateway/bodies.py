"""What the interfaces take and send about memories and proposals. Imports no web framework."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, cast

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

if TYPE_CHECKING:
    from threadkeep import Forgotten, Memory, Proposal, Recalled, RememberResult, Source
    from threadkeep.memories.models import Why

TEXT_CHARACTERS: Final = 8_000
MESSAGE_CHARACTERS: Final = 64_000
ID_CHARACTERS: Final = 1_000

Kind = Annotated[
    str,
    Field(
        pattern="^[a-z][a-z0-9_]*$",
        max_length=32,
        description="semantic, episodic, procedural, or a kind that the application has added.",
    ),
]
Trust = Literal["user", "import", "assistant", "agent", "document", "tool"]
State = Literal["pending", "approved", "rejected", "expired"]


def refuse_nul(text: str) -> str:
    """Return *text*.

    Raises:
        ValueError: It has a NUL character.
    """
    if "\x00" in text:
        msg = "must not contain NUL characters"
        raise ValueError(msg)
    return text


def refuse_dots(text: str) -> str:
    """Return *text*.

    Raises:
        ValueError: It is ``.`` or ``..``, which clients take out of an address, so that no request could name it.
    """
    if text in (".", ".."):
        msg = "must not be . or .., which no address can name"
        raise ValueError(msg)
    return text


def replace_surrogates(text: object) -> object:
    """Return *text* as it can be sent: lone surrogates are no UTF-8."""
    return text.encode("utf-8", "replace").decode("utf-8") if isinstance(text, str) else text


def as_object(value: object) -> Mapping[str, Any]:
    """Return *value* if it is an object of JSON; otherwise an empty one."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


NewId = Annotated[
    str, Field(min_length=1, max_length=ID_CHARACTERS), AfterValidator(refuse_nul), AfterValidator(refuse_dots)
]
"""An id that the client chooses."""

Statement = Annotated[str, Field(min_length=1, max_length=TEXT_CHARACTERS), AfterValidator(refuse_nul)]
"""A statement that a client sends."""

Comment = Annotated[str, Field(max_length=TEXT_CHARACTERS), AfterValidator(refuse_nul)]
"""A text that a client sends, and which may be empty."""

Shown = Annotated[str, BeforeValidator(replace_surrogates)]
"""A text that is sent to a client."""


class RequestBody(BaseModel):
    """What a request takes; an unknown field is refused, as nothing would come of it."""

    model_config = ConfigDict(extra="forbid")


class SourceBody(BaseModel):
    """Where a statement was made.

    Attributes:
        speaker: Who made it.
        thread_id: The thread.
        message_id: The message.
        at: When.
    """

    speaker: str
    thread_id: Shown | None
    message_id: Shown | None
    at: datetime | None


class MemoryBody(BaseModel):
    """A memory.

    Attributes:
        memory_id: Its id.
        text: What it says.
        kind: Which kind it is.
        status: ``active``, or why it is not recalled.
        trust: The most trusted speaker behind it.
        sources: Where it was said.
        revision: Its revision; also in the ETag.
        created_at: When it was kept.
        updated_at: When it was changed.
        valid_from: From when on it is true.
        valid_to: Until when it was true.
        pinned: Whether it never expires.
        approved_by: The person who approved it.
        tags: The application's words.
        metadata: The application's names and values.
    """

    memory_id: str
    text: Shown
    kind: Kind
    status: str
    trust: str
    sources: list[SourceBody]
    revision: int
    created_at: datetime
    updated_at: datetime
    valid_from: datetime | None
    valid_to: datetime | None
    pinned: bool
    approved_by: Shown | None
    tags: list[Shown]
    metadata: dict[Shown, Shown | float | bool | None]


class FoundBody(BaseModel):
    """A memory that was found.

    Attributes:
        memory: The memory.
        score: In [0, 1], higher is closer.
    """

    memory: MemoryBody
    score: float


class FoundMemoriesBody(BaseModel):
    """What was found, best first.

    Attributes:
        found: The memories.
    """

    found: list[FoundBody]


class KeptBody(BaseModel):
    """What became of a statement.

    Attributes:
        status: ``accepted``, ``duplicate``, ``proposed`` or ``rejected``.
        memory_id: The memory; ``None``: there is none.
        proposal_id: The proposal that waits for a decision.
    """

    status: Literal["accepted", "duplicate", "proposed", "rejected"]
    memory_id: str | None
    proposal_id: str | None


class ForgottenBody(BaseModel):
    """What was forgotten.

    Attributes:
        memory_ids: The memories that are gone.
        still_in: The messages that still say it.
    """

    memory_ids: list[str]
    still_in: list[SourceBody]


class WhyBody(BaseModel):
    """Where a memory comes from.

    Attributes:
        memory: The memory.
        derived_from: The memories it was derived from.
        merged: The memories that were merged into it.
        used_at: When it was last recalled.
    """

    memory: MemoryBody
    derived_from: list[MemoryBody]
    merged: list[MemoryBody]
    used_at: datetime | None


class ProposalBody(BaseModel):
    """A change that waits for a decision, or was decided.

    Attributes:
        proposal_id: Its id.
        action: What to do.
        text: The statement.
        kind: The kind of the memory.
        memory_id: The memory.
        base_text: What the memory said when the change was proposed.
        trust: The most trusted speaker behind it.
        sources: Where it was said.
        reason: Why it waits.
        state: ``pending``, or how it was decided.
        created_at: When it was proposed.
        expires_at: When it expires.
        decided_by: The person who decided.
    """

    proposal_id: str
    action: str
    text: Shown
    kind: str
    memory_id: str
    base_text: Shown | None
    trust: str
    sources: list[SourceBody]
    reason: Shown
    state: State
    created_at: datetime
    expires_at: datetime
    decided_by: Shown | None


class DecidedBody(BaseModel):
    """What became of a decision.

    Attributes:
        proposal_id: The proposal.
        state: How it was decided; ``None``: it was not.
        memory_id: The memory that was changed.
        error: The code of the error.
    """

    proposal_id: Shown
    state: State | None
    memory_id: str | None
    error: str | None


def memory_body(memory: Memory) -> MemoryBody:
    """Return *memory* as it is sent."""
    return MemoryBody(
        memory_id=memory.memory_id,
        text=memory.text,
        kind=memory.kind,
        status=memory.status,
        trust=memory.trust,
        sources=[source_body(one) for one in memory.sources],
        revision=memory.revision,
        created_at=memory.created_at,
        updated_at=memory.updated_at,
        valid_from=memory.valid_from,
        valid_to=memory.valid_to,
        pinned=memory.pinned,
        approved_by=memory.approval.by if memory.approval else None,
        tags=[*memory.tags],
        metadata={**memory.metadata},
    )


def learnt_of(memory: Memory, turn_ids: Sequence[str]) -> dict[str, str | None]:
    """Return what turns taught of *memory*, as it is sent: the memory, and what it said before, if that was changed."""
    taught = next((told for one in turn_ids if (told := memory.taught_by(one)) is not None), None)
    change, before = (taught.change, taught.before) if taught else ("known", None)
    about: dict[str, str | None] = {"memory_id": memory.memory_id, "text": memory.text, "kind": memory.kind}
    return {**about, "change": change, "before": before}


def source_body(source: Source) -> SourceBody:
    """Return *source* as it is sent."""
    return SourceBody(speaker=source.speaker, thread_id=source.thread_id, message_id=source.message_id, at=source.at)


def found_body(found: Sequence[Recalled]) -> FoundMemoriesBody:
    """Return the result of a search as it is sent, best first."""
    return FoundMemoriesBody(found=[FoundBody(memory=memory_body(one.memory), score=one.score) for one in found])


def kept_body(result: RememberResult) -> KeptBody:
    """Return *result* as it is sent; a proposal has no memory yet."""
    kept = result.status in ("accepted", "duplicate")
    return KeptBody(status=result.status, memory_id=result.memory_id if kept else None, proposal_id=result.proposal_id)


def forgotten_body(forgotten: Forgotten) -> ForgottenBody:
    """Return *forgotten* as it is sent."""
    return ForgottenBody(memory_ids=[*forgotten.memory_ids], still_in=[source_body(one) for one in forgotten.still_in])


def why_body(why: Why) -> WhyBody:
    """Return *why* as it is sent."""
    return WhyBody(
        memory=memory_body(why.memory),
        derived_from=[memory_body(one) for one in why.derived_from],
        merged=[memory_body(one) for one in why.merged],
        used_at=why.used_at,
    )


def proposal_body(proposal: Proposal) -> ProposalBody:
    """Return *proposal* as it is sent."""
    return ProposalBody(
        proposal_id=proposal.proposal_id,
        action=proposal.action,
        text=proposal.text,
        kind=proposal.kind,
        memory_id=proposal.memory_id,
        base_text=proposal.base_text,
        trust=proposal.trust,
        sources=[source_body(one) for one in proposal.sources],
        reason=proposal.reason,
        state=proposal.state,
        created_at=proposal.created_at,
        expires_at=proposal.expires_at,
        decided_by=proposal.decision.by if proposal.decision else None,
    )


def decided_body(proposal_id: str, proposal: Proposal | None, error: str | None = None) -> DecidedBody:
    """Return what became of a decision as it is sent; *error* is a code."""
    decision = proposal.decision if proposal else None
    return DecidedBody(
        proposal_id=proposal_id,
        state=proposal.state if proposal else None,
        memory_id=decision.memory_id if decision else None,
        error=error,
    )
