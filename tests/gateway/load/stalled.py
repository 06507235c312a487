"""A PostgreSQL that stops to answer while users talk, beside a twin whose PostgreSQL goes on."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from time import monotonic
from typing import Final, Literal

import httpx

import threadkeep
from tests.gateway.kept import Acknowledged, Faults, faults_of, until_learnt
from tests.gateway.load.client import Stream, talk_turn
from tests.gateway.load.figures import Figure
from tests.gateway.load.servers import Bench
from tests.gateway.test_serve import Served
from threadkeep.identity import Owner
from threadkeep.settings import Settings

Threads = Literal["elsewhere", "in it"]

CHECKPOINT_SECONDS: Final = 10.0
"""The default timeout of a checkpoint, in seconds."""

ADDED_SECONDS: Final = 0.3
NAMED_SECONDS: Final = 2.0
SLACK_SECONDS: Final = 3.0
"""How long a turn goes on after that timeout: it recalls and ends, each with a timeout of its own."""

KEPT_SECONDS: Final = 120.0
"""How long a busy machine may take until what a stall waits for is seen."""

QUICK: Final = {"EMBEDDINGS_PROVIDER": "none"}


@dataclass(frozen=True, slots=True)
class Pair:
    """A turn at the gateway whose storage stalls, and the same turn at its twin.

    Attributes:
        number: The user.
        thread_id: The thread.
        word: The word that no other message has.
        sent: When it was sent, as time.monotonic tells it.
        stalled: Whether the storage did not answer when it was sent.
        seconds: How long the turn took until its end or its refusal.
        twin_seconds: How long its twin took.
        seen: What came from the gateway.
    """

    number: int
    thread_id: str
    word: str
    sent: float
    stalled: bool
    seconds: float
    twin_seconds: float
    seen: Stream

    @property
    def recorded(self) -> bool:
        """Whether the client was told that the turn is kept."""
        return self.seen.complete and bool((self.seen.done or {}).get("recorded"))


@dataclass
class Stall:
    """What users saw while a storage stalled.

    Attributes:
        users: The numbers of the users.
        pairs: The turns.
        named_after: After how many seconds ``/readyz`` named the storage; ``None``: it did not.
        ready_again: Whether it was ready after the storage went on.
        faults: What is wrong with the turns that the client was told to be kept.
    """

    users: frozenset[int]
    pairs: list[Pair] = field(default_factory=list[Pair])
    named_after: float | None = None
    ready_again: bool = False
    faults: Faults = field(default_factory=Faults)
    _stopped: bool = False
    _ended: bool = False

    @property
    def during(self) -> list[Pair]:
        """The turns that were sent while the storage did not answer."""
        return [pair for pair in self.pairs if pair.stalled]

    @property
    def met(self) -> bool:
        """Whether ``/readyz`` named the storage, and a turn of each user was sent and ended during the stall."""
        return self.named_after is not None and {pair.number for pair in self.during} == self.users

    async def _until_all_kept(self, *, since: float) -> None:
        """Wait until a turn of each user that was sent later than *since* is kept."""
        async with asyncio.timeout(KEPT_SECONDS):
            while {pair.number for pair in self.pairs if pair.recorded and pair.sent > since} != self.users:
                await asyncio.sleep(0.1)

    async def talk(self, bench: Bench, gateway: Served, twin: Served | None, number: int) -> None:
        """Send a turn after the other to both, until the end."""
        headers = bench.provider.headers(f"u{number}")
        for turn in range(10**6):
            if self._ended:
                return
            word, thread_id = f"Town{number}u{turn}", f"t{number}-{turn // 4}"
            sent, stalled = monotonic(), self._stopped
            both = (gateway,) if twin is None else (gateway, twin)
            answers = await asyncio.gather(
                *(_timed(server.origin, f"I like {word}.", thread_id, headers) for server in both)
            )
            (seen, seconds), (_, twin_seconds) = answers[0], answers[-1]
            self.pairs.append(Pair(number, thread_id, word, sent, stalled, seconds, twin_seconds, seen))
            await asyncio.sleep(0.1)

    async def disturb(
        self,
        bench: Bench,
        gateway: Served,
        *,
        before: float,
        seconds: float,
        until: Callable[[Stall], bool],
        after: float,
    ) -> None:
        """Stall PostgreSQL for *seconds* and *until*; all users talked before, and all are kept after."""
        assert bench.postgres is not None
        await asyncio.sleep(before)
        await self._until_all_kept(since=0.0)
        async with httpx.AsyncClient(base_url=gateway.origin, timeout=30) as client:
            await client.get("/readyz")  # the first request for a route builds it, and those before it
        bench.postgres.pause()
        self._stopped, began = True, monotonic()
        try:
            async with (
                asyncio.timeout(seconds + KEPT_SECONDS),
                httpx.AsyncClient(base_url=gateway.origin, timeout=30) as client,
            ):
                while monotonic() - began < seconds or not until(self):
                    response = await client.get("/readyz")
                    if response.json()["storage"] != "ok" and self.named_after is None:
                        assert response.status_code == 503
                        self.named_after = monotonic() - began
                    await asyncio.sleep(0.1)
        finally:
            bench.postgres.resume()
            self._stopped = False
        await asyncio.sleep(after)
        await self._until_all_kept(since=monotonic())
        async with httpx.AsyncClient(base_url=gateway.origin, timeout=30) as client:
            self.ready_again = (await client.get("/readyz")).status_code == 200
        self._ended = True


async def _timed(origin: str, message: str, thread_id: str, headers: dict[str, str]) -> tuple[Stream, float]:
    sent = monotonic()
    seen = await talk_turn(origin, message, thread_id, headers)
    return seen, monotonic() - sent


async def stall_storage(
    threads: Threads,
    *,
    users: int,
    before: float,
    seconds: float,
    after: float,
    until: Callable[[Stall], bool] = lambda stall: stall.met,
    with_twin: bool = True,
    environment: Mapping[str, str] | None = None,
    forked: bool = False,
) -> Stall:
    """Let users talk to a gateway on PostgreSQL that stalls, and to a twin, and check what is kept.

    Args:
        threads: Whether the checkpoints are in the storage that stalls, or in a SQLite file.
        users: How many users.
        before: How many seconds they talk before.
        seconds: How long the storage stalls at least.
        after: How many seconds they talk afterwards.
        until: What the test must have seen before the storage continues.
        with_twin: Whether there is a twin.
        environment: Settings of the gateways.
        forked: Whether the gateway forks from a process that has imported everything.
    """
    settings = {**(environment or {}), **({"LANGGRAPH_CHECKPOINT_TYPE": "sqlite"} if threads == "elsewhere" else {})}
    stall = Stall(frozenset(range(users)))
    with ExitStack() as stack:
        bench = stack.enter_context(Bench(words=5, pause=0.02, postgres=True, environment=settings, forked=forked))
        database, twin = bench.database(), None
        if with_twin:
            other = Bench(words=5, pause=0.02, postgres=True, environment=settings, provider=bench.provider)
            twin = stack.enter_context(other).gateway(other.database())
        gateway = bench.gateway(database)
        talking = [stall.talk(bench, gateway, twin, number) for number in range(users)]
        disturbing = stall.disturb(bench, gateway, before=before, seconds=seconds, until=until, after=after)
        await asyncio.gather(*talking, disturbing)
        async with threadkeep.open(database, embedder="none", settings=Settings.load(capture_workers=0)) as tk:
            await until_learnt(tk)
            owners = {pair.number: Owner(f"u{pair.number}", bench.provider.origin) for pair in stall.pairs}
            kept = [pair for pair in stall.pairs if pair.recorded]
            said = [Acknowledged(owners[pair.number], pair.thread_id, pair.word) for pair in kept]
            stall.faults = await faults_of(tk, said, threads=threads == "in it")
    return stall


async def stalled(*, quick: bool, seconds: float) -> list[Figure]:
    """Stall PostgreSQL for 30 seconds, with checkpoints elsewhere and with checkpoints in it."""
    figures: list[Figure] = []
    wanted: tuple[Threads, ...] = ("elsewhere", "in it")
    for threads in wanted:
        duration = seconds or (3.0 if quick else 30.0)
        stall = await stall_storage(
            threads, users=6, before=3.0, seconds=duration, after=5.0, environment=QUICK if quick else {}
        )
        figures += _figures(threads, stall)
    return figures


def _figures(threads: Threads, stall: Stall) -> list[Figure]:
    name = f"checkpoints {threads}"
    statuses = Counter(pair.seen.status for pair in stall.pairs)
    silent = [pair for pair in stall.pairs if pair.seen.status == 503 and not pair.seen.retries]
    broken = [pair for pair in stall.pairs if pair.seen.status not in (200, 503)]
    added = sorted(pair.seconds - pair.twin_seconds for pair in stall.during)
    waited = max(pair.seconds for pair in stall.pairs)
    named = 1e9 if stall.named_after is None else stall.named_after
    late = [
        Figure(f"{name}: added to a turn, median, s", added[len(added) // 2]),
        Figure(f"{name}: added to a turn, most, s", added[-1], ADDED_SECONDS if threads == "elsewhere" else None),
    ]
    longest = CHECKPOINT_SECONDS + SLACK_SECONDS
    return [
        Figure(f"{name}: turns", len(stall.pairs)),
        Figure(f"{name}: – while it stalled", len(stall.during)),
        *(Figure(f"{name}: – with status {status}", number) for status, number in sorted(statuses.items())),
        Figure(f"{name}: – answered and kept", sum(pair.recorded for pair in stall.pairs)),
        Figure(f"{name}: – answered to the end", sum(pair.seen.complete for pair in stall.pairs)),
        *late,
        Figure(f"{name}: longest turn, s", waited, longest),
        Figure(f"{name}: readyz names it after, s", named, NAMED_SECONDS),
        Figure(f"{name}: not ready again", not stall.ready_again, 0),
        Figure(f"{name}: neither 200 nor 503", len(broken), 0),
        Figure(f"{name}: 503 without Retry-After", len(silent), 0),
        Figure(f"{name}: lost", len(stall.faults.lost), 0),
        Figure(f"{name}: doubled", len(stall.faults.doubled), 0),
        Figure(f"{name}: misread", len(stall.faults.misread), 0),
    ]
