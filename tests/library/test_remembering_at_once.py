"""The same statement from many callers at once is one memory."""

from __future__ import annotations

import asyncio
from pathlib import Path

import threadkeep
from threadkeep.testing import HashingEmbedder

ANA = "ana"
FACT = "I own a red bike."


class TestRemember:
    """A model may call the same tool twice in one message."""

    async def test_at_once_it_is_kept_once(self, tmp_path: Path) -> None:
        """One is accepted, the others are duplicates of it."""
        async with threadkeep.open(f"sqlite:///{tmp_path}/memory.db", embedder=HashingEmbedder()) as tk:
            kept = await asyncio.gather(*(tk.memories.remember(FACT, owner=ANA) for _ in range(5)))

            assert sorted(one.status for one in kept) == ["accepted", *["duplicate"] * 4]
            assert len({one.memory_id for one in kept}) == 1

    async def test_two_that_share_the_file_keep_it_once(self, tmp_path: Path) -> None:
        """As two processes do."""
        url = f"sqlite:///{tmp_path}/memory.db"
        async with (
            threadkeep.open(url, embedder=HashingEmbedder()) as one,
            threadkeep.open(url, embedder=HashingEmbedder()) as other,
        ):
            for number in range(10):
                statement = f"I own bike number {number}."
                await asyncio.gather(*(tk.memories.remember(statement, owner=ANA) for tk in (one, other)))

            assert len(await one.memories.list(owner=ANA)) == 10

    async def test_different_statements_at_once_are_all_kept(self, tmp_path: Path) -> None:
        """Many writers do not wear each other out."""
        async with threadkeep.open(f"sqlite:///{tmp_path}/memory.db", embedder=HashingEmbedder()) as tk:
            await asyncio.gather(*(tk.memories.remember(f"I own bike number {n}.", owner=ANA) for n in range(30)))

            assert len(await tk.memories.list(owner=ANA)) == 30
