"""The checkpointers of LangGraph's own tests, replaced by ours; ``tests.pregel.__main__`` copies this file to them.

Of these tests, those that use a checkpointer are run, and no others.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from functools import cache
from pathlib import Path
from uuid import uuid4

import pytest

from threadkeep.checkpoints.saver import ThreadkeepCheckpointer
from threadkeep.clock import SystemClock
from threadkeep.event_loop import EventLoopThread
from threadkeep.registry import create_storage, resolve_settings
from threadkeep.settings import Settings

KINDS = [kind for kind in os.environ.get("THREADKEEP_PREGEL_KINDS", "").split(",") if kind]
FIXTURES = {"sync_checkpointer", "async_checkpointer"}

__all__ = ["pytest_collection_modifyitems", "pytest_unconfigure"]
if KINDS:  # otherwise LangGraph's own stay
    __all__ += ["async_checkpointer", "sync_checkpointer"]

_servers = ExitStack()


@cache
def _postgres() -> str:
    from threadkeep_conformance.servers import PostgresServer

    return _servers.enter_context(PostgresServer()).url


@contextmanager
def _checkpointer(kind: str) -> Iterator[ThreadkeepCheckpointer]:
    loop, clock = EventLoopThread(), SystemClock()
    with tempfile.TemporaryDirectory() as folder:
        url = {"memory": "memory://", "sqlite": f"sqlite:///{folder}/memory.sqlite3"}.get(kind) or _postgres()
        storage = create_storage(resolve_settings(url, Settings.load(store_key_prefix=uuid4().hex)), clock)
        saver = ThreadkeepCheckpointer(storage, loop=loop, clock=clock, timeout=timedelta(seconds=10))
        try:
            yield saver
        finally:
            saver.close()
            loop.run_sync(storage.close())
            loop.close()


@pytest.fixture(params=KINDS)
def sync_checkpointer(request: pytest.FixtureRequest) -> Iterator[ThreadkeepCheckpointer]:
    with _checkpointer(request.param) as saver:
        yield saver


@pytest.fixture(params=KINDS)
async def async_checkpointer(request: pytest.FixtureRequest) -> AsyncIterator[ThreadkeepCheckpointer]:
    with _checkpointer(request.param) as saver:
        yield saver


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    used = [item for item in items if FIXTURES.intersection(getattr(item, "fixturenames", ()))]
    config.hook.pytest_deselected(items=[item for item in items if item not in {*used}])
    items[:] = used
    cases = Path(os.environ["THREADKEEP_PREGEL_CASES"])
    written = cases.with_name(f"{cases.name}.{os.getpid()}")  # every worker collects the same
    written.write_text(json.dumps({item.nodeid: _case_of(item) for item in used}))
    written.replace(cases)


def _case_of(item: pytest.Item) -> str:
    """Return what a test is whatever checkpointer it has: its name and its other parameters."""
    name, callspec = item.nodeid.partition("[")[0], getattr(item, "callspec", None)
    if callspec is None:
        return name
    parts = callspec.id.split("-")
    for fixture in FIXTURES.intersection(callspec.params):
        if callspec.params[fixture] in parts:
            parts.remove(callspec.params[fixture])
    return f"{name}[{'-'.join(sorted(parts))}]"


def pytest_unconfigure() -> None:
    _servers.close()
