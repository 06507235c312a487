"""Checkpoints in one SQLite file."""

from __future__ import annotations

import errno
import os
import sqlite3
import time
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, TypeVar, cast

from langgraph.checkpoint.sqlite import SqliteSaver

from threadkeep.errors import (
    InvalidInputError,
    NotAStorageError,
    StorageError,
    StorageFullError,
    StorageReadOnlyError,
    StorageUnavailableError,
    StorageVersionError,
    TooLargeError,
)
from threadkeep.storage.base import read_statements
from threadkeep.storage.sqlite.connections import rewrite
from threadkeep.threads.base import Capabilities, Saver, ThreadedBackend, ThreadedSaver, begun_in
from threadkeep.threads.fencing import Grant, Head, Strategy, ThreadClaim, goes_by_lease, judge, moved

if TYPE_CHECKING:
    import asyncio

    from langchain_core.runnables import RunnableConfig

    from threadkeep.threads.base import ThreadRead
    from threadkeep.threads.maintenance import Place


T = TypeVar("T")

SQL: Final = read_statements(Path(__file__).with_name("sql") / "heads_sqlite.sql")

LOGGED_AT_MOST: Final = 192
"""After so many commits the log is carried into the file once a run has ended. SQLite does it by itself after 1,000
pages, some 230 small checkpoints, but within a commit, which then takes ten times as long: one turn in thirty waits."""


class SqliteCheckpoints(ThreadedBackend):
    """LangGraph's SQLite saver in a thread of its own.

    Not ``AsyncSqliteSaver``: that one changes threads three to five times in an operation, holds its
    lock while somebody iterates, leaves the transaction of a cancelled write open, and a program
    that forgets to close it never ends.

    Args:
        path: The file; see :func:`~threadkeep.threads.sqlite.open_file`.
    """

    name: ClassVar[str] = "sqlite"
    capabilities: ClassVar[Capabilities] = Capabilities(lasting=True)
    reachable: ClassVar[bool] = True

    def __init__(self, path: Path) -> None:
        self._path = path
        self._thread: ThreadPoolExecutor | None = None
        self.connection: sqlite3.Connection | None = None

    @property
    def location(self) -> str:
        """The file."""
        return str(self._path)

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """What SQLite raises."""
        return (sqlite3.Error, UnicodeEncodeError)

    async def open(self) -> Saver:
        """Open the file, or begin it."""
        self._thread = self._thread or ThreadPoolExecutor(1, thread_name_prefix="threadkeep-checkpoints")
        saver = await begun_in(self._thread, self._opened)
        saver.threads = self._thread
        return saver

    async def close(self) -> None:
        """Close the file and end the thread."""
        if self._thread is None:
            return
        if self.connection is not None:
            await begun_in(self._thread, self.connection.close)
        self._thread.shutdown()

    async def call(
        self,
        saver: Saver,
        work: Callable[[Saver], Awaitable[T]],
        *,
        seconds: float,  # noqa: ARG002 - whoever waits keeps the time
        claim: ThreadClaim | None = None,
    ) -> T:
        """Return what *work* returns; a claim is judged in its transaction."""
        cast("_SqliteSaver", saver).claim = claim
        return await work(saver)

    def begin(
        self,
        saver: Saver,
        work: Callable[[Saver], T],
        *,
        claim: ThreadClaim | None = None,
        lost: Callable[[T], object] | None = None,
    ) -> asyncio.Future[T]:
        """Begin a call in the file's thread."""
        real = cast("_SqliteSaver", saver)
        real.claim = claim
        return begun_in(real.threads, partial(work, saver), lost=lost)

    def begin_giving_back(self, saver: Saver, thread: str, token: int, *, then: Callable[[], object]) -> None:
        """Begin to end a lease in the file's thread."""
        real = cast("_SqliteSaver", saver)

        def given_back() -> None:
            try:
                with suppress(sqlite3.Error):  # it expires
                    real.give_back(thread, token)
            finally:
                then()

        real.threads.submit(given_back)

    async def take_and_read(
        self, saver: Saver, thread: str, *, holder: str, seconds: float, strategy: Strategy, config: RunnableConfig
    ) -> tuple[Grant | None, ThreadRead | None]:
        """Give *holder* the lease on a thread and read it; see :meth:`Backend.take_and_read`."""
        real = cast("_SqliteSaver", saver)
        return await real.there(partial(real.take_and_read, thread, holder, seconds, strategy, config))

    async def scrub(self, saver: Saver) -> None:
        """Write the file anew."""
        real = cast("_SqliteSaver", saver)
        await real.there(partial(real.rewrite, self._path))

    def explained(self, error: Exception) -> Exception:
        """Return what SQLite's *error* means."""
        if isinstance(error, sqlite3.Error):
            return storage_error(error, self._path)
        msg = "The checkpoint's namespace, id or filter holds half a character (a lone surrogate); leave it out."
        return InvalidInputError(msg)

    def _opened(self) -> _SqliteSaver:
        if self.connection is None:  # or an attempt that nobody waited for any more has opened it
            self.connection = open_file(self._path)
        try:
            saver = _SqliteSaver(self.connection)
            saver.setup()
            self.connection.execute(SQL["schema"])
            if "began" not in {row[1] for row in self.connection.execute("PRAGMA table_info(threadkeep_heads)")}:
                self.connection.execute("ALTER TABLE threadkeep_heads ADD COLUMN began TEXT")
        except BaseException:
            self.connection.close()
            self.connection = None
            raise
        return saver


class _Log:
    """What all copies of a saver know of the write-ahead log: the commits in it that are not in the file yet."""

    commits = 0


