"""``threadkeep init``, ``doctor`` and ``agents``: set an installation up, and check what works in it.

``threadkeep doctor --service`` checks whether it may serve other people.
"""

from __future__ import annotations

import json as json_module
import os
import re
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import unquote, urlsplit

import typer

from threadkeep.cli.output import (
    DataDir,
    Json,
    emit,
    load_settings,
    missing_database,
    open_memory,
    out,
    print_json,
    settings_of_existing,
)
from threadkeep.errors import InvalidInputError

if TYPE_CHECKING:
    from pydantic import SecretStr

    from threadkeep.client import Threadkeep
    from threadkeep.errors import StaleVectorsError
    from threadkeep.gateway.settings import GatewaySettings
    from threadkeep.langgraph.agent_servers import AgentStatus
    from threadkeep.settings import Settings
    from threadkeep.storage.interface import DatabaseUser


NETWORK_FILE_SYSTEMS: Final = re.compile(
    r"9p|afs|ceph|cifs|fuse\.(sshfs|s3fs|glusterfs|rclone)|lustre|ncpfs|nfs\d?|smb\w*"
)
"""File systems on which SQLite's write-ahead log does not work."""

CLOCK_SECONDS: Final = 2.0
"""How far the clocks of this machine and of the database may differ: leases and expiry compare their times."""

DEFAULT_SECRETS: Final = frozenset(
    {"", "admin", "change-me", "changeme", "default", "example", "password", "postgres", "secret", "test", "threadkeep"}
)
"""Passwords and keys of examples."""

_MOUNTS: Final = Path("/proc/self/mounts")
_LEAST_CHARACTERS: Final = 8

Row = dict[str, str]
"""What was checked, its state, and a sentence."""


async def service_rows(tk: Threadkeep, settings: Settings, gateway: GatewaySettings) -> list[Row]:
    """Return a row for each check; the state ``broken`` is what a service must not have.

    Args:
        tk: The memory; this runs in its event loop.
        settings: The settings as they were given.
        gateway: The settings of the gateway.
    """
    rows = [*_identity_rows(gateway), *_storage_rows(settings), *_secret_rows(settings, gateway)]
    rows += [row async for row in _user_rows(tk, settings)]
    return rows


def _identity_rows(gateway: GatewaySettings) -> Iterator[Row]:
    from threadkeep.errors import SettingsError
    from threadkeep.gateway.auth import authentication

    try:
        authentication(gateway)
    except SettingsError as error:
        yield _broken("users", str(error))
    if gateway.single_user is not None:
        address = gateway.public_url or ""
        if address and not re.match(r"https?://(localhost|127\.0\.0\.1|\[::1\])(:|$)", address):
            yield _broken("users", f"THREADKEEP_SINGLE_USER needs no token, and {address} is open to others; unset it.")
        else:
            yield _warning("users", "THREADKEEP_SINGLE_USER: every request is of one user, at a loopback address only.")
    for issuer in gateway.issuers:
        if not issuer.startswith("https://"):
            yield _broken("issuer", f"{issuer} is not https: anyone on the way can replace its keys.")
    if gateway.issuers and all(issuer.startswith("https://") for issuer in gateway.issuers):
        yield _ok("issuer", ", ".join(gateway.issuers))


def _storage_rows(settings: Settings) -> Iterator[Row]:
    kind = settings.store_type or "sqlite"
    if kind == "memory":
        yield _broken("storage", "LANGGRAPH_STORE_TYPE is memory: everything is lost when the process ends.")
    if settings.unused_server is not None:
        yield _broken("storage", settings.unused_server)
    if kind == "sqlite":
        path = settings.sqlite_path
        found = file_system(path, _MOUNTS.read_text() if _MOUNTS.exists() else "")
        if NETWORK_FILE_SYSTEMS.fullmatch(found):
            yield _broken(
                "storage", f"{path} is on {found}, where SQLite loses commits; use a local disk or PostgreSQL."
            )
        else:
            yield _ok("storage", f"{path} is on {found or 'an unknown file system'}; one machine only.")
    elif settings.migrate == "auto":
        sentence = "THREADKEEP_MIGRATE is auto: each of several processes may change the tables. Set it to check, and "
        yield _broken("migration", sentence + "run threadkeep migrate before an upgrade.")
    else:
        yield _ok("migration", "threadkeep migrate changes the tables; the processes check them.")


