"""`tracejudge retry`: invalid scores become verdicts, with the chance under which the trace was chosen."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.judge_reply import JudgeRequest, Reply
from tests.support.judge_server import JudgeServer
from tests.support.records import append
from tracejudge.scores import Outcome, Score
from tracejudge.store import ScoreFilter, open_store
from tracejudge.testing import make_trace
from tracejudge_consumer.cli import run
from tracejudge_consumer.terminal.exit_status import EXIT_DONE, EXIT_UNAVAILABLE, EXIT_USAGE

pytest.importorskip("chdb", reason="the embedded store needs the extra 'embedded'")

SINCE = ("--since", "3650d")


class Mumbling:
    """A judge that says nothing one could read while `mumbles` is set."""

    def __init__(self) -> None:
        self.mumbles = threading.Event()
        self.mumbles.set()

    def __call__(self, request: JudgeRequest) -> Reply:
        odd = any(f"plan {number} " in request.prompt for number in range(1, 40, 2))
        if odd and self.mumbles.is_set():
            return Reply("Well, who knows.")
        return Reply('{"unsupported": [], "verdict": "YES"}')


@pytest.fixture
def judge() -> Mumbling:
    return Mumbling()


@pytest.fixture
def server(judge: Mumbling) -> Iterator[JudgeServer]:
    with JudgeServer(judge, api_key="k") as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store_url: str, server: JudgeServer) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JUDGE_KEY", "k")
    (tmp_path / "tracejudge.toml").write_text(
        f"""\
queue = "sqlite:///queue.db"
store = "{store_url}"

[[judges]]
name = "faithful"
kind = "faithfulness"
base_url = "{server.base_url}"
model = "judge"
api_key_env = "JUDGE_KEY"
max_calls_per_h = 10000
max_attempts = 1

[sampling]
rate = 1.0
strata = [{{ name = "v2", when = {{ field = "version", is = "v2" }}, rate = 0.5 }}]
""",
        encoding="utf-8",
    )
    append(tmp_path / "queue.db", [make_trace(n, version="v2" if n < 20 else "v1") for n in range(40)])
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *args: str, expect: int = EXIT_DONE) -> Any:
    capsys.readouterr()
    status = run([*args, "--json"])
    shown = capsys.readouterr()
    assert status == expect, shown.out + shown.err
    return json.loads(shown.out)


def scores(url: str) -> dict[str, Score]:
    with open_store(url) as store:
        found = [score for batch in store.scores.stream(ScoreFilter()) for score in batch]
    assert len({score.trace_id for score in found}) == len(found), "one score a trace"
    return {score.trace_id: score for score in found}


def test_invalid_scores_become_verdicts_with_the_chance_of_the_day(
    folder: Path, store_url: str, judge: Mumbling, server: JudgeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    said(capsys, "consume", "--until-idle")
    before = scores(store_url)
    invalid = {name for name, score in before.items() if score.outcome is Outcome.INVALID}
    assert len(invalid) > 15
    assert {score.reason for score in before.values()} == {"", "unparsable"}

    assert said(capsys, "retry", *SINCE, "--reason", "judge_timeout") == {"invalid": 0, "by_reason": []}
    dry = said(capsys, "retry", *SINCE, "--reason", "unparsable", "--dry-run")
    assert dry == {
        "invalid": len(invalid),
        "by_reason": [{"judge": "faithful", "reason": "unparsable", "scores": len(invalid)}],
    }
    calls = server.stats.calls
    still = said(capsys, "retry", *SINCE, "--reason", "unparsable", "--limit", "3")
    assert (still["asked"], still["invalid"], server.stats.calls - calls) == (3, 3, 3)
    assert scores(store_url) == before, "invalid stays invalid, and the first of them stands"

    judge.mumbles.clear()
    calls = server.stats.calls
    done = said(capsys, "retry", *SINCE, "--reason", "unparsable", "--judge", "faithful")
    assert (done["asked"], done["passed"], done["invalid"], done["gone"]) == (len(invalid), len(invalid), 0, [])
    assert server.stats.calls - calls == len(invalid) == done["judge_calls"]
    after = scores(store_url)
    assert {score.outcome for score in after.values()} == {Outcome.PASSED}
    assert {name: (score.stratum, score.inclusion_probability, score.event_time) for name, score in after.items()} == {
        name: (score.stratum, score.inclusion_probability, score.event_time) for name, score in before.items()
    }
    assert {score.inclusion_probability for score in after.values()} == {0.5, 1.0}
    assert said(capsys, "retry", *SINCE)["invalid"] == 0


def test_a_judge_that_is_gone_ends_a_retry_and_leaves_the_scores(
    folder: Path,
    store_url: str,
    server: JudgeServer,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said(capsys, "consume", "--until-idle")
    before = scores(store_url)
    monkeypatch.setenv("JUDGE_KEY", "another")
    calls = server.stats.calls
    report = said(capsys, "retry", *SINCE, expect=EXIT_UNAVAILABLE)
    assert "bad_key" in report["gone"][0]
    assert server.stats.calls - calls <= 5
    assert scores(store_url) == before
    with open_store(store_url) as store:
        assert store.ledger.undecided() == [], "no ledger row beside an invalid score"


def test_a_judge_that_is_not_in_the_settings_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["retry", *SINCE, "--judge", "soup"]) == EXIT_USAGE
    assert "'soup' is not in the settings" in capsys.readouterr().err
