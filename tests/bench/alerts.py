"""Figures of the alert rules, with the production code: `Series.fold` of a drift rule behind `alerts_learned.py`.

    python -m tests.bench.alerts [--quick] [--only known,learned,...] [--json]

Delays are counted in judged rows after a fall and held against `alerts_limit.py`, the exact optimum for a fall known in
advance. Promised is everywhere one false alarm in 30 days; a measured number of them may exceed its goal by two
standard errors of a Poisson count. `fast` proves that the fast path over arrays, which the other cases use, says the
same as the production update.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

import numpy as np

from tests.bench.alerts_learned import Learned
from tests.bench.alerts_limit import limit
from tests.bench.alerts_peers import adwin
from tests.bench.alerts_runs import (
    Delays,
    Fresh,
    Mean,
    calibrated,
    delays,
    false_alarms,
    first_alarm,
    known,
    mean,
    taught,
)
from tests.bench.alerts_streams import (
    MIDNIGHT,
    MONTH_H,
    Stream,
    by_partition,
    fall,
    lively,
    outage,
    steady,
    weighted,
)
from tests.bench.alerts_tick import tick
from tests.bench.frame import Case, Figure, Run, exactly, main

RATES: Final = (0.90, 0.95, 0.98)
DROPS: Final = (0.03, 0.05, 0.10)
_SEED: Final = 20260517
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
            steady(_rng(7, per_hour, rate, k), per_hour=per_hour, rate=rate, rows=MONTH_H * per_hour)
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
            found = _steps(run, per_hour, rate, drop, fresh, quiet_h=quiet_h, times=times)
            error = found.mean.error / optimum.steady
            if abs(found.mean.value / optimum.steady - worst) < 2.0 * error and not run.quick:
                found = _steps(run, per_hour, rate, drop, fresh, quiet_h=quiet_h, times=4 * times)
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
    yield _under(f"{at} delay / optimum, worst cell", max(ratios), worst, note="  ".join(cells))
    mean_ratio, error = _geometric(ratios), math.sqrt(squares) / len(ratios)
    yield _under(
        f"{at} delay / optimum, geometric mean", mean_ratio, 1.10, note=f"{mean_ratio:.3f} +- {mean_ratio * error:.3f}"
    )
    yield _under(f"{at} p95 / optimum's p95, worst cell", max(tails), 1.20)


def production_noise(run: Run) -> Iterator[Figure]:
    """Daily wave .02, hourly sd .01, informative weights with a change of policy, rows out of order; all learned."""
    for per_hour in (60, 1000):
        months = run.pick(100, 10) if per_hour < 200 else run.pick(30, 3)
        watched: list[tuple[Fresh, Stream]] = []
        for k in range(months):
            reference, watch = lively(_rng(3, per_hour, k), per_hour=per_hour, hours=MONTH_H, policy_h=MONTH_H / 2)
            watched.append((taught(reference, per_hour=per_hour), watch))
        yield _false(f"at {per_hour}/h, production noise: false alarms in 30 d", false_alarms(watched), 1.3, months)
        found = delays(_lively_falls(per_hour, run.pick(100, 10) if per_hour < 200 else run.pick(30, 4)))
        yield _shown(f"at {per_hour}/h, production noise: rows to see a fall of .05", found.mean.value, found)
    months = run.pick(100, 10)
    streams = [(known(0.95, per_hour=60), weighted(_rng(4, k), per_hour=60, rate=0.95)) for k in range(months)]
    yield _false(
        "at 60/h, informative weights, known baseline: false alarms in 30 d", false_alarms(streams), 1.0, months
    )


def breakdown(run: Run) -> Iterator[Figure]:
    """Falls that everybody would see."""
    for drop, goal in ((0.45, 25.0), (0.95, 10.0)):
        for per_hour in (60, 1000):
            found = _steps(
                run, per_hour, 0.95, drop, known(0.95, per_hour=per_hour), hours=600 / per_hour, quiet_h=24.0
            )
            name = f"at {per_hour}/h, .95 to {0.95 - drop:.2f}: rows to the alarm"
            yield _under(name, found.mean.value, goal, note=f"+- {found.mean.error:.2g}")


def smallest_that_matters(run: Run) -> Iterator[Figure]:
    """`min_drop = .03`: a fall of .01 that stays must not fire more often than is promised."""
    months = run.pick(16, 3)
    fresh = known(0.95, per_hour=1000, min_drop=0.03)
    streams = [steady(_rng(6, k), per_hour=1000, rate=0.94, rows=MONTH_H * 1000) for k in range(months)]
    yield _false(
        "at 1000/h, min_drop .03, a fall of .01: alarms in 30 d", false_alarms((fresh, s) for s in streams), 1.0, months
    )
    for drop in (0.03, 0.05):
        found = _steps(run, 1000, 0.95, drop, fresh)
        yield _shown(f"at 1000/h, min_drop .03: rows to see a fall of {drop:.2f}", found.mean.value, found)


def catching_up(run: Run) -> Iterator[Figure]:
    """After six hours of outage: of the alert loop, and of a consumer that is given 256 kB of a partition at a time."""
    other, checked, fell, live, late = 0, run.pick(20, 4), 0, [], []
    runs = run.pick(150, 12)
    fresh = known(0.95, per_hour=1000)
    for k in range(runs):
        rng = _rng(5, k)
        stream, begin_s = outage(rng, per_hour=1000)
        seen = first_alarm(fresh(None), stream)
        if k < checked:
            # A loop that was down reads the same rows in the same order, in one tick: of time it knows only the order.
            other += seen != _updates(Learned(0.95, MONTH_H * 1000.0, 1000.0, 10_000_000), stream)
        caught_up = by_partition(
            rng, stream, partitions=4, poll=64, from_s=MIDNIGHT + 12 * 3600.0, until_s=MIDNIGHT + 18 * 3600.0
        )
        seen_late = first_alarm(fresh(None), caught_up)
        fell += (seen is None) != (seen_late is None)
        if seen is not None and seen_late is not None and stream.at_s[seen] >= begin_s:
            live.append(float((stream.at_s[: seen + 1] >= begin_s).sum()))
            late.append(float((caught_up.at_s[: seen_late + 1] >= begin_s).sum()))
    yield exactly(f"alert loop 6 h late: alarms on another row, of {checked}", other, 0)
    yield exactly(f"consumer 6 h late: alarms more or fewer, of {runs}", fell, 0)
    ratio = mean(late).value / mean(live).value
    spread = mean(a - b for a, b in zip(late, live, strict=True)).error / mean(live).value
    note = f"+- {spread:.2g}, {len(live)} falls of .10; 64 traces of 4 kB of each of 4 partitions in turn"
    yield _under("consumer 6 h late: rows of the fall to the alarm / live", ratio, 1.1, note=note)


def fast_path(run: Run) -> Figure:
    """`Learned.run` against `Learned.update`, which is `Series.fold`, on random streams."""
    differing, alarms, noisy, trials = 0, 0, 0, run.pick(40, 12)
    for k in range(trials):
        rng = _rng(8, k)
        per_hour, rate, rows = int(rng.choice([7, 60, 1000])), float(rng.choice(RATES)), int(rng.integers(1, 9000))
        gaps = rng.exponential(3600.0 / per_hour, rows) + 36_000.0 * (rng.random(rows) < 3.0 / rows)
        at_s = MIDNIGHT + np.cumsum(gaps) + rng.exponential(20.0, rows)
        rates = np.where(np.arange(rows) < 0.6 * rows, rate, rate - 0.3 * rng.random())
        hours = rng.normal(0.0, 0.05 if k % 4 == 3 else 0.0, 2**16)  # of one hour each, over and over
        rates = rates + hours[(at_s // 3600).astype(np.int64) % hours.size]
        weight = rng.choice([0.4, 2.2], rows) if k % 2 else np.ones(rows)
        stream = Stream(rng.random(rows) < rates, weight, at_s)
        alarm_rows = float(rng.choice([500, 5000, MONTH_H * per_hour]))
        earlier = int(rng.integers(50, 20_000))
        begin_s = MIDNIGHT - earlier * 3600.0 / per_hour
        clock = ((begin_s + np.arange(earlier) * 3600.0 / per_hour) // 3600).astype(np.int64)
        reference = steady(rng, per_hour=per_hour, rate=rate + hours[clock % hours.size], rows=earlier, begin_s=begin_s)

        def fresh() -> Learned:
            detector = Learned(rate, alarm_rows, float(per_hour), 2000)  # noqa: B023 - called in this round only
            if k % 4 > 1:  # noqa: B023
                detector.learn(reference.passed, reference.weight, reference.at_s)  # noqa: B023
            return detector

        quick, slow = fresh().run(stream.passed, stream.weight, stream.at_s), _updates(fresh(), stream)
        alarms += slow is not None
        noisy += fresh().knows_hours
        differing += quick != slow
    note = f"{alarms} alarms; {noisy} with a baseline of hours that differ"
    return exactly(f"fast path differs from the production update, of {trials}", differing, 0, note=note)


# ------------------------------------------------------------------------------------------------------------------


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
                    make(_rng(11, per_hour, rate, k)),
                    steady(_rng(1, per_hour, rate, k), per_hour=per_hour, rate=rate, rows=MONTH_H * per_hour),
                )
                for k in range(months)
            )
            rates.append(false_alarms(streams))
            for drop in DROPS:
                found = _steps(run, per_hour, rate, drop, make)
                ratios.append(found.mean.value / limit(rate, rate - drop, MONTH_H * per_hour).steady)
                gone.append(found.missed)
                cells.append(f"{rate:.2f}-{drop:.2f} {ratios[-1]:.2f}")
        at = f"at {per_hour}/h, baseline {what}:"
        highest = max(rates, key=lambda rate: rate.value)
        yield _false(f"{at} false alarms in 30 d, worst rate", highest, false, months)
        yield _under(f"{at} delay / optimum, worst cell", max(ratios), worst, note="  ".join(cells))
        yield _under(f"{at} delay / optimum, geometric mean", _geometric(ratios), geometric)
        yield _under(f"{at} missed in 7 days, worst cell", max(gone), missed)


def _fresh(rng: np.random.Generator, *, per_hour: int, rate: float, reference: int | None) -> Fresh:
    if reference is None:
        return known(rate, per_hour=per_hour)
    begin_s = MIDNIGHT - reference * 3600.0 / per_hour
    return taught(steady(rng, per_hour=per_hour, rate=rate, rows=reference, begin_s=begin_s), per_hour=per_hour)


def _steps(
    run: Run,
    per_hour: int,
    rate: float,
    drop: float,
    fresh: Fresh | Callable[[np.random.Generator], Fresh],
    *,
    hours: float = 168.0,
    quiet_h: float = 75.0,
    times: int = 1,
) -> Delays:
    """`fresh` is one for all paths, or makes one for each."""
    # The error of a mean is about 0.7 of it over the root of their number: 2 % at 60 an hour, since the worst of nine
    # cells is what counts.
    paths = times * (run.pick(1200, 50) if per_hour < 200 else run.pick(200, 20))

    def cases() -> Iterator[tuple[Fresh, Stream, int]]:
        for k in range(paths):
            stream, begin = fall(
                _rng(2, per_hour, rate, drop, k), per_hour=per_hour, rate=rate, drop=drop, hours=hours, quiet_h=quiet_h
            )
            made = fresh(_rng(12, per_hour, rate, drop, k)) if isinstance(fresh, partial) else fresh
            yield made, stream, begin  # type: ignore[misc]

    return delays(cases())


def _lively_falls(per_hour: int, paths: int) -> Iterator[tuple[Fresh, Stream, int]]:
    for k in range(paths):
        rng = _rng(9, per_hour, k)
        begin_h = 120.0 + 24.0 * rng.random()
        reference, watch = lively(
            rng, per_hour=per_hour, hours=begin_h + 168.0, policy_h=60.0, fall_h=begin_h, drop=0.05
        )
        yield taught(reference, per_hour=per_hour), watch, int((watch.at_s < MIDNIGHT + 3600.0 * begin_h).sum())


def _against_adwin(run: Run) -> Iterator[Figure]:
    """At 60 an hour from .95: river's ADWIN, its one parameter retuned to one false alarm in 30 days."""
    rate, per_hour = 0.95, 60
    streams = [
        steady(_rng(7, per_hour, rate, k), per_hour=per_hour, rate=rate, rows=MONTH_H * per_hour)
        for k in range(run.pick(30, 8))
    ]
    scale = calibrated(lambda scale: adwin(scale), streams)
    ours = calibrated(lambda scale: known(rate, per_hour=per_hour, scale=scale), streams)
    for drop in DROPS:
        theirs = _steps(run, per_hour, rate, drop, adwin(scale))
        mine = _steps(run, per_hour, rate, drop, known(rate, per_hour=per_hour, scale=ours))
        name = f"at 60/h, .95-{drop:.2f}: p95 of the delay / ADWIN's, equal false alarms"
        yield _under(name, mine.p95 / theirs.p95, 1.0, note=f"mean / ADWIN's {mine.mean.value / theirs.mean.value:.2f}")


