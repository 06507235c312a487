"""``threadkeep memories``: see, correct and remove what is remembered."""

from __future__ import annotations

import json as json_values
import sys
from collections.abc import Callable, Coroutine, Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from zipfile import BadZipFile, ZipFile, is_zipfile

import typer

from threadkeep.cli.output import (
    DEFAULT_USER,
    CommandGroup,
    DataDir,
    Json,
    Output,
    Tenant,
    User,
    Yes,
    confirm,
    emit,
    full_id,
    is_stream,
    location_of,
    named,
    plain,
    read,
    run,
    write_rows,
)
from threadkeep.errors import InvalidInputError
from threadkeep.identity import Owner, owner_of_user

if TYPE_CHECKING:
    from threadkeep.client import Threadkeep
    from threadkeep.memories.models import Forgotten, Memory, Source, Undone, Why

T = TypeVar("T")

app = typer.Typer(
    cls=CommandGroup, help="See, correct and remove what is remembered about a user.", no_args_is_help=True
)

MemoryKey = Annotated[
    str, typer.Argument(help="The memory's id, as `list` shows it, or its first characters, 4 or more.")
]
ApprovedBy = Annotated[
    str | None,
    typer.Option(help="The person who approved it; required for a statement about how to behave.", show_default=False),
]
Kind = Annotated[
    str | None,
    typer.Option(help="Only semantic, episodic or procedural ones, or of a kind of your own.", show_default=False),
]
Tags = Annotated[
    list[str] | None, typer.Option("--tag", help="Only with this tag; may be repeated: with all.", show_default=False)
]
AnyTags = Annotated[
    list[str] | None,
    typer.Option("--any-tag", help="Only with one of these tags; may be repeated.", show_default=False),
]
Metadata = Annotated[
    list[str] | None,
    typer.Option(
        "--metadata", help="Only with this NAME=VALUE; may be repeated. VALUE is JSON or text.", show_default=False
    ),
]
NewTags = Annotated[list[str] | None, typer.Option("--tag", help="A tag; may be repeated.", show_default=False)]
NewMetadata = Annotated[
    list[str] | None,
    typer.Option("--metadata", help="NAME=VALUE; may be repeated. VALUE is JSON or text.", show_default=False),
]


