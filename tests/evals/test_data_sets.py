"""The formats of data sets whose files are not here: generated in the same form."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.evals.embedding import WordsEmbedder
from tests.evals.locomo_file import write_locomo
from tests.evals.longmemeval_file import instance, write_longmemeval
from threadkeep.errors import InvalidInputError
from threadkeep_evals.comparison import compare
from threadkeep_evals.locomo_plus import load_locomo_plus, parse_gap
from threadkeep_evals.longmemeval import load_longmemeval, parse_date
from threadkeep_evals.report import Report


def write_plus(folder: Path) -> Path:
    """Write three cues: before everything, among the sessions, and after them, one with an escaped line break."""
    entries = [
        ("causal", "A: I never swim since the flood.\nB: Sensible.", "A: I sold my goggles.", "one year later"),
        ("goal", "B: I want to learn bookbinding.\\nA: Nice.", "B: I bought a press.", "about two weeks later"),
        ("causal", "A: Peanuts make me ill.", "A: I left the party early.", "a day later"),
    ]
    keys = ("relation_type", "cue_dialogue", "trigger_query", "time_gap")
    path = folder / "plus.json"
    path.write_text(json.dumps([{**dict(zip(keys, entry, strict=True)), "scores": {}} for entry in entries]))
    return path


class TestGap:
    @pytest.mark.parametrize(
        ("text", "days"),
        [
            ("two weeks later", 14),
            ("about six months later", 180),
            ("around a year later", 365),
            ("3 days later", 3),
            ("a few weeks later", 21),
            ("several months later", 120),
            ("half a year later", 182.5),
            ("a couple of days", 2),
            ("two and a half years later", 912.5),
            ("1.5 years later", 547.5),
            ("the next day", 1),
            ("over a decade", 3650),
            ("two fortnights later", 28),
            ("10+ years", 3650),
            ("the following weekend", 7),
            ("A month", 30),
        ],
    )
    def test_is_read(self, text, days):
        """Numbers as words or digits; months have 30 days, years 365."""
        assert parse_gap(text) == timedelta(days=days)

    @pytest.mark.parametrize("text", ["", "later", "many weeks later", "after the war"])
    def test_another_text_says_none(self, text):
        """Nothing is guessed."""
        assert parse_gap(text) is None


class TestLocomoPlus:
    def test_a_cue_is_a_session_at_its_time(self, tmp_path):
        """The last session is on 11 May; the query comes a week later, and the cue as long before that as is said."""
        data = load_locomo_plus(write_plus(tmp_path), write_locomo(tmp_path))

        first, among, last = data.conversations
        assert [turn.turn_id for turn in first.turns[:3]] == ["cue:1", "cue:2", "D1:1"]
        assert [turn.session for turn in among.turns] == [1, 1, 1, 2, 2, 2, 3, 3, 4, 4]
        assert [turn.text for turn in among.turns[6:8]] == ["Ben: I want to learn bookbinding.", "Ana: Nice."]
        assert among.turns[6].at.date().isoformat() == "2023-05-04"
        assert last.turns[-1].text == "Ana: Peanuts make me ill."
        assert all([turn.order for turn in talk.turns] == list(range(len(talk.turns))) for talk in data.conversations)

    def test_a_gap_that_cannot_be_read_is_counted(self, tmp_path):
        """The other entries are measured, and the report says how many there are."""
        path = write_plus(tmp_path)
        rows = json.loads(path.read_text())
        rows[0]["time_gap"] = "after the war"
        path.write_text(json.dumps(rows))

        data = load_locomo_plus(path, write_locomo(tmp_path))

        assert len(data.conversations) == 3
        assert "1 gaps that cannot be read are taken as 30 days" in data.note

    def test_the_query_asks_for_the_cue(self, tmp_path):
        """One question for each entry, by relation, whose evidence is the cue's turns."""
        data = load_locomo_plus(write_plus(tmp_path), write_locomo(tmp_path))

        assert list(data.groups) == ["all", "causal", "goal"]
        (question,) = data.conversations[1].questions
        assert (question.text, question.category) == ("I bought a press.", "goal")
        assert question.evidence == {"cue:1", "cue:2"}

    def test_is_measured(self, tmp_path):
        """Turns and sessions, all relations first."""
        data = load_locomo_plus(write_plus(tmp_path), write_locomo(tmp_path))

        report = Report(compare(data, embedder=WordsEmbedder())).as_json()

        assert report["dataset"] == "locomo-plus"
        assert [(row["level"], row["categories"], row["n"]) for row in report["results"][:6]] == [
            (level, categories, n)
            for level in ("turn", "session")
            for categories, n in (("all", 3), ("causal", 2), ("goal", 1))
        ]

    @pytest.mark.parametrize("content", ["{}", "[]", '[{"relation_type": "goal"}]'])
    def test_another_file_is_refused(self, tmp_path, content):
        """The error says what it must be."""
        path = tmp_path / "other.json"
        path.write_text(content)

        with pytest.raises(InvalidInputError, match=r"not a LoCoMo-Plus file|holds no conversations"):
            load_locomo_plus(path, write_locomo(tmp_path))


