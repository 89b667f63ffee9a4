"""One working week of an alert, on a real broker: it fires for the one thing that went wrong, and for nothing else.

Labelled answers go through a topic with two partitions, the consumer with two judges (one over real HTTP), the store
and the alert loop. Event time is made: a day of traffic takes a second.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from tests.support.intakes import KafkaTestQueue
from tests.support.judge_reply import JudgeRequest, Reply, Script
from tests.support.judge_server import JudgeServer
from tests.support.kafka_broker import KafkaBroker
from tests.support.labelled_stream import STEP, UNFAITHFUL, labelled_stream
from tests.support.webhook import Receiver
from tests.support.workplace import Workplace
from tracejudge.datasets import Line, demo_lines, read_lines
from tracejudge.store import Store
from tracejudge_sdk.codec import encode
from tracejudge_sdk.trace import Trace

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

UNSUPPORTED = frozenset(line.trace.response or "" for line in read_lines(UNFAITHFUL) if isinstance(line, Line))
SETTINGS = """\
queue = "kafka://{bootstrap}/{topic}"
store = "{store}"
[[judges]]
name = "lexical"
kind = "lexical"
[[judges]]
name = "faithful"
kind = "faithfulness"
base_url = "{judge}"
model = "judge"
max_calls_per_h = 100000
temperature = {temperature}
[sampling.judges]
faithful = {rate}
{sampling}
[alert_loop]
settle_s = 0
[[rules]]
name = "drift"
type = "drift"
judge = "faithful"
min_drop = 0.05
[[rules]]
name = "minimum"
judge = "lexical"
minimum = 0.70
[[notifiers]]
type = "webhook"
url = "{webhook}"
allow_private = true
"""
SUSPICIOUS = """
[[sampling.rules]]
name = "suspicious"
when = { field = "signals.lexical_overlap", below = 0.5 }
rate = 1.0
"""


RESPONSES = [line.trace.response or "" for line in demo_lines()]


def judge(*, wrong_of_100: int) -> Script:
    """Fails what is unsupported, and so many of a hundred answers that are not: always the same ones."""
    unlucky = frozenset(RESPONSES[k] for k in range(len(RESPONSES)) if k % 100 < wrong_of_100)

    def script(request: JudgeRequest) -> Reply:
        failed = any(response in request.prompt for response in UNSUPPORTED | unlucky)
        return Reply("NO" if failed else "YES")

    return script


class Week:
    """Traffic, and what one was told of it."""

    def __init__(
        self,
        folder: Path,
        at: Workplace,
        queue: KafkaTestQueue,
        hook: Receiver,
        server: JudgeServer,
        **settings: Any,
    ) -> None:
        self.at, self.hook, self.server = at, hook, server
        self._folder, self._queue, self._settings = folder, queue, settings
        self.configure(rate=1.0, temperature=0.0, sampling="")

    def configure(self, **changes: Any) -> None:
        self._settings.update(changes)
        (self._folder / "tracejudge.toml").write_text(SETTINGS.format(**self._settings), encoding="utf-8")

    def serve(self, traces: list[Trace]) -> None:
        """Through the topic and the consumer into the store."""
        rows = [(trace.trace_id.encode(), encode(trace), ()) for trace in traces]
        self._queue.append(rows)
        report = self.at.json("consume", "--until-idle")
        assert (report["records"], report["dead_letters"]) == (len(traces), {})

    def told(self) -> list[dict[str, Any]]:
        """What the alert loop has told since the last time."""
        before = len(self.hook.bodies)
        self.at("watch", "--once")
        return self.hook.bodies[before:]

    def evidence_now(self) -> dict[str, Any]:
        """That of the one series that fires, of all that is judged by now."""
        (one,) = (one for one in self.at.json("alerts", "explain")["series"] if one["series"]["state"] == "firing")
        found: dict[str, Any] = one["evidence"]
        return found

    def kinds(self) -> list[str]:
        return [event["kind"] for event in self.told()]


@pytest.fixture
def week(
    tmp_path: Path,
    store_url: str,
    kafka_broker: KafkaBroker,
    kafka_topic: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Week]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tracejudge.store.leases.SETTLE_S", 0.005)
    queue = KafkaTestQueue(kafka_broker.bootstrap, kafka_topic)
    with JudgeServer(judge(wrong_of_100=3)) as server, Receiver() as hook:
        yield Week(
            tmp_path,
            Workplace(tmp_path, capsys, ""),
            queue,
            hook,
            server,
            bootstrap=kafka_broker.bootstrap,
            topic=kafka_topic,
            store=store_url,
            judge=server.base_url,
            webhook=hook.url,
        )


def of_app(traces: list[Trace], app: str, *, later: timedelta = timedelta()) -> list[Trace]:
    return [
        trace.model_copy(
            update={"app": app, "trace_id": f"{app}-{trace.trace_id}", "event_time": trace.event_time + later}
        )
        for trace in traces
    ]


def test_it_tells_the_fall_and_its_end_and_nothing_else(week: Week) -> None:
    start = datetime.now(timezone.utc).replace(microsecond=0) - timedelta(hours=60)
    night = timedelta(hours=9)
    stretches = [(600, True), (120, False), (420, True), (300, True), (200, True), (300, True), (300, True)]
    healthy, fallen, recovered, after_night, ill, new_judge, new_policy = labelled_stream(start, stretches)

    def day(traces: list[Trace], *, later: timedelta = timedelta()) -> None:
        """Served by the app that will fall and by its control, which never does."""
        control = [trace for trace in traces if trace.response not in UNSUPPORTED]
        week.serve([*of_app(traces, "shop", later=later), *of_app(control, "control", later=later)])

    day(healthy[:580])
    assert week.told() == [], "healthy"

    day(fallen)
    (fired,) = week.told()
    assert (fired["kind"], fired["series"]["app"], fired["series"]["rule"]) == ("firing", "shop", "drift")
    found = fired["evidence"]["slices"]["standing_out"]
    if not found:  # on a busy machine the two partitions may be judged in such an order that a dozen traces decide
        found = week.evidence_now()["slices"]["standing_out"]
    first = found[0]
    assert (first["attribute"], first["value"], first["kind"]) == ("category", "general", "within")
    began = datetime.fromisoformat(fired["evidence"]["started_about"])
    assert abs(began - fallen[0].event_time) < 20 * STEP

    day(recovered)
    assert week.kinds() == ["resolved"]

    day(after_night, later=night)
    assert week.told() == [], "an empty night"

    day(of_app(healthy[580:], "late"), later=timedelta())  # served hours ago
    assert week.told() == [], "late traces"

    week.server.script = lambda request: Reply("I would rather not say.")
    # Other questions than before: verdicts on equal content are remembered, and no judge is asked.
    day([trace.model_copy(update={"query": f"{trace.query} (please)"}) for trace in ill], later=night)
    kinds = {(event["kind"], event["series"]["judge_name"]) for event in week.told()}
    assert kinds == {("evaluator_unhealthy", "faithful")}, "the judge's errors are no bad answers"
    week.server.script = judge(wrong_of_100=15)
    week.configure(temperature=0.5)  # another JudgeId, and a stricter one
    day(new_judge, later=night)
    assert "firing" not in week.kinds(), "a new judge begins a series of its own"

    week.configure(rate=0.3, sampling=SUSPICIOUS)
    day(new_policy, later=night)
    assert "firing" not in week.kinds(), "what is sampled changed, not what is true"


def test_a_loop_killed_while_it_tells_repeats_at_most_what_was_in_transit(week: Week, store: Store) -> None:
    start = datetime.now(timezone.utc).replace(microsecond=0) - timedelta(hours=30)
    healthy, fallen, recovered = labelled_stream(start, [(600, True), (120, False), (420, True)])
    for traces in (healthy, fallen, recovered):
        week.serve(traces)
    kills = 0
    command = [sys.executable, "-m", "tracejudge_consumer.cli", "watch"]

    for _ in range(2):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def kill(pid: int = process.pid) -> None:
            os.kill(pid, signal.SIGKILL)

        week.hook.on_arrival = kill
        assert process.wait(timeout=120) == -signal.SIGKILL
        kills += 1
        store.command("TRUNCATE TABLE leases")  # as if the lease of the dead one had run out
    week.hook.on_arrival = lambda: None
    week.told()
    ids = Counter(body["event_id"] for body in week.hook.bodies)
    kinds = {body["event_id"]: body["kind"] for body in week.hook.bodies}
    assert sorted(kinds.values()) == ["firing", "resolved"]
    assert sum(ids.values()) <= len(ids) + kills
