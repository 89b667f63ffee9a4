"""An event in the words of other systems: Slack, PagerDuty, Alertmanager. Ids and numbers only, no texts of traces."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta, timezone
from typing import Any, Final

from tracejudge.alerts.event import AlertEvent, Severity
from tracejudge.alerts.notifiers.unlinked import unlinked, unlinked_json
from tracejudge.alerts.telling.incident import OPENS, can_end, incident_key, incident_kind
from tracejudge.alerts.telling.notify import Message
from tracejudge.alerts.telling.told import evidence_lines, evidence_link
from tracejudge.alerts.wire import EVENT_VERSION, event_to_json

Body = dict[str, Any] | list[dict[str, Any]]
Encode = Callable[[AlertEvent], Body | None]
"""The body to send for an event; None when the system has no word for it, and nothing is sent."""
EncodeAll = Callable[[Message], Body]
"""The body to send for several events at once."""

PAGERDUTY_URL: Final = "https://events.pagerduty.com/v2/enqueue"
LONGEST_LINE: Final = 300  # characters of one event among several
LONGEST_EVIDENCE: Final = 600  # characters of one line of evidence

_NOT_IN_LABELS: Final = re.compile(r"[^A-Za-z0-9_]")  # names of labels: Alertmanager refuses others

_OPEN_FOR: Final = timedelta(days=365)
"""Alertmanager takes an alert that is not sent again within minutes for over, unless it is told until when it lasts."""

_NOTICE_FOR: Final = timedelta(days=1)
"""How long it shows an event that nothing ends: a judge changed, a rule has more slices than it watches."""


def slack_body(event: AlertEvent) -> Body:
    """For an incoming webhook: one line in bold, one of what it is about, its evidence, and the link to its page. Names
    cannot become links or mentions."""
    heuristic = ", heuristic" if event.heuristic else ""
    about = f"{event.kind} ({event.severity}{heuristic}) {event.at.astimezone(timezone.utc):%Y-%m-%d %H:%M:%S}Z"
    evidence = [f"\u2022 {_slack(line)}" for line in told(event, link=False)]
    if (link := evidence_link(event)) is not None:
        evidence.append(f"\u2022 evidence: {_slack_link(link)}")
    return _slack_text(
        f"*{_slack(event.summary)}*", _slack(f"{about}, rule {event.series.rule}, {event.event_id}"), *evidence
    )


def slack_message(message: Message) -> Body:
    """For an incoming webhook: what there is in bold, then a line for each event."""
    held = ["Some of these were delayed by the message limit."] if message.held else []
    return _slack_text(f"*{_slack(message.title)}*", *held, *(f"\u2022 {_linked(event)}" for event in message.events))


def event_line(event: AlertEvent) -> str:
    """One event among several, on one line of bounded length, without anything that could steer a terminal or become a
    link."""
    at = f"{event.at.astimezone(timezone.utc):%Y-%m-%d %H:%M:%S}Z"
    text = f"{at} {event.severity} {event.kind}: {unlinked(event.summary)}"
    if len(text) > LONGEST_LINE:
        text = text[: LONGEST_LINE - 3] + "..."
    return "".join(char if char.isprintable() else "?" for char in f"{text} [{event.event_id}]")


def _linked(event: AlertEvent) -> str:
    link = evidence_link(event)
    return _slack(event_line(event)) + (f" {_slack_link(link)}" if link is not None else "")


def told(event: AlertEvent, *, link: bool = True) -> list[str]:
    """The lines of an event's evidence, each of bounded length, and where its page is; nothing that could steer a
    terminal, and no other link."""
    lines = [unlinked(line) for line in evidence_lines(event)]
    if link and (page := evidence_link(event)) is not None:
        lines.append(f"evidence: {page}")
    cut = (line if len(line) <= LONGEST_EVIDENCE else line[: LONGEST_EVIDENCE - 3] + "..." for line in lines)
    return ["".join(char if char.isprintable() else "?" for char in line) for line in cut]


def webhook_message(message: Message) -> Body:
    """Several events as JSON, each as it would be sent alone."""
    return {
        "version": EVENT_VERSION,
        "message_id": message.message_id,
        "held": message.held,
        "events": [event_to_json(event) for event in message.events],
    }


def pagerduty_body(event: AlertEvent, *, routing_key: str) -> Body:
    """For the Events API v2. An alert and its end share a `dedup_key`, that of the series and the kind of trouble."""
    closes = event.kind in OPENS
    body: dict[str, Any] = {
        "routing_key": routing_key,
        "event_action": "resolve" if closes else "trigger",
        "dedup_key": incident_key(event),
    }
    if closes:
        return body
    body["payload"] = {
        "summary": unlinked(event.summary)[:1024],
        "source": unlinked(f"{event.series.environment}/{event.series.app}"),
        "severity": "critical" if event.severity == "page" else "warning",
        "timestamp": event.at.astimezone(timezone.utc).isoformat(timespec="milliseconds"),
        "component": event.series.judge_name,
        "group": event.series.rule,
        "class": event.kind,
        "custom_details": unlinked_json(event_to_json(event)),
    }
    if (link := _web_link(event)) is not None:
        body["links"] = [{"href": link, "text": "evidence"}]
    return body


def alertmanager_body(
    event: AlertEvent, *, severities: Sequence[Severity] = ("page", "ticket")
) -> list[dict[str, Any]]:
    """For `POST /api/v2/alerts`: the same labels open and close an alert; escalated, it goes on under other labels.

    `severities` are those that the channel is sent: an alert that it was told of as a ticket ends as one, whatever it
    has become.
    """
    if event.kind == "escalated":
        begun = [_alert(event, severity="ticket", ends=True)] if "ticket" in severities else []
        return [*begun, _alert(event, severity=event.severity, ends=False)]
    severity = event.severity if event.severity in severities else severities[0]
    return [_alert(event, severity=severity, ends=event.kind in OPENS)]


def alertmanager_message(message: Message, *, severities: Sequence[Severity] = ("page", "ticket")) -> Body:
    """Several events in one request."""
    return [alert for event in message.events for alert in alertmanager_body(event, severities=severities)]


def _alert(event: AlertEvent, *, severity: Severity, ends: bool) -> dict[str, Any]:
    series = event.series
    labels = {
        "alertname": f"tracejudge_{incident_kind(event)}",
        "rule": series.rule,
        "environment": series.environment,
        "app": series.app,
        "judge": series.judge_name,
        "judge_id": series.judge_id,
        "severity": severity,
        **_slice_labels(series.group),
    }
    at = event.at.astimezone(timezone.utc)
    lasts = _OPEN_FOR if can_end(event) else _NOTICE_FOR
    alert: dict[str, Any] = {
        # An empty label is none to Alertmanager.
        "labels": {name: value for name, value in labels.items() if value},
        "annotations": {"summary": unlinked(event.summary), "event_id": event.event_id, **_annotations(event)},
        "endsAt": (at if ends else at + lasts).isoformat(timespec="milliseconds"),
    }
    if (link := _web_link(event)) is not None:
        alert["generatorURL"] = link
    if not ends:
        alert["startsAt"] = at.isoformat(timespec="milliseconds")
    return alert


def _web_link(event: AlertEvent) -> str | None:
    """Where the page about the event is, where others can open it."""
    link = evidence_link(event)
    return link if link is not None and link.startswith(("https://", "http://")) else None


def _slice_labels(group: Iterable[tuple[str, str]]) -> dict[str, str]:
    """A label for each field, also where names differ only in what no label may hold."""
    labels: dict[str, str] = {}
    for field, value in group:
        plain = name = f"slice_{_NOT_IN_LABELS.sub('_', field)}"
        number = 1
        while name in labels:
            number += 1
            name = f"{plain}_{number}"
        labels[name] = value
    return labels


def _annotations(event: AlertEvent) -> dict[str, str]:
    lines = told(event)
    return {"evidence": "\n".join(lines)} if lines else {}


def _slack_text(*lines: str) -> Body:
    # "parse": what begins like an address is no link, beside what `unlinked` has broken up already.
    return {"text": "\n".join(lines), "parse": "none", "unfurl_links": False, "unfurl_media": False}


def _slack_link(link: str) -> str:
    """The link to the event's page, in Slack's form. Of a page that is a file only the path is shown: nobody could open
    it from there."""
    address = _escaped("".join(char if char.isprintable() else "?" for char in link))
    if not link.startswith(("https://", "http://")) or "|" in link or len(link) > LONGEST_EVIDENCE:
        return address[:LONGEST_EVIDENCE]
    return f"<{address}>"


def _slack(text: str) -> str:
    # What would make several lines of one, or a link.
    return _escaped(unlinked("".join(char if char.isprintable() else "?" for char in text)))


def _escaped(text: str) -> str:
    # The three characters that Slack reads as markup of its own.
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
