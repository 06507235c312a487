"""What memory costs an agent's turn, counted: commits, reads, submissions to the event loop, and embedded texts.

Counts are upper bounds, and do not depend on the machine. They are of a turn in a thread that is known, on SQLite, and
of learning from it.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from langchain.agents import create_agent

import threadkeep
from threadkeep.clock import SystemClock
from threadkeep.container import Container
from threadkeep.event_loop import EventLoopThread
from threadkeep.recall import service
from threadkeep.recall.packing import ContextPacker
from threadkeep.recall.selection import BlockRequest, Found, pack
from threadkeep.registry import resolve_settings
from threadkeep.settings import Settings
from threadkeep.storage.interface import Batch, Changes, Item, Page, Partition, Position, Ref
from threadkeep.storage.sqlite.storage import SqliteStorage
from threadkeep.testing import HashingEmbedder, ScriptedModel
from threadkeep.testing.models import hashed

if TYPE_CHECKING:
    from numpy.typing import NDArray

USER: Final = "ana@x.org"


class CountedStorage(SqliteStorage):
    """Counts the calls on partitions of owners and of threads."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, clock=SystemClock())
        self.counts: Counter[str] = Counter()

    async def commit(self, batch: Batch) -> Position:
        self.counts[f"{batch.partition.kind} commits"] += 1
        return await super().commit(batch)

    async def get(self, refs: Sequence[Ref]) -> tuple[Item | None, ...]:
        self.counts[f"{refs[0].partition.kind if refs else 'empty'} gets"] += 1
        return await super().get(refs)

    async def scan(self, partition: Partition, **more: Any) -> Page:
        self.counts[f"{partition.kind} scans"] += 1
        return await super().scan(partition, **more)

    async def changes(self, partition: Partition, since: Position | None) -> Changes:
        self.counts[f"{partition.kind} changes"] += 1
        return await super().changes(partition, since)

    async def due(self, kind: str, **more: Any) -> tuple[Item, ...]:
        self.counts["due"] += 1
        return await super().due(kind, **more)


class CountedLoop(EventLoopThread):
    """Counts what is submitted to it."""

    submitted: int = 0

    def _submitted(self, coroutine: Coroutine[Any, Any, Any], callback: Callable[..., object]) -> Any:
        self.submitted += 1
        return super()._submitted(coroutine, callback)


class ImmediateHashing(HashingEmbedder):
    """Embeds questions on the calling thread, as the local model does."""

    def embed_now(self, texts: Sequence[str]) -> NDArray[Any]:
        self.calls.append(list(texts))
        return hashed(texts, dims=self.dims or 0)


def opened(
    folder: Path, **settings: Any
) -> tuple[threadkeep.Threadkeep, CountedStorage, CountedLoop, ImmediateHashing]:
    storage, loop, embedder = CountedStorage(folder / "memory.db"), CountedLoop(), ImmediateHashing()
    resolved = resolve_settings(f"sqlite:///{folder}/memory.db", Settings.load(**settings))
    app = Container(resolved, storage, embedder, SystemClock(), event_loop=loop)
    return threadkeep.Threadkeep(app), storage, loop, embedder


@pytest.fixture
def costs(tmp_path: Path) -> tuple[threadkeep.Threadkeep, CountedStorage, CountedLoop, ImmediateHashing]:
    return opened(tmp_path)


async def test_a_turn_costs_no_more_than_this(
    costs: tuple[threadkeep.Threadkeep, CountedStorage, CountedLoop, ImmediateHashing],
):
    """It is recorded, noted and leased by one commit, learnt from by another, and submitted once beside checkpoints."""
    tk, storage, loop, embedder = costs
    async with tk:
        agent: Any = create_agent(
            ScriptedModel(replies=["All right."]), [], middleware=[tk.middleware()], checkpointer=tk.checkpointer
        )

        async def turn(text: str) -> None:
            config = tk.config(user_id=USER, thread_id="t")
            await agent.ainvoke({"messages": [("user", text)]}, config, durability="sync")

        await turn("I live in Lisbon.")
        await tk.drain()
        await turn("I work at Acme.")
        await tk.drain()
        await tk.recall("Where do I live?", owner=USER)  # the index is current
        before = await tk.memories.list(owner=USER, kind="semantic")
        storage.counts.clear()
        embedder.calls.clear()
        submitted = loop.submitted

        await turn("My sister Maria lives in Porto.")

        submitted = loop.submitted - submitted  # learning is on the loop already
        await tk.drain()
        counted = dict(storage.counts)
        texts = [text for call in embedder.calls for text in call]
        after = await tk.memories.list(owner=USER, kind="semantic")

    assert len(after) == len(before) + 1
    assert counted["owner commits"] <= 2
    assert counted["owner gets"] <= 3
    assert counted["owner scans"] <= 2
    assert counted["owner changes"] <= 2
    assert counted["thread commits"] <= 7
    assert submitted <= 10
    assert len(set(texts)) <= 3  # the local embedder's cache has what was embedded for the question


