"""Memory over a long backlog: a consumer in a process of its own, a slow judge, the store in another process.

    python -m tests.bench.consumer_memory LOG STORE_URL

is that consumer; it prints its resident memory in bytes after every thousand traces that are judged and stored.
"""

from __future__ import annotations

import asyncio
import resource
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.bench.consumer_flow import specs
from tests.bench.consumer_place import place
from tests.bench.frame import Figure, Run, at_most, shown
from tests.bench.labelled import labelled_traces
from tracejudge.clock import SystemClock
from tracejudge.judging import NothingSpent, Panel
from tracejudge.judging.calls.client import Completion, Message
from tracejudge.sampling import SamplingPolicy
from tracejudge.store import open_store
from tracejudge_consumer.flow.pipeline import Pipeline
from tracejudge_consumer.intake.sqlite import SqliteIntake
from tracejudge_consumer.limits import PipelineLimits
from tracejudge_consumer.process.collector import settled_heap
from tracejudge_consumer.report import PipelineReport
from tracejudge_sdk.transports.sqlite_log import SqliteLog

_EVERY: Final = 1_000
_JUDGE_S: Final = 0.1  # with 64 slots some 600 a second at most: below what the consumer could take on
_MB: Final = 1e6


class SlowCompleter:
    """A model that takes its time, so that the backlog presses against the bounds of what is in flight."""

    async def complete(self, messages: Sequence[Message]) -> Completion:
        await asyncio.sleep(_JUDGE_S)
        return Completion(text='{"unsupported": [], "verdict": "YES"}', input_tokens=700, output_tokens=12)

    async def close(self) -> None:
        """Nothing to close."""


def memory(run: Run) -> list[Figure]:
    """Growth of the resident memory from the 1 000th trace to the last one."""
    count = run.pick(100_000, 5_000)
    with place(labelled_traces(count)) as at:
        command = [sys.executable, "-W", "ignore", "-m", "tests.bench.consumer_memory", str(at.log), at.store_url]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])
        assert child.stdout is not None
        sizes = [int(line) for line in child.stdout]
        assert child.wait() == 0, "the consumer failed; its error is above"
    assert len(sizes) >= count // _EVERY - 1, sizes
    growth = [(size - sizes[0]) / _MB for size in sizes]
    return [
        at_most(f"resident memory's growth from trace 1 000 to {count:,}", [max(growth)], 64.0, unit="MB"),
        shown("resident memory at the end", [sizes[-1] / _MB], unit="MB"),
    ]


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def _thousands() -> Iterator[int]:
    judged = _EVERY
    while True:
        yield judged
        judged += _EVERY


def _consume(log: Path, store_url: str) -> None:
    thousands = _thousands()
    following = [next(thousands)]

    def look(report: PipelineReport) -> None:
        while report.scored >= following[0]:
            print(_resident_bytes(), flush=True)
            following[0] = next(thousands)

    with open_store(store_url) as store:
        judges = Panel(
            specs(),
            clock=SystemClock(),
            spend=NothingSpent(),
            environ={},
            make_completer=lambda _: SlowCompleter(),
        )
        pipeline = Pipeline(
            intake=SqliteIntake(SqliteLog(log), group=uuid.uuid4().hex),
            store=store,
            panel=judges,
            policy=SamplingPolicy(),
            limits=PipelineLimits(),
            progress=look,
        )
        with settled_heap():
            pipeline.run(until_idle=True)


if __name__ == "__main__":
    _consume(Path(sys.argv[1]), sys.argv[2])
