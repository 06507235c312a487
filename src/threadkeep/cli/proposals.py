"""``threadkeep proposals``: what waits for a decision, and what must not be learnt again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, get_args

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
    counted,
    emit,
    full_id,
    location_of,
    named,
    plain,
    read,
    run,
)
from threadkeep.errors import InvalidInputError
from threadkeep.identity import Owner, owner_of_user

if TYPE_CHECKING:
    from threadkeep.client import Threadkeep
    from threadkeep.proposals.models import DecisionResult, Policy, Proposal, State, Tombstone

app = typer.Typer(
    cls=CommandGroup,
    help="List and decide proposals: changes to a user's memory that wait for approval.",
    no_args_is_help=True,
)

_MOST: Final = 100_000
"""How many proposals are read to find one by the first characters of its id."""

Keys = Annotated[
    list[str] | None,
    typer.Argument(
        help="Ids of proposals, as `list` shows them, or their first characters, 4 or more.", metavar="PROPOSAL_ID..."
    ),
]
All = Annotated[bool, typer.Option("--all", help="Every proposal that waits.")]
Key = Annotated[
    str,
    typer.Argument(
        help="The proposal's id, as `list` shows it, or its first characters, 4 or more.", metavar="PROPOSAL_ID"
    ),
]
By = Annotated[str | None, typer.Option(help="The person who decides; unset: the user.", show_default=False)]
Comment = Annotated[str | None, typer.Option(help="A comment, stored with the decision.", show_default=False)]


@app.command("list")
def list_(
    user: User = DEFAULT_USER,
    tenant: Tenant = "",
    state: Annotated[str, typer.Option(help="pending, approved, rejected, expired or all.")] = "pending",
    limit: Annotated[int, typer.Option(min=1)] = 50,
    offset: Annotated[int, typer.Option(min=0)] = 0,
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """List proposals, newest first."""
    owner = owner_of_user(user, tenant)
    proposals = read(
        lambda tk: tk.proposals.list(owner=owner, state=state_of(state), limit=limit, offset=offset), data_dir
    )
    empty = f"No proposals of {named(owner)} are pending." if state == "pending" else "No proposals found."
    emit(proposals, map(proposal_line, proposals) if proposals else [empty], json=json)


@app.command()
def show(
    proposal_id: Key, user: User = DEFAULT_USER, tenant: Tenant = "", data_dir: DataDir = None, *, json: Json = False
) -> None:
    """Show one proposal: its change, its sources and its decision."""
    owner = owner_of_user(user, tenant)

    async def require(tk: Threadkeep) -> Proposal:
        (full,) = await _full_ids(tk, [proposal_id], owner)
        return await tk.proposals.require(full, owner=owner)

    proposal = read(require, data_dir)
    lines = [proposal_line(proposal)]
    for source in proposal.sources:
        thread = f" in thread {plain(source.thread_id)}" if source.thread_id else ""
        lines.append(f"  from {source.speaker}{thread}")
    expiry = f"; expires {proposal.expires_at:%Y-%m-%d}" if proposal.state == "pending" else ""
    lines.append(f"  because: {plain(proposal.reason)}{expiry}")
    emit(proposal, lines, json=json)


@app.command()
def approve(
    proposal_ids: Keys = None,
    user: User = DEFAULT_USER,
    tenant: Tenant = "",
    by: By = None,
    comment: Comment = None,
    data_dir: DataDir = None,
    *,
    everything: All = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Approve proposals and make their changes."""
    owner = owner_of_user(user, tenant)
    keys = _keys(proposal_ids, owner, data_dir, everything=everything, yes=yes, approved=True)
    _decide(keys, owner, by, comment, data_dir, approved=True, json=json)


