"""LangGraph's own suite for checkpointers, on every storage."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.conformance import checkpointer_test, validate

from tests.checkpoints.conftest import TIMEOUT, Places, storage_at
from threadkeep.checkpoints.saver import ThreadkeepCheckpointer
from threadkeep.clock import SystemClock
from threadkeep.event_loop import EventLoopThread
from threadkeep.identity import Owner

OWNER = Owner("ana@x.org", "https://issuer.example")


@pytest.mark.slow
@pytest.mark.parametrize("owner", [None, OWNER], ids=["plain", "scoped"])
async def test_every_capability_passes_in_full(
    kind: str, owner: Owner | None, home: EventLoopThread, places: Places, tmp_path: Path
):
    await all_passes(kind, home, places, tmp_path, owner=owner)


@pytest.mark.parametrize(
    "kind",
    # The server that stands in for MongoDB takes ten times as long as the others.
    ["memory", "sqlite", "postgres", "redis", pytest.param("mongodb", marks=pytest.mark.soak)],
    indirect=True,
)
async def test_every_capability_passes_encrypted(kind: str, home: EventLoopThread, places: Places, tmp_path: Path):
    """For an owner."""
    await all_passes(kind, home, places, tmp_path, owner=OWNER, encrypted=True)


async def all_passes(
    kind: str, home: EventLoopThread, places: Places, folder: Path, *, owner: Owner | None, encrypted: bool = False
) -> None:
    """All tests of all capabilities pass; none is left out."""
    clock = SystemClock()

    @checkpointer_test(name=f"{kind}-{owner}")
    async def factory() -> AsyncIterator[BaseCheckpointSaver[str]]:
        url = places.url(kind, folder / uuid4().hex / "memory.sqlite3")
        storage = storage_at(url, key_prefix=uuid4().hex, encrypted=encrypted, clock=clock)
        checkpointer = ThreadkeepCheckpointer(storage, loop=home, clock=clock, timeout=TIMEOUT)
        yield checkpointer.scoped(owner) if owner else checkpointer
        await checkpointer.aclose()
        await home.run(storage.close())

    report = await validate(factory)

    failures = [failure for result in report.results.values() for failure in result.failures]
    assert failures == []
    assert report.conformance_level() == "FULL"
    claimed = {name for name, result in report.results.items() if result.detected}
    required = {"put", "put_writes", "get_tuple", "list", "delete_thread"}
    assert claimed >= required | {"prune", "copy_thread", "delete_for_runs"}
    assert sum(result.tests_passed for result in report.results.values()) >= 58
