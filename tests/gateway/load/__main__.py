"""Measure ``threadkeep serve`` beside the same agent with LangGraph's saver on a bare FastAPI application.

    python -m tests.gateway.load [overhead] [latency] [streams] [--quick] [--seconds N]

Servers are processes of their own on SQLite with full synchronisation; the client reads bare sockets. A part prints its
figures beside their limits and fails if one is missed. ``--quick`` shows that it runs, and judges nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Coroutine, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from rich.console import Console

from tests.gateway.load.client import Stream, stream_turn
from tests.gateway.oidc import AUDIENCE, OidcProvider
from tests.gateway.test_serve import Served, bare_server, served

TICKS: Final = os.sysconf("SC_CLK_TCK")
CITIES: Final = ["Lisbon", "Porto", "Ghent", "Turin", "Cork", "Bergen", "Malmo", "Graz", "Tartu", "Split"]
TOOLS: Final = [
    "Argo",
    "Flux",
    "Jenkins",
    "Spinnaker",
    "Buildkite",
    "Tekton",
    "Drone",
    "Concourse",
    "Harness",
    "Puppet",
]
MAX_RUNS: Final = 4_000
SETTLED_SECONDS: Final = 120.0
ROUNDS: Final = 3

CPU_ANSWERED: Final = 2.5
CPU_LEARNT: Final = 3.5
ADDED_DELAY: Final = 0.1
MEMORY: Final = 1.5
GROWTH: Final = 0.05


class Figure(NamedTuple):
    """A measured figure and its limit."""

    name: str
    value: float
    limit: float | None = None

    @property
    def holds(self) -> bool:
        """Whether the figure is within its limit."""
        return self.limit is None or self.value <= self.limit

    def __str__(self) -> str:
        limit = "" if self.limit is None else f"  (at most {self.limit:g}{'' if self.holds else ', MISSED'})"
        return f"{self.name:42} {self.value:10.3f}{limit}"


class Bench:
    """The servers of a part, started with the same agent.

    Args:
        words: How many words a reply has.
        pause: The seconds before each.
    """

    def __init__(self, *, words: int, pause: float) -> None:
        self._stack = ExitStack()
        self._paced = {"LOAD_WORDS": str(words), "LOAD_PAUSE": str(pause), "PYTHONPATH": os.pathsep.join(sys.path)}
        self.provider = self._stack.enter_context(OidcProvider())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def _folder(self) -> Path:
        return Path(self._stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))

    def bare(self) -> Served:
        """Start the bare application."""
        folder = self._folder()
        database = {"LOAD_DATABASE": str(folder / "bare.db")}
        return self._stack.enter_context(bare_server(folder, "tests.gateway.load.agent:bare", self._paced | database))

    def gateway(self, **environment: str) -> Served:
        """Start the gateway with the default embedder."""
        variables = {
            "EMBEDDINGS_PROVIDER": "",
            "THREADKEEP_SINGLE_USER": "",
            "THREADKEEP_ISSUERS": self.provider.origin,
            "THREADKEEP_AUDIENCE": AUDIENCE,
            "THREADKEEP_MAX_RUNS": str(MAX_RUNS),
            **self._paced,
            **environment,
        }
        return self._stack.enter_context(
            served(self._folder(), "--graph", "tests.gateway.load.agent:graph", **variables)
        )

    async def turns(self, server: Served, salt: str, *, owners: int, turns: int, at_once: int) -> list[Stream]:
        """Run *turns* turns of each owner, *at_once* at a time."""
        gate = asyncio.Semaphore(at_once)

        async def user(owner: int) -> list[Stream]:
            headers = self.provider.headers(f"u{owner}")
            seen: list[Stream] = []
            for turn in range(turns):
                async with gate:
                    text = message_of(owner, turn, salt)
                    seen.append(await stream_turn(server.origin, text, f"{owner}-{salt}", headers))
            return seen

        return [one for seen in await asyncio.gather(*map(user, range(owners))) for one in seen]

    async def live(self, server: Served, salt: str, owners: int) -> tuple[list[Stream], asyncio.Future[list[Stream]]]:
        """Begin a turn of each owner; return what comes, and the task that waits for the ends."""
        seen = [Stream() for _ in range(owners)]
        headers = [self.provider.headers(f"u{owner}") for owner in range(owners)]
        turns = [
            stream_turn(server.origin, message_of(owner, 0, salt), f"{owner}-{salt}", headers[owner], seen[owner])
            for owner in range(owners)
        ]
        ended = asyncio.gather(*turns)
        while not ended.done() and not all(one.delays or one.status not in (0, 200) for one in seen):
            await asyncio.sleep(0.2)
        return seen, ended


def message_of(owner: int, turn: int, salt: str) -> str:
    """Return a message that no other turn has: a question after each statement."""
    city = CITIES[(owner + turn) % 10]
    if turn % 2:
        return f"Which tool do we deploy with, and what did I say about {city} in note {salt}{owner}-{turn}?"
    return f"We deploy with {TOOLS[(owner + turn) % 10]} and I work from {city}, note {salt}{owner}-{turn}."


def cpu_seconds(server: Served) -> float:
    """Return the processor time of a server so far."""
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident_megabytes(server: Served) -> float:
    """Return how much memory a server holds."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return next(int(line.split()[1]) / 1000 for line in status.splitlines() if line.startswith("VmRSS"))


async def until_settled(server: Served) -> None:
    """Wait until a server has nothing more to do: what it learns from comes after the turns."""
    for _ in range(int(SETTLED_SECONDS)):
        before = cpu_seconds(server)
        await asyncio.sleep(1)
        if cpu_seconds(server) - before < 0.05:
            return


