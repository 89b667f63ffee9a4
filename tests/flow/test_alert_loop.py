"""From stored scores to delivered notifications, on a real store, with loops that die between any two steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.support.store_fixture import empty
from tests.support.verdicts import row
from tracejudge.alerts import AlertEvent, MinimumRule, SeriesStatus, ThresholdRule
from tracejudge.alerts.order import STEP_S, step_of
from tracejudge.scores import Outcome, Score
from tracejudge.store import OutboxItem, Store, StoredTrace, UserAction
from tracejudge.testing import ManualClock, RecordingNotifier, make_trace
from tracejudge_consumer.alerting.loop import LEASE, AlertLoop
from tracejudge_consumer.alerting.stored import load_series

RULE = MinimumRule(name="quality", judge="lexical", minimum=0.8)


class Killed(BaseException):
    """The process ends here."""


class World:
    """A store with scores of the last twelve hours, a clock and a channel."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.base = store.now().replace(microsecond=0) - timedelta(hours=12)
        self.clock = ManualClock(store.now())
        self.channel = RecordingNotifier()

    def row(self, number: int, *, passed: bool | None = True, **fields: Any) -> Score:
        at = self.base + timedelta(minutes=number)
        return row(number, passed=passed, **{"event_time": at, "judged_at": at + timedelta(seconds=20), **fields})

    def rows(self, *stretches: tuple[int, bool | None], first: int = 0) -> list[Score]:
        verdicts = [passed for length, passed in stretches for _ in range(length)]
        return [self.row(first + k, passed=passed) for k, passed in enumerate(verdicts)]

    def loop(self, holder: str = "one", **fields: Any) -> AlertLoop:
        options: dict[str, Any] = {
            "store": self.store,
            "rules": [RULE],
            "notifiers": [self.channel],
            "clock": self.clock,
            "holder": holder,
            "step_s": 0,
        }
        return AlertLoop(**{**options, **fields})

    def stored(self) -> list[AlertEvent]:
        return sorted(self.store.alert_events.all(), key=lambda event: (event.at, event.event_id))


@pytest.fixture
def world(store: Store, monkeypatch: pytest.MonkeyPatch) -> World:
    # Claims of a lease wait for those of other processes to become visible; here all share one engine.
    monkeypatch.setattr("tracejudge.store.leases.SETTLE_S", 0.005)
    return World(store)


def kinds(events: list[AlertEvent]) -> list[str]:
    return [event.kind for event in events]


def test_a_fall_is_stored_and_told_once_and_so_is_its_end(world: World) -> None:
    world.store.scores.insert(world.rows((200, True), (60, False), (200, True)))
    loop = world.loop()
    events = loop.tick()
    assert kinds(events) == ["firing", "resolved"]
    assert world.stored() == events
    assert world.channel.events == events
    assert loop.tick() == []
    assert world.channel.attempts == 2
    assert [status.state for status in loop.status()] == ["ok"]


