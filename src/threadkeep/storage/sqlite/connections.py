"""The file of a SQLite storage: creating, checking and opening it, its errors, and its connections and threads."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import sqlite3
import stat
import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from contextvars import Context
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeVar, TypeVarTuple

from threadkeep.errors import (
    FULL_ERRNOS,
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
from threadkeep.storage.base import read_statements

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

log: Final = logging.getLogger("threadkeep")

_FOLDER: Final = Path(__file__).with_name("sql")

SQL: Final = read_statements(_FOLDER / "statements.sql")


APPLICATION_ID: Final = 0x54484B50
"""``THKP`` in the file's header; ``file`` and ``PRAGMA application_id`` show it."""

SCHEMA_VERSION: Final = 3
"""The version that ``sql/schema.sql`` creates; ``sql/NNNN.sql`` migrates a file to version NNNN."""

BUSY_SECONDS: Final = 5.0

REWRITE_BYTES: Final = 256 * 1024 * 1024
"""Up to this size a file is rewritten after an erasure."""

REWRITE_SECONDS: Final = 600.0
"""How long copies of erased rows may stay where no query reads them; rewriting the file removes them."""

SCRUB_SECONDS: Final = 30.0
"""How long deleted rows may stay in the write-ahead log, where no query reads them."""

_READERS: Final = 4
_INLINE_STEPS: Final = 10_000
"""SQLite interrupts a statement on the event loop after so many of its instructions: about 250 rows, or 0.3 ms."""
TRUNCATE_SECONDS: Final = 1.0
"""How long truncating the log waits for readers; commits wait that long, too."""

_making: Final = threading.Lock()
_PERMISSION_ERRNOS: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_FULL_CODES: Final = frozenset(
    {
        sqlite3.SQLITE_IOERR_WRITE,
        sqlite3.SQLITE_IOERR_FSYNC,
        sqlite3.SQLITE_IOERR_TRUNCATE,
        sqlite3.SQLITE_IOERR_SHMSIZE,
    }
)


class FileOptions(NamedTuple):
    """How a file is opened; see :class:`threadkeep.storage.sqlite.storage.SqliteStorage`."""

    synchronous: Literal["FULL", "NORMAL"] = "FULL"
    migrate: Literal["auto", "check"] = "auto"


def open_writer(path: Path, options: FileOptions) -> sqlite3.Connection:
    """Return a connection that writes to the storage at *path*; create the storage if it does not exist.

    Raises:
        NotAStorageError: The file is something else; it was not touched.
        StorageVersionError: Another version of Threadkeep wrote it.
        StorageReadOnlyError, StorageFullError, StorageUnavailableError: As they say.
    """
    may_migrate = options.migrate == "auto"
    if _size(path):
        _check_header(path)
    elif may_migrate:
        _make_file(path)
    else:
        raise _unmigrated(path, "do not exist yet")
    with storage_errors(path):
        connection = _connected(path, "rw", seconds=BUSY_SECONDS)
        try:
            connection.execute(f"PRAGMA synchronous = {options.synchronous}")
            connection.execute("PRAGMA secure_delete = ON")
            run_transaction(connection, path, "IMMEDIATE", _make_schema, path, may_migrate)
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


def open_inline_reader(path: Path) -> sqlite3.Connection:
    """Return a connection for small reads on the event loop: it waits for no lock, and SQLite interrupts long ones."""
    connection = open_reader(path, seconds=0)
    _interrupt_long_reads(connection)
    return connection


def _interrupt_long_reads(connection: sqlite3.Connection) -> None:
    connection.set_progress_handler(lambda: True, _INLINE_STEPS)


def _end_transaction(connection: sqlite3.Connection) -> None:
    """End the transaction that an inline reader was left in: further reads would see the same moment for ever.

    SQLite counts the instructions of a statement over all its runs, so it interrupts a BEGIN or a COMMIT now and then.
    """
    connection.set_progress_handler(None, 0)
    connection.execute("ROLLBACK")
    _interrupt_long_reads(connection)


def run_transaction(
    connection: sqlite3.Connection,
    path: Path,
    kind: Literal["IMMEDIATE", "DEFERRED"],
    work: Callable[[sqlite3.Connection, *Ts], T],
    *args: *Ts,
) -> T:
    """Commit the statements of *work*, or roll them back if it raises; raise the driver's errors as Threadkeep's."""
    try:
        connection.execute(f"BEGIN {kind}")
        try:
            result = work(connection, *args)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:  # a full disk has rolled it back already
                connection.execute("ROLLBACK")
            raise
    except sqlite3.Error as error:
        raise _error_of(error, path) from error
    return result


@contextmanager
def storage_errors(path: Path) -> Generator[None]:
    """Raise the driver's errors as Threadkeep's."""
    try:
        yield
    except sqlite3.Error as error:
        raise _error_of(error, path) from error


