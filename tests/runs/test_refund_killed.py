"""The refund example, killed everywhere: finished nodes run once, and so are the question and the payment."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import threadkeep
from examples.refund import CUSTOMER, build, written_to
from tests.storage.forking import ended_well, forked
from threadkeep.langgraph.jobs import RunDoor
from threadkeep.settings import Settings
from threadkeep.threads.checkpointers import ThreadkeepCheckpointer

NODES = ("load", "fraud", "policy", "pay")
OPERATIONS = 14
"""More writes of checkpoints than an undisturbed start or answer makes: the last ones are never reached."""

Work = Callable[[RunDoor, Any], Any]


class Refund:
    """One job in a folder; each step of it is a process of its own."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.url = url

    def step(self, work: Work, *, deadly_node: str = "", kill: Callable[[], None] = lambda: None) -> bool:
        """Do *work* in a child, which dies inside *deadly_node* or where *kill* says; return whether it ended well."""

        def run() -> None:
            kill()
            asyncio.run(self._run(work, deadly_node))

        return ended_well(forked(run))

    async def _run(self, work: Work, deadly_node: str) -> None:
        log = written_to(self.folder / "log")

        def written(line: str) -> None:
            log(line)
            if line == deadly_node:
                os.kill(os.getpid(), signal.SIGKILL)

        # Whoever comes after a kill need not wait long for the lease of the one that was killed.
        soon = Settings(lease_seconds=0.3)
        async with threadkeep.open(self.url, owner=CUSTOMER, embedder="none", settings=soon) as tk:
            graph = build(tk, self.folder / "ledger", written)
            run = await work(tk.runs, graph)
            (self.folder / "standing").write_text(json.dumps([run.status, run.values.get("responses", [])]))

    @property
    def standing(self) -> list[Any]:
        return json.loads((self.folder / "standing").read_text())

    @property
    def nodes(self) -> Counter[str]:
        return Counter((self.folder / "log").read_text().split())

    @property
    def ledger(self) -> Counter[str]:
        return Counter(path.name.partition("-")[0] for path in (self.folder / "ledger").iterdir())


def start(runs: RunDoor, graph: Any) -> Any:
    return runs.start(graph, {"input_data": {"amount": 120}}, thread_id="r1")


async def go_on(runs: RunDoor, graph: Any) -> Any:
    """Start what was killed before it began, and retry the rest."""
    standing = await runs.get(graph, thread_id="r1")
    return await (start(runs, graph) if standing.status == "new" else runs.retry(graph, thread_id="r1"))


async def answer(runs: RunDoor, graph: Any) -> Any:
    """Answer where it is still asked; the process that was killed may have got so far."""
    standing = await runs.get(graph, thread_id="r1")
    if standing.asks:
        return await runs.resume(graph, True, thread_id="r1")
    return await runs.retry(graph, thread_id="r1")


def killed_by_checkpoint(number: int, *, before: bool) -> Callable[[], None]:
    """Kill the child before or after the write of checkpoints with this *number*: the boundaries of its nodes."""

    def arm() -> None:
        count = 0

        def deadly(real: Any) -> Any:
            async def write(*args: Any, **kwargs: Any) -> Any:
                nonlocal count
                count += 1
                mine = count == number
                if mine and before:
                    os.kill(os.getpid(), signal.SIGKILL)
                result = await real(*args, **kwargs)
                if mine:
                    os.kill(os.getpid(), signal.SIGKILL)
                return result

            return write

        for name in ("aput", "aput_writes"):
            setattr(ThreadkeepCheckpointer, name, deadly(getattr(ThreadkeepCheckpointer, name)))

    return arm


def finish(refund: Refund) -> None:
    """Bring the job to its end, and test what is promised of it."""
    assert refund.step(go_on)
    assert refund.step(answer)
    assert refund.standing == ["done", [{"fraud": "low"}, {"policy": "small"}, {"paid": 120}]]
    assert refund.ledger == {"ask": 1, "pay": 1}


