"""A machine without a Chromium: one visible skip, and a failure in continuous integration."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.processes import run_python

ROOT = Path(__file__).parents[2]
IMPORTED = "ignore::pytest.PytestAssertRewriteWarning"
"""The program forks from a process that has imported modules of pytest's plugins."""

FILES = ("tests/web/test_details.py", "tests/web/test_wheel.py")


@pytest.mark.slow
@pytest.mark.usefixtures("assets")
@pytest.mark.parametrize(("variables", "outcome"), [({}, "SKIPPED [1]"), ({"CI": "true"}, "1 error")])
def test_a_missing_browser_is_one_skip_or_a_failure(tmp_path: Path, variables: dict[str, str], outcome: str):
    environment = {name: value for name, value in os.environ.items() if name != "CI" and "PYTEST" not in name}
    environment |= {"PATH": str(tmp_path), **variables}
    command = ["-m", "pytest", "-W", IMPORTED, "-q", "-x", "-r", "fEs", "-p", "no:cacheprovider", *FILES]
    run = run_python(*command, cwd=ROOT, env=environment)
    assert "There is no Chromium" in run.stdout
    assert run.stdout.count(outcome) == 1
