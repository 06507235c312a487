"""Writing checkpoints: beside the home loop where nobody has to be asked, and never past a fence or an owner."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from langgraph.graph import START, StateGraph

import threadkeep
from tests.threads.checkpoints import Words, aput, config_of, connection_of, echo_graph, value_of
from tests.threads.test_fence import Gates, gated, said
from threadkeep.errors import ClosedError, OwnerMismatchError, StorageError
from threadkeep.event_loop import EventLoopThread
from threadkeep.threads.checkpointers import ThreadkeepCheckpointer
from threadkeep.threads.sqlite import LOGGED_AT_MOST

HERE = config_of("1", checkpoint_ns="")
Make = Callable[..., ThreadkeepCheckpointer]


def kept_without_the_log(path: Path, folder: Path) -> int:
    """Return how many checkpoints the file itself holds."""
    alone = Path(shutil.copy(path, folder / "alone.db"))
    with closing(sqlite3.connect(alone)) as connection:
        try:
            return connection.execute("SELECT count(*) FROM checkpoints").fetchone()[0]
        except sqlite3.DatabaseError:  # nothing of it yet, or only a part
            return 0


async def test_a_run_writes_while_the_home_loop_is_at_something_else(make: Make, home: EventLoopThread):
    """What a turn recalls there, or another turn does, keeps no checkpoint of it waiting."""
    go_on = Event()

    def occupy(state: Words) -> dict[str, Any]:
        home.soon(go_on.wait)
        return {"words": [state["words"][-1].upper()]}

    builder: Any = StateGraph(Words).add_node("echo", occupy).add_edge(START, "echo")
    checkpointer = make("sqlite")
    graph: Any = builder.compile(checkpointer=checkpointer)
    try:
        async with asyncio.timeout(60):
            done = await graph.ainvoke({"words": ["one"]}, config_of("1"))
            kept = connection_of(checkpointer).execute("SELECT count(*) FROM checkpoints").fetchone()
    finally:
        go_on.set()

    assert done["words"] == ["one", "ONE"]
    assert kept == (3,)


async def test_the_log_is_carried_into_the_file_between_runs(make: Make, path: Path, tmp_path: Path):
    """SQLite does so within a commit, and the turn whose commit that is waits for it."""
    checkpointer = make("sqlite")
    for number in range(LOGGED_AT_MOST):
        await aput(checkpointer, HERE, number)
    before = kept_without_the_log(path, tmp_path)

    await echo_graph(checkpointer).ainvoke({"words": ["one"]}, config_of("2"))

    async with asyncio.timeout(60):
        while kept_without_the_log(path, tmp_path) < LOGGED_AT_MOST:
            await asyncio.sleep(0.01)
    assert before == 0


async def test_what_is_written_after_closing_is_refused(make: Make):
    checkpointer = make("sqlite")
    await aput(checkpointer, HERE, 1)
    await checkpointer.aclose()

    with pytest.raises(ClosedError, match="open a new one"):
        await aput(checkpointer, HERE, 2)


async def test_a_thread_that_cannot_be_read_is_free_again(make: Make, path: Path):
    """A run that reads with its lease, and cannot, gives the lease back."""
    checkpointer = make("sqlite")
    graph = echo_graph(checkpointer)
    await graph.ainvoke({"words": ["one"]}, config_of("1"))
    with closing(sqlite3.connect(path, timeout=60)) as another, another:
        another.execute("UPDATE checkpoints SET checkpoint = x'c1'")

    for _ in range(2):
        with pytest.raises(StorageError, match="damaged"):
            await graph.ainvoke({"words": ["two"]}, config_of("1", multitask_strategy="reject"))


async def test_a_write_asks_whose_thread_it_is(tmp_path: Path):
    """Also one that comes while the file is open, so that it could be written at once."""
    async with threadkeep.open(f"sqlite:///{(tmp_path / 'memory.db').as_posix()}", embedder="none") as tk:
        assert tk.checkpointer is not None
        await aput(tk.checkpointer, config_of("1", checkpoint_ns="", user_id="ana"), 1)

        with pytest.raises(OwnerMismatchError):
            await aput(tk.checkpointer, config_of("1", checkpoint_ns="", user_id="bob"), 2)
        await aput(tk.checkpointer, config_of("1", checkpoint_ns="", user_id="ana"), 3)

        assert value_of(tk.checkpointer, config_of("1", checkpoint_ns="")) == 3


async def test_a_run_that_waited_is_asked_again_whose_thread_it_is(tmp_path: Path):
    """While it waits for its lease, the thread is deleted, and its id begins again as somebody else's."""
    async with threadkeep.open(f"sqlite:///{(tmp_path / 'memory.db').as_posix()}", embedder="none") as tk:
        saver, gates = tk.checkpointer, Gates()
        assert saver is not None
        graph, anas = gated(saver, gates), config_of("here", user_id="ana")
        first = asyncio.create_task(graph.ainvoke(said("slow one"), anas, durability="sync"))
        await gates.arrived("slow one")
        second = asyncio.create_task(graph.ainvoke(said("two"), anas))
        await asyncio.sleep(0)
        await saver.adelete_thread("here")
        await aput(saver, config_of("here", checkpoint_ns="", user_id="bob"), "bob's")

        gates.let_through("slow one")

        assert [type(one) for one in await asyncio.gather(first, second, return_exceptions=True)] == [
            OwnerMismatchError,
            OwnerMismatchError,
        ]
