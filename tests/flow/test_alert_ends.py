"""Whoever was told that something began is told that it is over: a pager keeps its incident open until then."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.flow.test_alert_loop import World, kinds
from tracejudge.alerts import MinimumRule
from tracejudge.alerts.telling.channels import ChannelPolicy
from tracejudge.scores import Score
from tracejudge.store import Store
from tracejudge.testing import RecordingNotifier
from tracejudge_consumer.alerting.actions import record_action
from tracejudge_consumer.alerting.loop import AlertLoop

RULE = MinimumRule(name="quality", judge="lexical", minimum=0.8, severity="page", page_drop=0.5)


@pytest.fixture
def world(store: Store, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr("tracejudge.store.leases.SETTLE_S", 0.005)
    return World(store)


class Pagers:
    """A channel for tickets and one for pages, in front of a fall that begins as a ticket."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.tickets, self.pages = RecordingNotifier(name="tickets"), RecordingNotifier(name="pages")
        begins = [world.row(200 + k, passed=k % 10 >= 4) for k in range(100)]
        self.fall: list[list[Score]] = [
            [*world.rows((200, True)), *begins],
            world.rows((30, False), first=300),
            world.rows((200, True), first=330),
        ]

    def loop(self, **fields: Any) -> AlertLoop:
        options: dict[str, Any] = {
            "rules": [RULE],
            "notifiers": [self.tickets, self.pages],
            "channels": {
                "tickets": ChannelPolicy(severities=frozenset({"ticket"})),
                "pages": ChannelPolicy(severities=frozenset({"page"})),
            },
            "settle_s": 0.0,
        }
        return self.world.loop(**{**options, **fields})

    def fall_and_leave(self) -> None:
        """The fall becomes a page, its loop ends, and the answers are good again before another one begins."""
        loop = self.loop()
        for rows in self.fall[:2]:
            self.world.store.scores.insert(rows)
            loop.tick()
        loop.close()
        self.world.store.scores.insert(self.fall[2])


def told(channel: RecordingNotifier) -> list[str]:
    return kinds(channel.events)


@pytest.mark.parametrize("at_once", [False, True])
def test_an_alert_that_became_a_page_ends_in_the_channel_of_tickets_too(world: World, at_once: bool) -> None:
    pagers = Pagers(world)
    loop = pagers.loop()
    for rows in pagers.fall:
        world.store.scores.insert(rows)
        if not at_once:
            loop.tick()
    loop.tick()
    assert told(pagers.tickets) == ["firing", "resolved"]
    assert told(pagers.pages) == ["escalated", "resolved"]


def test_a_silence_keeps_no_end_from_those_who_were_told_of_the_beginning(world: World) -> None:
    pagers = Pagers(world)
    loop = pagers.loop()
    world.store.scores.insert(pagers.fall[0])
    assert kinds(loop.tick()) == ["firing"]
    record_action(world.store, "silence", matchers={"app": "shop"}, start=world.base)
    for rows in pagers.fall[1:]:
        world.store.scores.insert(rows)
        loop.tick()
    assert told(pagers.tickets) == ["firing", "resolved"]
    assert told(pagers.pages) == [], "it was silenced before it became a page"
    world.store.scores.insert(world.rows((60, False), (100, True), first=530))
    assert kinds(loop.tick())[0] == "firing"
    assert len(pagers.tickets.events) == 2, "what begins and ends in the silence is told to nobody"


def test_an_end_that_is_found_late_goes_to_whom_only_the_escalation_was_told(world: World) -> None:
    pagers = Pagers(world)
    pagers.fall_and_leave()
    world.clock.advance(timedelta(days=3).total_seconds())
    pagers.loop(holder="two").tick()
    assert told(pagers.pages) == ["escalated", "resolved"]


def test_a_rule_that_opens_tickets_only_from_now_on_closes_the_page_it_had_opened(world: World) -> None:
    pagers = Pagers(world)
    pagers.fall_and_leave()
    milder = RULE.model_copy(update={"severity": "ticket"})
    assert kinds(pagers.loop(holder="two", rules=[milder]).tick()) == ["resolved"]
    assert told(pagers.pages) == ["escalated", "resolved"]


def test_an_alert_that_outlasts_the_silence_it_began_in_is_told_once_at_its_end(world: World) -> None:
    world.store.scores.insert([*world.rows((200, True)), *world.rows((60, False), first=200)])
    for hours in (4, 5):
        record_action(
            world.store,
            "silence",
            matchers={"app": "shop"},
            start=world.base + timedelta(hours=hours - 2),
            end=world.base + timedelta(hours=hours),
        )
    loop = world.loop(settle_s=0.0)
    assert kinds(loop.tick()) == ["firing", "reminder"]
    assert told(world.channel) == ["reminder"]
    (reminder,) = world.channel.events
    assert reminder.at == world.base + timedelta(hours=5)
    assert loop.tick() == []
    loop.close()
    assert world.loop("two", settle_s=0.0).tick() == []


@pytest.mark.parametrize("verb", ["acknowledge", "dismiss"])
def test_nothing_is_told_at_the_end_of_a_silence_where_a_person_has_answered(world: World, verb: Any) -> None:
    world.store.scores.insert([*world.rows((200, True)), *world.rows((60, False), first=200)])
    hours = timedelta(hours=5)
    record_action(world.store, "silence", matchers={}, start=world.base, end=world.base + hours)
    record_action(world.store, verb, matchers={})
    loop = world.loop(settle_s=0.0)
    events = [*loop.tick(), *loop.tick()]
    assert "firing" in kinds(events)
    assert "reminder" not in kinds(events)
