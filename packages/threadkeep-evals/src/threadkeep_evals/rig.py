"""The benchmark rig: sizes, vectors, the memory under test, the loop that alternates sides, and a result's lines."""

from __future__ import annotations

import math
import os
import platform
import sqlite3
import tempfile
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, Self

from threadkeep.errors import SettingsError
from threadkeep.memories.models import NewMemory
from threadkeep_evals.metrics import percentile
from threadkeep_evals.tables import build_table

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from rich.table import Table

    from threadkeep.client import Threadkeep
    from threadkeep.clock import Clock
    from threadkeep.models.base import Embedder
    from threadkeep_conformance.servers import Server
    from threadkeep_evals.facts import Fact

ONE_OWNER: Final = "search, one owner"
TOP: Final = 10
TIMEOUT: Final = timedelta(seconds=60)
"""How long a turn waits for recall and its record, so that a slow machine changes no figure of quality."""

_LEAST: Final = 3
_IN_A_ROW: Final = 20
_ROUNDS: Final = 10
_SLICE: Final = 500


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is stored, and how often each thing is measured; *largest* is left out where it is 0."""

    few: int = 600
    small: int = 1_000
    large: int = 10_000
    owners: int = 1_000
    each: int = 100
    searches: int = 300
    peer_searches: int = 60
    beside_peers: int = 30
    cold_loads: int = 5
    commits: int = 1_000
    batches: int = 20
    turns: int = 100
    largest: int = 0
    peer_seconds: float = 30.0

    @classmethod
    def full(cls) -> Sizes:
        """Return sizes with an owner of 100,000 memories among them."""
        return cls(largest=100_000)

    @classmethod
    def quick(cls) -> Sizes:
        """Return sizes that take seconds."""
        return cls(
            few=20,
            small=50,
            large=200,
            owners=5,
            each=20,
            searches=10,
            peer_searches=5,
            beside_peers=3,
            cold_loads=2,
            commits=10,
            batches=2,
            turns=5,
        )


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that was measured.

    Attributes:
        name: What.
        n: How many items it was measured on.
        ours: Milliseconds, one for each time; none where memory was measured.
        peer: What it is compared with.
        theirs: The peer's milliseconds.
        megabytes: Memory, or what is on disk, where that was measured.
        peer_megabytes: The peer's.
    """

    name: str
    n: int
    ours: Sequence[float] = ()
    peer: str | None = None
    theirs: Sequence[float] = ()
    megabytes: float | None = None
    peer_megabytes: float | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the line as the command line prints it: figures that do not apply are ``None``.

        Only a line about memory or a disk has ``ours_mb``, and ``peer_mb`` if it has a peer.
        """
        p50 = percentile(self.ours, 0.5) if self.ours else None
        peer_p50 = percentile(self.theirs, 0.5) if self.theirs else None
        line: dict[str, Any] = {
            "name": self.name,
            "n": self.n,
            "ours_p50_ms": _rounded(p50),
            "ours_p95_ms": _rounded(percentile(self.ours, 0.95) if self.ours else None),
            "peer": self.peer,
            "peer_p50_ms": _rounded(peer_p50),
            "ratio": round(peer_p50 / p50, 2) if p50 and peer_p50 is not None else None,
        }
        if self.megabytes is not None:
            line["ours_mb"] = round(self.megabytes, 2)
        if self.megabytes and self.peer_megabytes is not None:
            line["peer_mb"] = round(self.peer_megabytes, 2)
            line["ratio"] = round(self.peer_megabytes / self.megabytes, 2)
        return line


class Lookup:
    """An embedder with one random direction for each text, the same in every process.

    Vectors of announced texts are kept, so that embedding costs neither side anything.

    Args:
        texts: The announced texts.
        seed: Of the directions.
        dims: Length of a vector; 384 is MiniLM's.
    """

    name = "lookup"
    remote = False

    def __init__(self, texts: Sequence[str] = (), *, seed: int = 0, dims: int = 384) -> None:
        self.dims = dims
        self._seed = seed
        self._vectors: dict[str, NDArray[np.float32]] = {}
        for text in texts:
            self.know(text)

    @classmethod
    def of(cls, facts: Sequence[Fact], *, seed: int) -> Self:
        """Return one that knows the texts and questions of *facts*."""
        return cls([text for fact in facts for text in (fact.text, fact.question)], seed=seed)

    def know(self, text: str) -> None:
        """Announce *text*."""
        if text not in self._vectors:
            self._vectors[text] = self._direction(text)

    async def ready(self) -> None:
        """Be ready."""

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of *texts*."""
        import numpy as np

        return np.stack([self._vector(text) for text in texts])

    def embed_now(self, texts: Sequence[str]) -> NDArray[np.float32] | None:
        """Return the vectors of *texts*, or None if one of them was not announced."""
        import numpy as np

        return np.stack([self._vectors[text] for text in texts]) if self._vectors.keys() >= set(texts) else None

    async def as_langgraph(self, texts: Sequence[str]) -> list[list[float]]:
        """Return the same vectors in the form that LangGraph's stores take."""
        return [self._vector(text).tolist() for text in texts]

    def _vector(self, text: str) -> NDArray[np.float32]:
        known = self._vectors.get(text)
        return self._direction(text) if known is None else known

    def _direction(self, text: str) -> NDArray[np.float32]:
        import numpy as np

        random = np.random.default_rng((self._seed, zlib.crc32(text.encode())))
        vector = random.standard_normal(self.dims, dtype=np.float32)
        return (vector / np.linalg.norm(vector)).astype(np.float32)


