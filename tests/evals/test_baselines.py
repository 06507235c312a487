from __future__ import annotations

import math

import numpy as np
import pytest

from threadkeep_evals.baselines import Bm25, Dense, terms

TEXTS = [
    "Ana: I adopted a puppy.",
    "Ben: The puppies are sleeping, and the puppy eats.",
    "Ana: My flight was cancelled.",
    "",
]


class TestTerms:
    def test_stems_and_cuts(self):
        """Words are lowered, stemmed and stripped of stop words and possessives."""
        assert terms("What did the Puppies' owners' friend, Ana’s cousin, adopt?") == [
            "puppi",
            "owner",
            "friend",
            "ana",
            "cousin",
            "adopt",
        ]

    def test_only_stop_words_leave_nothing(self):
        """A question of stop words alone asks for nothing."""
        assert terms("What would they have been?") == []


class TestBm25:
    def test_scores_by_the_formula(self):
        """One term in one of four texts scores idf × tf(k1 + 1) / (tf + k1(1 − b + b · length / mean))."""
        index = Bm25(["apple pear", "plum plum plum", "fig", "kiwi"])

        idf = math.log(1 + (4 - 1 + 0.5) / (1 + 0.5))
        mean = (2 + 3 + 1 + 1) / 4
        expected = idf * 3 * 2.2 / (3 + 1.2 * (0.25 + 0.75 * 3 / mean))
        assert index.scores("plums") == [0.0, pytest.approx(expected), 0.0, 0.0]

    def test_ranks_what_shares_words(self):
        """Texts without a common word are left out, and more of the word comes first."""
        assert Bm25(TEXTS).rank("Who has a puppy?") == [1, 0]

    def test_equal_texts_keep_their_order(self):
        """Ties do not depend on chance."""
        assert Bm25(["pear", "pear", "pear"]).rank("pears") == [0, 1, 2]

    def test_nothing_to_search_gives_nothing(self):
        """An index of no texts, or a question of no words, finds nothing."""
        assert Bm25([]).rank("pear") == []
        assert Bm25(TEXTS).rank("") == []


class TestDense:
    def test_ranks_by_cosine(self):
        """The nearest direction comes first, and everything is ranked."""
        vectors = np.array([[1, 0], [0, 1], [0.6, 0.8]], np.float32)

        assert Dense(vectors).rank(np.array([0, 1], np.float32)) == [1, 2, 0]
