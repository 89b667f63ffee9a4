"""Channels: what they send, to whom they do not send, and what they say when it fails."""

from __future__ import annotations

import contextlib
import hmac
import io
import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pytest
from pydantic import ValidationError

from tests.support.webhook import Receiver
from tracejudge.alerts import (
    AlertEvent,
    NotDelivered,
    Notifier,
    NotifierSettings,
    SeriesKey,
    build_notifiers,
    event_from_json,
    event_to_json,
)
from tracejudge.alerts.notifiers import TerminalNotifier
from tracejudge.alerts.notifiers.address import AddressRefused, checked_address
from tracejudge.alerts.notifiers.webhook import WebhookNotifier
from tracejudge.errors import SettingsError
from tracejudge.testing import ManualClock, RecordingNotifier

EVENT = AlertEvent(
    event_id="5f1c0a",
    series=SeriesKey(
        rule="quality",
        environment="production",
        app="shop",
        judge_name="faithfulness",
        judge_id="faithfulness@0123456789ab",
        group=(("category", "returns"),),
    ),
    kind="firing",
    severity="page",
    heuristic=False,
    at=datetime(2026, 1, 1, 14, 5, tzinfo=timezone.utc),
    summary="faithfulness of shop fell below 80 %",
    evidence={"boundary": 0.8, "worst_trace_ids": ["t-1"]},
)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        yield server


def webhook(receiver: Receiver, **fields: Any) -> WebhookNotifier:
    return WebhookNotifier(
        **{
            "url": receiver.url,
            "secret": b"key",
            "allow_private": True,
            "timeout_s": 5.0,
            "clock": ManualClock(datetime(2026, 1, 1, tzinfo=timezone.utc)),
            **fields,
        }
    )


def test_a_webhook_posts_the_event_signed_with_its_stable_id(receiver: Receiver) -> None:
    webhook(receiver).notify(EVENT)
    ((path, headers, body),) = receiver.requests
    assert path == "/hooks/s3cr3t-path?token=s3cr3t"
    assert headers["X-Tracejudge-Event-Id"] == "5f1c0a"
    assert headers["X-Tracejudge-Timestamp"] == "1767225600"
    expected = hmac.new(b"key", b"1767225600." + body, "sha256").hexdigest()
    assert headers["X-Tracejudge-Signature"] == f"sha256={expected}"
    assert headers["Host"].startswith("127.0.0.1:")
    sent = json.loads(body)
    assert sent["event_id"] == "5f1c0a"
    assert sent["version"] == 1
    assert sent["at"] == "2026-01-01T14:05:00.000000+00:00"
    assert sent["series"]["group"] == {"category": "returns"}
    assert sent["evidence"] == {"boundary": 0.8, "worst_trace_ids": ["t-1"]}


def test_without_a_secret_nothing_is_signed(receiver: Receiver) -> None:
    webhook(receiver, secret=None).notify(EVENT)
    assert "X-Tracejudge-Signature" not in receiver.requests[0][1]


@pytest.mark.parametrize(("status", "says"), [(500, "answered 500"), (404, "answered 404"), (302, "not followed")])
def test_any_other_answer_is_not_delivered_and_names_neither_path_nor_token(
    receiver: Receiver, status: int, says: str
) -> None:
    receiver.status = status
    with pytest.raises(NotDelivered, match=says) as caught:
        webhook(receiver).notify(EVENT)
    assert "s3cr3t" not in str(caught.value)
    assert len(receiver.requests) == 1


@pytest.mark.parametrize(
    ("status", "remedy"),
    [(403, "check the channel's secret"), (410, "make a new address"), (429, "lower max_messages")],
)
def test_what_a_service_refuses_is_said_with_what_mends_it(receiver: Receiver, status: int, remedy: str) -> None:
    receiver.status = status
    with pytest.raises(NotDelivered, match=f"answered {status}; .*{remedy}"):
        webhook(receiver).notify(EVENT)


def test_a_loopback_address_is_refused_unless_allowed(receiver: Receiver) -> None:
    with pytest.raises(NotDelivered, match="allow_private = true"):
        webhook(receiver, allow_private=False).notify(EVENT)
    assert receiver.requests == []


def test_nobody_listening_is_not_delivered(receiver: Receiver) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(NotDelivered, match="did not answer"):
            webhook(receiver, url=f"http://127.0.0.1:{port}/").notify(EVENT)