async def test_a_question_and_its_episode_are_one_text_to_embed(
    costs: tuple[threadkeep.Threadkeep, CountedStorage, CountedLoop, ImmediateHashing],
):
    """What recall has embedded of a question is in the local embedder's cache when the turn is learnt from."""
    tk, _, _, embedder = costs
    question = "which soil is best for figs?"
    async with tk:
        agent: Any = create_agent(
            ScriptedModel(replies=["All right."]), [], middleware=[tk.middleware()], checkpointer=tk.checkpointer
        )
        embedder.calls.clear()

        await agent.ainvoke({"messages": [("user", question)]}, tk.config(user_id=USER, thread_id="t"))

        await tk.drain()
        episodes = await tk.memories.list(owner=USER, kind="episodic")

    assert [one.text for one in episodes] == [f"Asked: {question}"]
    assert len(embedder.calls) > 1
    assert {text for call in embedder.calls for text in call} == {question}


async def test_a_turn_leaves_no_reference_cycles(
    costs: tuple[threadkeep.Threadkeep, CountedStorage, CountedLoop, ImmediateHashing],
):
    """What a turn has used is freed at its end; the garbage collector would take 5 % of the turn's CPU time for it."""
    tk = costs[0]
    async with tk:
        agent: Any = create_agent(
            ScriptedModel(replies=["All right."]), [], middleware=[tk.middleware()], checkpointer=tk.checkpointer
        )
        cycles = list[object]()
        for place in range(2):  # the first turn loads and connects
            gc.collect()
            gc.set_debug(gc.DEBUG_SAVEALL)
            await agent.ainvoke(
                {"messages": [("user", f"I live in Lisbon, house {place}.")]},
                tk.config(user_id=USER, thread_id="t"),
                durability="sync",
            )
            await tk.drain()
            gc.collect()
            gc.set_debug(0)
            cycles = list(gc.garbage)
            gc.garbage.clear()

    ours = [one for one in cycles if str(getattr(one, "__module__", "")).startswith("threadkeep.")]
    assert ours == []


async def test_a_recall_that_waits_fills_one_block(
    costs: tuple[threadkeep.Threadkeep, CountedStorage, CountedLoop, ImmediateHashing], monkeypatch: pytest.MonkeyPatch
):
    """Choosing among the memories takes a third of a recall, and nothing was missing after the first time."""
    tk, packed = costs[0], list[object]()

    def counted(request: BlockRequest, found: Sequence[Found], *, now: datetime) -> ContextPacker:
        packed.append(request)
        return pack(request, found, now=now)

    monkeypatch.setattr(service, "pack", counted)
    async with tk:
        await tk.memories.remember("I live in Lisbon.", owner=USER)
        recall = await tk.recall("Where do I live?", owner=USER)  # the index is not loaded

    assert [one.memory.text for one in recall.memories] == ["I live in Lisbon."]
    assert len(packed) == 1


async def test_waiting_for_another_worker_reads_no_unchanged_record(tmp_path: Path):
    """A gateway waits five seconds after each turn if its workers are other processes."""
    tk, storage, _, _ = opened(tmp_path, capture_workers=0)
    async with tk:
        receipt = await tk.capture([("user", "I live in Lisbon.")], owner=USER, thread_id="t")
        storage.counts.clear()

        settled = await tk.settle(receipt.turn_ids, owner=USER, timeout=timedelta(seconds=1))

    assert settled.degraded == ("timeout",)
    assert storage.counts["owner gets"] <= 2
