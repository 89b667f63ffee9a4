"""What a replay costs beside judging: throughput, memory, makespan, the plan's time, and what a resumed one buys.

python -m tests.bench.replay [--quick] [--json] [--only throughput,makespan,...]
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Final, NamedTuple

from tests.bench.frame import Figure, Run, at_least, at_most, exactly, main, shown
from tests.bench.judging_sim import Timed, latencies, list_schedule, panel_of
from tests.support.judge_process import JudgeProcess
from tests.support.panels import llm_spec, make_task
from tests.support.store_process import StoreProcess
from tracejudge.clock import SystemClock
from tracejudge.judging import JudgeSpec, JudgeTask, Panel, PanelResult, RunCaps, VerdictCache, estimate
from tracejudge.judging.calls.client import Completion, Message
from tracejudge.replay import ReplayReport, Selection, StoreSource, open_run, plan_judge, replay
from tracejudge.scores import Outcome
from tracejudge.store import Store, StoredTrace, TraceFilter, open_store
from tracejudge.testing import make_trace
from tracejudge_consumer.process.collector import settled_heap

START: Final = datetime(2026, 1, 1, tzinfo=timezone.utc)
WORKERS: Final = 16
_AT_HAND: Final = 5_000
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
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
        batch = [_trace(number) for number in range(first, min(traces, first + 2000))]
        store.traces.insert([StoredTrace(trace=one.trace, ingested_at=START) for one in batch])


def _trace(number: int) -> JudgeTask:
    nodes = [{"node_id": f"n-{number}-{k}", "text": f"{number}.{k}: {_PASSAGE}", "score": 0.5} for k in range(5)]
    at = START + timedelta(seconds=number)
    return make_task(make_trace(number, event_time=at, query=f"row-{number}: how many users?", source_nodes=nodes))


async def _replay(
    store: Store, panel: Panel, spec: JudgeSpec, run_id: str, *, first: int, end: int, watch: Watch | None = None
) -> ReplayReport:
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


def throughput(run: Run) -> Iterator[Figure]:
    """Traces a second over HTTP, a judge that answers at once: the whole replay over the panel alone.

    A round is one replay of all traces, its opening and its end with it, between two halves of the panel alone on the
    same ones: so a machine that grows slower or quicker favours neither. The panel alone has its traces made 5000 at a
    time, outside its time. Neither keeps verdicts in the store for others, as the command does: that is shown beside.
    """
    traces, rounds = run.pick(50_000, 3_000), 3
    says = ("--instant", "--content", '{"unsupported": [], "verdict": "YES"}')
    with stored(traces) as store, JudgeProcess(*says) as judge:
        spec = llm_spec(base_url=judge.base_url, concurrency=WORKERS, max_calls_per_h=10**9)
        ratios, rates, cpu = [], [], []

        async def alone(first: int, end: int) -> Took:
            panel = Panel([spec], clock=SystemClock(), spend=store.calls, environ={}, cache=VerdictCache())
            took, passed = Took(0.0, 0.0), 0
            try:
                for start in range(first, end, _AT_HAND):
                    tasks = [_trace(number) for number in range(start, min(end, start + _AT_HAND))]
                    began = Took.begun()
                    passed += await _feed(panel, tasks)
                    took = took.and_since(began)
            finally:
                await panel.close()
            assert passed == end - first, passed
            return took

        async def whole(run_id: str, cache: VerdictCache, end: int = traces) -> Took:
            panel = Panel([spec], clock=SystemClock(), spend=store.calls, environ={}, cache=cache)
            try:
                began = Took.begun()
                report = await _replay(store, panel, spec, run_id, first=0, end=end)
                took = Took(0.0, 0.0).and_since(began)
            finally:
                await panel.close()
            assert report.passed == end, report
            return took

        for number in range(rounds):
            with settled_heap():  # as the command runs it
                before = asyncio.run(alone(0, traces // 2))
            with settled_heap():
                ours = asyncio.run(whole(f"run-{number}", VerdictCache()))
            with settled_heap():
                after = asyncio.run(alone(traces // 2, traces))
            ratios.append((before.wall_s + after.wall_s) / ours.wall_s)
            rates.append(traces / ours.wall_s)
            cpu.append((before.cpu_s + after.cpu_s) / ours.cpu_s)
        fifth = traces // 5
        with settled_heap():
            kept = asyncio.run(whole("kept", VerdictCache(store=store.verdict_cache), fifth))
        kept_over = (before.wall_s + after.wall_s) / traces * fifth / kept.wall_s
    yield at_least(
        f"1 {traces} stored traces, instant HTTP judge, x the panel alone",
        ratios,
        0.9,
        note="the panel alone has its traces in memory and drops each verdict: reading and storing are the difference",
    )
    yield shown("  traces replayed", rates, unit="/s")
    yield shown("  CPU of this process, panel alone over replay", cpu)
    yield shown("  a fifth of it with verdicts kept in the store, as the command has it", [kept_over])


class Took(NamedTuple):
    """Seconds, of the clock and of this process."""

    wall_s: float
    cpu_s: float

    @classmethod
    def begun(cls) -> Took:
        return cls(time.perf_counter(), time.process_time())

    def and_since(self, began: Took) -> Took:
        now = Took.begun()
        return Took(self.wall_s + now.wall_s - began.wall_s, self.cpu_s + now.cpu_s - began.cpu_s)


async def _feed(panel: Panel, tasks: Sequence[JudgeTask]) -> int:
    """The panel alone, at its best: batches of 50, always enough of them, each verdict handed on as a replay has it."""
    gate = asyncio.Semaphore(2)
    passed = 0

    def judged(_: int, result: PanelResult) -> None:
        nonlocal passed
        passed += result.scores[0].outcome is Outcome.PASSED

    async def one(batch: Sequence[JudgeTask]) -> None:
        async with gate:
            await panel.evaluate_each(batch, judged, run_id="alone")

    await asyncio.gather(*(one(tasks[start : start + 50]) for start in range(0, len(tasks), 50)))
    return passed


def memory(run: Run) -> Iterator[Figure]:
    """The peak of this process over a whole replay, over what it was after a fifth."""
    traces = run.pick(50_000, 4_000)
    with stored(traces) as store:
        spec = llm_spec(concurrency=WORKERS, max_calls_per_h=10**9)
        watch = Watch(traces)
        with settled_heap():
            panel = panel_of(Forgetful(), workers=WORKERS)
            asyncio.run(_replay(store, panel, spec, "flat", first=0, end=traces, watch=watch))
    yield at_most(f"2 memory of {traces} traces, peak over that after a fifth", [watch.peak / watch.early], 1.1)
    yield shown("  peak", [watch.peak / 1e6], unit="MB")


def makespan(run: Run) -> Iterator[Figure]:
    """Lognormal and steady judges: how long a replay takes over the ideal, and over what its plan said."""
    learned, traces, rounds = 400, run.pick(4_000, 800), run.pick(3, 1)
    with stored(learned + traces) as store:
        for name in ("lognormal", "steady"):
            over_ideal, over_plan, bare, engine = [], [], [], []
            for number in range(rounds):
                whole = learned + traces
                lengths = latencies(whole, seed=11 + number) if name == "lognormal" else [0.08] * whole
                judge = Timed(_sleeper(lengths))
                spec = llm_spec(concurrency=WORKERS, max_calls_per_h=10**9)
                # What the first ones took is what the plan of the others knows.
                panel = panel_of(judge, workers=WORKERS)
                asyncio.run(_replay(store, panel, spec, f"{name}-{number}-a", first=0, end=learned))
                known = store.calls.latencies_ms(spec.judge_id(), limit=learned)
                cost = estimate([spec], traces=[_trace(k).trace for k in range(learned, whole)])[0]
                (expected, *_) = plan_judge(spec, cost, known).expected
                panel = panel_of(judge, workers=WORKERS)
                began = time.perf_counter()
                asyncio.run(_replay(store, panel, spec, f"{name}-{number}-b", first=learned, end=whole))
                took = time.perf_counter() - began
                ideal = list_schedule(lengths[learned:], WORKERS)
                over_ideal.append(took / ideal)
                if name == "lognormal":
                    began = time.perf_counter()
                    asyncio.run(_slept(lengths[learned:]))
                    bare.append((time.perf_counter() - began) / ideal)
                    tasks, panel = [_trace(k) for k in range(learned, whole)], panel_of(judge, workers=WORKERS)
                    began = time.perf_counter()
                    asyncio.run(_feed(panel, tasks))
                    engine.append((time.perf_counter() - began) / ideal)
                over_plan.append(took / expected.seconds)
            if name == "lognormal":
                yield at_most("3 lognormal judge, makespan over list scheduling", over_ideal, 1.05)
                yield shown("  the same of bare sleepers: what this machine adds today", bare)
                yield shown("  the same of the panel alone", engine)
                yield shown("  lognormal judge, measured over planned", over_plan)
            else:
                off = [abs(ratio - 1.0) for ratio in over_plan]
                yield at_most("4 steady judge, planned time off the measured", off, 0.15)


async def _slept(lengths: Sequence[float]) -> None:
    """As many workers as the judge has, which do nothing but sleep."""
    left = iter(lengths)

    async def worker() -> None:
        for length in left:
            await asyncio.sleep(length)

    await asyncio.gather(*(worker() for _ in range(WORKERS)))


def _sleeper(lengths: Sequence[float]) -> Callable[[int, int], Awaitable[None]]:
    async def reply(row: int, call: int) -> None:
        await asyncio.sleep(lengths[row])

    return reply


def resume(run: Run) -> Iterator[Figure]:
    """A replay that is broken off three times: verdicts that were settled by then and are bought again."""
    traces = run.pick(6_000, 900)
    with stored(traces) as store:
        asked: list[int] = []

        async def reply(row: int, call: int) -> None:
            asked.append(row)
            if stop_at[-1] == len(asked):
                stopping[-1].cancel()
            await asyncio.sleep(0.001)

        stop_at: list[int] = []
        stopping: list[asyncio.Task[ReplayReport]] = []
        judge = Timed(reply)
        spec = llm_spec(concurrency=WORKERS, max_calls_per_h=10**9)
        again = 0

        async def broken_off(after: int) -> None:
            stop_at.append(len(asked) + after)
            work = _replay(store, panel_of(judge, workers=WORKERS), spec, "resumed", first=0, end=traces)
            stopping.append(asyncio.create_task(work))
            await asyncio.gather(stopping[-1], return_exceptions=True)

        for _ in range(3):
            before = _settled(store)
            place = len(asked)
            asyncio.run(broken_off(traces // 5))
            again += len(before.intersection(asked[place:]))
        before, place = _settled(store), len(asked)
        report = asyncio.run(_replay(store, panel_of(judge, workers=WORKERS), spec, "resumed", first=0, end=traces))
        again += len(before.intersection(asked[place:]))
        missed = traces - len(_settled(store))
        assert report.complete
    yield exactly("5 settled verdicts bought again by a resumed run", again, 0)
    yield exactly("6 traces missed by a resumed run", missed, 0)
    yield shown("  calls of all attempts, x traces", [len(asked) / traces])


def _settled(store: Store) -> set[int]:
    rows = store.query("SELECT trace_id FROM scores FINAL WHERE run_id = 'resumed' AND outcome != 'invalid'")
    return {int(row[0].removeprefix("t-")) for row in rows}


CASES: Final = {"throughput": throughput, "memory": memory, "makespan": makespan, "resume": resume}

if __name__ == "__main__":
    sys.exit(main("replay", CASES))
