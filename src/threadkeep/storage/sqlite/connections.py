"""The connections and threads of a connected SQLite storage."""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, TypeVar

from threadkeep.errors import StorageUnavailableError
from threadkeep.storage.sqlite.file import (
    BUSY_SECONDS,
    identity,
    open_reader,
    open_writer,
    storage_errors,
    transaction,
)
from threadkeep.storage.sqlite.tables import SQL, SqliteTables

T = TypeVar("T")

log: Final = logging.getLogger("threadkeep")

SCRUB_SECONDS: Final = 30.0
"""How long what was deleted may stay in the write-ahead log, from where nothing reads it."""

_READERS: Final = 4
TRUNCATE_SECONDS: Final = 1.0
"""How long emptying the log waits for whoever still reads from it; commits wait that long, too."""


@dataclass(slots=True)
class SqliteConnections:
    """What a connected storage holds.

    Each connection is used by one thread at a time: ``connection`` by the writer's, ``glancing`` by
    whoever glances, and a reader's by the thread that took it from ``idle``.
    """

    path: Path
    inode: tuple[int, int] | None
    tables: SqliteTables
    connection: sqlite3.Connection
    glancing: sqlite3.Connection
    writer: ThreadPoolExecutor
    readers: ThreadPoolExecutor
    idle: deque[sqlite3.Connection] = field(default_factory=deque[sqlite3.Connection])
    reading: list[sqlite3.Connection] = field(default_factory=list[sqlite3.Connection])
    pid: int = field(default_factory=os.getpid)
    closed: bool = False
    _guard: threading.Lock = field(default_factory=threading.Lock)
    _at_a_glance: threading.Lock = field(default_factory=threading.Lock)
    _scrubbing: asyncio.TimerHandle | None = None

    def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run *work* in a transaction that nobody else writes in."""
        if identity(self.path) != self.inode:
            msg = f"{self.path} was moved or removed while it was open; nothing was written. Put it back, or reopen."
            raise StorageUnavailableError(msg, path=str(self.path))
        with storage_errors(self.path), transaction(self.connection, "IMMEDIATE"):
            return work(self.connection)

    def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run *work* on a connection of its own, at one moment."""
        try:
            connection = self.idle.pop()
        except IndexError:
            connection = open_reader(self.path)
            self.reading.append(connection)
        try:
            with storage_errors(self.path), transaction(connection, "DEFERRED"):
                return work(connection)
        finally:
            self.idle.append(connection)

    def glance(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """Do a small read without leaving the thread; ``None``: let a reader do it.

        Such reads come before and after every search, and going to a thread and back takes longer
        than they do. They cannot hold the loop up: with a write-ahead log a reader never waits for
        a writer, the rows are found in a few pages each, and the connection does not wait for locks
        of the file at all. Two threads do so one after the other: each has to see what was committed
        before it asked. Glances are refused where the log is being recovered or emptied, and by
        detectors of blocking calls, such as that of ``langgraph dev``, which cannot know this; then a
        reader does it, which waits, and whose errors are real.
        """
        try:
            with self._at_a_glance:
                return work(self.glancing)
        except Exception:  # noqa: BLE001 - see above: nothing is swallowed, the reader asks again
            return None

    def empty_log(self) -> bool:
        """Move the write-ahead log into the file and cut it to nothing; return whether nobody was in the way."""
        connection = self.connection
        try:
            connection.execute(f"PRAGMA busy_timeout = {TRUNCATE_SECONDS * 1000:.0f}")
            ((busy, _, _),) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            connection.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000:.0f}")
        except sqlite3.OperationalError as error:
            log.warning("The write-ahead log of %s could not be emptied (%s); it is tried again", self.path, error)
            return False
        return not busy

    def scrub_later(self) -> None:
        """See to it that what was deleted leaves the write-ahead log, too, where nothing reads it any more."""
        if self._scrubbing is None and not self.closed:
            self._scrubbing = asyncio.get_running_loop().call_later(SCRUB_SECONDS, self._scrub)

    def stop_scrubbing(self) -> None:
        """Leave it to :meth:`close`, which empties the log."""
        if self._scrubbing is not None:
            self._scrubbing.cancel()

    def _scrub(self) -> None:
        self._scrubbing = None
        loop = asyncio.get_running_loop()

        def work() -> None:
            with self._guard:
                emptied = self.closed or self.empty_log()
            if not emptied:
                with suppress(RuntimeError):  # the loop was closed meanwhile
                    loop.call_soon_threadsafe(self.scrub_later)

        if not self.closed:
            self.writer.submit(work)

    def close(self) -> None:
        """Wait for the readers and close every connection; the last one empties the log."""
        self.readers.shutdown()
        self._close_all()

    def let_go(self) -> None:
        """Close what nobody closed. In a forked child the connections are the parent's: keep off them."""
        if self.pid != os.getpid():
            _inherited.append(self)
            return
        self._close_all()

    def _close_all(self) -> None:
        with self._guard, self._at_a_glance:
            self.closed = True
            for connection in (*self.reading, self.glancing, self.connection):
                connection.close()


_inherited: Final[list[SqliteConnections]] = []
"""Connections that came here by a fork: SQLite forbids to use them, even to close them."""


def opened_at(
    path: Path, key_prefix: str, synchronous: Literal["FULL", "NORMAL"], writer: ThreadPoolExecutor
) -> SqliteConnections:
    """Open the storage at *path*; runs in the thread of *writer*, which the connections then own.

    Raises:
        StorageError: What :func:`~threadkeep.storage.sqlite.file.open_writer` raises.
    """
    connection = open_writer(path, synchronous=synchronous)
    try:
        with storage_errors(path):
            ((birth,),) = connection.execute(SQL["birth"]).fetchall()
        return SqliteConnections(
            path=path,
            inode=identity(path),
            tables=SqliteTables(key_prefix=key_prefix, birth=birth),
            connection=connection,
            glancing=open_reader(path, seconds=0),
            writer=writer,
            readers=ThreadPoolExecutor(_READERS, "threadkeep-sqlite-reader"),
        )
    except BaseException:
        connection.close()
        raise
