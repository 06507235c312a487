"""Two inputs on one thread: what was acknowledged is in the thread, with ours; with LangGraph's own saver it is not."""

from __future__ import annotations

import asyncio
import operator
import tempfile
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, StateGraph

from threadkeep.errors import ConflictError
from threadkeep.home import Home
from threadkeep.threads.factory import checkpointer_over
from threadkeep.threads.sqlite import SqliteCheckpoints

THREADS = 20


class Words(TypedDict):
    words: Annotated[list[str], operator.add]


def run(n: int) -> dict[str, Any]:
    """Let two runs begin together on one thread, *n* times; count the turns that were acknowledged and are gone."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_run(n, Path(folder)))


async def _run(n: int, folder: Path) -> dict[str, Any]:
    home = Home()
    ours = checkpointer_over(SqliteCheckpoints(folder / "ours.sqlite3"), home=home)
    lost, refused = await _collide(ours, n)
    await ours.aclose()
    home.close()
    async with AsyncSqliteSaver.from_conn_string(str(folder / "stock.sqlite3")) as stock:
        stock_lost, _ = await _collide(stock, n)
    return {"n": n, "lost": lost, "refused": refused, "stock": stock_lost}


async def _collide(saver: BaseCheckpointSaver[str], n: int) -> tuple[int, int]:
    """Return how many acknowledged turns are gone, and how many were refused."""
    graph = _graph(saver)
    acknowledged: dict[int, list[str]] = {thread: [] for thread in range(THREADS)}
    refused = 0
    for number in range(n):
        thread = number % THREADS
        words = [f"{number}a", f"{number}b"]
        turns = [
            graph.ainvoke({"words": [word]}, {"configurable": {"thread_id": str(thread)}}, durability="sync")
            for word in words
        ]
        for word, ended in zip(words, await asyncio.gather(*turns, return_exceptions=True), strict=True):
            if isinstance(ended, ConflictError):
                refused += 1
            elif isinstance(ended, BaseException):
                raise ended
            else:
                acknowledged[thread].append(word)
    lost = 0
    for thread, words in acknowledged.items():
        state = await graph.aget_state({"configurable": {"thread_id": str(thread)}})
        lost += len(set(words) - set(state.values.get("words", [])))
    return lost, refused


def _graph(saver: BaseCheckpointSaver[str]) -> Any:
    def answer(state: Words) -> dict[str, list[str]]:
        return {"words": [f"answer to {state['words'][-1]}"]}

    graph = StateGraph(Words)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    return graph.compile(checkpointer=saver)
