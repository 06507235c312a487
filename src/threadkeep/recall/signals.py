"""What speaks for an item beside its text's likeness to the question: who said it, when, and where.

Each signal is a pure function from columns of the index to one number an item, 0 where it says nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from threadkeep.recall.dates import Span, Yearly
from threadkeep.recall.traits import ASSISTANT, DOCUMENT, ROLES, TOOL

if TYPE_CHECKING:
    from numpy.typing import NDArray

_DAY_SECONDS: Final = 86_400.0
_YEAR_DAYS: Final = 365.2425

_HELD_BACK: Final = np.zeros(ROLES)
_HELD_BACK[[ASSISTANT, TOOL, DOCUMENT]] = -1.0
_NEAR_A_DAY: Final = ((21, 0.25), (7, 0.6), (1, 1.0))
_NEAR_A_MONTH: Final = ((14, 0.25), (0, 1.0))


def said_by(labels: NDArray[np.int32], label: int) -> NDArray[np.float64]:
    """Return 1 for what the one person whom a question names has said.

    Source:
        LoCoMo: 3.7 points of recall@10 where the question is about what that person said, minus 6
        on questions that swap the speakers on purpose. Hence the moderate weight.
    """
    return (labels == label).astype(np.float64)


def not_the_users(roles: NDArray[np.int8]) -> NDArray[np.float64]:
    """Return -1 for what the assistant, a tool or a document said: a question about oneself asks for one's own words.

    Source:
        BEAM-100K: 77 % of the evidence are the user's messages, and the long answers swamp them; 8 points of recall@10.
    """
    return _HELD_BACK[roles]


def near_dates(said_at: NDArray[np.float64], dates: Sequence[Span | Yearly]) -> NDArray[np.float64]:
    """Return how near the day on which something was said is to one that the question names, in [0, 1].

    A day: 1 on it and beside it, .6 within a week, .25 within three. A month: 1 within it, .25 within
    two weeks of it.

    Source:
        LoCoMo, where a quarter of the questions name a date: 7 points of recall@10 on the temporal ones.
    """
    days = np.floor(said_at / _DAY_SECONDS)
    nearest = np.zeros(len(said_at))
    if not len(days):
        return nearest
    first, last = (1970 + int(day // _YEAR_DAYS) for day in (days.min(), days.max()))
    years = range(first, last + 1)  # a day more or less at the turn of the year does not matter
    for span in (span for date in dates for span in (date.spans(years) if isinstance(date, Yearly) else (date,))):
        away = np.maximum(np.maximum(span.first - days, days - span.last), 0.0)
        for within, worth in _NEAR_A_DAY if span.is_day else _NEAR_A_MONTH:
            np.maximum(nearest, span.certainty * worth, out=nearest, where=away <= within)
    return nearest
