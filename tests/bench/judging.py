"""What judging costs beside the judge: overhead, makespan, rate limits, capacity, duplicates, CPU of a call, cache.

python -m tests.bench.judging [--quick] [--json] [--only overhead,makespan,...]

TRACEJUDGE_DATA names the folder of the labelled sets, whose real texts `overhead`, `http`, `cache` and `lexical` use.
"""

from __future__ import annotations

import asyncio
import gc
import random
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

from llama_index.core.base.llms.types import CompletionResponse, CompletionResponseGen, LLMMetadata
from llama_index.core.evaluation import BatchEvalRunner, FaithfulnessEvaluator
from llama_index.core.llms.custom import CustomLLM

from tests.bench.fit_lexical import leave_one_out
from tests.bench.frame import Figure, Run, at_least, at_most, exactly, main, shown
from tests.bench.judging_peers import open_ai_like_cpu_s
from tests.bench.judging_sim import Capacity, Timed, feed, latencies, makespan, panel_of, tasks_of
from tests.bench.labelled import labelled_traces
from tests.support.judge_process import JudgeProcess
from tests.support.panels import llm_spec, make_task
from tests.support.virtual_time import LoneCoreLoop, VirtualLoop
from tracejudge.clock import SystemClock
from tracejudge.judging import JudgeTask, NothingSpent, Panel, VerdictCache, content_hash, evaluator_for
from tracejudge.judging.cache import CacheKey, Memory, Verdict
from tracejudge.judging.calls.client import Completion, Message, OpenAICompatible
from tracejudge.judging.calls.failures import CallError
from tracejudge.judging.replies.judgement import Judgement
from tracejudge.judging.responses import TraceResponse
from tracejudge.judging.runner import EvalRunner
from tracejudge.testing import make_trace

_VERDICT: Final = '{"unsupported": [], "verdict": "YES"}'
_BATCH: Final = 100


class _AtOnce(CustomLLM):
    """A LlamaIndex LLM that answers at once."""

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(context_window=128_000, num_output=256, model_name="fake")

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return CompletionResponse(text="YES")

    async def acomplete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return CompletionResponse(text="YES")

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseGen:
        # Abstract in LlamaIndex's base class; stock evaluators do not ask.
        raise NotImplementedError("nobody streams here")


class _Yes:
    """A model of ours that answers at once."""

    stops_at_once: Final = True

    async def complete(self, messages: Sequence[Message]) -> Completion:
        return Completion(text="YES")

    async def close(self) -> None:
        """Nothing to close."""


def overhead(run: Run) -> Iterator[Figure]:
    """Evaluations a CPU second, the judge answering at once: ours over BatchEvalRunner + FaithfulnessEvaluator."""
    traces = labelled_traces(run.pick(2_000, 500))
    stock_rows, rounds = run.pick(150, 60), run.pick(7, 3)
    queries, responses = [trace.query for trace in traces], [TraceResponse(trace) for trace in traces]
    for response in responses[:stock_rows]:
        _ = response.source_nodes  # built beforehand: stock is not charged for it
    spec = llm_spec(max_calls_per_h=10**9)
    runner = EvalRunner({"f": evaluator_for(spec, environ={}, make_completer=lambda spec: _Yes())}, workers=16)
    panel = panel_of(_Yes(), workers=16)
    tasks = [make_task(trace) for trace in traces]
    stock = BatchEvalRunner({"f": FaithfulnessEvaluator(llm=_AtOnce())}, workers=16)

    async def by_stock() -> None:
        await stock.aevaluate_responses(queries=queries[:stock_rows], responses=list(responses[:stock_rows]))

    async def by_runner() -> None:
        for start in range(0, len(traces), _BATCH):
            end = start + _BATCH
            await runner.aevaluate_responses(queries=queries[start:end], responses=list(responses[start:end]))

    async def by_panel() -> None:
        for start in range(0, len(tasks), _BATCH):
            await panel.evaluate(tasks[start : start + _BATCH])

    async def measured() -> dict[str, list[float]]:
        per_row: dict[str, list[float]] = {"stock": [], "runner": [], "panel": []}
        for _ in range(rounds + 1):
            for name, work, rows in (
                ("stock", by_stock, stock_rows),
                ("runner", by_runner, len(traces)),
                ("panel", by_panel, len(traces)),
            ):
                start = time.process_time()
                await work()
                per_row[name].append((time.process_time() - start) / rows)
        return {name: values[1:] for name, values in per_row.items()}  # the first round warms up

    found = asyncio.run(measured())
    stock_s = found["stock"]
    of_runner = [a / b for a, b in zip(stock_s, found["runner"], strict=True)]
    of_panel = [a / b for a, b in zip(stock_s, found["panel"], strict=True)]
    yield at_least("1 judge-free evaluations, aevaluate_responses, x stock", of_runner, 25.0)
    yield shown("  the same through the whole panel, rows and ids built, x stock", of_panel)
    yield shown("  CPU of one evaluation by ours", [1e6 * value for value in found["runner"]], unit="us")


