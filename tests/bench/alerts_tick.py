"""What a tick of the alert loop costs: 60 000 rows over 1000 series, reading from the embedded store included."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

import numpy as np

from tests.bench.frame import Figure, Run, at_most, shown
from tracejudge.alerts import DriftRule
from tracejudge.scores import JudgeId, Outcome, Score
from tracejudge.store import Store, StoredTrace, open_store
from tracejudge.testing import ManualClock, RecordingNotifier, make_score, make_trace
from tracejudge_consumer.alerting.loop import AlertLoop

_APPS, _CATEGORIES = 10, 100
_ROWS: Final = 60_000


def tick(run: Run) -> Iterator[Figure]:
    """CPU of the tick that folds a backlog of 60 000 rows, with all of the store's threads in this process; by what
    the scores say themselves, and by a tag that has to be read from the traces."""
    rounds = run.pick(3, 1)
    series = _APPS * _CATEGORIES
    plain = _ticks(rounds, "category")
    yield at_most(f"a tick of {_ROWS} rows over {series} series, reading included: CPU", plain, 6.0, unit="s")
    yield shown("the same, a row", [1e6 * seconds / _ROWS for seconds in plain], unit="us")
    by_tag = _ticks(rounds, "tags.tenant")
    ratios = [tagged / seconds for tagged, seconds in zip(by_tag, plain, strict=True)]
    yield at_most("the same by a tag, which is read from the traces / by category", ratios, 1.5, unit="x")


def _ticks(rounds: int, group_by: str) -> list[float]:
    """Seconds of CPU of each tick, with a rule that groups by this."""
    by_tag = group_by.startswith("tags.")
    with tempfile.TemporaryDirectory() as directory, open_store(f"chdb:///{directory}/store") as store:
        store.migrate()
        clock = ManualClock(store.now())
        begin = store.now().replace(microsecond=0) - timedelta(days=2)
        rng = np.random.default_rng(17)
        _write(store, rng, rows=2 * _APPS * _CATEGORIES, begin=begin, number=0, traces=by_tag)
        loop = AlertLoop(
            store=store,
            rules=[DriftRule(name="drift", type="drift", judge="lexical", group_by=(group_by,))],
            notifiers=[RecordingNotifier()],
            clock=clock,
            holder="bench",
        )
        loop.tick()
        spent: list[float] = []
        for k in range(rounds):
            at = begin + timedelta(hours=8 + 8 * k)
            _write(store, rng, rows=_ROWS, begin=at, number=(k + 1) * _ROWS, traces=by_tag)
            before = time.process_time()
            loop.tick()
            spent.append(time.process_time() - before)
            folded = round(sum(status.n_eff for status in loop.status()))
            expected = 2 * _APPS * _CATEGORIES + (k + 1) * _ROWS
            if folded != expected:
                raise AssertionError(f"{folded} rows of {expected} were folded by the tick")
        series = len(loop.status())
        loop.close()
    if series != _APPS * _CATEGORIES:
        raise AssertionError(f"{series} series instead of {_APPS * _CATEGORIES}")
    return spent


def _write(store: Store, rng: np.random.Generator, *, rows: int, begin: datetime, number: int, traces: bool) -> None:
    step = timedelta(hours=6) / max(rows, 1)
    verdicts = (rng.random(rows) < 0.95).tolist()
    judge = JudgeId("lexical@000000000000")
    page: list[Score] = []
    for k, passed in enumerate(verdicts):
        at = begin + k * step
        page.append(
            replace(
                make_score(number + k, passed=passed),
                app=f"app{k % _APPS}",
                category=f"c{k // _APPS % _CATEGORIES}",
                event_time=at,
                judged_at=at + timedelta(seconds=20),
                judge_id=judge,
                outcome=Outcome.PASSED if passed else Outcome.FAILED,
            )
        )
    store.scores.insert(page)
    if traces:
        served = [
            make_trace(
                number + k, app=one.app, event_time=one.event_time, tags={"tenant": one.category, "request": f"r{k}"}
            )
            for k, one in enumerate(page)
        ]
        store.traces.insert([StoredTrace(trace=trace, ingested_at=begin) for trace in served])
