"""Anchors over real HTTP, a real store and the alert loop: a judge that moves is told from a product that does."""

from __future__ import annotations

import asyncio
import itertools
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from tests.support.judge_reply import JudgeRequest, Reply
from tests.support.judge_script import verdict_by_regex
from tests.support.judge_server import JudgeServer
from tests.support.workplace import Workplace
from tracejudge.alerts import AlertEvent, DriftPolicy, MinimumRule
from tracejudge.alerts.judges.words import moved_words
from tracejudge.anchors import Anchor, AnchorSet
from tracejudge.judging import JudgeSpec, JudgeTask, NothingSpent, Panel, RunCaps
from tracejudge.scores import ANCHOR_RUN, Label
from tracejudge.store import ReportedModel, ScoreFilter, Store, StoredTrace
from tracejudge.testing import ManualClock, RecordingNotifier, make_score, make_trace
from tracejudge_consumer.alerting.loop import AlertLoop
from tracejudge_consumer.alerting.stored import load_judges
from tracejudge_consumer.anchors.lease import anchor_lease
from tracejudge_consumer.anchors.watch import ASKED_APART, AnchorPlan, AnchorWatch
from tracejudge_consumer.background.model_changes import model_changed
from tracejudge_consumer.terminal.exit_status import EXIT_UNAVAILABLE, EXIT_UNDECIDED, EXIT_USAGE
from tracejudge_sdk.trace import Trace

pytest.importorskip("chdb", reason="the embedded store needs the extra 'embedded'")

YES, NO = '{"unsupported": [], "verdict": "YES"}', '{"unsupported": ["whales"], "verdict": "NO"}'
HONEST = verdict_by_regex("Whales", found=NO, otherwise=YES)
GOOD, BAD = "The limit of plan {n} is ten users.", "Whales sing in plan {n}."


def strict(request: JudgeRequest) -> Reply:
    """Another model stands behind the name: it also fails what is said of plans whose number ends in 2, 4, 6 or 8."""
    verdict = NO if re.search(r"of plan \d*[2468] is ten", request.prompt) else HONEST(request).content
    return Reply(verdict, model_reported="judge-2")


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    with JudgeServer(HONEST) as running:
        yield running


class LaterStore:
    """The store, with a clock that a test moves."""

    def __init__(self, store: Store, clock: ManualClock) -> None:
        self._store, self._clock = store, clock

    def now(self) -> datetime:
        return self._clock.now()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class Days:
    """A judge, its anchors, its traffic and the alert loop, hour by hour."""

    def __init__(self, store: Store, server: JudgeServer, *, drift: DriftPolicy | None = None) -> None:
        self.clock = ManualClock(store.now() - timedelta(days=20))
        self.store = cast("Store", LaterStore(store, self.clock))
        self.server = server
        self.channel = RecordingNotifier()
        self.drift = drift or DriftPolicy()
        self.checkpoint: Callable[[str], None] = lambda _: None
        self.unanswerable: Callable[[AlertEvent], bool] = lambda _: False
        self.spec = JudgeSpec.model_validate(
            {
                "name": "faithful",
                "kind": "faithfulness",
                "base_url": server.base_url,
                "model": "judge",
                "max_calls_per_h": 100_000,
            }
        )
        chosen = [Anchor.of(answer(n, good=n % 2 == 0, at=self.clock.now())) for n in range(40)]
        self.anchors = AnchorSet.freeze("golden", chosen, built_at=self.clock.now())
        store.anchors.freeze(self.anchors)
        self.loop = self._loop("one")
        self.watch = self._watch(1000)
        self.number = 1000

    def _loop(self, holder: str) -> AlertLoop:
        return AlertLoop(
            store=self.store,
            rules=[MinimumRule(name="quality", judge="faithful", minimum=0.75, no_data_after="never")],
            notifiers=[self.channel],
            clock=self.clock,
            holder=holder,
            settle_s=0.0,
            lease_ttl_s=1e9,
            checkpoint=self.checkpoint,
            drift=self.drift,
            unanswerable=self.unanswerable,
        )

    def _watch(self, max_calls: int, *, every: timedelta = timedelta(days=1)) -> AnchorWatch:
        plan = AnchorPlan(set_name="golden", specs=(self.spec,), every=every, max_calls_per_day=max_calls)
        return AnchorWatch(store=self.store, plan=plan, make_panel=self._panel)

    def _panel(self, spec: JudgeSpec, caps: RunCaps | None = None) -> Panel:
        return Panel([spec], clock=self.clock, spend=NothingSpent(), environ={}, caps=caps)

    def serve(self, traces: int, *, good: float) -> list[AlertEvent]:
        """So many live traces, one a minute, judged over HTTP; then a round of the alert loop."""
        tasks = []
        for k in range(traces):
            self.number += 1
            trace = answer(self.number, good=k % 20 < 20 * good, at=self.clock.now())
            tasks.append(
                JudgeTask(
                    trace=trace,
                    judge_names=frozenset({"faithful"}),
                    inclusion_probability={"faithful": 1.0},
                    event_time=trace.event_time,
                )
            )
            self.clock.advance(60)

        async def judge() -> None:
            panel = self._panel(self.spec)
            result = await panel.evaluate(tasks)
            self.store.scores.insert(result.scores)
            await panel.close()

        asyncio.run(judge())
        self.clock.advance(60)
        return self.loop.tick()

    def day(self) -> list[AlertEvent]:
        """The day's round of anchors, where it is due, and a round of the alert loop."""
        self.clock.advance(86_400)
        self.watch.run_due()
        self.clock.advance(60)
        return self.loop.tick()

    def restart(self) -> None:
        """Another process takes over."""
        self.loop.close()
        self.loop = self._loop("two")


