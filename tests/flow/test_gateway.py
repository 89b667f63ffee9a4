"""The gateway over real HTTP: an answer per line, durable when it says so, and nothing beyond its limits."""

from __future__ import annotations

import gzip
import http.client
import json
import logging
import socket
import threading
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.queue_reader import read_sqlite
from tests.support.running_gateway import Answer, RunningGateway
from tests.support.scripted_transport import ScriptedTransport
from tracejudge.errors import SettingsError
from tracejudge.testing import make_trace
from tracejudge_consumer.gateway import GatewayLimits
from tracejudge_consumer.retry_policy import RetryPolicy
from tracejudge_sdk import codec
from tracejudge_sdk.errors import ConfigError
from tracejudge_sdk.transports import Transport, transport_for

KEY = "k" * 32
QUICK = RetryPolicy(first_s=0.01, longest_s=0.05)

Start = Callable[..., RunningGateway]


@pytest.fixture
def queue() -> ScriptedTransport:
    return ScriptedTransport()


@pytest.fixture
def start(queue: ScriptedTransport) -> Iterator[Start]:
    """Starts a gateway in front of `queue` and waits until it takes records."""
    running: list[RunningGateway] = []

    def begin(*, limits: dict[str, Any] | None = None, wait: bool = True, **options: Any) -> RunningGateway:
        options = {"retry": QUICK, "limits": GatewayLimits(**(limits or {})), **options}
        gateway = RunningGateway(lambda: queue, **options).__enter__()
        running.append(gateway)
        if wait:
            gateway.wait_ready()
        return gateway

    yield begin
    queue.go.set()
    for gateway in running:
        gateway.stop()


def record(number: int, **fields: Any) -> bytes:
    return codec.encode(make_trace(number, **fields))


def ids(queue: ScriptedTransport) -> list[str]:
    return [key for key, _ in queue.records]


def error(answer: Answer) -> tuple[int, str]:
    return answer.status, answer.json["error"]["reason"]


# -- an answer per line ------------------------------------------------------------------------------------------------


def test_what_is_accepted_is_in_the_queue_when_the_answer_comes(tmp_path: Path) -> None:
    path = tmp_path / "queue.db"
    with RunningGateway(lambda: transport_for(f"sqlite:///{path}")) as gateway:
        gateway.wait_ready()
        answer = gateway.post(record(1) + b"\n" + record(2) + b"\n")
        assert answer.status == 200
        assert read_sqlite(path) == [("t-000001", record(1)), ("t-000002", record(2))]
    assert (answer.json["accepted"], answer.json["refused"], answer.json["unavailable"]) == (2, 0, 0)


def test_each_line_has_its_answer_and_bad_ones_leave_their_neighbours_alone(
    start: Start, queue: ScriptedTransport
) -> None:
    naive = record(2).replace(b'"event_time":"2026-01-01T12:00:02Z"', b'"event_time":"2026-01-01T12:00:02"')
    assert naive != record(2)
    answer = start().post(b"\r\n".join([record(1), b"", naive, b"{", record(3)]))
    assert answer.status == 200
    assert [(line["line"], line["status"]) for line in answer.json["lines"]] == [
        (1, "accepted"),
        (3, "refused"),
        (4, "refused"),
        (5, "accepted"),
    ]
    (fault,) = answer.json["lines"][1]["faults"]
    assert fault["field"] == "event_time"
    assert "2026-01-01T12:00:02" in fault["value"]
    assert "time zone" in fault["limit"]
    assert "2026-01-31T12:00:00Z" in fault["remedy"]
    assert answer.json["lines"][2]["faults"][0]["reason"] == "not_json"
    assert ids(queue) == ["t-000001", "t-000003"]


def test_every_fault_of_a_record_is_told_at_once(start: Start) -> None:
    body = json.dumps(
        {"schema_version": 1, "kind": "trace", "trace_id": "", "query": 1, "source_nodes": [{"score": "x"}]}
    )
    answer = start().post(body.encode())
    assert answer.status == 422
    faults = {fault["field"]: fault for fault in answer.json["lines"][0]["faults"]}
    assert set(faults) == {"trace_id", "app", "event_time", "query", "source_nodes.0.score"}
    assert faults["app"]["value"] == "is missing"
    assert faults["source_nodes.0.score"]["limit"] == "a number"


