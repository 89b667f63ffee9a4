"""A judge that is down: its traces wait, the queue is polled on, and nothing is spent on asking nobody."""

from __future__ import annotations

import asyncio
import math
import socket
import threading
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from tests.support.judge_reply import JudgeRequest, Reply, server_error
from tests.support.judge_script import always
from tests.support.judge_server import JudgeServer
from tests.support.records import append, committed, intake
from tests.support.running_pipeline import PATIENCE_S, Running, make_pipeline, quick_limits
from tests.support.upkeep import make_upkeep
from tracejudge.clock import SystemClock
from tracejudge.judging import JudgeSpec, NothingSpent, Panel
from tracejudge.sampling import SamplingPolicy
from tracejudge.scores import Decision, Outcome
from tracejudge.store import ScoreFilter, Store
from tracejudge.testing import make_trace
from tracejudge_consumer.flow.pipeline import Pipeline
from tracejudge_consumer.intake import RawRecord

pytest.importorskip("chdb", reason="the embedded store needs the extra 'embedded'")

YES = Reply('{"unsupported": [], "verdict": "YES"}')
FASTER = 200.0


class QuickClock:
    """Time that runs two hundred times faster, so that a minute's pause is felt as a third of a second."""

    def now(self) -> datetime:
        return datetime.now(timezone.utc)

    def monotonic(self) -> float:
        return FASTER * time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / FASTER)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "queue.db"


