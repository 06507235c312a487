"""Checkpoints in PostgreSQL, over the pool of connections that the memories use, too."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Protocol, TypeVar, cast

from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from psycopg import AsyncConnection, AsyncCursor, DataError, Error
from psycopg.rows import DictRow

from threadkeep.errors import InvalidInputError, StorageError, StorageVersionError
from threadkeep.storage.base import read_statements
from threadkeep.threads.base import Backend, Capabilities, Saver
from threadkeep.threads.fencing import Grant, Refusal, Strategy, ThreadClaim, refused

if TYPE_CHECKING:
    from threadkeep.threads.maintenance import Place

T = TypeVar("T")

SQL: Final = {
    name: text.encode()
    for name, text in read_statements(Path(__file__).with_name("sql") / "heads_postgres.sql").items()
}
REFUSALS: Final[dict[str, Refusal]] = {"TK001": "busy", "TK002": "passed on", "TK003": "moved on"}
"""What the function ``threadkeep_claim_2`` raises."""


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
    capabilities: ClassVar[Capabilities] = Capabilities(lasting=True, shared=True)
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
        saver = _PostgresSaver(cast("Any", None))
        if not await self._pool.run(lambda connection: _is_set_up(_over(saver, connection))):
            if self._pool.migrate == "check":
                msg = f"{self.location} lacks tables for checkpoints; start once with THREADKEEP_MIGRATE=auto."
                raise StorageVersionError(msg, server=self.location)
            async with self._pool.setting_up() as connection:
                await _over(saver, connection).setup()
                for statement in ("schema", "began", "claim_function", "lease_function"):
                    await connection.execute(SQL[statement])
        return saver

    async def close(self) -> None:
        """Do nothing: the pool is closed by whoever made it."""

    async def call(
        self, saver: Saver, work: Callable[[Saver], Awaitable[T]], *, seconds: float, claim: ThreadClaim | None = None
    ) -> T:
        """Return what *work* returns with a saver of its own; a claim is judged in its transaction."""
        real = cast("_PostgresSaver", saver)
        try:
            return await self._pool.run(lambda connection: work(_over(real, connection, claim)), seconds=seconds)
        except StorageError as error:
            if refusal := REFUSALS.get(str(error.details.get("sqlstate"))):
                raise refused(refusal) from error
            if not isinstance(error.__cause__, DataError):
                raise
            msg = "A checkpoint's namespace or metadata holds what PostgreSQL cannot keep, such as NUL; leave it out."
            raise InvalidInputError(msg) from error

    async def take(
        self,
        saver: Saver,  # noqa: ARG002 - a connection is enough
        thread: str,
        *,
        holder: str,
        seconds: float,
        strategy: Strategy,
    ) -> Grant | None:
        """Give *holder* the lease on a thread; see :meth:`Backend.take`."""
        asked = {"thread": thread, "holder": holder, "seconds": seconds, "strategy": strategy}
        rows = await self._rows("take", asked)
        return Grant(*rows[0]) if rows else None

    async def renew(self, saver: Saver, tokens: Mapping[str, int], *, seconds: float) -> set[str]:  # noqa: ARG002 - as above
        """Prolong leases; see :meth:`Backend.renew`."""
        held = {"threads": [*tokens], "tokens": [*tokens.values()], "seconds": seconds}
        return {thread for (thread,) in await self._rows("renew", held)}

    async def give_back(self, saver: Saver, thread: str, token: int) -> None:  # noqa: ARG002 - as above
        """End a lease; see :meth:`Backend.give_back`."""
        await self._rows("give_back", {"thread": thread, "token": token})

    async def forget_newer(self, saver: Saver, thread: str, checkpoint_id: str) -> None:  # noqa: ARG002 - as above
        """Delete what is newer; see :meth:`Backend.forget_newer`."""
        await self._rows("forget_newer", {"thread": thread, "checkpoint": checkpoint_id})

    async def remove(self, saver: Saver, thread: str, gone: Sequence[Place]) -> None:  # noqa: ARG002 - as above
        """Delete checkpoints; see :meth:`Backend.remove`."""
        places = {"namespaces": [one for one, _ in gone], "checkpoints": [one for _, one in gone]}
        await self._rows("remove", {"thread": thread, **places})
        await self._rows("remove_values", {"thread": thread})

    async def reparent(self, saver: Saver, thread: str, place: Place, parent_id: str) -> None:  # noqa: ARG002 - as above
        """Give a checkpoint another parent; see :meth:`Backend.reparent`."""
        named = {"thread": thread, "namespace": place[0], "checkpoint": place[1]}
        await self._rows("reparent", {**named, "parent": parent_id})

    async def _rows(self, statement: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        async def run(connection: AsyncConnection[Any]) -> list[tuple[Any, ...]]:
            cursor = await connection.execute(SQL[statement], values)
            return await cursor.fetchall() if cursor.description else []

        return await self._pool.run(run)


class _PostgresSaver(AsyncPostgresSaver):
    """LangGraph's saver for PostgreSQL, whose writes are judged first, in the transaction that each of them is.

    Attributes:
        claim: Who writes what, where this is the copy of the saver for one write.
    """

    claim: ThreadClaim | None = None

    @asynccontextmanager
    async def _cursor(self, *, pipeline: bool = False) -> AsyncGenerator[AsyncCursor[DictRow]]:
        async with super()._cursor(pipeline=pipeline) as cursor:
            if pipeline and self.claim:
                # Sent along with the write, which comes to nothing where this fails: no round trip is added.
                await cursor.execute(SQL["claim"], asdict(self.claim))
            try:
                yield cursor
            except Error:
                if pipeline:  # what comes after a refusal is aborted: read that here, or the driver logs it as a fault
                    with suppress(Error):
                        async with cursor.connection.pipeline() as rest:
                            await rest.sync()
                raise


def _over(saver: _PostgresSaver, connection: AsyncConnection[Any], claim: ThreadClaim | None = None) -> _PostgresSaver:
    one = copy.copy(saver)
    one.conn, one.lock, one.claim = connection, asyncio.Lock(), claim
    return one


async def _is_set_up(saver: _PostgresSaver) -> bool:
    connection = cast("AsyncConnection[Any]", saver.conn)
    there = await (await connection.execute(SQL["is_set_up"])).fetchone()
    if not there or not there[0]:
        return False
    newest = await (await connection.execute(SQL["version"])).fetchone()
    return bool(newest) and newest[0] is not None and newest[0] >= len(saver.MIGRATIONS) - 1
