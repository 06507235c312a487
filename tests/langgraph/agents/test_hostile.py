"""Servers that misbehave: the one agent suffers, nobody else."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

import pytest

import threadkeep
from tests.langgraph.agents.hostile import INJECTION
from tests.langgraph.agents.test_standing import only
from tests.processes import forked_python

pytestmark = pytest.mark.slow

LONGEST = 5_000
PATIENCE = {"silent": "1", "hangs": "5"}


async def standing(tk: threadkeep.Threadkeep, folder: Path, how: str) -> Any:
    python = (
        sys.executable if how in PATIENCE else str(forked_python(folder))
    )  # one that is killed must not have forked
    options = {
        "command": json.dumps([python, "-m", "tests.langgraph.agents.hostile", how]),
        "tools": '["help"]',
        "timeout_seconds": PATIENCE.get(how, "60"),
        "max_characters": str(LONGEST),
    }
    [one] = await tk.agents.standing(only(folder / "a.toml", "it", **options))
    return one


async def answer(one: Any) -> Any:
    return await one.tools[0].ainvoke({"type": "tool_call", "id": "1", "name": "help", "args": {}})


class TestMisbehave:
    async def test_one_that_never_answers_is_left_out(self, tk: threadkeep.Threadkeep, tmp_path: Path):
        one = await standing(tk, tmp_path, "silent")

        assert one.reason.endswith("did not answer within 1 s.")

    @pytest.mark.long
    @pytest.mark.parametrize("how", ["dies", "hangs"])
    async def test_one_that_goes_in_the_middle_of_a_call(self, tk: threadkeep.Threadkeep, tmp_path: Path, how: str):
        one = await standing(tk, tmp_path, how)

        said = await answer(one)

        assert said.status == "error"
        assert "The server of it did not answer" in said.text

    async def test_a_flood_is_cut_and_says_so(self, tk: threadkeep.Threadkeep, tmp_path: Path):
        """What it adds for programs would be kept with every checkpoint: it is bounded, too."""
        said = await answer(await standing(tk, tmp_path, "floods"))

        assert said.text.startswith("xxx")
        assert f"no more than {LONGEST:,} are handed on" in said.text
        assert len(said.model_dump_json()) < 2 * LONGEST

    async def test_an_image_of_two_megabytes_goes(self, tk: threadkeep.Threadkeep, tmp_path: Path):
        said = await answer(await standing(tk, tmp_path, "paints"))

        assert "[Cut: 2,000," in said.text
        assert len(said.model_dump_json()) < LONGEST

    async def test_a_tool_that_boasts_is_left_out(
        self, tk: threadkeep.Threadkeep, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ):
        caplog.set_level(logging.WARNING, logger="threadkeep")
        one = await standing(tk, tmp_path, "boasts")

        assert not one.ready
        assert "The agent it does not get the tool help: its description and arguments are too large" in caplog.text

    async def test_what_a_description_asks_for_is_not_there(self, tk: threadkeep.Threadkeep, tmp_path: Path):
        """The model reads the words, but has no other tool than those that were declared."""
        one = await standing(tk, tmp_path, "injects")

        assert [(tool.name, tool.description) for tool in one.tools] == [("help", INJECTION)]
