"""A machine without a Chromium: one visible skip, and a failure in continuous integration."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = ("tests/web/test_details.py", "tests/web/test_wheel.py")


@pytest.mark.slow
@pytest.mark.usefixtures("assets")
@pytest.mark.parametrize(("variables", "outcome"), [({}, "SKIPPED [1]"), ({"CI": "true"}, "1 error")])
def test_a_missing_browser_is_one_skip_or_a_failure(tmp_path: Path, variables: dict[str, str], outcome: str):
    environment = {name: value for name, value in os.environ.items() if name != "CI" and "PYTEST" not in name}
    environment |= {"PATH": str(tmp_path), **variables}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-r", "fEs", "-p", "no:cacheprovider", *FILES]
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert "There is no Chromium" in run.stdout
    assert run.stdout.count(outcome) == 1
