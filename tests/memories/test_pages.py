"""Pages of memories: each begins where the one before ended, whatever has happened since."""

from __future__ import annotations

import json

import pytest

import threadkeep
from threadkeep.errors import InvalidInputError
from threadkeep.storage.encryption.cipher import new_master_key

LINES = [
    json.dumps({"text": f"My number {n} is {n * 7919}.", "memory_id": f"m{n * 7 % 31}", "kind": kind})
    for n, kind in enumerate(["semantic", "episodic"] * 12)
]
"""Memories of one commit, so that only their keys order them."""


class TestPages:
    @pytest.mark.parametrize("encrypted", [False, True])
    async def test_memories_of_one_commit_come_once(self, monkeypatch: pytest.MonkeyPatch, *, encrypted: bool):
        """In the order of the whole list, although the last one of each page is gone before the next page."""
        if encrypted:
            monkeypatch.setenv("THREADKEEP_MASTER_KEY", new_master_key())
        async with threadkeep.open("memory:", embedder="none", owner="ana") as tk:
            await tk.memories.import_lines(LINES)
            label = tk.label("ana")
            for n in range(5):  # of another program, below the owner's label
                await tk.store.aput(("users", label, "memories", "notes"), f"n{n}", {"text": f"Note {n}"})
            whole = [memory.memory_id for memory in await tk.memories.list(limit=100)]
            seen: list[str] = []
            cursor: str | None = None
            while cursor is not None or not seen:
                page = await tk.memories.list(limit=3, cursor=cursor)
                seen += [memory.memory_id for memory in page]
                await tk.memories.forget(page[-1].memory_id)
                cursor = page.cursor

        assert len(whole) == len(LINES) + 5
        assert seen == whole

    async def test_the_last_page_has_no_cursor(self):
        async with threadkeep.open("memory:", embedder="none", owner="ana") as tk:
            await tk.memories.import_lines(LINES[:4])

            assert (await tk.memories.list(limit=4)).cursor is None
            assert (await tk.memories.list(limit=0)).cursor is None
            cursor = (await tk.memories.list(limit=3)).cursor
            assert len(await tk.memories.list(limit=3, cursor=cursor)) == 1

    async def test_a_cursor_that_no_page_had_is_refused(self):
        async with threadkeep.open("memory:", embedder="none", owner="ana") as tk:
            with pytest.raises(InvalidInputError, match="cursor"):
                await tk.memories.list(cursor="7")
            with pytest.raises(InvalidInputError, match="cursor"):
                await tk.proposals.list(cursor="7")

    async def test_an_offset_with_a_cursor_is_refused(self):
        """It would leave out so many of each page."""
        async with threadkeep.open("memory:", embedder="none", owner="ana") as tk:
            await tk.memories.import_lines(LINES[:6])
            for number in range(6):
                await tk.proposals.propose(f"I own boat number {number}.")
            memories = await tk.memories.list(limit=2, offset=1)
            proposals = await tk.proposals.list(limit=2, offset=1)

            for listed, page in ((tk.memories.list, memories), (tk.proposals.list, proposals)):
                whole = await listed(limit=10)
                assert [*page, *await listed(limit=10, cursor=page.cursor)] == whole[1:]
                with pytest.raises(InvalidInputError, match="offset or cursor, not both"):
                    await listed(limit=2, offset=1, cursor=page.cursor)
