"""Run every invariant and print what was found; exit 1 where one was broken."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.invariants import burst, erasures, owners, sigkill, strategies, tenants, two_writers, workers
from threadkeep_conformance.servers import PostgresServer

BROKEN = frozenset(
    {"lost", "doubled", "collisions", "leaks", "failed", "given_up", "misreported", "unlearnt", "residues", "late"}
)
"""Fields that must be 0."""


def main() -> int:
    """Run them all; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.invariants", description=__doc__)
    parser.add_argument(
        "--n",
        type=int,
        default=200,
        help="how many kills and erasures; 500 times as many ids of owners, 5 times as many collisions, 10 times as "
        "many turns with each strategy",
    )
    parser.add_argument("--tenants", type=int, help="how many steps of two owners; otherwise 50 times as many as kills")
    parser.add_argument("--workers", type=int, help="how many workers are killed on each storage; otherwise as --n")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    given = parser.parse_args()
    rows: dict[str, dict[str, Any]] = {
        "sigkill": sigkill.run(given.n),
        "owners": owners.run(given.n * 500),
        "two_writers": two_writers.run(given.n * 5),
        "tenants": tenants.run(given.n * 50 if given.tenants is None else given.tenants),
    }
    kills = given.n if given.workers is None else given.workers
    rows["workers_sqlite"] = workers.run(kills)
    if lacking := PostgresServer.missing():
        sys.stderr.write(f"workers_postgres is left out: {', '.join(lacking)} is not installed\n")
    else:
        with PostgresServer() as server:
            rows["workers_postgres"] = workers.run(kills, url=server.url)
    for kind, row in strategies.run(given.n * 10).items():
        rows[f"strategies_{kind}"] = row
    for kind, row in erasures.run(given.n).items():
        rows[f"erasures_{kind}"] = row
    for kind, row in burst.run(given.n, users=50, seconds=given.n * 0.3).items():
        rows[f"burst_{kind}"] = row
    for kind, row in burst.run_outage(seconds=given.n * 0.3).items():
        rows[f"outage_{kind}"] = row
    table = Table("invariant", "tried", "found", title="Invariants")
    for name, row in rows.items():
        found = ", ".join(f"{value} {field}" for field, value in row.items() if field != "n")
        table.add_row(name, f"{row['n']:,}", found)
    Console(stderr=given.json).print(table)
    if given.json:
        sys.stdout.write(json.dumps(rows) + "\n")
    return int(any(row.get(field) for row in rows.values() for field in BROKEN))


if __name__ == "__main__":
    sys.exit(main())
