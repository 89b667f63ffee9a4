"""What the benches of a replay stand on: a store of made-up traces in a process of its own, and a replay of them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Final

from tests.support.panels import make_task
from tests.support.store_process import StoreProcess
from tracejudge.clock import SystemClock
from tracejudge.judging import JudgeSpec, JudgeTask, Panel, RunCaps
from tracejudge.replay import ReplayReport, Selection, StoreSource, open_run, replay
from tracejudge.store import Store, StoredTrace, TraceFilter, open_store
from tracejudge.testing import make_trace

START: Final = datetime(2026, 1, 1, tzinfo=timezone.utc)
WORKERS: Final = 16
_PASSAGE: Final = "The large plan allows ten users per account, and each of them may have two devices. " * 6


@contextmanager
def stored(traces: int) -> Iterator[Store]:
    """A store of so many traces, one a second, each with five passages, whose engine runs in a process of its own."""
    folder = Path(tempfile.mkdtemp(prefix="tracejudge-bench-"))
    try:
        url = f"chdb:///{folder / 'store'}"
        with StoreProcess(url) as engine:
            engine.hear()  # it has the folder: without that this process might be the first, and run the engine itself
            with open_store(url, settle_timeout_s=60.0) as store:
                store.migrate()
                _fill(store, traces)
                yield store
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _fill(store: Store, traces: int) -> None:
    for first in range(0, traces, 2000):
        batch = [trace_of(number) for number in range(first, min(traces, first + 2000))]
        store.traces.insert([StoredTrace(trace=one.trace, ingested_at=START) for one in batch])


def trace_of(number: int) -> JudgeTask:
    """The trace of this number, as a judge is asked about it."""
    nodes = [{"node_id": f"n-{number}-{k}", "text": f"{number}.{k}: {_PASSAGE}", "score": 0.5} for k in range(5)]
    at = START + timedelta(seconds=number)
    return make_task(make_trace(number, event_time=at, query=f"row-{number}: how many users?", source_nodes=nodes))


async def replay_of(
    store: Store,
    panel: Panel,
    spec: JudgeSpec,
    run_id: str,
    *,
    first: int,
    end: int,
    watch: Callable[[ReplayReport], None] | None = None,
) -> ReplayReport:
    """A run over the traces from `first` to before `end`; `watch` is told how far it is."""
    where = TraceFilter(start=START + timedelta(seconds=first), end=START + timedelta(seconds=end))
    clock = SystemClock()
    run = open_run(store, run_id, specs=[spec], selection=Selection(where=where), caps=RunCaps(), now=clock.now())
    return await replay(
        store,
        panel,
        specs=[spec],
        source=StoreSource(store, run.selection.where, asked=spec.asks_model),
        run=run,
        clock=clock,
        progress=watch or (lambda _: None),
    )
