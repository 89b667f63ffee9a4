"""Does sampling keep the truth: bias and coverage of the weighted rate, width against an oracle, the governor's budget.

    python -m tests.bench.sampling [--quick] [--json] [--only CASE]

Rates and intervals are those of the production code on stored rows; each repetition is an app of its own in an embedded
store. Everything is seeded. `stream` draws a day of traffic from the labelled sets of TRACEJUDGE_DATA, taken as a
superpopulation: a mixture of categories that drifts, bursts of one of them, a judge that says what the label says, a
policy of strata and rules on real signals, and ids that are new in every repetition, so that the hash falls anew.
`grid` draws its traffic inside the engine: what matters there is only who is sampled how often and who fails.
"""

from __future__ import annotations

import math
import os
import random
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final, NamedTuple

from tests.bench.frame import Figure, Run, main, shown
from tests.support.governed_day import Day, busy_minutes
from tests.support.store_fixture import empty
from tracejudge.datasets import Line, read_lines
from tracejudge.reports import RateLine, read_rates
from tracejudge.sampling import Governor, SamplingPolicy, sample
from tracejudge.sampling.governor import AIM
from tracejudge.scores import JudgeId
from tracejudge.signals import compute_signals
from tracejudge.store import RateQuery, Store, open_store
from tracejudge.testing import make_score
from tracejudge.testing.builders import START
from tracejudge_sdk.sampling import TAIL_SALT, keep
from tracejudge_sdk.trace import Trace

SETS: Final = ("ragtruth_qa", "ragtruth_summary", "mtrag_human")
JUDGE: Final = JudgeId("labels@000000000000")
POLICY: Final = SamplingPolicy.model_validate(
    {
        "rate": 0.25,
        "strata": [{"name": "summaries", "when": {"field": "category", "is": "ragtruth_summary"}, "rate": 0.1}],
        "rules": [
            {"name": "low overlap", "when": {"field": "signals.lexical_overlap", "below": 0.75}, "rate": 0.8},
            {"name": "refusals", "when": {"field": "signals.refusal", "is": True}, "rate": 0.5},
        ],
    }
)


class Item(NamedTuple):
    """An answer of the superpopulation: its category, whether it is faithful, and what the policy makes of it."""

    category: str
    passed: bool
    chance: float
    stratum: str


class Cell(NamedTuple):
    """A design: the share of the suspicious stratum, chances and pass rates of it and of the rest, traces a run."""

    name: str
    rate: float
    share: float
    chances: tuple[float, float]
    rates: tuple[float, float]
    traces: int


@dataclass(frozen=True, slots=True)
class Result:
    """Of one cell: the share of intervals that hold the truth, their mean width, and the estimates."""

    coverage: float
    width: float
    estimates: list[float]


@contextmanager
def stored() -> Iterator[Store]:
    with tempfile.TemporaryDirectory() as folder, open_store(f"chdb:///{folder}/store") as store:
        store.migrate()
        yield store


def stream(run: Run) -> Iterator[Figure]:
    """The bias on traffic made of the labelled data."""
    items, mixture = superpopulation(), day_of_traffic()
    by_category = {name: [item for item in items if item.category == name] for name in SETS}
    quality = {name: statistics.fmean(item.passed for item in some) for name, some in by_category.items()}
    truth = statistics.fmean(sum(mix[n] * quality[name] for n, name in enumerate(SETS)) for mix in mixture)
    runs = run.pick(2000, 200)
    rng = random.Random(7)
    lines: list[RateLine] = []
    step = timedelta(days=1) / len(mixture)
    with stored() as store:
        for first in range(0, runs, 200):
            rows = []
            for repetition in range(first, first + 200):
                for n, mix in enumerate(mixture):
                    item = rng.choice(by_category[rng.choices(SETS, mix)[0]])
                    trace_id = f"{repetition}-{n}"
                    if not keep(trace_id, item.chance, TAIL_SALT):
                        continue
                    rows.append(
                        make_score(
                            passed=item.passed,
                            trace_id=trace_id,
                            app=f"r{repetition}",
                            category=item.category,
                            stratum=item.stratum,
                            event_time=START + n * step,
                            judge_name="labels",
                            judge_id=JUDGE,
                            inclusion_probability=item.chance,
                        )
                    )
            store.scores.insert(rows)
            lines += rates_of(store)
            empty(store)
    result = result_of(lines, truth)
    plain = statistics.fmean(line.rate.plain or 0.0 for line in lines if line.rate)
    bias = 100 * (statistics.fmean(result.estimates) - truth)
    error = 100 * statistics.stdev(result.estimates) / math.sqrt(len(result.estimates))
    goal = 0.2 if not run.quick else 0.6
    yield Figure(
        name=f"stream: bias of the weighted rate, {runs} repetitions",
        value=bias,
        goal=f"within {goal}",
        reached=abs(bias) < goal,
        unit="pts",
        note=f"standard error {error:.3f} points; the truth is {100 * truth:.2f} %",
    )
    off = 100 * (plain - truth)
    yield Figure(
        name="stream: the unweighted one is off by", value=off, goal="beyond 3", reached=abs(off) > 3, unit="pts"
    )
    yield Figure(
        name="stream: coverage of the 95 % interval",
        value=100 * result.coverage,
        goal=">= 93",
        reached=result.coverage >= 0.93,
        unit="%",
    )
    judged = statistics.fmean(line.rate.judged for line in lines if line.rate)
    yield shown("stream: judged of a run's traces", [judged / len(mixture)], note=f"{len(mixture)} traces a run")


