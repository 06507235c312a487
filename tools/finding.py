"""What a check found, and which files there are to check."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One place that breaks a rule.

    Attributes:
        path: The file, relative to the repository's root.
        line: Counted from 1; 0 where the whole file is meant.
        message: One sentence: what is wrong and what to do instead.
    """

    path: str
    line: int
    message: str

    def __str__(self) -> str:
        """Return it the way editors and terminals make a link of."""
        return f"{self.path}:{self.line}: {self.message}" if self.line else f"{self.path}: {self.message}"


def python_files(*folders: str, root: Path = ROOT) -> Iterator[Path]:
    """Yield the Python files below *folders* of *root*, sorted."""
    for folder in folders:
        yield from sorted((root / folder).rglob("*.py"))


def tracked_files(root: Path = ROOT) -> list[Path]:
    """Return the files that git tracks or would add; ignored ones are not among them."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
    return [path for name in listed.split("\0") if name and (path := root / name).is_file()]


def report(findings: Iterable[Finding]) -> int:
    """Print *findings* and return the exit status: 1 where there are any."""
    found = sorted(findings)
    for finding in found:
        print(finding)
    if found:
        print(f"{len(found)} found", file=sys.stderr)
    return 1 if found else 0
