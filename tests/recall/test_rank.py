"""Tests of the fusion of signals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadkeep.search.scoring import Candidates, best, recency, similarity, standardised

floats = st.floats(0, 1, allow_nan=False)


def candidates(cosine: list[float] | None, lexical: list[float], aspect: list[float] | None = None) -> Candidates:
    return Candidates(
        None if cosine is None else np.array(cosine), np.array(lexical), None if aspect is None else np.array(aspect)
    )


class TestSimilarity:
    def test_the_sum_is_of_standard_deviations(self):
        """Six tenths of the cosine's and thirty-five hundredths of BM25's distance from the mean decide."""
        fused = similarity(candidates([1.0, 0.0, 0.0, 0.0], [0.0, 0.5, 0.0, 0.0]))

        parts = 0.6 * standardised(np.array([1.0, 0.0, 0.0, 0.0])) + 0.35 * standardised(np.array([0.0, 0.5, 0.0, 0.0]))
        assert fused.tolist() == pytest.approx(standardised(parts).tolist())
        assert fused.std() == pytest.approx(1.0)

    def test_what_is_asked_for_counts_beside_whom(self):
        """The cosine of the question without its names decides among items about the same person."""
        assert similarity(candidates([0.5, 0.5], [0.5, 0.5], [0.1, 0.9])).tolist() == pytest.approx([-1.0, 1.0])

    def test_without_vectors_the_order_is_lexical(self):
        """Nothing but the words decides."""
        fused = similarity(candidates(None, [0.1, 0.9, 0.4]))

        assert np.argsort(-fused).tolist() == [1, 2, 0]

    def test_an_item_without_a_vector_stands_at_the_mean(self):
        """What is not known neither helps nor harms."""
        fused = similarity(candidates([0.9, np.nan, 0.1], [0.0, 0.0, 0.0]))

        assert fused.tolist() == pytest.approx([1.2247448, 0.0, -1.2247448])

    def test_noise_is_no_signal(self):
        """Cosines that differ in the last bit only are not stretched to a standard deviation."""
        assert standardised(np.array([0.5, 0.5 + 1e-9])).tolist() == [0.0, 0.0]

    def test_recency_runs_from_the_oldest_to_the_newest(self):
        """Between them it is in proportion to time; among equals it says nothing."""
        assert recency(np.array([10.0, 20.0, 15.0])).tolist() == [0.0, 1.0, 0.5]
        assert recency(np.array([7.0, 7.0])).tolist() == [0.0, 0.0]

    @given(st.lists(st.tuples(floats, floats), min_size=1, max_size=20))
    def test_better_in_both_is_better(self, pairs: list[tuple[float, float]]):
        """An item that is behind in no signal is behind in no order."""
        fused = similarity(candidates([one for one, _ in pairs], [two for _, two in pairs]))

        for i, (one, two) in enumerate(pairs):
            assert all(fused[i] >= fused[j] - 1e-9 for j, (a, b) in enumerate(pairs) if one >= a and two >= b)


class TestBest:
    @given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=30), st.integers(0, 35))
    def test_the_best_are_there_and_ties_are_whole(self, rows: list[tuple[int, int]], limit: int):
        """Sorted by score and revision and cut, it is what sorting everything and cutting gives."""
        scores = np.array([score for score, _ in rows], np.float64)
        revisions = np.array([revision for _, revision in rows], np.int64)

        found = best(scores, revisions, limit).tolist()

        ordered = sorted(rows, reverse=True)[:limit]
        assert sorted((rows[place] for place in found), reverse=True)[:limit] == ordered
        assert len(set(found)) == len(found)
        if ordered:
            assert sum(rows[place] == ordered[-1] for place in found) == rows.count(ordered[-1])
