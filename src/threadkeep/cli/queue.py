"""``threadkeep worker`` and ``threadkeep queue``: learning from recorded turns, and what became of them."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from threadkeep.cli.output import (
    CommandGroup,
    DataDir,
    Json,
    emit,
    err,
    load_settings,
    plain,
    print_json,
    read,
    run,
    wait,
)
from threadkeep.errors import optional_import
from threadkeep.observability import use_log_format

if TYPE_CHECKING:
    from threadkeep.capture.models import QueuedTurn
    from threadkeep.client import Threadkeep

app = typer.Typer(
    cls=CommandGroup,
    help="Turns that wait to be learnt from: list them, and let them be tried again.",
    no_args_is_help=True,
)

_WORKERS: Final = 4
_STOP_TIMEOUT_SECONDS: Final = 9.5
"""How long the worker may take to end after a signal. A model's thread that hangs would delay its end for ever."""

TurnOwner = Annotated[str | None, typer.Option("--user", "-u", help="The user of the turns; unset: all users.")]


def worker(
    concurrency: Annotated[
        int | None,
        typer.Option(
            min=1, max=256, help="Number of threads to learn from at once; unset: THREADKEEP_CAPTURE_WORKERS, else 4."
        ),
    ] = None,
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """Learn from recorded turns until SIGTERM or Ctrl-C; then end within 10 seconds, or at once at a second signal.

    With --json the number of learnt turns is printed at the end.
    """
    import asyncio

    import threadkeep

    settings = load_settings(data_dir)
    number = concurrency or settings.workers or _WORKERS
    use_log_format(settings)
    if settings.capture == "off":
        err.print("THREADKEEP_CAPTURE is off: there is nothing to learn from.")
        raise typer.Exit(1)

    async def serve() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        seen: set[int] = set()

        def end(number: int, _frame: object) -> None:
            if number in seen:  # the rest of the turns stays in the queue
                os._exit(1)
            seen.add(number)
            loop.call_soon_threadsafe(stop.set)

        for number_of_signal in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number_of_signal, end)
        async with (
            threadkeep.open(settings=settings.model_copy(update={"capture_workers": number})) as tk,
            exported_metrics(tk),
        ):
            health = await tk.ready()
            err.print(f"Learning from turns in {health.storage}, {number} threads at once.", markup=False)
            await stop.wait()
            err.print("Stopping.")

            def report() -> None:
                if json:
                    learnt = tk.app.telemetry.counts().get("capture.processed", 0)
                    print_json({"storage": health.storage, "concurrency": number, "turns": learnt})

            def exit_now() -> None:
                report()
                os._exit(0)

            timer = threading.Timer(_STOP_TIMEOUT_SECONDS, exit_now)
            timer.daemon = True
            timer.start()
        timer.cancel()
        report()

    wait(serve())


@asynccontextmanager
async def exported_metrics(tk: Threadkeep) -> AsyncGenerator[None]:
    """Serve ``/metrics`` of a worker during the block, if THREADKEEP_METRICS_PORT is set.

    Raises:
        SettingsError: The port is taken, or the extra is missing.
    """
    settings = tk.app.settings
    if settings.metrics_port is None:
        yield
        return
    with optional_import("THREADKEEP_METRICS_PORT", extra="serve", variable="THREADKEEP_METRICS_PORT"):
        from prometheus_client import CollectorRegistry

        from threadkeep.gateway.metrics import export_metrics
        from threadkeep.gateway.process_metrics import ProcessCollector
        from threadkeep.process_state import ProcessMonitor
    monitor, registry = ProcessMonitor(tk.app), CollectorRegistry()
    registry.register(ProcessCollector(monitor))
    stop = export_metrics(registry, settings.metrics_host, settings.metrics_port, processes=1)
    try:
        async with monitor.running():
            yield
    finally:
        stop()


@app.command("list")
def list_(user: TurnOwner = None, data_dir: DataDir = None, *, json: Json = False) -> None:
    """List waiting, running and dead turns with the reason; their text is not shown."""
    turns = read(lambda tk: tk.queue.list(user), data_dir)
    emit([_row(turn) for turn in turns], map(_line, turns) if turns else ["No turn waits."], json=json)


@app.command()
def retry(
    turn_ids: Annotated[list[str] | None, typer.Argument(help="Which turns; see threadkeep queue list.")] = None,
    user: TurnOwner = None,
    data_dir: DataDir = None,
    *,
    dead: Annotated[bool, typer.Option("--all", help="All dead turns.")] = False,
    json: Json = False,
) -> None:
    """Retry turns at once, with a new count of failures."""
    if bool(turn_ids) == dead:
        msg = "Turns are missing: name turns, or give --all for all dead turns."
        raise typer.BadParameter(msg)

    settings = load_settings(data_dir).model_copy(update={"capture_workers": 0})  # a worker learns from them
    turns = run(lambda tk: tk.queue.retry(turn_ids or None, owner=user), data_dir, settings=settings)
    emit([turn.turn_id for turn in turns], [f"{len(turns)} turns are tried again."], json=json)
    if turn_ids and len(turns) < len(set(turn_ids)):
        err.print("The others do not wait, or a worker is at them.")
        raise typer.Exit(1)


def _line(turn: QueuedTurn) -> str:
    tries = f"; {turn.tries} tries: {turn.reason}" if turn.tries else ""
    owner = f"{plain(turn.owner.user_id)}, thread {plain(turn.thread_id or '(none)')}"
    return f"{turn.turn_id}  {turn.state:7}  {turn.recorded_at:%Y-%m-%d %H:%M:%S}  {owner}{plain(tries)}"


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
