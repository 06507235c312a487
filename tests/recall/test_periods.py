"""A statement's own time is resolved against the day on which it was said, and questions match it."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import threadkeep
from threadkeep.memories.models import NewMemory, Source
from threadkeep.search.conversations import Conversations, traits_of
from threadkeep.search.scoring import near_events
from threadkeep.text.dates import TIME_WORDS, Span, Yearly, dates_in, event_in, periods_in
from threadkeep.text.tokenizing import MONTHS

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


def _other_cases(word: str) -> list[str]:
    """Spell *word* with letters that a pattern without case takes for its own."""
    alike = {"s": "ſ", "i": "ıİ", "k": "\N{KELVIN SIGN}"}
    return [word.replace(letter, other) for letter, others in alike.items() if letter in word for other in others]


class TestOtherCases:
    """``re.IGNORECASE`` takes more letters for alike than ``str.lower`` does."""

    @pytest.mark.parametrize("word", sorted({*TIME_WORDS, *MONTHS, "last", "this", "six", "first", "ago"}))
    def test_no_spelling_of_a_word_raises(self, word: str):
        now = datetime(2023, 4, 18, tzinfo=UTC)
        for other in (*_other_cases(word), word.upper()):
            for text in (
                f"We met last {other} on Monday, 3 May.",
                f"We met two {other} ago, in May.",
                f"in {other} 2024",
                f"3 {other} 2025, and yesterday",
                f"the first {other} of May",
                f"the {other} Friday of {other}",
                f"We met {other} week. Did you say so on {other}?",
            ):
                periods_in(text, said=SAID)
                dates_in(text, now=now)

    def test_they_mean_the_same(self):
        assert spelled("We met last ſunday, not Monday, in week 3.") == spelled("We met last Sunday.")


class TestEvents:
    @given(st.lists(st.tuples(st.sampled_from(["I ran yesterday.", "I ran.", "I ran in 2019."]), st.booleans())))
    def test_they_follow_the_items(self, items: list[tuple[str, bool]]):
        """Dropped items tell of nothing; others keep their days when they are numbered anew."""
        texts, alive = [text for text, _ in items], np.array([kept for _, kept in items], np.bool_)
        said = datetime(2023, 4, 18, tzinfo=UTC).timestamp()
        talk = Conversations()
        talk.extend(traits_of([{}] * len(items), [[text] for text in texts], [said] * len(items)))
        gone = np.flatnonzero(~alive).tolist()

        events = talk.snapshot(alive=alive, revisions=np.zeros(len(items), np.int64), names=[]).events
        half = events.days(len(items) // 2)
        talk.drop(gone)
        talk.keep(alive)
        after = talk.snapshot(alive=alive[alive], revisions=np.zeros(0, np.int64), names=[]).events

        expected = [{"I ran.": np.nan, "I ran yesterday.": 19464.0, "I ran in 2019.": 17897.0}[text] for text in texts]
        np.testing.assert_array_equal(half[0], expected[: len(items) // 2])
        np.testing.assert_array_equal(after.days(len(gone) * -1 + len(items))[0], np.array(expected)[alive])

    def test_they_are_forgotten(self):
        """No text stays behind in a snapshot that is still in use."""
        talk = Conversations()
        talk.extend(traits_of([{}], [["I ran yesterday."]], [0.0]))
        events = talk.snapshot(alive=np.ones(1, np.bool_), revisions=np.zeros(1, np.int64), names=[]).events

        talk.forget_events()

        assert events.nbytes == 0
        assert np.isnan(events.days(1)[0]).all()


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
