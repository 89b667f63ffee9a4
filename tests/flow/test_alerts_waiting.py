"""A judge that moves between two rounds: the alert of it asks for a round, and is told or held by what that says."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.flow.test_anchors import HONEST, NO, Days, kinds
from tests.support.judge_reply import JudgeRequest, Reply
from tests.support.judge_server import JudgeServer
from tracejudge.alerts import AlertEvent, DriftPolicy
from tracejudge.alerts.judges.held import LONGEST_WAIT
from tracejudge.alerts.judges.hold_mark import is_held
from tracejudge.evidence.words import judge_says
from tracejudge.scores import ANCHOR_RUN
from tracejudge.store import Store
from tracejudge.testing import RecordingNotifier
from tracejudge_consumer.alerting.actions import record_action
from tracejudge_consumer.alerting.deliveries import Deliveries
from tracejudge_consumer.alerting.evidence import AlertEvidence
from tracejudge_consumer.alerting.evidence_pages import EvidencePages
from tracejudge_consumer.alerting.loop import AlertLoop
from tracejudge_consumer.anchors.watch import new_round
from tracejudge_consumer.cli import run
from tracejudge_consumer.commands.watch import run_alert_loop
from tracejudge_consumer.terminal.exit_status import EXIT_DONE
from tracejudge_consumer.views.alert_line import alert_line
from tracejudge_consumer.watching.watched import Watch

pytest.importorskip("chdb", reason="the embedded store needs the extra 'embedded'")


def strict(request: JudgeRequest) -> Reply:
    """The same model by its name, which fails most of what it passed."""
    return Reply(NO) if re.search(r"of plan \d*[2-9] is ten", request.prompt) else HONEST(request)


class Killed(BaseException):
    """The process ends here."""


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    with JudgeServer(HONEST) as running:
        yield running


@pytest.fixture
def days(store: Store, server: JudgeServer, monkeypatch: pytest.MonkeyPatch) -> Days:
    """Four days of a steady judge; its last round is a minute old."""
    monkeypatch.setattr("tracejudge.store.leases.SETTLE_S", 0.005)
    days = Days(store, server)
    days.drift = DriftPolicy(on_judge_drift="hold", asked=frozenset({days.spec.judge_id()}))
    days.restart()
    assert [event for _ in range(4) for event in days.day()] == []
    assert days.serve(10, good=0.95) == []
    return days


def answered(days: Days) -> list[AlertEvent]:
    """The rounds that are due, and a round of the alert loop."""
    days.clock.advance(30)
    assert [one.cause for one in days.watch.run_due()] == ["alert"]
    days.clock.advance(30)
    return days.loop.tick()


def test_a_judge_that_moves_within_the_hour_after_its_round_holds_its_alert(days: Days) -> None:
    days.server.script = strict
    (held,) = days.serve(25, good=0.95)
    assert (held.kind, held.evidence["held"]) == ("firing", True)
    says = judge_says(held)
    assert says is not None
    assert ", too early to cover this fall; " in says
    assert "another round was requested" in says
    moved, still = answered(days)
    assert (moved.kind, moved.evidence["open_alerts"]) == ("judge_drift", [held.event_id])
    assert (still.event_id, still.evidence["held"]) == (held.event_id, True)
    assert days.watch.run_due() == []
    assert kinds(days.channel.events) == ["judge_drift"]
    (stored,) = days.store.alert_events.get([held.event_id])
    assert "; its judge moved: " in stored.summary
    days.restart()
    days.server.script = HONEST
    back = [event for _ in range(4) for event in days.day()]
    assert kinds(back) == ["judge_steady", "firing"]
    assert back[1].event_id == held.event_id


def test_an_alert_of_the_product_is_told_as_soon_as_the_round_says_that_the_judge_is_steady(days: Days) -> None:
    (held,) = days.serve(20, good=0.1)
    assert days.channel.events == []
    days.restart()
    (told,) = answered(days)
    assert (told.event_id, told.at) == (held.event_id, held.at)
    assert days.clock.now() - told.at < LONGEST_WAIT
    assert "; held back for an anchor round: judge steady as of " in told.summary
    assert [event.event_id for event in days.channel.events] == [held.event_id]
    says = judge_says(told)
    assert says is not None
    assert says.endswith(", judged after the fall began")


def test_an_alert_is_told_without_an_answer_where_the_days_calls_are_used_up(days: Days) -> None:
    days.watch = days._watch(max_calls=0)
    (held,) = days.serve(20, good=0.1)
    days.clock.advance(600)
    assert days.watch.run_due() == []
    assert days.loop.tick() == []
    days.clock.advance(1800)
    (told,) = days.loop.tick()
    assert (told.event_id, told.evidence["held_until"]) == (held.event_id, (held.at + LONGEST_WAIT).isoformat())
    assert told.summary.endswith("but none came")
    assert kinds(days.channel.events) == ["firing"]


def test_an_alert_waits_for_no_round_that_the_days_calls_cannot_pay(days: Days) -> None:
    days.watch = days._watch(max_calls=0)
    days.unanswerable = lambda event: days.watch.cannot_tell_of(event)
    days.restart()
    waits, told = days.serve(20, good=0.1)
    assert (is_held(waits), is_held(told)) == (True, False)
    assert told.event_id == waits.event_id
    assert told.summary.endswith("told without a round of its judge's anchors: the day's are used up")
    assert kinds(days.channel.events) == ["firing"]


def test_an_alert_waits_for_the_round_that_uses_the_days_calls_up(days: Days) -> None:
    days.unanswerable = lambda event: days.watch.cannot_tell_of(event)
    days.restart()
    (held,) = days.serve(20, good=0.1)
    days.watch = days._watch(days.store.calls.of_run(ANCHOR_RUN).calls)
    begun = new_round(days.anchors, days.spec, now=days.clock.now(), cause="alert")
    days.store.anchors.rounds.save(begun)
    assert days.loop.tick() == []
    assert is_held(held)


def test_where_alerts_are_only_marked_they_go_out_at_once_and_ask(days: Days) -> None:
    days.drift = DriftPolicy(asked=days.drift.asked)
    days.restart()
    days.server.script = strict
    (alert,) = days.serve(25, good=0.95)
    assert kinds(days.channel.events) == ["firing"]
    says = judge_says(alert)
    assert says is not None
    assert "another round was requested" in says
    (moved,) = answered(days)
    assert (moved.kind, moved.evidence["open_alerts"]) == ("judge_drift", [alert.event_id])


def test_a_loop_that_comes_late_tells_once_what_waited_meanwhile(days: Days) -> None:
    """The alert and its answer are found in one round of the loop."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(days.loop, "tick", list)
        days.serve(20, good=0.1)
    days.clock.advance(LONGEST_WAIT.total_seconds())
    waited, told = days.loop.tick()
    assert (waited.event_id, waited.evidence["held"]) == (told.event_id, True)
    (stored,) = days.store.alert_events.get([told.event_id])
    assert (stored.summary, "held" in stored.evidence) == (told.summary, False)
    assert [event.summary for event in days.channel.events] == [told.summary]


