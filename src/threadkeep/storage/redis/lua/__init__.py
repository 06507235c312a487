"""The scripts that Redis runs, in ``.lua`` files, and what reads them."""

from __future__ import annotations

from pathlib import Path


def source(*names: str) -> str:
    """Return the texts of ``<name>.lua`` in this folder, one after the other."""
    return "\n".join(Path(__file__).with_name(f"{name}.lua").read_text(encoding="utf-8") for name in names)
