"""Tests of the fusion of signals."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from threadkeep.recall.rank import Candidates, Weights, best, fuse, standardised

floats = st.floats(0, 1, allow_nan=False)


def candidates(cosine: list[float] | None, lexical: list[float], updated_at: list[float] | None = None) -> Candidates:
    times = updated_at or [0.0] * len(lexical)
    return Candidates(None if cosine is None else np.array(cosine), np.array(lexical), np.array(times))


class TestFuse:
    def test_the_sum_is_of_standard_deviations(self):
        """Six tenths of the cosine's and four tenths of BM25's distance from the mean."""
        fused = fuse(candidates([1.0, 0.0], [0.0, 0.5]))

        assert fused.tolist() == [0.6 - 0.4, 0.4 - 0.6]

    def test_what_is_asked_for_counts_beside_whom(self):
        """The cosine of the question without its names decides among items about the same person."""
        same = candidates([0.5, 0.5], [0.5, 0.5])
        fused = fuse(Candidates(same.cosine, same.lexical, same.updated_at, np.array([0.1, 0.9])))

        assert fused.tolist() == [-0.3, 0.3]

    def test_without_vectors_the_order_is_lexical(self):
        """Nothing but the words decides."""
        fused = fuse(candidates(None, [0.1, 0.9, 0.4]))

        assert np.argsort(-fused).tolist() == [1, 2, 0]

    def test_an_item_without_a_vector_stands_at_the_mean(self):
        """What is not known neither helps nor harms."""
        fused = fuse(candidates([0.9, np.nan, 0.1], [0.0, 0.0, 0.0]))

        assert fused.tolist() == [0.6, 0.0, -0.6]

    def test_the_newer_of_near_equals_comes_first(self):
        """Recency decides between equals and no further."""
        near = fuse(candidates([0.5, 0.5, 0.1], [0.0, 0.0, 0.0], [1.0, 2.0, 0.0]))
        far = fuse(candidates([0.9, 0.1], [0.0, 0.0], [1.0, 2.0]))

        assert near[1] > near[0]
        assert far[0] > far[1]

    def test_noise_is_no_signal(self):
        """Cosines that differ in the last bit only are not stretched to a standard deviation."""
        assert standardised(np.array([0.5, 0.5 + 1e-9])).tolist() == [0.0, 0.0]

    @given(st.lists(st.tuples(floats, floats), min_size=1, max_size=20))
    def test_better_in_both_is_better(self, pairs: list[tuple[float, float]]):
        """An item that is behind in no signal is behind in no order."""
        fused = fuse(candidates([one for one, _ in pairs], [two for _, two in pairs]), Weights(recency=0))

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
