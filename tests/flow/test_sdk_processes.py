"""The SDK in processes that fork, exit, are killed or are forked from: what was logged is sent, or counted."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.queue_reader import read_sqlite
from tracejudge_sdk import codec
from tracejudge_sdk.trace import Trace

HEAD = """
import os, sys
from tracejudge_sdk import TraceClient
URL = sys.argv[1]
"""

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")


def _run(code: str, path: Path, *, timeout_s: float = 60, status: int = 0) -> str:
    """Runs a small service, which must end by itself."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", HEAD + code, f"sqlite:///{path}"],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout


def _queries(path: Path) -> list[str]:
    found = []
    for _, data in read_sqlite(path):
        record = codec.decode(data)
        assert isinstance(record, Trace)
        found.append(record.query)
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "queue.db"


def test_b35_what_was_logged_before_main_returned_is_sent(path: Path) -> None:
    _run(
        """
client = TraceClient(URL, app="shop")
for number in range(1000):
    client.log(query=f"q{number}")
""",
        path,
    )
    assert _queries(path) == [f"q{number}" for number in range(1000)]


def test_b35_an_exit_by_exception_or_sys_exit_sends_too(path: Path) -> None:
    _run("client = TraceClient(URL, app='shop'); client.log(query='a'); sys.exit(3)", path, status=3)
    assert _queries(path) == ["a"]


