from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime

import pytest

from tests.evals.locomo_file import sample, write_locomo
from threadkeep.errors import InvalidInputError
from threadkeep_evals.locomo import load_locomo, parse_date, repair_evidence

KNOWN = frozenset({"D1:1", "D8:6", "D9:17", "D11:26", "D30:5"})


class TestRepairEvidence:
    @pytest.mark.parametrize(
        ("labels", "evidence", "repaired", "dropped"),
        [
            (["D1:1"], {"D1:1"}, 0, 0),
            (["D8:6; D9:17"], {"D8:6", "D9:17"}, 1, 0),
            (["D8:6, D9:17"], {"D8:6", "D9:17"}, 1, 0),
            (["D8:6 D9:17"], {"D8:6", "D9:17"}, 1, 0),
            (["D:11:26"], {"D11:26"}, 1, 0),
            (["D30:05"], {"D30:5"}, 1, 0),
            (["D"], set(), 0, 1),
            (["D77:1"], set(), 0, 1),
            (["D1:1", "D1:1"], {"D1:1"}, 0, 0),
            ([], set(), 0, 0),
        ],
    )
    def test_reads_what_can_be_read(self, labels, evidence, repaired, dropped):
        """Malformed labels are split or mended; what names no turn is dropped and counted."""
        assert repair_evidence(labels, KNOWN) == (frozenset(evidence), repaired, dropped)


class TestParseDate:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("1:56 pm on 8 May, 2023", datetime(2023, 5, 8, 13, 56, tzinfo=UTC)),
            ("12:48 am on 1 February, 2023", datetime(2023, 2, 1, 0, 48, tzinfo=UTC)),
            ("12:05 pm on 31 December, 2022", datetime(2022, 12, 31, 12, 5, tzinfo=UTC)),
        ],
    )
    def test_reads_locomos_form(self, text, expected):
        """Noon and midnight are told apart, and the month is read by its English name."""
        assert parse_date(text) == expected

    @pytest.mark.parametrize("text", ["", "8 May 2023", "1:56 pm on 8 Floreal, 2023", "13:99 xm on 8 May, 2023"])
    def test_anything_else_is_refused(self, text):
        """A date in another form is an error rather than a guess."""
        with pytest.raises(ValueError, match="not a date"):
            parse_date(text)


class TestLoad:
    def test_counts_what_was_mended(self, tmp_path):
        """Repaired and dropped labels are counted, and the digest is the file's."""
        path = write_locomo(tmp_path)

        data = load_locomo(path)

        assert data.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
        assert "3 repaired, 3 dropped" in data.summary
        assert "10 questions of which 8 have evidence" in data.summary

    def test_turns_keep_their_provenance(self, tmp_path):
        """A turn knows its speaker, session, date and place; a session that has only a date is none."""
        conversation = load_locomo(write_locomo(tmp_path)).conversations[0]

        turn = conversation.turns[5]
        assert (turn.turn_id, turn.session, turn.order, turn.speaker) == ("D2:3", 2, 5, "Ben")
        assert turn.text == "Ben: Congratulations! Here is my first vase. [a photo of a blue vase on a shelf]"
        assert turn.spoken == "Ben: Congratulations! Here is my first vase."
        assert turn.at == datetime(2023, 5, 2, 13, 56, 2, tzinfo=UTC)
        assert [one.session for one in conversation.turns] == [1, 1, 1, 2, 2, 2, 11, 11]
        assert {turn.speaker for turn in conversation.turns} == {"Ana", "Ben"}

    def test_times_follow_the_order(self, tmp_path):
        """Later turns are later, so that order survives as time."""
        turns = load_locomo(write_locomo(tmp_path)).conversations[0].turns

        assert [turn.at for turn in turns] == sorted({turn.at for turn in turns})

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            ("not json", "is not a LoCoMo file"),
            ("{}", "holds no list"),
            ("[1]", "holds no list"),
            ("[]", "no conversations"),
            ('[{"qa": []}]', "'conversation'"),
            (json.dumps([{**sample(), "qa": [{"question": "?"}]}]), "'category'"),
            (json.dumps([{**sample(), "conversation": {"session_1": []}}]), "'session_1_date_time'"),
        ],
    )
    def test_another_file_is_refused(self, tmp_path, content, reason):
        """A file that is not LoCoMo's gives one sentence that names it and says what is wrong."""
        path = tmp_path / "other.json"
        path.write_text(content, encoding="utf-8")

        with pytest.raises(InvalidInputError, match=reason) as caught:
            load_locomo(path)

        assert str(path) in str(caught.value)

    def test_a_missing_file_is_refused(self, tmp_path):
        """A path without a file gives one sentence, too."""
        with pytest.raises(InvalidInputError, match="cannot be read"):
            load_locomo(tmp_path / "nowhere.json")

    def test_binary_is_refused(self, tmp_path):
        """Bytes that are no text are not a LoCoMo file."""
        path = tmp_path / "photo.json"
        path.write_bytes(b"\xff\xd8\xff\xe0")

        with pytest.raises(InvalidInputError, match="not a LoCoMo file"):
            load_locomo(path)
