"""The demo keeps its promises: silent on the healthy stretch, one alert on the bad release, a ledger that adds up."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from tracejudge_consumer.cli import run
from tracejudge_consumer.commands.demo import program
from tracejudge_consumer.demo import demo_stream
from tracejudge_consumer.terminal.exit_status import EXIT_USAGE

END = datetime(2026, 6, 1, tzinfo=timezone.utc)


def test_the_stream_is_three_parts_healthy_to_one_bad_and_invents_no_text() -> None:
    stream = demo_stream(END)
    assert len(stream.healthy) == 3 * len(stream.bad)
    own = {trace.trace_id: trace for trace in stream.healthy}
    swapped = 0
    for trace in stream.bad:
        original = own[trace.trace_id.removesuffix("-v42")]
        assert (trace.query, trace.source_nodes) == (original.query, original.source_nodes)
        swapped += trace.response != original.response
        assert trace.response in {other.response for other in stream.healthy}
    assert 0 < swapped <= stream.swapped
    times = [trace.event_time for trace in (*stream.healthy, *stream.bad)]
    assert times == sorted(set(times))
    assert END - times[-1] == timedelta(minutes=3)


def test_the_demo_never_empties_a_folder_of_somebody_else(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("x")
    assert run(["demo", "--folder", str(tmp_path)]) == EXIT_USAGE
    assert (tmp_path / "precious").exists()


def test_the_next_steps_name_a_program_that_the_shell_finds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [".venv/bin/tracejudge", "demo"])
    assert program() == ".venv/bin/tracejudge"
    (tmp_path / "tracejudge").touch(mode=0o755)
    assert program() == "tracejudge"


@pytest.mark.slow
def test_the_demo_runs_to_its_end(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tracejudge_consumer.cli", "demo", "--folder", "look"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=170,
    )
    shown = done.stdout
    assert done.returncode == 0, shown + done.stderr
    healthy, bad = shown.split("2. Release", 1)
    assert "alerts: silent" in healthy
    assert "ALERT" not in healthy
    assert bad.count("ALERT (ticket, heuristic)") == 1
    numbers = re.search(
        r"(\d+) traces = (\d+) scored \+ (\d+) invalid \+ (\d+) not applicable \+ (\d+) sampled out; "
        r"not included: (\d+) dead letter",
        shown,
    )
    assert numbers is not None
    traces, *parts, dead = map(int, numbers.groups())
    assert traces == sum(parts) == 560
    assert dead == 1
    assert min(parts[0], parts[2], parts[3]) > 0
    assert "used a second time" in shown
    assert re.search(r"version v42 appeared about [\d-]+ [\d:]+ UTC, and all \d+ judged traces since", shown)
    # Weighted and plain rates differ, and both are shown.
    rates = re.search(r"v41: ([\d.]+) % .*plain ([\d.]+) %", shown)
    assert rates is not None
    assert rates[1] != rates[2]
