"""Clocks that are late or ahead: each trace counts in the window its event time names, and moves nobody else's."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from tests.support.records import append, committed
from tests.support.running_pipeline import make_pipeline
from tests.support.scripted_panel import ScriptedPanel
from tracejudge.alerts import Engine, MinimumRule
from tracejudge.scores import Outcome, Score
from tracejudge.store import RateQuery, ScoreFilter, Store
from tracejudge.testing import make_score, make_trace
from tracejudge.windows import Watermark

pytest.importorskip("chdb", reason="the embedded store needs the extra 'embedded'")

HOUR = timedelta(hours=1)
NOW = datetime.now(timezone.utc).replace(minute=30, second=0, microsecond=0)
LATE = NOW - timedelta(days=3)
AHEAD = NOW + timedelta(hours=5)


@pytest.fixture
def scores(tmp_path: Path, store: Store) -> list[Score]:
    """Twenty traces of now, two that come three days late, one from a clock five hours ahead; all judged."""
    traces = [make_trace(n, event_time=NOW + timedelta(seconds=n)) for n in range(20)]
    traces[5:5] = [
        make_trace(100, event_time=LATE),
        make_trace(101, event_time=LATE),
        make_trace(200, event_time=AHEAD),
    ]
    append(tmp_path / "q.db", traces)
    panel = ScriptedPanel(verdict=lambda task: Outcome.PASSED)
    report = make_pipeline(tmp_path / "q.db", store, panel).run(until_idle=True)
    assert (report.passed, committed(tmp_path / "q.db")) == (23, 23)
    return [score for batch in store.scores.stream(ScoreFilter()) for score in batch]


def test_each_trace_counts_in_the_window_of_its_own_event_time(store: Store, scores: list[Score]) -> None:
    def judged(around: datetime) -> int:
        query = RateQuery(start=around - HOUR, end=around + HOUR, judge="scripted")
        return sum(row.bucket.n for row in store.scores.buckets(query))

    assert [judged(LATE), judged(NOW), judged(AHEAD)] == [2, 20, 1]
    lines = store.ledger.equation(LATE - HOUR, AHEAD + HOUR, hourly=True)
    assert [(line.hour, line.traces, line.unaccounted) for line in lines] == [
        (at.replace(minute=0), count, 0) for at, count in ((LATE, 2), (NOW, 20), (AHEAD, 1))
    ]


def test_a_trace_from_the_future_is_kept_and_moves_no_watermark(scores: list[Score]) -> None:
    """One broken clock would otherwise close windows that are still filling, and turn later traces away as too late."""
    watermark = Watermark()
    for score in scores:
        watermark = watermark.seen(score.event_time, arrived_at=NOW + timedelta(minutes=1))
    assert watermark.at == NOW + timedelta(seconds=19)
    rule = MinimumRule.model_validate({"name": "r", "judge": "lexical", "minimum": 0.5})
    engine = Engine([rule])
    engine.fold(
        [
            make_score(n, event_time=score.event_time, judged_at=NOW + timedelta(minutes=1, microseconds=n))
            for n, score in enumerate(sorted(scores, key=lambda one: one.event_time, reverse=True))
        ]
    )
    (series,) = engine.status()
    assert series.too_late == 2, "those of three days ago, told and counted; none because of the one ahead"
    assert series.n_eff >= 20
