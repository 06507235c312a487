"""``threadkeep profile``."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.command_line import CliRunner, Result
from threadkeep.cli.main import app
from threadkeep.errors import SlotNotFoundError

pytestmark = pytest.mark.usefixtures("folder")


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["profile", *words], catch_exceptions=False)


def slots() -> dict[str, Any]:
    result = run("show", "--json")
    assert result.exit_code == 0, result.output
    return {name: [one["text"] for one in values] for name, values in json.loads(result.stdout)["slots"].items()}


def test_show_set_and_clear() -> None:
    kept = json.loads(run("set", "location", "Ghent", "--json").stdout)
    assert "location is kept as" in run("set", "location", "I live in Leeds.").output
    assert slots()["location"] == ["I live in Leeds."]
    assert "location   I live in Leeds." in run("show").output

    assert f"Removed 1: {kept['memory']['memory_id']}" in run("clear", "location", "--yes").output
    assert slots()["location"] == []
    assert "It was empty." in run("clear", "location", "--yes").output


def test_an_unknown_slot_is_named() -> None:
    with pytest.raises(SlotNotFoundError, match="no slot 'shoe'"):
        run("set", "shoe", "42")
