"""``python -m threadkeep_conformance``: run the suite, print what came out."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from threadkeep_conformance.catalogue import CHECKS
from threadkeep_conformance.check import Check
from threadkeep_conformance.reporting import as_json, as_text
from threadkeep_conformance.running import Report, Result, run_store
from threadkeep_conformance.servers import Server
from threadkeep_conformance.stores import SUBJECTS, Subject


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what *arguments* ask for; return 1 where one of Threadkeep's own stores failed a check."""
    asked = _parser().parse_args(arguments)
    checks = [check for check in CHECKS if asked.large or not check.large]
    chosen = [subject for subject in SUBJECTS if not asked.store or subject.name in asked.store]
    reports = run_all(checks, chosen, quiet=asked.json)
    sys.stdout.write((json.dumps(as_json(reports)) if asked.json else as_text(reports)) + "\n")
    return 1 if any(report.of("failed") for report in reports if report.name.startswith("threadkeep-")) else 0


def run_all(checks: Sequence[Check], subjects: Sequence[Subject] = SUBJECTS, *, quiet: bool = False) -> list[Report]:
    """Run *checks* on *subjects*, on servers that are started for it; say on the error stream how far it is."""
    reports: list[Report] = []
    with ExitStack() as running:
        servers: dict[type[Server], str] = {}
        for subject in subjects:
            progress = _shown(subject.name) if sys.stderr.isatty() and not quiet else _silent
            reports.append(_report(subject, checks, servers, running, progress))
    return reports


def _report(
    subject: Subject,
    checks: Sequence[Check],
    servers: dict[type[Server], str],
    running: ExitStack,
    progress: Callable[[int, int], None],
) -> Report:
    if subject.server is None:
        return asyncio.run(run_store(subject.name, subject.place("", None), checks=checks, progress=progress))
    if lacking := subject.server.missing():
        reason = f"{', '.join(lacking)}, from which its server is started, is not installed"
        return Report(subject.name, tuple(Result(check, "skipped", reason) for check in checks))
    if subject.server not in servers:
        servers[subject.server] = running.enter_context(subject.server()).url
    place = subject.place(servers[subject.server], None)
    asked = [check for check in checks if not (check.large and subject.too_slow)]
    report = asyncio.run(run_store(subject.name, place, checks=asked, progress=progress))
    left = [Result(check, "skipped", subject.too_slow) for check in checks if check not in asked]
    order = {check.id: place for place, check in enumerate(checks)}
    return Report(subject.name, tuple(sorted((*report.results, *left), key=lambda result: order[result.check.id])))


def _silent(_done: int, _all: int) -> None:
    """Say nothing."""


def _shown(name: str) -> Callable[[int, int], None]:
    def progress(done: int, of: int) -> None:
        sys.stderr.write(f"\r{name}: {done} of {of}" + ("\n" if done == of else ""))
        sys.stderr.flush()

    return progress


def _parser() -> argparse.ArgumentParser:
    names = ", ".join(subject.name for subject in SUBJECTS)
    parser = argparse.ArgumentParser(
        prog="python -m threadkeep_conformance",
        description="Check what LangGraph stores do where they differ: Threadkeep's and LangGraph's own.",
        epilog="Servers are started from wheels: the packages of the test group of pyproject.toml.",
    )
    parser.add_argument(
        "--store",
        nargs="+",
        choices=[subject.name for subject in SUBJECTS],
        metavar="NAME",
        help=f"only these: {names}",
        default=[],
    )
    parser.add_argument("--large", action="store_true", help="run the checks that take many seconds, too")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


if __name__ == "__main__":
    sys.exit(main())
