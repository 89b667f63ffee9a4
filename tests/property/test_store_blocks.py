"""Laws of columns: what is stored a column at a time is what would have been stored row by row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.trace_strategies import instants, traces
from tracejudge.scores import InvalidReason, JudgeCall, JudgeId, Outcome, Score, Usage
from tracejudge.store import StoredTrace
from tracejudge.store.blocks import Block, IrregularRows
from tracejudge.store.calls import Calls
from tracejudge.store.score_blocks import call_block, score_block
from tracejudge.store.score_rows import version_of, versions_of
from tracejudge.store.scores import Scores
from tracejudge.store.table import Table
from tracejudge.store.trace_blocks import trace_block
from tracejudge.store.traces import Traces
from tracejudge.store.values import BoundTexts
from tracejudge.testing import make_score, make_trace
from tracejudge_sdk.trace import Trace

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)


def rows_of(table: type[Table[Any]], values: Sequence[Any]) -> list[list[Any]]:
    encode = table._encode
    return [[_plain(cell) for cell in encode(object.__new__(table), value)] for value in values]


def columns_as_rows(table: type[Table[Any]], block: Block, count: int) -> list[list[Any]]:
    columns = []
    for name, kind in zip(table.columns.names, table.columns.types, strict=True):
        columns.append(block.columns.get(name, [_nothing(kind)] * count))
    return [[_plain(cell) for cell in row] for row in zip(*columns, strict=True)]


def _nothing(kind: str) -> Any:
    """What the store fills in where a column is left out."""
    if "Nullable" in kind and not kind.startswith("Array"):
        return None
    said: dict[str, Any] = {"Array": [], "Map": {}, "String": "", "LowCardinality": "", "Bool": False}
    return said.get(kind.partition("(")[0], 0)


def _plain(cell: object) -> object:
    return list(cell) if isinstance(cell, tuple) else cell


@given(st.lists(traces, min_size=1, max_size=4), instants)
def test_traces_have_the_cells_of_their_rows(some: Sequence[Trace], ingested_at: datetime) -> None:
    stored = [
        StoredTrace(trace=trace, signals={"n": n, "of": "é"}, ingested_at=ingested_at, source="s", offset=n)
        for n, trace in enumerate(some)
    ]
    assert columns_as_rows(Traces, trace_block(stored), len(stored)) == rows_of(Traces, stored)


scores = st.builds(
    lambda number, outcome, score, at, event_time, feedback, flags, cost, revision: replace(
        make_score(number),
        outcome=outcome,
        score=None if outcome is Outcome.INVALID else score,
        reason=InvalidReason.UNPARSABLE.value if outcome is Outcome.INVALID else "",
        judged_at=at,
        event_time=event_time,
        feedback=feedback,
        flags=flags,
        usage=Usage(calls=number, cost_usd=cost),
        revision=revision,
    ),
    st.integers(min_value=0, max_value=99),
    st.sampled_from(Outcome),
    st.floats(min_value=0, max_value=1),
    instants,
    instants,
    st.text(st.characters(exclude_categories=["Cs"])),
    st.lists(st.sampled_from(["heuristic", "suspected_injection"]), max_size=2).map(tuple),
    st.none() | st.floats(min_value=0, max_value=9),
    st.integers(min_value=0, max_value=4095),
)


@given(st.lists(scores, min_size=1, max_size=4))
def test_scores_have_the_cells_of_their_rows(some: Sequence[Score]) -> None:
    assert columns_as_rows(Scores, score_block(some), len(some)) == rows_of(Scores, some)


def call(**changes: Any) -> JudgeCall:
    one = JudgeCall(
        call_id="c1",
        environment="production",
        app="shop",
        trace_id="t1",
        judge_name="faithful",
        judge_id=JudgeId("faithful@0123456789ab"),
        status="ok",
        started_at=NOW,
    )
    return replace(one, **changes)


@given(st.lists(st.tuples(st.sampled_from([0, 0, 0, 4095]), st.booleans(), st.integers(0, 2**52)), max_size=4))
def test_versions_of_many_are_those_of_each(some: Sequence[tuple[int, bool, int]]) -> None:
    revisions = [revision for revision, _, _ in some]
    settled = [is_settled for _, is_settled, _ in some]
    judged_us = [us for _, _, us in some]
    assert versions_of(revisions, settled, judged_us) == [version_of(*row) for row in some]


@given(st.lists(st.builds(lambda at, cost: call(started_at=at, cost_usd=cost), instants, st.none() | st.just(0.5))))
def test_calls_have_the_cells_of_their_rows(some: Sequence[JudgeCall]) -> None:
    assert columns_as_rows(Calls, call_block(some), len(some)) == rows_of(Calls, some)


@pytest.mark.parametrize(
    "odd",
    [
        {"score": None},
        {"score": 1.5},
        {"score": float("nan")},
        {"score": "1"},
        {"outcome": Outcome.INVALID},
        {"outcome": "passed"},
        {"outcome": "invalid", "score": None},
        {"inclusion_probability": 0.0},
        {"inclusion_probability": float("nan")},
        {"feedback": "half a \ud83d"},
        {"feedback": None},
        {"judged_at": datetime(2026, 1, 1)},  # noqa: DTZ001
        {"judged_at": datetime(1969, 1, 1, tzinfo=timezone.utc)},
        {"usage": Usage(calls=-1)},
        {"usage": Usage(latency_ms=float("inf"))},
        {"revision": 4096},
        {"flags": ("a", 1)},
    ],
)
def test_a_score_that_is_not_stored_as_it_is_makes_its_batch_irregular(odd: dict[str, Any]) -> None:
    with pytest.raises((IrregularRows, TypeError)):
        score_block([make_score(1), replace(make_score(2), **odd)])


@pytest.mark.parametrize(
    "odd",
    [
        {"query": "half a \ud83d"},
        {"tags": {"tenant": "\ud83d"}},
        {"event_time": datetime(2300, 1, 1, tzinfo=timezone.utc)},
        {"latency_ms": float("inf")},
        {"truncated": "false"},
    ],
)
def test_a_trace_that_is_not_stored_as_it_is_makes_its_batch_irregular(odd: dict[str, Any]) -> None:
    trace = make_trace(2).model_copy(update=odd)
    with pytest.raises(IrregularRows):
        trace_block([StoredTrace(trace=one, ingested_at=NOW) for one in (make_trace(1), trace)])


@given(st.lists(st.text(st.sampled_from("a'\\\t\n`é,[]"), max_size=6)))
def test_bound_texts_read_as_the_driver_writes_them(texts: list[str]) -> None:
    from clickhouse_connect.driver.binding import format_bind_value

    assert str(BoundTexts(texts)).replace(" ", "") == format_bind_value(texts).replace(" ", "")
    assert str(BoundTexts([" ", "a"])) == "[' ','a']"