def spans(run: Run) -> Iterator[Figure]:
    """Makespan over ideal list scheduling, fed in batches of 50."""
    for workers in (10, 50):
        seconds = latencies(run.pick(3_000, 30 * workers))
        rounds = run.pick(3 if workers == 50 else 1, 1)
        found = [makespan(seconds, workers=workers) for _ in range(rounds)]
        yield at_most(f"2 makespan / ideal, {len(seconds)} calls, {workers} workers", found, 1.03)
        yield shown(
            "  in virtual time: what the rules cost without a machine",
            [makespan(seconds, workers=workers, on=VirtualLoop)],
        )
        yield shown(
            "  the CPU of the panel on top: on a core of its own",
            [makespan(seconds, workers=workers, on=LoneCoreLoop) for _ in range(rounds)],
        )


def refusals(run: Run) -> Iterator[Figure]:
    """The same with 5 % of transient 429s."""
    for workers in (10, 50):
        seconds = latencies(run.pick(3_000, 30 * workers))
        rng = random.Random(17)
        refused = frozenset(row for row in range(len(seconds)) if rng.random() < 0.05)
        rounds = run.pick(3 if workers == 50 else 1, 1)
        found = [makespan(seconds, workers=workers, refused=refused) for _ in range(rounds)]
        yield at_most(f"3 makespan / ideal, 5 % of 429s, {workers} workers", found, 1.2)
        without = makespan(seconds, workers=workers, refused=refused, on=VirtualLoop)
        yield shown("  in virtual time", [without])


def capacity(run: Run) -> Iterator[Figure]:
    """A server that takes 40 calls at once, then 20, then 40."""
    phase_s, settle_s = float(run.pick(8, 3)), float(run.pick(2, 1))
    server = Capacity([(phase_s, 40), (phase_s, 20), (phase_s, 40)])
    mean_s = statistics.fmean(latencies(20_000))
    allowed = phase_s * (40 + 20 + 40) / mean_s

    async def measured() -> int:
        panel = panel_of(Timed(server.reply), workers=64)
        tasks = tasks_of(int(1.3 * allowed))
        server.begin()
        work = asyncio.ensure_future(feed(panel, tasks))
        await asyncio.wait({work}, timeout=3 * phase_s)
        answered = len(server.answered)
        work.cancel()
        return answered

    answered = asyncio.run(measured())
    refused = sum(at % phase_s > settle_s for at in server.refused)
    ok = sum(at % phase_s > settle_s for at in server.answered)
    yield at_least("3 throughput / what the server allows, capacity step", [answered / allowed], 0.85)
    yield at_most(f"  share of 429s, from {settle_s:g} s after each step", [refused / (refused + ok)], 0.05)


def rows(run: Run) -> Iterator[Figure]:
    """A row that always fails among 500; 200 requests of 80 contents."""

    async def poison(row: int, call: int) -> None:
        await asyncio.sleep(0.001)
        if row == 250:
            raise CallError("HTTP 500", status=500)

    judge = Timed(poison)
    results = asyncio.run(feed(panel_of(judge, workers=16), tasks_of(500)))
    settled = sum(score.outcome.settled for result in results for score in result.scores)
    yield exactly("4 results of 500 rows, one of them poison", settled, 499)
    yield exactly("  calls for the poison row (max_attempts 3)", judge.calls[250], 3)
    yield exactly("  calls for the other rows", sum(judge.calls.values()) - 3, 499)

    async def quick(row: int, call: int) -> None:
        await asyncio.sleep(0.001)

    rng = random.Random(3)
    contents = [*range(80), *(rng.randrange(80) for _ in range(120))]
    rng.shuffle(contents)
    tasks = [
        make_task(make_trace(n, trace_id=f"t{place}", query=f"row-{n}: what?")) for place, n in enumerate(contents)
    ]
    twins = Timed(quick)
    asyncio.run(feed(panel_of(twins, workers=16, cache=VerdictCache()), tasks))
    yield exactly("4 calls for 200 requests with 80 distinct contents", sum(twins.calls.values()), 80)


def http(run: Run) -> Iterator[Figure]:
    """CPU of one real HTTP call through the whole panel over that of OpenAILike.acomplete alone."""
    calls, peer_calls, rounds = run.pick(3_000, 600), run.pick(600, 200), run.pick(5, 2)
    traces = labelled_traces(calls)
    tasks = [make_task(trace) for trace in traces]
    with JudgeProcess("--content", _VERDICT) as server:
        spec = llm_spec(base_url=server.base_url, concurrency=16, max_calls_per_h=10**9)
        chars = _prompt_chars(traces[:50])

        async def ours() -> float:
            panel = Panel([spec], clock=SystemClock(), spend=NothingSpent(), environ={})
            await panel.evaluate(tasks[:50])
            start = time.process_time()
            for begin in range(0, len(tasks), _BATCH):
                await panel.evaluate(tasks[begin : begin + _BATCH])
            took = time.process_time() - start
            await panel.close()
            return took / len(tasks)

        pairs = []
        for _ in range(rounds):
            mine = asyncio.run(ours())
            pairs.append((mine, open_ai_like_cpu_s(server.base_url, prompt_chars=chars, calls=peer_calls, workers=16)))
    yield at_most("5 CPU of an HTTP judge call through the panel / OpenAILike", [a / b for a, b in pairs], 0.5)
    yield shown("  by the panel", [1e6 * a for a, _ in pairs], unit="us")
    yield shown("  by OpenAILike.acomplete alone", [1e6 * b for _, b in pairs], unit="us")


