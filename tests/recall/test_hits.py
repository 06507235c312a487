"""Tests of hits that are made when they are asked for: whoever reads them sees a tuple of all."""

from __future__ import annotations

from itertools import accumulate
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadkeep.search.scoring import Hit, Hits
from threadkeep.storage.interface import Namespace

levels = st.sampled_from([0.0, 0.25, 0.5, 1.0])


class Row(NamedTuple):
    """One thing that was found."""

    strength: float
    revision: int
    name: tuple[Namespace, str]
    closeness: float
    cosine: float | None
    lexical: float


rows = st.lists(
    st.builds(
        Row,
        st.sampled_from([0.0, 1.0]),
        st.integers(1, 2),
        st.tuples(st.sampled_from([("memories", "ana"), ("users", "ana")]), st.text("abc", max_size=3)),
        levels,
        st.none() | levels,
        levels,
    ),
    unique_by=lambda row: row.name,
    max_size=14,
)
limits = st.none() | st.integers(0, 15)


def found(given: list[Row], limit: int | None) -> Hits:
    """Make hits of rows that are in order, but for their names."""
    order = sorted(given, key=lambda row: (-row.strength, -row.revision))
    slots = sorted(range(len(order)), key=lambda slot: order[slot].lexical)  # anything but where they stand
    names = {slot: row.name for slot, row in zip(slots, order, strict=True)}
    return Hits(
        [names[slot] for slot in range(len(order))],
        np.array(slots, np.intp),
        strength=np.array([row.strength for row in order]),
        revisions=np.array([row.revision for row in order], np.int64),
        closeness=np.array([row.closeness for row in order]),
        cosine=np.array([np.nan if row.cosine is None else row.cosine for row in order]),
        lexical=np.array([row.lexical for row in order]),
        limit=limit,
    )


def sorted_whole(given: list[Row], limit: int | None) -> tuple[Hit, ...]:
    """Sort all of it by all there is, and cut."""
    order = sorted(given, key=lambda row: (-row.strength, -row.revision, row.name))[:limit]
    scores = accumulate((row.closeness for row in order), min)
    return tuple(
        Hit(*row.name, score, row.cosine, row.lexical, row.strength) for row, score in zip(order, scores, strict=True)
    )


class TestRead:
    @given(rows, limits, st.lists(st.integers(0, 14), max_size=6))
    def test_they_are_what_sorting_everything_gives(self, given: list[Row], limit: int | None, asked: list[int]):
        """Whichever of them are asked for first, one by one, in parts, or all."""
        hits, expected = found(given, limit), sorted_whole(given, limit)

        assert len(hits) == len(expected)
        for place in asked:
            if place < len(hits):
                assert hits[place] == expected[place]
                assert hits[-place - 1] == expected[-place - 1]
            assert hits[place : place + 3] == expected[place : place + 3]
        assert tuple(hits) == expected
        assert hits == expected
        assert hits == found(given, limit)
        assert hash(hits) == hash(expected)
        assert hits + hits[:1] == expected + expected[:1]
        assert repr(hits) == repr(expected)

    def test_nothing_stands_behind_the_last(self):
        """As in any sequence."""
        hits = found([Row(1.0, 1, (("memories", "ana"), "a"), 0.5, None, 0.5)], None)

        with pytest.raises(IndexError):
            hits[1]
        assert hits != "a"


class TestWhere:
    @given(rows, limits, levels, st.integers(0, 14))
    def test_it_tells_the_places_of_hits(self, given: list[Row], limit: int | None, least: float, asked: int):
        """Also where names decide which of equals are among them, before and after others were asked for."""
        hits, expected = found(given, limit), sorted_whole(given, limit)
        places = [place for place, hit in enumerate(expected) if hit.lexical >= least]

        assert hits.where(hits.lexical >= least) == places
        assert hits[asked:] == expected[asked:]
        assert hits.where(hits.lexical >= least) == places

    @given(rows, limits, st.integers(0, 15))
    def test_slots_are_those_of_the_first(self, given: list[Row], limit: int | None, first: int):
        """In the order of the hits; no more than there are."""
        hits, names = found(given, limit), found(given, limit)._names

        assert [names[slot] for slot in hits.slots(first).tolist()] == [
            (hit.namespace, hit.key) for hit in sorted_whole(given, limit)[:first]
        ]


class TestClosest:
    @given(rows.filter(bool), st.none() | st.integers(1, 15))
    def test_it_is_the_first_of_the_closest(self, given: list[Row], limit: int | None):
        """Wherever it stands, by how close it is itself."""
        order = sorted(given, key=lambda row: (-row.strength, -row.revision, row.name))[:limit]
        closest = max(order, key=lambda row: row.closeness)

        hits = found(given, limit)
        hit = hits[hits.closest_places(1)[0]]

        assert (hit.namespace, hit.key) == closest.name
        assert hits.closeness_at(hits.closest_places(1)[0]) == closest.closeness
        assert sorted(hits.closest_places(99)) == list(range(len(hits)))
