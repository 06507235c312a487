"""The file that a SQLite storage is: found or made, checked, opened; and what its errors mean."""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, Literal

from threadkeep.errors import (
    ClosedError,
    NotAStorageError,
    StorageError,
    StorageFullError,
    StorageReadOnlyError,
    StorageUnavailableError,
    StorageVersionError,
    TooLargeError,
)
from threadkeep.ids import new_id
from threadkeep.storage.sql_files import statements

_FOLDER: Final = Path(__file__).with_name("sql")

SQL: Final = statements(_FOLDER / "statements.sql")


APPLICATION_ID: Final = 0x54484B50
"""``THKP`` in the file's header: ``file`` and ``PRAGMA application_id`` show it."""

SCHEMA_VERSION: Final = 1
BUSY_SECONDS: Final = 5.0

_making: Final = threading.Lock()
_PERMISSION_ERRNOS: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_FULL_ERRNOS: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_FULL_CODES: Final = frozenset(
    {
        sqlite3.SQLITE_IOERR_WRITE,
        sqlite3.SQLITE_IOERR_FSYNC,
        sqlite3.SQLITE_IOERR_TRUNCATE,
        sqlite3.SQLITE_IOERR_SHMSIZE,
    }
)


def open_writer(path: Path, *, synchronous: Literal["FULL", "NORMAL"]) -> sqlite3.Connection:
    """Return a connection that writes to the storage at *path*, which is made where there is none.

    Raises:
        NotAStorageError: Something else is there; it was not touched.
        StorageVersionError: A newer version wrote it.
        StorageReadOnlyError, StorageFullError, StorageUnavailableError: As they say.
    """
    if _size(path):
        _check_header(path)
    else:
        _make_file(path)
    with storage_errors(path):
        connection = _connected(path, "rw", seconds=BUSY_SECONDS)
        try:
            connection.execute(f"PRAGMA synchronous = {synchronous}")
            connection.execute("PRAGMA secure_delete = ON")
            _make_schema(connection, path)
            _use_write_ahead_log(connection, path)
        except BaseException:
            connection.close()
            raise
    return connection


def open_reader(path: Path, *, seconds: float = BUSY_SECONDS) -> sqlite3.Connection:
    """Return a connection that reads the storage at *path* and waits at most *seconds* for a lock."""
    with storage_errors(path):
        connection = _connected(path, "rw", seconds=seconds)
        try:
            connection.execute("PRAGMA query_only = ON")
        except BaseException:
            connection.close()
            raise
    return connection


@contextmanager
def transaction(connection: sqlite3.Connection, kind: Literal["IMMEDIATE", "DEFERRED"]) -> Generator[None]:
    """Commit what is done inside, or roll it back where it raises."""
    connection.execute(f"BEGIN {kind}")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # a full disk has rolled it back already
            connection.execute("ROLLBACK")
        raise


@contextmanager
def storage_errors(path: Path) -> Generator[None]:
    """Raise what the driver raises inside as an error of ours."""
    try:
        yield
    except sqlite3.Error as error:
        raise _error_of(error, path) from error


def size_bytes(path: Path) -> int:
    """Return how much the storage at *path* takes on the disk, its log included."""
    return sum(_size(part) for part in (path, path.with_name(f"{path.name}-wal")))


def identity(path: Path) -> tuple[int, int] | None:
    """Return device and inode of the file at *path*; ``None`` where there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _connected(path: Path, mode: str, *, seconds: float) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        timeout=seconds,
        isolation_level=None,
        check_same_thread=False,  # used by one thread at a time: see SqliteStorage
    )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _check_header(path: Path) -> None:
    """Refuse a file that is not ours without touching it: SQLite reads it as one that nobody writes.

    It must be SQLite that opens it. Were we to open and close the file ourselves, the system would
    drop the locks that other connections of this process hold on it. The identity stands in
    the main file from the first commit on, which is made before there is a log.

    While a process moves the log into the file, or where one was killed at that, the first page may say that
    the file is longer than it is. What reads the log, too, sees that it is whole; this look does not, and would take
    the file for a damaged one.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise _not_a_storage(path)
    with storage_errors(path), closing(_connected(path, "ro&immutable=1", seconds=0)) as connection:
        connection.execute("PRAGMA writable_schema = ON")  # nothing is written: with it SQLite bears a wrong length
        ((application_id,),) = connection.execute("PRAGMA application_id").fetchall()
    if application_id != APPLICATION_ID:
        raise _not_a_storage(path)


