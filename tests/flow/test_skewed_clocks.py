"""Clocks that are late or ahead: each trace counts in the window its event time names, and moves nobody else's."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from tests.support.records import append, committed
from tests.support.running_pipeline import make_pipeline
from tests.support.scripted_panel import ScriptedPanel
from tests.support.workplace import Workplace
from tracejudge.alerts import Engine, MinimumRule
from tracejudge.alerts.rules.rule import RULE
from tracejudge.clock import SystemClock
from tracejudge.scores import Outcome, Score
from tracejudge.store import RateQuery, ScoreFilter, Store
from tracejudge.testing import make_score, make_trace
from tracejudge.windows import Watermark
from tracejudge_consumer.alerting.loop import AlertLoop

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


def test_a_fall_judged_on_a_machine_that_is_an_hour_behind_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], store_url: str, store: Store
) -> None:
    """Its verdicts, stamped with its own time, would lie where the alert loop has been already."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tracejudge.store.leases.SETTLE_S", 0.005)
    settings = f'queue = "sqlite:///queue.db"\nstore = "{store_url}"\n[[judges]]\nname = "lexical"\nkind = "lexical"\n'
    (tmp_path / "tracejudge.toml").write_text(settings, encoding="utf-8")
    rule = MinimumRule.model_validate({"name": "minimum", "judge": "lexical", "minimum": 0.9})
    loop = AlertLoop(
        store=store, rules=[rule], notifiers=[], clock=store.clock, holder="right", settle_s=0.0, lookback_s=900.0
    )
    now, type_in = datetime.now(timezone.utc), Workplace(tmp_path, capsys, settings)

    def consume(first: int, *, response: str) -> None:
        served = [now + timedelta(seconds=number - 900) for number in range(first, first + 100)]
        traces = [make_trace(first + n, event_time=at, response=response) for n, at in enumerate(served)]
        append(tmp_path / "queue.db", traces)
        type_in("consume", "--until-idle")

    consume(0, response="The limit of the plan is ten users.")
    assert loop.tick() == []
    own = SystemClock.now
    monkeypatch.setattr(SystemClock, "now", lambda clock: own(clock) - HOUR)
    consume(100, response="Whales sing in the arctic sea at night.")
    assert [event.kind for event in loop.tick()] == ["firing"]


@pytest.mark.parametrize(
    "rule",
    [
        {"name": "r", "judge": "lexical", "minimum": 0.9},
        {"name": "r", "type": "threshold", "judge": "lexical", "below": 0.9, "window": "10m"},
    ],
    ids=["minimum", "threshold"],
)
def test_an_app_whose_every_trace_is_two_hours_ahead_is_watched_by_when_they_arrive(rule: dict[str, Any]) -> None:
    """Local time sent as UTC: it has no believable event time, and still a fall must be told."""
    engine = Engine([RULE.validate_python(rule)])
    scores = [
        make_score(n, passed=n < 200, event_time=at + 2 * HOUR, judged_at=at)
        for n, at in ((n, NOW + timedelta(seconds=20 * n)) for n in range(300))
    ]
    assert "firing" in [event.kind for event in engine.fold(scores)]
