"""Who watches the watcher: what makes live and ready false, when a heartbeat is withheld, when reading has stalled."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from prometheus_client import CollectorRegistry

from tests.support.switch import Switch
from tracejudge.judging.calls.circuit import AVAILABLE, Availability
from tracejudge.testing import ManualClock
from tracejudge_consumer.flow.reading import ReadingWatch
from tracejudge_consumer.intake import PartitionKey, RawRecord
from tracejudge_consumer.settings import load_settings, shown
from tracejudge_consumer.terminal.rendering import to_json
from tracejudge_consumer.watching.health import Health
from tracejudge_consumer.watching.heartbeat import Heartbeat, beating, heartbeat_counter
from tracejudge_consumer.watching.json_logs import JsonFormatter
from tracejudge_consumer.watching.loop_health import LoopHealth
from tracejudge_consumer.watching.loop_metrics import LoopMetrics
from tracejudge_consumer.watching.metrics import Metrics
from tracejudge_consumer.watching.watched import Watch

P0, P1 = PartitionKey("kafka:t", 0), PartitionKey("kafka:t", 1)


# -- the consumer ------------------------------------------------------------------------------------------------------


def well(clock: ManualClock) -> Health:
    health = Health(clock)
    health.turned(partitions=1)
    return health


def test_a_consumer_that_turns_with_partitions_store_and_queue_is_live_ready_and_heard_of() -> None:
    health = well(ManualClock())
    report = health.report()
    assert (report.live, report.ready, report.reasons) == (True, True, ())
    assert health.withheld() is None


@pytest.mark.parametrize(
    ("what", "live", "words"),
    [
        ("silent", False, "has not turned for 60 s"),
        ("ended", False, "has stopped"),
        ("stalled", False, "reading has stalled"),
        ("no partition", True, "no partition is assigned"),
        ("no store", True, "the store does not answer: refused"),
        ("no queue", True, "the queue does not answer"),
        ("never turned", True, "no partition"),
    ],
)
def test_what_makes_live_and_ready_false(what: str, live: bool, words: str) -> None:
    clock = ManualClock()
    health = Health(clock) if what == "never turned" else well(clock)
    if what == "silent":
        clock.advance(61)
    elif what == "ended":
        health.ended()
    elif what == "stalled":
        health.reading(queue_answers=True, stall="reading has stalled: 5 records wait", unfinished_s=0)
    elif what == "no partition":
        health.turned(partitions=0)
    elif what == "no store":
        health.store_answered("refused")
    elif what == "no queue":
        health.reading(queue_answers=False, stall=None, unfinished_s=0)
    report = health.report()
    assert (report.live, report.ready) == (live, False)
    assert words in report.reasons[0]
    assert words in (health.withheld() or "")


def test_a_judge_that_is_down_is_said_as_long_as_it_is() -> None:
    health = well(ManualClock())
    judges = {"faithfulness": Availability(state="down", kind="server_error"), "lexical": Availability(state="ok")}
    health.watch_circuits(lambda: judges)
    report = health.report()
    assert report.ready
    assert report.reasons == ("judge 'faithfulness' is down (server_error), its traces wait for it",)
    judges["faithfulness"] = Availability(state="ok")
    assert health.report().reasons == ()


def test_a_judge_that_is_gone_is_said_and_takes_nothing_away() -> None:
    health = well(ManualClock())
    health.judges_gone(["faithfulness"])
    report = health.report()
    assert (report.live, report.ready, report.reasons) == (True, True, ("judge 'faithfulness' is gone",))
    assert health.withheld() is None


def test_a_consumer_that_finishes_nothing_is_not_heard_of() -> None:
    health = well(ManualClock())
    health.reading(queue_answers=True, stall=None, unfinished_s=901)
    assert health.report().ready
    assert "none was finished for 901 s" in (health.withheld() or "")


# -- the reading -------------------------------------------------------------------------------------------------------


class Reading:
    """A watch on a manual clock, with what it tells."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.metrics = Metrics()
        self.health = well(self.clock)
        self.watch = ReadingWatch(clock=self.clock, metrics=self.metrics, health=self.health, stall_after_s=120)

    def look(self, lag: dict[PartitionKey, int | None], **given: Any) -> None:
        self.watch.look(lag, **{"paused": (), "in_flight": 0, "finished": 0, **given})

    def read(self, key: PartitionKey, *, age_s: float) -> None:
        timestamp_ms = int((self.clock.now().timestamp() - age_s) * 1000)
        record = RawRecord(
            source=key.source, partition=key.partition, offset=0, key=None, value=b"", timestamp_ms=timestamp_ms
        )
        self.watch.read([record])

    def lag_seconds(self, key: PartitionKey) -> float | None:
        labels = {"source": key.source, "partition": str(key.partition)}
        return self.metrics.registry.get_sample_value("tracejudge_lag_seconds", labels)

    @property
    def stalled(self) -> bool:
        assert self.metrics.registry.get_sample_value("tracejudge_stalled") == (not self.health.report().live)
        return not self.health.report().live


