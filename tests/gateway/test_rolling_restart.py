"""Gateways and workers are replaced, or killed, under load: what was acknowledged is there, once."""

from __future__ import annotations

import asyncio
import itertools
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

import threadkeep
from tests.gateway.kept import Acknowledged, faults_of, until_learnt
from tests.gateway.test_serve import ADDRESS, prepare_server, until_listening
from tests.gateway.world import events_of
from tests.processes import THREADKEEP, PythonProcess, start_python

pytestmark = [pytest.mark.slow, pytest.mark.linux]


@dataclass(frozen=True, slots=True)
class Gateway:
    """A gateway, a process of its own."""

    process: PythonProcess
    origin: str


@dataclass
class Fleet:
    """Gateways and workers on one PostgreSQL, each a process of its own."""

    folder: Path
    environment: dict[str, str]
    gateways: list[Gateway] = field(default_factory=list[Gateway])
    workers: list[PythonProcess] = field(default_factory=list[PythonProcess])
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    def start_gateway(self) -> None:
        messages = self.folder / f"gateway-{next(self._numbers)}.txt"
        words = ("serve", "--port", "0", "--graph", "agent_module:graph")
        process = _start(words, self.folder, self.environment, messages)
        self.gateways.append(Gateway(process, _origin_of(process, messages)))

    def start_worker(self) -> None:
        environment = {**self.environment, "THREADKEEP_CAPTURE_WORKERS": "2"}
        messages = self.folder / f"worker-{next(self._numbers)}.txt"
        self.workers.append(_start(("worker", "--concurrency", "2"), self.folder, environment, messages))

    def end_gateway(self, number: signal.Signals) -> int:
        """Send the oldest gateway a signal, wait for its end, and return its exit code."""
        return _end(self.gateways.pop(0).process, number)

    def end_worker(self, number: signal.Signals) -> int:
        return _end(self.workers.pop(0), number)


def _start(words: tuple[str, ...], folder: Path, environment: dict[str, str], messages: Path) -> PythonProcess:
    """Start ``threadkeep`` with *words*; what it writes to its error stream is in the file *messages*."""
    with messages.open("w") as errors:
        return start_python(*THREADKEEP, *words, cwd=folder, env=environment, stderr=errors.fileno())


def _origin_of(process: PythonProcess, messages: Path) -> str:
    """Return the address of a gateway as soon as it listens."""
    while process.poll() is None:
        if found := ADDRESS.search(messages.read_text()):
            until_listening(found[1])
            return found[1]
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.05)
    raise AssertionError(messages.read_text())


def _end(process: PythonProcess, number: signal.Signals) -> int:
    process.send_signal(number)
    return process.wait(60)


@contextmanager
def fleet(folder: Path, url: str, *, gateways: int, workers: int) -> Iterator[Fleet]:
    """Start a fleet; it ends with the block."""
    environment = {
        "LANGGRAPH_STORE_TYPE": "postgres",
        "LANGGRAPH_STORE_POSTGRES_DSN": url,
        "THREADKEEP_CAPTURE_WORKERS": "0",
        "THREADKEEP_LEASE_SECONDS": "3",
    }
    running = Fleet(folder, prepare_server(folder, 0.05, environment))
    try:
        for _ in range(gateways):
            running.start_gateway()
        for _ in range(workers):
            running.start_worker()
        yield running
    finally:
        while running.gateways:
            running.end_gateway(signal.SIGTERM)
        while running.workers:
            running.end_worker(signal.SIGTERM)


