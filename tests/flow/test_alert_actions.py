"""What people say about alerts reaches the detectors and the channels, once, whatever is restarted."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from tests.flow.test_alert_loop import Killed, World, kinds
from tracejudge.alerts import DriftRule, MinimumRule
from tracejudge.errors import SettingsError
from tracejudge.store import Store
from tracejudge_consumer.alerting.actions import read_actions, record_action
from tracejudge_consumer.alerting.stored import load_series
from tracejudge_consumer.cli import run
from tracejudge_consumer.terminal.exit_status import EXIT_DONE, EXIT_FAILED, EXIT_USAGE

DRIFT = DriftRule(name="drift", type="drift", judge="lexical")


@pytest.fixture
def world(store: Store, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr("tracejudge.store.leases.SETTLE_S", 0.005)
    return World(store)


def test_a_dismissed_alert_is_closed_once_and_its_baseline_learns(world: World) -> None:
    world.store.scores.insert(world.rows((600, True), (12, False)))
    loop = world.loop(rules=[DRIFT], settle_s=0.0)
    assert kinds(loop.tick()) == ["firing"]
    action = record_action(world.store, "dismiss", matchers={"rule": "drift"}, by="ann", note="a test")
    (closed,) = loop.tick()
    assert (closed.kind, closed.evidence["closed_because"]) == ("resolved", "dismissed")
    assert closed.evidence["action_id"] == action.action_id
    assert closed.summary.endswith("alert dismissed as a false alarm by ann")
    assert loop.tick() == []
    loop.close()
    again = world.loop("two", rules=[DRIFT], settle_s=0.0)
    assert again.tick() == []
    (status,) = again.status()
    assert status.alert_event_id is None
    assert world.channel.events == world.stored()


def test_an_action_that_the_store_does_not_take_is_not_told_as_done(world: World) -> None:
    with pytest.raises(SettingsError, match="silence: end: "):
        record_action(world.store, "silence", matchers={"app": "shop"}, end=datetime(2299, 1, 1, tzinfo=timezone.utc))
    assert read_actions(world.store) == []


@pytest.mark.parametrize("at", ["folded", "snapshots stored", "events stored", "outbox stored"])
def test_an_action_is_applied_once_even_by_a_loop_that_is_killed(world: World, at: str) -> None:
    world.store.scores.insert(world.rows((400, True), (60, False)))
    first = world.loop(settle_s=0.0)
    assert kinds(first.tick()) == ["firing"]
    first.close()
    world.store.scores.insert(world.rows((5, False), first=460))
    record_action(world.store, "accept", matchers={"app": "shop"})

    def dying(step: str) -> None:
        if step == at:
            raise Killed

    with pytest.raises(Killed):
        world.loop("dying", settle_s=0.0, checkpoint=dying).tick()
    world.clock.advance(120)
    world.store.command("TRUNCATE TABLE leases")  # the lease of the dead one has run out
    heir = world.loop("heir", settle_s=0.0)
    heir.tick()
    assert kinds(world.stored()) == ["firing", "resolved"]
    assert [event.kind for event in world.channel.events] == ["firing", "resolved"]


def test_an_action_stands_between_the_rows_judged_before_and_after_it(world: World) -> None:
    """A loop that was down sees what a live one would have seen."""
    world.store.scores.insert(world.rows((400, True), (40, False)))
    live = world.loop(settle_s=0.0)
    events = live.tick()
    record_action(world.store, "accept", matchers={"rule": "quality"})
    events += live.tick()
    later = [
        world.row(500 + k, passed=False, judged_at=world.store.now() + timedelta(milliseconds=k)) for k in range(60)
    ]
    world.store.scores.insert(later)
    until = later[-1].judged_at
    while world.store.now() <= until:
        pass
    events += live.tick()
    assert kinds(events) == ["firing", "resolved", "firing"]
    live.close()
    world.store.command("TRUNCATE TABLE alert_snapshots")
    world.store.command("TRUNCATE TABLE alert_events")
    late = world.loop("late", settle_s=0.0)
    assert late.tick() == events


def test_silenced_events_are_stored_and_sent_to_nobody(world: World) -> None:
    record_action(
        world.store,
        "silence",
        matchers={"app": "shop", "judge_name": "lexical"},
        start=world.base,
        end=world.base + timedelta(hours=7),
    )
    world.store.scores.insert(world.rows((200, True), (60, False), (430, True)))
    events = world.loop(settle_s=0.0).tick()
    assert kinds(events) == ["firing", "resolved"]
    assert world.stored() == events
    fired, recovered = events
    silent_until = world.base + timedelta(hours=7)
    assert [event.event_id for event in world.channel.events] == [
        event.event_id for event in (fired, recovered) if event.at >= silent_until
    ]
    assert fired.at < silent_until
    kept = "SELECT state, attempts, last_error FROM outbox FINAL WHERE event_id = {id:String}"
    ((state, attempts, last_error),) = world.store.query(kept, {"id": fired.event_id})
    assert (state, attempts) == ("given_up", 0)
    assert last_error.startswith("silenced by action ")


@pytest.fixture
def config(tmp_path: Path, store_url: str) -> str:
    path = tmp_path / "tracejudge.toml"
    path.write_text(
        f'queue = "sqlite:///queue.db"\nstore = "{store_url}"\n'
        '[[rules]]\nname = "quality"\njudge = "lexical"\nminimum = 0.8\n'
    )
    return str(path)


def test_the_commands_record_who_did_what(world: World, config: str, capsys: pytest.CaptureFixture[str]) -> None:
    world.store.scores.insert(world.rows((400, True), (60, False)))
    loop = world.loop(rules=[MinimumRule(name="quality", judge="lexical", minimum=0.8)], settle_s=0.0)
    loop.tick()
    (status,) = load_series(world.store, [MinimumRule(name="quality", judge="lexical", minimum=0.8)])
    more = ("--config", config, "--by", "ann")
    assert run(["alerts", "accept", "app=bank", *more]) == EXIT_USAGE
    assert "no open alert matches app=bank" in capsys.readouterr().err
    assert run(["alerts", "accept", *more]) == EXIT_USAGE
    assert run(["alerts", "accept", "color=red", *more]) == EXIT_USAGE
    capsys.readouterr()
    assert run(["alerts", "accept", f"event_id={status.alert_event_id}", "--note", "agreed", *more]) == EXIT_DONE
    assert "quality: lexical@000000000000 of shop" in capsys.readouterr().out
    assert run(["alerts", "silence", "app=shop", "--for", "2h", *more]) == EXIT_DONE
    assert "no series matches" not in capsys.readouterr().err
    assert run(["alerts", "silence", "app=shpo", "--for", "2h", *more]) == EXIT_DONE
    assert "no series matches now" in capsys.readouterr().err
    assert run(["alerts", "silence", "--for", "2h", *more]) == EXIT_USAGE
    assert run(["alerts", "silence", "app=shop", *more]) == EXIT_USAGE
    assert run(["alerts", "silence", "app=shop", "--until", "2026-01-01T00:00:00Z", *more]) == EXIT_USAGE
    span = ("--from", "2026-01-01T00:00:00Z", "--to", "2026-01-01T01:00:00Z")
    assert run(["alerts", "mark", "app=shop", *span, *more]) == EXIT_DONE
    assert run(["alerts", "mark", "app=shop", "--from", span[3], "--to", span[1], *more]) == EXIT_USAGE
    assert kinds(loop.tick()) == ["resolved"]
    capsys.readouterr()
    assert run(["alerts", "actions", "--json", "--config", config]) == EXIT_DONE
    told: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["actions"]
    assert [one["verb"] for one in told] == ["accept", "silence", "silence", "mark"]
    assert {one["by"] for one in told} == {"ann"}
    assert told[0]["note"] == "agreed"
    assert len(read_actions(world.store)) == 4


def test_rules_are_tried_on_made_up_traffic_on_history_and_explained(
    world: World, config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trials = tmp_path / "trials.toml"
    trials.write_text(
        '[[tests]]\nname = "a fall"\nstretches = [{ hours = 30, rate = 0.95 }, { hours = 4, rate = 0.4 }]\n'
        'expect = [{ rule = "quality", kind = "firing", after_h = 30, before_h = 32 }]\n'
    )
    assert run(["alerts", "test", str(trials), "--config", config]) == EXIT_DONE
    trials.write_text(trials.read_text().replace("before_h = 32", "before_h = 30.1"))
    assert run(["alerts", "test", str(trials), "--config", config]) == EXIT_FAILED
    assert "came at hour 30." in capsys.readouterr().out
    trials.write_text('[[tests]]\nname = "quiet"\nstretches = [{ hours = 60, rate = 0.4 }]\n')
    assert run(["alerts", "test", str(trials), "--config", config]) == EXIT_FAILED
    failed, *_, advice = capsys.readouterr().out.splitlines()
    assert failed == "FAIL quiet"
    assert "in 60 hours of made-up traffic without a fall the rules promise at most " in advice
    assert "this is seed 1, try others" in advice
    trials.write_text('[[tests]]\nname = "x"\nstretches = [{ hours = 30, rate = 95 }]\n')
    assert run(["alerts", "test", str(trials), "--config", config]) == EXIT_USAGE
    assert "tests[0].stretches[0].rate" in capsys.readouterr().err

    world.store.scores.insert(world.rows((400, True), (60, False), (230, True)))
    assert run(["alerts", "backtest", "--since", "1d", "--json", "--config", config]) == EXIT_DONE
    found = json.loads(capsys.readouterr().out)["backtest"]
    assert [event["kind"] for event in found["events"]] == ["firing", "resolved"]
    assert found["rows"] == 690
    assert run(["alerts", "backtest", "--since", "1d", "--config", config]) == EXIT_DONE
    assert "690 scores read" in capsys.readouterr().out

    world.loop(settle_s=0.0).tick()
    assert run(["alerts", "explain", "--json", "--config", config]) == EXIT_DONE
    (told,) = json.loads(capsys.readouterr().out)["series"]
    assert told["per_hour"] == pytest.approx(690 / 24)
    assert told["within_hour"] > told["within_day"] > 0
    assert run(["alerts", "explain", "--config", config]) == EXIT_DONE
    assert "smallest fall detected within 1 h and 1 d" in " ".join(capsys.readouterr().out.split())
