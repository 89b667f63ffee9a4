"""What is pending for a channel becomes few messages, within its limit, and no kill loses or doubles more than one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.support.memory_outbox import MemoryOutbox
from tests.unit.test_alerts_notifiers import EVENT
from tracejudge.alerts import AlertEvent, NotDelivered, Notifier, SeriesSnapshot
from tracejudge.alerts.judges.hold_mark import with_hold, without_hold
from tracejudge.alerts.notifiers import TerminalNotifier
from tracejudge.alerts.telling.channels import ChannelPolicy, parse_rate
from tracejudge.store import Store
from tracejudge.testing import ManualClock, RecordingGroupNotifier, RecordingNotifier
from tracejudge.testing.builders import START
from tracejudge_consumer.alerting.deliveries import Deliveries


class Killed(BaseException):
    """The process ends here."""


class World:
    """A store, a clock, and what the leader would keep for its successor."""

    def __init__(self, store: Any, *, at: datetime) -> None:
        self.store = store
        self.clock = ManualClock(at)
        self.kept: dict[str, Mapping[str, Any]] = {}

    def events(self, *ids: str, app: str = "shop", **fields: Any) -> list[AlertEvent]:
        series = replace(EVENT.series, app=app)
        at = self.clock.now()
        return [
            replace(EVENT, **{"event_id": ident, "series": series, "at": at + timedelta(seconds=k), **fields})
            for k, ident in enumerate(ids)
        ]

    def deliveries(
        self,
        *notifiers: Notifier,
        checkpoint: Callable[[str], None] = lambda _: None,
        policies: Mapping[str, ChannelPolicy] | None = None,
    ) -> Deliveries:
        made = Deliveries(
            store=self.store,
            notifiers=notifiers,
            clock=self.clock,
            policies=policies,
            save=self.keep,
            checkpoint=checkpoint,
        )
        made.restore(self.kept)
        return made

    def keep(self, taken: Sequence[SeriesSnapshot]) -> None:
        self.kept |= {snapshot.name: snapshot.state for snapshot in taken}

    def publish(self, deliveries: Deliveries, events: Sequence[AlertEvent]) -> None:
        self.store.alert_events.insert(events)
        deliveries.enqueue(events, still_open=frozenset())


def let_go(event: AlertEvent, *, at: datetime) -> AlertEvent:
    return without_hold(with_hold(event, because="judge_moved"), until=at)


@pytest.fixture
def world(store: Store) -> World:
    return World(store, at=store.now())


def always() -> bool:
    return True


def limited(text: str, **fields: Any) -> ChannelPolicy:
    return ChannelPolicy(rate=parse_rate(text), **fields)


def test_what_happens_to_one_app_at_once_is_one_message_that_lists_each(world: World) -> None:
    chat, pager = RecordingGroupNotifier("chat"), RecordingNotifier("pager")
    deliveries = world.deliveries(chat, pager)
    world.publish(deliveries, [*world.events("a", "b", "c"), *world.events("d", app="other")])
    assert deliveries.deliver(still_leading=always) == 8
    assert chat.messages == [("a", "b", "c"), ("d",)]
    assert [event.event_id for event in pager.events] == ["a", "d", "b", "c"], "each by itself where it must be"
    assert deliveries.deliver(still_leading=always) == 0


def test_a_storm_becomes_messages_of_bounded_size_and_none_of_it_is_lost(world: World) -> None:
    chat = RecordingGroupNotifier("chat")
    deliveries = world.deliveries(chat)
    ids = [f"e{k:03}" for k in range(60)]
    world.publish(deliveries, world.events(*ids))
    deliveries.deliver(still_leading=always)
    assert [len(message) for message in chat.messages] == [25, 25, 10]
    assert [event.event_id for event in chat.events] == ids


def test_what_the_limit_holds_back_is_summed_up_later_and_pages_go_first(world: World) -> None:
    chat = RecordingGroupNotifier("chat")
    deliveries = world.deliveries(chat, policies={"chat": limited("5 per 1h")})
    for k in range(5):
        world.publish(deliveries, world.events(f"t{k}", app=f"app{k}", severity="ticket"))
    deliveries.deliver(still_leading=always)
    assert len(chat.messages) == 4, "the fifth is kept for a page"
    world.clock.advance(60)
    world.publish(deliveries, world.events("t5", app="app5", severity="ticket"))
    world.publish(deliveries, world.events("p0", app="app6"))
    deliveries.deliver(still_leading=always)
    assert chat.messages[4:] == [("p0", "t4", "t5")], "the page does not wait, and takes along what was held back"
    assert chat.held[4]


def test_a_limit_that_is_used_up_stays_so_across_a_restart_and_fills_with_time(world: World) -> None:
    chat = RecordingGroupNotifier("chat")
    policy = limited("2 per 1h")
    first = world.deliveries(chat, policies={"chat": policy})
    world.publish(first, [event for k in range(4) for event in world.events(f"e{k}", app=f"app{k}")])
    first.deliver(still_leading=always)
    second = world.deliveries(chat, policies={"chat": policy})
    second.deliver(still_leading=always)
    assert len(chat.messages) == 2
    world.clock.advance(1800)
    third = world.deliveries(chat, policies={"chat": policy})
    third.deliver(still_leading=always)
    assert chat.messages[2:] == [("e2", "e3")]
    assert chat.held == [False, False, True]


def test_once_all_that_waited_was_sent_messages_are_as_ever(world: World) -> None:
    chat = RecordingGroupNotifier("chat")
    deliveries = world.deliveries(chat, policies={"chat": limited("2 per 1h")})
    world.publish(deliveries, [event for k in range(4) for event in world.events(f"e{k}", app=f"app{k}")])
    deliveries.deliver(still_leading=always)
    world.clock.advance(3600)
    deliveries.deliver(still_leading=always)
    assert chat.messages[2:] == [("e2", "e3")]
    world.clock.advance(7200)
    again = world.deliveries(chat, policies={"chat": limited("2 per 1h")})
    world.publish(again, [event for k in (4, 5) for event in world.events(f"e{k}", f"f{k}", app=f"app{k}")])
    again.deliver(still_leading=always)
    assert chat.messages[3:] == [("e4", "f4"), ("e5", "f5")], "one of each app"
    assert chat.held == [False, False, True, False, False]


@pytest.mark.parametrize("hours", [1, 30])
def test_how_old_an_alert_is_that_was_held_back_counts_from_when_it_was_let_go(world: World, hours: int) -> None:
    """It is over by now, as the leader that let it go was killed, and came back later."""
    chat = RecordingNotifier("chat")
    deliveries = world.deliveries(chat)
    event = let_go(*world.events("a", at=world.clock.now() - timedelta(days=3)), at=world.clock.now())
    world.clock.advance(3600 * hours)
    world.publish(deliveries, [event])
    deliveries.deliver(still_leading=always)
    assert [one.event_id for one in chat.events] == (["a"] if hours == 1 else [])


def test_a_leader_that_lost_its_lease_by_a_slow_channel_tells_nothing_of_it() -> None:
    world = World(MemoryOutbox(), at=START)
    slow, chat = RecordingNotifier("slow"), RecordingNotifier("chat")
    slow.failing = True
    leads = [True]

    def save(taken: Sequence[SeriesSnapshot]) -> None:
        if not leads[0]:
            raise RuntimeError("no lease; only the leader saves")
        world.keep(taken)

    deliveries = Deliveries(
        store=world.store,
        notifiers=[slow, chat],
        clock=world.clock,
        policies={"slow": ChannelPolicy(down_after=timedelta(0))},
        save=save,
    )
    world.publish(deliveries, world.events("a"))
    asked = 0

    def still_leading() -> bool:  # the third attempt takes longer than the lease
        nonlocal asked
        asked += 1
        leads[0] = slow.attempts < 3
        return leads[0]

    for _ in range(4):
        deliveries.deliver(still_leading=still_leading)
        world.clock.advance(60)
        if not leads[0]:
            break
    assert slow.attempts == 3
    assert asked > 0
    assert [event.kind for event in world.store.alert_events.all()] == ["firing"]
    after = world.deliveries(slow, chat)
    after.deliver(still_leading=always)
    assert "channel_down" in [event.kind for event in chat.events]


class Picky(RecordingNotifier):
    """Will not have events of one app."""

    def notify(self, event: AlertEvent) -> None:
        if event.series.app == "odd":
            raise NotDelivered(f"{self.name}: answered 400", refused=True)
        super().notify(event)


def test_a_message_that_its_channel_will_not_have_holds_up_its_own_series_only(world: World) -> None:
    pager = Picky("pager")
    world.publish(world.deliveries(pager), [*world.events("beginning", app="odd"), *world.events("page")])
    deliveries = world.deliveries(pager)
    deliveries.deliver(still_leading=always)
    assert [event.event_id for event in pager.events] == ["page"]
    world.clock.advance(1)
    world.publish(deliveries, [*world.events("end", app="odd", kind="resolved"), *world.events("other", app="fine")])
    successor = world.deliveries(pager)
    successor.deliver(still_leading=always)
    assert [event.event_id for event in pager.events] == ["page", "other"], "an end is not told before its beginning"
    items = {item.event_id: item for item in world.store.outbox.pending(limit=10)}
    assert {ident: item.attempts for ident, item in items.items()} == {"beginning": 1, "end": 0}


def test_a_message_that_was_refused_is_sent_again_as_it_was(world: World) -> None:
    chat = RecordingGroupNotifier("chat")
    chat.failing = True
    deliveries = world.deliveries(chat, policies={"chat": limited("100 per 1h")})
    world.publish(deliveries, world.events("a", "b"))
    deliveries.deliver(still_leading=always)
    composed = {item.event_id: item.message for item in world.store.outbox.pending()}
    assert len(set(composed.values())) == 1
    world.publish(deliveries, world.events("c"))
    chat.failing = False
    world.clock.advance(6)
    world.deliveries(chat, policies={"chat": limited("100 per 1h")}).deliver(still_leading=always)
    assert chat.messages == [("a", "b"), ("c",)]


def test_a_page_is_found_behind_a_thousand_tickets(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracejudge_consumer.alerting.deliveries._AT_ONCE", 10)
    chat = RecordingGroupNotifier("chat")
    deliveries = world.deliveries(chat)
    world.publish(deliveries, world.events(*(f"t{k}" for k in range(30)), severity="ticket"))
    world.clock.advance(60)
    world.publish(deliveries, world.events("page"))
    deliveries.deliver(still_leading=always)
    assert chat.messages[0][0] == "page"


def test_the_end_of_an_alert_never_comes_before_its_beginning(world: World) -> None:
    pager = RecordingNotifier("pager")
    deliveries = world.deliveries(pager)
    (fired,) = world.events("f", severity="ticket")
    world.clock.advance(1)
    told = {"fired_event_id": "f"}
    later = [
        *world.events("other", severity="ticket"),
        *world.events("up", kind="escalated", evidence=told),
        *world.events("end", kind="resolved", evidence=told, at=world.clock.now() + timedelta(seconds=5)),
    ]
    world.publish(deliveries, [*later, fired])
    deliveries.deliver(still_leading=always)
    assert [event.event_id for event in pager.events] == ["f", "up", "end", "other"]


def test_a_dead_channel_is_an_alert_on_the_others_once_and_so_is_its_return() -> None:
    world = World(MemoryOutbox(), at=START)
    dead, chat = RecordingNotifier("dead"), RecordingGroupNotifier("chat")
    dead.failing = True
    deliveries = world.deliveries(dead, chat)
    world.publish(deliveries, world.events("a"))
    for _ in range(60):
        deliveries.deliver(still_leading=always)
        world.clock.advance(30)
    assert [event.kind for event in chat.events] == ["firing", "channel_down"]
    assert deliveries.dead == {"dead": True, "chat": False}
    down = chat.events[1]
    assert dict(down.series.group) == {"channel": "dead"}
    assert down.severity == "page"
    assert "told to fail" in str(down.evidence["last_error"])
    dead.failing = False
    for _ in range(40):
        deliveries.deliver(still_leading=always)
        world.clock.advance(30)
    assert [event.event_id for event in dead.events] == ["a"], "it is told nothing about itself"
    assert [event.kind for event in chat.events] == ["firing", "channel_down", "channel_up"]
    assert deliveries.dead == {"dead": False, "chat": False}
    assert [event.kind for event in world.store.alert_events.all()] == ["channel_up", "channel_down", "firing"]


def test_a_channel_that_was_away_for_hours_is_told_within_five_minutes_of_its_return() -> None:
    world = World(MemoryOutbox(), at=START)
    pager = RecordingNotifier("pager")
    pager.failing = True
    deliveries = world.deliveries(pager)
    world.publish(deliveries, world.events("a"))
    while world.clock.now() - START < timedelta(hours=6):
        deliveries.deliver(still_leading=always)
        world.clock.advance(30)
    world.publish(deliveries, world.events("b"))
    pager.failing = False
    for _ in range(10):
        world.clock.advance(30)
        deliveries.deliver(still_leading=always)
    assert [event.event_id for event in pager.events] == ["a", "b"]


def test_where_every_channel_is_dead_alerts_reach_nobody_until_one_is_back() -> None:
    world = World(MemoryOutbox(), at=START)
    one, two, screen = RecordingNotifier("one"), RecordingNotifier("two"), TerminalNotifier()
    one.failing = two.failing = True
    deliveries = world.deliveries(one, two, screen)
    assert not deliveries.mute
    world.publish(deliveries, world.events("a"))
    deliveries.deliver(still_leading=always)
    assert not deliveries.mute, "away for a moment is not dead"
    for _ in range(60):
        deliveries.deliver(still_leading=always)
        world.clock.advance(30)
    assert deliveries.mute, "a terminal is not read at night"
    two.failing = False
    for _ in range(40):
        deliveries.deliver(still_leading=always)
        world.clock.advance(30)
    assert deliveries.dead == {"one": True, "two": False, "terminal": False}
    assert not deliveries.mute


def test_the_round_that_finds_a_channel_dead_tells_the_others() -> None:
    """`watch --once` has no later round."""
    world = World(MemoryOutbox(), at=START)
    dead, chat = RecordingNotifier("dead"), RecordingGroupNotifier("chat")
    dead.failing = True
    deliveries = world.deliveries(dead, chat)
    world.publish(deliveries, world.events("a"))
    while not [event for event in world.store.alert_events.all() if event.kind == "channel_down"]:
        assert world.clock.now() - START < timedelta(hours=1)
        deliveries.deliver(still_leading=always)
        world.clock.advance(30)
    assert [event.kind for event in chat.events] == ["firing", "channel_down"]


def test_what_a_channel_raises_by_mistake_is_told_to_no_other_channel() -> None:
    class Broken(RecordingNotifier):
        def notify(self, event: AlertEvent) -> None:
            raise KeyError("https://example.com/hush")

    world = World(MemoryOutbox(), at=START)
    deliveries = world.deliveries(Broken("broken"), policies={"broken": ChannelPolicy(down_after=timedelta(0))})
    world.publish(deliveries, world.events("a"))
    for _ in range(3):
        deliveries.deliver(still_leading=always)
        world.clock.advance(60)
    down, _ = world.store.alert_events.all()
    assert down.evidence["last_error"] == "broken: raised KeyError; the log of the alert loop says where"
    assert "hush" not in str(world.store.outbox.pending())


def test_channels_that_are_all_dead_talk_in_no_circle() -> None:
    world = World(MemoryOutbox(), at=START)
    one, two = RecordingNotifier("one"), RecordingNotifier("two")
    one.failing = two.failing = True
    deliveries = world.deliveries(one, two)
    world.publish(deliveries, world.events("a"))
    for _ in range(200):
        deliveries.deliver(still_leading=always)
        world.clock.advance(60)
    stored = world.store.alert_events.all()
    assert sorted(event.kind for event in stored) == ["channel_down", "channel_down", "firing"]
    assert len(world.store.outbox.pending()) == 4


def test_killed_between_any_two_steps_at_most_the_message_in_transit_is_repeated_as_it_was() -> None:
    """With groups, a limit, and a channel that dies and comes back."""
    policies = {"chat": limited("2 per 1h"), "flaky": ChannelPolicy(down_after=timedelta(minutes=1))}

    def live(checkpoint: Callable[[str], None]) -> tuple[RecordingGroupNotifier, RecordingGroupNotifier]:
        """Runs until it is killed, and then whoever comes next does the rest."""
        world = World(MemoryOutbox(), at=START)
        chat, flaky = (RecordingGroupNotifier(name) for name in policies)
        events = [*world.events("a", "b"), *world.events("c", app="other")]
        try:
            deliveries = world.deliveries(chat, flaky, checkpoint=checkpoint, policies=policies)
            world.publish(deliveries, events)
            for wait, failing in ((35, True), (35, True), (35, True), (1800, False), (1800, False), (0, False)):
                flaky.failing = failing
                deliveries.deliver(still_leading=always)
                world.clock.advance(wait)
        except Killed:
            flaky.failing = False
            deliveries = world.deliveries(chat, flaky, policies=policies)
            world.publish(deliveries, events)
            for _ in range(3):
                world.clock.advance(3600)
                deliveries.deliver(still_leading=always)
        assert {event.event_id for event in chat.events} >= set("abc")
        assert {event.event_id for event in flaky.events} == set("abc")
        return chat, flaky

    steps: list[str] = []
    chat, _ = live(steps.append)
    assert {"limit stored", "message composed", "delivering", "delivered", "channel told"} < set(steps)
    assert [event.kind for event in chat.events].count("channel_up") == 1
    for last in range(len(steps)):
        left = last

        def dying(step: str) -> None:
            nonlocal left
            left -= 1
            if left == -1:
                raise Killed(step)

        lived = live(dying)
        assert left < 0
        where = f"killed after step {last}, {steps[last]!r}"
        for channel in lived:
            doubled = {message for message in channel.messages if channel.messages.count(message) > 1}
            assert len(doubled) <= (steps[last] == "delivered"), where
            assert len(channel.events) == len({event.event_id for event in channel.events}) + sum(
                len(message) for message in doubled
            ), f"{where}: the same message is repeated, once, and never parts of it in another"
        kinds = [event.kind for event in lived[0].events]
        assert kinds.count("channel_up") <= kinds.count("channel_down") <= 1 + (steps[last] == "delivered"), where


def test_where_each_channel_stands_is_counted_by_the_store(world: World) -> None:
    chat, dead = RecordingGroupNotifier("chat"), RecordingNotifier("dead")
    dead.failing = True
    deliveries = world.deliveries(chat, dead)
    world.publish(deliveries, world.events("a", "b"))
    deliveries.deliver(still_leading=always)
    one, two = world.store.outbox.standing()
    assert (one.notifier, one.pending, one.sent, one.last_error) == ("chat", 0, 2, "")
    assert one.last_sent_at is not None
    assert (two.notifier, two.pending, two.sent, two.last_sent_at) == ("dead", 2, 0, None)
    assert "told to fail" in two.last_error
