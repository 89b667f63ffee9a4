"""What a replay costs beside judging: throughput, memory, makespan, the plan's time, and what a resumed one buys.

python -m tests.bench.replay [--quick] [--json] [--only throughput,makespan,...]
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final, NamedTuple

from tests.bench.frame import Figure, Run, at_least, at_most, main, shown
from tests.bench.judging_sim import Timed, latencies, list_schedule, panel_of
from tests.bench.replay_bed import WORKERS, replay_of, stored, trace_of
from tests.bench.replay_memory import memory
from tests.bench.replay_resume import resume
from tests.support.judge_process import JudgeProcess
from tests.support.panels import llm_spec
from tracejudge.clock import SystemClock
from tracejudge.judging import JudgeTask, Panel, PanelResult, VerdictCache, estimate
from tracejudge.replay import plan_judge
from tracejudge.scores import Outcome
from tracejudge_consumer.process.arena import share_one_arena
from tracejudge_consumer.process.collector import settled_heap

_AT_HAND: Final = 5_000


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
                    tasks = [trace_of(number) for number in range(start, min(end, start + _AT_HAND))]
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
                report = await replay_of(store, panel, spec, run_id, first=0, end=end)
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
                asyncio.run(replay_of(store, panel, spec, f"{name}-{number}-a", first=0, end=learned))
                known = store.calls.latencies_ms(spec.judge_id(), limit=learned)
                cost = estimate([spec], traces=[trace_of(k).trace for k in range(learned, whole)])[0]
                (expected, *_) = plan_judge(spec, cost, known).expected
                panel = panel_of(judge, workers=WORKERS)
                began = time.perf_counter()
                asyncio.run(replay_of(store, panel, spec, f"{name}-{number}-b", first=learned, end=whole))
                took = time.perf_counter() - began
                ideal = list_schedule(lengths[learned:], WORKERS)
                over_ideal.append(took / ideal)
                if name == "lognormal":
                    began = time.perf_counter()
                    asyncio.run(_slept(lengths[learned:]))
                    bare.append((time.perf_counter() - began) / ideal)
                    tasks, panel = [trace_of(k) for k in range(learned, whole)], panel_of(judge, workers=WORKERS)
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


CASES: Final = {"throughput": throughput, "memory": memory, "makespan": makespan, "resume": resume}

if __name__ == "__main__":
    share_one_arena()  # as the command line does
    sys.exit(main("replay", CASES))
