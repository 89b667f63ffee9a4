"""The small parts around the pipeline: dead-letter limit, assembling, health, metrics, report, back-off, limits."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram, generate_latest

from tests.support.all_metrics import all_metrics
from tracejudge.scores import DeadLetter, Decision, InvalidReason, Outcome
from tracejudge.testing import ManualClock, make_score, make_trace
from tracejudge_consumer.assembler import assemble
from tracejudge_consumer.dead_letter import DeadLetterGuard, DeadLetterLimit, TooManyDeadLetters, dead_letter
from tracejudge_consumer.intake import PartitionKey, RawRecord
from tracejudge_consumer.limits import PipelineLimits
from tracejudge_consumer.report import PipelineReport
from tracejudge_consumer.retry_policy import RetryPolicy
from tracejudge_consumer.watching.distribution import Distribution
from tracejudge_consumer.watching.health import Health
from tracejudge_consumer.watching.metrics import MetricName, Metrics
from tracejudge_sdk.errors import RecordError
from tracejudge_sdk.trace import TracePart

AT = make_trace(0).event_time


def letters(count: int, reason: str = "not_json") -> list[DeadLetter]:
    raw = RawRecord(source="kafka:t", partition=1, offset=7, key=b"k", value=b"{", headers=(), timestamp_ms=0)
    return [dead_letter(raw, RecordError(reason, "record is not JSON"), at=AT) for _ in range(count)]


# -- dead letters


def test_a_dead_letter_keeps_the_record_whole() -> None:
    raw = RawRecord(source="s", partition=3, offset=9, key=b"k", value=b"\xff", headers=(("h", b"1"),), timestamp_ms=5)
    letter = dead_letter(raw, RecordError("not_utf8", "record is not UTF-8 at byte 0"), at=AT)
    assert (letter.source, letter.partition, letter.offset, letter.key, letter.value) == ("s", 3, 9, b"k", b"\xff")
    assert (letter.headers, letter.reason, letter.at) == ((("h", b"1"),), "not_utf8", AT)
    assert letter.detail == "record is not UTF-8 at byte 0"


def test_a_few_dead_letters_never_stop_it() -> None:
    guard = DeadLetterGuard(DeadLetterLimit(max_share=0.5, window_records=1_000, min_dead=100))
    guard.note(read=49, dead=letters(49))
    for _ in range(100):
        guard.note(read=100, dead=letters(1))


def test_a_share_above_the_limit_stops_it_and_says_why() -> None:
    guard = DeadLetterGuard(DeadLetterLimit(max_share=0.5, window_records=1_000, min_dead=100))
    guard.note(read=400, dead=[])
    guard.note(read=400, dead=[*letters(399), *letters(1, "schema_too_new")])
    with pytest.raises(
        TooManyDeadLetters, match=r"401 of the last 801 records.*400 not_json, 1 schema_too_new"
    ) as told:
        guard.note(read=1, dead=letters(1))
    assert (told.value.dead, told.value.of) == (401, 801)


def test_what_lies_behind_the_window_no_longer_counts() -> None:
    guard = DeadLetterGuard(DeadLetterLimit(max_share=0.5, window_records=200, min_dead=50))
    guard.note(read=100_000, dead=[])
    guard.note(read=200, dead=[])
    with pytest.raises(TooManyDeadLetters):
        guard.note(read=200, dead=letters(200))


@pytest.mark.parametrize("wrong", [{"max_share": 0.0}, {"max_share": 1.1}, {"window_records": 0}, {"min_dead": 0}])
def test_a_limit_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        DeadLetterLimit(**wrong)


# -- parts


def part(**fields: Any) -> TracePart:
    return TracePart(**{"trace_id": "t", "app": "shop", "event_time": AT, **fields})


def test_a_trace_stays_open_without_a_final_part_or_without_a_query() -> None:
    assert assemble([]) is None
    assert assemble([part(query="q"), part(response="r")]) is None
    assert assemble([part(response="r", final=True)]) is None


def test_parts_make_one_trace_whatever_their_order_and_number() -> None:
    start = part(query="q", tags={"a": "1"}, model="m1", head_probability=0.5, sdk="x/1")
    middle = part(source_nodes=make_trace(1).source_nodes, event_time=AT + timedelta(seconds=1), truncated=True)
    end = part(response="r", model="m2", latency_ms=7.0, final=True, event_time=AT + timedelta(seconds=2))
    whole = assemble([start, middle, end])
    assert whole is not None
    assert (whole.query, whole.response, whole.model, whole.latency_ms) == ("q", "r", "m2", 7.0)
    assert (whole.tags, whole.head_probability, whole.truncated, whole.lossy) == ({"a": "1"}, 0.5, True, False)
    assert whole.event_time == AT + timedelta(seconds=2)
    assert whole.source_nodes == make_trace(1).source_nodes
    assert whole == assemble([end, start, middle, start]) == assemble([middle, end, end, start])


def test_a_second_final_part_does_not_move_the_event_time() -> None:
    first = part(query="q", final=True)
    assert assemble([first, part(response="r", final=True, event_time=AT + timedelta(hours=1))]) is not None
    again = assemble([part(response="r", final=True, event_time=AT + timedelta(hours=1)), first])
    assert again is not None
    assert (again.event_time, again.response) == (AT, "r")


# -- health


def test_health_is_live_while_the_loop_turns_and_ready_while_work_is_done() -> None:
    clock = ManualClock()
    health = Health(clock, max_turn_s=60)
    assert (health.report().live, health.report().ready) == (True, False), "it is still starting"
    health.turned(partitions=0)
    assert health.report().reasons == ("no partition is assigned",)
    health.turned(partitions=2)
    assert health.report().ready
    health.store_answered("connection refused")
    report = health.report()
    assert (report.live, report.ready, report.store_answers) == (True, False, False)
    assert report.reasons == ("the store does not answer: connection refused",)
    health.store_answered()
    clock.advance(61)
    report = health.report()
    assert (report.live, report.ready, report.last_turn_s_ago) == (False, False, 61)
    health.turned(partitions=2)
    health.judges_gone(["faithfulness"])
    report = health.report()
    assert (report.live, report.ready, report.reasons) == (True, True, ("judge 'faithfulness' is gone",))
    health.ended()
    assert not health.report().live


def test_a_process_that_never_starts_to_turn_is_not_live_for_ever() -> None:
    clock = ManualClock()
    health = Health(clock, max_turn_s=60)
    clock.advance(61)
    assert not health.report().live


# -- metrics


def test_every_metric_is_named_once_and_stands_in_the_list_of_names() -> None:
    exposed = {family.name for family in all_metrics().collect()}
    assert exposed == {name.removesuffix("_total") for name in get_args(MetricName)}


def test_scores_are_counted_by_judge_and_outcome_and_their_age_is_observed() -> None:
    metrics = Metrics()
    invalid = make_score(2, outcome=Outcome.INVALID, score=None, reason=InvalidReason.UNPARSABLE.value)
    metrics.scored([make_score(1), invalid], [], [])

    def value(name: str, **labels: str) -> float | None:
        return metrics.registry.get_sample_value(name, labels)

    assert value("tracejudge_scores_total", judge="lexical", outcome="passed") == 1
    assert value("tracejudge_invalid_scores_total", judge="lexical", reason="unparsable") == 1
    assert value("tracejudge_event_to_score_seconds_sum", judge="lexical") == 120


def test_the_lag_of_a_partition_that_went_away_is_no_longer_shown() -> None:
    metrics = Metrics()
    a, b = PartitionKey("kafka:t", 0), PartitionKey("kafka:t", 1)
    metrics.set_lag({a: 5, b: None})
    metrics.set_lag({b: 3})
    assert metrics.registry.get_sample_value("tracejudge_lag_records", {"source": "kafka:t", "partition": "0"}) is None
    assert metrics.registry.get_sample_value("tracejudge_lag_records", {"source": "kafka:t", "partition": "1"}) == 3


# -- report, back-off, limits


def test_reports_add_up() -> None:
    one = PipelineReport(
        records=3, passed=2, dead_letters={"not_json": 1}, ledger={Decision.FILTERED: 1}, not_applicable={"a": {"x": 1}}
    )
    two = PipelineReport(
        records=2,
        failed=1,
        dead_letters={"not_json": 1, "not_utf8": 2},
        ended="idle",
        not_applicable={"a": {"x": 2}, "b": {"y": 1}},
    )
    both = one + two
    assert (both.records, both.scored, both.dead, both.ended) == (5, 3, 4, "idle")
    assert dict(both.dead_letters) == {"not_json": 2, "not_utf8": 2}
    assert both.not_applicable == {"a": {"x": 3}, "b": {"y": 1}}
    assert dict(both.ledger) == {Decision.FILTERED: 1}


@given(st.integers(1, 10_000), st.floats(0, 1, exclude_max=True))
def test_waits_grow_to_their_limit_and_are_spread(attempt: int, draw: float) -> None:
    policy = RetryPolicy(first_s=0.2, longest_s=15.0)
    delay_s = policy.delay_s(attempt, draw)
    longest = min(15.0, 0.2 * 2 ** min(attempt - 1, 60))
    assert longest / 2 <= delay_s <= longest


@pytest.mark.parametrize("name", ["max_in_flight_records", "batch_wait_s", "store_threads"])
def test_limits_below_zero_are_refused(name: str) -> None:
    values: dict[str, Any] = {name: 0}
    with pytest.raises(ValueError, match=name):
        PipelineLimits(**values)


def test_a_distribution_shows_what_the_library_s_histogram_shows() -> None:
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    distribution = Distribution("waits_seconds", "Waits.", "judge", (0.5, 1, 60), ours)
    histogram = Histogram("waits_seconds", "Waits.", ["judge"], buckets=(0.5, 1, 60), registry=theirs)
    for judge, values in (("a", [0.0, 0.5, 0.7, 1.0]), ("b", [3600.0]), ("a", [59.0, 60.5]), ("c", [])):
        distribution.observe(judge, values)
        for value in values:
            histogram.labels(judge).observe(value)
    histogram.labels("c")
    shown = [line for line in generate_latest(theirs).decode().splitlines() if "_created" not in line]
    assert generate_latest(ours).decode().splitlines() == shown
