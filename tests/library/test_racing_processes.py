"""Eight processes open one place at the same moment and write of one owner, each as an application does."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import threadkeep
from tests.checkpoints.checkpoints import echo_graph
from tests.servers import SERVERS_IN_SOAK
from tests.storage.forking import ended_well, forked
from threadkeep.testing import HashingEmbedder

pytestmark = [pytest.mark.linux, pytest.mark.slow]

ANA = "ana@x.org"
WRITERS = 8
EACH = 3
BY_ALL = "Plays the harp."


def place_of(kind: str, request: pytest.FixtureRequest, folder: Path) -> str:
    """Return the URL of an empty place of *kind*."""
    return f"sqlite:///{folder}/memory.sqlite3" if kind == "sqlite" else request.getfixturevalue(f"{kind}_url")


async def write(url: str, number: int) -> None:
    """Take a turn on a thread of its own, and say what nobody else says, and what everybody does."""
    async with threadkeep.open(url, embedder=HashingEmbedder(dims=32)) as tk:
        config = tk.config(user_id=ANA, thread_id=f"thread {number}")
        await echo_graph(tk.checkpointer).ainvoke({"words": [f"by {number}"]}, config)
        for turn in range(EACH):
            kept = await tk.memories.remember(f"Owns bike {number} of make {turn}.", owner=ANA)
            assert kept.status == "accepted"
        assert (await tk.memories.remember(BY_ALL, owner=ANA)).status in ("accepted", "duplicate")


@pytest.mark.parametrize("kind", ["sqlite", *SERVERS_IN_SOAK])
def test_nothing_of_them_is_lost_or_kept_twice(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables, indexes and those of the checkpoints are made meanwhile by whoever comes first."""
    if kind == "redis":  # without its modules it keeps no checkpoints
        monkeypatch.setenv("LANGGRAPH_CHECKPOINT_TYPE", "sqlite")
        monkeypatch.setenv("LANGGRAPH_CHECKPOINT_SQLITE_PATH", str(tmp_path / "threads.sqlite3"))
    url = place_of(kind, request, tmp_path)

    children = [forked(lambda number=number: asyncio.run(write(url, number))) for number in range(WRITERS)]

    assert [ended_well(child) for child in children] == [True] * WRITERS
    with threadkeep.open(url, embedder=HashingEmbedder(dims=32)) as tk:
        texts = sorted(memory.text for memory in tk.sync.memories.list(owner=ANA, limit=100))
        threads = {thread.thread_id for thread in tk.sync.threads.list(ANA)}
    own = [f"Owns bike {number} of make {turn}." for number in range(WRITERS) for turn in range(EACH)]
    assert texts == sorted([*own, BY_ALL])
    assert threads == {f"thread {number}" for number in range(WRITERS)}
