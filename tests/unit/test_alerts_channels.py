"""Other people's systems: what each is sent for an alert and its end, over real HTTP and SMTP on loopback."""

from __future__ import annotations

import json
import logging
import re
import socket
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from email import message_from_string
from email.message import Message
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session
from pydantic import ValidationError

from tests.support.webhook import Receiver
from tests.unit.test_alerts_notifiers import EVENT
from tracejudge.alerts import AlertEvent, GroupNotifier, NotDelivered, Notifier, NotifierSettings, build_notifiers
from tracejudge.alerts.notifiers.email import EmailNotifier
from tracejudge.alerts.notifiers.formats import alertmanager_body, pagerduty_body, slack_body, slack_message
from tracejudge.alerts.notifiers.webhook import sign
from tracejudge.alerts.telling.channels import ChannelState, parse_rate
from tracejudge.alerts.telling.incident import incident_key
from tracejudge.alerts.telling.notify import message_of
from tracejudge.errors import SettingsError

RESOLVED = replace(EVENT, event_id="77", kind="resolved", evidence={"fired_event_id": EVENT.event_id})
NO_DATA = replace(EVENT, event_id="88", kind="no_data", severity="ticket")
DATA_BACK = replace(EVENT, event_id="99", kind="data_back", severity="ticket")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        yield server


def channel(environ: dict[str, str] | None = None, **fields: Any) -> Notifier:
    (built,) = build_notifiers([NotifierSettings.model_validate(fields)], environ=environ or {})
    return built


def test_slack_gets_a_line_that_can_be_no_link_and_no_mention(receiver: Receiver) -> None:
    slack = channel({"HOOK": receiver.url + "/T0/SECRET"}, type="slack", secret_env="HOOK", allow_private=True)
    slack.notify(replace(EVENT, summary="<!channel> <https://evil.example|shop> & co\nfell"))
    ((path, _, _),) = receiver.requests
    assert path.endswith("/T0/SECRET")
    (body,) = receiver.bodies
    assert "<" not in body["text"]
    assert body["text"].startswith("*&lt;!channel&gt; &lt;https[:]//evil[.]example|shop&gt; &amp; co?fell*\n")
    assert EVENT.event_id in body["text"]
    assert body["parse"] == "none"


LINKS = (
    *("https://evil.test/a", "HTTP://evil.test", "www.evil.test", "mailto:a@evil.test", "slack://open", "tel:112"),
    *("_https://evil.test", "1https://evil.test", "\u00e9https://evil.test", "_www.evil.test", "_mailto:a@evil.test"),
    *("a" * 40 + "https://evil.test", "evil.test", "x.evil.test/a", "ops@evil.test"),
)
HOSTILE = replace(
    EVENT,
    summary=f"judge of {' '.join(LINKS)} fell",
    series=replace(EVENT.series, app=LINKS[0], group=(("tags.tenant", LINKS[2]),)),
    evidence={
        "slices": {"says": f"tags.tenant {' '.join(LINKS)} fell"},
        "worst_trace_ids": list(LINKS),
        "page": "https://alerts.example.com/e.html",
    },
)


def links_in(text: str) -> list[str]:
    """What a chat, a mail program or an incident tool would make a link of."""
    return re.findall(r"(?i)(?:[a-z][a-z0-9+.-]*://|www\.|mailto:|tel:|[\w-]+\.test)[^\s\"<>]*", text)


def test_no_channel_of_people_makes_a_link_of_a_name_that_a_producer_sent() -> None:
    ours = "https://alerts.example.com/e.html"
    several = message_of((HOSTILE, replace(HOSTILE, event_id="e2")), channel="c")
    for text in (slack_body(HOSTILE), slack_message(several)):
        assert isinstance(text, dict)
        assert set(links_in(text["text"])) == {ours}
        assert f"<{ours}>" in text["text"]
        assert "https[:]//evil[.]test/a" in text["text"], "it stays readable"
    incident: Any = pagerduty_body(HOSTILE, routing_key="k")
    assert set(links_in(json.dumps(incident))) == {ours}
    (alert,) = alertmanager_body(HOSTILE)
    assert set(links_in(json.dumps(alert["annotations"]))) == {ours}
    assert alert["labels"]["app"] == LINKS[0], "what is matched by stays as it is"
    mail = EmailNotifier(host="mail.test", port=25, sender="a@b.test", recipients=["c@d.test"])._mail(
        "firing", HOSTILE.summary, [HOSTILE], ident="e", above=[]
    )
    assert set(links_in(mail.get_content())) == {ours}
    assert links_in(mail["Subject"]) == []