def test_records_that_wait_while_none_is_handed_out_are_a_stall_and_reading_ends_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    reading = Reading()
    reading.look({P0: 3})
    reading.clock.advance(119)
    reading.health.turned(partitions=1)
    reading.look({P0: 9})
    assert not reading.stalled
    reading.clock.advance(2)
    reading.look({P0: 12})
    assert reading.stalled
    assert "12 records wait" in reading.health.report().reasons[0]
    reading.look({P0: 13})
    assert len([r for r in caplog.records if r.levelno == logging.ERROR]) == 1, "said once"
    reading.read(P0, age_s=5)
    reading.look({P0: 12})
    assert not reading.stalled


@pytest.mark.parametrize("why", ["paused", "nothing waits", "queue silent", "handed out"])
def test_what_is_no_stall(why: str) -> None:
    reading = Reading()
    for _ in range(10):
        reading.clock.advance(60)
        reading.health.turned(partitions=1)
        if why == "paused":
            reading.look({P0: 5}, paused=[P0])
        elif why == "nothing waits":
            reading.look({P0: 0})
        elif why == "queue silent":
            reading.look({P0: None})
        else:
            reading.read(P1, age_s=1)
            reading.look({P0: 5, P1: 1})
        assert not reading.stalled


def test_a_queue_that_does_not_say_how_far_it_reaches_is_a_queue_that_does_not_answer() -> None:
    reading = Reading()
    reading.look({P0: None, P1: None})
    assert not reading.health.report().queue_answers
    reading.look({P0: None, P1: 4})
    assert reading.health.report().queue_answers
    reading.look({})
    assert reading.health.report().queue_answers, "nothing assigned: nobody was asked"


def test_lag_in_seconds_is_the_age_of_what_waits_and_zero_when_nothing_does() -> None:
    reading = Reading()
    reading.read(P0, age_s=300)
    reading.look({P0: 10, P1: 0})
    assert reading.lag_seconds(P0) == pytest.approx(300, abs=0.01)
    assert reading.lag_seconds(P1) == 0
    reading.clock.advance(30)
    reading.look({P0: 0, P1: 2})
    assert reading.lag_seconds(P0) == 0
    assert reading.lag_seconds(P1) == pytest.approx(30), "not since its last record, which may be of yesterday"
    reading.look({P1: 2})
    assert reading.lag_seconds(P0) is None, "another consumer's now"


def test_what_is_in_flight_and_never_finished_grows_old() -> None:
    reading = Reading()
    for finished, expected in ((5, 0), (5, 10), (5, 20), (6, 0), (6, 10)):
        reading.look({P0: 1}, in_flight=3, finished=finished)
        assert reading.health.report().unfinished_s == expected
        reading.clock.advance(10)
    reading.look({P0: 1}, in_flight=0, finished=6)
    assert reading.health.report().unfinished_s == 0


# -- the alert loop ----------------------------------------------------------------------------------------------------


def test_an_alert_loop_is_ready_after_its_first_round_and_not_while_rounds_break_off() -> None:
    clock = ManualClock()
    health = LoopHealth(clock)
    assert (health.report().live, health.report().ready) == (True, False)
    health.round_done(leading=True)
    assert (health.report().live, health.report().ready) == (True, True)
    health.round_failed("store is away")
    assert (health.report().live, health.report().ready) == (True, False)
    assert "store is away" in health.report().reasons[0]


def test_an_alert_loop_is_not_live_without_a_sign_of_life_and_a_long_catching_up_is_one() -> None:
    clock = ManualClock()
    health = LoopHealth(clock)
    for _ in range(5):
        clock.advance(200)
        health.sign("folded")
        assert health.report().live
    clock.advance(301)
    assert not health.report().live
    health.sign()
    health.ended()
    assert not health.report().live


