"""Reports as JSON, as text for a terminal, and as a table for a document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from threadkeep_conformance.catalogue import CHECKS
from threadkeep_conformance.running import Outcome, Report

MARKS: Final[dict[Outcome, str]] = {"passed": "✓", "failed": "✗", "skipped": "–"}


def as_json(reports: Sequence[Report]) -> dict[str, Any]:
    """Return the counts of each store, and why checks failed or were skipped."""
    return {
        "stores": [
            {
                "name": report.name,
                "passed": len(report.of("passed")),
                "failed": len(report.of("failed")),
                "skipped": len(report.of("skipped")),
                "failures": report.of("failed"),
                "skips": report.of("skipped"),
            }
            for report in reports
        ]
    }


def as_text(reports: Sequence[Report]) -> str:
    """Return the counts of each store, and below them what failed and why, for a terminal."""
    width = max(len(report.name) for report in reports)
    lines = [f"{'store':{width}}  passed  failed  skipped"]
    lines += [
        f"{report.name:{width}}  {len(report.of('passed')):6}  {len(report.of('failed')):6}  "
        f"{len(report.of('skipped')):7}"
        for report in reports
    ]
    for report in reports:
        for outcome in ("failed", "skipped"):
            told = report.of(outcome)
            if told:
                lines += ["", f"{report.name}: {outcome}"]
                lines += [f"  {name}: {reason}" for name, reason in _grouped(told).items()]
    return "\n".join(lines)


def as_markdown(reports: Sequence[Report]) -> str:
    """Return a table of all checks and all stores: ✓ passed, ✗ failed, – skipped."""
    head = f"| Check | {' | '.join(report.name.replace('-', ' ') for report in reports)} |"
    rows = [head, "|---|" + ":-:|" * len(reports)]
    outcomes = [{result.check.id: MARKS[result.outcome] for result in report.results} for report in reports]
    rows += [
        f"| `{check.id}` | {' | '.join(of_store.get(check.id, '') for of_store in outcomes)} |" for check in CHECKS
    ]
    counts = [f"{len(report.of('passed'))} of {len(report.results) - len(report.of('skipped'))}" for report in reports]
    rows.append(f"| **passed** | {' | '.join(counts)} |")
    return "\n".join(rows)


def _grouped(told: dict[str, str]) -> dict[str, str]:
    """Put the checks that share a reason, as skipped ones do, in one line."""
    names: dict[str, list[str]] = {}
    for name, reason in told.items():
        names.setdefault(reason, []).append(name)
    return {", ".join(found): reason for reason, found in names.items()}