def answer(number: int, *, good: bool, at: datetime) -> Trace:
    return make_trace(number, event_time=at, response=(GOOD if good else BAD).format(n=number))


@pytest.fixture
def days(store: Store, server: JudgeServer, monkeypatch: pytest.MonkeyPatch) -> Days:
    monkeypatch.setattr("tracejudge.store.leases.SETTLE_S", 0.005)
    return Days(store, server)


def kinds(events: list[AlertEvent]) -> list[str]:
    return [event.kind for event in events]


def test_a_judge_that_moves_is_told_and_marks_the_alerts_that_it_causes(days: Days) -> None:
    told = [event for _ in range(4) for event in days.day()]
    assert told == []
    assert days.serve(80, good=0.95) == []
    days.server.script = strict
    (moved,) = days.day()
    assert moved.kind == "judge_drift"
    assert moved.summary.startswith("judge faithful moved: on 40 anchors it repeats its first verdict on ")
    assert "100 % before" in moved.summary
    assert "judge-2 instead of" in moved.summary
    days.restart()
    (alert,) = days.serve(80, good=0.95)
    assert alert.kind == "firing"
    judge = alert.evidence["judge"]
    assert isinstance(judge, dict)
    assert (judge["state"], judge["event_id"], judge["n"]) == ("moved", moved.event_id, 40)
    assert "; its judge moved: on 40 anchors" in alert.summary
    assert kinds(days.channel.events) == ["judge_drift", "firing"]
    (standing,) = load_judges(days.store)
    assert moved_words(standing).startswith("on 40 anchors it repeats its first verdict on 60 % (")
    # Nothing of it stands among live verdicts, and the calls are accounted for as what they were.
    assert days.store.scores.run_ids() == ["live"]
    assert days.store.scores.count(ScoreFilter(run_id=ANCHOR_RUN)) == 0
    assert {row.run_id for row in days.store.calls.cost(days.clock.now() - timedelta(days=30))} == {ANCHOR_RUN}
    assert days.store.ledger.of_trace(days.anchors.case_ids[0]) == []


def test_a_product_that_falls_leaves_its_judge_steady(days: Days) -> None:
    assert [event for _ in range(4) for event in days.day()] == []
    assert days.serve(80, good=0.95) == []
    events = days.serve(60, good=0.4)
    assert kinds(events) == ["firing"]
    judge = events[0].evidence["judge"]
    assert isinstance(judge, dict)
    assert (judge["state"], judge["agreement"]) == ("steady", 1.0)
    assert kinds(days.day()) == []
    assert kinds(days.channel.events) == ["firing"]


