"""The dates that a question names, absolute or counted from today."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final

from threadkeep.text.languages import MONTHS
from threadkeep.text.tokenizing import plain_words

_MONTH: Final = rf"(?P<month>{'|'.join(sorted(MONTHS, key=len, reverse=True))})\b\.?"
_DAY: Final = r"(?P<day>\d{1,2})(?:st|[nr]d|th|\.|er)?"
_YEAR: Final = r"(?P<year>(?:19|20)\d\d)"
_PATTERNS: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\b{_YEAR}-(?P<number>\d\d)(?:-(?P<day>\d\d))?\b",
        rf"\b{_DAY}(?:\s+(?:of|de|di|do))?,?\s+{_MONTH}(?:(?:\s+(?:of|de|del|do))?,?\s+{_YEAR})?\b",
        rf"\b{_MONTH}\s+{_DAY}(?!\d)(?:,?\s+{_YEAR})?\b",
        rf"\b{_MONTH}(?:\s+(?:of|de|del|do))?,?\s+{_YEAR}\b",
        rf"\b(?:in|during|of|early|late|mid|im|en|ends?|since|until|last|this)\s+{_MONTH}",
    )
)
_BEGINS_WITH_DIGIT: Final = re.compile(r"\b\d")
_COUNTED_FROM_TODAY: Final = frozenset({"yesterday", "last", "on", "ago"})
_PAST: Final = re.compile(r"\b(?:did|was|were|had|said|told|tell you|talked|discussed|mentioned)\b", re.IGNORECASE)
_RELATIVE: Final = re.compile(
    r"\b(?:(?P<yesterday>yesterday)|(?P<last>last) (?P<unit>week|month)"
    r"|(?:on|last) (?P<weekday>monday|tuesday|wednesday|thursday|friday|saturday|sunday)"
    r"|(?P<count>\d{1,3}|an?|two|three|four|five|six) (?P<units>day|week|month)s? ago)\b",
    re.IGNORECASE,
)
_WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_COUNTS: Final = {"a": 1, "an": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
_UNIT_DAYS: Final = {"day": 1, "week": 7, "month": 30}
_LETTERS_I: Final = {ord("İ"): "i", ord("ı"): "i"}
_EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()
_COUNTED_CERTAINTY: Final = 0.5
"""What people count from today, they count roughly."""


@dataclass(frozen=True, slots=True)
class Span:
    """A day, or some days on end.

    Attributes:
        first: Days since 1970.
        last: The same, of its last day.
        is_day: Whether one day is meant.
        certainty: In [0, 1].
    """

    first: int
    last: int
    is_day: bool
    certainty: float = 1.0


@dataclass(frozen=True, slots=True)
class Yearly:
    """A day or a month that was named without its year.

    Attributes:
        month: 1–12.
        day: 1–31; ``None``: the whole month.
    """

    month: int
    day: int | None

    def spans(self, years: range) -> tuple[Span, ...]:
        """Return it in each of *years*, where it exists."""
        return tuple(span for year in years if (span := _span(year, self.month, self.day)) is not None)


def dates_in(question: str, *, now: datetime) -> tuple[Span | Yearly, ...]:
    """Return the days and months that *question* names.

    What is counted from today (``yesterday``, ``two weeks ago``) counts in questions about the past
    only: ``what shall we eat on Monday`` asks for nothing that was said on one.

    Args:
        question: Any text.
        now: What ``yesterday`` is counted from.
    """
    words = plain_words(question)
    dates = list(named_dates(question))
    if not words.isdisjoint(_COUNTED_FROM_TODAY) and _PAST.search(question):
        today = now.astimezone(UTC).date()
        dates += (_counted(found, today) for found in _RELATIVE.finditer(question))
    return tuple(dates)


def named_dates(question: str) -> Iterator[Span | Yearly]:
    """Yield the days and months that *question* names."""
    if plain_words(question).isdisjoint(MONTHS) and not _BEGINS_WITH_DIGIT.search(question):
        return
    taken = bytearray(len(question))
    for pattern in _PATTERNS:
        for found in pattern.finditer(question):
            start, end = found.span()
            if any(taken[start:end]):
                continue
            taken[start:end] = b"\x01" * (end - start)
            parts = found.groupdict()
            month = int(parts["number"]) if parts.get("number") else MONTHS[lower_case(parts["month"])]
            day = int(parts["day"]) if parts.get("day") else None
            if not (year := parts.get("year")):
                yield Yearly(month, day)
            elif (span := _span(int(year), month, day)) is not None:
                yield span


def lower_case(text: str) -> str:
    """Return *text* in the letters that a pattern without case takes it for: ``ſ`` is an ``s``, ``ı`` an ``i``."""
    return text.translate(_LETTERS_I).casefold()


def _span(year: int, month: int, day: int | None) -> Span | None:
    try:
        first = date(year, month, day or 1)
    except ValueError:
        return None  # the 31st of June
    if day:
        return spread(first, first)
    following = date(year + month // 12, month % 12 + 1, 1)
    return spread(first, following - timedelta(days=1))


def _counted(found: re.Match[str], today: date) -> Span:
    parts = {name: lower_case(part) for name, part in found.groupdict().items() if part}
    if "yesterday" in parts:
        first = last = today - timedelta(days=1)
    elif "last" in parts:
        if parts["unit"] == "week":
            first = today - timedelta(days=today.weekday() + 7)
            last = first + timedelta(days=6)
        else:
            last = today.replace(day=1) - timedelta(days=1)
            first = last.replace(day=1)
    elif "weekday" in parts:
        back = (today.weekday() - _WEEKDAYS.index(parts["weekday"])) % 7 or 7
        first = last = today - timedelta(days=back)
    else:
        count = _COUNTS.get(parts["count"]) or int(parts["count"])
        first = last = today - timedelta(days=count * _UNIT_DAYS[parts["units"]])
    return spread(first, last, certainty=_COUNTED_CERTAINTY)


def spread(first: date, last: date, *, certainty: float = 1.0) -> Span:
    """Return the days from *first* to *last*."""
    return Span(first.toordinal() - _EPOCH_ORDINAL, last.toordinal() - _EPOCH_ORDINAL, first == last, certainty)
