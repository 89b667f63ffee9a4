"""A judge that moved is told by its anchors; the product's alerts say so, or wait."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from tests.support.verdicts import row, verdicts
from tracejudge.alerts import JUDGE_DRIFT_RULE, AlertEvent, DriftPolicy, Engine, MinimumRule
from tracejudge.alerts.actions import Action
from tracejudge.alerts.judges.drift import JudgeDrift
from tracejudge.alerts.judges.held import LONGEST_HOLD
from tracejudge.anchors import AnchorRound, Verdict
from tracejudge.scores import JudgeId

START = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
JUDGE = JudgeId("lexical@000000000000")
TRUTH = {f"case-{k:03d}": k % 2 == 0 for k in range(100)}


def judged(
    day: float, flipped: Sequence[str] = (), *, invalid: Sequence[str] = (), labels: bool = False, **fields: Any
) -> AnchorRound:
    """A round `day` days after START in which the verdicts on `flipped` are not what they were."""
    at = START + timedelta(days=day)
    verdicts = {
        case: Verdict(None if case in invalid else passed != (case in flipped), passed if labels else None)
        for case, passed in TRUTH.items()
    }
    values: dict[str, Any] = {
        "set_id": "golden@1", "judge_name": "lexical", "judge_id": JUDGE, "round_at": at, "cause": "schedule",
        "finished_at": at + timedelta(minutes=2), "verdicts": verdicts, "heuristic": True,
    }  # fmt: skip
    return AnchorRound(**{**values, **fields})


def noisy(day: float, share: float, seed: int, **fields: Any) -> AnchorRound:
    rng = random.Random(f"{seed}:{day}")
    return judged(day, [case for case in TRUTH if rng.random() < share], **fields)


def kinds(events: Sequence[AlertEvent]) -> list[str]:
    return [event.kind for event in events]


def test_a_judge_that_says_the_same_again_is_silent_and_one_that_moved_is_told_in_words() -> None:
    drift = JudgeDrift()
    events = [event for day in range(10) for event in drift.fold(noisy(day, 0.02, 1))]
    assert events == []
    assert drift.fold(judged(9)) == []  # an older round, or the same again: nothing
    (event,) = drift.fold(judged(10, [c for c in TRUTH if TRUTH[c]][:22], model_reported="m-2"), open_alerts=["e-1"])
    assert (event.kind, event.severity, event.series.rule) == ("judge_drift", "ticket", JUDGE_DRIFT_RULE)
    told = "judge lexical moved: on 100 anchors it repeats its first verdict on 74 % (65-82 %), 92 % before, and "
    assert event.summary.startswith(told + "passes 28 % of them instead of 54 %")
    assert event.evidence["open_alerts"] == ["e-1"]
    standing = drift.standing(JUDGE)
    assert standing is not None
    assert standing.moved
    assert standing.event_id == event.event_id
    back = [event for day in range(11, 16) for event in drift.fold(noisy(day, 0.02, 1))]
    assert kinds(back) == ["judge_steady"]
    assert back[0].evidence["fired_event_id"] == event.event_id


def test_the_promise_holds_for_judges_that_are_unsure_of_some_anchors() -> None:
    """A tenth of the anchors is decided by the toss of a coin each time: 8 judges watched for 60 days."""
    fired = 0
    for seed in range(8):
        drift = JudgeDrift()
        for day in range(60):
            rng = random.Random(f"{seed}:{day}")
            unsure = [case for k, case in enumerate(TRUTH) if k % 10 == 0 and rng.random() < 0.5]
            fired += sum(event.kind == "judge_drift" for event in drift.fold(judged(day, unsure)))
    assert fired <= 8 * 60 / 30 / 4  # promised: one in 30 days at most


def test_a_given_agreement_needs_no_learning() -> None:
    drift = JudgeDrift(DriftPolicy(agreement=0.9))
    drift.fold(judged(0))
    (event,) = drift.fold(judged(1, list(TRUTH)[:30]))
    assert event.kind == "judge_drift"


def test_people_are_a_measure_of_their_own() -> None:
    drift = JudgeDrift()
    assert [e for day in range(5) for e in drift.fold(noisy(day, 0.1, 3, labels=True))] == []
    events = drift.fold(judged(5, list(TRUTH)[:45], labels=True))
    assert [dict(event.series.group)["against"] for event in events] == ["reference", "labels"]
    assert "on 100 anchors it agrees with people on 55 %" in events[1].summary
    assert len({status.key for status in drift.status(now=None)}) == 2


def test_verdicts_that_could_not_be_had_are_no_disagreement() -> None:
    drift = JudgeDrift()
    events = [e for day in range(6) for e in drift.fold(judged(day, invalid=list(TRUTH)[: 60 * (day % 2)]))]
    assert events == []


def test_it_goes_on_exactly_where_it_was() -> None:
    rounds = [noisy(day, 0.02 if day < 8 else 0.2, 5, labels=True) for day in range(14)]
    whole, parts = Engine([]), Engine([])
    events = [event for one in rounds for event in whole.fold_round(one)]
    told: list[AlertEvent] = []
    for one in rounds:
        told += parts.fold_round(one)
        taken = [type(s)(s.name, json.loads(json.dumps(s.state))) for s in parts.snapshot()]
        parts = Engine([])
        assert parts.restore(taken) == []
    assert told == events
    assert "judge_drift" in kinds(told)
    assert parts.status() == whole.status()


def test_an_accepted_judge_is_held_against_what_it_says_now() -> None:
    engine = Engine([])
    for day in range(5):
        engine.fold_round(judged(day))
    half = list(TRUTH)[::2]
    (event,) = engine.fold_round(judged(5, half))
    action = Action(
        action_id="a",
        verb="accept",
        matchers={"event_id": event.event_id},
        start=START,
        at=START + timedelta(days=5.5),
        by="ann",
    )
    (closed,) = engine.apply(action)
    assert (closed.kind, closed.evidence["closed_because"]) == ("judge_steady", "accepted")
    assert closed.summary == "judge lexical: accepted as it judges now, says ann"
    assert [e for day in range(6, 12) for e in engine.fold_round(judged(day, half))] == []
    (standing,) = [engine.judges.standing(JUDGE)]
    assert standing is not None
    assert standing.now.value == 1.0


RULE = MinimumRule(name="quality", judge="lexical", minimum=0.8)


def moved_engine(policy: DriftPolicy) -> Engine:
    engine = Engine([RULE], drift=policy)
    for day in range(-5, 0):
        engine.fold_round(judged(day))
    assert kinds(engine.fold_round(judged(-0.5, list(TRUTH)[:30]))) == ["judge_drift"]
    return engine


def test_a_quality_alert_says_that_its_judge_moved() -> None:
    engine = moved_engine(DriftPolicy())
    (event,) = engine.fold([row(k, passed=k < 100) for k in range(140)])
    assert event.kind == "firing"
    assert "; its judge moved: on 100 anchors it repeats its first verdict on 70 %" in event.summary
    judge = event.evidence["judge"]
    assert isinstance(judge, dict)
    assert (judge["state"], judge["n"]) == ("moved", 100)
    assert "held" not in event.evidence


def test_a_quality_alert_of_a_steady_judge_has_that_in_its_evidence() -> None:
    engine = Engine([RULE])
    for day in range(-5, 0):
        engine.fold_round(judged(day))
    (event,) = engine.fold([row(k, passed=k < 100) for k in range(140)])
    judge = event.evidence["judge"]
    assert isinstance(judge, dict)
    assert (judge["state"], judge["agreement"], judge["n"]) == ("steady", 1.0, 100)
    assert "judge moved" not in event.summary


def test_a_held_alert_is_told_when_the_judge_is_steady_again() -> None:
    engine = moved_engine(DriftPolicy(on_judge_drift="hold"))
    (held,) = engine.fold([row(k, passed=k < 100) for k in range(140)])
    assert held.evidence["held"] is True
    taken = engine.snapshot()
    engine = Engine([RULE], drift=DriftPolicy(on_judge_drift="hold"))
    engine.restore(taken)
    events = [event for day in range(1, 6) for event in engine.fold_round(judged(day))]
    assert kinds(events) == ["judge_steady", "firing"]
    assert events[1].event_id == held.event_id
    assert "held" not in events[1].evidence
    assert events[1].summary.endswith("; held back until its judge was steady again")
    (ended,) = engine.fold([row(k, passed=True) for k in range(140, 500)])
    assert (ended.kind, "held" in ended.evidence) == ("resolved", False)


def test_a_held_alert_that_ends_by_itself_was_never_told_of() -> None:
    engine = moved_engine(DriftPolicy(on_judge_drift="hold"))
    engine.fold([row(k, passed=k < 100) for k in range(140)])
    (ended,) = engine.fold([row(k, passed=True) for k in range(140, 500)])
    assert (ended.kind, ended.evidence["held"]) == ("resolved", True)
    assert kinds([event for day in range(1, 6) for event in engine.fold_round(judged(day))]) == ["judge_steady"]


HOLD = DriftPolicy(on_judge_drift="hold")


def grown(engine: Engine) -> list[AlertEvent]:
    """An alert of a small fall, which grows into a page."""
    rates = [0.97] * 500 + [0.93] * 1200 + [0.7] * 300
    return engine.fold(verdicts(rates, seed=5))


def test_a_held_alert_that_grew_into_a_page_meanwhile_is_told_as_one() -> None:
    rule = MinimumRule(name="quality", judge="lexical", minimum=0.95, severity="page", heuristic_may_page=True)
    engine = Engine([rule], drift=HOLD)
    for day in range(-5, 0):
        engine.fold_round(judged(day))
    engine.fold_round(judged(-0.5, list(TRUTH)[:30]))
    held = grown(engine)
    assert [(event.kind, event.severity, event.evidence["held"]) for event in held] == [
        ("firing", "ticket", True),
        ("escalated", "page", True),
    ]
    taken = engine.snapshot()
    engine = Engine([rule], drift=HOLD)
    engine.restore(taken)
    told = [event for day in range(2, 8) for event in engine.fold_round(judged(day))]
    assert [event.event_id for event in told[1:]] == [event.event_id for event in held]
    assert not any("held" in event.evidence for event in told)


def test_no_alert_waits_for_ever_for_a_judge_that_never_gets_steady() -> None:
    engine = moved_engine(HOLD)
    (held,) = engine.fold([row(k, passed=k < 100) for k in range(140)])
    assert engine.tick(held.at + LONGEST_HOLD - timedelta(minutes=1))[:-1] == []  # silence of the judge, at most
    (told,) = [event for event in engine.tick(held.at + LONGEST_HOLD + timedelta(hours=5)) if event.kind == "firing"]
    assert told.event_id == held.event_id
    assert "held" not in told.evidence
    assert told.summary.endswith("; held back for 72 hours, as its judge had moved")
    assert told.evidence["held_until"] == (held.at + LONGEST_HOLD).isoformat()
    assert engine.tick(held.at + timedelta(days=9)) == []


def test_what_was_held_is_told_when_the_settings_hold_nothing_any_more() -> None:
    engine = moved_engine(HOLD)
    (held,) = engine.fold([row(k, passed=k < 100) for k in range(140)])
    again = Engine([RULE])
    assert again.restore(engine.snapshot()) == []
    (told,) = again.tick(held.at)
    assert (told.event_id, "held" in told.evidence) == (held.event_id, False)


def test_a_set_that_was_replaced_says_nothing_of_its_judge_any_more() -> None:
    drift = JudgeDrift()
    for day in range(5):
        drift.fold(judged(day))
    drift.fold(judged(5, list(TRUTH)[:30]))
    standing = drift.standing(JUDGE)
    assert standing is not None
    assert standing.moved
    (status,) = drift.status(now=None)
    assert status.alarm_hours == 30 * 24
    for day in range(6, 40):
        drift.fold(judged(day, set_id="golden@2"))
    standing = drift.standing(JUDGE)
    assert standing is not None
    assert (standing.moved, standing.set_id) == (False, "golden@2")
    assert {one.alarm_hours for one in drift.status(now=None)} == {30 * 24}, "nor does it take a part of the promise"


@pytest.mark.parametrize("policy", [DriftPolicy(agreement=0.9), DriftPolicy(false_alarms="1 per 90d")])
def test_another_setting_begins_anew_only_where_the_question_is_another(policy: DriftPolicy) -> None:
    engine = moved_engine(DriftPolicy())
    again = Engine([RULE], drift=policy)
    closed = again.restore(engine.snapshot())
    assert kinds(closed) == (["judge_steady"] if policy.agreement is not None else [])
    if closed:
        assert closed[0].evidence["closed_because"] == "rule_changed"


def test_a_change_of_the_judges_model_stands_beside_an_alert() -> None:
    engine = Engine([RULE])
    before = [row(k, model_reported="m-1", fingerprint="fp-1") for k in range(100)]
    (event,) = engine.fold(before + [row(k, passed=False, model_reported="m-2") for k in range(100, 140)])
    changed = event.evidence["model_changed"]
    assert isinstance(changed, dict)
    assert (changed["before"], changed["now"]) == (
        {"model": "m-1", "fingerprint": "fp-1"},
        {"model": "m-2", "fingerprint": ""},
    )
    steady = Engine([RULE])
    (event,) = steady.fold(before + [row(k, passed=False) for k in range(100, 140)])
    assert "model_changed" not in event.evidence


def test_what_waits_for_the_judge_is_sent_neither_again_nor_as_a_reminder() -> None:
    engine = Engine([RULE.model_copy(update={"remind_after": "1h"})], drift=DriftPolicy(on_judge_drift="hold"))
    for day in range(-5, 0):
        engine.fold_round(judged(day))
    engine.fold_round(judged(-0.5, list(TRUTH)[:30]))
    (held,) = engine.fold([row(k, passed=k < 100) for k in range(140)])
    told = engine.tick(held.at + timedelta(hours=5))
    assert [event.evidence.get("held") for event in told if event.kind == "reminder"] == [True]