def test_an_answer_stays_small_whatever_is_wrong(start: Start) -> None:
    bad = json.dumps(
        {"schema_version": 1, "kind": "trace", **{name: [] for name in ("query", "app", "model", "error")}}
    )
    answer = start().post("\n".join([bad] * 1_000).encode())
    lines = answer.json["lines"]
    assert (answer.status, len(lines)) == (422, 1_000)
    assert set(lines[0]["faults"][0]) == {"reason", "field", "value", "limit", "remedy"}
    assert lines[999]["faults"] == [
        {"reason": lines[0]["faults"][0]["reason"], "field": lines[0]["faults"][0]["field"]}
    ]
    assert len(answer.body) < 400_000


@pytest.mark.parametrize("kind", ["application/json", "application/x-ndjson"])
def test_an_object_alone_is_taken_under_either_type(start: Start, queue: ScriptedTransport, kind: str) -> None:
    assert start().post(record(1), Content_Type=kind).status == 200
    assert queue.records == [("t-000001", record(1))]


def test_json_may_be_an_array_or_written_over_many_lines(start: Start, queue: ScriptedTransport) -> None:
    gateway = start()
    array = json.dumps([json.loads(record(1)), {"kind": "trace"}, json.loads(record(2))]).encode()
    answer = gateway.post(array, Content_Type="application/json")
    assert [line["status"] for line in answer.json["lines"]] == ["accepted", "refused", "accepted"]
    pretty = json.dumps(json.loads(record(3)), indent=2).encode()
    assert gateway.post(pretty, Content_Type="application/json").status == 200
    assert [codec.decode(value) for _, value in queue.records] == [make_trace(1), make_trace(2), make_trace(3)]


def test_lines_under_the_type_of_json_are_lines(start: Start, queue: ScriptedTransport) -> None:
    assert start().post(record(1) + b"\n" + record(2), Content_Type="application/json").status == 200
    assert ids(queue) == ["t-000001", "t-000002"]


def test_a_document_that_is_parsed_whole_is_smaller_than_lines_may_be(start: Start, queue: ScriptedTransport) -> None:
    gateway = start()
    lines = [record(number, query="x" * 100_000) for number in range(90)]
    answer = gateway.post(b"[" + b",".join(lines) + b"]", zipped=True, Content_Type="application/json")
    assert error(answer) == (413, "document_too_large")
    assert "x-ndjson" in answer.json["error"]["remedy"]
    for kind in ("application/json", "application/x-ndjson"):
        assert gateway.post(b"\n".join(lines), zipped=True, Content_Type=kind).json["accepted"] == 90
    assert len(queue.records) == 180


@pytest.mark.parametrize("body", [b"", b"\n\n", b"[]"])
def test_a_body_without_a_record_is_a_mistake(start: Start, body: bytes) -> None:
    kind = "application/json" if body == b"[]" else "application/x-ndjson"
    assert error(start().post(body, Content_Type=kind)) == (400, "empty")


def test_blank_lines_are_skipped_but_not_without_end(start: Start, queue: ScriptedTransport) -> None:
    """60 MB of them, packed into 60 kB, took a reader twenty seconds."""
    gateway = start(limits={"max_lines": 10})
    assert gateway.post(record(1) + b"\n" * 80 + record(2)).json["accepted"] == 2
    assert error(gateway.post(b"\n" * 60_000_000, zipped=True)) == (413, "too_many_lines")


