"""Partitions that move: what was not begun is left to the new owner, and who has lost a partition commits nothing."""

from __future__ import annotations

import threading

import pytest
from kafka import KafkaAdminClient, TopicPartition

from tests.support.intakes import KafkaTestQueue, Notes, new_group, next_offsets, read, values
from tests.support.kafka_broker import KafkaBroker
from tests.support.memory_store import MemoryStore
from tests.support.running_pipeline import PATIENCE_S, Running, quick_limits
from tests.support.scripted_panel import ScriptedPanel
from tracejudge.sampling import SamplingPolicy
from tracejudge.testing import make_trace
from tracejudge_consumer.flow.pipeline import Pipeline
from tracejudge_sdk.codec import encode

pytestmark = pytest.mark.kafka


@pytest.fixture
def queue(kafka_broker: KafkaBroker, kafka_topic: str) -> KafkaTestQueue:
    return KafkaTestQueue(kafka_broker.bootstrap, kafka_topic)


def committed(queue: KafkaTestQueue, group: str) -> dict[int, int]:
    with KafkaAdminClient(bootstrap_servers=queue.bootstrap) as admin:
        offsets = admin.list_group_offsets({group: [TopicPartition(queue.topic, n) for n in range(2)]})
    return {one.partition: found.offset for one, found in offsets[group].items() if found.offset >= 0}


def test_a_member_whose_generation_is_over_commits_nothing_and_learns_that_it_lost(queue: KafkaTestQueue) -> None:
    """It stopped polling for longer than the group waits; another one has read and committed more since."""
    queue.append(values("v", 20))
    group = new_group()
    late = queue.reader(group, max_poll_interval_ms=2_000)
    notes = Notes()
    late.listen(notes)
    taken = read(late, 6, max_records=6)
    assert len(taken) >= 6
    successor = queue.reader(group)
    try:
        found = []
        for _ in range(200):
            found += successor.poll(timeout_s=0.2, max_records=100)
            if len(found) == 20:
                break
        assert len(found) == 20, "the successor has both partitions, from their beginnings"
        assert successor.commit(next_offsets(found))
        assert not late.commit(next_offsets(taken))
        assert late.refused_commits == 1
        assert committed(queue, group) == {0: 10, 1: 10}
        for _ in range(200):
            assert late.poll(timeout_s=0.05, max_records=10) == [], "it reads nothing on the strength of what it had"
            successor.poll(timeout_s=0.05, max_records=10)
            if notes.taken:
                break
        assert notes.taken[0][0] == "lost"
    finally:
        late.close()
        successor.close()
    assert committed(queue, group) == {0: 10, 1: 10}


def test_what_was_not_put_to_a_judge_yet_is_left_to_the_new_owner_of_its_partition(queue: KafkaTestQueue) -> None:
    """Eighty in flight, two of them at the judge when a second consumer comes: only those can be bought twice."""
    traces = [make_trace(number) for number in range(80)]
    queue.append([(None, encode(trace), ()) for trace in traces])
    group, store = new_group(), MemoryStore()
    go, changed = threading.Event(), threading.Condition()

    def checkpoint(_stage: str) -> None:
        with changed:
            changed.notify_all()

    def wait_until(condition: object) -> None:
        assert callable(condition)
        with changed:
            assert changed.wait_for(condition, PATIENCE_S), "it did not come to it"

    slow, quick = ScriptedPanel(gate=lambda task: go), ScriptedPanel()

    def member(panel: ScriptedPanel) -> Pipeline:
        return Pipeline(
            intake=queue.reader(group),
            store=store,
            panel=panel,
            policy=SamplingPolicy(),
            limits=quick_limits(judge_in_flight=2),
            checkpoint=checkpoint,
        )

    with Running(member(slow)) as first:
        wait_until(lambda: len(store.traces.rows) == 80)
        with Running(member(quick)) as second:
            wait_until(lambda: len(store.scores.rows) >= 38)
            go.set()
            wait_until(lambda: len(store.scores.rows) == 80)
            second_report = second.stop()
        first_report = first.stop()
    asked = slow.asked + quick.asked
    assert len(asked) == 80
    assert asked.total() <= 80 + 2
    assert first_report.abandoned >= 38
    assert first_report.asked + second_report.asked == asked.total()
    assert committed(queue, group) == {0: 40, 1: 40}
