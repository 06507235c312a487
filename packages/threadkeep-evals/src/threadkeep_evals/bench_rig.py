"""What the speed benchmark is made of: its sizes, its vectors, and one line of its result."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, Self

from threadkeep.memories.models import NewMemory
from threadkeep_evals.metrics import percentile

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from threadkeep.client import Threadkeep
    from threadkeep_evals.facts import Fact

ONE_OWNER: Final = "search, one owner"
TOP: Final = 10

_LEAST: Final = 3
_IN_A_ROUND: Final = 20
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
        megabytes: Memory, where that was measured.
    """

    name: str
    n: int
    ours: Sequence[float] = ()
    peer: str | None = None
    theirs: Sequence[float] = ()
    megabytes: float | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the line as the command line prints it: figures that do not apply are ``None``.

        Only a line about memory has ``ours_mb``.
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
        return line


class Lookup:
    """An embedder that looks its vectors up, so that embedding costs neither side anything.

    A text that was not announced is given its direction when it first comes.

    Args:
        texts: The texts that are known; each has a random direction.
        seed: Of the directions.
        dims: Length of a vector; 384 is MiniLM's.
    """

    name = "lookup"
    remote = False

    def __init__(self, texts: Sequence[str], *, seed: int, dims: int = 384) -> None:
        import numpy as np

        self.dims = dims
        self._random = np.random.default_rng(seed)
        self._vectors: dict[str, NDArray[np.float32]] = {}
        for text in texts:
            self._add(text)

    @classmethod
    def of(cls, facts: Sequence[Fact], *, seed: int) -> Self:
        """Return one that knows what *facts* say and the questions about them."""
        return cls([text for fact in facts for text in (fact.text, fact.question)], seed=seed)

    def know(self, text: str) -> None:
        """Give *text* its direction, where it has none."""
        if text not in self._vectors:
            self._add(text)

    async def ready(self) -> None:
        """Be ready."""

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of *texts*."""
        import numpy as np

        for text in texts:
            self.know(text)
        return np.array([self._vectors[text] for text in texts])

    def embed_now(self, texts: Sequence[str]) -> NDArray[np.float32] | None:
        """Return the vectors of *texts*, where all of them were announced."""
        import numpy as np

        return np.array([self._vectors[text] for text in texts]) if self._vectors.keys() >= set(texts) else None

    async def as_langgraph(self, texts: Sequence[str]) -> list[list[float]]:
        """Return the same vectors, of announced texts, in the form that LangGraph's stores take."""
        return [self._vectors[text].tolist() for text in texts]

    def _add(self, text: str) -> None:
        import numpy as np

        vector = self._random.standard_normal(self.dims, dtype=np.float32)
        self._vectors[text] = (vector / np.linalg.norm(vector)).astype(np.float32)


@asynccontextmanager
async def opened(path: Path, embedder: Any) -> AsyncGenerator[Threadkeep]:
    """Open a memory on a SQLite file that syncs every commit, whatever the environment says.

    Args:
        path: The file.
        embedder: Who embeds; ``none``: only words are compared, though the settings may name an embedder.
    """
    from threadkeep.client import open as open_threadkeep
    from threadkeep.settings import Settings

    settings = Settings.load().model_copy(update={"sqlite_synchronous": "FULL"})
    async with open_threadkeep(f"sqlite:///{path.as_posix()}", settings=settings, embedder=embedder) as tk:
        await tk.ready()
        yield tk


async def learn(tk: Threadkeep, owner: str, facts: Sequence[Fact]) -> None:
    """Store *facts* as an owner's memories."""
    for start in range(0, len(facts), _SLICE):
        await tk.memories.remember_many([NewMemory(fact.text) for fact in facts[start : start + _SLICE]], owner=owner)


async def timed(work: Awaitable[object]) -> float:
    """Await *work* and return how many milliseconds it took."""
    started = perf_counter()
    await work
    return (perf_counter() - started) * 1000


async def alternated(
    ours: Callable[[int], Awaitable[object]],
    peer: Callable[[int], Awaitable[object]],
    *,
    ours_times: int,
    peer_times: int,
    ours_seconds: float = math.inf,
    peer_seconds: float = math.inf,
) -> tuple[list[float], list[float]]:
    """Time two things in many short rounds that take turns, after one unmeasured time each.

    A machine whose clock changes while it measures does so to both alike. The rounds of what is measured more often are
    of twenty, or a tenth of it: in shorter ones, what the other left in the processor's caches would be most of its
    figure.

    Args:
        ours: Begins one of ours, given how many came before.
        peer: The same for the peer.
        ours_times: How often ours is measured.
        peer_times: How often the peer is; a slow one less often.
        ours_seconds: No more of ours is begun after so long, once it was measured three times.
        peer_seconds: The same for the peer.

    Returns:
        The milliseconds of ours and of the peer.
    """
    await ours(0)
    await peer(0)
    milliseconds: tuple[list[float], list[float]] = ([], [])
    sides = ((ours, ours_times, ours_seconds), (peer, peer_times, peer_seconds))
    fewer, more = sorted((ours_times, peer_times))
    rounds = min(more, max(min(fewer, more // _IN_A_ROUND), _ROUNDS))
    for turn in range(rounds):
        for (begin, times, most), taken in zip(sides, milliseconds, strict=True):
            start, end = turn * times // rounds, (turn + 1) * times // rounds
            for number in range(start + 1, end + 1):
                if sum(taken) > most * 1000 and len(taken) >= _LEAST:
                    break
                taken.append(await timed(begin(number)))
    return milliseconds


def _rounded(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else round(milliseconds, 4)
