"""What the engine says about streams of scores, and what it does not say."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.support.verdicts import minute, row, verdicts
from tracejudge.alerts import AlertEvent, Engine, MinimumRule, SeriesState
from tracejudge.alerts.detecting.sums import Sums
from tracejudge.scores import JudgeId, Outcome


def rule(**fields: Any) -> MinimumRule:
    return MinimumRule.model_validate({"name": "quality", "judge": "lexical", "minimum": 0.8, **fields})


def kinds(events: list[AlertEvent]) -> list[str]:
    return [event.kind for event in events]


def only_state(engine: Engine) -> SeriesState:
    (status,) = engine.status()
    return status.state


def test_b24_a_tiny_window_raises_nothing_and_a_real_fall_raises_exactly_one_alert() -> None:
    engine = Engine([rule(minimum=0.9)])
    healthy = verdicts([0.95] * 1000, seed=1)
    four = [row(1000 + k, passed=k == 2) for k in range(4)]  # 3 of 4 fail
    assert engine.fold(healthy + four) == []
    events = engine.fold(verdicts([0.8] * 400, seed=2, first=1004))
    assert kinds(events) == ["firing"]


def test_b24_a_tiny_window_after_a_long_silence_raises_nothing() -> None:
    engine = Engine([rule(minimum=0.9)])
    engine.fold(verdicts([0.95] * 1000, seed=1))
    assert engine.fold([row(1000 + k, passed=k == 2, minute=1000 + 4000 + k) for k in range(4)]) == []


def test_a_breakdown_fires_within_ten_traces() -> None:
    engine = Engine([rule(minimum=0.9)])
    engine.fold(verdicts([0.95] * 2000, seed=3))
    (event,) = engine.fold([row(2000 + k, passed=False) for k in range(10)])
    assert event.kind == "firing"
    assert event.at < minute(2010)


def test_a_fall_is_explained_and_its_recovery_too() -> None:
    engine = Engine([rule()])
    rates = [0.95] * 2000 + [0.5] * 400 + [0.95] * 1000
    fell, recovered = engine.fold(verdicts(rates, seed=4))
    assert (fell.kind, recovered.kind) == ("firing", "resolved")
    assert fell.summary.startswith("lexical of shop fell below 80 %: about ")
    assert "expected less than one such false alarm in 30 days" in fell.summary
    evidence: Any = fell.evidence
    assert evidence["before"]["rate"] == pytest.approx(0.95, abs=0.02)
    assert evidence["since"]["low"] < 0.5 < evidence["since"]["high"] < 0.8
    assert evidence["since"]["judged"] <= 100
    assert abs(minute(2000) - datetime.fromisoformat(evidence["started_about"])) < timedelta(minutes=30)
    assert len(evidence["worst_trace_ids"]) == 5
    assert all(ident >= "t-001980" for ident in evidence["worst_trace_ids"])
    assert evidence["evidence_share"] >= 1
    assert recovered.evidence["fired_event_id"] == fell.event_id
    assert only_state(engine) == "ok"
    json.dumps([event.evidence for event in (fell, recovered)], allow_nan=False)


def test_a_second_fall_after_a_recovery_fires_again_and_compares_with_the_time_between() -> None:
    engine = Engine([rule()])
    rates = [0.95] * 1000 + [0.5] * 300 + [0.9] * 1500 + [0.5] * 200
    events = engine.fold(verdicts(rates, seed=5))
    assert kinds(events) == ["firing", "resolved", "firing"]
    assert events[0].event_id != events[2].event_id
    evidence: Any = events[2].evidence
    assert evidence["before"]["judged"] < 1700


def test_a_service_below_its_minimum_from_the_start_fires_once_warmed_up() -> None:
    engine = Engine([rule(min_effective_samples=50)])
    rows = [row(k, passed=False) for k in range(60)]
    assert engine.fold(rows[:49]) == []
    assert only_state(engine) == "warming_up"
    (event,) = engine.fold(rows[49:])
    assert event.at == rows[49].judged_at
    assert event.evidence["before"] is None


def test_states_follow_the_evidence() -> None:
    engine = Engine([rule()])
    engine.fold([row(0)])
    assert only_state(engine) == "warming_up"
    engine.fold(verdicts([0.95] * 500, seed=6, first=1))
    assert only_state(engine) == "ok"
    k = 501
    while only_state(engine) == "ok":
        engine.fold([row(k, passed=False)])
        k += 1
    assert only_state(engine) == "pending"
    while only_state(engine) == "pending":
        engine.fold([row(k, passed=False)])
        k += 1
    assert only_state(engine) == "firing"


def test_no_data_is_never_ok_and_never_an_alarm_of_quality() -> None:
    engine = Engine([rule(no_data_after="2h")])
    engine.fold(verdicts([0.95] * 100, seed=7))
    last = minute(99) + timedelta(seconds=20)
    assert engine.tick(last + timedelta(hours=2)) == []
    assert only_state(engine) == "ok"
    (event,) = engine.tick(last + timedelta(hours=2, seconds=1))
    assert (event.kind, event.severity) == ("no_data", "ticket")
    assert event.at == last + timedelta(hours=2)
    assert only_state(engine) == "no_data"
    assert engine.tick(last + timedelta(hours=5)) == []
    (back,) = engine.fold([row(100, minute=500)])
    assert back.kind == "data_back"
    engine.tick(minute(501))
    assert only_state(engine) == "ok"


def test_the_rows_alone_never_say_no_data() -> None:
    engine = Engine([rule(no_data_after="2h")])
    assert engine.fold([row(0), row(1, minute=10_000), row(2, minute=20_000)]) == []


def test_an_empty_night_is_silent() -> None:
    engine = Engine([rule()])
    events = engine.fold(verdicts([0.95] * 600, seed=8))
    for hour in range(10, 20):
        events += engine.tick(minute(60 * hour))
    events += engine.fold(verdicts([0.95] * 600, seed=9, first=1200))
    assert events == []


def test_silence_does_not_end_an_alert() -> None:
    engine = Engine([rule(no_data_after="2h")])
    engine.fold([row(k, passed=k < 100) for k in range(160)])
    assert only_state(engine) == "firing"
    (event,) = engine.tick(minute(100_000))
    assert event.kind == "no_data"
    assert "its alert stays open" in event.summary
    assert only_state(engine) == "firing"
    events = engine.fold([row(160, minute=100_001)])
    assert kinds(events) == ["data_back"], "a single good trace after a silence is no recovery"


def test_a_rare_group_and_a_replaced_judge_are_not_silence() -> None:
    engine = Engine([rule(group_by=("category",), no_data_after="2h")])
    old, new = JudgeId("lexical@000000000000"), JudgeId("lexical@111111111111")
    engine.fold([row(0, category="rare", judge_id=old), row(1, category="common", judge_id=old)])
    events = engine.fold([row(k, category="common", judge_id=new) for k in range(2, 600)])
    assert kinds(events + engine.tick(minute(600))) == ["judge_changed"]
    (event,) = engine.tick(minute(100_000))
    assert event.series.judge_id == new


def test_a_heuristic_judge_opens_a_ticket_and_says_why_it_does_not_page() -> None:
    rows = [row(k, passed=k < 100, flags=("heuristic",)) for k in range(160)]
    (event,) = Engine([rule(severity="page")]).fold(rows)
    assert (event.severity, event.heuristic) == ("ticket", True)
    assert "the judge is a heuristic" in event.summary
    assert "heuristic_may_page = true" in str(event.evidence["severity_lowered"])
    (told,) = Engine([rule(severity="page", heuristic_may_page=True)]).fold(rows)
    assert told.severity == "page"
    assert "severity_lowered" not in told.evidence
    (model,) = Engine([rule(severity="page")]).fold([row(k, passed=k < 100) for k in range(160)])
    assert model.severity == "page"


def test_rows_of_other_runs_environments_judges_and_revisions_change_nothing() -> None:
    engine = Engine([rule()])
    for fields in (
        {"run_id": "replay-1"},
        {"run_id": "shadow"},
        {"environment": "staging"},
        {"judge_name": "other"},
        {"revision": 1},
    ):
        assert engine.fold([row(k, passed=False, **fields) for k in range(200)]) == []
    assert engine.status() == []


def test_late_rows_fold_without_moving_time_and_very_late_ones_only_count() -> None:
    engine = Engine([rule()])
    engine.fold([row(k) for k in range(60 * 72)])
    now = 60 * 72
    engine.fold([row(now + k, minute=k, judged_at=minute(now + k)) for k in range(5)])
    (status,) = engine.status()
    assert status.too_late == 5
    before = status.n_eff
    engine.fold([row(now + 9, minute=now - 60, judged_at=minute(now + 9))])
    (status,) = engine.status()
    assert (status.too_late, status.n_eff) == (5, before + 1)


def test_a_producers_fast_clock_does_not_move_the_watermark() -> None:
    engine = Engine([rule()])
    engine.fold(verdicts([0.95] * 100, seed=10))
    wild = row(100, minute=100 + 60 * 24 * 365, judged_at=minute(100))
    assert engine.fold([wild, *verdicts([0.95] * 100, seed=11, first=101)]) == []
    (status,) = engine.status()
    assert status.too_late == 0


def test_each_app_and_judge_id_is_a_series_of_its_own() -> None:
    engine = Engine([rule()])
    engine.fold([row(k, app=app) for k in range(50) for app in ("shop", "bank")])
    engine.fold([row(k, judge_id=JudgeId("lexical@111111111111")) for k in range(50, 60)])
    assert [(status.key.app, status.key.judge_id[-1]) for status in engine.status()] == [
        ("bank", "0"),
        ("shop", "0"),
        ("shop", "1"),
    ]
    events = engine.fold([row(k, app="bank", passed=False) for k in range(60, 120)])
    assert [event.series.app for event in events] == ["bank"]


def test_the_budget_of_an_app_is_shared_by_its_rules_and_groups() -> None:
    engine = Engine([rule(), rule(name="answers", judge="relevance"), rule(name="elsewhere", app="bank")])
    engine.fold([row(0)])
    assert [status.alarm_hours for status in engine.status()] == [1440]
    grouped = Engine([rule(group_by=("category",))])
    for k in range(5):
        grouped.fold([row(k, category=f"c{k}")])
    assert {status.alarm_hours for status in grouped.status()} == {5 * 720}
    grouped.fold([row(9, category="c0", judge_id=JudgeId("lexical@111111111111"))])
    assert {status.alarm_hours for status in grouped.status()} == {5 * 720}, "a new judge takes the old one's part"


def test_two_rules_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="give every rule its own name"):
        Engine([rule(), rule(judge="other")])


def test_a_group_without_end_is_bounded_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracejudge.alerts.series.watched.MAX_SLICES_PER_RULE", 3)
    engine = Engine([rule(group_by=("version",))])
    engine.fold([row(k, version=f"v{k}") for k in range(10)])
    assert len(engine.status()) == 3
    assert engine.unwatched == 7


def test_a_series_without_rows_for_a_month_is_forgotten_and_frees_its_part() -> None:
    engine = Engine([rule(group_by=("version",), no_data_after="never")])
    engine.fold([row(0, version="v1")])
    engine.fold([row(k, version="v2", minute=60 * 24 * k) for k in range(1, 40)])
    engine.tick(minute(60 * 24 * 40))
    assert [status.key.group for status in engine.status()] == [(("version", "v2"),)]
    assert [status.alarm_hours for status in engine.status()] == [720]
    names = [snapshot.state["kind"] for snapshot in engine.snapshot(changed_only=True)]
    assert names.count("retired") == 1


def test_a_changed_or_removed_rule_closes_its_alert_and_says_so() -> None:
    engine = Engine([rule()])
    (fired,) = engine.fold([row(k, passed=k < 100) for k in range(160)])
    taken = engine.snapshot()
    for rules, what in (([rule(minimum=0.5)], "changed"), ([], "removed")):
        later = Engine(rules)
        (closed,) = later.restore(taken)
        assert closed.kind == "resolved"
        assert what in closed.summary
        assert closed.evidence["fired_event_id"] == fired.event_id
        assert later.status() == []
        assert [snapshot.state["kind"] for snapshot in later.snapshot(changed_only=True)] == ["retired"]
    same = Engine([rule(severity="page", false_alarms="1 per 7d")])
    assert same.restore(taken) == []
    assert only_state(same) == "firing"


def test_many_invalid_rows_beside_a_fall_are_said_with_the_worst_case_band() -> None:
    engine = Engine([rule()])
    engine.fold([row(k, passed=None if k % 3 == 0 else True) for k in range(200)])
    (fired,) = engine.fold([row(200 + k, passed=None if k % 3 == 0 else False) for k in range(60)])
    coverage: Any = fired.evidence["coverage_low"]
    assert coverage["low"] <= coverage["high"]
    assert "coverage is low" in fired.summary


def test_hostile_names_cannot_steer_a_terminal_or_forge_a_line() -> None:
    rows = [row(k, passed=k < 100, app="shop\x1b[2J\nfaithfulness of bank is fine") for k in range(160)]
    (event,) = Engine([rule()]).fold(rows)
    assert event.summary.isprintable()


@pytest.mark.parametrize("probability", [1e-200, 1e-320, 0.0, -1.0, 1.5, math.nan, math.inf])
def test_a_row_of_an_impossible_weight_is_counted_and_changes_nothing_else(probability: float) -> None:
    good, fall = verdicts([0.95] * 100, seed=12), verdicts([0.5] * 400, seed=13, first=101)
    plain, engine = Engine([rule()]), Engine([rule()])
    expected = plain.fold([*good, row(100, passed=None), *fall])
    assert kinds(expected) == ["firing"]
    told = engine.fold([*good, row(100, inclusion_probability=probability), *fall])
    assert kinds(told) == ["firing"]
    assert told[0].event_id == expected[0].event_id
    (status,) = engine.status()
    assert status.unusable == 1
    assert status.n_eff == pytest.approx(plain.status()[0].n_eff)
    again = Engine([rule()])
    again.restore(engine.snapshot())
    assert again.status() == engine.status()


@pytest.mark.parametrize("probability", [1e-3, 1e-6, 1e-7])
@pytest.mark.parametrize("passed", [True, False])
@pytest.mark.parametrize("heavy", [0, 1, 5, 100, 101, 600])
def test_one_heavy_row_silences_no_series(probability: float, passed: bool, heavy: int) -> None:
    engine = Engine([rule()])
    rows = verdicts([0.95] * 100 + [0.3] * 400 + [0.95] * 600 + [0.3] * 400, seed=14)
    rows[heavy] = replace(
        rows[heavy],
        outcome=Outcome.PASSED if passed else Outcome.FAILED,
        score=float(passed),
        inclusion_probability=probability,
    )
    events = engine.fold(rows)
    fired = [event.at for event in events if event.kind == "firing"]
    assert any(minute(100) < at < minute(300) for at in fired)
    assert any(minute(1100) < at < minute(1300) for at in fired)
    assert only_state(engine) == "firing"
    (status,) = engine.status()
    assert status.n_eff > 500
    json.dumps([event.evidence for event in events], allow_nan=False)


def test_sums_written_before_effective_samples_had_their_own_weights_are_read() -> None:
    older = Sums.from_state([40, 30, 80.0, 160.0, 60.0, 120.0])
    assert older.n_eff == 40
    assert Sums.from_state(list(older)) == older
    assert older.plus(passed=True, weight=2.0, trimmed=1.0).n_eff_since(older) == 1