def test_bytes_that_are_no_http_leave_no_traceback_in_the_log(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    gateway = start()
    for sent in (b"\x16\x03\x01\r\n\r\n", b"GET /live HTTP/1.1\r\n\r\n", b"GET " + b"/" * 20_000 + b" HTTP/1.1\r\n"):
        with socket.create_connection(("127.0.0.1", gateway.port), timeout=10) as one:
            one.sendall(sent)
            assert b" 400 " in one.recv(100)
    assert caplog.text == ""


def test_fields_of_a_newer_contract_pass_through(start: Start, queue: ScriptedTransport) -> None:
    newer = record(1)[:-1] + b',"from_the_future":{"a":1}}'
    assert start().post(newer).status == 200
    assert queue.records == [("t-000001", newer)]


def test_parts_and_feedback_are_taken_too(start: Start, queue: ScriptedTransport) -> None:
    feedback = {"schema_version": 1, "kind": "feedback", "feedback_id": "f", "trace_id": "t", "app": "shop",
                "value": 1, "event_time": "2026-01-01T00:00:00Z"}  # fmt: skip
    part = {"schema_version": 1, "kind": "part", "trace_id": "t", "app": "shop", "event_time": "2026-01-01T00:00:00Z"}
    answer = start().post(json.dumps(feedback).encode() + b"\n" + json.dumps(part).encode())
    assert answer.status == 200
    assert ids(queue) == ["t", "t"]


def test_many_clients_at_once_each_get_their_own_answers(start: Start, queue: ScriptedTransport) -> None:
    gateway = start()

    def client(number: int) -> bool:
        found = []
        for turn in range(5):
            name = number * 100 + turn * 10
            answer = gateway.post(record(name) + b"\nbroken\n" + record(name + 1), zipped=bool(turn % 2))
            found.append([(line["line"], line.get("trace_id")) for line in answer.json["lines"]])
            assert found[-1] == [(1, f"t-{name:06d}"), (2, None), (3, f"t-{name + 1:06d}")]
        return True

    with ThreadPoolExecutor(12) as pool:
        assert all(pool.map(client, range(12)))
    assert len(set(ids(queue))) == len(queue.records) == 120
    assert queue.sends <= 60  # what gathers while the queue is busy goes in one batch


# -- limits ------------------------------------------------------------------------------------------------------------


def test_gzip_is_unpacked_members_in_a_row_too(start: Start, queue: ScriptedTransport) -> None:
    gateway = start()
    assert gateway.post(record(1), zipped=True).status == 200
    members = gzip.compress(record(2) + b"\n") + gzip.compress(record(3))
    assert gateway.post(members, Content_Encoding="gzip").status == 200
    assert ids(queue) == ["t-000001", "t-000002", "t-000003"]


def test_a_zip_bomb_ends_at_the_limit_and_gives_its_memory_back(start: Start, queue: ScriptedTransport) -> None:
    gateway = start(limits={"max_unpacked_bytes": 1_000_000})
    bomb = gzip.compress(b" " * 200_000_000, 9)
    assert len(bomb) < 300_000
    answer = gateway.post(bomb, Content_Encoding="gzip")
    assert error(answer) == (413, "unpacked_too_large")
    assert "1000000 bytes" in answer.json["error"]["limit"]
    assert b"tracejudge_gateway_in_flight_bytes 0.0" in gateway.request("GET", "/metrics").body
    assert gateway.post(record(1), zipped=True).status == 200


@pytest.mark.parametrize("body", [b"no gzip at all", gzip.compress(b"x" * 1000, mtime=0)[:-9], zlib.compress(b"{}")])
def test_damaged_gzip_is_told(start: Start, body: bytes) -> None:
    assert error(start().post(body, Content_Encoding="gzip")) == (400, "damaged_gzip")


def test_a_body_above_the_limit_is_refused_whether_it_says_its_length_or_not(
    start: Start, queue: ScriptedTransport
) -> None:
    gateway = start(limits={"max_body_bytes": 10_000})
    assert error(gateway.post(b"x" * 10_001)) == (413, "body_too_large")
    headers = {"Content-Type": "application/x-ndjson"}
    answer = gateway.request("POST", "/v1/traces", [b"x" * 6_000, b"y" * 6_000], headers)
    assert error(answer) == (413, "body_too_large")
    assert not queue.records


def test_more_lines_than_the_limit_are_refused_whole(start: Start, queue: ScriptedTransport) -> None:
    gateway = start(limits={"max_lines": 2})
    assert error(gateway.post(b"\n".join([record(1), record(2), record(3)]))) == (413, "too_many_lines")
    assert not queue.records


def test_a_record_above_the_queues_limit_is_refused_alone(queue: ScriptedTransport, start: Start) -> None:
    queue.max_record_bytes = 1_000
    answer = start().post(record(1, query="x" * 2_000) + b"\n" + record(2))
    assert answer.status == 200
    (fault,) = answer.json["lines"][0]["faults"]
    assert fault["reason"] == "too_large"
    assert fault["limit"] == "1000 bytes"
    assert "truncated" in fault["remedy"]
    assert ids(queue) == ["t-000002"]


def test_beyond_the_bytes_under_way_clients_are_told_to_come_again(start: Start, queue: ScriptedTransport) -> None:
    gateway = start(limits={"max_in_flight_bytes": len(record(1)) + 10, "max_unpacked_bytes": 1_000})
    queue.hold = True
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(gateway.post, record(1))
        assert queue.entered.wait(30)
        second = gateway.post(record(2))
        assert error(second) == (429, "busy")
        assert int(second.headers["Retry-After"]) >= 1
        queue.go.set()
        assert first.result(30).status == 200
    assert gateway.post(record(2)).status == 200


def test_a_connection_above_the_limit_is_turned_away(start: Start) -> None:
    gateway = start(limits={"max_connections": 2}, wait=False)
    held = [socket.create_connection(("127.0.0.1", gateway.port), timeout=30) for _ in range(2)]
    try:
        for one in held:  # taken on, once it is answered
            one.sendall(b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert one.recv(12) == b"HTTP/1.1 200"
        with socket.create_connection(("127.0.0.1", gateway.port), timeout=30) as third:
            head = third.recv(1000)
            assert head.startswith(b"HTTP/1.1 503")
            assert b"Retry-After" in head
    finally:
        for one in held:
            one.close()


def test_who_is_silent_or_slow_is_not_waited_for(start: Start) -> None:
    gateway = start(limits={"read_timeout_s": 0.2})
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=30) as silent:
        assert silent.recv(1) == b""
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=30) as slow:
        slow.sendall(b"POST /v1/tra")
        assert slow.recv(1) == b""


