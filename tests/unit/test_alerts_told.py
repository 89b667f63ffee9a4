"""Channels tell an alert's evidence in sentences, with a link; a name from a trace cannot write lines of its own."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

from tracejudge.alerts import Action, AlertEvent, SeriesKey
from tracejudge.alerts.notifiers.formats import (
    LONGEST_EVIDENCE,
    alertmanager_body,
    event_line,
    pagerduty_body,
    slack_body,
    told,
)
from tracejudge.alerts.series.wording import where

PLAIN = AlertEvent(
    event_id="e1",
    series=SeriesKey(rule="r", environment="production", app="shop", judge_name="j", judge_id="j@0"),
    kind="firing",
    severity="page",
    heuristic=False,
    at=datetime(2026, 1, 1, tzinfo=timezone.utc),
    summary="j of shop fell",
)
EXPLAINED = replace(
    PLAIN,
    evidence={
        "slices": {"says": "category <!channel>\nbilling\x1b[2J fell from 95 % to 50 %"},
        "retrieval_or_generation": {"says": "generation: passages as relevant as before"},
        "worst_trace_ids": ["t-1", "t-2"],
        "false_alarms_measured": {"says": "promised: at most 1 false alarm " + "x" * 900},
        "page": "https://alerts.example.com/e1.html",
    },
)


def test_slack_gets_a_line_for_each_thing_that_is_known_and_the_link() -> None:
    body: Any = slack_body(EXPLAINED)
    lines = body["text"].split("\n")
    assert len(lines) == 2 + 6
    assert lines[2] == "• category &lt;!channel&gt;?billing?[2J fell from 95 % to 50 %"
    assert lines[4] == "• worst traces: t-1, t-2"
    assert lines[5] == "• as of 2026-01-01 00:00 UTC; `tracejudge alerts explain` shows the current state"
    assert lines[7] == "• evidence: <https://alerts.example.com/e1.html>"
    assert max(map(len, told(EXPLAINED))) == LONGEST_EVIDENCE


def test_pagerduty_and_alertmanager_get_them_in_their_own_places() -> None:
    incident: Any = pagerduty_body(EXPLAINED, routing_key="k")
    assert incident["links"] == [{"href": "https://alerts.example.com/e1.html", "text": "evidence"}]
    assert incident["payload"]["custom_details"]["evidence"]["worst_trace_ids"] == ["t-1", "t-2"]
    (alert,) = alertmanager_body(EXPLAINED)
    assert alert["generatorURL"] == "https://alerts.example.com/e1.html"
    assert alert["annotations"]["evidence"].split("\n")[-1] == "evidence: https://alerts.example.com/e1.html"


def test_an_event_without_evidence_is_told_as_before_and_a_file_is_no_link() -> None:
    body: Any = slack_body(PLAIN)
    assert body["text"].count("\n") == 1
    assert "links" not in pagerduty_body(PLAIN, routing_key="k")
    assert "evidence" not in alertmanager_body(PLAIN)[0]["annotations"]
    local = replace(PLAIN, evidence={"page": "file:///srv/e1.html"})
    assert "generatorURL" not in alertmanager_body(local)[0]
    assert "links" not in pagerduty_body(local, routing_key="k")


def test_what_happened_is_told_however_long_the_names_are() -> None:
    key = replace(PLAIN.series, app="a" * 256, group=(("category", "&" * 256), ("tags.tenant", "<" * 128)))
    fell = replace(PLAIN, series=key, summary=f"j of {where(key)} fell below 80 %: about 12 % since about 03:10 UTC")
    assert "fell below 80 %: about 12 %" in event_line(fell)
    other = replace(key, app="a" * 255 + "b")
    assert where(other) != where(key), "names often differ at their end"


def test_who_silences_an_alert_hears_nothing_of_what_becomes_of_it() -> None:
    silence = Action(action_id="a", verb="silence", matchers={"event_id": "e1"}, start=PLAIN.at, at=PLAIN.at)
    reminder = replace(PLAIN, event_id="e2", kind="reminder", evidence={"fired_event_id": "e1"})
    other = replace(reminder, event_id="e3", evidence={"fired_event_id": "e0"})
    assert [silence.silences(event) for event in (PLAIN, reminder, other)] == [True, True, False]
