"""Delays of the alert rules against `alerts_limit.py`, the exact optimum, over a grid of rates and falls."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Final

import numpy as np

from tests.bench.alerts_limit import limit
from tests.bench.alerts_peers import adwin
from tests.bench.alerts_runs import Fresh, Mean, calibrated, false_alarms, known, mean, taught
from tests.bench.alerts_steps import RATES, promised, seeded, steps, under
from tests.bench.alerts_streams import MIDNIGHT, MONTH_H, steady
from tests.bench.frame import Figure, Run

DROPS: Final = (0.03, 0.05, 0.10)
_REFERENCE: Final = 1000
"""Rows a learned baseline begins with."""


def known_baseline(run: Run) -> Iterator[Figure]:
    """The grid with the rate before the fall known."""
    yield from _grid(run, None, worst=1.30, geometric=1.20, false=1.0, missed=0.0)


def learned_baseline(run: Run) -> Iterator[Figure]:
    """The grid with a baseline learned from 1000 rows and the stream itself."""
    yield from _grid(run, _REFERENCE, worst=1.8, geometric=1.4, false=1.3, missed=0.01)


def equal_false_alarms(run: Run) -> Iterator[Figure]:
    """Both sides at one measured false alarm in 30 days: the optimum, the shipped rule, and ADWIN, retuned.

    The error beside a cell is that of its paths and of the level found together. A cell within two errors of its paths
    from the goal is measured with four times as many.
    """
    yield from _equal_at(run, 60, streams=run.pick(300, 20), quiet_h=75.0, times=1)
    # A day of quiet is long enough for the evidence to settle at this volume, and leaves time for more falls.
    yield from _equal_at(run, 1000, streams=run.pick(60, 3), quiet_h=24.0, times=2)
    yield from _against_adwin(run)


def _equal_at(run: Run, per_hour: int, *, streams: int, quiet_h: float, times: int) -> Iterator[Figure]:
    worst = 1.20
    ratios: list[float] = []
    tails: list[float] = []
    cells: list[str] = []
    squares = 0.0  # of the error of the mean logarithm
    for rate in RATES:
        silent = [
            steady(seeded(7, per_hour, rate, k), per_hour=per_hour, rate=rate, rows=MONTH_H * per_hour)
            for k in range(streams)
        ]
        scale = calibrated(
            lambda scale, r=rate: known(r, per_hour=per_hour, scale=scale),  # type: ignore[misc]
            silent,
            first=0.75,
        )
        fresh = known(rate, per_hour=per_hour, scale=scale)
        levels = 0.0
        for drop in DROPS:
            optimum = limit(rate, rate - drop, MONTH_H * per_hour)
            found = steps(run, per_hour, rate, drop, fresh, quiet_h=quiet_h, times=times)
            error = found.mean.error / optimum.steady
            if abs(found.mean.value / optimum.steady - worst) < 2.0 * error and not run.quick:
                found = steps(run, per_hour, rate, drop, fresh, quiet_h=quiet_h, times=4 * times)
                error = found.mean.error / optimum.steady
            ratio, tail = found.mean.value / optimum.steady, found.p95 / optimum.p95
            # Alarms are as rare as the level is high, and a row of the fall adds KL to its logarithm.
            level = 1.0 / (math.sqrt(streams) * _information(rate, rate - drop) * optimum.steady)
            squares += (error / ratio) ** 2
            levels += level / ratio
            ratios.append(ratio)
            tails.append(tail)
            cells.append(f"{rate:.2f}-{drop:.2f} {ratio:.2f}+-{math.hypot(error, level):.2f}/{tail:.2f}")
        squares += levels**2
    at = f"at {per_hour}/h, equal false alarms:"
    yield under(f"{at} delay / optimum, worst cell", max(ratios), worst, note="  ".join(cells))
    mean_ratio, error = _geometric(ratios), math.sqrt(squares) / len(ratios)
    yield under(
        f"{at} delay / optimum, geometric mean", mean_ratio, 1.10, note=f"{mean_ratio:.3f} +- {mean_ratio * error:.3f}"
    )
    yield under(f"{at} p95 / optimum's p95, worst cell", max(tails), 1.20)


def _grid(
    run: Run, reference: int | None, *, worst: float, geometric: float, false: float, missed: float
) -> Iterator[Figure]:
    what = "known" if reference is None else f"from {reference}"
    for per_hour in (60, 1000):
        months = run.pick(200, 30) if per_hour < 200 else run.pick(24, 3)
        rates: list[Mean] = []
        ratios: list[float] = []
        gone: list[float] = []
        cells: list[str] = []
        for rate in RATES:
            make = partial(_fresh, per_hour=per_hour, rate=rate, reference=reference)
            streams = (
                (
                    make(seeded(11, per_hour, rate, k)),
                    steady(seeded(1, per_hour, rate, k), per_hour=per_hour, rate=rate, rows=MONTH_H * per_hour),
                )
                for k in range(months)
            )
            rates.append(false_alarms(streams))
            for drop in DROPS:
                found = steps(run, per_hour, rate, drop, make)
                ratios.append(found.mean.value / limit(rate, rate - drop, MONTH_H * per_hour).steady)
                gone.append(found.missed)
                cells.append(f"{rate:.2f}-{drop:.2f} {ratios[-1]:.2f}")
        at = f"at {per_hour}/h, baseline {what}:"
        highest = max(rates, key=lambda rate: rate.value)
        yield promised(f"{at} false alarms in 30 d, worst rate", highest, false, months)
        yield under(f"{at} delay / optimum, worst cell", max(ratios), worst, note="  ".join(cells))
        yield under(f"{at} delay / optimum, geometric mean", _geometric(ratios), geometric)
        yield under(f"{at} missed in 7 days, worst cell", max(gone), missed)


def _fresh(rng: np.random.Generator, *, per_hour: int, rate: float, reference: int | None) -> Fresh:
    if reference is None:
        return known(rate, per_hour=per_hour)
    begin_s = MIDNIGHT - reference * 3600.0 / per_hour
    return taught(steady(rng, per_hour=per_hour, rate=rate, rows=reference, begin_s=begin_s), per_hour=per_hour)


def _against_adwin(run: Run) -> Iterator[Figure]:
    """At 60 an hour from .95: river's ADWIN, its one parameter retuned to one false alarm in 30 days."""
    rate, per_hour = 0.95, 60
    streams = [
        steady(seeded(7, per_hour, rate, k), per_hour=per_hour, rate=rate, rows=MONTH_H * per_hour)
        for k in range(run.pick(30, 8))
    ]
    scale = calibrated(lambda scale: adwin(scale), streams)
    ours = calibrated(lambda scale: known(rate, per_hour=per_hour, scale=scale), streams)
    for drop in DROPS:
        theirs = steps(run, per_hour, rate, drop, adwin(scale))
        mine = steps(run, per_hour, rate, drop, known(rate, per_hour=per_hour, scale=ours))
        name = f"at 60/h, .95-{drop:.2f}: p95 of the delay / ADWIN's, equal false alarms"
        yield under(name, mine.p95 / theirs.p95, 1.0, note=f"mean / ADWIN's {mine.mean.value / theirs.mean.value:.2f}")


def _information(p0: float, p1: float) -> float:
    """What a row at p1 tells against p0, in nats: their Kullback-Leibler divergence."""
    return p1 * math.log(p1 / p0) + (1.0 - p1) * math.log((1.0 - p1) / (1.0 - p0))


def _geometric(ratios: list[float]) -> float:
    return math.exp(mean(math.log(ratio) for ratio in ratios).value)
