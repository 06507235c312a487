"""Owners are erased while nine writers are at work for each: nothing of them is left, and nothing comes back.

Three writers talk to an agent that remembers, three run a graph with checkpoints only, and three write memories and
items. No turn begins after the erasure did; those that are under way then end, or are refused.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from langchain.agents import create_agent
from langgraph.graph import StateGraph

import threadkeep
from tests.invariants.tenants import place
from tests.owners.erasing import Canaries, State, raw
from threadkeep.errors import ThreadkeepError
from threadkeep.identity import Owner
from threadkeep.memories.models import Memory
from threadkeep.settings import Settings
from threadkeep.storage.interface import iterate_items, iterate_partitions
from threadkeep.testing import HashingEmbedder, ScriptedModel

KINDS: Final = ("sqlite", "postgres", "redis", "mongodb")
WRITERS: Final = 9
_BEGUN_SECONDS: Final = 0.1
"""No turn begins so shortly before the erasure: one that has not looked at its owner by then is a new one."""
_WORK_SECONDS: Final = 0.15


class SlowEmbedder(HashingEmbedder):
    """Takes up to a tenth of a second, so that what is written was begun well before."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self._rng = rng

    async def embed(self, texts: Sequence[str]) -> Any:
        """Wait, then embed."""
        await asyncio.sleep(self._rng.uniform(0, 0.1))
        return await super().embed(texts)


class Round:
    """One owner with writers, and what became of their turns.

    Attributes:
        written: How many turns returned.
        refused: How many were refused.
    """

    def __init__(self, tk: threadkeep.Threadkeep, owner: Owner, canary: Canaries, rng: random.Random) -> None:
        self.written = 0
        self.refused = 0
        self._tk, self._owner, self._canary, self._rng = tk, owner, canary, rng
        self._stop = False
        model: Any = ScriptedModel()
        self._agent: Any = create_agent(model, [], middleware=[tk.middleware()], checkpointer=tk.checkpointer)
        saver: Any = tk.checkpointer
        builder = StateGraph(State).add_node("work", self._work).set_entry_point("work")
        self._graph: Any = builder.compile(checkpointer=saver)
        self._scoped: Any = builder.compile(checkpointer=saver.scoped(owner))

    async def erase(self) -> None:
        """Let the writers begin, and erase their owner in the middle of it."""
        kinds: list[Callable[[str], Awaitable[Any]]] = [self._talk, self._run, self._keep]
        writers = [asyncio.ensure_future(self._write(kinds[number % 3])) for number in range(WRITERS)]
        await asyncio.sleep(self._rng.uniform(0.05, 0.25))
        self._stop = True
        await asyncio.sleep(_BEGUN_SECONDS)
        await self._tk.owners.erase(self._owner)
        await asyncio.gather(*writers)

    async def _write(self, turn: Callable[[str], Awaitable[Any]]) -> None:
        while not self._stop:
            try:
                await turn(self._canary())
            except ThreadkeepError:
                self.refused += 1
            else:
                self.written += 1

    async def _talk(self, word: str) -> None:
        said = {"messages": [("user", f"I own a boat called {word}.")]}
        await self._agent.ainvoke(said, self._config(f"talk-{word}"))

    async def _run(self, word: str) -> None:
        graph = self._graph if self._rng.random() < 0.5 else self._scoped
        said = {"messages": [("user", f"I sail to {word}.")]}
        await graph.ainvoke(said, self._config(f"run-{word}"), durability=self._rng.choice(["sync", "async", "exit"]))

    async def _keep(self, word: str) -> None:
        if self._rng.random() < 0.5:
            await self._tk.memories.remember(f"I like {word}.", owner=self._owner)
        else:
            await self._tk.store.aput(("users", self._owner.label, "notes"), word, {"note": f"about {word}"})

    async def _work(self, state: State) -> dict[str, Any]:
        await asyncio.sleep(self._rng.uniform(0, _WORK_SECONDS))
        return {"messages": [("ai", f"Noted: {state['messages'][-1].text}")]}

    def _config(self, thread_id: str) -> Any:
        return self._tk.config(user_id=self._owner.user_id, thread_id=thread_id)


async def run_on(url: str, kind: str, rounds: int, *, seed: int = 1) -> dict[str, Any]:
    """Erase *rounds* owners on the storage at *url*.

    Returns:
        ``n``: owners erased; ``turns`` that returned; ``refused``: turns that were told; ``residues``: words and ids of
        erased owners in the storage's bytes; ``late``: partitions and items of theirs; ``lost``: words of another owner
        that are missing; ``first``: some of what is left, where something is.
    """
    rng = random.Random(seed)
    settings = Settings.load(recall_timeout_ms=30_000)
    canaries: list[tuple[Owner, Canaries]] = []
    bob, bobs = Owner("bystander"), Canaries("bob")
    row = {"n": rounds, "turns": 0, "refused": 0, "residues": 0, "late": 0, "lost": 0}
    async with threadkeep.open(url, settings=settings, embedder=SlowEmbedder(rng)) as tk:
        for number in range(rounds):
            owner, canary = Owner(f"erased{number:04}owner"), Canaries(f"{number:04}round")
            canaries.append((owner, canary))
            one = Round(tk, owner, canary, rng)
            await asyncio.gather(one.erase(), tk.memories.remember(f"I own {bobs()}.", owner=bob))
            row["turns"] += one.written
            row["refused"] += one.refused
        await tk.drain()
        storage = tk.app.storage
        await tk.app.event_loop.run(storage.sweep(now=tk.app.clock.now() + timedelta(seconds=1)))
        late = await tk.app.event_loop.run(_found(tk, [owner for owner, _ in canaries]))
        row["late"] = len(late)
        kept = [one.text async for one in _all(tk, bob)]
        row["lost"] = sum(not any(word in text for text in kept) for word in bobs.planted)
    left = raw(kind, path=Path(url.removeprefix("sqlite:///")), url=url)
    for owner, canary in canaries:
        residues = canary.found_in(left) + [owner.user_id] * (owner.user_id.encode() in left)
        row["residues"] += len(residues)
        late += residues
    return row | ({"first": late[:5]} if late else {})


async def _all(tk: threadkeep.Threadkeep, owner: Owner) -> AsyncIterator[Memory]:
    for offset in itertools.count(0, 500):
        page = await tk.memories.list(owner=owner, limit=500, offset=offset)
        for one in page:
            yield one
        if len(page) < 500:
            return


async def _found(tk: threadkeep.Threadkeep, owners: Sequence[Owner]) -> list[str]:
    """Return what the storage has of *owners*: partitions, and items that name them."""
    found: list[str] = []
    labels = {owner.partition: owner for owner in owners}
    async for partition in iterate_partitions(tk.app.storage):
        if partition in labels:
            found.append(f"partition {partition}")
        async for item in iterate_items(tk.app.storage, partition):
            text = f"{item.ref.namespace} {item.ref.key} {item.value}"
            found += [text for owner in owners if owner.user_id in text]
    return found


def run(rounds: int, kinds: Sequence[str] = KINDS) -> dict[str, Any]:
    """Erase *rounds* owners on SQLite and PostgreSQL, and a tenth of as many on each other storage."""
    rows: dict[str, Any] = {}
    for kind in kinds:
        with place(kind) as url:
            number = rounds if kind in ("sqlite", "postgres") else max(1, rounds // 10)
            rows[kind] = asyncio.run(run_on(url, kind, number))
    return rows


if __name__ == "__main__":
    for storage in sys.argv[2:] or KINDS:
        sys.stdout.write(json.dumps(run(int(sys.argv[1]), kinds=(storage,))) + "\n")
