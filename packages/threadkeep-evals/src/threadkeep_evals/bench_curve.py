"""What searching one owner's memories costs as they become more: each index at each size, in a process of its own.

``python -m threadkeep_evals.bench_curve JSON`` measures one index at one size over a file that holds the memories, and
prints one object. Every figure is of the whole search, words and signals included, through the public API.
"""

from __future__ import annotations

import asyncio
import importlib.util
import itertools
import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from threadkeep.errors import SettingsError
from threadkeep_evals.facts import more_facts
from threadkeep_evals.metrics import percentile
from threadkeep_evals.plot import Chart, Series
from threadkeep_evals.progress import Progress, Steps, silent
from threadkeep_evals.resident import give_back, resident_bytes
from threadkeep_evals.rig import TOP, Lookup, Side, alternate, learn, machine, opened, start_server, timed
from threadkeep_evals.tables import build_table

if TYPE_CHECKING:
    from rich.table import Table

    from threadkeep.client import Threadkeep

EXACT: Final = "exact, float32"
_SETTINGS: Final[Mapping[str, Mapping[str, Any]]] = {
    EXACT: {"index_precision": "float32"},
    "exact, int8": {"index_precision": "int8"},
    "faiss": {"vectors": "faiss", "vectors_from": 1},
    "pgvector": {"vectors": "pgvector", "vectors_from": 1},
}
INDEXES: Final = tuple(_SETTINGS)
"""What is measured, the default first."""

SIZES: Final = (100, 1_000, 10_000, 100_000)
FULL_SIZES: Final = (*SIZES, 1_000_000)
QUICK_SIZES: Final = (100, 400)

_SEED: Final = 13
_SEARCHES: Final = 60
_SETTLING: Final = 5
_SECONDS: Final = 20.0
_WHOLE_MACHINE: Final = 1 << 20
"""Megabytes that an index may take, and milliseconds that an engine may: no limit is measured here."""
_ENGINES_FROM: Final = 1_000
_BUILT_AS_IT_IS: Final = 100_000
"""An HNSW index of more vectors than these is built with more of the server's memory than it gives by itself."""
_TO_BUILD: Final = "?options=-c%20maintenance_work_mem%3D3GB"
"""What a million vectors of 384 numbers take; where the graph does not fit, building takes many times as long."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One index at one size, for the process that measures it.

    Attributes:
        index: Of :data:`INDEXES`.
        n: How many memories the owner has.
        path: The file that holds them.
        folder: Where engines keep files.
        dsn: Where PostgreSQL is; empty: nowhere.
        searches: How many are timed; fewer where they take more than 20 s.
    """

    index: str
    n: int
    path: str
    folder: str
    dsn: str = ""
    searches: int = _SEARCHES


def run_curve(
    sizes: Sequence[int] = SIZES,
    *,
    searches: int = _SEARCHES,
    progress: Progress = silent,
    each: Callable[[Mapping[str, Any]], object] = lambda _: None,
) -> dict[str, Any]:
    """Measure every index at every size, and return the figures as the command line prints them.

    FAISS and pgvector are measured from 1,000 memories on; what is not installed is named.

    Args:
        sizes: How many memories the owner has, smallest first.
        searches: How many are timed.
        progress: Called after each step.
        each: Given each row as it is measured: what fails later takes nothing from it.
    """
    missing = {"faiss": importlib.util.find_spec("faiss") is None}
    with tempfile.TemporaryDirectory(prefix="threadkeep-curve-") as name, ExitStack() as running:
        dsn, why = _server(running)
        not_run = [
            *([{"index": "pgvector", "why": why}] if why else []),
            *({"index": index, "why": "it is not installed"} for index, absent in missing.items() if absent),
        ]
        left_out = {one["index"] for one in not_run}
        cells = [
            Cell(index, size, f"{name}/memories.db", f"{name}/vectors", _serving(dsn, size), searches)
            for size in sizes
            for index in INDEXES
            if index not in left_out and (index.startswith("exact") or size >= min(_ENGINES_FROM, max(sizes)))
        ]
        steps = Steps(len(cells) + len(sizes), progress)
        rows = asyncio.run(_measure(cells, sizes, steps, each))
    return {
        "machine": machine("random directions, 384 numbers"),
        "curve": rows,
        "takes_over": taken_over(rows),
        "not_run": not_run,
    }


def _serving(dsn: str, size: int) -> str:
    """Return where PostgreSQL is, for an owner with *size* memories; empty: nowhere."""
    return dsn + _TO_BUILD if dsn and size > _BUILT_AS_IT_IS else dsn


def _server(running: ExitStack) -> tuple[str, str]:
    """Start a PostgreSQL, and return where it is, or why there is none."""
    try:
        return start_server("PostgresServer", running), ""
    except SettingsError as error:
        return "", str(error)


