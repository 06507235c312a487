"""A checkpointer of each kind on an event loop of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.servers import SERVERS_IN_SOAK
from threadkeep.checkpoints.saver import ThreadkeepCheckpointer
from threadkeep.clock import Clock, SystemClock
from threadkeep.event_loop import EventLoopThread
from threadkeep.registry import create_storage, resolve_settings
from threadkeep.settings import Settings
from threadkeep.storage.interface import Storage

KINDS = ["memory", "sqlite", *SERVERS_IN_SOAK]
TIMEOUT = timedelta(seconds=10)
MASTER_KEY = "bm90IGEgc2VjcmV0OiBhIGtleSBvZiB0aGUgdGVzdHM="
MakeCheckpointer = Callable[..., ThreadkeepCheckpointer]


@pytest.fixture
def home() -> Iterator[EventLoopThread]:
    home = EventLoopThread()
    yield home
    home.close()


def storage_at(url: str, *, key_prefix: str = "", encrypted: bool = False, clock: Clock | None = None) -> Storage:
    """Return the storage at *url*, not yet connected."""
    more: dict[str, Any] = {"master_key": MASTER_KEY} if encrypted else {}
    settings = resolve_settings(url, Settings.load(store_key_prefix=key_prefix, **more))
    return create_storage(settings, clock or SystemClock())


class Places:
    """Where checkpoints can be kept, each a new and empty place.

    Attributes:
        path: The file of SQLite.
    """

    def __init__(self, request: pytest.FixtureRequest, path: Path) -> None:
        self.path = path
        self._request = request

    def url(self, kind: str, path: Path | None = None) -> str:
        """Return the URL of a storage of *kind*, and start its server."""
        if kind == "memory":
            return "memory://"
        if kind == "sqlite":
            (path or self.path).parent.mkdir(parents=True, exist_ok=True)
            return f"sqlite:///{path or self.path}"
        return self._request.getfixturevalue(f"{kind}_url")


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "memory.sqlite3"


@pytest.fixture
def places(request: pytest.FixtureRequest, path: Path) -> Places:
    return Places(request, path)


@pytest.fixture
def make(home: EventLoopThread, places: Places) -> Iterator[MakeCheckpointer]:
    """Return a function that makes checkpointers, which are closed after the test."""
    made: list[ThreadkeepCheckpointer] = []

    def make(
        kind: str,
        *,
        path: Path | None = None,
        url: str | None = None,
        key_prefix: str = "",
        encrypted: bool = False,
        clock: Clock | None = None,
        **options: Any,
    ) -> ThreadkeepCheckpointer:
        clock = clock or SystemClock()
        storage = storage_at(url or places.url(kind, path), key_prefix=key_prefix, encrypted=encrypted, clock=clock)
        options.setdefault("timeout", TIMEOUT)
        made.append(ThreadkeepCheckpointer(storage, loop=home, clock=clock, **options))
        return made[-1]

    yield make
    for checkpointer in made:
        checkpointer.close()
        if home.running:
            home.run_sync(checkpointer.storage.close())


@pytest.fixture
def checkpointer(kind: str, make: MakeCheckpointer) -> ThreadkeepCheckpointer:
    return make(kind)
