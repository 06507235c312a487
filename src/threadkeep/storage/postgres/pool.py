"""Connections to one PostgreSQL database, a pool that the storage and the checkpointer share, and its errors.

A session keeps no state: no setting, no named statement, no lock. So it works behind a pooler that uses another
session for each transaction.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import select
import socket
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import timedelta
from typing import Any, Final, Literal, Self, TypeAlias, TypeVar

import psycopg
from psycopg import AsyncConnection
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import TupleRow
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout
from typing_extensions import override

from threadkeep.concurrency import PriorityGate, StalledError
from threadkeep.errors import (
    ClosedError,
    SettingsError,
    StorageDeniedError,
    StorageError,
    StorageFullError,
    StorageReadOnlyError,
    StorageUnavailableError,
    ThreadkeepError,
    TooLargeError,
)
from threadkeep.storage.base import CallRunner

T = TypeVar("T")
C = TypeVar("C", bound=AsyncConnection[Any])
Connection: TypeAlias = AsyncConnection[TupleRow]

CONNECT_SECONDS: Final = 5
"""The timeout of connecting."""

SET_UP_SECONDS: Final = 120.0
"""How long a process waits while another one sets up the database."""

LATE_SECONDS: Final = 1.0
"""How long a server may take to cancel a statement; after that the connection is cut."""

_POLL_SECONDS: Final = 0.05
_RECONNECT_SECONDS: Final = 0.5
"""How long the pool retries to connect by itself; the next caller makes it try again."""

_POOL_NAME: Final = "threadkeep-postgres"

_IDLE_SECONDS: Final = 300.0
_LOCK: Final = int.from_bytes(b"THKPSETU")
_TRY_LOCK: Final = f"SELECT pg_try_advisory_xact_lock({_LOCK})".encode()
"""Without a parameter: a parameter would leave a portal open, which keeps a snapshot."""


class PostgresPool:
    """Lends connections in autocommit that prepare no statements; constructing it does no I/O.

    Args:
        dsn: A URL ``postgresql://user:password@host:port/database`` or libpq's ``host=… dbname=…``.
        variable: The setting that the DSN is from, for messages.
        size: The largest number of connections, 1 or more.
        statement_timeout: How long a turn's statement may take; other statements may take longer.
        wait_timeout: How long to wait for a connection while all are in use.
        migrate: ``auto``: tables are created and migrated as needed; ``check``: they must be up to date.

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
        self.gate = PriorityGate(size, patience=wait_timeout)
        self._wait = wait_timeout.total_seconds()
        self._pool: AsyncConnectionPool[_Connection] | None = None
        self._opening = asyncio.Lock()
        self._closed = False
        self._pid = 0
        self._deadlines: set[_StatementDeadline] = set()
        self._connecting: set[asyncio.Task[Any]] = set()
        self._calls = CallRunner(is_lost=_is_lost, reconnect=self._drop_idle)
        self.refused: Exception | None = None
        """Why the last attempt to connect failed; ``None`` if it succeeded."""

    @property
    def size(self) -> int:
        """The largest number of connections."""
        return self._size

    @property
    def in_use(self) -> int:
        """How many connections calls have now."""
        return len(self._deadlines)

    def leads_to(self, dsn: str) -> bool:
        """Return whether this pool was made from *dsn*."""
        return dsn == self._given

    async def open(self) -> None:
        """Connect once, so that errors show early; the second call does nothing.

        Raises:
            StorageError: Connecting failed; the message says why.
            ClosedError: The pool was closed.
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
                name=_POOL_NAME,
                open=False,
            )
            await pool.open()
            self._pool, self._pid = pool, os.getpid()

    async def close(self) -> None:
        """Release every connection; the second call does nothing.

        The statements of turns end before that. What takes longer is cut, also if the caller is cancelled meanwhile,
        and PostgreSQL rolls it back.
        """
        self._closed = True
        pool, self._pool = self._pool, None
        if self._pid not in (0, os.getpid()):
            return
        ended = False
        try:
            ended = await self._calls.drain()
        finally:
            for task in self._connecting:
                task.cancel()
            if not ended:
                for deadline in [*self._deadlines]:
                    deadline.cut_now()
                await self._calls.drain()
            if pool is not None:
                await pool.close(LATE_SECONDS)

    async def connect(self, connecting: Coroutine[Any, Any, C]) -> C:
        """Return a new connection; closing ends the attempt, and :attr:`refused` says how it went.

        Raises:
            psycopg.OperationalError: Connecting failed, or the pool was closed meanwhile.
        """
        task = asyncio.create_task(connecting)
        self._connecting.add(task)
        try:
            if self._closed:
                task.cancel()
            connection = await task
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if not self._closed or (caller is not None and caller.cancelling()):
                raise
            raise psycopg.OperationalError(str(_closed())) from None
        except (psycopg.Error, OSError) as error:
            self.refused = error
            raise
        finally:
            self._connecting.discard(task)
        self.refused = None
        return connection

    @asynccontextmanager
    async def connection(self, *, seconds: float | None = None) -> AsyncGenerator[Connection]:
        """Lend a connection; the driver's errors in the block are raised as Threadkeep's.

        Args:
            seconds: The timeout of the block, by default that of a turn's statement. Then the server is asked to
                cancel the statement; if it does not answer within a second, the connection is cut. A timeout
                of the server's own would be a setting of the session.

        Raises:
            StorageUnavailableError: All connections are in use, connecting failed, or a connection broke.
        """
        with postgres_errors(self.location):
            async with self._borrow(seconds) as connection:
                yield connection

    async def run(
        self,
        work: Callable[[Connection], Awaitable[T]],
        *,
        seconds: float | None = None,
        repeatable: Callable[[], bool] = lambda: True,
    ) -> T:
        """Return what *work* returns on a connection; if that broke, as after a server's restart, on a new one.

        A caller that is cancelled returns at once, and the work runs to its end or to its timeout: the driver
        would wait for the server's answer to the cancellation, and a server that has stalled gives none.

        Args:
            work: Changes nothing outside a transaction.
            seconds: See :meth:`connection`.
            repeatable: See :meth:`threadkeep.storage.base.CallRunner.run`.
        """
        if self._closed:
            raise _closed()

        async def call() -> T:
            async with self._borrow(seconds) as connection:
                return await work(connection)

        with postgres_errors(self.location):
            return await self._calls.run(call, repeatable=repeatable)

    async def _drop_idle(self) -> None:
        """Replace the idle connections: after one broke, the others have broken, too."""
        if self._pool is not None:
            await self._pool.drain()

    @asynccontextmanager
    async def setting_up(self) -> AsyncGenerator[Connection]:
        """Lend a connection outside the pool while no other process sets up this database.

        The advisory lock is polled: a statement that waits keeps a snapshot, and ``CREATE INDEX CONCURRENTLY``
        waits for snapshots. A transaction of its own has the lock, so that it also works behind a pooler.

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
    async def _borrow(self, seconds: float | None) -> AsyncGenerator[Connection]:
        if seconds is None:
            seconds = self.statement_timeout.total_seconds()
        pool = self._require_open()
        try:
            async with self.gate.place(), self._held(pool, seconds) as connection:
                yield connection
        except StalledError:
            raise self._no_connection_error() from None

    @asynccontextmanager
    async def _held(self, pool: AsyncConnectionPool[_Connection], seconds: float) -> AsyncGenerator[Connection]:
        connection = await self._take(pool)
        deadline = _StatementDeadline(connection, seconds)
        self._deadlines.add(deadline)
        try:
            yield connection
        except psycopg.Error as error:
            if not deadline.cut:
                raise
            if self._closed:
                raise _closed() from error
            msg = f"{self.location} timed out: no answer within {seconds + LATE_SECONDS:g} seconds; try again."
            raise StorageUnavailableError(msg, server=self.location) from error
        finally:
            self._deadlines.discard(deadline)
            if await deadline.end():
                await connection.close()
            await pool.putconn(connection)

    async def _take(self, pool: AsyncConnectionPool[_Connection]) -> _Connection:
        """Take a connection out of *pool* that the server has not closed."""
        while True:
            try:
                connection = await pool.getconn()
            except PoolTimeout:
                raise self._no_connection_error() from None
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

    def _no_connection_error(self) -> Exception:
        if self.in_use >= self._size:
            msg = (
                f"All {self._size} connections to {self.location} were in use for {self._wait:g} seconds; try again, "
                "or raise THREADKEEP_POSTGRES_POOL_SIZE."
            )
            return StorageUnavailableError(msg, server=self.location)
        if self.refused is not None:
            return parse_error(self.refused, self.location)
        msg = (
            f"{self.location} cannot be reached (no connection came about in {self._wait:g} seconds); try again, "
            "or raise THREADKEEP_POSTGRES_WAIT_MS."
        )
        return StorageUnavailableError(msg, server=self.location)

    def _require_open(self) -> AsyncConnectionPool[_Connection]:
        if self._pool is None:
            raise _closed() if self._closed else ClosedError("Call connect() first.")
        if self._pid != os.getpid():
            msg = "This storage was opened before the process forked: open one in the child."
            raise ClosedError(msg)
        return self._pool


