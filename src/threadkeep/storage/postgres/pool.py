"""Connections to one PostgreSQL database: a pool that the storage and the checkpointer share.

Nothing is kept in a session: no setting, no named statement, no lock. So it works behind a pooler
that gives each transaction another session.
"""

from __future__ import annotations

import asyncio
import os
import select
import socket
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Any, Final, Literal, Self, TypeAlias, TypeVar

import psycopg
from psycopg import AsyncConnection
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import TupleRow
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout

from threadkeep.errors import ClosedError, SettingsError, StorageUnavailableError
from threadkeep.storage.postgres.errors import error_of, is_lost, postgres_errors

T = TypeVar("T")
Connection: TypeAlias = AsyncConnection[TupleRow]

CONNECT_SECONDS: Final = 5
"""How long a connection may take to come about."""

SET_UP_SECONDS: Final = 120.0
"""How long a process waits for another one that sets the database up."""

LATE_SECONDS: Final = 1.0
"""How long a server may take to cancel a statement; then it is given up: it has stalled, or the network has."""

_POLL_SECONDS: Final = 0.05
_RECONNECT_SECONDS: Final = 0.5
"""For how long the pool itself goes on trying; the next who wants a connection makes it try again, at once."""

_IDLE_SECONDS: Final = 300.0
_LOCK: Final = int.from_bytes(b"THKPSETU")
_TRY_LOCK: Final = f"SELECT pg_try_advisory_xact_lock({_LOCK})".encode()
"""Without a parameter, which would leave a portal open, and that a snapshot."""


