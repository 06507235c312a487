"""What PostgreSQL's errors mean, each in one sentence that names what to do; no password is in any of them."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, TypeAlias

import psycopg

from threadkeep.errors import (
    StorageDeniedError,
    StorageError,
    StorageFullError,
    StorageReadOnlyError,
    StorageUnavailableError,
    ThreadkeepError,
    TooLargeError,
)

_Meaning: TypeAlias = tuple[type[ThreadkeepError], str]

_LONGEST_SAYING: Final = 300

# {where} is the server, {said} what it said. By SQLSTATE, else by its class, the first two characters.
_MEANINGS: Final[dict[str, _Meaning]] = {
    "08": (StorageUnavailableError, "{where} cannot be reached ({said}); try again."),
    "0A": (StorageError, "{where} cannot do what is needed ({said}); PostgreSQL 14 and later can."),
    "25006": (
        StorageReadOnlyError,
        "{where} is read-only, a replica or set so; give the URL of the primary, or let it be written to.",
    ),
    "25P03": (StorageUnavailableError, "{where} ended a transaction that stood still; nothing was written. Try again."),
    "28": (StorageDeniedError, "{where} refused this user ({said}); correct the URL, or let the user in."),
    "28P01": (
        StorageDeniedError,
        "{where} refused the password; correct it in the URL, where a % is spelled %25 and an @ %40.",
    ),
    "3D000": (StorageError, "{where} has no such database; create it, or correct the URL."),
    "40": (StorageUnavailableError, "{where} gave way to another transaction; nothing was written. Try again."),
    "42501": (StorageDeniedError, "{where} denied this user a right ({said}); grant it, or use the tables' owner."),
    "42P01": (
        StorageError,
        "{where} lacks a table that was there ({said}); restore it from a backup, or start again in an empty database.",
    ),
    "53": (StorageUnavailableError, "{where} is short of resources ({said}); nothing was written. Try again."),
    "53100": (StorageFullError, "The disk of {where} is full; nothing was written. Free some space there."),
    "53300": (
        StorageUnavailableError,
        "{where} takes no more connections; raise its max_connections, or lower THREADKEEP_POSTGRES_POOL_SIZE.",
    ),
    "54": (TooLargeError, "PostgreSQL cannot keep this ({said}). Split it, or store a reference to it."),
    "55": (StorageUnavailableError, "{where} is busy with another session ({said}); nothing was written. Try again."),
    "57": (
        StorageUnavailableError,
        "{where} ended the connection ({said}); try again. A commit that was under way may have been written.",
    ),
    "57014": (
        StorageUnavailableError,
        "{where} took too long; nothing was written. Try again, or raise THREADKEEP_POSTGRES_STATEMENT_TIMEOUT_MS.",
    ),
    "57P03": (StorageUnavailableError, "{where} is starting up or shutting down; try again."),
    "58": (StorageUnavailableError, "{where} has trouble with its disk or system ({said}); look into its log."),
    "TLS": (
        StorageUnavailableError,
        "No TLS connection to {where} ({said}); correct sslmode, sslrootcert or the certificate it names.",
    ),
}

# A connection that does not come about has no SQLSTATE; a server that speaks another language falls to the last line.
_SAYINGS: Final = (
    (re.compile(r"password authentication failed|no password supplied"), "28P01"),
    (re.compile(r"role .* does not exist|no pg_hba\.conf entry|authentication failed|not permitted to log in"), "28"),
    (re.compile(r"database .* does not exist"), "3D000"),
    (re.compile(r"permission denied for database"), "42501"),
    (re.compile(r"too many (clients|connections)|remaining connection slots"), "53300"),
    (re.compile(r"the database system is "), "57P03"),
    (re.compile(r"\bSSL\b|\bTLS\b|certificate", re.IGNORECASE), "TLS"),
    (re.compile(r"session is read-only|server is in hot standby|session is not read-write"), "25006"),
    (re.compile(r""), "08"),
)


_FULL: Final = re.compile(r"File too large|quota", re.IGNORECASE)


@contextmanager
def postgres_errors(where: str) -> Generator[None]:
    """Raise what the driver raises inside as an error of ours; *where* is the server, without its password."""
    try:
        yield
    except (psycopg.Error, OSError) as error:
        raise error_of(error, where) from error


def error_of(error: Exception, where: str) -> ThreadkeepError:
    """Return what *error* of the driver means."""
    state = getattr(error, "sqlstate", None) or _state_of(error)
    if state == "XX000" and _FULL.search(str(error)):  # a quota has no code of its own
        state = "53100"
    kind, text = _MEANINGS.get(state) or _MEANINGS.get(state[:2]) or (StorageError, "{where} refused: {said}.")
    return kind(text.format(where=where, said=_said(error)), server=where, sqlstate=state)


def is_lost(error: Exception) -> bool:
    """Whether the connection broke, or the server ended it: on another one it may work."""
    state = getattr(error, "sqlstate", None)
    if state is not None:
        return state[:2] in ("08", "57") and state != "57014"
    return isinstance(error, psycopg.OperationalError | OSError)


def _state_of(error: Exception) -> str:
    if not isinstance(error, psycopg.OperationalError | OSError):
        return ""
    said = str(error)
    return next(state for saying, state in _SAYINGS if saying.search(said))


def _said(error: Exception) -> str:
    """Return the first thing that was said; never a value: those stand in the details, which are left out."""
    diagnosis = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    lines = (diagnosis or str(error)).strip().splitlines() or [type(error).__name__]
    return lines[0].removeprefix("connection failed: ").rstrip(".")[:_LONGEST_SAYING]
