"""Plots as SVG text, drawn by ourselves: nothing to load, nothing to run, sharp on paper.

Every number and text that comes in is put through `clean` or formatted as a number: what stands in a trace cannot leave
its place.
"""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from math import ceil
from typing import Final, NamedTuple

WIDTH: Final = 760
"""Of every drawing, in its own units."""

_HEIGHT: Final = 230
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 12, 12, 34
_TICKS: Final = 6
_STEPS: Final = (0.01, 0.02, 0.05, 0.1, 0.2)  # between two lines of a grid of shares
_LONGEST_TIME: Final = 70  # of a date under the axis, in units of the drawing


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A share with its interval at an instant; without data where `value` is None."""

    at: datetime
    value: float | None
    low: float | None = None
    high: float | None = None


def clean(text: str, *, limit: int = 2000) -> str:
    """Text from anywhere, safe inside HTML and SVG: escaped, without control and bidirectional characters, cut."""
    kept = "".join(
        char if char == "\n" or unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Co", "Cn") else "\ufffd"
        for char in text[: limit + 1]
    )
    return html.escape(kept if len(kept) <= limit else kept[: limit - 1] + "…", quote=True)


def share_over_time(points: Sequence[Point], *, label: str, marks: Sequence[tuple[datetime, str]] = ()) -> str:
    """A line of shares over time with the band of their intervals, gaps where there is no data.

    `marks` are instants with a word each, drawn as upright lines where they lie within the points.
    """
    known = [point for point in points if point.value is not None]
    if not known:
        return '<p class="none">No data in this period.</p>'
    floor = min(point.low if point.low is not None else point.value or 0.0 for point in known)
    bottom, step = _scale(floor)
    first, last = points[0].at.timestamp(), points[-1].at.timestamp()
    span = max(last - first, 1.0)

    def x(at: datetime) -> float:
        return _LEFT + (at.timestamp() - first) / span * (WIDTH - _LEFT - _RIGHT)

    def y(value: float) -> float:
        return _TOP + (1.0 - value) / max(1.0 - bottom, 1e-9) * (_HEIGHT - _TOP - _BOTTOM)

    parts = [_grid(bottom, step, y), _times(points, x)]
    parts += [
        _mark(min(x(at), x(points[-1].at)), word, row)
        for row, (at, word) in enumerate(marks)
        if first <= at.timestamp() <= last + span / max(1, len(points) - 1)  # the last point's step has its length too
    ]
    for stretch in _stretches(points):
        if len(stretch) == 1:
            (one,) = stretch
            if one.low is not None and one.high is not None:
                parts.append(polyline([(x(one.at), y(one.low)), (x(one.at), y(one.high))], "whisker"))
        else:
            over = [(x(p.at), y(p.high if p.high is not None else p.value or 0.0)) for p in stretch]
            under = [(x(p.at), y(p.low if p.low is not None else p.value or 0.0)) for p in stretch]
            parts.append(f'<polygon class="band" points="{_points([*over, *reversed(under)])}"/>')
            parts.append(polyline([(x(p.at), y(p.value or 0.0)) for p in stretch], "line"))
        parts += [f'<circle class="dot" cx="{x(p.at):.1f}" cy="{y(p.value or 0.0):.1f}" r="2.4"/>' for p in stretch]
    return drawing(parts, label=label)


class Bar(NamedTuple):
    """A share with its interval. `few`: too few samples for a bar; only the interval is drawn, and it says so."""

    name: str
    value: float
    low: float
    high: float
    few: bool = False


def share_bars(rows: Sequence[Bar], *, label: str) -> str:
    """One bar a row, with the interval as a whisker."""
    if not rows:
        return '<p class="none">No data in this period.</p>'
    name_width, row_height = 220, 22
    width = WIDTH - name_width - 70
    parts = []
    for number, (name, value, low, high, few) in enumerate(rows):
        top = 4 + number * row_height
        middle = top + row_height / 2 - 2
        parts.append(
            f'<text x="{name_width - 8}" y="{middle + 4:.1f}" text-anchor="end">{clean(name, limit=34)}</text>'
        )
        if not few:
            size = f'width="{value * width:.1f}" height="{row_height - 6}"'
            parts.append(f'<rect class="bar" x="{name_width}" y="{top}" {size}/>')
        ends = [(name_width + low * width, middle), (name_width + high * width, middle)]
        parts.append(polyline(ends, "whisker"))
        parts.append(
            f'<text x="{name_width + width + 8}" y="{middle + 4:.1f}">{"few" if few else f"{100 * value:.1f} %"}</text>'
        )
    return drawing(parts, label=label, height=8 + row_height * len(rows))


def _stretches(points: Sequence[Point]) -> list[list[Point]]:
    found: list[list[Point]] = [[]]
    for point in points:
        if point.value is None:
            found.append([])
        else:
            found[-1].append(point)
    return [stretch for stretch in found if stretch]


def _scale(floor: float) -> tuple[float, float]:
    """Where the axis of shares from `floor` to 1 begins, near enough for small changes to be seen, and its step: a
    round one, of which at most five reach up to 1."""
    step = next((one for one in _STEPS if 1.0 - floor <= 5 * one + 1e-9), _STEPS[-1])
    steps = max(1, ceil(round((1.0 - floor) / step, 6)))
    return round(max(0.0, 1.0 - steps * step), 6), step


def _grid(bottom: float, step: float, y: Callable[[float], float]) -> str:
    lines = []
    for number in range(round((1.0 - bottom) / step) + 1):
        value = bottom + number * step
        at = y(value)
        lines.append(
            f'<line class="grid" x1="{_LEFT}" y1="{at:.1f}" x2="{WIDTH - _RIGHT}" y2="{at:.1f}"/>'
            f'<text x="{_LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{100 * value:.3g} %</text>'
        )
    return "".join(lines)


def _times(points: Sequence[Point], x: Callable[[datetime], float]) -> str:
    step = max(1, -(-len(points) // _TICKS))
    # A day is only worth a word of its own where every word is of another day.
    days = points[-1].at.timestamp() - points[0].at.timestamp() >= _TICKS * 86_400
    form = "%Y-%m-%d" if days else "%d %H:%M"
    # Centred under the last point a date would be cut off by the picture's edge.
    edge = WIDTH - _LONGEST_TIME / 2
    return "".join(
        f'<text x="{x(point.at):.1f}" y="{_HEIGHT - 12}" text-anchor="{"end" if x(point.at) > edge else "middle"}">'
        f"{point.at.astimezone(timezone.utc).strftime(form)}</text>"
        for point in points[::step]
    )


def _mark(at: float, word: str, row: int) -> str:
    end = at > WIDTH * 0.75
    return (
        polyline([(at, _TOP), (at, _HEIGHT - _BOTTOM)], "mark")
        + f'<text class="marked" x="{at - 4 if end else at + 4:.1f}" y="{_TOP + 11 + 13 * row}" '
        f'text-anchor="{"end" if end else "start"}">{clean(word, limit=40)}</text>'
    )


def polyline(points: Sequence[tuple[float, float]], kind: str) -> str:
    """A line through points of the drawing."""
    return f'<polyline class="{kind}" points="{_points(points)}"/>'


def _points(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def drawing(parts: Sequence[str], *, label: str, height: int = _HEIGHT) -> str:
    """The parts as one picture with its name."""
    said = clean(label, limit=200)
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{said}"><title>{said}</title>'
        f"{''.join(parts)}</svg>"
    )
