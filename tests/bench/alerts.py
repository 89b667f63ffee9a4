"""Figures of the alert rules, with the production code: `Series.fold` of a drift rule behind `alerts_learned.py`.

    python -m tests.bench.alerts [--quick] [--only known,learned,...] [--json]

Delays are counted in judged rows after a fall and held against `alerts_limit.py`, the exact optimum for a fall known in
advance. Promised is everywhere one false alarm in 30 days; a measured number of them may exceed its goal by two
standard errors of a Poisson count. `fast` proves that the fast path over arrays, which the other cases use, says the
same as the production update.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final

import numpy as np

from tests.bench.alerts_against_optimum import equal_false_alarms, known_baseline, learned_baseline
from tests.bench.alerts_learned import Learned
from tests.bench.alerts_runs import Fresh, delays, false_alarms, first_alarm, known, mean, taught
from tests.bench.alerts_steps import RATES, promised, seeded, shown, steps, under
from tests.bench.alerts_streams import MIDNIGHT, MONTH_H, Stream, by_partition, lively, outage, steady, weighted
from tests.bench.alerts_tick import tick
from tests.bench.frame import Case, Figure, Run, exactly, main


def production_noise(run: Run) -> Iterator[Figure]:
    """Daily wave .02, hourly sd .01, informative weights with a change of policy, rows out of order; all learned."""
    for per_hour in (60, 1000):
        months = run.pick(100, 10) if per_hour < 200 else run.pick(30, 3)
        watched: list[tuple[Fresh, Stream]] = []
        for k in range(months):
            reference, watch = lively(seeded(3, per_hour, k), per_hour=per_hour, hours=MONTH_H, policy_h=MONTH_H / 2)
            watched.append((taught(reference, per_hour=per_hour), watch))
        yield promised(f"at {per_hour}/h, production noise: false alarms in 30 d", false_alarms(watched), 1.3, months)
        found = delays(_lively_falls(per_hour, run.pick(100, 10) if per_hour < 200 else run.pick(30, 4)))
        yield shown(f"at {per_hour}/h, production noise: rows to see a fall of .05", found.mean.value, found)
    months = run.pick(100, 10)
    streams = [(known(0.95, per_hour=60), weighted(seeded(4, k), per_hour=60, rate=0.95)) for k in range(months)]
    yield promised(
        "at 60/h, informative weights, known baseline: false alarms in 30 d", false_alarms(streams), 1.0, months
    )


def breakdown(run: Run) -> Iterator[Figure]:
    """Falls that everybody would see."""
    for drop, goal in ((0.45, 25.0), (0.95, 10.0)):
        for per_hour in (60, 1000):
            found = steps(run, per_hour, 0.95, drop, known(0.95, per_hour=per_hour), hours=600 / per_hour, quiet_h=24.0)
            name = f"at {per_hour}/h, .95 to {0.95 - drop:.2f}: rows to the alarm"
            yield under(name, found.mean.value, goal, note=f"+- {found.mean.error:.2g}")


def smallest_that_matters(run: Run) -> Iterator[Figure]:
    """`min_drop = .03`: a fall of .01 that stays must not fire more often than is promised."""
    months = run.pick(16, 3)
    fresh = known(0.95, per_hour=1000, min_drop=0.03)
    streams = [steady(seeded(6, k), per_hour=1000, rate=0.94, rows=MONTH_H * 1000) for k in range(months)]
    yield promised(
        "at 1000/h, min_drop .03, a fall of .01: alarms in 30 d", false_alarms((fresh, s) for s in streams), 1.0, months
    )
    for drop in (0.03, 0.05):
        found = steps(run, 1000, 0.95, drop, fresh)
        yield shown(f"at 1000/h, min_drop .03: rows to see a fall of {drop:.2f}", found.mean.value, found)


def catching_up(run: Run) -> Iterator[Figure]:
    """After six hours of outage: of the alert loop, and of a consumer that is given 256 kB of a partition at a time."""
    other, checked, fell, live, late = 0, run.pick(20, 4), 0, [], []
    runs = run.pick(150, 12)
    fresh = known(0.95, per_hour=1000)
    for k in range(runs):
        rng = seeded(5, k)
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
    yield under("consumer 6 h late: rows of the fall to the alarm / live", ratio, 1.1, note=note)


def fast_path(run: Run) -> Figure:
    """`Learned.run` against `Learned.update`, which is `Series.fold`, on random streams."""
    differing, alarms, noisy, trials = 0, 0, 0, run.pick(40, 12)
    for k in range(trials):
        rng = seeded(8, k)
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


def _lively_falls(per_hour: int, paths: int) -> Iterator[tuple[Fresh, Stream, int]]:
    for k in range(paths):
        rng = seeded(9, per_hour, k)
        begin_h = 120.0 + 24.0 * rng.random()
        reference, watch = lively(
            rng, per_hour=per_hour, hours=begin_h + 168.0, policy_h=60.0, fall_h=begin_h, drop=0.05
        )
        yield taught(reference, per_hour=per_hour), watch, int((watch.at_s < MIDNIGHT + 3600.0 * begin_h).sum())


def _updates(detector: Learned, stream: Stream) -> int | None:
    rows = zip(stream.passed.tolist(), stream.weight.tolist(), stream.at_s.tolist(), strict=True)
    return next((k for k, row in enumerate(rows) if detector.update(*row)), None)


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
