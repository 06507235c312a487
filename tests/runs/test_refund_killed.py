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
from examples import refund as example
from examples.refund import CUSTOMER, build, written_to
from tests.storage.forking import ended_well, forked
from threadkeep.checkpoints.saver import ThreadkeepCheckpointer
from threadkeep.langgraph.runs import RunService
from threadkeep.settings import Settings

NODES = ("load", "fraud", "policy", "pay")
OPERATIONS = 14
"""More writes of checkpoints than an undisturbed start or answer makes: the last ones are never reached."""
FEWEST = 4
"""Fewer than either makes."""

Work = Callable[[RunService, Any], Any]


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

        # Whoever comes after a kill need not wait long for the lease of the one that was killed; and what is in
        # one server for several folders is kept apart.
        chosen = Settings.load(lease_seconds=0.05, store_key_prefix=self.folder.name)
        async with threadkeep.open(self.url, owner=CUSTOMER, embedder="none", settings=chosen) as tk:
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
    def audited_writer(self) -> Counter[str]:
        return Counter(path.name.partition("-")[0] for path in (self.folder / "ledger").iterdir())


def start(runs: RunService, graph: Any) -> Any:
    return runs.start(graph, {"input_data": {"amount": 120}}, thread_id="r1")


async def go_on(runs: RunService, graph: Any) -> Any:
    """Start what was killed before it began, and retry the rest."""
    standing = await runs.get(graph, thread_id="r1")
    return await (start(runs, graph) if standing.status == "new" else runs.retry(graph, thread_id="r1"))


async def answer(runs: RunService, graph: Any) -> Any:
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


def killed_in_effect(what: str, *, after: bool) -> Callable[[], None]:
    """Kill the child around what it does outside, at a provider: nobody has written down yet that it is done."""

    def arm() -> None:
        real = example.do_once

        def deadly(audited_writer: Path, key: str, given: Any) -> Any:
            if key.startswith(what) and not after:
                os.kill(os.getpid(), signal.SIGKILL)
            result = real(audited_writer, key, given)
            if key.startswith(what):
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        example.do_once = deadly

    return arm


def finish(refund: Refund) -> None:
    """Bring the job to its end, and test what is promised of it."""
    assert refund.step(go_on)
    assert refund.step(answer)
    assert refund.standing == ["done", [{"fraud": "low"}, {"policy": "small"}, {"paid": 120}]]
    assert refund.audited_writer == {"ask": 1, "pay": 1}


@pytest.mark.slow
@pytest.mark.linux
class TestKilled:
    @pytest.fixture(scope="class", autouse=True)
    @staticmethod
    def imported(tmp_path_factory: pytest.TempPathFactory) -> None:
        """Run a job here first: what this process has imported, its forks need not."""
        folder = tmp_path_factory.mktemp("imported")
        asyncio.run(Refund(folder, f"sqlite:///{folder / 'jobs.sqlite3'}")._run(start, ""))

    @pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.soak)])
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

    @pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
    @pytest.mark.parametrize("what", ["ask", "pay"])
    def test_inside_each_effect(self, refund: Refund, what: str, after: bool):
        """What is not written down as done is done again, with a key that the provider knows."""
        kill = killed_in_effect(what, after=after)
        if what == "pay":
            assert refund.step(start)

        assert not refund.step(start if what == "ask" else answer, kill=kill)

        finish(refund)

    @pytest.mark.slow
    @pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
    @pytest.mark.parametrize("work", [start, answer])
    @pytest.mark.parametrize("every", [2, pytest.param(1, marks=pytest.mark.soak)])
    def test_at_each_boundary(self, refund: Refund, work: Work, before: bool, every: int):
        """A node whose writes were kept never runs again; only what was in flight does.

        In CI before odd writes and after even ones, so each write is the boundary of one; every third on servers.
        """
        every = every if refund.url.startswith("sqlite") else 3
        for number in range(1 if before else every, OPERATIONS, every):
            one = Refund(refund.folder / f"{work.__name__}{number}", refund.url)
            one.folder.mkdir()
            if one.url.startswith("sqlite"):
                one.url = f"sqlite:///{one.folder / 'jobs.sqlite3'}"
            if work is answer:
                assert one.step(start)
            if one.step(work, kill=killed_by_checkpoint(number, before=before)):
                break  # it ended before it came to be killed
            finish(one)
            again = {name for name, times in one.nodes.items() if times > 1}
            assert all(times <= 2 for times in one.nodes.values())
            assert again in (set(), {"load"}, {"fraud"}, {"policy"}, {"fraud", "policy"}, {"pay"})
        else:
            raise AssertionError
        assert number > FEWEST, "nothing was killed"


class TestKilledInMemory:
    """What is in memory goes with the process, so there a run is cancelled within it."""

    @pytest.mark.parametrize("node", NODES)
    async def test_inside_each_node(self, tmp_path: Path, node: str):
        log = written_to(tmp_path / "log")
        deadly = {node}

        def written(line: str) -> None:
            log(line)
            if line in deadly:
                deadly.remove(line)
                raise asyncio.CancelledError

        await self.gone_through(tmp_path, written)

        nodes = Counter((tmp_path / "log").read_text().split())
        assert nodes[node] == 2
        assert {name for name, times in nodes.items() if times > 1} <= (
            {node, "fraud", "policy"} if node in ("fraud", "policy") else {node}
        )

    @pytest.mark.slow
    @pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
    async def test_at_each_boundary(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: bool):
        for number in range(1, 2 * OPERATIONS):
            folder = tmp_path / str(number)
            folder.mkdir()
            with monkeypatch.context() as patch:
                count = cancelled_by_checkpoint(number, patch, before=before)
                await self.gone_through(folder, written_to(folder / "log"))
            nodes = Counter((folder / "log").read_text().split())
            assert all(times <= 2 for times in nodes.values())
            if count() < number:
                break
        else:
            raise AssertionError
        assert number > 2 * FEWEST, "nothing was cancelled"

    async def gone_through(self, folder: Path, log: Callable[[str], None]) -> None:
        """Bring a job to its end, however often it is cut off, and test what is promised of it."""
        async with threadkeep.open("memory://", owner=CUSTOMER, embedder="none") as tk:
            graph = build(tk, folder / "ledger", log)
            run = await start(tk.runs, graph)
            while run.status != "done":
                run = await (answer if run.asks else go_on)(tk.runs, graph)
        assert run.values["responses"] == [{"fraud": "low"}, {"policy": "small"}, {"paid": 120}]
        assert Counter(path.name.partition("-")[0] for path in (folder / "ledger").iterdir()) == {"ask": 1, "pay": 1}


def cancelled_by_checkpoint(number: int, patch: pytest.MonkeyPatch, *, before: bool) -> Callable[[], int]:
    """Cancel the run that makes the write of checkpoints with this *number*; return what counts them."""
    count = 0

    def deadly(real: Any) -> Any:
        async def write(*args: Any, **kwargs: Any) -> Any:
            nonlocal count
            count += 1
            mine = count == number
            if mine and before:
                raise asyncio.CancelledError
            result = await real(*args, **kwargs)
            if mine:
                raise asyncio.CancelledError
            return result

        return write

    for name in ("aput", "aput_writes"):
        patch.setattr(ThreadkeepCheckpointer, name, deadly(getattr(ThreadkeepCheckpointer, name)))
    return lambda: count
