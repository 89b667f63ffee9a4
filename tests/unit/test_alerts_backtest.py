"""Back-tests and trials say what the engine would have said, and hold it against what people know."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from pydantic import ValidationError

from tests.support.verdicts import minute, row, verdicts
from tracejudge.alerts import Action, Engine, MinimumRule, ThresholdRule
from tracejudge.alerts.backtest import backtest
from tracejudge.alerts.trial import Expected, Stretch, Trial, TrialFile, run_trial
from tracejudge.alerts.watched_time import watched_time
from tracejudge.evidence.track_record import track_record

RULE = MinimumRule(name="quality", judge="lexical", minimum=0.8)
RATES = [0.95] * 1500 + [0.4] * 200 + [0.95] * 1500


def mark(start: datetime, end: datetime | None, **matchers: str) -> Action:
    return Action(action_id="m", verb="mark", matchers=matchers, start=start, end=end, at=start)


def test_it_says_what_the_engine_says() -> None:
    stream = verdicts(RATES, seed=1)
    found = backtest([RULE], iter(stream))
    assert found.events == tuple(Engine([RULE]).fold(stream))
    assert [event.kind for event in found.events] == ["firing", "resolved"]
    assert found.rows == len(stream)


def test_an_alert_within_a_marked_incident_is_no_false_one_and_has_a_delay() -> None:
    stream = verdicts(RATES, seed=1)
    found = backtest([RULE], stream, incidents=[mark(minute(1500), minute(1700), app="shop")])
    (place,), (incident,) = found.places, found.incidents
    assert (place.alerts, place.false_alarms) == (1, 0)
    assert place.days == pytest.approx(3199 / 1440)
    assert place.expected_false_alarms == pytest.approx(3199 / 1440 / 30)
    assert incident.alert == found.events[0]
    assert incident.delay_s is not None
    assert 0 < incident.delay_s < 3600


def test_old_answers_that_were_judged_at_once_are_held_against_marks_of_when_they_were_served() -> None:
    live = verdicts(RATES, seed=1)
    later = minute(9000)
    stream = [replace(one, judged_at=later + timedelta(milliseconds=k)) for k, one in enumerate(live)]
    incident = mark(minute(1500), minute(1700), app="shop")
    as_live, found = (backtest([RULE], rows, incidents=[incident]) for rows in (live, stream))
    assert found.events[0].at > later
    assert found.places[0].false_alarms == 0
    assert found.incidents[0].delay_s == pytest.approx(as_live.incidents[0].delay_s, abs=61)
    during = backtest([RULE], stream, incidents=[mark(minute(1600), None)])
    assert during.incidents[0].delay_s == 0.0
    later_one = replace(found.events[1], evidence={})
    assert track_record(later_one, found.events, [incident], watched=timedelta(days=60), promise_days=30.0).real == 1


def test_rows_of_1970_do_not_make_decades_of_watched_time() -> None:
    strays = [row(number + 9000, event_time=datetime(1970, 1, 21, number, tzinfo=timezone.utc)) for number in range(4)]
    found = backtest([RULE], [*verdicts([0.95] * 1441, seed=2), *strays])
    assert found.places[0].days == pytest.approx(1 + 3 / 24)
    assert found.places[0].expected_false_alarms == pytest.approx((1 + 3 / 24) / 30)


def test_a_gap_of_thirty_days_is_watched_and_a_longer_one_is_not() -> None:
    at = [minute(0), minute(30 * 1440), minute(61 * 1440), minute(62 * 1440)]
    assert watched_time((one, one) for one in at) == timedelta(days=31)
    assert watched_time([]) == timedelta()
    assert watched_time([(at[0], at[1]), (at[0], minute(9)), (at[2], at[3])]) == timedelta(days=31)


@pytest.mark.parametrize("incident", [mark(minute(100), minute(200)), mark(minute(1500), minute(1700), app="bank")])
def test_one_elsewhere_is_missed_and_the_alert_counts_as_false(incident: Action) -> None:
    found = backtest([RULE], verdicts(RATES, seed=1), incidents=[incident])
    assert found.places[0].false_alarms == 1
    assert (found.incidents[0].alert, found.incidents[0].delay_s) == (None, None)


def test_an_incident_that_begins_while_the_alert_is_open_is_told_already() -> None:
    found = backtest([RULE], verdicts(RATES, seed=1), incidents=[mark(minute(1600), None)])
    assert found.incidents[0].delay_s == 0.0
    assert found.incidents[0].alert == found.events[0]


def test_the_promise_is_shared_by_the_rules_of_a_place() -> None:
    other = MinimumRule(name="weekly", judge="lexical", minimum=0.7, false_alarms="1 per 10d")
    found = backtest([RULE, other], verdicts([0.95] * 1441, seed=2))
    assert found.places[0].expected_false_alarms == pytest.approx((1 / 30 + 1 / 10) / 2)


def test_nothing_stored_gives_nothing() -> None:
    found = backtest([RULE], [])
    assert (found.rows, found.events, found.places, found.incidents) == (0, (), (), ())


def trial(**fields: Any) -> Trial:
    return Trial.model_validate({"name": "t", **fields})


FALL = [{"hours": 30, "rate": 0.95}, {"hours": 6, "rate": 0.5}, {"hours": 40, "rate": 0.95}]


def test_a_trial_with_its_events_passes() -> None:
    expect = [
        {"rule": "quality", "kind": "firing", "after_h": 30, "before_h": 32},
        {"rule": "quality", "kind": "resolved", "after_h": 36},
    ]
    result = run_trial(trial(stretches=FALL, expect=expect), (RULE,))
    assert result.faults == ()
    assert result.hours[0] == pytest.approx(30.5, abs=0.5)


@pytest.mark.parametrize(
    ("expect", "fault"),
    [
        ([], "and was not expected"),
        (
            [{"rule": "other", "kind": "firing"}, {"rule": "quality", "kind": "resolved"}],
            "firing of other did not come",
        ),
        (
            [{"rule": "quality", "kind": "firing", "after_h": 33}, {"rule": "quality", "kind": "resolved"}],
            "after hour 33",
        ),
        ([{"rule": "quality", "kind": "firing"}] * 3, "did not come"),
    ],
)
def test_a_trial_with_other_events_says_what_came(expect: list[dict[str, Any]], fault: str) -> None:
    faults = run_trial(trial(stretches=FALL, expect=expect), (RULE,)).faults
    assert any(fault in line for line in faults), faults


def test_a_missing_event_puts_none_of_the_others_in_question() -> None:
    expect = [{"rule": "quality", "kind": "resolved"}]
    (fault,) = run_trial(trial(stretches=FALL, expect=expect), (RULE,)).faults
    assert fault.startswith("firing of quality came at hour 30")


def test_a_trial_may_look_at_some_of_the_rules_only() -> None:
    other = RULE.model_copy(update={"name": "other"})
    expect = [{"rule": "other", "kind": "firing"}, {"rule": "other", "kind": "resolved"}]
    assert run_trial(trial(stretches=FALL, expect=expect), (RULE, other)).faults != ()
    assert run_trial(trial(stretches=FALL, expect=expect, only=["other"]), (RULE, other)).faults == ()
    with pytest.raises(ValueError, match="only: 'othr' is not one of the rules 'quality', 'other'"):
        run_trial(trial(stretches=FALL, only=["othr"]), (RULE, other))


def test_a_judge_that_fails_is_no_fall() -> None:
    stretches = [{"hours": 30, "rate": 0.95}, {"hours": 20, "rate": 0.95, "invalid": 0.9}]
    assert run_trial(trial(stretches=stretches), (RULE,)).faults == ()


def test_a_trial_is_the_same_each_time_and_differs_by_seed() -> None:
    one, again = (run_trial(trial(stretches=FALL), (RULE,)) for _ in range(2))
    assert one == again
    assert run_trial(trial(stretches=FALL, seed=2), (RULE,)).hours != one.hours


def test_silence_that_fails_is_held_against_the_promise_for_so_long_a_time() -> None:
    other = MinimumRule(name="weekly", judge="lexical", minimum=0.7, false_alarms="1 per 10d")
    stretches = [{"hours": 600, "rate": 0.95, "per_hour": 4}, {"hours": 120, "rate": 0.5, "per_hour": 4}]
    result = run_trial(trial(stretches=stretches, seed=7), (RULE, other))
    assert result.faults != ()
    # Half of 1 in 30 days and half of 1 in 10 days, over 30 days.
    assert "in 720 hours of made-up traffic without a fall the rules promise at most 2 false alarms" in result.advice
    assert "this is seed 7" in result.advice
    alone = run_trial(trial(stretches=stretches, only=["quality"]), (RULE, other))
    assert "at most 0.5 false alarms" in alone.advice


def test_only_silence_that_a_promising_rule_broke_is_a_matter_of_chance() -> None:
    assert run_trial(trial(stretches=FALL[:1]), (RULE,)).advice == ""
    expect = [{"rule": "quality", "kind": "firing", "after_h": 33}]
    assert run_trial(trial(stretches=FALL, expect=expect), (RULE,)).advice == ""
    classic = ThresholdRule(name="classic", type="threshold", judge="lexical", below=0.8, window="1h")
    result = run_trial(trial(stretches=FALL), (classic,))
    assert result.faults != ()
    assert result.advice == ""


def test_a_stream_without_end_is_refused() -> None:
    endless = trial(stretches=[{"hours": 8000, "rate": 0.9, "per_hour": 1000}])
    with pytest.raises(ValueError, match="limit is 2000000"):
        run_trial(endless, (RULE,))


def test_a_file_without_tests_is_refused() -> None:
    with pytest.raises(ValidationError):
        TrialFile.model_validate({"tests": []})


def test_time_is_that_of_the_stream() -> None:
    result = run_trial(trial(stretches=FALL), (RULE,))
    assert result.events[0].at - result.events[1].at == timedelta(hours=result.hours[0] - result.hours[1])


def test_alerts_of_a_classic_threshold_are_counted_apart_from_what_is_promised() -> None:
    rows = [row(k, passed=k < 300) for k in range(500)]
    classic = ThresholdRule(type="threshold", name="classic", judge="lexical", below=0.9)
    found = backtest([MinimumRule(name="quality", judge="lexical", minimum=0.8), classic], rows)
    (place,) = found.places
    assert (place.alerts, place.unpromised) == (1, 1)
    assert place.expected_false_alarms == pytest.approx(place.days / 30)


def test_a_trial_may_expect_a_fall_to_grow_into_a_page() -> None:
    rule = MinimumRule(name="quality", judge="lexical", minimum=0.9, severity="page")
    wanted = [Expected(rule="quality", kind="firing", severity="ticket"), Expected(rule="quality", kind="escalated")]
    trial = Trial(
        name="it grows",
        stretches=(Stretch(hours=24, rate=0.95), Stretch(hours=12, rate=0.7)),
        expect=(*wanted[:1], Expected(rule="quality", kind="escalated", severity="page")),
    )
    assert run_trial(trial, (rule,)).faults == ()
    other = trial.model_copy(update={"expect": (Expected(rule="quality", kind="firing", severity="page"), wanted[1])})
    assert run_trial(other, (rule,)).faults == ("firing of quality is a ticket, expected a page",)


@pytest.mark.parametrize("field", ["category", "version", "tags.tenant", "model"])
def test_a_trial_tells_which_slice_of_its_traffic_fell(field: str) -> None:
    by = MinimumRule(name="by", judge="lexical", minimum=0.8, group_by=(field,))
    slices = [{"share": 0.3, "says": {field: "billing"}}, {"share": 0.3, "says": {field: "orders"}}]
    fallen = [{**slices[0], "rate": 0.4}, slices[1]]
    stretches = [{"hours": 24, "rate": 0.95, "slices": slices}, {"hours": 24, "rate": 0.95, "slices": fallen}]
    expect = [{"rule": "by", "kind": "firing", "group": {field: "billing"}, "after_h": 24, "before_h": 36}]
    assert run_trial(trial(stretches=stretches, expect=expect), (by,)).faults == ()
    wrong = [{**expect[0], "group": {field: "orders"}}]
    missing, unexpected = run_trial(trial(stretches=stretches, expect=wrong), (by,)).faults
    assert missing == f"firing of by ({field}=orders) did not come"
    assert unexpected.startswith(f"firing of by ({field}=billing) came at hour 2")


def test_what_a_stretch_says_is_of_all_its_traffic_and_a_slice_may_say_more() -> None:
    by = MinimumRule(name="by", judge="lexical", minimum=0.8, group_by=("language", "category"))
    says = {"language": "de", "category": "orders"}
    slices = [{"share": 0.5, "says": {"category": "billing"}, "rate": 0.4}]
    expect = [{"rule": "by", "kind": "firing", "group": {"language": "de", "category": "billing"}}]
    stretches = [{"hours": 12, "rate": 0.95, "says": says, "slices": slices}]
    assert run_trial(trial(stretches=stretches, expect=expect), (by,)).faults == ()


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        ({"slices": [{"share": 0.7, "says": {}}, {"share": 0.4, "says": {}}]}, "their shares come to 1.1"),
        ({"says": {"user_id": "u"}}, "is of one person or one trace"),
        ({"says": {"colour": "red"}}, "is nothing to group by"),
    ],
)
def test_traffic_that_cannot_be_is_refused(wrong: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValidationError, match=fault):
        Stretch.model_validate({"hours": 1, "rate": 0.9, **wrong})
