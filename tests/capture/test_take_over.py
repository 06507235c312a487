"""A worker that is killed with a turn in hand: another process takes it over, by the lease, without being asked."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest

import threadkeep
from tests.storage.forking import forked
from threadkeep.capture.extractors import Extraction
from threadkeep.capture.models import Turn
from threadkeep.capture.service import POLL
from threadkeep.clock import SystemClock
from threadkeep.container import Container
from threadkeep.memories.models import Memory
from threadkeep.registry import create_storage, resolve_settings
from threadkeep.settings import Settings
from threadkeep.testing import HashingEmbedder

OWNER: Final = "ana@x.org"
MOST_SECONDS: Final = 15


class Stuck:
    """Says over a pipe that it has a turn, and never ends."""

    name = "stuck"
    uses_known = False

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe

    async def extract(self, turn: Turn, known: Sequence[Memory]) -> Extraction:
        os.write(self._pipe, b"+")
        await asyncio.Event().wait()
        return Extraction()


def opened(url: str, **more: Any) -> threadkeep.Threadkeep:
    """Open a memory whose leases last a second."""
    settings = resolve_settings(url, Settings.load(capture_lease_seconds="1", capture_workers="1"))
    clock = SystemClock()
    return threadkeep.Threadkeep(Container(settings, create_storage(settings, clock), HashingEmbedder(), clock, **more))


def work(url: str, pipe: int) -> None:
    """Record a turn, take it and hang; the parent kills this process."""
    tk = opened(url, extractor=Stuck(pipe))
    tk.sync.capture([("user", "I live in Lisbon.")], owner=OWNER, thread_id="t1")
    signal.pause()


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/memory.db"
    return request.getfixturevalue("postgres_url")


def test_by_default_it_takes_no_longer_than_fifteen_seconds():
    """A lease that nobody renews, and one look for work."""
    assert Settings.model_fields["capture_lease_seconds"].default + POLL.total_seconds() <= MOST_SECONDS


@pytest.mark.slow
@pytest.mark.linux
def test_a_dead_workers_turn_is_taken_over(url: str):
    """Once, with the death counted; nobody drains: whoever lives looks by itself."""
    reading, writing = os.pipe()
    child = forked(lambda: work(url, writing))
    os.close(writing)
    with os.fdopen(reading, "rb", buffering=0) as heard:
        assert heard.read(1) == b"+"
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)

    with opened(url) as tk:
        (held,) = tk.sync.queue.list(owner=OWNER)
        settled = tk.sync.settle([held.turn_id], owner=OWNER, timeout=timedelta(seconds=60))

        assert settled.status == "done"
        assert [memory.text for memory in tk.sync.memories.list(owner=OWNER, kind="semantic")] == ["I live in Lisbon."]
        assert tk.app.telemetry.counts()["capture.taken_over"] == 1
