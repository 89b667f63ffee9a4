"""The pipeline as a member of a real consumer group: rebalances, slow judges, kills; nothing lost, nothing twice."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, TopicPartition

from tests.support.crash_consumer import KILLED, CrashSettings, asked_in, start
from tests.support.intakes import QUICK_GROUP, KafkaTestQueue, new_group
from tests.support.kafka.process import GuardedProcess
from tests.support.kafka_broker import KafkaBroker
from tests.support.memory_store import MemoryStore
from tests.support.running_pipeline import PATIENCE_S, Running, Stages, quick_limits
from tests.support.scripted_panel import ScriptedPanel
from tracejudge.sampling import SamplingPolicy
from tracejudge.scores import Outcome
from tracejudge.store import ScoreFilter, Store, open_store
from tracejudge.testing import make_trace
from tracejudge_consumer.flow.pipeline import Pipeline
from tracejudge_consumer.intake.kafka import KafkaIntake
from tracejudge_consumer.stages.checkpoints import Stage
from tracejudge_consumer.stages.needs import PipelineStore
from tracejudge_sdk.codec import encode

pytestmark = pytest.mark.kafka


class Group:
    """Pipelines of one group on one topic and one store."""

    def __init__(self, queue: KafkaTestQueue, store: MemoryStore) -> None:
        self.queue = queue
        self.store = store
        self.name = new_group()

    def member(
        self,
        panel: ScriptedPanel,
        *,
        limits: dict[str, Any] | None = None,
        options: dict[str, Any] | None = None,
        store: PipelineStore | None = None,
        **more: Any,
    ) -> tuple[KafkaIntake, Pipeline]:
        intake = self.queue.reader(self.name, **(options or {}))
        pipeline = Pipeline(
            intake=intake,
            store=store or self.store,
            panel=panel,
            policy=SamplingPolicy(),
            limits=quick_limits(**(limits or {})),
            **more,
        )
        return intake, pipeline

    def committed(self) -> int:
        """The sum over the partitions: as many records as are done."""
        with KafkaAdminClient(bootstrap_servers=self.queue.bootstrap) as admin:
            offsets = admin.list_group_offsets({self.name: [TopicPartition(self.queue.topic, n) for n in range(2)]})
        return sum(max(0, one.offset) for one in offsets[self.name].values())


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def group(kafka_broker: KafkaBroker, kafka_topic: str, store: MemoryStore) -> Group:
    return Group(KafkaTestQueue(kafka_broker.bootstrap, kafka_topic), store)


def send(group: Group, numbers: range) -> None:
    traces = [make_trace(number) for number in numbers]
    group.queue.append([(trace.trace_id.encode(), encode(trace), ()) for trace in traces])


class Seen:
    """A checkpoint that wakes whoever waits for a condition."""

    def __init__(self) -> None:
        self._changed = threading.Condition()

    def __call__(self, stage: str) -> None:
        with self._changed:
            self._changed.notify_all()

    def wait_until(self, condition: Callable[[], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(condition, PATIENCE_S), "it did not come to it"


def test_a_topic_is_read_to_its_end_and_all_of_it_committed(group: Group, store: MemoryStore) -> None:
    send(group, range(101))
    _, pipeline = group.member(ScriptedPanel())
    report = pipeline.run(until_idle=True)
    assert (report.records, report.scored, report.ended) == (101, 101, "idle")
    assert group.committed() == 101
    assert {row.source for row in store.traces.rows.values()} == {f"kafka:{group.queue.topic}"}


def test_redelivery_makes_no_judge_call(group: Group, store: MemoryStore) -> None:
    send(group, range(60))
    panel = ScriptedPanel()
    group.member(panel)[1].run(until_idle=True)
    group.name = new_group()
    report = group.member(panel)[1].run(until_idle=True)
    assert (report.settled, report.asked, report.scored) == (60, 0, 0)
    assert max(panel.asked.values()) == 1
    assert len(store.scores.rows) == 60


def test_b31_a_judge_slower_than_max_poll_interval_costs_no_membership(group: Group, store: MemoryStore) -> None:
    """Everything is paused for longer than the interval, and a second consumer joins in the middle."""
    send(group, range(40))
    go, asked = threading.Event(), threading.Event()

    def gate(task: object) -> threading.Event:
        asked.set()
        return go

    options = {"max_poll_interval_ms": 3_000}
    limits = {"max_in_flight_records": 10, "batch_records": 5}
    slow, seen = ScriptedPanel(gate=gate), Seen()
    intake, first = group.member(slow, limits=limits, options=options, checkpoint=seen)
    second_intake, second = group.member(ScriptedPanel(), options=options, checkpoint=seen)
    with Running(first) as one:
        assert asked.wait(PATIENCE_S)
        # Longer than the interval: a membership that polls would keep is lost without.
        threading.Event().wait(3.5)
        with Running(second) as two:
            # The keys fall 26 to 14 on the two partitions, and either may go to the second consumer.
            seen.wait_until(lambda: len(store.scores.rows) >= 14)
            assert len(intake.assignment()) == len(second_intake.assignment()) == 1
            go.set()
            seen.wait_until(lambda: len(store.scores.rows) == 40)
            two.stop()
        report = one.stop()
    assert intake.refused_commits == 0
    assert group.committed() == 40
    assert report.scored >= 10


def test_partitions_given_away_are_committed_first_and_nothing_is_judged_twice(
    group: Group, store: MemoryStore
) -> None:
    send(group, range(80))
    panel, other_panel, seen = ScriptedPanel(), ScriptedPanel(), Seen()
    # Commits on its own only at the end: what the second one does not read again was committed on revocation.
    intake, first = group.member(panel, limits={"commit_interval_s": 3_600}, checkpoint=seen)
    with Running(first) as one:
        seen.wait_until(lambda: len(store.scores.rows) == 80)
        assert group.committed() == 0
        second_intake, second = group.member(other_panel, checkpoint=seen)
        with Running(second) as two:
            send(group, range(80, 120))
            seen.wait_until(lambda: len(store.scores.rows) == 120 and len(second_intake.assignment()) == 1)
            two_report = two.stop()
        one.stop()
    assert two_report.settled == 0, "nothing came a second time"
    assert max((panel.asked + other_panel.asked).values()) == 1
    assert group.committed() == 120
    assert intake.refused_commits == 0


def test_a_broker_that_is_away_is_waited_for(
    restartable_kafka_broker: KafkaBroker, kafka_topic: str, store: MemoryStore
) -> None:
    group = Group(KafkaTestQueue(restartable_kafka_broker.bootstrap, kafka_topic), store)
    send(group, range(30))
    panel, seen = ScriptedPanel(), Stages()
    _, pipeline = group.member(panel, checkpoint=seen)
    with Running(pipeline) as running:
        seen.wait_for("committed")
        restartable_kafka_broker.restart(kill=True)
        send(group, range(30, 60))
        while len(store.scores.rows) < 60:
            seen.wait_for("scores_stored", seen.seen["scores_stored"] + 1)
        running.stop()
    assert max(panel.asked.values()) == 1
    assert group.committed() == 60


class Members:
    """Consumer processes of one group on one topic and one store, which this process serves."""

    def __init__(self, group: Group, folder: Path, store: Store, store_url: str) -> None:
        self.group = group
        self.folder = folder
        self.store = store
        self.store_url = store_url
        self.asked = folder / "asked.txt"

    def start(self, name: str, *, kill_at: tuple[Stage, int] | None = None) -> GuardedProcess:
        settings = CrashSettings(
            queue=f"kafka://{self.group.queue.bootstrap}/{self.group.queue.topic}",
            store=self.store_url,
            group=self.group.name,
            asked=str(self.asked),
            kill_at=kill_at,
            until_idle=False,
            limits={"batch_records": 10, "max_in_flight_records": 40},
            queue_options=QUICK_GROUP,
        )
        return start(settings, self.folder, name)

    def scored(self) -> dict[str, Outcome]:
        rows = [score for batch in self.store.scores.stream(ScoreFilter()) for score in batch]
        assert len({score.trace_id for score in rows}) == len(rows), "one score per trace"
        return {score.trace_id: score.outcome for score in rows}

    def wait_for_scores(self, count: int, *, looks: int = 600) -> None:
        for _ in range(looks):
            if len(self.scored()) >= count:
                return
            threading.Event().wait(0.1)  # the processes tell nobody how far they are but the store
        logs = "\n".join(path.read_text()[-2000:] for path in sorted(self.folder.glob("*.log")))
        raise AssertionError(f"{len(self.scored())} of {count} scores after a minute\n{logs}")


def test_of_two_consumers_one_is_killed_and_nothing_is_lost_and_nothing_comes_twice(
    group: Group, tmp_path: Path, store_url: str
) -> None:
    with open_store(store_url) as store:
        members = Members(group, tmp_path, store, store_url)
        stays = members.start("stays")
        dies = members.start("dies", kill_at=("judged", 2))
        sent = 0
        while dies.exit_status is None:
            assert sent < 4_000, "the second consumer got no partition"
            send(group, range(sent, sent + 40))
            sent += 40
            members.wait_for_scores(sent - 40)
        assert dies.exit_status == KILLED
        members.wait_for_scores(sent)
        assert stays.stop(PATIENCE_S), "SIGTERM ends it in order"
        assert members.scored() == {
            make_trace(n).trace_id: Outcome.PASSED if n % 3 else Outcome.FAILED for n in range(sent)
        }
        assert group.committed() == sent
        asked = asked_in(members.asked)
        assert len(asked) == sent
        assert asked.total() - sent <= 40, "only what was in flight at the kill was bought again"
        group.name = new_group()
        again = group.member(ScriptedPanel(), store=store)[1].run(until_idle=True)
        assert (again.records, again.settled, again.asked) == (sent, sent, 0)
