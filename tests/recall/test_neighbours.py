"""Tests of what was said beside what."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadkeep.search.conversations import NO_NEIGHBOURS, ConversationColumns, neighbours, ordered
from threadkeep.search.scoring import ASSISTANT, USER, Weights

PLAIN = Weights(previous=0.1, answer=0.5, next=0.25, second=0.01, session=0.0)
HOUR = 3600.0


@dataclass
class Talk:
    """What was said, one column for each thing that matters."""

    threads: list[int]
    said_at: list[float]
    revisions: list[int] = field(default_factory=list)
    roles: list[int] = field(default_factory=list)
    asks: list[bool] = field(default_factory=list)

    @property
    def said(self) -> ConversationColumns:
        count = len(self.threads)
        return ConversationColumns(
            threads=np.array(self.threads, np.int32),
            said_at=np.array(self.said_at, np.float64),
            revisions=np.array(self.revisions or [1] * count, np.int64),
            roles=np.array(self.roles or [USER] * count, np.int8),
            asks=np.array(self.asks or [False] * count),
            names=[(("n",), f"{(slot * 7) % 100:02}-{slot}") for slot in range(count)],
        )


def in_order(talk: Talk) -> list[int]:
    """Order the slots from nothing."""
    return order_of(talk).tolist()


def order_of(talk: Talk) -> np.ndarray:
    count = len(talk.threads)
    return ordered(talk.said, alive=np.ones(count, np.bool_), known=np.zeros(0, np.intp), fresh=np.arange(count))


def smoothed(talk: Talk, scores: list[float], weights: Weights = PLAIN) -> list[float]:
    """Smooth *scores*, one for each slot."""
    beside = neighbours(talk.said, order_of(talk), weights)
    return beside.smoothed(np.array(scores, np.float64), weights).round(6).tolist()


class TestOrdered:
    def test_a_conversation_runs_by_time(self):
        """Whatever the order in which its items came; items of no conversation are not in it."""
        assert in_order(Talk([1, 0, -1, 1, 0], [5, 9, 1, 2, 3])) == [4, 1, 3, 0]

    def test_what_was_said_at_once_runs_by_revision_and_name(self):
        """So the order does not depend on how an item came here."""
        assert in_order(Talk([0, 0, 0, 0], [1, 1, 1, 1], [2, 1, 1, 2])) == [1, 2, 0, 3]

    @given(
        st.lists(
            st.tuples(st.integers(-1, 2), st.sampled_from([0.0, 1.0, 2.0]), st.integers(1, 2), st.booleans()),
            max_size=30,
        ),
        st.integers(0, 30),
        st.integers(0, 30),
    )
    def test_putting_into_place_is_sorting(self, rows: list[tuple[int, float, int, bool]], first: int, second: int):
        """Items that come later, one lot after the other, stand where sorting everything puts them."""
        talk = Talk([row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows])
        alive = np.array([row[3] for row in rows], np.bool_)
        cuts = sorted((min(first, len(rows)), min(second, len(rows))))
        every = np.arange(len(rows))
        known = np.zeros(0, np.intp)
        for start, end in ((0, cuts[0]), (cuts[0], cuts[1]), (cuts[1], len(rows))):
            known = ordered(talk.said, alive=np.ones(len(rows), np.bool_), known=known, fresh=every[start:end])

        kept = ordered(talk.said, alive=alive, known=known, fresh=every[:0])

        assert kept.tolist() == [slot for slot in in_order(talk) if alive[slot]]


class TestSmoothed:
    def test_what_stands_beside_a_match_gains(self):
        """The one after it gains a share, the one before it another, and so do those two away."""
        assert smoothed(Talk([0] * 5, [0, 1, 2, 3, 4]), [0, 0, 1, 0, 0]) == [0.01, 0.25, 1.0, 0.1, 0.01]

    def test_an_answer_gains_more_from_its_question(self):
        """Who asks is said to have said something; what the user answers is what is looked for."""
        talk = Talk([0, 0], [0, 1], asks=[True, False])

        assert smoothed(talk, [1, 0]) == [1.0, 0.6]
        talk.roles = [USER, ASSISTANT]
        assert smoothed(talk, [1, 0]) == [1.0, 0.1]

    def test_nothing_passes_from_one_session_to_another(self):
        """Another thread is another session, and so is the same one after six hours of silence."""
        talk = Talk([0, 0, 0, 1], [0, 1, 7 * HOUR, 7 * HOUR + 1])

        assert smoothed(talk, [1, 0, 0, 0]) == [1.0, 0.1, 0.0, 0.0]
        assert smoothed(talk, [0, 0, 1, 0]) == [0.0, 0.0, 1.0, 0.0]

    def test_a_session_is_as_good_as_its_best(self):
        """Every item moves towards it; an item of no conversation is a session of its own."""
        weights = Weights(previous=0, answer=0, next=0, second=0, session=0.5)

        assert smoothed(Talk([0, 0, 1, -1], [0, 1, 0, 0]), [2, -1, 1, 1], weights) == [3.0, 0.0, 1.5, 1.5]

    def test_where_nothing_is_of_a_conversation_the_order_stays(self):
        """There is nothing to count in."""
        assert neighbours(Talk([-1], [0]).said, np.zeros(0, np.intp)) is NO_NEIGHBOURS
        assert np.argsort(NO_NEIGHBOURS.smoothed(np.array([1.0, 3.0, 2.0]))).tolist() == [0, 2, 1]

    @given(st.lists(st.tuples(st.integers(-1, 2), st.integers(0, 20), st.floats(-3, 3)), min_size=1, max_size=20))
    def test_it_is_the_plain_sum(self, rows: list[tuple[int, int, float]]):
        """All at once gives what one item after the other gives."""
        talk = Talk([row[0] for row in rows], [row[1] * HOUR for row in rows])
        scores = [row[2] for row in rows]
        weights = Weights()

        sessions: list[list[int]] = []
        for slot in in_order(talk):
            last = sessions[-1][-1] if sessions else slot
            new = not sessions or talk.threads[slot] != talk.threads[last]
            if new or talk.said_at[slot] - talk.said_at[last] > 6 * HOUR:
                sessions.append([])
            sessions[-1].append(slot)
        expected = [(1 + weights.session) * score for score in scores]
        for session in sessions:
            own = [scores[slot] for slot in session]
            for place, slot in enumerate(session):
                expected[slot] += weights.session * (max(own) - own[place])
                for away, share in (
                    (-1, weights.previous),
                    (1, weights.next),
                    (-2, weights.second),
                    (2, weights.second),
                ):
                    if 0 <= place + away < len(own):
                        expected[slot] += share * own[place + away]

        assert smoothed(talk, scores, weights) == pytest.approx(expected, abs=1e-5)
