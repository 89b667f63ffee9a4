"""A small fall opens a ticket at most, a large one pages, one that grows escalates once; and reminders."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import pytest

from tests.support.verdicts import minute, row, verdicts
from tracejudge.alerts import Action, AlertEvent, DriftRule, Engine, MinimumRule, Rule
from tracejudge.alerts.telling.incident import incident_key

PAGES: dict[str, Any] = {"name": "quality", "judge": "lexical", "severity": "page", "heuristic_may_page": True}


def told(rule: Rule, *stretches: tuple[int, float], seed: int = 1) -> list[AlertEvent]:
    rates = [rate for length, rate in stretches for _ in range(length)]
    return Engine([rule]).fold(verdicts(rates, seed=seed))


def said(events: list[AlertEvent]) -> list[tuple[str, str]]:
    return [(event.kind, event.severity) for event in events]


@pytest.mark.parametrize("seed", range(4))
def test_a_fall_of_one_point_opens_tickets_and_never_pages(seed: int) -> None:
    events = told(MinimumRule(minimum=0.95, **PAGES), (9000, 0.94), seed=seed)
    assert ("firing", "ticket") in said(events)
    assert all(event.severity == "ticket" for event in events)


@pytest.mark.parametrize("seed", range(3))
def test_with_a_smallest_drop_of_three_points_one_point_pages_nobody(seed: int) -> None:
    rule = DriftRule(type="drift", min_drop=0.03, **PAGES)
    events = told(rule, (6000, 0.95), (6000, 0.94), seed=seed)
    assert all(event.severity == "ticket" for event in events)


@pytest.mark.parametrize("seed", range(6))
def test_a_breakdown_pages_within_a_few_traces_of_the_alarm(seed: int) -> None:
    events = told(MinimumRule(minimum=0.95, **PAGES), (300, 0.99), (60, 0.3), seed=seed)
    fired = events[0]
    paged = next(event for event in events if event.severity == "page")
    assert paged.kind in ("firing", "escalated")
    assert paged.at - fired.at <= timedelta(minutes=6)
    assert sum(event.severity == "page" for event in events) == 1


def test_a_fall_that_grows_escalates_once_as_the_same_incident_and_resolves_as_a_page() -> None:
    events = told(MinimumRule(minimum=0.95, **PAGES), (500, 0.97), (1200, 0.93), (300, 0.7), (3000, 0.99), seed=5)
    assert said(events) == [("firing", "ticket"), ("escalated", "page"), ("resolved", "page")]
    assert len({incident_key(event) for event in events}) == 1
    escalated = events[1]
    hours, needed = escalated.evidence["page_evidence_hours"], escalated.evidence["alarm_hours"]
    assert isinstance(hours, float)
    assert isinstance(needed, float)
    assert hours >= needed
    assert "escalated to a page (a fall of about 3 points or more)" in escalated.summary
    assert escalated.evidence["false_alarms"] == "1 per 30d", "the promise of the rule is that of its pages"


def test_a_judge_without_a_model_escalates_to_nothing() -> None:
    rule = MinimumRule(minimum=0.95, **{**PAGES, "heuristic_may_page": False})
    rows = [row(k, passed=k < 100, flags=("heuristic",)) for k in range(200)]
    events = Engine([rule]).fold(rows)
    assert said(events) == [("firing", "ticket")]


@pytest.mark.parametrize("fields", [{"page_drop": 0.0}, {}])
def test_without_a_size_every_alarm_of_a_page_rule_pages(fields: dict[str, Any]) -> None:
    rule: Rule = MinimumRule(minimum=0.95, page_drop=0.0, **PAGES)
    if not fields:  # half of the smallest drop worth a page is within what the rule does not tell at all
        rule = DriftRule(type="drift", min_drop=0.05, page_drop=0.05, **PAGES)
    events = told(rule, (5000, 0.97), (400, 0.7), seed=2)
    assert ("firing", "page") in said(events)
    assert "escalated" not in [event.kind for event in events]


def test_evidence_for_a_page_survives_a_restart_to_the_last_bit() -> None:
    rule = MinimumRule(minimum=0.95, **PAGES)
    rows = verdicts([0.97] * 200 + [0.9] * 1500, seed=3)
    whole = Engine([rule]).fold(rows)
    assert "escalated" in [event.kind for event in whole]
    engine, parts = Engine([rule]), []
    for first in range(0, len(rows), 190):
        parts += engine.fold(rows[first : first + 190])
        taken = engine.snapshot()
        engine = Engine([rule])
        assert engine.restore(taken) == []
    assert parts == whole


def test_another_size_begins_its_evidence_anew_and_the_alert_goes_on() -> None:
    engine = Engine([MinimumRule(minimum=0.95, **PAGES)])
    engine.fold(verdicts([0.97] * 200 + [0.9] * 120, seed=3))
    taken = engine.snapshot()
    other = Engine([MinimumRule(minimum=0.95, page_drop=0.2, **PAGES)])
    assert other.restore(taken) == []
    assert [s.alert_event_id for s in other.status()] == [s.alert_event_id for s in engine.status()]


def reminded(**fields: Any) -> Engine:
    engine = Engine([MinimumRule(minimum=0.95, name="quality", judge="lexical", remind_after="4h", **fields)])
    rng = random.Random(1)
    fired = engine.fold([row(k, passed=rng.random() < (0.97 if k < 100 else 0.3)) for k in range(130)])
    assert said(fired) == [("firing", "ticket")]
    return engine


def test_an_open_alert_is_told_again_at_its_deadline_and_once_for_all_that_were_missed() -> None:
    engine = reminded()
    (status,) = engine.status()
    (early,) = [engine.tick(minute(130 + 60 * hours)) for hours in (1,)]
    assert early == []
    (first,) = engine.tick(minute(130 + 60 * 5))
    assert (first.kind, first.severity) == ("reminder", "ticket")
    assert first.evidence["fired_event_id"] == status.alert_event_id
    assert engine.tick(minute(130 + 60 * 5)) == []
    (late,) = [event for event in engine.tick(minute(130 + 60 * 22)) if event.kind == "reminder"]
    assert late.at - first.at == timedelta(hours=16)
    assert late.event_id != first.event_id


def test_nobody_is_reminded_of_what_was_acknowledged() -> None:
    engine = reminded()
    (status,) = engine.status()
    assert status.alert_event_id is not None
    action = Action(
        action_id="a", verb="acknowledge", matchers={"event_id": status.alert_event_id}, start=minute(140),
        at=minute(140),
    )  # fmt: skip
    assert engine.apply(action) == []
    again = Engine([*engine.rules.values()])
    again.restore(engine.snapshot())
    for one in (engine, again):
        assert [event.kind for event in one.tick(minute(130 + 60 * 20))] == []
        assert one.status()[0].state == "firing"


@pytest.mark.parametrize("fields", [{"remind_after": "2m"}, {"page_drop": 0.6}, {"remind_after": "soon"}])
def test_what_cannot_be_meant_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(fields))):
        MinimumRule(minimum=0.9, name="r", judge="lexical", **fields)
