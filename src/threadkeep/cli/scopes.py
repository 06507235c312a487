"""``threadkeep scopes``: memory that users share: teams and agents, their members, and what members contribute."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast, get_args

import typer

from threadkeep.cli.output import (
    DEFAULT_USER,
    CommandGroup,
    DataDir,
    Json,
    Tenant,
    User,
    Yes,
    confirm,
    emit,
    full_id,
    location_of,
    named,
    plain,
    read,
    run,
)
from threadkeep.cli.proposals import Comment, Key, proposal_line, state_of
from threadkeep.errors import InvalidInputError
from threadkeep.identity import Owner, OwnerKind, owner_of_user

if TYPE_CHECKING:
    from threadkeep.client import Threadkeep
    from threadkeep.memories.models import Memory
    from threadkeep.owners.models import Erased
    from threadkeep.proposals.models import Proposal, Proposed
    from threadkeep.scopes.models import Membership, Role

app = typer.Typer(
    cls=CommandGroup,
    help="Share memory: teams and agents, the roles of their members, and proposals to them.",
    no_args_is_help=True,
)

_MOST = 100_000


def _scope(text: str, tenant: str) -> Owner:
    kind, colon, name = text.partition(":")
    if not colon or kind not in get_args(OwnerKind) or kind == "user":
        msg = f"A scope is team:NAME or agent:NAME, got {text[:40]!r}."
        raise InvalidInputError(msg)
    return Owner(name, tenant, cast("OwnerKind", kind))


Scope = Annotated[str, typer.Argument(help="The scope: team:NAME or agent:NAME.", metavar="SCOPE")]
Member = Annotated[str, typer.Argument(help="The user who gets or loses the role.", metavar="USER")]


@app.command("list")
def list_(tenant: Tenant = "", data_dir: DataDir = None, *, json: Json = False) -> None:
    """List the scopes."""
    scopes = read(lambda tk: tk.scopes.list(tenant=tenant), data_dir)
    lines = [f"{one.scope.kind}:{plain(one.scope.user_id)}  since {one.created_at:%Y-%m-%d}" for one in scopes]
    emit(scopes, lines or ["There are no scopes."], json=json)


@app.command()
def create(scope: Scope, tenant: Tenant = "", data_dir: DataDir = None, *, json: Json = False) -> None:
    """Create a scope. `threadkeep owners erase` does not remove one; `scopes erase` does."""
    made = run(lambda tk: tk.scopes.create(_scope(scope, tenant)), data_dir, creates=True)
    emit(made, [f"Created {scope}"], json=json)


@app.command()
def erase(scope: Scope, tenant: Tenant = "", data_dir: DataDir = None, *, yes: Yes = False, json: Json = False) -> None:
    """Remove a scope with everything that it remembers; what its members know themselves stays."""
    owner = _scope(scope, tenant)

    async def erase_confirmed(tk: Threadkeep) -> Erased:
        confirm(f"Remove {owner.kind}:{named(owner)} with all its memories, in {location_of(tk)}?", yes=yes)
        return await tk.owners.erase(owner)

    erased = run(erase_confirmed, data_dir)
    emit(erased, [f"Erased {scope}: {erased.items} items"], json=json)


@app.command()
def grant(
    scope: Scope,
    member: Member,
    role: Annotated[str, typer.Option(help="read, propose or review; each may do what those before it may.")] = "read",
    tenant: Tenant = "",
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """Give a user a role in a scope."""
    granted = run(lambda tk: tk.scopes.grant(_scope(scope, tenant), member, role=cast("Role", role)), data_dir)
    emit(granted, [_member_line(granted)], json=json)


@app.command()
def revoke(scope: Scope, member: Member, tenant: Tenant = "", data_dir: DataDir = None, *, json: Json = False) -> None:
    """Take a user's role away. What the user contributed stays; erasing the user removes it."""
    revoked = run(lambda tk: tk.scopes.revoke(_scope(scope, tenant), member), data_dir)
    emit(revoked, [_member_line(revoked)], json=json)


@app.command()
def members(scope: Scope, tenant: Tenant = "", data_dir: DataDir = None, *, json: Json = False) -> None:
    """List who has a role in a scope, or had one."""
    found = read(lambda tk: tk.scopes.members(_scope(scope, tenant)), data_dir)
    emit(found, [_member_line(one) for one in found] or [f"{scope} has no members."], json=json)


