"""`tracejudge cost`, and windows that a budget cut into: what was spent, and what the spending left undone."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from tracejudge.scores import Decision, JudgeCall, JudgeId, LedgerRow
from tracejudge.store import Store
from tracejudge.testing import make_score
from tracejudge_consumer.cli import run
from tracejudge_consumer.terminal.exit_status import EXIT_DONE, EXIT_USAGE

pytest.importorskip("chdb", reason="the embedded store needs the extra 'embedded'")

NOW = datetime.now(timezone.utc).replace(minute=0, second=0, microsecond=0)
FAITHFUL = JudgeId("faithful@000000000000")


@pytest.fixture
def settings(tmp_path: Path, store_url: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "tracejudge.toml"
    path.write_text(f'queue = "sqlite:///queue.db"\nstore = "{store_url}"\n', encoding="utf-8")
    return path


def call(number: int, **fields: Any) -> JudgeCall:
    values: dict[str, Any] = {
        "call_id": f"c{number}",
        "environment": "production",
        "app": "shop",
        "trace_id": f"t{number}",
        "judge_name": "faithful",
        "judge_id": FAITHFUL,
        "status": "ok",
        "input_tokens": 1_000,
        "output_tokens": 50,
        "cost_usd": 0.25,
        "started_at": NOW - timedelta(hours=2),
    }
    return JudgeCall(**{**values, **fields})


def said(capsys: pytest.CaptureFixture[str], *args: str, expect: int = EXIT_DONE) -> str:
    capsys.readouterr()
    status = run([*args])
    shown = capsys.readouterr()
    assert status == expect, shown.out + shown.err
    return shown.out


def test_what_was_spent_adds_up_by_judge_app_and_day(
    settings: Path, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    store.calls.insert(
        [
            call(1),
            call(2, app="docs"),
            call(3, status="timeout", started_at=NOW - timedelta(days=2)),
            call(4, judge_name="other", judge_id="other@1", cost_usd=None, run_id="replay-1"),
        ]
    )
    store.calls.insert([call(1)])  # delivered twice, spent once
    found = json.loads(said(capsys, "cost", "--json"))
    by_judge = {line["group"]["judge"]: line for line in found["lines"]}
    assert (by_judge["faithful"]["calls"], by_judge["faithful"]["usd"]) == (3, 0.75)
    assert by_judge["faithful"]["failed_calls"] == 1
    assert (by_judge["other"]["calls"], by_judge["other"]["unpriced"], by_judge["other"]["usd"]) == (1, 1, 0.0)
    assert (found["total"]["calls"], found["total"]["input_tokens"], found["total"]["usd"]) == (4, 4_000, 0.75)
    by_app = json.loads(said(capsys, "cost", "--by", "app", "--since", "24h", "--json"))["lines"]
    assert {line["group"]["app"]: line["calls"] for line in by_app} == {"shop": 2, "docs": 1}
    days = json.loads(said(capsys, "cost", "--by", "day", "--by", "judge", "--json"))["lines"]
    assert [line["group"]["day"] for line in days] == sorted(line["group"]["day"] for line in days)
    assert len(days) == 3
    assert json.loads(said(capsys, "cost", "--run", "replay-1", "--json"))["total"]["calls"] == 1
    shown = said(capsys, "cost")
    assert "in all" in shown
    assert "no price is known for 1 of 4 calls" in shown
    assert "no calls to a model" in said(capsys, "cost", "--app", "nobody")
    said(capsys, "cost", "--by", "mood", expect=EXIT_USAGE)
    assert "no calls to a model" in said(capsys, "cost", "--judge", "faithful", "--since", "1s")
    assert run(["cost", "--judge", "faithfull"]) == EXIT_USAGE
    assert "there is no judge 'faithfull': judges with calls: faithful" in capsys.readouterr().err


def test_two_judges_of_one_name_are_told_apart(
    settings: Path, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    newer = JudgeId("faithful@222222222222")
    store.calls.insert(
        [call(1), call(2, judge_id=newer, cost_usd=0.5), call(3, judge_name="other", judge_id="other@1")]
    )
    lines = json.loads(said(capsys, "cost", "--json"))["lines"]
    spent = {line["group"]["judge_id"]: line["usd"] for line in lines}
    assert (spent[FAITHFUL], spent[newer]) == (0.25, 0.5)
    assert {line["group"]["judge"] for line in lines} == {"faithful", "other"}
    shown = said(capsys, "cost")
    assert FAITHFUL in shown
    assert newer in shown
    assert "other@1" not in shown, "one of its name needs no more than the name"
    assert json.loads(said(capsys, "cost", "--judge", newer, "--json"))["total"]["usd"] == 0.5
    assert json.loads(said(capsys, "cost", "--judge", "faithful", "--json"))["total"]["calls"] == 2


def test_a_window_that_a_budget_cut_into_says_that_its_coverage_is_low(
    settings: Path, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    scores, ledger = [], []
    for hour in (1, 2):
        for number in range(40):
            at = NOW - timedelta(hours=hour) + timedelta(minutes=number)
            fields: dict[str, Any] = {"trace_id": f"t{hour}-{number}", "event_time": at}
            if hour == 2 or number < 30:
                scores.append(make_score(**fields, judge_name="faithful", judge_id=FAITHFUL, judged_at=at))
            if hour == 1 and number >= 25:
                ledger.append(
                    LedgerRow(
                        **fields,
                        environment="production",
                        app="shop",
                        version="v1",
                        category="",
                        judge_name="faithful",
                        judge_id=FAITHFUL,
                        decision=Decision.OVER_BUDGET,
                        reason="max_calls_per_h",
                        decided_at=at,
                    )
                )
    store.scores.insert(scores)
    store.ledger.insert(ledger)
    found = json.loads(said(capsys, "rates", "--since", "3h", "--json"))
    cut = {line["window"]["start"][11:13]: line["over_budget"] for line in found["lines"]}
    # Of the fifteen that were over budget, five were judged after all.
    assert cut[(NOW - timedelta(hours=1)).strftime("%H")] == 10
    assert cut[(NOW - timedelta(hours=2)).strftime("%H")] == 0
    assert found["over_budget"] == {"faithful": 10}
    by_version = json.loads(said(capsys, "rates", "--since", "3h", "--step", "all", "--by", "version", "--json"))
    assert [line["over_budget"] for line in by_version["lines"]] == [10]
    shown = said(capsys, "rates", "--since", "3h")
    assert "coverage low: faithful left 10 traces unjudged" in shown
    assert sum("low" in line.split() for line in shown.splitlines() if "faithful" in line and "%" in line) <= 1
    assert json.loads(said(capsys, "rates", "--since", "3h", "--version", "v9", "--json"))["over_budget"] == {}
