"""``threadkeep worker`` and ``threadkeep queue``: learning from recorded turns, and what became of them."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from threadkeep.cli.output import DataDir, Json, env_settings, err, out, plain, print_json, read, run

if TYPE_CHECKING:
    from threadkeep.capture.models import QueuedTurn
    from threadkeep.client import Threadkeep
    from threadkeep.settings import Settings

app = typer.Typer(
    help="Turns that wait to be learnt from: list them, and let them be tried again.", no_args_is_help=True
)

_WORKERS: Final = 4
_LONGEST_STOP_SECONDS: Final = 9.5
"""After a signal, so much time is left at most; a model's thread that hangs would hold up the end for ever."""

Whose = Annotated[str | None, typer.Option("--user", "-u", help="Whose turns; unset: everybody's.")]


def worker(
    workers: Annotated[
        int | None,
        typer.Option(min=1, max=256, help="From how many threads to learn at once; unset: the setting, else 4."),
    ] = None,
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """Learn from recorded turns until it is told to stop (SIGTERM, Ctrl-C); then it ends within 10 seconds.

    With --json it says at its end from how many turns it has learnt.
    """
    import asyncio

    import threadkeep

    settings = env_settings(data_dir)
    number = workers or settings.workers or _WORKERS
    if settings.capture == "off":
        err.print("THREADKEEP_CAPTURE is off: there is nothing to learn from.")
        raise typer.Exit(1)

    async def serve() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for sent in (signal.SIGTERM, signal.SIGINT):
            signal.signal(sent, lambda _number, _frame: loop.call_soon_threadsafe(stop.set))
        async with threadkeep.open(settings=settings.model_copy(update={"capture_workers": number})) as tk:
            health = await tk.ready()
            err.print(f"Learning from turns in {health.storage}, {number} threads at once.", markup=False)
            await stop.wait()
            err.print("Stopping.")

            def tell() -> None:
                if json:
                    learnt = tk.app.telemetry.counts().get("capture.processed", 0)
                    print_json({"storage": health.storage, "workers": number, "turns": learnt})

            def leave() -> None:
                tell()
                os._exit(0)

            last = threading.Timer(_LONGEST_STOP_SECONDS, leave)
            last.daemon = True
            last.start()
        last.cancel()
        tell()

    asyncio.run(serve())


@app.command("list")
def list_(user: Whose = None, data_dir: DataDir = None, *, json: Json = False) -> None:
    """List turns that wait, run, or were tried often enough and are dead, with the reason; never their text."""
    turns = read(lambda tk: tk.queue.list(user), data_dir)
    if json:
        print_json([_row(turn) for turn in turns])
        return
    if not turns:
        out.print("No turn waits.")
    for turn in turns:
        said = f"; {turn.tries} tries: {turn.reason}" if turn.tries else ""
        who = f"{plain(turn.owner.user_id)}, thread {plain(turn.thread_id or '(none)')}"
        line = f"{turn.turn_id}  {turn.state:7}  {turn.recorded_at:%Y-%m-%d %H:%M:%S}  {who}{plain(said)}"
        out.print(line, markup=False)


@app.command()
def retry(
    turn_ids: Annotated[list[str] | None, typer.Argument(help="Which turns; see threadkeep queue list.")] = None,
    user: Whose = None,
    data_dir: DataDir = None,
    *,
    dead: Annotated[bool, typer.Option("--all", help="All that are dead.")] = False,
    json: Json = False,
) -> None:
    """Let turns be tried at once, as if they had never been."""
    if bool(turn_ids) == dead:
        msg = "Name turns, or give --all for those that are dead."
        raise typer.BadParameter(msg)

    async def tried(tk: Threadkeep) -> list[QueuedTurn]:
        return await tk.queue.retry(turn_ids or None, owner=user)

    turns = run(tried, data_dir, settings=_idle(data_dir))
    if json:
        print_json([turn.turn_id for turn in turns])
    else:
        out.print(f"{len(turns)} turns are tried again.")
    if turn_ids and len(turns) < len(set(turn_ids)):
        err.print("The others do not wait, or a worker is at them.")
        raise typer.Exit(1)


def _idle(data_dir: Path | None) -> Settings:
    """Return the settings of a process that learns from nothing itself: it only looks."""
    return env_settings(data_dir).model_copy(update={"capture_workers": 0})


def _row(turn: QueuedTurn) -> dict[str, Any]:
    return {
        "turn_id": turn.turn_id,
        "user_id": turn.owner.user_id,
        "tenant": turn.owner.tenant,
        "thread_id": turn.thread_id,
        "state": turn.state,
        "tries": turn.tries,
        "reason": turn.reason,
        "recorded_at": turn.recorded_at,
        "due_at": turn.due_at,
        "worker": turn.worker,
    }