def test_a_body_that_does_not_end_is_answered(start: Start) -> None:
    gateway = start(limits={"read_timeout_s": 1.0})
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=30) as slow:
        slow.sendall(b"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n")
        slow.sendall(b"Content-Length: 9\r\n\r\n{")
        assert slow.recv(12) == b"HTTP/1.1 408"


# -- admission ---------------------------------------------------------------------------------------------------------


def test_without_the_key_nothing_is_taken(start: Start, queue: ScriptedTransport) -> None:
    gateway = start(keys=[KEY, "other" * 5])
    answer = gateway.post(record(1))
    assert error(answer) == (401, "wrong_key")
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    for wrong in ("Bearer wrong", f"Basic {KEY}", KEY, f"Bearer {KEY[:-1]}", "Bearer \xe9"):
        assert error(gateway.post(record(1), Authorization=wrong)) == (401, "wrong_key")
    assert not queue.records
    assert gateway.post(record(1), Authorization=f"Bearer {KEY}").status == 200
    assert gateway.post(record(1), Authorization=f"bearer {'other' * 5}").status == 200
    assert gateway.request("GET", "/live").status == gateway.request("GET", "/ready").status == 200
    assert gateway.request("GET", "/metrics").status == 401
    assert gateway.request("GET", "/metrics", headers={"Authorization": f"Bearer {KEY}"}).status == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example.com", "evil.example.com:80", "127.0.0.1.nip.io", "localhost.example.com", "", "[::1", "127.1"],
)
def test_a_name_that_is_not_ours_is_refused_on_loopback(start: Start, queue: ScriptedTransport, host: str) -> None:
    gateway = start()
    assert error(gateway.post(record(1), Host=host)) == (403, "wrong_host")
    assert gateway.request("GET", "/metrics", headers={"Host": host}).status == 403
    assert not queue.records


@pytest.mark.parametrize("host", ["localhost:1", "127.0.0.1", "[::1]:4380", "10.1.2.3:4380", "Ingest.Example.com:443"])
def test_our_own_names_are_taken(start: Start, host: str) -> None:
    assert start(hosts=["ingest.example.com"]).post(record(1), Host=host).status == 200


@pytest.mark.parametrize(
    "headers",
    [{"Origin": "https://evil.example.com"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}],
)
def test_a_web_page_cannot_write(start: Start, queue: ScriptedTransport, headers: dict[str, str]) -> None:
    headers = {"Content-Type": "application/json", **headers}
    assert error(start().request("POST", "/v1/traces", record(1), headers)) == (403, "from_a_page")
    assert not queue.records


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_types_that_a_page_may_send_unasked_are_refused_with_the_remedy(start: Start, kind: str) -> None:
    answer = start().post(record(1), Content_Type=kind)
    assert error(answer) == (415, "content_type")
    assert "application/x-ndjson" in answer.json["error"]["remedy"]


def test_other_paths_methods_and_encodings_are_refused(start: Start) -> None:
    gateway = start()
    assert error(gateway.request("GET", "/etc/passwd")) == (404, "no_such_path")
    assert error(gateway.request("GET", "/v1/traces")) == (405, "method")
    assert error(gateway.request("OPTIONS", "/v1/traces", headers={"Origin": "https://a.b"})) == (405, "method")
    assert error(gateway.post(record(1), Content_Encoding="br")) == (415, "content_encoding")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.com"])  # noqa: S104 - it must not be bound
