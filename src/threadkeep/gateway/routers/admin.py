"""``/admin``: operations on other owners of the same tenant. Each needs a reason, which the owner's audit shows."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from threadkeep.gateway.auth import require
from threadkeep.gateway.bodies import refuse_nul
from threadkeep.gateway.idempotency import IdempotentRoute
from threadkeep.gateway.inputs import ItemId
from threadkeep.gateway.principals import Principal
from threadkeep.gateway.problems import ProblemError
from threadkeep.gateway.routers.me import ErasedBody, erased_body
from threadkeep.identity import Owner, owner_of_label

router = APIRouter(prefix="/admin/owners", tags=["admin"], route_class=IdempotentRoute)

Administrator = Annotated[Principal, Depends(require("admin"))]


class ReasonBody(BaseModel):
    """Why an administrator acts.

    Attributes:
        reason: Shown in the owner's audit.
    """

    model_config = ConfigDict(extra="forbid")

    reason: Annotated[str, Field(min_length=1, max_length=200), AfterValidator(refuse_nul)]


class AccessBody(BaseModel):
    """Whether an owner may use the gateway.

    Attributes:
        label: The owner's label.
        suspended: Whether every request of the owner is refused.
    """

    label: str
    suspended: bool


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


def _owner(label: str, principal: Principal) -> Owner:
    """Return the owner with this label; those of other tenants are unknown."""
    owner = owner_of_label(label)
    if owner is None or owner.tenant != principal.owner.tenant:
        raise ProblemError(404, "owner_not_found", "There is no owner with this label.")
    return owner
