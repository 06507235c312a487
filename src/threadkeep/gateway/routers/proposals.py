"""``/proposals`` and ``/tombstones``: what waits for a decision of the user, and what is not learnt again."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from threadkeep import Choice, Tombstone
from threadkeep.gateway.bodies import (
    ID_CHARACTERS,
    Comment,
    DecidedBody,
    ProposalBody,
    RequestBody,
    Shown,
    State,
    Statement,
    decided_body,
    proposal_body,
)
from threadkeep.gateway.idempotency import IdempotentRoute
from threadkeep.gateway.inputs import Cursor, ItemId, Limit, Reader, Reviewer
from threadkeep.gateway.pagination import ListPage
from threadkeep.gateway.public_errors import ProblemError

router = APIRouter(tags=["proposals"], route_class=IdempotentRoute)


class ProposalsBody(BaseModel):
    """A page of proposals, newest first.

    Attributes:
        proposals: The proposals.
        cursor: What to pass for the next page; ``None``: this is the last one.
    """

    proposals: list[ProposalBody]
    cursor: str | None


class DecisionBody(RequestBody):
    """A decision.

    Attributes:
        approve: Whether the change is made; else the statement is not learnt again.
        text: What is approved instead of what was proposed.
        comment: Kept with the decision.
    """

    approve: bool
    text: Statement | None = None
    comment: Comment | None = None


class ChoiceBody(DecisionBody):
    """A decision on one of several proposals.

    Attributes:
        proposal_id: The proposal.
    """

    proposal_id: str = Field(min_length=1, max_length=ID_CHARACTERS)


class ChoicesBody(RequestBody):
    """Decisions.

    Attributes:
        choices: At most 100.
    """

    choices: list[ChoiceBody] = Field(min_length=1, max_length=100)


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
    """A page of tombstones, newest first.

    Attributes:
        tombstones: The tombstones.
        cursor: What to pass for the next page; ``None``: this is the last one.
    """

    tombstones: list[TombstoneBody]
    cursor: str | None


@router.get("/proposals")
async def list_proposals(
    user: Reader,
    limit: Limit = 50,
    cursor: Cursor = None,
    state: Annotated[State | Literal["all"], Query()] = "pending",
) -> ProposalsBody:
    """List the proposals of the user, newest first."""
    rows = partial(user.tk.proposals.list, state=None if state == "all" else state)
    found, more = await user.page(rows, "proposals", state, cursor=cursor, limit=limit)
    return ProposalsBody(proposals=[proposal_body(one) for one in found], cursor=more)


@router.post("/proposals/decide")
async def decide_proposals(body: ChoicesBody, user: Reviewer) -> DecisionsBody:
    """Decide on several proposals; an error of one stops no other."""
    choices = [Choice(one.proposal_id, one.approve, one.text, one.comment) for one in body.choices]
    results = await user.tk.proposals.decide(choices, by=user.principal.subject)
    return DecisionsBody(
        decided=[decided_body(one.proposal_id, one.proposal, one.error.code if one.error else None) for one in results]
    )


@router.get("/proposals/{proposal_id}")
async def show_proposal(proposal_id: ItemId, user: Reader) -> ProposalBody:
    """Return a proposal."""
    return proposal_body(await user.tk.proposals.require(proposal_id))


@router.post("/proposals/{proposal_id}/decide")
async def decide_proposal(proposal_id: ItemId, body: DecisionBody, user: Reviewer) -> DecidedBody:
    """Approve or reject a proposal."""
    proposals, by = user.tk.proposals, user.principal.subject
    if not body.approve:
        proposal = await proposals.reject(proposal_id, by=by, comment=body.comment)
    elif body.text is not None:
        proposal = await proposals.edit(proposal_id, body.text, by=by, comment=body.comment)
    else:
        proposal = await proposals.approve(proposal_id, by=by, comment=body.comment)
    return decided_body(proposal_id, proposal)


@router.get("/tombstones")
async def list_tombstones(user: Reader, limit: Limit = 50, cursor: Cursor = None) -> TombstonesBody:
    """List the statements that are not learnt again, newest first."""

    async def rows(*, limit: int, cursor: str | None) -> ListPage[Tombstone]:
        return ListPage(await user.tk.proposals.tombstones(), _place, limit=limit, cursor=cursor)

    found, more = await user.page(rows, "tombstones", cursor=cursor, limit=limit)
    return TombstonesBody(
        tombstones=[
            TombstoneBody(
                tombstone_id=one.tombstone_id, cause=one.cause, text=one.text, at=one.at, expires_at=one.expires_at
            )
            for one in found
        ],
        cursor=more,
    )


def _place(tombstone: Tombstone) -> str:
    return f"{tombstone.at.astimezone(UTC).isoformat(timespec='microseconds')} {tombstone.tombstone_id}"


@router.delete("/tombstones/{tombstone_id}", status_code=204)
async def lift_tombstone(tombstone_id: ItemId, user: Reviewer) -> None:
    """Let a statement be learnt again."""
    if not await user.tk.proposals.lift(tombstone_id):
        raise ProblemError(404, "tombstone_not_found", "The tombstone was not found.")
