"""`tracejudge alerts` for a person: what is open in full, of the past the latest, each with its rule and its id."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tests.flow.test_alert_loop import World
from tests.support.workplace import Workplace
from tracejudge.alerts import AlertEvent, DriftRule
from tracejudge.store import Store
from tracejudge_consumer.alerting.actions import read_actions
from tracejudge_consumer.terminal.exit_status import EXIT_USAGE

RULE = DriftRule(name="drift-of-lexical", type="drift", judge="lexical", severity="page", heuristic_may_page=True)


@pytest.fixture
def fired(store: Store, monkeypatch: pytest.MonkeyPatch) -> AlertEvent:
    """An alert that is open, longer ago than is listed by default."""
    monkeypatch.setattr("tracejudge.store.leases.SETTLE_S", 0.005)
    world = World(store)
    world.store.scores.insert(world.rows((600, True), (30, False)))
    (event,) = (one for one in world.loop(rules=[RULE], settle_s=0.0).tick() if one.kind == "firing")
    return event


@pytest.fixture
def at(
    store_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Workplace:
    monkeypatch.chdir(tmp_path)
    settings = (
        f'queue = "sqlite:///queue.db"\nstore = "{store_url}"\n[[rules]]\nname = "{RULE.name}"\ntype = "drift"\n'
        'judge = "lexical"\nseverity = "page"\nheuristic_may_page = true\n'
    )
    (tmp_path / "tracejudge.toml").write_text(settings, encoding="utf-8")
    return Workplace(tmp_path, capsys, settings)


def past(store: Store, event: AlertEvent, count: int) -> list[AlertEvent]:
    """Events of the last hours, the latest first."""
    now = store.now()
    found = [
        replace(
            event,
            event_id=f"{k:02d}past{k:026d}",
            kind="resolved",
            at=now - timedelta(minutes=k + 1),
            summary=f"over {k}",
        )
        for k in range(count)
    ]
    store.alert_events.insert(found)
    return found


def test_each_event_has_its_rule_and_its_id_and_of_the_past_the_latest_twenty_are_listed(
    fired: AlertEvent, store: Store, at: Workplace
) -> None:
    events = past(store, fired, 25)
    lines = at("alerts", "--since", "2h").splitlines()
    heads = [line for line in lines if RULE.name in line and line.startswith("20")]
    assert [head.split()[-1] for head in heads] == [fired.event_id, *(event.event_id for event in events[:20])]
    (more,) = [line for line in lines if line.startswith("... 5 more since")]
    assert "--since" in more
    assert "--all" in more
    whole = at("alerts", "--since", "2h", "--all")
    assert "over 24" in whole
    assert "more since" not in whole
    assert whole.count("since the previous incident") == 1, "the open one is told in full, the others briefly"
    assert "... 23 more since" in at("alerts", "list", "--since", "2h", "--limit", "2")
    assert len(at.json("alerts", "--since", "2h", "--limit", "3")["events"]) == 3


def test_the_beginning_of_an_id_is_enough_where_only_one_event_has_it(
    fired: AlertEvent, store: Store, at: Workplace
) -> None:
    events = past(store, fired, 12)
    assert "over 3" in at("alerts", "show", events[3].event_id[:8])
    assert "no alert event '03p'" in at("alerts", "show", "03p", expect=EXIT_USAGE)
    store.alert_events.insert([replace(events[3], event_id="03past" + "f" * 26)])
    said = at("alerts", "show", "03past", expect=EXIT_USAGE)
    assert "several alert events begin with '03past'" in said
    assert "over 3" in at("alerts", "show", "03pastf")


def test_numbers_have_names_and_one_unit_and_keys_stand_in_json_only(fired: AlertEvent, at: Workplace) -> None:
    shown = at("alerts")
    assert "reaches 100 %" in shown
    assert " % of the alarm level (promised false alarms: at most " in shown
    for raw in ("hours", "page evidence", "held True", "hypothetical", "2880", "alarm", "None"):
        assert raw not in shown.replace("false alarm", "").replace("alarm level", ""), raw
    assert "evidence_hours" in at.json("alerts", "--since", "60d")["events"][0]["evidence"]


def test_an_alert_is_acknowledged_by_the_beginning_of_its_id(fired: AlertEvent, store: Store, at: Workplace) -> None:
    at("alerts", "acknowledge", f"event_id={fired.event_id[:6]}")
    (action,) = read_actions(store)
    assert action.matchers == {"event_id": fired.event_id}
    assert "no open alert matches" in at("alerts", "acknowledge", "event_id=" + "f" * 9, expect=EXIT_USAGE)
