"""End to end per core: the whole consumer with an instant judge, against LlamaIndex's own runner and evaluator.

Both read the same records of real texts from a SQLite log, decode them and store scores in the same store, which is a
process of its own (its CPU counts for neither; ours stores the traces too). Both judges answer at once: what is
measured is everything around the model. CPU time of the process, so that a busy machine disturbs little.
"""

from __future__ import annotations

import asyncio
import statistics
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Final

from tests.bench.consumer_place import Place, place
from tests.bench.consumer_stock import stock
from tests.bench.frame import Figure, Run, at_least, at_most, shown
from tests.bench.labelled import labelled_traces
from tracejudge.clock import SystemClock
from tracejudge.judging import JudgeSpec, JudgeTask, NothingSpent, Panel, PanelResult, VerdictCache
from tracejudge.judging.calls.client import Completion, Message
from tracejudge.sampling import SamplingPolicy
from tracejudge.signals import signals_of
from tracejudge.signals.word_signals import WORDS
from tracejudge.store import Store, StoredTrace
from tracejudge_consumer.flow.pipeline import Pipeline
from tracejudge_consumer.intake.sqlite import SqliteIntake
from tracejudge_consumer.limits import PipelineLimits
from tracejudge_consumer.process.collector import settled_heap
from tracejudge_consumer.stages.questions import TOGETHER
from tracejudge_sdk.codec import decode, encode
from tracejudge_sdk.transports.sqlite_log import SqliteLog

_STOCK_SHARE: Final = 10  # of the traces, one in so many: the stock evaluator takes that much longer


class InstantCompleter:
    """A model that answers at once."""

    stops_at_once = True  # as the HTTP client does: it needs no task of its own to be left behind

    async def complete(self, messages: Sequence[Message]) -> Completion:
        return Completion(
            text='{"unsupported": [], "verdict": "YES"}', input_tokens=700, output_tokens=12, model="judge"
        )

    async def close(self) -> None:
        """Nothing to close."""


def specs() -> list[JudgeSpec]:
    """A judge by a model, without any cap that could be reached."""
    base_url = "http://127.0.0.1:9/v1"
    return [
        JudgeSpec(
            name="faithful",
            kind="faithfulness",
            base_url=base_url,
            model="judge",
            max_calls_per_h=10**9,
            concurrency=64,
        )
    ]


def panel(kept_in: Store | None = None) -> Panel:
    """The judge, with its verdicts kept in a store, or without."""
    return Panel(
        specs(),
        clock=SystemClock(),
        spend=NothingSpent(),
        environ={},
        cache=VerdictCache(store=kept_in.verdict_cache) if kept_in is not None else None,
        make_completer=lambda _: InstantCompleter(),
    )


def ours(at: Place, *, kept: bool = False) -> float:
    """CPU seconds per trace of the whole pipeline; with `kept` verdicts it is as the command wires it."""
    pipeline = Pipeline(
        intake=SqliteIntake(SqliteLog(at.log), group=uuid.uuid4().hex),
        store=at.store,
        panel=panel(at.store if kept else None),
        policy=SamplingPolicy(),
        limits=PipelineLimits(lag_interval_s=0.2),
    )
    WORDS.forget_passages()  # those of an earlier round: passages come again within one, as they do in traffic
    with settled_heap():  # as `tracejudge consume` does
        began = time.process_time()
        report = pipeline.run(until_idle=True)
        spent = time.process_time() - began
    assert report.scored == len(at.traces), report
    return spent / len(at.traces)


@dataclass(frozen=True, kw_only=True)
class Parts:
    """CPU seconds per trace of what is not our own code around it: measured alone, on the same traces."""

    decode: float
    runner: float
    insert: float


def parts(at: Place) -> Parts:
    """Reading the records; judging them through the runner as the pipeline asks; inserting the same rows in the same
    batches, the index's lookup included."""
    raw = [encode(trace) for trace in at.traces]
    count = len(raw)
    began = time.process_time()
    for one in raw:
        decode(one)
    decoding = time.process_time() - began
    tasks = [
        JudgeTask(
            trace=trace,
            judge_names=frozenset({"faithful"}),
            inclusion_probability={"faithful": 1.0},
            event_time=trace.event_time,
        )
        for trace in at.traces
    ]
    judges = panel()

    async def judge() -> list[PanelResult]:
        found: list[PanelResult] = []
        for start in range(0, count, TOGETHER):
            await judges.evaluate_each(tasks[start : start + TOGETHER], lambda _, result: found.append(result))
        await judges.close()
        return found

    with settled_heap():
        began = time.process_time()
        results = asyncio.run(judge())
        judging = time.process_time() - began
    now = datetime.now(timezone.utc)
    stored = [
        StoredTrace(trace=trace, signals=signals.as_dict(), ingested_at=now, source="bench", offset=n)
        for n, (trace, signals) in enumerate(zip(at.traces, signals_of(at.traces), strict=True))
    ]
    batch = PipelineLimits().batch_records
    with settled_heap():
        began = time.process_time()
        for start in range(0, count, batch):
            some = results[start : start + batch]
            at.store.lookup([one.key for one in stored[start : start + batch]])
            at.store.traces.insert(stored[start : start + batch])
            at.store.calls.insert([row for one in some for row in one.calls])
            at.store.scores.insert([row for one in some for row in one.scores])
        inserting = time.process_time() - began
    return Parts(decode=decoding / count, runner=judging / count, insert=inserting / count)


def flow(run: Run) -> list[Figure]:
    """Both, in turns."""
    traces = labelled_traces(run.pick(3_000, 500))
    count = max(50, len(traces) // _STOCK_SHARE)
    ratios, shares, own_us, stock_us, floors, kept = [], [], [], [], [], []
    found: list[Parts] = []
    with place(traces[:100]) as warm:  # imports, the driver's first questions to the store
        ours(warm)
        stock(warm, 10)
    for _ in range(run.pick(5, 2)):
        with place(traces) as at:
            mine, theirs = ours(at), stock(at, count)
        with place(traces) as at:
            kept.append(theirs / ours(at, kept=True))
        with place(traces) as at:
            alone = parts(at)
        found.append(alone)
        ratios.append(theirs / mine)
        least = alone.decode + alone.runner + alone.insert
        floors.append(theirs / least)
        shares.append(max(0.0, 1.0 - least / mine))
        own_us.append(mine * 1e6)
        stock_us.append(theirs * 1e6)
    split = {
        name: statistics.median(getattr(one, name) for one in found) * 1e6 for name in ("decode", "runner", "insert")
    }
    note = ", ".join(f"{name} {value:.0f} us" for name, value in split.items())
    return [
        at_least("end to end per core, stock BatchEvalRunner + Faithfulness = 1", ratios, 10.0),
        at_most("our own code outside runner, decode and insert, share of CPU", shares, 0.25, note=note),
        shown("end to end per core, verdicts kept in the store, as the command has it", kept),
        shown("end to end per core, if nothing but decode, runner and insert cost anything", floors),
        shown("the consumer's CPU per trace", own_us, unit="us"),
        shown("stock's CPU per trace", stock_us, unit="us"),
    ]
