"""Commits of one thread: those that wait together are committed together, and who is refused is told at the end."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from tests.checkpoints.checkpoints import config_of, echo_graph
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
    """A run of one node takes four commits: the lease, its input and first step, its node, and the lease's end."""

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
    async def test_what_one_step_writes_is_one_commit(
        self, make: MakeCheckpointer, commits: list[list[str]], *, owned: bool
    ):
        graph = echo_graph(make("memory"))
        config = config_of("1", **({"user_id": "ana"} if owned else {}))

        await graph.ainvoke({"words": ["hi"]}, config, durability="sync")

        assert commits == [
            ["head"],
            ["checkpoint", "checkpoint", "head", "write"],
            ["checkpoint", "head", "write"],
            ["head"],
        ]

    async def test_a_run_fails_if_its_input_was_not_committed(
        self, make: MakeCheckpointer, commits: list[list[str]], monkeypatch: pytest.MonkeyPatch
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
            await graph.ainvoke({"words": ["hi"]}, config_of("1"), durability="sync")


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


def _failing(method: Any, calls: Counter[str]) -> Any:
    async def call(self: InMemoryStorage, *given: Any, **more: Any) -> Any:
        calls[method.__name__] += 1
        if calls[method.__name__] % 3:
            msg = "The storage is away."
            raise StorageUnavailableError(msg)
        return await method(self, *given, **more)

    return call
