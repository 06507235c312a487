"""Line charts as SVG: small, without a library, the same bytes for the same figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias
from xml.sax.saxutils import escape

Scale: TypeAlias = Callable[[float], float]

WIDTH: Final = 720
HEIGHT: Final = 420
_LEFT: Final = 64
_RIGHT: Final = 36
_TOP: Final = 44
_BOTTOM: Final = 56
_LEGEND_ROW: Final = 18
_TICKS: Final = 5
_COLOURS: Final = ("#1b6ca8", "#c8553d", "#588157", "#8e5ea2", "#b08900", "#3d7d7d", "#9a4c68", "#4a4a4a")
"""Told apart by people who see no red or green, too, with the marks below."""
_DASHES: Final = ("", "6 3", "2 3", "8 3 2 3")


@dataclass(frozen=True, slots=True)
class Series:
    """One line.

    Attributes:
        name: In the legend.
        points: Of x and y, in the order of x; a single one is drawn as a mark.
        notes: One short text at each point, or none at all.
    """

    name: str
    points: Sequence[tuple[float, float]]
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Chart:
    """What is drawn.

    Attributes:
        title: Above it.
        x: What the horizontal axis says.
        y: What the vertical axis says.
        series: The lines, at least one with a point.
        x_log: Whether equal steps to the right are equal ratios; every x is above 0 then.
        y_log: The same upwards.
        percent: Whether y is a share, shown as a percentage.
    """

    title: str
    x: str
    y: str
    series: Sequence[Series]
    x_log: bool = False
    y_log: bool = False
    percent: bool = False


def svg(chart: Chart) -> str:
    """Return *chart* as an SVG document that needs no font, script or style from elsewhere.

    Lines that are the same are drawn once, with all their names.
    """
    xs = [x for one in chart.series for x, _ in one.points]
    ys = [y for one in chart.series for _, y in one.points]
    series = _told_apart(chart.series)
    legend = _LEGEND_ROW * len(series)
    across, x_ticks = _axis(xs, _LEFT, WIDTH - _RIGHT, log=chart.x_log)
    up, y_ticks = _axis([*ys] if chart.y_log else [0.0, *ys], HEIGHT - _BOTTOM, _TOP, log=chart.y_log)
    height = HEIGHT + legend
    middle = (_TOP + HEIGHT - _BOTTOM) / 2
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    words = 'font-family="sans-serif" font-size="12" fill="#222"'
    parts = (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" {words}>',
        f"<title>{escape(chart.title)}</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
        _text(_LEFT, 24, chart.title, size=15),
        *(_x_tick(across(tick), _number(tick)) for tick in x_ticks),
        *(_y_tick(up(tick), f"{tick:.0%}" if chart.percent else _number(tick)) for tick in y_ticks),
        _text((_LEFT + WIDTH - _RIGHT) / 2, HEIGHT - 16, chart.x, anchor="middle"),
        f'<text x="16" y="{middle}" text-anchor="middle" transform="rotate(-90 16 {middle})">{escape(chart.y)}</text>',
    )
    lines = [
        part for place, one in enumerate(series) for part in (*_line(one, place, across, up), *_legend(one, place))
    ]
    return "\n".join([*parts, *lines, "</svg>", ""])


def _told_apart(series: Sequence[Series]) -> list[Series]:
    """Return *series* with those of the same points as one: a reader does not see a line below another."""
    found: dict[tuple[tuple[float, float], ...], Series] = {}
    for one in series:
        same = found.setdefault(tuple(one.points), one)
        if same is not one:
            found[tuple(one.points)] = replace(same, name=f"{same.name}, {one.name}")
    return list(found.values())


def _axis(values: Sequence[float], low_end: float, high_end: float, *, log: bool) -> tuple[Scale, list[float]]:
    """Return where a value stands, and the values that are marked."""
    ticks = _log_ticks(min(values), max(values)) if log else _even_ticks(min(values), max(values))
    shape: Scale = math.log10 if log else float
    low, high = shape(min(ticks[0], *values)), shape(max(ticks[-1], *values))
    return lambda value: low_end + (shape(value) - low) / ((high - low) or 1.0) * (high_end - low_end), ticks


def _even_ticks(low: float, high: float) -> list[float]:
    """Return about five round values from below *low* to above *high*."""
    rough = ((high - low) or abs(high) or 1.0) / _TICKS
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [round(place * step, 12) for place in range(first, last + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    """Return the powers of ten around *low* to *high*."""
    first = math.floor(math.log10(low))
    return [10.0**power for power in range(first, max(math.ceil(math.log10(high)), first + 1) + 1)]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:g}"


def _text(x: float, y: float, words: str, *, size: int = 12, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}">{escape(words)}</text>'


def _x_tick(x: float, words: str) -> str:
    line = f'<path d="M{x:.1f} {_TOP}V{HEIGHT - _BOTTOM}" stroke="#ddd"/>'
    return line + _text(x, HEIGHT - _BOTTOM + 16, words, anchor="middle")


def _y_tick(y: float, words: str) -> str:
    return f'<path d="M{_LEFT} {y:.1f}H{WIDTH - _RIGHT}" stroke="#ddd"/>' + _text(_LEFT - 6, y + 4, words, anchor="end")


def _look(place: int) -> tuple[str, str]:
    """Return the colour and the dashes of a line."""
    return _COLOURS[place % len(_COLOURS)], _DASHES[place // 2 % len(_DASHES)]


def _line(one: Series, place: int, across: Scale, up: Scale) -> list[str]:
    colour, dashes = _look(place)
    at = [(across(x), up(y)) for x, y in one.points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in at)
    marks = [_mark(x, y, place) for x, y in at]
    beside = 17 if place % 2 else -8
    notes = [_text(x, y + beside, note, size=10, anchor="middle") for (x, y), note in zip(at, one.notes, strict=False)]
    drawn = f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dashes}"/>'
    return [drawn, *marks, *notes] if len(at) > 1 else [*marks, *notes]


def _mark(x: float, y: float, place: int) -> str:
    colour, _ = _look(place)
    if place % 2:
        return f'<rect x="{x - 3.5:.1f}" y="{y - 3.5:.1f}" width="7" height="7" fill="{colour}"/>'
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>'


def _legend(one: Series, place: int) -> list[str]:
    y = HEIGHT + _LEGEND_ROW * place + 4
    colour, dashes = _look(place)
    line = f'<path d="M{_LEFT} {y - 4}h24" stroke="{colour}" stroke-width="2" stroke-dasharray="{dashes}"/>'
    return [line, _mark(_LEFT + 12, y - 4, place), _text(_LEFT + 32, y, one.name)]
