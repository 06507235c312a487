"""The evaluation of profiles: requests that resemble no memory, with words alone."""

from __future__ import annotations

import json
from importlib.resources import files

import pytest

from tests.command_line import CliRunner
from threadkeep.cli.main import app
from threadkeep.errors import InvalidInputError
from threadkeep_evals.profile import HALVES, run_profile


def test_sixty_requests_are_halved() -> None:
    data = json.loads((files("threadkeep_evals") / "data" / "tasks.json").read_text(encoding="utf-8"))
    sizes = {half: sum(len(one["pairs"]) for one in data["people"] if one["half"] == half) for half in HALVES}

    assert sizes == {"dev": 30, "held_out": 30}
    for pair in (pair for one in data["people"] for pair in one["pairs"]):
        assert not set(pair["request"].casefold().split()) & set(pair["needed"].casefold().split("|")), pair


def test_the_needed_fact_is_shown_within_the_budget_and_nothing_is_where_none_is_needed() -> None:
    result = CliRunner().invoke(app, ["eval", "profile", "--half", "dev", "--words", "--show", "--json"])

    report = json.loads(result.stdout)
    figures = {row["figure"]: row for row in report["results"]}
    assert figures["needed_in_block"]["items"] == 30
    assert figures["needed_in_block"]["share"] >= 0.85
    assert figures["unrelated_without_profile"]["share"] == 1
    assert 0 < report["profile_tokens"]["most"] <= 60
    missed = [one for one in report["missed"] if "needed_in_block" in one["figures"]]
    assert len(missed) == 30 - figures["needed_in_block"]["count"]


def test_an_unknown_half_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="choose from dev, held_out"):
        run_profile(["third"])
