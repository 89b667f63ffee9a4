"""One chaos run: the stream goes out in slices, a fault falls into each, and at the end everything is looked at."""

from __future__ import annotations

import contextlib
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

from tests.support.chaos.checks import Findings, look
from tests.support.chaos.faults import FAULTS, FaultName, Hands, schedule
from tests.support.chaos.fleet import Fleet, StoreOwner, copy_logs, wait_until
from tests.support.chaos.judge import ChaosJudge
from tests.support.chaos.proxy import StoreProxy
from tests.support.chaos.stream import BLOCK, FAITHFUL, PARTITIONS, Message, Stream
from tests.support.judge_server import JudgeServer
from tests.support.kafka_broker import KafkaBroker
from tracejudge.scores import TraceKey
from tracejudge.store import Store, open_store
from tracejudge.testing import make_trace

PLACES: Final = 3
RESTARTED: Final = "(consumer started again by its supervisor)"
_PATIENCE_S: Final = 120.0  # without any progress
_LOOKUP: Final = 1_000
_BUSY_PATIENCE_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to run. `each` is how often every injected fault happens."""

    seed: int
    traces: int
    each: int
    faults: Sequence[FaultName] = FAULTS
    planted: bool = False  # a fault of ours: offsets committed before the store has anything
    keep_logs: Path | None = None  # where to leave the logs of a run that found something


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a run found, and what it went through."""

    plan: Plan
    findings: Findings
    happened: Counter[str]
    seconds: float


@dataclass(kw_only=True)
class _Bought:
    """What consumers had in flight when they were killed or paused: (trace, judge) asked about and not settled."""

    store: Store
    judge: ChaosJudge
    in_flight: list[int] = field(default_factory=list)

    def caught(self, key: str) -> None:
        asked = sorted(self.judge.asked_by(key))
        settled = 0
        app, environment = make_trace(0, app="chaos").app, make_trace(0).environment
        for at in range(0, len(asked), _LOOKUP):
            keys = [TraceKey(environment, app, Stream.trace_id(number)) for number in asked[at : at + _LOOKUP]]
            known = self.store.lookup(keys)
            settled += sum(any(one.startswith(FAITHFUL) for one in found.settled) for found in known.values())
        self.in_flight.append(len(asked) - settled)


def run(plan: Plan, broker: KafkaBroker, *, say: Callable[[str], None] = lambda _: None) -> Outcome:
    """Carries the plan out on `broker`, which it restarts. Raises AssertionError where a process ends as it should not.

    `say` is told of each step.
    """
    started = time.monotonic()
    steps = schedule(plan.seed, each=plan.each, places=PLACES, faults=plan.faults)
    stream = Stream(seed=plan.seed, traces=plan.traces, slices=len(steps) + 1)
    slices = stream.messages()
    judge = ChaosJudge(stream)
    topic, group = f"chaos-{uuid.uuid4().hex[:8]}", f"chaos-{uuid.uuid4().hex[:8]}"
    broker.create_topic(topic, partitions=PARTITIONS)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tracejudge-chaos-")))
        if plan.keep_logs is not None:
            stack.enter_context(_kept(folder, plan.keep_logs))
        server = stack.enter_context(JudgeServer(judge, keep_requests=1))
        owner = StoreOwner(folder)
        stack.callback(owner.close)
        owner.start()
        owner.migrate()
        proxy = stack.enter_context(StoreProxy(owner.endpoint))
        store = stack.enter_context(open_store(proxy.url, settle_timeout_s=30.0))
        fleet = Fleet(folder=folder, places=PLACES, planted=plan.planted)
        stack.callback(fleet.kill_all)
        fleet.configure(bootstrap=broker.bootstrap, topic=topic, group=group, store=proxy.url, judge=server.base_url)
        fleet.start_all()
        bought = _Bought(store=store, judge=judge)
        hands = Hands(fleet=fleet, broker=broker, store=owner, proxy=proxy, caught=bought.caught)
        happened: Counter[str] = Counter()
        sent: list[Message] = []
        for number, (step, batch) in enumerate(zip(steps, slices, strict=False), start=1):
            before = judge.judged
            _send(broker, topic, batch)
            sent += batch
            goal = before + step.after * len({one.number for one in batch if not one.again})
            _wait_for_progress(judge, goal, fleet)
            seat = _busy_seat(step.seat, judge, fleet)
            hands.inject(step.fault, seat)
            happened[step.fault] += 1
            said = f"{step.fault} (place {seat})" if "consumer" in step.fault else step.fault
            elapsed = time.monotonic() - started
            say(f"{number:3}/{len(steps)}  {elapsed:5.0f} s  {judge.judged:6} of {plan.traces} judged  {said}")
        for batch in slices[len(steps) :]:
            _send(broker, topic, batch)
            sent += batch
        say(f"all sent after {time.monotonic() - started:.0f} s; reading to the end")
        ends = _Ends(broker.bootstrap, topic, group)
        wait_until(ends.left, patience_s=_PATIENCE_S, what="records to commit", meanwhile=fleet.supervise)
        fleet.stop_all()
        happened += _seen(stream, sent, judge, proxy)
        findings = look(
            stream,
            sent,
            store=store,
            bought=judge.bought(),
            late=judge.late,
            in_flight=bought.in_flight,
            lost=fleet.in_flight_when_lost(),
        )
        happened[RESTARTED] = fleet.restarts
        return Outcome(plan=plan, findings=findings, happened=happened, seconds=time.monotonic() - started)