def size_bytes(path: Path) -> int:
    """Return the size of the storage at *path* on the disk, with its log."""
    return sum(_size(part) for part in (path, path.with_name(f"{path.name}-wal")))


def identity(path: Path) -> tuple[int, int] | None:
    """Return the device and the inode of the file at *path*; ``None`` if it does not exist."""
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
        check_same_thread=False,  # one thread at a time uses it: see SqliteConnections
    )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _check_header(path: Path) -> None:
    """Check that the file is a Threadkeep storage, without touching it: SQLite opens it as immutable.

    SQLite must open it: if this process opened and closed the file itself, the system would drop the locks that
    other connections of this process have on it. The application id is in the main file from the first commit on,
    which is made before there is a log.

    While a process checkpoints the log, or after it was killed while it did, the first page may name a length that
    the file does not have yet. An immutable connection ignores the log and would report a damaged file.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise _not_a_storage(path)
    with storage_errors(path), closing(_connected(path, "ro&immutable=1", seconds=0)) as connection:
        connection.execute("PRAGMA writable_schema = ON")  # nothing is written; it makes SQLite accept a wrong length
        ((application_id,),) = connection.execute("PRAGMA application_id").fetchall()
    if application_id != APPLICATION_ID:
        raise _not_a_storage(path)


def _make_file(path: Path) -> None:
    try:
        for folder in reversed((path.parent, *path.parent.parents)):
            if not folder.exists():
                folder.mkdir(mode=0o700, exist_ok=True)
        # Only a file that was created here is opened and closed: see _check_header.
        with _making:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        if path.is_dir():
            raise _not_a_storage(path) from None
    except OSError as error:
        if error.errno in _PERMISSION_ERRNOS:
            raise _read_only(path) from error
        if error.errno in FULL_ERRNOS:
            raise _full(path) from error
        msg = f"The storage at {path} cannot be created: {error.strerror}. Choose another path."
        raise StorageError(msg, path=str(path)) from error


def _make_schema(connection: sqlite3.Connection, path: Path, may_migrate: bool) -> None:  # noqa: FBT001 - a value
    """Create the tables in an empty file, and migrate an older schema; runs in a transaction.

    Raises:
        StorageVersionError: The schema is newer, or it is older and must not be migrated.
    """
    ((version,),) = connection.execute("PRAGMA user_version").fetchall()
    ((tables,),) = connection.execute("SELECT count(*) FROM sqlite_master").fetchall()
    if version == 0 and tables == 0:
        _execute_script(connection, _FOLDER / "schema.sql")
        connection.execute(SQL["bear"], {"epoch": new_id()})
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    elif 0 < version < SCHEMA_VERSION:
        if not may_migrate:
            raise _unmigrated(path, "are older than this Threadkeep needs")
        for number in range(version + 1, SCHEMA_VERSION + 1):
            _execute_script(connection, _FOLDER / f"{number:04d}.sql")
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    elif version != SCHEMA_VERSION:
        msg = (
            f"{path} was written by another version of Threadkeep (its schema is {version}, this one's "
            f"{SCHEMA_VERSION}). Upgrade Threadkeep, or choose another path."
        )
        raise StorageVersionError(msg, path=str(path))


def _unmigrated(path: Path, problem: str) -> StorageVersionError:
    msg = f"The tables of {path} {problem}, and THREADKEEP_MIGRATE is check; run threadkeep migrate."
    return StorageVersionError(msg, path=str(path))


def _execute_script(connection: sqlite3.Connection, path: Path) -> None:
    """Execute the statements of the file at *path* in the current transaction."""
    for statement in path.read_text(encoding="utf-8").split(";\n"):
        connection.execute(statement)


def _use_write_ahead_log(connection: sqlite3.Connection, path: Path) -> None:
    """Switch to the write-ahead log, with which readers and the writer never wait for each other.

    SQLite does not wait for the lock that the switch needs, so processes that create one file together retry here.
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
        msg = f"The file system of {path} cannot share memory between processes: choose a path on a local disk."
        raise StorageError(msg, path=str(path))


def _primary(error: sqlite3.Error) -> int:
    """Return SQLite's primary result code; 0 if the error is the driver's own."""
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
        case sqlite3.SQLITE_CANTOPEN if not (_is_accessible(path) and _is_accessible(path.parent)):
            result = _read_only(path)
        case sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_CORRUPT:
            result = _not_a_storage(path)
        case sqlite3.SQLITE_TOOBIG:
            msg = "An item is too large for a row of SQLite. Split it, or store a reference to it."
            result = TooLargeError(msg)
        case sqlite3.SQLITE_IOERR | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PROTOCOL | sqlite3.SQLITE_NOMEM:
            msg = f"{path} could not be read or written ({error}); nothing was written. Try again."
            result = StorageUnavailableError(msg, path=str(path))
        case 0 if isinstance(error, sqlite3.ProgrammingError):
            result = ClosedError("This storage was closed: open a new one.")
        case _:
            result = StorageError(
                f"SQLite failed on {path}: {error}. See whether the disk and the file are sound.", path=str(path)
            )
    return result


