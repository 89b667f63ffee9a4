"""`tracejudge release check` on stored live scores."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from tracejudge.scores import JudgeId, Outcome, Score
from tracejudge.store import Store
from tracejudge_consumer.cli import run
from tracejudge_consumer.terminal.exit_status import EXIT_DONE, EXIT_FAILED, EXIT_UNDECIDED, EXIT_USAGE

START = datetime(2026, 3, 1, tzinfo=timezone.utc)
WINDOW = ("--since", "2026-03-01T00:00:00Z", "--until", "2026-03-02T00:00:00Z")
JUDGE = JudgeId("faithfulness@0123456789ab")


def scores(version: str, passed: int, failed: int, *, seed: int, judge_id: JudgeId = JUDGE) -> list[Score]:
    """Verdicts in a shuffled order; failures sampled at 1, passes at one half, so that weights matter."""
    outcomes = [Outcome.PASSED] * passed + [Outcome.FAILED] * failed
    random.Random(seed).shuffle(outcomes)
    return [
        Score(
            environment="production",
            app="shop",
            version=version,
            category="",
            trace_id=f"{version}-{number}",
            event_time=START + timedelta(seconds=number),
            judge_name=judge_id.partition("@")[0],
            judge_id=judge_id,
            outcome=outcome,
            score=float(outcome is Outcome.PASSED),
            inclusion_probability=0.5 if outcome is Outcome.PASSED else 1.0,
            judged_at=START + timedelta(seconds=number, microseconds=number),
        )
        for number, outcome in enumerate(outcomes)
    ]


@pytest.fixture
def config(tmp_path: Path, store_url: str) -> str:
    path = tmp_path / "tracejudge.toml"
    path.write_text(f'queue = "sqlite:///queue.db"\nstore = "{store_url}"\n')
    return str(path)


def check(config: str, *more: str) -> int:
    return run(["release", "check", "v2", "--against", "v1", *WINDOW, "--config", config, *more])


def checked(config: str, capsys: pytest.CaptureFixture[str], *more: str, expect: int) -> Any:
    capsys.readouterr()
    assert check(config, "--json", *more) == expect
    return json.loads(capsys.readouterr().out)


def test_a_fall_of_five_points_is_worse(store: Store, config: str, capsys: pytest.CaptureFixture[str]) -> None:
    # Weighted by 2 for passes: 950 * 2 / (950 * 2 + 100) = 95 %, and 900 * 2 / (900 * 2 + 200) = 90 %.
    store.scores.insert(scores("v1", 950, 100, seed=1))
    store.scores.insert(scores("v2", 900, 200, seed=2))
    found = checked(config, capsys, expect=EXIT_FAILED)
    (line,) = found["check"]["lines"]
    assert line["old"]["estimate"] == pytest.approx(0.95)
    assert line["new"]["estimate"] == pytest.approx(0.90)
    assert line["result"]["difference"]["value"] == pytest.approx(-0.05)
    assert line["result"]["difference"]["high"] < -0.02
    assert found["window"] == {"start": "2026-03-01T00:00:00.000Z", "end": "2026-03-02T00:00:00.000Z"}
    assert found["check"]["old"] == {
        "version": "v1", "start": "2026-03-01T00:00:00.000Z", "end": "2026-03-01T00:17:29.000Z", "judged": 1050,
    }  # fmt: skip
    assert check(config) == EXIT_FAILED
    shown = capsys.readouterr().out
    assert "v2: 1100 judged traces, served from 2026-03-01 00:00:00 to 2026-03-01 00:18:19" in shown
    assert "time range 2026-03-01 00:00:00 to 2026-03-02 00:00:00 (UTC)" in shown
    low, high = (f"{100 * line['result']['difference'][end]:+.1f}" for end in ("low", "high"))
    assert f"-5.0  {low} to {high}" in shown


def test_the_same_quality_is_no_worse(store: Store, config: str, capsys: pytest.CaptureFixture[str]) -> None:
    store.scores.insert(scores("v1", 1900, 200, seed=3))
    store.scores.insert(scores("v2", 1900, 200, seed=4))
    assert checked(config, capsys, expect=EXIT_DONE)["check"]["verdict"] == "no_worse"


def test_too_few_are_undecided_and_it_says_how_many_are_needed(
    store: Store, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    store.scores.insert(scores("v1", 1900, 200, seed=5))
    store.scores.insert(scores("v2", 95, 10, seed=6))
    assert check(config) == EXIT_UNDECIDED
    shown = capsys.readouterr().out
    assert "not enough yet: needs about" in shown
    assert "more judged traces" in shown
    assert "alone would not decide it" not in shown


def test_where_the_old_release_was_seen_too_little_it_says_so(
    store: Store, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    store.scores.insert(scores("v1", 95, 10, seed=5))
    store.scores.insert(scores("v2", 950, 100, seed=6))
    assert check(config) == EXIT_UNDECIDED
    shown = capsys.readouterr().out
    assert "needs about" not in shown
    assert "more of v2 alone would not decide it, more of v1 may (a longer --since)" in shown


def test_verdicts_of_two_judges_are_not_set_against_each_other(
    store: Store, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    store.scores.insert(scores("v1", 950, 100, seed=7))
    store.scores.insert(scores("v2", 950, 100, seed=8, judge_id=JudgeId("faithfulness@ba9876543210")))
    assert check(config) == EXIT_UNDECIDED
    shown = capsys.readouterr().err
    assert "no judge has judged both 'v2' and 'v1'" in shown
    assert "tracejudge rates --run NAME --by version" in shown


def test_a_release_without_scores_and_one_against_itself_are_told(
    store: Store, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    store.scores.insert(scores("v1", 95, 10, seed=9))
    assert check(config) == EXIT_UNDECIDED
    assert "not enough yet: version 'v2' has no scores" in capsys.readouterr().err
    assert run(["release", "check", "v1", "--against", "v1", "--config", config]) == EXIT_USAGE


def test_releases_of_two_apps_are_not_mixed(store: Store, config: str, capsys: pytest.CaptureFixture[str]) -> None:
    store.scores.insert(scores("v1", 1900, 200, seed=10))
    store.scores.insert(scores("v2", 1900, 200, seed=11))
    store.scores.insert([replace(one, app="help") for one in scores("v2", 10, 900, seed=12)])
    assert check(config) == EXIT_USAGE
    assert "several apps served 'v1' or 'v2': name one with --app: help, shop" in capsys.readouterr().err
    assert checked(config, capsys, "--app", "shop", expect=EXIT_DONE)["check"]["verdict"] == "no_worse"


def test_a_field_that_no_trace_says_is_told(store: Store, config: str, capsys: pytest.CaptureFixture[str]) -> None:
    store.scores.insert(scores("v1", 90, 10, seed=1) + scores("v2", 90, 10, seed=2))
    assert check(config, "--where", "tags.tenat=acme") == EXIT_UNDECIDED
    assert "no scores in this slice" in (told := capsys.readouterr().err)
    assert "no trace in this time range has tags.tenat = 'acme'" in told


def test_releases_of_two_environments_are_not_mixed(
    store: Store, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Load tests of v2 in staging are no canary; and the check that `compare` names looks where it looked."""
    compare = ["compare", "v1", "v2", "--by", "version", *WINDOW, "--config", config]
    elsewhere = [replace(score, environment="staging") for score in scores("v2", 0, 100, seed=3)]
    store.scores.insert(scores("v1", 90, 10, seed=1) + scores("v2", 90, 10, seed=2) + elsewhere)
    assert run(compare) == EXIT_USAGE
    told = capsys.readouterr().err
    assert "several environments served 'v1' or 'v2': name one with --environment: production, staging" in told
    assert run([*compare, "--environment", "production"]) == EXIT_DONE
    assert "does not show" in capsys.readouterr().out
    store.command("TRUNCATE TABLE scores")
    store.scores.insert([replace(score, environment="staging") for score in scores("v1", 90, 10, seed=1)] + elsewhere)
    assert run(compare) == EXIT_DONE
    assert "release check v2 --against v1 --environment staging" in capsys.readouterr().out
