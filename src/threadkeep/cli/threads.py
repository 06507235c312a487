"""``threadkeep threads``: a user's conversations, how large they are, and what is kept of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Final

import typer

from threadkeep.cli.output import (
    DEFAULT_USER,
    DataDir,
    Json,
    User,
    Yes,
    confirm,
    emit,
    location_of,
    plain,
    read,
    run,
)

if TYPE_CHECKING:
    from threadkeep.client import Threadkeep
    from threadkeep.langgraph.threads import Pruned, Thread

app = typer.Typer(help="See, prune, copy and delete a user's threads.", no_args_is_help=True)

Id = Annotated[str, typer.Argument(help="The thread's id, as `list` shows it.", metavar="THREAD_ID")]
Ids = Annotated[
    list[str] | None, typer.Argument(help="Ids of threads, as `list` shows them.", metavar="[THREAD_ID...]")
]
_COUNTED: Final = 1_000
"""How many threads are counted for a question."""

Days = Annotated[float | None, typer.Option(help="Only threads that have rested so long.", min=0, show_default=False)]


@app.command("list")
def list_(
    user: User = DEFAULT_USER,
    older_than_days: Days = None,
    limit: Annotated[int, typer.Option(min=1)] = 50,
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """List threads, newest first."""
    rested = _days(older_than_days)
    threads = read(lambda tk: tk.threads.list(user, older_than=rested, limit=limit), data_dir)
    empty = f"{plain(user)} has no threads{' that rested so long' if older_than_days else ''}."
    emit(threads, map(_line, threads) if threads else [empty], json=json)


@app.command()
def show(thread_id: Id, user: User = DEFAULT_USER, data_dir: DataDir = None, *, json: Json = False) -> None:
    """Show how large a thread is."""
    thread = read(lambda tk: tk.threads.require(thread_id, owner=user), data_dir)
    emit(thread, [_line(thread)], json=json)


@app.command()
def stats(user: User = DEFAULT_USER, data_dir: DataDir = None, *, json: Json = False) -> None:
    """Show how large all threads are together."""
    total = read(lambda tk: tk.threads.stats(user), data_dir)
    emit(total, [f"{total.checkpoints:,} checkpoints, {total.size_bytes:,} bytes"], json=json)


@app.command()
def fork(
    thread_id: Id,
    to: Annotated[str, typer.Argument(help="The new thread's id.", metavar="NEW_ID")],
    checkpoint: Annotated[
        str | None, typer.Option(help="Where it begins; unset: the newest.", show_default=False)
    ] = None,
    user: User = DEFAULT_USER,
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """Begin a new thread at a checkpoint of another, with all that led to it."""
    thread = run(lambda tk: tk.threads.fork(thread_id, to, checkpoint_id=checkpoint, owner=user), data_dir)
    emit(thread, [_line(thread)], json=json)


@app.command()
def prune(
    thread_ids: Ids = None,
    latest: Annotated[int, typer.Option(help="How many of the newest checkpoints stay.", min=1)] = 1,
    keep_since: Annotated[
        str | None,
        typer.Option(
            help="What was made then or later stays: `2026-11-22` or `2026-11-22T09:30+01:00`; UTC without a zone.",
            show_default=False,
        ),
    ] = None,
    keep_interrupted: Annotated[
        bool, typer.Option(help="Whether ends of branches that wait for an answer stay, too.")
    ] = True,
    older_than_days: Days = None,
    user: User = DEFAULT_USER,
    data_dir: DataDir = None,
    *,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Remove old checkpoints of these threads, or of all; the newest of each always stays."""
    since, rested = _time(keep_since), _days(older_than_days)

    async def prune_confirmed(tk: Threadkeep) -> Sequence[Pruned]:
        which = await _selection(tk, thread_ids, user, rested)
        confirm(f"Remove old checkpoints of {which}, in {location_of(tk)}?", yes=yes)
        return await tk.threads.prune(
            thread_ids or None,
            owner=user,
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
    data_dir: DataDir = None,
    *,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Delete threads with all their checkpoints; memories stay. It cannot be undone."""
    rested = _days(older_than_days)

    async def delete_confirmed(tk: Threadkeep) -> Sequence[str]:
        which = await _selection(tk, thread_ids, user, rested)
        confirm(f"Delete {which} with all checkpoints, in {location_of(tk)}?", yes=yes)
        return await tk.threads.delete(thread_ids or None, owner=user, older_than=rested)

    deleted = run(delete_confirmed, data_dir)
    emit(deleted, (f"Deleted {plain(thread_id)}" for thread_id in deleted), json=json)


async def _selection(tk: Threadkeep, thread_ids: Sequence[str] | None, user: str, rested: timedelta | None) -> str:
    """Return in words which threads a command is about."""
    if thread_ids and rested is None:
        return f"the threads {', '.join(map(plain, thread_ids))} of {plain(user)}"
    number = len(await tk.threads.list(user, older_than=rested, limit=_COUNTED))
    more = "at least " if number == _COUNTED else ""
    return f"{more}{number:,} threads of {plain(user)}"


def _days(days: float | None) -> timedelta | None:
    return None if days is None else timedelta(days=days)


def _time(text: str | None) -> datetime | None:
    """Return what *text* says in ISO 8601; a time without a zone is UTC's."""
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        msg = f"{text!r} is no date or time; write 2026-11-22, or 2026-11-22T09:30+01:00."
        raise typer.BadParameter(msg, param_hint="--keep-since") from None
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def _line(thread: Thread) -> str:
    stats = thread.stats
    waits = ", waits for an answer" if stats.waits else ""
    at = f"{stats.updated_at:%Y-%m-%d %H:%M}" if stats.updated_at else "-"
    return f"{plain(thread.thread_id)}  {at}  {stats.checkpoints:,} checkpoints, {stats.size_bytes:,} bytes{waits}"


def _pruned_line(pruned: Pruned) -> str:
    result = "a run is at work on it; left alone" if pruned.busy else f"{pruned.removed:,} checkpoints removed"
    return f"{plain(pruned.thread_id)}  {result}"