def test_a_queue_that_is_not_there_holds_up_the_exit_no_longer_than_its_limit(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    out = _run(
        """
import atexit
clients = []
# Registered before the client's own handler, so it runs after it.
atexit.register(lambda: print(dict(clients[0].stats().dropped)))
clients.append(TraceClient(URL, app="shop", exit_timeout_s=0.1))
clients[0].log(query="q")
""",
        blocked / "queue.db",
    )
    assert out.strip() == "{'unsent_at_close': 1}"


def test_a_client_that_logged_nothing_starts_no_thread_and_makes_no_file(path: Path) -> None:
    out = _run("import threading; client = TraceClient(URL, app='shop'); print(threading.active_count())", path)
    assert out.strip() == "1"
    assert not path.exists()


@needs_fork
def test_workers_forked_after_the_parent_logged_send_their_own_and_only_their_own(path: Path) -> None:
    """gunicorn with preload: the client is made, and even used, before the fork."""
    _run(
        """
client = TraceClient(URL, app="shop")
client.log(query="parent before")
children = []
for worker in range(3):
    pid = os.fork()
    if pid == 0:
        for number in range(50):
            client.log(query=f"worker {worker} {number}")
        sys.exit(0)
    children.append(pid)
client.log(query="parent after")
for pid in children:
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
""",
        path,
    )
    expected = ["parent before", "parent after", *(f"worker {w} {n}" for w in range(3) for n in range(50))]
    assert sorted(_queries(path)) == sorted(expected)


@needs_fork
def test_a_fork_in_the_middle_of_logging_threads_hangs_nobody(path: Path) -> None:
    _run(
        """
import threading
client = TraceClient(URL, app="shop")
stop = threading.Event()
def work(name):
    number = 0
    while not stop.is_set():
        client.log(query=f"{name} {number}")
        number += 1
threads = [threading.Thread(target=work, args=(f"thread {i}",)) for i in range(2)]
for thread in threads: thread.start()
for _ in range(10):
    pid = os.fork()
    if pid == 0:
        client.log(query="child")
        os._exit(0 if client.close(20) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
stop.set()
for thread in threads: thread.join()
assert client.close(30)
stats = client.stats()
assert stats.logged == stats.sent + stats.dropped_total, stats
print(stats.sent)
""",
        path,
        timeout_s=120,
    )
    queries = _queries(path)
    assert queries.count("child") == 10
    assert len(set(queries)) == len(queries) - 9


@needs_fork
def test_a_fork_while_the_sdk_imports_something_that_logs_hangs_nobody(path: Path) -> None:
    """logging holds its lock over a fork too: the two locks must be taken in one order."""
    _run(
        """
import logging, threading
from tracejudge_sdk import forks
importing, forking = threading.Event(), threading.Event()
def work():
    with forks.GATE:
        importing.set()
        forking.wait()
        logging.getLogger("a.library.being.imported")
threading.Thread(target=work).start()
importing.wait()
os.register_at_fork(before=forking.set)  # registered last, so called first
pid = os.fork()
if pid == 0:
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
""",
        path,
        timeout_s=30,
    )


@pytest.mark.parametrize(
    "method", [pytest.param("fork", marks=needs_fork), "spawn", pytest.param("forkserver", marks=needs_fork)]
)
def test_multiprocessing_workers_send_before_they_end(path: Path, tmp_path: Path, method: str) -> None:
    """A worker made by fork ends without running atexit handlers."""
    script = tmp_path / "service.py"
    script.write_text(
        f"""
import multiprocessing, sys
from tracejudge_sdk import TraceClient
client = TraceClient("sqlite:///{path}", app="shop")
def work(number):
    client.log(query=f"worker {{number}}")
if __name__ == "__main__":
    context = multiprocessing.get_context("{method}")
    workers = [context.Process(target=work, args=(i,)) for i in range(3)]
    for worker in workers: worker.start()
    for worker in workers: worker.join(30)
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
"""
    )
    subprocess.run([sys.executable, "-W", "ignore::DeprecationWarning", str(script)], check=True, timeout=90)
    assert sorted(_queries(path)) == ["worker 0", "worker 1", "worker 2"]


@needs_fork
def test_workers_of_celery_send_before_they_end(path: Path) -> None:
    """Its prefork pool ends a worker by os._exit, after a signal of Celery's own, for which this one stands."""
    _run(
        """
import types
from tracejudge_sdk import SendPolicy

class Signal:
    receivers = {}
    def connect(self, receiver, weak, dispatch_uid):
        assert not weak, "nobody else holds it"
        self.receivers[dispatch_uid] = receiver
    def send(self, **named):
        for receiver in self.receivers.values():
            receiver(signal=self, **named)

signals = sys.modules["celery.signals"] = types.ModuleType("celery.signals")
signals.worker_process_shutdown = Signal()
client = TraceClient(URL, app="shop", policy=SendPolicy(linger_s=3600))
client.log(query="parent")
client.flush(30)
if os.fork() == 0:
    for number in range(3):
        client.log(query=str(number))
    signals.worker_process_shutdown.send(sender="host", pid=os.getpid(), exitcode=0)
    os._exit(0)
assert os.wait()[1] == 0
""",
        path,
    )
    assert sorted(_queries(path)) == ["0", "1", "2", "parent"]


def test_b35_sigterm_kills_what_was_not_sent_and_nothing_else(path: Path) -> None:
    """Without a handler of the service's own SIGTERM ends the process at once: what was flushed is there."""
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            HEAD
            + """
import time
client = TraceClient(URL, app="shop")
for number in range(100):
    client.log(query=f"q{number}")
assert client.flush(30)
print("flushed", flush=True)
time.sleep(60)
""",
            f"sqlite:///{path}",
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "flushed\n"
    began = time.monotonic()
    process.terminate()
    process.wait(30)
    assert time.monotonic() - began < 30
    assert _queries(path) == [f"q{number}" for number in range(100)]


def test_logging_from_a_signal_handler_hangs_nobody(path: Path) -> None:
    out = _run(
        """
import signal
client = TraceClient(URL, app="shop")
handled = 0
def handler(*_):
    global handled
    handled += 1
    client.log(query="handler")
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
logged = 0
while handled < 200:
    client.log(query="main")
    logged += 1
signal.setitimer(signal.ITIMER_REAL, 0)
assert client.close(30)
stats = client.stats()
print(logged + handled, stats.logged, stats.sent + stats.dropped_total, stats.queued_bytes)
""",
        path,
    )
    called, logged, settled, bytes_left = map(int, out.split())
    assert (logged, settled, bytes_left) == (called, called, 0)


@pytest.mark.parametrize(("handler", "status"), [("", 143), ("signal.signal(signal.SIGTERM, ended)", 7)])
def test_sigterm_that_arrives_where_nothing_may_wait_ends_the_process_all_the_same(
    path: Path, handler: str, status: int
) -> None:
    """gevent calls handlers of signals in its event loop, where whatever waits raises."""
    _run(
        f"""
import signal, threading
from tracejudge_sdk import SendPolicy
def ended(number, frame):
    sys.exit(7)
{handler}
client = TraceClient(URL, app="shop", handle_sigterm=True, policy=SendPolicy(linger_s=3600))
client.log(query="first")
client.flush(30)
client.log(query="last")
wait, calls = threading.Condition.wait, []
def once(condition, timeout=None):
    if threading.current_thread() is threading.main_thread() and not calls:
        calls.append(1)
        raise AssertionError("impossible to call a blocking function here")
    return wait(condition, timeout)
threading.Condition.wait = once
os.kill(os.getpid(), signal.SIGTERM)
threading.Event().wait(30)
""",
        path,
        status=status,
    )
    assert _queries(path) == ["first", "last"]
