"""``threadkeep proposals`` through the real program."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import threadkeep
from tests.command_line import CliRunner, Result
from threadkeep.cli.main import app
from threadkeep.errors import InvalidInputError, ProposalDecidedError, ProposalNotFoundError
from threadkeep.settings import Settings

USER = "ana.maria@x.org"

pytestmark = pytest.mark.usefixtures("folder")


@pytest.fixture
def keys(folder: Path) -> list[str]:
    """Three proposals, as an agent leaves them behind."""
    with threadkeep.open(settings=Settings.load(), owner=USER) as tk:
        made = [tk.sync.proposals.propose(f"The user's lucky number is {n}.") for n in range(3)]
    return [one.proposal.proposal_id for one in made if one.proposal]


def run(*words: str) -> Result:
    return CliRunner().invoke(app, list(words), catch_exceptions=False)


def answer(*words: str) -> Any:
    result = run(*words, "--user", USER, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


class TestDecide:
    def test_the_whole_round(self, keys: list[str]):
        """Listed, shown, approved, edited, rejected; then what is remembered and what is not learnt again."""
        assert [row["proposal_id"] for row in answer("proposals", "list")] == keys[::-1]
        assert answer("proposals", "show", keys[0])["text"] == "The user's lucky number is 0."

        (approved,) = answer("proposals", "approve", keys[0], "--by", "carla")
        edited = answer("proposals", "edit", keys[1], "My lucky number is 7.")
        (rejected,) = answer("proposals", "reject", keys[2], "--comment", "no")

        assert "expires" not in run("proposals", "show", keys[0], "--user", USER).stdout
        assert [row["state"] for row in (approved, edited, rejected)] == ["approved", "approved", "rejected"]
        assert approved["decision"]["by"] == "carla"
        texts = {row["text"] for row in answer("memories", "list")}
        assert texts == {"The user's lucky number is 0.", "My lucky number is 7."}
        assert answer("proposals", "list") == []
        assert len(answer("proposals", "list", "--state", "all")) == 3
        (tombstone,) = answer("proposals", "tombstones")
        assert (tombstone["cause"], tombstone["text"]) == ("rejected", "The user's lucky number is 2.")
        answer("proposals", "lift", tombstone["tombstone_id"])
        assert answer("proposals", "tombstones") == []
        with pytest.raises(InvalidInputError):
            run("proposals", "lift", tombstone["tombstone_id"], "--user", USER)

    def test_what_is_held_names_those_that_wait_apart(self, keys: list[str]):
        """A decided proposal is kept for a while, and waits for nothing."""
        run("proposals", "approve", keys[0], "--user", USER)
        run("proposals", "reject", keys[1], "--user", USER)

        held = answer("owners", "show")

        assert (held["proposals"], held["proposals_decided"]) == (1, 2)
        shown = run("owners", "show", "--user", USER).stdout
        assert "proposals that wait for a decision: 1 (decided: 2)" in shown

    def test_what_cannot_be_decided_is_an_error_and_the_others_are(self, keys: list[str]):
        """A second decision names the first."""
        run("proposals", "reject", keys[0], "--user", USER)

        with pytest.raises(ProposalDecidedError, match="rejected by"):
            run("proposals", "approve", keys[0], keys[1], "--user", USER)

        assert [row["text"] for row in answer("memories", "list")] == ["The user's lucky number is 1."]

    def test_people_read_lines(self, keys: list[str]):
        """What would be done, who said it, and why it waits."""
        listed, shown = (run("proposals", *words, "--user", USER).stdout for words in (("list",), ("show", keys[0])))

        assert "remember: The user's lucky number is 2. (said by assistant, semantic)" in listed
        assert "because: said by the assistant, not by the user; expires" in shown
        assert "No proposals of nobody are pending." in run("proposals", "list", "--user", "nobody").stdout
        assert "Everything may be learnt." in run("proposals", "tombstones", "--user", "nobody").stdout
        with pytest.raises(ProposalNotFoundError):
            run("proposals", "show", "unknown", "--user", USER)
        with pytest.raises(InvalidInputError):
            run("proposals", "list", "--state", "odd", "--user", USER)


class TestPolicy:
    def test_it_is_shown_and_set(self):
        """As a table of who and what."""
        assert answer("proposals", "policy")["tool"]["semantic"] == "ask"

        assert answer("proposals", "policy", "tool=never")["tool"]["semantic"] == "never"

        assert "tool       semantic: never" in run("proposals", "policy", "--user", USER).stdout
