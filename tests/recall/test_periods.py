"""A statement's own time is resolved against the day on which it was said, and questions match it."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import numpy as np
import pytest

import threadkeep
from threadkeep.memories.models import NewMemory, Source
from threadkeep.search.scoring import near_events
from threadkeep.text.dates import Span, Yearly
from threadkeep.text.periods import event_in, periods_in

SAID = date(2023, 4, 18)  # a Tuesday
EPOCH = date(1970, 1, 1)


def spelled(text: str) -> str | None:
    """Spell the first and the last day of what *text* tells of."""
    span = event_in(text, said=SAID)
    if span is None:
        return None
    first, last = ((EPOCH + timedelta(days=day)).isoformat() for day in (span.first, span.last))
    return first if first == last else f"{first}/{last}"


class TestEventIn:
    @pytest.mark.parametrize(
        ("text", "period"),
        [
            ("I ran a marathon yesterday.", "2023-04-17"),
            ("I ran a marathon last Friday.", "2023-04-14"),
            ("We leave next Friday.", "2023-04-21"),
            ("We were at the sea last weekend.", "2023-04-15/2023-04-16"),
            ("We were at the sea last week.", "2023-04-10/2023-04-16"),
            ("Our flat flooded two weeks ago.", "2023-04-01/2023-04-07"),
            ("We went to a convention last month.", "2023-03-01/2023-03-31"),
            ("We fly in three months.", "2023-07-01/2023-07-31"),
            ("We went to Italy last summer.", "2022-06-01/2022-08-31"),
            ("We were in Lapland in winter 2020.", "2020-12-01/2021-02-28"),
            ("We got engaged on the first weekend of March.", "2023-03-04/2023-03-05"),
            ("I graduated in 2019.", "2019-01-01/2019-12-31"),
            ("I moved on 3 November.", "2022-11-03"),
            ("Vor drei Wochen war ich in Rom.", "2023-03-25/2023-03-31"),
            ("Letzten Sommer waren wir an der Ostsee.", "2022-06-01/2022-08-31"),
            ("Il y a deux ans, j'ai déménagé.", "2021-01-01/2021-12-31"),
            ("La semana pasada estuve en Cádiz.", "2023-04-10/2023-04-16"),
            ("No mês passado fui a Sintra.", "2023-03-01/2023-03-31"),
            ("I like mint tea.", None),
            ("It happened on 31 June.", "2023-04-18"),
        ],
    )
    def test_the_period_counts_from_the_day_of_saying(self, text: str, period: str | None):
        assert spelled(text) == period

    def test_what_no_calendar_has_is_left_out(self):
        """Nothing raises, also at the ends of time."""
        assert periods_in("500 years ago", said=date(3, 1, 1)) == ()
        assert periods_in("in 900 years", said=date(9_500, 1, 1)) == ()
        assert periods_in("on the first weekend of March", said=date(2, 1, 1)) != ()


class TestNearEvents:
    def test_periods_that_meet_are_near(self):
        first = np.array([100, 100, 300, np.nan], np.float32)
        last = np.array([100, 130, 300, np.nan], np.float32)

        assert near_events(first, last, [Span(100, 100, is_day=True)]).tolist() == [1.0, 0.5, 0.0, 0.0]

    def test_a_date_of_any_year_meets_each(self):
        day = float((date(2022, 11, 3) - EPOCH).days)

        assert near_events(np.array([day], np.float32), np.array([day], np.float32), [Yearly(11, 3)]).tolist() == [1.0]

    def test_without_events_nothing_is(self):
        none = np.array([np.nan], np.float32)

        assert near_events(none, none, [Span(1, 2, is_day=False)]).tolist() == [0.0]


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Where did we hike on 14 June 2025?", "We hiked in the Jura last weekend."),
        ("Where did we hike in April 2025?", "We hiked in the Eifel two months ago."),
        ("Where did we hike in summer 2024?", "We hiked in the Alps last summer."),
        ("Where did we hike in 2021?", "We hiked in the Rhön in 2021."),
    ],
)
async def test_a_question_about_the_day_of_an_event_finds_it_first(question: str, answer: str):
    """All was told on one day, which no question names."""
    said = datetime(2025, 6, 17, 12, tzinfo=UTC)
    told = (
        "We hiked in the Jura last weekend.",
        "We hiked in the Eifel two months ago.",
        "We hiked in the Alps last summer.",
        "We hiked in the Rhön in 2021.",
        "We hiked in the Harz yesterday.",
    )
    async with threadkeep.open("memory://", embedder="none") as tk:
        news = [NewMemory(text, "semantic", (Source("user", at=said),), created_at=said) for text in told]
        await tk.memories.remember_many(news, owner="ana")

        found = await tk.memories.search(question, owner="ana", limit=5)

    assert found[0].memory.text == answer
