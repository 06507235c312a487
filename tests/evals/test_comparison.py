from __future__ import annotations

import hashlib
from io import StringIO

import pytest
from rich.console import Console

from tests.evals.beam_file import write_beam
from tests.evals.embedding import WordsEmbedder
from tests.evals.locomo_file import write_locomo
from threadkeep.errors import InvalidInputError
from threadkeep_evals.beam import load_beam
from threadkeep_evals.comparison import compare
from threadkeep_evals.locomo import load_locomo
from threadkeep_evals.methods import memory_of_turn
from threadkeep_evals.report import Report

KEYS = [
    "method",
    "level",
    "categories",
    "n",
    "recall@5",
    "recall@10",
    "recall@20",
    "all@10",
    "ndcg@10",
    "ms_p50",
    "tokens_mean",
]


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    path = write_locomo(tmp_path_factory.mktemp("locomo"), conversations=2)
    seen: list[tuple[int, int]] = []
    comparison = compare(load_locomo(path), embedder=WordsEmbedder(), progress=lambda *step: seen.append(step))
    return path, Report(comparison), comparison, seen


def rows_of(report, **wanted):
    return [row for row in report["results"] if all(row[key] == value for key, value in wanted.items())]


class TestCompare:
    def test_has_the_promised_shape(self, compared):
        """The object and each of its rows have exactly the keys that are documented."""
        path, comparison, *_ = compared

        report = comparison.as_json()

        assert list(report)[:4] == ["dataset", "file_sha256", "block", "results"]
        assert report["dataset"] == "locomo"
        assert report["file_sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
        assert all(list(row)[: len(KEYS)] == KEYS for row in report["results"])
        assert [(row["method"], row["level"], row["categories"]) for row in report["results"]] == [
            (method, level, categories)
            for method in ("threadkeep", "bm25", "dense")
            for level in ("turn", "session")
            for categories in ("1-4", "1-5", "1", "2", "3", "4", "5")
        ]

    def test_counts_questions_with_evidence(self, compared):
        """Questions without usable evidence do not count, and 1-4 leaves the adversarial ones out."""
        report = compared[1].as_json()

        for row in report["results"]:
            assert row["n"] == {"1-4": 14, "1-5": 16, "1": 2, "2": 4, "3": 2, "4": 6, "5": 2}[row["categories"]]

    def test_figures_are_shares(self, compared):
        """Every figure is in [0, 1], and every method's block keeps within the same budget."""
        for row in compared[1].as_json()["results"]:
            assert all(0.0 <= row[name] <= 1.0 for name in KEYS[4:9])
            assert row["ms_p50"] >= 0
            assert row["ms_p95"] >= row["ms_p50"]
            assert 0 < row["tokens_mean"] <= 300
            assert 0 < row["evidence_in_block"] <= 1
            assert 0 < row["evidence_if_cut"] <= 1
            low, high = row["interval95"]["recall@10"]
            assert low <= row["recall@10"] <= high

    @pytest.mark.parametrize("method", ["threadkeep", "bm25", "dense"])
    def test_every_method_finds_plain_answers(self, compared, method):
        """Single-hop questions that share words with their answer are found among the first five."""
        (row,) = rows_of(compared[1].as_json(), method=method, level="turn", categories="4")

        assert row["recall@5"] == 1.0

    @pytest.mark.parametrize("method", ["threadkeep", "bm25", "dense"])
    def test_three_sessions_are_all_within_five(self, compared, method):
        """Ours and dense rank every session, so with three sessions nothing is missing."""
        (row,) = rows_of(compared[1].as_json(), method=method, level="session", categories="4")

        assert row["recall@5"] == 1.0

    def test_tells_what_stands_in_the_block(self, compared):
        """Shares, and how many questions bring nothing of another conversation, which here says the same."""
        block = compared[1].as_json()["block"]

        assert block["n"] == 16
        assert 0 < block["tokens_mean"] <= 300
        assert 0.5 < block["evidence"] <= 1
        assert all(0 <= block[name] <= 1 for name in ("evidence_without_floor", "empty", "empty_of_others"))

    def test_tells_how_far_it_is(self, compared):
        """Progress counts every turn stored and every question asked."""
        seen = compared[3]

        assert seen[0] == (0, 48)
        assert seen[-1] == (48, 48)
        assert seen == sorted(seen)

    def test_table_names_every_method_and_what_was_dropped(self, compared):
        """The table for people shows each method, and says how much evidence was malformed."""
        table = StringIO()

        Console(width=200, file=table).print(compared[1].table())

        text = table.getvalue()
        assert all(method in text for method in ("threadkeep", "bm25", "dense"))
        assert "6 repaired, 6 dropped" in text


class TestGain:
    def test_is_reported_for_each_conversation_and_without_each(self, compared):
        """What ours finds more than each other method, with an interval; two equal conversations gain the same."""
        gains = compared[1].as_json()["gains"]

        assert [(one["over"], one["level"]) for one in gains] == [
            (method, level) for level in ("turn", "session") for method in ("bm25", "dense")
        ]
        for one in gains:
            low, high = one["interval95"]
            assert low <= one["gain"] <= high
            assert list(one["by_conversation"].values()) == [one["gain"]] * 2
            assert one["without_one"] == [one["gain"]] * 2
            assert one["ahead_on"] == (2 if one["gain"] > 0 else 0)

    def test_conversations_may_be_drawn_instead_of_questions(self, compared):
        """Two conversations that say the same leave no doubt about others like them, whatever their questions do."""
        by_question = compared[1].as_json()
        by_talk = Report(compared[2], resample="conversation").as_json()

        assert by_talk["intervals"]["resampled"] == "conversation"
        (talks,) = rows_of(by_talk, method="dense", level="turn", categories="1-5")
        (questions,) = rows_of(by_question, method="dense", level="turn", categories="1-5")
        assert len(set(talks["interval95"]["ndcg@10"])) == 1
        assert len(set(questions["interval95"]["ndcg@10"])) == 2

    def test_one_table_for_people(self, compared):
        """A row for each conversation, and one for all."""
        shown = StringIO()

        Console(width=200, file=shown).print(compared[1].by_conversation())

        assert all(word in shown.getvalue() for word in ("conv-1", "conv-2", "all but one", "over dense"))


class TestBeam:
    def test_messages_are_found_and_reported_by_kind(self, tmp_path):
        """``all`` comes first, then each kind of question; messages are ranked, and sessions are not."""
        report = Report(compare(load_beam(write_beam(tmp_path)), embedder=WordsEmbedder())).as_json()

        assert list(report)[:4] == ["dataset", "file_sha256", "block", "results"]
        assert report["dataset"] == "beam"
        assert [(row["method"], row["level"], row["categories"], row["n"]) for row in report["results"]] == [
            (method, "turn", categories, n)
            for method in ("threadkeep", "bm25", "dense")
            for categories, n in (("all", 3), ("information_extraction", 2), ("knowledge_update", 1))
        ]
        (ours, *_) = report["results"]
        assert list(ours)[: len(KEYS)] == KEYS
        assert ours["recall@5"] == 1.0

    def test_a_message_keeps_its_role_and_time(self, tmp_path):
        """What the assistant said is the assistant's, and a message without a time follows the one before it."""
        (chat,) = load_beam(write_beam(tmp_path)).conversations

        assert [turn.role for turn in chat.turns[:3]] == ["user", "assistant", "user"]
        assert [turn.at.isoformat() for turn in chat.turns[:2]] == [
            "2024-03-15T00:00:00+00:00",
            "2024-03-15T00:00:01+00:00",
        ]
        assert memory_of_turn(chat.turns[1]).sources[0].speaker == "assistant"
        assert len(chat.turns[-1].text) == 8_000

    @pytest.mark.parametrize("content", ["{}", "[]", "[1]", '[{"cid": "a"}]', "no JSON"])
    def test_another_file_is_refused(self, tmp_path, content):
        """A file that is not BEAM's is refused before anything is stored."""
        path = tmp_path / "other.json"
        path.write_text(content, encoding="utf-8")

        with pytest.raises(InvalidInputError, match=r"not a BEAM file|holds no conversations"):
            load_beam(path)


class TestRun:
    def test_without_an_embedder_there_is_no_dense(self, tmp_path, monkeypatch):
        """Where the settings say that nothing embeds, ours is lexical and dense is left out."""
        monkeypatch.setenv("EMBEDDINGS_PROVIDER", "none")

        report = Report(compare(load_locomo(write_locomo(tmp_path)))).as_json()

        assert {row["method"] for row in report["results"]} == {"threadkeep", "bm25"}

    def test_another_file_is_refused(self, tmp_path):
        """A file that is not LoCoMo's is refused before anything is stored."""
        path = tmp_path / "other.json"
        path.write_text('{"a": 1}', encoding="utf-8")

        with pytest.raises(InvalidInputError, match="not a LoCoMo file"):
            load_locomo(path)
