"""``/admin/owners``: other owners of the same tenant: counts, the audit, and operations. No text of theirs is shown.

Each operation needs a reason, which the owner's audit shows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Depends, Query, Request
from pydantic import AfterValidator, BaseModel, StringConstraints

from threadkeep.gateway.auth import require
from threadkeep.gateway.bodies import ID_CHARACTERS, RequestBody, Shown, refuse_nul
from threadkeep.gateway.idempotency import IdempotentRoute
from threadkeep.gateway.inputs import ItemId, Limit
from threadkeep.gateway.principals import Principal
from threadkeep.gateway.public_errors import ProblemError
from threadkeep.gateway.routers.me import AuditBody, ErasedBody, audit_body, erased_body
from threadkeep.identity import Owner, owner_of_label

if TYPE_CHECKING:
    from threadkeep.gateway.app import Gateway
    from threadkeep.memories.audited_writer import AuditEntry

router = APIRouter(prefix="/admin/owners", tags=["admin"], route_class=IdempotentRoute)

Administrator = Annotated[Principal, Depends(require("admin"))]


class ReasonBody(RequestBody):
    """Why an administrator acts.

    Attributes:
        reason: Shown in the owner's audit.
    """

    reason: Annotated[
        str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200), AfterValidator(refuse_nul)
    ]


class AccessBody(BaseModel):
    """Whether an owner may use the gateway.

    Attributes:
        label: The owner's label.
        suspended: Whether every request of the owner is refused.
    """

    label: str
    suspended: bool


class OwnerBody(BaseModel):
    """What is held about an owner, counted.

    Attributes:
        label: The owner's label.
        user_id: The user id.
        suspended: Whether every request of the owner is refused.
        opted_out: Whether the owner wants no memory.
        memories: How many memories there are of each kind.
        threads: How many threads there are.
        proposals: How many proposals wait for a decision.
        tombstones: How many statements are not learnt again.
        turns_waiting: How many turns wait to be learnt from.
    """

    label: Shown
    user_id: Shown
    suspended: bool
    opted_out: bool
    memories: dict[str, int]
    threads: int
    proposals: int
    tombstones: int
    turns_waiting: int


@router.get("")
async def find_owner(
    request: Request,
    principal: Administrator,
    user_id: Annotated[str, Query(min_length=1, max_length=ID_CHARACTERS), AfterValidator(refuse_nul)],
) -> OwnerBody:
    """Count what is held about the user of the tenant with this id; of an unknown user that is nothing."""
    return await _counted(request.app.state.gateway, Owner(user_id, principal.owner.tenant))


@router.get("/{label}")
async def show_owner(label: ItemId, request: Request, principal: Administrator) -> OwnerBody:
    """Count what is held about an owner."""
    return await _counted(request.app.state.gateway, _owner(label, principal))


@router.get("/{label}/audit")
async def search_owner_audit(
    label: ItemId,
    request: Request,
    principal: Administrator,
    q: Annotated[str, Query(max_length=200)] = "",
    limit: Limit = 50,
) -> AuditBody:
    """Return who changed what of an owner's memory, newest first; with *q*, the entries with all of its words."""
    owner = _owner(label, principal)
    words = q.lower().split()
    entries = await request.app.state.gateway.tk.for_owner(owner).owners.audit(limit=None if words else limit)
    return audit_body([entry for entry in entries if all(word in _searched(entry) for word in words)][:limit])


@router.post("/{label}/suspend")
async def suspend_owner(label: ItemId, body: ReasonBody, request: Request, principal: Administrator) -> AccessBody:
    """Refuse every request of an owner, and cancel the owner's runs of this process."""
    gateway, owner = request.app.state.gateway, _owner(label, principal)
    await gateway.suspensions.suspend(owner, by=principal.subject, reason=body.reason)
    gateway.runs.cancel_all(owner)
    await gateway.tk.for_owner(owner).owners.note_access("suspended", by=principal.subject, reason=body.reason)
    return AccessBody(label=label, suspended=True)


@router.post("/{label}/restore")
async def restore_owner(label: ItemId, body: ReasonBody, request: Request, principal: Administrator) -> AccessBody:
    """End a suspension."""
    gateway, owner = request.app.state.gateway, _owner(label, principal)
    await gateway.suspensions.restore(owner)
    await gateway.tk.for_owner(owner).owners.note_access("restored", by=principal.subject, reason=body.reason)
    return AccessBody(label=label, suspended=False)


@router.post("/{label}/erase")
async def erase_owner(label: ItemId, body: ReasonBody, request: Request, principal: Administrator) -> ErasedBody:
    """Suspend an owner, and remove everything that is held about them; the new audit begins with the reason."""
    gateway, owner = request.app.state.gateway, _owner(label, principal)
    await gateway.suspensions.suspend(owner, by=principal.subject, reason=body.reason)
    gateway.runs.cancel_all(owner)
    owners = gateway.tk.for_owner(owner).owners
    erased = await owners.erase()
    await owners.note_access("erased", by=principal.subject, reason=body.reason)
    return erased_body(erased)


async def _counted(gateway: Gateway, owner: Owner) -> OwnerBody:
    owners = gateway.tk.for_owner(owner).owners
    holdings = await owners.show()
    return OwnerBody(
        label=owner.label,
        user_id=owner.user_id,
        suspended=await gateway.suspensions.is_suspended(owner),
        opted_out=await owners.opted_out(),
        memories=dict(holdings.memories),
        threads=len(holdings.threads),
        proposals=holdings.proposals,
        tombstones=holdings.tombstones,
        turns_waiting=holdings.turns_waiting,
    )


def _searched(entry: AuditEntry) -> str:
    """Return what a search of the audit compares: the actor, the reason and the changes, in lower case."""
    changes = (f"{change.what} {change.thing} {change.id}" for change in entry.changes)
    return " ".join([entry.by, entry.why, f"{entry.at:%Y-%m-%d}", *changes]).lower()


def _owner(label: str, principal: Principal) -> Owner:
    """Return the owner with this label; those of other tenants are unknown."""
    owner = owner_of_label(label)
    if owner is None or owner.tenant != principal.owner.tenant:
        raise ProblemError(404, "owner_not_found", "There is no owner with this label.")
    return owner