def test_rows_younger_than_the_settling_time_wait(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    step = step_of(world.store.now())
    monkeypatch.setattr(Store, "now", lambda _: step + timedelta(seconds=20))
    young = step - timedelta(seconds=1)
    world.store.scores.insert([*world.rows((30, True)), world.row(999, event_time=young, judged_at=young)])
    loop = world.loop(step_s=STEP_S)
    loop.tick()
    assert [status.n_eff for status in loop.status()] == [30]
    eager = world.loop(settle_s=0.0, step_s=STEP_S)
    eager.tick()
    assert [status.n_eff for status in eager.status()] == [31]


def test_steps_that_lie_on_several_pages_are_folded_whole(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    # A consumer that catches up: a page of judging time holds hours of traffic, one partition after another.
    rows = world.rows((200, True), (60, False))
    begin = step_of(world.base + timedelta(hours=6))
    caught_up = sorted(rows, key=lambda row: (rows.index(row) // 40 % 2, rows.index(row)))
    world.store.scores.insert(
        [replace(row, judged_at=begin + timedelta(milliseconds=100 * k)) for k, row in enumerate(caught_up)]
    )
    whole = world.loop(step_s=STEP_S).tick()
    empty(world.store)
    world.store.scores.insert(
        [replace(row, judged_at=begin + timedelta(milliseconds=100 * k)) for k, row in enumerate(caught_up)]
    )
    monkeypatch.setattr("tracejudge_consumer.alerting.fresh_rows._PAGE", 7)
    assert kinds(whole) == ["firing"]
    assert world.loop(step_s=STEP_S).tick() == whole


def test_an_outage_of_the_loop_changes_nothing(world: World) -> None:
    rows = world.rows((200, True), (60, False), (150, True), (40, False))
    live = world.loop()
    told: list[AlertEvent] = []
    for begin in range(0, len(rows), 50):
        world.store.scores.insert(rows[begin : begin + 50])
        told += live.tick()
    before = live.status()
    live.close()
    empty(world.store)
    world.store.scores.insert(rows)
    late = world.loop(holder="two")
    assert late.tick() == told
    assert kinds(told) == ["firing", "resolved", "firing"]
    assert late.status() == before


def _steps(world: World, act: Callable[[AlertLoop], None], **fields: Any) -> list[str]:
    seen: list[str] = []
    loop = world.loop(checkpoint=seen.append, **fields)
    act(loop)
    return seen


def test_a_loop_killed_between_any_two_steps_repeats_at_most_the_one_in_transit(
    world: World,
) -> None:
    first, second = world.rows((100, True), (30, False)), world.rows((150, True), first=130)

    def live(loop: AlertLoop) -> None:
        world.store.scores.insert(first)
        loop.tick()
        world.store.scores.insert(second)
        loop.tick()

    steps = _steps(world, live)
    expected = world.stored()
    assert kinds(expected) == ["firing", "resolved"]
    assert {"lease", "folded", "snapshots stored", "events stored", "outbox stored", "delivered"} < set(steps)
    for last in range(len(steps)):
        empty(world.store)
        world.channel = RecordingNotifier()
        left = last

        def dying(step: str) -> None:
            nonlocal left
            if left == 0:
                raise Killed(step)
            left -= 1

        with pytest.raises(Killed):
            live(world.loop(checkpoint=dying))
        world.store.scores.insert(first)  # whoever stores scores does not notice; what is there already changes nothing
        world.store.scores.insert(second)
        successor = world.loop()  # the same host starts it again, and so the lease is its own
        successor.tick()
        successor.tick()
        told = [event.event_id for event in world.channel.events]
        where = f"killed after step {last}, {steps[last]!r}"
        assert world.stored() == expected, where
        assert list(dict.fromkeys(told)) == [event.event_id for event in expected], where
        assert len(told) <= len(expected) + (steps[last] == "delivered"), where


def test_a_catch_up_killed_between_two_pages_goes_on_from_the_last_save(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tracejudge_consumer.alerting.fresh_rows._PAGE", 20)
    monkeypatch.setattr("tracejudge_consumer.alerting.loop._SAVE_EVERY_ROWS", 50)
    world.store.scores.insert(world.rows((100, True), (30, False), (150, True)))
    pages = 0

    def dying(step: str) -> None:
        nonlocal pages
        pages += step == "folded"
        if pages == 8:
            raise Killed(step)

    with pytest.raises(Killed):
        world.loop(checkpoint=dying).tick()
    saved = load_series(world.store, [RULE])
    assert [status.n_eff for status in saved] == [120]
    assert world.stored() == []
    successor = world.loop()
    assert kinds(successor.tick()) == ["firing", "resolved"]
    assert [status.n_eff for status in successor.status()] == [280]
    assert kinds(world.channel.events) == ["firing", "resolved"]


def test_an_action_waits_for_the_rows_before_it_also_where_a_page_holds_only_known_ones(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tracejudge_consumer.alerting.fresh_rows._PAGE", 5)
    loop = world.loop()
    world.store.scores.insert(world.rows((100, True), (30, False)))
    assert kinds(loop.tick()) == ["firing"]
    world.clock.advance(61)  # a stretch before the cursor is read again
    world.store.scores.insert(world.rows((400, True), first=130))
    at = world.base + timedelta(minutes=500)
    world.store.user_actions.insert(
        [UserAction(action_id="late", kind="dismiss", target={}, start=at, by="somebody", at=at)]
    )
    (ended,) = loop.tick()
    assert ended.kind == "resolved"
    assert "closed_because" not in ended.evidence, "it had recovered long before"


def test_two_loops_on_one_store_send_one_notification(world: World) -> None:
    world.store.scores.insert(world.rows((100, True), (30, False)))
    one, two = world.loop("one"), world.loop("two")
    assert kinds(one.tick()) == ["firing"]
    assert two.tick() == []
    assert (one.leading, two.leading) == (True, False)
    one.close()
    assert two.tick() == []
    assert two.leading
    world.store.scores.insert(world.rows((150, True), first=130))
    assert one.tick() == []
    assert kinds(two.tick()) == ["resolved"]
    assert kinds(world.channel.events) == ["firing", "resolved"]


def test_a_leader_that_was_replaced_without_noticing_overwrites_nothing(world: World) -> None:
    world.store.scores.insert(world.rows((100, True)))
    old = world.loop("old")
    old.tick()
    lease = world.store.leases.current(LEASE)
    assert lease is not None
    world.store.leases.release(lease)
    new = world.loop("new")
    new.tick()
    world.store.scores.insert(world.rows((30, False), first=100))
    old.tick()  # by its own clock it still leads
    assert [status.n_eff for status in load_series(world.store, [RULE])] == [100]
    assert kinds(new.tick()) in ([], ["firing"])
    assert kinds(world.stored()) == ["firing"]
    assert len({event.event_id for event in world.channel.events}) == 1
    world.clock.advance(60)
    assert old.tick() == []
    assert not old.leading


@pytest.mark.parametrize(("step", "nth"), [("folded", 1), ("folded", 6), ("folded", 7), ("snapshots stored", 2)])
def test_a_lease_that_runs_out_within_a_round_ends_it_and_no_row_counts_twice(
    world: World, monkeypatch: pytest.MonkeyPatch, step: str, nth: int
) -> None:
    monkeypatch.setattr("tracejudge_consumer.alerting.fresh_rows._PAGE", 20)
    world.store.scores.insert(world.rows((100, True), (30, False)))
    seen: list[str] = []

    def stalling(now: str) -> None:
        seen.append(now)
        if now == step and seen.count(step) == nth:
            lease = world.store.leases.current(LEASE)
            assert lease is not None
            world.store.leases.release(lease)
            world.clock.advance(61)

    loop = world.loop(checkpoint=stalling)
    assert loop.tick() == []
    assert not loop.leading
    assert world.stored() == []
    (event,) = loop.tick()
    assert loop.leading
    assert event.kind == "firing"
    assert world.stored() == world.channel.events == [event]
    assert [status.n_eff for status in loop.status()] == [130]
    assert [status.n_eff for status in load_series(world.store, [RULE])] == [130]


def test_a_row_that_turns_up_behind_the_cursor_is_folded_on_arrival_and_only_once(world: World) -> None:
    rows = world.rows((300, True))
    slow = [rows[290], rows[295]]
    world.store.scores.insert([score for score in rows if score not in slow])
    loop = world.loop()
    loop.tick()
    loop.tick()
    world.store.scores.insert(slow)
    loop.tick()
    assert [status.n_eff for status in loop.status()] == [298], "found by the next re-reading, a minute later"
    world.clock.advance(60)
    loop.tick()
    assert [status.n_eff for status in loop.status()] == [300]
    assert loop.late_rows == 2
    successor = world.loop()
    for _ in range(2):
        world.clock.advance(60)
        successor.tick()
    assert successor.late_rows == 2
    assert successor.status() == loop.status()


def test_redelivered_scores_change_nothing(world: World) -> None:
    rows = world.rows((200, True), (20, False))
    world.store.scores.insert(rows)
    loop = world.loop()
    loop.tick()
    before = loop.status()
    later = [_judged_later(score, minutes=2) for score in rows]
    for size in (7, 50):
        for begin in range(0, len(rows), size):
            world.store.scores.insert(later[begin : begin + size])
        world.clock.advance(60)
        assert loop.tick() == []
    assert loop.status() == before


def _judged_later(first: Score, /, *, minutes: float, **fields: Any) -> Score:
    return replace(first, judged_at=first.judged_at + timedelta(minutes=minutes), **fields)


def test_an_invalid_verdict_that_is_settled_later_is_folded_then(world: World) -> None:
    rows = world.rows((40, None), (40, True))
    world.store.scores.insert(rows)
    loop = world.loop()
    loop.tick()
    assert [status.n_eff for status in loop.status()] == [40]
    settled = [_judged_later(score, minutes=120, outcome=Outcome.PASSED, score=1.0, reason="") for score in rows[:40]]
    world.store.scores.insert(settled)
    loop.tick()
    assert [status.n_eff for status in loop.status()] == [80]


def test_rows_that_moved_on_hide_none_between(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page made of verdicts that were settled later must neither end the reading nor carry the cursor past others."""
    monkeypatch.setattr("tracejudge_consumer.alerting.fresh_rows._PAGE", 10)
    rows = world.rows((40, None), (40, True))
    settled = [_judged_later(score, minutes=120, outcome=Outcome.PASSED, score=1.0, reason="") for score in rows[:40]]
    world.store.scores.insert(rows)
    world.store.scores.insert(settled)
    loop = world.loop()
    loop.tick()
    assert [status.n_eff for status in loop.status()] == [80]


def test_a_dead_channel_is_tried_again_and_holds_up_no_other(world: World) -> None:
    dead = RecordingNotifier("dead")
    dead.failing = True
    world.store.scores.insert(world.rows((100, True), (30, False), (150, True)))
    loop = world.loop(notifiers=[dead, world.channel])
    loop.tick()
    assert kinds(world.channel.events) == ["firing", "resolved"]
    assert dead.attempts == 1, "the first refusal ends its turn: order within a channel is kept"
    loop.tick()
    assert dead.attempts == 1, "it waits before it is tried again"
    world.clock.advance(6)
    loop.tick()
    assert dead.attempts == 2
    dead.failing = False
    world.clock.advance(6)
    loop.tick()
    assert dead.events == [], "the wait doubles"
    world.clock.advance(6)
    loop.tick()
    assert kinds(dead.events) == ["firing", "resolved"]
    assert len(world.channel.events) == 2


def test_what_a_dead_channel_piles_up_starves_no_other(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracejudge_consumer.alerting.deliveries._AT_ONCE", 3)
    dead = RecordingNotifier("dead")
    dead.failing = True
    old = world.clock.now() - timedelta(hours=6)
    piled = [OutboxItem(event_id=f"e{k}", notifier=name, updated_at=old) for k in range(7) for name in ("dead", "gone")]
    world.store.outbox.put(piled)
    world.store.scores.insert(world.rows((100, True), (30, False)))
    (event,) = world.loop(notifiers=[world.channel]).tick()
    world.store.alert_events.insert([replace(event, event_id=f"e{k}") for k in range(7)])
    loop = world.loop(notifiers=[dead, world.channel])
    for _ in range(3):
        loop.tick()
        assert dead.attempts == 1, "what it refused stays in sight, and makes it wait"
    world.store.scores.insert(world.rows((150, True), first=130))
    loop.tick()
    assert kinds(world.channel.events) == ["firing", "resolved"]
    dead.failing = False
    for _ in range(4):
        world.clock.advance(6)
        loop.tick()
    assert len(dead.events) == 8


def test_a_channel_that_breaks_is_a_failed_delivery_not_the_end_of_the_loop(world: World) -> None:
    class Broken:
        name = "broken"

        def notify(self, event: AlertEvent) -> None:
            raise ZeroDivisionError

    world.store.scores.insert(world.rows((100, True), (30, False)))
    loop = world.loop(notifiers=[Broken(), world.channel])
    assert kinds(loop.tick()) == ["firing"]
    assert kinds(world.channel.events) == ["firing"]
    (item,) = world.store.outbox.pending()
    assert (item.notifier, item.attempts) == ("broken", 1)


def test_a_first_start_on_history_tells_of_what_is_still_open_only(world: World) -> None:
    world.base -= timedelta(days=10)
    world.store.scores.insert(world.rows((100, True), (30, False), (200, True), (30, False)))
    events = world.loop().tick()
    assert kinds(events) == ["firing", "resolved", "firing", "no_data"]
    assert world.stored() == events
    assert [event.event_id for event in world.channel.events] == [events[2].event_id]


def judged_now(world: World, rows: list[Score], *, ago: timedelta = timedelta(hours=1)) -> list[Score]:
    """As a consumer that is given weeks of answers at once judges them."""
    first = world.store.now() - ago
    return [replace(row, judged_at=first + timedelta(milliseconds=100 * k)) for k, row in enumerate(rows)]


def test_of_old_answers_that_are_judged_at_once_only_what_is_still_open_is_told(world: World) -> None:
    world.base -= timedelta(days=10)
    history = world.rows((100, True), (30, False), (200, True), (30, False))
    world.store.scores.insert(judged_now(world, history))
    events = world.loop().tick()
    assert kinds(events) == ["firing", "resolved", "firing"]
    assert world.stored() == events, "listed all the same"
    assert [event.event_id for event in world.channel.events] == [events[2].event_id]
    kept = "SELECT state, last_error FROM outbox FINAL WHERE event_id = {id:String}"
    for event in events[:2]:
        ((state, why),) = world.store.query(kept, {"id": event.event_id})
        assert (state, why) == ("given_up", "of answers served more than a day ago, and over since then; not sent")
    assert world.loop("two").tick() == []
    assert world.channel.attempts == 1


def test_nor_is_what_a_threshold_said_of_old_windows(world: World) -> None:
    world.base -= timedelta(days=10)
    rule = ThresholdRule(name="hourly", judge="lexical", below=0.8, window="1h", type="threshold")
    world.store.scores.insert(judged_now(world, world.rows((120, True), (60, False), (240, True))))
    events = world.loop(rules=[rule]).tick()
    assert kinds(events) == ["firing", "resolved"]
    assert world.channel.attempts == 0


def test_an_end_among_old_answers_is_told_where_its_beginning_was(world: World) -> None:
    world.base -= timedelta(days=10)
    history = judged_now(world, world.rows((100, True), (30, False), (200, True)))
    world.store.scores.insert(history[:130])
    loop = world.loop()
    assert kinds(loop.tick()) == ["firing"]
    world.store.scores.insert(history[130:])
    assert kinds(loop.tick()) == ["resolved"]
    assert kinds(world.channel.events) == ["firing", "resolved"]


def test_an_end_that_is_found_more_than_a_day_late_is_told_where_its_beginning_was(world: World) -> None:
    """A pager keeps what it was told of open until it is told of the end, after a weekend without a loop too."""
    rows = world.rows((100, True), (30, False), (200, True))
    world.store.scores.insert(rows[:130])
    loop = world.loop()
    assert kinds(loop.tick()) == ["firing"]
    world.store.scores.insert(rows[130:])
    world.clock.advance(timedelta(days=3).total_seconds())
    assert kinds(loop.tick()) == ["resolved"]
    assert kinds(world.channel.events) == ["firing", "resolved"]


def test_data_that_came_back_more_than_a_day_ago_are_told_where_their_silence_was(world: World) -> None:
    world.base -= timedelta(hours=16)
    world.store.scores.insert(world.rows((100, True)))
    loop = world.loop()
    assert kinds(loop.tick()) == ["no_data"]
    world.base = world.store.now() - timedelta(minutes=260)
    world.store.scores.insert(world.rows((5, True), first=200))
    world.clock.advance(timedelta(days=3).total_seconds())
    assert kinds(loop.tick()) == ["data_back"]
    assert kinds(world.channel.events) == ["no_data", "data_back"]


def test_an_end_that_is_found_late_is_not_told_to_whom_its_beginning_was_not(world: World) -> None:
    rows = world.rows((100, True), (30, False), (200, True))
    world.store.scores.insert(rows[:130])
    (fired,) = world.loop(notifiers=[]).tick()
    given_up = OutboxItem(event_id=fired.event_id, notifier=world.channel.name, updated_at=fired.at, state="given_up")
    world.store.outbox.put([given_up])
    world.store.scores.insert(rows[130:])
    world.clock.advance(timedelta(days=3).total_seconds())
    assert kinds(world.loop().tick()) == ["resolved"]
    assert world.channel.events == []


def resting(world: World, number: int) -> Score:
    """One more old answer that was judged just now."""
    return world.row(number, judged_at=world.store.now() - timedelta(seconds=2))


OUTBOX = "SELECT state, count() FROM outbox FINAL GROUP BY state"


def test_an_alert_among_old_answers_waits_while_more_of_them_are_judged(world: World) -> None:
    """A consumer works through ten days of answers; in them an incident begins in one round and ends in another."""
    world.base -= timedelta(days=10)
    history = judged_now(world, world.rows((100, True), (30, False), (200, True)), ago=timedelta(minutes=2))
    world.store.scores.insert([*history[:130], resting(world, 901)])
    loop = world.loop()
    assert kinds(loop.tick()) == ["firing"]
    assert world.channel.attempts == 0
    loop.close()
    world.store.scores.insert([*history[130:], resting(world, 902)])
    assert kinds(world.loop("two").tick()) == ["resolved"]
    assert world.channel.attempts == 0
    assert world.store.query(OUTBOX) == [("given_up", 2)]
    assert kinds(world.stored()) == ["firing", "resolved"]


def test_one_that_is_open_when_they_are_through_or_come_to_the_last_day_is_told(world: World) -> None:
    world.base -= timedelta(days=10)
    history = judged_now(world, world.rows((100, True), (30, False)), ago=timedelta(minutes=2))
    world.store.scores.insert([*history, resting(world, 901)])
    loop = world.loop()
    assert kinds(loop.tick()) == ["firing"]
    assert world.channel.attempts == 0
    live = world.store.now() - timedelta(minutes=1)
    world.store.scores.insert([world.row(900, passed=False, event_time=live, judged_at=live)])
    loop.tick()
    assert kinds(world.channel.events) == ["firing"], "the latest answers fail as well"


def test_one_that_is_open_when_old_answers_are_through_is_told_and_so_is_its_end(world: World) -> None:
    world.base -= timedelta(days=10)
    rows = world.rows((100, True), (30, False), (200, True))
    history = judged_now(world, rows, ago=timedelta(minutes=2))
    world.store.scores.insert([*history[:130], resting(world, 901)])
    loop = world.loop()
    assert kinds(loop.tick()) == ["firing"]
    assert world.channel.attempts == 0
    world.clock.advance(400)
    loop.tick()
    assert kinds(world.channel.events) == ["firing"]
    world.store.scores.insert(history[130:])
    loop.tick()
    assert kinds(world.channel.events) == ["firing", "resolved"]


def test_nothing_waits_where_no_verdict_rests(world: World) -> None:
    world.base -= timedelta(days=10)
    world.store.scores.insert(judged_now(world, world.rows((100, True), (30, False)), ago=timedelta(minutes=2)))
    assert kinds(world.loop().tick()) == ["firing"]
    assert kinds(world.channel.events) == ["firing"], "all that there is was looked at"


def test_a_consumer_that_is_behind_for_good_holds_no_alert_back_for_ever(world: World) -> None:
    world.base -= timedelta(days=2)
    world.store.scores.insert(judged_now(world, world.rows((100, True), (30, False)), ago=timedelta(hours=4)))
    at = world.store.now() - timedelta(minutes=1)
    world.store.scores.insert([world.row(131, passed=False, judged_at=at), resting(world, 132)])
    assert kinds(world.loop().tick()) == ["firing"]
    assert kinds(world.channel.events) == ["firing"]


def test_silence_is_told_once_across_restarts(world: World) -> None:
    world.base -= timedelta(hours=20)
    world.store.scores.insert(world.rows((100, True)))
    assert kinds(world.loop().tick()) == ["no_data"]
    assert world.loop().tick() == []
    assert world.channel.attempts == 1
    states: list[SeriesStatus] = load_series(world.store, [RULE])
    assert [status.state for status in states] == ["no_data"]


def test_without_rules_the_judges_health_is_still_watched(world: World) -> None:
    world.store.scores.insert(world.rows((30, None)))
    assert kinds(world.loop(rules=[]).tick()) == ["evaluator_unhealthy"]


def test_how_long_the_app_took_is_read_from_its_traces_where_a_rule_asks(world: World) -> None:
    rows = world.rows((140, True))
    traces = [
        StoredTrace(
            trace=make_trace(
                k,
                app=row.app,
                trace_id=row.trace_id,
                event_time=row.event_time,
                latency_ms=9000.0 if k >= 100 else 300.0,
            ),
            ingested_at=row.judged_at,
        )
        for k, row in enumerate(rows)
        if k != 3  # one that is not known
    ]
    world.store.traces.insert(traces)
    world.store.scores.insert(rows)
    rule = MinimumRule(name="slow", judge="lexical", measure="latency_ms", at_most=2000, minimum=0.9)
    loop = world.loop(rules=[rule])
    (event,) = loop.tick()
    assert (event.kind, event.series.rule) == ("firing", "slow")
    assert [status.n_eff for status in loop.status()] == [139]


def test_a_store_whose_clock_was_set_back_is_told_once(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is judged until it has caught up lies where the loop has been: silence would look like health."""
    loop = world.loop()
    world.store.scores.insert(world.rows((100, True)))
    loop.tick()
    assert "set back" not in caplog.text
    back = world.base + timedelta(minutes=40)
    monkeypatch.setattr(world.store, "now", lambda: back)
    loop.tick()
    loop.tick()
    assert caplog.text.count("the store's clock was set back") == 1
