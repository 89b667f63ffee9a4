"""An alert that is held back is said to be, with why and until when at most; it is one line and one count."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from prometheus_client import CollectorRegistry

from tests.support.verdicts import row
from tests.unit.test_alerts_judge_drift import kinds
from tests.unit.test_alerts_waiting import FALL, HOLD, STRICTER, at_minute, only, restored, watched
from tracejudge.alerts import AlertEvent, Engine
from tracejudge.alerts.judges.held import LONGEST_HOLD, LONGEST_WAIT
from tracejudge.alerts.judges.hold_mark import as_held_now, hold_says
from tracejudge.testing import ManualClock
from tracejudge_consumer.views.alert_line import alert_line, news_of
from tracejudge_consumer.watching.loop_health import LoopHealth
from tracejudge_consumer.watching.loop_metrics import LoopMetrics


def mark_of(event: AlertEvent) -> dict[str, object]:
    mark = event.evidence["held_back"]
    assert isinstance(mark, dict)
    return mark


def lines(events: list[AlertEvent], *, delivered: bool = False) -> list[str]:
    return [line for event in news_of(events) if (line := alert_line(event, delivered=delivered)) is not None]


def waiting() -> tuple[Engine, AlertEvent]:
    engine = watched(HOLD)
    return engine, only(engine.fold(FALL))


def test_one_that_waits_for_a_round_says_so_and_until_when_at_most() -> None:
    engine, held = waiting()
    until = held.at + LONGEST_WAIT
    assert (mark_of(held)["because"], mark_of(held)["until"]) == ("round_asked", until.isoformat())
    says = hold_says(held)
    assert says is not None
    assert says.startswith("held back until an anchor round shows whether its judge has moved")
    assert says.endswith(f"by {until:%Y-%m-%d %H:%M} UTC at the latest")
    told = only(restored(engine).fold_round(at_minute(121)))
    assert "held_back" not in told.evidence
    assert hold_says(told) is None


def test_one_whose_judge_has_moved_by_then_waits_for_that_from_its_beginning_on() -> None:
    engine, held = waiting()
    still = only(restored(engine).fold_round(at_minute(121, STRICTER)))
    until = held.at + LONGEST_HOLD
    assert (mark_of(still)["because"], mark_of(still)["until"]) == ("judge_moved", until.isoformat())
    assert str(hold_says(still)).startswith("held back: its judge has moved; sent when")


def test_what_comes_of_one_is_said_not_to_be_sent_by_itself() -> None:
    engine = watched(HOLD)
    engine.fold_round(at_minute(-30, STRICTER))
    engine.fold(FALL)
    end = only(engine.fold([row(k) for k in range(120, 1000)]), "resolved")
    assert hold_says(end) == "not sent on its own: its alert was held back"
    assert engine.judges.held == []


def test_a_stored_one_that_ended_while_it_was_held_back_says_that() -> None:
    _, held = waiting()
    assert as_held_now(held, {held.event_id}) == held
    over = as_held_now(held, ())
    assert (mark_of(over)["because"], mark_of(over)["until"]) == ("over", None)
    assert str(hold_says(over)).startswith("not sent: it resolved while")
    grown = replace(held, event_id="grown", kind="escalated", evidence={**held.evidence, "fired_event_id": "fired"})
    assert as_held_now(grown, {"fired"}) == grown
    free = replace(held, evidence={})
    assert as_held_now(free, ()) == free


def test_one_that_an_older_release_held_says_that_much() -> None:
    _, held = waiting()
    older = replace(held, evidence={name: value for name, value in held.evidence.items() if name != "held_back"})
    assert hold_says(older) == "held back, not sent"


def test_it_is_one_line_while_it_is_held_and_one_when_it_is_let_go() -> None:
    engine, held = waiting()
    (line,) = lines([held])
    assert line == f"firing, held back: {held.summary}; {hold_says(held)}"
    still = restored(engine).fold_round(at_minute(121, STRICTER))
    assert kinds(still) == ["judge_drift", "firing"]
    assert [line.partition(":")[0] for line in lines(still)] == ["judge_drift"]
    told = only(engine.tick(held.at + LONGEST_WAIT))
    assert lines([told]) == [f"firing: {told.summary}"]


def test_where_the_terminal_is_a_channel_only_what_it_does_not_get_is_said_beside_it() -> None:
    engine, held = waiting()
    told = only(engine.tick(held.at + LONGEST_WAIT))
    (line,) = lines([held], delivered=True)
    assert line.startswith("firing, held back: ")
    assert lines([told], delivered=True) == []


def test_what_happens_to_it_in_one_round_is_one_line_as_it_stands_after_it() -> None:
    engine, held = waiting()
    still = restored(engine).fold_round(at_minute(121, STRICTER))
    first, moved = lines([held, *still])
    assert first == f"firing, held back: {still[1].summary}; {hold_says(still[1])}"
    assert moved.startswith("judge_drift: ")
    told = only(engine.tick(held.at + LONGEST_WAIT))
    assert lines([held, told]) == [f"firing: {told.summary}"]
    assert lines([held, told], delivered=True) == [], "the channel has said it"


def test_an_alert_is_counted_once_however_often_it_is_stored_anew() -> None:
    registry = CollectorRegistry()
    metrics = LoopMetrics(registry, LoopHealth(ManualClock()))

    def counted(kind: str) -> float | None:
        return registry.get_sample_value("tracejudge_alert_events_total", {"kind": kind})

    engine, held = waiting()
    metrics.round_done([held], leading=True)
    engine = restored(engine)
    metrics.round_done(engine.fold_round(at_minute(121, STRICTER)), leading=True)
    assert (counted("firing"), counted("judge_drift")) == (1, 1)
    told = engine.tick(held.at + LONGEST_HOLD + timedelta(minutes=1))
    assert "firing" in kinds(told)
    metrics.round_done(told, leading=True)
    assert counted("firing") == 1


def test_who_leads_shows_how_many_are_held_back_and_why() -> None:
    registry = CollectorRegistry()
    metrics = LoopMetrics(registry, LoopHealth(ManualClock()))

    def shown() -> tuple[float | None, float | None]:
        of = [registry.get_sample_value("tracejudge_alerts_held", {"because": one}) for one in _REASONS]
        return of[0], of[1]

    engine, _ = waiting()
    metrics.round_done([], leading=True, held=engine.judges.held)
    assert shown() == (1, 0)
    engine.fold_round(at_minute(121, STRICTER))
    metrics.round_done([], leading=True, held=engine.judges.held)
    assert shown() == (0, 1)
    metrics.round_done([], leading=True, held=[])
    assert shown() == (0, 0)
    metrics.round_done([], leading=False)
    assert shown() == (None, None)


_REASONS = ("round_asked", "judge_moved")
