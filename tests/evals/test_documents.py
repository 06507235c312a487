"""The evaluation of documents: what it counts, and the figures of the whole bank with the local model."""

from __future__ import annotations

import pytest

from tests.evals.embedding import WordsEmbedder
from threadkeep_evals.document_files import read_bank
from threadkeep_evals.documents import run_documents


def test_the_bank_has_forty_files_of_eight_kinds():
    """And three questions about each, none of which holds the whole sentence that answers."""
    documents, unrelated = read_bank()

    kinds = [document.kind for document in documents]
    assert (len(documents), len(set(kinds)), len(unrelated)) == (40, 8, 40)
    assert all(kinds.count(kind) == 5 for kind in kinds)
    assert all(len(document.questions) == 3 for document in documents)


def test_some_documents_without_a_model():
    """Every passage is cited rightly, whatever is found."""
    report = run_documents(documents=8, embedder=WordsEmbedder(), show=True)

    by_name = {row["name"]: row for row in report["results"]}
    assert (report["documents"], by_name["all"]["questions"], by_name["held out"]["questions"]) == (8, 24, 12)
    assert by_name["all"]["hit_at_5"] > 0.3
    assert by_name["all"]["cited"] == by_name["subject not named"]["cited"] == 1.0
    assert all(one["rank"] != 0 for one in report["missed"])


@pytest.mark.slow
@pytest.mark.model
@pytest.mark.parametrize("documents", [13, pytest.param(None, marks=pytest.mark.soak)])
def test_the_bank_meets_its_targets(documents: int | None):
    """Three of four first passages answer, and nearly all of the first five; every citation is right.

    A third of the documents in CI, with the bounds of the full size.
    """
    report = run_documents(documents=documents)

    every, held_out = (next(row for row in report["results"] if row["name"] == name) for name in ("all", "held out"))
    for row in (every, held_out):
        assert row["hit_at_1"] >= 0.75
        assert row["hit_at_5"] >= 0.95
        assert row["cited"] == 1.0
    assert report["unrelated"]["share"] >= 0.8
