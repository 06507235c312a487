"""Run LangGraph's own tests of graphs with our checkpointer, and with its own beside it: ``python -m tests.pregel``.

The tests come from the source distribution of the installed version; it and what its tests need are downloaded into
``.build/pregel`` at the first run. A test fails here if it fails with our checkpointer and not with LangGraph's own in
memory and with the same other parameters, unless :data:`KNOWN` says why.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = ROOT / ".build" / "pregel"
NEEDED: Final = ("pytest-mock==3.15.1", "syrupy==5.0.0", "pytest-repeat==0.9.4", "pycryptodome==3.23.0")
KINDS: Final = ("memory", "sqlite", "postgres")

_ANY = "puts an object of its own class into a channel of type Any, which ours refuses by name until it is allowed"
KNOWN: Final[Mapping[str, str]] = {
    "tests/test_interruption.py::test_interrupt_response_schema": _ANY,
    "tests/test_interruption.py::test_interrupt_response_schema_rejects_invalid_resume": _ANY,
    "tests/test_interruption.py::test_interrupt_response_schema_invalid_resume_after_earlier_interrupt": _ANY,
}
"""Tests that fail with ours for a reason."""

_OVERRIDE: Final = "\n\nfrom tests.fixtures_of_threadkeep import *  # noqa: E402, F403\n"


def main() -> int:
    """Run both; return 1 if a test fails with ours alone."""
    parser = argparse.ArgumentParser(prog="python -m tests.pregel", description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"storages, of {', '.join(KINDS)}; by default all")
    parser.add_argument("--select", default="", help="only tests whose names match this expression of pytest")
    given = parser.parse_args()
    kinds = given.kinds or KINDS
    folder = prepare()
    stock = run(folder, given.select, ())
    ours = run(folder, given.select, kinds)
    unexpected = ours.unlike(stock)
    lines = [f"LangGraph {version('langgraph')}: {stock.summary} with its own checkpointers, {ours.summary} with ours"]
    lines += [f"  fails with ours alone: {one}" for one in unexpected]
    sys.stdout.write("\n".join(lines) + "\n")
    return int(bool(unexpected) or not ours.passed)


class Outcome:
    """What became of the tests.

    Attributes:
        failed: The ids of tests that failed.
        cases: The cases that failed: names and parameters without the checkpointer.
        passed: How many passed.
        summary: The last line of the report.
    """

    def __init__(self, report: str, cases: Mapping[str, str] | None = None) -> None:
        self._cases = cases or {}
        self.failed = re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", report, re.MULTILINE)
        self.cases = {self.case_of(one) for one in self.failed}
        counted = re.search(r"(\d+) passed", report)
        self.passed = int(counted[1]) if counted else 0
        self.summary = f"{self.passed} passed, {len(self.failed)} failed"

    def unlike(self, stock: Outcome) -> list[str]:
        """Return the tests that failed here, and neither in *stock* with the same parameters nor for a known reason."""
        return sorted(
            one for one in self.failed if self.case_of(one) not in stock.cases and one.partition("[")[0] not in KNOWN
        )

    def case_of(self, test: str) -> str:
        """Return the name of a test and its parameters without the checkpointer; itself if it was not collected."""
        return self._cases.get(test, test)


def run(folder: Path, select: str, kinds: Sequence[str]) -> Outcome:
    """Run the tests in *folder*; *kinds*: the storages of our checkpointer; none: LangGraph's own checkpointers."""
    paths = [ROOT / "src", ROOT / "packages/threadkeep-conformance/src", FOLDER / "needed"]
    kind = "-".join(kinds) or "stock"
    cases = folder / f"cases-{kind}.json"
    cases.unlink(missing_ok=True)
    environment = {
        **os.environ,
        "NO_DOCKER": "true",
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "THREADKEEP_PREGEL_KINDS": ",".join(kinds),
        "THREADKEEP_PREGEL_CASES": str(cases),
    }
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        "2",
        "-p",
        "no:cacheprovider",
        "-o",
        "addopts=",
        "--tb=short",
    ]
    command += ["-k", select] if select else []
    done = subprocess.run([*command, "tests"], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    (folder / f"report-{kind}.txt").write_text(done.stdout + done.stderr)
    return Outcome(done.stdout, json.loads(cases.read_text()) if cases.exists() else {})


def prepare() -> Path:
    """Download and unpack the tests, and let them use our checkpointers; return the folder."""
    wanted = version("langgraph")
    folder = FOLDER / wanted
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    if not (FOLDER / "needed").is_dir():
        subprocess.run([*pip, "install", "--no-deps", "--target", FOLDER / "needed", *NEEDED], check=True)
    if not folder.is_dir():
        download = [*pip, "download", "--no-deps", "--no-binary", ":all:", "--no-build-isolation"]
        subprocess.run([*download, "--dest", FOLDER, f"langgraph=={wanted}"], check=True)
        with tarfile.open(FOLDER / f"langgraph-{wanted}.tar.gz") as archive:
            archive.extractall(FOLDER, filter="data")
        (FOLDER / f"langgraph-{wanted}").rename(folder)
        conftest = folder / "tests" / "conftest.py"
        conftest.write_text(conftest.read_text() + _OVERRIDE)
    shutil.copy(Path(__file__).with_name("fixtures.py"), folder / "tests" / "fixtures_of_threadkeep.py")
    return folder


if __name__ == "__main__":
    sys.exit(main())
