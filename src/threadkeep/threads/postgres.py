"""Checkpoints in PostgreSQL, over the pool of connections that the memories use, too."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, ClassVar, Literal, Protocol, TypeVar, cast

from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from psycopg import AsyncConnection, DataError

from threadkeep.errors import InvalidInputError, StorageError, StorageVersionError
from threadkeep.threads.backend import Backend, Capabilities, Saver

T = TypeVar("T")


class Pool(Protocol):
    """What the checkpoints need of a pool of connections; none of them prepares statements."""

    @property
    def location(self) -> str:
        """The URL without its password."""
        ...

    @property
    def migrate(self) -> Literal["auto", "check"]:
        """Whether tables are made as needed, or must be as needed."""
        ...

    async def open(self) -> None:
        """Connect; the second call does nothing."""
        ...

    async def run(self, work: Callable[[AsyncConnection[Any]], Awaitable[T]], *, seconds: float | None = None) -> T:
        """Return what *work* returns on a connection; where that broke, on a new one."""
        ...

    def setting_up(self) -> AbstractAsyncContextManager[AsyncConnection[Any]]:
        """Lend a connection while no other process sets this database up."""
        ...


class PostgresCheckpoints(Backend):
    """LangGraph's saver for PostgreSQL, one for each call, on a connection of its own.

    The stock one has a lock, which a pool of connections does not help: its calls come one after another.

    Args:
        pool: Where the database is; whoever made it closes it.
    """

    name: ClassVar[str] = "postgres"
    capabilities: ClassVar[Capabilities] = Capabilities(lasting=True, shared=True, prunes=True)
    longest_name: ClassVar[int | None] = 512
    plain_texts: ClassVar[bool] = True

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    @property
    def location(self) -> str:
        """The server and the database, without the password."""
        return self._pool.location

    async def open(self) -> Saver:
        """Connect, and make what tables are missing while no other process does."""
        await self._pool.open()
        saver = AsyncPostgresSaver(cast("Any", None))
        if not await self._pool.run(lambda connection: _is_set_up(_over(saver, connection))):
            if self._pool.migrate == "check":
                msg = f"{self.location} lacks tables for checkpoints; start once with THREADKEEP_MIGRATE=auto."
                raise StorageVersionError(msg, server=self.location)
            async with self._pool.setting_up() as connection:
                await _over(saver, connection).setup()
        return saver

    async def close(self) -> None:
        """Do nothing: the pool is closed by whoever made it."""

    async def call(self, saver: Saver, work: Callable[[Saver], Awaitable[T]], *, seconds: float) -> T:
        """Return what *work* returns with a saver of its own."""
        real = cast("AsyncPostgresSaver", saver)
        try:
            return await self._pool.run(lambda connection: work(_over(real, connection)), seconds=seconds)
        except StorageError as error:
            if not isinstance(error.__cause__, DataError):
                raise
            msg = "A checkpoint's namespace or metadata holds what PostgreSQL cannot keep, such as NUL; leave it out."
            raise InvalidInputError(msg) from error


def _over(saver: AsyncPostgresSaver, connection: AsyncConnection[Any]) -> AsyncPostgresSaver:
    one = copy.copy(saver)
    one.conn, one.lock = connection, asyncio.Lock()
    return one


async def _is_set_up(saver: AsyncPostgresSaver) -> bool:
    connection = cast("AsyncConnection[Any]", saver.conn)
    there = await (await connection.execute("SELECT to_regclass('checkpoint_migrations') IS NOT NULL")).fetchone()
    if not there or not there[0]:
        return False
    newest = await (await connection.execute("SELECT max(v) FROM checkpoint_migrations")).fetchone()
    return bool(newest) and newest[0] is not None and newest[0] >= len(saver.MIGRATIONS) - 1
