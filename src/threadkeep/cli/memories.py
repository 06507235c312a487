"""``threadkeep memories``: see, correct and remove what is remembered."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from threadkeep.cli.output import (
    DEFAULT_USER,
    DataDir,
    Json,
    Output,
    User,
    Yes,
    confirm,
    give_lines,
    out,
    place_of,
    plain,
    print_json,
    read,
    run,
)
from threadkeep.errors import InvalidInputError

if TYPE_CHECKING:
    from threadkeep.client import Threadkeep
    from threadkeep.memories.models import Forgotten, Memory, Source
    from threadkeep.memories.models import Kind as KindOf

app = typer.Typer(help="See, correct and remove what is remembered about a user.", no_args_is_help=True)

MemoryKey = Annotated[str, typer.Argument(help="The memory's id, as `list` shows it.")]
ApprovedBy = Annotated[
    str | None, typer.Option(help="Who approved it: how to behave is kept only so.", show_default=False)
]
Kind = Annotated[str | None, typer.Option(help="Only semantic, episodic or procedural ones.", show_default=False)]


@app.command("list")
def list_(
    user: User = DEFAULT_USER,
    kind: Kind = None,
    limit: Annotated[int, typer.Option(min=1)] = 50,
    offset: Annotated[int, typer.Option(min=0)] = 0,
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """List memories, most recently changed first."""
    found = read(lambda tk: tk.memories.list(owner=user, kind=_kind(kind), limit=limit, offset=offset), data_dir)
    _show(found, json=json, nothing=f"Nothing is remembered about {plain(user)}.")


@app.command()
def search(
    query: str,
    user: User = DEFAULT_USER,
    kind: Kind = None,
    limit: Annotated[int, typer.Option(min=1)] = 10,
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """Search memories by words and meaning, best first."""
    if not query.strip():
        msg = "There is nothing to search for; threadkeep memories list shows all."
        raise InvalidInputError(msg)
    found = run(lambda tk: tk.memories.search(query, owner=user, kind=_kind(kind), limit=limit), data_dir)
    if json:
        print_json(found)
        return
    _show([r.memory for r in found], json=False, nothing="Nothing matches.", scores=[r.score for r in found])


@app.command()
def show(memory_id: MemoryKey, user: User = DEFAULT_USER, data_dir: DataDir = None, *, json: Json = False) -> None:
    """Show one memory: what it says, where that was said, and what it said before."""
    memory = read(lambda tk: tk.memories.require(memory_id, owner=user), data_dir)
    if json:
        print_json(memory)
        return
    out.print(plain(memory.text), markup=False)
    out.print(f"  {memory.kind}, {memory.status}, revision {memory.revision}{', pinned' if memory.pinned else ''}")
    for source in memory.sources:
        out.print(f"  said by {_said(source)}", markup=False)
    for old in memory.history:
        out.print(f"  until {old.replaced_at:%Y-%m-%d %H:%M}: {plain(old.text)}", markup=False)


@app.command()
def add(
    text: str,
    user: User = DEFAULT_USER,
    kind: Annotated[str, typer.Option(help="semantic, episodic or procedural.")] = "semantic",
    data_dir: DataDir = None,
    *,
    pin: Annotated[bool, typer.Option(help="Never let it expire.")] = False,
    approved_by: ApprovedBy = None,
    json: Json = False,
) -> None:
    """Remember a statement; how to behave is proposed."""
    kept = run(
        lambda tk: tk.memories.remember(
            text, owner=user, kind=_kind(kind) or "semantic", pinned=pin, approved_by=approved_by
        ),
        data_dir,
        creates=True,
    )
    if json:
        print_json(kept)
        return
    match kept.status:
        case "accepted":
            out.print(f"Remembered as {kept.memory_id}")
        case "duplicate":
            out.print(f"Known already as {kept.memory_id}")
        case "proposed":
            out.print(f"Proposed as {kept.proposal_id}; threadkeep proposals approve lets it be remembered")
        case "rejected":
            out.print(f"Not remembered: {kept.reason}", markup=False)


@app.command()
def correct(
    memory_id: MemoryKey,
    text: str,
    user: User = DEFAULT_USER,
    data_dir: DataDir = None,
    *,
    approved_by: ApprovedBy = None,
    json: Json = False,
) -> None:
    """Replace what a memory says; what it said before stays in its history."""
    memory = run(lambda tk: tk.memories.correct(memory_id, text, owner=user, approved_by=approved_by), data_dir)
    if json:
        print_json(memory)
        return
    out.print(f"Corrected {memory.memory_id}")


@app.command()
def forget(
    memory_id: MemoryKey, user: User = DEFAULT_USER, data_dir: DataDir = None, *, yes: Yes = False, json: Json = False
) -> None:
    """Remove a memory with its history and what was derived from it. It cannot be undone."""

    async def confirmed(tk: Threadkeep) -> Forgotten:
        memory = await tk.memories.require(memory_id, owner=user)
        confirm(f"Forget “{plain(memory.text)}” of {plain(user)} in {place_of(tk)}?", yes=yes)
        return await tk.memories.forget(memory_id, owner=user)

    gone = run(confirmed, data_dir)
    if json:
        print_json(gone)
        return
    out.print(f"Removed {len(gone.memory_ids)}: {', '.join(gone.memory_ids)}", markup=False)
    for source in gone.still_in:
        out.print(f"  still in {_said(source)}; delete that thread to remove it there", markup=False)


@app.command()
def pin(
    memory_id: MemoryKey,
    user: User = DEFAULT_USER,
    data_dir: DataDir = None,
    *,
    undo: Annotated[bool, typer.Option("--undo", help="Let it expire again.")] = False,
    json: Json = False,
) -> None:
    """Let a memory never expire."""
    memory = run(lambda tk: tk.memories.pin(memory_id, owner=user, pinned=not undo), data_dir)
    if json:
        print_json(memory)
        return
    out.print(f"{'Pinned' if memory.pinned else 'No longer pinned'}: {memory.memory_id}")


@app.command()
def history(memory_id: MemoryKey, user: User = DEFAULT_USER, data_dir: DataDir = None, *, json: Json = False) -> None:
    """Show what a memory says and what it said before, oldest first."""
    memory = read(lambda tk: tk.memories.require(memory_id, owner=user), data_dir)
    if json:
        print_json(memory.history)
        return
    for old in memory.history:
        out.print(f"until {old.replaced_at:%Y-%m-%d %H:%M}  {plain(old.text)}", markup=False)
    until = f"until {memory.valid_to:%Y-%m-%d %H:%M}" if memory.valid_to else "now"
    out.print(f"{until:<22}  {plain(memory.text)}", markup=False)


@app.command()
def why(memory_id: MemoryKey, user: User = DEFAULT_USER, data_dir: DataDir = None, *, json: Json = False) -> None:
    """Tell why something is remembered: thread, message, date, who approved it, and what was changed."""
    found = read(lambda tk: tk.memories.why(memory_id, owner=user), data_dir)
    if json:
        print_json(found)
        return
    memory = found.memory
    out.print(plain(memory.text), markup=False)
    for source in memory.sources:
        out.print(f"  said by {_said(source)}", markup=False)
    if found.used_at is not None:
        out.print(f"  used last {found.used_at:%Y-%m-%d}")
    if memory.archived is not None:
        out.print(f"  {_standing(memory)}")
    if memory.approval is not None:
        out.print(f"  approved by {plain(memory.approval.by)}, {memory.approval.at:%Y-%m-%d %H:%M}", markup=False)
    for one in found.derived_from:
        out.print(f"  made of {one.memory_id}: {plain(one.text)}", markup=False)
    for one in found.merged:
        out.print(f"  stands for {one.memory_id}: {plain(one.text)}", markup=False)
    for entry in found.told:
        what = ", ".join(change.what for change in entry.changes if change.id == memory.memory_id)
        reason = f" ({plain(entry.why)})" if entry.why else ""
        out.print(f"  {what} by {plain(entry.by)}, {entry.at:%Y-%m-%d %H:%M}{reason}", markup=False)


@app.command()
def undo(
    last: Annotated[int, typer.Option("--last", "-n", min=1, help="How many changes.")] = 1,
    user: User = DEFAULT_USER,
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """Undo the last changes of memories; what was forgotten stays so."""
    done = run(lambda tk: tk.memories.undo(last, owner=user), data_dir)
    if json:
        print_json(done)
        return
    out.print(f"{len(done.numbers)} changes undone: {len(done.memory_ids)} as before, {len(done.removed)} gone.")
    for memory_id, reason in done.left.items():
        out.print(f"  {memory_id} is left: {reason}", markup=False)


@app.command()
def consolidate(
    user: User = DEFAULT_USER,
    data_dir: DataDir = None,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would be merged.")] = False,
    json: Json = False,
) -> None:
    """Merge memories that say the same in other words; `undo` takes it back for thirty days."""
    merges = run(lambda tk: tk.memories.consolidate(owner=user, dry=dry_run), data_dir)
    if json:
        print_json(merges)
        return
    for merge in merges:
        out.print(f"{merge.kept.memory_id}  {plain(merge.kept.text)}", markup=False)
        for one in merge.gone:
            out.print(f"  stands for {one.memory_id}: {plain(one.text)}", markup=False)
    out.print(f"{sum(len(merge.gone) for merge in merges)} {'would be' if dry_run else 'were'} merged.")


@app.command()
def tidy(
    user: User = DEFAULT_USER,
    data_dir: DataDir = None,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would be archived.")] = False,
    json: Json = False,
) -> None:
    """Archive what was not used for THREADKEEP_INACTIVE_DAYS, or is more than THREADKEEP_MAX_MEMORIES_PER_OWNER."""
    done = run(lambda tk: tk.memories.tidy(owner=user, dry=dry_run), data_dir)
    if json:
        print_json(done)
        return
    for memory, archived in done.archived:
        used = f"{archived.reason}, last used {archived.used_at:%Y-%m-%d}"
        out.print(f"{memory.memory_id}  {plain(memory.text)} [{used}]", markup=False)
    over = f"; {done.over} too many, all of them pinned, approved or asked about" if done.over else ""
    what = "would be" if dry_run else "were"
    out.print(f"{len(done.archived)} {what} archived, {done.active} {'would stay' if dry_run else 'are'} active{over}.")


@app.command()
def restore(memory_id: MemoryKey, user: User = DEFAULT_USER, data_dir: DataDir = None, *, json: Json = False) -> None:
    """Let a memory that was archived or merged be recalled again."""
    memory = run(lambda tk: tk.memories.restore(memory_id, owner=user), data_dir)
    if json:
        print_json(memory)
        return
    out.print(f"Recalled again: {memory.memory_id}")


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="JSON Lines: of an export, or objects with a text.")],
    user: User = DEFAULT_USER,
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """Bring in memories; ids are kept, and it may be repeated. The exit code is 1 where a line could not be read."""
    from threadkeep.errors import InvalidInputError

    try:
        lines = file.read_text("utf-8").splitlines()
    except (OSError, ValueError) as error:
        msg = f"{file} cannot be read ({type(error).__name__}); give a file of JSON Lines in UTF-8."
        raise InvalidInputError(msg) from error
    done = run(lambda tk: tk.memories.import_lines(lines, owner=user), data_dir, creates=True)
    if json:
        print_json(done)
    else:
        out.print(
            f"{len(done.memory_ids)} new, {len(done.duplicates)} there already, {len(done.refused)} refused, "
            f"{len(done.proposal_ids)} wait for approval, {done.left_out} lines are no memories."
        )
        for number, reason in (*done.refused.items(), *done.faults.items()):
            out.print(f"  line {number}: {plain(reason)}", markup=False)
    if done.faults:
        raise typer.Exit(1)


@app.command()
def export(
    user: User = DEFAULT_USER,
    output: Output = None,
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """Write the memories as JSON Lines, one memory a line (with or without --json)."""
    del json  # JSON Lines is what this prints in any case

    async def all_of(tk: Threadkeep) -> list[Memory]:
        return [memory async for memory in tk.memories.walk(owner=user)]

    give_lines(output, read(all_of, data_dir), noun="memories")


def _show(memories: Sequence[Memory], *, json: bool, nothing: str, scores: Sequence[float] | None = None) -> None:
    if json:
        print_json(memories)
        return
    if not memories:
        out.print(nothing, markup=False)
        return
    for i, memory in enumerate(memories):
        score = f"{scores[i]:.2f}  " if scores else ""
        state = "" if memory.status == "active" and memory.valid_to is None else f" [{_standing(memory)}]"
        line = (
            f"{memory.memory_id}  {score}{memory.created_at:%Y-%m-%d}  {memory.kind:<10}  {plain(memory.text)}{state}"
        )
        out.print(line, markup=False)


def _standing(memory: Memory) -> str:
    if memory.archived is None:
        return memory.status
    return f"archived {memory.archived.at:%Y-%m-%d}: {memory.archived.reason}"


def _said(source: Source) -> str:
    place = f" in thread {plain(source.thread_id)}" if source.thread_id else ""
    message = f", message {plain(source.message_id)}" if source.message_id else ""
    when = f", {source.at:%Y-%m-%d %H:%M}" if source.at else ""
    return f"{source.speaker}{place}{message}{when}"


def _kind(name: str | None) -> KindOf | None:
    from threadkeep.errors import InvalidInputError
    from threadkeep.memories.models import Kind as KindOf

    found = next((kind for kind in get_args(KindOf) if kind == name), None)
    if name is not None and found is None:
        msg = f"A memory's kind is one of {', '.join(get_args(KindOf))}, not {name[:40]!r}."
        raise InvalidInputError(msg)
    return found
