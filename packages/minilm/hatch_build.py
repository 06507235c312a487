"""Refuse to make a distribution that has no model in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NEEDED = (
    "minilm-l6-v2-int8.onnx",
    "minilm-l6-v2-changes-int8.onnx",
    "minilm-l6-v2-needs-int8.onnx",
    "tokenizer.json",
)


class ModelIsThere(BuildHookInterface):  # type: ignore[type-arg]  # hatchling's own plugins leave it open, too
    """Check for the built files; an editable install may come before them, as ``make setup`` does it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - hatchling's signature
        """Raise where the distribution would come out empty."""
        folder = Path(self.root, "src", "threadkeep_minilm")
        missing = [name for name in NEEDED if not (folder / name).is_file()]
        if version != "editable" and missing:
            msg = f"Not built yet: {', '.join(missing)}. Run packages/minilm/build_model.py first (`make setup` does)."
            raise FileNotFoundError(msg)
