"""Writers on the same threads, with each strategy: every turn that returned stays, and every loser is told.

Two writers work in two processes or in two threads of one, on few threads of conversation so that they collide; one
writer works alone, turn after turn: no strategy may go behind a run that has returned.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import multiprocessing
import operator
import os
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias, TypedDict

from langgraph.graph import START, StateGraph

from tests.invariants.tenants import place
from threadkeep.checkpoints.head import STRATEGIES, Strategy
from threadkeep.checkpoints.saver import ThreadkeepCheckpointer
from threadkeep.clock import SystemClock
from threadkeep.errors import ConflictError
from threadkeep.event_loop import EventLoopThread
from threadkeep.registry import create_storage, resolve_settings
from threadkeep.settings import Settings

Writers: TypeAlias = Literal["one", "threads", "processes"]

KINDS: Final = ("memory", "sqlite", "postgres", "redis", "mongodb")
WRITERS: Final[tuple[Writers, ...]] = ("one", "threads", "processes")
THREADS: Final = 3
DURABILITIES: Final = ("sync", "async", "exit")
TIMEOUT: Final = timedelta(seconds=30)
_START_SECONDS: Final = 60.0


class Words(TypedDict):
    words: Annotated[list[str], operator.add]


@dataclass
class Tally:
    """What became of the turns.

    Attributes:
        kept: The words of turns that returned, by thread.
        told: How many turns were refused, by the name of the error.
    """

    kept: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    told: dict[str, int] = field(default_factory=dict[str, int])

    def add(self, other: Tally) -> None:
        """Add what another writer saw."""
        for thread, words in other.kept.items():
            self.kept.setdefault(thread, []).extend(words)
        for error, number in other.told.items():
            self.told[error] = self.told.get(error, 0) + number


def run(
    n: int,
    *,
    kinds: Sequence[str] = KINDS,
    writers: Sequence[Writers] = WRITERS,
    strategies: Sequence[Strategy] = STRATEGIES,
) -> dict[str, dict[str, Any]]:
    """Take *n* turns with each strategy, by each kind of writers, on each storage.

    Returns:
        For each storage, ``n``: turns in all; ``lost``: turns that returned and are not in their thread, or not
        whole; ``doubled``: those that are there twice; ``told``: those that were refused.
    """
    rows: dict[str, dict[str, Any]] = {}
    for kind in kinds:
        row = {"n": 0, "lost": 0, "doubled": 0, "told": 0}
        with place(kind) as url:
            for who in writers:
                if who == "processes" and kind == "memory":
                    continue  # no other process sees it
                for strategy in strategies:
                    tally = _take_turns(url, who, strategy, n, f"{who}-{strategy}")
                    for name, number in tally.items():
                        row[name] += number
        rows[kind] = row
    return rows


def _take_turns(url: str, writers: Writers, strategy: Strategy, n: int, prefix: str) -> dict[str, int]:
    tally = Tally()
    if writers == "processes":
        both = multiprocessing.get_context("fork").Barrier(2, timeout=_START_SECONDS)
        _in_children([lambda name=name: _alone(url, name, strategy, n // 2, prefix, both) for name in "ab"], tally)
        with _opened(url) as saver:
            lost, doubled = _missing(saver, tally)
    else:
        with _opened(url) as saver:
            names = "a" if writers == "one" else "ab"
            found = [Tally() for _ in names]
            every = threading.Barrier(len(names), timeout=_START_SECONDS)

            def write(place: int) -> None:
                every.wait()
                found[place] = asyncio.run(_turns(saver, names[place], strategy, n // len(names), prefix))

            started = [threading.Thread(target=write, args=(place,)) for place in range(len(names))]
            for one in started:
                one.start()
            for one in started:
                one.join()
            for one in found:
                tally.add(one)
            lost, doubled = _missing(saver, tally)
    told = sum(tally.told.values())
    taken = told + sum(map(len, tally.kept.values()))
    return {"n": taken, "lost": lost, "doubled": doubled, "told": told}


def _alone(url: str, name: str, strategy: Strategy, n: int, prefix: str, both: Barrier) -> Tally:
    with _opened(url) as saver:
        both.wait()  # they meet, however slowly one of them starts
        return asyncio.run(_turns(saver, name, strategy, n, prefix))


async def _turns(saver: ThreadkeepCheckpointer, name: str, strategy: Strategy, n: int, prefix: str) -> Tally:
    """Take *n* turns, one after the other; anything but a refusal is raised."""
    tally, graph = Tally(), _graph(saver)
    for number in range(n):
        thread, word = f"{prefix}-{number % THREADS}", f"{name}{number}"
        durability: Any = DURABILITIES[number // THREADS % len(DURABILITIES)]
        config: Any = {"configurable": {"thread_id": thread, "multitask_strategy": strategy}}
        try:
            await graph.ainvoke({"words": [word]}, config, durability=durability)
        except ConflictError as error:  # busy, or moved on
            tally.told[type(error).__name__] = tally.told.get(type(error).__name__, 0) + 1
        else:
            tally.kept.setdefault(thread, []).append(word)
    return tally


def _missing(saver: ThreadkeepCheckpointer, tally: Tally) -> tuple[int, int]:
    """Return how many turns that returned are not in their thread with their answer, and how many are there twice."""
    lost = doubled = 0
    graph = _graph(saver)
    for thread, words in tally.kept.items():
        state = graph.get_state({"configurable": {"thread_id": thread}}).values.get("words", [])
        for word in words:
            lost += word not in state or word.upper() not in state
            doubled += state.count(word) > 1 or state.count(word.upper()) > 1
    return lost, doubled


def _graph(saver: ThreadkeepCheckpointer) -> Any:
    async def answer(state: Words) -> dict[str, list[str]]:
        await asyncio.sleep(0)
        return {"words": [state["words"][-1].upper()]}

    graph = StateGraph(Words)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    return graph.compile(checkpointer=saver)


@contextlib.contextmanager
def _opened(url: str) -> Iterator[ThreadkeepCheckpointer]:
    loop, clock = EventLoopThread(), SystemClock()
    storage = create_storage(resolve_settings(url, Settings.load(store_key_prefix="strategies")), clock)
    saver = ThreadkeepCheckpointer(storage, loop=loop, clock=clock, timeout=TIMEOUT)
    try:
        yield saver
    finally:
        saver.close()
        loop.run_sync(storage.close())
        loop.close()


def _in_children(works: Sequence[Callable[[], Tally]], tally: Tally) -> None:
    """Run *works* in forked processes at the same time, and add what they saw to *tally*."""
    with tempfile.TemporaryDirectory(prefix="threadkeep-invariants-") as folder:
        children: list[tuple[int, Path]] = []
        for number, work in enumerate(works):
            path = Path(folder) / f"{number}.json"
            child = os.fork()
            if child == 0:
                _live(work, path)
            children.append((child, path))
        statuses = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child, _ in children]
        if any(statuses):
            msg = f"writers ended with {statuses}"
            raise ChildProcessError(msg)
        for _, path in children:
            tally.add(Tally(**json.loads(path.read_text())))


def _live(work: Callable[[], Tally], path: Path) -> None:
    status = 1
    try:
        seen = work()
        path.write_text(json.dumps({"kept": seen.kept, "told": seen.told}))
        status = 0
    except BaseException:  # noqa: BLE001 - whatever it is, the child must not go on as its parent
        traceback.print_exc(file=sys.__stderr__)
    finally:
        os._exit(status)


if __name__ == "__main__":
    for storage in sys.argv[2:] or KINDS:
        sys.stdout.write(json.dumps(run(int(sys.argv[1]), kinds=(storage,))) + "\n")