class PostgresPool:
    """Lends connections in autocommit, which prepare nothing; constructing it does no I/O.

    Args:
        dsn: A URL ``postgresql://user:password@host:port/database`` or libpq's ``host=… dbname=…``.
        variable: The setting that the DSN came from, for the message where it is none.
        size: How many connections there may be at once, 1 or more.
        statement_timeout: How long a turn's statement may take; what is no part of a turn may take longer.
        wait_timeout: How long to wait for a connection while all of them are in use.
        migrate: ``auto``: tables are made and changed as needed; ``check``: they must be as needed.

    Attributes:
        location: The URL without its password.
    """

    def __init__(
        self,
        dsn: str,
        *,
        variable: str = "LANGGRAPH_STORE_POSTGRES_DSN",
        size: int = 10,
        statement_timeout: timedelta = timedelta(seconds=2),
        wait_timeout: timedelta = timedelta(seconds=1),
        migrate: Literal["auto", "check"] = "auto",
    ) -> None:
        parts = _parsed(dsn, variable)
        self.location: Final = _masked(parts)
        self.statement_timeout: Final = statement_timeout
        self.migrate: Final[Literal["auto", "check"]] = migrate
        self._given = dsn
        self._conninfo = make_conninfo("", **{**_DEFAULTS, **parts})
        self._size = size
        self._wait = wait_timeout.total_seconds()
        self._pool: AsyncConnectionPool[_Connection] | None = None
        self._opening = asyncio.Lock()
        self._closed = False
        self._pid = 0
        self._in_use = 0
        self._tasks: set[asyncio.Task[Any]] = set()
        self.refused: Exception | None = None
        """Why the newest attempt to connect failed; ``None`` after one that did not."""

    def leads_to(self, dsn: str) -> bool:
        """Whether *dsn* is the very one of this pool."""
        return dsn == self._given

    async def open(self) -> None:
        """Connect once, so that what is wrong is said; the second call does nothing.

        Raises:
            StorageError: No connection comes about; the message says why.
            ClosedError: It was closed.
        """
        async with self._opening:
            if self._closed:
                raise _closed()
            if self._pool is not None:
                return
            async with self._direct():
                pass
            pool = AsyncConnectionPool(
                self._conninfo,
                connection_class=_Connection,
                kwargs={**_SESSION, "pool": self},
                min_size=min(1, self._size),
                max_size=self._size,
                timeout=self._wait,
                max_idle=_IDLE_SECONDS,
                reconnect_timeout=_RECONNECT_SECONDS,
                name="threadkeep-postgres",
                open=False,
            )
            await pool.open()
            self._pool, self._pid = pool, os.getpid()

    async def close(self) -> None:
        """Let go of every connection; the second call does nothing."""
        self._closed = True
        if self._tasks and self._pid == os.getpid():
            await asyncio.wait(self._tasks)
        pool, self._pool = self._pool, None
        if pool is not None and self._pid == os.getpid():
            await pool.close()

    @asynccontextmanager
    async def connection(self, *, seconds: float | None = None) -> AsyncGenerator[Connection]:
        """Lend a connection; what the driver raises inside is raised as an error of ours.

        Args:
            seconds: How long what is done on it may take, by default what a turn's statement may: then the
                server is asked to cancel it, and a second later, where it does not answer, the
                connection is cut. A time-out of the server's own would be a setting of the session.

        Raises:
            StorageUnavailableError: All connections are in use, none comes about, or one broke.
        """
        with postgres_errors(self.location):
            async with self._lent(seconds) as connection:
                yield connection

    async def run(
        self,
        work: Callable[[Connection], Awaitable[T]],
        *,
        seconds: float | None = None,
        again: Callable[[], bool] = lambda: True,
    ) -> T:
        """Return what *work* returns on a connection; where that broke, as after a server's restart, on a new one.

        A caller that is cancelled is let go at once, and the work comes to its end or to its time-out: the
        driver would wait for the server's answer to the cancellation, and one that has stalled gives none.

        Args:
            work: Changes nothing outside a transaction.
            seconds: See :meth:`connection`.
            again: Says whether *work* may be done once more: not after a commit that may have come through.
        """
        if self._closed:
            raise _closed()
        task = asyncio.create_task(self._done(work, seconds, again))
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return await asyncio.shield(task)

    async def _done(
        self, work: Callable[[Connection], Awaitable[T]], seconds: float | None, again: Callable[[], bool]
    ) -> T:
        with postgres_errors(self.location):
            try:
                async with self._lent(seconds) as connection:
                    return await work(connection)
            except (psycopg.Error, OSError) as error:
                if not (is_lost(error) and again()):
                    raise
            if self._pool is not None:  # where one connection has broken, the others have, too
                await self._pool.drain()
            async with self._lent(seconds) as connection:
                return await work(connection)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # whoever waited has raised it; nobody may be left who did

    @asynccontextmanager
    async def setting_up(self) -> AsyncGenerator[Connection]:
        """Lend a connection outside the pool while no other process sets this database up.

        The lock is tried for, again and again, and never waited for: a statement that waits holds a
        snapshot, and ``CREATE INDEX CONCURRENTLY`` waits for those. It is held by a transaction of
        its own, so that it also holds behind a pooler.

        Raises:
            StorageUnavailableError: Another process has been setting it up for two minutes.
        """
        with postgres_errors(self.location):
            async with self._direct() as guard, self._direct() as connection:
                until = time.monotonic() + SET_UP_SECONDS
                while not await _locked(guard):
                    if time.monotonic() > until:
                        msg = (
                            f"Another process has been setting up {self.location} for {SET_UP_SECONDS:g} seconds; "
                            "wait for it, or end its session in pg_stat_activity."
                        )
                        raise StorageUnavailableError(msg, server=self.location)
                    await asyncio.sleep(_POLL_SECONDS)
                yield connection
                await guard.rollback()

    @asynccontextmanager
    async def _lent(self, seconds: float | None) -> AsyncGenerator[Connection]:
        if seconds is None:
            seconds = self.statement_timeout.total_seconds()
        pool = self._require_open()
        connection = await self._one(pool)
        self._in_use += 1
        deadline = _Deadline(connection, seconds)
        try:
            yield connection
        except psycopg.Error as error:
            if not deadline.cut:
                raise
            msg = f"{self.location} did not answer within {seconds + LATE_SECONDS:g} seconds; try again."
            raise StorageUnavailableError(msg, server=self.location) from error
        finally:
            self._in_use -= 1
            if await deadline.end():
                await connection.close()
            await pool.putconn(connection)

    async def _one(self, pool: AsyncConnectionPool[_Connection]) -> _Connection:
        """Take a connection out of *pool* that nobody has closed at the other end."""
        while True:
            try:
                connection = await pool.getconn()
            except PoolTimeout:
                raise self._none_free() from None
            except PoolClosed:
                raise _closed() from None
            if not _has_ended(connection):
                return connection
            await connection.close()
            await pool.putconn(connection)

    @asynccontextmanager
    async def _direct(self) -> AsyncGenerator[Connection]:
        with postgres_errors(self.location):
            async with await _Connection.connect(self._conninfo, **_SESSION, pool=self) as connection:
                yield connection

    def _none_free(self) -> Exception:
        if self._in_use >= self._size:
            msg = (
                f"All {self._size} connections to {self.location} were in use for {self._wait:g} seconds; try again, "
                "or raise THREADKEEP_POSTGRES_POOL_SIZE."
            )
            return StorageUnavailableError(msg, server=self.location)
        if self.refused is not None:
            return error_of(self.refused, self.location)
        msg = (
            f"{self.location} cannot be reached (no connection came about in {self._wait:g} seconds); try again, "
            "or raise THREADKEEP_POSTGRES_WAIT_MS."
        )
        return StorageUnavailableError(msg, server=self.location)

    def _require_open(self) -> AsyncConnectionPool[_Connection]:
        if self._pool is None:
            raise _closed() if self._closed else ClosedError("Call connect() first.")
        if self._pid != os.getpid():
            msg = "This storage was opened before the process forked; open one in the child."
            raise ClosedError(msg)
        return self._pool


