"""Tests of what speaks for an item beside its text."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np

from threadkeep.search.scoring import ASSISTANT, DOCUMENT, OTHER, TOOL, USER, near_dates, penalty_for_others, said_by
from threadkeep.text.dates import Span, Yearly


def days(*dates: str) -> np.ndarray:
    """Spell days as the seconds at their noon."""
    return np.array([datetime.fromisoformat(f"{date}T12:00").replace(tzinfo=UTC).timestamp() for date in dates])


def span(first: str, last: str | None = None, certainty: float = 1.0) -> Span:
    """Spell a span."""
    start, end = (int(days(date)[0] // 86_400) for date in (first, last or first))
    return Span(start, end, start == end, certainty)


class TestWho:
    def test_the_one_who_is_named_counts(self):
        """What they said has 1, the rest 0."""
        assert said_by(np.array([2, -1, 1, 2], np.int32), 2).tolist() == [1, 0, 0, 1]

    def test_others_are_held_back(self):
        """What nobody is known to have said is not: it may be the user's own."""
        roles = np.array([USER, ASSISTANT, TOOL, DOCUMENT, OTHER], np.int8)

        assert penalty_for_others(roles).tolist() == [0, -1, -1, -1, 0]


class TestNearDates:
    def test_a_day_fades_in_three_weeks(self):
        """It counts whole the day before and after, and less within a week and three."""
        said = days("2023-05-08", "2023-05-09", "2023-05-15", "2023-05-29", "2023-05-30", "2023-04-17")

        assert near_dates(said, [span("2023-05-08")]).tolist() == [1, 1, 0.6, 0.25, 0, 0.25]

    def test_a_month_counts_whole(self):
        """All of its days do, and two weeks around it a little."""
        said = days("2023-05-01", "2023-05-31", "2023-06-14", "2023-06-15", "2023-04-20")

        assert near_dates(said, [span("2023-05-01", "2023-05-31")]).tolist() == [1, 1, 0.25, 0, 0.25]

    def test_without_a_year_every_year_is_meant(self):
        """Those in which something was said; the 29th of February is there when it is."""
        said = days("2022-05-08", "2024-05-08", "2024-02-29", "2023-12-24")

        assert near_dates(said, [Yearly(5, 8)]).tolist() == [1, 1, 0, 0]
        assert near_dates(said, [Yearly(2, 29)]).tolist() == [0, 0, 1, 0]

    def test_the_nearest_of_several_counts(self):
        """What is only roughly meant counts less."""
        said = days("2023-05-08", "2023-08-01")

        assert near_dates(said, [span("2023-05-08", certainty=0.5), span("2023-08-01")]).tolist() == [0.5, 1]
        assert near_dates(np.zeros(0), [Yearly(5, 8)]).tolist() == []