class Talker:
    """Takes a request and answers the bytes it is given."""

    def __init__(self, answer: bytes) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}/"
        self._answer = answer
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        connected, _ = self._listening.accept()
        with connected:
            while b"{" not in connected.recv(65536):
                pass
            with contextlib.suppress(OSError):
                for begin in range(0, len(self._answer), 25):
                    connected.sendall(self._answer[begin : begin + 25])

    def close(self) -> None:
        self._thread.join()
        self._listening.close()


class HurriedClock(ManualClock):
    """A second passes with every look at it."""

    def monotonic(self) -> float:
        self.advance(1.0)
        return super().monotonic()


@pytest.mark.parametrize(
    ("drops", "hurried", "says"), [(1, False, None), (400, True, "longer than 5 s"), (2000, False, "longer than 16384")]
)
def test_a_receiver_that_drips_is_cut_off(drops: int, hurried: bool, says: str | None) -> None:
    talker = Talker(b"HTTP/1.1 100 Continue\r\n\r\n" * drops + b"HTTP/1.1 204 No Content\r\n\r\n")
    start = datetime(2026, 1, 1, tzinfo=timezone.utc)
    notifier = WebhookNotifier(
        url=talker.url,
        secret=None,
        allow_private=True,
        timeout_s=5.0,
        clock=HurriedClock(start) if hurried else ManualClock(start),
    )
    try:
        if says is None:
            notifier.notify(EVENT)
        else:
            with pytest.raises(NotDelivered, match=says):
                notifier.notify(EVENT)
    finally:
        talker.close()


def answers(*addresses: str) -> Any:
    return lambda host, port: [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, port)) for ip in addresses]


@pytest.mark.parametrize(
    "inside",
    [
        "127.0.0.1",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",  # noqa: S104 - an address to refuse, not to bind
        "224.0.0.1",
        "::1",
        "fe80::1%eth0",
        "fd00::1",
        "::ffff:127.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "::",
        "::7f00:1",
        "::ffff:100.64.0.1",
        "::ffff:0:7f00:1",
        "fec0::1",
        "ff0e::1",
        "64:ff9b::a00:1",
        "64:ff9b::6440:1",
        "64:ff9b:1::5db8:d822",
        "2001:0:5db8:d822::1",
        "2001:db8::1",
        "3fff::1",
        "4000::1",
        "192.0.0.8",
        "192.88.99.1",
        "198.18.0.1",
        "240.0.0.1",
        "255.255.255.255",
    ],
)
def test_private_addresses_are_refused_in_every_spelling(inside: str) -> None:
    with pytest.raises(AddressRefused, match="not a public address"):
        checked_address("hook.example", 443, allow_private=False, resolver=answers("93.184.216.34", inside))


@pytest.mark.parametrize(
    "outside", ["93.184.216.34", "2606:2800:220:1::1", "::ffff:93.184.216.34", "64:ff9b::5db8:d822"]
)
def test_public_addresses_are_taken(outside: str) -> None:
    assert checked_address("hook.example", 443, allow_private=False, resolver=answers(outside)).host == outside


def test_the_checked_address_is_the_one_that_is_used() -> None:
    calls: list[str] = []

    def once(host: str, port: int) -> list[Any]:
        calls.append(host)
        found: list[Any] = answers("93.184.216.34")(host, port)
        return found

    assert checked_address("hook.example", 443, allow_private=False, resolver=once).host == "93.184.216.34"
    assert calls == ["hook.example"]


def test_a_name_that_leads_nowhere_is_said() -> None:
    def unknown(host: str, port: int) -> list[Any]:
        raise socket.gaierror("Name or service not known")

    notifier = WebhookNotifier(url="https://hook.example/x", secret=None, resolver=unknown)
    with pytest.raises(NotDelivered, match="has no address"):
        notifier.notify(EVENT)


@pytest.mark.parametrize(
    "url", ["ftp://example.org", "https://", "https://example.org:port", "https://me:pw@example.org/", "https://[::1"]
)
def test_a_url_that_cannot_be_used_is_refused_at_once(url: str) -> None:
    with pytest.raises(SettingsError) as caught:
        WebhookNotifier(url=url, secret=None)
    assert "pw" not in str(caught.value)


def test_the_terminal_prints_one_harmless_line() -> None:
    stream = io.StringIO()
    TerminalNotifier(stream=stream).notify(replace(EVENT, summary="bad\x1b[2J\nforged: all is fine"))
    assert stream.getvalue() == "2026-01-01 14:05:00Z page firing: bad?[2J?forged: all is fine [5f1c0a]\n"


