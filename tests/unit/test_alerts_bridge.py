"""A new judge goes on from the old one's baseline, moved by what both said of the same traces."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from tests.support.verdicts import row, verdicts
from tracejudge.alerts import AlertEvent, DriftRule, Engine, HourSums, MaxDropRule, Overlap, SeriesKey, SeriesStatus
from tracejudge.alerts.detecting.baseline import Baseline, hour_of
from tracejudge.alerts.series.bridge import bridged
from tracejudge.scores import JudgeId, Score
from tracejudge.testing.builders import START

DRIFT = DriftRule(name="drift", type="drift", judge="lexical", no_data_after="never")
MAX_DROP = MaxDropRule(
    name="reference", type="max_drop", judge="lexical", max_drop=0.05, reference="5d", no_data_after="never"
)
NEW = JudgeId("lexical@111111111111")
DAY = 24 * 60


def overlap_of(pairs: int, *, worse: float, better: float = 0.0) -> Overlap:
    """Unweighted pairs, of which these shares differ."""
    down, up = round(worse * pairs), round(better * pairs)
    found = Overlap.of_sums(n=pairs, w=pairs, wd=up - down, w2=pairs, w2d=up - down, w2d2=up + down)
    assert found is not None
    return found


def learned(days: int = 20, *, rate: float = 0.95, wave: float = 0.0) -> Baseline:
    """Twenty rows an hour, with a wave over the day."""
    rng = random.Random(1)
    baseline = Baseline()
    for hour in range(24 * days):
        level = rate + (wave if hour % 24 < 12 else -wave)
        for minute in range(0, 60, 3):
            at = START + timedelta(hours=hour, minutes=minute)
            baseline.move_to(hour_of(at))
            baseline.see(hour_of(at), passed=rng.random() < level, weight=1.0)
    return baseline


def test_the_rate_moves_by_the_difference_and_the_uncertainties_add_up() -> None:
    old = learned()
    overlap = overlap_of(400, worse=0.06, better=0.01)
    new = bridged(old, overlap)
    assert new is not None
    assert new.m == pytest.approx(old.m - 0.05, abs=3e-3)
    assert new.se**2 == pytest.approx(
        # The spread of verdicts is that of the new rate.
        (old.se**2 + overlap.variance) * new.m * (1 - new.m) / (old.m * (1 - old.m)),
        rel=0.05,
    )
    assert new.smallest_drop is not None
    assert old.smallest_drop is not None
    assert new.smallest_drop > old.smallest_drop
    assert overlap.variance == pytest.approx((0.07 - 0.05**2) / 400 + 1 / 400**2)


def test_the_season_comes_along() -> None:
    old = learned(wave=0.04)
    new = bridged(old, overlap_of(400, worse=0.05))
    assert new is not None

    def wave(baseline: Baseline) -> float:
        day, night = (baseline.bets_of_hour((START.hour + h) % 24) for h in (6, 18))
        assert day is not None
        assert night is not None
        return day.boundary - night.boundary

    assert wave(new) == pytest.approx(wave(old), abs=0.01)
    assert wave(new) > 0.05


def test_too_few_pairs_and_an_unknown_baseline_bridge_nothing() -> None:
    assert bridged(learned(), overlap_of(29, worse=0.0)) is None
    assert bridged(Baseline(), overlap_of(400, worse=0.0)) is None
    assert Overlap.of_sums(n=0, w=0.0, wd=0.0, w2=0.0, w2d=0.0, w2d2=0.0) is None


def test_a_judge_that_passes_nearly_all_stays_below_one() -> None:
    new = bridged(learned(rate=0.97), overlap_of(100, worse=0.0, better=0.2))
    assert new is not None
    assert 0.96 < new.m < 1.0


def history(rate: float = 0.95, days: int = 8) -> list[Score]:
    return verdicts([rate] * (days * DAY // 3), seed=11)


def under_new(rates: Sequence[float], *, first: int, seed: int) -> list[Score]:
    return [replace(score, judge_id=NEW) for score in verdicts(rates, seed=seed, first=first)]


def engine_of(overlap: Overlap | None, *rules: DriftRule | MaxDropRule) -> Engine:
    def find(key: SeriesKey, before: JudgeId, at: datetime) -> Overlap | None:
        assert (key.judge_id, before) == (NEW, "lexical@000000000000")
        assert at > START
        return overlap

    engine = Engine(rules or (DRIFT,), overlap=find)
    engine.fold(history())
    return engine


def status_of(engine: Engine, rule: str = "drift") -> SeriesStatus:
    (found,) = [s for s in engine.status() if s.key.judge_id == NEW and s.key.rule == rule]
    return found


def kinds(events: Sequence[AlertEvent]) -> list[str]:
    return [event.kind for event in events]


def test_a_bridged_judge_is_armed_at_once_and_silent_though_it_is_stricter() -> None:
    engine = engine_of(overlap_of(400, worse=0.06, better=0.01))
    begin = len(history())
    (said,) = engine.fold(under_new([0.90] * 5, first=begin, seed=1))
    assert said.kind == "judge_changed"
    assert (
        "drift continues from the old baseline, moved by -5.0 points (-7.6 to -2.4, 400 answers judged" in said.summary
    )
    assert said.evidence["judge_id_before"] == "lexical@000000000000"
    known = status_of(engine)
    assert known.baseline == pytest.approx(0.90, abs=0.01)
    assert known.smallest_drop is not None
    assert known.smallest_drop < 0.10
    assert engine.fold(under_new([0.90] * (3 * DAY), first=begin + 5, seed=2)) == []
    events = engine.fold(under_new([0.70] * 300, first=begin + 5 + 3 * DAY, seed=3))
    assert kinds(events) == ["firing"]


def test_without_an_overlap_it_learns_anew_and_says_so() -> None:
    engine = engine_of(overlap_of(12, worse=0.5))
    (said,) = engine.fold(under_new([0.90] * 5, first=len(history()), seed=1))
    assert said.summary.endswith("drift relearns its baseline, as only 12 answers were judged by both")
    assert status_of(engine).state == "warming_up"


def test_a_frozen_reference_is_bridged_too() -> None:
    engine = engine_of(overlap_of(400, worse=0.06, better=0.01), MAX_DROP)
    begin = len(history())
    assert kinds(engine.fold(under_new([0.90] * 500, first=begin, seed=1))) == ["judge_changed"]
    assert status_of(engine, "reference").baseline == pytest.approx(0.90, abs=0.01)
    assert kinds(engine.fold(under_new([0.70] * 300, first=begin + 500, seed=3))) == ["firing"]


def key() -> SeriesKey:
    return SeriesKey(rule="drift", environment="production", app="shop", judge_name="lexical", judge_id=NEW)


@pytest.mark.parametrize(("rows_an_hour", "wanted"), [(500, "replay"), (1, "bridge")])
def test_of_a_replay_and_an_overlap_the_surer_one_is_taken(rows_an_hour: int, wanted: str) -> None:
    engine = engine_of(overlap_of(400, worse=0.06, better=0.01))
    begin = len(history())
    at = row(begin).judged_at
    hour = int(at.timestamp()) // 3600
    n, good = float(rows_an_hour), 0.9 * rows_an_hour
    engine.seed(key(), [HourSums(hour - k, n, good, n, good) for k in range(1, 100)], heuristic=False, at=at)
    taken = [type(s)(s.name, json.loads(json.dumps(s.state))) for s in engine.snapshot()]
    engine = Engine([DRIFT])
    engine.restore(taken)
    (said,) = engine.fold(under_new([0.90] * 5, first=begin, seed=1))
    baselines = said.evidence["baselines"]
    assert isinstance(baselines, dict)
    assert baselines["drift"]["from"] == wanted
    assert status_of(engine).smallest_drop is not None


def test_bridged_judges_keep_the_promise() -> None:
    """From 100 pairs each: ten judges for six days, of which one may alarm falsely by the promise."""
    false_alarms = 0
    for seed in range(10):
        rng = random.Random(seed)
        down = sum(rng.random() < 0.07 for _ in range(100)) / 100
        up = sum(rng.random() < 0.02 for _ in range(100)) / 100
        engine = engine_of(overlap_of(100, worse=down, better=up))
        events = engine.fold(under_new([0.90] * (6 * DAY // 3), first=len(history()), seed=100 + seed))
        false_alarms += sum(event.kind == "firing" for event in events)
    assert false_alarms <= 2
