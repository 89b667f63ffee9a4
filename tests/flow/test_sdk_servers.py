"""Real servers with the client inside: gunicorn with and without preload, uvicorn with workers, ended by SIGTERM."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.queue_reader import read_sqlite
from tracejudge_sdk import codec
from tracejudge_sdk.trace import Trace

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="servers of POSIX systems")

APPLICATION = """
import asyncio, os, pathlib
from tracejudge_sdk import TraceClient

client = TraceClient(os.environ["SERVICE_QUEUE"], app="shop", handle_sigterm=bool(os.environ.get("HANDLE_SIGTERM")))
if os.environ.get("LOG_BEFORE_FORK"):
    client.log(query="before the fork")


def wsgi(environ, start_response):
    trace_id = client.log(query=environ["PATH_INFO"], response="r")
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [f"{os.getpid()} {trace_id}".encode()]


async def asgi(scope, receive, send):
    if scope["type"] != "http":
        return
    if scope["path"] == "/slow":
        pathlib.Path("slow-began").touch()
        while not pathlib.Path("slow-may-end").exists():
            await asyncio.sleep(0.01)
    body = f"{os.getpid()} {client.log(query=scope['path'], response='r')}".encode()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})
"""
REQUESTS = 60


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "application.py").write_text(APPLICATION)
    return tmp_path


@contextlib.contextmanager
def _running(folder: Path, *command: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", *command],
        cwd=folder,
        env={**os.environ, "SERVICE_QUEUE": f"sqlite:///{folder}/queue.db", **environment},
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # the workers too
        process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _until(condition: Callable[[], bool]) -> None:
    tries = threading.Event()
    for _ in range(1200):
        if condition():
            return
        tries.wait(0.05)
    pytest.fail("waited for a minute")


def _ask(process: subprocess.Popen[bytes], port: int, path: str) -> tuple[str, str]:
    """The worker that answered and the trace id."""
    found: list[str] = []

    def asked() -> bool:
        assert process.poll() is None, "the server ended"
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=10) as got:
            found.extend(got.read().decode().split())
        return bool(found)  # else it is not up yet

    _until(asked)
    return found[0], found[1]


def _serve(process: subprocess.Popen[bytes], port: int, *, status: int = 0) -> dict[str, str]:
    """Sends the requests, waits for the end after SIGTERM, and gives the worker of each trace id."""
    found: dict[str, str] = {}
    for number in range(REQUESTS):
        worker, trace_id = _ask(process, port, str(number))
        found[trace_id] = worker
    process.terminate()
    assert process.wait(60) == status, "no worker hangs"
    return found


def _sent(folder: Path) -> list[Trace]:
    records = [codec.decode(data) for _, data in read_sqlite(folder / "queue.db")]
    return [record for record in records if isinstance(record, Trace)]


@pytest.mark.parametrize("preload", [True, False], ids=["preload", "each worker imports"])
def test_gunicorns_workers_send_all_they_logged_and_only_that(folder: Path, preload: bool) -> None:
    port = _free_port()
    command = ["gunicorn", "application:wsgi", "--bind", f"127.0.0.1:{port}", "--workers", "3"]
    with _running(folder, *command, *(["--preload"] if preload else []), LOG_BEFORE_FORK="1") as process:
        served = _serve(process, port)
    sent = _sent(folder)
    assert sorted(trace.trace_id for trace in sent if trace.query != "before the fork") == sorted(served)
    before = [trace for trace in sent if trace.query == "before the fork"]
    assert len(before) == 1 if preload else len(before) >= 3, "the parent's trace is the parent's to send"


@pytest.mark.parametrize("workers", ["1", "2"])
def test_uvicorns_workers_send_all_they_logged(folder: Path, workers: str) -> None:
    """uvicorn ends by raising the signal again, by which no exit handler runs: `handle_sigterm` is for that."""
    port = _free_port()
    command = ("uvicorn", "application:asgi", "--port", str(port), "--workers", workers, "--lifespan", "off")
    with _running(folder, *command, HANDLE_SIGTERM="1") as process:
        served = _serve(process, port, status=-signal.SIGTERM if workers == "1" else 0)
    assert sorted(trace.trace_id for trace in _sent(folder)) == sorted(served)


def test_a_request_that_ends_after_sigterm_is_sent_too(folder: Path) -> None:
    port = _free_port()
    answers: list[bytes] = []

    def ask() -> None:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/slow", timeout=60) as answer:
            answers.append(answer.read())

    command = ("uvicorn", "application:asgi", "--port", str(port), "--lifespan", "off")
    with _running(folder, *command, HANDLE_SIGTERM="1") as process:
        _ask(process, port, "first")
        asking = threading.Thread(target=ask)
        asking.start()
        _until((folder / "slow-began").exists)
        process.terminate()
        (folder / "slow-may-end").touch()
        asking.join(60)
        process.wait(60)
    assert len(answers) == 1
    assert sorted(trace.query for trace in _sent(folder)) == ["/first", "/slow"]


def test_a_worker_that_gunicorn_replaces_sends_before_it_ends(folder: Path) -> None:
    """max_requests: workers end and are forked anew all the time."""
    port = _free_port()
    command = ("gunicorn", "application:wsgi", "--bind", f"127.0.0.1:{port}", "--workers", "2", "--preload")
    with _running(folder, *command, "--max-requests", "7") as process:
        served = _serve(process, port)
    assert sorted(trace.trace_id for trace in _sent(folder)) == sorted(served)
    assert len(set(served.values())) > 2
