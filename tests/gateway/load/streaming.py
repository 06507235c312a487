"""The cost of a turn, of a word on its way, and of a live stream, on SQLite."""

from __future__ import annotations

import asyncio
import statistics
from typing import Final

from tests.gateway.load.client import Stream, stream_turn
from tests.gateway.load.figures import Figure, cpu_seconds, resident_megabytes
from tests.gateway.load.servers import Bench
from tests.gateway.test_serve import Served

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
SETTLED_SECONDS: Final = 120.0
ROUNDS: Final = 3

CPU_ANSWERED: Final = 2.5
CPU_LEARNT: Final = 3.5
ADDED_DELAY: Final = 0.1
MEMORY: Final = 1.5
GROWTH: Final = 0.05


def message_of(owner: int, turn: int, salt: str) -> str:
    """Return a message that no other turn has: a question after each statement."""
    city = CITIES[(owner + turn) % 10]
    if turn % 2:
        return f"Which tool do we deploy with, and what did I say about {city} in note {salt}{owner}-{turn}?"
    return f"We deploy with {TOOLS[(owner + turn) % 10]} and I work from {city}, note {salt}{owner}-{turn}."


async def run_turns(bench: Bench, server: Served, salt: str, *, owners: int, turns: int, at_once: int) -> list[Stream]:
    """Run *turns* turns of each owner, *at_once* at a time."""
    gate = asyncio.Semaphore(at_once)

    async def user(owner: int) -> list[Stream]:
        headers = bench.provider.headers(f"u{owner}")
        seen: list[Stream] = []
        for turn in range(turns):
            async with gate:
                text = message_of(owner, turn, salt)
                seen.append(await stream_turn(server.origin, text, f"{owner}-{salt}", headers))
        return seen

    return [one for seen in await asyncio.gather(*map(user, range(owners))) for one in seen]


async def begin_streams(
    bench: Bench, server: Served, salt: str, owners: int
) -> tuple[list[Stream], asyncio.Future[list[Stream]]]:
    """Begin a turn of each owner; return what comes, and the task that waits for the ends."""
    seen = [Stream() for _ in range(owners)]
    headers = [bench.provider.headers(f"u{owner}") for owner in range(owners)]
    turns = [
        stream_turn(server.origin, message_of(owner, 0, salt), f"{owner}-{salt}", headers[owner], seen[owner])
        for owner in range(owners)
    ]
    ended = asyncio.gather(*turns)
    while not ended.done() and not all(one.delays or one.status not in (0, 200) for one in seen):
        await asyncio.sleep(0.2)
    return seen, ended


async def until_settled(server: Served) -> None:
    """Wait until a server has nothing more to do: what it learns from comes after the turns."""
    for _ in range(int(SETTLED_SECONDS)):
        before = cpu_seconds(server.process.pid)
        await asyncio.sleep(1)
        if cpu_seconds(server.process.pid) - before < 0.05:
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
                before = cpu_seconds(server.process.pid)
                seen = await run_turns(bench, server, f"r{number}x", **size)
                await until_settled(server)
                failed += sum(not one.complete or bool(one.degraded) for one in seen)
                if number:  # the first round warms up
                    spent[name].append((cpu_seconds(server.process.pid) - before) / count * 1000)
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
            await run_turns(bench, server, "warm", owners=5, turns=1, at_once=5)
            before = resident_megabytes(server.process.pid)
            seen, ended = await begin_streams(bench, server, "live", owners)
            begun = [len(one.delays) for one in seen]
            await asyncio.sleep(duration / 3)
            memory[name] = (resident_megabytes(server.process.pid) - before) / owners * 1000
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
            seen, ended = await begin_streams(bench, server, "long", owners)
            await asyncio.sleep(duration / 5)
            held[name], sent = resident_megabytes(server.process.pid), sum(one.size for one in seen)
            while not any(one.done for one in seen) and not ended.done():
                grown[name] = resident_megabytes(server.process.pid) - held[name]
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