@asynccontextmanager
async def opened(place: Path | str, embedder: Any, **settings: Any) -> AsyncGenerator[Threadkeep]:
    """Open a memory; SQLite syncs every commit, whatever the environment says.

    Args:
        place: A SQLite file, or the URL of a storage.
        embedder: Of the memory; ``"none"``: only words are compared, though the settings may name an embedder.
        settings: Fields of ``Settings`` that replace those of the environment.
    """
    from threadkeep.client import open as open_threadkeep
    from threadkeep.settings import Settings

    url = f"sqlite:///{place.as_posix()}" if isinstance(place, Path) else place
    loaded = Settings.load().model_copy(update={"sqlite_synchronous": "FULL", **settings})
    async with open_threadkeep(url, settings=loaded, embedder=embedder) as tk:
        await tk.ready()
        yield tk


@asynccontextmanager
async def open_for_replay(embedder: Embedder | str | None, clock: Clock) -> AsyncGenerator[Threadkeep]:
    """Open a memory in RAM that learns with the local extractor, whatever the environment says."""
    from threadkeep.client import open as open_threadkeep
    from threadkeep.settings import Settings

    settings = Settings.load(
        store_type="memory",
        capture="local",
        enable_fact_extraction="false",
        redact="",
        memory_policy="",
        store_ttl_minutes="0",
        recall_timeout_ms=str(int(TIMEOUT.total_seconds() * 1_000)),
    )
    async with open_threadkeep(settings=settings, embedder=embedder, clock=clock) as tk:
        await tk.ready()
        yield tk


@asynccontextmanager
async def open_in_file(embedder: Any, *, owner: str | None = None) -> AsyncGenerator[Threadkeep]:
    """Open a memory in a temporary SQLite file."""
    from threadkeep.client import open as open_threadkeep

    with tempfile.TemporaryDirectory(prefix="threadkeep-eval-") as folder:
        url = f"sqlite:///{Path(folder).as_posix()}/eval.db"
        async with open_threadkeep(url, owner=owner, embedder=embedder) as tk:
            await tk.ready()
            yield tk


def start_server(name: str, running: ExitStack, *arguments: Any) -> str:
    """Start a server that *running* ends, and return its URL.

    Args:
        name: Of a class of ``threadkeep_conformance.servers``.
        running: Ends the server.
        arguments: Of the class.

    Raises:
        SettingsError: The packages of the server are not installed.
    """
    try:
        from threadkeep_conformance import servers
    except ImportError:
        lacking: Sequence[str] = ("threadkeep-conformance",)
    else:
        kind: type[Server] = getattr(servers, name)
        lacking = kind.missing()
        if not lacking:
            return running.enter_context(kind(*arguments)).url
    msg = (
        f"The server needs {', '.join(lacking)}, which is not installed. "
        'Install it: pip install "threadkeep-evals[servers]"'
    )
    raise SettingsError(msg)


async def learn(tk: Threadkeep, owner: str, facts: Sequence[Fact]) -> None:
    """Store *facts* as an owner's memories."""
    for start in range(0, len(facts), _SLICE):
        await tk.memories.remember_many([NewMemory(fact.text) for fact in facts[start : start + _SLICE]], owner=owner)