def test_slack_never_says_its_url_which_is_its_secret(receiver: Receiver) -> None:
    receiver.status = 403
    slack = channel({"HOOK": receiver.url + "/T0/SECRET"}, type="slack", secret_env="HOOK", allow_private=True)
    with pytest.raises(NotDelivered) as caught:
        slack.notify(EVENT)
    assert "SECRET" not in str(caught.value)


def test_pagerduty_opens_and_closes_one_incident(receiver: Receiver) -> None:
    pager = channel(
        {"KEY": "r0ut1ng"}, type="pagerduty", secret_env="KEY", url=receiver.url + "/v2/enqueue", allow_private=True
    )
    pager.notify(EVENT)
    pager.notify(RESOLVED)
    opened, closed = receiver.bodies
    assert (opened["event_action"], closed["event_action"]) == ("trigger", "resolve")
    assert opened["dedup_key"] == closed["dedup_key"]
    assert opened["routing_key"] == "r0ut1ng"
    assert opened["payload"]["severity"] == "critical"
    assert opened["payload"]["custom_details"]["event_id"] == EVENT.event_id
    assert "payload" not in closed


@pytest.mark.parametrize(("opens", "closes"), [(EVENT, RESOLVED), (NO_DATA, DATA_BACK)])
def test_an_alert_and_its_end_have_one_key_and_other_troubles_another(opens: AlertEvent, closes: AlertEvent) -> None:
    assert incident_key(opens) == incident_key(closes)
    keys = {incident_key(event) for event in (EVENT, NO_DATA, replace(NO_DATA, kind="evaluator_unhealthy"))}
    assert len(keys) == 3
    assert pagerduty_body(NO_DATA, routing_key="k") != pagerduty_body(DATA_BACK, routing_key="k")


def test_long_names_share_no_key() -> None:
    long = replace(EVENT, kind="no_data", series=replace(EVENT.series, app="a" * 256, judge_name="one"))
    other = replace(long, series=replace(long.series, judge_name="two"))
    assert incident_key(long) != incident_key(other)
    assert incident_key(long) == incident_key(replace(long, kind="data_back", event_id="another"))
    assert len(incident_key(long)) == len(incident_key(other)) == 255


@pytest.mark.parametrize(("kind", "days"), [("judge_changed", 1), ("more_values", 1), ("no_data", 365), ("test", 365)])
def test_alertmanager_shows_what_nothing_ends_for_a_day(kind: Any, days: int) -> None:
    (alert,) = alertmanager_body(replace(EVENT, kind=kind))
    shown = datetime.fromisoformat(alert["endsAt"]) - datetime.fromisoformat(alert["startsAt"])
    assert shown == timedelta(days=days)


def test_alertmanager_knows_an_alert_by_its_labels(receiver: Receiver) -> None:
    manager = channel({"T": "t0k"}, type="alertmanager", url=receiver.url + "/", secret_env="T", allow_private=True)
    manager.notify(EVENT)
    manager.notify(RESOLVED)
    ((path, headers, _), _) = receiver.requests
    assert path.endswith("/api/v2/alerts")
    assert headers["Authorization"] == "Bearer t0k"
    (opened,), (closed,) = receiver.bodies
    assert opened["labels"] == closed["labels"]
    assert opened["labels"]["alertname"] == "tracejudge_firing"
    assert opened["labels"]["slice_category"] == "returns"
    assert opened["endsAt"] > "2026-12-01", "else it would be taken for over within minutes"
    assert closed["endsAt"].startswith("2026-01-01T14:05:00")


