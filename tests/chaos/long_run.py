"""`make chaos`: every kind of fault at least five times over twenty thousand traces, in some minutes.

    python -m tests.chaos.long_run --seed 7

Exit status 1 when something was lost, counted twice or bought twice, or when a fault did not happen often enough.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.support.chaos.run import Plan, run
from tests.support.chaos.table import table, too_few
from tests.support.kafka_broker import broker_or_reason

LEAST = 5


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.long_run", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of texts, verdicts, and the order of faults")
    parser.add_argument("--traces", type=int, default=20_000)
    parser.add_argument("--each", type=int, default=LEAST, help="how often each fault is injected")
    parser.add_argument("--logs", type=Path, help="where to leave the logs of the consumers")
    parser.add_argument("--commit-before-store", action="store_true", help="plant a fault of ours: the run must fail")
    asked = parser.parse_args()
    broker = broker_or_reason()
    if isinstance(broker, str) or not broker.owned:
        print(f"no broker to break: {broker if isinstance(broker, str) else 'it is not ours to kill'}")
        return 75
    plan = Plan(
        seed=asked.seed,
        traces=asked.traces,
        each=asked.each,
        planted=asked.commit_before_store,
        keep_logs=asked.logs,
    )
    with broker:
        outcome = run(plan, broker, say=lambda line: print(line, flush=True))
    least = min(LEAST, asked.each)
    print(table(outcome, least=least))
    return 1 if outcome.findings.faults or too_few(outcome, least=least) else 0


if __name__ == "__main__":
    sys.exit(main())