class _Connection(AsyncConnection[TupleRow]):
    """Connects by means of its pool, which ends the attempt when it is closed."""

    @classmethod
    async def connect(cls, conninfo: str = "", *, pool: PostgresPool, **kwargs: Any) -> Self:  # type: ignore[override]
        """Connect as psycopg does."""
        return await pool.connect(super().connect(conninfo, **kwargs))


class _OwnConnections(logging.Filter):
    """Drops warnings of psycopg about connections of Threadkeep: their callers get an error, which says more."""

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno != logging.WARNING or not isinstance(record.args, tuple):
            return True
        return not any(
            isinstance(getattr(one, "_conn", one), _Connection) or _POOL_NAME in str(one) for one in record.args
        )


for _name in ("psycopg", "psycopg.pool"):
    logging.getLogger(_name).addFilter(_OwnConnections())


class _StatementDeadline:
    """Ends a statement that takes too long: asks the server to cancel it, and a second later cuts the connection.

    A call that waits on a cut connection fails at once. Cancelling its task would wait for the server's answer,
    and a server that has stalled gives none.
    """

    def __init__(self, connection: Connection, seconds: float) -> None:
        self.cut = False
        self._connection = connection
        self._cancelling: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(seconds, self._cancel)

    async def end(self) -> bool:
        """Stop the timer; return whether it expired, so that a late cancellation may hit the next statement."""
        self._timer.cancel()
        if self._cancelling is None:
            return False
        await self._cancelling
        return True

    def _cancel(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(LATE_SECONDS, self.cut_now)
        self._cancelling = loop.create_task(self._ask_to_cancel())

    async def _ask_to_cancel(self) -> None:
        with suppress(psycopg.Error, OSError):  # then it is cut
            await self._connection.cancel_safe(timeout=LATE_SECONDS)

    def cut_now(self) -> None:
        """Cut the connection: the call that waits on it fails at once."""
        self.cut = True
        with suppress(OSError, psycopg.Error):  # it is closed already
            lent = socket.socket(fileno=self._connection.pgconn.socket)
            try:
                lent.shutdown(socket.SHUT_RDWR)
            finally:
                lent.detach()


def _has_ended(connection: Connection) -> bool:
    """Return whether the server closed *connection* while it was idle: then its socket is readable."""
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
    """Try to take the lock in a transaction of *guard*; if it is taken, keep nothing, not even a snapshot."""
    await guard.execute("BEGIN")
    # A server may end sessions that are idle in a transaction; this one is idle on purpose.
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
            f"{variable} is not a PostgreSQL URL: write postgresql://user:password@host:5432/database, "
            "where a % in the password is spelled %25, an @ %40 and a / %2F."
        )
        raise SettingsError(msg, variable=variable) from None