class _Connection(AsyncConnection[TupleRow]):
    """Tells the pool how the attempt to connect went, which psycopg's own only writes to its log."""

    @classmethod
    async def connect(cls, conninfo: str = "", *, pool: PostgresPool, **kwargs: Any) -> Self:  # type: ignore[override]
        """Connect as psycopg does."""
        try:
            connection = await super().connect(conninfo, **kwargs)
        except (psycopg.Error, OSError) as error:
            pool.refused = error
            raise
        pool.refused = None
        return connection


class _Deadline:
    """Ends what takes too long on a connection: asks the server to, and a second later cuts the connection.

    What waits on a connection that is cut fails at once. Cancelling the task that waits would wait for the
    server's answer, and one that has stalled gives none.
    """

    def __init__(self, connection: Connection, seconds: float) -> None:
        self.cut = False
        self._connection = connection
        self._cancelling: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(seconds, self._cancel)

    async def end(self) -> bool:
        """Stop counting; return whether it was passed, so that a late cancellation might hit what comes next."""
        self._timer.cancel()
        if self._cancelling is None:
            return False
        await self._cancelling
        return True

    def _cancel(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(LATE_SECONDS, self._cut)
        self._cancelling = loop.create_task(self._ask_to_cancel())

    async def _ask_to_cancel(self) -> None:
        with suppress(psycopg.Error, OSError):  # then it is cut
            await self._connection.cancel_safe(timeout=LATE_SECONDS)

    def _cut(self) -> None:
        self.cut = True
        with suppress(OSError, psycopg.Error):  # it is closed already
            lent = socket.socket(fileno=self._connection.pgconn.socket)
            try:
                lent.shutdown(socket.SHUT_RDWR)
            finally:
                lent.detach()


def _has_ended(connection: Connection) -> bool:
    """Whether the other end closed *connection* while nobody used it: then there is something to read, the end."""
    try:
        return _readable(connection.pgconn.socket)
    except (OSError, psycopg.Error):
        return True


def _readable(descriptor: int) -> bool:
    if not hasattr(select, "poll"):  # Windows, where select takes any socket
        return bool(select.select([descriptor], [], [], 0)[0])
    asked = select.poll()
    asked.register(descriptor, select.POLLIN)
    return bool(asked.poll(0))


_DEFAULTS: Final[dict[str, Any]] = {
    "application_name": "threadkeep",
    "connect_timeout": CONNECT_SECONDS,
    "client_encoding": "UTF8",
}
_SESSION: Final[dict[str, Any]] = {"autocommit": True, "prepare_threshold": None}


async def _locked(guard: Connection) -> bool:
    """Try for the lock in a transaction of *guard*; whoever was not lucky holds nothing, not even a snapshot."""
    await guard.execute("BEGIN")
    # A server may end sessions that are idle in a transaction; this one is meant to be.
    await guard.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
    row = await (await guard.execute(_TRY_LOCK)).fetchone()
    if row is not None and row[0]:
        return True
    await guard.execute("ROLLBACK")
    return False


def _parsed(dsn: str, variable: str) -> dict[str, Any]:
    try:
        return conninfo_to_dict(dsn)
    except psycopg.Error:  # its text repeats a part of the DSN, which may be the password
        msg = (
            f"{variable} is no PostgreSQL URL; write postgresql://user:password@host:5432/database, "
            "where a % in the password is spelled %25, an @ %40 and a / %2F."
        )
        raise SettingsError(msg, variable=variable) from None


def _masked(parts: dict[str, Any]) -> str:
    user = f"{parts['user']}@" if parts.get("user") else ""
    host = str(parts.get("host") or parts.get("hostaddr") or "localhost")
    port = f":{parts['port']}" if parts.get("port") else ""
    return f"postgresql://{user}{host}{port}/{parts.get('dbname') or ''}"


def _closed() -> ClosedError:
    return ClosedError("This storage was closed; open a new one.")
