"""Stores of millions of rows for the bench, made inside the engine, and how statements on them are timed."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Final

from tracejudge.store import Store, open_store
from tracejudge.store.connection import Connection

START: Final = datetime(2026, 1, 1, tzinfo=timezone.utc)
DAYS: Final = 30
END: Final = START + timedelta(days=DAYS)
APPS: Final = ("shop", "desk", "help", "docs")
JUDGES: Final = ("lexical", "faithfulness", "relevance")

_VERSION: Final = "bitShiftLeft(toUInt64(1), 51) + (2251799813685247 - toUnixTimestamp64Micro(judged_at))"


class Bed:
    """One embedded store in a temporary folder. Close it."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="tracejudge-bench-"))
        self.store: Store = open_store(f"chdb:///{self.folder}", max_memory_bytes=6_000_000_000, max_execution_s=900)
        self.store.migrate()
        self.scores = 0
        self.traces = 0

    def close(self) -> None:
        self.store.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def grow_scores(self, total: int) -> None:
        """Live scores up to `total`, evenly over the days, apps and judges, a trace a judge's row each."""
        add = total - self.scores
        per_day = add // DAYS
        for day in range(DAYS):
            self._scores(self.scores + day * per_day, per_day, START + timedelta(days=day), 86_400_000)
        self.scores = total

    def newest_hour(self, rows: int, *, batch: int) -> None:
        """`rows` scores of the hour after all others, inserted in batches, as a consumer does."""
        first = 1 << 40
        for start in range(0, rows, batch):
            count = min(batch, rows - start)
            self._scores(first + start, count, END, 3_600_000, of=rows, offset=start)

    def _scores(
        self, first: int, rows: int, begin: datetime, span_ms: int, *, of: int | None = None, offset: int = 0
    ) -> None:
        begin_ms = int(begin.timestamp() * 1000)
        apps = ", ".join(map(repr, APPS))
        judges = ", ".join(map(repr, JUDGES))
        numbered = f"number - {first} + {offset}"
        self.store.command(
            f"""
            INSERT INTO scores (environment, app, judge_name, event_time, trace_id, judge_id, run_id, version, category,
                outcome, score, reason, feedback, raw_reply, stratum, inclusion_probability, content_hash,
                model_reported, fingerprint, flags, usage_calls, usage_input_tokens, usage_output_tokens,
                usage_cost_usd, usage_latency_ms, judged_at, revision, row_version)
            SELECT 'production', [{apps}][intDiv(number, 3) % 4 + 1], [{judges}][number % 3 + 1] AS judge,
                fromUnixTimestamp64Milli(
                    toInt64({begin_ms} + intDiv(({numbered}) * {span_ms}, {of or rows})), 'UTC') AS at,
                concat('0190', lower(hex(sipHash128(intDiv(number, 3))))), concat(judge, '@0123456789ab'), 'live',
                'v42', '', if(sipHash64(number) % 100 < 93, 'passed', 'failed') AS outcome,
                if(outcome = 'passed', 1., 0.), '',
                concat('The answer is supported by passage ', toString(sipHash64(number) % 10), '.'),
                concat('{{"verdict": "', outcome, '"}}'), '', 1., lower(hex(sipHash128(number, 1))),
                'gpt-4o-mini-2024-07-18', '', [], 1, 800 + sipHash64(number, 2) % 900 AS tokens,
                20 + sipHash64(number, 3) % 60, tokens * 1.5e-7, 300. + sipHash64(number, 4) % 2000,
                toDateTime64(at, 6, 'UTC') + INTERVAL 20 SECOND AS judged_at, 0, {_VERSION}
            FROM numbers({first}, {rows}) SETTINGS max_partitions_per_insert_block = 0
            """
        )

    def grow_traces(self, total: int, *, words: int = 24) -> None:
        """Traces with question and answer of some words out of 50 000, of 1 in 100 000 users each."""
        add = total - self.traces
        per_day = add // DAYS
        for day in range(DAYS):
            begin_ms = int((START + timedelta(days=day)).timestamp() * 1000)
            first = self.traces + day * per_day
            self.store.command(
                f"""
                INSERT INTO traces (environment, app, event_time, trace_id, version, query, response, status, node_ids,
                    node_scores, latency_ms, user_id, head_probability, sdk, signals, ingested_at, source, partition,
                    offset, text_chars, row_version)
                WITH i -> concat('w', toString(sipHash64(number, i) % 50000)) AS word
                SELECT 'production', 'shop',
                    fromUnixTimestamp64Milli(
                        toInt64({begin_ms} + intDiv((number - {first}) * 86400000, {per_day})), 'UTC') AS at,
                    concat('0190', lower(hex(sipHash128(number)))), 'v42',
                    arrayStringConcat(arrayMap(word, range({words // 3})), ' '),
                    arrayStringConcat(arrayMap(word, range({words})), ' '),
                    'ok', [toString(number)], [0.9], 300., concat('u', toString(sipHash64(number, 99) % 100000)), 1.,
                    'bench', '{{}}', at, 'kafka:traces', 0, number, 100, bitShiftLeft(toUInt64(1), 62)
                FROM numbers({first}, {per_day})
                """
            )
            self.store.command(
                "INSERT INTO trace_index (environment, app, trace_id, event_time, row_version) "
                f"SELECT environment, app, trace_id, event_time, 1 FROM traces WHERE event_time >= "
                f"fromUnixTimestamp64Milli({begin_ms}, 'UTC') AND event_time < "
                f"fromUnixTimestamp64Milli({begin_ms + 86_400_000}, 'UTC') AND offset >= {first}"
            )
        self.traces = total

    def cold(self) -> None:
        """Nothing of the data in memory: the engine's caches emptied, and the files' pages given back to the system."""
        for cache in ("MARK", "UNCOMPRESSED", "INDEX MARK", "INDEX UNCOMPRESSED", "QUERY CONDITION"):
            self.store.command(f"SYSTEM DROP {cache} CACHE")
        for path in self.folder.rglob("*"):
            if path.is_file() and not path.is_symlink():
                descriptor = os.open(path, os.O_RDONLY)
                try:
                    os.fsync(descriptor)
                    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
                finally:
                    os.close(descriptor)


def seconds(work: Callable[[], Any]) -> float:
    """Of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def rounds(work: Callable[[], Any], count: int) -> list[float]:
    """Of `count` calls, after one that warms up."""
    work()
    return [seconds(work) for _ in range(count)]


@contextmanager
def without_final(table: str) -> Iterator[None]:
    """Readers that do not ask for one row a key: wrong, and what right costs is measured against."""
    real = Connection._select  # by rows and by columns alike

    def select(self: Connection, sql: str, *args: Any, **options: Any) -> Any:
        return real(self, sql.replace(f"{table} FINAL", table), *args, **options)

    Connection._select = select  # type: ignore[method-assign]
    try:
        yield
    finally:
        Connection._select = real  # type: ignore[method-assign]
