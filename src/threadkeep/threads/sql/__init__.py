"""The statements of what is kept beside checkpoints in SQL databases."""

from __future__ import annotations

from pathlib import Path

from threadkeep.storage import sql


def statements(name: str) -> dict[str, str]:
    """Return the statements of ``<name>.sql`` in this folder by their ``-- name: …`` headings."""
    return sql.statements(name, folder=Path(__file__).parent)