def test_alertmanager_that_is_sent_tickets_only_closes_the_ticket_that_became_a_page(receiver: Receiver) -> None:
    manager = channel(type="alertmanager", url=receiver.url, allow_private=True, severities=["ticket"])
    manager.notify(replace(EVENT, severity="ticket"))
    manager.notify(replace(RESOLVED, severity="page"))
    (opened,), (closed,) = receiver.bodies
    assert opened["labels"] == closed["labels"]


def test_an_empty_name_is_no_label() -> None:
    (alert,) = alertmanager_body(replace(EVENT, series=replace(EVENT.series, group=(("category", ""),))))
    assert "slice_category" not in alert["labels"]


def test_a_channel_hears_of_its_severities_and_matches_only() -> None:
    policy = NotifierSettings(type="terminal", severities=("page",), match={"app": EVENT.series.app}).policy
    assert policy.wants(EVENT)
    assert not policy.wants(replace(EVENT, severity="ticket"))
    assert not policy.wants(replace(EVENT, series=replace(EVENT.series, app="another")))


class Mailbox:
    """Keeps what an SMTP server is given; refuses everything when told to."""

    def __init__(self) -> None:
        self.messages: list[tuple[list[str], str]] = []
        self.answer = "250 OK"

    async def handle_DATA(  # noqa: N802 - the name that aiosmtpd calls
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        content = envelope.content
        assert isinstance(content, bytes)
        self.messages.append((list(envelope.rcpt_tos), content.decode()))
        return self.answer


@pytest.fixture
def mailbox() -> Iterator[tuple[Mailbox, int]]:
    box = Mailbox()
    with socket.socket() as probe:  # the controller connects to its own port, so it must be named
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    controller = Controller(box, hostname="127.0.0.1", port=port)
    controller.start()
    yield box, port
    controller.stop()


MAIL: dict[str, Any] = {
    "type": "email",
    "host": "127.0.0.1",
    "sender": "alerts@example.org",
    "recipients": ["a@example.org"],
}


def test_mail_has_the_summary_in_one_line_and_the_evidence_below(mailbox: tuple[Mailbox, int]) -> None:
    box, port = mailbox
    mail = channel(**MAIL, port=port, allow_private=True)
    mail.notify(replace(EVENT, summary="shop fell\r\nBcc: everybody@example.org"))
    mail.notify(RESOLVED)
    (recipients, text), (_, other) = box.messages
    assert recipients == ["a@example.org"]
    message, end = message_from_string(text), message_from_string(other)
    assert isinstance(message, Message)
    assert message["Subject"] == "[tracejudge] firing: shop fell??Bcc: everybody@example[.]org"
    assert message["Bcc"] is None
    assert message["References"] == end["References"]
    assert message["Message-ID"] != end["Message-ID"]
    assert '"boundary": 0.8' in text


def test_a_mail_server_that_refuses_or_is_not_there_is_not_delivered(mailbox: tuple[Mailbox, int]) -> None:
    box, port = mailbox
    box.answer = "550 no"
    with pytest.raises(NotDelivered, match="did not take it"):
        channel(**MAIL, port=port, allow_private=True).notify(EVENT)
    with pytest.raises(NotDelivered, match="allow_private"):
        channel(**MAIL, port=port).notify(EVENT)


def test_mail_goes_to_the_address_that_was_checked_and_to_no_second_answer(mailbox: tuple[Mailbox, int]) -> None:
    box, port = mailbox
    asked: list[str] = []

    def once(host: str, port: int) -> list[Any]:
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    mail = EmailNotifier(
        host="mail.invalid",  # no resolver of any system knows it: a second look would fail
        port=port,
        sender="alerts@example.org",
        recipients=["a@example.org"],
        allow_private=True,
        resolver=once,
    )
    mail.notify(EVENT)
    assert len(box.messages) == 1
    assert asked == ["mail.invalid"]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"type": "slack"}, "secret_env: a channel of type slack needs one"),
        ({"type": "pagerduty", "url": "https://x.example"}, "secret_env"),
        ({"type": "alertmanager"}, "url: a channel of type alertmanager needs one"),
        ({"type": "email", "host": "mail.example"}, "sender"),
        ({"type": "slack", "secret_env": "X", "host": "mail.example"}, "has no host; remove"),
        ({"type": "terminal", "severities": []}, "severities: is empty"),
        ({"type": "terminal", "group": True}, "group: a channel of type terminal is told each event by itself"),
        ({"type": "apprise"}, "secret_env: a channel of type apprise needs one"),
        ({"type": "terminal", "max_messages": "many"}, "write it as '30 per 1h', or 'unlimited'"),
        ({"type": "terminal", "down_after": "soon"}, "is not a duration"),
        ({"type": "terminal", "match": {"colour": "red"}}, "match"),
    ],
)
def test_what_a_channel_needs_or_cannot_use_is_a_fault(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        NotifierSettings.model_validate(fields)


def test_a_slack_url_that_is_none_is_told_without_showing_it() -> None:
    with pytest.raises(SettingsError) as caught:
        channel({"HOOK": "not-a-url-SECRET"}, type="slack", secret_env="HOOK")
    assert "SECRET" not in str(caught.value)


def test_bodies_are_json_without_nan() -> None:
    for event in (EVENT, RESOLVED, NO_DATA, DATA_BACK):
        for body in (slack_body(event), pagerduty_body(event, routing_key="k"), alertmanager_body(event)):
            json.dumps(body, allow_nan=False)


MESSAGE = message_of((EVENT, replace(RESOLVED, summary="<!here> it\n" + "long " * 100), NO_DATA), channel="c")


def test_several_events_are_one_text_that_lists_each_on_a_line_of_bounded_length(receiver: Receiver) -> None:
    slack = channel({"HOOK": receiver.url}, type="slack", secret_env="HOOK", allow_private=True)
    assert isinstance(slack, GroupNotifier)
    slack.notify_all(MESSAGE)
    (body,) = receiver.bodies
    head, *lines = body["text"].split("\n")
    assert head == "*3 alerts of shop: 1 firing, 1 resolved, 1 no data*"
    assert [event.event_id in line for event, line in zip(MESSAGE.events, lines, strict=True)] == [True] * 3
    assert max(map(len, lines)) < 400
    assert "<" not in body["text"]
    slack.notify_all(replace(MESSAGE, held=True))
    assert "delayed by the message limit" in receiver.bodies[1]["text"]


def test_a_webhook_takes_several_events_each_in_its_own_form_and_signed(receiver: Receiver) -> None:
    hook = channel({"KEY": "k"}, type="webhook", url=receiver.url, secret_env="KEY", allow_private=True)
    assert isinstance(hook, GroupNotifier)
    hook.notify_all(MESSAGE)
    ((_, headers, raw),) = receiver.requests
    (body,) = receiver.bodies
    assert body["message_id"] == MESSAGE.message_id == headers["X-Tracejudge-Event-Id"]
    assert [one["event_id"] for one in body["events"]] == [event.event_id for event in MESSAGE.events]
    timestamp = headers["X-Tracejudge-Timestamp"]
    assert headers["X-Tracejudge-Signature"] == sign(raw, secret=b"k", timestamp=timestamp)


def test_alertmanager_is_told_until_when_an_alert_lasts_and_follows_it_under_other_labels(receiver: Receiver) -> None:
    manager = channel(type="alertmanager", url=receiver.url, allow_private=True)
    assert isinstance(manager, GroupNotifier)
    ticket = replace(EVENT, severity="ticket")
    escalated = replace(EVENT, event_id="up", kind="escalated", evidence={"fired_event_id": EVENT.event_id})
    manager.notify_all(message_of((ticket, escalated, replace(RESOLVED, severity="page")), channel="c"))
    (alerts,) = receiver.bodies
    assert [alert["labels"]["severity"] for alert in alerts] == ["ticket", "ticket", "page", "page"]
    ends = [alert["endsAt"] > "2026-12" for alert in alerts]
    assert ends == [True, False, True, False], "opened, closed as a ticket, opened as a page, closed"
    assert len({json.dumps(alert["labels"], sort_keys=True) for alert in alerts}) == 2


def test_a_mail_lists_all_events_of_a_message_and_is_in_their_threads(mailbox: tuple[Mailbox, int]) -> None:
    box, port = mailbox
    mail = channel(**MAIL, port=port, allow_private=True)
    assert isinstance(mail, GroupNotifier)
    mail.notify_all(MESSAGE)
    ((_, text),) = box.messages
    message = message_from_string(text)
    assert message["Subject"] == "[tracejudge] page: 3 alerts of shop: 1 firing, 1 resolved, 1 no data"
    assert message["References"].split() == list(dict.fromkeys(message["References"].split()))
    assert len(message["References"].split()) == 2, "an alert and its end are one incident"
    assert message["Message-ID"] == f"<{MESSAGE.message_id}@tracejudge>"
    for event in MESSAGE.events:
        assert f'"event_id": "{event.event_id}"' in text


def test_apprise_tells_all_its_services_and_names_none_of_their_urls(
    receiver: Receiver, mailbox: tuple[Mailbox, int], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    host = receiver.url.removeprefix("http://").partition("/")[0]
    box, port = mailbox
    urls = f"json://user:S3CRET@{host}/hook mailto://127.0.0.1:{port}?from=a@example.org&to=b@example.org&mode=insecure"
    told = channel({"URLS": urls}, type="apprise", secret_env="URLS", allow_private=True)
    assert isinstance(told, GroupNotifier)
    told.notify(EVENT)
    told.notify_all(MESSAGE)
    first, second = receiver.bodies
    assert first["title"] == "[tracejudge] page firing"
    assert EVENT.event_id in first["message"]
    assert second["title"] == "[tracejudge] 3 alerts of shop: 1 firing, 1 resolved, 1 no data"
    assert all(event.event_id in second["message"] for event in MESSAGE.events)
    assert len(box.messages) == 2
    receiver.status = 500
    with pytest.raises(NotDelivered, match=r"apprise: service 1 \(JSON\) did not take it") as caught:
        told.notify(EVENT)
    assert "S3CRET" not in str(caught.value) + caplog.text


@pytest.mark.parametrize(
    "url",
    ["json://S3CRET@127.0.0.1/x", "ntfy://10.0.0.1/topic", "mailto://127.0.0.1?from=a@b.org&to=a@b.org&mode=insecure"],
)
def test_apprise_leaves_private_addresses_alone_unless_allowed(url: str) -> None:
    with pytest.raises(NotDelivered, match="no public address; set allow_private = true") as caught:
        channel({"URLS": url}, type="apprise", secret_env="URLS").notify(EVENT)
    assert "S3CRET" not in str(caught.value)


@pytest.mark.parametrize("urls", ["ntfy://topic nosuchservice://S3CRET", "not-a-url-S3CRET"])
def test_a_url_that_apprise_does_not_know_is_told_by_its_number(urls: str) -> None:
    with pytest.raises(SettingsError, match="secret_env: URL") as caught:
        channel({"URLS": urls}, type="apprise", secret_env="URLS")
    assert "S3CRET" not in str(caught.value)


def test_a_bucket_keeps_its_last_tokens_for_pages_and_fills_evenly() -> None:
    rate, state, at = parse_rate("10 per 1h"), ChannelState(name="c"), EVENT.at
    assert [state.take(rate, page=False, now=at) for _ in range(9)] == [True] * 8 + [False]
    assert state.held
    assert [state.take(rate, page=True, now=at) for _ in range(3)] == [True, True, False]
    assert not state.take(rate, page=True, now=at - timedelta(hours=9)), "a clock that was set back fills nothing"
    assert state.take(rate, page=True, now=at - timedelta(hours=9) + timedelta(minutes=6))
    found = ChannelState.from_snapshot(state.to_snapshot().state)
    assert found == state
    state.take(rate, page=False, now=at + timedelta(days=1))
    assert state.tokens == 9.0
