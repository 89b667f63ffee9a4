"""A trace in the store: whole, once, in order, found, and without its texts when their time is over."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from tests.support.store_rows import START, UTC, stored
from tracejudge.scores import TraceKey
from tracejudge.store import (
    Store,
    TraceFilter,
)
from tracejudge.testing import make_trace


def test_a_trace_comes_back_as_it_went_in(contract_store: Store) -> None:
    trace = make_trace(
        7,
        response=None,
        status="error",
        error="",
        source_nodes=[
            {"node_id": "", "text": None, "score": None, "metadata": {"page": 1, "deep": {"a": [1, None, 2.5]}}},
            {"node_id": "n", "text": "", "score": 0.0},
        ],
        history=[{"role": "user", "content": "hi"}, {"role": "assistant", "content": ""}],
        reference="",
        expected_ids=["a", ""],
        case_id="",
        latency_ms=0.1 + 0.2,
        model="",
        category=None,
        user_id="",
        tags={"": "", "k'": "v\\"},
        truncated=True,
        head_probability=0.1,
    )
    contract_store.traces.insert([replace(stored(7), trace=trace)])
    (found,) = contract_store.traces.get("t-000007")
    assert found.trace == trace
    assert found == replace(stored(7), trace=trace)
    assert found.trace.event_time.tzinfo is not None


def test_two_megabytes_of_text_survive(contract_store: Store) -> None:
    long = "Ωmega \U0001f9ea " * 180_000
    trace = make_trace(1, query=long[: 2_000_000 // 3], source_nodes=[{"node_id": "n", "text": long}])
    contract_store.traces.insert([replace(stored(1), trace=trace), stored(2)])
    (found,) = contract_store.traces.get("t-000001")
    assert found.trace == trace


def test_a_redelivered_trace_keeps_its_first_event_time_and_text(contract_store: Store) -> None:
    contract_store.traces.insert([stored(1)])
    again = stored(1, event_time=START + timedelta(days=3), query="another question")
    contract_store.traces.insert([stored(2), replace(again, ingested_at=START + timedelta(hours=2))])
    contract_store.optimize("traces")
    (found,) = contract_store.traces.get("t-000001")
    assert found.trace == stored(1).trace
    assert contract_store.traces.count(TraceFilter()) == 2
    known = contract_store.lookup([stored(1).key, TraceKey("production", "shop", "never seen")])
    assert known.keys() == {stored(1).key}
    assert known[stored(1).key].event_time == stored(1).trace.event_time


def test_a_complete_trace_replaces_an_incomplete_one_and_not_the_reverse(contract_store: Store) -> None:
    contract_store.traces.insert([stored(1, status="incomplete", response=None)])
    contract_store.traces.insert([replace(stored(1), ingested_at=START + timedelta(hours=2))])
    contract_store.traces.insert([replace(stored(1, status="incomplete"), ingested_at=START + timedelta(hours=3))])
    (found,) = contract_store.traces.get("t-000001")
    assert found.trace.status == "ok"
    assert found.trace.response == make_trace(1).response


def test_ids_are_unique_within_an_app_of_an_environment(contract_store: Store) -> None:
    contract_store.traces.insert([stored(1), stored(1, app="other"), stored(1, environment="staging")])
    assert len(contract_store.traces.get("t-000001")) == 3
    assert len(contract_store.traces.get("t-000001", environment="staging")) == 1


def test_a_lookup_gives_these_traces_and_no_others_of_their_ids_and_apps(contract_store: Store) -> None:
    ours, theirs = stored(1), stored(2, app="other", environment="staging")
    mixed = [stored(1, app="other", environment="staging"), stored(2), stored(2, app="other")]
    contract_store.traces.insert([ours, theirs, *mixed])
    known = contract_store.lookup([ours.key, theirs.key, ours.key])
    assert {key: one.event_time for key, one in known.items()} == {
        one.key: one.trace.event_time for one in (ours, theirs)
    }


def test_traces_stream_in_order_page_by_page(contract_store: Store) -> None:
    same_time = [stored(i, event_time=START) for i in range(5)]
    contract_store.traces.insert([*[stored(i) for i in range(10, 20)], *same_time])
    pages = list(contract_store.traces.stream(TraceFilter(), batch=4))
    found = [one.trace.trace_id for page in pages for one in page]
    assert found == [f"t-{i:06d}" for i in [*range(5), *range(10, 20)]]
    assert [len(page) for page in pages] == [4, 4, 4, 3]
    window = TraceFilter(start=START + timedelta(seconds=10), end=START + timedelta(seconds=12), app="shop")
    assert contract_store.traces.count(window) == 2


def test_event_times_over_many_days_go_in_at_once(contract_store: Store) -> None:
    numbers = [day * 86_400 for day in range(-120, 0)]
    outcome = contract_store.traces.insert([replace(stored(number), offset=1) for number in numbers])
    assert outcome.stored == 120
    for table in ("traces", "trace_index"):
        contract_store.optimize(table)
    # Retention counts from when a row was stored: a backfill of last year's answers does not vanish.
    assert contract_store.traces.count(TraceFilter()) == 120
    (found,) = contract_store.traces.get(stored(-120 * 86_400).trace.trace_id)
    assert found.trace.query


def test_an_event_time_no_column_holds_is_rejected(contract_store: Store) -> None:
    far = make_trace(1).model_copy(update={"event_time": datetime(9999, 1, 1, tzinfo=UTC)})
    old = make_trace(2).model_copy(update={"event_time": datetime(1, 1, 1, tzinfo=UTC)})
    outcome = contract_store.traces.insert([replace(stored(1), trace=t) for t in (far, old)] + [stored(3)])
    assert [reject.reason for reject in outcome.rejected] == ["out_of_range", "out_of_range"]
    assert outcome.stored == 1


def test_texts_expire_a_month_after_they_were_stored_and_the_rest_stays(contract_store: Store) -> None:
    history = [{"role": "user", "content": "hi"}]
    contract_store.traces.insert([stored(1, history=history, tags={"k": "v"}), stored(2)])
    contract_store.command(
        "ALTER TABLE traces UPDATE stored_at = now64(3) - INTERVAL 40 DAY WHERE trace_id = 't-000001' "
        "SETTINGS mutations_sync = 1"
    )
    contract_store.optimize("traces")
    (expired,) = contract_store.traces.get("t-000001")
    assert (expired.trace.query, expired.trace.response) == ("", None)
    assert [(node.node_id, node.text, node.score) for node in expired.trace.source_nodes] == [("n-1", None, 0.9)]
    assert [(turn.role, turn.content) for turn in expired.trace.history] == [("user", "")]
    assert expired.trace.tags == {"k": "v"}
    assert expired.texts_expired
    (fresh,) = contract_store.traces.get("t-000002")
    assert fresh == stored(2)
    assert not fresh.texts_expired
    for asked in (False, True):
        both = contract_store.traces.served(TraceFilter(), most=10, asked=asked).part(0, 10)
        assert ([one.trace_id for one in both.traces], both.expired) == (["t-000001", "t-000002"], frozenset({0}))
    contract_store.traces.insert([stored(3, query="", response=None, source_nodes=())])
    (empty,) = contract_store.traces.get("t-000003")
    assert not empty.texts_expired, "it never had any"
    contract_store.traces.insert([stored(1, history=history, tags={"k": "v"})])
    (again,) = contract_store.traces.get("t-000001")
    assert (again.trace.query, again.texts_expired) == (make_trace(1).query, False), (
        "delivered again, it has them again"
    )


def test_of_two_event_times_of_one_new_trace_the_first_stored_stands_for_both_writers(contract_store: Store) -> None:
    contract_store.traces.insert([stored(n) for n in range(50)])
    earlier = [replace(stored(n), trace=make_trace(n, event_time=START - timedelta(hours=1))) for n in range(50)]
    contract_store.traces.insert(earlier)
    rows = [row for batch in contract_store.traces.stream(TraceFilter()) for row in batch]
    assert len(rows) == 50, "one row a trace, and so one key for its scores"
    assert [row.trace.event_time for row in rows] == [make_trace(n).event_time for n in range(50)]
    known = contract_store.lookup([row.key for row in rows])
    assert {known[row.key].event_time == row.trace.event_time for row in rows} == {True}
