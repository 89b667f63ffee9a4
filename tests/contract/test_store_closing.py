"""How an embedded store ends under clients that are in the middle of something."""

from __future__ import annotations

import http.client
import socket
import subprocess
import sys
import threading
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest

from tracejudge.errors import StoreError
from tracejudge.store.connection import Connection
from tracejudge.store.embedded.ownership import published
from tracejudge.store.target import parse_store_url

pytest.importorskip("chdb", reason="the embedded store needs the extra 'embedded'")

LONG = 120.0  # far above what anything here takes, and below the 150 s for which a client of ours waits for an answer
ENDLESS = "SELECT sum(cityHash64(number)) FROM numbers(1000000000000)"


# Processes of their own: one process holds one directory, and that of the tests has one already.
OWNER = """
import pathlib, sys
from tracejudge.store.embedded import locate, release, server
server._SHUTDOWN_S = float(sys.argv[2])
directory = pathlib.Path(sys.argv[1])
locate(directory, user=sys)
print("open", flush=True)
sys.stdin.read()
release(directory, user=sys)
"""

ABOUT_TO_ASK = """
import sys, threading
from tracejudge.errors import StoreError
from tracejudge.store.connection import Connection
from tracejudge.store.target import parse_store_url
target = parse_store_url("chdb:///" + sys.argv[1])
connection = Connection(target, settle_timeout_s=5, max_memory_bytes=10**9, max_execution_s=10)
connection.connect()
def ask():
    try:
        connection.query("SELECT 1")
        print("answered")
    except StoreError as error:
        print(error)
asking, closing = threading.Thread(target=ask), threading.Thread(target=connection.close)
with connection._lock:  # where a thread without a client waits for its turn
    asking.start()
    closing.start()
    while not connection._closed.is_set():
        pass
asking.join()
closing.join()
from tracejudge.store.embedded.ownership import published
import pathlib
print("owner:", published(pathlib.Path(sys.argv[1])))
"""


class Opened:
    """A directory and its owner, which closes it when `closes` is called."""

    def __init__(self, directory: Path, patience_s: float) -> None:
        self.directory = directory
        self.process = subprocess.Popen(
            [sys.executable, "-c", OWNER, str(directory), str(patience_s)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "open\n"
        endpoint = published(directory)
        assert endpoint is not None
        self.endpoint = endpoint

    def connect(self) -> socket.socket:
        return socket.create_connection((self.endpoint.host, self.endpoint.port), timeout=LONG)

    def request(self, body: bytes, *, length: int | None = None) -> bytes:
        key = b64encode(f"{self.endpoint.user}:{self.endpoint.password}".encode()).decode()
        head = f"POST / HTTP/1.1\r\nHost: 127.0.0.1:{self.endpoint.port}\r\nAuthorization: Basic {key}\r\n"
        return f"{head}Content-Length: {len(body) if length is None else length}\r\n\r\n".encode() + body

    def running(self) -> int:
        """Statements under way, this question left out."""
        asking = http.client.HTTPConnection(self.endpoint.host, self.endpoint.port, timeout=LONG)
        headers = {"X-ClickHouse-User": self.endpoint.user, "X-ClickHouse-Key": self.endpoint.password}
        asking.request("POST", "/", "SELECT count() - 1 FROM system.processes", headers)
        try:
            return int(asking.getresponse().read())
        finally:
            asking.close()

    def closes(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(LONG) == 0
        assert published(self.directory) is None

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()


@pytest.fixture
def patience_s() -> float:
    """For statements under way when the store closes."""
    return 0.5


@pytest.fixture
def opened(tmp_path: Path, patience_s: float) -> Iterator[Opened]:
    place = Opened(tmp_path / "store", patience_s)
    yield place
    place.end()


def hung_up(client: socket.socket) -> bool:
    """True when the other end has closed without an answer."""
    try:
        return client.recv(1) == b""
    except ConnectionError:
        return True


@pytest.mark.parametrize("patience_s", [10 * LONG])
def test_a_request_whose_body_never_comes_holds_up_nothing(opened: Opened) -> None:
    """Whoever sends it is told by a closed connection, without the patience that a statement under way has."""
    with opened.connect() as client:
        client.sendall(opened.request(b"SELECT", length=100))
        assert opened.running() == 0  # asked after it, on a loop that takes one thing at a time
        opened.closes()
        assert hung_up(client)


def test_a_connection_made_in_the_moment_of_closing_is_not_left_open(opened: Opened) -> None:
    """Left open, its client would wait for an answer until its own time-out, and with it the end of the process."""
    clients: list[socket.socket] = []
    over = threading.Event()

    def come() -> None:
        while not over.is_set():
            try:
                client = opened.connect()
                client.sendall(opened.request(b"SELECT 1"))
                clients.append(client)
            except OSError:
                return  # nobody listens any more

    comers = [threading.Thread(target=come) for _ in range(4)]
    for comer in comers:
        comer.start()
    opened.closes()
    over.set()
    for comer in comers:
        comer.join()
    assert clients
    for client in clients:
        with client:
            client.settimeout(20)
            while True:  # some were answered before
                try:
                    if not client.recv(65536):
                        break
                except ConnectionError:
                    break


def test_a_long_statement_that_only_reads_is_cancelled(opened: Opened) -> None:
    with opened.connect() as client:
        client.sendall(opened.request(ENDLESS.encode()))
        while opened.running() == 0:
            pass
        opened.closes()
        assert hung_up(client)


def test_a_result_that_nobody_takes_is_cancelled(opened: Opened) -> None:
    with opened.connect() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.sendall(opened.request(b"SELECT number, toString(number) FROM numbers(100000000)"))
        assert client.recv(1) == b"H"  # it streams
        opened.closes()


def test_a_store_that_is_closed_ends_what_waits_for_it_in_another_thread(tmp_path: Path) -> None:
    """Of a server that takes and never answers, which would be waited for 150 s."""
    with socket.create_server(("127.0.0.1", 0)) as dead:
        port = dead.getsockname()[1]
        target = parse_store_url(f"clickhouse://user:word@127.0.0.1:{port}/tracejudge")
        connection = Connection(target, settle_timeout_s=60, max_memory_bytes=10**9, max_execution_s=120)
        ended: list[BaseException] = []

        def ask() -> None:
            try:
                connection.query("SELECT 1")
            except BaseException as error:  # noqa: BLE001 - looked at below
                ended.append(error)

        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        accepted, _ = dead.accept()
        with accepted:
            assert accepted.recv(1)  # the question
            connection.close()
            thread.join(LONG)
        assert not thread.is_alive()
    assert isinstance(ended[0], StoreError)
    assert "is closed" in str(ended[0])


def test_a_thread_that_was_about_to_ask_does_not_become_the_owner_of_a_closed_store(tmp_path: Path) -> None:
    """It would open the directory anew, and nobody would ever close it."""
    done = subprocess.run(
        [sys.executable, "-c", ABOUT_TO_ASK, str(tmp_path / "store")],
        capture_output=True, text=True, check=True, timeout=LONG,
    )  # fmt: skip
    assert done.stdout.splitlines() == ["this store is closed: open it again", "owner: None"], done.stderr