class _SqliteSaver(ThreadedSaver, SqliteSaver):
    """LangGraph's SQLite saver, but a write that fails leaves nothing behind, and neither does a deleted thread.

    Attributes:
        claim: Who writes what, where this is the copy of the saver for one write.
    """

    claim: ThreadClaim | None = None

    def __init__(self, conn: sqlite3.Connection) -> None:
        super().__init__(conn)
        self._log = _Log()

    @contextmanager
    def cursor(self, transaction: bool = True) -> Generator[sqlite3.Cursor]:  # noqa: FBT001, FBT002 - LangGraph's name
        with self.lock, closing(self.conn.cursor()) as cursor:
            if not transaction:
                yield cursor
                return
            try:
                cursor.execute("BEGIN IMMEDIATE")
                if self.claim:
                    self._claimed(cursor, self.claim)
                yield cursor
                cursor.execute("COMMIT")
                self._log.commits += 1
            except BaseException:
                with suppress(sqlite3.Error):  # SQLite may have rolled back already
                    self.conn.rollback()
                raise

    def _claimed(self, cursor: sqlite3.Cursor, claim: ThreadClaim) -> None:
        """Judge *claim* and move the thread's head; both come to nothing where the transaction does."""
        if goes_by_lease(claim) and self._goes_on(cursor, claim):
            return
        run, newest, token, held, there = cursor.execute(SQL["head"], {"thread": claim.thread}).fetchone()
        head = Head(run, newest, token, bool(held))
        judge(head, claim, there=there)
        if claim.kind == "delete":
            cursor.execute(SQL["forget"], {"thread": claim.thread})
        elif claim.kind == "put":
            to = moved(head, claim)
            cursor.execute(SQL["move"], {"thread": claim.thread, "run": to.run, "newest": to.newest})

    def _goes_on(self, cursor: sqlite3.Cursor, claim: ThreadClaim) -> bool:
        """Move the head, where it is already the claim's own; otherwise nothing happens."""
        whose = {"thread": claim.thread, "lease": claim.lease, "run": claim.run, "anywhere": claim.anywhere}
        if claim.kind == "put":
            return cursor.execute(SQL["go_on"], {**whose, "checkpoint": claim.checkpoint}).rowcount > 0
        return cursor.execute(SQL["goes_on"], whose).fetchone() is not None

    def take(self, thread: str, holder: str, seconds: float, strategy: Strategy) -> Grant | None:
        with self._leasing() as cursor:
            back_to = None
            if strategy == "rollback":
                held, began = cursor.execute(SQL["began"], {"thread": thread, "holder": holder}).fetchone()
                back_to = began if held else None
            given = {"thread": thread, "holder": holder, "seconds": seconds, "newest": back_to}
            forced = strategy in ("interrupt", "rollback")
            taken = cursor.execute(SQL["take"], {**given, "forced": forced}).fetchone()
            return Grant(taken[0], back_to) if taken else None

    def renew(self, tokens: Mapping[str, int], seconds: float) -> set[str]:
        with self._leasing() as cursor:
            ours: set[str] = set()
            for thread, token in tokens.items():
                if cursor.execute(SQL["renew"], {"thread": thread, "token": token, "seconds": seconds}).rowcount:
                    ours.add(thread)
            return ours

    def give_back(self, thread: str, token: int) -> None:
        with self._leasing() as cursor:
            cursor.execute(SQL["give_back"], {"thread": thread, "token": token})
        if self._log.commits >= LOGGED_AT_MOST:
            with suppress(RuntimeError):  # the thread ends, and closing the file does the same
                self.threads.submit(self._carry_the_log_over)  # whoever waits for this lease does not wait for it

    def forget_newer(self, thread: str, checkpoint_id: str) -> None:
        with self.cursor() as cursor:
            for statement in ("forget_newer", "forget_newer_writes"):
                cursor.execute(SQL[statement], {"thread": thread, "checkpoint": checkpoint_id})

    def remove(self, thread: str, gone: Sequence[Place]) -> None:
        self._change("remove", thread, gone)
        self._change("remove_writes", thread, gone)
        self._empty_the_log()

    def reparent(self, thread: str, place: Place, parent_id: str) -> None:
        self._change("reparent", thread, [place], parent=parent_id)

    def _change(self, statement: str, thread: str, places: Sequence[Place], **more: str) -> None:
        with self.cursor() as cursor:
            cursor.executemany(
                SQL[statement],
                [{"thread": thread, "namespace": where, "checkpoint": one, **more} for where, one in places],
            )

    @contextmanager
    def _leasing(self) -> Generator[sqlite3.Cursor]:
        """Lend a cursor for a change that need not outlive the power: whoever held a lease then is gone, too."""
        self.conn.execute("PRAGMA synchronous = NORMAL")
        try:
            with self.cursor() as cursor:
                yield cursor
        finally:
            self.conn.execute("PRAGMA synchronous = FULL")

    def delete_thread(self, thread_id: str) -> None:
        super().delete_thread(thread_id)
        self._empty_the_log()

    def rewrite(self, path: Path) -> None:
        with self.lock:
            rewrite(self.conn, path)
        self._empty_the_log()

    def _carry_the_log_over(self) -> None:
        self._log.commits = 0
        with self.lock, suppress(sqlite3.Error):  # SQLite does it later; or the file was closed
            self.conn.execute("PRAGMA wal_checkpoint(PASSIVE)").close()

    def _empty_the_log(self) -> None:
        # The log still holds the text; where another process reads, SQLite empties it later.
        with suppress(sqlite3.OperationalError):
            self.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").close()


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