def test_no_address_that_others_reach_without_a_key(host: str) -> None:
    from tracejudge_consumer.gateway.admission import keys_from

    with pytest.raises(SettingsError, match="INGEST"):
        keys_from(None, variable="INGEST", host=host)
    assert keys_from(f"{KEY}, {KEY}2", variable="INGEST", host=host) == (KEY, f"{KEY}2")
    with pytest.raises(SettingsError, match="at least 16"):
        keys_from("short", variable="INGEST", host="127.0.0.1")
    assert keys_from("", variable="INGEST", host="::1") == ()


# -- the queue away ----------------------------------------------------------------------------------------------------


def test_while_the_queue_is_away_clients_come_again_and_nothing_needs_a_restart(
    start: Start, queue: ScriptedTransport
) -> None:
    queue.down = True
    gateway = start(wait=False)
    answer = gateway.post(record(1) + b"\nbroken")
    assert answer.status == 503
    assert int(answer.headers["Retry-After"]) >= 1
    assert [line["status"] for line in answer.json["lines"]] == ["unavailable", "refused"]
    ready = gateway.request("GET", "/ready")
    assert ready.status == 503
    assert gateway.request("GET", "/live").status == 200
    queue.down = False
    gateway.wait_ready()
    assert gateway.post(record(1)).status == 200
    queue.down = True
    assert gateway.post(record(2)).status == 503
    assert "scripted to be down" in gateway.request("GET", "/ready").json["reasons"][0]
    queue.down = False
    gateway.wait_ready()
    assert ids(queue) == ["t-000001"]


def test_a_queue_that_can_be_reached_and_loses_every_batch_is_not_ready(start: Start, queue: ScriptedTransport) -> None:
    """A topic that does not exist: connecting works, and says nothing."""
    gateway = start()
    queue.lossy = True
    for _ in range(1000):  # between two batches a probe finds the queue there
        if queue.lost == 2:
            break
        assert gateway.post(record(1)).status == 503
        threading.Event().wait(0.01)
    assert queue.lost == 2
    for _ in range(5):
        ready = gateway.request("GET", "/ready")
        assert (ready.status, "scripted to lose" in ready.json["reasons"][0]) == (503, True)
        threading.Event().wait(0.05)
    assert b"tracejudge_gateway_queue_up 0.0" in gateway.request("GET", "/metrics").body
    queue.lossy = False
    for _ in range(500):
        if gateway.post(record(9)).status == 200:
            break
        threading.Event().wait(0.01)
    gateway.wait_ready()
    assert ids(queue) == ["t-000009"]


def test_what_the_queue_refuses_is_told_by_line(start: Start, queue: ScriptedTransport) -> None:
    queue.refuse = {"t-000002"}
    answer = start().post(b"\n".join([record(1), record(2), record(3)]))
    assert [line["status"] for line in answer.json["lines"]] == ["accepted", "refused", "accepted"]
    assert answer.json["lines"][1]["faults"][0]["reason"] == "queue_refused"
    assert ids(queue) == ["t-000001", "t-000003"]


def test_a_queue_that_does_not_confirm_in_time_is_said_to_be_unavailable(
    start: Start, queue: ScriptedTransport
) -> None:
    gateway = start(limits={"answer_timeout_s": 0.1})
    queue.hold = True
    answer = gateway.post(record(1))
    assert answer.status == 503
    assert answer.json["unavailable"] == 1


def test_a_request_under_way_is_answered_when_the_gateway_stops(start: Start, queue: ScriptedTransport) -> None:
    gateway = start()
    queue.hold = True
    with ThreadPoolExecutor(2) as pool:
        request = pool.submit(gateway.post, record(1))
        assert queue.entered.wait(30)
        stopped = pool.submit(gateway.stop)
        queue.go.set()
        assert request.result(30).status == 200
        stopped.result(30)
    assert ids(queue) == ["t-000001"]
    with pytest.raises(OSError, match="refused"):
        gateway.request("GET", "/live")


