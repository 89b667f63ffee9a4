"""`tracejudge ledger`: the equation per judge and hour, dead letters per partition beside it, every gap by name."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from tracejudge.scores import DeadLetter, Decision, JudgeId, LedgerRow
from tracejudge.store import RegisteredJudge, RunManifest, Store, StoredTrace
from tracejudge.testing import make_score, make_trace
from tracejudge_consumer.cli import run
from tracejudge_consumer.terminal.exit_status import EXIT_DONE, EXIT_FAILED, EXIT_USAGE

pytest.importorskip("chdb", reason="the embedded store needs the extra 'embedded'")

NOW = datetime.now(timezone.utc).replace(minute=0, second=0, microsecond=0)
LEXICAL = JudgeId("lexical@000000000000")


@pytest.fixture
def settings(tmp_path: Path, store_url: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "tracejudge.toml"
    path.write_text(f'queue = "sqlite:///queue.db"\nstore = "{store_url}"\n', encoding="utf-8")
    return path


def fill(store: Store, *, decided: int) -> None:
    """Six traces in each of two hours, of which so many of the second hour are decided; one undecided."""
    for hour in (1, 2):
        times = [NOW - timedelta(hours=3 - hour) + timedelta(minutes=n) for n in range(6)]
        traces = [make_trace(10 * hour + n, event_time=at) for n, at in enumerate(times)]
        store.traces.insert([StoredTrace(trace=trace, ingested_at=NOW) for trace in traces])
        scored = traces[1:] if hour == 1 else traces[:decided]
        store.scores.insert(
            [make_score(trace_id=t.trace_id, event_time=t.event_time, judge_id=LEXICAL) for t in scored]
        )
        if hour == 1:
            store.ledger.insert(
                [
                    LedgerRow(
                        environment="production",
                        app="shop",
                        version="v1",
                        category="",
                        trace_id=traces[0].trace_id,
                        event_time=traces[0].event_time,
                        judge_name="lexical",
                        judge_id=LEXICAL,
                        decision=Decision.UNDECIDED,
                        reason="judge_gone_bad_key",
                        decided_at=NOW,
                    )
                ]
            )
    letters = [
        DeadLetter(
            source="kafka:traces", partition=n % 2, offset=n, key=None, value=b"{", reason="not_json", detail="",
            at=NOW - timedelta(minutes=30 + 60 * (n // 2)),
        )
        for n in range(4)
    ]  # fmt: skip
    store.dead_letters.insert(letters)


def said(capsys: pytest.CaptureFixture[str], *args: str, expect: int) -> str:
    capsys.readouterr()
    status = run(["ledger", "--since", "24h", *args])
    shown = capsys.readouterr()
    assert status == expect, shown.out + shown.err
    return shown.out


def test_a_gap_is_named_with_its_judge_and_hour(
    settings: Path, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(store, decided=4)
    text = said(capsys, "--hourly", expect=EXIT_FAILED)
    hour = f"{NOW - timedelta(hours=1):%Y-%m-%d %H}:00:00"
    assert f"GAP: 2 traces are unaccounted for by lexical in the hour from {hour}" in text
    assert text.count("GAP:") == 1
    facts: Any = json.loads(said(capsys, "--hourly", "--json", expect=EXIT_FAILED))
    assert [(line["traces"], line["unaccounted"]) for line in facts["lines"]] == [(6, 0), (6, 2)]


def test_the_terms_add_up_and_dead_letters_stand_beside_them_by_hour_and_partition(
    settings: Path, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(store, decided=6)
    text = said(capsys, expect=EXIT_DONE)
    assert "12 traces = 11 scored + 0 invalid" in text
    assert "1 undecided" in text
    assert "1 trace is waiting for lexical: judged once it is available again" in text
    assert "4 dead letters (4 not_json)" in text
    facts: Any = json.loads(said(capsys, "--hourly", "--json", expect=EXIT_DONE))
    for line in facts["lines"]:
        terms = line["passed"] + line["failed"] + line["invalid"] + sum(line["decisions"].values())
        assert terms + line["unaccounted"] == line["traces"]
    places = facts["dead_letters_by_partition"]
    assert [(place["partition"], place["count"], place["reason"]) for place in places] == [
        (0, 1, "not_json"),
        (1, 1, "not_json"),
    ] * 2
    assert len({place["hour"] for place in places}) == 2
    shown = said(capsys, "--hourly", expect=EXIT_DONE)
    assert shown.count("kafka:traces") == 4


def test_a_run_that_is_not_there_is_told_and_one_half_judged_says_how_it_goes_on(
    settings: Path, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(store, decided=6)
    trace = make_trace(20, event_time=NOW - timedelta(hours=1))
    begun = RunManifest(run_id="try-1", kind="replay", started_at=NOW, manifest={})
    store.runs.save(begun)
    said(capsys, "--run", "try-1", expect=EXIT_DONE)  # begun, and nothing is judged yet
    store.scores.insert([make_score(trace_id=trace.trace_id, event_time=trace.event_time, run_id="try-1")])
    capsys.readouterr()
    assert run(["ledger", "--since", "24h", "--run", "try-2"]) == EXIT_USAGE
    assert "there is no run 'try-2'; runs: live, try-1" in capsys.readouterr().err
    said(capsys, "--run", "shadow", expect=EXIT_DONE)
    text = said(capsys, "--run", "try-1", expect=EXIT_FAILED)
    assert "to continue" in text
    assert "when the consumer is idle" not in text
    store.runs.save(replace(begun, finished_at=NOW))
    text = said(capsys, "--run", "try-1", expect=EXIT_DONE)  # of a run with a selection the rest is no gap
    assert "12 traces = 1 scored + 0 invalid + 0 not applicable + 0 sampled out + 11 not selected" in text
    assert "GAP" not in text


@pytest.mark.parametrize("run_id", ["feedback", "manual"])
def test_what_nobody_complained_about_or_asked_for_by_hand_is_no_gap(
    settings: Path, store: Store, capsys: pytest.CaptureFixture[str], run_id: str
) -> None:
    fill(store, decided=6)
    trace = make_trace(20, event_time=NOW - timedelta(hours=1))
    store.scores.insert([make_score(trace_id=trace.trace_id, event_time=trace.event_time, run_id=run_id)])
    text = said(capsys, "--run", run_id, expect=EXIT_DONE)
    assert "12 traces = 1 scored + 0 invalid + 0 not applicable + 0 sampled out + 11 not selected" in text


def test_a_judge_on_trial_answers_for_what_came_since_and_not_for_live_traffic(
    settings: Path, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    judge = '\n[[judges]]\nname = "lexical"\nkind = "lexical"\nshadow = {shadow}\n'
    text = settings.read_text(encoding="utf-8")
    settings.write_text(text + judge.format(shadow="true"), encoding="utf-8")
    fill(store, decided=4)
    said(capsys, expect=EXIT_DONE)  # it was live before
    late = make_trace(40, event_time=NOW - timedelta(minutes=30))
    store.traces.insert([StoredTrace(trace=late, ingested_at=NOW + timedelta(minutes=2))])
    registered = RegisteredJudge(
        judge_name="lexical", judge_id=LEXICAL, spec={}, heuristic=True, registered_at=NOW + timedelta(minutes=1)
    )
    store.judges.register([registered])
    assert said(capsys, "--run", "shadow", expect=EXIT_DONE).startswith("no traces")
    score = make_score(trace_id=late.trace_id, event_time=late.event_time, judge_id=LEXICAL, run_id="shadow")
    store.scores.insert([score])
    assert "1 trace = 1 scored" in said(capsys, "--run", "shadow", expect=EXIT_DONE)
    another = make_trace(41, event_time=NOW - timedelta(minutes=29))
    store.traces.insert([StoredTrace(trace=another, ingested_at=NOW + timedelta(minutes=2))])
    assert "1 UNACCOUNTED" in said(capsys, "--run", "shadow", expect=EXIT_FAILED)
    settings.write_text(text + judge.format(shadow="false"), encoding="utf-8")
    said(capsys, "--run", "shadow", expect=EXIT_DONE)


def test_of_one_app_the_terms_add_up_and_dead_letters_are_said_to_be_of_all(
    settings: Path, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(store, decided=6)
    help_desk = [make_trace(30 + n, app="help", event_time=NOW - timedelta(minutes=40 + n)) for n in range(3)]
    store.traces.insert([StoredTrace(trace=trace, ingested_at=NOW) for trace in help_desk])
    judged = help_desk[0]
    store.scores.insert(
        [make_score(trace_id=judged.trace_id, app="help", event_time=judged.event_time, judge_id=LEXICAL)]
    )
    text = said(capsys, "--run", "live", expect=EXIT_FAILED)
    assert "15 traces = 12 scored" in text
    assert "not included: 4 dead letters (4 not_json), by read time" in text

    text = said(capsys, "--app", "shop", expect=EXIT_DONE)
    assert "12 traces = 11 scored + 0 invalid" in text
    assert "not included: 4 dead letters (4 not_json), of all apps and environments, by read time" in text
    text = said(capsys, "--app", "help", "--environment", "production", expect=EXIT_FAILED)
    assert "3 traces = 1 scored" in text
    facts: Any = json.loads(said(capsys, "--app", "help", "--json", expect=EXIT_FAILED))
    assert (facts["app"], facts["environment"]) == ("help", None)
    assert [(line["traces"], line["unaccounted"]) for line in facts["lines"]] == [(3, 2)]
    store.traces.insert([StoredTrace(trace=make_trace(40, environment="staging"), ingested_at=NOW)])
    text = said(capsys, "--app", "help", "--environment", "staging", expect=EXIT_DONE)
    assert "no traces between" in text
    assert "UTC in this slice" in text


def test_traces_dated_after_the_present_are_named_and_not_passed_over(
    settings: Path, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    """Local time sent as UTC: hours ahead, and so in no window that ends now."""
    traces = [make_trace(n, event_time=NOW + timedelta(hours=5, minutes=n)) for n in range(3)]
    store.traces.insert([StoredTrace(trace=trace, ingested_at=NOW) for trace in traces])
    assert "3 traces dated later: " in said(capsys, expect=EXIT_DONE)
    assert json.loads(said(capsys, "--json", expect=EXIT_DONE))["dated_later"] == 3
    assert "dated later" not in said(capsys, "--until", f"{NOW:%Y-%m-%dT%H:%M:%SZ}", expect=EXIT_DONE)
