"""Whether the memory of a replay stays flat, however many traces it goes through."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.bench.frame import Figure, Run, at_most, shown
from tests.bench.judging_sim import panel_of
from tests.bench.replay_bed import WORKERS, replay_of, stored
from tests.support.panels import llm_spec
from tracejudge.judging.calls.client import Completion, Message
from tracejudge.replay import ReplayReport
from tracejudge_consumer.process.collector import settled_heap

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


class Watch:
    """Notes the memory of this process after a fifth of the traces, and its peak from then on."""

    def __init__(self, traces: int) -> None:
        self._from = traces // 5
        self.early = self.peak = 0

    def __call__(self, report: ReplayReport) -> None:
        if report.done < self._from:
            return
        now = int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE
        self.early = self.early or now
        self.peak = max(self.peak, now)


class Forgetful:
    """A judge's model that passes everything and, unlike those of a script, remembers nothing: 5 MB of 40 000 calls."""

    stops_at_once: Final = True

    async def complete(self, messages: Sequence[Message]) -> Completion:
        await asyncio.sleep(0)
        return Completion(text="YES", input_tokens=100, output_tokens=1, model="simulated")

    async def close(self) -> None:
        """Nothing to close."""


def memory(run: Run) -> Iterator[Figure]:
    """The peak of this process over a whole replay, over what it was after a fifth."""
    traces = run.pick(50_000, 4_000)
    with stored(traces) as store:
        spec = llm_spec(concurrency=WORKERS, max_calls_per_h=10**9)
        watch = Watch(traces)
        with settled_heap():
            panel = panel_of(Forgetful(), workers=WORKERS)
            asyncio.run(replay_of(store, panel, spec, "flat", first=0, end=traces, watch=watch))
    yield at_most(f"2 memory of {traces} traces, peak over that after a fifth", [watch.peak / watch.early], 1.1)
    yield shown("  peak", [watch.peak / 1e6], unit="MB")
