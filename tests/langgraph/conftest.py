"""Stores on both backends that need no server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.langgraph.store_world import StoreWorld
from threadkeep.langgraph.store import ThreadkeepStore
from threadkeep.storage.interface import Storage
from threadkeep.storage.memory import InMemoryStorage
from threadkeep.storage.sqlite.storage import SqliteStorage
from threadkeep.testing import FrozenClock


@pytest.fixture(params=["memory", "sqlite"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreWorld]:
    """What a store stands on, with an embedder."""
    clock = FrozenClock()
    storage: Storage = (
        InMemoryStorage(clock=clock)
        if request.param == "memory"
        else SqliteStorage(tmp_path / "memory.sqlite3", clock=clock)
    )
    world = StoreWorld(storage, clock)
    yield world
    world.close()


@pytest.fixture
def store(world: StoreWorld) -> ThreadkeepStore:
    """An unscoped store."""
    return world.store()