def _updates(detector: Learned, stream: Stream) -> int | None:
    rows = zip(stream.passed.tolist(), stream.weight.tolist(), stream.at_s.tolist(), strict=True)
    return next((k for k, row in enumerate(rows) if detector.update(*row)), None)


def _information(p0: float, p1: float) -> float:
    """What a row at p1 tells against p0, in nats: their Kullback-Leibler divergence."""
    return p1 * math.log(p1 / p0) + (1.0 - p1) * math.log((1.0 - p1) / (1.0 - p0))


def _geometric(ratios: list[float]) -> float:
    return math.exp(mean(math.log(ratio) for ratio in ratios).value)


def _rng(*seed: float) -> np.random.Generator:
    return np.random.default_rng([_SEED, *(round(1000 * part) for part in seed)])


def _under(name: str, value: float, goal: float, *, note: str = "") -> Figure:
    return Figure(name=name, value=value, goal=f"<= {goal:g}", reached=value <= goal, note=note)


def _false(name: str, found: Mean, goal: float, months: int) -> Figure:
    allowed = goal + 2.0 * math.sqrt(goal / months)
    note = f"+- {found.error:.2g} over {months} months; allowed with two errors: {allowed:.2f}"
    return Figure(name=name, value=found.value, goal=f"<= {goal:g}", reached=found.value <= allowed, note=note)


def _shown(name: str, value: float, found: Delays) -> Figure:
    return Figure(name=name, value=value, note=f"+- {found.mean.error:.2g}; missed in 7 days {found.missed:.1%}")


CASES: Final[dict[str, Case]] = {
    "fast": fast_path,
    "known": known_baseline,
    "learned": learned_baseline,
    "noise": production_noise,
    "breakdown": breakdown,
    "small": smallest_that_matters,
    "catchup": catching_up,
    "equal": equal_false_alarms,
    "tick": tick,
}

if __name__ == "__main__":
    sys.exit(main("alerts", CASES))
