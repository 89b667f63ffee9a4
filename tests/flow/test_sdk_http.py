"""The HTTP transport against a real gateway, and against servers that misbehave."""

from __future__ import annotations

import http.server
import json
import logging
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest
import trustme

from tests.support.running_gateway import RunningGateway
from tests.support.scripted_transport import ScriptedTransport
from tracejudge.testing import make_trace
from tracejudge_consumer.gateway import GatewayLimits
from tracejudge_consumer.gateway.tls import server_context
from tracejudge_consumer.retry_policy import RetryPolicy
from tracejudge_sdk import SendPolicy, Trace, TraceClient, codec
from tracejudge_sdk.errors import ConfigError, TransportRejected, TransportUnavailable
from tracejudge_sdk.transports import Transport, parse_queue_url, transport_for
from tracejudge_sdk.transports.http import HttpTransport

KEY = "k" * 32
QUICK = SendPolicy(linger_s=0.001, first_pause_s=0.01, longest_pause_s=0.05)
RETRY = RetryPolicy(first_s=0.01, longest_s=0.05)


@pytest.fixture
def queue() -> ScriptedTransport:
    return ScriptedTransport()


@pytest.fixture
def gateway(queue: ScriptedTransport) -> Iterator[RunningGateway]:
    with RunningGateway(lambda: queue, retry=RETRY) as running:
        running.wait_ready()
        yield running
        queue.go.set()


@pytest.fixture
def opened() -> Iterator[Callable[..., Transport]]:
    """Opens transports and closes them at the end."""
    made: list[Transport] = []

    def open_one(url: str, **options: Any) -> Transport:
        made.append(transport_for(url, options=options))
        return made[-1]

    yield open_one
    for transport in made:
        transport.close(1.0)


def batch(*numbers: int) -> list[tuple[str, bytes]]:
    return [(f"t-{number:06d}", codec.encode(make_trace(number))) for number in numbers]


