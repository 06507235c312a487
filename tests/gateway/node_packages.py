"""Programs for Node beside the tests: installed once, as the lock says; without Node the tests are skipped, visibly."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

_SOURCE: Final = Path(__file__).with_name("node")
_TARGET: Final = Path(__file__).parents[2] / ".build" / "node"
_SECONDS: Final = 300


def node_folder() -> Path:
    """Return the folder with ``node_modules``; skip the test where it cannot be had."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("Node is not installed")
    _TARGET.mkdir(parents=True, exist_ok=True)
    lock = (_SOURCE / "package-lock.json").read_bytes()
    installed = _TARGET / "installed.json"
    with (_TARGET / ".lock").open("w") as held:  # of several test processes one installs
        fcntl.flock(held, fcntl.LOCK_EX)
        for file in _SOURCE.iterdir():
            shutil.copy(file, _TARGET)
        if not installed.exists() or installed.read_bytes() != lock:
            command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]
            done = subprocess.run(command, cwd=_TARGET, capture_output=True, text=True, timeout=_SECONDS, check=False)
            if done.returncode:
                pytest.skip(f"npm cannot install the packages: {done.stderr.strip()[-200:]}")
            installed.write_bytes(lock)
    return _TARGET