def _make_file(path: Path) -> None:
    try:
        for folder in reversed((path.parent, *path.parent.parents)):
            if not folder.exists():
                folder.mkdir(mode=0o700, exist_ok=True)
        # Only a file that nobody can have open yet is opened and closed here: see _check_header.
        with _making:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        if path.is_dir():
            raise _not_a_storage(path) from None
    except OSError as error:
        if error.errno in _PERMISSION_ERRNOS:
            raise _read_only(path) from error
        if error.errno in _FULL_ERRNOS:
            raise _full(path) from error
        msg = f"No storage can be made at {path}: {error.strerror}. Choose another place."
        raise StorageError(msg, path=str(path)) from error


def _make_schema(connection: sqlite3.Connection, path: Path) -> None:
    """Make the tables where the file is empty; whoever comes second finds them."""
    with transaction(connection, "IMMEDIATE"):
        ((version,),) = connection.execute("PRAGMA user_version").fetchall()
        ((tables,),) = connection.execute("SELECT count(*) FROM sqlite_master").fetchall()
        if version == 0 and tables == 0:
            for statement in (_FOLDER / "schema.sql").read_text(encoding="utf-8").split(";\n"):
                connection.execute(statement)
            connection.execute(SQL["bear"], {"epoch": new_id()})
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        elif version != SCHEMA_VERSION:
            msg = (
                f"{path} was written by another version of Threadkeep (its schema is {version}, this one's "
                f"{SCHEMA_VERSION}). Upgrade Threadkeep, or choose another place."
            )
            raise StorageVersionError(msg, path=str(path))


def _use_write_ahead_log(connection: sqlite3.Connection, path: Path) -> None:
    """Switch the file to its log, with which readers and the writer never wait for each other.

    SQLite does not wait for the lock that the switch needs, so two processes that make one file
    together take turns here.
    """
    until = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            ((mode,),) = connection.execute("PRAGMA journal_mode = WAL").fetchall()
            break
        except sqlite3.OperationalError as error:
            if _primary(error) != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
        time.sleep(0.01)
    if mode != "wal":
        msg = f"The file system of {path} cannot share memory between processes. Choose a place on a local disk."
        raise StorageError(msg, path=str(path))


def _primary(error: sqlite3.Error) -> int:
    """Return SQLite's primary result code; 0 where the error is the driver's own."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _error_of(error: sqlite3.Error, path: Path) -> Exception:
    code: int = getattr(error, "sqlite_errorcode", 0)
    result: Exception
    match _primary(error):
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            msg = f"{path} was locked by another process for {BUSY_SECONDS:g} seconds; nothing was written. Try again."
            result = StorageUnavailableError(msg, path=str(path))
        case sqlite3.SQLITE_FULL:
            result = _full(path)
        case sqlite3.SQLITE_IOERR if code in _FULL_CODES:
            result = _full(path)
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
            result = _read_only(path)
        case sqlite3.SQLITE_CANTOPEN if not (_is_open_to_us(path) and _is_open_to_us(path.parent)):
            result = _read_only(path)
        case sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_CORRUPT:
            result = _not_a_storage(path)
        case sqlite3.SQLITE_TOOBIG:
            msg = "An item is larger than SQLite keeps in one row. Split it, or store a reference to it."
            result = TooLargeError(msg)
        case sqlite3.SQLITE_IOERR | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PROTOCOL | sqlite3.SQLITE_NOMEM:
            msg = f"{path} could not be read or written ({error}); nothing was written. Try again."
            result = StorageUnavailableError(msg, path=str(path))
        case 0 if isinstance(error, sqlite3.ProgrammingError):
            result = ClosedError("This storage was closed; open a new one.")
        case _:
            result = StorageError(f"SQLite refused to work on {path}: {error}.", path=str(path))
    return result


def _is_open_to_us(path: Path) -> bool:
    return os.access(path, os.R_OK | os.W_OK)


def _not_a_storage(path: Path) -> NotAStorageError:
    msg = f"{path} is no storage of Threadkeep, or it is damaged; it was not touched. Choose another place."
    return NotAStorageError(msg, path=str(path))


def _read_only(path: Path) -> StorageReadOnlyError:
    msg = f"{path} and its folder must be writable; give this process write access, or choose another place."
    return StorageReadOnlyError(msg, path=str(path))


def _full(path: Path) -> StorageFullError:
    msg = (
        f"The disk that holds {path} is full, or a limit on its size is reached; nothing was written. Free some space."
    )
    return StorageFullError(msg, path=str(path))
