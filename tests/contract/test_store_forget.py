"""What was forgotten is in no table and in no index, stays out, and the books still add up."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from tracejudge.alerts.event import AlertEvent, SeriesKey
from tracejudge.scores import DeadLetter, Decision, JudgeCall, JudgeId, Label, TraceKey
from tracejudge.store import (
    Identity,
    RateQuery,
    Store,
    StoredFeedback,
    StoredPart,
    StoredTrace,
    TraceFilter,
)
from tracejudge.store.mutations import Mutations
from tracejudge.testing import make_score, make_trace
from tracejudge_sdk.trace import Feedback, TracePart

START = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
AT = START + timedelta(days=1)
DAY = RateQuery(start=START, end=START + timedelta(days=1))
PERSON = "u'1\\\"ü_%"
OURS = (3, 5)  # numbers of the person's traces


def fill(store: Store) -> None:
    """Ten traces, two of them by the person, and everything that hangs on them."""
    traces = [make_trace(i, user_id=PERSON if i in OURS else "somebody else") for i in range(10)]
    store.traces.insert([StoredTrace(trace=trace, ingested_at=START) for trace in traces])
    store.scores.insert([make_score(i, content_hash=f"hash-{i}", feedback=f"said of {i}") for i in range(10)])
    store.scores.insert([make_score(3, run_id="try-1"), make_score(3, judge_name="b", judge_id=JudgeId("b@1"))])
    for i in (3, 4):
        at = make_score(i).event_time
        common: dict[str, Any] = {"environment": "production", "app": "shop", "trace_id": f"t-{i:06d}"}
        store.labels.insert([Label(**common, criterion="c", value=1.0, note=f"note {i}", labelled_at=at)])
        said = Feedback(**common, feedback_id=f"f{i}", comment=f"comment {i}", event_time=at)
        store.feedback.insert([StoredFeedback(feedback=said, ingested_at=at)])
        part = TracePart(**common, event_time=at, query="part of a question")
        store.parts.insert([StoredPart(part=part, ingested_at=at)])
        store.calls.insert(
            [JudgeCall(**common, call_id=f"c{i}", judge_name="b", judge_id=JudgeId("b@1"), status="ok", started_at=at)]
        )
    for i in (3, 4):
        for table in ("cached_verdicts", "verdict_cache"):  # a release before may still write the second
            store.command(f"INSERT INTO {table} (content_hash, judge_id, verdict) VALUES ('hash-{i}', 'j', 'v')")
    series = SeriesKey(rule="r", environment="production", app="shop", judge_name="b", judge_id="b@1", group=())
    store.alert_events.insert(
        [
            AlertEvent(
                event_id="e", series=series, kind="firing", severity="page", heuristic=False, at=START, summary="fell",
                evidence={"worst_trace_ids": ["t-000003", "t-000004"]},
            )
        ]
    )  # fmt: skip
    letters = [
        b'{"trace_id": "t-000003", "event_time": "never"}',
        f'{{"user_id" : {__import__("json").dumps(PERSON)}, "cut off he'.encode(),
        b'{"trace_id":"t-000004"}',
        b"\xff\x00 no JSON at all",
    ]
    store.dead_letters.insert(
        [
            DeadLetter(source="q", partition=0, offset=i, key=None, value=value, reason="r", detail="d", at=START)
            for i, value in enumerate(letters)
        ]
    )
    store.minutes.rollup()


def everywhere(store: Store, text: str) -> list[str]:
    """Tables that hold the text in any column, whole or as a part."""
    columns = store.query(
        "SELECT table, name FROM system.columns WHERE database = currentDatabase() AND type LIKE '%String%'"
    )
    by_table: dict[str, list[str]] = {}
    for table, name in columns:
        by_table.setdefault(table, []).append(f"position(toString(`{name}`), {{text:String}}) > 0")
    return sorted(
        table
        for table, conditions in by_table.items()
        if store.query(f"SELECT 1 FROM `{table}` WHERE {' OR '.join(conditions)} LIMIT 1", {"text": text})
    )


def test_a_person_is_gone_from_every_table_and_nobody_else_is(contract_store: Store) -> None:
    fill(contract_store)
    assert "traces" in everywhere(contract_store, "t-000003")
    done = contract_store.forgetting.forget("user", PERSON, at=AT, reason="asked for it")
    assert done.traces == 2
    assert done.rows == {
        "alert_events": 1, "calls": 1, "dead_letters": 2, "feedback": 1, "labels": 1, "parts": 1, "scores": 4,
        "scores_by_judged": 3, "trace_index": 2, "traces": 2, "cached_verdicts": 2,
    }  # fmt: skip
    for number in OURS:
        assert everywhere(contract_store, f"t-{number:06d}") == []
        assert everywhere(contract_store, f"plan {number}") == []
    assert everywhere(contract_store, PERSON) == everywhere(contract_store, "hash-3") == []
    assert everywhere(contract_store, "said of 3") == everywhere(contract_store, "note 3") == []
    assert contract_store.traces.count(TraceFilter()) == 8
    assert contract_store.labels.of_trace("t-000004") != []
    assert contract_store.alert_events.get(["e"])[0].evidence == {"worst_trace_ids": ["forgotten", "t-000004"]}
    assert contract_store.calls.spent("b", START).calls == 2
    again = contract_store.forgetting.forget("user", PERSON, at=AT)
    assert (again.traces, again.total) == (0, 0)


def test_the_ledger_and_the_rates_add_up_without_the_forgotten(contract_store: Store) -> None:
    fill(contract_store)
    contract_store.forgetting.forget("trace", "t-000003", at=AT)
    lines = {line.judge_name: line for line in contract_store.ledger.equation(DAY.start, DAY.end)}
    assert (lines["lexical"].traces, lines["lexical"].passed) == (10, 9)
    assert lines["lexical"].decisions == {Decision.FORGOTTEN: 1}
    for rows in (
        contract_store.scores.buckets(replace(DAY, judge="lexical")),
        contract_store.minutes.buckets(replace(DAY, judge="lexical")),
    ):
        assert [(row.bucket.n, row.bucket.sum_ws) for row in rows] == [(9, 9.0)]


def test_a_trace_is_forgotten_in_one_app_alone_where_that_is_said(contract_store: Store) -> None:
    for app in ("shop", "desk"):
        contract_store.traces.insert([StoredTrace(trace=make_trace(1, app=app), ingested_at=START)])
    contract_store.forgetting.forget("trace", "t-000001", at=AT, app="shop")
    (left,) = contract_store.traces.get("t-000001")
    assert left.trace.app == "desk"
    asked = [Identity(TraceKey("production", app, "t-000001")) for app in ("shop", "desk")]
    assert contract_store.tombstones.forgotten(asked) == {asked[0].key}
    assert contract_store.tombstones.forgotten([]) == frozenset()


def test_what_was_stored_late_is_swept_away(contract_store: Store) -> None:
    fill(contract_store)
    assert contract_store.forgetting.sweep(at=AT).total == 0
    contract_store.forgetting.forget("user", PERSON, at=AT)
    # A batch that had been read before: it knows of no tombstone.
    contract_store.traces.insert([StoredTrace(trace=make_trace(i, user_id=PERSON), ingested_at=START) for i in (3, 77)])
    contract_store.scores.insert([make_score(3)])
    said = Feedback(feedback_id="f9", trace_id="t-000005", app="shop", comment="late", event_time=START)
    contract_store.feedback.insert([StoredFeedback(feedback=said, ingested_at=START)])
    swept = contract_store.forgetting.sweep(at=AT)
    assert swept.rows == {"feedback": 1, "scores": 1, "scores_by_judged": 1, "trace_index": 2, "traces": 2}
    assert everywhere(contract_store, "t-000003") == everywhere(contract_store, PERSON) == []
    assert contract_store.forgetting.sweep(at=AT).total == 0


@pytest.mark.parametrize("second", [0.0, 0.5, 1970.0, 1_764_576.123, 20_200_101.0, 99_999_999.0, 1_764_576_000.0])
def test_what_was_served_in_the_clocks_first_years_is_deleted_too(contract_store: Store, second: float) -> None:
    """A service that takes seconds for milliseconds writes such times; a mutation reads some of them as other dates."""
    at = datetime.fromtimestamp(second, timezone.utc)
    contract_store.traces.insert([StoredTrace(trace=make_trace(1, event_time=at), ingested_at=START)])
    contract_store.scores.insert([make_score(1, event_time=at)])
    contract_store.forgetting.forget("trace", "t-000001", at=AT)
    assert everywhere(contract_store, "t-000001") == []


def test_a_call_of_the_forgotten_that_is_stored_last_loses_its_trace_too(contract_store: Store) -> None:
    """Calls may come after everything else of their trace: after its rows were swept, or as the only ones."""
    fill(contract_store)
    contract_store.forgetting.forget("user", PERSON, at=AT)
    late = JudgeCall(
        environment="production", app="shop", trace_id="t-000003", call_id="late", judge_name="b",
        judge_id=JudgeId("b@1"), status="error", started_at=contract_store.now(),
    )  # fmt: skip
    contract_store.calls.insert([late])
    before = contract_store.calls.spent("b", START).calls
    assert contract_store.forgetting.sweep(at=AT).rows == {"calls": 1}
    assert everywhere(contract_store, "t-000003") == []
    assert contract_store.calls.spent("b", START).calls == before
    assert contract_store.forgetting.sweep(at=AT).total == 0


def test_the_ids_of_the_forgotten_cannot_be_read_off_the_tombstones(contract_store: Store) -> None:
    contract_store.forgetting.forget("user", PERSON, at=AT, by="dpo")
    (stone,) = contract_store.tombstones.all()
    assert PERSON not in stone.value
    assert len(stone.value) == 64
    assert (stone.kind, stone.by, stone.at) == ("user", "dpo", AT)
    assert everywhere(contract_store, PERSON) == []


@pytest.mark.parametrize("kind", ["trace", "user"])
def test_a_deletion_that_was_cut_short_is_finished_by_the_next(
    contract_store: Store, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the keys are found by goes last."""
    fill(contract_store)
    value = PERSON if kind == "user" else "t-000003"
    forgetting = contract_store.forgetting
    real = Mutations._mutate
    for stop_after in (1, 4, 8):
        calls = iter(range(stop_after))

        def some(*args: Any, calls: Any = calls) -> int:
            if next(calls, None) is None:
                raise KeyboardInterrupt
            return real(*args)

        monkeypatch.setattr(Mutations, "_mutate", some)
        with pytest.raises(KeyboardInterrupt):
            forgetting.forget(kind, value, at=AT)
    monkeypatch.setattr(Mutations, "_mutate", real)
    forgetting.forget(kind, value, at=AT)
    assert everywhere(contract_store, "t-000003") == everywhere(contract_store, "plan 3") == []
    lines = {line.judge_name: line for line in contract_store.ledger.equation(DAY.start, DAY.end)}
    assert lines["lexical"].traces == 10
    assert lines["lexical"].unaccounted == 0
