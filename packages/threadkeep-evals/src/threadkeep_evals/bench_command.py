"""``threadkeep bench``: how fast it is, beside others in the same run."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from threadkeep.cli.output import Json, progress, to_json, writing
from threadkeep.errors import InvalidInputError
from threadkeep_evals.tables import Format, Plot, Style, draw
from threadkeep_evals.tables import show as print_figures

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def bench(
    storage: Annotated[
        list[str] | None,
        typer.Option(
            help="memory, sqlite, postgres, redis, mongodb or all: that storage beside LangGraph's own on a server "
            "started for it; may be repeated. Unset: turns, recall and SQLite.",
            show_default=False,
        ),
    ] = None,
    *,
    curve: Annotated[bool, typer.Option("--curve", help="One owner with ever more memories, by each index.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes, to see that it works.")] = False,
    full: Annotated[
        bool, typer.Option("--full", help="One owner with 100,000 memories, too; with --curve, with 1,000,000.")
    ] = False,
    memories: Annotated[
        list[int] | None,
        typer.Option(
            help="With --storage, --peers or --curve: so many memories; may be repeated.", min=8, show_default=False
        ),
    ] = None,
    peers: Annotated[
        list[str] | None,
        typer.Option(
            help="langgraph-memory, langgraph-sqlite, langgraph-postgres, mem0 or all: only one owner's search, beside "
            "each of them; may be repeated.",
            show_default=False,
        ),
    ] = None,
    checkpoints: Annotated[
        list[str] | None,
        typer.Option(
            help="sqlite, postgres or all: runs of a graph and the bytes they leave, beside LangGraph's own saver; may "
            "be repeated.",
            show_default=False,
        ),
    ] = None,
    plot: Plot = None,
    rows: Annotated[
        Path | None,
        typer.Option(
            help="With --curve: write each figure into this file as it comes, a line of JSON each; replaced.",
            show_default=False,
        ),
    ] = None,
    style: Format = Style.TABLE,
    json: Json = False,
) -> None:
    """How fast it is, beside LangGraph's own stores and savers in the same run."""
    if sum(map(bool, (storage, peers, checkpoints, curve))) > 1:
        msg = "--storage, --peers, --checkpoints and --curve each measure something of their own; give one of them."
        raise InvalidInputError(msg)
    if curve:
        sizes = sorted(memories) if memories else _curve_sizes(quick=quick, full=full)
        _curve(sizes, plot=plot, rows=rows, style=style, json=json)
        return
    from threadkeep_evals.bench import run_bench, run_peers_bench
    from threadkeep_evals.bench_checkpoints import run_checkpoint_bench
    from threadkeep_evals.bench_storage import StorageSizes, run_storage_bench
    from threadkeep_evals.peers import chosen_peers
    from threadkeep_evals.rig import render_table

    if plot or rows:
        msg = "--plot draws the lines of --curve, and --rows writes them; give --curve, too."
        raise InvalidInputError(msg)
    sizes = StorageSizes.quick() if quick else StorageSizes.full() if full else StorageSizes()
    if memories:
        sizes = replace(sizes, totals=tuple(memories))
    with progress("Bench") as bar:
        if storage:
            report = run_storage_bench(storage, sizes, progress=bar)
        elif checkpoints:
            report = run_checkpoint_bench(checkpoints, quick=quick, full=full, progress=bar)
        elif peers:
            report = run_peers_bench(chosen_peers(peers), quick=quick, full=full, memories=memories or (), progress=bar)
        else:
            report = run_bench(quick=quick, full=full, progress=bar)
    print_figures(report, lambda: [render_table(report)], style, json=json)


def _curve_sizes(*, quick: bool, full: bool) -> Sequence[int]:
    from threadkeep_evals.bench_curve import FULL_SIZES, QUICK_SIZES, SIZES

    return QUICK_SIZES if quick else FULL_SIZES if full else SIZES


def _curve(sizes: Sequence[int], *, plot: Path | None, rows: Path | None, style: Style, json: bool) -> None:
    from threadkeep_evals.bench_curve import charts, render_table, run_curve

    with ExitStack() as stack:
        lines = None
        if rows:
            with writing(rows):
                lines = stack.enter_context(rows.open("w", encoding="utf-8", buffering=1))
        bar = stack.enter_context(progress("Curve"))
        report = run_curve(sizes, progress=bar, each=lambda row: lines and lines.write(f"{to_json(row)}\n"))
    if plot:
        for chart, path in zip(charts(report), (plot, plot.with_stem(f"{plot.stem}-memory")), strict=True):
            draw(chart, path)
    print_figures(report, lambda: [render_table(report)], style, json=json)
