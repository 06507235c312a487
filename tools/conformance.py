"""Write into the documentation what the store conformance suite finds: ``python -m tools.conformance [STORE…]``.

It runs the suite on every store, which takes some minutes, or on those named, and replaces their part of the
report in ``docs/store-conformance.md``. Tests hold that page against the checks and against the stores.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Final

from threadkeep_conformance import CHECKS, Report, Result
from threadkeep_conformance.__main__ import run_all
from threadkeep_conformance.reporting import MARKS, as_markdown
from threadkeep_conformance.running import Outcome
from threadkeep_conformance.stores import SUBJECTS
from tools.finding import ROOT

PAGE: Final = ROOT / "docs" / "store-conformance.md"
BEGIN: Final = "<!-- The report: written by `make conformance`. -->"
END: Final = "<!-- The end of the report. -->"
PACKAGES: Final = (
    "langgraph-checkpoint",
    "langgraph-checkpoint-sqlite",
    "langgraph-checkpoint-postgres",
    "langgraph-checkpoint-redis",
    "langgraph-store-mongodb",
)
_ROW: Final = re.compile(r"^\| `(?P<check>[a-z-]+\.[a-z-]+)` \| (?P<marks>.*) \|$", re.MULTILINE)


def report_text(reports: Sequence[Report]) -> str:
    """Return what stands between the marks of the page."""
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    sentences = "\n".join(f"| `{check.id}` | {_cell(check.sentence)} | {_cell(check.source)} |" for check in CHECKS)
    return f"""{BEGIN}

✓ passed, ✗ failed, – skipped: the store says that it cannot, or cannot be opened so here. LangGraph's: {versions}.

{as_markdown(reports)}

| Check | What is true | Where the rule comes from |
|---|---|---|
{sentences}

{END}"""


def with_report(page: str, report: str) -> str:
    """Return *page* with *report* in the place of the one it has."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{report}{after}"


def outcomes_of(page: str) -> dict[str, dict[str, Outcome]]:
    """Return what *page* says: the outcome of every check, by store."""
    head = re.search(r"^\| Check \| (?P<stores>.*) \|$\n\|---\|:", page, re.MULTILINE)
    stores = [name.replace(" ", "-") for name in head["stores"].split(" | ")] if head else []
    outcomes: dict[str, dict[str, Outcome]] = {name: {} for name in stores}
    words = {mark: outcome for outcome, mark in MARKS.items()}
    for row in _ROW.finditer(page):
        marks = row["marks"].split(" | ")
        if len(marks) == len(stores) and set(marks) <= set(words):
            for name, mark in zip(stores, marks, strict=True):
                outcomes[name][row["check"]] = words[mark]
    return outcomes


def reports_of(page: str) -> dict[str, Report]:
    """Return the reports that *page* tells of checks that there still are, by store."""
    known = {check.id: check for check in CHECKS}
    return {
        name: Report(name, tuple(Result(known[one], outcome) for one, outcome in found.items() if one in known))
        for name, found in outcomes_of(page).items()
    }


def write(names: Sequence[str] = (), path: Path = PAGE) -> None:
    """Run the suite on the stores *names*, by default all, and write the page; of the others it keeps its word."""
    page = path.read_text(encoding="utf-8")
    reports = reports_of(page)
    chosen = [subject for subject in SUBJECTS if not names or subject.name in names]
    reports.update({report.name: report for report in run_all(CHECKS, chosen)})
    told = [reports[subject.name] for subject in SUBJECTS if subject.name in reports]
    path.write_text(with_report(page, report_text(told)), encoding="utf-8")
    print(f"wrote {path.relative_to(ROOT)}")


def _cell(text: str) -> str:
    return text.replace("``", "`").replace("|", "\\|")


if __name__ == "__main__":
    write(sys.argv[1:])
