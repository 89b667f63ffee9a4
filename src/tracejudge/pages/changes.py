"""Plots of a change as SVG: two shares a row, before and since, and parts of the change to both sides of zero."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tracejudge.pages.svg import WIDTH, clean, drawing, polyline

_NAMES: Final = 210
_NUMBERS: Final = 120
_ROW: Final = 26


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareBeside:
    """A row: a share with its interval before and since, None where there is none."""

    name: str
    before: tuple[float, float, float] | None  # share, low, high
    since: tuple[float, float, float] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartOfChange:
    """A row: parts of a change, in shares (-0.05 is five points down), and what they are of."""

    name: str
    value: float


def shares_beside(rows: Sequence[ShareBeside], *, label: str) -> str:
    """Every row's share before (grey) and since (coloured) on one scale."""
    held = [one for row in rows for one in (row.before, row.since) if one is not None]
    if not held:
        return '<p class="none">No data.</p>'
    bottom = max(0.0, int(min(low for _, low, _ in held) * 20) / 20)
    width = WIDTH - _NAMES - _NUMBERS

    def x(value: float) -> float:
        return _NAMES + (value - bottom) / max(1.0 - bottom, 1e-9) * width

    height = 26 + _ROW * len(rows)
    parts = [
        f'<line class="grid" x1="{x(value):.1f}" y1="2" x2="{x(value):.1f}" y2="{height - 20}"/>'
        f'<text x="{x(value):.1f}" y="{height - 6}" text-anchor="middle">{100 * value:.3g} %</text>'
        for value in _ticks(bottom)
    ]
    for number, row in enumerate(rows):
        middle = 14 + number * _ROW
        parts.append(f'<text x="{_NAMES - 10}" y="{middle + 4}" text-anchor="end">{clean(row.name, limit=32)}</text>')
        for held_one, at, line, dot in (
            (row.before, middle - 4, "old", "olddot"),
            (row.since, middle + 4, "line", "dot"),
        ):
            if held_one is not None:
                share, low, high = held_one
                parts.append(polyline([(x(low), at), (x(high), at)], line))
                parts.append(f'<circle class="{dot}" cx="{x(share):.1f}" cy="{at}" r="3"/>')
        told = f"{_percent(row.before)} → {_percent(row.since)}"
        parts.append(f'<text x="{_NAMES + width + 10}" y="{middle + 4}">{told}</text>')
    return drawing(parts, label=label, height=height)


def parts_of_change(rows: Sequence[PartOfChange], *, label: str) -> str:
    """One bar a row from zero: to the left what made it worse, to the right what made it better."""
    if not rows:
        return '<p class="none">No data.</p>'
    reach = max(max(abs(row.value) for row in rows), 1e-9)
    width = WIDTH - _NAMES - _NUMBERS
    zero = _NAMES + width * (
        max(0.0, -min(row.value for row in rows)) / (max(0.0, -min(row.value for row in rows)) + _most(rows, reach))
    )
    scale = width / (max(0.0, -min(row.value for row in rows)) + _most(rows, reach))
    height = 8 + _ROW * len(rows)
    parts = [f'<line class="axis" x1="{zero:.1f}" y1="0" x2="{zero:.1f}" y2="{height}"/>']
    for number, row in enumerate(rows):
        top = 5 + number * _ROW
        length = abs(row.value) * scale
        left = zero - length if row.value < 0 else zero
        kind = "loss" if row.value < 0 else "bar"
        parts.append(
            f'<text x="{_NAMES - 10}" y="{top + 12}" text-anchor="end">{clean(row.name, limit=32)}</text>'
            f'<rect class="{kind}" x="{left:.1f}" y="{top}" width="{length:.1f}" height="{_ROW - 10}"/>'
            f'<text x="{_NAMES + width + 10}" y="{top + 12}">{100 * row.value:+.1f} points</text>'
        )
    return drawing(parts, label=label, height=height)


def _ticks(bottom: float) -> list[float]:
    """Three to seven round shares from `bottom`, or the next one above it, to 1."""
    step = next((step for step in (0.01, 0.02, 0.05, 0.1) if (1.0 - bottom) / step <= 6), 0.2)
    return [1.0 - step * k for k in range(int((1.0 - bottom) / step + 1e-9), -1, -1)]


def _most(rows: Sequence[PartOfChange], reach: float) -> float:
    return max(0.0, max(row.value for row in rows), 0.02 * reach)


def _percent(one: tuple[float, float, float] | None) -> str:
    return "none" if one is None else f"{100 * one[0]:.1f} %"