async def timed(work: Awaitable[object]) -> float:
    """Await *work* and return how many milliseconds it took."""
    started = perf_counter()
    await work
    return (perf_counter() - started) * 1000


@dataclass(frozen=True, slots=True)
class Side:
    """One of the things that are compared.

    Attributes:
        measure: Does it once and returns its milliseconds; its argument counts from 0.
        times: How often it is measured; a slow one less often.
        seconds: No more is begun after so long, once it was measured three times.
    """

    measure: Callable[[int], Awaitable[float]]
    times: int
    seconds: float = math.inf


async def alternate(*sides: Side, in_a_row: int = _IN_A_ROW) -> list[list[float]]:
    """Measure *sides* in many short rounds, after one unmeasured time each.

    A changing clock of the machine affects all sides alike. More than two sides begin each round with
    another one, so that none always follows the same one.

    Args:
        sides: What is compared.
        in_a_row: How often the side that is measured most often is measured in a round, or a tenth of its times if
            that is less. In shorter rounds its figure is mostly that of the processor's caches, which the other side
            has filled.

    Returns:
        The milliseconds of each side.
    """
    for side in sides:
        await side.measure(0)
    milliseconds: list[list[float]] = [[] for _ in sides]
    fewer, more = min(side.times for side in sides), max(side.times for side in sides)
    rounds = min(more, max(min(fewer, more // in_a_row), _ROUNDS))
    pairs = list(zip(sides, milliseconds, strict=True))
    for turn in range(rounds):
        first = turn % len(pairs) if len(pairs) > 2 else 0  # noqa: PLR2004
        for side, taken in pairs[first:] + pairs[:first]:
            for number in range(turn * side.times // rounds + 1, (turn + 1) * side.times // rounds + 1):
                if sum(taken) > side.seconds * 1000 and len(taken) >= _LEAST:
                    break
                taken.append(await side.measure(number))
    return milliseconds


async def alternated(
    ours: Callable[[int], Awaitable[object]],
    peer: Callable[[int], Awaitable[object]],
    *,
    ours_times: int,
    peer_times: int,
    ours_seconds: float = math.inf,
    peer_seconds: float = math.inf,
) -> tuple[list[float], list[float]]:
    """Time calls of ours and of a peer in turns; see :func:`alternate`."""
    milliseconds = await alternate(
        Side(lambda number: timed(ours(number)), ours_times, ours_seconds),
        Side(lambda number: timed(peer(number)), peer_times, peer_seconds),
    )
    return milliseconds[0], milliseconds[1]


def _rounded(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else round(milliseconds, 4)


def machine(embedder: str) -> dict[str, Any]:
    """Return what the figures were measured on."""
    return {
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        **{name: version(name) for name in ("threadkeep", "langgraph", "langchain", "numpy")},
        "embedder": embedder,
    }


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass  # not Linux
    return platform.processor() or platform.machine()


def render_table(results: dict[str, Any]) -> Table:
    """Return the lines of a benchmark as a table for people."""
    machine = results["machine"]
    rows = [_row(line) for line in results["lines"]]
    columns = ("what", ">n", ">ours p50", ">ours p95", "peer", ">peer p50", ">ratio")
    missing = (f"{one['peer']} did not run: {one['why']}" for one in results.get("not_run", ()))
    title = f"{machine['cpu']}, {machine['cores']} cores; embedder {machine['embedder']}"
    return build_table(title, columns, rows, caption="\n".join(missing))


def _row(line: Mapping[str, Any]) -> list[str]:
    if "ours_mb" in line:
        beside = (line["peer"], f"{line['peer_mb']:.1f} MB", f"{line['ratio']:.1f}×") if "peer_mb" in line else ()
        return [line["name"], f"{line['n']:,}", f"{line['ours_mb']:.1f} MB", *(("", *beside) if beside else ())]
    ours, tail, theirs = (_milliseconds(line[name]) for name in ("ours_p50_ms", "ours_p95_ms", "peer_p50_ms"))
    ratio = "–" if line["ratio"] is None else f"{line['ratio']:.1f}×"
    return [line["name"], f"{line['n']:,}", ours, tail, line["peer"] or "–", theirs, ratio]


def _milliseconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f} ms"