def file_system(path: Path, mounts: str) -> str:
    """Return the type of the file system that *path* is on; empty: unknown.

    Args:
        path: A file or folder, which needs not exist.
        mounts: The text of ``/proc/self/mounts``.
    """
    place, best, found = path.expanduser().absolute(), -1, ""
    for line in mounts.splitlines():
        _, point, kind, *_ = line.split(" ")
        folder = Path(point.encode().decode("unicode_escape"))
        if place.is_relative_to(folder) and len(folder.parts) >= best:  # a later mount hides an earlier one
            best, found = len(folder.parts), kind
    return found


def _secret_rows(settings: Settings, gateway: GatewaySettings) -> Iterator[Row]:
    secrets: dict[str, SecretStr | None] = {
        "THREADKEEP_MASTER_KEY": settings.master_key,
        "THREADKEEP_CHECKPOINT_KEY": settings.checkpoint_key,
        "THREADKEEP_ERASURE_KEY": settings.erasure_key,
        "THREADKEEP_CLIENT_SECRET": gateway.client_secret,
    }
    weak = [name for name, value in secrets.items() if value is not None and is_default(value.get_secret_value())]
    urls = ("store_postgres_dsn", "migration_postgres_dsn", "store_redis_url", "store_mongodb_uri")
    for field in urls:
        value: SecretStr | None = getattr(settings, field)
        password = None if value is None else urlsplit(value.get_secret_value()).password
        if password is not None and is_default(unquote(password)):
            weak.append(settings.variable_of(field))
    yield from (_broken("secrets", f"{name} has a value of an example; create a new one.") for name in weak)
    if not weak:
        yield _ok("secrets", "none has a value of an example")
    if not settings.sealed:
        yield _warning("secrets", "items are not encrypted; create a master key with: threadkeep keys new")


def is_default(secret: str) -> bool:
    """Return whether *secret* is one of an example, shorter than 8 characters, or one character again and again."""
    text = secret.strip().casefold()
    plain = re.sub(r"[\W\d_]+$", "", text)
    return text in DEFAULT_SECRETS or plain in DEFAULT_SECRETS or len(text) < _LEAST_CHARACTERS or _is_monotone(text)


def _is_monotone(text: str) -> bool:
    """Return whether a key, also one in base64, is one byte again and again: 32 zero bytes are ``AAA…A=``."""
    return len(set(text.rstrip("="))) <= 1


async def _user_rows(tk: Threadkeep, settings: Settings) -> AsyncIterator[Row]:
    from threadkeep.storage.interface import ServerUsers

    backend = tk.app.backend
    if not isinstance(backend, ServerUsers):
        return
    await tk.app.connect()
    user = await backend.user()
    for row in user_rows(user, separate=settings.migration_postgres_dsn is not None):
        yield row


def user_rows(user: DatabaseUser, *, separate: bool) -> Iterator[Row]:
    """Return what is wrong with the user of a database.

    Args:
        user: The user.
        separate: Whether another user migrates.
    """
    if user.bypasses:
        yield _broken(
            "database user", f'"{user.name}" is a superuser or bypasses row-level security; use another user.'
        )
    elif user.changes_tables:
        how = (
            ""
            if separate
            else "; set THREADKEEP_MIGRATION_POSTGRES_DSN to its URL, and give the processes another user"
        )
        yield _broken("database user", f'"{user.name}" owns the tables, so a process could change them{how}.')
    else:
        yield _ok("database user", f'"{user.name}" may read and write items, and change no table.')
    if abs(user.clock_ahead_seconds) > CLOCK_SECONDS:
        side = "behind" if user.clock_ahead_seconds > 0 else "ahead of"
        seconds = abs(user.clock_ahead_seconds)
        yield _broken("clock", f"this machine is {seconds:,.1f} seconds {side} the database; start its time service.")
    else:
        yield _ok("clock", "as that of the database")