def _seen(stream: Stream, sent: Sequence[Message], judge: ChaosJudge, proxy: StoreProxy) -> Counter[str]:
    """The faults that lie in the stream and in the judge, as often as they really came about."""
    storms, hangs = judge.troubled()
    return Counter(
        {
            "inserts cut before (connections)": proxy.broken["before"],
            "inserts cut after (connections)": proxy.broken["after"],
            "judge refuses a block of traces with 429": len({number // BLOCK for number in storms}),
            "judge hangs on a block of traces": len(
                {number // BLOCK for number in hangs if stream.trouble(number) == "hang"}
            ),
            "poison record": sum(one.number is None for one in sent),
            "duplicate delivery": sum(one.again for one in sent),
            "answer in two parts on two partitions": sum(stream.kind(n) == "parts" for n in range(stream.traces)),
        }
    )


def _wait_for_progress(judge: ChaosJudge, goal: float, fleet: Fleet) -> None:
    """Until so many traces have a verdict, or nothing has moved for a while (a planted fault loses traces)."""
    last, since = judge.judged, time.monotonic()
    while judge.judged < goal and time.monotonic() - since < 20.0:
        fleet.supervise()
        time.sleep(0.02)
        if judge.judged != last:
            last, since = judge.judged, time.monotonic()


def _busy_seat(wanted: int, judge: ChaosJudge, fleet: Fleet) -> int:
    """The seat asked for, once its consumer has work in hand; after a while whichever has."""
    since = time.monotonic()
    while True:
        asked = {seat: len(judge.asked_by(life.key)) for seat, life in fleet.seats.items()}
        time.sleep(0.1)
        busy = [seat for seat, life in fleet.seats.items() if len(judge.asked_by(life.key)) > asked.get(seat, 0)]
        if wanted in busy:
            return wanted
        if time.monotonic() - since > _BUSY_PATIENCE_S:
            return busy[0] if busy else wanted
        fleet.supervise()


def _send(broker: KafkaBroker, topic: str, batch: Sequence[Message]) -> None:
    producer: Any = KafkaProducer(bootstrap_servers=broker.bootstrap, acks="all", linger_ms=5)
    try:
        futures = [producer.send(topic, one.value, key=one.key, partition=one.partition) for one in batch]
        for future in futures:
            future.get(timeout=60)
    finally:
        producer.close(timeout=10)


class _Ends:
    """How much of what was sent the group has not committed."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self._bootstrap = bootstrap
        self._group = group
        self._partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        consumer: Any = KafkaConsumer(bootstrap_servers=bootstrap)
        self._ends = consumer.end_offsets(self._partitions)
        consumer.close()

    def left(self) -> int:
        """Records that are not committed yet."""
        with KafkaAdminClient(bootstrap_servers=self._bootstrap) as admin:
            found = admin.list_group_offsets({self._group: self._partitions})[self._group]
        return int(sum(max(0, self._ends[one] - max(0, found[one].offset)) for one in self._partitions))


@contextmanager
def _kept(folder: Path, target: Path) -> Iterator[None]:
    try:
        yield
    finally:
        copy_logs(folder, target)
