"""A judge that is gone: a handful of calls, no invalid row, one event; and everything judged when it is back."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.judge_script import always
from tests.support.judge_server import JudgeServer
from tests.support.records import append, committed, intake
from tests.support.running_pipeline import PATIENCE_S, Running, quick_limits
from tests.support.scripted_panel import ScriptedPanel
from tests.support.upkeep import make_upkeep, one_round
from tracejudge.clock import SystemClock
from tracejudge.judging import JudgeSpec, NothingSpent, Panel
from tracejudge.sampling import SamplingPolicy
from tracejudge.scores import Decision, LedgerRow, Score
from tracejudge.store import ScoreFilter, Store, StoredTrace
from tracejudge.testing import make_trace
from tracejudge_consumer.flow.pipeline import Pipeline
from tracejudge_consumer.report import PipelineReport
from tracejudge_consumer.stages.needs import Judges

pytest.importorskip("chdb", reason="the embedded store needs the extra 'embedded'")

KEY = "sk-right-0123456789"
HALF = SamplingPolicy.model_validate(
    {"strata": [{"name": "v2", "when": {"field": "version", "is": "v2"}, "rate": 0.5}], "rate": 1.0}
)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "queue.db"


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    with JudgeServer(always('{"unsupported": [], "verdict": "YES"}'), api_key=KEY) as running:
        yield running


def panel_with(key: str, server: JudgeServer, **fields: object) -> Panel:
    values = {"name": "faithful", "kind": "faithfulness", "base_url": server.base_url, "model": "judge"}
    spec = JudgeSpec.model_validate({**values, "api_key_env": "K", "max_calls_per_h": 10_000, **fields})
    return Panel([spec], clock=SystemClock(), spend=NothingSpent(), environ={"K": key})


def consumer(log: Path, store: Store, judges: Judges, **more: object) -> Pipeline:
    return Pipeline(
        intake=intake(log),
        store=store,
        panel=judges,
        policy=HALF,
        limits=quick_limits(),
        upkeep=make_upkeep(store, judges),
        **more,  # type: ignore[arg-type]
    )


def run(log: Path, store: Store, judges: Judges) -> PipelineReport:
    return consumer(log, store, judges).run(until_idle=True)


def scores(store: Store) -> list[Score]:
    return [score for batch in store.scores.stream(ScoreFilter()) for score in batch]


def events(store: Store) -> Counter[str]:
    return Counter(event.kind for event in store.alert_events.all())


def test_b11_traces_of_a_gone_judge_wait_and_are_judged_when_it_is_back(
    log: Path, store: Store, server: JudgeServer
) -> None:
    """At most 5 calls, no invalid row, one event, and nothing undecided at the end; the chances are those of the
    day."""
    append(log, [make_trace(n, version="v2" if n % 2 else "v1") for n in range(60)])
    first = run(log, store, panel_with("sk-wrong-0123456789", server))
    undecided = first.ledger[Decision.UNDECIDED]
    assert undecided == len(store.ledger.undecided()) >= 40
    assert server.stats.calls <= 5
    assert committed(log) == 60, "they wait in the store, not in the queue"
    assert scores(store) == []
    assert events(store) == {"evaluator_unhealthy": 1}

    run(log, store, panel_with("sk-wrong-9876543210", server))
    assert server.stats.calls <= 10, "a restart tries again, as sparingly"
    assert events(store) == {"evaluator_unhealthy": 1}, "the same absence"
    assert len(store.ledger.undecided()) == undecided

    refused = server.stats.calls
    third = run(log, store, panel_with(KEY, server))
    assert (third.passed, third.invalid) == (undecided, 0)
    assert server.stats.calls - refused == undecided, "each is bought once"
    assert store.ledger.undecided() == []
    assert events(store) == {"evaluator_unhealthy": 1, "evaluator_healthy": 1}
    chances = {score.trace_id: (score.stratum, score.inclusion_probability) for score in scores(store)}
    assert len(chances) == undecided
    assert {chances[name] for name in chances if int(name[-1]) % 2} == {("v2", 0.5)}
    assert {chances[name] for name in chances if not int(name[-1]) % 2} == {("", 1.0)}
    (line,) = store.ledger.equation(make_trace(0).event_time, make_trace(60).event_time)
    assert (line.traces, line.unaccounted, line.decisions) == (60, 0, {Decision.SAMPLED_OUT: 60 - undecided})


def test_a_judge_that_comes_back_is_found_without_a_restart(log: Path, store: Store) -> None:
    append(log, [make_trace(n) for n in range(30)])
    panel, done = ScriptedPanel(gone=True), threading.Event()

    def progress(report: PipelineReport) -> None:
        if report.ledger.get(Decision.UNDECIDED) == 30:
            panel.gone = False
        if report.scored == 30:
            done.set()

    with Running(consumer(log, store, panel, progress=progress)) as running:
        assert done.wait(PATIENCE_S)
        running.stop()
    assert store.ledger.undecided() == []
    assert len(scores(store)) == 30


def test_another_judge_adopted_under_the_name_decides_for_the_one_that_is_gone(
    log: Path, store: Store, server: JudgeServer
) -> None:
    append(log, [make_trace(n) for n in range(10)])
    run(log, store, panel_with("sk-wrong-0123456789", server))
    successor = panel_with(KEY, server, temperature=0.5)
    report = run(log, store, successor)
    assert report.passed == 10
    assert {score.judge_id for score in scores(store)} == set(successor.judge_ids.values())
    assert store.ledger.undecided() == []
    (line,) = store.ledger.equation(make_trace(0).event_time, make_trace(60).event_time)
    assert (line.traces, line.passed, line.decisions) == (10, 10, {})


def test_two_consumers_take_each_undecided_trace_up_once(log: Path, store: Store) -> None:
    append(log, [make_trace(n) for n in range(150)])
    run(log, store, ScriptedPanel(gone=True))
    panels = [ScriptedPanel(), ScriptedPanel()]
    threads = [threading.Thread(target=one_round, args=(store, panel)) for panel in panels]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    asked = panels[0].asked + panels[1].asked
    assert (len(asked), max(asked.values())) == (150, 1)
    assert store.ledger.undecided() == []


def test_a_trace_whose_texts_are_gone_is_decided_as_forgotten(store: Store) -> None:
    """Nothing is left to judge; without a decision it would be asked about for ever."""
    trace = make_trace(1)
    row = LedgerRow(
        environment=trace.environment,
        app=trace.app,
        version=trace.version,
        category="",
        trace_id=trace.trace_id,
        event_time=trace.event_time,
        judge_name="scripted",
        judge_id=ScriptedPanel().judge_ids["scripted"],
        decision=Decision.UNDECIDED,
        decided_at=trace.event_time + timedelta(days=40),
    )
    store.ledger.insert([row])
    panel = ScriptedPanel()
    report = one_round(store, panel)
    assert dict(report.ledger) == {Decision.FORGOTTEN: 1}
    assert panel.asked.total() == 0
    assert store.ledger.undecided() == []


def test_a_round_begins_with_one_question_while_the_judge_stays_gone(store: Store) -> None:
    panel = ScriptedPanel(gone=True)
    traces = [make_trace(n) for n in range(20)]
    store.traces.insert([StoredTrace(trace=trace, ingested_at=trace.event_time) for trace in traces])
    store.ledger.insert(
        [
            LedgerRow(
                environment=trace.environment,
                app=trace.app,
                version=trace.version,
                category="",
                trace_id=trace.trace_id,
                event_time=trace.event_time,
                judge_name="scripted",
                judge_id=panel.judge_ids["scripted"],
                decision=Decision.UNDECIDED,
                decided_at=trace.event_time,
            )
            for trace in traces
        ]
    )
    before = store.ledger.undecided()
    one_round(store, panel)
    assert panel.asked.total() == 1
    assert store.ledger.undecided() == before, "and the rows stand as they stood"