def test_alerts_of_a_judge_that_moved_wait_where_that_is_wanted(
    store: Store, server: JudgeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tracejudge.store.leases.SETTLE_S", 0.005)
    days = Days(store, server, drift=DriftPolicy(on_judge_drift="hold"))
    for _ in range(4):
        days.day()
    days.serve(80, good=0.95)
    days.server.script = strict
    days.day()
    (held,) = days.serve(80, good=0.95)
    assert held.evidence["held"] is True
    assert kinds(days.channel.events) == ["judge_drift"]
    days.restart()
    days.server.script = HONEST
    back = [event for _ in range(4) for event in days.day()]
    assert kinds(back) == ["judge_steady", "firing"]
    assert back[1].event_id == held.event_id
    assert kinds(days.channel.events) == ["judge_drift", "firing", "judge_steady"]  # told in the order of their time
    stored = days.store.alert_events.get([held.event_id])
    assert [event.evidence.get("held") for event in stored] == [None]


def test_rounds_are_made_when_due_within_their_budget_and_go_on_where_they_were(days: Days) -> None:
    rounds = days.store.anchors.rounds
    assert [one.cause for one in days.watch.run_due()] == ["schedule"]
    assert days.watch.run_due() == []
    calls = days.server.stats.calls
    assert calls == 40
    days.clock.advance(86_400)
    days.watch = days._watch(max_calls=30)
    assert days.watch.run_due() == []
    (begun,) = [one for one in rounds.of(days.anchors.set_id) if one.finished_at is None]
    assert 0 < len(begun.verdicts) <= 30
    days.clock.advance(3600)
    days.watch = days._watch(max_calls=1000)
    (done,) = days.watch.run_due()
    assert (done.round_at, len(done.verdicts)) == (begun.round_at, 40)
    assert days.server.stats.calls == calls + 40


def test_another_model_asks_for_a_round_at_once_and_so_does_an_alert(days: Days) -> None:
    days.day()
    reported = days.store.scores.reported(days.clock.now())
    assert reported == []
    at = days.clock.now() + timedelta(minutes=1)
    usual, new = (
        ReportedModel(judge_id=days.spec.judge_id(), model=name, fingerprint="", first_at=at, scores=1)
        for name in ("a", "b")
    )
    days.store.alert_events.insert([model_changed(usual, new)])
    days.clock.advance(120)
    assert [one.cause for one in days.watch.run_due()] == ["model_changed"]
    assert days.watch.run_due() == []
    (fired,) = days.serve(30, good=0.1)
    assert [one.cause for one in days.watch.run_due()] == ["alert"], (
        "the round before is half an hour old, and too early"
    )
    days.clock.advance(3600)
    assert days.watch.run_due() == [], "that one answers it"
    # A storm: each alert of falls that begin later is a question of its own, ten minutes apart.
    storm = [
        replace(fired, event_id=f"e-{k}", at=days.clock.now() + timedelta(minutes=k), evidence={}) for k in range(30)
    ]
    days.store.alert_events.insert(storm)
    rounds = []
    for _ in range(30):
        days.clock.advance(60)
        rounds += days.watch.run_due()
    assert [one.cause for one in rounds] == ["alert"] * 3
    apart = [later.round_at - one.round_at for one, later in itertools.pairwise(rounds)]
    assert min(apart) >= ASKED_APART


def test_a_storm_of_events_of_other_judges_hides_none_of_this_one(days: Days) -> None:
    days.day()
    at = days.clock.now() + timedelta(minutes=1)
    usual, new = (
        ReportedModel(judge_id=days.spec.judge_id(), model=name, fingerprint="", first_at=at, scores=1)
        for name in ("a", "b")
    )
    changed = model_changed(usual, new)
    other = replace(changed.series, judge_id="other@1")
    later = at + timedelta(minutes=1)
    storm = [replace(changed, event_id=f"storm-{n}", series=other, at=later) for n in range(1000)]
    days.store.alert_events.insert([changed, *storm])
    days.clock.advance(600)
    assert [one.cause for one in days.watch.run_due()] == ["model_changed"]


def test_alerts_of_long_ago_and_of_other_judges_ask_for_no_round(days: Days) -> None:
    days.watch = days._watch(1000, every=timedelta(days=9))
    days.day()
    (fired,) = days.serve(30, good=0.1)
    days.clock.advance(86_400)
    assert days.watch.run_due() == [], "nobody is told of it any more"
    now = days.clock.now()
    other = replace(fired, event_id="e-1", at=now, series=replace(fired.series, judge_id="faithful@000000000000"))
    slow = replace(fired, event_id="e-2", at=now, evidence={**fired.evidence, "measure": "latency_ms"})
    days.store.alert_events.insert([other, slow])
    assert days.watch.run_due() == []
    days.store.alert_events.insert([replace(fired, event_id="e-3", at=now, evidence={})])
    assert [one.cause for one in days.watch.run_due()] == ["alert"]


def test_one_process_at_a_time_asks_a_judge_about_a_set(days: Days) -> None:
    with anchor_lease(days.store, days.anchors.set_id, days.spec.judge_id()) as mine:
        assert mine is not None
        assert days.watch.run_due() == [], "somebody makes a round by hand"
    assert days.watch.run_due() == [], "it is asked for again a minute later only"
    assert days.server.stats.calls == 0
    days.clock.advance(60)
    (done,) = days.watch.run_due()
    assert len(done.verdicts) == 40
    with anchor_lease(days.store, days.anchors.set_id, days.spec.judge_id()) as next_one:
        assert next_one is not None, "it was given back"


# ------------------------------------------------------------------ the commands


@pytest.fixture
def at(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    store_url: str,
    store: Store,
    server: JudgeServer,
) -> Workplace:
    """Traffic of yesterday: a tenth of it failed, four traces are labelled."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tracejudge.store.leases.SETTLE_S", 0.005)
    settings = f"""\
queue = "sqlite:///queue.db"
store = "{store_url}"
[[judges]]
name = "faithful"
kind = "faithfulness"
base_url = "{server.base_url}"
model = "judge"
max_calls_per_h = 10000
[anchors]
set = "golden"
"""
    (tmp_path / "tracejudge.toml").write_text(settings, encoding="utf-8")
    begin = store.now() - timedelta(days=1)
    traces = [answer(n, good=n % 10 > 0, at=begin + timedelta(seconds=n)) for n in range(200)]
    store.traces.insert([StoredTrace(trace=trace, ingested_at=trace.event_time) for trace in traces])
    spec = JudgeSpec.model_validate(
        {"name": "faithful", "kind": "faithfulness", "base_url": server.base_url, "model": "judge"}
    )
    store.scores.insert(
        [
            make_score(
                n, passed=n % 10 > 0, event_time=trace.event_time, judge_name="faithful", judge_id=spec.judge_id()
            )
            for n, trace in enumerate(traces)
        ]
    )
    store.labels.insert(
        [
            Label(
                environment="production",
                app="shop",
                trace_id=f"t-{n:06d}",
                criterion="faithfulness",
                value=float(n % 2),
                source="ann",
                labelled_at=begin,
            )
            for n in range(1, 5)
        ]
    )
    return Workplace(tmp_path, capsys, settings)


def test_a_real_watch_makes_the_round_that_is_due_and_one_by_hand_beside_it_is_refused(
    at: Workplace, store: Store, server: JudgeServer
) -> None:
    at("anchors", "build", "golden", "--size", "40")
    settings = at.settings + 'every = "1h"\n[alert_loop]\ntick_s = 0.2\nsettle_s = 0\n'
    (at.folder / "tracejudge.toml").write_text(settings, encoding="utf-8")
    anchors = store.anchors.load("golden")
    judge_id = JudgeSpec.model_validate(
        {"name": "faithful", "kind": "faithfulness", "base_url": server.base_url, "model": "judge"}
    ).judge_id()
    let_go = threading.Event()

    def held(request: JudgeRequest) -> Reply:
        assert let_go.wait(60)
        return HONEST(request)

    server.script = held
    command = [sys.executable, "-m", "tracejudge_consumer.cli", "watch"]
    with subprocess.Popen(command, cwd=at.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as watch:
        try:
            _until(lambda: store.leases.current(f"anchors:{anchors.set_id}:{judge_id}") is not None)
            refused = at("anchors", "run", expect=EXIT_UNAVAILABLE)
            assert "another process is judging golden@" in refused
            let_go.set()
            _until(lambda: any(one.finished_at for one in store.anchors.rounds.of(anchors.set_id)))
        finally:
            let_go.set()
            watch.send_signal(signal.SIGTERM)
            said, _ = watch.communicate(timeout=60)
    assert watch.returncode == 0, said
    (done,) = store.anchors.rounds.of(anchors.set_id)
    assert (done.cause, len(done.verdicts)) == ("schedule", 40)
    assert server.stats.calls == 40, "nothing was asked twice"


def _until(met: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not met():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_the_commands_freeze_judge_and_tell_in_words(at: Workplace, store: Store, server: JudgeServer) -> None:
    built = at.json("anchors", "build", "golden", "--size", "40")
    assert (built["anchors"], built["labelled"], built["passed"], built["failed"]) == (40, 4, 20, 20)
    assert "is frozen; choose another one" in at("anchors", "build", "golden", "--size", "30", expect=EXIT_USAGE)
    assert "not judged yet" in at("anchors", "show")
    assert "40 calls" in at("anchors", "run", "--dry-run")
    assert server.stats.calls == 0
    first = at("anchors", "run")
    assert "first round, to which later ones are compared" in first
    assert "of 4 labelled anchors" in first
    assert "as before; no verdict is another one" in at("anchors", "run")
    server.script = strict
    assert "not finished" in at("anchors", "run", "--max-calls", "10", expect=EXIT_UNDECIDED)
    moved = at("anchors", "run", "golden", "--judge", "faithful")
    assert "% passed on 40 anchors, -" in moved
    shown = at("anchors", "show", "golden")
    assert "passed, fail now: t-" in shown
    assert "by hand, unfinished" in shown
    listed = at.json("anchors", "list")["sets"]
    assert [(one["set_id"], one["anchors"], one["labelled"]) for one in listed] == [(built["set_id"], 40, 4)]
    report = at.json("anchors", "show")["judges"][0]
    assert report["moved"]["difference"]["high"] < 0
    (at.folder / "labelled.jsonl").write_text(
        '{"app": "shop", "query": "q", "response": "r", "source_nodes": ["p"], "labels": {"faithfulness": true}}\n'
    )
    other = at.json("anchors", "build", "filed", "--from", "labelled.jsonl")
    assert (other["anchors"], other["labelled"], other["passed"]) == (1, 1, 1)