def _masked(parts: dict[str, Any]) -> str:
    user = f"{parts['user']}@" if parts.get("user") else ""
    host = str(parts.get("host") or parts.get("hostaddr") or "localhost")
    port = f":{parts['port']}" if parts.get("port") else ""
    return f"postgresql://{user}{host}{port}/{parts.get('dbname') or ''}"


def _closed() -> ClosedError:
    return ClosedError("This storage was closed: open a new one.")


_ErrorMeaning: TypeAlias = tuple[type[ThreadkeepError], str]

_MAX_DETAIL_CHARACTERS: Final = 300

# {where} is the server, {detail} its message. By SQLSTATE, else by its class, the first two characters.
_MEANINGS: Final[dict[str, _ErrorMeaning]] = {
    "08": (StorageUnavailableError, "{where} cannot be reached ({detail}); try again."),
    "0A": (StorageError, "{where} cannot do what is needed ({detail}); PostgreSQL 14 and later can."),
    "25006": (
        StorageReadOnlyError,
        "{where} is read-only, a replica or set so; give the URL of the primary, or let it be written to.",
    ),
    "25P03": (StorageUnavailableError, "{where} ended an idle transaction; nothing was written. Try again."),
    "28": (StorageDeniedError, "{where} refused this user ({detail}); correct the URL, or let the user in."),
    "28P01": (
        StorageDeniedError,
        "{where} refused the password; correct it in the URL, where a % is spelled %25 and an @ %40.",
    ),
    "3D000": (StorageError, "{where} has no such database; create it, or correct the URL."),
    "40": (
        StorageUnavailableError,
        "{where} aborted the transaction in favour of another; nothing was written. Try again.",
    ),
    "42501": (StorageDeniedError, "{where} denied this user a right ({detail}); grant it, or use the tables' owner."),
    "42P01": (
        StorageError,
        "{where} has lost a table ({detail}): restore it from a backup, or start again in an empty database.",
    ),
    "53": (StorageUnavailableError, "{where} is short of resources ({detail}); nothing was written. Try again."),
    "53100": (StorageFullError, "The disk of {where} is full; nothing was written. Free some space there."),
    "53300": (
        StorageUnavailableError,
        "{where} accepts no more connections: raise its max_connections, or lower THREADKEEP_POSTGRES_POOL_SIZE.",
    ),
    "54": (TooLargeError, "The item is too large for PostgreSQL ({detail}). Split it, or store a reference to it."),
    "55": (StorageUnavailableError, "{where} is busy with another session ({detail}); nothing was written. Try again."),
    "57": (
        StorageUnavailableError,
        "{where} ended the connection ({detail}); try again. A commit that was under way may have been written.",
    ),
    "57014": (
        StorageUnavailableError,
        "{where} timed out; nothing was written. Try again, or raise THREADKEEP_POSTGRES_STATEMENT_TIMEOUT_MS.",
    ),
    "57P03": (StorageUnavailableError, "{where} is starting up or shutting down; try again."),
    "58": (StorageUnavailableError, "{where} has a problem with its disk or system ({detail}): see its log."),
    "TLS": (
        StorageUnavailableError,
        "No TLS connection to {where} ({detail}); correct sslmode, sslrootcert or the certificate it names.",
    ),
}

