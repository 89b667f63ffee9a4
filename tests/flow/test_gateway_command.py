"""`tracejudge gateway` and `tracejudge up` as processes: what they say, take, and do on SIGTERM."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.queue_reader import read_sqlite
from tracejudge.testing import make_trace
from tracejudge_sdk import codec

KEY = "0123456789abcdef"


@contextmanager
def running(folder: Path, *args: str, **environ: str) -> Iterator[subprocess.Popen[str]]:
    """The command as a process; killed at the end where it has not ended."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tracejudge_consumer.cli", *args],
        cwd=folder,
        env={**os.environ, **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=30)


def address(process: subprocess.Popen[str]) -> str:
    """What the gateway says it listens on."""
    said = []
    assert process.stdout is not None
    for line in process.stdout:
        said.append(line)
        if found := re.search(r"gateway: (http://\S+)", line):
            return found[1]
    raise AssertionError("".join(said))


def post(url: str, body: bytes, key: str = KEY) -> dict[str, int]:
    headers = {"Content-Type": "application/x-ndjson", "Authorization": f"Bearer {key}"}
    request = urllib.request.Request(url, body, headers)  # noqa: S310 - loopback
    for _ in range(300):
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
                return dict(json.load(answer))
        except urllib.error.HTTPError as error:
            if error.code != 503:  # before its first look at the queue
                raise
            threading.Event().wait(0.02)
    raise AssertionError("the gateway takes nothing")


def settings(folder: Path, text: str = "") -> None:
    (folder / "tracejudge.toml").write_text(f'queue = "sqlite:///queue.db"\nstore = "chdb:///store"\n{text}')


def test_the_gateway_takes_lines_and_ends_cleanly_on_sigterm(tmp_path: Path) -> None:
    settings(tmp_path)
    with running(tmp_path, "gateway", "--port", "0", TRACEJUDGE_INGEST_KEY=KEY) as process:
        url = address(process)
        body = b"\n".join(codec.encode(make_trace(number)) for number in range(3))
        assert post(url, body)["accepted"] == 3
        with pytest.raises(urllib.error.HTTPError, match="401"):
            post(url, body, key="x" * 16)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert [key for key, _ in read_sqlite(tmp_path / "queue.db")] == ["t-000000", "t-000001", "t-000002"]


def test_the_gateway_does_not_start_where_others_reach_it_without_a_key(tmp_path: Path) -> None:
    settings(tmp_path, '[gateway]\nhost = "0.0.0.0"\n')
    with running(tmp_path, "gateway", "--port", "0", TRACEJUDGE_INGEST_KEY="") as process:
        said, _ = process.communicate(timeout=60)
        assert process.returncode == 64
    assert "openssl rand -hex 32" in said
    assert not (tmp_path / "queue.db").exists()


def test_up_takes_traces_over_http_and_judges_them(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings(tmp_path, f"[gateway]\nport = {port}\n[alert_loop]\nsettle_s = 0\n")
    with running(tmp_path, "up") as process:
        url = address(process)
        body = b"\n".join(codec.encode(make_trace(number)) for number in range(3))
        assert post(url, body)["accepted"] == 3
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=60)
        assert process.returncode == 0, said
    # What was not read before the signal waits in the queue: nothing that was accepted is lost either way.
    done = subprocess.run(
        [sys.executable, "-m", "tracejudge_consumer.cli", "consume", "--until-idle"], cwd=tmp_path, check=True,
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    counts = [int(found) for text in (said, done.stdout) for found in re.findall(r"(\d+) passed", text)]
    assert sum(counts) == 3, said + done.stdout