def grid(run: Run) -> Iterator[Figure]:
    """Coverage and width over true rates and designs."""
    runs = run.pick(2000, 400)
    least = 0.93 if not run.quick else 0.93 - 3 * math.sqrt(0.05 * 0.95 / runs)
    with stored() as store:
        for number, cell in enumerate(cells()):
            draw(store, cell, runs=runs, seed=number)
            result = result_of(rates_of(store), cell.rate)
            empty(store)
            spread = statistics.stdev(result.estimates)
            oracle = 2 * 1.96 * spread
            # Neyman's allocation of as many judged traces, and its true variance: nobody can know it beforehand.
            parts = ((cell.share, cell.rates[0]), (1 - cell.share, cell.rates[1]))
            judged = cell.traces * sum(part * pi for (part, _), pi in zip(parts, cell.chances, strict=True))
            best = sum(part * math.sqrt(q * (1 - q)) for part, q in parts) / math.sqrt(judged)
            yield Figure(
                name=f"grid: coverage, {cell.name}, {cell.rate:.2f}",
                value=100 * result.coverage,
                goal=f">= {100 * least:.3g}",
                reached=result.coverage >= least,
                unit="%",
                note=f"bias {100 * (statistics.fmean(result.estimates) - cell.rate):+.2f} points, {judged:.0f} judged",
            )
            ratio = result.width / oracle
            # Where few failures sit on light weights the linearised variance alone would be sharp, and cover 69 % at
            # the worst (windows/DESIGN.md): the interval is bounded by Kish's size instead, which costs up to 1.46.
            limit = 1.5 if not run.quick else 1.6
            yield Figure(
                name=f"grid: width / oracle's, {cell.name}, {cell.rate:.2f}",
                value=ratio,
                goal=f"<= {limit}",
                reached=ratio <= limit,
                note="oracle: this design with its variance known; the best of as many judged (Neyman's) would be "
                f"{result.width / (2 * 1.96 * best):.2f} times narrower",
            )


def governor(run: Run) -> Iterator[Figure]:
    """A week under a governor, with a day's wave and bursts of five times the traffic."""
    budget = 200.0
    limit = 0.05 * AIM * budget + 3 * math.sqrt(budget)
    means, worst = [], []
    for seed in range(run.pick(5, 2)):
        rng = random.Random(seed)
        day = Day(governor=Governor(name="g", judge="labels", max_per_h=budget), rng=rng)
        hours = day.run(busy_minutes(rng, run.pick(7, 1) * 24, per_h=1500))[1:]
        means.append(statistics.fmean(hours) / (AIM * budget))
        worst.append(max(abs(count - AIM * budget) for count in hours) / limit)
    mean = statistics.median(means)
    yield Figure(
        name="governor: mean hourly count / its aim",
        value=mean,
        goal="within .05",
        reached=all(abs(one - 1) <= 0.05 for one in means),
        spread=(min(means), max(means)),
    )
    yield Figure(
        name="governor: worst hour / (5 % + 3 sqrt(budget))",
        value=statistics.median(worst),
        goal="<= 1",
        reached=max(worst) <= 1,
        spread=(min(worst), max(worst)),
    )


