"""``threadkeep threads`` and ``conversations``: threads of a user, and exports of other programs to learn from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

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
    load_settings,
    location_of,
    missing_database,
    named,
    optional_owner,
    plain,
    progress,
    read,
    run,
    visible,
)
from threadkeep.errors import InvalidInputError
from threadkeep.identity import Owner, owner_of_user

if TYPE_CHECKING:
    from threadkeep.client import Threadkeep
    from threadkeep.langgraph.threads import ImportedThread, Pruned, Thread, ThreadSummary
    from threadkeep.models.base import Message
    from threadkeep.transfer.conversation_exports import ConversationImport
    from threadkeep.transfer.thread_moves import ThreadMove
    from threadkeep.transfer.threads import CopiedThread

app = typer.Typer(cls=CommandGroup, help="See, prune, copy, import and delete threads.", no_args_is_help=True)
conversations_app = typer.Typer(
    cls=CommandGroup, help="Learn from conversations with other programs.", no_args_is_help=True
)

Id = Annotated[
    str,
    typer.Argument(
        help="The thread's id, as `list` shows it, or its first characters, 4 or more.", metavar="THREAD_ID"
    ),
]
Ids = Annotated[
    list[str] | None, typer.Argument(help="Ids of threads, as `list` shows them.", metavar="[THREAD_ID...]")
]
_COUNTED: Final = 1_000
"""How many threads are counted for a question."""

Days = Annotated[
    float | None, typer.Option(help="Only threads without a run for so many days.", min=0, show_default=False)
]


Mapping = Annotated[
    Path | None,
    typer.Option(
        help='A JSON file with the owner of each thread: `{"thread id": "user id"}`; null leaves it.',
        show_default=False,
    ),
]
OwnerKey = Annotated[
    str | None,
    typer.Option(help="The key of the checkpoints' metadata that names the owner, if no client writes it."),
]


@app.command("list")
def list_(
    user: User = DEFAULT_USER,
    tenant: Tenant = "",
    older_than_days: Days = None,
    title: Annotated[str, typer.Option(help="Only threads with all of these words in their title.")] = "",
    limit: Annotated[int, typer.Option(min=1)] = 50,
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """List threads, the last turn first."""
    owner = owner_of_user(user, tenant)
    rested = _days(older_than_days)
    threads = read(lambda tk: tk.threads.list(owner, older_than=rested, title=title, limit=limit), data_dir)
    of_these = " with this title" if title else ""
    empty = f"{named(owner)} has no threads{of_these}{' that rested so long' if older_than_days else ''}."
    emit(threads, map(_summary_line, threads) if threads else [empty], json=json)


@app.command()
def show(
    thread_id: Id, user: User = DEFAULT_USER, tenant: Tenant = "", data_dir: DataDir = None, *, json: Json = False
) -> None:
    """Print a thread's conversation and size."""
    owner = owner_of_user(user, tenant)

    async def shown(tk: Threadkeep) -> tuple[Thread, list[Message]]:
        thread = await tk.threads.require(await _full_id(tk, thread_id, owner), owner=owner)
        return thread, await tk.threads.messages(thread.thread_id, owner=owner)

    thread, messages = read(shown, data_dir)
    row = {"thread_id": thread.thread_id, "stats": thread.stats, "messages": messages}
    emit(row, [_line(thread), *(line for message in messages for line in _message_lines(message))], json=json)


@app.command()
def stats(user: User = DEFAULT_USER, tenant: Tenant = "", data_dir: DataDir = None, *, json: Json = False) -> None:
    """Show the total size of all threads."""
    owner = owner_of_user(user, tenant)
    total = read(lambda tk: tk.threads.stats(owner), data_dir)
    emit(total, [f"{total.checkpoints:,} checkpoints, {total.size_bytes:,} bytes"], json=json)


