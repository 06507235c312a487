"""What the tests of PostgreSQL stand on: databases of other users, storages on them, raw statements."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import urlsplit

import psycopg
from psycopg.sql import SQL, Identifier

from threadkeep.clock import Clock
from threadkeep.ids import new_id
from threadkeep.storage.interface import Batch, Item, Operation, Partition, Position, Put, Ref, Storage
from threadkeep.storage.postgres.pool import PostgresPool
from threadkeep.storage.postgres.storage import PostgresStorage
from threadkeep.testing.clock import FrozenClock

ANA: Final = Partition("owner", ("", "ana"))
BOB: Final = Partition("owner", ("", "bob"))
NOTES: Final = ("memories", "ana")


def note(key: str, value: dict[str, Any] | None = None, **more: Any) -> Put:
    """Return a put of a searchable item."""
    return Put(NOTES, key, value or {"data": "likes tea"}, index=("data",), **more)


async def commit(storage: Storage, *operations: Operation, partition: Partition = ANA) -> Position:
    """Commit *operations* as one batch."""
    return await storage.commit(Batch(partition, operations))


async def get(storage: Storage, key: str, partition: Partition = ANA) -> Item | None:
    """Return one item."""
    (item,) = await storage.get([Ref(partition, NOTES, key)])
    return item


@asynccontextmanager
async def connected(
    url: str, *, clock: Clock | None = None, hash_partitions: int = 0, **options: Any
) -> AsyncIterator[PostgresStorage]:
    """Yield a connected storage; *options* are the pool's."""
    pool = PostgresPool(url, **options)
    storage = PostgresStorage(pool, clock=clock or FrozenClock(), hash_partitions=hash_partitions)
    try:
        await storage.connect()
        yield storage
    finally:
        await storage.close()


def run(url: str, *statements: str) -> list[tuple[Any, ...]]:
    """Run raw statements in one transaction; return the rows of the last one."""
    with psycopg.connect(url) as connection:
        cursor = connection.execute("SELECT 1")
        for statement in statements:
            cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def database_of(url: str) -> str:
    """Return the name of the database that *url* leads to."""
    return urlsplit(url).path.removeprefix("/")


def as_user(url: str, user: str) -> str:
    """Return *url* for another user."""
    return url.replace("postgres@", f"{user}@")


def make_user(url: str, options: str = "", *, create: bool = True) -> str:
    """Make a user with CREATE ROLE's *options* and return the URL of the database for it.

    Args:
        url: The superuser's.
        options: E.g. ``BYPASSRLS``.
        create: Whether it may make a schema in the database.
    """
    name = f"user_{new_id()}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(SQL("CREATE ROLE {} LOGIN " + options).format(Identifier(name)))  # type: ignore[arg-type]
        if create:
            grant = SQL("GRANT CREATE ON DATABASE {} TO {}")
            connection.execute(grant.format(Identifier(database_of(url)), Identifier(name)))
    return as_user(url, name)
