"""Checkpoints beside LangGraph's own savers: a run of four nodes, alone and eight at once, and the bytes on disk."""

from __future__ import annotations

import asyncio
import base64
import operator
import random
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypedDict

from threadkeep.errors import InvalidInputError
from threadkeep_evals.progress import Progress, Steps, silent
from threadkeep_evals.rig import Line, Side, alternate, machine, opened, start_server, timed

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver

    from threadkeep.client import Threadkeep

CLIENTS: Final = 8
PLACES: Final = ("sqlite", "postgres")

_NODES: Final = ("plan", "search", "write", "check")
_RUNS_EACH: Final = 4
"""Runs of one thread: the first begins it, the others go on from what it holds."""

_TIMEOUT_MS: Final = 60_000
_MEGABYTE: Final = 1024 * 1024


class State(TypedDict):
    """What the graph keeps: a word of each node, and a text that the nodes leave as it is or replace."""

    words: Annotated[list[str], operator.add]
    text: str


@dataclass(frozen=True, slots=True)
class _Load:
    """What the runs keep.

    Attributes:
        name: For people.
        characters: The length of the text, in ASCII.
        replaced: Whether each node replaces it.
        times: How often one run is measured; eight at once are measured a quarter as often.
    """

    name: str
    characters: int
    replaced: bool
    times: int

    def graph(self, saver: BaseCheckpointSaver[Any] | None, name: str) -> Any:
        """Return the compiled graph of four nodes, one after the other."""
        from langgraph.graph import START, StateGraph

        graph: Any = StateGraph(State)  # its types are not known
        for before, node in zip((START, *_NODES), _NODES, strict=False):
            graph.add_node(node, partial(self._step, node))
            graph.add_edge(before, node)
        return graph.compile(checkpointer=saver, name=name)

    async def _step(self, node: str, state: State) -> dict[str, Any]:
        said = {"words": [f"{node} {len(state['words'])}"]}
        return {**said, "text": self.text(f"{node}-{len(state['words'])}")} if self.replaced else said

    def text(self, salt: str) -> str:
        """Return a text of its length that begins with *salt*; nothing compresses it by much."""
        return (salt + _noise())[: self.characters]


@cache
def _noise() -> str:
    """Return a megabyte of letters and digits."""
    return base64.b64encode(random.Random(7).randbytes(_MEGABYTE)).decode()  # noqa: S311 - the same each time


