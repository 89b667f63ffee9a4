"""Pages of everything hold each row once, whatever is stored between two statements, and look at a stretch each."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from io import BytesIO
from typing import Any

import pytest

from tracejudge.store import ScoreFilter, Store, StoredTrace, TraceFilter, exporting, stretches
from tracejudge.testing import make_score, make_trace

START = datetime(2026, 1, 1, tzinfo=timezone.utc)


def _at(number: int) -> datetime:
    return START + timedelta(minutes=17 * (number // 2))  # two share each instant


def test_stretches_leave_no_row_out_and_none_comes_twice(
    contract_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stretches, "_ROWS", 10)
    traces = [make_trace(i, event_time=_at(i)) for i in range(60)]
    contract_store.traces.insert([StoredTrace(trace=one, ingested_at=START) for one in traces])
    contract_store.scores.insert([make_score(i, event_time=_at(i), passed=i % 2 == 0) for i in range(60)])
    ids = [f"t-{i:06d}" for i in range(60)]
    pages = list(contract_store.traces.stream(TraceFilter(), batch=4))
    assert [one.trace.trace_id for page in pages for one in page] == ids
    after = pages[2][-1].place
    rest = [one.trace.trace_id for page in contract_store.traces.stream(TraceFilter(), after=after) for one in page]
    assert rest == ids[ids.index(after.trace_id) + 1 :]
    scores = [one.trace_id for page in contract_store.scores.stream(ScoreFilter(), batch=4) for one in page]
    assert scores == ids
    part = TraceFilter(start=_at(10), end=_at(50))
    failed = contract_store.traces.stream(part, outcome="failed", batch=3)
    assert [one.trace.trace_id for page in failed for one in page] == ids[11:50:2]


def test_a_parquet_piece_ends_where_the_next_begins_whatever_is_stored_meanwhile(
    contract_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    pyarrow = pytest.importorskip("pyarrow.parquet", reason="Parquet is an extra")
    monkeypatch.setattr(exporting, "PIECE_ROWS", 4)
    contract_store.scores.insert([make_score(i, event_time=_at(i)) for i in range(10)])
    connection = contract_store._connection
    real = type(connection).raw
    late = iter((100, 101))

    def raw(*args: Any, **options: Any) -> bytes:
        if (number := next(late, None)) is not None:  # earlier than all that is there
            contract_store.scores.insert([make_score(number, event_time=START - timedelta(hours=1))])
        return real(*args, **options)

    monkeypatch.setattr(type(connection), "raw", raw)
    files = list(contract_store.exporter.parquet("scores", ScoreFilter()))
    found = [row["trace_id"] for one in files for row in pyarrow.read_table(BytesIO(one)).to_pylist()]
    assert [one for one in found if one < "t-000100"] == [f"t-{i:06d}" for i in range(10)]
