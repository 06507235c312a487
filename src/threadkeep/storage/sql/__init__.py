"""The statements of the SQL backends, in ``.sql`` files, and what reads them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

_HEADING: Final = re.compile(r"^-- name: *(\w+)\s*$", re.MULTILINE)


def script(name: str) -> str:
    """Return the text of ``<name>.sql`` in this folder."""
    return Path(__file__).with_name(f"{name}.sql").read_text(encoding="utf-8")


def statements(name: str) -> dict[str, str]:
    """Return the statements of ``<name>.sql`` by their ``-- name: …`` headings."""
    _, *parts = _HEADING.split(script(name))
    return {heading: statement.strip() for heading, statement in zip(parts[::2], parts[1::2], strict=True)}
