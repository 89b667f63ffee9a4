"""The same traces are judged, with the same chances, whoever reads them: two consumers, a rebalance, redelivery."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from tests.support.intakes import KafkaTestQueue, new_group
from tests.support.kafka_broker import KafkaBroker
from tests.support.running_pipeline import PATIENCE_S, Running, quick_limits
from tests.support.scripted_panel import ScriptedPanel
from tests.support.store_fixture import Databases
from tracejudge.sampling import Epoch, GovernedRates, SamplingPolicy, epoch_number
from tracejudge.scores import Decision
from tracejudge.store import SamplingEpoch, ScoreFilter, Store, open_store
from tracejudge.testing import make_trace
from tracejudge.testing.builders import START
from tracejudge_consumer.flow.pipeline import Pipeline
from tracejudge_consumer.intake import RawRecord
from tracejudge_sdk.codec import encode

pytestmark = pytest.mark.kafka

COUNT = 240
POLICY = SamplingPolicy.model_validate(
    {
        "judges": {"dear": 0.4, "cheap": 0.7},
        "strata": [{"name": "gold", "when": {"field": "tags.tier", "is": "gold"}, "rate": 0.9, "floor_per_h": 5}],
        "rules": [
            {"name": "errors", "when": {"field": "status", "is": "error"}, "rate": 1.0},
            {"name": "probes", "when": {"field": "query", "matches": "ping*"}, "never": True},
        ],
        "governors": [{"name": "budget", "judge": "dear", "max_per_h": 100}],
    }
)
TRACES = [
    make_trace(
        n,
        tags={"tier": "gold"} if n % 7 == 0 else {},
        status="error" if n % 11 == 0 else "ok",
        head_probability=0.5 if n % 2 else 1.0,
        **({"query": "ping"} if n % 13 == 0 else {}),
    )
    for n in range(COUNT)
]
EPOCHS = [(1, GovernedRates(scale=0.5)), (3, GovernedRates(scale=0.2, rules=0.6, floors={"gold": 0.5}))]
"""Rates from these minutes of event time on."""


@pytest.fixture
def stores(embedded_databases: Databases) -> Iterator[tuple[Store, Store]]:
    urls = [embedded_databases.take() for _ in range(2)]
    with open_store(urls[0]) as one, open_store(urls[1]) as other:
        yield one, other
    for url in urls:
        embedded_databases.give_back(url)


def insert_epochs(store: Store, epochs: list[tuple[int, GovernedRates]]) -> None:
    for minute, rates in epochs:
        starts_at = START + timedelta(minutes=minute)
        epoch = Epoch(number=epoch_number(starts_at), starts_at=starts_at, rates={"budget": rates})
        row = SamplingEpoch(epoch=epoch.number, starts_at=starts_at, rates=epoch.to_json(), decided_at=starts_at)
        store.sampling_epochs.insert(row)


def judged(store: Store) -> dict[tuple[str, str], tuple[str, float]]:
    """(trace id, judge) -> stratum and stored chance, of everything that has a score."""
    rows = [score for batch in store.scores.stream(ScoreFilter()) for score in batch]
    found = {(score.trace_id, score.judge_name): (score.stratum, score.inclusion_probability) for score in rows}
    assert len(found) == len(rows)
    return found


def unjudged(store: Store) -> dict[tuple[str, str], tuple[Decision, float]]:
    rows = store.query("SELECT trace_id, judge_name, decision, inclusion_probability FROM ledger FINAL")
    return {(row[0], row[1]): (Decision(row[2]), row[3]) for row in rows}


def test_two_runs_judge_the_same_traces_with_the_same_chances(
    kafka_broker: KafkaBroker, kafka_topic: str, stores: tuple[Store, Store]
) -> None:
    queue = KafkaTestQueue(kafka_broker.bootstrap, kafka_topic)
    rows = [(trace.trace_id.encode(), encode(trace), ()) for trace in TRACES]
    queue.append(rows[: COUNT // 2])
    insert_epochs(stores[0], EPOCHS)
    # The second run comes later: an epoch that was fixed since says nothing about these traces.
    insert_epochs(stores[1], [*EPOCHS, (60, GovernedRates(scale=0.001))])
    changed = threading.Condition()

    def checkpoint(_stage: str) -> None:
        with changed:
            changed.notify_all()

    def wait_until(condition: object) -> None:
        assert callable(condition)
        with changed:
            assert changed.wait_for(condition, PATIENCE_S), "it did not come to it"

    def member(store: Store, group: str, records: int, joined: threading.Event | None = None) -> Pipeline:
        intake = queue.reader(group)
        if joined is not None:
            poll = intake.poll

            def noting(**how: Any) -> list[RawRecord]:
                found = poll(**how)
                if intake.assignment():
                    joined.set()
                return found

            intake.poll = noting  # type: ignore[method-assign]
        return Pipeline(
            intake=intake,
            store=store,
            panel=ScriptedPanel("dear", "cheap"),
            policy=POLICY,
            limits=quick_limits(batch_records=records),
            checkpoint=checkpoint,
        )

    def stored(store: Store) -> int:
        counts = store.query("SELECT (SELECT count() FROM scores FINAL) + (SELECT count() FROM ledger FINAL)")
        return int(counts[0][0])

    first, group = stores[0], new_group()
    with Running(member(first, group, 10)) as one:
        wait_until(lambda: stored(first) > 40)
        joined = threading.Event()
        with Running(member(first, group, 7, joined)) as two:  # joins: the partitions move
            assert joined.wait(PATIENCE_S), "the second consumer got no partition"
            queue.append(rows[COUNT // 2 :])
            queue.append(rows[: COUNT // 3])  # a producer that sends again
            wait_until(lambda: stored(first) == 2 * COUNT)
            taken = two.stop()
        one.stop()
    assert taken.records > 0, "the second consumer had a part of it"
    before = judged(first)
    member(first, new_group(), 64).run(until_idle=True)  # all of it is delivered once more
    assert judged(first) == before

    second = stores[1]
    member(second, new_group(), 33).run(until_idle=True)
    assert judged(second) == before
    assert unjudged(second) == unjudged(first)
    chances = {chance for (_, judge), (_, chance) in before.items() if judge == "dear"}
    assert {0.4, 0.2, 0.08, 0.6, 1.0, 0.04} <= {round(chance, 12) for chance in chances}
    dear, cheap = ({trace for trace, judge in before if judge == name} for name in ("dear", "cheap"))
    assert dear < cheap
