"""The same script of calls against ``langgraph dev`` and the gateway: equal shapes of answers and events."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.gateway.conftest import Open
from tests.gateway.langgraph_api.conftest import served_graph
from tests.gateway.langgraph_api.script import differences, shapes_at
from tests.gateway.world import USER
from tests.langgraph_dev.conftest import environment, serving

__all__ = ["environment"]

RECORD: Final = Path(__file__).with_name("langgraph_dev.json")
"""What ``langgraph dev`` answered, as the soak test wrote it."""

PROJECT: Final = Path(__file__).with_name("project")


@pytest.fixture
def langgraph_dev(environment: Path, tmp_path: Path) -> Iterator[str]:
    """Run ``langgraph dev`` on the project."""
    for file in (*PROJECT.glob("*.py"), *PROJECT.glob("*.json")):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "served"\nversion = "0"\n')
    with serving(environment, tmp_path) as url:
        yield url


class TestShapes:
    @pytest.mark.timeout(120)
    async def test_answers_and_events_are_those_of_langgraph_dev(self, open_gateway: Open, storage_url: str):
        world = open_gateway(url=storage_url, graph=served_graph, max_requests_per_minute=10**6)
        ours = await shapes_at(f"{world.origin}/lg", {USER: "ana"})

        assert differences(json.loads(RECORD.read_text()), ours) == []

    @pytest.mark.soak
    @pytest.mark.timeout(300)
    async def test_the_record_is_what_langgraph_dev_answers(self, langgraph_dev: str):
        theirs = await shapes_at(langgraph_dev)

        record = json.loads(RECORD.read_text()) if RECORD.exists() else None
        RECORD.write_text(json.dumps(theirs, indent=1, sort_keys=True) + "\n")
        assert record == theirs, "langgraph dev answers otherwise than recorded; the record is written anew"