@app.command()
def reject(
    proposal_ids: Keys = None,
    user: User = DEFAULT_USER,
    tenant: Tenant = "",
    by: By = None,
    comment: Comment = None,
    data_dir: DataDir = None,
    *,
    everything: All = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Reject proposals; their statements are not learnt again."""
    owner = owner_of_user(user, tenant)
    keys = _keys(proposal_ids, owner, data_dir, everything=everything, yes=yes, approved=False)
    _decide(keys, owner, by, comment, data_dir, approved=False, json=json)


@app.command()
def edit(
    proposal_id: Key,
    text: str,
    user: User = DEFAULT_USER,
    tenant: Tenant = "",
    by: By = None,
    comment: Comment = None,
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """Approve a proposal with another text."""
    owner = owner_of_user(user, tenant)

    async def edited(tk: Threadkeep) -> Proposal:
        (full,) = await _full_ids(tk, [proposal_id], owner)
        return await tk.proposals.edit(full, text, owner=owner, by=by, comment=comment)

    proposal = run(edited, data_dir)
    emit(proposal, [proposal_line(proposal)], json=json)


@app.command()
def tombstones(user: User = DEFAULT_USER, tenant: Tenant = "", data_dir: DataDir = None, *, json: Json = False) -> None:
    """List rejected and forgotten statements, which are not learnt again; forgotten ones have no text."""
    owner = owner_of_user(user, tenant)
    tombstones = read(lambda tk: tk.proposals.tombstones(owner), data_dir)
    lines = map(_tombstone_line, tombstones) if tombstones else ["Everything may be learnt."]
    emit([_row(tombstone) for tombstone in tombstones], lines, json=json)


@app.command()
def lift(
    tombstone_id: Annotated[str, typer.Argument(help="Its id, as `tombstones` shows it, or its first characters.")],
    user: User = DEFAULT_USER,
    tenant: Tenant = "",
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """Remove a tombstone, so that the statement can be learnt again."""
    owner = owner_of_user(user, tenant)

    async def lifted(tk: Threadkeep) -> bool:
        ids = [tombstone.tombstone_id for tombstone in await tk.proposals.tombstones(owner)]
        return await tk.proposals.lift(full_id(tombstone_id, ids, noun="tombstones"), owner=owner)

    if not run(lifted, data_dir):
        msg = f"Tombstone {tombstone_id[:80]!r} was not found; list the tombstones."
        raise InvalidInputError(msg)
    emit({"lifted": tombstone_id}, [f"Lifted {tombstone_id}"], json=json)


@app.command()
def contradictions(
    user: User = DEFAULT_USER, tenant: Tenant = "", data_dir: DataDir = None, *, json: Json = False
) -> None:
    """Ask which of two facts counts, where a newer one probably replaces an older one; each pair once."""
    owner = owner_of_user(user, tenant)
    asked = run(lambda tk: tk.proposals.ask_contradictions(owner=owner), data_dir)
    found = [one.proposal for one in asked if one.proposal is not None]
    emit(found, map(proposal_line, found) if found else ["Nothing new contradicts."], json=json)


@app.command()
def policy(
    rules: Annotated[
        str | None,
        typer.Argument(help='The user\'s own rules, such as "tool=never"; "" takes them away.', show_default=False),
    ] = None,
    user: User = DEFAULT_USER,
    tenant: Tenant = "",
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """Show, or set for a user, which statements are kept (auto), proposed (ask) or dropped (never)."""
    owner = owner_of_user(user, tenant)
    from threadkeep.memories.models import Speaker

    async def policies(tk: Threadkeep) -> tuple[Policy, list[str]]:
        policy = tk.proposals.policy(owner) if rules is None else tk.proposals.set_policy(rules, owner=owner)
        return await policy, [kind.name for kind in tk.kinds]

    policy, kinds = read(policies, data_dir) if rules is None else run(policies, data_dir, creates=True)
    table = {speaker: {kind: policy.verdict(kind, speaker) for kind in kinds} for speaker in get_args(Speaker)}
    lines = (
        f"{speaker:<10} {', '.join(f'{kind}: {verdict}' for kind, verdict in verdicts.items())}"
        for speaker, verdicts in table.items()
    )
    emit(table, lines, json=json)


def _keys(
    proposal_ids: list[str] | None, owner: Owner, data_dir: DataDir, *, everything: bool, yes: bool, approved: bool
) -> list[str]:
    """Return the ids that are given, or with *everything* those of all that wait, once the user agrees."""
    if everything == bool(proposal_ids):
        msg = "The proposals are missing: name some, or give --all for every one that waits."
        raise typer.BadParameter(msg)
    if proposal_ids:
        return proposal_ids

    async def list_confirmed(tk: Threadkeep) -> list[str]:
        waiting = await tk.proposals.list(owner=owner, limit=_MOST)
        verb = "Approve" if approved else "Reject"
        confirm(f"{verb} {counted(len(waiting), 'proposals')} of {named(owner)}, in {location_of(tk)}?", yes=yes)
        return [proposal.proposal_id for proposal in waiting]

    return read(list_confirmed, data_dir)


def _decide(
    proposal_ids: list[str],
    owner: Owner,
    by: str | None,
    comment: str | None,
    data_dir: DataDir,
    *,
    approved: bool,
    json: bool,
) -> None:
    from threadkeep.proposals.models import Choice

    async def decided(tk: Threadkeep) -> list[DecisionResult]:
        ids = await _full_ids(tk, proposal_ids, owner)
        choices = [Choice(key, approve=approved, comment=comment) for key in ids]
        return await tk.proposals.decide(choices, owner=owner, by=by)

    results = run(decided, data_dir)
    emit(
        [result.proposal or {"proposal_id": result.proposal_id, "error": str(result.error)} for result in results],
        [proposal_line(result.proposal) for result in results if result.proposal is not None],
        json=json,
    )
    for result in results:
        if result.error is not None:
            raise result.error


async def _full_ids(tk: Threadkeep, prefixes: list[str], owner: Owner) -> list[str]:
    """Return the ids of the proposals that each of *prefixes* is, or begins."""
    if all([await tk.proposals.get(prefix, owner=owner) for prefix in prefixes]):
        return prefixes
    ids = [one.proposal_id for one in await tk.proposals.list(owner=owner, state=None, limit=_MOST)]
    return [full_id(prefix, ids, noun="proposals") for prefix in prefixes]


def proposal_line(proposal: Proposal) -> str:
    """Return a proposal on one line."""
    what = {"add": "remember", "correct": f"change {proposal.memory_id} to", "forget": f"forget {proposal.memory_id}"}
    what["supersede"] = f"end “{plain(proposal.base_text or proposal.memory_id)}”, replaced by"
    decision = proposal.decision
    text = plain(decision.text if decision and decision.text else proposal.text)
    state = f"{proposal.state} by {plain(decision.by)}" if decision else proposal.state
    line = f"{proposal.proposal_id}  {proposal.created_at:%Y-%m-%d}  [{state}] {what[proposal.action]}: {text}"
    return f"{line} (said by {proposal.trust}, {proposal.kind})"


def _tombstone_line(tombstone: Tombstone) -> str:
    until = f", until {tombstone.expires_at:%Y-%m-%d}" if tombstone.expires_at else ""
    text = plain(tombstone.text) if tombstone.text else "(forgotten: no text is kept)"
    made = f"{tombstone.at:%Y-%m-%d}  {tombstone.cause} by {plain(tombstone.by)}{until}"
    return f"{tombstone.tombstone_id}  {made}  {text}"


def _row(tombstone: Tombstone) -> dict[str, object]:
    return {
        "tombstone_id": tombstone.tombstone_id,
        "cause": tombstone.cause,
        "text": tombstone.text,
        "at": tombstone.at,
        "by": tombstone.by,
        "expires_at": tombstone.expires_at,
    }


def state_of(name: str) -> State | None:
    """Return the state called *name*; ``None``: every state.

    Raises:
        InvalidInputError: There is none.
    """
    from threadkeep.errors import InvalidInputError
    from threadkeep.proposals.models import State

    state = next((state for state in get_args(State) if state == name), None)
    if state is None and name != "all":
        msg = f"--state is one of {', '.join(get_args(State))} or all, not {name[:40]!r}."
        raise InvalidInputError(msg)
    return state