@pytest.mark.slow
@pytest.mark.linux
class TestKilled:
    @pytest.fixture(scope="class", autouse=True)
    @staticmethod
    def imported(tmp_path_factory: pytest.TempPathFactory) -> None:
        """Run a job here first: what this process has imported, its forks need not."""
        folder = tmp_path_factory.mktemp("imported")
        asyncio.run(Refund(folder, f"sqlite:///{folder / 'jobs.sqlite3'}")._run(start, ""))

    @pytest.fixture(params=["sqlite", "postgres"])
    def refund(self, request: pytest.FixtureRequest, tmp_path: Path) -> Refund:
        if request.param == "postgres":
            return Refund(tmp_path, request.getfixturevalue("postgres_url"))
        return Refund(tmp_path, f"sqlite:///{tmp_path / 'jobs.sqlite3'}")

    def test_undisturbed(self, refund: Refund):
        finish(refund)

        assert refund.nodes == dict.fromkeys(NODES, 1)

    @pytest.mark.parametrize("node", NODES)
    def test_inside_each_node(self, refund: Refund, node: str):
        assert refund.step(start, deadly_node=node) == (node == "pay")
        if node == "pay":
            assert not refund.step(answer, deadly_node=node)

        finish(refund)

        again = {name for name, times in refund.nodes.items() if times > 1}
        assert again <= ({node, "fraud", "policy"} if node in ("fraud", "policy") else {node})
        assert refund.nodes[node] == 2

    @pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
    @pytest.mark.parametrize("work", [start, answer])
    @pytest.mark.timeout(300)
    def test_at_each_boundary(self, tmp_path: Path, work: Work, before: bool):
        """A node whose writes were kept never runs again; only what was in flight at the kill does."""
        for number in range(1, OPERATIONS):
            folder = tmp_path / str(number)
            folder.mkdir()
            refund = Refund(folder, f"sqlite:///{folder / 'jobs.sqlite3'}")
            if work is answer:
                assert refund.step(start)
            if refund.step(work, kill=killed_by_checkpoint(number, before=before)):
                break  # it ended before it came to be killed
            finish(refund)
            again = {name for name, times in refund.nodes.items() if times > 1}
            assert all(times <= 2 for times in refund.nodes.values())
            assert again in (set(), {"load"}, {"fraud"}, {"policy"}, {"fraud", "policy"}, {"pay"})
        else:
            raise AssertionError


@pytest.mark.slow
@pytest.mark.linux
class TestKilledOnPostgres:
    @pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
    @pytest.mark.parametrize("work", [start, answer])
    @pytest.mark.parametrize("number", [3])
    def test_at_a_boundary(self, tmp_path: Path, postgres_url: str, work: Work, number: int, before: bool):
        """One of the boundaries that are all tried on SQLite."""
        refund = Refund(tmp_path, postgres_url)
        if work is answer:
            assert refund.step(start)

        refund.step(work, kill=killed_by_checkpoint(number, before=before))

        finish(refund)
        assert all(times <= 2 for times in refund.nodes.values())


class TestKilledInMemory:
    @pytest.mark.parametrize("node", NODES)
    async def test_inside_each_node(self, tmp_path: Path, node: str):
        """What is in memory goes with the process, so there a node is killed: the job is cancelled within it."""
        log = written_to(tmp_path / "log")
        deadly = {node}

        def written(line: str) -> None:
            log(line)
            if line in deadly:
                deadly.remove(line)
                raise asyncio.CancelledError

        async with threadkeep.open("memory://", owner=CUSTOMER, embedder="none") as tk:
            graph = build(tk, tmp_path / "ledger", written)
            run = await start(tk.runs, graph)
            if run.status in ("cancelled", "failed"):
                run = await tk.runs.retry(graph, thread_id="r1")
            run = await tk.runs.resume(graph, True, thread_id="r1")
            if run.status in ("cancelled", "failed"):
                run = await tk.runs.retry(graph, thread_id="r1")

        nodes = Counter((tmp_path / "log").read_text().split())
        assert (run.status, run.values["responses"]) == ("done", [{"fraud": "low"}, {"policy": "small"}, {"paid": 120}])
        assert nodes[node] == 2
        assert {name for name, times in nodes.items() if times > 1} <= (
            {node, "fraud", "policy"} if node in ("fraud", "policy") else {node}
        )
        assert Counter(path.name.partition("-")[0] for path in (tmp_path / "ledger").iterdir()) == {"ask": 1, "pay": 1}
