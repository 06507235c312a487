"""What a start must not import: a package that takes longer than everything else together."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = {
    "deepagents",
    "langchain",
    "langchain_core",
    "langgraph",
    "numpy",
    "onnxruntime",
    "opentelemetry",
    "pydantic",
    "pydantic_settings",
    "sqlite3",
    "tokenizers",
}


def imported_by(statement: str) -> set[str]:
    """Return the top-level modules that a fresh interpreter has loaded after *statement*."""
    program = f"{statement}\nimport json, sys; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    return {name.partition(".")[0] for name in json.loads(done.stdout)}


class TestImport:
    @pytest.mark.parametrize(
        "statement",
        [
            "import threadkeep",
            "import threadkeep; threadkeep.Memory, threadkeep.Owner, threadkeep.ThreadkeepError",
            "import threadkeep.cli.main",
        ],
    )
    def test_nothing_heavy_is_loaded(self, statement: str):
        """`import threadkeep` and `threadkeep --help` feel instant."""
        assert not imported_by(statement) & HEAVY

    def test_what_is_used_is_loaded(self):
        """The list above is of names that do show when they are imported."""
        assert imported_by("import threadkeep.settings") >= {"pydantic", "pydantic_settings"}
