"""Our store in place of LangGraph's in its own tests; ``tests.stores.__main__`` copies this file to them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg
from langgraph.store.base.embed import ensure_embeddings
from psycopg.rows import dict_row

import threadkeep
from threadkeep.langgraph.operations import require_embedder
from threadkeep.langgraph.store import ThreadkeepStore
from threadkeep.settings import Settings

_test = ExitStack()


def _url() -> str:
    kind = os.environ["THREADKEEP_STORE_KIND"]
    if kind == "sqlite":
        return f"sqlite:///{_test.enter_context(tempfile.TemporaryDirectory())}/memory.sqlite3"
    return "memory://" if kind == "memory" else os.environ["THREADKEEP_STORE_POSTGRES"]


class Store(ThreadkeepStore):
    """LangGraph's constructors, which give a store of ours; each is empty, and closed after its test."""

    MIGRATIONS = ()

    def __init__(self, *, index: Any = None, ttl: Any = None, database: str = "") -> None:
        """Open the memory of *database*, or one of its own, and do what ``store_with(ranking="dense")`` does."""
        # Some tests make thousands of calls at once, and a busy machine has few connections for them.
        settings = Settings.load(store_key_prefix=database or uuid4().hex, capture="off", postgres_wait_ms=60_000)
        embed = ensure_embeddings(index["embed"]) if index else None
        tk = threadkeep.open(_url(), embedder=embed or "none", settings=settings)
        _test.callback(tk.close)
        options: Any = {**index, "embed": embed} if index else None
        if options and "text_fields" in options:
            options["fields"] = options.pop("text_fields")
        require_embedder(options, tk.app.embedder)
        super().__init__(tk.app.event_loop, tk.app.connect, index=options, ttl_config=ttl, ranking="dense", owner=None)

    @classmethod
    @contextmanager
    def from_conn_string(cls, _: str, *, index: Any = None, ttl: Any = None) -> Iterator[Store]:
        """Do the same as a context."""
        yield cls(index=index, ttl=ttl)


class AsyncStore(Store):
    """The same for asynchronous tests."""

    @classmethod
    @asynccontextmanager
    async def from_conn_string(cls, _: str, *, index: Any = None, ttl: Any = None) -> AsyncIterator[Store]:  # type: ignore[override]
        """Do the same as an asynchronous context."""
        yield cls(index=index, ttl=ttl)


class PostgresStore(Store):
    """The same for tests that name a database and open it again."""

    @classmethod
    @contextmanager
    def from_conn_string(cls, url: str, *, index: Any = None, ttl: Any = None, **_: Any) -> Iterator[Store]:  # type: ignore[override]
        """Open the memory of the database in *url*."""
        yield cls(index=index, ttl=ttl, database=_database(url))

    @contextmanager
    def _cursor(self) -> Iterator[Any]:
        """Give a cursor of a database without LangGraph's tables."""
        with psycopg.connect(
            os.environ["THREADKEEP_STORE_POSTGRES"], autocommit=True, row_factory=dict_row
        ) as connection:
            yield connection.cursor()


class AsyncPostgresStore(Store):
    """The same for asynchronous tests."""

    @classmethod
    @asynccontextmanager
    async def from_conn_string(cls, url: str, *, index: Any = None, ttl: Any = None, **_: Any) -> AsyncIterator[Store]:  # type: ignore[override]
        """Open the memory of the database in *url*."""
        yield cls(index=index, ttl=ttl, database=_database(url))

    @asynccontextmanager
    async def _cursor(self) -> AsyncIterator[Any]:
        """Give a cursor of a database without LangGraph's tables."""
        async with await psycopg.AsyncConnection.connect(
            os.environ["THREADKEEP_STORE_POSTGRES"], autocommit=True, row_factory=dict_row
        ) as connection:
            yield connection.cursor()


def _database(url: str) -> str:
    return urlsplit(url).path.strip("/")


def pytest_runtest_teardown() -> None:
    """Close what a test opened."""
    _test.close()
