"""``threadkeep owners``: everything that is held about a user."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from threadkeep.cli.memories import give_lines
from threadkeep.cli.output import DEFAULT_USER, DataDir, Json, User, out, plain, print_json, run

if TYPE_CHECKING:
    from threadkeep.library import Threadkeep

app = typer.Typer(help="Show, export or erase everything that is held about a user.", no_args_is_help=True)


@app.command()
def show(user: User = DEFAULT_USER, data_dir: DataDir = None, *, json: Json = False) -> None:
    """Count what is held about a user."""
    held = run(lambda tk: tk.owners.show(user), data_dir)
    if json:
        print_json(held)
        return
    out.print(f"{plain(user)}: {sum(held.memories.values())} memories", markup=False)
    for kind, count in sorted(held.memories.items()):
        out.print(f"  {kind}: {count}", markup=False)
    out.print(f"  summaries: {held.summaries}")
    out.print(f"  turns waiting to be learnt from: {held.turns_waiting} (learnt from: {held.turns_seen})")
    out.print(f"  proposals: {held.proposals}")
    out.print(f"  threads: {', '.join(map(plain, held.threads)) or 'none'}", markup=False)


@app.command()
def export(
    user: User = DEFAULT_USER,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write; unset: standard output.")
    ] = None,
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """Write everything that is held as JSON Lines (with or without --json)."""
    del json

    async def all_of(tk: Threadkeep) -> list[dict[str, Any]]:
        return [row async for row in tk.owners.export(user)]

    give_lines(output, run(all_of, data_dir), noun="lines")


@app.command()
def erase(
    user: Annotated[str, typer.Option("--user", "-u", help="Whom to erase; must be given.")],
    data_dir: DataDir = None,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    json: Json = False,
) -> None:
    """Remove everything that is held about a user, threads included. It cannot be undone."""
    if not yes:
        typer.confirm(f"Erase everything about {plain(user)}?", abort=True, err=True)
    gone = run(lambda tk: tk.owners.erase(user), data_dir)
    if json:
        print_json(gone)
        return
    out.print(f"Erased {gone.items} rows and {len(gone.threads)} threads of {plain(user)}.", markup=False)
    counts = ", ".join(f"{what}: {number}" for what, number in sorted(gone.counts.items()) if number)
    out.print(f"  {counts or 'nothing was held'}; receipt {gone.receipt_id} in {' and '.join(gone.kept_in)}")


@app.command("replay-erasures")
def replay_erasures(
    receipts: Annotated[
        list[Path] | None, typer.Option("--receipts", help="Further receipts, from other machines; repeatable.")
    ] = None,
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """Erase again whoever was erased and came back with a backup. Run it after each restore, before anything else."""
    done = run(lambda tk: tk.owners.replay_erasures(*(receipts or ())), data_dir)
    if json:
        print_json(done)
        return
    out.print(f"{done.receipts} receipts, {done.looked_at} owners: erased {len(done.erased)} again.")
    if done.strange:
        out.print(f"  {done.strange} receipts were made with another key; set THREADKEEP_ERASURE_KEY to it and repeat.")


@app.command("erasure-receipts")
def erasure_receipts(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write; unset: standard output.")
    ] = None,
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """Write the receipts of all erasures as JSON Lines (with or without --json): to be kept apart from backups."""
    del json
    give_lines(output, run(lambda tk: tk.owners.erasure_receipts(), data_dir), noun="receipts")
