"""Traces logged in parts: judged once and whole, wherever and in whatever order the parts arrive; never lost."""

from __future__ import annotations

import itertools
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from tests.support.records import append, committed
from tests.support.running_pipeline import make_pipeline
from tests.support.scripted_panel import ScriptedPanel
from tests.support.upkeep import one_round
from tracejudge.judging import JudgeTask
from tracejudge.scores import Decision, Outcome, TraceKey
from tracejudge.store import LedgerLine, Store, StoredPart, StoredTrace, TraceFilter
from tracejudge.testing import ManualClock, make_trace
from tracejudge_sdk.trace import Record, Trace, TracePart

pytest.importorskip("chdb", reason="the embedded store needs the extra 'embedded'")

AT = make_trace(1).event_time
KEY = TraceKey("production", "shop", "p-000001")
LATER = ManualClock(datetime.now(timezone.utc) + timedelta(hours=1))
"""After every grace period of parts that are stored while the tests run."""


def start() -> TracePart:
    return TracePart(
        trace_id="p-000001", app="shop", query="Which plan?", source_nodes=make_trace(1).source_nodes, event_time=AT
    )


def end() -> TracePart:
    return TracePart(
        trace_id="p-000001", app="shop", response="Plan 1.", final=True, event_time=AT + timedelta(seconds=3)
    )


class Seen(ScriptedPanel):
    """Remembers the traces it judged."""

    def __init__(self) -> None:
        super().__init__(verdict=self._look)
        self.traces: list[Trace] = []

    def _look(self, task: JudgeTask) -> Outcome:
        self.traces.append(task.trace)
        return Outcome.PASSED


def run(path: Path, store: Store, panel: ScriptedPanel) -> None:
    make_pipeline(path, store, panel).run(until_idle=True)


def the_line(store: Store) -> LedgerLine:
    (line,) = store.ledger.equation(AT - timedelta(hours=1), AT + timedelta(hours=1))
    return line


@pytest.mark.parametrize("order", [0, 1])
def test_parts_read_by_two_consumers_make_one_judged_trace(order: int, tmp_path: Path, store: Store) -> None:
    paths = [tmp_path / "one.db", tmp_path / "two.db"]
    for path, part in zip(paths, [start(), end()], strict=True):
        append(path, [part])
    panel = Seen()
    for path in paths if order == 0 else reversed(paths):
        run(path, store, panel)
    ((trace,),) = (panel.traces,)
    assert (trace.query, trace.response, len(trace.source_nodes)) == ("Which plan?", "Plan 1.", 1)
    assert (the_line(store).traces, the_line(store).passed) == (1, 1)
    assert [committed(path) for path in paths] == [1, 1], "the open one pinned nothing"


def test_a_part_whose_rest_never_comes_is_incomplete_after_the_grace_period(tmp_path: Path, store: Store) -> None:
    append(tmp_path / "q.db", [start()])
    panel = Seen()
    run(tmp_path / "q.db", store, panel)
    assert store.ledger.of_trace(KEY.trace_id) == [], "still open"
    assert one_round(store, panel).ledger == {}, "within the grace"
    report = one_round(store, panel, clock=LATER)
    assert dict(report.ledger) == {Decision.INCOMPLETE: 1}
    assert panel.traces == [], "and not judged"
    line = the_line(store)
    assert (line.traces, line.unaccounted, line.decisions) == (1, 0, {Decision.INCOMPLETE: 1})
    (stored,) = store.traces.get(KEY.trace_id)
    assert (stored.trace.status, stored.trace.query, stored.trace.event_time) == ("incomplete", "Which plan?", AT)
    assert one_round(store, panel, clock=LATER).records == 0, "accounted for once"


def test_what_comes_after_the_grace_period_is_judged_and_replaces_the_incomplete_answer(
    tmp_path: Path, store: Store
) -> None:
    append(tmp_path / "q.db", [start()])
    panel = Seen()
    run(tmp_path / "q.db", store, panel)
    one_round(store, panel, clock=LATER)
    append(tmp_path / "q.db", [end()])
    run(tmp_path / "q.db", store, panel)
    assert [(trace.status, trace.response, trace.event_time) for trace in panel.traces] == [("ok", "Plan 1.", AT)]
    line = the_line(store)
    assert (line.traces, line.passed, line.decisions) == (1, 1, {}), "counted once, by its verdict"
    assert [row.trace.status for batch in store.traces.stream(TraceFilter()) for row in batch] == ["ok"]
    run(tmp_path / "q.db", store, panel)
    assert len(panel.traces) == 1


def test_an_end_without_a_start_is_incomplete_too(tmp_path: Path, store: Store) -> None:
    append(tmp_path / "q.db", [end()])
    panel = Seen()
    run(tmp_path / "q.db", store, panel)
    one_round(store, panel, clock=LATER)
    assert the_line(store).decisions == {Decision.INCOMPLETE: 1}
    append(tmp_path / "q.db", [start()])
    run(tmp_path / "q.db", store, panel)
    assert (the_line(store).traces, the_line(store).passed) == (1, 1)


def test_parts_that_nobody_saw_together_are_put_together_by_the_sweeper(tmp_path: Path, store: Store) -> None:
    """Both are committed, and each was read back before the other could be seen."""
    now = datetime.now(timezone.utc)
    store.parts.insert([StoredPart(part=part, ingested_at=now) for part in (start(), end())])
    panel = Seen()
    one_round(store, panel, clock=LATER)
    assert [trace.response for trace in panel.traces] == ["Plan 1."]
    assert (the_line(store).traces, the_line(store).passed) == (1, 1)
    one_round(store, panel, clock=LATER)
    assert len(panel.traces) == 1


def test_a_sweep_that_was_killed_half_way_is_done_again(tmp_path: Path, store: Store) -> None:
    """The trace went in, its decision did not: no record of the queue would ever bring it back."""
    now = datetime.now(timezone.utc)
    store.parts.insert([StoredPart(part=start(), ingested_at=now)])
    broken = Trace(trace_id=KEY.trace_id, app="shop", event_time=AT, query="Which plan?", status="incomplete")
    store.traces.insert([StoredTrace(trace=broken, ingested_at=now)])
    one_round(store, Seen(), clock=LATER)
    assert the_line(store).decisions == {Decision.INCOMPLETE: 1}


def test_a_whole_answer_that_waits_for_its_judge_is_not_swept(tmp_path: Path, store: Store) -> None:
    now = datetime.now(timezone.utc)
    whole = Trace(trace_id=KEY.trace_id, app="shop", event_time=AT, query="Which plan?", response="Plan 1.")
    store.parts.insert([StoredPart(part=part, ingested_at=now) for part in (start(), end())])
    store.traces.insert([StoredTrace(trace=whole, ingested_at=now)])
    panel = Seen()
    one_round(store, panel, clock=LATER)
    assert panel.traces == []


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_a_broken_off_record_hides_no_parts_of_the_same_batch(
    order: tuple[int, int, int], tmp_path: Path, store: Store
) -> None:
    """The service logged parts and, when the client went away, an incomplete trace as well."""
    broken = Trace(trace_id="p-000001", app="shop", event_time=AT, query="Which plan?", status="incomplete")
    records: list[Record] = [start(), end(), broken]
    append(tmp_path / "q.db", [records[place] for place in order])
    panel = Seen()
    run(tmp_path / "q.db", store, panel)
    assert [trace.response for trace in panel.traces] == ["Plan 1."]
    line = the_line(store)
    assert (line.traces, line.passed, line.decisions, line.unaccounted) == (1, 1, {}, 0)
    assert committed(tmp_path / "q.db") == 3
