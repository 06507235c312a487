"""Tests of the dates in a question."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadkeep.text.dates import Span, Yearly, dates_in

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)  # a Friday
EPOCH = date(1970, 1, 1).toordinal()


def spelled(question: str) -> list[str]:
    """Spell what was found: a day, first and last day, or month and day of any year."""
    found: list[str] = []
    for one in dates_in(question, now=NOW):
        if isinstance(one, Yearly):
            found.append(f"{one.month}" if one.day is None else f"{one.month}-{one.day}")
        else:
            first, last = (date.fromordinal(day + EPOCH).isoformat() for day in (one.first, one.last))
            found.append(first if first == last else f"{first}/{last}")
    return found


class TestNamed:
    @pytest.mark.parametrize(
        ("question", "dates"),
        [
            ("What happened on 8 May 2023?", ["2023-05-08"]),
            ("What happened on May 8th, 2023, and on the 3rd of June?", ["6-3", "2023-05-08"]),
            ("Was it sept 5 or 2023-10-02?", ["2023-10-02", "9-5"]),
            ("What did I plan for January 2024?", ["2024-01-01/2024-01-31"]),
            ("And in December?", ["12"]),
            ("Until 2023-12 or in late march", ["2023-12-01/2023-12-31", "3"]),
            ("Was war am 3. Oktober 2024?", ["2024-10-03"]),
            ("¿Qué pasó el 2 de mayo de 2023?", ["2023-05-02"]),
            ("Qu'ai-je dit le 14 juillet ?", ["7-14"]),
            ("On 31 June 2023", []),
            ("May I have 3 of them?", []),
            ("Who is April?", []),
            ("", []),
        ],
    )
    def test_days_and_months_are_read(self, question: str, dates: list[str]):
        """The table says what is a date, and what it means without a year or a day."""
        assert sorted(spelled(question)) == sorted(dates)


class TestCounted:
    @pytest.mark.parametrize(
        ("question", "dates"),
        [
            ("What did I say yesterday?", ["2026-11-19"]),
            ("What did we talk about last week?", ["2026-11-09/2026-11-15"]),
            ("Where was I last month?", ["2026-10-01/2026-10-31"]),
            ("What did I tell you two weeks ago?", ["2026-11-06"]),
            ("What did I eat on Monday?", ["2026-11-16"]),
            ("What was it last Friday?", ["2026-11-13"]),
            ("What did I say a day ago, and 3 months ago?", ["2026-11-19", "2026-08-22"]),
            ("What shall I eat on Monday?", []),
            ("What do I do today?", []),
        ],
    )
    def test_questions_about_the_past_count_from_today(self, question: str, dates: list[str]):
        """A question about what is to come names no day on which something was said."""
        assert spelled(question) == dates

    def test_what_is_counted_is_half_certain(self):
        """Two weeks ago may be twelve days ago."""
        (found,) = dates_in("What did I say yesterday?", now=NOW)

        assert isinstance(found, Span)
        assert found.certainty == 0.5

    @given(st.text(), st.sampled_from(["", " did 3 May ", " was 999 months ago "]))
    def test_any_text_is_taken(self, text: str, middle: str):
        """Nothing is raised whatever is asked."""
        for one in dates_in(text + middle + text, now=NOW):
            assert isinstance(one, Yearly) or one.first <= one.last
