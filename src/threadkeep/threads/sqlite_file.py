"""The SQLite file of the checkpoints: opened, recognised, and its errors in our words."""

from __future__ import annotations

import errno
import os
import sqlite3
import time
from datetime import timedelta
from pathlib import Path
from typing import Final

from threadkeep.errors import (
    NotAStorageError,
    StorageError,
    StorageFullError,
    StorageReadOnlyError,
    StorageUnavailableError,
    StorageVersionError,
    TooLargeError,
)

BUSY_TIMEOUT: Final = timedelta(seconds=5)
VERSION: Final = 1

_APPLICATION_ID: Final = 0x746B6370  # "tkcp" in the file's header, so that `file` and we know it again
_LANGGRAPH_TABLES: Final = frozenset({"checkpoints", "writes"})
_RETRY_SECONDS: Final = 0.02


def open_file(path: Path, *, busy_timeout: timedelta = BUSY_TIMEOUT) -> sqlite3.Connection:
    """Open the checkpoints at *path*, or begin a new file there, readable by this user only.

    A file of LangGraph's stock SQLite saver is taken over as it is. Anything else is refused
    before the first byte is written.

    Args:
        path: The file; missing folders are made with mode 0700, the file with 0600.
        busy_timeout: How long a write waits for another process's.

    Raises:
        NotAStorageError, StorageVersionError, StorageReadOnlyError, StorageFullError, StorageUnavailableError:
            As they say.
    """
    try:
        _make_room(path)
    except OSError as error:
        raise _of_os_error(error, path) from error
    if path.is_dir():
        msg = f"{path} is a folder, not a file of checkpoints; name a file in it."
        raise NotAStorageError(msg, path=str(path))
    try:
        # One worker thread uses the connection, but not always the one that opened it, and it says when it begins.
        connection = sqlite3.connect(
            path, timeout=busy_timeout.total_seconds(), check_same_thread=False, isolation_level=None
        )
        try:
            _prepare(connection, path, busy_timeout)
        except BaseException:
            connection.close()
            raise
    except sqlite3.Error as error:
        raise storage_error(error, path) from error
    return connection


def storage_error(error: sqlite3.Error, path: Path) -> StorageError | TooLargeError:  # noqa: PLR0911 - a table
    """Return what *error* of the driver means, in one sentence that says what to do."""
    code = getattr(error, "sqlite_errorcode", None)
    primary = code & 0xFF if isinstance(code, int) else None
    where = {"path": str(path)}
    if code == sqlite3.SQLITE_IOERR_SHMSIZE:  # no room for the index of the log
        primary = sqlite3.SQLITE_FULL
    match primary:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            msg = f"Another process is writing to {path} and did not finish in time; try again."
            return StorageUnavailableError(msg, **where)
        case sqlite3.SQLITE_FULL:
            return StorageFullError(f"The disk that holds {path} is full; free some space.", **where)
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM | sqlite3.SQLITE_AUTH:
            msg = f"{path} cannot be opened for writing; give this user write access to the file and its folder."
            return StorageReadOnlyError(msg, **where)
        case sqlite3.SQLITE_NOTADB:
            return NotAStorageError(f"{path} is not a SQLite file; it was not touched. Choose another path.", **where)
        case sqlite3.SQLITE_CORRUPT:
            return StorageError(f"{path} is damaged; restore it from a backup.", **where)
        case sqlite3.SQLITE_TOOBIG:
            return TooLargeError("A checkpoint is larger than SQLite can hold (1 GB); keep less in the state.", **where)
        case _:
            name = getattr(error, "sqlite_errorname", type(error).__name__)
            return StorageUnavailableError(f"{path} cannot be used ({name}); nothing was written.", **where)


def _make_room(path: Path) -> None:
    for folder in reversed(path.parents):
        if not folder.exists():
            folder.mkdir(mode=0o700, exist_ok=True)
    if not path.exists():
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))


def _prepare(connection: sqlite3.Connection, path: Path, busy_timeout: timedelta) -> None:
    ends = time.monotonic() + busy_timeout.total_seconds()
    while True:
        try:
            _recognise(connection, path)
            # Not waited for by SQLite's busy handler when several processes begin one file together.
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {VERSION}")
            break
        except sqlite3.OperationalError as error:
            busy = getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
            if not busy or time.monotonic() > ends:
                raise
            time.sleep(_RETRY_SECONDS)
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA secure_delete = ON")  # what is deleted is overwritten, not only unlinked


def _recognise(connection: sqlite3.Connection, path: Path) -> None:
    application_id: int = connection.execute("PRAGMA application_id").fetchone()[0]
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if application_id == _APPLICATION_ID:
        if version > VERSION:
            msg = f"{path} was written by a newer version of Threadkeep (format {version}); upgrade to use it."
            raise StorageVersionError(msg, path=str(path), version=version)
        return
    empty = application_id == 0 and not tables
    stock = application_id == 0 and tables >= _LANGGRAPH_TABLES
    if not empty and not stock:
        msg = f"{path} is another program's database; it was not touched. Choose another path."
        raise NotAStorageError(msg, path=str(path))


def _of_os_error(error: OSError, path: Path) -> StorageError:
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return StorageReadOnlyError(f"{path} cannot be created; give this user write access to its folder.")
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StorageFullError(f"The disk that is to hold {path} is full; free some space.")
    return StorageUnavailableError(f"{path} cannot be created ({os.strerror(error.errno or 0)}).", path=str(path))
