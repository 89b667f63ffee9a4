"""A judge that moves right after its first round is told by its flips, and is not learned as it is now."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from datetime import timedelta

import pytest

from tests.support.verdicts import row
from tests.unit.test_alerts_judge_drift import JUDGE, RULE, START, TRUTH, judged, kinds
from tracejudge.alerts import AlertEvent, DriftPolicy, Engine
from tracejudge.alerts.actions import Action
from tracejudge.alerts.judges.drift import JudgeDrift
from tracejudge.alerts.judges.flips import TOLD_AT, sign_test
from tracejudge.alerts.notifiers.formats import told
from tracejudge.alerts.notifiers.terminal import line
from tracejudge.alerts.telling.told import evidence_lines
from tracejudge.anchors import AnchorRound

STRICTER = [case for case in TRUTH if TRUTH[case]][:26]


def again(engine: Engine, policy: DriftPolicy | None = None) -> Engine:
    """Another process that goes on from what this one wrote."""
    taken = [type(s)(s.name, json.loads(json.dumps(s.state))) for s in engine.snapshot()]
    other = Engine([RULE], drift=policy)
    assert other.restore(taken) == []
    return other


def moved_at_once(policy: DriftPolicy | None = None) -> tuple[Engine, AlertEvent]:
    engine = Engine([RULE], drift=policy)
    assert engine.fold_round(judged(-3)) == []
    (event,) = engine.fold_round(judged(-2, STRICTER))
    return engine, event


def action(verb: str, event: AlertEvent) -> Action:
    at = START - timedelta(days=1.5)
    return Action(
        action_id="a",
        verb=verb,  # type: ignore[arg-type]
        matchers={"event_id": event.event_id},
        start=START - timedelta(days=9),
        at=at,
        by="ann",
    )


@pytest.mark.parametrize(("failed", "passed", "p"), [(0, 0, 1.0), (11, 0, 2 / 2**11), (0, 3, 0.25), (2, 2, 1.0)])
def test_the_sign_test_is_exact(failed: int, passed: int, p: float) -> None:
    assert sign_test(failed, passed) == pytest.approx(p)


def test_a_judge_that_moves_at_its_second_round_is_told_in_words() -> None:
    engine, event = moved_at_once()
    assert event.kind == "judge_drift"
    assert event.summary == (
        "judge lexical moved: 26 of 100 anchors changed from passed to failed, 0 from failed to passed; on 100 anchors "
        "it repeats its first verdict on 74 % (65-82 %), and passes 24 % of them instead of 50 %; a steady judge is "
        "reported wrongly in fewer than 1 of 500 cases"
    )
    assert (event.evidence["now_failed"], event.evidence["now_passed"], event.heuristic) == (26, 0, True)
    standing = engine.judges.standing(JUDGE)
    assert standing is not None
    assert (standing.moved, standing.event_id) == (True, event.event_id)
    assert [(one.state, one.alert_event_id) for one in engine.judges.status(now=None)] == [("firing", event.event_id)]
    assert [e for day in range(5) for e in engine.fold_round(judged(day, STRICTER))] == [], "said once, never learned"
    back = [e for day in range(5, 9) for e in engine.fold_round(judged(day))]
    assert kinds(back) == ["judge_steady"]
    assert back[0].evidence["fired_event_id"] == event.event_id
    assert kinds(engine.fold_round(judged(9, STRICTER))) == ["judge_drift"], "and the agreement is known by now"


def test_whoever_is_told_of_a_judge_that_moved_is_told_what_to_do() -> None:
    _, event = moved_at_once()
    means, step = evidence_lines(event)
    assert means.startswith("meaning: the judge judges frozen traces differently")
    name = dict(event.series.group)["anchors"].partition("@")[0]
    assert f"`tracejudge anchors show {name}`" in step
    assert f"`tracejudge alerts accept event_id={event.event_id}`" in step
    assert "pin the judge's model" in step
    assert all(one in told(event) for one in (means, step)), "whole in a channel's message"
    assert line(event).endswith(step), "and on the terminal"


def test_ten_flips_one_way_are_not_enough_and_few_verdicts_do_not_make_it_steady() -> None:
    drift = JudgeDrift()
    drift.fold(judged(0))
    assert drift.fold(judged(1, STRICTER[:10])) == []
    drift = JudgeDrift()
    drift.fold(judged(0))
    assert kinds(drift.fold(judged(1, STRICTER[:11]))) == ["judge_drift"]
    assert drift.fold(judged(2, invalid=list(TRUTH)[:60])) == []
    assert kinds(drift.fold(judged(3))) == ["judge_steady"]


def unsure(seed: int, day: int) -> AnchorRound:
    """A third of the verdicts is decided by the toss of a coin, in the first round as in any other."""
    rng = random.Random(f"{seed}:{day}")
    return judged(day, [case for k, case in enumerate(TRUTH) if k % 3 == 0 and rng.random() < 0.5])


def test_an_unsure_judge_is_not_told_of_more_often_than_stated() -> None:
    told = 0
    for seed in range(200):
        drift = JudgeDrift()
        told += sum(event.kind == "judge_drift" for day in range(4) for event in drift.fold(unsure(seed, day)))
    assert told <= 200 * 2 * TOLD_AT + 1  # 0.4 expected at most, beside the promise of the learned series


def test_it_goes_on_exactly_where_it_was_and_older_snapshots_read() -> None:
    rounds = [judged(0), *(judged(day, STRICTER) for day in range(1, 4)), *(judged(day) for day in range(4, 7))]
    whole = parts = Engine([RULE])
    events: list[AlertEvent] = []
    told: list[AlertEvent] = []
    for one in rounds:
        events += whole.fold_round(one)
    parts = Engine([RULE])
    for one in rounds:
        told += parts.fold_round(one)
        parts = again(parts)
    assert told == events
    assert kinds(told) == ["judge_drift", "judge_steady"]
    older = parts.snapshot()
    for snapshot in older:
        snapshot.state.get("judge", {}).pop("flips", None)
    assert Engine([RULE]).restore(older) == []


@pytest.mark.parametrize("verb", ["accept", "dismiss"])
def test_a_person_closes_it(verb: str) -> None:
    engine, event = moved_at_once()
    (closed,) = engine.apply(action(verb, event))
    assert (closed.kind, closed.evidence["fired_event_id"]) == ("judge_steady", event.event_id)
    assert [e for day in range(4) for e in engine.fold_round(judged(day, STRICTER))] == []
    standing = engine.judges.standing(JUDGE)
    assert standing is not None
    assert (standing.moved, standing.now.value) == (False, 1.0 if verb == "accept" else 0.74)


def test_an_alert_waits_for_it_and_is_told_when_it_is_steady() -> None:
    hold = DriftPolicy(on_judge_drift="hold")
    engine, _ = moved_at_once(hold)
    (held,) = engine.fold([row(k, passed=k < 100) for k in range(140)])
    assert held.evidence["held"] is True
    assert "its judge moved: 26 of 100 anchors changed from passed to failed" in held.summary
    events: Sequence[AlertEvent] = again(engine, hold).fold_round(judged(1))
    assert kinds(events) == ["judge_steady", "firing"]
    assert (events[1].event_id, "held" in events[1].evidence) == (held.event_id, False)


def test_a_given_agreement_closes_what_the_flips_told() -> None:
    engine, event = moved_at_once()
    other = Engine([RULE], drift=DriftPolicy(agreement=0.9))
    (closed,) = other.restore(engine.snapshot())
    assert (closed.kind, closed.evidence["fired_event_id"]) == ("judge_steady", event.event_id)
    assert closed.evidence["closed_because"] == "rule_changed"
    standing = other.judges.standing(JUDGE)
    assert standing is None or not standing.moved
