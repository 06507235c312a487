"""``threadkeep owners``: everything that is held about a user."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from threadkeep.cli.output import (
    DEFAULT_USER,
    DataDir,
    Json,
    Output,
    User,
    Yes,
    as_lines,
    confirm,
    give_lines,
    may_be_written,
    new_file,
    out,
    place_of,
    plain,
    print_json,
    read,
    run,
)

if TYPE_CHECKING:
    from threadkeep.client import Threadkeep
    from threadkeep.owners.models import Erased, Replayed

app = typer.Typer(help="Show, export or erase everything that is held about a user.", no_args_is_help=True)


@app.command()
def show(user: User = DEFAULT_USER, data_dir: DataDir = None, *, json: Json = False) -> None:
    """Count what is held about a user."""
    held = read(lambda tk: tk.owners.show(user), data_dir)
    if json:
        print_json(held)
        return
    out.print(f"{plain(user)}: {sum(held.memories.values())} memories", markup=False)
    for kind, count in sorted(held.memories.items()):
        out.print(f"  {kind}: {count}", markup=False)
    for status, count in sorted(held.aside.items()):
        out.print(f"  of these {status}, not recalled, gone in time: {count}")
    if held.most is not None:
        out.print(f"  active: {sum(held.memories.values()) - sum(held.aside.values())} of at most {held.most}")
    if held.inactive_days is not None:
        out.print(f"  archived after {held.inactive_days:g} days without use")
    out.print(f"  summaries: {held.summaries}")
    out.print(f"  turns waiting to be learnt from: {held.turns_waiting} (learnt from: {held.turns_seen})")
    out.print(f"  proposals: {held.proposals}")
    out.print(f"  threads: {', '.join(map(plain, held.threads)) or 'none'}", markup=False)


@app.command()
def export(
    user: User = DEFAULT_USER,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="File to write; a .zip or a folder gets a README, too; unset: standard output."
        ),
    ] = None,
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """Write everything that is held as JSON Lines (with or without --json), messages of threads included."""
    del json

    async def all_of(tk: Threadkeep) -> list[dict[str, Any]]:
        return [row async for row in tk.owners.export(user)]

    rows = read(all_of, data_dir)
    if output is not None and output.suffix in ("", ".zip"):
        _pack(output, rows)
        out.print(f"{len(rows)} lines and a README written to {output}", markup=False)
        return
    give_lines(output, rows, noun="lines")


@app.command("opt-out")
def opt_out(
    user: Annotated[str, typer.Option("--user", "-u", help="Who wants no memory; must be given.")],
    thread: Annotated[str | None, typer.Option(help="In this thread only.", show_default=False)] = None,
    data_dir: DataDir = None,
    *,
    undo: Annotated[bool, typer.Option("--undo", help="Recall and learn again.")] = False,
    json: Json = False,
) -> None:
    """Recall and learn nothing of a user from now on, or nothing in one thread. What is remembered stays."""
    run(lambda tk: tk.owners.opt_out(user, thread_id=thread, out=not undo), data_dir, creates=True)
    if json:
        print_json({"user_id": user, "thread_id": thread, "opted_out": not undo})
        return
    where = f" in thread {plain(thread)}" if thread is not None else ""
    out.print(f"Memory of {plain(user)} is {'on' if undo else 'off'}{where}.", markup=False)


def _pack(output: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write *rows* and a README into a new folder, or a new zip file; for their owner alone."""
    import zipfile

    from threadkeep.owners.service import README

    if output.suffix == ".zip":
        with new_file(output) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
            packed.writestr("README.md", README)
            packed.writestr("export.jsonl", as_lines(rows))
        return
    with may_be_written(output):
        output.mkdir(mode=0o700)
        (output / "README.md").write_text(README, "utf-8")
        (output / "export.jsonl").write_text(as_lines(rows), "ascii")


@app.command()
def erase(
    user: Annotated[str, typer.Option("--user", "-u", help="Whom to erase; must be given.")],
    data_dir: DataDir = None,
    *,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Remove everything that is held about a user, threads included. It cannot be undone."""

    async def confirmed(tk: Threadkeep) -> Erased:
        held = await tk.owners.show(user)
        what = f"{sum(held.memories.values()):,} memories and {len(held.threads):,} threads"
        confirm(f"Erase everything about {plain(user)} ({what}) in {place_of(tk)}?", yes=yes)
        return await tk.owners.erase(user)

    gone = run(confirmed, data_dir)
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
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Erase again every owner that a restored backup brought back. Run it after each restore, before anything else."""

    async def confirmed(tk: Threadkeep) -> Replayed:
        known = len(await tk.owners.erasure_receipts())
        confirm(f"Erase the owners of {known:,} receipts again in {place_of(tk)}?", yes=yes)
        return await tk.owners.replay_erasures(*(receipts or ()))

    done = run(confirmed, data_dir)
    if json:
        print_json(done)
        return
    out.print(f"{done.receipts} receipts, {done.looked_at} owners: erased {len(done.erased)} again.")
    if done.strange:
        out.print(f"  {done.strange} receipts were made with another key; set THREADKEEP_ERASURE_KEY to it and repeat.")


@app.command("erasure-receipts")
def erasure_receipts(
    output: Output = None,
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """Write the receipts of all erasures as JSON Lines (with or without --json): to be kept apart from backups."""
    del json
    give_lines(output, read(lambda tk: tk.owners.erasure_receipts(), data_dir), noun="receipts")
