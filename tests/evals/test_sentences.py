"""What capture keeps of sentences from which nothing was learnt, and the fit that decides it."""

from __future__ import annotations

import numpy as np
import pytest

from threadkeep.text import keeping
from threadkeep.text.facts import statements
from threadkeep_evals.keeping_fit import (
    HELD_OUT,
    HELD_OUT_LATER,
    SENTENCES,
    Sentence,
    features_of,
    fit,
    labelled,
    typed_in_haste,
)
from threadkeep_evals.regression import encoded
from threadkeep_evals.sentences import render_table, run_sentences

LEAST_PRECISION = 0.85
LEAST_RECALL = 0.7
LEAST_RECALL_IN_HASTE = 0.6


@pytest.mark.long
def test_most_of_what_is_worth_keeping_is_kept_and_little_else():
    """Capture is given messages of an author from whom the fit learnt nothing."""
    report = run_sentences(show=True)
    shares = {row["figure"]: row["share"] for row in report["results"]}

    assert shares["precision"] >= LEAST_PRECISION
    assert shares["recall"] >= LEAST_RECALL
    assert report["wrong"]
    assert render_table(report).row_count == len(report["results"])


def test_sentences_typed_in_haste_are_kept_too():
    """Many users type neither capitals nor apostrophes."""
    hasty = [typed_in_haste(one) for bank in (HELD_OUT, HELD_OUT_LATER) for one in labelled(bank)]
    kept = [one.keep for one in hasty if statements(one.text)]

    assert sum(kept) >= LEAST_PRECISION * len(kept)
    assert sum(kept) >= LEAST_RECALL_IN_HASTE * sum(one.keep for one in hasty)


def test_held_out_sentences_are_not_learnt_from():
    """No sentence is in both."""
    learnt = {one.text for bank in SENTENCES for one in labelled(bank)}

    assert learnt.isdisjoint(one.text for bank in (HELD_OUT, HELD_OUT_LATER) for one in labelled(bank))


def test_fit_tells_what_its_examples_differ_in():
    """A word of one side speaks for it, and the stored weights say the same as the fitted ones."""
    told = [f"My boat number {place} is moored in Trieste" for place in range(20)]
    asked = [f"Compile version {place} again for me" for place in range(20)]
    sentences = [Sentence(text, keep=text in told, bank="test") for text in (*told, *asked)]

    weights = fit(sentences)
    asked_of = [Sentence(text, keep=True, bank="test") for text in ("My boat is moored", "Compile again")]
    odds = features_of(asked_of).times(weights)
    stored = np.frombuffer(encoded(weights, keeping.SCALE), np.int8) / keeping.SCALE

    assert odds[0] > 0 > odds[1]
    assert np.abs(stored - weights).max() <= 1 / keeping.SCALE
