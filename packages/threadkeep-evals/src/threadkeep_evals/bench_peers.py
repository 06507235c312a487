"""A storage of each kind and LangGraph's own store beside it, on one server that is started for it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from threadkeep.ids import new_id
from threadkeep_evals.rig import opened, start_server

if TYPE_CHECKING:
    from threadkeep.client import Threadkeep
    from threadkeep_evals.rig import Lookup

KINDS: Final = ("memory", "sqlite", "postgres", "redis", "mongodb")

CONNECTIONS: Final = 8

_TIMEOUT_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class Beside:
    """Ours and the peer, at one place; each can be opened again over what it holds.

    Attributes:
        kind: Of storage.
        server: What both run on, for people.
        ours: Opens ours.
        peer: Opens the peer's store.
        peer_name: What it is called.
        peer_searches: Whether the peer can search by meaning here; else *why_not* says why not.
        why_not: See *peer_searches*.
    """

    kind: str
    server: str
    ours: Callable[[], AbstractAsyncContextManager[Threadkeep]]
    peer: Callable[[], AbstractAsyncContextManager[Any]]
    peer_name: str
    peer_searches: bool = True
    why_not: str = ""


def beside(kind: str, folder: Path, lookup: Lookup, running: ExitStack) -> Beside:
    """Return ours and the peer of *kind*, on a server that *running* ends.

    Raises:
        SettingsError: The packages that the server is started from are not installed.
    """
    index: Any = {"dims": lookup.dims, "embed": lookup.as_langgraph, "fields": ["data"]}
    if kind == "memory":
        return _memory(lookup, index)
    if kind == "sqlite":
        return _sqlite(folder, lookup, index)
    if kind == "postgres":
        durable = {"fsync": "on", "full_page_writes": "on"}
        url = start_server("PostgresServer", running, durable)
        return _postgres(url, lookup, index)
    if kind == "redis":
        return _redis(start_server("RedisStackServer", running), lookup, index)
    return _mongodb(start_server("MongoServer", running), lookup)


def _ours(url: str, lookup: Lookup) -> Callable[[], AbstractAsyncContextManager[Threadkeep]]:
    """Return what opens ours, with timeouts that a busy machine does not reach."""
    return lambda: opened(
        url, lookup, capture="off", postgres_statement_timeout_ms=_TIMEOUT_MS, redis_timeout_ms=_TIMEOUT_MS
    )


def _memory(lookup: Lookup, index: Any) -> Beside:
    from langgraph.store.memory import InMemoryStore

    store = InMemoryStore(index=index)

    @asynccontextmanager
    async def peer() -> AsyncGenerator[Any]:
        yield store

    return Beside("memory", "this process", _ours("memory://", lookup), peer, "LangGraph InMemoryStore")


def _sqlite(folder: Path, lookup: Lookup, index: Any) -> Beside:
    searches = hasattr(sqlite3.Connection, "enable_load_extension")

    @asynccontextmanager
    async def peer() -> AsyncGenerator[Any]:
        from langgraph.store.sqlite.aio import AsyncSqliteStore

        given = index if searches else None
        async with AsyncSqliteStore.from_conn_string(str(folder / "peer.db"), index=given) as store:
            await store.conn.execute("PRAGMA synchronous=FULL")
            await store.setup()
            yield store

    return Beside(
        "sqlite",
        f"SQLite {sqlite3.sqlite_version}, synchronous=FULL",
        _ours(f"sqlite:///{(folder / 'ours.db').as_posix()}", lookup),
        peer,
        "LangGraph AsyncSqliteStore",
        searches,
        "" if searches else "this Python's sqlite3 cannot load the extension that it searches by",
    )


def _postgres(url: str, lookup: Lookup, index: Any) -> Beside:
    @asynccontextmanager
    async def peer() -> AsyncGenerator[Any]:
        from langgraph.store.postgres import AsyncPostgresStore

        pool: Any = {"min_size": 1, "max_size": CONNECTIONS}
        async with AsyncPostgresStore.from_conn_string(url, pool_config=pool, index=index) as store:
            await store.setup()
            yield store

    return Beside("postgres", "PostgreSQL 18, fsync on", _ours(url, lookup), peer, "LangGraph AsyncPostgresStore")


def _redis(url: str, lookup: Lookup, index: Any) -> Beside:
    @asynccontextmanager
    async def peer() -> AsyncGenerator[Any]:
        from langgraph.store.redis.aio import AsyncRedisStore
        from redis.asyncio import Redis

        async with (
            cast("Any", Redis).from_url(url) as client,
            AsyncRedisStore(redis_client=client, index=index) as store,
        ):
            await store.setup()
            yield store

    server = "Valkey 9 with Redis's JSON and Search modules, appendfsync everysec"
    return Beside("redis", server, _ours(url, lookup), peer, "LangGraph AsyncRedisStore")


def _mongodb(url: str, lookup: Lookup) -> Beside:
    @asynccontextmanager
    async def peer() -> AsyncGenerator[Any]:
        from langgraph.store.mongodb import MongoDBStore
        from pymongo import MongoClient

        with MongoClient[dict[str, Any]](f"{url}/?{durability}") as client:
            yield await asyncio.to_thread(MongoDBStore, client["peer"]["store"])

    durability = "w=majority&journal=false"  # this server would sync its file for every single document
    return Beside(
        "mongodb",
        f"a server of MongoDB's protocol over SQLite, {durability}",
        _ours(f"{url}/{new_id()}?{durability}&timeoutMS=60000", lookup),
        peer,
        "LangGraph MongoDBStore",
        peer_searches=False,
        why_not="it searches by meaning on Atlas only",
    )
