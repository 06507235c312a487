"""Processes that are killed, that fork, and whose clocks differ."""

from __future__ import annotations

import asyncio
import json
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.checkpoints.checkpoints import config_of, echo_graph, put, value_of
from tests.checkpoints.conftest import Places
from tests.processes import PIPE, PythonProcess, run_python, start_python
from threadkeep.checkpoints.saver import ThreadkeepCheckpointer
from threadkeep.errors import ThreadBusyError

OPENED = """
import os, sys
from pathlib import Path
from tests.checkpoints.checkpoints import config_of, put, value_of
from threadkeep.errors import ClosedError
from tests.checkpoints.checkpoints import elsewhere
path = Path(sys.argv[1])
path.parent.mkdir(exist_ok=True)
checkpointer = elsewhere("sqlite:///" + str(path))
"""

WRITING = f"""{OPENED}
for n in range(1_000_000):
    put(checkpointer, config_of("1"), n)
    print(n, flush=True)
"""

FORKING = f"""{OPENED}
put(checkpointer, config_of("1"), "parent's")
child = os.fork()
if child == 0:
    try:
        value_of(checkpointer, config_of("1"))
    except ClosedError:
        own = elsewhere("sqlite:///" + str(path))
        put(own, config_of("2"), "child's")
        own.close()
        os._exit(7)
    os._exit(1)
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 7, status
assert value_of(checkpointer, config_of("1")) == "parent's"
assert value_of(checkpointer, config_of("2")) == "child's"
checkpointer.close()
"""


ELSEWHERE = """
import json, sys, time
ahead, places, task = json.loads(sys.argv[1])
clock, nanoseconds = time.time, time.time_ns
time.time = lambda: clock() + ahead
time.time_ns = lambda: nanoseconds() + int(ahead * 1e9)
import asyncio
from tests.checkpoints.checkpoints import Words, config_of, echo_graph, elsewhere
from langgraph.graph import START, StateGraph

async def hang(state):
    print("at work", flush=True)
    await asyncio.Event().wait()

builder = StateGraph(Words)
builder.add_node("said", lambda state: {"words": ["said"]})
builder.add_node("hang", hang)
builder.add_edge(START, "said")
builder.add_edge("said", "hang")

async def main():
    for kind, where in places.items():
        checkpointer = elsewhere(where)
        graph = echo_graph(checkpointer)
        if task == "turn":
            await graph.ainvoke({"words": [f"by {ahead}"]}, config_of("1"))
            checkpointer.close()
        elif task == "edit":
            first = [one async for one in graph.aget_state_history(config_of("1"))][-1]
            await graph.aupdate_state(first.config, {"words": [f"by {ahead}"]}, as_node="echo")
            checkpointer.close()
        else:
            hanging = builder.compile(checkpointer=checkpointer)
            turn = hanging.ainvoke({"words": ["first"]}, config_of(task), durability="sync")
            running.append(asyncio.ensure_future(turn))
    await asyncio.gather(*running)

running = []
asyncio.run(main())
"""
"""A process whose clock is ahead. In each place it takes a turn on thread 1, or edits the state that was its first, or
begins a turn on the thread that it is told and never ends it."""

HOUR = 3600
TAKEN_OVER_SECONDS = 15
LASTING = ["sqlite", "postgres", "redis", "mongodb"]


def places_of(places: Places) -> dict[str, str]:
    return {kind: places.url(kind) for kind in LASTING}