class TestLongMemEval:
    def test_sessions_are_in_order_of_their_time(self, tmp_path):
        """Whatever the file's order; a message without words is nothing that was said."""
        talk = load_longmemeval(write_longmemeval(tmp_path)).conversations[0]

        assert [(turn.turn_id, turn.session, turn.role) for turn in talk.turns] == [
            ("1:0", 1, "user"),
            ("1:1", 1, "assistant"),
            ("2:0", 2, "user"),
            ("2:1", 2, "assistant"),
            ("3:0", 3, "user"),
        ]
        assert talk.turns[1].at == datetime(2023, 5, 2, 23, 5, 1, tzinfo=UTC)

    def test_evidence_is_what_is_marked(self, tmp_path):
        """Turns where they are marked, sessions where only those are, and nothing for what was never said."""
        data = load_longmemeval(write_longmemeval(tmp_path))

        asked = [talk.questions[0] for talk in data.conversations]
        assert [(set(one.evidence), set(one.sessions)) for one in asked] == [
            ({"2:0"}, {2}),
            (set(), {2}),
            (set(), set()),
        ]
        assert "1 questions without marked turns" in data.note

    def test_a_question_without_marked_turns_counts_for_sessions(self, tmp_path):
        """It is not in the figures of turns, and the unanswerable one is in none."""
        report = Report(compare(load_longmemeval(write_longmemeval(tmp_path)), embedder=WordsEmbedder())).as_json()

        counted = {
            (row["level"], row["categories"]): row["n"] for row in report["results"] if row["method"] == "threadkeep"
        }
        assert counted == {
            ("turn", "all"): 1,
            ("turn", "single-session-user"): 1,
            ("session", "all"): 2,
            ("session", "single-session-user"): 1,
            ("session", "multi-session"): 1,
        }
        (turns, *_) = report["results"]
        assert turns["recall@5"] == 1.0

    @pytest.mark.parametrize("content", ["{}", "[]", "[1]", '[{"question_id": "a"}]'])
    def test_another_file_is_refused(self, tmp_path, content):
        """The error says what it must be."""
        path = tmp_path / "other.json"
        path.write_text(content)

        with pytest.raises(InvalidInputError, match=r"not a LongMemEval file|holds no conversations"):
            load_longmemeval(path)

    def test_lists_of_different_lengths_are_refused(self, tmp_path):
        """A session without its date is a broken file."""
        path = tmp_path / "short.json"
        path.write_text(json.dumps([instance(1, haystack_dates=["2023/05/20 (Sat) 02:21"])]))

        with pytest.raises(InvalidInputError, match="not a LongMemEval file"):
            load_longmemeval(path)

    def test_a_date_has_its_weekday_in_brackets(self):
        """The weekday is passed over, in whichever language; no zone is UTC."""
        assert parse_date("2023/05/20 (Sat) 02:21") == datetime(2023, 5, 20, 2, 21, tzinfo=UTC)
