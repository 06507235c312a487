"""``threadkeep proposals``: what waits for a decision, and what must not be learnt again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from threadkeep.cli.output import DEFAULT_USER, DataDir, Json, User, out, plain, print_json, read, run

if TYPE_CHECKING:
    from threadkeep.proposals.models import Proposal, State, Tombstone

app = typer.Typer(help="Decide on what is proposed to be remembered about a user.", no_args_is_help=True)

Keys = Annotated[list[str], typer.Argument(help="Ids of proposals, as `list` shows them.", metavar="PROPOSAL_ID...")]
Key = Annotated[str, typer.Argument(help="The proposal's id, as `list` shows it.", metavar="PROPOSAL_ID")]
By = Annotated[str | None, typer.Option(help="Who decides; unset: the user.", show_default=False)]
Comment = Annotated[str | None, typer.Option(help="What there is to say to it.", show_default=False)]


@app.command("list")
def list_(
    user: User = DEFAULT_USER,
    state: Annotated[str, typer.Option(help="pending, approved, rejected, expired or all.")] = "pending",
    limit: Annotated[int, typer.Option(min=1)] = 50,
    offset: Annotated[int, typer.Option(min=0)] = 0,
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """List proposals, newest first."""
    found = read(lambda tk: tk.proposals.list(owner=user, state=_state(state), limit=limit, offset=offset), data_dir)
    if json:
        print_json(found)
        return
    if not found:
        out.print(f"Nothing waits for {plain(user)}." if state == "pending" else "There is none.", markup=False)
    for proposal in found:
        _show(proposal)


@app.command()
def show(proposal_id: Key, user: User = DEFAULT_USER, data_dir: DataDir = None, *, json: Json = False) -> None:
    """Show one proposal: what would be done, where it comes from, and how it was decided."""
    proposal = read(lambda tk: tk.proposals.require(proposal_id, owner=user), data_dir)
    if json:
        print_json(proposal)
        return
    _show(proposal)
    for source in proposal.sources:
        place = f" in thread {plain(source.thread_id)}" if source.thread_id else ""
        out.print(f"  from {source.speaker}{place}", markup=False)
    out.print(f"  because: {plain(proposal.reason)}; expires {proposal.expires_at:%Y-%m-%d}", markup=False)


@app.command()
def approve(
    proposal_ids: Keys,
    user: User = DEFAULT_USER,
    by: By = None,
    comment: Comment = None,
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """Do what was proposed."""
    _decide(proposal_ids, user, by, comment, data_dir, approved=True, json=json)


@app.command()
def reject(
    proposal_ids: Keys,
    user: User = DEFAULT_USER,
    by: By = None,
    comment: Comment = None,
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """Refuse what was proposed; what it says is not learnt again."""
    _decide(proposal_ids, user, by, comment, data_dir, approved=False, json=json)


@app.command()
def edit(
    proposal_id: Key,
    text: str,
    user: User = DEFAULT_USER,
    by: By = None,
    comment: Comment = None,
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """Approve a proposal with another text."""
    proposal = run(lambda tk: tk.proposals.edit(proposal_id, text, owner=user, by=by, comment=comment), data_dir)
    if json:
        print_json(proposal)
        return
    _show(proposal)


@app.command()
def tombstones(user: User = DEFAULT_USER, data_dir: DataDir = None, *, json: Json = False) -> None:
    """List what is not learnt again: rejected statements, and forgotten ones, of which no text is kept."""
    found = read(lambda tk: tk.proposals.tombstones(user), data_dir)
    if json:
        print_json([_row(one) for one in found])
        return
    if not found:
        out.print("Everything may be learnt.", markup=False)
    for one in found:
        until = f", until {one.expires_at:%Y-%m-%d}" if one.expires_at else ""
        text = plain(one.text) if one.text else "(forgotten: no text is kept)"
        out.print(f"{one.tombstone_id}  {one.at:%Y-%m-%d}  {one.cause} by {plain(one.by)}{until}  {text}", markup=False)


@app.command()
def lift(
    tombstone_id: Annotated[str, typer.Argument(help="Its id, as `tombstones` shows it.")],
    user: User = DEFAULT_USER,
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """Let a statement be learnt again."""
    from threadkeep.errors import InvalidInputError

    lifted = run(lambda tk: tk.proposals.lift(tombstone_id, owner=user), data_dir)
    if not lifted:
        msg = f"There is no tombstone {tombstone_id[:80]!r}; list them to see which there are."
        raise InvalidInputError(msg)
    if json:
        print_json({"lifted": tombstone_id})
        return
    out.print(f"Lifted {tombstone_id}", markup=False)


@app.command()
def policy(
    rules: Annotated[
        str | None,
        typer.Argument(help='The user\'s own rules, such as "tool=never"; "" takes them away.', show_default=False),
    ] = None,
    user: User = DEFAULT_USER,
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """Show, or set for a user, what is kept by itself, asked, or never kept."""
    from typing import get_args

    from threadkeep.memories.models import Kind, Speaker

    found = run(
        lambda tk: tk.proposals.policy(user) if rules is None else tk.proposals.set_policy(rules, owner=user),
        data_dir,
        creates=rules is not None,
    )
    table = {who: {kind: found.verdict(kind, who) for kind in get_args(Kind)} for who in get_args(Speaker)}
    if json:
        print_json(table)
        return
    for who, verdicts in table.items():
        out.print(f"{who:<10} {', '.join(f'{kind}: {verdict}' for kind, verdict in verdicts.items())}", markup=False)


def _decide(
    proposal_ids: list[str],
    user: str,
    by: str | None,
    comment: str | None,
    data_dir: DataDir,
    *,
    approved: bool,
    json: bool,
) -> None:
    from threadkeep.proposals.models import Choice

    choices = [Choice(key, approve=approved, comment=comment) for key in proposal_ids]
    done = run(lambda tk: tk.proposals.decide(choices, owner=user, by=by), data_dir)
    if json:
        print_json([one.proposal or {"proposal_id": one.proposal_id, "error": str(one.error)} for one in done])
    else:
        for one in done:
            if one.proposal is not None:
                _show(one.proposal)
    failed = [one.error for one in done if one.error is not None]
    if failed:
        raise failed[0]


def _show(proposal: Proposal) -> None:
    what = {"add": "remember", "correct": f"change {proposal.memory_id} to", "forget": f"forget {proposal.memory_id}"}
    decision = proposal.decision
    said = plain(decision.text if decision and decision.text else proposal.text)
    state = f"{proposal.state} by {plain(decision.by)}" if decision else proposal.state
    line = f"{proposal.proposal_id}  {proposal.created_at:%Y-%m-%d}  [{state}] {what[proposal.action]}: {said}"
    out.print(f"{line} (said by {proposal.trust}, {proposal.kind})", markup=False)


def _row(tombstone: Tombstone) -> dict[str, object]:
    return {
        "tombstone_id": tombstone.tombstone_id,
        "cause": tombstone.cause,
        "text": tombstone.text,
        "at": tombstone.at,
        "by": tombstone.by,
        "expires_at": tombstone.expires_at,
    }


def _state(name: str) -> State | None:
    from typing import get_args

    from threadkeep.errors import InvalidInputError
    from threadkeep.proposals.models import State

    found = next((state for state in get_args(State) if state == name), None)
    if found is None and name != "all":
        msg = f"--state is one of {', '.join(get_args(State))} or all, not {name[:40]!r}."
        raise InvalidInputError(msg)
    return found
