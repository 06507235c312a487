from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadkeep_evals.metrics import (
    METRICS,
    all_at,
    bootstrap_interval,
    first_seen,
    mean_scores,
    ndcg_at,
    percentile,
    recall_at,
    score,
    share_interval,
    told_interval,
)

RANKING = ["a", "b", "c", "d", "e", "f"]


class TestRecallAt:
    @pytest.mark.parametrize(
        ("k", "evidence", "expected"),
        [
            (1, {"a"}, 1.0),
            (1, {"b"}, 0.0),
            (2, {"a", "c"}, 0.5),
            (3, {"a", "c"}, 1.0),
            (5, {"a", "x", "y"}, 1 / 3),
            (100, {"f"}, 1.0),
        ],
    )
    def test_is_the_share_of_evidence_found(self, k, evidence, expected):
        """Recall at k counts evidence among the first k only, over all evidence."""
        assert recall_at(k, RANKING, frozenset(evidence)) == pytest.approx(expected)


class TestShareInterval:
    @pytest.mark.parametrize(
        ("part", "whole", "low", "high"),
        [(0, 40, 0.0, 0.0876), (40, 40, 0.9124, 1.0), (10, 20, 0.2993, 0.7007), (7, 50, 0.0695, 0.2619)],
    )
    def test_it_is_wilsons(self, part: int, whole: int, low: float, high: float):
        """Nothing in forty is not never: up to one in eleven may be."""
        assert share_interval(part, whole) == [low, high]

    def test_of_nothing_nothing_is_known(self):
        """There is no share of no questions."""
        assert share_interval(0, 0) is None
        assert told_interval(None) == "–"


class TestAllAt:
    @pytest.mark.parametrize(
        ("k", "evidence", "expected"), [(2, {"a", "b"}, 1.0), (2, {"a", "c"}, 0.0), (6, {"a", "x"}, 0.0)]
    )
    def test_needs_everything(self, k, evidence, expected):
        """All at k is 1 only when no evidence is missing."""
        assert all_at(k, RANKING, frozenset(evidence)) == expected


class TestNdcgAt:
    def test_one_at_the_top_is_perfect(self):
        """A single piece of evidence in the first place gains everything."""
        assert ndcg_at(10, RANKING, frozenset({"a"})) == 1.0

    def test_third_place_is_discounted_by_two(self):
        """Rank 3 is discounted by log2(4) = 2."""
        assert ndcg_at(10, RANKING, frozenset({"c"})) == pytest.approx(0.5)

    def test_two_of_three_by_hand(self):
        """Ranks 1 and 4 of three pieces: (1 + 1/log2 5) / (1 + 1/log2 3 + 1/2)."""
        expected = (1 + 1 / math.log2(5)) / (1 + 1 / math.log2(3) + 0.5)

        assert ndcg_at(10, RANKING, frozenset({"a", "d", "x"})) == pytest.approx(expected)

    def test_ideal_is_cut_at_k(self):
        """With more evidence than places, filling every place is perfect."""
        assert ndcg_at(2, RANKING, frozenset({"a", "b", "c", "d"})) == pytest.approx(1.0)


class TestScore:
    def test_has_every_figure(self):
        """One question gives every metric by name."""
        assert score(RANKING, frozenset({"f"})) == {
            "recall@5": 0.0,
            "recall@10": 1.0,
            "recall@20": 1.0,
            "all@10": 1.0,
            "ndcg@10": pytest.approx(1 / math.log2(7)),
            "any@10": 1.0,
        }

    @given(st.permutations(RANKING), st.sets(st.sampled_from([*RANKING, "x", "y"]), min_size=1))
    def test_stays_between_nothing_and_everything(self, ranking, evidence):
        """Whatever the ranking, each figure is in [0, 1], and recall grows with depth."""
        figures = score(ranking, frozenset(evidence))

        assert all(0.0 <= one <= 1.0 + 1e-9 for one in figures.values())
        assert figures["recall@5"] <= figures["recall@10"] <= figures["recall@20"]


class TestMeanScores:
    def test_is_the_mean_over_questions(self):
        """Each figure is averaged over questions, not over evidence."""
        nothing, everything = dict.fromkeys(METRICS, 0.0), dict.fromkeys(METRICS, 1.0)

        assert mean_scores([nothing, everything, everything, everything]) == dict.fromkeys(METRICS, 0.75)


class TestFirstSeen:
    def test_ranks_sessions_by_their_best_turn(self):
        """A session stands where its first turn stood."""
        assert first_seen(["3", "1", "3", "2", "1"]) == ("3", "1", "2")


class TestPercentile:
    @pytest.mark.parametrize(
        ("values", "share", "expected"),
        [([7.0], 0.95, 7.0), ([3.0, 1.0, 2.0], 0.5, 2.0), ([1.0, 2.0], 0.5, 1.5), ([0.0, 10.0], 0.95, 9.5)],
    )
    def test_interpolates(self, values, share, expected):
        """The median of two is between them; order does not matter."""
        assert percentile(values, share) == pytest.approx(expected)


class TestBootstrapInterval:
    def test_constant_has_no_width(self):
        """Questions that all score the same leave no doubt."""
        assert bootstrap_interval([0.25] * 40) == (0.25, 0.25)

    def test_is_near_the_normal_approximation(self):
        """For 400 coin tosses the interval is about 0.5 ± 1.96 × 0.025."""
        low, high = bootstrap_interval([0.0, 1.0] * 200)

        assert low == pytest.approx(0.451, abs=0.01)
        assert high == pytest.approx(0.549, abs=0.01)

    def test_same_seed_gives_the_same(self):
        """The interval can be reproduced."""
        values = [0.0, 0.5, 1.0, 1.0, 0.25]

        assert bootstrap_interval(values, seed=3) == bootstrap_interval(values, seed=3)

    def test_clusters_are_drawn_whole(self):
        """Where all questions of a conversation fare alike, there is no more to learn from them than from one."""
        values, talks = [0.0] * 50 + [1.0] * 50, ["a"] * 50 + ["b"] * 50

        low, high = bootstrap_interval(values, clusters=talks)

        assert (low, high) == (0.0, 1.0)
        assert bootstrap_interval(values)[0] > 0.35
