"""What a newcomer types on the first day: mistakes and empty stores get an answer that helps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tracejudge.errors import ServiceUnavailable
from tracejudge.store import Store, StoredTrace
from tracejudge.testing import make_trace
from tracejudge_consumer.cli import run
from tracejudge_consumer.terminal.exit_status import EXIT_DONE, EXIT_FAILED, EXIT_USAGE

LEXICAL = '[[judges]]\nname = "lexical"\nkind = "lexical"\n'
SECOND = '[[judges]]\nname = "second"\nkind = "lexical"\n'


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store_url: str) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "tracejudge.toml"
    path.write_text(f'queue = "sqlite:///queue.db"\nstore = "{store_url}"\n{LEXICAL}', encoding="utf-8")
    return path


def _stored() -> StoredTrace:
    trace = make_trace(1)
    return StoredTrace(trace=trace, ingested_at=trace.event_time)


@pytest.mark.usefixtures("settings", "store")
def test_series_that_are_not_there_yet_are_words_and_no_empty_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["alerts", "explain"]) == EXIT_DONE
    assert capsys.readouterr().out.startswith("no series yet: the alert loop")


@pytest.mark.usefixtures("settings")
def test_a_label_by_a_criterion_that_no_judge_measures_is_kept_and_told(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    stored = _stored()
    store.traces.insert([stored])
    trace_id = stored.trace.trace_id
    assert run(["label", trace_id, "--criterion", "faithfulnes", "--no"]) == EXIT_DONE
    shown = capsys.readouterr().err
    assert "no judge of tracejudge.toml measures 'faithfulnes'" in shown
    assert "they measure faithfulness" in shown
    assert run(["label", trace_id, "--criterion", "faithfulness", "--no"]) == EXIT_DONE
    assert "note" not in capsys.readouterr().err


def test_the_only_judge_need_not_be_named(settings: Path, store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    stored = _stored()
    store.traces.insert([stored])
    assert run(["judge", stored.trace.trace_id, "--json"]) == EXIT_DONE
    assert json.loads(capsys.readouterr().out)["gone"] == []
    settings.write_text(settings.read_text(encoding="utf-8") + SECOND, encoding="utf-8")
    assert run(["judge", stored.trace.trace_id]) == EXIT_USAGE
    assert "name one or more with --judge: lexical, second" in capsys.readouterr().err


@pytest.mark.usefixtures("settings")
def test_a_file_of_alert_trials_without_a_trial_points_at_the_help(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rules.toml").write_text("[[rules]]\nname = 'm'\njudge = 'lexical'\nminimum = 0.8\n", encoding="utf-8")
    assert run(["alerts", "test", "rules.toml"]) == EXIT_USAGE
    assert "tests: is missing; `tracejudge alerts test --help` shows it" in capsys.readouterr().err


def test_the_example_of_thresholds_keeps_its_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["gate", "--help"]) == EXIT_DONE
    assert '    [[thresholds]]\n    judge = "faithfulness"\n    minimum = 0.80\n' in capsys.readouterr().out


def test_a_gate_without_thresholds_tells_where_to_see_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.jsonl").write_text("{}", encoding="utf-8")
    assert run(["gate", "rows.jsonl"]) == EXIT_USAGE
    assert "thresholds.toml: no such file: `tracejudge gate --help` shows one" in capsys.readouterr().err


def test_the_doctor_does_not_wait_a_minute_for_a_server_that_is_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    waited: list[float | None] = []

    def down(settings: Any, *, patience_s: float | None = None) -> Store:
        waited.append(patience_s)
        raise ServiceUnavailable("does not answer")

    monkeypatch.chdir(tmp_path)
    (tmp_path / "store" / "chdb").mkdir(parents=True)
    monkeypatch.setattr("tracejudge_consumer.commands.doctor.open_unchecked_store", down)
    for url in ("clickhouse://x@127.0.0.1:9/db", "chdb:///store"):
        (tmp_path / "tracejudge.toml").write_text(
            f'queue = "sqlite:///queue.db"\nstore = "{url}"\n{LEXICAL}', encoding="utf-8"
        )
        assert run(["doctor"]) == EXIT_FAILED
    assert waited == [5.0, None]
    assert "fix: start it, or correct `store`" in capsys.readouterr().out
