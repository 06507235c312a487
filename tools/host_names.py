"""Addresses that have no place in a repository: package registries and paths of one machine.

A registry in a lock file or a link breaks for whoever installs from another one; a path of somebody's machine is
true nowhere else. The patterns are spelt so that they do not match themselves.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

from tools.finding import ROOT, Finding, report, tracked_files

REGISTRY: Final = re.compile(
    r"\b(?:(?:test\.)?pypi\.(?:org|python\.org)|files\.pythonhosted\.org|registry\.(?:npmjs\.org|yarnpkg\.com)"
    r"|(?:deb|security|snapshot)\.debian\.org|(?:archive|security)\.ubuntu\.com|crates\.io|proxy\.golang\.org"
    r"|repo1?\.maven\.(?:apache\.)?org|conda\.anaconda\.org)\b",
    re.IGNORECASE,
)
MACHINE_PATH: Final = re.compile(
    r"(?<![\w.])/(?:[r]oot|[w]ork/\w+|[o]pt/(?:pypi|wheels)|[h]ome/(?!ana/)\w+|[U]sers/\w+)/|\.\./[s]hared/"
)
LARGEST_BYTES: Final = 2_000_000


def check(text: str, path: str) -> list[Finding]:
    """Return the addresses that a file with this text should not hold."""
    found: list[Finding] = []
    for number, line in enumerate(text.splitlines(), start=1):
        found += [
            Finding(path, number, f"the registry {at[0]}: name the package, not its place.")
            for at in REGISTRY.finditer(line)
        ]
        found += [Finding(path, number, f"{at[0]} is true on one machine only.") for at in MACHINE_PATH.finditer(line)]
    return found


def check_tree(root: Path = ROOT) -> list[Finding]:
    """Return what the text files that git tracks or would add hold."""
    found: list[Finding] = []
    for path in tracked_files(root):
        content = path.read_bytes()
        if len(content) <= LARGEST_BYTES and b"\0" not in content:
            found += check(content.decode("utf-8", errors="replace"), path.relative_to(root).as_posix())
    return found


if __name__ == "__main__":
    sys.exit(report(check_tree()))