async def overhead(*, quick: bool, seconds: float) -> list[Figure]:
    """Measure the CPU time of a turn: bare, answered with memory, and learnt from."""
    del seconds
    size = {"owners": 4, "turns": 2, "at_once": 4} if quick else {"owners": 40, "turns": 5, "at_once": 20}
    count = size["owners"] * size["turns"]
    with Bench(words=20, pause=0) as bench:
        servers = {
            "bare": bench.bare(),
            "answered": bench.gateway(THREADKEEP_CAPTURE_WORKERS="0"),
            "learnt": bench.gateway(),
        }
        spent: dict[str, list[float]] = {name: [] for name in servers}
        failed = 0
        for number in range(1 + (1 if quick else ROUNDS)):
            for name, server in servers.items():
                before = cpu_seconds(server)
                seen = await bench.turns(server, f"r{number}x", **size)
                await until_settled(server)
                failed += sum(not one.complete or bool(one.degraded) for one in seen)
                if number:  # the first round warms up
                    spent[name].append((cpu_seconds(server) - before) / count * 1000)
    cost = {name: statistics.median(values) for name, values in spent.items()}
    return [
        *(Figure(f"CPU of a turn, {name}, ms", value) for name, value in cost.items()),
        Figure("CPU beside bare, answered", cost["answered"] / cost["bare"], CPU_ANSWERED),
        Figure("CPU beside bare, learnt from", cost["learnt"] / cost["bare"], CPU_LEARNT),
        Figure("turns that failed or were degraded", failed, 0),
    ]


async def latency(*, quick: bool, seconds: float) -> list[Figure]:
    """Measure how long a word takes from the model to the client, and the memory of a stream."""
    owners, duration = (10, 3.0) if quick else (200, seconds or 40.0)
    delays: dict[str, float] = {}
    memory: dict[str, float] = {}
    failed = 0
    with Bench(words=int(duration * 5), pause=0.2) as bench:
        for name, start in (("bare", bench.bare), ("gateway", bench.gateway)):
            server = start()
            await bench.turns(server, "warm", owners=5, turns=1, at_once=5)
            before = resident_megabytes(server)
            seen, ended = await bench.live(server, "live", owners)
            begun = [len(one.delays) for one in seen]
            await asyncio.sleep(duration / 3)
            memory[name] = (resident_megabytes(server) - before) / owners * 1000
            failed += sum(not one.complete for one in await ended)
            # until the last stream began, admission and the first turns share the processor with the words
            words = [delay for one, first in zip(seen, begun, strict=True) for delay in one.delays[first:]]
            delays[name] = statistics.quantiles(words, n=100)[98]
    added = delays["gateway"] - delays["bare"]
    return [
        *(Figure(f"a word to the client, p99, {name}, ms", value * 1000) for name, value in delays.items()),
        Figure("added to a word, p99, ms", added * 1000, ADDED_DELAY * 1000),
        *(Figure(f"memory of a live stream, {name}, kB", value) for name, value in memory.items()),
        Figure("memory beside bare", memory["gateway"] / memory["bare"], MEMORY),
        Figure("streams that failed", failed, 0),
    ]


async def streams(*, quick: bool, seconds: float) -> list[Figure]:
    """Keep 1,000 streams alive; after a fifth of the time, only LangGraph and the events of runs may grow."""
    owners, duration = (20, 6.0) if quick else (1_000, seconds or 600.0)
    pause = 1.0 if quick else 5.0
    kept = 0.0
    failed: dict[str, int] = {}
    held: dict[str, float] = {}
    grown: dict[str, float] = {}
    with Bench(words=int(duration / pause), pause=pause) as bench:
        for name, start in (("bare", bench.bare), ("gateway", bench.gateway)):
            server = start()
            seen, ended = await bench.live(server, "long", owners)
            await asyncio.sleep(duration / 5)
            held[name], sent = resident_megabytes(server), sum(one.size for one in seen)
            while not any(one.done for one in seen) and not ended.done():
                grown[name] = resident_megabytes(server) - held[name]
                kept = (sum(one.size for one in seen) - sent) / 1e6
                await asyncio.sleep(0.5)
            failed[name] = sum(not one.complete for one in await ended)
    beyond = max(0.0, grown["gateway"] - grown["bare"] - kept) / held["gateway"]
    return [
        Figure("streams", owners),
        Figure("streams that failed, bare", failed["bare"]),
        Figure("streams that failed, gateway", failed["gateway"], 0),
        *(Figure(f"memory after a fifth, {name}, MB", value) for name, value in held.items()),
        *(Figure(f"grown after that, {name}, MB", value) for name, value in grown.items()),
        Figure("events that clients may join, MB", kept),
        Figure("grown beyond bare and events, share", beyond, GROWTH),
    ]


PARTS: Final[dict[str, Callable[..., Coroutine[Any, Any, list[Figure]]]]] = {
    "overhead": overhead,
    "latency": latency,
    "streams": streams,
}


def main(words: Sequence[str] | None = None) -> int:
    """Run the parts that are named, or all; return 1 if a figure misses its limit."""
    parser = argparse.ArgumentParser(prog="python -m tests.gateway.load", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"only these, of {', '.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    parser.add_argument("--seconds", type=float, default=0.0, help="how long streams live")
    given = parser.parse_args(words)
    if unknown := [name for name in given.parts if name not in PARTS]:
        parser.error(f"there is no part {unknown[0]!r}; there are {', '.join(PARTS)}")
    console, missed = Console(), False
    for name in given.parts or PARTS:
        console.print(f"== {name}")
        for figure in asyncio.run(PARTS[name](quick=given.quick, seconds=given.seconds)):
            missed |= not figure.holds
            console.print(str(figure), highlight=False)
    return int(missed and not given.quick)


if __name__ == "__main__":
    sys.exit(main())