# An error of connecting has no SQLSTATE; a message in another language matches the last pattern.
_MESSAGE_STATES: Final = (
    (re.compile(r"password authentication failed|no password supplied"), "28P01"),
    (
        re.compile(r"role .{1,200} does not exist|no pg_hba\.conf entry|authentication failed|not permitted to log in"),
        "28",
    ),
    (re.compile(r"database .{1,200} does not exist"), "3D000"),
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
    """Raise the driver's errors as Threadkeep's; *where* is the server, without its password."""
    try:
        yield
    except (psycopg.Error, OSError) as error:
        raise parse_error(error, where) from error


def parse_error(error: Exception, where: str) -> ThreadkeepError:
    """Return the error of ours for *error* of the driver; no message contains a password."""
    state = getattr(error, "sqlstate", None) or _state_of(error)
    if state == "XX000" and _FULL.search(str(error)):  # a quota has no code of its own
        state = "53100"
    kind, text = _MEANINGS.get(state) or _MEANINGS.get(state[:2]) or (StorageError, "{where} refused: {detail}.")
    return kind(text.format(where=where, detail=_detail(error)), server=where, sqlstate=state)


def _is_lost(error: Exception) -> bool:
    """Return whether the connection broke, or the server closed it: on another one the call may work."""
    state = getattr(error, "sqlstate", None)
    if state is not None:
        return state[:2] in ("08", "57") and state != "57014"
    return isinstance(error, psycopg.OperationalError | OSError)


def _state_of(error: Exception) -> str:
    if not isinstance(error, psycopg.OperationalError | OSError):
        return ""
    message = str(error)
    return next(state for pattern, state in _MESSAGE_STATES if pattern.search(message))


def _detail(error: Exception) -> str:
    """Return the first line of the message; values are in the details, which are left out."""
    diagnosis = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    lines = (diagnosis or str(error)).strip().splitlines() or [type(error).__name__]
    return lines[0].removeprefix("connection failed: ").rstrip(".")[:_MAX_DETAIL_CHARACTERS]
