"""The stores that this repository runs the suite on: Threadkeep's own and LangGraph's."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from threadkeep.ids import new_id
from threadkeep_conformance.servers import MongoServer, PostgresServer, RedisServer, RedisStackServer, Server
from threadkeep_conformance.world import OpenStore, Place, UnsupportedError

if TYPE_CHECKING:
    from langgraph.store.base import BaseStore, IndexConfig, TTLConfig

    from threadkeep.clock import Clock

Places: TypeAlias = "Callable[[str, Clock | None], Place]"
"""Gives the places of a store on the server with this URL, ``""`` where it needs none.

The clock is the one that the store shall go by; LangGraph's own know no other than the machine's, ``None``.
"""


@dataclass(frozen=True, slots=True)
class Subject:
    """A store that the suite can be run on.

    Attributes:
        name: What its report is called.
        place: Its places.
        server: What it needs; ``None``: nothing.
        too_slow: Why large checks are not run on it; empty: they are.
    """

    name: str
    place: Places
    server: type[Server] | None = None
    too_slow: str = ""


def threadkeep_place(location: Callable[[], AbstractAsyncContextManager[str]], *, clock: Clock | None = None) -> Place:
    """Return the places of Threadkeep's own store; *location* gives the URL of a storage.

    Each place has a key prefix of its own, so nothing need be there yet or be emptied. The store is the
    view with a stock store's scores, ``store_with(ranking="dense")``.
    """

    @asynccontextmanager
    async def place() -> AsyncGenerator[OpenStore]:
        from threadkeep.settings import Settings

        settings = Settings().model_copy(update={"capture": "off", "store_key_prefix": new_id()})
        async with location() as url:

            @asynccontextmanager
            async def open_store(
                *, index: IndexConfig | None = None, ttl: TTLConfig | None = None
            ) -> AsyncGenerator[BaseStore]:
                import threadkeep

                embedder: Any = index.get("embed") if index else "none"
                async with threadkeep.open(url, embedder=embedder, settings=settings, clock=clock) as tk:
                    await tk.ready()
                    yield tk.store_with(ranking="dense", index=index, ttl=ttl)

            yield open_store

    return place


@asynccontextmanager
async def in_memory(_server: str = "") -> AsyncGenerator[str]:
    """Give the URL of a storage in this process."""
    yield "memory://"


@asynccontextmanager
async def in_folder(_server: str = "") -> AsyncGenerator[str]:
    """Give the URL of a file in a folder that is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="threadkeep-") as folder:
        yield f"sqlite:///{folder}/memory.db"


@asynccontextmanager
async def on_server(server: str) -> AsyncGenerator[str]:
    """Give the URL of a server that keeps places apart by their key prefixes."""
    yield server


@asynccontextmanager
async def in_database(server: str) -> AsyncGenerator[str]:
    """Give the URL of a new database of a PostgreSQL server; it goes with the server."""
    import psycopg
    from psycopg.sql import SQL, Identifier

    name = f"conformance_{new_id()}"
    async with await psycopg.AsyncConnection.connect(server, autocommit=True) as connection:
        await connection.execute(SQL("CREATE DATABASE {} STRATEGY FILE_COPY").format(Identifier(name)))
    yield f"{server.rpartition('/')[0]}/{name}"


@asynccontextmanager
async def in_mongo_database(server: str) -> AsyncGenerator[str]:
    """Give the URL of a database that a MongoDB server makes when it is first written to; it goes with the server.

    A commit does not wait for the journal: the server that comes from a wheel syncs for every document.
    """
    yield f"{server}/c{new_id()}?journal=false"


def _threadkeep(location: Callable[[str], AbstractAsyncContextManager[str]]) -> Places:
    return lambda server, clock: threadkeep_place(lambda: location(server), clock=clock)


def _langgraph_memory(_server: str, _clock: Clock | None) -> Place:
    @asynccontextmanager
    async def open_store(
        *, index: IndexConfig | None = None, ttl: TTLConfig | None = None
    ) -> AsyncGenerator[BaseStore]:
        from langgraph.store.memory import InMemoryStore

        del ttl
        yield InMemoryStore(index=index)

    @asynccontextmanager
    async def place() -> AsyncGenerator[OpenStore]:
        yield open_store

    return place