@contextmanager
def process(ahead: float, where: dict[str, str], task: str) -> Iterator[PythonProcess]:
    given = json.dumps([ahead, where, task])
    with start_python("-c", ELSEWHERE, given, stdout=PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.slow
@pytest.mark.linux
class TestClocksThatDiffer:
    """Machines whose clocks are an hour apart, one of them ahead of this one and one behind."""

    @pytest.mark.long
    def test_turns_are_kept_in_their_order(self, make: Callable[..., ThreadkeepCheckpointer], places: Places):
        """LangGraph takes the checkpoint with the latest time for the newest."""
        where = places_of(places)
        graphs = [echo_graph(make(kind)) for kind in LASTING]
        with process(HOUR, where, "turn") as turn:
            assert turn.wait(60) == 0
        for graph in graphs:
            graph.invoke({"words": ["here"]}, config_of("1"))
        with process(-HOUR, where, "turn") as turn:
            assert turn.wait(60) == 0

        words = [graph.get_state(config_of("1")).values["words"] for graph in graphs]
        assert [one[::2] for one in words] == [[f"by {HOUR}", "here", f"by {-HOUR}"]] * len(LASTING)

    def test_an_edit_of_an_old_state_is_the_newest(self, make: Callable[..., ThreadkeepCheckpointer], places: Places):
        """The checkpoint that is read is an old one; what is written must come after all there are."""
        where = places_of(places)
        graphs = [echo_graph(make(kind)) for kind in LASTING]
        for graph in graphs:
            graph.invoke({"words": ["here"]}, config_of("1"))

        with process(-HOUR, where, "edit") as turn:
            assert turn.wait(60) == 0

        words = [graph.get_state(config_of("1")).values["words"] for graph in graphs]
        assert words == [[f"by {-HOUR}"]] * len(LASTING)

    @pytest.mark.long
    async def test_a_killed_run_is_taken_over(self, make: Callable[..., ThreadkeepCheckpointer], places: Places):
        """With the lease that is usual, by the clock of the database: a machine's own would say an hour, or none."""
        where = places_of(places)
        graphs = [echo_graph(make(kind)) for kind in LASTING]
        await asyncio.gather(*(graph.ainvoke({"words": ["before"]}, config_of("0")) for graph in graphs))
        threads = {"ahead": HOUR, "behind": -HOUR}
        with ExitStack() as running:
            killed = [running.enter_context(process(ahead, where, thread)) for thread, ahead in threads.items()]
            for one in killed:
                for _ in LASTING:
                    assert one.stdout
                    assert one.stdout.readline() == "at work\n"
            for thread in threads:
                for graph in graphs:
                    with pytest.raises(ThreadBusyError):
                        await graph.ainvoke({"words": ["no"]}, config_of(thread, multitask_strategy="reject"))
            for one in killed:
                one.kill()
                one.wait()

        async with asyncio.timeout(TAKEN_OVER_SECONDS):
            taken = await asyncio.gather(
                *(graph.ainvoke({"words": ["next"]}, config_of(thread)) for thread in threads for graph in graphs)
            )

        for number, (thread, graph) in enumerate((thread, graph) for thread in threads for graph in graphs):
            assert taken[number]["words"] == ["first", "said", "next", "NEXT"]
            assert (await graph.aget_state(config_of(thread))).values == taken[number]


@pytest.mark.slow
@pytest.mark.linux
class TestKilling:
    def test_nothing_acknowledged_is_lost(self, make: Callable[..., ThreadkeepCheckpointer], path: Path):
        """Killed between two of its writes, or inside one, a process leaves a file that reads and goes on."""
        process = start_python("-c", WRITING, path, stdout=PIPE)
        assert process.stdout is not None
        for acknowledged in process.stdout:
            if int(acknowledged) >= 50:
                break
        process.send_signal(signal.SIGKILL)
        rest = process.stdout.read().split()
        process.wait()
        process.stdout.close()
        last = int(rest[-1]) if rest else 50

        checkpointer = make("sqlite")
        kept = [one.checkpoint["channel_values"]["x"] for one in checkpointer.list(config_of("1"))]

        assert kept in (list(range(last, -1, -1)), list(range(last + 1, -1, -1)))
        put(checkpointer, config_of("1"), "goes on")
        assert value_of(checkpointer, config_of("1")) == "goes on"
        other = sqlite3.connect(path)
        assert other.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        other.close()


@pytest.mark.slow
@pytest.mark.linux
class TestForking:
    def test_forked_child_must_open_its_own(self, path: Path):
        """The parent's loop does not run in it; with one of its own it works, and the parent's goes on."""
        ended = run_python("-c", FORKING, path)

        assert ended.returncode == 0, ended.stderr
