"""Find the files of folders."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path


def find_files(paths: Iterable[Path]) -> list[Path]:
    """Return *paths* with every folder replaced by the files below it, in order of their names.

    Hidden files and folders are left out, and links to folders are not followed.
    """
    return list(dict.fromkeys(file for path in paths for file in (_files_below(path) if path.is_dir() else [path])))


def _files_below(folder: Path) -> list[Path]:
    found: list[Path] = []
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += [Path(parent, name) for name in sorted(names) if not name.startswith(".")]
    return found
