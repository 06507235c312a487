"""What the documentation says of the places for checkpoints is what they say themselves."""

from __future__ import annotations

from pathlib import Path

from tests.threads.conftest import KINDS, Places
from threadkeep.threads.base import Capabilities

PAGE = Path(__file__).parents[2] / "docs" / "threads.md"
ROWS = {
    "survives the process": "lasting",
    "shared by several machines": "shared",
    "a task's writes are atomic": "whole_writes",
    "a late writer fails": "fenced",
    "`LANGGRAPH_CHECKPOINT_TTL_MINUTES`": "expires",
}


class TestTheTable:
    def test_it_says_what_the_backends_say(self, places: Places):
        """A row for each capability, a column for each kind."""
        urls = {"postgres": "postgresql://a/b", "redis": "redis://a", "mongodb": "mongodb://a"}
        columns = [places.backend(kind, url=urls.get(kind, "")).capabilities for kind in KINDS]
        table = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in _lines()]

        head = table.index(["", *(f"`{kind}`" for kind in KINDS)])
        written = {row[0]: row[1:] for row in table[head + 2 :]}
        for label, field in ROWS.items():
            assert written[label] == [_spelled(getattr(one, field)) for one in columns], label
        assert set(ROWS.values()) == set(Capabilities.__slots__)


def _spelled(value: object) -> str:
    return str(value) if isinstance(value, str) else "yes" if value else "no"


def _lines() -> list[str]:
    return [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
