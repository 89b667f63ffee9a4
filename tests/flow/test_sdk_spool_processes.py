"""The spool and SIGTERM with real processes: killed, frozen, told to end."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from tests.support.queue_reader import read_sqlite
from tracejudge_sdk import codec
from tracejudge_sdk.trace import Trace

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")

SERVICE = """
import os, signal, sys, time
from tracejudge_sdk import TraceClient
queue, spool = sys.argv[1:3]
def on_disk(client):
    while client.stats().queued:
        client.flush(0.01)
"""


class Service:
    """A small process that logs; it is killed at the end of the test if it still runs."""

    def __init__(self, code: str, queue: Path, spool: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVICE + code, f"sqlite:///{queue}", str(spool)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        assert self.process.stdin is not None
        self.out: IO[str] = self.process.stdout
        self.stdin: IO[str] = self.process.stdin

    def says(self, line: str) -> None:
        assert self.out.readline() == line + "\n"


@pytest.fixture
def services() -> Iterator[list[Service]]:
    started: list[Service] = []
    yield started
    for service in started:
        service.process.kill()
        service.process.communicate()


def _queries(queue: Path) -> list[str]:
    records = [codec.decode(data) for _, data in read_sqlite(queue)]
    return [record.query for record in records if isinstance(record, Trace)]


def _next_process(queue: Path, spool: Path, recovered: int) -> None:
    """Logs one trace and stays until it has sent what others left."""
    code = f"""
client = TraceClient(queue, app="shop", spool=spool)
client.log(query="next")
while client.stats().recovered < {recovered}:
    assert client.flush(1)
assert client.close(30)
"""
    command = [sys.executable, "-c", SERVICE + code, f"sqlite:///{queue}", str(spool)]
    subprocess.run(command, check=True, timeout=60)


def test_what_was_on_disk_survives_kill_9_and_is_sent_in_order_by_the_next_process(
    tmp_path: Path, services: list[Service]
) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("the queue's folder cannot be made")
    spool = tmp_path / "spool"
    services.append(
        Service(
            """
client = TraceClient(queue, app="shop", spool=spool)
for number in range(200):
    client.log(query=f"q{number:03d}")
on_disk(client)
print("on disk", client.stats().spooled, flush=True)
time.sleep(120)
""",
            blocked / "queue.db",
            spool,
        )
    )
    services[0].says("on disk 200")
    services[0].process.kill()
    services[0].process.wait(30)
    queue = tmp_path / "queue.db"
    _next_process(queue, spool, 200)
    queries = _queries(queue)
    assert [query for query in queries if query != "next"] == [f"q{number:03d}" for number in range(200)]
    assert list(spool.iterdir()) == []


def test_b35_without_a_handler_sigterm_leaves_on_disk_what_was_queued(tmp_path: Path, services: list[Service]) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("in the way")
    spool = tmp_path / "spool"
    services.append(
        Service(
            """
client = TraceClient(queue, app="shop", spool=spool)
for number in range(100):
    client.log(query=f"q{number:03d}")
on_disk(client)
print("on disk", flush=True)
time.sleep(120)
""",
            blocked / "queue.db",
            spool,
        )
    )
    services[0].says("on disk")
    services[0].process.terminate()
    assert services[0].process.wait(30) == -signal.SIGTERM
    queue = tmp_path / "queue.db"
    _next_process(queue, spool, 100)
    assert sorted(set(_queries(queue))) == ["next", *(f"q{number:03d}" for number in range(100))]


def test_a_frozen_process_keeps_its_file_and_goes_on_with_it(tmp_path: Path, services: list[Service]) -> None:
    """No lease runs out: what a stopped process holds is not drained by another one, so nothing arrives twice."""
    blocked = tmp_path / "blocked"
    blocked.write_text("in the way")
    spool = tmp_path / "spool"
    services.append(
        Service(
            """
client = TraceClient(queue, app="shop", spool=spool)
for number in range(10):
    client.log(query=f"frozen {number}")
on_disk(client)
print("on disk", flush=True)
sys.stdin.readline()
print(client.flush(60), flush=True)
""",
            blocked / "queue.db",
            spool,
        )
    )
    frozen = services[0]
    frozen.says("on disk")
    frozen.process.send_signal(signal.SIGSTOP)
    queue = tmp_path / "queue.db"
    _next_process(queue, spool, 0)
    assert _queries(queue) == ["next"]
    assert len(list(spool.glob("*.spool"))) == 1
    frozen.process.send_signal(signal.SIGCONT)
    blocked.unlink()
    frozen.stdin.write("\n")
    frozen.stdin.flush()
    frozen.says("True")
    assert frozen.process.wait(30) == 0
    assert _queries(blocked / "queue.db") == [f"frozen {number}" for number in range(10)]


def test_b35_sigterm_sends_what_waits_where_the_service_asked_for_it(tmp_path: Path, services: list[Service]) -> None:
    services.append(
        Service(
            """
client = TraceClient(queue, app="shop", handle_sigterm=True)
for number in range(100):
    client.log(query=f"q{number}")
print("logged", flush=True)
time.sleep(120)
""",
            tmp_path / "queue.db",
            tmp_path / "spool",
        )
    )
    services[0].says("logged")
    services[0].process.terminate()
    assert services[0].process.wait(30) == -signal.SIGTERM, "the parent sees the same end as without us"
    assert _queries(tmp_path / "queue.db") == [f"q{number}" for number in range(100)]


def test_sigterm_is_handed_on_to_the_handler_of_the_service(tmp_path: Path, services: list[Service]) -> None:
    services.append(
        Service(
            """
def mine(number, frame):
    print("mine", client.stats().sent, flush=True)
    client.log(query="while it ends")
    os._exit(7) if not client.close(30) else os._exit(3)
signal.signal(signal.SIGTERM, mine)
client = TraceClient(queue, app="shop", handle_sigterm=True)
second = TraceClient(queue, app="shop", handle_sigterm=True)
client.log(query="q")
second.log(query="other client")
print("logged", flush=True)
time.sleep(120)
""",
            tmp_path / "queue.db",
            tmp_path / "spool",
        )
    )
    services[0].says("logged")
    services[0].process.terminate()
    services[0].says("mine 1")
    assert services[0].process.wait(30) == 3
    assert sorted(_queries(tmp_path / "queue.db")) == ["other client", "q", "while it ends"]


def test_an_ignored_sigterm_stays_ignored(tmp_path: Path, services: list[Service]) -> None:
    services.append(
        Service(
            """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
client = TraceClient(queue, app="shop", handle_sigterm=True)
print("ready", flush=True)
sys.stdin.readline()
client.log(query="still here")
""",
            tmp_path / "queue.db",
            tmp_path / "spool",
        )
    )
    services[0].says("ready")
    services[0].process.terminate()
    services[0].stdin.write("\n")
    services[0].stdin.flush()
    assert services[0].process.wait(30) == 0
    assert _queries(tmp_path / "queue.db") == ["still here"]


def test_a_client_made_in_another_thread_is_told_that_it_cannot_take_signals(tmp_path: Path) -> None:
    import threading

    from tracejudge_sdk import ConfigError, TraceClient

    said: list[str] = []

    def make() -> None:
        try:
            TraceClient("memory://x", app="shop", handle_sigterm=True)
        except ConfigError as error:
            said.append(str(error))

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    assert said == ["handle_sigterm: only the main thread can take signals: make the client there"]
