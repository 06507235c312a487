"""Two inputs on one thread at once: no turn is lost with ours; with LangGraph's own savers turns vanish."""

from __future__ import annotations

import asyncio
import operator
import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Final, TypedDict

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, StateGraph

from tests.invariants.tenants import place
from threadkeep.checkpoints.saver import ThreadkeepCheckpointer
from threadkeep.clock import SystemClock
from threadkeep.errors import ThreadMovedOnError
from threadkeep.event_loop import EventLoopThread
from threadkeep.registry import create_storage, resolve_settings

THREADS: Final = 20
KINDS: Final = ("sqlite", "postgres")

_TAKING: Final = 10
"""In each collision of so many the second input takes the thread from the first, which may be told so."""


class Words(TypedDict):
    words: Annotated[list[str], operator.add]


def run(n: int, kinds: tuple[str, ...] = KINDS) -> dict[str, Any]:
    """Let two runs begin together on one thread, *n* times on each kind of storage.

    Returns:
        ``n``: collisions in all; ``lost``: turns that are not in their thread and were not refused; ``refused``: those
        that were told, which happens only where the other one takes the thread; ``stock``: what LangGraph's own
        savers lost of as many.
    """
    found = {"n": 0, "lost": 0, "refused": 0, "stock": 0}
    for kind in kinds:
        with tempfile.TemporaryDirectory() as folder, place(kind if kind == "postgres" else "memory") as url:
            row = asyncio.run(_run(n, kind, Path(folder), url))
        found = {name: found[name] + value for name, value in row.items()}
    return found


async def _run(n: int, kind: str, folder: Path, url: str) -> dict[str, int]:
    home = EventLoopThread()
    clock = SystemClock()
    settings = resolve_settings(url if kind == "postgres" else f"sqlite:///{folder}/ours.sqlite3", None)
    storage = create_storage(settings, clock)
    ours = ThreadkeepCheckpointer(storage, loop=home, clock=clock, timeout=timedelta(seconds=10))
    lost, refused = await _collide(ours, n, "ours")
    await ours.aclose()
    await home.run(storage.close())
    home.close()
    async with _stock(kind, folder, url) as saver:
        stock_lost, _ = await _collide(saver, n, "stock")
    return {"n": n, "lost": lost, "refused": refused, "stock": stock_lost}


@asynccontextmanager
async def _stock(kind: str, folder: Path, url: str) -> AsyncIterator[BaseCheckpointSaver[Any]]:
    if kind == "sqlite":
        async with AsyncSqliteSaver.from_conn_string(str(folder / "stock.sqlite3")) as saver:
            yield saver
        return
    async with AsyncPostgresSaver.from_conn_string(url) as saver:
        await saver.setup()
        yield saver


async def _collide(saver: BaseCheckpointSaver[Any], n: int, name: str) -> tuple[int, int]:
    """Return how many turns are gone without a word, and how many were refused."""
    graph = _graph(saver)
    said: dict[int, list[str]] = {thread: [] for thread in range(THREADS)}
    refused = 0
    for number in range(n):
        thread = number % THREADS
        words = [f"{number}a", f"{number}b"]
        strategy = "enqueue" if number % _TAKING else "interrupt"
        turns = [
            graph.ainvoke({"words": [word]}, _config(name, thread, multitask_strategy=strategy), durability="sync")
            for word in words
        ]
        for word, ended in zip(words, await asyncio.gather(*turns, return_exceptions=True), strict=True):
            if isinstance(ended, ThreadMovedOnError) and strategy == "interrupt":
                refused += 1
            elif isinstance(ended, BaseException):
                raise ended
            else:
                said[thread].append(word)
    lost = 0
    for thread, words in said.items():
        state = await graph.aget_state(_config(name, thread))
        lost += len(set(words) - set(state.values.get("words", [])))
    return lost, refused


def _config(name: str, thread: int, **more: str) -> Any:
    return {"configurable": {"thread_id": f"{name}-{os.getpid()}-{thread}", **more}}


def _graph(saver: BaseCheckpointSaver[Any]) -> Any:
    def answer(state: Words) -> dict[str, list[str]]:
        return {"words": [f"answer to {state['words'][-1]}"]}

    graph = StateGraph(Words)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    return graph.compile(checkpointer=saver)
