"""The ways in which a server, or the network before it, breaks; each under load, and what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Final, TypeAlias

from tests.faults.load import PATIENCE_SECONDS, Load
from tests.faults.places import Place
from tests.faults.turns import taking_turns


@dataclass(frozen=True, slots=True)
class Sizes:
    """How often, and for how long, something breaks.

    Attributes:
        times: How often a server is killed, a connection cut, a disk filled.
        stalled_seconds: How long a server stands still.
    """

    times: int = 2
    stalled_seconds: float = 1.0

    @classmethod
    def full(cls) -> Sizes:
        """Return the sizes of the soak."""
        return cls(times=10, stalled_seconds=30.0)


@dataclass(slots=True)
class Outcome:
    """What came of one fault on one storage.

    Attributes:
        storage: ``postgres`` or ``redis``.
        fault: What broke.
        times: How often.
        acknowledged: Commits, and turns, that were.
        unknown: Commits that raised while it was broken.
        lost: Of the acknowledged, those that are not there.
        doubled: Commits that were done twice.
        recovery_seconds: From the moment when the server accepts again until every writer was acknowledged a commit.
        turn_delay_ms: How much longer turns took than the same turns beside them, where turns were taken.
        said: What writers were told meanwhile.
    """

    storage: str
    fault: str
    times: int = 0
    acknowledged: int = 0
    unknown: int = 0
    lost: int = 0
    doubled: int = 0
    recovery_seconds: list[float] = field(default_factory=list[float])
    turn_delay_ms: list[float] = field(default_factory=list[float])
    said: set[str] = field(default_factory=set[str])

    def as_json(self) -> dict[str, Any]:
        """Return the row of the program: the worst of the times."""
        told = asdict(self)
        told["recovery_seconds"] = round(max(self.recovery_seconds), 2) if self.recovery_seconds else None
        told["turn_delay_ms"] = round(max(self.turn_delay_ms)) if self.turn_delay_ms else None
        del told["said"]
        return told


Fault: TypeAlias = Callable[[Place, Sizes, Outcome], Awaitable[None]]


async def killed(place: Place, sizes: Sizes, found: Outcome) -> None:
    """The server's process is killed under load and started again over its data."""
    async with place.opened() as storage:
        load = Load(storage)
        async with load.running():
            for _ in range(sizes.times):
                await load.more(acknowledged=40)
                await place.do(place.server.kill)
                await load.more(unknown=8)
                await place.do(place.server.start)
                found.recovery_seconds.append(await load.recovered())
        await _judge(load, found)


async def cut(place: Place, sizes: Sizes, found: Outcome) -> None:
    """A connection breaks in the middle of a commit: with what was sent, and with the reply to it; then all break."""
    async with place.opened() as storage:
        load = Load(storage)
        async with load.running():
            for turn in range(2 * sizes.times):
                await load.more(acknowledged=20)
                done = place.proxy.cut_at(place.commits, delivered=turn % 2 == 0)
                await load.more(unknown=0 if place.repeats_commits else 1)
                assert await asyncio.to_thread(done.wait, PATIENCE_SECONDS)
                place.proxy.cut()
                found.recovery_seconds.append(await load.recovered())
        await _judge(load, found)


async def stalled(place: Place, sizes: Sizes, found: Outcome) -> None:
    """The server stands still, connections open; turns go on, and what was said in them is learnt afterwards."""
    async with taking_turns(place.server.url) as turns, place.opened() as storage:
        load = Load(storage)
        async with load.running():
            await load.more(acknowledged=40)
            await place.do(place.server.pause)
            try:
                await turns.during(sizes.stalled_seconds)
            finally:
                await place.do(place.server.resume)
            found.recovery_seconds.append(await load.recovered())
        await _judge(load, found)
        found.turn_delay_ms += turns.delays
        found.lost += len(await turns.missing())
        found.acknowledged += len(turns.said)


async def exhausted(place: Place, sizes: Sizes, found: Outcome) -> None:
    """Two connections, both held by calls that nobody answers, and many more who want one."""
    few = "?max_connections=2" if place.kind == "redis" else ""
    chosen = {"postgres_pool_size": 2, "postgres_wait_ms": 200, "redis_timeout_ms": 400}
    async with place.opened(few, **chosen) as storage:
        load = Load(storage, writers=32)
        async with load.running():
            for _ in range(sizes.times):
                await load.more(acknowledged=64)
                await place.do(place.server.pause)
                try:
                    await load.more(unknown=64)
                finally:
                    await place.do(place.server.resume)
                found.recovery_seconds.append(await load.recovered())
        await _judge(load, found)


async def full_disk(place: Place, sizes: Sizes, found: Outcome) -> None:
    """Not a byte is left on the file system of the server's data, until somebody makes room."""
    async with place.opened() as storage:
        load = Load(storage, text="likes tea " * 200)
        async with load.running():
            for _ in range(sizes.times):
                await load.more(acknowledged=40)
                place.fill()
                await load.more(unknown=8)
                place.free()
                await place.up()  # one that cannot keep its promise ends itself
                found.recovery_seconds.append(await load.recovered())
        await _judge(load, found)


FAULTS: Final[dict[str, Fault]] = {
    "killed": killed,
    "cut": cut,
    "stalled": stalled,
    "exhausted": exhausted,
    "full disk": full_disk,
}


def break_it(kind: str, fault: str, sizes: Sizes) -> Outcome:
    """Break a new server of *kind* by *fault*; return what came of it.

    Raises:
        DiskError: It needs a small file system, and none can be mounted here.
    """
    found = Outcome(kind, fault, sizes.times)
    with Place(kind, small_disk=fault == "full disk") as place:
        asyncio.run(FAULTS[fault](place, sizes, found))
    return found


async def _judge(load: Load, found: Outcome) -> None:
    found.acknowledged += len(load.acknowledged)
    found.unknown += load.unknown
    found.said |= load.said
    lost, doubled = await load.verdict()
    found.lost += lost
    found.doubled += doubled
