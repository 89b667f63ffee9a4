"""Rows as the store's contract suite inserts them, and the readers it asks."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

from tracejudge.scores import Decision, JudgeId, LedgerRow, Score
from tracejudge.store import (
    Cursor,
    RateQuery,
    RegisteredJudge,
    ScoreFilter,
    Store,
    StoredTrace,
)
from tracejudge.testing import make_trace

UTC = timezone.utc
START = datetime(2026, 1, 1, 12, tzinfo=UTC)
DAY = RateQuery(start=START, end=START + timedelta(days=1))
LATER = datetime(2027, 1, 1, tzinfo=UTC)
NASTY = [
    "'; DROP TABLE traces; --",
    "\\'; SELECT 1; --",
    "a'b\"c`d\\",
    "{x:String}",
    "%(a)s %s %",
    "line\nbreak\r\n\ttab",
    "nul\x00byte",
    "\u202eright-to-left \U0001f600 \u0000\ufffd",
    "Ünï\u0301cödé",
    "",
    "$$ /* comment */ -- ",
]


def stored(number: int = 0, **fields: Any) -> StoredTrace:
    return StoredTrace(
        trace=make_trace(number, **fields),
        signals={"language": "en", "query_chars": 3, "lexical_overlap": None},
        ingested_at=START + timedelta(hours=1),
        source="file:sample",
        partition=0,
        offset=number,
    )


def ledger_row(number: int, decision: Decision, **fields: Any) -> LedgerRow:
    values: dict[str, Any] = {
        "environment": "production",
        "app": "shop",
        "version": "v1",
        "category": "",
        "trace_id": f"t-{number:06d}",
        "event_time": START + timedelta(seconds=number),
        "judge_name": "lexical",
        "judge_id": JudgeId("lexical@000000000000"),
        "decision": decision,
        "decided_at": START + timedelta(hours=1),
    }
    return LedgerRow(**{**values, **fields})


def registered(name: str, at: datetime, *, judge_id: str | None = None, heuristic: bool = True) -> RegisteredJudge:
    return RegisteredJudge(
        judge_name=name,
        judge_id=JudgeId(judge_id or f"{name}@000000000000"),
        spec={},
        heuristic=heuristic,
        registered_at=at,
    )


class Answers:
    """Every reader of scores, asked the same thing."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def all(self) -> dict[str, Any]:
        store = self._store
        row = next(iter(store.scores.buckets(DAY)), None)
        stream = [score for page in store.scores.stream(ScoreFilter(), batch=3) for score in page]
        line = next(iter(store.ledger.equation(DAY.start, DAY.end)), None)
        return {
            "rates": None if row is None else (row.bucket.n, row.bucket.passed, row.bucket.invalid),
            "count": store.scores.count(ScoreFilter()),
            "export": [(s.trace_id, s.outcome.value, s.score) for s in stream],
            "detectors": [(s.trace_id, s.outcome.value) for s in folded(store)],
            "worst": [(s.trace_id, s.score) for s in store.scores.worst(ScoreFilter(), limit=100)],
            "show": [(s.trace_id, s.outcome.value) for s in store.scores.of_trace("t-000000")],
            "ledger": None if line is None else (line.passed, line.failed, line.invalid),
        }

    def minutes(self) -> tuple[int, int, int]:
        self._store.minutes.recompute([START + timedelta(minutes=m) for m in range(5)])
        (row,) = self._store.minutes.buckets(DAY)
        return (row.bucket.n, row.bucket.passed, row.bucket.invalid)


def folded(store: Store, limit: int = 7) -> Iterator[Score]:
    cursor: Cursor | None = None
    while page := store.scores.since(cursor, until=LATER, limit=limit):
        yield from page
        cursor = Cursor(page[-1].judged_at, page[-1].trace_id)