def _langgraph_sqlite(_server: str, _clock: Clock | None) -> Place:
    @asynccontextmanager
    async def place() -> AsyncGenerator[OpenStore]:
        with tempfile.TemporaryDirectory(prefix="threadkeep-") as folder:

            @asynccontextmanager
            async def open_store(
                *, index: IndexConfig | None = None, ttl: TTLConfig | None = None
            ) -> AsyncGenerator[BaseStore]:
                from langgraph.store.sqlite import AsyncSqliteStore

                if index and not hasattr(sqlite3.Connection, "enable_load_extension"):
                    msg = "this Python's sqlite3 cannot load extensions, which its search by meaning needs"
                    raise UnsupportedError(msg)
                options: Any = index
                path = str(Path(folder) / "store.db")
                async with AsyncSqliteStore.from_conn_string(path, index=options, ttl=ttl) as store:
                    await store.setup()
                    yield store

            yield open_store

    return place


def _langgraph_postgres(server: str, _clock: Clock | None) -> Place:
    @asynccontextmanager
    async def place() -> AsyncGenerator[OpenStore]:
        async with in_database(server) as url:

            @asynccontextmanager
            async def open_store(
                *, index: IndexConfig | None = None, ttl: TTLConfig | None = None
            ) -> AsyncGenerator[BaseStore]:
                from langgraph.store.postgres import AsyncPostgresStore

                options: Any = index
                pool: Any = {"min_size": 1, "max_size": 4}
                opened = AsyncPostgresStore.from_conn_string(url, pool_config=pool, index=options, ttl=ttl)
                async with opened as store:
                    await store.setup()
                    yield store

            yield open_store

    return place


def _langgraph_redis(server: str, _clock: Clock | None) -> Place:
    @asynccontextmanager
    async def place() -> AsyncGenerator[OpenStore]:
        prefix = f"c{new_id()}"  # its search looks at the first database only

        @asynccontextmanager
        async def open_store(
            *, index: IndexConfig | None = None, ttl: TTLConfig | None = None
        ) -> AsyncGenerator[BaseStore]:
            from langgraph.store.redis.aio import AsyncRedisStore
            from redis.asyncio import Redis

            names: Any = {"store_prefix": prefix, "vector_prefix": f"{prefix}v"}
            async with (
                cast("Any", Redis).from_url(server) as client,
                AsyncRedisStore(redis_client=client, index=index, ttl=ttl, **names) as store,
            ):
                await store.setup()
                yield store

        yield open_store

    return place


def _langgraph_mongodb(server: str, _clock: Clock | None) -> Place:
    @asynccontextmanager
    async def place() -> AsyncGenerator[OpenStore]:
        database = f"c{new_id()}"

        @asynccontextmanager
        async def open_store(
            *, index: IndexConfig | None = None, ttl: TTLConfig | None = None
        ) -> AsyncGenerator[BaseStore]:
            from langgraph.store.mongodb import MongoDBStore
            from pymongo import MongoClient

            if index:
                msg = "its search by meaning needs MongoDB Atlas, or mongot"
                raise UnsupportedError(msg)
            config: Any = None if ttl is None else {"default_ttl": None, **ttl}
            with MongoClient[dict[str, Any]](server) as client:
                yield await asyncio.to_thread(MongoDBStore, client[database]["store"], ttl_config=config)

        yield open_store

    return place


_OVER_SQLITE: Final = "the server that comes from a wheel keeps its documents in SQLite, one statement for each"

SUBJECTS: Final = (
    Subject("threadkeep-memory", _threadkeep(in_memory)),
    Subject("threadkeep-sqlite", _threadkeep(in_folder)),
    Subject("threadkeep-postgres", _threadkeep(in_database), PostgresServer),
    Subject("threadkeep-redis", _threadkeep(on_server), RedisServer),
    Subject("threadkeep-mongodb", _threadkeep(in_mongo_database), MongoServer, _OVER_SQLITE),
    Subject("langgraph-memory", _langgraph_memory),
    Subject("langgraph-sqlite", _langgraph_sqlite),
    Subject("langgraph-postgres", _langgraph_postgres, PostgresServer),
    Subject("langgraph-redis", _langgraph_redis, RedisStackServer),
    Subject("langgraph-mongodb", _langgraph_mongodb, MongoServer, _OVER_SQLITE),
)
"""Ours first, then LangGraph's; a line for each."""
