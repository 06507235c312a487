"""``/proposals`` and ``/tombstones``: what waits for a decision of the user, and what is not learnt again."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from threadkeep import Choice
from threadkeep.gateway.idempotency import IdempotentRoute
from threadkeep.gateway.inputs import (
    ID_CHARACTERS,
    Comment,
    Cursor,
    ItemId,
    Limit,
    Reader,
    Reviewer,
    Shown,
    Statement,
    client_of,
)
from threadkeep.gateway.problems import ProblemError
from threadkeep.gateway.routers.memories import SourceBody, source_body

if TYPE_CHECKING:
    from threadkeep import Proposal

router = APIRouter(tags=["proposals"], route_class=IdempotentRoute)

State = Literal["pending", "approved", "rejected", "expired"]


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


class ProposalsBody(BaseModel):
    """A page of proposals, newest first.

    Attributes:
        proposals: The proposals.
        cursor: What to pass for the next page; ``None``: this is the last one.
    """

    proposals: list[ProposalBody]
    cursor: str | None


class DecisionBody(BaseModel):
    """A decision.

    Attributes:
        approve: Whether the change is made; else the statement is not learnt again.
        text: What is approved instead of what was proposed.
        comment: Kept with the decision.
    """

    model_config = ConfigDict(extra="forbid")

    approve: bool
    text: Statement | None = None
    comment: Comment | None = None


class ChoiceBody(DecisionBody):
    """A decision on one of several proposals.

    Attributes:
        proposal_id: The proposal.
    """

    proposal_id: str = Field(min_length=1, max_length=ID_CHARACTERS)


class ChoicesBody(BaseModel):
    """Decisions.

    Attributes:
        choices: At most 100.
    """

    model_config = ConfigDict(extra="forbid")

    choices: list[ChoiceBody] = Field(min_length=1, max_length=100)


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


class DecisionsBody(BaseModel):
    """What became of decisions, in their order.

    Attributes:
        decided: The results.
    """

    decided: list[DecidedBody]


class TombstoneBody(BaseModel):
    """A statement that is not learnt again.

    Attributes:
        tombstone_id: Its id.
        cause: Why.
        text: The statement; ``None``: it was forgotten, so nothing of it is kept.
        at: Since when.
        expires_at: Until when.
    """

    tombstone_id: str
    cause: str
    text: Shown | None
    at: datetime
    expires_at: datetime | None


class TombstonesBody(BaseModel):
    """The tombstones, newest first.

    Attributes:
        tombstones: The tombstones.
    """

    tombstones: list[TombstoneBody]


@router.get("/proposals")
async def list_proposals(
    request: Request,
    principal: Reader,
    limit: Limit = 50,
    cursor: Cursor = None,
    state: Annotated[State | Literal["all"], Query()] = "pending",
) -> ProposalsBody:
    """List the proposals of the user, newest first."""
    cursors, bound = request.app.state.gateway.cursors, ("proposals", state)
    offset = await cursors.open(cursor, principal.owner, *bound)
    wanted = None if state == "all" else state
    found = await client_of(request, principal).proposals.list(state=wanted, limit=limit + 1, offset=offset)
    more = await cursors.seal(offset + limit, principal.owner, *bound) if len(found) > limit else None
    return ProposalsBody(proposals=[_body(one) for one in found[:limit]], cursor=more)


@router.post("/proposals/decide")
async def decide_proposals(body: ChoicesBody, request: Request, principal: Reviewer) -> DecisionsBody:
    """Decide on several proposals; an error of one stops no other."""
    choices = [Choice(one.proposal_id, one.approve, one.text, one.comment) for one in body.choices]
    results = await client_of(request, principal).proposals.decide(choices, by=principal.subject)
    return DecisionsBody(
        decided=[_decided(one.proposal_id, one.proposal, one.error.code if one.error else None) for one in results]
    )


@router.get("/proposals/{proposal_id}")
async def show_proposal(proposal_id: ItemId, request: Request, principal: Reader) -> ProposalBody:
    """Return a proposal."""
    return _body(await client_of(request, principal).proposals.require(proposal_id))


@router.post("/proposals/{proposal_id}/decide")
async def decide_proposal(
    proposal_id: ItemId, body: DecisionBody, request: Request, principal: Reviewer
) -> DecidedBody:
    """Approve or reject a proposal."""
    proposals, by = client_of(request, principal).proposals, principal.subject
    if not body.approve:
        proposal = await proposals.reject(proposal_id, by=by, comment=body.comment)
    elif body.text is not None:
        proposal = await proposals.edit(proposal_id, body.text, by=by, comment=body.comment)
    else:
        proposal = await proposals.approve(proposal_id, by=by, comment=body.comment)
    return _decided(proposal_id, proposal, None)


@router.get("/tombstones")
async def list_tombstones(request: Request, principal: Reader) -> TombstonesBody:
    """List the statements that are not learnt again, newest first."""
    tombstones = await client_of(request, principal).proposals.tombstones()
    return TombstonesBody(
        tombstones=[
            TombstoneBody(
                tombstone_id=one.tombstone_id, cause=one.cause, text=one.text, at=one.at, expires_at=one.expires_at
            )
            for one in tombstones
        ]
    )


@router.delete("/tombstones/{tombstone_id}", status_code=204)
async def lift_tombstone(tombstone_id: ItemId, request: Request, principal: Reviewer) -> None:
    """Let a statement be learnt again."""
    if not await client_of(request, principal).proposals.lift(tombstone_id):
        raise ProblemError(404, "tombstone_not_found", "There is no tombstone with this id.")


def _body(proposal: Proposal) -> ProposalBody:
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


def _decided(proposal_id: str, proposal: Proposal | None, error: str | None) -> DecidedBody:
    decision = proposal.decision if proposal else None
    return DecidedBody(
        proposal_id=proposal_id,
        state=proposal.state if proposal else None,
        memory_id=decision.memory_id if decision else None,
        error=error,
    )