def _ok(what: str, detail: str) -> Row:
    return {"what": what, "state": "ok", "detail": detail}


def _warning(what: str, detail: str) -> Row:
    return {"what": what, "state": "warning", "detail": detail}


def _broken(what: str, detail: str) -> Row:
    return {"what": what, "state": "broken", "detail": detail}


_LANGGRAPH_JSON: Final = {
    "dependencies": ["."],
    "graphs": {"agent": "threadkeep.langgraph.graph:graph"},
    "store": {"path": "threadkeep.langgraph.graph.store"},
    "auth": {"path": "./auth.py:auth"},
    "env": ".env",
}
_AUTH: Final = '''\
"""DEVELOPMENT ONLY: believes who a caller on this machine says to be.

The user is NAME of `Authorization: Bearer NAME`, and `me` without it. Replace `authenticate` before other people can
reach the server: https://docs.langchain.com/langgraph-platform/auth describes how.
"""

from langgraph_sdk import Auth
from starlette.requests import Request
from threadkeep.langgraph.server import development_user, protect

auth = Auth()
protect(auth)  # each user sees their own threads, runs, crons, assistants and memories


@auth.authenticate
async def authenticate(request: Request, authorization: str | None) -> Auth.types.MinimalUserDict:
    """Return the user of a request."""
    return development_user(request, authorization)
'''

_ENV: Final = """\
# Read by `langgraph dev` and by the `threadkeep` command in this folder.
# Every setting is explained in Threadkeep's docs/settings.md.

# The chat model as provider:name, e.g. openai:gpt-5-mini; empty: an offline stand-in that quotes memories.
THREADKEEP_MODEL=

# Where memories are kept: sqlite, memory, postgres, redis or mongodb; empty: SQLite in the user's data folder.
# The three servers need their address, too, and `pip install "threadkeep[postgres]"` (or redis, mongodb).
LANGGRAPH_STORE_TYPE=
LANGGRAPH_STORE_SQLITE_PATH=
LANGGRAPH_STORE_POSTGRES_DSN=
LANGGRAPH_STORE_REDIS_URL=
LANGGRAPH_STORE_MONGODB_URI=
"""

_SAMPLE: Final = 20
_DEFAULT_DIMS: Final = 384


def init(
    target: Annotated[
        str, typer.Argument(metavar="[FOLDER|mcp]", help="Where to write them; `mcp` prints configurations instead.")
    ] = ".",
    *,
    force: Annotated[bool, typer.Option(help="Replace existing files.")] = False,
    json: Json = False,
) -> None:
    """Write langgraph.json, auth.py and .env for `langgraph dev`, or print the configurations of MCP clients."""
    if target == "mcp":
        from threadkeep.mcp_server.clients import configuration_lines, configurations

        emit(configurations(), configuration_lines(), json=json)
        return
    folder = Path(target)
    files = {
        "langgraph.json": json_module.dumps(_LANGGRAPH_JSON, indent=2) + "\n",
        "auth.py": _AUTH,
        ".env": _ENV,
    }
    present = [name for name in files if (folder / name).exists()]
    if present and not force:
        msg = f"{' and '.join(present)} exist already in {folder}; use --force to replace."
        raise InvalidInputError(msg)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
            (folder / name).chmod(0o600 if name == ".env" else 0o644)
    except OSError as error:
        msg = f"{folder} cannot be written to ({error.strerror}); choose another folder."
        raise InvalidInputError(msg) from error
    emit([str(folder / name) for name in files], [f"Wrote {folder / name}" for name in files], json=json)


