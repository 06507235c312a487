"""Owners about whom there is something in every layer, on any storage, and what a place holds as bytes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, TypedDict

from langgraph.graph import StateGraph
from langgraph.graph.message import add_messages

import threadkeep
from tests.checkpoints.dumps import dump_of
from threadkeep.identity import Owner
from threadkeep.ids import ThreadId
from threadkeep.memories.models import NewMemory, Source
from threadkeep.storage.interface import Item
from threadkeep.testing import HashingEmbedder

EACH: Final = 20


@dataclass
class Canaries:
    """Words that stand nowhere else: each is planted once."""

    name: str
    planted: list[str] = field(default_factory=list[str])

    def __call__(self) -> str:
        """Return a new one."""
        word = f"canary{self.name}{len(self.planted):04}x"
        self.planted.append(word)
        return word

    def some(self, number: int) -> Iterator[str]:
        """Yield so many new ones."""
        for _ in range(number):
            yield self()

    def found_in(self, data: bytes) -> list[str]:
        """Return which of them are in *data*."""
        return [word for word in self.planted if word.encode() in data]


class State(TypedDict):
    """A conversation."""

    messages: Annotated[list[Any], add_messages]


class GatedEmbedder(HashingEmbedder):
    """Embeds at once until it is shut; then each call waits until it is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.gate.set()
        self.waiting = 0

    async def embed(self, texts: Sequence[str]) -> Any:
        """Wait at the gate, then embed."""
        self.waiting += 1
        await self.gate.wait()
        self.waiting -= 1
        return await super().embed(texts)


async def plant(tk: threadkeep.Threadkeep, owner: Owner, canary: Canaries, *, each: int = 20) -> None:
    """Plant *each* canaries about *owner* in each of ten layers; the last ones are forgotten or pinned memories."""
    await _memories(tk, owner, canary, each)
    await _proposals(tk, owner, canary, each)
    await _threads(tk, owner, canary, each)
    services = await tk.app.event_loop.run(tk.app.connect())
    for word in canary.some(each):  # jobs and their effects
        thread = ThreadId(word)
        effect = await tk.app.event_loop.run(services.runs.begin_effect(word, owner=owner, thread_id=thread))
        await tk.app.event_loop.run(
            services.runs.end_effect(effect, {"paid": word}, owner=owner, thread_id=thread, key=word)
        )
    for word in canary.some(each // 2):  # forgotten: only digests of it are left
        kept = await tk.memories.remember(f"I hide {word} well.", owner=owner)
        await tk.memories.forget(kept.memory_id, owner=owner)
    for word in canary.some(each - each // 2):
        await tk.memories.pin((await tk.memories.remember(f"I love {word}.", owner=owner)).memory_id, owner=owner)
    await tk.recall("What do I keep in a jar?", owner=owner)


async def _memories(tk: threadkeep.Threadkeep, owner: Owner, canary: Canaries, each: int) -> None:
    """Memories and what they said before, and what programs keep, by value and by key."""
    kept = await tk.memories.remember("I keep something in a jar.", owner=owner)
    for word in canary.some(each):
        await tk.memories.correct(kept.memory_id, f"I keep {word} in a box.", owner=owner)
    await tk.memories.remember_many([NewMemory(f"I own {word}.") for word in canary.some(each)], owner=owner)
    for word in canary.some(each):
        await tk.store.aput(("users", owner.label, "notes"), f"key {word}", {"note": word})
    for word in canary.some(each):
        await tk.store.aput(("summaries", owner.label), word, {"summary": f"About {word}."})


async def _proposals(tk: threadkeep.Threadkeep, owner: Owner, canary: Canaries, each: int) -> None:
    """Proposals that wait, rejected ones (tombstones, comments), and who decided (the audit)."""
    for place, word in enumerate(canary.some(each)):
        proposed = await tk.proposals.propose(f"The user wants {word}.", owner=owner, source=Source("assistant"))
        if place % 2 and proposed.proposal:
            await tk.proposals.reject(proposed.proposal.proposal_id, owner=owner, comment=f"no {word}")
    for word in canary.some(each):
        proposed = await tk.proposals.propose(f"The user dreams of a {len(canary.planted)}.", owner=owner)
        if proposed.proposal:
            await tk.proposals.approve(proposed.proposal.proposal_id, owner=owner, by=word)


async def _threads(tk: threadkeep.Threadkeep, owner: Owner, canary: Canaries, each: int) -> None:
    """Turns that are learnt from or wait, and checkpoints."""
    for word in canary.some(each):
        messages = [{"role": "user", "content": f"I work with {word} every day.", "id": word}]
        await tk.capture(messages, owner=owner, thread_id=f"thread of {word}")
    graph = StateGraph(State).add_node("reply", lambda _: {"messages": [("ai", "Noted.")]})
    compiled = graph.set_entry_point("reply").compile(checkpointer=tk.checkpointer)
    for word in canary.some(each):
        config = tk.config(user_id=owner.user_id, thread_id=word)
        await compiled.ainvoke({"messages": [("human", f"I said {word}.")]}, config)


async def rows_of(tk: threadkeep.Threadkeep, owner: Owner) -> list[Item]:
    """Return every row of *owner*, whole."""
    found: list[Item] = []
    after: str | None = None
    while True:
        page = await tk.app.event_loop.run(
            tk.app.storage.scan(owner.partition, direction="oldest", after=after, limit=500)
        )
        found += page.items
        after = page.after
        if after is None:
            return found


def raw(kind: str, *, path: Path, url: str) -> bytes:
    """Return everything that a place holds: every file beside a SQLite file, or a server's dump."""
    if kind == "memory":
        return b""
    if kind == "redis":  # its own dumps are compressed
        return b"\n".join(_redis(url))
    return dump_of(kind, path=path, url=url)


def _redis(url: str) -> Iterator[bytes]:
    import redis

    client: Any
    with redis.Redis.from_url(url) as client:
        for key in client.scan_iter(count=1000):
            yield key
            match client.type(key):
                case b"hash":
                    for pair in client.hgetall(key).items():
                        yield from pair
                case b"zset":
                    yield from client.zrange(key, 0, -1)
                case b"ReJSON-RL":
                    yield str(client.execute_command("JSON.GET", key)).encode()
                case _:
                    yield client.dump(key) or b""


@contextlib.contextmanager
def shut(embedder: GatedEmbedder) -> Iterator[None]:
    """Let nothing be embedded meanwhile."""
    embedder.gate.clear()
    try:
        yield
    finally:
        embedder.gate.set()
