"""Turns of a real agent whose memory is on a server, timed one by one; its threads are elsewhere.

Each turn is taken a second time, by an agent whose memory is in this process: a turn takes longer with every
turn that its thread has, and what the server adds to it is the difference between two threads of one length.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from langchain.agents import create_agent

import threadkeep
from threadkeep.errors import StorageError
from threadkeep.settings import Settings
from threadkeep.testing import HashingEmbedder, ScriptedModel

USER: Final = "bob@x.org"
THREADS: Final = 4
PATIENCE_SECONDS: Final = 100.0
"""When what was said counts as lost."""

_BREATH_SECONDS: Final = 0.2


class Turns:
    """One user's turns, by several threads in turn.

    Args:
        tk: Its memory is on the server.
        beside: Its memory is in this process; it is said the same.

    Attributes:
        delays: How much longer a turn took than the same turn beside it, in milliseconds.
        said: What the user said, a durable fact in each turn.
    """

    def __init__(self, tk: threadkeep.Threadkeep, beside: threadkeep.Threadkeep) -> None:
        self.delays: list[float] = []
        self.said: list[str] = []
        self._tk = tk
        self._agent, self._beside = (
            create_agent(ScriptedModel(), [], middleware=[each.middleware()], checkpointer=each.checkpointer)
            for each in (tk, beside)
        )
        self._numbers = itertools.count()

    async def settle_in(self) -> None:
        """Take some turns with everything in place."""
        for _ in range(15):
            await self._turn()

    async def during(self, seconds: float) -> None:
        """Take turns for so long, at least one in each thread."""
        until = time.monotonic() + seconds
        while time.monotonic() < until or len(self.delays) < THREADS:
            self.delays.append(await self._turn() * 1_000)

    async def missing(self) -> list[str]:
        """Take one more turn in each thread, and return what was said and is not known when all is learnt."""
        for _ in range(THREADS):
            await self._turn()
        missing = self.said
        until = time.monotonic() + PATIENCE_SECONDS
        while missing and time.monotonic() < until:
            try:
                await self._tk.drain()
                known = {memory.text for memory in await self._tk.memories.list(owner=USER, limit=100_000)}
            except StorageError:
                await asyncio.sleep(_BREATH_SECONDS)
                continue
            missing = [text for text in self.said if text not in known]
            if missing:  # a worker that lost its reply holds what it took, until its lease ends
                await asyncio.sleep(_BREATH_SECONDS)
        return missing

    async def _turn(self) -> float:
        """Take a turn; return how many seconds longer it took than the one beside it."""
        number = next(self._numbers)
        text = f"I keep the key of locker {number} behind shelf {number * 7 + 3}."
        said: Any = {"messages": [{"role": "user", "content": text}]}
        config = self._tk.config(user_id=USER, thread_id=f"{number % THREADS}")
        taken: list[float] = []
        gc.disable()  # as timeit has it: a full collection takes as long as what is measured, and comes between turns
        try:
            for agent in (self._agent, self._beside):
                started = time.monotonic()
                reply = await agent.ainvoke(said, config)
                taken.append(time.monotonic() - started)
                assert reply["messages"][-1].type == "ai"
        finally:
            gc.enable()
        self.said.append(text)
        return taken[0] - taken[1]


@asynccontextmanager
async def taking_turns(url: str) -> AsyncIterator[Turns]:
    """Open a memory at *url* with the settings that everybody has, and threads in this process."""
    settings = Settings.load(checkpoint_type="memory")
    async with (
        threadkeep.open(url, embedder=HashingEmbedder(), settings=settings) as tk,
        threadkeep.open("memory://", embedder=HashingEmbedder(), settings=settings) as beside,
    ):
        await tk.ready()
        await beside.ready()
        turns = Turns(tk, beside)
        await turns.settle_in()
        yield turns
