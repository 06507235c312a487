"""What reads the statements of the SQL backends from their ``.sql`` files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

_HEADING: Final = re.compile(r"^-- name: *(\w+)\s*$", re.MULTILINE)


def statements(path: Path) -> dict[str, str]:
    """Return the statements of the file at *path* by their ``-- name: …`` headings."""
    _, *parts = _HEADING.split(path.read_text(encoding="utf-8"))
    return {heading: statement.strip() for heading, statement in zip(parts[::2], parts[1::2], strict=True)}
