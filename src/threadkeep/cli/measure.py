"""``threadkeep eval`` and ``threadkeep bench``: how good and how fast it is, beside others in the same run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

import typer

from threadkeep.cli.output import Json, out, print_json, progress
from threadkeep.errors import InvalidInputError

app = typer.Typer(help="Measure how much is found, on real and generated conversations.", no_args_is_help=True)

_SIZES: Final = "10,100,1000,10000"
_CHANGES: Final = "1,2,3,5,8"


@app.command()
def locomo(
    data: Annotated[Path, typer.Option(help="A file in LoCoMo's own format.")],
    *,
    json: Json = False,
) -> None:
    """Recall of the evidence of LoCoMo's questions, beside BM25 alone and dense alone."""
    from threadkeep.evals.comparison import compare_locomo, render_table

    with progress("LoCoMo") as bar:
        comparison = compare_locomo(data, progress=bar)
    if json:
        print_json(comparison.as_json())
        return
    out.print(render_table(comparison))


@app.command()
def beam(
    data: Annotated[Path, typer.Option(help="A list of BEAM's chats, each {cid, msgs, qs}.")],
    *,
    json: Json = False,
) -> None:
    """Recall of the evidence of BEAM's questions, beside BM25 alone and dense alone."""
    from threadkeep.evals.comparison import compare_beam, render_table

    with progress("BEAM") as bar:
        comparison = compare_beam(data, progress=bar)
    if json:
        print_json(comparison.as_json())
        return
    out.print(render_table(comparison))


@app.command()
def capture(
    data: Annotated[Path, typer.Option(help="A file in LoCoMo's own format.")],
    budget: Annotated[
        list[int] | None, typer.Option(help="Tokens of the block; may be repeated. Unset: 300.", show_default=False)
    ] = None,
    conversation: Annotated[
        list[str] | None, typer.Option(help="Only this one; may be repeated. Unset: all.", show_default=False)
    ] = None,
    *,
    show: Annotated[bool, typer.Option("--show", help="With --json: what was kept, too.")] = False,
    json: Json = False,
) -> None:
    """What is kept of replayed conversations, and what it brings when asked, beside every turn kept verbatim."""
    from threadkeep.evals.capture import BUDGETS, render_table, run_capture

    with progress("Capture") as bar:
        report = run_capture(data, budgets=budget or BUDGETS, conversations=conversation or (), show=show, progress=bar)
    if json:
        print_json(report)
        return
    out.print(render_table(report))


@app.command()
def redaction(
    data: Annotated[Path, typer.Option(help="A file in LoCoMo's own format.")],
    region: Annotated[str | None, typer.Option(help="Where telephone numbers without a + are from.")] = None,
    *,
    json: Json = False,
) -> None:
    """Share of turns in which secrets or personal data are found, to be read for false ones; none is printed."""
    from threadkeep.evals.redaction import run_redaction

    report = run_redaction(data, region=region)
    if json:
        print_json(report)
        return
    for row in report["results"]:
        out.print(f"{row['kind']:>8}: {row['changed']:,} of {row['turns']:,} turns ({row['share']:.2%})", markup=False)
        out.print("".join(f"          {place}\n" for place in row["places"]), end="", markup=False)


@app.command()
def facts(
    sizes: Annotated[str, typer.Option(help="How many facts about one user, separated by commas.")] = _SIZES,
    seed: Annotated[int, typer.Option(help="Of the generator.")] = 1,
    *,
    json: Json = False,
) -> None:
    """Share of generated facts that a question about each brings into the 300-token block."""
    from threadkeep.evals.facts import render_table, run_facts

    numbers = _numbers(sizes, "--sizes", _SIZES)
    with progress("Facts") as bar:
        report = run_facts(numbers, seed=seed, progress=bar)
    if json:
        print_json(report)
        return
    out.print(render_table(report))


@app.command()
def staleness(
    changes: Annotated[str, typer.Option(help="How often each fact changes, separated by commas.")] = _CHANGES,
    seed: Annotated[int, typer.Option(help="Of the generator.")] = 1,
    *,
    json: Json = False,
) -> None:
    """Facts that change k times: whether the current value is recalled, and an old one as if it were current."""
    from threadkeep.evals.changes import render_staleness, run_staleness

    with progress("Staleness") as bar:
        report = run_staleness(_numbers(changes, "--changes", _CHANGES), seed=seed, progress=bar)
    if json:
        print_json(report)
        return
    out.print(render_staleness(report))


@app.command()
def leakage(
    owners: Annotated[int, typer.Option(help="How many owners have nearly the same facts and ids.")] = 200,
    seed: Annotated[int, typer.Option(help="Of the generator.")] = 1,
    *,
    json: Json = False,
) -> None:
    """What one owner is told of another's memory where all have nearly the same: nothing."""
    from threadkeep.evals.changes import run_leakage

    with progress("Leakage") as bar:
        report = run_leakage(owners, seed=seed, progress=bar)
    if json:
        print_json(report)
        return
    out.print(
        f"{report['owners']:,} owners asked {report['questions']:,} questions: {report['leaks']} leaks; "
        f"{report['own_found']:.1%} were told their own.",
        markup=False,
    )


@app.command()
def tombstones(*, json: Json = False) -> None:
    """Rejected and forgotten statements that are learnt again in other words, and others that are blocked."""
    from threadkeep.evals.tombstones import render_table, run_tombstones

    report = run_tombstones()
    if json:
        print_json(report)
        return
    out.print(render_table(report))


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
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes, to see that it works.")] = False,
    full: Annotated[bool, typer.Option("--full", help="With --storage: 100,000 memories, too.")] = False,
    memories: Annotated[
        list[int] | None,
        typer.Option(help="With --storage: so many memories instead; may be repeated.", min=8, show_default=False),
    ] = None,
    json: Json = False,
) -> None:
    """How fast it is, beside LangGraph's own stores in the same run."""
    from threadkeep.evals.bench import render_table, run_bench
    from threadkeep.evals.bench_storage import StorageSizes, run_storage_bench

    sizes = StorageSizes.quick() if quick else StorageSizes.full() if full else StorageSizes()
    if memories:
        sizes = replace(sizes, totals=tuple(memories))
    with progress("Bench") as bar:
        report = run_storage_bench(storage, sizes, progress=bar) if storage else run_bench(quick=quick, progress=bar)
    if json:
        print_json(report)
        return
    out.print(render_table(report))


def _numbers(text: str, option: str, example: str) -> list[int]:
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 1:
        msg = f"{option} is {text[:40]!r}; give whole numbers separated by commas, such as {example}."
        raise InvalidInputError(msg)
    return numbers
