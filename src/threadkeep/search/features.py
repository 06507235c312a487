"""What ranking knows of an item beside its text: where it stands in which conversation, and who said it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import numpy as np

from threadkeep.text.dates import Span, Yearly

if TYPE_CHECKING:
    from numpy.typing import NDArray


OTHER: Final = 0
USER: Final = 1
ASSISTANT: Final = 2
TOOL: Final = 3
DOCUMENT: Final = 4
ROLES: Final = 5

_ROLES: Final = {"user": USER, "assistant": ASSISTANT, "tool": TOOL, "document": DOCUMENT}
_TRUST: Final = {"user": 1.0, "import": 0.75, "document": 0.5, "tool": 0.25, "assistant": 0.0}
_LABEL: Final = re.compile(r"\s{0,3}([^\W\d_][\w.'’-]*(?: [^\W\d_][\w.'’-]*){0,2}):\s")
_LONGEST_LABEL: Final = 64
_END_CHARACTERS: Final = 80
_NOTHING: Final[Mapping[str, Any]] = {}


class Traits(NamedTuple):
    """What is known of some items: place *i* of each field is one item's.

    Attributes:
        threads: The conversation that it is from; ``None``: none.
        said_at: When it was said, seconds since 1970.
        roles: Who said it: one of this module's numbers.
        trust: How far whoever is behind it is trusted, in [0, 1].
        pinned: Whether it is pinned.
        labels: The name of who said it, where the text begins with ``Name: ``; empty otherwise.
        asks: Whether it ends in a question.
    """

    threads: list[str | None]
    said_at: list[float]
    roles: list[int]
    trust: list[float]
    pinned: list[bool]
    labels: list[str]
    asks: list[bool]


def traits_of(
    values: Sequence[Mapping[str, Any]], texts: Sequence[Sequence[str]], created_at: Sequence[float]
) -> Traits:
    """Read the traits of some items, whatever others may have put into their values.

    Args:
        values: Of memories or something else.
        texts: Of each, its searchable texts.
        created_at: When each was made, seconds since 1970.
    """
    # Field by field: one loop over the items, with a list for each field, takes a third longer.
    sources = [_first(value.get("sources")) for value in values]
    threads = [
        source.get("thread_id") or value.get("source_thread") for source, value in zip(sources, values, strict=True)
    ]
    speakers, trusted = [source.get("speaker") for source in sources], [value.get("trust") for value in values]
    firsts = [own[0] if own else "" for own in texts]
    ends = [text[-_END_CHARACTERS:] for text in firsts]
    return Traits(
        threads=[thread if isinstance(thread, str) else None for thread in threads],
        said_at=list(map(_said_at, sources, values, created_at)),
        roles=[_ROLES.get(speaker, OTHER) if isinstance(speaker, str) else OTHER for speaker in speakers],
        trust=[_TRUST.get(trust, 0.0) if isinstance(trust, str) else 0.0 for trust in trusted],
        pinned=[value.get("pinned") is True for value in values],
        labels=[label[1] if ": " in text[:_LONGEST_LABEL] and (label := _LABEL.match(text)) else "" for text in firsts],
        asks=["?" in end or "？" in end or "؟" in end for end in ends],
    )


def _first(sources: object) -> Mapping[str, Any]:
    """Return the first of a value's *sources*; nothing where that is no such thing."""
    if isinstance(sources, list) and sources and isinstance(sources[0], dict):
        return cast("Mapping[str, Any]", sources[0])
    return _NOTHING


def _said_at(source: Mapping[str, Any], value: Mapping[str, Any], made_at: float) -> float:
    said_at = _seconds(source.get("at"))
    if said_at is None and (said_at := _seconds(value.get("timestamp"))) is None:
        return made_at
    return said_at


def _seconds(moment: object) -> float | None:
    """Read ISO text as seconds since 1970; ``None`` where it is none."""
    if not isinstance(moment, str):
        return None
    try:
        read = datetime.fromisoformat(moment)
        return read.timestamp() if read.tzinfo is not None else read.replace(tzinfo=UTC).timestamp()
    except (ValueError, OverflowError):
        return None


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
