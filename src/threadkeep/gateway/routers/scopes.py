"""``/scopes``: the shared memory of teams and agents in which the user has a role."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from threadkeep.errors import InvalidInputError
from threadkeep.gateway.bodies import (
    ID_CHARACTERS,
    DecidedBody,
    ForgottenBody,
    FoundMemoriesBody,
    Kind,
    RequestBody,
    Shown,
    State,
    Statement,
    decided_body,
    forgotten_body,
    found_body,
    memory_body,
    proposal_body,
)
from threadkeep.gateway.idempotency import IdempotentRoute
from threadkeep.gateway.inputs import Cursor, GatewayUser, ItemId, Limit, Reader, Reviewer, Writer
from threadkeep.gateway.routers.memories import MemoriesBody
from threadkeep.gateway.routers.proposals import DecisionBody, ProposalsBody
from threadkeep.identity import Owner

router = APIRouter(prefix="/scopes", tags=["scopes"], route_class=IdempotentRoute)

ScopeKind = Literal["team", "agent"]
Role = Literal["read", "propose", "review"]
Reason = Annotated[str, Field(max_length=1_000)]


class ScopeBody(BaseModel):
    """A scope in which the user has a role.

    Attributes:
        kind: ``team`` or ``agent``.
        name: Its name.
        role: What the user may do; each role includes those before it.
        since: When the role was granted.
    """

    kind: ScopeKind
    name: Shown
    role: Role
    since: datetime


class ScopesBody(BaseModel):
    """The scopes in which the user has a role.

    Attributes:
        scopes: The scopes.
    """

    scopes: list[ScopeBody]


class ContributionBody(RequestBody):
    """What is proposed to a scope: a statement, or a memory of the user, which keeps its sources.

    Attributes:
        text: The statement.
        memory_id: The memory.
        kind: The kind of the statement.
        reason: Shown to the person who decides.
    """

    text: Statement | None = None
    memory_id: str | None = Field(default=None, min_length=1, max_length=ID_CHARACTERS)
    kind: Kind = "semantic"
    reason: Reason = ""


class ContributedBody(BaseModel):
    """What became of a contribution.

    Attributes:
        status: ``proposed``, ``approved`` (by the scope's policy), ``duplicate`` or ``rejected``.
        proposal_id: The proposal; null: there is none.
    """

    status: Literal["proposed", "approved", "duplicate", "rejected"]
    proposal_id: str | None


@router.get("")
async def list_scopes(user: Reader) -> ScopesBody:
    """Return the scopes in which the user has a role."""
    found = await user.tk.scopes.of()
    return ScopesBody(
        scopes=[
            ScopeBody(kind=one.scope.kind, name=one.scope.user_id, role=one.role, since=one.since)
            for one in found
            if one.role is not None and one.scope.kind != "user"
        ]
    )


@router.get("/{kind}/{name}/memories")
async def list_scope_memories(
    kind: ScopeKind, name: ItemId, user: Reader, limit: Limit = 50, cursor: Cursor = None
) -> MemoriesBody:
    """List the memories of a scope, most recently changed first."""
    rows = partial(user.tk.scopes.memories, _scope(kind, name, user))
    found, more = await user.page(rows, "scope memories", kind, name, cursor=cursor, limit=limit)
    return MemoriesBody(memories=[memory_body(one) for one in found], cursor=more)


@router.get("/{kind}/{name}/memories/search")
async def search_scope_memories(
    kind: ScopeKind,
    name: ItemId,
    user: Reader,
    q: Annotated[str, Query(min_length=1, max_length=2_000)],
    limit: Limit = 10,
) -> FoundMemoriesBody:
    """Return the memories of a scope that are most like *q*, best first."""
    scopes = user.tk.scopes
    return found_body(await scopes.search(_scope(kind, name, user), q, limit=limit))


@router.delete("/{kind}/{name}/memories/{memory_id}")
async def forget_scope_memory(kind: ScopeKind, name: ItemId, memory_id: ItemId, user: Reviewer) -> ForgottenBody:
    """Remove a memory of a scope, as a reviewer; it is not learnt again."""
    scopes = user.tk.scopes
    return forgotten_body(await scopes.forget(_scope(kind, name, user), memory_id))


@router.get("/{kind}/{name}/proposals")
async def list_scope_proposals(
    kind: ScopeKind,
    name: ItemId,
    user: Reviewer,
    limit: Limit = 50,
    cursor: Cursor = None,
    state: Annotated[State | Literal["all"], Query()] = "pending",
) -> ProposalsBody:
    """List the proposals to a scope, newest first, for a reviewer."""
    rows = partial(
        user.tk.scopes.proposals,
        _scope(kind, name, user),
        state=None if state == "all" else state,
    )
    found, more = await user.page(rows, "scope proposals", kind, name, state, cursor=cursor, limit=limit)
    return ProposalsBody(proposals=[proposal_body(one) for one in found], cursor=more)


@router.post("/{kind}/{name}/proposals")
async def contribute(kind: ScopeKind, name: ItemId, body: ContributionBody, user: Writer) -> ContributedBody:
    """Propose a statement to a scope, or promote a memory of the user."""
    scopes, scope = user.tk.scopes, _scope(kind, name, user)
    if (body.text is None) is (body.memory_id is None):
        msg = "The contribution needs either text or memory_id."
        raise InvalidInputError(msg)
    if body.memory_id is not None:
        proposed = await scopes.promote(scope, body.memory_id)
    else:
        proposed = await scopes.propose(scope, body.text or "", kind=body.kind, reason=body.reason)
    return ContributedBody(
        status=proposed.status, proposal_id=proposed.proposal.proposal_id if proposed.proposal else None
    )


@router.post("/{kind}/{name}/proposals/{proposal_id}/decide")
async def decide_scope_proposal(
    kind: ScopeKind, name: ItemId, proposal_id: ItemId, body: DecisionBody, user: Reviewer
) -> DecidedBody:
    """Approve or reject a proposal to a scope, as a reviewer."""
    scopes, scope = user.tk.scopes, _scope(kind, name, user)
    if body.approve:
        proposal = await scopes.approve(scope, proposal_id, text=body.text, comment=body.comment)
    else:
        proposal = await scopes.reject(scope, proposal_id, comment=body.comment)
    return decided_body(proposal_id, proposal)


def _scope(kind: ScopeKind, name: str, user: GatewayUser) -> Owner:
    """Return a scope of the user's tenant."""
    return Owner(name, user.owner.tenant, kind=kind)
