"""The cost curve: every index at every size, each in a process of its own."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from threadkeep.errors import SettingsError
from threadkeep.memories.models import NewMemory
from threadkeep_evals.bench_curve import (
    EXACT,
    Cell,
    _opened,
    _owner,
    charts,
    measure,
    render_table,
    run_curve,
    taken_over,
)
from threadkeep_evals.facts import more_facts
from threadkeep_evals.plot import svg


def row(index: str, n: int, milliseconds: float) -> dict[str, object]:
    return {"index": index, "n": n, "p50_ms": milliseconds}


class TestTakenOver:
    def test_is_the_size_from_which_it_stays_quicker(self):
        """A size at which it happened to be quicker below one at which it is slower does not count."""
        rows = [row(EXACT, n, ms) for n, ms in ((100, 1.0), (1000, 2.0), (10_000, 20.0), (100_000, 200.0))]
        rows += [row("a", n, ms) for n, ms in ((100, 0.5), (1000, 3.0), (10_000, 19.0), (100_000, 20.0))]
        rows += [row("b", n, ms) for n, ms in ((10_000, 3.0), (100_000, 200.0))]
        rows += [row("c", 100, 0.5)]

        assert taken_over(rows) == [
            {"index": "a", "over": EXACT, "from": 10_000},
            {"index": "b", "over": EXACT, "from": None},
            {"index": "c", "over": EXACT, "from": 100},
        ]


@pytest.mark.slow
class TestRun:
    @pytest.mark.long
    def test_every_index_is_measured(self):
        """Through the public door; the engines of the largest size, too, where that is small; each is told at once."""
        seen: list[tuple[int, int]] = []
        told: list[tuple[str, int]] = []

        report = run_curve(
            (60,),
            searches=4,
            progress=lambda *step: seen.append(step),
            each=lambda row: told.append((row["index"], seen[-1][0])),
        )

        assert [(one["index"], one["n"]) for one in report["curve"]] == [
            (EXACT, 60),
            ("exact, int8", 60),
            ("faiss", 60),
            ("pgvector", 60),
        ]
        assert all(0 < one["p50_ms"] <= one["p95_ms"] for one in report["curve"])
        assert seen[-1] == (5, 5)
        assert told == [(one["index"], before) for before, one in enumerate(report["curve"], start=1)]
        shown = StringIO()
        Console(file=shown, width=200).print(render_table(report))
        assert all(one["index"] in shown.getvalue() for one in report["takes_over"])
        assert all(svg(chart).startswith("<svg") for chart in charts(report))

    async def test_an_engine_that_is_done_without_is_no_figure(self, tmp_path):
        """Words alone would be quick, and would be told as the engine's."""
        nowhere = Cell(
            "pgvector", 20, f"{tmp_path}/memories.db", f"{tmp_path}/vectors", "postgresql://127.0.0.1:9/none"
        )
        exact = replace(nowhere, index=EXACT, dsn="")
        async with _opened(exact) as tk:
            await tk.memories.remember_many([NewMemory(fact.text) for fact in more_facts(20, seed=1)], owner=_owner(20))

        assert (await measure(exact))["index"] == EXACT
        with pytest.raises(SettingsError, match="did without vectors"):
            await measure(replace(nowhere, searches=3))
