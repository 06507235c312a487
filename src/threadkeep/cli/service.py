"""``threadkeep serve``, ``mcp``, ``worker``, ``queue``, ``api-keys`` and ``migrate``: run Threadkeep as a service."""

from __future__ import annotations

import getpass
import os
import signal
import sys
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from threadkeep.cli.output import (
    CommandGroup,
    DataDir,
    Json,
    Tenant,
    Yes,
    confirm,
    emit,
    err,
    full_id,
    load_settings,
    location_of,
    missing_database,
    open_memory,
    optional_owner,
    plain,
    print_json,
    read,
    run,
    wait,
)
from threadkeep.cli.storage import Url
from threadkeep.errors import InvalidInputError, optional_import
from threadkeep.identity import Owner, owner_of_user
from threadkeep.observability import log, use_log_format

if TYPE_CHECKING:
    from pydantic import SecretStr

    from threadkeep.capture.models import QueuedTurn
    from threadkeep.client import Threadkeep
    from threadkeep.gateway.auth.api_keys import ApiKey, ApiKeys
    from threadkeep.settings import Settings


api_keys_app = typer.Typer(
    cls=CommandGroup, help="Keys with which programs use the gateway: create, list, revoke.", no_args_is_help=True
)
queue_app = typer.Typer(
    cls=CommandGroup,
    help="Turns that wait to be learnt from: list them, and let them be tried again.",
    no_args_is_help=True,
)

_WORKERS: Final = 4
_STOP_TIMEOUT_SECONDS: Final = 9.5
"""How long the worker may take to end after a signal. A model's thread that hangs would delay its end for ever."""

TurnOwner = Annotated[str | None, typer.Option("--user", "-u", help="The user of the turns; unset: all users.")]


