"""Commits of one thread: those that wait together are committed together, and who is refused is told at the end."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from threadkeep.checkpoints.directory import thread_partition
from threadkeep.checkpoints.head import Head, lease_lost_error
from threadkeep.checkpoints.thread_store import Threads
from threadkeep.clock import SystemClock
from threadkeep.errors import ThreadMovedOnError
from threadkeep.ids import ThreadId
from threadkeep.storage.interface import Batch, Delete, Position, Put, Ref
from threadkeep.storage.memory import InMemoryStorage


class SlowStorage(InMemoryStorage):
    """Takes a moment for a commit, as a server does."""

    async def commit(self, batch: Batch) -> Position:
        await asyncio.sleep(0.02)
        return await super().commit(batch)


async def test_who_is_refused_is_told_after_what_rules_it_out_is_written():
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
