"""Run everything at full size, one part after the other whatever fails: ``python -m tools.soak [--quick] [PART …]``."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final, TypeAlias

Command: TypeAlias = Sequence[str]

_PYTEST: Final = (sys.executable, "-m", "pytest", "-q", "-n", "2", "-m", "soak")
_INVARIANTS: Final = (sys.executable, "-m", "tests.invariants")
_FAULTS: Final = (sys.executable, "-m", "tests.faults")
_PREGEL: Final = (sys.executable, "-m", "tests.pregel")
_STORES: Final = (sys.executable, "-m", "tests.stores")
_GATEWAY: Final = (sys.executable, "-m", "tests.gateway.load")
_BENCH: Final = (str(Path(sys.executable).with_name("threadkeep")), "bench")

FULL: Final[Mapping[str, Command]] = {
    "tests": _PYTEST,
    "invariants": (*_INVARIANTS, "--tenants", "200000", "--workers", "1000"),
    "faults": _FAULTS,
    "pregel": _PREGEL,
    "stores": _STORES,
    "gateway": _GATEWAY,
    "bench": _BENCH,
    "storages": (*_BENCH, "--storage", "all", "--full"),
}
QUICK: Final[Mapping[str, Command]] = {
    "tests": (*_PYTEST, "--collect-only"),
    "invariants": (*_INVARIANTS, "--n", "2", "--tenants", "100", "--workers", "2"),
    "faults": (*_FAULTS, "--quick"),
    "pregel": (*_PREGEL, "memory", "--select", "interrupt"),
    "stores": (*_STORES, "memory"),
    "gateway": (*_GATEWAY, "--quick"),
    "bench": (*_BENCH, "--quick"),
    "storages": (*_BENCH, "--storage", "all", "--quick"),
}


def run(parts: Mapping[str, Command]) -> int:
    """Run the commands of *parts*, each to its end; print a line for each, and return 1 where one failed."""
    lines: list[str] = []
    failed = False
    for name, command in parts.items():
        print(f"== {name}: {' '.join(command)}", flush=True)
        started = time.monotonic()
        code = subprocess.run(command, check=False).returncode
        failed |= code != 0
        taken = timedelta(seconds=round(time.monotonic() - started))
        lines.append(f"soak: {name:<11} {'passed' if code == 0 else f'FAILED (exit {code})'} in {taken}")
    print("\n".join(lines), flush=True)
    return int(failed)


def main() -> int:
    """Run the parts that are named, or all; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.soak", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"only these, of {', '.join(FULL)}")
    parser.add_argument("--quick", action="store_true", help="as small as it goes; long tests are collected only")
    given = parser.parse_args()
    every = QUICK if given.quick else FULL
    if unknown := [name for name in given.parts if name not in every]:
        parser.error(f"there is no part {unknown[0]!r}; there are {', '.join(every)}")
    return run({name: every[name] for name in given.parts or every})


if __name__ == "__main__":
    sys.exit(main())