def _loads(times: int) -> Sequence[_Load]:
    return (
        _Load("small state", 100, replaced=True, times=times),
        _Load("1 MB that stays", _MEGABYTE, replaced=False, times=max(times // 4, 4)),
        _Load("1 MB that each node replaces", _MEGABYTE, replaced=True, times=max(times // 4, 4)),
    )


@dataclass(frozen=True, slots=True)
class _Pair:
    """Our saver and LangGraph's at one place.

    Attributes:
        name: Of the place, for people.
        peer_name: Of LangGraph's saver.
        ours: Ours.
        peer: LangGraph's.
        sizes: Returns how many bytes ours and the peer's keep on disk.
    """

    name: str
    peer_name: str
    ours: Threadkeep
    peer: BaseCheckpointSaver[Any]
    sizes: Callable[[], Awaitable[tuple[int, int]]]


def run_checkpoint_bench(
    places: Sequence[str], *, quick: bool = False, full: bool = False, progress: Progress = silent
) -> dict[str, Any]:
    """Measure runs on *places*, and return the figures as the command line prints them.

    Args:
        places: ``sqlite``, ``postgres`` or ``all``.
        quick: A few runs: shows that it works.
        full: Four times as many as usual.
        progress: Called after each step.

    Raises:
        InvalidInputError: There is no such place.
        SettingsError: PostgreSQL cannot be started for want of its package.
    """
    chosen = PLACES if "all" in places else tuple(places)
    if unknown := [place for place in chosen if place not in PLACES]:
        msg = f"--checkpoints is {unknown[0][:40]!r}; give {', '.join(PLACES)} or all."
        raise InvalidInputError(msg)
    loads = _loads(4 if quick else 160 if full else 40)
    steps = Steps(len(chosen) * len(loads), progress)
    lines: list[Line] = []
    for place in chosen:
        for load in loads:  # each on files or a server of its own, whose size is what this load leaves there
            with tempfile.TemporaryDirectory(prefix="threadkeep-bench-") as folder, ExitStack() as running:
                lines += asyncio.run(_measure(place, Path(folder), running, load))
            steps.advance()
    return {"machine": machine("none"), "lines": [line.as_json() for line in lines]}


async def _measure(place: str, folder: Path, running: ExitStack, load: _Load) -> list[Line]:
    opening = _sqlite(folder) if place == "sqlite" else _postgres(running)
    async with opening as pair:
        graphs = {"ours": load.graph(pair.ours.checkpointer, "ours"), "peer": load.graph(pair.peer, "peer")}

        async def run(side: str, thread_id: str) -> None:
            config: Any = {"configurable": {"thread_id": thread_id}}
            await graphs[side].ainvoke({"words": ["begin"], "text": load.text(thread_id)}, config)

        async def alone(side: str, number: int) -> float:
            return await timed(run(side, f"alone-{number // _RUNS_EACH}"))

        async def together(side: str, number: int) -> float:
            runs = [run(side, f"client-{client}-{number // _RUNS_EACH}") for client in range(CLIENTS)]
            return await timed(asyncio.gather(*runs)) / CLIENTS

        lines: list[Line] = []
        for name, measure, times in (
            ("1 run", alone, load.times),
            (f"{CLIENTS} runs at once", together, max(load.times // 4, 2)),
        ):
            ours, theirs = await alternate(
                Side(partial(measure, "ours"), times), Side(partial(measure, "peer"), times), in_a_row=1
            )
            lines.append(Line(f"{pair.name}: {load.name}, {name}", times, ours, pair.peer_name, theirs))
        ours_bytes, peer_bytes = await pair.sizes()
    runs = load.times + 1 + CLIENTS * (max(load.times // 4, 2) + 1)
    name = f"{pair.name}: {load.name}, bytes on disk"
    size = Line(
        name, runs, peer=pair.peer_name, megabytes=ours_bytes / _MEGABYTE, peer_megabytes=peer_bytes / _MEGABYTE
    )
    return [*lines, size]


@asynccontextmanager
async def _sqlite(folder: Path) -> AsyncGenerator[_Pair]:
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    async def sizes() -> tuple[int, int]:
        return _size_bytes(folder, "ours"), _size_bytes(folder, "peer")

    async with AsyncExitStack() as stack:
        tk = await stack.enter_async_context(opened(folder / "ours.db", "none", capture="off"))
        peer = await stack.enter_async_context(AsyncSqliteSaver.from_conn_string(str(folder / "peer.db")))
        await peer.conn.execute("PRAGMA synchronous=FULL")
        await peer.setup()
        yield _Pair("SQLite", "LangGraph AsyncSqliteSaver, FULL", tk, peer, sizes)


def _size_bytes(folder: Path, side: str) -> int:
    """Return the size of a database with its log, which SQLite moves into the file from time to time."""
    return sum(path.stat().st_size for path in folder.glob(f"{side}.db*") if path.suffix != ".db-shm")


@asynccontextmanager
async def _postgres(running: ExitStack) -> AsyncGenerator[_Pair]:
    from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
    from psycopg import AsyncConnection

    url = start_server("PostgresServer", running, {"fsync": "on", "full_page_writes": "on"})

    async def sizes() -> tuple[int, int]:
        """Count tables with their indexes, dead rows included, without the log of the server."""
        async with await AsyncConnection.connect(url) as connection:
            rows = await connection.execute(
                "SELECT relname LIKE 'checkpoint%', sum(pg_total_relation_size(oid)) FROM pg_class "
                "WHERE relkind = 'r' AND relnamespace NOT IN "
                "('pg_catalog'::regnamespace, 'information_schema'::regnamespace) GROUP BY 1"
            )
            sums = dict(await rows.fetchall())
        return int(sums.get(False, 0)), int(sums.get(True, 0))

    async with AsyncExitStack() as stack:
        ours = opened(url, "none", capture="off", postgres_statement_timeout_ms=_TIMEOUT_MS)
        tk = await stack.enter_async_context(ours)
        peer = await stack.enter_async_context(AsyncPostgresSaver.from_conn_string(url))
        await peer.setup()
        yield _Pair("PostgreSQL", "LangGraph AsyncPostgresSaver", tk, peer, sizes)