@dataclass
class Load:
    """Users who talk without a pause, through a balancer that skips gateways that cannot be connected to."""

    fleet: Fleet
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    acknowledged: list[Acknowledged] = field(default_factory=list[Acknowledged])
    statuses: Counter[int] = field(default_factory=Counter[int])
    wrong: list[str] = field(default_factory=list[str])
    _turn: itertools.count[int] = field(default_factory=itertools.count)

    async def user(self, number: int) -> None:
        """Say one thing after the other; each has a thread of its own."""
        async with httpx.AsyncClient(timeout=60) as client:
            while not self.stop.is_set():
                turn = next(self._turn)
                thread_id, word = f"t{turn}", f"Town{turn}x"
                await self._until_done(client, thread_id, word, first=number)

    async def _until_done(self, client: httpx.AsyncClient, thread_id: str, word: str, *, first: int) -> None:
        for attempt in range(200):
            gateways = list(self.fleet.gateways)
            if not gateways:
                await asyncio.sleep(0.1)
                continue
            server = gateways[(first + attempt) % len(gateways)]
            body = {"message": f"I like {word}.", "thread_id": thread_id}
            headers = {"Idempotency-Key": f"{thread_id}-{attempt}"}
            kinds: list[str] = []
            last: Any = {}
            with suppress(httpx.HTTPError):
                url = f"{server.origin}/api/chat/stream"
                async with client.stream("POST", url, json=body, headers=headers) as response:
                    self.statuses[response.status_code] += 1
                    if response.status_code == 503 and "Retry-After" not in response.headers:
                        self.wrong.append("503 without Retry-After")
                    if response.status_code == 200:
                        async for event in events_of(response):
                            kinds.append(event.kind)
                            last = event.data
                            if event.kind == "done":
                                self.acknowledged.append(Acknowledged("ana", thread_id, word, last["recorded"]))
                                return
            if kinds and kinds[-1] == "error" and last.get("code") not in ("restarting", "thread_busy"):
                self.wrong.append(str(last))
            await asyncio.sleep(0.05)
        self.wrong.append(f"{thread_id} was never answered")


async def run_under_load(running: Fleet, disturb: Any, *, users: int) -> Load:
    """Call *disturb* while users talk, and return what they saw."""
    load = Load(running)
    talking = [asyncio.create_task(load.user(number)) for number in range(users)]
    await asyncio.sleep(1)
    try:
        await disturb()
    finally:
        load.stop.set()
        await asyncio.gather(*talking)
    return load


async def require_kept(load: Load, url: str, *, killed: bool) -> None:
    """Check that every acknowledged turn is in its thread and learnt from, once."""
    async with threadkeep.open(url, embedder="none") as tk:
        await until_learnt(tk)
        words = frozenset(turn.word for turn in load.acknowledged)
        faults = await faults_of(tk, load.acknowledged, repeated=words if killed else frozenset())
        assert not faults, faults


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("rounds", "users"), [(1, 2), pytest.param(10, 4, marks=pytest.mark.soak)])
async def test_every_process_is_replaced_under_load(tmp_path: Path, postgres_url: str, rounds: int, users: int):
    """No acknowledged turn is lost or doubled, and clients see no status but 200 and 503."""
    workers = 1 if rounds == 1 else 2
    codes: list[int] = []
    with fleet(tmp_path, postgres_url, gateways=2, workers=workers) as running:

        def replace_all() -> None:
            for _ in range(rounds):
                for _ in range(2):
                    running.start_gateway()
                    codes.append(running.end_gateway(signal.SIGTERM))
                for _ in range(workers):
                    running.start_worker()
                    codes.append(running.end_worker(signal.SIGTERM))

        load = await run_under_load(running, lambda: asyncio.to_thread(replace_all), users=users)
        await require_kept(load, postgres_url, killed=False)

    assert load.wrong == []
    assert set(load.statuses) <= {200, 503}
    assert sum(turn.learnt for turn in load.acknowledged) > users
    assert set(codes) == {0}


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("kills", "users"), [(20, 2), pytest.param(200, 4, marks=pytest.mark.soak)])
async def test_every_process_is_killed_under_load(tmp_path: Path, postgres_url: str, kills: int, users: int):
    """A client whose stream was cut asks again; what was acknowledged before is there, once."""
    with fleet(tmp_path, postgres_url, gateways=2, workers=2) as running:

        def kill_many() -> None:
            for number in range(kills):
                if number % 2:
                    running.start_worker()
                    running.end_worker(signal.SIGKILL)
                else:
                    running.start_gateway()
                    running.end_gateway(signal.SIGKILL)

        load = await run_under_load(running, lambda: asyncio.to_thread(kill_many), users=users)
        await require_kept(load, postgres_url, killed=True)

    assert load.wrong == []
    assert set(load.statuses) <= {200, 503}
    assert sum(turn.learnt for turn in load.acknowledged) > users
