"""Commits of one thread: those that wait together are committed together, and who is refused is told at the end."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from langgraph.graph import START, StateGraph

from tests.checkpoints.checkpoints import Words, config_of, echo_graph
from tests.checkpoints.conftest import MakeCheckpointer
from threadkeep.checkpoints import leases
from threadkeep.checkpoints.directory import thread_partition
from threadkeep.checkpoints.head import Head, lease_lost_error
from threadkeep.checkpoints.thread_store import Threads
from threadkeep.clock import SystemClock
from threadkeep.errors import StorageFullError, StorageUnavailableError, ThreadMovedOnError
from threadkeep.ids import ThreadId
from threadkeep.storage.interface import Batch, Delete, Position, Put, Ref
from threadkeep.storage.memory import InMemoryStorage


class SlowStorage(InMemoryStorage):
    """Takes a moment for a commit, as a server does."""

    async def commit(self, batch: Batch) -> Position:
        await asyncio.sleep(0.02)
        return await super().commit(batch)


async def test_refusal_is_raised_after_its_cause_is_written():
    """A run that another one undoes reads what is left: not what is left for one more moment."""
    storage = SlowStorage(clock=SystemClock())
    await storage.connect()
    thread_id = ThreadId("1")
    thread = Threads(storage, SystemClock(), timeout=timedelta(seconds=5)).get(
        thread_partition(thread_id, None), thread_id
    )
    written = Ref(thread.partition, ("checkpoints",), "one")
    await thread.commit(lambda head: head, [Put(written.namespace, written.key, {})])

    def refuse(_: Head) -> Head:
        raise lease_lost_error()

    async def end() -> object:
        try:
            await thread.commit(refuse)
        except ThreadMovedOnError:
            (left,) = await storage.get([written])
            return left
        return "not told"

    undone = asyncio.create_task(thread.commit(lambda head: head, [Delete(written.namespace, written.key)]))
    ended = asyncio.create_task(end())
    await undone

    assert await ended is None


class TestCommitsOfARun:
    """What a run writes shares commits as far as its durability allows; all of it is durable before the run returns."""

    @pytest.fixture
    def commits(self, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
        """What each commit of a thread writes, by key; what follows at once is waited for, however slow the machine."""
        monkeypatch.setattr(leases, "_SOON_SECONDS", 60)
        commits: list[list[str]] = []
        commit = InMemoryStorage.commit

        async def listed(self: InMemoryStorage, batch: Batch) -> Position:
            if batch.partition.kind == "thread":
                commits.append(sorted(one.key.partition(":")[0] for one in batch.operations))
            return await commit(self, batch)

        monkeypatch.setattr(InMemoryStorage, "commit", listed)
        return commits

    @pytest.mark.parametrize("owned", [False, True])
    @pytest.mark.parametrize(
        ("durability", "written"),
        [
            ("sync", [["checkpoint", "checkpoint", "head", "write"], ["checkpoint", "head", "write"], ["head"]]),
            ("async", [["checkpoint", "checkpoint", "checkpoint", "head", "write", "write"]]),
            (None, [["checkpoint", "checkpoint", "checkpoint", "head", "write", "write"]]),
            ("exit", [["checkpoint", "head"]]),
        ],
    )
    async def test_commits_after_that_of_the_lease(
        self, make: MakeCheckpointer, commits: list[list[str]], durability: Any, written: Any, *, owned: bool
    ):
        """``sync``: input and first step, the node, the lease's end. Otherwise that takes everything."""
        graph = echo_graph(make("memory"))
        config = config_of("1", **({"user_id": "ana"} if owned else {}))

        await graph.ainvoke({"words": ["hi"]}, config, durability=durability)

        assert commits == [["head"], *written]
        assert (await graph.aget_state(config)).values["words"] == ["hi", "HI"]

    def test_a_sync_run_shares_commits_as_an_async_one_does(self, make: MakeCheckpointer, commits: list[list[str]]):
        """LangGraph writes from threads without an event loop then."""
        graph = echo_graph(make("memory"))

        graph.invoke({"words": ["hi"]}, config_of("1"))

        assert commits == [["head"], ["checkpoint", "checkpoint", "checkpoint", "head", "write", "write"]]

    async def test_a_step_is_durable_before_the_next_one_if_it_is_to_be(
        self, make: MakeCheckpointer, commits: list[list[str]]
    ):
        """With ``sync``, the second node runs after the commit of the first one's checkpoint, in a subgraph, too."""
        seen: list[int] = []

        def step(_: Words) -> dict[str, list[str]]:
            seen.append(len(commits))
            return {"words": ["again"]}

        def build() -> Any:
            graph = StateGraph(Words)
            graph.add_sequence([("one", step), ("two", step)])
            graph.add_edge(START, "one")
            return graph

        outer = build()
        outer.add_node("inner", build().compile())
        outer.add_edge("two", "inner")
        await outer.compile(checkpointer=make("memory")).ainvoke({"words": []}, config_of("1"), durability="sync")

        assert seen == [2, 3, 5, 6]

    @pytest.mark.parametrize("durability", ["sync", "async"])
    async def test_a_run_in_a_block_with_a_lease_is_durable_when_it_returns(
        self, make: MakeCheckpointer, commits: list[list[str]], durability: Any
    ):
        """Its lease goes on, so its end is no commit of its own; what it left to be committed is committed before."""
        saver = make("memory")
        graph, config = echo_graph(saver), config_of("1")

        async with saver.leased(config):
            for words in (["hi", "HI"], ["hi", "HI", "ho", "HO"]):
                await graph.ainvoke({"words": [words[-2]]}, config, durability=durability)
                assert (await graph.aget_state(config)).values["words"] == words

    @pytest.mark.parametrize("durability", ["sync", "async", "exit"])
    async def test_a_run_fails_if_its_first_commit_does(
        self, make: MakeCheckpointer, commits: list[list[str]], monkeypatch: pytest.MonkeyPatch, durability: Any
    ):
        """Also if what comes after it is committed: here the timer commits the input alone, and the disk is full."""
        monkeypatch.setattr(leases, "_SOON_SECONDS", 0)
        commit = InMemoryStorage.commit

        async def full(self: InMemoryStorage, batch: Batch) -> Position:
            if len(commits) == 1 and batch.partition.kind == "thread":
                commits.append([])
                msg = "The disk is full."
                raise StorageFullError(msg)
            return await commit(self, batch)

        monkeypatch.setattr(InMemoryStorage, "commit", full)
        graph = echo_graph(make("memory"))

        with pytest.raises(StorageFullError):
            await graph.ainvoke({"words": ["hi"]}, config_of("1"), durability=durability)