def cache(run: Run) -> Iterator[Figure]:
    """A verdict from memory over a judge call on loopback; 100 000 entries held.

    The hash of the content is shown beside it: every score row carries it, whether its verdict was remembered or not.
    """
    memory = Memory()
    verdict = Verdict(True, 1.0, "fine", _VERDICT, (), "judge", "")
    for number in range(100_000):
        memory.put(CacheKey(f"{number:032x}", "faithful@000000000000"), verdict)
    traces = labelled_traces(run.pick(1_000, 300))
    for trace in traces:
        memory.put(CacheKey(content_hash(trace), "faithful@000000000000"), verdict)
    held = VerdictCache(memory=memory)

    async def nobody() -> Judgement:
        raise AssertionError("everything is in memory")

    async def hits() -> tuple[float, float]:
        start = time.perf_counter()
        hashes = [content_hash(trace) for trace in traces]
        hashed = time.perf_counter()
        for one in hashes:
            await held.judged(CacheKey(one, "faithful@000000000000"), nobody)
        return (time.perf_counter() - hashed) / len(traces), (hashed - start) / len(traces)

    with JudgeProcess("--content", _VERDICT) as server:
        spec = llm_spec(base_url=server.base_url)
        messages = [Message("user", "x" * _prompt_chars(traces[:50]))]

        async def loopback() -> float:
            client = OpenAICompatible(spec, api_key=None)
            took = []
            for _ in range(run.pick(300, 100)):
                start = time.perf_counter()
                await client.complete(messages)
                took.append(time.perf_counter() - start)
            await client.close()
            return statistics.median(took)

        async def spared() -> float:
            panel = Panel([spec], clock=SystemClock(), spend=NothingSpent(), environ={})
            took = []
            for trace in traces[: run.pick(300, 100)]:
                start = time.perf_counter()
                await panel.evaluate([make_task(trace)])
                took.append(time.perf_counter() - start)
            await panel.close()
            return statistics.median(took)

        found = [(asyncio.run(hits()), asyncio.run(loopback()), asyncio.run(spared())) for _ in range(run.pick(5, 3))]
    yield at_most("6 hit in memory / loopback judge call, 100 000 held", [hit / b for (hit, _), b, _ in found], 0.02)
    yield shown("  with the hash of the content", [(hit + hashed) / b for (hit, hashed), b, _ in found])
    yield shown(
        "  the latter over the whole evaluation that a hit spares",
        [(hit + hashed) / c for (hit, hashed), _, c in found],
    )
    yield shown("  hit", [1e6 * hit for (hit, _), _, _ in found], unit="us")
    yield shown("  hash of the content", [1e6 * hashed for (_, hashed), _, _ in found], unit="us")
    yield shown("  the client's call alone", [1e6 * b for _, b, _ in found], unit="us")
    yield exactly("  entries held", len(memory), 100_000)


def lexical(run: Run) -> Iterator[Figure]:
    """The shipped rows, each set left out of its own fit."""
    found = leave_one_out()
    yield at_least("7 lexical: mean AUC, leave one set out", [found.auc], 0.76)
    yield at_least("7 lexical: mean balanced accuracy", [found.balanced_accuracy], 0.67)
    yield shown("  the response's length alone: mean AUC", [found.length_auc])
    yield at_most("  CPU of one trace", [found.ms_per_trace], 1.0, unit="ms")


def _prompt_chars(traces: Sequence[Any]) -> int:
    """Characters of the request that the panel sends for such traces, on average."""
    seen: list[int] = []

    class Seen(_Yes):
        async def complete(self, messages: Sequence[Message]) -> Completion:
            seen.append(sum(len(message.content) for message in messages))
            return await super().complete(messages)

    tasks: list[JudgeTask] = [make_task(trace) for trace in traces]
    asyncio.run(panel_of(Seen(), workers=4).evaluate(tasks))
    return round(statistics.fmean(seen))


CASES: Final = {
    "overhead": overhead,
    "makespan": spans,
    "refusals": refusals,
    "capacity": capacity,
    "rows": rows,
    "http": http,
    "cache": cache,
    "lexical": lexical,
}

if __name__ == "__main__":
    # What was imported is not looked at again by every collection: it would be charged to whoever runs first.
    gc.collect()
    gc.freeze()
    sys.exit(main("judging", CASES))
