"""What a trace, a judge or a file says reaches the terminal and the log as text, never as an order to them."""

from __future__ import annotations

import json
import logging
import sys
import unicodedata

import pytest

from tracejudge_consumer import cli
from tracejudge_consumer.choosing.named_run import listed, no_run
from tracejudge_consumer.terminal.rendering import console, table, to_json
from tracejudge_consumer.watching.json_logs import JsonFormatter
from tracejudge_consumer.watching.line_logs import LineFormatter

HOSTILE = "app\x1b[2J\x1b]0;title\x07\x9b31m\u202ertl\u2066\r\nerror: forged \ud83d"


def steers(text: str) -> list[str]:
    """What in `text` a terminal would obey, or no stream takes."""
    return [char for char in text if char not in "\n\t" and unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co")]


def record(message: str) -> logging.LogRecord:
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        return logging.LogRecord("tracejudge.x", logging.ERROR, __file__, 1, message, (HOSTILE,), sys.exc_info())


def test_a_console_prints_no_order_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    console().print(f"from {HOSTILE}")
    console().print(table(HOSTILE, [(HOSTILE, "left")], [[HOSTILE]]))
    assert steers(capsys.readouterr().out) == []


def test_a_list_of_names_stays_on_its_line() -> None:
    for said in (listed([HOSTILE]), str(no_run("x", [HOSTILE]))):
        assert steers(said) == []
        assert "\n" not in said


def test_a_log_line_is_one_line_and_steers_nothing() -> None:
    without = record("judge %s failed")
    without.exc_info = None
    line = LineFormatter().format(without)
    assert "\n" not in line
    assert steers(line) == []
    with_traceback = LineFormatter().format(record("judge %s failed"))
    assert steers(with_traceback) == []
    assert "ValueError" in with_traceback


def test_a_json_log_line_and_json_output_hold_escapes_that_mean_the_same() -> None:
    line = JsonFormatter().format(record("judge %s failed"))
    assert steers(line) == steers(to_json({HOSTILE: HOSTILE})) == []
    assert json.loads(line)["message"] == f"judge {HOSTILE} failed"
    assert json.loads(to_json({HOSTILE: HOSTILE})) == {HOSTILE: HOSTILE}


def test_the_words_of_an_unforeseen_error_steer_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise RuntimeError(HOSTILE)

    monkeypatch.setattr(cli.cli, "main", fails)
    assert cli.run([]) == 70
    assert steers(capsys.readouterr().err) == []