@contextmanager
def server(*replies: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that handles one connection after the other as told; gives its URL."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            for reply in replies:
                connection, _ = listening.accept()
                with connection:
                    reply(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        thread.join(30)
        assert not thread.is_alive()


def said(status: int, body: Any, **headers: str) -> Callable[[socket.socket], None]:
    """A reply with a JSON body to the first request of a connection."""

    def reply(connection: socket.socket) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += connection.recv(65536)
        data = json.dumps(body).encode()
        lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(data)}", "Connection: close"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        connection.sendall("\r\n".join([*lines, "", ""]).encode() + data)
        connection.settimeout(10)
        while connection.recv(65536):
            pass

    return reply


def test_a_service_logs_through_a_gateway(gateway: RunningGateway, queue: ScriptedTransport) -> None:
    client = TraceClient(gateway.url, app="shop", policy=QUICK)
    ids = [client.log(query=f"q{number}", response="r", source_nodes=["t" * 800] * 5) for number in range(300)]
    assert client.close(30)
    assert client.stats().sent == 300
    assert [key for key, _ in queue.records] == ids


def test_what_the_gateway_refuses_is_counted_and_its_neighbours_arrive(queue: ScriptedTransport) -> None:
    queue.max_record_bytes = 3_000
    with RunningGateway(lambda: queue) as gateway:
        gateway.wait_ready()
        client = TraceClient(gateway.url, app="shop", policy=QUICK)
        kept = [client.log(query="small"), client.log(query="x" * 5_000), client.log(query="small")]
        assert client.close(30)
    stats = client.stats()
    assert (stats.sent, dict(stats.dropped)) == (2, {"transport_rejected": 1})
    assert "too_large" in (stats.last_error or "")
    assert [key for key, _ in queue.records] == [kept[0], kept[2]]


def test_b33_a_gateway_that_is_not_there_costs_nothing_and_is_found_when_it_appears(queue: ScriptedTransport) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    client = TraceClient(f"http://127.0.0.1:{port}", app="shop", policy=QUICK)
    ids = [client.log(query=str(number)) for number in range(100)]
    assert not client.flush(0.05)
    assert client.stats().queued == 100
    with RunningGateway(lambda: queue, port=port, retry=RETRY):
        assert client.close(30)
    assert client.stats().sent == 100
    assert {key for key, _ in queue.records} == set(ids)


def test_a_forked_child_sends_over_a_connection_of_its_own(
    gateway: RunningGateway, queue: ScriptedTransport, tmp_path: Path
) -> None:
    script = tmp_path / "service.py"
    script.write_text(
        """
import os, sys
from tracejudge_sdk import TraceClient
client = TraceClient(sys.argv[1], app="shop")
for number in range(20):
    client.log(query=f"parent {number}")
assert client.flush(30)  # the connection is open now
children = []
for child in range(3):
    pid = os.fork()
    if pid == 0:
        for number in range(20):
            client.log(query=f"child {child} {number}")
        os._exit(0 if client.close(30) else 1)
    children.append(pid)
for number in range(20, 40):
    client.log(query=f"parent {number}")
assert client.close(30)
assert all(os.waitpid(pid, 0)[1] == 0 for pid in children)
"""
    )
    done = subprocess.run([sys.executable, str(script), gateway.url], capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stderr
    queries = [record.query for _, data in queue.records if isinstance(record := codec.decode(data), Trace)]
    expected = [f"parent {n}" for n in range(40)] + [f"child {c} {n}" for c in range(3) for n in range(20)]
    assert sorted(queries) == sorted(expected)


def test_a_forked_child_lets_go_of_the_connection_without_ending_it(gateway: RunningGateway) -> None:
    transport = HttpTransport(parse_queue_url(gateway.url))  # type: ignore[arg-type]
    transport.send(batch(1))
    assert transport._socket is not None
    parents = transport._socket._socket.dup()
    transport.forget()
    with pytest.raises(TransportUnavailable, match="closed"):
        transport.send(batch(2))
    with parents:
        parents.sendall(b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n")
        parents.settimeout(30)
        assert parents.recv(12) == b"HTTP/1.1 404"
    transport.close(1)


def test_while_the_queue_behind_is_away_everything_waits_and_then_arrives(
    gateway: RunningGateway, queue: ScriptedTransport
) -> None:
    queue.down = True
    client = TraceClient(gateway.url, app="shop", policy=QUICK)
    ids = [client.log(query=str(number)) for number in range(50)]
    assert not client.flush(0.1)
    assert client.stats().sent == 0
    queue.down = False
    assert client.close(30)
    assert client.stats().sent == 50
    assert {key for key, _ in queue.records} == set(ids)


def test_an_idle_connection_that_was_closed_is_replaced_at_once(
    queue: ScriptedTransport, opened: Callable[..., Transport]
) -> None:
    with RunningGateway(lambda: queue, limits=GatewayLimits(read_timeout_s=1.0)) as gateway:
        gateway.wait_ready()
        transport = opened(gateway.url)
        transport.send(batch(1))
        gateway_closed = threading.Event()
        for _ in range(1000):  # until the gateway has closed what is idle
            if b"tracejudge_gateway_connections 1.0" in gateway.request("GET", "/metrics").body:
                gateway_closed.set()
                break
            gateway_closed.wait(0.02)
        assert gateway_closed.is_set()
        transport.send(batch(2))
    assert [key for key, _ in queue.records] == ["t-000001", "t-000002"]


@pytest.mark.parametrize("compression", ["gzip", "none"])
def test_many_records_go_in_requests_of_bounded_size(
    gateway: RunningGateway, queue: ScriptedTransport, opened: Callable[..., Transport], compression: str
) -> None:
    records = batch(*range(25))
    records[7] = ("t", b"broken")
    records[19] = ("t", b'{"a":\n1}')
    transport = opened(gateway.url, max_request_records=10, compression=compression)
    with pytest.raises(TransportRejected) as caught:
        transport.send(records)
    assert caught.value.failed == (7, 19)
    assert len(queue.records) == 23
    assert queue.sends == 3


def test_a_failure_half_way_names_what_has_to_be_sent_again(
    gateway: RunningGateway, queue: ScriptedTransport, opened: Callable[..., Transport]
) -> None:
    records = batch(*range(6))
    records[1] = ("t", b"broken")
    transport = opened(gateway.url, max_request_records=2)
    before = queue.send

    def send_once(sent: Any) -> None:
        before(sent)
        queue.down = queue.down or bool(sent)

    queue.send = send_once  # type: ignore[method-assign, assignment]
    with pytest.raises(TransportUnavailable) as caught:
        transport.send(records)
    # 0 is there; 1 is refused for good, which the next attempt tells; 2 and 3 were away, 4 and 5 were not sent.
    assert caught.value.failed == (1, 2, 3, 4, 5)


def test_a_wrong_key_names_the_variable_and_never_the_key(
    queue: ScriptedTransport, opened: Callable[..., Transport], monkeypatch: pytest.MonkeyPatch
) -> None:
    with RunningGateway(lambda: queue, keys=[KEY]) as gateway:
        gateway.wait_ready()
        monkeypatch.setenv("TRACEJUDGE_INGEST_KEY", "a-wrong-key-of-ours")
        with pytest.raises(TransportUnavailable, match="set TRACEJUDGE_INGEST_KEY") as caught:
            opened(gateway.url).send(batch(1))
        assert "a-wrong-key" not in str(caught.value)
        monkeypatch.setenv("TRACEJUDGE_INGEST_KEY", f"{KEY}, the-old-one-of-before")
        opened(gateway.url).send(batch(1))
        monkeypatch.setenv("OTHER_KEY", KEY)
        opened(gateway.url, key_env="OTHER_KEY").send(batch(2))
    assert len(queue.records) == 2


def test_a_key_over_plain_http_to_another_machine_is_warned_of(
    opened: Callable[..., Transport], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TRACEJUDGE_INGEST_KEY", KEY)
    with caplog.at_level(logging.WARNING):
        opened("http://gateway.invalid:4380")
        opened("https://gateway.invalid")
    assert "unencrypted" in caplog.messages[0]
    assert len(caplog.messages) == 1
    assert KEY not in caplog.text


def test_tls_is_checked_against_the_certificates_that_are_trusted(
    queue: ScriptedTransport, opened: Callable[..., Transport], tmp_path: Path
) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost", "127.0.0.1")
    cert, key, trusted = tmp_path / "cert.pem", tmp_path / "key.pem", tmp_path / "ca.pem"
    certificate.private_key_pem.write_to_path(key)
    cert.write_bytes(b"".join(blob.bytes() for blob in certificate.cert_chain_pems))
    authority.cert_pem.write_to_path(trusted)
    with RunningGateway(lambda: queue, tls=server_context(str(cert), str(key))) as gateway:
        url = f"https://localhost:{gateway.port}"
        ours = opened(url, ca_file=str(trusted))
        for _ in range(500):
            try:
                ours.send(batch(1))
                break
            except TransportUnavailable:  # before its first look at the queue
                threading.Event().wait(0.01)
        assert [key for key, _ in queue.records] == ["t-000001"]
        with pytest.raises(TransportUnavailable, match=r"CERTIFICATE_VERIFY_FAILED.*ca_file"):
            opened(url).send(batch(2))
        with pytest.raises(TransportUnavailable):
            opened(url.replace("https", "http")).send(batch(3))
    with pytest.raises(ConfigError, match="name a PEM file"):
        opened(url, ca_file=str(tmp_path / "nowhere.pem"))
    assert isinstance(server_context(str(cert), str(key)), ssl.SSLContext)


def raw(head: bytes, body: bytes) -> Callable[[socket.socket], None]:
    """A reply of these bytes, the body a moment after the head, to one whole request; then the end."""

    def reply(connection: socket.socket) -> None:
        request = b""
        while b"\r\n\r\n" not in request:
            request += connection.recv(65536)
        fields, _, rest = request.partition(b"\r\n\r\n")
        missing = int(fields.lower().partition(b"content-length:")[2].split()[0]) - len(rest)
        while missing > 0:
            missing -= len(connection.recv(65536))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(head)
        threading.Event().wait(0.05)  # the head is read by then
        connection.sendall(body)

    return reply


def test_closing_from_another_thread_ends_a_send_under_way(
    gateway: RunningGateway, queue: ScriptedTransport, opened: Callable[..., Transport]
) -> None:
    transport = opened(gateway.url, timeout_s=60)
    queue.hold = True
    failures: list[BaseException] = []

    def send() -> None:
        try:
            transport.send(batch(1))
        except TransportUnavailable as error:
            failures.append(error)

    thread = threading.Thread(target=send)
    thread.start()
    assert queue.entered.wait(30)
    transport.close(1.0)
    thread.join(30)
    assert not thread.is_alive()
    assert len(failures) == 1


def test_a_server_that_trickles_is_left_at_the_deadline(opened: Callable[..., Transport]) -> None:
    """A socket's own time-out bounds each wait; a byte now and then would go on for ever."""
    left = threading.Event()

    def trickle(connection: socket.socket) -> None:
        connection.settimeout(10)
        connection.recv(65536)
        try:
            while not left.wait(0.05):
                connection.sendall(b"H")
        except OSError:
            left.set()  # the other side has hung up, as it should

    with server(trickle) as url:
        with pytest.raises(TransportUnavailable, match="TimeoutError"):
            opened(url, timeout_s=0.3).send(batch(1))
        assert left.wait(30)


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (said(302, {}, Location="http://127.0.0.1:1/"), "HTTP status 302"),
        (said(404, {"detail": "not found"}), "leads to a tracejudge gateway"),
        (said(200, {"ok": True}), "leads to a tracejudge gateway"),
        (said(200, {"lines": []}), "leads to a tracejudge gateway"),
        (said(200, {"lines": [{"status": "queued"}]}), "line 1 of its answer says 'queued'"),
        (said(200, {"lines": [None]}), "line 1 of its answer says None"),
        (said(400, "<html>Bad request</html>"), "HTTP status 400"),
        (said(422, {"detail": "no"}), "HTTP status 422"),
        (said(500, "oops"), "HTTP status 500"),
        (said(429, {"error": {"reason": "busy", "limit": "5 bytes"}}), "busy: 5 bytes"),
    ],
)
def test_answers_that_are_no_acknowledgement_are_none(
    opened: Callable[..., Transport], reply: Callable[[socket.socket], None], words: str
) -> None:
    with server(reply) as url, pytest.raises(TransportUnavailable, match=words):
        opened(url).send(batch(1))


def test_an_answer_too_deep_to_read_is_no_acknowledgement(opened: Callable[..., Transport]) -> None:
    reply = raw(b"HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n", b"[" * 200_000)
    with server(reply) as url, pytest.raises(TransportUnavailable, match="leads to a tracejudge gateway"):
        opened(url).send(batch(1))


@pytest.mark.parametrize(
    "head",
    [
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        "HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\n",
    ],
    ids=["close", "HTTP/1.0", "without a length"],
)
def test_an_answer_that_ends_the_connection_is_read_to_its_end(opened: Callable[..., Transport], head: str) -> None:
    """Proxies that keep no connection open answer so."""
    body = json.dumps({"lines": [{"status": "accepted", "trace_id": "x" * 128}] * 300}).encode()
    with server(raw(head.format(len(body)).encode(), body)) as url:
        opened(url).send(batch(*range(300)))  # raises nothing: all are acknowledged


def test_an_answer_before_the_whole_request_was_read_counts(opened: Callable[..., Transport]) -> None:
    """A proxy refuses a body by its length and closes; sending on fails, but the answer is there."""

    def refuse(connection: socket.socket) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += connection.recv(1000)
        connection.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    records = [("k", b"x" * 900_000)] * 30
    with server(refuse) as url, pytest.raises(TransportRejected, match="HTTP status 413"):
        opened(url, compression="none", max_request_bytes=30_000_000).send(records)


def test_an_early_hint_is_no_answer_and_the_next_request_does_not_read_the_last_ones(
    opened: Callable[..., Transport],
) -> None:
    late = json.dumps({"lines": [{"status": "accepted"}]}).encode()
    hints = raw(
        b"HTTP/1.1 103 Early Hints\r\n\r\n", f"HTTP/1.1 200 OK\r\nContent-Length: {len(late)}\r\n\r\n".encode() + late
    )
    with server(hints, said(503, {})) as url:
        transport = opened(url)
        for status in ("103", "503"):
            with pytest.raises(TransportUnavailable, match=f"HTTP status {status}"):
                transport.send(batch(1))


class Firewall(http.server.BaseHTTPRequestHandler):
    """A gateway behind something that refuses texts it does not like; or everything, where `closed`."""

    closed = False
    taken: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        queries = [json.loads(line)["query"] for line in body.splitlines()]
        if self.closed or "<script>" in queries:
            self._say(403, b'{"error": {"code": 403, "message": "Forbidden"}}')
        elif not queries:
            self._say(400, b'{"error": {"reason": "empty"}}')
        else:
            self.taken.extend(queries)
            self._say(200, json.dumps({"lines": [{"status": "accepted"} for _ in queries]}).encode())

    def _say(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


@pytest.mark.parametrize("closed", [False, True], ids=["some texts", "everything"])
def test_a_text_that_a_firewall_refuses_holds_up_no_other(closed: bool) -> None:
    """Where it refuses everything, nothing is wrong with the records, and they wait."""

    class Handler(Firewall):
        taken: ClassVar[list[str]] = []

    Handler.closed = closed
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}"
        client = TraceClient(url, app="shop", policy=QUICK, queue_options={"compression": "none"})
        for query in ("a", "<script>", "b"):
            client.log(query=query)
        if closed:
            assert not client.flush(0.5)
            assert client.stats().queued == 3
            Handler.closed = False
        assert client.close(30)
        server.shutdown()
        thread.join()
    assert sorted(Handler.taken) == ["a", "b"]
    assert dict(client.stats().dropped) == {"transport_rejected": 1}
    assert "lets others pass" in (client.stats().last_error or "")


def test_a_request_refused_whole_is_tried_record_by_record(queue: ScriptedTransport) -> None:
    with RunningGateway(lambda: queue, limits=GatewayLimits(max_body_bytes=4_000)) as gateway:
        gateway.wait_ready()
        client = TraceClient(gateway.url, app="shop", policy=QUICK, queue_options={"compression": "none"})
        ids = [client.log(query=f"{number} " + "x" * 1_000) for number in range(8)]
        too_large = client.log(query="y" * 5_000)
        assert client.close(30)
    assert {key for key, _ in queue.records} == set(ids)
    assert too_large not in ids
    assert dict(client.stats().dropped) == {"transport_rejected": 1}


@pytest.mark.parametrize(
    "options", [{"compression": "br"}, {"timeout_s": 0}, {"max_request_records": 0}, {"ca_file": "/nowhere"}]
)
def test_options_that_cannot_work_are_told_at_once(opened: Callable[..., Transport], options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="queue: "):
        opened("https://localhost:1", **options)
