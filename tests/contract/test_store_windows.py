"""Windows of every kind: rates, counts, percentiles, slices by fields of the trace; from rows and from the rollup."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from tracejudge.reports import read_rates
from tracejudge.scores import Outcome, Usage
from tracejudge.store import RateQuery, Store, StoredTrace
from tracejudge.testing import make_score, make_trace

START = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
DAY = RateQuery(start=START, end=START + timedelta(days=1))
SUMS = ("n", "passed", "invalid", "sum_w", "sum_w2", "sum_wx", "sum_w2x", "sum_ws")


def fill(store: Store) -> None:
    """120 traces, one a second, in two prompts and two tenants; every fifth failed, each with a cost."""
    traces = [
        make_trace(
            i,
            prompt_version=f"p{i % 2}",
            latency_ms=float(i + 1),
            tags={"tenant": "acme" if i % 3 else "be'ta"},
            status="error" if i % 60 == 59 else "ok",
        )
        for i in range(120)
    ]
    store.traces.insert([StoredTrace(trace=trace, ingested_at=START) for trace in traces])
    store.scores.insert(
        [
            make_score(
                i, passed=i % 5 > 0, score=(i % 5) / 4, inclusion_probability=(i % 2 + 1) / 2,
                usage=Usage(calls=1, cost_usd=i / 64, latency_ms=10.0 * i),
            )
            for i in range(120)
        ]
    )  # fmt: skip


def test_served_traces_are_counted_with_exact_percentiles_before_and_after_merges(contract_store: Store) -> None:
    fill(contract_store)
    contract_store.traces.insert([StoredTrace(trace=make_trace(3), ingested_at=START + timedelta(hours=1))])
    for merged in (False, True):
        if merged:
            contract_store.optimize("traces")
        first, second = contract_store.traffic.served(replace(DAY, step_s=60))
        assert (first.traces, first.errors, second.start) == (60, 1, START + timedelta(minutes=1))
        assert first.latency_ms is not None
        latency = first.latency_ms
        assert (latency.n, latency.p50, latency.p95, latency.p99) == (60, 30.0, 58.0, 60.0)
    assert contract_store.traffic.served(replace(DAY, app="none")) == []


def test_what_judging_took(contract_store: Store) -> None:
    fill(contract_store)
    contract_store.scores.insert([make_score(500, usage=Usage(cost_usd=None))])
    (row,) = contract_store.traffic.effort(DAY)
    assert (row.verdicts, row.calls, row.total_usd) == (121, 120, sum(range(120)) / 64)
    assert row.cost_usd is not None
    assert (row.cost_usd.n, row.cost_usd.p50) == (120, 59 / 64)
    assert row.latency_ms is not None
    assert (row.latency_ms.n, row.latency_ms.p99) == (120, 1180.0)


def test_a_window_is_sliced_by_fields_that_stand_in_the_trace_alone(contract_store: Store) -> None:
    fill(contract_store)
    rows = contract_store.scores.buckets(replace(DAY, group_by=("prompt_version", "tags.tenant")))
    found = {(row.group["prompt_version"], row.group["tags.tenant"]): row.bucket.n for row in rows}
    assert found == {("p0", "acme"): 40, ("p1", "acme"): 40, ("p0", "be'ta"): 20, ("p1", "be'ta"): 20}
    (only,) = contract_store.scores.buckets(replace(DAY, also={"tags.tenant": "be'ta", "prompt_version": "p1"}))
    assert only.bucket.n == 20
    served = contract_store.traffic.served(replace(DAY, group_by=("tags.tenant",), also={"prompt_version": "p0"}))
    assert {row.group["tags.tenant"]: row.traces for row in served} == {"acme": 40, "be'ta": 20}
    (effort,) = contract_store.traffic.effort(replace(DAY, also={"prompt_version": "p0"}))
    assert effort.verdicts == 60
    with pytest.raises(ValueError, match="group_by"):
        replace(DAY, group_by=("query",))
    with pytest.raises(ValueError, match="also"):
        replace(DAY, also={"query": "x"})


def test_mean_score_invalid_share_and_change_of_a_window(contract_store: Store) -> None:
    fill(contract_store)
    contract_store.scores.insert([make_score(i, outcome=Outcome.INVALID, score=None) for i in (200, 201)])
    lines = read_rates(contract_store, replace(DAY, end=START + timedelta(minutes=4), step_s=60))
    first, second, _, last = lines
    assert first.rate is not None
    weights = [2 / (i % 2 + 1) for i in range(60)]
    mean = sum(w * (i % 5) / 4 for i, w in enumerate(weights)) / sum(weights)
    assert first.rate.mean_score == pytest.approx(mean)
    assert first.trend is None
    assert second.trend is not None
    assert second.trend.low < 0 < second.trend.high
    assert last.rate is not None
    assert (last.rate.judged, last.rate.mean_score, last.rate.estimate) == (0, None, None)
    assert last.rate.invalid > 0
    assert last.trend is None


@pytest.mark.parametrize("step_s", [None, 60, 7200])
def test_long_windows_from_the_rollup_equal_the_rows(contract_store: Store, step_s: int | None) -> None:
    fill(contract_store)
    contract_store.minutes.rollup()
    # As two minutes later: until then a slow insert might still turn up behind the rollup.
    contract_store.command("INSERT INTO rollup_state VALUES ('minutes', now64(6))")
    query = replace(DAY, step_s=step_s, group_by=("version",))
    assert contract_store.minutes.serves(query) is not None
    rolled = contract_store.scores.buckets(query)
    contract_store.command("TRUNCATE TABLE rollup_state")
    assert contract_store.minutes.serves(query) is None
    raw = contract_store.scores.buckets(query)
    assert [(row.start, row.group) for row in rolled] == [(row.start, row.group) for row in raw]
    for left, right in zip(rolled, raw, strict=True):
        for name in SUMS:
            assert getattr(left.bucket, name) == pytest.approx(getattr(right.bucket, name), rel=1e-9)
