"""How a run begins and ends: beside the home loop where nobody has to be asked or waited for, and over it otherwise."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from itertools import product
from pathlib import Path
from threading import Event
from typing import Any, Literal

import pytest

import threadkeep
from tests.threads.checkpoints import config_of, connection_of, echo_graph
from tests.threads.test_fence import HERE, Gates, gated, said
from threadkeep.errors import ThreadkeepError
from threadkeep.event_loop import EventLoopThread
from threadkeep.threads import thread_ownership as binding
from threadkeep.threads.base import begun_in
from threadkeep.threads.checkpointers import ThreadkeepCheckpointer
from threadkeep.threads.fencing import Head, ThreadClaim, goes_by_lease, judge

Make = Callable[..., ThreadkeepCheckpointer]
KINDS: tuple[Literal["put", "writes", "delete"], ...] = ("put", "writes", "delete")
REJECT = config_of("1", multitask_strategy="reject")


async def settled(checkpointer: ThreadkeepCheckpointer) -> None:
    """Wait until what was handed to the file's thread is done, the giving back of leases with it."""
    await begun_in(vars(checkpointer.backend)["_thread"], lambda: None)


def holder_of(checkpointer: ThreadkeepCheckpointer) -> Any:
    return connection_of(checkpointer).execute("SELECT holder FROM threadkeep_heads").fetchone()[0]


async def test_while_the_home_loop_is_at_something_else(make: Make, home: EventLoopThread):
    """A turn that begins does not wait for what another one recalls, nor does one that ends."""
    checkpointer, go_on = make("sqlite"), Event()
    graph = echo_graph(checkpointer)
    await graph.ainvoke(said("one"), HERE)
    await settled(checkpointer)
    home.soon(go_on.wait)
    try:
        async with asyncio.timeout(60):
            second = await graph.ainvoke(said("two"), HERE)
            await settled(checkpointer)
            holder = holder_of(checkpointer)
            third = await graph.ainvoke(said("three"), REJECT)
    finally:
        go_on.set()

    assert holder is None
    assert second["words"] == ["one", "ONE", "two", "TWO"]
    assert third["words"][-3:] == ["TWO", "three", "THREE"]


@pytest.mark.parametrize("seconds", [0.0, 60.0], ids=["after a pause", "at once"])
async def test_an_owners_run_does_so_too(seconds: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Whose thread it is was just answered, or no answer of before holds; the epoch is read where it is asked."""
    monkeypatch.setattr(binding, "_ANSWER_SECONDS", seconds)
    go_on = Event()
    async with threadkeep.open(f"sqlite:///{(tmp_path / 'memory.db').as_posix()}", embedder="none") as tk:
        assert tk.checkpointer is not None
        graph, anas = echo_graph(tk.checkpointer), config_of("1", user_id="ana")
        await graph.ainvoke(said("one"), anas)
        await settled(tk.checkpointer)
        await graph.ainvoke(said("two"), anas)  # its writes say which epoch they are of, which is asked for once
        await settled(tk.checkpointer)
        tk.app.event_loop.soon(go_on.wait)
        try:
            async with asyncio.timeout(60):
                done = await graph.ainvoke(said("three"), anas)
        finally:
            go_on.set()

    assert done["words"][-2:] == ["three", "THREE"]


async def test_one_that_is_cancelled_as_it_is_given_its_lease_gives_it_back(make: Make, path: Path):
    checkpointer, asked = make("sqlite"), asyncio.Event()
    graph, loop = echo_graph(checkpointer), asyncio.get_running_loop()
    await graph.ainvoke(said("one"), HERE)
    await settled(checkpointer)
    connection_of(checkpointer).set_trace_callback(lambda _: loop.call_soon_threadsafe(asked.set))

    with closing(sqlite3.connect(path, timeout=60)) as another:
        another.execute("BEGIN IMMEDIATE")
        running = asyncio.create_task(graph.ainvoke(said("two"), HERE))
        await asked.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    await settled(checkpointer)
    await asyncio.sleep(0)  # this loop is told that nobody waits for the lease
    await settled(checkpointer)

    assert holder_of(checkpointer) is None
    assert (await graph.ainvoke(said("three"), REJECT))["words"][-2:] == ["three", "THREE"]


async def test_a_run_of_another_process_is_waited_for_and_inputs_keep_their_order(make: Make):
    one, other, gates = make("sqlite"), make("sqlite"), Gates()
    here, there = gated(one, gates), gated(other, gates)
    await here.ainvoke(said("before"), HERE)
    await settled(one)
    running = asyncio.create_task(there.ainvoke(said("slow one"), HERE, durability="sync"))
    await gates.arrived("slow one")
    waiting = [asyncio.create_task(here.ainvoke(said(word), HERE)) for word in ("two", "three")]
    await settled(one)

    gates.let_through("slow one")

    await running
    assert (await waiting[0])["words"][-3:] == ["SLOW ONE", "two", "TWO"]
    assert (await waiting[1])["words"][-3:] == ["TWO", "three", "THREE"]


def test_a_lease_and_a_run_are_enough_only_where_the_fence_says_so():
    """What is not looked at then, :func:`judge` would have allowed."""
    for kind, run, lease, anywhere in product(KINDS, ("", "a"), (None, 1), (False, True)):
        claim = ThreadClaim(kind, "1", run=run, checkpoint="5", parent="4", lease=lease, anywhere=anywhere)
        for written, newest, there, held in product(("", "a", "b"), ("", "4", "9"), ("", "9"), (False, True)):
            head = Head(written, newest, 1, held)
            if goes_by_lease(claim) and (anywhere or written == run):
                judge(head, claim, there=there)
    with pytest.raises(ThreadkeepError):
        judge(Head("b", "9", 1), ThreadClaim("put", "1", run="a", checkpoint="5", parent="4", lease=1))
    assert goes_by_lease(ThreadClaim("put", "1", run="a", lease=1))
