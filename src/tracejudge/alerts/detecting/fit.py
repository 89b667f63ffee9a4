"""Fits a baseline to sums over its hours: the rate, its standard error, and the boundary of every hour of the day.

With w = 1 / inclusion probability and x = 1 for passed, over the hours learned so far, and for each hour of the day k:

    m      = sum(w x) / sum(w)                          the rate
    v      = sum(w^2 (x - m)^2) / sum(w^2)              linearised variance a unit of w^2
    phi    = chi^2 / df                                 overdispersion: Pearson's statistic of the hourly counts around
                                                        the seasonal fit, sum_h (S_h - W_h mu_k)^2 / (v Q_h), where
                                                        W, S, Q are the hour's sums of w, w x, w^2
    season = s (m_k - mean m_k)                         shrunk: s = 1 - e / var(m_k), e the noise expected in m_k
    se     = sqrt(phi v sum(w^2)) / sum(w)
    s / v  = (phi - 1) / mean(W_h^2 / Q_h)              variance of the hours' own rates (`hour_effect.py`)
    b_k    = m + season_k - se / 2 - drop               the boundary of hour k; component j is armed once the mean
                                                        distance of its rate from it is at least 3 se

phi is used only where it is clearly above 1, by two of its standard errors sqrt(2 / df) phi. Then se takes it two of
them too high, and s one: what an hour tells of itself is measured anew in every hour. Chi^2 is kept as three sums for
each hour of the day, so that it can be had around any fit afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from tracejudge.alerts.detecting.bets import PRIOR, mean_drops

ARM_AT: Final = 3.0
"""Standard errors of the baseline below which a drop cannot be told from a baseline that was taken too high."""

MARGIN: Final = 0.5  # standard errors
SEASON_AFTER_H: Final = 72.0
"""Hours learned before season and overdispersion are believed."""

DAY: Final = 24
_LOWEST, _HIGHEST = 1e-3, 1 - 1e-3


class Sums(NamedTuple):
    """Sums over rows: w, w x, w^2, w^2 x."""

    w: float = 0.0
    wx: float = 0.0
    w2: float = 0.0
    w2x: float = 0.0


class Fit(NamedTuple):
    """`boundaries`: of each hour of the day, or one where no season is known. `prior`: of the armed components; empty
    while none is."""

    m: float = 0.5
    se: float = math.inf
    phi: float = 1.0
    spread: float = 0.0
    boundaries: Sequence[float] = ()
    prior: tuple[float, ...] = ()


def fit(sums: Sums, day: Sequence[Sequence[float]], *, hours: float, drop: float) -> Fit:
    """Fits a baseline to the sums over all of `hours`, and to those of each hour of the day: w, w x, w^2, and for chi^2
    S^2/Q, S W/Q, W^2/Q. `drop` lowers the boundaries."""
    if sums.w <= 0.0:
        return Fit()
    unit = sums.w2 / sums.w  # the weight of a typical row: half a pass and half a failure more keep m off 0 and 1
    m = (sums.wx + 0.5 * unit) / (sums.w + unit)
    # x is 0 or 1, hence sum(w^2 (x - m)^2) = (1 - 2 m) sum(w^2 x) + m^2 sum(w^2), for any m.
    squares = (1.0 - 2.0 * m) * sums.w2x + m * m * sums.w2
    variance = max(squares, 0.5 * unit * unit * m * (1.0 - m)) / sums.w2
    raw = [row[1] / row[0] if row[0] > 0.0 else None for row in day]
    known = [rate for rate in raw if rate is not None]
    believed = hours >= SEASON_AFTER_H
    noise = max(1.0, dispersion(raw, day, variance=variance, freedom=hours - len(known))) if believed else 1.0
    season, shrink = _season(raw, day, variance * noise) if believed else ([0.0] * DAY, 0.0)
    phi, spread = 1.0, 0.0
    if believed:
        freedom = hours - 1.0 - (len(known) - 1) * shrink
        seasonal = [m + one for one in season]
        found = dispersion(seasonal, day, variance=variance, freedom=freedom)
        bound = 1.0 + 2.0 * math.sqrt(2.0 / freedom)
        if found > bound:
            phi = found * bound
            above = found * (1.0 + math.sqrt(2.0 / freedom)) - 1.0
            spread = above * hours / sum(row[5] for row in day)
    se = math.sqrt(phi * variance * sums.w2) / sums.w
    boundaries = [_clipped(m + one - MARGIN * se - drop) for one in (season if shrink else season[:1])]
    drops = mean_drops(boundaries)
    prior = tuple(p if one >= ARM_AT * se else 0.0 for p, one in zip(PRIOR, drops, strict=True))
    return Fit(m, se, phi, spread, boundaries, prior if any(prior) else ())


def dispersion(
    rates: Sequence[float | None], day: Sequence[Sequence[float]], *, variance: float, freedom: float
) -> float:
    """phi around these rates of the hours of the day; 1 where nothing is left to tell it."""
    if freedom <= 0.0:
        return 1.0
    chi = 0.0
    for rate, (_, _, _, squares, products, weights) in zip(rates, day, strict=True):
        if rate is not None:
            chi += squares - 2.0 * rate * products + rate * rate * weights
    return max(0.0, chi) / variance / freedom


def _season(raw: Sequence[float | None], day: Sequence[Sequence[float]], variance: float) -> tuple[list[float], float]:
    """The offset of each hour of the day, and by how much it was shrunk (0: there is none to be seen)."""
    known = [(rate, row) for rate, row in zip(raw, day, strict=True) if rate is not None]
    flat = [0.0] * DAY
    if len(known) < DAY // 2:
        return flat, 0.0
    mean = sum(rate for rate, _ in known) / len(known)
    spread = sum((rate - mean) ** 2 for rate, _ in known) / (len(known) - 1)
    noise = variance * sum(row[2] / row[0] ** 2 for _, row in known) / len(known)
    shrink = max(0.0, 1.0 - noise / spread) if spread > 0.0 else 0.0
    return [0.0 if rate is None else shrink * (rate - mean) for rate in raw], shrink


def _clipped(boundary: float) -> float:
    return min(max(boundary, _LOWEST), _HIGHEST)