@app.command()
def memories(
    scope: Scope,
    user: User = DEFAULT_USER,
    tenant: Tenant = "",
    limit: Annotated[int, typer.Option(min=1)] = 50,
    offset: Annotated[int, typer.Option(min=0)] = 0,
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """List the memories of a scope, as a user who may read it."""
    owner = owner_of_user(user, tenant)
    found = read(
        lambda tk: tk.scopes.memories(_scope(scope, tenant), owner=owner, limit=limit, offset=offset), data_dir
    )
    emit(found, [_memory_line(one) for one in found] or [f"{scope} remembers nothing."], json=json)


@app.command()
def propose(
    scope: Scope,
    text: Annotated[str, typer.Argument(help="The statement.")],
    user: User = DEFAULT_USER,
    tenant: Tenant = "",
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """Propose a statement to a scope, as a user who may."""
    owner = owner_of_user(user, tenant)
    proposed = run(lambda tk: tk.scopes.propose(_scope(scope, tenant), text, owner=owner), data_dir)
    emit(proposed, [_proposed_line(proposed)], json=json)


@app.command()
def promote(
    scope: Scope,
    memory_id: Annotated[str, typer.Argument(help="The memory's id, or its first characters.", metavar="MEMORY_ID")],
    user: User = DEFAULT_USER,
    tenant: Tenant = "",
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """Propose one of a user's memories to a scope; it keeps its sources."""
    owner = owner_of_user(user, tenant)

    async def promoted(tk: Threadkeep) -> Proposed:
        ids = [one.memory_id async for one in tk.memories.walk(owner=owner)]
        return await tk.scopes.promote(_scope(scope, tenant), full_id(memory_id, ids, noun="memories"), owner=owner)

    proposed = run(promoted, data_dir)
    emit(proposed, [_proposed_line(proposed)], json=json)


@app.command()
def proposals(
    scope: Scope,
    user: User = DEFAULT_USER,
    tenant: Tenant = "",
    state: Annotated[str, typer.Option(help="pending, approved, rejected, expired or all.")] = "pending",
    limit: Annotated[int, typer.Option(min=1)] = 50,
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """List the proposals to a scope, as a user who reviews them."""
    owner = owner_of_user(user, tenant)
    wanted = state_of(state)
    found = read(
        lambda tk: tk.scopes.proposals(_scope(scope, tenant), owner=owner, state=wanted, limit=limit), data_dir
    )
    emit(found, [proposal_line(one) for one in found] or [f"No proposals to {scope} found."], json=json)


@app.command()
def approve(
    scope: Scope,
    proposal_id: Key,
    user: User = DEFAULT_USER,
    tenant: Tenant = "",
    text: Annotated[str | None, typer.Option(help="Another text to approve instead.", show_default=False)] = None,
    comment: Comment = None,
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """Approve a proposal to a scope, as a user who reviews them."""
    owner = owner_of_user(user, tenant)

    async def approved(tk: Threadkeep) -> Proposal:
        full = await _full_proposal_id(tk, _scope(scope, tenant), proposal_id, owner)
        return await tk.scopes.approve(_scope(scope, tenant), full, owner=owner, text=text, comment=comment)

    proposal = run(approved, data_dir)
    emit(proposal, [proposal_line(proposal)], json=json)


@app.command()
def reject(
    scope: Scope,
    proposal_id: Key,
    user: User = DEFAULT_USER,
    tenant: Tenant = "",
    comment: Comment = None,
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """Reject a proposal to a scope, as a user who reviews them."""
    owner = owner_of_user(user, tenant)

    async def rejected(tk: Threadkeep) -> Proposal:
        full = await _full_proposal_id(tk, _scope(scope, tenant), proposal_id, owner)
        return await tk.scopes.reject(_scope(scope, tenant), full, owner=owner, comment=comment)

    proposal = run(rejected, data_dir)
    emit(proposal, [proposal_line(proposal)], json=json)


async def _full_proposal_id(tk: Threadkeep, scope: Owner, prefix: str, owner: Owner) -> str:
    known = await tk.scopes.proposals(scope, owner=owner, state=None, limit=_MOST)
    return full_id(prefix, [one.proposal_id for one in known], noun="proposals")


def _member_line(membership: Membership) -> str:
    return f"{plain(membership.member.user_id)}  {membership.role or 'no role'}  since {membership.since:%Y-%m-%d}"


def _memory_line(memory: Memory) -> str:
    authors = ", ".join(dict.fromkeys(plain(one.author) for one in memory.sources if one.author is not None))
    said = f"said by {authors}" if authors else f"from {memory.trust}"
    approved = f", approved by {plain(memory.approval.by)}" if memory.approval is not None else ""
    return f"{memory.memory_id}  {memory.updated_at:%Y-%m-%d}  {plain(memory.text)} ({said}{approved})"


def _proposed_line(proposed: Proposed) -> str:
    if proposed.proposal is not None:
        return f"{proposed.status}: {proposal_line(proposed.proposal)}"
    return f"{proposed.status}: {proposed.reason or ''}"