def test_a_body_that_is_on_its_way_when_the_gateway_stops_is_taken(start: Start, queue: ScriptedTransport) -> None:
    gateway = start(limits={"drain_timeout_s": 30.0})
    body = record(1)
    head = (
        f"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    )
    with (
        ThreadPoolExecutor(1) as pool,
        socket.create_connection(("127.0.0.1", gateway.port), timeout=30) as client,
    ):
        client.sendall(f"{head}\r\n\r\n".encode() + body[:9])
        assert gateway.request("GET", "/live").status == 200  # the first half is there
        stopped = pool.submit(gateway.stop)
        while nobody_is_refused(gateway.port):
            pass
        client.sendall(body[9:])
        assert client.recv(12) == b"HTTP/1.1 200"
        stopped.result(60)
    assert ids(queue) == ["t-000001"]


def nobody_is_refused(port: int) -> bool:
    """Whether somebody still listens."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=30).close()
    except OSError:
        return False
    return True


def test_settings_that_cannot_work_end_it_loudly() -> None:
    class Broken(ScriptedTransport):
        def send(self, records: Any) -> None:
            raise ConfigError("queue: no such codec")

    def make() -> Transport:
        return Broken()

    with pytest.raises(ConfigError, match="no such codec"), RunningGateway(make) as gateway:
        raise gateway.wait_ended() or AssertionError("it ended without a word")  # unless it did before it was entered


def test_an_address_in_use_is_told_with_the_remedy(queue: ScriptedTransport) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        gateway = RunningGateway(lambda: queue, port=taken.getsockname()[1])
        with pytest.raises(SettingsError, match="choose another port"), gateway:
            pass


def test_curls_question_before_a_large_body_is_answered(start: Start) -> None:
    gateway = start()
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=30)
    connection.putrequest("POST", "/v1/traces")
    connection.putheader("Content-Type", "application/json")
    connection.putheader("Content-Length", str(len(record(1))))
    connection.putheader("Expect", "100-continue")
    connection.endheaders()
    assert connection.sock is not None
    assert connection.sock.recv(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
    connection.send(record(1))
    assert connection.getresponse().status == 200
    connection.close()


def test_what_is_no_http_at_all_is_refused_and_is_in_no_log(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    gateway = start()
    with caplog.at_level(logging.INFO):
        for garbage in (
            b"CANARY garbage\r\n\r\n",
            b"POST /v1/traces HTTP/9.9\r\nCANARY\r\n\r\n",
            b"\x16\x03\x01CANARY",
        ):
            with socket.create_connection(("127.0.0.1", gateway.port), timeout=30) as client:
                client.sendall(garbage)
                client.shutdown(socket.SHUT_WR)
                assert client.recv(12) in (b"HTTP/1.1 400", b"HTTP/1.0 400", b"")
    assert "CANARY" not in caplog.text
    assert gateway.post(record(1)).status == 200


@pytest.mark.parametrize("depth", [200, 600, 950, 990, 1_500, 5_000, 100_000])
def test_whatever_is_nested_is_refused_and_ends_nothing(start: Start, queue: ScriptedTransport, depth: int) -> None:
    gateway = start()
    deep = b'{"a":' * depth + b"1" + b"}" * depth
    for body, kind in ((deep, "x-ndjson"), (b"[" + deep + b"]", "json"), (b"[" * depth + b"]" * depth, "json")):
        assert gateway.post(body, Content_Type=f"application/{kind}").status in (400, 422)
    assert gateway.post(record(1)).status == 200
    assert ids(queue) == ["t-000001"]


def test_a_fault_of_our_own_ends_one_request_and_is_logged_without_its_words(
    start: Start, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*args: Any, **kwargs: Any) -> Any:
        raise ValueError("CANARY: somebody's question")

    gateway = start()
    with monkeypatch.context() as patched, caplog.at_level(logging.INFO):
        patched.setattr("tracejudge_consumer.gateway.trace_requests.read_lines", broken)
        assert error(gateway.post(record(1))) == (500, "internal_error")
    assert "ValueError" in caplog.text
    assert "CANARY" not in caplog.text
    assert gateway.post(record(1)).status == 200


def test_metrics_count_lines_and_reasons(start: Start) -> None:
    gateway = start()
    gateway.post(record(1) + b"\n{}")
    gateway.post(b"x", Content_Type="text/plain")
    text = gateway.request("GET", "/metrics").body.decode()
    for line in (
        'tracejudge_gateway_lines_total{answer="accepted"} 1.0',
        'tracejudge_gateway_lines_total{answer="refused"} 1.0',
        'tracejudge_gateway_refused_total{reason="content_type"} 1.0',
        "tracejudge_gateway_queue_up 1.0",
    ):
        assert line in text


def test_the_writer_is_watched(start: Start, queue: ScriptedTransport) -> None:
    """Live is false once the writer has ended."""
    gateway = start()

    def broken(_: object) -> None:
        raise SystemExit

    threading.excepthook, before = (lambda _: None), threading.excepthook
    try:
        queue.send = broken  # type: ignore[method-assign, assignment]
        assert gateway.post(record(1)).status == 503
        assert isinstance(gateway.wait_ended(), SystemExit)
    finally:
        threading.excepthook = before