def agents(
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="TOML file of declarations; unset: THREADKEEP_AGENTS.")
    ] = None,
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """Connect to each declared sub-agent's server, and list which agents can be used and why others cannot."""
    with open_memory(data_dir) as tk:
        statuses: list[AgentStatus] = tk.sync.agents.standing(file)
    if json:
        print_json([{"name": agent.name, "ready": agent.ready, "reason": agent.reason} for agent in statuses])
        return
    for agent in statuses:
        out.print("[green]ready[/green]    " if agent.ready else "[yellow]disabled[/yellow] ", end="")
        detail = f"{len(agent.tools)} tools" if agent.ready else agent.reason
        out.print(f"{agent.name}: {detail}", markup=False)


def doctor(
    data_dir: DataDir = None,
    *,
    data_flows: Annotated[
        bool, typer.Option("--data-flows", help="List the models, embedders and tracers that receive text.")
    ] = False,
    service: Annotated[
        bool, typer.Option("--service", help="Check, too, whether it may serve other people: users, rights, secrets.")
    ] = False,
    measure: Annotated[
        bool, typer.Option("--measure", help="With pgvector: measure up to which size this server compares exactly.")
    ] = False,
    json: Json = False,
) -> None:
    """Check the installation: settings, also the gateway's, and where they came from, storage, embedder, model.

    The exit code is 1 if something is broken.
    """
    from threadkeep.process_state import list_data_flows

    wanted = load_settings(data_dir)
    gateway, checks = _gateway_settings()
    with open_memory(data_dir, settings=settings_of_existing(wanted)) as tk:
        checks = [*_checks(tk, wanted, measure=measure), *checks]
        if service and gateway is not None:
            checks += _service_checks(tk, wanted, gateway)
        report = {
            "checks": checks,
            "data_flows": list_data_flows(tk.app),
            "settings": _settings(wanted, gateway),
        }
    healthy = all(row["state"] != "broken" for row in report["checks"])
    if json:
        print_json({"healthy": healthy, **report})
    else:
        _print(report, data_flows=data_flows)
    sys.exit(0 if healthy else 1)


def _missing_row(what: str, path: Path) -> dict[str, str]:
    """Return whether the first write may create the database at *path*."""
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if os.access(folder, os.W_OK):
        return {"what": what, "state": "ok", "detail": f"sqlite {path}, created at the first write"}
    return {"what": what, "state": "broken", "detail": f"{folder} is not writable; choose another --data-dir."}


def _checks(tk: Threadkeep, wanted: Settings, *, measure: bool) -> list[dict[str, str]]:
    from threadkeep.errors import ModelUnavailableError, StorageError
    from threadkeep.models.langchain import chat_model
    from threadkeep.storage.interface import ServerAdvice

    missing = missing_database(wanted)
    rows: list[dict[str, str]] = []
    if wanted.unused_server is not None:
        rows.append(_warning("storage", wanted.unused_server))
    rows += [_warning("settings", sentence) for sentence in _misspelled(wanted)]
    storage = tk.app.storage
    try:
        health = tk.sync.ready()
        rows.append(
            _missing_row("storage", missing)
            if missing
            else {"what": "storage", "state": "ok", "detail": health.storage}
        )
        backend = tk.app.backend
        if isinstance(backend, ServerAdvice):
            said = tk.app.event_loop.run_sync(backend.advice())
            rows += [{"what": "storage", "state": "warning", "detail": sentence} for sentence in said]
        rows.append({"what": "items", "state": "ok", "detail": _seal(tk)})
        if health.embedder:
            rows.append({"what": "embedder", "state": "ok", "detail": health.embedder})
            if (other := tk.app.event_loop.run_sync(_other_vectors(tk))) is not None:
                rows.append({"what": "embedder", "state": "warning", "detail": str(other)})
        elif (embedder := tk.app.embedder) is not None:
            detail = f"{embedder.name} does not answer: search is by words only until it does"
            rows.append({"what": "embedder", "state": "warning", "detail": detail})
        else:
            detail = 'search is by words only; pip install "threadkeep[local]"'
            rows.append({"what": "embedder", "state": "missing", "detail": detail})
        if (engine := tk.app.event_loop.run_sync(_vectors(tk, measure=measure))) is not None:
            rows.append(engine)
    except StorageError as error:
        rows.append({"what": "storage", "state": "broken", "detail": f"{storage.name} {storage.location}: {error}"})
    rows.append({"what": "lifecycle", "state": "ok", "detail": _lifecycle(tk)})
    rows += _threads(tk, wanted)
    name = tk.app.settings.model
    try:
        chat_model(name)
        rows.append(
            {"what": "model", "state": "ok", "detail": name}
            if name
            else {"what": "model", "state": "missing", "detail": "set THREADKEEP_MODEL=provider:name"}
        )
    except ModelUnavailableError as error:
        rows.append({"what": "model", "state": "broken", "detail": str(error)})
    return rows


