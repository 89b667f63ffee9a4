"""What a command answers when there is nothing to work on, or nobody there: the status that scripts go by."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tracejudge_consumer.cli import run
from tracejudge_consumer.terminal.exit_status import EXIT_FAILED, EXIT_UNDECIDED, EXIT_USAGE


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "wrong.jsonl").write_text(json.dumps({"answer": "no query here", "more": {"a": [1]}}) + "\n")
    return tmp_path


def test_an_empty_file_is_checked_for_nothing(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["contract", "check", "empty.jsonl"]) == EXIT_UNDECIDED
    assert "nothing was checked" in capsys.readouterr().err


def test_a_file_of_something_else_is_refused_in_words(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["score", "wrong.jsonl"]) == EXIT_FAILED
    said = capsys.readouterr().err
    assert "query: is missing" in said
    assert "{'" not in said, "no object in Python's words"


def test_a_percentage_for_a_share_is_told_what_to_write(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rule = '[[rules]]\nname = "r"\ntype = "minimum"\njudge = "lexical"\nminimum = 90\nfalse_alarms = "1 per 30d"\n'
    judge = '[[judges]]\nname = "lexical"\nkind = "lexical"\n'
    (here / "tracejudge.toml").write_text(f'queue = "sqlite:///q.db"\nstore = "chdb:///s"\n{judge}{rule}')
    assert run(["config", "check"]) == EXIT_USAGE
    assert "write 0.9 for 90 %" in capsys.readouterr().err
    (here / "thresholds.toml").write_text('[[thresholds]]\njudge = "lexical"\nminimum = 80\n')
    (here / "rows.jsonl").write_text('{"trace_id": "t", "judge": "lexical", "judge_id": "l@1", "outcome": "passed"}\n')
    assert run(["gate", "rows.jsonl"]) == EXIT_USAGE
    assert "write 0.8 for 80 %" in capsys.readouterr().err


SETTINGS = 'queue = "sqlite:///q.db"\nstore = "chdb:///s"\n'
ROW = '{"trace_id": "t", "judge": "lexical", "judge_id": "l@1", "outcome": "passed"}\n'


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (
            "score wrong.jsonl --max-usd nan",
            "is not a finite number",
        ),
        ("release check a --against b --max-drop nan", "is not a finite number"),
        ("release check a --against b --min-effective -5", "-5.0 is not in the range x>=0"),
        ("score wrong.jsonl -o nowhere/rows.jsonl", "no such folder"),
        ("gate rows.jsonl --junit nowhere/gate.xml", "no such folder"),
        ("gate rows.jsonl --markdown nowhere/gate.md", "no such folder"),
        ("gate rows.jsonl --baseline nowhere/b.json --update-baseline", "no such folder"),
        ("report --html nowhere/r.html", "no such folder"),
        ("export traces -o nowhere/t.jsonl", "no such folder"),
        ("export traces -o rows.jsonl --format parquet", "name a folder"),
        ("ledger --since 1d --until 2d", "is not before --until"),
        ("retry --since 1d --until 2d", "is not before --until"),
        ("report --since 1d --until 2d", "is not before --until"),
        ("dead-letters list --since 1d --until 2d", "is not before --until"),
        ("rates --since 400d --step 1s", "windows, the limit is 100,000"),
        ("replay --judge lexical --since 1d --sample 99999999999999999999 --run r", "is not in the range"),
    ],
)
def test_an_argument_that_makes_no_sense_is_refused_before_anything_is_done(
    here: Path, command: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "tracejudge.toml").write_text(SETTINGS)
    (here / "thresholds.toml").write_text('[[thresholds]]\njudge = "lexical"\nminimum = 0.8\n')
    (here / "rows.jsonl").write_text(ROW)
    assert run(command.split()) == EXIT_USAGE
    shown = capsys.readouterr().err
    assert said in " ".join(shown.split())
    assert "Traceback" not in shown


def test_a_new_baseline_is_told_to_a_machine_too(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "rows.jsonl").write_text(ROW)
    assert run(["gate", "rows.jsonl", "--baseline", "b.json", "--update-baseline", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["baseline"], told["verdicts"], told["judge_ids"]) == ("b.json", 1, {"lexical": "l@1"})


@pytest.mark.parametrize("before", ["questions", "questions/v0009.jsonl"])
def test_a_version_of_a_dataset_that_is_not_there_is_told_with_those_that_are(
    here: Path, before: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "questions").mkdir()
    (here / "questions" / "v0001.jsonl").write_text("")
    assert run(["dataset", "diff", before, "questions/v0001.jsonl"]) == EXIT_USAGE
    said = " ".join(capsys.readouterr().err.split())
    assert "name the file of a version" in said
    assert "versions: questions/v0001.jsonl" in said


@pytest.mark.parametrize(
    "command", ["judges check no.toml", "sampling plan --policy no.toml", "replay --judge no.toml --run r"]
)
def test_a_file_that_is_not_there_is_named_once(here: Path, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "tracejudge.toml").write_text(SETTINGS)
    (here / "rows.jsonl").write_text(ROW)
    assert run(command.split()) == EXIT_USAGE
    said = capsys.readouterr().err
    assert "Errno" not in said
    assert said.count("no.toml") == 1


def test_the_doctor_leaves_no_queue_behind(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "tracejudge.toml").write_text('queue = "sqlite:///deep/q.db"\nstore = "chdb:///s"\n')
    run(["doctor"])
    assert "no queue yet" in capsys.readouterr().out
    assert not (here / "deep").exists()
