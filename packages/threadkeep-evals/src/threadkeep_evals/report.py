"""What a comparison says: one JSON object, tables for people, and the trade-off between tokens and evidence."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

from threadkeep.recall.service import DEFAULT_BUDGET_TOKENS
from threadkeep_evals.methods import OURS
from threadkeep_evals.metrics import CONFIDENCE, METRICS, ROUNDS, mean_scores, percentile, rounded_interval
from threadkeep_evals.peers import EVERYTHING, NO_MEMORY
from threadkeep_evals.plot import Chart, Series

if TYPE_CHECKING:
    from rich.table import Table

    from threadkeep_evals.comparison import Comparison, Scored

RESAMPLED: Final = ("question", "conversation")
"""What an interval may be made by drawing anew."""

_METRIC: Final = "recall@10"
_SHAPE: Final = METRICS[:5]
"""The figures that a row has had from the start; the others are at its end."""


class Report:
    """The figures of a comparison.

    Args:
        comparison: What was measured.
        resample: Of :data:`RESAMPLED`: questions tell how steady a figure is on these conversations, conversations how
            steady it is on others like them.
    """

    def __init__(self, comparison: Comparison, *, resample: str = RESAMPLED[0]) -> None:
        self._of = comparison
        self._resample = resample

    def as_json(self) -> dict[str, Any]:
        """Return the figures as the command line prints them; a group without questions is left out."""
        data = self._of.data
        return {
            "dataset": data.kind,
            "file_sha256": data.sha256,
            "block": self.block(),
            "results": [
                self._row(method, level, categories, chosen)
                for method in self._of.methods
                for level in data.levels
                for categories in data.groups
                if (chosen := self._of.chosen(method, categories, level))
            ],
            "gains": self.gains(),
            "curve": self.curve(),
            "intervals": {
                "confidence": CONFIDENCE,
                "resampled": self._resample,
                "rounds": ROUNDS,
                "seed": 0,
            },
            "embedder": self._of.embedder,
            "file": data.name,
            "conversations": len(data.conversations),
            "turns": sum(len(one.turns) for one in data.conversations),
            "not_run": [one.as_json() for one in self._of.not_run],
        }

    def block(self) -> dict[str, Any]:
        """Return what stands in our blocks, and how often nothing does where nothing can matter."""
        ours = [one for one in self._of.scored if one.method == OURS]
        budget, of_others = self._of.budgets[0], self._of.of_others
        return {
            "n": len(ours),
            "tokens_mean": round(fmean(one.given[budget].tokens for one in ours), 1),
            "evidence": _evidence(ours, budget),
            "evidence_without_floor": _mean([one.listed.evidence for one in ours if one.listed]),
            "empty": round(fmean(one.given[budget].tokens == 0 for one in ours), 4),
            "empty_of_others": round(fmean(of_others), 4) if of_others else None,
        }

    def gains(self) -> list[dict[str, Any]]:
        """Return by how much ours finds more than each other method, on each conversation and without each.

        Of the first group of categories, at every level, recall@10.
        """
        group = self._of.data.main_group
        found: list[dict[str, Any]] = []
        for level in self._of.data.levels:
            ours = self._of.chosen(OURS, group, level)
            for method in self._of.methods:
                theirs = self._of.chosen(method, group, level)
                if method not in {OURS, NO_MEMORY} and theirs and theirs[0].figures[level]:
                    found.append(self._gain(method, level, group, ours, theirs))
        return found

    def _gain(
        self, method: str, level: str, group: str, ours: Sequence[Scored], theirs: Sequence[Scored]
    ) -> dict[str, Any]:
        pairs = zip(ours, theirs, strict=True)
        by_question = [
            (mine.conversation_id, mine.figures[level][_METRIC] - other.figures[level][_METRIC])
            for mine, other in pairs
        ]
        differences = [gain for _, gain in by_question]
        talks = list(dict.fromkeys(talk for talk, _ in by_question))
        of = {talk: [gain for one, gain in by_question if one == talk] for talk in talks}
        without = [fmean([gain for one, gain in by_question if one != talk]) for talk in talks if len(talks) > 1]
        return {
            "over": method,
            "level": level,
            "categories": group,
            "metric": _METRIC,
            "gain": round(fmean(differences), 4),
            "interval95": self._interval(differences, ours),
            "ahead_on": sum(fmean(gains) > 0 for gains in of.values()),
            "conversations": len(talks),
            "without_one": [round(min(without), 4), round(max(without), 4)] if without else None,
            "by_conversation": {talk: round(fmean(gains), 4) for talk, gains in of.items()},
        }

    def curve(self) -> list[dict[str, Any]]:
        """Return, for each method and budget, the tokens of the block and the share of the evidence in it."""
        group = self._of.data.main_group
        return [
            {
                "method": method,
                "budget_tokens": budget,
                "categories": group,
                "tokens_mean": round(fmean(one.given[budget].tokens for one in chosen), 1),
                "evidence_in_block": _evidence(chosen, budget),
            }
            for method in self._of.methods
            if (chosen := self._of.chosen(method, group, "turn"))
            for budget in (self._of.budgets[:1] if method == EVERYTHING else sorted(self._of.budgets))
        ]

    def chart(self) -> Chart:
        """Return the trade-off as a chart."""
        rows = [row for row in self.curve() if row["tokens_mean"] > 0]
        names = dict.fromkeys(row["method"] for row in rows)
        return Chart(
            title=f"{self._of.data.name}: evidence in what the model is given, categories {self._of.data.main_group}",
            x="tokens of the block, mean",
            y="share of the evidence in it",
            series=[
                Series(name, [(row["tokens_mean"], row["evidence_in_block"]) for row in rows if row["method"] == name])
                for name in names
            ],
            x_log=True,
            percent=True,
        )

    def table(self) -> Table:
        """Return the figures for people, with the interval of recall@10."""
        from rich.table import Table

        data = self._of.data
        table = Table(title=f"{data.name}: {data.summary}", title_justify="left")
        table.add_column("method")
        table.add_column("level")
        table.add_column("categories")
        names = ("n", "recall@5", "recall@10", "95 % interval", "recall@20", "all@10", "ndcg@10")
        for name in ("evidence in block", "if cut", "tokens", *names, "ms p50"):
            table.add_column(name, justify="right")
        *_, last = data.groups
        for row in self.as_json()["results"]:
            low, high = row["interval95"][_METRIC] if row["interval95"] else (None, None)
            table.add_row(
                row["method"],
                row["level"],
                row["categories"],
                _percent(row["evidence_in_block"]),
                _percent(row["evidence_if_cut"]),
                f"{row['tokens_mean']:,.0f}",
                f"{row['n']:,}",
                _percent(row["recall@5"]),
                _percent(row[_METRIC]),
                f"{_percent(low)} – {_percent(high)}",
                *(_percent(row[name]) for name in ("recall@20", "all@10", "ndcg@10")),
                f"{row['ms_p50']:.2f}",
                end_section=row["categories"] == last,
            )
        table.caption = self._caption()
        return table

    def by_conversation(self) -> Table:
        """Return the gain of ours over each other method, on each conversation and without each, for people."""
        from rich.table import Table

        gains = [one for one in self.gains() if one["level"] == self._of.data.levels[0]]
        table = Table(title=f"Gain of ours in {_METRIC}, categories {self._of.data.main_group}", title_justify="left")
        table.add_column("conversation")
        for one in gains:
            table.add_column(f"over {one['over']}", justify="right")
        for talk in gains[0]["by_conversation"] if gains else ():
            table.add_row(talk, *(_points(one["by_conversation"][talk]) for one in gains))
        table.add_section()
        table.add_row("all", *(_points(one["gain"]) for one in gains))
        table.add_row("95 % interval", *(_range(one["interval95"]) for one in gains))
        table.add_row("all but one", *(_range(one["without_one"]) for one in gains))
        return table

    def _caption(self) -> str:
        block = self.block()
        others = block["empty_of_others"]
        made = f"embedder {self._of.embedder or 'none'}; intervals: {ROUNDS:,} resamples of the {self._resample}s"
        lines = (
            f"SHA-256 {self._of.data.sha256}; {made}.",
            f"In our block of {self._of.budgets[0]} tokens stands {_percent(block['evidence'])} of the evidence "
            f"({_percent(block['evidence_without_floor'])} in {DEFAULT_BUDGET_TOKENS} without a floor of relevance)"
            + ("." if others is None else f"; asked of another's memory, {others:.1%} of the questions bring nothing."),
            *(f"{one.peer} did not run: {one.why}" for one in self._of.not_run),
        )
        return "\n".join(lines)

    def _row(self, method: str, level: str, categories: str, chosen: Sequence[Scored]) -> dict[str, Any]:
        budget = self._of.budgets[0]
        ranked = [one.figures[level] for one in chosen if one.figures[level]]
        figures = mean_scores(ranked) if ranked else None
        taken = [one.milliseconds for one in chosen]
        return {
            "method": method,
            "level": level,
            "categories": categories,
            "n": len(chosen),
            **{name: figures and round(figures[name], 4) for name in _SHAPE},
            "ms_p50": round(percentile(taken, 0.5), 3),
            "tokens_mean": round(fmean(one.given[budget].tokens for one in chosen), 1),
            "any@10": figures and round(figures["any@10"], 4),
            "ms_p95": round(percentile(taken, 0.95), 3),
            "evidence_in_block": _evidence(chosen, budget),
            "evidence_if_cut": _mean([one.listed.evidence for one in chosen if one.listed]),
            "interval95": {name: self._interval([one[name] for one in ranked], chosen) for name in METRICS}
            if ranked
            else None,
        }

    def _interval(self, values: Sequence[float], chosen: Sequence[Scored]) -> list[float]:
        whole = self._resample == RESAMPLED[1]
        return rounded_interval(values, clusters=[one.conversation_id for one in chosen] if whole else None)


def _evidence(chosen: Sequence[Scored], budget: int) -> float | None:
    return _mean([one.given[budget].evidence for one in chosen])


def _mean(shares: Sequence[float | None]) -> float | None:
    known = [share for share in shares if share is not None]
    return round(fmean(known), 4) if known else None


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.1%}"


def _points(gain: float) -> str:
    return f"{100 * gain:+.1f}"


def _range(ends: Sequence[float] | None) -> str:
    return "–" if ends is None else f"{_points(ends[0])} … {_points(ends[1])}"
