"""A checkpointer of each kind on a home loop of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from threadkeep.event_loop import EventLoopThread
from threadkeep.storage.postgres.pool import PostgresPool
from threadkeep.threads.base import Backend
from threadkeep.threads.checkpointers import ThreadkeepCheckpointer
from threadkeep.threads.choice import CheckpointSettings
from threadkeep.threads.factory import backend_of, checkpointer_over
from threadkeep.threads.savers import ANSWER

KINDS = ["memory", "sqlite", "postgres", "redis", "mongodb"]
MakeCheckpointer = Callable[..., ThreadkeepCheckpointer]


@pytest.fixture
def home() -> Iterator[EventLoopThread]:
    home = EventLoopThread()
    yield home
    home.close()


class Places:
    """Places for checkpoints, each a new and empty one.

    Attributes:
        path: The file of those in SQLite.
    """

    def __init__(self, request: pytest.FixtureRequest, path: Path) -> None:
        self.path = path
        self._request = request
        self._pools: list[PostgresPool] = []

    def url(self, kind: str) -> str:
        """Return where the server of *kind* is, and start it."""
        fixture = {"postgres": "postgres_url", "redis": "redis_stack_url", "mongodb": "mongodb_url"}.get(kind)
        return self._request.getfixturevalue(fixture) if fixture else ""

    def plain_redis(self) -> str:
        """Return where a Redis without modules is."""
        return self._request.getfixturevalue("redis_url")

    def backend(self, kind: str, *, path: Path | None = None, url: str | None = None, **options: Any) -> Backend:
        """Return a place for checkpoints of *kind*, not yet opened."""
        location = self.url(kind) if url is None else url
        choice = CheckpointSettings(kind, location, f"LANGGRAPH_CHECKPOINT_{kind.upper()}", options.pop("ttl", None))
        return backend_of(choice, path=path or self.path, pool=self.pool, **options)

    def pool(self, dsn: str, variable: str) -> PostgresPool:
        self._pools.append(PostgresPool(dsn, variable=variable))
        return self._pools[-1]

    async def close(self) -> None:
        for pool in self._pools:
            await pool.close()


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "checkpoints.sqlite3"


@pytest.fixture
def places(request: pytest.FixtureRequest, path: Path, home: EventLoopThread) -> Iterator[Places]:
    places = Places(request, path)
    yield places
    if home.running:
        home.run_sync(places.close())


@pytest.fixture
def make(home: EventLoopThread, places: Places) -> Iterator[MakeCheckpointer]:
    """Return a function that makes checkpointers, which are closed after the test."""
    made: list[ThreadkeepCheckpointer] = []

    def make(kind: str, *, path: Path | None = None, url: str | None = None, **options: Any) -> ThreadkeepCheckpointer:
        timeout = options.get("timeout", ANSWER)
        where = places.backend(kind, path=path, url=url, timeout=timeout)
        made.append(checkpointer_over(where, home=home, **options))
        return made[-1]

    yield make
    for checkpointer in made:
        checkpointer.close()


@pytest.fixture
def checkpointer(kind: str, make: MakeCheckpointer) -> ThreadkeepCheckpointer:
    return make(kind)