@pytest.mark.parametrize("moves", [True, False])
def test_a_loop_killed_at_any_step_goes_on_waiting_and_tells_once(days: Days, moves: bool) -> None:
    """Killed while the alert begins to wait, and again while it is answered."""
    days.restart()
    if moves:
        days.server.script = strict
    assert len(_killed_at_each_step(days, lambda: days.serve(20, good=0.95 if moves else 0.1))) > 2
    (held,) = [event for event in days.store.alert_events.all() if event.kind == "firing"]
    assert "waits_until" in held.evidence
    assert days.channel.events == []
    assert len(_killed_at_each_step(days, lambda: answered(days))) > 2
    (fired,) = [event for event in days.store.alert_events.all() if event.kind == "firing"]
    assert (fired.event_id, "waits_until" in fired.evidence) == (held.event_id, False)
    assert fired.evidence.get("held") == (True if moves else None)
    # At least once: the notification that was in transit may be repeated, under its id.
    assert {(event.kind, event.event_id) for event in days.channel.events if event.kind == "firing"} == (
        set() if moves else {("firing", held.event_id)}
    )
    assert set(kinds(days.channel.events)) == {"judge_drift" if moves else "firing"}


def two_channels(days: Days, monkeypatch: pytest.MonkeyPatch) -> RecordingNotifier:
    """A second channel, and evidence."""
    chat = RecordingNotifier(name="chat")
    make = days._loop

    def loop(holder: str) -> AlertLoop:
        made = make(holder)
        made._deliveries = Deliveries(
            store=days.store,
            notifiers=[days.channel, chat],
            clock=days.clock,
            save=made._save_channels,
            checkpoint=lambda step: days.checkpoint(step),
        )
        made._evidence = AlertEvidence(days.store, days.clock, criteria={"faithful": "faithfulness"})
        return made

    monkeypatch.setattr(days, "_loop", loop)
    days.restart()
    return chat


