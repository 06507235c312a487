"""Break every server in every way at full size; exit 1 where something acknowledged was lost, or done twice."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Final

from rich.console import Console
from rich.table import Table

from tests.faults.breaking import FAULTS, Outcome, Sizes, break_it
from tests.faults.places import DiskError

STORAGES: Final = ("postgres", "redis")


def main() -> int:
    """Break them; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="as the tests do it: a second instead of half a minute")
    parser.add_argument("--storage", action="append", choices=STORAGES, help="only this one; may be repeated")
    parser.add_argument("--fault", action="append", choices=tuple(FAULTS), help="only this one; may be repeated")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    given = parser.parse_args()
    sizes = Sizes() if given.quick else Sizes.full()
    outcomes: list[Outcome] = []
    skipped: list[str] = []
    for storage in given.storage or STORAGES:
        for fault in given.fault or FAULTS:
            try:
                outcomes.append(break_it(storage, fault, sizes))
            except DiskError as error:
                skipped.append(f"{storage}, {fault}: skipped for want of {error}")
    rows = [outcome.as_json() for outcome in outcomes]
    table = Table(*(rows[0] if rows else ()), title="Faults")
    for row in rows:
        table.add_row(
            *(
                "–" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
                for value in row.values()
            )
        )
    console = Console(stderr=given.json)
    console.print(table)
    for line in skipped:
        console.print(line)
    if given.json:
        sys.stdout.write(json.dumps({"faults": rows, "skipped": skipped}) + "\n")
    return int(any(row["lost"] or row["doubled"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
