# ruff: noqa: E501 - a pattern is a flat list of alternatives; broken up, it could not be searched for a word
"""Dates and periods: those that a question names, and when something happened or will, as a statement tells it.

They are absolute, or counted from today or from the day on which the statement was said.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final

from threadkeep.text.tokenizing import MONTHS, plain_words

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
        dates += (_resolve_relative(found, today) for found in _RELATIVE.finditer(question))
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


def _resolve_relative(found: re.Match[str], today: date) -> Span:
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


MAX_CHARACTERS: Final = 600
"""So much of the beginning of a text is read for periods."""

_COUNT_WORDS: Final = {
    word: number
    for number, group in enumerate(
        (
            "a an one ein einem einer eine un une um uma una",
            "two couple zwei deux dos dois duas",
            "three few drei trois tres três",
            "four vier quatre cuatro quatro",
            "five fünf cinq cinco",
            "six sechs seis",
            "seven sieben sept siete sete",
            "eight acht huit ocho oito",
            "nine neun neuf nueve nove",
            "ten zehn dix diez dez",
        ),
        start=1,
    )
    for word in group.split()
}
_UNITS: Final = {
    word: unit
    for unit, group in (
        ("day", "day days tag tage tagen jour jours día días dia dias"),
        ("week", "week weeks woche wochen semaine semaines semana semanas"),
        ("weekend", "weekend wochenende week-end"),
        ("month", "month months monat monate monaten mois mes meses mês"),
        ("year", "year years jahr jahre jahren an ans année años año ano anos"),
        ("spring", "spring frühling frühjahr printemps primavera"),
        ("summer", "summer sommer été verano verão"),
        ("autumn", "autumn fall herbst automne otoño outono"),
        ("winter", "winter hiver invierno inverno"),
    )
    for word in group.split()
} | {"fin de semana": "weekend", "fim de semana": "weekend"}
_SEASONS: Final = {"spring": 3, "summer": 6, "autumn": 9, "winter": 12}
"""The month with which each begins, in the north."""
_WEEKDAY_NAMES: Final = {
    word: number
    for number, group in enumerate(
        (
            "monday montag lundi lunes segunda-feira",
            "tuesday dienstag mardi martes terça-feira",
            "wednesday mittwoch mercredi miércoles quarta-feira",
            "thursday donnerstag jeudi jueves quinta-feira",
            "friday freitag vendredi viernes sexta-feira",
            "saturday samstag samedi sábado",
            "sunday sonntag dimanche domingo",
        )
    )
    for word in group.split()
}
_ORDINALS: Final = {"first": 1, "1st": 1, "second": 2, "2nd": 2, "third": 3, "3rd": 3, "fourth": 4, "4th": 4, "last": 5}
_DAYS: Final = {
    "yesterday": -1, "last night": -1, "gestern": -1, "ayer": -1, "ontem": -1, "day before yesterday": -2, "vorgestern": -2,
    "avant-hier": -2, "anteayer": -2, "anteontem": -2, "tomorrow": 1, "demain": 1, "amanhã": 1, "übermorgen": 2,
}  # fmt: skip


def _any(words: Iterable[str]) -> str:
    return "|".join(sorted(map(re.escape, words), key=len, reverse=True))


_UNIT: Final = _any([*_UNITS, *_WEEKDAY_NAMES, *(name for name in MONTHS if len(name) > 4)])  # noqa: PLR2004
_COUNT: Final = rf"(?P<count>\d{{1,3}}|{_any(_COUNT_WORDS)})"
_COUNTED: Final = _any(word for word, unit in _UNITS.items() if unit in ("day", "week", "month", "year"))
_PERIOD: Final = re.compile(
    rf"""(?ix)\b(?:
      (?P<day>{_any(_DAYS)})
    | (?P<ordinal>{_any(_ORDINALS)})\ (?P<part>weekend|week|{_any(word for word in _WEEKDAY_NAMES if word.endswith("day"))})\ (?:of|in)\ (?P<month>{_any(MONTHS)})(?:\ (?P<month_year>(?:19|20)\d\d))?
    | (?:(?:a\ )?{_COUNT}(?:\ of)?\ (?P<units>{_COUNTED})\ (?P<ago>ago|back|earlier)) | (?:vor|il\ y\ a|hace|há)\ (?:unos\ |etwa\ )?(?P<count_before>\d{{1,3}}|{_any(_COUNT_WORDS)})\ (?P<units_before>{_COUNTED})
    | in\ (?P<count_after>\d{{1,3}}|{_any(_COUNT_WORDS)})\ (?P<units_after>{_COUNTED})
    | (?P<which>last|past|previous|next|this|coming|letzte[nsrm]?|vorige[nsrm]?|vergangene[nsrm]?|nächste[nsrm]?|kommende[nsrm]?|diese[nsrm]?|cet|cette|ce|próxim[oa]|est[ea])\ (?P<unit>{_UNIT})
    | (?P<unit_before>{_UNIT})\ (?P<which_after>derni[eè]re?|pass[ée]e?|prochaine?|pasad[oa]|passad[oa]|que\ viene|que\ vem|próxim[oa])
    | (?:in|during|over|since|im|en|au|no|durante)\ (?:the\ |l'|el\ |der\ )?(?P<season>spring|summer|autumn|fall|winter|sommer|herbst|frühling|hiver|verano|otoño|invierno|verão|outono|inverno|été)(?:\ (?:of|de|del)?\ ?(?P<season_year>(?:19|20)\d\d))?
    | (?:in|since|during|of|back\ in|seit|en|em|desde|depuis)\ (?P<year>(?:19|20)\d\d)
    )(?![\w-])"""
)
TIME_WORDS: Final = frozenset(
    max(re.findall(r"\w+", phrase), key=len) for phrase in (*_DAYS, *_UNITS, *_WEEKDAY_NAMES, *MONTHS)
)
"""What tells of a time has one of these words, or a year."""
_SOME_YEAR: Final = re.compile(r"(?:19|20)\d\d")
_NEXT: Final = re.compile(r"(?i)next|coming|nächst|kommend|proch|próx|que ")
_THIS: Final = re.compile(r"(?i)this|dies|ce|est")


def periods_in(text: str, *, said: date) -> tuple[Span, ...]:
    """Return the periods that *text*, said on that day, tells of; the first 600 characters count."""
    if not may_tell_of_time(text):
        return ()
    text = text[:MAX_CHARACTERS]
    return (*_relative_in(text, said), *(_nearest(found, said) for found in named_dates(text)))


def may_tell_of_time(text: str) -> bool:
    """Return whether *text* has a word or a number without which it tells of no period.

    It takes a few microseconds; :func:`periods_in` takes a hundred and more.
    """
    text = text[:MAX_CHARACTERS]
    return not TIME_WORDS.isdisjoint(plain_words(text)) or _SOME_YEAR.search(text) is not None


def event_in(text: str, *, said: date) -> Span | None:
    """Return the shortest period that *text* tells of; ``None``: it tells of none."""
    return min(periods_in(text, said=said), key=lambda span: span.last - span.first, default=None)


def _relative_in(text: str, said: date) -> Iterator[Span]:
    for found in _PERIOD.finditer(text):
        try:
            span = _resolved({name: lower_case(part) for name, part in found.groupdict().items() if part}, said)
        except (ValueError, OverflowError):  # before the first year, or after the last one
            continue
        if span is not None:
            yield span


def _resolved(parts: dict[str, str], said: date) -> Span | None:
    if day := parts.get("day"):
        return _day(said + timedelta(days=_DAYS[day]))
    if "ordinal" in parts:
        return _part_of_month(parts, said)
    for count, units, sign in (("count", "units", -1), ("count_before", "units_before", -1), ("count_after", "units_after", 1)):  # fmt: skip
        if count in parts:
            number = int(parts[count]) if parts[count].isdigit() else _COUNT_WORDS[parts[count]]
            return _counted_from(sign * number, _UNITS[parts[units]], said)
    if which := parts.get("which", parts.get("which_after")):
        steps = 0 if _THIS.match(which) else 1 if _NEXT.match(which) else -1
        return _stepped(steps, parts.get("unit", parts.get("unit_before", "")), said)
    if season := parts.get("season"):
        year = parts.get("season_year")
        return _season(_UNITS[season], int(year)) if year else _nearest_season(_UNITS[season], said)
    return _year(int(parts["year"]))


def _day(day: date) -> Span:
    return spread(day, day)


def _week(day: date) -> Span:
    monday = day - timedelta(days=day.weekday())
    return spread(monday, monday + timedelta(days=6))


def _month(year: int, month: int) -> Span:
    year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
    following = date(year + month // 12, month % 12 + 1, 1)
    return spread(date(year, month, 1), following - timedelta(days=1))


def _season(name: str, year: int) -> Span:
    """Return three months; a winter begins in December of *year*."""
    month = _SEASONS[name]
    last_year, last_month = (year + 1, 2) if month == 12 else (year, month + 2)  # noqa: PLR2004
    following = date(last_year, last_month + 1, 1)
    return spread(date(year, month, 1), following - timedelta(days=1))


def _counted_from(count: int, unit: str, said: date) -> Span | None:
    """Return what lies so many units away; weeks and months are counted roughly."""
    if unit == "day":
        return _day(said + timedelta(days=count))
    if unit == "week":
        middle = said + timedelta(weeks=count)
        return spread(middle - timedelta(days=3), middle + timedelta(days=3))
    return _month(said.year, said.month + count) if unit == "month" else _year(said.year + count)


def _year(year: int) -> Span:
    return spread(date(year, 1, 1), date(year, 12, 31))


def _stepped(steps: int, unit: str, said: date) -> Span | None:
    """Return the last (-1), this (0) or next (1) week, month, weekday and so on."""
    if unit in _WEEKDAY_NAMES:
        ahead = (_WEEKDAY_NAMES[unit] - said.weekday()) % 7
        return _day(said + timedelta(days=ahead if steps == 0 else ahead or 7 if steps > 0 else ahead - 7))
    if unit in MONTHS:
        year = said.year if steps == 0 else said.year + (MONTHS[unit] <= said.month if steps > 0 else -(MONTHS[unit] >= said.month))  # fmt: skip
        return _month(year, MONTHS[unit])
    kind = _UNITS[unit]
    if kind in _SEASONS:
        return _nearest_season(kind, said, steps)
    saturday = said - timedelta(days=said.weekday() - 5) + timedelta(weeks=steps)
    resolved = {
        "week": lambda: _week(said + timedelta(weeks=steps)),
        "weekend": lambda: spread(saturday, saturday + timedelta(days=1)),
        "month": lambda: _month(said.year, said.month + steps),
        "year": lambda: _year(said.year + steps),
    }.get(kind)
    return resolved() if resolved else None


def _nearest_season(name: str, said: date, steps: int = -1) -> Span:
    """Return the latest one that has begun, or the next one."""
    today = _day(said).first
    years = [_season(name, year) for year in range(said.year - 2, said.year + 2)]
    begun = [span for span in years if span.first <= today]
    if steps > 0:
        return next(span for span in years if span.first > today)
    # "Last summer", said in summer, is the one of last year.
    return begun[-2] if steps < 0 and begun[-1].last >= today and len(begun) > 1 else begun[-1]


def _part_of_month(parts: dict[str, str], said: date) -> Span | None:
    """Return ``the first weekend of March``."""
    month = MONTHS[parts["month"]]
    year = int(parts["month_year"]) if "month_year" in parts else _year_of(month, said)
    weekday = _WEEKDAY_NAMES.get(parts["part"], 5 if parts["part"] == "weekend" else 0)
    first = date(year, month, 1)
    days = [first + timedelta(days=number) for number in range(31)]
    fitting = [day for day in days if day.month == month and day.weekday() == weekday]
    number = _ORDINALS[parts["ordinal"]]
    day = fitting[-1] if number > len(fitting) or number == 5 else fitting[number - 1]  # noqa: PLR2004
    length = {"weekend": 1, "week": 6}.get(parts["part"], 0)
    return spread(day, day + timedelta(days=length))


def _year_of(month: int, said: date) -> int:
    """Return the year in which *month* is nearest to the day."""
    return min(
        (said.year - 1, said.year, said.year + 1), key=lambda year: abs((year - said.year) * 12 + month - said.month)
    )


def _nearest(found: Span | Yearly, said: date) -> Span:
    """Return a day or a month without a year in the year in which it is nearest."""
    if isinstance(found, Span):
        return found
    today = _day(said).first
    spans = found.spans(range(said.year - 1, said.year + 2))
    return min(spans, key=lambda span: abs(span.first - today), default=_day(said))
