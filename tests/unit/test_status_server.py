"""/live, /ready and /metrics answer what the health and the metrics say."""

from __future__ import annotations

import http.client
import json
import socket
import urllib.error
import urllib.request
from typing import Any

import pytest

import tracejudge_consumer.watching.status_server as status_server_module
from tracejudge.errors import SettingsError
from tracejudge.testing import ManualClock
from tracejudge_consumer.watching.health import Health
from tracejudge_consumer.watching.metrics import Metrics
from tracejudge_consumer.watching.status_server import status_server


def get(port: int, path: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def reasons(body: bytes) -> Any:
    return json.loads(body)["reasons"]


def test_live_and_ready_follow_the_health() -> None:
    clock, metrics = ManualClock(), Metrics()
    health = Health(clock)
    with status_server(health, metrics.registry, host="127.0.0.1", port=0) as port:
        assert get(port, "/live")[0] == 200
        status, body = get(port, "/ready")
        assert (status, reasons(body)) == (503, ["no partition is assigned"])
        health.turned(partitions=1)
        assert get(port, "/ready")[0] == 200
        health.store_answered("connection refused")
        status, body = get(port, "/ready")
        assert status == 503
        assert "connection refused" in reasons(body)[0]
        clock.advance(120)
        assert get(port, "/live")[0] == 503
        metrics.partitions.set(3)
        assert b"tracejudge_partitions 3.0" in get(port, "/metrics")[1]
        assert get(port, "/etc/passwd")[0] == 404


@pytest.mark.parametrize("path", ["/metrics", "/ready", "/live"])
def test_a_web_page_behind_a_name_for_loopback_reads_nothing(path: str) -> None:
    with status_server(Health(ManualClock()), Metrics().registry, host="127.0.0.1", port=0) as port:
        for name, refused in (
            ("evil.test", True),
            (f"localhost:{port}", False),
            ("[::1]:1", False),
            ("10.0.0.1", False),
        ):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            connection.request("GET", path, headers={"Host": name})
            assert (connection.getresponse().status == 403) is refused
            connection.close()


def test_clients_that_say_nothing_keep_nobody_from_an_answer(capfd: pytest.CaptureFixture[str]) -> None:
    with status_server(Health(ManualClock()), Metrics().registry, host="127.0.0.1", port=0) as port:
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(5)]
        assert get(port, "/live")[0] == 200
        for one in silent:
            one.close()
        assert get(port, "/live")[0] == 200
    assert capfd.readouterr().err == ""


def test_a_client_that_spells_its_request_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_server_module, "_LONGEST_S", 0.2)
    with (
        status_server(Health(ManualClock()), Metrics().registry, host="127.0.0.1", port=0) as port,
        socket.create_connection(("127.0.0.1", port), timeout=30) as spelling,
    ):
        spelling.sendall(b"G")
        assert spelling.recv(1) == b""


def test_no_more_connections_than_it_has_room_for_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_server_module, "_MOST_CONNECTIONS", 2)
    with status_server(Health(ManualClock()), Metrics().registry, host="127.0.0.1", port=0) as port:
        held = [socket.create_connection(("127.0.0.1", port), timeout=30) for _ in range(3)]
        assert held[2].recv(1) == b""
        for one in held:
            one.close()


def test_an_address_in_use_is_a_settings_error_with_the_remedy() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with (
            pytest.raises(SettingsError, match="choose another port"),
            status_server(Health(ManualClock()), Metrics().registry, host="127.0.0.1", port=port),
        ):
            pass