def test_only_a_round_that_was_led_and_finished_is_good_for_a_heartbeat_and_for_one() -> None:
    health = LoopHealth(ManualClock())
    assert health.withheld() is not None
    health.round_done(leading=False)
    assert health.withheld() is not None, "standing by is no watching"
    health.round_done(leading=True)
    assert health.withheld() is None
    assert health.withheld() is not None
    health.round_done(leading=True)
    health.round_failed("store is away")
    assert "store is away" in (health.withheld() or "")
    health.round_done(leading=True, mute=True)
    assert "every channel is dead" in (health.withheld() or ""), "no alert would be told, so its absence says nothing"
    health.round_done(leading=True)
    assert health.withheld() is None


def test_the_age_of_a_round_goes_on_while_the_loop_hangs() -> None:
    clock, registry = ManualClock(), CollectorRegistry()
    health = LoopHealth(clock)
    metrics = LoopMetrics(registry, health)
    clock.advance(5)
    assert registry.get_sample_value("tracejudge_alert_round_age_seconds") == 5
    health.round_done(leading=True)
    metrics.round_done([], leading=True)
    clock.advance(7)
    assert registry.get_sample_value("tracejudge_alert_round_age_seconds") == 7
    assert registry.get_sample_value("tracejudge_alert_loop_leading") == 1
    assert registry.get_sample_value("tracejudge_alert_rounds_total", {"result": "done"}) == 1


def test_a_dead_channel_is_shown_by_who_leads_alone() -> None:
    registry = CollectorRegistry()
    metrics = LoopMetrics(registry, LoopHealth(ManualClock()))

    def dead(name: str) -> float | None:
        return registry.get_sample_value("tracejudge_alert_channel_dead", {"channel": name})

    metrics.round_done([], leading=True, channels={"on-call": True, "chat": False})
    assert (dead("on-call"), dead("chat")) == (1, 0)
    metrics.round_done([], leading=True, channels={"on-call": False, "chat": False})
    assert dead("on-call") == 0
    metrics.round_done([], leading=True, channels={"on-call": True, "chat": False})
    metrics.round_done([], leading=False, channels={})
    assert (dead("on-call"), dead("chat")) == (None, None), "what was known before another led fires no alert"


# -- heartbeats --------------------------------------------------------------------------------------------------------


@pytest.fixture
def counted() -> Any:
    return heartbeat_counter(CollectorRegistry())


def test_a_heartbeat_is_sent_while_work_gets_on_and_not_otherwise(
    counted: Any, caplog: pytest.LogCaptureFixture
) -> None:
    reasons: list[str | None] = [None, "stuck", "stuck", None]
    with Switch() as switch, caplog.at_level(logging.DEBUG):
        heart = Heartbeat("consumer", switch.url, withheld=lambda: reasons.pop(0), counted=counted, allow_private=True)
        assert [heart.beat() for _ in range(4)] == ["sent", "withheld", "withheld", "sent"]
        assert switch.paths == ["/ping/SECRET-PATH?key=SECRET-KEY"] * 2
    assert caplog.messages == ["heartbeat of the consumer withheld: stuck", "heartbeat of the consumer sent again"]
    assert counted.labels("consumer", "withheld")._value.get() == 2