def _misspelled(settings: Settings) -> Iterator[str]:
    """Yield a sentence for each environment variable that is not a setting and is spelled almost like one."""
    from difflib import get_close_matches

    from threadkeep.gateway.settings import GatewaySettings
    from threadkeep.settings import secret_file_variables, variables_of

    known: set[str] = set()
    for fields in (type(settings), GatewaySettings):
        known.update(secret_file_variables(fields), *(variables_of(fields, name) for name in fields.model_fields))
    for variable in sorted(settings.variables_in_force(None)):
        if variable.startswith(("THREADKEEP_", "LANGGRAPH_")) and variable not in known:
            for similar in get_close_matches(variable, known, n=1, cutoff=0.9):
                yield f"{variable} is not a setting; did you mean {similar}?"


def _service_checks(tk: Threadkeep, wanted: Settings, gateway: GatewaySettings) -> list[dict[str, str]]:
    from threadkeep.errors import StorageError, optional_import

    try:
        with optional_import("threadkeep doctor --service", extra="serve"):
            return tk.app.event_loop.run_sync(service_rows(tk, wanted, gateway))
    except StorageError as error:
        return [{"what": "database user", "state": "broken", "detail": str(error)}]


async def _vectors(tk: Threadkeep, *, measure: bool) -> dict[str, str] | None:
    """Tell whether the vector engine answers; ``None``: vectors are compared in RAM."""
    from threadkeep.errors import VectorEngineError
    from threadkeep.search.vectorstores.base import Measuring

    engine = (await tk.app.connect()).search.engine
    if engine is None:
        return None
    at_from = f"{engine.name} {engine.location}; asked about owners from {tk.app.settings.vectors_from:,} items on"
    try:
        await engine.connect()
        if measure and isinstance(engine, Measuring):
            dims = (tk.app.embedder.dims if tk.app.embedder is not None else None) or _DEFAULT_DIMS
            rows = await engine.exact_up_to(dims)
            at_from += (
                f"; compares all of an owner's up to about {rows:,} vectors of {dims:,} numbers, then by an index"
            )
    except VectorEngineError as error:
        detail = f"{engine.name} {engine.location}: {error} Large owners are searched by words until it answers."
        return {"what": "vectors", "state": "broken", "detail": detail}
    return {"what": "vectors", "state": "ok", "detail": at_from}


async def _other_vectors(tk: Threadkeep) -> StaleVectorsError | None:
    """Look at some items for vectors that the embedder's cannot be compared with; ``storage check`` looks at all."""
    from threadkeep.search.vectors import stale

    app, embedder = tk.app, tk.app.embedder
    if embedder is None:
        return None
    for partition in await app.storage.partitions(limit=_SAMPLE):
        page = await app.storage.scan(partition, limit=_SAMPLE)
        kinds = [(one.model, one.dims) for item in page.items if (one := item.embedding) is not None]
        if found := stale(kinds, embedder.name, embedder.dims):
            return found
    return None


