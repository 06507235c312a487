"""Run every invariant and print what was found; exit 1 where one was broken."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.invariants import burst, erasures, owners, restarts, sigkill, strategies, tenants, two_writers, workers
from threadkeep_conformance.servers import PostgresServer

BROKEN = frozenset(
    {
        "lost",
        "doubled",
        "misread",
        "collisions",
        "leaks",
        "failed",
        "given_up",
        "misreported",
        "unlearnt",
        "residues",
        "late",
        "unseen",
    }
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
        "many turns with each strategy; a tenth as many kills of each server",
    )
    parser.add_argument("--tenants", type=int, help="how many steps of two owners; otherwise 50 times as many as kills")
    parser.add_argument("--workers", type=int, help="how many workers are killed on each storage; otherwise as --n")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    given = parser.parse_args()
    rows: dict[str, dict[str, Any]] = {}
    for name, row in _rows(given.n, given.n * 50 if given.tenants is None else given.tenants, given.workers or given.n):
        rows[name] = row
        sys.stderr.write(f"{name}: {json.dumps(row)}\n")  # what was found is known whatever becomes of the rest
    table = Table("invariant", "tried", "found", title="Invariants")
    for name, row in rows.items():
        found = ", ".join(f"{value} {field}" for field, value in row.items() if field != "n")
        table.add_row(name, f"{row['n']:,}", found)
    Console(stderr=given.json).print(table)
    if given.json:
        sys.stdout.write(json.dumps(rows) + "\n")
    return int(any(row.get(field) for row in rows.values() for field in BROKEN))


def _rows(n: int, tenants_steps: int, kills: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Run one after the other; yield the name of each and what was found."""
    yield "sigkill", sigkill.run(n)
    yield "owners", owners.run(n * 500)
    yield "two_writers", two_writers.run(n * 5)
    yield "tenants", tenants.run(tenants_steps)
    yield "workers_sqlite", workers.run(kills)
    if lacking := PostgresServer.missing():
        sys.stderr.write(f"sigkill and workers on PostgreSQL are left out: {', '.join(lacking)} is not installed\n")
    else:
        with PostgresServer() as server:
            yield "workers_postgres", workers.run(kills, url=server.url)
        with PostgresServer() as server:
            yield "sigkill_postgres", sigkill.run(n, url=server.url)
    for kind in strategies.KINDS:
        yield f"strategies_{kind}", strategies.run(n * 10, kinds=(kind,))[kind]
    for kind in erasures.KINDS:
        yield f"erasures_{kind}", erasures.run(n, kinds=(kind,))[kind]
    for kind in restarts.KINDS:
        yield f"restarts_{kind}", restarts.run(max(1, n // 10), kinds=(kind,))[kind]
    for kind in burst.KINDS:
        yield f"burst_{kind}", burst.run(n, users=50, seconds=n * 0.3, kinds=(kind,))[kind]
        yield f"outage_{kind}", burst.run_outage(seconds=n * 0.3, kinds=(kind,))[kind]


if __name__ == "__main__":
    sys.exit(main())
