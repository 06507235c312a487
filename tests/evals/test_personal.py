"""Personal statements told to a real memory and asked for, and what the figures count."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import CliRunner
from tests.evals.embedding import WordsEmbedder
from threadkeep.cli.main import app
from threadkeep.errors import InvalidInputError
from threadkeep.recall.currency import Outdated
from threadkeep_evals.personal import run_personal

DATA: dict[str, Any] = {
    "facts": [
        {
            "lang": "en",
            "before": "Hello!",
            "told": "My sister Ilse lives in Bergen.",
            "after": "",
            "question": "Where does my sister live?",
            "answer": "Bergen",
        },
        {
            "lang": "de",
            "before": "",
            "told": "Ich wohne in Graz.",
            "after": "",
            "question": "Was ist mein Lieblingsfilm?",
            "answer": "Casablanca",
        },
    ],
    "unrelated": ["Who wrote Dune?"],
    "updates": [
        {
            "kind": "replaced",
            "told": ["I live in Porto.", "I moved to Faro."],
            "question": "Where do I live?",
            "current": ["Faro"],
            "stale": ["^I live in Porto"],
        }
    ],
    "several": [
        {
            "told": ["My brother is a baker.", "My brother is Swiss."],
            "question": "What do you know about my brother?",
            "current": ["baker", "Swiss"],
            "near": True,
        }
    ],
    "pastes": [
        {"message": "I live in Turin.", "not_user": ["Turin"], "user": ["Turin"]},
        {"message": "> I live in Turin.", "not_user": ["Turin"], "user": []},
    ],
    "dialogues": [{"turns": ["I am allergic to nuts.", "I work at Initech."], "keep": ["nuts", "golf"], "never": []}],
}

MEMORIES: list[dict[str, Any]] = [
    {
        "lang": "en",
        "turns": ["I drive a Fiat.", "My rabbit is grey.", "Sold the Fiat, I drive a Seat."],
        "outdated": [0],
        "question": "Which car do I drive?",
        "answer": 2,
    },
    {
        "lang": "en",
        "turns": ["I play the flute.", "My flute is silver."],
        "outdated": [],
        "question": "Which instrument do I play, the flute?",
        "answer": 0,
    },
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A small file of the format."""
    path = tmp_path / "personal.json"
    path.write_text(json.dumps(DATA), encoding="utf-8")
    return path


def _counts(report: dict[str, Any]) -> dict[str, tuple[int, int]]:
    return {row["figure"]: (row["count"], row["items"]) for row in report["results"]}


def test_figures_count_what_the_block_and_the_memories_show(path: Path):
    """Each list of the file has figures of its own."""
    counts = _counts(run_personal(path, embedder=WordsEmbedder()))

    assert counts["in_block"] == (1, 2)
    assert counts["in_block:en"] == (1, 1)
    assert counts["in_block:other"] == (0, 1)
    assert counts["dense_in_block"] == (1, 1)
    assert counts["true_as_earlier"] == (0, 1)
    assert counts["unrelated_empty"] == (1, 1)
    assert counts["current_in_block"] == counts["current_in_block:replaced"] == (1, 1)
    assert counts["stale_as_fact"] == (0, 1)
    assert counts["several_both:near"] == (1, 1)
    assert counts["pasted_as_user"] == (1, 2)
    assert counts["own_words_kept"] == (1, 1)
    assert counts["keep_recall"] == (1, 2)
    assert counts["keep_precision"] == (1, 2)


def test_stale_values_are_counted_where_nothing_replaces_them(path: Path, monkeypatch: pytest.MonkeyPatch):
    """Without updates and without marks, the old value stands beside the new one."""
    monkeypatch.setattr("threadkeep.capture.reconcile._one_subject", lambda _candidate, _memory: False)
    monkeypatch.setattr("threadkeep.recall.selection.find_outdated", lambda *_: Outdated({}, {}))

    counts = _counts(run_personal(path, parts=["updates"], embedder=WordsEmbedder()))

    assert counts["stale_as_fact"] == (1, 1)


