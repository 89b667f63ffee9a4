"""Rules that group by anything a trace says, and attributes with more values than anybody can watch."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from tests.support.verdicts import row
from tracejudge.alerts import AlertEvent, Engine, MinimumRule, SeriesStatus
from tracejudge.alerts.notifiers.formats import alertmanager_body
from tracejudge.alerts.rules.slices import LONGEST_VALUE, OF_SCORE, OF_TRACE
from tracejudge.scores import JudgeId, Score, TraceFacts, TraceKey
from tracejudge.store.queries import GROUP_FIELDS, TRACE_FIELDS


def rule(*fields: str, **more: Any) -> MinimumRule:
    return MinimumRule(name="by", judge="lexical", minimum=0.9, group_by=fields, **more)


def said(rows: list[Score], **values: str) -> dict[TraceKey, TraceFacts]:
    named = {name.replace("__", "."): value for name, value in values.items()}
    return {one.key: TraceFacts(None, named) for one in rows}


def slices(series: list[SeriesStatus]) -> list[str]:
    return [value for one in series for _, value in one.key.group]


def by_tenant(rows: list[Score]) -> dict[TraceKey, TraceFacts]:
    """Trace k is of tenant k."""
    return {one.key: TraceFacts(None, {"tags.tenant": one.trace_id}) for one in rows}


def test_a_rule_groups_by_what_only_the_trace_says() -> None:
    engine = Engine([rule("tags.tenant", "category")])
    assert (engine.asks_traces, engine.trace_fields) == (True, ("tags.tenant",))
    good = [row(k, category="returns") for k in range(100)]
    bad = [row(100 + k, passed=False, category="returns", minute=k) for k in range(100)]
    silent = [row(300, category="returns")]
    events = engine.fold(
        [*good, *bad, *silent], facts={**said(good, tags__tenant="acme"), **said(bad, tags__tenant="b")}
    )
    (event,) = (event for event in events if event.kind == "firing")
    assert event.series.group == (("tags.tenant", "b"), ("category", "returns"))
    assert "[tags.tenant b, category returns]" in event.summary
    assert [one.key.group[0][1] for one in engine.status()] == ["", "acme", "b"]


def test_the_fields_are_those_that_the_store_can_slice_by() -> None:
    assert OF_TRACE == TRACE_FIELDS
    assert set(OF_SCORE) - {"stratum"} <= set(GROUP_FIELDS)


@pytest.mark.parametrize("field", ["user_id", "session_id", "trace_id", "tags.", "query", "app", ""])
def test_what_names_one_person_or_nothing_is_refused_with_what_can_be_written(field: str) -> None:
    with pytest.raises(ValidationError, match="tag"):
        rule(field)


def values_without_end(engine: Engine, *, first: int, count: int, passed: bool = True) -> list[AlertEvent]:
    rows = [row(k, passed=passed) for k in range(first, first + count)]
    return engine.fold(rows, facts=by_tenant(rows))


def test_further_values_are_one_series_together_and_an_event_says_so_once() -> None:
    engine = Engine([rule("tags.tenant", max_series=3)])
    (told,) = values_without_end(engine, first=0, count=60)
    assert (told.kind, told.severity, told.at) == ("more_values", "ticket", row(3).judged_at)
    assert told.evidence == {"rule": "by", "group_by": ["tags.tenant"], "max_series": 3}
    assert "raise max_series" in told.summary
    assert slices(engine.status()) == ["(other)", "t-000000", "t-000001", "t-000002"]
    assert engine.unwatched == 0
    successor = Engine([rule("tags.tenant", max_series=3)])
    successor.restore(engine.snapshot())
    events = values_without_end(successor, first=60, count=60, passed=False)
    assert [event.kind for event in events] == ["firing"], "of the values that nobody watches one by one"
    assert events[0].series.group == (("tags.tenant", "(other)"),)
    assert len(successor.status()) == 4


def test_other_values_of_one_application_leave_room_for_those_of_another() -> None:
    engine = Engine([rule("category", max_series=2)])
    engine.fold([row(k, app=app, category=f"c{k}") for app in ("bank", "shop") for k in range(5)])
    assert slices(engine.status()) == ["(other)", "c0", "c1"] * 2


def test_a_new_judge_takes_the_places_of_the_old_one_where_all_are_taken() -> None:
    engine = Engine([rule("category", max_series=2)])
    engine.fold([row(k, category=f"c{k}") for k in range(5)])
    new = JudgeId("lexical@111111111111")
    engine.fold([row(9 + k, category=f"c{k}", judge_id=new) for k in range(5)])
    found = [(one.key.judge_id == new, value) for one in engine.status() for _, value in one.key.group]
    assert found == [(new, value) for new in (False, True) for value in ("(other)", "c0", "c1")]


def test_values_are_cut_where_they_are_longer_than_a_key_should_be() -> None:
    engine, rows = Engine([rule("tags.note")]), [row(0), row(1)]
    engine.fold(rows, facts={one.key: TraceFacts(None, {"tags.note": "x" * 1000 + one.trace_id}) for one in rows})
    assert slices(engine.status()) == ["x" * LONGEST_VALUE]


def test_alertmanager_gets_names_of_labels_that_it_takes() -> None:
    rows = [row(k, passed=k < 100) for k in range(200)]
    events = Engine([rule("tags.cost-center")]).fold(rows, facts=said(rows, **{"tags__cost-center": "a b"}))
    (alert,) = alertmanager_body(events[0])
    assert alert["labels"]["slice_tags_cost_center"] == "a b"


def test_names_that_differ_in_punctuation_alone_keep_labels_of_their_own() -> None:
    rows = [row(k, passed=k < 100) for k in range(200)]
    fields = ("tags.cost-center", "tags.cost.center", "tags.cost_center")
    facts = {one.key: TraceFacts(None, dict(zip(fields, "abc", strict=True))) for one in rows}
    (alert,) = alertmanager_body(Engine([rule(*fields)]).fold(rows, facts=facts)[0])
    found = {name: value for name, value in alert["labels"].items() if name.startswith("slice_")}
    assert found == {
        "slice_tags_cost_center": "a",
        "slice_tags_cost_center_2": "b",
        "slice_tags_cost_center_3": "c",
    }


def test_values_without_number_fill_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the engine keeps to find series by is bounded as well, and bounding it changes nothing."""
    rows = [row(k, version=f"v{k % 40}", passed=k % 7 != 0) for k in range(400)]
    rule = MinimumRule(name="quality", judge="lexical", minimum=0.9, group_by=("version",), max_series=3)
    free = Engine([rule])
    expected = free.fold(rows)
    monkeypatch.setattr("tracejudge.alerts.series.routes._MOST", 5)
    bounded = Engine([rule])
    assert bounded.fold(rows) == expected
    assert len(bounded._routes) <= 5 < len(free._routes)
    assert bounded.status() == free.status()