@pytest.mark.parametrize("again", [False, True])
async def test_a_run_goes_on_through_an_outage(make: MakeCheckpointer, monkeypatch: pytest.MonkeyPatch, *, again: bool):
    """Of three calls of the storage two fail, also of those that bind a new thread to its owner."""
    saver = make("memory")
    await saver.connect()
    graph, config = echo_graph(saver), config_of("1", user_id="ana")
    if again:
        await graph.ainvoke({"words": ["hi"]}, config)
    calls: Counter[str] = Counter()
    for name in ("get", "commit", "position", "scan"):
        monkeypatch.setattr(InMemoryStorage, name, _failing(getattr(InMemoryStorage, name), calls))

    await graph.ainvoke({"words": ["ho"]}, config, durability="sync")

    assert (await graph.aget_state(config)).values["words"][-1] == "HO"
    assert calls["commit"] >= (15 if not again else 12)


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
async def test_a_commit_without_an_answer_is_not_refused(
    make: MakeCheckpointer, monkeypatch: pytest.MonkeyPatch, durability: Any
):
    """Every second commit is written and not answered, also the one that writes the answer and releases the lease."""
    saver = make("memory")
    await saver.connect()
    graph, config = echo_graph(saver), config_of("1", user_id="ana")
    commit, calls = InMemoryStorage.commit, Counter[str]()

    async def unanswered(self: InMemoryStorage, batch: Batch) -> Position:
        position = await commit(self, batch)
        calls["all"] += 1
        if batch.partition.kind == "thread" and calls["all"] % 2:
            calls["unanswered"] += 1
            msg = "The storage did not answer in time."
            raise StorageUnavailableError(msg)
        return position

    monkeypatch.setattr(InMemoryStorage, "commit", unanswered)
    for word in ("hi", "ho", "hu"):
        await graph.ainvoke({"words": [word]}, config, durability=durability)

    assert calls["unanswered"] >= 3
    assert (await graph.aget_state(config)).values["words"] == ["hi", "HI", "ho", "HO", "hu", "HU"]


def _failing(method: Any, calls: Counter[str]) -> Any:
    async def call(self: InMemoryStorage, *given: Any, **more: Any) -> Any:
        calls[method.__name__] += 1
        if calls[method.__name__] % 3:
            msg = "The storage is away."
            raise StorageUnavailableError(msg)
        return await method(self, *given, **more)

    return call
