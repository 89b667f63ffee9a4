"""Values on their way into columns: hostile texts, numbers that are none, times to the millisecond."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from tests.support.store_rows import DAY, LATER, NASTY, START, UTC, folded, stored
from tracejudge.scores import Usage
from tracejudge.store import (
    Cursor,
    RateQuery,
    ScoreFilter,
    Store,
    StoredTrace,
    TraceFilter,
)
from tracejudge.testing import make_score, make_trace
from tracejudge_sdk.trace import Trace


def test_a_score_comes_back_as_it_went_in(contract_store: Store) -> None:
    score = replace(
        make_score(3),
        score=0.1 + 0.2,
        feedback=NASTY[7],
        raw_reply="",
        stratum="tail",
        inclusion_probability=0.015,
        flags=("heuristic", "suspected_injection"),
        usage=Usage(calls=2, input_tokens=10, output_tokens=3, cost_usd=None, latency_ms=12.5),
        judged_at=START + timedelta(microseconds=123456),
    )
    contract_store.scores.insert([score])
    assert list(folded(contract_store)) == [score]


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kolkata"])
def test_b38_times_do_not_depend_on_the_hosts_zone(
    contract_store: Store, zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        kolkata = timezone(timedelta(hours=5, minutes=30))
        gap = datetime(2026, 3, 8, 7, 30, tzinfo=UTC)  # 02:30 does not exist in New York that day
        noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
        scores = [
            make_score(0, event_time=noon),
            make_score(1, event_time=noon.astimezone(kolkata) + timedelta(seconds=1)),
            make_score(2, event_time=gap),
        ]
        naive = make_score(3, event_time=datetime(2026, 1, 1, 12))  # noqa: DTZ001  (that is the case)
        outcome = contract_store.scores.insert([*scores, naive])
        assert [reject.reason for reject in outcome.rejected] == ["naive_datetime"]
        minute = timedelta(minutes=1)
        (row,) = contract_store.scores.buckets(RateQuery(start=noon, end=noon + minute))
        assert row.bucket.n == 2
        assert row.start == noon
        (row,) = contract_store.scores.buckets(RateQuery(start=gap, end=gap + minute))
        assert row.bucket.n == 1
        (first, *_) = contract_store.scores.worst(ScoreFilter(start=gap), limit=1)
        assert (first.event_time, first.event_time.utcoffset()) == (gap, timedelta(0))
        with pytest.raises(ValueError, match="no time zone"):
            contract_store.scores.buckets(RateQuery(start=datetime(2026, 1, 1), end=noon))  # noqa: DTZ001
    finally:
        monkeypatch.undo()
        time.tzset()


def test_b39_milliseconds_decide_at_the_edge_of_a_window(contract_store: Store) -> None:
    at = START.replace(microsecond=123_000)
    contract_store.traces.insert([stored(0, event_time=at)])
    contract_store.scores.insert([make_score(0, event_time=at)])
    for cut_ms, inside in ((100, 0), (123, 0), (124, 1), (500, 1)):
        end = START + timedelta(milliseconds=cut_ms)
        rows = contract_store.scores.buckets(RateQuery(start=START, end=end))
        assert sum(row.bucket.n for row in rows) == inside
        assert contract_store.traces.count(TraceFilter(start=START, end=end)) == inside
    assert contract_store.traces.count(TraceFilter(start=at)) == 1
    assert contract_store.traces.count(TraceFilter(start=at + timedelta(milliseconds=1))) == 0
    judged = make_score(0).judged_at
    assert contract_store.scores.since(None, until=judged - timedelta(microseconds=1), limit=1) == []
    assert len(contract_store.scores.since(None, until=judged, limit=1)) == 1


def test_b42_numbers_that_are_none_become_invalid_and_are_never_averaged(contract_store: Store) -> None:
    odd: list[Any] = [1.0, math.nan, None, math.inf, -math.inf, 1.5]
    contract_store.scores.insert([make_score(i, score=number) for i, number in enumerate(odd)])
    (row,) = contract_store.scores.buckets(DAY)
    assert (row.bucket.n, row.bucket.passed, row.bucket.invalid, row.bucket.sum_wx) == (1, 1, 5, 1.0)
    found = [score for page in contract_store.scores.stream(ScoreFilter()) for score in page]
    assert [score.score for score in found] == [1.0, None, None, None, None, None]
    assert {score.reason for score in found[1:]} == {"out_of_range"}
    assert [score.score for score in contract_store.scores.worst(ScoreFilter(), limit=9)] == [1.0]
    assert contract_store.query("SELECT countIf(isNaN(score)) FROM scores")[0][0] == 0


def test_b43_a_bad_cell_rejects_its_row_and_never_the_batch(contract_store: Store) -> None:
    scores: list[Any] = [make_score(i) for i in range(20)]
    scores[3] = replace(scores[3], score="N/A")
    scores[7] = replace(scores[7], feedback=None)
    scores[9] = replace(scores[9], outcome="failed", score=0)
    outcome = contract_store.scores.insert(scores)
    assert outcome.stored == 18
    assert [(reject.index, reject.reason) for reject in outcome.rejected] == [(3, "ill_typed"), (7, "ill_typed")]
    assert contract_store.scores.count(ScoreFilter()) == 18
    (row,) = contract_store.scores.buckets(DAY)
    assert (row.bucket.n, row.bucket.passed) == (18, 17)
    contract_store.scores.insert(scores)
    letters = contract_store.dead_letters.all(reason="rejected_row")
    assert sorted(letter.detail.split(":")[1].strip() for letter in letters) == ["feedback", "score"]
    assert {letter.source for letter in letters} == {"store:scores"}
    assert any(b'"score":"N/A"' in letter.value for letter in letters)


def test_b43_the_text_false_is_false(contract_store: Store) -> None:
    trace = make_trace(1).model_copy(update={"truncated": "false", "lossy": "true"})
    bad = make_trace(2).model_copy(update={"truncated": "maybe"})
    outcome = contract_store.traces.insert([replace(stored(1), trace=trace), replace(stored(2), trace=bad)])
    assert (outcome.stored, len(outcome.rejected)) == (1, 1)
    (found,) = contract_store.traces.get("t-000001")
    assert (found.trace.truncated, found.trace.lossy) == (False, True)
    # A row that was refused has not fixed its trace's event time.
    assert contract_store.lookup([stored(2).key]) == {}


@pytest.mark.parametrize("text", NASTY)
def test_texts_are_values_and_never_sql(contract_store: Store, text: str) -> None:
    trace_id = text or "empty"
    trace = Trace(
        trace_id=trace_id,
        app=text or "app",
        environment=text or "environment",
        version=text,
        event_time=START,
        query=text,
        category=text,
        user_id=text,
        tags={text: text},
    )
    one = StoredTrace(trace=trace, signals={"x": text}, ingested_at=START)
    contract_store.traces.insert([one, stored(1)])
    contract_store.scores.insert(
        [make_score(0, trace_id=trace_id, app=trace.app, environment=trace.environment, category=text, stratum=text)]
    )
    assert contract_store.traces.get(trace_id) == [one]
    assert contract_store.lookup([one.key])[one.key].settled == {"lexical@000000000000"}
    where = TraceFilter(
        app=trace.app, environment=trace.environment, category=text, trace_ids=(trace_id,), user_id=text
    )
    assert contract_store.traces.count(where) == 1
    assert contract_store.traces.count(replace(where, contains=text)) == 1
    query = replace(DAY, app=trace.app, environment=trace.environment, category=text, group_by=("category", "app"))
    (row,) = contract_store.scores.buckets(query)
    assert row.group == {"category": text, "app": trace.app}
    (found,) = contract_store.scores.since(None, until=LATER, limit=9)
    assert contract_store.scores.since(Cursor(found.judged_at, trace_id), until=LATER, limit=9) == []
    assert contract_store.traces.count(TraceFilter()) == 2


def test_lone_surrogates_are_replaced_and_do_not_lose_the_batch(contract_store: Store) -> None:
    contract_store.scores.insert([make_score(0, feedback="a\ud800b"), make_score(1)])
    first, _ = sorted(folded(contract_store), key=lambda score: score.trace_id)
    assert first.feedback == "a\ufffdb"