@app.command()
def fork(
    thread_id: Id,
    to: Annotated[str, typer.Argument(help="The new thread's id.", metavar="NEW_ID")],
    checkpoint: Annotated[
        str | None, typer.Option(help="The checkpoint to begin at; unset: the newest.", show_default=False)
    ] = None,
    user: User = DEFAULT_USER,
    tenant: Tenant = "",
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """Begin a new thread at a checkpoint of another thread, with its history."""
    owner = owner_of_user(user, tenant)

    async def forked(tk: Threadkeep) -> Thread:
        full = await _full_id(tk, thread_id, owner)
        return await tk.threads.fork(full, to, checkpoint_id=checkpoint, owner=owner)

    thread = run(forked, data_dir)
    emit(thread, [_line(thread)], json=json)


@app.command()
def prune(
    thread_ids: Ids = None,
    latest: Annotated[int, typer.Option(help="How many of the newest checkpoints stay.", min=1)] = 1,
    keep_since: Annotated[
        str | None,
        typer.Option(
            help="Keep checkpoints from this time on: `2026-11-22` or `2026-11-22T09:30+01:00`; UTC without a zone.",
            show_default=False,
        ),
    ] = None,
    keep_interrupted: Annotated[bool, typer.Option(help="Keep ends of branches that wait for an answer.")] = True,
    older_than_days: Days = None,
    user: User = DEFAULT_USER,
    tenant: Tenant = "",
    data_dir: DataDir = None,
    *,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Remove old checkpoints of these threads, or of all threads; the newest of each stays."""
    owner = owner_of_user(user, tenant)
    since, rested = _time(keep_since), _days(older_than_days)

    async def prune_confirmed(tk: Threadkeep) -> Sequence[Pruned]:
        which = await _selection(tk, thread_ids, owner, rested)
        confirm(f"Remove old checkpoints of {which}, in {location_of(tk)}?", yes=yes)
        return await tk.threads.prune(
            thread_ids or None,
            owner=owner,
            latest=latest,
            since=since,
            waiting=keep_interrupted,
            older_than=rested,
        )

    results = run(prune_confirmed, data_dir)
    emit(results, map(_pruned_line, results), json=json)


@app.command()
def delete(
    thread_ids: Ids = None,
    older_than_days: Days = None,
    user: User = DEFAULT_USER,
    tenant: Tenant = "",
    data_dir: DataDir = None,
    *,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Delete threads with all their checkpoints; memories stay. It cannot be undone."""
    owner = owner_of_user(user, tenant)
    rested = _days(older_than_days)

    async def delete_confirmed(tk: Threadkeep) -> Sequence[str]:
        which = await _selection(tk, thread_ids, owner, rested)
        confirm(f"Delete {which} with all checkpoints, in {location_of(tk)}?", yes=yes)
        return await tk.threads.delete(thread_ids or None, owner=owner, older_than=rested)

    deleted = run(delete_confirmed, data_dir)
    emit(deleted, (f"Deleted {plain(thread_id)}" for thread_id in deleted), json=json)


@app.command("import")
def import_(
    source: Annotated[
        str,
        typer.Option(
            "--from", help="URL of LangGraph's checkpoints: sqlite:///file, postgresql://…, redis://… or mongodb://…."
        ),
    ],
    thread_ids: Ids = None,
    user: Annotated[
        str | None, typer.Option("--user", "-u", help="The owner of every thread.", show_default=False)
    ] = None,
    tenant: Tenant = "",
    mapping: Mapping = None,
    owner_key: OwnerKey = None,
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """Copy threads from a LangGraph saver and verify them. Repeat the command to continue."""
    owner = optional_owner(user, tenant)

    async def imported(tk: Threadkeep) -> list[ImportedThread]:
        threads = tk.threads.import_from(source, thread_ids or None, owner=owner, owners=owners, owner_key=owner_key)
        return [thread async for thread in threads]

    owners = _owners_in(mapping)
    _emit_imported(run(imported, data_dir, creates=True), owners, "There are no threads.", json=json)


@app.command()
def export(
    target: Annotated[
        str,
        typer.Option(
            "--to", help="URL of LangGraph's checkpoints: sqlite:///file, postgresql://…, redis://… or mongodb://…."
        ),
    ],
    thread_ids: Ids = None,
    user: User = DEFAULT_USER,
    tenant: Tenant = "",
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """Copy a user's threads to a LangGraph saver and verify them. Repeat the command to continue."""
    owner = owner_of_user(user, tenant)

    async def exported(tk: Threadkeep) -> list[CopiedThread]:
        return [thread async for thread in tk.threads.export_to(target, thread_ids or None, owner=owner)]

    threads = run(exported, data_dir)
    lines = [f"{plain(one.thread_id)}  {one.checkpoints:,} checkpoints, {one.state}" for one in threads]
    emit(threads, lines or [f"{named(owner)} has no threads."], json=json)


@app.command()
def move(
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="URL of another storage that kept threads, under the same key; unset: where threads were before they "
            "had a key or a storage of their own.",
            show_default=False,
        ),
    ] = None,
    data_dir: DataDir = None,
    *,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Move threads from an earlier storage to the one of the settings. Repeat the command to continue.

    They are read back before they are removed where they were.
    """
    from threadkeep.registry import resolve_settings
    from threadkeep.transfer.thread_moves import move_threads

    async def moved(tk: Threadkeep) -> list[ThreadMove]:
        threads, clock = tk.app.threads, tk.app.clock
        if source is None and threads.storage is tk.app.storage:
            return []
        confirm(f"Move threads from before into {threads.storage.name} {threads.storage.location}?", yes=yes)

        async def each() -> list[ThreadMove]:
            await threads.connect()
            if source is not None:
                async with threads.storage_at(source) as storage:
                    return [await move_threads(storage, threads.storage, clock)]
            async with threads.earlier_storages() as storages:
                return [await move_threads(storage, threads.storage, clock) for storage in storages]

        return await tk.app.event_loop.run(each())

    settings = load_settings(data_dir)
    if source is not None and (missing := missing_database(resolve_settings(source, settings))) is not None:
        msg = f"The database {missing} does not exist; correct --from."
        raise InvalidInputError(msg)
    # Without a database of memories, nothing is created; with one, the storage of the threads may be a new one.
    creates = source is not None or missing_database(settings) is None
    moves = run(moved, data_dir, creates=creates, settings=settings)
    emit(moves, [line for one in moves for line in _move_lines(one)] or [_NOTHING_TO_MOVE], json=json)
    if any(one.left for one in moves):
        raise typer.Exit(1)


_NOTHING_TO_MOVE: Final = "Threads are in the storage of the memories, where they have always been."


def _move_lines(move: ThreadMove) -> Iterator[str]:
    if move.threads or move.left:
        yield (
            f"{move.threads:,} threads moved from {plain(move.source)} to {plain(move.target)}; "
            f"{move.verified:,} items read back and found to be the same."
        )
    else:
        yield f"There are no threads in {plain(move.source)}."
    for one in move.left:
        yield f"  {plain(one.key)}  left: {plain(one.reason)}"


@app.command()
def adopt(
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="URL of LangGraph's checkpoints, if it keeps the application's threads; unset: ours.",
            show_default=False,
        ),
    ] = None,
    mapping: Mapping = None,
    owner_key: OwnerKey = None,
    data_dir: DataDir = None,
    *,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Bind threads without an owner to an owner; then no other owner can read them."""

    async def adopted(tk: Threadkeep) -> list[ImportedThread]:
        named = f"the {len(owners):,} threads of {mapping}" if owners is not None else ""
        which = " and ".join(filter(None, [named, owner_key and f"the threads that name an owner as {owner_key}"]))
        confirm(f"Bind {which} to their owners, in {location_of(tk)}?", yes=yes)
        return await tk.threads.adopt(owners=owners, owner_key=owner_key, source=source)

    owners = _owners_in(mapping)
    if owners is None and owner_key is None:
        msg = "Say to whom the threads belong: --mapping FILE, --owner-key KEY, or both."
        raise InvalidInputError(msg)
    threads = run(adopted, data_dir, creates=source is not None)
    _emit_imported(threads, owners, "Every thread has its owner already.", json=json)


def _owners_in(path: Path | None) -> dict[str, Owner | None] | None:
    """Read the owners of threads from a mapping file.

    Raises:
        InvalidInputError: The file cannot be read, or is no mapping.
    """
    from threadkeep.transfer.importer import mapping_of

    if path is None:
        return None
    try:
        return mapping_of(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        msg = f"{path} cannot be read ({type(error).__name__}); give a JSON object of thread ids and user ids."
        raise InvalidInputError(msg) from error


def _emit_imported(
    threads: Sequence[ImportedThread], owners: dict[str, Owner | None] | None, empty: str, *, json: bool
) -> None:
    """Print a line for each thread; exit with code 1 if one was left that the mapping does not leave out."""
    emit(threads, map(_imported_line, threads) if threads else [empty], json=json)
    if any(thread.state == "left" and (owners or {}).get(thread.thread_id, thread) is not None for thread in threads):
        raise typer.Exit(1)


async def _selection(tk: Threadkeep, thread_ids: Sequence[str] | None, owner: Owner, rested: timedelta | None) -> str:
    """Return in words which threads a command is about."""
    if thread_ids and rested is None:
        return f"the threads {', '.join(map(plain, thread_ids))} of {named(owner)}"
    number = len(await tk.threads.list(owner, older_than=rested, limit=_COUNTED))
    more = "at least " if number == _COUNTED else ""
    return f"{more}{number:,} threads of {named(owner)}"


def _days(days: float | None) -> timedelta | None:
    return None if days is None else timedelta(days=days)


def _time(text: str | None) -> datetime | None:
    """Return what *text* says in ISO 8601; a time without a zone is UTC's."""
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        msg = f"{text!r} is not a date or time; write 2026-11-22, or 2026-11-22T09:30+01:00."
        raise typer.BadParameter(msg, param_hint="--keep-since") from None
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


async def _full_id(tk: Threadkeep, prefix: str, owner: Owner) -> str:
    return full_id(prefix, await tk.threads.ids(owner), noun="threads")


def _message_lines(message: Message) -> Iterator[str]:
    """Yield *message* behind the role of its author; further lines of it are indented."""
    for number, line in enumerate(message.text.splitlines() or [""]):
        yield f"{'' if number else message.role:<10} {visible(line, besides=chr(9))}"


def _summary_line(thread: ThreadSummary) -> str:
    at = f"{thread.last_turn_at:%Y-%m-%d %H:%M}" if thread.last_turn_at else "-"
    title = f"  {visible(thread.title)}" if thread.title else ""
    status = "" if thread.status == "idle" else f"  ({thread.status})"
    return f"{plain(thread.thread_id)}  {at}{title}{status}"


def _line(thread: Thread) -> str:
    stats = thread.stats
    waits = ", waits for an answer" if stats.waits else ""
    at = f"{stats.updated_at:%Y-%m-%d %H:%M}" if stats.updated_at else "-"
    return f"{plain(thread.thread_id)}  {at}  {stats.checkpoints:,} checkpoints, {stats.size_bytes:,} bytes{waits}"


def _imported_line(thread: ImportedThread) -> str:
    if thread.state == "left":
        return f"{plain(thread.thread_id)}  left: {plain(thread.reason)}"
    owner = f", of {plain(thread.owner.user_id)}" if thread.owner is not None else ""
    return f"{plain(thread.thread_id)}  {thread.checkpoints:,} checkpoints, {thread.state}{owner}"


def _pruned_line(pruned: Pruned) -> str:
    result = "a run is at work on it; left alone" if pruned.busy else f"{pruned.removed:,} checkpoints removed"
    return f"{plain(pruned.thread_id)}  {result}"


class Program(Enum):
    """The program of an export."""

    CHATGPT = "chatgpt"
    CLAUDE = "claude"
    SLACK = "slack"
    WHATSAPP = "whatsapp"
    JSON = "json"


class Order(Enum):
    """What comes first in a date."""

    DMY = "dmy"
    MDY = "mdy"


@conversations_app.callback()
def _conversations_group() -> None:
    """Learn from conversations with other programs."""


@conversations_app.command("import")
def import_conversations(
    path: Annotated[Path, typer.Argument(help="The export: a JSON or text file, a ZIP, or a folder.")],
    user: User = DEFAULT_USER,
    tenant: Tenant = "",
    program: Annotated[
        Program | None,
        typer.Option("--format", help="The program. Unset: recognised by the content.", show_default=False),
    ] = None,
    me: Annotated[
        str | None, typer.Option(help="The user's name or id in a Slack or WhatsApp export.", show_default=False)
    ] = None,
    dates: Annotated[
        Order | None,
        typer.Option(help="Day or month first, in a WhatsApp chat that does not tell.", show_default=False),
    ] = None,
    data_dir: DataDir = None,
    *,
    accept: Annotated[
        bool, typer.Option("--accept", help="Keep what the policy keeps, instead of proposing every statement.")
    ] = False,
    json: Json = False,
) -> None:
    """Learn from the user's own messages; statements become proposals. Repeat it at any time."""
    owner = owner_of_user(user, tenant)
    with progress("Conversations") as bar:

        async def learn(tk: Threadkeep) -> ConversationImport:
            return await tk.import_conversations(
                path,
                owner=owner,
                program=cast("Any", program.value if program else None),
                me=me,
                dates=cast("Any", dates.value if dates else None),
                accept=accept,
                progress=bar,
            )

        result = run(learn, data_dir, creates=True)
    lines = [
        f"{result.conversations:,} conversations ({result.program}), {result.messages:,} messages, {result.new:,} new.",
        f"{result.memories:,} memories; {result.proposals:,} proposals, which `threadkeep proposals list` shows.",
        *(f"{plain(one.conversation_id)}: left out, {plain(one.reason)}" for one in result.skipped),
    ]
    emit(asdict(result), lines, json=json)
    if result.skipped:
        raise typer.Exit(1)