@pytest.fixture
def port() -> int:
    """A port where nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        free: int = held.getsockname()[1]
    return free


def panel_at(base_url: str, *, patience_s: float, **fields: Any) -> Panel:
    values = {"name": "faithful", "kind": "faithfulness", "base_url": base_url, "model": "judge"}
    spec = JudgeSpec.model_validate({**values, "max_calls_per_h": 70, **fields})
    clock = QuickClock()
    return Panel([spec], clock=clock, spend=NothingSpent(), environ={}, patience_s=patience_s, sleep=clock.sleep)


def outcomes(store: Store) -> list[Outcome]:
    return [score.outcome for batch in store.scores.stream(ScoreFilter()) for score in batch]


def test_a_refused_connection_is_waited_out_with_the_partition_paused(log: Path, store: Store, port: int) -> None:
    """60 traces under a cap of 70 calls an hour: refused connections are no calls, and no attempts of a trace."""
    append(log, [make_trace(n) for n in range(60)])
    reader, waited = intake(log), threading.Event()
    paused: list[bool] = []
    really_poll = reader.poll

    def poll(*, timeout_s: float, max_records: int) -> list[RawRecord]:
        paused.append(bool(reader.paused()))
        if paused[-10:] == [True] * 10:
            waited.set()
        return really_poll(timeout_s=timeout_s, max_records=max_records)

    reader.poll = poll  # type: ignore[method-assign]
    panel = panel_at(f"http://127.0.0.1:{port}/v1", patience_s=math.inf)
    pipeline = make_pipeline(log, store, panel, intake=reader, limits={"max_in_flight_records": 20})
    with Running(pipeline, until_idle=True) as running:
        assert waited.wait(PATIENCE_S)
        assert reader.assignment(), "and the lease is kept"
        assert (outcomes(store), committed(log)) == ([], None)
        with JudgeServer(lambda request: YES, port=port) as server:
            report = running.result()
            assert server.stats.calls == 60
    assert (report.passed, report.invalid, report.ledger) == (60, 0, {})
    assert outcomes(store) == [Outcome.PASSED] * 60
    assert committed(log) == 60


def test_an_outage_of_server_errors_makes_no_trace_invalid(log: Path, store: Store) -> None:
    append(log, [make_trace(n) for n in range(60)])
    down, seen = threading.Event(), threading.Event()
    down.set()
    failed: list[JudgeRequest] = []

    def script(request: JudgeRequest) -> Reply:
        if down.is_set():
            failed.append(request)
            if len(failed) >= 12:
                seen.set()
            return server_error()
        return YES

    with JudgeServer(script) as server:
        panel = panel_at(server.base_url, patience_s=math.inf, max_calls_per_h=10_000)
        with Running(make_pipeline(log, store, panel), until_idle=True) as running:
            assert seen.wait(PATIENCE_S)
            assert outcomes(store) == []
            down.clear()
            report = running.result()
    assert (report.passed, report.invalid) == (60, 0)
    assert len(failed) <= 40, "an open circuit asks rarely, however many traces wait"


@pytest.mark.parametrize("past_patience", ["undecided", "invalid"])
def test_past_its_patience_a_trace_is_undecided_or_invalid_as_configured(
    past_patience: str, log: Path, store: Store, port: int
) -> None:
    append(log, [make_trace(n) for n in range(12)])

    def run() -> Any:
        panel = panel_at(f"http://127.0.0.1:{port}/v1", patience_s=5.0)
        limits = quick_limits(past_patience=past_patience)
        return Pipeline(
            intake=intake(log),
            store=store,
            panel=panel,
            policy=SamplingPolicy(),
            limits=limits,
            upkeep=make_upkeep(store, panel, clock=SystemClock()),
        ).run(until_idle=True)

    first = run()
    assert committed(log) == 12, "they wait in the store"
    if past_patience == "undecided":
        assert (first.invalid, first.ledger) == (0, {Decision.UNDECIDED: 12})
        assert {row.reason for row in store.ledger.undecided()} == {"judge_down_unreachable"}
        with JudgeServer(always(YES.content), port=port):
            run()
        assert outcomes(store) == [Outcome.PASSED] * 12
        assert store.ledger.undecided() == []
    else:
        assert (first.invalid, dict(first.invalid_reasons), first.ledger) == (12, {"judge_error": 12}, {})
        assert outcomes(store) == [Outcome.INVALID] * 12


def test_traces_that_no_judge_can_answer_are_told_from_an_outage(log: Path, store: Store) -> None:
    """However long an outage would be waited for: the last traces of a queue are such ones, and nobody else comes."""
    append(log, [make_trace(n) for n in range(30)])
    good = make_trace(3).response or ""

    def script(request: JudgeRequest) -> Reply:
        return YES if good in request.prompt else server_error()

    with JudgeServer(script) as server:
        panel = panel_at(server.base_url, patience_s=math.inf, max_calls_per_h=10_000)
        report = make_pipeline(log, store, panel).run(until_idle=True)
        calls = server.stats.calls
    assert (report.passed, report.invalid, dict(report.invalid_reasons)) == (1, 29, {"judge_error": 29})
    assert calls <= 300, "three attempts each, and the questions that proved the endpoint to be there"


def test_b12_one_call_that_hangs_is_a_timeout_after_its_attempts_and_the_queue_is_polled_on(
    log: Path, store: Store
) -> None:
    append(log, [make_trace(n) for n in range(4)])
    hanging = make_trace(2).response or ""
    reader, polls = intake(log), 0
    really_poll = reader.poll

    def poll(*, timeout_s: float, max_records: int) -> list[RawRecord]:
        nonlocal polls
        polls += 1
        return really_poll(timeout_s=timeout_s, max_records=max_records)

    reader.poll = poll  # type: ignore[method-assign]

    def script(request: JudgeRequest) -> Reply:
        return Reply(hang=True) if hanging in request.prompt else YES

    with JudgeServer(script) as server:
        panel = panel_at(server.base_url, patience_s=math.inf, timeout_s=0.5, max_attempts=2)
        report = make_pipeline(log, store, panel, intake=reader).run(until_idle=True)
        calls = server.stats.calls
    assert (report.passed, report.invalid, dict(report.invalid_reasons)) == (3, 1, {"judge_timeout": 1})
    assert calls == 3 + 2, "its attempts are bounded"
    assert polls >= 10, "and nobody waited for it"