@app.command("list")
def list_(
    user: User = DEFAULT_USER,
    tenant: Tenant = "",
    kind: Kind = None,
    tag: Tags = None,
    any_tag: AnyTags = None,
    metadata: Metadata = None,
    limit: Annotated[int, typer.Option(min=1)] = 50,
    offset: Annotated[int, typer.Option(min=0)] = 0,
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """List memories, most recently changed first."""
    owner = owner_of_user(user, tenant)
    wanted = _labels(tag, any_tag, metadata)
    memories = read(lambda tk: tk.memories.list(owner=owner, kind=kind, limit=limit, offset=offset, **wanted), data_dir)
    lines = map(_line, memories) if memories else [f"Nothing is remembered about {named(owner)}."]
    emit(memories, lines, json=json)


@app.command()
def search(
    query: str,
    user: User = DEFAULT_USER,
    tenant: Tenant = "",
    kind: Kind = None,
    tag: Tags = None,
    any_tag: AnyTags = None,
    metadata: Metadata = None,
    limit: Annotated[int, typer.Option(min=1)] = 10,
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """Search memories by words and meaning, best first."""
    owner = owner_of_user(user, tenant)
    if not query.strip():
        msg = "The query is empty: pass words to search for, or run threadkeep memories list."
        raise InvalidInputError(msg)
    wanted = _labels(tag, any_tag, metadata)
    results = run(lambda tk: tk.memories.search(query, owner=owner, kind=kind, limit=limit, **wanted), data_dir)
    lines = (_line(result.memory, score=result.score) for result in results)
    emit(results, lines if results else ["Nothing matches."], json=json)


@app.command()
def show(
    memory_id: MemoryKey,
    user: User = DEFAULT_USER,
    tenant: Tenant = "",
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """Show one memory with its sources and earlier versions."""
    owner = owner_of_user(user, tenant)
    memory = read(_with_id(memory_id, owner, lambda tk, one: tk.memories.require(one, owner=owner)), data_dir)
    pinned = ", pinned" if memory.pinned else ""
    lines = [
        plain(memory.text),
        f"  {memory.kind}, {memory.status}, revision {memory.revision}{pinned}{_labelled(memory)}",
        *(f"  said by {_origin(source)}" for source in memory.sources),
        *(f"  until {old.replaced_at:%Y-%m-%d %H:%M}: {plain(old.text)}" for old in memory.history),
    ]
    emit(memory, lines, json=json)


@app.command()
def kinds(data_dir: DataDir = None, *, json: Json = False) -> None:
    """List the kinds of memory: the built-in ones, and those that THREADKEEP_KINDS declares."""

    async def known(tk: Threadkeep) -> list[dict[str, object]]:
        return [one.shown() for one in tk.kinds]

    found = read(known, data_dir)
    emit(found, (f"{one['name']:<16} {one['description']}" for one in found), json=json)


@app.command()
def add(
    text: str,
    user: User = DEFAULT_USER,
    tenant: Tenant = "",
    kind: Annotated[str, typer.Option(help="semantic, episodic, procedural, or a kind of your own.")] = "semantic",
    tag: NewTags = None,
    metadata: NewMetadata = None,
    data_dir: DataDir = None,
    *,
    pin: Annotated[bool, typer.Option(help="Never let it expire.")] = False,
    approved_by: ApprovedBy = None,
    json: Json = False,
) -> None:
    """Remember a statement; a statement about how to behave becomes a proposal."""
    owner = owner_of_user(user, tenant)
    result = run(
        lambda tk: tk.memories.remember(
            text,
            owner=owner,
            kind=kind,
            pinned=pin,
            approved_by=approved_by,
            tags=tag or (),
            metadata=_metadata(metadata),
        ),
        data_dir,
        creates=True,
    )
    messages = {
        "accepted": f"Remembered as {result.memory_id}",
        "duplicate": f"Known already as {result.memory_id}",
        "proposed": f"Proposed as {result.proposal_id}; threadkeep proposals approve lets it be remembered",
        "rejected": f"Not remembered: {result.reason}",
    }
    emit(result, [messages[result.status]], json=json)


@app.command()
def correct(
    memory_id: MemoryKey,
    text: str,
    user: User = DEFAULT_USER,
    tenant: Tenant = "",
    data_dir: DataDir = None,
    *,
    approved_by: ApprovedBy = None,
    json: Json = False,
) -> None:
    """Replace the text of a memory; the earlier text stays in its history."""
    owner = owner_of_user(user, tenant)
    memory = run(
        _with_id(
            memory_id, owner, lambda tk, one: tk.memories.correct(one, text, owner=owner, approved_by=approved_by)
        ),
        data_dir,
    )
    emit(memory, [f"Corrected {memory.memory_id}"], json=json)


@app.command()
def forget(
    memory_id: MemoryKey,
    user: User = DEFAULT_USER,
    tenant: Tenant = "",
    data_dir: DataDir = None,
    *,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Remove a memory with its history and what was derived from it. It cannot be undone."""
    owner = owner_of_user(user, tenant)

    async def forget_confirmed(tk: Threadkeep, memory_id: str) -> Forgotten:
        memory = await tk.memories.require(memory_id, owner=owner)
        others = len((await tk.memories.forget(memory_id, owner=owner, dry=True)).memory_ids) - 1
        along = f" and {others} that came from it or hold it" if others else ""
        confirm(f"Forget “{plain(memory.text)}”{along} of {named(owner)} in {location_of(tk)}?", yes=yes)
        return await tk.memories.forget(memory_id, owner=owner)

    result = run(_with_id(memory_id, owner, forget_confirmed), data_dir)
    lines = [
        f"Removed {len(result.memory_ids)}: {', '.join(result.memory_ids)}",
        *(f"  still in {_origin(source)}; delete that thread to remove it there" for source in result.still_in),
    ]
    emit(result, lines, json=json)


@app.command()
def pin(
    memory_id: MemoryKey,
    user: User = DEFAULT_USER,
    tenant: Tenant = "",
    data_dir: DataDir = None,
    *,
    undo: Annotated[bool, typer.Option("--undo", help="Let it expire again.")] = False,
    json: Json = False,
) -> None:
    """Keep a memory from expiring."""
    owner = owner_of_user(user, tenant)
    memory = run(
        _with_id(memory_id, owner, lambda tk, one: tk.memories.pin(one, owner=owner, pinned=not undo)), data_dir
    )
    emit(memory, [f"{'Pinned' if memory.pinned else 'No longer pinned'}: {memory.memory_id}"], json=json)


@app.command()
def label(
    memory_id: MemoryKey,
    user: User = DEFAULT_USER,
    tenant: Tenant = "",
    tag: NewTags = None,
    metadata: NewMetadata = None,
    data_dir: DataDir = None,
    *,
    no_tags: Annotated[bool, typer.Option("--no-tags", help="Remove all tags.")] = False,
    no_metadata: Annotated[bool, typer.Option("--no-metadata", help="Remove all metadata.")] = False,
    json: Json = False,
) -> None:
    """Replace the tags or the metadata of a memory."""
    owner = owner_of_user(user, tenant)
    tags = [] if no_tags else tag
    values = {} if no_metadata else None if metadata is None else _metadata(metadata)
    change = _with_id(memory_id, owner, lambda tk, one: tk.memories.label(one, owner=owner, tags=tags, metadata=values))
    memory = run(change, data_dir)
    emit(memory, [f"Labelled {memory.memory_id}{_labelled(memory)}"], json=json)


@app.command()
def history(
    memory_id: MemoryKey,
    user: User = DEFAULT_USER,
    tenant: Tenant = "",
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """Show the versions of a memory, oldest first."""
    owner = owner_of_user(user, tenant)
    memory = read(_with_id(memory_id, owner, lambda tk, one: tk.memories.require(one, owner=owner)), data_dir)
    until = f"until {memory.valid_to:%Y-%m-%d %H:%M}" if memory.valid_to else "now"
    lines = [
        *(f"until {old.replaced_at:%Y-%m-%d %H:%M}  {plain(old.text)}" for old in memory.history),
        f"{until:<22}  {plain(memory.text)}",
    ]
    emit(memory.history, lines, json=json)


@app.command()
def why(
    memory_id: MemoryKey,
    user: User = DEFAULT_USER,
    tenant: Tenant = "",
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """Show why something is remembered: thread, message, date, approver and changes."""
    owner = owner_of_user(user, tenant)
    report = read(_with_id(memory_id, owner, lambda tk, one: tk.memories.why(one, owner=owner)), data_dir)
    emit(report, _why_lines(report), json=json)


@app.command()
def undo(
    last: Annotated[int, typer.Option("--last", "-n", min=1, help="How many changes.")] = 1,
    user: User = DEFAULT_USER,
    tenant: Tenant = "",
    data_dir: DataDir = None,
    *,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Undo the last changes of memories; what they added is removed, a forgotten memory stays forgotten."""
    owner = owner_of_user(user, tenant)

    async def undo_confirmed(tk: Threadkeep) -> Undone:
        confirm(f"Undo the last {last:,} changes of {named(owner)} in {location_of(tk)}?", yes=yes)
        return await tk.memories.undo(last, owner=owner)

    result = run(undo_confirmed, data_dir)
    lines = [
        f"{len(result.numbers)} changes undone: {len(result.memory_ids)} as before, {len(result.removed)} gone.",
        *(f"  {memory_id} is left: {reason}" for memory_id, reason in result.left.items()),
    ]
    emit(result, lines, json=json)


@app.command()
def consolidate(
    user: User = DEFAULT_USER,
    tenant: Tenant = "",
    data_dir: DataDir = None,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List what would be merged, and change nothing.")] = False,
    json: Json = False,
) -> None:
    """Merge memories with the same meaning; `undo` can restore them for thirty days."""
    owner = owner_of_user(user, tenant)
    merges = run(lambda tk: tk.memories.consolidate(owner=owner, dry=dry_run), data_dir)
    lines: list[str] = []
    for merge in merges:
        lines.append(f"{merge.kept.memory_id}  {plain(merge.kept.text)}")
        lines += [f"  stands for {memory.memory_id}: {plain(memory.text)}" for memory in merge.gone]
    verb = "would be" if dry_run else "were"
    emit(merges, [*lines, f"{sum(len(merge.gone) for merge in merges)} {verb} merged."], json=json)


@app.command()
def reflect(
    user: User = DEFAULT_USER,
    tenant: Tenant = "",
    days: Annotated[int, typer.Option(min=0, help="The least age of an episode, in days.")] = 30,
    data_dir: DataDir = None,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List what would be written, and change nothing.")] = False,
    json: Json = False,
) -> None:
    """Summarize old episodes by thread and month; nothing is removed."""
    owner = owner_of_user(user, tenant)
    age = timedelta(days=days)
    made = run(lambda tk: tk.memories.reflect(owner=owner, older_than=age, dry=dry_run), data_dir)
    lines = [f"{one.memory_id}  {one.month}  {plain(one.text)} ({len(one.derived_from)} episodes)" for one in made]
    verb = "would be" if dry_run else "were"
    emit(made, [*lines, f"{len(made)} summaries {verb} written."], json=json)


@app.command()
def tidy(
    user: User = DEFAULT_USER,
    tenant: Tenant = "",
    data_dir: DataDir = None,
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List what would be archived, and change nothing.")
    ] = False,
    json: Json = False,
) -> None:
    """Archive memories unused for THREADKEEP_INACTIVE_DAYS, or above THREADKEEP_MAX_MEMORIES_PER_OWNER."""
    owner = owner_of_user(user, tenant)
    report = run(lambda tk: tk.memories.tidy(owner=owner, dry=dry_run), data_dir)
    verb, active = ("would be", "would stay") if dry_run else ("were", "are")
    over = f"; {report.over} too many, all of them pinned, approved or asked about" if report.over else ""
    lines = [
        *(
            f"{memory.memory_id}  {plain(memory.text)} [{archived.reason}, last used {archived.used_at:%Y-%m-%d}]"
            for memory, archived in report.archived
        ),
        f"{len(report.archived)} {verb} archived, {report.active} {active} active{over}.",
    ]
    emit(report, lines, json=json)


@app.command()
def restore(
    memory_id: MemoryKey,
    user: User = DEFAULT_USER,
    tenant: Tenant = "",
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """Restore an archived or merged memory, so that it is recalled again."""
    owner = owner_of_user(user, tenant)
    memory = run(_with_id(memory_id, owner, lambda tk, one: tk.memories.restore(one, owner=owner)), data_dir)
    emit(memory, [f"Recalled again: {memory.memory_id}"], json=json)


@app.command("import")
def import_(
    file: Annotated[
        Path,
        typer.Argument(
            help="JSON Lines: of an export, or objects with a text; or the ZIP file or folder that "
            "threadkeep owners export writes; - is standard input."
        ),
    ],
    user: User = DEFAULT_USER,
    tenant: Tenant = "",
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """Import memories with their ids; repeating it changes nothing. The exit code is 1 if a line is invalid."""
    owner = owner_of_user(user, tenant)
    source = "standard input" if is_stream(file) else str(file)
    try:
        content = sys.stdin.buffer.read() if is_stream(file) else _exported(file)
        text = content.decode("utf-8")
    except (OSError, ValueError, KeyError, BadZipFile) as error:
        msg = f"{source} cannot be read ({type(error).__name__}); pass JSON Lines in UTF-8, or an export."
        raise InvalidInputError(msg) from error
    result = run(lambda tk: tk.memories.import_lines(text, owner=owner), data_dir, creates=True)
    summary = (
        f"{len(result.memory_ids)} new, {len(result.duplicates)} there already, {len(result.refused)} refused, "
        f"{len(result.proposal_ids)} wait for approval, {result.left_out} lines are no memories."
    )
    problems = (*result.refused.items(), *result.faults.items())
    emit(result, [summary, *(f"  line {number}: {plain(reason)}" for number, reason in problems)], json=json)
    if result.faults:
        raise typer.Exit(1)


@app.command()
def export(
    user: User = DEFAULT_USER,
    tenant: Tenant = "",
    output: Output = None,
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """Write the memories as JSON Lines, one memory a line (with or without --json)."""
    owner = owner_of_user(user, tenant)
    del json  # the output is JSON Lines in any case

    async def walk(tk: Threadkeep) -> list[Memory]:
        return [memory async for memory in tk.memories.walk(owner=owner)]

    write_rows(output, read(walk, data_dir), noun="memories")


def _with_id(
    prefix: str, owner: Owner, work: Callable[[Threadkeep, str], Coroutine[Any, Any, T]]
) -> Callable[[Threadkeep], Coroutine[Any, Any, T]]:
    """Return *work* for the memory with an id that is *prefix* or begins with it."""

    async def found(tk: Threadkeep) -> T:
        if await tk.memories.get(prefix, owner=owner) is not None:
            return await work(tk, prefix)
        ids = [memory.memory_id async for memory in tk.memories.walk(owner=owner)]
        return await work(tk, full_id(prefix, ids, noun="memories"))

    return found


def _line(memory: Memory, *, score: float | None = None) -> str:
    shown = "" if score is None else f"{score:.2f}  "
    state = "" if memory.status == "active" and memory.valid_to is None else f" [{_status(memory)}]"
    return f"{memory.memory_id}  {shown}{memory.created_at:%Y-%m-%d}  {memory.kind:<10}  {plain(memory.text)}{state}"


def _why_lines(report: Why) -> Iterator[str]:
    memory = report.memory
    yield plain(memory.text)
    for source in memory.sources:
        yield f"  said by {_origin(source)}"
    if report.used_at is not None:
        yield f"  used last {report.used_at:%Y-%m-%d}"
    if memory.archived is not None:
        yield f"  {_status(memory)}"
    if memory.approval is not None:
        yield f"  approved by {plain(memory.approval.by)}, {memory.approval.at:%Y-%m-%d %H:%M}"
    for source_memory in report.derived_from:
        yield f"  made of {source_memory.memory_id}: {plain(source_memory.text)}"
    for duplicate in report.merged:
        yield f"  stands for {duplicate.memory_id}: {plain(duplicate.text)}"
    for entry in report.told:
        what = ", ".join(change.what for change in entry.changes if change.id == memory.memory_id)
        reason = f" ({plain(entry.why)})" if entry.why else ""
        yield f"  {what} by {plain(entry.by)}, {entry.at:%Y-%m-%d %H:%M}{reason}"


def _status(memory: Memory) -> str:
    if memory.archived is None:
        return memory.status
    return f"archived {memory.archived.at:%Y-%m-%d}: {memory.archived.reason}"


def _origin(source: Source) -> str:
    thread = f" in thread {plain(source.thread_id)}" if source.thread_id else ""
    message = f", message {plain(source.message_id)}" if source.message_id else ""
    date = f", {source.at:%Y-%m-%d %H:%M}" if source.at else ""
    return f"{source.speaker}{thread}{message}{date}"


def _labelled(memory: Memory) -> str:
    """Return the tags and metadata of *memory* for people."""
    values = [f"{name}={value}" for name, value in memory.metadata.items()]
    return "".join(f", {plain(one)}" for one in (*(f"#{tag}" for tag in memory.tags), *values))


def _labels(tags: list[str] | None, any_tags: list[str] | None, metadata: list[str] | None) -> dict[str, Any]:
    return {"tags": tags or (), "any_tags": any_tags or (), "metadata": _metadata(metadata)}


def _metadata(pairs: list[str] | None) -> dict[str, Any]:
    """Return NAME=VALUE pairs as metadata; a value that is no JSON is a text."""
    values: dict[str, Any] = {}
    for pair in pairs or ():
        name, separator, text = pair.partition("=")
        if not separator:
            msg = f"--metadata is {pair[:40]!r}; write NAME=VALUE."
            raise InvalidInputError(msg)
        try:
            values[name] = json_values.loads(text)
        except ValueError:
            values[name] = text
    return values


def _exported(file: Path) -> bytes:
    """Read *file*, or the lines in it where it is the ZIP file or the folder of an export."""
    from threadkeep.owners.service import ROWS_FILE

    if file.is_dir():
        return (file / ROWS_FILE).read_bytes()
    if not is_zipfile(file):
        return file.read_bytes()
    with ZipFile(file) as archive:
        return archive.read(ROWS_FILE)
