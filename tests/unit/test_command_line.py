"""The command line: help that imports nothing heavy, honest exit statuses, times as people write them."""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from tracejudge_consumer.cli import _COMMANDS, run
from tracejudge_consumer.commands.init import settings_text
from tracejudge_consumer.terminal.exit_status import EXIT_DONE, EXIT_USAGE
from tracejudge_consumer.terminal.options import Beginning, Moment, Since, parse_span, whole_steps
from tracejudge_consumer.terminal.rendering import (
    about,
    bar,
    harmless,
    ident,
    interval,
    money,
    one_line,
    percent,
    to_json,
)

HEAVY = ("llama_index", "clickhouse_connect", "chdb", "kafka", "aiohttp", "prometheus_client")


def test_help_imports_no_heavy_library() -> None:
    code = (
        "import sys; from tracejudge_consumer.cli import run; status = run(['--help']); "
        f"print([name for name in {HEAVY!r} if name in sys.modules]); sys.exit(status)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.endswith("[]\n")


@pytest.mark.parametrize("name", sorted(_COMMANDS))
def test_every_command_has_help_that_teaches(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([name, "--help"]) == EXIT_DONE
    shown = capsys.readouterr().out
    assert "Usage: tracejudge" in shown
    assert "Examples:" in shown


def test_a_wrong_option_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["rates", "--no-such-option"]) == EXIT_USAGE
    assert "--no-such-option" in capsys.readouterr().err


def test_a_missing_settings_file_names_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["rates"]) == EXIT_USAGE
    assert "tracejudge init" in capsys.readouterr().err


def test_init_writes_settings_that_pass_the_check_and_does_not_overwrite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["init"]) == EXIT_DONE
    assert run(["config", "check"]) == EXIT_DONE
    assert "lexical (heuristic)" in capsys.readouterr().out
    assert run(["init"]) == EXIT_USAGE
    assert "--force" in capsys.readouterr().err


def test_init_sends_to_migrate_only_where_there_is_a_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["init"]) == EXIT_DONE
    assert "next: tracejudge doctor, then tracejudge up\n" in capsys.readouterr().out
    assert run(["init", "--force", "--store", "clickhouse://u@h:8123/d"]) == EXIT_DONE
    assert "next: tracejudge migrate, then tracejudge doctor\n" in capsys.readouterr().out


def test_the_check_says_what_each_rule_counts_and_promises_nothing_for_a_threshold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["init"]) == EXIT_DONE
    rules = """
[[rules]]
name = "soon"
type = "minimum"
judge = "lexical"
measure = "lag_s"
at_most = 600
minimum = 0.95
[[rules]]
name = "hourly"
type = "threshold"
judge = "lexical"
below = 0.8
"""
    (tmp_path / "tracejudge.toml").write_text((tmp_path / "tracejudge.toml").read_text() + rules)
    capsys.readouterr()
    assert run(["config", "check"]) == EXIT_DONE
    soon, hourly = capsys.readouterr().out.splitlines()[-2:]
    assert soon.startswith("rule   soon: share judged by lexical within 600 s of production not below 95 %")
    assert "no promise about false alarms" in hourly


def test_a_look_from_the_wrong_folder_makes_no_empty_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["init"]) == EXIT_DONE
    assert run(["rates"]) == EXIT_USAGE
    assert "no store here yet" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["tracejudge.toml"]


def test_a_url_with_quotes_survives_in_the_settings() -> None:
    text = settings_text(queue='sqlite:///a"b\\c', store="chdb:///x")
    assert 'queue = "sqlite:///a\\"b\\\\c"' in text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90s", timedelta(seconds=90)),
        ("15m", timedelta(minutes=15)),
        ("1.5h", timedelta(minutes=90)),
        ("2w", timedelta(days=14)),
    ],
)
def test_spans_are_read(text: str, expected: timedelta) -> None:
    assert parse_span(text) == expected


@pytest.mark.parametrize("text", ["", "0h", "-1h", "1", "h", "1y", "1h30"])
def test_what_is_no_span_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="length of time"):
        parse_span(text)


def test_a_century_ago_is_the_first_instant_that_the_store_keeps() -> None:
    assert Moment().convert("36500d", None, None) == datetime(1970, 1, 1, tzinfo=timezone.utc)


def test_moments_need_a_zone() -> None:
    assert Moment().convert("2026-01-31Z", None, None).isoformat() == "2026-01-31T00:00:00+00:00"
    read = Moment().convert("2026-01-31T12:00:00Z", None, None)
    assert read == datetime(2026, 1, 31, 12, tzinfo=timezone.utc)
    with pytest.raises(Exception, match="time zone"):
        Moment().convert("2026-01-31T12:00:00", None, None)


def test_hostile_text_cannot_steer_the_terminal() -> None:
    text = "\x1b[2Jred\x07 \u202egnp.exe\u200b\x9b31m"
    shown = harmless(text)
    assert not any(character in shown for character in "\x1b\x07\u202e\u200b\x9b")
    assert "red" in shown
    assert one_line("a\n\r\tb", limit=10) == "a b"
    assert one_line("x" * 200, limit=10) == "x" * 9 + "…"


def test_an_id_with_line_breaks_forges_no_line_of_ours() -> None:
    assert ident("t-1\n2026-01-01  passed  forged\r\u2028x") == "t-1 2026-01-01 passed forged x"


def test_no_data_is_not_shown_as_zero() -> None:
    assert percent(None) == "–"
    assert interval(None, None) == "–"
    assert money(None) == "price unknown"
    assert about(0.0134) == "about $0.0134"
    assert "set usd_per_million_input_tokens and usd_per_million_output_tokens" in about(None)
    assert bar(None) == ""
    assert percent(0.9512) == "95.1 %"
    assert bar(0.5, width=4) == "██"


def test_json_refuses_nan_and_writes_instants_in_utc() -> None:
    assert to_json(["\x9b31m \u202egnp.exe\u2028", "\u00e4"]) == '["\\u009b31m \\u202egnp.exe\\u2028", "\u00e4"]'
    assert to_json({"at": datetime(2026, 1, 1, tzinfo=timezone.utc)}) == '{"at": "2026-01-01T00:00:00.000Z"}'
    with pytest.raises(ValueError, match="JSON compliant"):
        to_json(float("nan"))


def test_so_long_ago_goes_to_whole_steps_and_an_instant_stands() -> None:
    noon, later = datetime(2026, 1, 1, 12, tzinfo=timezone.utc), timedelta(minutes=25)
    ago = Since().convert("7d", None, None)
    assert (ago.ago, Since().convert(ago, None, None)) == (True, ago)
    typed = Since().convert("2026-01-01T14:25:00+02:00", None, None)
    assert typed == Beginning(noon + later, ago=False)
    hour, last = timedelta(hours=1), noon + 3 * later
    for begin, start in ((typed, noon + later), (typed._replace(ago=True), noon)):
        assert whole_steps(begin, None, last=last, step_s=3600) == (start, noon + 2 * hour)
        assert whole_steps(begin, last, last=noon, step_s=3600) == (start, last)
