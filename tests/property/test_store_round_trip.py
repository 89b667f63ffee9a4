"""Laws of the store: what is loaded is what was sent, and counting equals a plain dictionary's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.trace_strategies import traces
from tracejudge.judging.tasks import content_hash
from tracejudge.scores import Outcome, Score
from tracejudge.store import RateQuery, ScoreFilter, Store, StoredTrace, TraceBatch, TraceFilter
from tracejudge.store.score_rows import row_version
from tracejudge.testing import make_score
from tracejudge_sdk import codec
from tracejudge_sdk.trace import Trace

UTC = timezone.utc
QUICK = settings(
    max_examples=15,
    deadline=None,  # a real engine, on a machine that others use too
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@QUICK
@given(batch=st.lists(traces, min_size=1, max_size=8, unique_by=lambda trace: trace.trace_id))
def test_a_loaded_trace_equals_the_one_that_was_sent(store: Store, batch: Sequence[Trace]) -> None:
    ingested_at = datetime(2026, 1, 1, tzinfo=UTC)
    known = {one.key for page in store.traces.stream(TraceFilter()) for one in page}
    stored = [StoredTrace(trace=trace, ingested_at=ingested_at, offset=1) for trace in batch]
    fresh = [one for one in stored if one.key not in known]
    assert store.traces.insert(fresh).rejected == ()
    loaded = {one.key: one for one in _load(store, [one.key.trace_id for one in fresh])}
    for one in fresh:
        assert loaded[one.key] == one
        if not _has_surrogates(one.trace):
            assert codec.decode(codec.encode(one.trace)) == loaded[one.key].trace


@QUICK
@given(batch=st.lists(traces, min_size=1, max_size=8, unique_by=lambda trace: trace.trace_id))
def test_a_replay_reads_what_was_served_or_all_of_it_that_a_prompt_can_hold(
    store: Store, batch: Sequence[Trace]
) -> None:
    store.traces.insert([StoredTrace(trace=trace, ingested_at=datetime(2026, 1, 1, tzinfo=UTC)) for trace in batch])
    where = TraceFilter(trace_ids=tuple(trace.trace_id for trace in batch))
    stored = [one for page in store.traces.stream(where) for one in page]
    whole, asked = store.traces.served(where, most=100), store.traces.served(where, most=100, asked=True)
    assert len(whole) == len(asked) == len(stored)
    assert whole.part(0, 100) == _of(stored)
    apart = [id(held) for trace in asked.part(0, 100).traces for held in (trace.tags, *trace.source_nodes)]
    assert len(set(apart)) == len(apart)  # what is changed of one trace is changed of no other
    parts = [trace for row in range(len(asked)) for trace in asked.part(row, row + 1).traces]
    for kept, one, row in zip(parts, stored, range(len(asked)), strict=True):
        assert content_hash(kept) == content_hash(one.trace)
        assert {name: getattr(kept, name) for name in KEPT} == {name: getattr(one.trace, name) for name in KEPT}
        assert asked.place(row) == one.place


KEPT = ("trace_id", "app", "environment", "version", "category", "event_time", "status", "model", "truncated",
        "head_probability", "query", "response", "reference", "history")  # fmt: skip


def _of(stored: Sequence[StoredTrace]) -> TraceBatch:
    return TraceBatch([one.trace for one in stored], frozenset())


def _load(store: Store, trace_ids: Sequence[str]) -> list[StoredTrace]:
    where = TraceFilter(trace_ids=tuple(trace_ids))
    return [one for page in store.traces.stream(where) for one in page]


def _has_surrogates(trace: Trace) -> bool:
    return any("\ud800" <= char <= "\udfff" for node in trace.source_nodes for char in repr_chars(node.metadata))


def repr_chars(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return "".join(repr_chars(key) + repr_chars(item) for key, item in value.items())
    if isinstance(value, list):
        return "".join(map(repr_chars, value))
    return ""


scores: st.SearchStrategy[Score] = st.builds(
    lambda number, outcome, revision, delay: replace(
        make_score(number),
        outcome=outcome,
        score=None if outcome is Outcome.INVALID else float(outcome is Outcome.PASSED),
        revision=revision,
        judged_at=make_score(number).judged_at + timedelta(seconds=delay),
    ),
    st.integers(0, 3),
    st.sampled_from(list(Outcome)),
    st.integers(0, 2),
    st.integers(0, 3),
)


def _wins(new: Score, old: Score) -> bool:
    """The rule in plain words: a higher revision, else settled, else the earlier one."""
    if new.revision != old.revision:
        return new.revision > old.revision
    if new.outcome.settled != old.outcome.settled:
        return new.outcome.settled
    return new.judged_at < old.judged_at


@QUICK
@given(deliveries=st.lists(st.lists(scores, max_size=5), min_size=1, max_size=5), merge=st.booleans())
def test_counting_equals_a_dictionary_whatever_is_delivered(
    store: Store, deliveries: Sequence[Sequence[Score]], merge: bool
) -> None:
    store.command("TRUNCATE TABLE scores")
    truth: dict[str, Score] = {}
    ambiguous: set[str] = set()
    for batch in deliveries:
        store.scores.insert(batch)
        for score in batch:
            old = truth.get(score.trace_id)
            if old is None or _wins(score, old):
                truth[score.trace_id] = score
                ambiguous.discard(score.trace_id)
            elif row_version(score) == row_version(old) and score != old:
                ambiguous.add(score.trace_id)  # two settled verdicts of one instant: either may stand
    if merge:
        store.optimize("scores")
    found = {score.trace_id: score for page in store.scores.stream(ScoreFilter()) for score in page}
    assert found.keys() == truth.keys()
    for trace_id in truth.keys() - ambiguous:
        assert found[trace_id] == truth[trace_id]
    rows = store.scores.buckets(RateQuery(start=datetime(2026, 1, 1, tzinfo=UTC), end=datetime(2026, 1, 2, tzinfo=UTC)))
    assert sum(row.bucket.n + row.bucket.invalid for row in rows) == len(truth)
    assert sum(row.bucket.passed for row in rows) == sum(s.outcome is Outcome.PASSED for s in found.values())


@given(new=scores, old=scores)
def test_the_version_orders_rows_as_the_rule_does(new: Score, old: Score) -> None:
    if _wins(new, old):
        assert row_version(new) > row_version(old)
    elif not _wins(old, new):
        assert row_version(new) == row_version(old)
    assert 0 <= row_version(new) < 2**64
