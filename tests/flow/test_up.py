"""`tracejudge up` as a newcomer drives it: start, log, query beside it, stop, kill, start again."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timezone
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import clickhouse_connect
import pytest

pytest.importorskip("chdb", reason="the embedded store needs tracejudge[embedded]")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SETTINGS = """\
queue = "sqlite:///queue.db"
store = "chdb:///store"

[[judges]]
name = "lexical"
kind = "lexical"

[alert_loop]
tick_s = 1.0
settle_s = 0

[[rules]]
name = "minimum"
judge = "lexical"
minimum = 0.5

[gateway]
port = {port}
"""

LOG = """\
import sys
from tracejudge_sdk import TraceClient
client = TraceClient("sqlite:///queue.db", app="shop")
for number in range(int(sys.argv[1]), int(sys.argv[2])):
    client.log(
        trace_id=f"t-{number}", query="How long may I return it?", response="You may return it for 30 days.",
        source_nodes=[{"node_id": "n", "text": "You may return it for 30 days.", "score": 0.9}],
    )
assert client.close()
"""


class Place:
    """A folder in which separate processes run, one command each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        (folder / "tracejudge.toml").write_text(SETTINGS.format(port=self.port), encoding="utf-8")
        self.running: subprocess.Popen[str] | None = None

    def up(self) -> subprocess.Popen[str]:
        """Started and ready: it says so itself."""
        process = subprocess.Popen(
            [sys.executable, "-m", "tracejudge_consumer.cli", "up"],
            cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, "TRACEJUDGE_INGEST_KEY": "k" * 32},
        )  # fmt: skip
        self.running = process
        assert process.stdout is not None
        said = []
        while not (line := process.stdout.readline()).startswith("up:"):
            said.append(line)
            assert line, "".join(said)
        return process

    def do(self, *args: str) -> str:
        done = subprocess.run(
            [sys.executable, *args], cwd=self.folder, capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def log(self, first: int, last: int) -> None:
        self.do("-c", LOG, str(first), str(last))

    def judged(self) -> int:
        told = json.loads(self.do("-m", "tracejudge_consumer.cli", "rates", "--step", "all", "--json"))
        return sum(line["rate"]["judged"] for line in told["lines"])

    def wait_for(self, count: int) -> None:
        """Asks until so many are judged; each question is a process, and the test's time limit ends a wait in vain."""
        while (seen := self.judged()) != count:
            assert seen < count

    @property
    def owner(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads((self.folder / "store" / "owner.json").read_text(encoding="utf-8"))
        return told


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    if place.running is not None and place.running.poll() is None:
        place.running.kill()
    if place.running is not None:
        place.running.wait()
        if place.running.stdout is not None:
            place.running.stdout.close()


def test_start_log_query_stop_kill_and_start_again(place: Place) -> None:
    first = place.up()
    place.log(0, 20)
    place.wait_for(20)
    assert place.owner["pid"] == first.pid

    # Beside it: the unmodified client, and curl's way.
    owner = place.owner
    client = clickhouse_connect.get_client(
        host=owner["host"], port=owner["port"], username=owner["user"], password=owner["password"]
    )
    assert client.query("SELECT count() FROM scores FINAL").result_rows == [(20,)]
    client.close()
    curl = HTTPConnection(owner["host"], owner["port"], timeout=20)
    headers = {"X-ClickHouse-User": owner["user"], "X-ClickHouse-Key": owner["password"]}
    curl.request("POST", "/?default_format=JSONEachRow", body="SELECT uniq(trace_id) AS n FROM traces", headers=headers)
    assert json.loads(curl.getresponse().read()) == {"n": 20}
    curl.close()
    # The gateway is part of it.
    served = datetime.now(timezone.utc).isoformat()
    fields = {"trace_id": "over-http", "app": "shop", "query": "q", "response": "r", "event_time": served}
    line = json.dumps({"schema_version": 1, "kind": "trace", **fields})
    gateway = HTTPConnection("127.0.0.1", place.port, timeout=20)
    headers = {"Authorization": "Bearer " + "k" * 32, "Content-Type": "application/x-ndjson"}
    gateway.request("POST", "/v1/traces", body=line, headers=headers)
    answer = gateway.getresponse()
    assert answer.status in (200, 202), answer.read()
    gateway.close()

    first.send_signal(signal.SIGINT)  # Ctrl-C
    assert first.wait(timeout=60) == 0
    assert not (place.folder / "store" / "owner.json").exists()
    assert place.judged() == 20, "with nobody running, whoever looks opens the store for a moment"

    second = place.up()
    place.log(20, 35)
    place.wait_for(35)
    second.kill()
    second.wait()
    assert place.judged() == 35, "nothing that was acknowledged is lost by kill -9, and the directory is free again"

    third = place.up()
    place.log(30, 40)  # five of them once more: a client that was not sure
    place.wait_for(40)
    third.terminate()
    assert third.wait(timeout=60) == 0
