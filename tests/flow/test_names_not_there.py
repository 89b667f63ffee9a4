"""A name that somebody typed and that was never seen: every verb says so alike, with the names there are."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest

from tests.support.workplace import Workplace
from tracejudge.scores import Decision, JudgeId, LedgerRow
from tracejudge.store import Store, StoredPart, StoredTrace
from tracejudge.testing import make_score, make_trace
from tracejudge.testing.builders import START
from tracejudge_consumer.terminal.exit_status import EXIT_UNDECIDED, EXIT_USAGE
from tracejudge_sdk.trace import TracePart

pytest.importorskip("chdb", reason="the embedded store needs the extra 'embedded'")

DAY = ("--since", "2026-01-01T00:00:00Z", "--until", "2026-01-02T00:00:00Z")
SETTINGS = """\
queue = "sqlite:///queue.db"
store = "{store}"

[[judges]]
name = "words"
kind = "lexical"
"""


@pytest.fixture
def at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], store_url: str, store: Store
) -> Workplace:
    monkeypatch.chdir(tmp_path)
    settings = SETTINGS.format(store=store_url)
    (tmp_path / "tracejudge.toml").write_text(settings, encoding="utf-8")
    traces = [make_trace(n, event_time=START + timedelta(minutes=n)) for n in range(5)]
    store.traces.insert([StoredTrace(trace=trace, ingested_at=trace.event_time) for trace in traces])
    for run_id in ("live", "try-1"):
        judge_id = JudgeId(f"lexical@{'0' if run_id == 'live' else '1'}")
        store.scores.insert(
            [
                make_score(n, event_time=trace.event_time, judge_id=judge_id, run_id=run_id)
                for n, trace in enumerate(traces)
            ]
        )
    return Workplace(tmp_path, capsys, settings)


SLICED: Final = [
    "rates", "rates --json", "worst", "find", "ledger", "cost", "report", "export --out rows.jsonl",
    "compare live try-1", "replay --judge words --run try-1", "dataset build d", "anchors build a --judge words",
    "judges noise words", "release check v2 --against v1", "label --queue worst --criterion faithfulness",
    "sampling plan",
]  # fmt: skip


@pytest.mark.parametrize("command", SLICED)
def test_every_verb_says_alike_that_no_trace_came_from_an_app_or_environment(at: Workplace, command: str) -> None:
    told = at(*command.split(), "--app", "shpo", expect=EXIT_USAGE)
    assert told == "error: there is no app 'shpo': traces came from shop\n"
    told = at(*command.split(), "--environment", "prod", expect=EXIT_USAGE)
    assert told == "error: there is no environment 'prod': traces came from production\n"
    assert not (at.folder / "rows.jsonl").exists()


@pytest.mark.parametrize(
    "command",
    ["rates --json", "worst", "find", "report", "export scores --out rows.jsonl", "release check v2 --against v1"],
)
def test_every_verb_says_alike_that_a_judge_is_not_there(at: Workplace, command: str) -> None:
    told = at(*command.split(), "--judge", "strict", expect=EXIT_USAGE)
    assert told.startswith("error: there is no judge 'strict': run 'live' has scores of lexical; ")
    assert not (at.folder / "rows.jsonl").exists()


def test_an_app_that_is_there_and_has_nothing_in_the_time_asked_for_is_no_error(at: Workplace) -> None:
    long_ago = ("--since", "2020-01-01T00:00:00Z", "--until", "2020-01-02T00:00:00Z", "--app", "shop")
    assert "no data, not zero" in at("rates", *long_ago)
    assert "no failed scores" in at("worst", *long_ago)
    assert "no answer matches" in at("find", *long_ago)
    assert "no traces between" in at("ledger", *long_ago)
    assert "no data, not zero" in at("rates", *DAY, "--app", "shop", "--version", "v9"), "it may be new"
    replay = ("replay", "--judge", "words", "--run", "try-1", "--app", "shop", "--version", "v9")
    told = at(*replay, expect=EXIT_UNDECIDED)
    assert "try another --app" in told
    assert "--since" not in told
    assert "a longer --since, or another --app" in at(*replay, "--since", "1h", expect=EXIT_UNDECIDED)


def test_an_app_whose_traces_wait_for_their_rest_or_of_which_only_decisions_are_known_is_there(
    at: Workplace, store: Store
) -> None:
    part = TracePart(trace_id="h-1", app="halves", query="Which plan?", event_time=START)
    store.parts.insert([StoredPart(part=part, ingested_at=START)])
    row = LedgerRow(
        trace_id="d-1", app="decided", environment="production", version="", category="",
        judge_name="lexical", judge_id=JudgeId("lexical@0"), event_time=START, decision=Decision.SAMPLED_OUT,
        decided_at=START,
    )  # fmt: skip
    store.ledger.insert([row])
    for app in ("halves", "decided"):
        assert "no answer matches" in at("find", "--app", app)
        assert "no traces between" in at("ledger", "--since", "1h", "--app", app)
    assert "traces came from decided, halves, shop" in at("find", "--app", "shpo", expect=EXIT_USAGE)


def test_an_environment_that_nobody_typed_is_no_error_and_where_the_traces_are_is_said(
    at: Workplace, store: Store
) -> None:
    store.command("ALTER TABLE trace_index DELETE WHERE 1 SETTINGS mutations_sync = 2")
    store.command("ALTER TABLE scores DELETE WHERE 1 SETTINGS mutations_sync = 2")
    assert "no data, not zero" in at("rates", *DAY, "--app", "shpo"), "no name is wrong before anything came"
    moved = make_trace(900, environment="staging")
    store.traces.insert([StoredTrace(trace=moved, ingested_at=moved.event_time)])
    told = at("rates", *DAY)
    assert "there is no trace from environment production, but from staging: name one with --environment" in told
