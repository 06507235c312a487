"""``threadkeep audit``: what was changed about a user, by whom and why, and whether all of it is there."""

from __future__ import annotations

from typing import Annotated

import typer

from threadkeep.cli.output import DEFAULT_USER, DataDir, Json, User, out, plain, print_json, read

app = typer.Typer(
    help="See what was changed about a user, and check that nothing of it is missing.", no_args_is_help=True
)


@app.command("list")
def list_(
    user: User = DEFAULT_USER,
    limit: Annotated[int, typer.Option(min=1)] = 50,
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """List changes, newest first: when, who, what and why."""
    entries = read(lambda tk: tk.owners.audit(user, limit=limit), data_dir)
    if json:
        print_json(entries)
        return
    if not entries:
        out.print(f"Nothing was changed about {plain(user)}.", markup=False)
    for entry in entries:
        why = f"  ({plain(entry.why)})" if entry.why else ""
        out.print(f"{entry.number:>6}  {entry.at:%Y-%m-%d %H:%M}  {plain(entry.by)}{why}", markup=False)
        for change in entry.changes:
            before = f"{change.before} to " if change.before is not None else ""
            out.print(f"        {change.thing} {change.what}: {plain(change.id)}, revision {before}{entry.revision}")


@app.command()
def verify(
    user: User = DEFAULT_USER,
    anchor: Annotated[
        str | None, typer.Option(help="What an earlier check printed: nothing before it may have changed since.")
    ] = None,
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """Check that no entry was changed, taken out or put in; the exit code is 1 where one was."""
    found = read(lambda tk: tk.owners.verify_audit(user, anchor=anchor), data_dir)
    if json:
        print_json(found)
    elif found.fault is not None:
        out.print(f"The audit of {plain(user)} does not hold: {found.fault}.", markup=False)
    else:
        out.print(f"{found.entries} entries of {plain(user)} hold. Note this: {found.anchor}", markup=False)
    if found.untold and not json:
        out.print(
            f"  {len(found.untold)} memories are told of by no entry: {', '.join(found.untold[:5])}", markup=False
        )
    if found.fault is not None:
        raise typer.Exit(1)
