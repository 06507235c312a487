"""The template of a data protection impact assessment is filled from the running configuration."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "dpia.md"


@pytest.mark.slow
def test_its_command_prints_the_rows_of_recipients(tmp_path: Path):
    """They have the columns of the table in the page; a doctor that finds a fault prints them, too."""
    text = PAGE.read_text(encoding="utf-8")
    (command,) = re.findall(r"^```bash\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    settings = {"THREADKEEP_DATA_DIR": str(tmp_path), "EMBEDDINGS_PROVIDER": "none"}
    environment = {**os.environ, **settings, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["sh", "-c", command], check=False, cwd=tmp_path, env=environment, capture_output=True, text=True
    )

    rows = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    assert any(row.startswith("| storage ") for row in rows)
    assert {row.count("|") for row in rows} == {"| who | gets | leaves this machine |".count("|")}
    assert "| who | gets | leaves this machine |" in text
