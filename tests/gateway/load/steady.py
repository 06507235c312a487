"""A gateway under steady load with clients that leave, models that fail, connections that break and users who erase.

What its process holds may not grow: memory, connections, tasks of its event loops, threads and open files.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from statistics import mean
from time import monotonic, sleep
from typing import Any, Final, LiteralString, NamedTuple

import httpx
import psutil
import psycopg

from tests.gateway.load.agent import BROKEN, TASKS_FILE
from tests.gateway.load.client import talk_turn
from tests.gateway.load.figures import Figure, resident_megabytes
from tests.gateway.load.servers import Bench
from tests.gateway.test_serve import Served

USERS: Final = 8
SECONDS: Final = 600.0
QUICK_SECONDS: Final = 6.0
SAMPLES: Final = 100
WARM: Final = 0.6
"""The share of the time after which nothing may grow: events of ended runs are kept for five minutes."""

LEAVE, FAIL, ERASE = 0.1, 0.05, 0.02
"""The shares of turns in which the client leaves or the model fails, and after which the user erases everything."""

BREAKS: Final = 20
"""How often all connections to PostgreSQL are broken."""

GROWTH: Final = 0.05


class Held(NamedTuple):
    """What a process holds at a moment."""

    megabytes: float
    connections: int
    tasks: int
    threads: int
    files: int


@dataclass
class Steady:
    """Users of one gateway on PostgreSQL, and what its process held meanwhile."""

    bench: Bench
    server: Served
    database: str
    tasks_file: Path
    turns: Counter[str] = field(default_factory=Counter[str])
    held: list[Held] = field(default_factory=list[Held])

    async def user(self, number: int, until: float) -> None:
        """Talk until then; every turn in the thread of the last one, until the client leaves or erases."""
        random, thread = Random(number), 0
        for turn in count():
            if monotonic() > until:
                return
            kind = random.choices(["answered", "left", "failed"], [1 - LEAVE - FAIL, LEAVE, FAIL])[0]
            headers = self.bench.provider.headers(f"u{number}")
            seen = await talk_turn(
                self.server.origin,
                f"I like Town{number}n{turn}." + (BROKEN if kind == "failed" else ""),
                f"{number}-{thread}",
                headers,
                leave_after=2 if kind == "left" else None,
            )
            as_expected = seen.complete if kind == "answered" else seen.status == 200
            self.turns[kind if as_expected else f"{kind} and not, with status {seen.status}"] += 1
            thread += kind != "answered" or turn % 10 == 0
            if random.random() < ERASE:
                await self._erase(headers)
            await asyncio.sleep(random.expovariate(2))

    async def _erase(self, headers: dict[str, str]) -> None:
        async with httpx.AsyncClient(base_url=self.server.origin, timeout=60) as client:
            response = await client.post("/api/me/erase", headers=headers)
        self.turns["erased" if response.status_code == 200 else f"erase with status {response.status_code}"] += 1

    async def break_connections(self, seconds: float) -> None:
        """Break every connection of the gateway, again and again."""
        for _ in range(BREAKS):
            await asyncio.sleep(seconds / (BREAKS + 1))
            await asyncio.to_thread(self._on_postgres, "SELECT pg_terminate_backend(pid)")

    async def watch(self, seconds: float) -> None:
        """Note what the gateway holds, a hundred times."""
        for _ in range(SAMPLES):
            await asyncio.sleep(seconds / SAMPLES)
            self.held.append(await asyncio.to_thread(self._sample))

    def _sample(self) -> Held:
        pid = self.server.process.pid
        self.tasks_file.unlink(missing_ok=True)
        os.kill(pid, signal.SIGUSR1)
        connections = len(self._on_postgres("SELECT pid"))
        while not self.tasks_file.exists():
            assert self.server.process.poll() is None
            sleep(0.01)
        process = psutil.Process(pid)
        tasks = int(self.tasks_file.read_text())
        return Held(resident_megabytes(pid), connections, tasks, process.num_threads(), process.num_fds())

    def _on_postgres(self, selected: LiteralString) -> list[Any]:
        others = " FROM pg_stat_activity WHERE datname = current_database() AND application_name <> 'watch'"
        with psycopg.connect(self.database, autocommit=True, application_name="watch") as connection:
            return connection.execute(selected + others).fetchall()


async def steady(*, quick: bool, seconds: float) -> list[Figure]:
    """Measure what a gateway holds under steady load, after three fifths of the time and at the end."""
    seconds = seconds or (QUICK_SECONDS if quick else SECONDS)
    with Bench(words=10, pause=0.02, postgres=True, environment={"EMBEDDINGS_PROVIDER": "none"}) as bench:
        database, tasks_file = bench.database(), bench.folder() / "tasks"
        server = bench.gateway(database, **{TASKS_FILE: str(tasks_file)})
        load = Steady(bench, server, database, tasks_file)
        until = monotonic() + seconds
        users = (load.user(number, until) for number in range(USERS))
        await asyncio.gather(load.watch(seconds), load.break_connections(seconds), *users)
    tenth = len(load.held) // 10
    warm = int(len(load.held) * WARM)
    before, after = _mean(load.held[warm - tenth : warm]), _mean(load.held[-tenth:])
    figures = [Figure(f"turns: {kind}", number) for kind, number in sorted(load.turns.items())]
    for name, old, new in zip(Held._fields, before, after, strict=True):
        figures += [Figure(f"{name}, after three fifths", old), Figure(f"{name}, at the end", new)]
        figures.append(Figure(f"{name}, grown, share", new / max(old, 1.0) - 1, GROWTH))
    return figures


def _mean(held: Sequence[Held]) -> list[float]:
    return [mean(values) for values in zip(*held, strict=True)]