def test_the_terminal_says_where_it_fell_on_the_same_line_and_nothing_where_nothing_stands_out() -> None:
    def shown(slices: Any) -> str:
        stream = io.StringIO()
        TerminalNotifier(stream=stream).notify(replace(EVENT, summary="it fell", evidence={"slices": slices}))
        return stream.getvalue()

    moved = {"says": "the mix of traffic moved\nforged", "standing_out": [{"kind": "mix"}], "appeared": []}
    assert shown(moved) == ("2026-01-01 14:05:00Z page firing: it fell [5f1c0a]; the mix of traffic moved?forged\n")
    nothing = {"says": "no slice stands out among 12 looked at", "standing_out": [], "appeared": []}
    assert shown(nothing) == "2026-01-01 14:05:00Z page firing: it fell [5f1c0a]\n"


def test_a_closed_stream_is_not_delivered() -> None:
    stream = io.StringIO()
    stream.close()
    with pytest.raises(NotDelivered):
        TerminalNotifier(stream=stream).notify(EVENT)


def test_settings_become_channels_and_all_faults_are_said_at_once() -> None:
    settings = [
        NotifierSettings(type="terminal"),
        NotifierSettings(type="webhook", name="ops", url="https://example.org/x", secret_env="OPS_SECRET"),
    ]
    built = build_notifiers(settings, environ={"OPS_SECRET": "key"})
    assert [notifier.name for notifier in built] == ["terminal", "ops"]
    with pytest.raises(SettingsError) as caught:
        build_notifiers([*settings, NotifierSettings(type="terminal")], environ={})
    assert len(caught.value.faults) == 2
    assert "OPS_SECRET" in caught.value.faults[0]
    assert "notifiers[2].name" in caught.value.faults[1]


@pytest.mark.parametrize(
    "fields",
    [
        {"type": "webhook"},
        {"type": "webhook", "url": "example.org"},
        {"type": "terminal", "url": "https://example.org"},
        {"type": "pigeon"},
        {"type": "webhook", "url": "https://example.org", "secret": "plain"},
        {"type": "webhook", "url": "https://example.org", "timeout_s": 0},
    ],
)
def test_settings_that_cannot_be_meant_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        NotifierSettings.model_validate(fields)


def test_an_event_survives_json() -> None:
    assert event_from_json(json.loads(json.dumps(event_to_json(EVENT)))) == EVENT


def test_the_recording_channel_keeps_what_it_took_and_counts_what_it_refused() -> None:
    recording = RecordingNotifier()
    assert isinstance(recording, Notifier)
    recording.failing = True
    with pytest.raises(NotDelivered):
        recording.notify(EVENT)
    recording.failing = False
    recording.notify(EVENT)
    assert (recording.attempts, recording.events) == (2, [EVENT])


@pytest.mark.parametrize("kind", ["slack", "pagerduty", "alertmanager"])
def test_a_secret_that_http_would_not_take_is_refused_at_the_start_and_named_nowhere(kind: str) -> None:
    fields: dict[str, Any] = {"type": kind, "secret_env": "CHANNEL"}
    if kind == "alertmanager":
        fields["url"] = "https://alerts.example.com"
    settings = NotifierSettings(**fields)
    value = "https://hooks.slack.com/services/T0/B0/hush" if kind == "slack" else "hush"
    build_notifiers([settings], environ={"CHANNEL": f"{value}\n"})  # as a file's last line break comes along
    with pytest.raises(SettingsError) as refused:
        build_notifiers([settings], environ={"CHANNEL": f"{value} hush"})
    assert "'CHANNEL' holds a space" in str(refused.value)
    assert "hush" not in str(refused.value)


def test_errors_of_http_itself_quote_nothing_that_was_sent() -> None:
    hook = WebhookNotifier(url="http://127.0.0.1:9/a", secret=None, allow_private=True)
    hook._headers = lambda _ident, _body: {"X-Key": "hush\n"}
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        hook._url = hook._url._replace(netloc=f"127.0.0.1:{listening.getsockname()[1]}")
        with pytest.raises(NotDelivered) as failed:
            hook.notify(EVENT)
    assert "did not answer in HTTP: ValueError" in str(failed.value)
    assert "hush" not in str(failed.value)
    assert failed.value.__cause__ is None
