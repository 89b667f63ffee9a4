"""A slow judge's time: how much of what 50 slots of a long-tailed HTTP judge can give the consumer takes.

What the judge can give is 50 calls every mean time of a call. Latencies are long-tailed, so both are taken from the
server's own clock over the middle of a run, when many polls and batches come and go: the calls it answered in that
time, by the time these calls took in it. The server says so as the seconds its calls were in flight. A bare pool of 50
workers that posts the same requests and does nothing else is shown beside it.
"""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import Callable
from typing import NamedTuple

import aiohttp

from tests.bench.consumer_place import Place, place
from tests.bench.frame import Figure, Run, at_least, shown
from tests.bench.labelled import labelled_traces
from tests.support.judge_process import JudgeProcess
from tracejudge.clock import SystemClock
from tracejudge.judging import JudgeSpec, NothingSpent, Panel
from tracejudge.sampling import SamplingPolicy
from tracejudge_consumer.flow.pipeline import Pipeline
from tracejudge_consumer.intake.sqlite import SqliteIntake
from tracejudge_consumer.limits import PipelineLimits
from tracejudge_consumer.process.collector import settled_heap
from tracejudge_sdk.transports.sqlite_log import SqliteLog

SLOTS = 50
_SAYS = '{"unsupported": [], "verdict": "YES"}'
_OPTIONS = ("--content", _SAYS, "--latency-median-ms", "500", "--sigma", "0.8")
_WARM_UP = 0.15  # of the calls, before the rate is taken
_UNTIL = 0.85
_LOOK_S = 0.25


class Middle(NamedTuple):
    """The middle of a run, by the server's count."""

    calls_per_s: float
    share: float  # of what 50 slots can give


def slots(run: Run) -> list[Figure]:
    """Rounds of both, each with a server of its own."""
    traces = labelled_traces(run.pick(3_000, 1_200))
    mine, bare = [], []
    for number in range(run.pick(3, 1)):
        with place(traces) as at:
            with JudgeProcess(*_OPTIONS, "--seed", str(number)) as judge:
                mine.append(_middle(judge, len(traces), lambda url: _consume(url, at)))
            with JudgeProcess(*_OPTIONS, "--seed", str(number)) as judge:
                bare.append(_middle(judge, len(traces) // 2, lambda url: asyncio.run(_pool(url, at, len(traces) // 2))))
    return [
        at_least(
            f"throughput, what {SLOTS} slots of a long-tailed judge can give = 1", [one.share for one in mine], 0.95
        ),
        shown("the same of a bare pool", [one.share for one in bare]),
        shown("the consumer's verdicts", [one.calls_per_s for one in mine], unit="/s"),
        shown("the bare pool's answers", [one.calls_per_s for one in bare], unit="/s"),
    ]


def _middle(judge: JudgeProcess, count: int, work: Callable[[str], None]) -> Middle:
    """What the server saw in the middle of `work`."""
    worker = threading.Thread(target=work, args=(judge.base_url,))
    worker.start()
    first = last = None
    while worker.is_alive() and last is None:
        time.sleep(_LOOK_S)
        now = judge.load()
        if first is None and now.calls >= _WARM_UP * count:
            first = now
        if first is not None and now.calls >= _UNTIL * count:
            last = now
    worker.join()
    assert first is not None, "the run ended before it was warm"
    assert last is not None, "the run ended before its middle"
    elapsed_s = last.at_s - first.at_s
    return Middle((last.calls - first.calls) / elapsed_s, (last.busy_s - first.busy_s) / (SLOTS * elapsed_s))


async def _pool(url: str, at: Place, count: int) -> None:
    prompts = iter(range(count))

    async def work(session: aiohttp.ClientSession) -> None:
        for number in prompts:
            trace = at.traces[number]
            texts = "\n".join([trace.query, trace.response or "", *(node.text or "" for node in trace.source_nodes)])
            body = {"model": "judge", "messages": [{"role": "user", "content": f"{uuid.uuid4()} {texts}"}]}
            async with session.post(f"{url}/chat/completions", json=body) as answer:
                await answer.read()

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        await asyncio.gather(*(work(session) for _ in range(SLOTS)))


def _consume(url: str, at: Place) -> None:
    spec = JudgeSpec(
        name="faithful",
        kind="faithfulness",
        base_url=url,
        model="judge",
        max_calls_per_h=10**9,
        concurrency=SLOTS,
        timeout_s=60.0,
    )
    pipeline = Pipeline(
        intake=SqliteIntake(SqliteLog(at.log), group=uuid.uuid4().hex),
        store=at.store,
        panel=Panel([spec], clock=SystemClock(), spend=NothingSpent(), environ={}),
        policy=SamplingPolicy(),
        limits=PipelineLimits(lag_interval_s=0.2),
    )
    with settled_heap():  # as `tracejudge consume` does
        report = pipeline.run(until_idle=True)
    assert report.scored == len(at.traces), report
