"""Write ``deploy/requirements.txt``: what the container image installs, with the versions and hashes of the lock.

``python -m tools.image_requirements`` writes it; with ``--check`` it only says whether it is out of date. The packages
are those that the extras of the image need, found in the installed metadata.
"""

from __future__ import annotations

import re
import sys
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.finding import ROOT

EXTRAS: Final = (
    "serve",
    "a2a",
    "mcp",
    "postgres",
    "redis",
    "mongodb",
    "encryption",
    "redaction",
    "local",
    "otel",
    "openai",
    "anthropic",
)
"""The extras of Threadkeep that the image has."""

OWN: Final = frozenset({"threadkeep", "threadkeep-minilm"})
"""Packages that are built from this repository."""

TARGET: Final = "deploy/requirements.txt"
_ENTRY: Final = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==")


def locked(text: str) -> dict[str, str]:
    """Return the entries of a lock, with their hashes, by the name of the package; a version for each Python."""
    entries: dict[str, str] = {}
    name = ""
    for line in text.splitlines():
        if found := _ENTRY.match(line):
            name = canonicalize_name(found[1])
            entries[name] = f"{entries[name]}\n{line}" if name in entries else line
        elif line.startswith((" ", "\t")) and name:
            entries[name] += f"\n{line}"
    return entries


def needed(package: str, extras: frozenset[str], seen: set[tuple[str, frozenset[str]]]) -> set[str]:
    """Return the names of all packages that *package* with *extras* needs on Linux, itself included.

    Raises:
        PackageNotFoundError: One is not installed here.
    """
    name = canonicalize_name(package)
    if (name, extras) in seen:
        return set()
    seen.add((name, extras))
    names: set[str] = {name}
    for text in requires(name) or ():
        requirement = Requirement(text)
        if _applies(requirement, extras):
            names |= needed(requirement.name, frozenset(requirement.extras), seen)
    return names


def _applies(requirement: Requirement, extras: frozenset[str]) -> bool:
    if requirement.marker is None:
        return True
    linux = {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"}
    return any(requirement.marker.evaluate({**linux, "extra": extra}) for extra in (extras or {""}))


def image_requirements(root: Path = ROOT) -> str:
    """Return the text of the file.

    Raises:
        ValueError: A package is not in the lock.
    """
    entries = locked((root / "requirements.lock").read_text(encoding="utf-8"))
    names = needed("threadkeep", frozenset(EXTRAS), set()) - OWN
    if missing := sorted(names - entries.keys()):
        msg = f"requirements.lock lacks {', '.join(missing)}; run make lock."
        raise ValueError(msg)
    head = "# Written by `python -m tools.image_requirements` from requirements.lock; change that.\n"
    return head + "\n".join(entries[name] for name in sorted(names)) + "\n"


def main() -> int:
    """Write the file, or check it."""
    target = ROOT / TARGET
    try:
        text = image_requirements()
    except PackageNotFoundError as error:
        sys.stderr.write(f"{error} is not installed; run make setup.\n")
        return 1
    current = target.is_file() and target.read_text(encoding="utf-8") == text
    if "--check" in sys.argv[1:]:
        if not current:
            sys.stderr.write(f"{TARGET} is out of date; run python -m tools.image_requirements.\n")
        return 0 if current else 1
    if not current:
        target.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
