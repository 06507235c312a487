"""The statements of the SQL backends, in ``.sql`` files, and what reads them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

_HEADING: Final = re.compile(r"^-- name: *(\w+)\s*$", re.MULTILINE)


_HERE: Final = Path(__file__).parent


def script(name: str, *, folder: Path = _HERE) -> str:
    """Return the text of ``<name>.sql`` in *folder*."""
    return (folder / f"{name}.sql").read_text(encoding="utf-8")


def statements(name: str, *, folder: Path = _HERE) -> dict[str, str]:
    """Return the statements of ``<name>.sql`` in *folder* by their ``-- name: …`` headings."""
    _, *parts = _HEADING.split(script(name, folder=folder))
    return {heading: statement.strip() for heading, statement in zip(parts[::2], parts[1::2], strict=True)}
