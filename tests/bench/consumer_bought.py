"""Verdicts bought over a chaos run on a real broker, against what had to be and what was in flight at its faults."""

from __future__ import annotations

import sys

from tests.bench.frame import Figure, Run, at_most, exactly, shown
from tests.support.chaos.run import Plan
from tests.support.chaos.run import run as chaos
from tests.support.kafka_broker import broker_or_reason


def bought(run: Run) -> list[Figure]:
    """`make chaos` is the long form of this. Raises RuntimeError where no broker of our own can be started."""
    broker = broker_or_reason()
    if isinstance(broker, str) or not broker.owned:
        raise RuntimeError(f"no broker to break: {broker if isinstance(broker, str) else 'it is not ours to kill'}")
    plan = Plan(seed=1, traces=run.pick(5_000, 700), each=run.pick(2, 1))
    with broker:
        outcome = chaos(plan, broker, say=lambda line: print(line, file=sys.stderr, flush=True))
    spent = outcome.findings.spent
    for fault in outcome.findings.faults:
        print(fault, file=sys.stderr)
    return [
        at_most("verdicts bought in a chaos run, what had to be + in flight = 1", [spent.bought / spent.allowed], 1.0),
        exactly("what the run lost or counted twice", len(outcome.findings.faults), 0),
        shown(
            "verdicts bought a trace",
            [spent.bought / spent.verdicts],
            note=f"{spent.bought} for {spent.verdicts} traces; in flight at kills and pauses "
            f"{spent.in_flight_at_kills}, on partitions lost {spent.in_flight_when_lost}",
        ),
    ]
