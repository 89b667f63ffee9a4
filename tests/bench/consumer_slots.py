"""A slow judge's time: how much of what 50 slots of a long-tailed HTTP judge can give the consumer takes.

The floor is a bare pool of 50 workers that posts the same requests to the same server and does nothing else. Both rates
are taken in the middle of a run, from the server's own count, over many polls and batches of the consumer.
"""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import Callable

import aiohttp

from tests.bench.consumer_flow import Place, place
from tests.bench.frame import Figure, Run, at_least, shown
from tests.bench.labelled import labelled_traces
from tests.support.judge_process import JudgeProcess
from tracejudge.clock import SystemClock
from tracejudge.judging import JudgeSpec, NothingSpent, Panel
from tracejudge.sampling import SamplingPolicy
from tracejudge_consumer.intake.sqlite import SqliteIntake
from tracejudge_consumer.limits import PipelineLimits
from tracejudge_consumer.pipeline import Pipeline
from tracejudge_sdk.transports.sqlite_log import SqliteLog

SLOTS = 50
_SAYS = '{"unsupported": [], "verdict": "YES"}'
_OPTIONS = ("--content", _SAYS, "--latency-median-ms", "500", "--sigma", "0.8")
_WARM_UP = 0.1  # of the calls, before the rate is taken
_UNTIL = 0.8


def slots(run: Run) -> list[Figure]:
    """Rounds of both, each with a server of its own."""
    traces = labelled_traces(run.pick(2_500, 700))
    ratios, ours, floors = [], [], []
    for number in range(run.pick(3, 1)):
        with place(traces) as at:
            with JudgeProcess(*_OPTIONS, "--seed", str(number)) as judge:
                floor = _rate(judge, len(traces), lambda url: asyncio.run(_pool(url, at)))
            with JudgeProcess(*_OPTIONS, "--seed", str(number)) as judge:
                rate = _rate(judge, len(traces), lambda url: _consume(url, at))
        ratios.append(rate / floor)
        ours.append(rate)
        floors.append(floor)
    return [
        at_least(f"judged per second with {SLOTS} slots of a long-tailed judge, a bare pool = 1", ratios, 0.95),
        shown("the consumer", ours, unit="/s"),
        shown("the bare pool", floors, unit="/s"),
    ]


def _rate(judge: JudgeProcess, count: int, work: Callable[[str], None]) -> float:
    """Calls a second in the middle of `work`, by the server's count."""
    worker = threading.Thread(target=work, args=(judge.base_url,))
    worker.start()
    began, first = 0.0, 0
    rate = 0.0
    while worker.is_alive():
        now, calls = time.monotonic(), int(judge.stats()["calls"])
        if not began and calls >= _WARM_UP * count:
            began, first = now, calls
        if began and not rate and calls >= _UNTIL * count:
            rate = (calls - first) / (now - began)
        time.sleep(0.1)
    worker.join()
    assert rate, "the run ended before its middle"
    return rate


async def _pool(url: str, at: Place) -> None:
    prompts = iter(range(len(at.traces)))

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
    report = pipeline.run(until_idle=True)
    assert report.scored == len(at.traces), report
