"""The memories on which quality is measured, opened: in RAM for replays, in a file for rankings."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from threadkeep.client import Threadkeep
    from threadkeep.clock import Clock
    from threadkeep.models.base import Embedder

PATIENCE: Final = timedelta(seconds=60)
"""How long a turn waits for recall and for its record: nothing may be missing because a machine was slow."""


@asynccontextmanager
async def opened_for_replay(embedder: Embedder | str | None, clock: Clock) -> AsyncGenerator[Threadkeep]:
    """Open a memory in RAM in which what is learnt depends on nothing but what is said, by the local extractor."""
    from threadkeep.client import open as open_threadkeep
    from threadkeep.settings import Settings

    settings = Settings.load(
        store_type="memory",
        capture="local",
        enable_fact_extraction="false",
        redact="",
        memory_policy="",
        store_ttl_minutes="0",
        recall_timeout_ms=str(int(PATIENCE.total_seconds() * 1_000)),
    )
    async with open_threadkeep(settings=settings, embedder=embedder, clock=clock) as tk:
        await tk.ready()
        yield tk


@asynccontextmanager
async def opened_in_a_file(embedder: Any, *, owner: str | None = None) -> AsyncGenerator[Threadkeep]:
    """Open a memory in a SQLite file of its own, which is gone afterwards."""
    from threadkeep.client import open as open_threadkeep

    with tempfile.TemporaryDirectory(prefix="threadkeep-eval-") as folder:
        url = f"sqlite:///{Path(folder).as_posix()}/eval.db"
        async with open_threadkeep(url, owner=owner, embedder=embedder) as tk:
            await tk.ready()
            yield tk
