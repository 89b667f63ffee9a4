"""An alert that its judge's last round cannot answer waits for the round that it asks for, or says that it does."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.support.verdicts import row
from tests.unit.test_alerts_judge_drift import JUDGE, RULE, START, TRUTH, judged, kinds
from tracejudge.alerts import AlertEvent, DriftPolicy, Engine, MinimumRule, SeriesSnapshot
from tracejudge.alerts.actions import Action
from tracejudge.alerts.judges.answered import answered_from
from tracejudge.alerts.judges.held import LONGEST_HOLD, LONGEST_WAIT, HeldAlerts
from tracejudge.anchors import AnchorRound
from tracejudge.scores import Score

MARK = DriftPolicy(asked=frozenset({JUDGE}))
HOLD = replace(MARK, on_judge_drift="hold")
STRICTER = [case for case in TRUTH if TRUTH[case]][:30]
FALL = [row(k, passed=k < 100) for k in range(120)]
"""It begins with minute 100."""


def at_minute(number: float, flipped: Sequence[str] = (), **fields: Any) -> AnchorRound:
    return judged(number / 1440, flipped, **fields)


def watched(policy: DriftPolicy, *, last: float = -60, rules: Sequence[MinimumRule] = (RULE,)) -> Engine:
    """A judge whose agreement is known; its last round began `last` minutes after START."""
    engine = Engine(rules, drift=policy)
    for day in range(-5, 0):
        engine.fold_round(judged(day))
    engine.fold_round(at_minute(last))
    return engine


def restored(engine: Engine, policy: DriftPolicy = HOLD) -> Engine:
    """Another process that goes on from what this one wrote."""
    taken = [SeriesSnapshot(one.name, json.loads(json.dumps(one.state))) for one in engine.snapshot()]
    other = Engine(list(engine.rules.values()), drift=policy)
    assert other.restore(taken) == []
    return other


def only(events: Iterable[AlertEvent], kind: str = "firing") -> AlertEvent:
    (event,) = [one for one in events if one.kind == kind]
    return event


def judge_of(event: AlertEvent) -> dict[str, object]:
    told = event.evidence["judge"]
    assert isinstance(told, dict)
    return told


# ------------------------------------------------------------------ which round answers


def test_a_round_answers_that_began_half_way_through_the_fall_or_later() -> None:
    event = only(Engine([RULE]).fold(FALL))
    since = answered_from(event)
    assert since is not None
    began = FALL[100].judged_at
    assert event.evidence["judged_since"] == began.isoformat(timespec="milliseconds")
    assert since == began + (event.at - began) / 2


def test_what_counts_is_when_the_fall_was_judged_not_when_it_was_served() -> None:
    late = [replace(one, judged_at=one.judged_at + timedelta(hours=3)) for one in FALL]
    since = answered_from(only(Engine([RULE]).fold(late)))
    assert since is not None
    assert since > late[100].judged_at > late[100].event_time + timedelta(hours=3)


def test_only_alerts_about_verdicts_ask() -> None:
    event = only(Engine([RULE]).fold(FALL))
    for other in (
        replace(event, kind="resolved"),
        replace(event, evidence={**event.evidence, "measure": "latency_ms"}),
        replace(event, evidence={**event.evidence, "type": "volume"}),
    ):
        assert answered_from(other) is None
    older = replace(event, evidence={k: v for k, v in event.evidence.items() if k != "judged_since"})
    assert answered_from(older) == event.at, "of one that does not say more, only a round after it is sure"


@pytest.mark.parametrize("older", [True, False])
def test_it_is_known_after_a_restart_while_the_fall_is_suspected(older: bool) -> None:
    engine = Engine([RULE])
    engine.fold(FALL[:104])
    taken = json.loads(json.dumps([[one.name, one.state] for one in engine.snapshot()]))
    if older:
        for _, state in taken:
            if state["kind"] == "series":
                state["series"]["detector"].pop("starts_judged")
    again = Engine([RULE])
    again.restore(SeriesSnapshot(name, state) for name, state in taken)
    event, same = only(again.fold(FALL[104:])), only(engine.fold(FALL[104:]))
    assert event.event_id == same.event_id
    assert event == same or older
    assert (answered_from(event) == event.at) == older


# ------------------------------------------------------------------ marked


def test_an_alert_says_that_the_last_round_was_too_early_and_another_one_is_asked_for() -> None:
    event = only(watched(MARK).fold(FALL))
    assert "held" not in event.evidence
    assert (judge_of(event)["too_early"], judge_of(event)["round_asked"]) == (True, True)
    event = only(watched(DriftPolicy()).fold(FALL))
    assert (judge_of(event)["too_early"], judge_of(event)["round_asked"]) == (True, False)


def test_the_judge_that_the_round_finds_moved_is_told_with_the_alerts_that_asked() -> None:
    engine = watched(MARK)
    event = only(engine.fold(FALL))
    moved = only(engine.fold_round(at_minute(121, STRICTER)), "judge_drift")
    assert moved.evidence["open_alerts"] == [event.event_id]


# ------------------------------------------------------------------ held


def test_an_alert_waits_for_the_round_and_is_told_at_once_when_its_judge_is_steady() -> None:
    engine = watched(HOLD)
    held = only(engine.fold(FALL))
    assert (held.evidence["held"], judge_of(held)["too_early"]) == (True, True)
    assert held.evidence["waits_until"] == (held.at + LONGEST_WAIT).isoformat()
    told = only(restored(engine).fold_round(at_minute(121)))
    assert told.event_id == held.event_id
    assert not {"held", "waits_until"} & told.evidence.keys()
    assert told.summary.startswith(held.summary)
    assert told.summary.endswith("; held back for an anchor round: judge steady as of 2026-01-01 14:03 UTC")
    assert (judge_of(told)["state"], judge_of(told)["too_early"]) == ("steady", False)
    assert told.evidence["held_until"] == at_minute(123).round_at.isoformat()


def test_an_alert_whose_judge_the_round_finds_moved_goes_on_being_held() -> None:
    engine = watched(HOLD)
    held = only(engine.fold(FALL))
    moved, still = engine.fold_round(at_minute(121, STRICTER))
    assert (moved.kind, still.event_id, still.evidence["held"]) == ("judge_drift", held.event_id, True)
    assert moved.evidence["open_alerts"] == [held.event_id]
    assert "; its judge moved: " in still.summary
    assert "waits_until" not in still.evidence
    engine = restored(engine)
    assert [one for one in engine.tick(held.at + timedelta(hours=20)) if one.kind == "firing"] == []
    back = [event for day in range(1, 3) for event in engine.fold_round(judged(day))]
    assert kinds(back) == ["judge_steady", "firing"]
    assert back[1].summary.endswith("; held back until its judge was steady again")
    assert back[1].event_id == held.event_id


def test_a_round_from_before_the_fall_is_an_answer_only_where_it_finds_the_judge_moved() -> None:
    for flipped, expected in (((), []), (STRICTER, ["judge_drift", "firing"])):
        engine = watched(HOLD)
        held = only(engine.fold(FALL))
        early = at_minute(80, flipped, finished_at=held.at + timedelta(minutes=5))
        assert kinds(engine.fold_round(early)) == expected
    assert kinds(engine.fold_round(at_minute(121, STRICTER))) == []


def test_a_round_well_within_the_fall_is_the_answer_already() -> None:
    engine = Engine([RULE], drift=HOLD)
    for day in range(-5, 0):
        engine.fold_round(judged(day))
    engine.fold(FALL[:105])
    engine.fold_round(at_minute(105))
    event = only(engine.fold(FALL[105:]))
    assert "held" not in event.evidence
    assert (judge_of(event)["too_early"], judge_of(event)["round_asked"]) == (False, False)


@pytest.mark.parametrize("asked", [frozenset[str](), frozenset({"other@000000000000"})])
def test_where_no_round_can_come_nothing_waits(asked: frozenset[str]) -> None:
    assert "held" not in only(watched(replace(HOLD, asked=asked)).fold(FALL)).evidence


def test_a_judge_without_a_round_is_not_waited_for() -> None:
    assert "held" not in only(Engine([RULE], drift=HOLD).fold(FALL)).evidence


def test_a_judge_with_its_first_round_only_is_waited_for() -> None:
    engine = Engine([RULE], drift=HOLD)
    engine.fold_round(judged(-1))
    held = only(engine.fold(FALL))
    assert held.evidence["held"] is True
    assert kinds(restored(engine).fold_round(at_minute(121, STRICTER))) == ["judge_drift", "firing"]
    told = only(restored(engine).fold_round(at_minute(121, invalid=list(TRUTH))))
    assert told.summary.endswith("; held back for an anchor round: no result for its judge")


def test_it_waits_for_its_own_judge_by_whichever_set() -> None:
    engine = watched(HOLD)
    held = only(engine.fold(FALL))
    assert engine.fold_round(at_minute(121, judge_id="lexical@111111111111")) == []
    assert only(engine.fold_round(at_minute(122, set_id="golden@2"))).event_id == held.event_id


@pytest.mark.parametrize("late_h", [0.0, 0.4, 30.0])
def test_no_alert_waits_longer_than_it_may_and_the_deadline_is_not_the_ticks(late_h: float) -> None:
    engine = watched(HOLD)
    held = only(engine.fold(FALL))
    deadline = held.at + LONGEST_WAIT
    assert LONGEST_WAIT < LONGEST_HOLD
    assert [one for one in engine.tick(deadline - timedelta(seconds=1)) if one.kind == "firing"] == []
    told = only(restored(engine).tick(deadline + timedelta(hours=late_h)))
    assert told.event_id == held.event_id
    assert told.summary.endswith("; held back for 30 minutes for an anchor round of its judge, but none came")
    assert told.evidence["held_until"] == deadline.isoformat()
    assert judge_of(told)["too_early"] is True


def test_an_answer_before_the_deadline_counts_though_the_clock_is_past_it() -> None:
    engine = watched(HOLD)
    held = only(engine.fold(FALL))
    deadline = held.at + LONGEST_WAIT
    behind = engine.tick(deadline + timedelta(seconds=10), folded=deadline - timedelta(seconds=30))
    assert [one for one in behind if one.kind == "firing"] == []
    at = deadline - timedelta(seconds=5)
    assert "judge steady as of" in only(engine.fold_round(at_minute(121, finished_at=at))).summary


def rows_of(first: int, end: int) -> list[Score]:
    return [row(k, passed=False) for k in range(first, end)]


@pytest.mark.parametrize("ticks", [True, False])
@pytest.mark.parametrize("next_one", ["row", "round", "action"])
def test_a_process_that_comes_late_says_the_same(ticks: bool, next_one: str) -> None:
    """An answer from after the deadline is none, also for one that finds all of it in the store."""
    engine, events = watched(HOLD), []
    held = only(engine.fold(FALL))
    events += engine.fold(rows_of(120, 125))
    deadline = held.at + LONGEST_WAIT
    if ticks:
        events += engine.tick(deadline + timedelta(seconds=7))
    after = deadline + timedelta(minutes=1)
    if next_one == "row":
        events += engine.fold(rows_of(170, 171))
    elif next_one == "action":
        action = Action(action_id="a", verb="dismiss", matchers={"event_id": held.event_id}, start=START, at=after)
        events += engine.apply(action)
    events += engine.fold_round(at_minute(126, STRICTER, finished_at=after))
    told = only(events)
    assert told.evidence["held_until"] == deadline.isoformat()
    assert told.summary.endswith("but none came")
    last = ["resolved"] if next_one == "action" else []
    assert [kind for kind in kinds(events) if kind != "no_data"] == ["firing", *last, "judge_drift"]
    assert all("held" not in event.evidence for event in events)


def test_an_alert_that_ends_while_it_waits_was_never_told_of() -> None:
    engine = watched(HOLD)
    first = [row(k, passed=k < 100) for k in range(112)]
    held = only(engine.fold(first))
    action = Action(
        action_id="a", verb="dismiss", matchers={"event_id": held.event_id}, start=START, at=held.at + LONGEST_WAIT / 2
    )
    (ended,) = engine.apply(action)
    assert ended.evidence["held"] is True
    assert engine.fold_round(at_minute(130)) == []


def test_an_alert_that_grew_while_it_waited_is_told_with_its_growth() -> None:
    rule = MinimumRule(name="quality", judge="lexical", minimum=0.8, severity="page", heuristic_may_page=True)
    engine = watched(HOLD, rules=[rule.model_copy(update={"page_drop": 0.5})])
    held = engine.fold(FALL)
    assert kinds(held) == ["firing", "escalated"]
    assert [event.evidence["held"] for event in held] == [True, True]
    told = restored(engine).fold_round(at_minute(121))
    assert [event.event_id for event in told] == [event.event_id for event in held]
    assert not any("held" in event.evidence for event in told)
    assert kinds(engine.fold_round(at_minute(121, STRICTER))) == ["judge_drift", "firing"]
    later = restored(engine)
    told = [event for day in range(1, 3) for event in later.fold_round(judged(day))]
    assert [event.event_id for event in told if event.kind != "judge_steady"] == [event.event_id for event in held]


def test_what_an_older_release_held_is_held_as_before() -> None:
    engine = watched(HOLD)
    engine.fold_round(at_minute(-30, STRICTER))
    held = only(engine.fold(FALL))
    assert "waits_until" not in held.evidence, "the same as it was stored until then"
    engine = restored(engine)
    assert [one for one in engine.tick(held.at + LONGEST_WAIT * 2) if one.kind == "firing"] == []
    assert only(engine.tick(held.at + LONGEST_HOLD)).event_id == held.event_id


def test_settings_that_hold_nothing_any_more_let_it_go() -> None:
    engine = watched(HOLD)
    held = only(engine.fold(FALL))
    told = only(restored(engine, MARK).tick(held.at))
    assert (told.event_id, "held" in told.evidence, "waits_until" in told.evidence) == (held.event_id, False, False)


def test_those_whose_time_is_over_are_told_in_the_order_in_which_it_ended() -> None:
    event = only(Engine([RULE]).fold(FALL))
    held = HeldAlerts()
    held.begin(event)
    held.wait(replace(event, event_id="later", at=event.at + timedelta(days=1)))
    assert [one.event_id for one in held.let_go_overdue(event.at + LONGEST_HOLD)] == ["later", event.event_id]
    assert held.let_go_overdue(event.at + timedelta(days=9)) == []


def test_an_alert_that_ends_after_its_deadline_is_told_with_its_end_by_whoever_comes_late() -> None:
    engine = watched(HOLD)
    events = engine.fold([*FALL, *(row(k) for k in range(120, 1000))])
    assert [(event.kind, "held" in event.evidence) for event in events] == [
        ("firing", True),
        ("firing", False),
        ("resolved", False),
    ]
    assert len({event.event_id for event in events}) == 2


def test_of_several_sets_the_latest_round_answers() -> None:
    engine = watched(HOLD)
    engine.fold_round(judged(-2, set_id="golden@2"))
    engine.fold(FALL[:107])
    engine.fold_round(at_minute(107, set_id="golden@2"))
    assert "held" not in only(engine.fold(FALL[107:])).evidence
