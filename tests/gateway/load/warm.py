"""More owners than fit into RAM: how many recalls load one, with more processes and with affinity.

Recalls ask for owners by Zipf's law. They reach a process at random, or each owner always the same one.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from statistics import median
from typing import Any, Final, Literal

import threadkeep
from tests.gateway.load.figures import Figure
from tests.servers import empty_postgres_database
from threadkeep.memories.models import NewMemory
from threadkeep.process_state import ProcessMonitor
from threadkeep.settings import Settings
from threadkeep.testing import HashingEmbedder
from threadkeep_conformance.servers import PostgresServer

Routing = Literal["at random", "by owner"]

PROCESSES: Final = (1, 2, 4)
MEMORIES: Final = 20
DIMS: Final = 384
AT_ONCE: Final = 16
PATIENT: Final = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured.

    Attributes:
        owners: How many owners, each with 20 memories.
        recalls: How many recalls; the first half fills the indexes and is not counted.
        megabytes: The bound of the indexes of each process.
    """

    owners: int = 10_000
    recalls: int = 8_000
    megabytes: int = 64


QUICK: Final = Sizes(owners=200, recalls=400, megabytes=2)


@dataclass(frozen=True, slots=True)
class Recalled:
    """A recall of a process.

    Attributes:
        cold: Whether it loaded the owner's index.
        seconds: How long it took.
        index_bytes: RAM of the process's indexes after it.
    """

    cold: bool
    seconds: float
    index_bytes: int


async def warm(*, quick: bool, seconds: float) -> list[Figure]:
    """Measure the share of recalls that load an index, what they take, and how many owners stay in RAM."""
    del seconds
    sizes, figures = QUICK if quick else Sizes(), list[Figure]()
    with PostgresServer({"max_connections": "200"}) as server:
        url = empty_postgres_database(server.url)
        await _fill(url, sizes.owners)
        size = await _bytes_of_an_owner(url)
        figures += [
            Figure("owners", sizes.owners),
            Figure("RAM of an owner's index, kB", size / 1000),
            Figure("owners that fit into a process", sizes.megabytes * 1_048_576 / size),
        ]
        routings: tuple[Routing, ...] = ("at random", "by owner")
        for processes in PROCESSES:
            for routing in routings[: 1 if processes == 1 else 2]:
                recalled = await _ask(url, _routed(sizes, processes, routing), sizes.megabytes)
                figures += _figures(f"{processes} processes, {routing}", recalled, sizes)
    return figures


def _figures(name: str, recalled: Sequence[Recalled], sizes: Sizes) -> list[Figure]:
    times = {cold: [one.seconds * 1000 for one in recalled if one.cold == cold] or [0.0] for cold in (True, False)}
    most = max(one.index_bytes for one in recalled) / 1_048_576
    return [
        Figure(f"{name}: recalls that load an index, %", 100 * sum(one.cold for one in recalled) / len(recalled)),
        Figure(f"{name}: – median of these, ms", median(times[True])),
        Figure(f"{name}: – median of the others, ms", median(times[False])),
        Figure(f"{name}: – RAM of a process's indexes, most, MB", most, sizes.megabytes),
    ]


def _routed(sizes: Sizes, processes: int, routing: Routing) -> list[list[int]]:
    """Return the owners that each process is asked for, in order."""
    chance = random.Random(1)
    weights = [1 / rank for rank in range(1, sizes.owners + 1)]
    asked: list[list[int]] = [[] for _ in range(processes)]
    for owner in chance.choices(range(sizes.owners), weights, k=sizes.recalls):
        asked[owner % processes if routing == "by owner" else chance.randrange(processes)].append(owner)
    return asked


async def _ask(url: str, asked: Sequence[Sequence[int]], megabytes: int) -> list[Recalled]:
    """Let a process for each of *asked* recall for its owners, all at the same time; none outlives this call."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[list[Recalled]]] = loop.create_future()

    def succeed(rows: list[list[Recalled]]) -> None:
        loop.call_soon_threadsafe(answer.set_result, rows)

    def fail(error: BaseException) -> None:
        loop.call_soon_threadsafe(answer.set_exception, error)

    context = multiprocessing.get_context("spawn")
    given = [(url, owners, megabytes) for owners in asked]
    with context.Pool(len(asked)) as pool:
        pool.starmap_async(_recall_all, given, 1, succeed, fail)
        return [one for row in await answer for one in row]


def _recall_all(url: str, owners: Sequence[int], megabytes: int) -> list[Recalled]:
    return asyncio.run(_recall_each(url, owners, megabytes))


async def _recall_each(url: str, owners: Sequence[int], megabytes: int) -> list[Recalled]:
    found: list[Recalled] = []
    async with _opened(url, megabytes) as tk:
        for place, owner in enumerate(owners):
            before, began = _loads(tk), time.monotonic()
            await tk.recall(f"Which town is number {place % MEMORIES}?", owner=_name(owner), timeout=PATIENT)
            if place >= len(owners) // 2:
                seconds = time.monotonic() - began
                found.append(Recalled(_loads(tk) > before, seconds, ProcessMonitor(tk.app).state().index_bytes))
    return found


def _loads(tk: threadkeep.Threadkeep) -> int:
    return tk.app.telemetry.counts().get("index.loaded", 0)


async def _bytes_of_an_owner(url: str) -> float:
    """Return how much RAM an owner's index takes."""
    async with _opened(url, 512) as tk:
        for owner in range(AT_ONCE):
            await tk.recall("Which town?", owner=_name(owner), timeout=PATIENT)
        return ProcessMonitor(tk.app).state().index_bytes / AT_ONCE


async def _fill(url: str, owners: int) -> None:
    """Give each owner memories."""
    async with _opened(url, 1) as tk:
        await tk.ready()

        async def remember(owner: int) -> None:
            texts = [f"Owner {owner} has lived in town number {number}." for number in range(MEMORIES)]
            await tk.memories.remember_many([NewMemory(text) for text in texts], owner=_name(owner))

        for first in range(0, owners, AT_ONCE):
            await asyncio.gather(*(remember(owner) for owner in range(first, min(first + AT_ONCE, owners))))


def _name(owner: int) -> str:
    return f"owner{owner}"


def _opened(url: str, megabytes: int) -> Any:
    wait = int(PATIENT.total_seconds() * 1000)
    settings = Settings.load(index_megabytes=megabytes, capture="off", postgres_wait_ms=wait)
    return threadkeep.open(url, settings=settings, embedder=HashingEmbedder(dims=DIMS))