def test_true_answers_with_a_mark_are_counted(path: Path, monkeypatch: pytest.MonkeyPatch):
    """Nothing replaces a fact, so any mark of it is false."""
    monkeypatch.setattr("threadkeep.recall.selection.find_outdated", lambda *_: Outdated({0: 1, 1: 0}, {}))

    counts = _counts(run_personal(path, parts=["facts"], embedder=WordsEmbedder()))

    assert counts["true_as_earlier"][0] > 0
    assert counts["lines_as_earlier"][0] >= counts["true_as_earlier"][0]


def test_turns_of_small_memories_are_counted_alone_and_among_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Without marks the outdated turn counts; where all are marked, each true turn and each answer does."""
    path = tmp_path / "memories.json"
    path.write_text(json.dumps({"memories": MEMORIES}), encoding="utf-8")
    monkeypatch.setattr("threadkeep.capture.reconcile._one_subject", lambda _candidate, _memory: False)
    monkeypatch.setattr("threadkeep.recall.selection.find_outdated", lambda *_: Outdated({}, {}))
    unmarked = _counts(run_personal(path, embedder=WordsEmbedder()))
    monkeypatch.setattr(
        "threadkeep.recall.selection.find_outdated", lambda *_: Outdated(dict.fromkeys(range(20), 0), {})
    )
    marked = _counts(run_personal(path, embedder=WordsEmbedder()))

    for count in (1, 4, 10):
        assert unmarked[f"answer_in_block:{count}"] == (2, 2)
        assert unmarked[f"outdated_unmarked:{count}"] == (1, 1)
        assert unmarked[f"answers_marked:{count}"] == (0, 2)
        assert unmarked[f"true_marked:{count}"][0] == 0
        assert marked[f"outdated_unmarked:{count}"] == (0, 1)
        assert marked[f"answers_marked:{count}"] == (2, 2)
        assert marked[f"true_marked:{count}"][0] == marked[f"true_marked:{count}"][1] >= 3


def test_without_an_embedder_words_are_compared(path: Path):
    """Then there is no dense baseline."""
    counts = _counts(run_personal(path, parts=["facts"], embedder="none"))

    assert counts["in_block:en"] == (1, 1)
    assert "dense_in_block" not in counts


def test_command_prints_a_table_and_the_missed_items(path: Path):
    """The items that did not pass, with --json --show."""
    table = CliRunner().invoke(app, ["eval", "personal", "--data", str(path), "--part", "dialogues"])
    report = CliRunner().invoke(
        app, ["eval", "personal", "--data", str(path), "--part", "dialogues", "--json", "--show"]
    )

    assert "keep_recall" in table.stdout
    assert [one["item"] for one in json.loads(report.stdout)["missed"]] == [
        "dialogues-0: golf",
        "dialogues-0: I work at Initech.",
    ]


def test_a_block_with_something_is_not_among_the_missed_items(path: Path):
    report = CliRunner().invoke(app, ["eval", "personal", "--data", str(path), "--part", "facts", "--json", "--show"])

    missed = [figure for one in json.loads(report.stdout)["missed"] for figure in one["figures"]]
    assert missed.count("in_block") == 1
    assert "block_empty" not in missed


@pytest.mark.parametrize("content", ["[]", '{"facts": 1}', "facts"])
def test_other_files_are_refused(tmp_path: Path, content: str):
    """The message names the file."""
    path = tmp_path / "other.json"
    path.write_text(content, encoding="utf-8")

    with pytest.raises(InvalidInputError, match=r"other\.json"):
        run_personal(path)


def test_unknown_parts_are_refused(path: Path):
    """The message names the parts that exist."""
    with pytest.raises(InvalidInputError, match="dialogues"):
        run_personal(path, parts=["weather"])