@pytest.mark.parametrize("status", [301, 404, 500])
def test_an_answer_that_is_no_yes_is_a_failure_and_no_redirect_is_followed(
    counted: Any, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    with Switch(status) as switch, caplog.at_level(logging.DEBUG):
        heart = Heartbeat("alert_loop", switch.url, withheld=lambda: None, counted=counted, allow_private=True)
        assert heart.beat() == "failed"
        assert len(switch.paths) == 1
    assert str(status) in caplog.text
    assert "SECRET" not in caplog.text


def test_the_secret_in_the_url_is_in_no_log_whatever_goes_wrong(counted: Any, caplog: pytest.LogCaptureFixture) -> None:
    def nowhere(host: str, port: int) -> list[Any]:
        raise OSError("no such name")

    with caplog.at_level(logging.DEBUG):
        for url, more in (
            ("http://127.0.0.1:1/SECRET", {"allow_private": True}),
            ("http://127.0.0.1:1/SECRET", {}),
            ("https://10.0.0.1/SECRET", {}),
            ("https://switch.invalid/SECRET", {"resolver": nowhere}),
        ):
            heart = Heartbeat("consumer", url, withheld=lambda: None, counted=counted, **more)
            assert heart.beat() == "failed"
    assert len(caplog.messages) == 4
    assert "not a public address" in caplog.text
    assert "SECRET" not in caplog.text


def test_it_beats_in_a_thread_of_its_own_until_the_block_ends(counted: Any) -> None:
    with Switch() as switch:
        heart = Heartbeat("consumer", switch.url, withheld=lambda: None, counted=counted, allow_private=True)
        with beating(heart, interval_s=0.01):
            assert switch.asked.wait(30)
        with beating(None, interval_s=0.01):
            pass


def test_heartbeat_urls_are_checked_and_never_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tracejudge.toml"
    minimal = 'queue = "sqlite:///q.db"\nstore = "chdb:///store"\n'
    path.write_text(f"{minimal}[heartbeat]\nalert_loop = 'https://hc.example.com/SECRET'\n")
    monkeypatch.setenv("TRACEJUDGE_HEARTBEAT__CONSUMER", "https://hc.example.com/ping/SECRET")
    settings = load_settings(path)
    assert settings.heartbeat.consumer == "https://hc.example.com/ping/SECRET"
    assert "SECRET" not in to_json(shown(settings))
    monkeypatch.setenv("TRACEJUDGE_HEARTBEAT__CONSUMER", "ftp://hc.example.com/SECRET")
    with pytest.raises(Exception, match=r"heartbeat\.consumer.*http or https") as caught:
        load_settings(path)
    assert "SECRET" not in str(caught.value)


# -- all of a process --------------------------------------------------------------------------------------------------


def test_a_process_is_live_and_ready_when_each_part_of_it_is(tmp_path: Path) -> None:
    watch = Watch(consumer=True, alert_loop=True)
    assert watch.health is not None
    assert watch.loop_health is not None
    assert (watch.report().live, watch.report().ready) == (True, False)
    watch.health.turned(partitions=1)
    assert not watch.report().ready
    watch.loop_health.round_done(leading=True)
    assert watch.report().ready
    watch.loop_health.ended()
    assert not watch.report().live
    assert "the alert loop has stopped" in watch.report().reasons


def test_the_status_port_shows_both_parts_and_the_circuits(tmp_path: Path) -> None:
    from tests.support.running_gateway import free_port

    port = free_port()
    path = tmp_path / "tracejudge.toml"
    path.write_text(f'queue = "sqlite:///q.db"\nstore = "chdb:///store"\n[metrics]\nport = {port}\n')
    watch = Watch(consumer=True, alert_loop=True)
    assert watch.metrics is not None
    states = {"faithfulness": Availability(state="down", kind="timeout"), "lexical": AVAILABLE}
    watch.metrics.watch_circuits(lambda: states)
    with watch.over(load_settings(path)):
        body = json.load(urlopen(f"http://127.0.0.1:{port}/live", timeout=10))
        assert (body["live"], body["consumer"]["partitions"], body["alert_loop"]["leading"]) == (True, 0, False)
        text = urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10).read().decode()
        assert 'tracejudge_judge_circuit{judge="faithfulness",state="down"} 1.0' in text
        assert 'tracejudge_judge_circuit{judge="lexical",state="ok"} 1.0' in text
        states["faithfulness"] = AVAILABLE
        text = urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10).read().decode()
        assert 'tracejudge_judge_circuit{judge="faithfulness",state="down"} 0.0' in text


# -- logs --------------------------------------------------------------------------------------------------------------


def test_a_json_log_line_has_ids_as_fields_and_no_words_of_an_exception() -> None:
    try:
        raise ValueError("CANARY: somebody's question")
    except ValueError as error:
        caught = (type(error), error, error.__traceback__)
    record = logging.LogRecord("tracejudge.x", logging.ERROR, __file__, 1, "judge %r failed\non it", ("f",), caught)
    record.trace_id, record.judge, record.secret = "t-1", "f", "CANARY"
    line = JsonFormatter().format(record)
    assert "\n" not in line
    values = json.loads(line)
    assert values["message"] == "judge 'f' failed\non it"
    assert (values["trace_id"], values["judge"], values["level"], values["exception"]) == (
        "t-1",
        "f",
        "ERROR",
        "ValueError",
    )
    assert values["at"].endswith("Z")
    assert "test_watching.py" in values["raised_at"][-1]
    assert "CANARY" not in line
