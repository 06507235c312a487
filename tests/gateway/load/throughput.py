"""Turns per second on PostgreSQL beside the bare application, and with more processes on one database."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median, quantiles
from typing import Final

from rich.console import Console
from rich.table import Table

import threadkeep
from tests.gateway.kept import Acknowledged, Faults, faults_of, until_learnt
from tests.gateway.load.figures import Figure, cpu_of_all
from tests.gateway.load.profile import Profile, Talk, TalkedTurn, load_profile
from tests.gateway.load.servers import Bench
from threadkeep.identity import Owner
from threadkeep.settings import Settings
from threadkeep_evals.plot import Chart, Series
from threadkeep_evals.tables import draw, markdown

LEAST: Final = {"worker beside": 0.5, "learning inside": 0.4}
GROWTH: Final = 0.15
MOVED_TURNS: Final = 2_000
MOVED_TURNS_QUICK: Final = 60
MOVING_GATEWAYS: Final = 4
KINDS: Final = ("bare", "worker beside", "learning inside")
QUICK: Final = {"EMBEDDINGS_PROVIDER": "none"}


@dataclass(frozen=True, slots=True)
class Measured:
    """What a number of users saw of some servers.

    Attributes:
        name: The servers.
        users: How many users talked at once.
        per_second: Turns that ended in a second.
        first_word: Seconds to the first word, the median and of the slowest in a hundred.
        whole: Seconds of a whole turn, the same.
        cpu: Processor seconds of a turn: servers, workers and PostgreSQL together.
        lag: Seconds until the last turn was learnt from, after the last one ended.
        degraded: How many turns were answered with less.
        unanswered: The turns that failed.
    """

    name: str
    users: int
    per_second: float
    first_word: tuple[float, float]
    whole: tuple[float, float]
    cpu: float
    lag: float
    degraded: int
    unanswered: tuple[TalkedTurn, ...]

    @property
    def failed(self) -> int:
        """How many turns were not answered."""
        return len(self.unanswered)


@dataclass(frozen=True, slots=True)
class Fleet:
    """Servers on one database.

    Attributes:
        name: What they are.
        database: The URL of the database.
        origins: Where they listen.
        pids: All processes whose time counts.
        learns: Whether anything learns.
    """

    name: str
    database: str
    origins: tuple[str, ...]
    pids: tuple[int, ...]
    learns: bool = True


async def throughput(
    *, quick: bool, seconds: float, profile: str | None, console: Console, plot: Path | None
) -> list[Figure]:
    """Measure turns per second: bare, with a worker beside the gateway, and learning inside it."""
    talked = _profile(profile or ("quick" if quick else "chat"), seconds)
    rows: list[Measured] = []
    for kind in KINDS[:2] if quick else KINDS:
        with _bench(talked, quick=quick) as bench:
            fleet = _start(bench, kind, gateways=1)
            for users in talked.users:
                rows.append(await _measure(bench, fleet, talked, users))
                console.print(_row(rows[-1]), highlight=False, soft_wrap=True)
    console.print(markdown(_table(rows)), soft_wrap=True)
    refused = Counter(turn.seen.status for row in rows for turn in row.unanswered)
    console.print(f"status of turns that failed: {dict(refused)}")
    if plot is not None:
        draw(_chart(rows), plot)
    best = {name: max(row.per_second for row in rows if row.name == name) for name in {row.name for row in rows}}
    return [
        *(Figure(f"turns per second, most, {name}", value) for name, value in best.items()),
        *(
            Figure(f"beside bare, {name}", best[name] / best["bare"], least=LEAST[name])
            for name in best
            if name in LEAST
        ),
        Figure("turns that were degraded", sum(row.degraded for row in rows), 0),
        Figure("turns that failed", sum(row.failed for row in rows), 0),
    ]


async def scaling(
    *, quick: bool, seconds: float, profile: str | None, console: Console, plot: Path | None
) -> list[Figure]:
    """Measure the CPU time of a turn with 1, 2 and 4 gateways."""
    del plot
    talked = _profile(profile or ("quick" if quick else "steady"), seconds)
    rows: list[Measured] = []
    for gateways in (1, 2) if quick else (1, 2, 4):
        with _bench(talked, quick=quick) as bench:
            fleet = _start(bench, "worker beside", gateways=gateways)
            rows.append(await _measure(bench, fleet, talked, talked.users[0]))
            console.print(_row(rows[-1]), highlight=False, soft_wrap=True)
    console.print(markdown(_table(rows)), soft_wrap=True)
    return [
        *(Figure(f"CPU of a turn, {row.name}, ms", row.cpu * 1000) for row in rows),
        Figure("growth of the CPU of a turn", rows[-1].cpu / rows[0].cpu - 1, GROWTH),
        Figure("turns that were degraded", sum(row.degraded for row in rows), 0),
        Figure("turns that failed", sum(row.failed for row in rows), 0),
    ]


async def moving(
    *, quick: bool, seconds: float, profile: str | None, console: Console, plot: Path | None
) -> list[Figure]:
    """Check 2,000 turns whose owner moves between gateways: each is kept once, and read by its owner alone."""
    del plot
    talked = _profile(profile or ("quick" if quick else "steady"), seconds)
    with _bench(talked, quick=quick) as bench:
        fleet = _start(bench, "worker beside", gateways=2 if quick else MOVING_GATEWAYS)
        moved, faults = await _move(bench, fleet, talked, MOVED_TURNS_QUICK if quick else MOVED_TURNS)
    foreign = [text for turn in moved for text in turn.foreign]
    for fault in (*faults.lost, *faults.doubled, *faults.misread, *foreign)[:20]:
        console.print(fault, highlight=False)
    return [
        Figure("turns of owners that move", len(moved)),
        Figure("– failed or degraded", sum(turn.failed or bool(turn.seen.degraded) for turn in moved), 0),
        Figure("– lost", len(faults.lost), 0),
        Figure("– doubled", len(faults.doubled), 0),
        Figure("– misread, or another owner's", len(faults.misread) + len(foreign), 0),
    ]


def _profile(name: str, seconds: float) -> Profile:
    profile = load_profile(name)
    return replace(profile, seconds=seconds) if seconds else profile


def _bench(profile: Profile, *, quick: bool) -> Bench:
    pause = 1 / profile.words_per_second
    return Bench(words=profile.words, pause=pause, postgres=True, environment=QUICK if quick else {}, forked=quick)


def _start(bench: Bench, kind: str, *, gateways: int) -> Fleet:
    """Start servers on a new database."""
    database = bench.database()
    assert bench.postgres is not None
    assert bench.postgres.process is not None
    postgres = bench.postgres.process.pid
    if kind == "bare":
        bare = bench.bare(database)
        return Fleet(kind, database, (bare.origin,), (bare.process.pid, postgres), learns=False)
    inside = kind == "learning inside"
    workers = {} if inside else {"THREADKEEP_CAPTURE_WORKERS": "0"}
    servers = [bench.gateway(database, **workers) for _ in range(gateways)]
    pids = [postgres, *(server.process.pid for server in servers)]
    if not inside:
        pids.append(bench.worker(database).pid)
    name = kind if gateways == 1 else f"{gateways} gateways, {kind}"
    return Fleet(name, database, tuple(server.origin for server in servers), tuple(pids))


async def _measure(bench: Bench, fleet: Fleet, profile: Profile, users: int) -> Measured:
    """Let users talk, and wait until their turns are learnt from."""
    talk = Talk(fleet.origins, profile, bench.provider.headers, f"s{users}")
    before = cpu_of_all(fleet.pids)
    counted = await talk.run(users)
    lag = await _settle(fleet)
    spent = cpu_of_all(fleet.pids) - before
    ended = [turn for turn in talk.turns if counted <= turn.ended < counted + profile.seconds]
    answered = [turn for turn in ended if turn.seen.complete]
    return Measured(
        fleet.name,
        users,
        len(ended) / profile.seconds,
        _spread([turn.seen.spoke - turn.sent for turn in answered]),
        _spread([turn.ended - turn.sent for turn in answered]),
        spent / len(talk.turns),
        lag,
        sum(bool(turn.seen.degraded) for turn in talk.turns),
        tuple(turn for turn in talk.turns if turn.failed),
    )


async def _settle(fleet: Fleet) -> float:
    """Wait until everything is learnt, and return how many seconds that took."""
    if not fleet.learns:
        return 0.0
    async with _memory(fleet) as tk:
        return await until_learnt(tk)


def _memory(fleet: Fleet) -> threadkeep.Threadkeep:
    return threadkeep.open(fleet.database, embedder="none", settings=Settings.load(capture_workers=0))


async def _move(bench: Bench, fleet: Fleet, profile: Profile, turns: int) -> tuple[list[TalkedTurn], Faults]:
    """Let users say *turns* things, each to another gateway than the last, and check what is kept of them."""
    users = profile.users[0]
    talk = Talk(fleet.origins, replace(profile, disconnects=0.0), bench.provider.headers, "m", turns // users)
    await talk.run(users)
    async with _memory(fleet) as tk:
        await until_learnt(tk)
        owners = {turn.user: Owner(f"u{turn.user}", bench.provider.origin) for turn in talk.turns}
        said = [Acknowledged(owners[turn.user], turn.thread_id, turn.word, turn.statement) for turn in talk.turns]
        return talk.turns, await faults_of(tk, said)


def _spread(values: Sequence[float]) -> tuple[float, float]:
    """Return the median and the value of the slowest in a hundred."""
    return (median(values), quantiles(values, n=100)[98]) if len(values) > 1 else (0.0, 0.0)


COLUMNS: Final = (
    "servers",
    "users",
    "turns/s",
    "first word p50/p99, ms",
    "turn p50/p99, ms",
    "CPU/turn, ms",
    "learnt after, s",
    "degraded",
    "failed",
)


def _cells(row: Measured) -> list[str]:
    first, whole = ("/".join(f"{value * 1000:.0f}" for value in pair) for pair in (row.first_word, row.whole))
    numbers = [f"{row.per_second:.1f}", first, whole, f"{row.cpu * 1000:.1f}", f"{row.lag:.1f}"]
    return [row.name, str(row.users), *numbers, str(row.degraded), str(row.failed)]


def _row(row: Measured) -> str:
    return "  ".join(_cells(row))


def _table(rows: Sequence[Measured]) -> Table:
    table = Table(*COLUMNS)
    for row in rows:
        table.add_row(*_cells(row))
    return table


def _chart(rows: Sequence[Measured]) -> Chart:
    names = list(dict.fromkeys(row.name for row in rows))
    series = [Series(name, [(row.users, row.per_second) for row in rows if row.name == name]) for name in names]
    return Chart("Turns per second on PostgreSQL", "users at once", "turns per second", series)