def _threads(tk: Threadkeep, wanted: Settings) -> list[dict[str, str]]:
    from threadkeep.errors import SettingsError, StorageError

    try:
        saver = tk.app.threads.checkpointer
    except SettingsError as error:
        return [{"what": "threads", "state": "broken", "detail": str(error)}]
    if saver is None:
        return [{"what": "threads", "state": "ok", "detail": "kept by the LangGraph server"}]
    unread = _unread_threads(tk)
    if wanted.thread_path is not None and not wanted.thread_path.exists():
        return [_missing_row("threads", wanted.thread_path), *unread]
    sealed = ", encrypted" if tk.app.settings.checkpoint_key else ""
    detail = f"{saver.storage.name} {saver.storage.location}{sealed}"
    try:
        tk.app.event_loop.run_sync(saver.connect())
        unlisted = tk.app.event_loop.run_sync(saver.directory.unlisted())
    except StorageError as error:
        return [{"what": "threads", "state": "broken", "detail": str(error)}]
    rows = [{"what": "threads", "state": "ok", "detail": detail}, *unread]
    if unlisted:
        advice = f"{len(unlisted):,} threads are on no owner's list; run: threadkeep storage sweep"
        rows.append({"what": "threads", "state": "warning", "detail": advice})
    return rows


def _unread_threads(tk: Threadkeep) -> list[dict[str, str]]:
    """Warn of threads from before threads had a key or a place of their own."""
    from threadkeep.errors import StorageError
    from threadkeep.storage.interface import iterate_partitions

    async def count() -> dict[str, int]:
        async with tk.app.threads.earlier_storages() as storages:
            return {
                one.location: sum([partition.kind == "thread" async for partition in iterate_partitions(one)])
                for one in storages
            }

    try:
        numbers = tk.app.event_loop.run_sync(count())
    except StorageError:  # the row of the storage says so
        return []
    return [
        {
            "what": "threads",
            "state": "warning",
            "detail": f"{number:,} threads from before are in {location}, and not read; run: threadkeep threads move "
            "(docs/threads.md)",
        }
        for location, number in numbers.items()
        if number
    ]


def _seal(tk: Threadkeep) -> str:
    sealed = tk.app.sealed
    if sealed is None:
        return "not encrypted; create a key with: threadkeep keys new"
    keys = sealed.keys
    return f"encrypted; the owners' keys are in {keys.location}, wrapped by the master key {keys.masters.current}"


def _lifecycle(tk: Threadkeep) -> str:
    settings = tk.app.settings
    said = [
        f"memories expire after {settings.store_ttl_minutes:g} minutes" if settings.store_ttl_minutes else "",
        f"are archived after {settings.inactive_days:g} days without use" if settings.inactive_days else "",
        f"an owner has at most {settings.max_memories_per_owner:,}" if settings.max_memories_per_owner else "",
    ]
    return ", ".join(part for part in said if part) or "memories stay until they are removed"


def _settings(settings: Settings, gateway: GatewaySettings | None) -> list[dict[str, str]]:
    from threadkeep.settings import resolved

    rows = resolved(settings) if gateway is None else resolved(settings, gateway)
    return [{"variable": row.variable, "value": row.value, "origin": row.origin} for row in rows]


def _gateway_settings() -> tuple[GatewaySettings | None, list[dict[str, str]]]:
    """Return the settings of the gateway; ``None`` and what is wrong where they are invalid."""
    from threadkeep.errors import SettingsError
    from threadkeep.gateway.settings import GatewaySettings

    try:
        return GatewaySettings.load(), []
    except SettingsError as error:
        return None, [{"what": "gateway", "state": "broken", "detail": str(error)}]


def _print(report: dict[str, Any], *, data_flows: bool) -> None:
    marks = {
        "ok": "[green]ok[/green]     ",
        "warning": "[yellow]warning[/yellow]",
        "missing": "[yellow]missing[/yellow]",
        "broken": "[red]broken[/red] ",
    }
    for row in report["checks"]:
        out.print(f"{marks[row['state']]} {row['what']}: ", end="")
        out.print(row["detail"], markup=False)
    if data_flows:
        out.print("\nWho gets text:", style="bold")
        for row in report["data_flows"]:
            out.print(f"  {row['to']}: {row['gets']}; leaves this machine: {row['leaves_machine']}", markup=False)
        return
    out.print("\nSettings:", style="bold")
    for row in report["settings"]:
        out.print(f"  {row['variable']} = {row['value'] or '(unset)'}  [{row['origin']}]", markup=False)
