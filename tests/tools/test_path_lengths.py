"""The main paths stay short: at most so many modules and calls of the package."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tools.finding import ROOT
from tools.path_lengths import LIMITS, by_function, too_long


@pytest.mark.long
@pytest.mark.model
def test_every_path_is_within_its_limit():
    """The measurement watches every thread of a process, so it gets a process of its own, with default settings."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("THREADKEEP_")}
    command = [sys.executable, "-m", "tools.path_lengths", "--check"]

    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


def test_a_longer_path_is_reported():
    """One call more than the limit, or a path that was not measured, fails."""
    lengths = {name: {"modules": modules, "calls": calls} for name, (modules, calls) in LIMITS.items()}
    assert too_long(lengths) == []

    lengths["store get"]["calls"] += 1
    del lengths["store put"]

    assert len(too_long(lengths)) == 3


def test_calls_are_summed_by_module_and_function():
    """The module with the most calls is first, and so is its most called function."""
    calls = [("a.py", 1, "once"), ("b.py", 1, "once"), ("b.py", 5, "Thing.<locals>.twice"), ("b.py", 5, "Thing.twice")]

    assert by_function(calls) == ["    3 b.py: Thing.twice 2, once", "    1 a.py: once"]