def serve(
    host: Annotated[str, typer.Option(help="The address to bind.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="The port; 0: a free one.")] = 8000,
    workers: Annotated[int, typer.Option(min=1, max=256, help="How many processes.")] = 1,
    graph: Annotated[
        str | None,
        typer.Option(
            help="A function that gets the client and returns a compiled graph, as `module:attribute`.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Serve the agent and its memory over HTTP until SIGTERM or Ctrl-C."""
    with optional_import("threadkeep serve", extra="serve"):
        from threadkeep.gateway.serve import serve as run_server

    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    run_server(host, port, workers=workers, graph=graph)


def mcp(
    user: Annotated[
        str | None,
        typer.Option("--user", "-u", help="The user; unset: that of the operating system.", show_default=False),
    ] = None,
    tenant: Tenant = "",
    data_dir: DataDir = None,
    *,
    review: Annotated[bool, typer.Option("--review", help="Let the client decide on proposals.")] = False,
) -> None:
    """Serve one user's memory to an MCP client over standard input and output."""
    with optional_import("threadkeep mcp", extra="mcp"):
        from threadkeep.mcp_server import stdio

    async def run() -> None:
        async with open_memory(data_dir) as tk:
            await stdio.serve(tk, owner_of_user(user or getpass.getuser(), tenant), review=review)

    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a thread that reads standard input cannot be interrupted
    wait(run())


@api_keys_app.command()
def create(
    user: Annotated[str, typer.Option("--user", "-u", help="The user whom the key acts as.")],
    scope: Annotated[list[str], typer.Option(help="A scope, such as chat or memory:read; may be repeated.")],
    tenant: Annotated[
        str | None, typer.Option(help="The tenant of the user: the issuer of tokens; required with THREADKEEP_ISSUERS.")
    ] = None,
    name: Annotated[str, typer.Option(help="What the key is for.")] = "",
    days: Annotated[
        int | None, typer.Option(min=1, max=36_500, help="After how many days it expires; unset: never.")
    ] = None,
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """Create a key and print its secret once."""
    owner = Owner(user, tenant or "")
    if (doubt := _doubt_of(owner, is_named=tenant is not None)) is not None:
        err.print(doubt, markup=False)

    async def created(tk: Threadkeep) -> tuple[str, ApiKey]:
        lifetime = None if days is None else timedelta(days=days)
        return await _keys(tk).create(owner, scope, name=name, lifetime=lifetime)

    secret, key = run(created, data_dir, creates=True)
    emit({"secret": secret, **_fields(key)}, [secret], json=json)


def _doubt_of(owner: Owner, *, is_named: bool) -> str | None:
    """Return a sentence if no token can name *owner*.

    Args:
        owner: The owner whom a key is to act as.
        is_named: Whether the tenant was given.

    Raises:
        InvalidInputError: The settings name issuers, and the tenant was not given.
    """
    from threadkeep.gateway.settings import GatewaySettings

    settings = GatewaySettings.load()
    if settings.can_name(owner.tenant):
        return None
    if settings.issuers and not is_named:
        msg = (
            f"--tenant is required: no token names a user without a tenant. Pass {settings.issuers[0]}, the issuer of "
            "the user; with THREADKEEP_TENANT_CLAIM also a line end and the tenant. Pass '' for a user of keys alone."
        )
        raise InvalidInputError(msg)
    if not owner.tenant:
        return f"The key acts as {plain(owner.user_id)} without a tenant, whom no token names; see --tenant."
    if not settings.issuers:
        return None
    return f"No token names a user of the tenant {plain(owner.tenant)}; see THREADKEEP_ISSUERS."


@api_keys_app.command("list")
def list_(data_dir: DataDir = None, *, json: Json = False) -> None:
    """List the keys, oldest first; secrets are not kept."""
    keys = run(lambda tk: _keys(tk).list(), data_dir)
    emit([_fields(key) for key in keys], map(_line, keys) if keys else ["There are no API keys."], json=json)


@api_keys_app.command()
def revoke(
    key_id: Annotated[str, typer.Argument(help="The key's id, as `list` shows it, or its first characters.")],
    data_dir: DataDir = None,
    *,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Remove a key; running gateways refuse it within 5 seconds."""

    async def revoke_confirmed(tk: Threadkeep) -> tuple[str, bool]:
        keys = _keys(tk)
        whole = full_id(key_id, [key.key_id for key in await keys.list()], noun="API keys")
        confirm(f"Revoke the API key {plain(whole)}, in {location_of(tk)}?", yes=yes)
        return whole, await keys.revoke(whole)

    whole, revoked = run(revoke_confirmed, data_dir)
    emit({"key_id": whole, "revoked": revoked}, [f"Revoked {whole}"], json=json)


def _keys(tk: Threadkeep) -> ApiKeys:
    from threadkeep.clock import SystemClock

    with optional_import("threadkeep api-keys", extra="serve"):
        from threadkeep.gateway.auth.api_keys import ApiKeys

    return ApiKeys(tk.store, SystemClock(), tk.app.timeout_budget)


def _fields(key: ApiKey) -> dict[str, Any]:
    return {name: getattr(key, name) for name in type(key).__slots__}


def _line(key: ApiKey) -> str:
    expires = f"until {key.expires_at:%Y-%m-%d}" if key.expires_at else "for ever"
    used = f"used {key.used_at:%Y-%m-%d %H:%M}" if key.used_at else "unused"
    return f"{key.key_id}  {plain(key.user_id)}  {' '.join(key.scopes)}  {expires}  {used}  {plain(key.name)}"


def migrate(
    url: Url = None,
    data_dir: DataDir = None,
    *,
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; the exit code is 1 if something is to be migrated.")
    ] = False,
    json: Json = False,
) -> None:
    """Create the tables of the storage and of the checkpointer, or migrate them to this version.

    Current tables stay unchanged. With THREADKEEP_MIGRATE=check only this command changes tables. With
    THREADKEEP_MIGRATION_POSTGRES_DSN it works as that user, and admits the user of the memories' URL.
    """
    import threadkeep
    from threadkeep.registry import resolve_settings
    from threadkeep.storage.interface import ServerUsers

    settings = load_settings(data_dir).model_copy(update={"migrate": "check" if check else "auto", "capture": "off"})
    resolved = resolve_settings(url, settings)
    if check and (missing := missing_database(resolved)) is not None:
        msg = f"The database {missing} does not exist; correct the URL, or run threadkeep migrate."
        raise InvalidInputError(msg)
    running = None if check else _running_user(resolved)
    if running is not None:
        fields = [name for name in ("store_postgres_dsn", "checkpoint_postgres_dsn") if _url(resolved, name) == running]
        resolved = resolved.model_copy(update=dict.fromkeys(fields, resolved.migration_postgres_dsn))

    async def migrated(running: str | None) -> tuple[str, str | None]:
        async with threadkeep.open(settings=resolved, embedder="none") as tk:
            place, user = (await tk.ready()).storage, None
            backend = tk.app.backend
            if running is not None and isinstance(backend, ServerUsers):
                user = await tk.app.event_loop.run(backend.admit(running))
            return place, user

    (storage, user), checkpointer = wait(migrated(running)), settings.checkpoint_type
    threads = f", and so is the checkpointer ({checkpointer})" if checkpointer else ""
    admitted = f" {user} may use it." if user else ""
    emit(
        {"storage": storage, "checkpointer": checkpointer, "migrated": not check, "user": user},
        [f"{storage} is up to date{threads}.{admitted}"],
        json=json,
    )


def _running_user(settings: Settings) -> str | None:
    """Return the URL of the processes' user if another user migrates."""
    if settings.store_type != "postgres" or settings.migration_postgres_dsn is None:
        return None
    return _url(settings, "store_postgres_dsn")


def _url(settings: Settings, field: str) -> str | None:
    value: SecretStr | None = getattr(settings, field)
    return None if value is None else value.get_secret_value()


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
        _say("THREADKEEP_CAPTURE is off: there is nothing to learn from.", settings)
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
            _say(f"Learning from turns in {health.storage}, {number} threads at once.", settings)
            await stop.wait()
            _say("Stopping.", settings)

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


def _say(sentence: str, settings: Settings) -> None:
    """Write *sentence* to standard error, in the form of the log if that is JSON."""
    if settings.log_format == "json":
        log.info("%s", sentence)
    else:
        err.print(sentence, markup=False)


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


@queue_app.command("list")
def list_turns(user: TurnOwner = None, tenant: Tenant = "", data_dir: DataDir = None, *, json: Json = False) -> None:
    """List waiting, running and dead turns with the reason; their text is not shown."""
    owner = optional_owner(user, tenant)
    turns = read(lambda tk: tk.queue.list(owner), data_dir)
    emit([_turn_row(turn) for turn in turns], map(_turn_line, turns) if turns else ["No turn waits."], json=json)


@queue_app.command("retry")
def retry_turns(
    turn_ids: Annotated[list[str] | None, typer.Argument(help="Which turns; see threadkeep queue list.")] = None,
    user: TurnOwner = None,
    tenant: Tenant = "",
    data_dir: DataDir = None,
    *,
    dead: Annotated[bool, typer.Option("--all", help="All dead turns.")] = False,
    json: Json = False,
) -> None:
    """Retry turns at once, with a new count of failures."""
    owner = optional_owner(user, tenant)
    if bool(turn_ids) == dead:
        msg = "Turns are missing: name turns, or give --all for all dead turns."
        raise typer.BadParameter(msg)

    settings = load_settings(data_dir).model_copy(update={"capture_workers": 0})  # a worker learns from them
    turns = run(lambda tk: tk.queue.retry(turn_ids or None, owner=owner), data_dir, settings=settings)
    emit([turn.turn_id for turn in turns], [f"{len(turns)} turns are tried again."], json=json)
    if turn_ids and len(turns) < len(set(turn_ids)):
        err.print("The others do not wait, or a worker is at them.")
        raise typer.Exit(1)


def _turn_line(turn: QueuedTurn) -> str:
    tries = f"; {turn.tries} tries: {turn.reason}" if turn.tries else ""
    owner = f"{plain(turn.owner.user_id)}, thread {plain(turn.thread_id or '(none)')}"
    return f"{turn.turn_id}  {turn.state:7}  {turn.recorded_at:%Y-%m-%d %H:%M:%S}  {owner}{plain(tries)}"


def _turn_row(turn: QueuedTurn) -> dict[str, Any]:
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