def _is_accessible(path: Path) -> bool:
    return os.access(path, os.R_OK | os.W_OK)


def _not_a_storage(path: Path) -> NotAStorageError:
    msg = f"{path} is not a storage of Threadkeep, or it is damaged; it was not touched. Choose another path."
    return NotAStorageError(msg, path=str(path))


def _read_only(path: Path) -> StorageReadOnlyError:
    msg = f"{path} and its folder must be writable: give this process write access, or choose another path."
    return StorageReadOnlyError(msg, path=str(path))


def _full(path: Path) -> StorageFullError:
    msg = (
        f"The disk that holds {path} is full, or a limit on its size is reached; nothing was written. Free some space."
    )
    return StorageFullError(msg, path=str(path))


@dataclass(slots=True)
class SqliteConnections:
    """The connections and threads of a connected storage.

    One thread at a time uses a connection: ``connection`` the writer's thread, ``inline`` the thread that calls
    :meth:`try_read`, and a reader's connection the thread that took it from ``idle``.
    """

    path: Path
    inode: tuple[int, int] | None
    birth: str
    erased_at: int | None
    connection: sqlite3.Connection
    inline: sqlite3.Connection
    writer: ThreadPoolExecutor
    readers: ThreadPoolExecutor
    idle: deque[sqlite3.Connection] = field(default_factory=deque[sqlite3.Connection])
    reading: list[sqlite3.Connection] = field(default_factory=list[sqlite3.Connection])
    pid: int = field(default_factory=os.getpid)
    closed: bool = False
    _guard: threading.Lock = field(default_factory=threading.Lock)
    _inline_lock: threading.Lock = field(default_factory=threading.Lock)
    _timers: dict[Callable[[], bool], asyncio.TimerHandle] = field(
        default_factory=dict[Callable[[], bool], asyncio.TimerHandle]
    )
    _erased: bool = False

    def write(self, work: Callable[[sqlite3.Connection, *Ts], T], *args: *Ts) -> T:
        """Run *work* in a write transaction."""
        if identity(self.path) != self.inode:
            msg = (
                f"{self.path} was moved or removed while it was open; nothing was written. "
                "Restore it, or open the storage again."
            )
            raise StorageUnavailableError(msg, path=str(self.path))
        return run_transaction(self.connection, self.path, "IMMEDIATE", work, *args)

    def read(self, work: Callable[[sqlite3.Connection, *Ts], T], *args: *Ts) -> T:
        """Run *work* in a read transaction on a connection of its own."""
        try:
            connection = self.idle.pop()
        except IndexError:
            connection = open_reader(self.path)
            self.reading.append(connection)
        try:
            return run_transaction(connection, self.path, "DEFERRED", work, *args)
        finally:
            self.idle.append(connection)

    def try_read(self, work: Callable[[sqlite3.Connection, *Ts], T], *args: *Ts, transaction: bool) -> T | None:
        """Run one small SELECT, or a few in a *transaction*, in this thread; return ``None`` if that cannot run now.

        Such reads come before and after every search, and a switch of threads takes longer than they do. They do
        not block the event loop: with a write-ahead log a reader never waits for a writer, each row takes a few
        pages, the connection does not wait for file locks, and SQLite interrupts what reads much. Two threads take
        turns: each must see what was committed before its call. It fails while the log is recovered or truncated, and
        with detectors of blocking calls, such as that of ``langgraph dev``; a reader then waits, and raises the real
        error.
        """
        try:
            with self._inline_lock:
                try:
                    if transaction:
                        return run_transaction(self.inline, self.path, "DEFERRED", work, *args)
                    return work(self.inline, *args)
                finally:
                    if self.inline.in_transaction:
                        _end_transaction(self.inline)
        except Exception:  # noqa: BLE001 - nothing is swallowed: a reader repeats it
            return None

    def truncate_log(self) -> bool:
        """Checkpoint and truncate the write-ahead log; return whether no reader prevented it."""
        connection = self.connection
        try:
            connection.execute(f"PRAGMA busy_timeout = {TRUNCATE_SECONDS * 1000:.0f}")
            ((busy, _, _),) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            connection.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000:.0f}")
        except sqlite3.OperationalError as error:
            log.warning("The write-ahead log of %s could not be truncated (%s); it is retried", self.path, error)
            return False
        return not busy

    def note_erasure(self, connection: sqlite3.Connection, now: int) -> None:
        """Note in the current transaction that rows were erased, so that the file is rewritten even after a kill."""
        connection.execute(SQL["note_erasure"], {"now": now})
        self._erased = True

    def note_and_truncate(self, now: int) -> bool:
        """Note that rows were erased, and truncate the log; return whether no reader prevented it."""
        run_transaction(self.connection, self.path, "IMMEDIATE", self.note_erasure, now)
        return self.truncate_log()

    def rewrite(self) -> bool:
        """Rewrite the file if rows were erased since the last time, and truncate the log; return whether that worked.

        ``secure_delete`` overwrites a row where it is deleted, but not copies of it that SQLite left in the unused
        part of a page when it rearranged the page before. Rewriting a file of more than 256 MB would block writers
        for too long: a warning is logged instead, once for the deletions since the last one.
        """
        connection = self.connection
        try:
            ((erased_at,),) = connection.execute(SQL["erased_at"]).fetchall()
            size = self.path.stat().st_size
            if erased_at is not None:
                if size > REWRITE_BYTES:
                    log.warning(
                        "%s has %d MB: run VACUUM on it in a quiet hour to remove the remains of erased rows.",
                        self.path,
                        size >> 20,
                    )
                else:
                    connection.execute("VACUUM")
                connection.execute(SQL["note_rewrite"], {"erased_at": erased_at})
        except (OSError, sqlite3.OperationalError) as error:
            log.warning("%s could not be rewritten without its erased rows (%s); it is retried.", self.path, error)
            return False
        self._erased = False
        return self.truncate_log()

    def truncate_later(self) -> None:
        """Truncate the write-ahead log soon, so that it holds no deleted rows."""
        self._run_later(self.truncate_log, SCRUB_SECONDS)

    def rewrite_later(self, seconds: float | None = None) -> None:
        """Rewrite the file in *seconds*, by default in ten minutes; if that is planned already, then."""
        self._run_later(self.rewrite, REWRITE_SECONDS if seconds is None else seconds)

    def rewrite_in_time(self, erased_at: int, now: int) -> None:
        """Rewrite the file ten minutes after *erased_at*, at once if they have passed; both in microseconds."""
        self.rewrite_later(min(max(REWRITE_SECONDS - (now - erased_at) / 1e6, 0), REWRITE_SECONDS))

    def rewrite_again_later(self) -> None:
        """Repeat a rewrite that failed; if the log could not be truncated, that is soon: the file has its old pages."""
        self.truncate_later()
        self.rewrite_later()

    def cancel_timers(self) -> None:
        """Cancel what was to be done later: :meth:`close` does it."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _run_later(self, work: Callable[[], bool], seconds: float) -> None:
        """Run *work* in the writer's thread in *seconds*, and again until it succeeds."""
        if work not in self._timers and not self.closed:
            self._timers[work] = asyncio.get_running_loop().call_later(seconds, self._run, work, context=Context())

    def _run(self, work: Callable[[], bool]) -> None:
        del self._timers[work]
        loop = asyncio.get_running_loop()
        again = self.rewrite_again_later if work == self.rewrite else self.truncate_later

        def run() -> None:
            with self._guard:
                succeeded = self.closed or work()
            if not succeeded:
                with suppress(RuntimeError):  # the loop was closed
                    loop.call_soon_threadsafe(again)

        if not self.closed:
            self.writer.submit(run)

    def close(self) -> None:
        """Wait for the readers, rewrite the file if this process erased rows, and close every connection.

        The last connection to a file truncates its log.
        """
        self.readers.shutdown()
        try:
            if self._erased:
                self.rewrite()
        finally:
            self._close_all()

    def release(self) -> None:
        """Close the connections of a storage that was not closed; in a forked child, leave them to the parent."""
        if self.pid != os.getpid():
            _inherited.append(self)
            return
        self._close_all()

    def _close_all(self) -> None:
        with self._guard, self._inline_lock:
            self.closed = True
            for connection in (*self.reading, self.inline, self.connection):
                connection.close()


_inherited: Final[list[SqliteConnections]] = []
"""Connections of a parent process: SQLite forbids a forked child to use them, even to close them."""


def open_connections(path: Path, options: FileOptions, writer: ThreadPoolExecutor) -> SqliteConnections:
    """Open the storage at *path*; runs in the thread of *writer*, which the connections then own.

    Raises:
        StorageError: See :func:`open_writer`.
    """
    connection = open_writer(path, options)
    try:
        with storage_errors(path):
            ((birth, erased_at),) = connection.execute(SQL["birth"]).fetchall()
        return SqliteConnections(
            path=path,
            inode=identity(path),
            birth=birth,
            erased_at=erased_at,
            connection=connection,
            inline=open_inline_reader(path),
            writer=writer,
            readers=ThreadPoolExecutor(_READERS, "threadkeep-sqlite-reader"),
        )
    except BaseException:
        connection.close()
        raise
