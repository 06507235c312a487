"""``threadkeep doctor --service``: whether an installation may serve other people."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from pydantic import SecretStr

    from threadkeep.client import Threadkeep
    from threadkeep.gateway.settings import GatewaySettings
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