@pytest.mark.parametrize("answers", [True, False])
def test_what_is_let_go_goes_out_to_every_channel_once_wherever_the_loop_is_killed(
    days: Days, monkeypatch: pytest.MonkeyPatch, answers: bool
) -> None:
    """By the answer of a round, or as none came in time; with evidence, and two channels."""
    chat = two_channels(days, monkeypatch)
    (held,) = days.serve(20, good=0.1)
    if answers:
        steps = _killed_at_each_step(days, lambda: answered(days))
    else:
        days.clock.advance(LONGEST_WAIT.total_seconds())
        steps = _killed_at_each_step(days, lambda: days.loop.tick())
    assert {"snapshots stored", "events stored", "outbox stored", "delivered"} <= set(steps)
    for channel in (days.channel, chat):
        # One that was in transit when the loop was killed is repeated, under its id, and no other.
        assert {event.event_id for event in channel.events} == {held.event_id}
        assert len(channel.events) <= 3
        assert {event.kind for event in channel.events} == {"firing"}
        assert not any("held" in event.evidence for event in channel.events)
    assert {(one.notifier, one.sent, one.pending) for one in days.store.outbox.standing()} == {
        (days.channel.name, 1, 0),
        ("chat", 1, 0),
    }


def test_only_what_was_in_transit_at_a_kill_goes_out_again_after_an_alert_was_let_go(
    days: Days, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = two_channels(days, monkeypatch)
    days.serve(20, good=0.1)
    days.clock.advance(LONGEST_WAIT.total_seconds())
    for last in ("snapshots stored", "events stored", "outbox stored", "delivering", "delivered", "delivery recorded"):

        def die(step: str, last: str = last) -> None:
            if step == last:
                raise Killed(step)

        days.checkpoint = lambda _: None
        days.loop = days._loop("two")
        # A new leader stores everything again at first, which is no step of letting go.
        days.loop._engine = days.loop._restore() if days.loop._leadership.take() else None
        days.checkpoint = days.loop._checkpoint = die
        with pytest.raises(Killed):
            days.loop.tick()
        days.clock.advance(1)
    days.checkpoint = lambda _: None
    days.loop = days._loop("two")
    days.loop.tick()
    assert sorted(len(channel.events) for channel in (days.channel, chat)) == [1, 2]
    assert len({event.event_id for channel in (days.channel, chat) for event in channel.events}) == 1
    assert {(one.sent, one.pending) for one in days.store.outbox.standing()} == {(1, 0)}


def test_with_evidence_what_waited_and_was_let_go_in_one_round_is_told_as_it_was_let_go(days: Days) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(days.loop, "tick", list)
        days.serve(20, good=0.1)
    days.clock.advance(LONGEST_WAIT.total_seconds())
    days.loop._evidence = AlertEvidence(days.store, days.clock, criteria={"faithful": "faithfulness"})
    waited, told = days.loop.tick()
    assert [is_held(waited), is_held(told)] == [True, False]
    assert "compared" in told.evidence
    (stored,) = days.store.alert_events.get([told.event_id])
    assert (is_held(stored), "compared" in stored.evidence) == (False, True)
    assert [event.summary for event in days.channel.events] == [told.summary]


def test_the_metrics_of_who_leads_count_an_alert_once_and_show_it_while_it_is_held(days: Days) -> None:
    watch = Watch(alert_loop=True)

    def sample(name: str, **labels: str) -> float | None:
        return watch.registry.get_sample_value(name, labels)

    def a_round() -> list[str]:
        told: list[str] = []
        stop = threading.Event()

        def tell(event: AlertEvent) -> None:
            told.append(str(alert_line(event)).partition(":")[0])
            stop.set()

        run_alert_loop(days.loop, stop, tick_s=0.01, tell=tell, watch=watch)
        return told

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(days.loop, "tick", list)
        days.serve(20, good=0.1)
    assert a_round() == ["firing, held back"]
    assert sample("tracejudge_alerts_held", because="round_asked") == 1
    days.clock.advance(LONGEST_WAIT.total_seconds())
    assert a_round() == ["firing"]
    assert sample("tracejudge_alerts_held", because="round_asked") == 0
    assert sample("tracejudge_alert_events_total", kind="firing") == 1


SAYS = "held back until an anchor round shows whether its judge has moved; sent if the judge is steady"


def settings_file(folder: Path, days: Days, store_url: str) -> str:
    path = folder / "tracejudge.toml"
    path.write_text(
        f'queue = "sqlite:///queue.db"\nstore = "{store_url}"\n'
        '[anchors]\nset = "golden"\non_judge_drift = "hold"\n'
        f'[[judges]]\nname = "faithful"\nkind = "faithfulness"\nbase_url = "{days.server.base_url}"\nmodel = "judge"\n'
        "max_calls_per_h = 1000\n"
        '[[rules]]\nname = "quality"\njudge = "faithful"\nminimum = 0.75\nno_data_after = "never"\n'
    )
    return str(path)


@pytest.mark.parametrize("terminal", [False, True])
def test_watch_that_comes_late_says_in_one_line_that_an_alert_was_let_go(
    days: Days, store_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], terminal: bool
) -> None:
    """Also where a channel prints what is sent, in its own words."""
    config = settings_file(tmp_path, days, store_url)
    if terminal:
        with Path(config).open("a", encoding="utf-8") as file:
            file.write('[[notifiers]]\ntype = "terminal"\n')
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(days.loop, "tick", list)
        days.serve(20, good=0.1)
    days.loop.close()
    assert run(["watch", "--once", "--config", config]) == EXIT_DONE
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "faithful" in line]
    assert "; held back for 30 minutes" in line
    assert "firing: faithful of shop fell" in line


