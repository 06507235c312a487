"""The server is killed and started again while users talk: what was acknowledged is there once, and threads go on.

Memories and threads are on the same server. A turn is acknowledged when its run returned; its memory, if the run said
that the turn is recorded. Each user talks in one thread without a pause, so a lease that a broken run leaves behind
keeps that user waiting.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

from langchain.agents import create_agent

import threadkeep
from tests.gateway.kept import Acknowledged, Faults, faults_of
from threadkeep.capture.models import QueuedTurn
from threadkeep.errors import ThreadkeepError
from threadkeep.ids import new_id
from threadkeep.settings import Settings
from threadkeep.testing import HashingEmbedder, ScriptedModel
from threadkeep_conformance.servers import MongoServer, PostgresServer, RedisServer, Server

SERVERS: Final[Mapping[str, type[Server]]] = {"postgres": PostgresServer, "redis": RedisServer, "mongodb": MongoServer}
KINDS: Final = tuple(SERVERS)
NAMES: Final = tuple(f"user-{number}" for number in range(8))
LONGEST_OUTAGE_SECONDS: Final = 1.0
TURN_SECONDS: Final = 5.0
"""How much longer than a lease a user may wait: for the turn itself, on a busy machine."""
PATIENCE_SECONDS: Final = 120.0
LEARNING_SECONDS: Final = 600.0

_BREATH_SECONDS: Final = 0.02


@dataclass
class Talk:
    """Users who talk without a pause, and what they were told.

    Args:
        tk: The memory.

    Attributes:
        acknowledged: The turns that returned.
        broken: How many raised, by the name of the error.
    """

    tk: threadkeep.Threadkeep
    acknowledged: list[Acknowledged] = field(default_factory=list[Acknowledged])
    broken: Counter[str] = field(default_factory=Counter[str])
    _over: bool = False
    _heard: dict[str, float] = field(default_factory=dict[str, float])

    async def user(self, name: str) -> None:
        """Say one thing after the other, until the end."""
        agent: Any = create_agent(
            ScriptedModel(), [], middleware=[self.tk.middleware()], checkpointer=self.tk.checkpointer
        )
        config: Any = self.tk.config(user_id=name, thread_id=name)
        while not self._over:
            word, recorded = f"x{new_id()[:10]}", False
            said = {"messages": [("user", f"I own a boat called {word}.")]}
            began = time.monotonic()
            try:
                async for event in agent.astream(said, config, stream_mode="custom"):
                    if event["type"] == "captured":
                        recorded = event["status"] != "nothing"
            except ThreadkeepError as error:
                self.broken[type(error).__name__] += 1
                await asyncio.sleep(_BREATH_SECONDS)
            else:
                self.acknowledged.append(Acknowledged(name, name, word, learnt=recorded))
                self._heard[name] = began

    async def until_all_heard(self) -> float:
        """Wait until a turn of each user that began after now is acknowledged; return how many seconds that took."""
        since = time.monotonic()
        while waiting := [name for name in NAMES if self._heard.get(name, 0.0) <= since]:
            if time.monotonic() - since > PATIENCE_SECONDS:
                msg = f"{', '.join(waiting)} were never answered again; turns raised {dict(self.broken)}"
                raise TimeoutError(msg)
            await asyncio.sleep(_BREATH_SECONDS)
        return time.monotonic() - since

    def stop(self) -> None:
        """Let each user end with the turn that is under way."""
        self._over = True


def run(n: int, *, kinds: tuple[str, ...] = KINDS, seed: int = 1) -> dict[str, dict[str, Any]]:
    """Kill a server of each kind *n* times while users talk.

    Returns:
        For each kind, ``n``: kills; ``turns`` that were acknowledged, ``recorded``: those of them that were said to be
        recorded; ``broken``: turns that raised; ``lost``, ``doubled``, ``misread``: acknowledged ones; ``late``: kills
        after which a user waited longer than a lease; ``slowest``: the longest wait, in seconds.
    """
    return {kind: _run(kind, n, random.Random(seed)) for kind in kinds}


def _run(kind: str, n: int, rng: random.Random) -> dict[str, Any]:
    # Each keeps what it acknowledged when its process is killed; Redis may keep it a second later by default.
    server = RedisServer(settings={"appendfsync": "always"}) if kind == "redis" else SERVERS[kind]()
    with ThreadPoolExecutor(1, "keeper") as keeper:  # a server ends with the thread that started it
        keeper.submit(server.__enter__).result()
        try:
            return asyncio.run(_kill(kind, server, keeper, n, rng))
        finally:
            keeper.submit(server.__exit__).result()


async def _kill(kind: str, server: Server, keeper: ThreadPoolExecutor, n: int, rng: random.Random) -> dict[str, Any]:
    loop = asyncio.get_running_loop()
    url = f"{server.url}/restarts" if kind == "mongodb" else server.url
    settings = Settings.load(store_key_prefix=new_id())
    waits: list[float] = []
    async with threadkeep.open(url, settings=settings, embedder=HashingEmbedder()) as tk:
        talk = Talk(tk)
        users = [asyncio.create_task(talk.user(name)) for name in NAMES]
        try:
            for _ in range(n):
                await talk.until_all_heard()
                await asyncio.sleep(rng.uniform(0, LONGEST_OUTAGE_SECONDS))
                await loop.run_in_executor(keeper, server.kill)
                await asyncio.sleep(rng.uniform(0, LONGEST_OUTAGE_SECONDS))
                await loop.run_in_executor(keeper, server.start)
                waits.append(await talk.until_all_heard())
        finally:
            talk.stop()
            await asyncio.gather(*users)
        async with asyncio.timeout(LEARNING_SECONDS):
            while any(turn.state != "dead" for turn in await tk.queue.list()):
                await tk.drain()
    async with threadkeep.open(url, settings=settings, embedder=HashingEmbedder()) as tk:  # nothing comes from a cache
        faults = await faults_of(tk, talk.acknowledged)
        _explain(kind, faults, await tk.queue.list())
    late = sum(wait > settings.lease_seconds + TURN_SECONDS for wait in waits)
    return {
        "n": n,
        "turns": len(talk.acknowledged),
        "recorded": sum(turn.learnt for turn in talk.acknowledged),
        "broken": talk.broken.total(),
        "lost": len(faults.lost),
        "doubled": len(faults.doubled),
        "misread": len(faults.misread),
        "late": late,
        "slowest": round(max(waits, default=0.0), 1),
        "errors": dict(talk.broken),
    }


def _explain(kind: str, faults: Faults, waiting: Sequence[QueuedTurn]) -> None:
    for fault in (*faults.lost, *faults.doubled, *faults.misread):
        sys.stderr.write(f"restarts of {kind}: {fault}\n")
    for turn in waiting:
        sys.stderr.write(f"restarts of {kind}: still in the queue: {turn}\n")
