"""Facts that change and facts that everybody has, told to a real memory and asked for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.command_line import CliRunner
from tests.evals.embedding import WordsEmbedder
from threadkeep.cli.main import app
from threadkeep.errors import InvalidInputError
from threadkeep.testing import HashingEmbedder
from threadkeep.text.slots import slot_of
from threadkeep_evals import changes
from threadkeep_evals.changes import NATURAL, REPEATED, SUBJECTS, make_stories, run_leakage, run_staleness


class TestStories:
    def test_same_seed_same_stories(self):
        """And another one, others."""
        assert make_stories(3, seed=1) == make_stories(3, seed=1)
        assert make_stories(3, seed=1) != make_stories(3, seed=2)

    def test_every_change_is_reported(self):
        """So often, in the words of its subject, and never the same twice in a row."""
        for story in make_stories(8, seed=4):
            assert len(story.messages) == len(story.values) == 9
            assert all(one != other for one, other in zip(story.values, story.values[1:], strict=False))
            assert all(value in told for value, told in zip(story.values, story.messages, strict=True))

    @pytest.mark.parametrize(
        "subject", [one for one in SUBJECTS if one.later], ids=lambda subject: subject.questions[0]
    )
    def test_every_wording_answers_the_same_question(self, subject: Any):
        """So a later one takes the place of an earlier one."""
        slots = {slot_of(wording.format(subject.values[0])) for wording in (subject.first, *subject.later)}

        assert len(slots) == 1
        assert None not in slots

    def test_change_in_passing_is_found_in_other_words(self):
        """Every subject has such wordings and questions, and each message tells its value."""
        stories = make_stories(3, seed=4, wording=NATURAL)

        assert len(stories) == len(SUBJECTS) > len(make_stories(3, seed=4))
        assert all(value in told for one in stories for value, told in zip(one.values, one.messages, strict=True))
        assert all(len(one.natural) >= 3 and len(one.questions) >= 2 for one in SUBJECTS)
        assert {one.question for one in stories} - {one.question for one in make_stories(3, seed=4)}

    def test_too_many_changes_are_refused(self):
        """There are not so many values."""
        with pytest.raises(InvalidInputError, match="between 1 and 9"):
            make_stories(10, seed=0)


@pytest.mark.slow
class TestStaleness:
    def test_old_value_is_not_shown_as_current(self):
        """Whatever is recalled of what changed is what is so now."""
        natural, row = run_staleness([4], seed=2, rounds=1, embedder=WordsEmbedder())["results"]

        assert (natural["wording"], row["wording"]) == (NATURAL, REPEATED)
        assert natural["questions"] == len(SUBJECTS)
        assert 0 < natural["current@k"] < 1
        assert natural["stale_unmarked"] >= natural["stale_as_current"]
        assert row["k"] == 4
        assert row["questions"] == len([one for one in SUBJECTS if one.later])
        assert row["current@k"] > 0.5  # words alone do not lead from "where do I live" to "I moved"
        assert row["stale_as_current"] == 0

    def test_it_is_seen_where_updates_are_not_made(self, monkeypatch: pytest.MonkeyPatch):
        """Without slots old values stay beside the new ones, and the figure says so."""
        monkeypatch.setattr("threadkeep.capture.reconcile._one_subject", lambda _candidate, _memory: False)

        _, row = run_staleness([4], seed=2, rounds=1, embedder=WordsEmbedder())["results"]

        assert row["stale_as_current"] > 0


@pytest.mark.slow
class TestLeakage:
    def test_no_owner_learns_of_another(self):
        """With ids that are prefixes of each other, and nearly the same facts."""
        report = run_leakage(12, seed=3, embedder=HashingEmbedder())

        assert (report["owners"], report["questions"], report["leaks"]) == (12, 24, 0)
        assert report["own_found"] == 1.0

    def test_it_is_seen_where_owners_share_a_memory(self, monkeypatch: pytest.MonkeyPatch):
        """The figure counts what comes back, not what should."""
        monkeypatch.setattr(changes, "_alike", lambda _number: "everybody")

        assert run_leakage(3, seed=3, embedder=HashingEmbedder())["leaks"] > 0

    def test_one_owner_is_refused(self):
        """There is nobody to leak to."""
        with pytest.raises(InvalidInputError):
            run_leakage(1)


@pytest.mark.slow
class TestCommands:
    def test_json_has_the_figures_by_name(self, monkeypatch: pytest.MonkeyPatch):
        """As other programs look for them."""
        monkeypatch.setenv("EMBEDDINGS_PROVIDER", "none")

        stale = json.loads(CliRunner().invoke(app, ["eval", "staleness", "--changes", "1", "--json"]).stdout)
        leaked = json.loads(CliRunner().invoke(app, ["eval", "leakage", "--owners", "5", "--json"]).stdout)

        row = stale["results"][0]
        assert {"k", "current@k", "stale_as_current"} <= row.keys()
        low, high = row["interval95"]["current@k"]
        assert 0 < low <= row["current@k"] <= high
        assert leaked["interval95"]["leaks"] == [0.0, 0.2775]
        assert leaked["owners"] == 5
        assert leaked["leaks"] == 0