async def _measure(
    cells: Sequence[Cell], sizes: Sequence[int], steps: Steps, each: Callable[[Mapping[str, Any]], object]
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for size in sizes:
        of_size = [cell for cell in cells if cell.n == size]
        async with _opened(of_size[0]) as tk:
            await learn(tk, _owner(size), more_facts(size, seed=_SEED))
        steps.advance()
        for cell in of_size:
            rows.append(await _in_a_process(cell))
            each(rows[-1])
            steps.advance()
    return rows


async def _in_a_process(cell: Cell) -> dict[str, Any]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "threadkeep_evals.bench_curve",
        json.dumps(asdict(cell)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    if process.returncode != 0:
        reason = errors.decode(errors="replace").strip()[-600:]
        msg = f"{cell.index} could not be measured at {cell.n:,} memories: {reason}"
        raise SettingsError(msg)
    return json.loads(output)


async def measure(cell: Cell) -> dict[str, Any]:
    """Return the figures of one index at one size, over memories that are stored.

    With an engine it is opened twice: what that builds for an owner is built before it is measured.
    """
    questions = [fact.question for fact in more_facts(min(cell.n, _SEARCHES), seed=_SEED)]
    owner = _owner(cell.n)
    built: float | None = None
    if "vectors" in _SETTINGS[cell.index]:
        async with _opened(cell) as tk:
            built = await timed(tk.memories.search(questions[0], owner=owner, limit=TOP))
            for question in questions[:_SETTLING]:
                await tk.memories.search(question, owner=owner, limit=TOP)
    async with _opened(cell) as tk:
        # Another, empty owner first: what numpy, SQLite and the stemmer take is not the index's.
        await tk.memories.search(questions[0], owner="nobody", limit=TOP)
        give_back()
        before = resident_bytes()
        loaded = await timed(tk.memories.search(questions[0], owner=owner, limit=TOP))

        async def search(number: int) -> float:
            return await timed(tk.memories.search(questions[number % len(questions)], owner=owner, limit=TOP))

        for number in range(_SETTLING):
            await search(number)
        (taken,) = await alternate(Side(search, cell.searches, _SECONDS))
        give_back()
        held = resident_bytes() - before
        recalled = await tk.recall(questions[0], owner=owner, timeout=timedelta(hours=1))
    if recalled.degraded:
        msg = f"{cell.index} did without {', '.join(recalled.degraded)}, so its figures would be another's."
        raise SettingsError(msg)
    return {
        "index": cell.index,
        "n": cell.n,
        "p50_ms": round(percentile(taken, 0.5), 4),
        "p95_ms": round(percentile(taken, 0.95), 4),
        "mb": round(held / 1e6, 1),
        "built_ms": None if built is None else round(built, 1),
        "loaded_ms": round(loaded, 1),
    }


def _opened(cell: Cell) -> AbstractAsyncContextManager[Threadkeep]:
    from pydantic import SecretStr

    settings: dict[str, Any] = {
        "capture": "off",
        "index_megabytes": _WHOLE_MACHINE,
        "vectors_timeout_ms": 1000 * _WHOLE_MACHINE,
        "vectors_folder": Path(cell.folder),
        "vectors_postgres_dsn": SecretStr(cell.dsn) if cell.dsn else None,
        **_SETTINGS[cell.index],
    }
    return opened(Path(cell.path), Lookup(), **settings)


def _owner(size: int) -> str:
    return f"owner-{size}"


def taken_over(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return from which measured size on each index is quicker than the default one, all larger ones included."""
    found: list[dict[str, Any]] = []
    exact = {row["n"]: row["p50_ms"] for row in rows if row["index"] == EXACT}
    for index in dict.fromkeys(row["index"] for row in rows if row["index"] != EXACT):
        own = sorted((row["n"], row["p50_ms"]) for row in rows if row["index"] == index)
        slower = [n for n, milliseconds in own if milliseconds >= exact[n]]
        quicker = [n for n, _ in own if not slower or n > max(slower)]
        found.append({"index": index, "over": EXACT, "from": quicker[0] if quicker else None})
    return found


def charts(report: Mapping[str, Any]) -> tuple[Chart, Chart]:
    """Return latency against size, and memory against size."""
    rows = report["curve"]
    names = dict.fromkeys(row["index"] for row in rows)
    latency, memory = (
        [
            Series(name, [(row["n"], row[figure]) for row in rows if row["index"] == name and row[figure] > 0])
            for name in names
        ]
        for figure in ("p50_ms", "mb")
    )
    x = "memories of one owner"
    of = f"{report['machine']['cpu']}, {report['machine']['cores']} cores"
    return (
        Chart(f"A whole search, median ({of})", x, "milliseconds", latency, x_log=True, y_log=True),
        Chart(f"RAM of the process for one owner ({of})", x, "megabytes", memory, x_log=True, y_log=True),
    )


def render_table(report: Mapping[str, Any]) -> Table:
    """Return the figures of :func:`run_curve` for people."""
    machine = report["machine"]
    rows = report["curve"]
    ends = [number for number, (row, after) in enumerate(itertools.pairwise(rows)) if row["n"] != after["n"]]
    lines = [
        f"{one['index']} is quicker than {one['over']} "
        + (f"from {one['from']:,} memories on." if one["from"] else "at none of these sizes.")
        for one in report["takes_over"]
    ]
    return build_table(
        f"One owner's memories; {machine['cpu']}, {machine['cores']} cores",
        ("index", ">memories", ">p50", ">p95", ">RAM", ">first search", ">first of all"),
        [_row(row) for row in rows],
        caption="\n".join([*lines, *(f"{one['index']} was not run: {one['why']}" for one in report["not_run"])]),
        ends=ends,
    )


def _row(row: Mapping[str, Any]) -> list[str]:
    return [
        row["index"],
        f"{row['n']:,}",
        f"{row['p50_ms']:.3f} ms",
        f"{row['p95_ms']:.3f} ms",
        f"{row['mb']:,.1f} MB",
        f"{row['loaded_ms']:,.0f} ms",
        "–" if row["built_ms"] is None else f"{row['built_ms']:,.0f} ms",
    ]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(measure(Cell(**json.loads(sys.argv[1]))))) + "\n")