def superpopulation() -> list[Item]:
    """The labelled answers under POLICY, by the production code for signals and sampling."""
    folder = os.environ.get("TRACEJUDGE_DATA", "")
    if not folder or not (Path(folder) / f"{SETS[0]}.jsonl.gz").exists():
        raise RuntimeError(f"TRACEJUDGE_DATA={folder!r} is no folder with the labelled sets ({SETS[0]}.jsonl.gz ...)")
    items = []
    for name in SETS:
        for line in read_lines(Path(folder) / f"{name}.jsonl.gz"):
            if isinstance(line, Line):
                labels = [label.value for label in line.labels if label.criterion == "faithfulness"]
                if labels and line.trace.response:
                    items.append(item_of(line.trace.model_copy(update={"category": name}), passed=labels[0] == 1.0))
    return items


def item_of(trace: Trace, *, passed: bool) -> Item:
    sampled = sample(trace, compute_signals(trace), POLICY, ["labels"])
    chance = sampled.decisions["labels"].inclusion_probability
    return Item(trace.category or "", passed, chance, sampled.stratum)


def day_of_traffic(traces: int = 1000) -> list[tuple[float, ...]]:
    """The chance of each of SETS for each trace of a day: one drifts up at another's cost, a third comes in bursts."""
    found = []
    for n in range(traces):
        drift, burst = n / traces, 0.7 if n % 250 < 40 else 0.0
        mix = (0.5 - 0.3 * drift, 0.2 + 0.3 * drift, 0.3)
        found.append(tuple((1 - burst) * part + burst * (k == 1) for k, part in enumerate(mix)))
    return found


def cells() -> list[Cell]:
    found = []
    for rate in (0.80, 0.90, 0.95, 0.99):
        for name, share, chances, failures in (
            # failures: the part of all failures that falls into the first stratum
            ("failures oversampled", 0.1, (0.8, 0.1), 0.4),
            ("failures undersampled", 0.3, (0.1, 0.4), 0.6),
            ("heavy-weight stratum bad", 0.5, (0.08, 0.5), 0.75),
            ("heavy-weight stratum good", 0.5, (0.08, 0.5), 0.25),
        ):
            fail = 1 - rate
            bad, good = failures * fail / share, (1 - failures) * fail / (1 - share)
            mean = share * chances[0] + (1 - share) * chances[1]
            found.append(Cell(name, rate, share, chances, (1 - bad, 1 - good), round(600 / mean)))
    return found


def draw(store: Store, cell: Cell, *, runs: int, seed: int) -> None:
    """Stores the judged traces of `runs` independent runs of a design."""
    draws = {name: f"(cityHash64(number, {seed}, '{name}') / 18446744073709551616.)" for name in ("s", "k", "x")}
    store.command(
        "INSERT INTO scores (environment, app, judge_name, event_time, trace_id, judge_id, run_id, outcome, score, "
        "stratum, inclusion_probability, judged_at, row_version) "
        f"SELECT 'production', concat('r', toString(intDiv(number, {cell.traces}))), 'labels', at, "
        f"toString(number), '{JUDGE}', 'live', if(passed, 'passed', 'failed'), toFloat64(passed), "
        "if(suspicious, 'suspicious', ''), p, at, 1 FROM (SELECT number, "
        f"{draws['s']} < {cell.share} AS suspicious, if(suspicious, {cell.chances[0]}, {cell.chances[1]}) AS p, "
        f"{draws['x']} < if(suspicious, {cell.rates[0]}, {cell.rates[1]}) AS passed, "
        f"toDateTime64('2026-01-01 12:00:00', 3, 'UTC') + number % {cell.traces} AS at "
        f"FROM numbers({runs * cell.traces}) WHERE {draws['k']} < p)"
    )


def rates_of(store: Store) -> list[RateLine]:
    """The rate of every run, as `tracejudge rates --by app` has it."""
    query = RateQuery(start=START, end=START + timedelta(days=1), judge="labels", group_by=("app",))
    return read_rates(store, query)


def result_of(lines: Sequence[RateLine], truth: float) -> Result:
    rates = [line.rate for line in lines if line.rate is not None and line.rate.estimate is not None]
    held = [(rate.low or 0.0) <= truth <= (rate.high or 0.0) for rate in rates]
    widths = [(rate.high or 0.0) - (rate.low or 0.0) for rate in rates]
    return Result(statistics.fmean(held), statistics.fmean(widths), [rate.estimate or 0.0 for rate in rates])


CASES = {"stream": stream, "grid": grid, "governor": governor}

if __name__ == "__main__":
    sys.exit(main("sampling", CASES))