def test_every_command_that_shows_an_alert_says_that_it_is_held_back_and_until_when_at_most(
    days: Days, store_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ("--config", settings_file(tmp_path, days, store_url))

    def said(*args: str) -> str:
        assert run(["alerts", *args, *more]) == EXIT_DONE
        return " ".join(capsys.readouterr().out.split())

    days.loop._evidence = AlertEvidence(
        days.store,
        days.clock,
        criteria={"faithful": "faithfulness"},
        pages=EvidencePages(tmp_path / "pages", url="", keep=timedelta(days=9)),
    )
    (held,) = days.serve(20, good=0.1)
    until = held.at + LONGEST_WAIT
    latest = f"{until:%Y-%m-%d %H:%M} UTC at the latest"
    page, list_ = tmp_path / "alert.html", ("list", "--since", "60d")
    for words in (said(*list_), said("show", held.event_id, "--html", str(page)), said("explain")):
        assert SAYS in words
        assert latest in words
    assert said(*list_).count(SAYS) == 1
    (written,) = (tmp_path / "pages").glob("*.html")
    for file in (page, written):
        assert f"As of when this page was created: {SAYS}" in " ".join(file.read_text(encoding="utf-8").split())
    mark = {"event_id": held.event_id, "because": "round_asked", "until": until.isoformat()}
    listed, shown = json.loads(said(*list_, "--json")), json.loads(said("show", held.event_id, "--json"))
    explained = json.loads(said("explain", "--json"))["series"][0]["held_back"]
    for found in (listed["held"][0], {"event_id": held.event_id, **shown["evidence"]["held_back"]}, explained):
        assert {name: found[name] for name in mark} == mark
    record_action(days.store, "dismiss", matchers={"rule": "quality"}, by="ann", note="a test")
    days.clock.advance(60)
    assert kinds(days.loop.tick()) == ["resolved"]
    assert days.channel.events == []
    for words in (said(*list_), said("show", held.event_id)):
        assert "not sent: it resolved while it was held back" in words
        assert SAYS not in words
    assert json.loads(said(*list_, "--json"))["held"] == []
    assert SAYS not in said("explain")


def _killed_at_each_step(days: Days, work: Callable[[], object]) -> list[str]:
    """Does the work with a loop that dies at its first step, goes on with one that dies at its second, and so on until
    one lives; gives where they died."""
    died: list[str] = []
    for number in range(100):
        left = number

        def die(step: str) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise Killed(step)

        days.checkpoint = die
        days.loop = days._loop("two")  # the same host starts it again, and so the lease is its own
        try:
            if number == 0:
                work()
            else:
                days.loop.tick()
        except Killed as step:
            died.append(str(step))
            days.clock.advance(1)
        else:
            days.checkpoint = lambda _: None
            days.loop = days._loop("two")
            assert days.loop.tick() == []
            return died
    raise AssertionError("no loop lived")
