"""Whose turn it is at an endpoint, how many at once, at which rate. In virtual time: the same in every run."""

from __future__ import annotations

import asyncio
import heapq
import math
import random
from collections.abc import Sequence
from typing import Any

import pytest

from tests.bench.judging_sim import MEDIAN_S, SIGMA, Timed, feed, latencies, list_schedule, tasks_of
from tests.support.panels import YES, llm_spec, make_panel, make_tasks
from tests.support.virtual_time import VirtualLoop, run_virtually
from tracejudge.judging import NothingSpent, Panel
from tracejudge.judging.calls.adaptive import PROBE_AFTER, REFUSALS, Concurrency
from tracejudge.judging.calls.client import Completion, Message
from tracejudge.judging.calls.failures import CallError
from tracejudge.judging.calls.limiter import Limiter
from tracejudge.judging.calls.pace import BURST_S, Pace
from tracejudge.testing import ManualClock
from tracejudge.testing.judges import ScriptedJudge

RATE_LIMITED = CallError("HTTP 429", status=429)


def virtual_panel(loop: VirtualLoop, judge: Any, **fields: Any) -> Panel:
    spec = llm_spec(**{"max_calls_per_h": 10**9, **fields})
    return Panel(
        [spec],
        clock=loop.clock,
        spend=NothingSpent(),
        environ={},
        make_completer=lambda spec: judge,
        sleep=asyncio.sleep,
    )


@pytest.mark.parametrize(("workers", "share", "most"), [(10, 0.0, 1.01), (10, 0.05, 1.1)])
def test_a_long_tailed_judge_keeps_every_slot_busy_though_one_call_in_twenty_is_refused_at_random(
    workers: int, share: float, most: float
) -> None:
    seconds, rng = latencies(600), random.Random(17)
    refused = {row for row in range(len(seconds)) if rng.random() < share}

    async def reply(row: int, call: int) -> None:
        await asyncio.sleep(seconds[row] if row < len(seconds) else 0.0)
        if row in refused and call == 1:
            raise RATE_LIMITED

    loop = VirtualLoop()

    async def run() -> float:
        panel = virtual_panel(loop, Timed(reply), concurrency=workers)
        await panel.evaluate(make_tasks([10**6]))
        start = loop.time()
        results = await feed(panel, tasks_of(len(seconds)))
        assert sum(len(result.scores) for result in results) == len(seconds)
        return loop.time() - start

    took = run_virtually(run(), loop)
    work = [one for row, one in enumerate(seconds) for _ in range(2 if row in refused else 1)]
    assert took <= most * list_schedule(work, workers)


@pytest.mark.parametrize("limits", [(20, 10, 20), (8, 4, 8)])
def test_a_limit_that_halves_and_doubles_is_followed_with_few_refusals(limits: Sequence[int]) -> None:
    phase_s, settle_s = 6.0, 2.0
    mean_s = MEDIAN_S * math.exp(SIGMA**2 / 2.0)
    rng, loop, open_calls = random.Random(5), VirtualLoop(), 0
    answered: list[float] = []
    refused: list[float] = []

    async def reply(row: int, call: int) -> None:
        nonlocal open_calls
        if open_calls >= limits[min(2, int(loop.time() / phase_s))]:
            refused.append(loop.time())
            await asyncio.sleep(0.002)
            raise RATE_LIMITED
        open_calls += 1
        await asyncio.sleep(rng.lognormvariate(math.log(MEDIAN_S), SIGMA))
        open_calls -= 1
        answered.append(loop.time())

    async def run() -> None:
        panel = virtual_panel(loop, Timed(reply), concurrency=64)
        allowed = phase_s * sum(limits) / mean_s
        work = asyncio.ensure_future(feed(panel, tasks_of(int(1.2 * allowed))))
        await asyncio.wait({work}, timeout=3 * phase_s)
        assert len(answered) >= 0.85 * allowed
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work

    run_virtually(run(), loop)
    late = [at for at in refused if at % phase_s > settle_s]
    assert len(late) <= 0.05 * (len(late) + len(answered))


def test_one_random_refusal_in_twenty_cuts_next_to_nothing() -> None:
    concurrency, rng = Concurrency(50), random.Random(1)
    lowest = 50
    for _ in range(5_000):
        if rng.random() < 0.05:
            concurrency.refused(in_flight=concurrency.limit - 1)
        else:
            concurrency.answered(0.1, busy=True)
        lowest = min(lowest, concurrency.limit)
    assert lowest >= 45


def test_a_share_of_refusals_sets_the_limit_to_what_the_endpoint_holds() -> None:
    concurrency = Concurrency(64)
    cut = [concurrency.refused(in_flight=24) for _ in range(REFUSALS)]
    assert cut == [False] * (REFUSALS - 1) + [True]
    assert concurrency.limit == 24


def test_refusals_that_ask_to_wait_weigh_twice() -> None:
    concurrency = Concurrency(64)
    cut = [concurrency.refused(in_flight=24, asked_to_wait=True) for _ in range(3)]
    assert cut == [False, False, True]


def test_the_limit_grows_by_one_a_round_and_never_beyond_its_most() -> None:
    concurrency = Concurrency(12)
    for _ in range(REFUSALS):
        concurrency.refused(in_flight=4)
    seen = []
    for _ in range(2_000):
        concurrency.answered(0.1, busy=True)
        seen.append(concurrency.limit)
    assert seen[3] == 5
    assert seen[3 + 5] == 6
    assert max(seen) == seen[-1] == 12


def test_where_it_was_refused_only_a_probe_goes_again_and_ends_with_the_first_refusal() -> None:
    concurrency = Concurrency(64)
    for _ in range(REFUSALS):
        concurrency.refused(in_flight=20)
    concurrency._refused_at = 21
    for _ in range(PROBE_AFTER - 1):
        concurrency.answered(0.1, busy=True)
    assert concurrency.limit == 20
    concurrency.answered(0.1, busy=True)
    assert concurrency.limit == 21
    concurrency.refused(in_flight=20)
    assert concurrency.limit == 20


def test_an_endpoint_that_queues_shows_by_its_latency() -> None:
    concurrency = Concurrency(40)
    for _ in range(400):
        concurrency.answered(0.1, busy=True)
    assert concurrency.limit == 40
    for _ in range(80):
        concurrency.answered(0.3, busy=True)
    assert concurrency.limit < 40
    # A model that simply became slower is believed, and the limit grows back.
    for _ in range(4_000):
        concurrency.answered(0.3, busy=True)
    assert concurrency.limit == 40


def test_an_idle_endpoint_shows_nothing_about_what_it_would_take() -> None:
    concurrency = Concurrency(40)
    for _ in range(REFUSALS):
        concurrency.refused(in_flight=4)
    for _ in range(1_000):
        concurrency.answered(0.1, busy=False)
    assert concurrency.limit == 4


async def test_live_traffic_goes_before_what_waits_in_the_background() -> None:
    limiter, order = Limiter(1), []

    async def one(name: str, *, background: bool) -> None:
        await limiter.acquire(background=background)
        order.append(name)
        limiter.release(background=background)

    await limiter.acquire()
    waiting = [asyncio.ensure_future(one(f"replay {n}", background=True)) for n in range(3)]
    await asyncio.sleep(0)
    waiting += [asyncio.ensure_future(one(f"live {n}", background=False)) for n in range(3)]
    await asyncio.sleep(0)
    limiter.release()
    await asyncio.gather(*waiting)
    assert order == ["live 0", "live 1", "live 2", "replay 0", "replay 1", "replay 2"]


async def test_a_replay_holds_half_of_the_slots_while_live_traffic_was_seen_and_all_when_it_was_not() -> None:
    clock = ManualClock()
    limiter = Limiter(8, clock=clock)

    async def most_held() -> int:
        held = 0
        tasks = [asyncio.ensure_future(limiter.acquire(background=True)) for _ in range(20)]
        await asyncio.sleep(0)
        held = limiter.in_flight
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for _ in range(held):
            limiter.release(background=True)
        return held

    assert await most_held() == 8
    await limiter.acquire()
    limiter.release()
    assert await most_held() == 4
    clock.advance(60)
    assert await most_held() == 8


async def test_a_replay_through_the_panel_yields_to_live_traffic() -> None:
    started: list[str] = []
    go_on = asyncio.Event()

    class Judge(ScriptedJudge):
        async def complete(self, messages: Sequence[Message]) -> Completion:
            started.append("live" if "plan 9" in messages[-1].content else "replay")
            await go_on.wait()
            return await super().complete(messages)

    panel = make_panel(llm_spec(concurrency=2), Judge(YES))
    go_on.set()
    await panel.evaluate(make_tasks([0]))
    go_on.clear()
    started.clear()
    replay = asyncio.ensure_future(panel.evaluate(make_tasks(range(10, 30)), run_id="replay-1"))
    await asyncio.sleep(0)
    live = asyncio.ensure_future(panel.evaluate(make_tasks(range(90, 100))))
    await asyncio.sleep(0)
    go_on.set()
    await asyncio.gather(replay, live)
    assert started.index("live") <= 2
    last_live = len(started) - 1 - started[::-1].index("live")
    assert started[:last_live].count("replay") <= 10


async def test_a_waiter_that_is_cancelled_leaves_no_slot_behind() -> None:
    limiter = Limiter(1)
    await limiter.acquire()
    waiting = [asyncio.ensure_future(limiter.acquire()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    limiter.release()  # to the second
    waiting[1].cancel()  # granted, and cancelled before it could run
    await asyncio.gather(*waiting, return_exceptions=True)
    assert limiter.in_flight == 1
    limiter.release()
    assert limiter.in_flight == 0


def test_slots_are_counted_across_event_loops() -> None:
    limiter = Limiter(2)

    async def hold() -> int:
        await limiter.acquire()
        return limiter.in_flight

    assert [asyncio.run(hold()) for _ in range(2)] == [1, 2]

    async def too_many() -> bool:
        task = asyncio.ensure_future(limiter.acquire())
        await asyncio.sleep(0)
        done = task.done()
        limiter.release()
        await task
        return done

    assert asyncio.run(too_many()) is False


def test_a_rate_spreads_calls_after_a_burst() -> None:
    pace = Pace(per_min=60.0)
    waits = []
    for _ in range(8):
        waits.append(pace.wait_s(now=0.0))
        pace.take(1, now=0.0)
    assert waits == [0.0] * (int(BURST_S) + 1) + [1.0, 2.0, 3.0, 4.0]
    assert pace.wait_s(now=100.0) == 0.0


def test_requests_and_tokens_a_minute_are_kept() -> None:
    loop, begun = VirtualLoop(), []

    class Judge(ScriptedJudge):
        async def complete(self, messages: Sequence[Message]) -> Completion:
            begun.append(loop.time())
            return Completion(text="YES", input_tokens=900, output_tokens=100)

    async def run() -> None:
        panel = virtual_panel(loop, Judge(YES), concurrency=50, max_requests_per_min=120, max_tokens_per_min=60_000)
        await panel.evaluate(make_tasks(range(150)))

    run_virtually(run(), loop)
    # 60 000 tokens a minute are 60 such calls, fewer than the 120 requests.
    for start in range(0, int(begun[-1]) - 60, 20):
        assert sum(start <= at < start + 60 for at in begun) <= 60 * (1 + BURST_S / 60) + 6
    assert begun[-1] >= 2 * 60


def test_a_retry_after_from_many_closes_the_endpoint_for_all() -> None:
    loop, begun = VirtualLoop(), []

    async def reply(row: int, call: int) -> None:
        begun.append(loop.time())
        await asyncio.sleep(0.01)
        if loop.time() < 5.0:
            raise CallError("HTTP 429", status=429, retry_after_s=6.0)

    async def run() -> None:
        panel = virtual_panel(loop, Timed(reply), concurrency=10)
        results = await feed(panel, tasks_of(200))
        assert sum(score.outcome.settled for result in results for score in result.scores) == 200

    run_virtually(run(), loop)
    # What was in flight when it was learnt was refused; nobody else knocked before the time.
    assert sum(at < 5.0 for at in begun) <= 40


@pytest.mark.parametrize("seed", range(20))
def test_a_long_tail_is_no_queue(seed: int) -> None:
    rng = random.Random(seed)
    concurrency = Concurrency(50)

    def call(begins: float) -> tuple[float, float]:
        took = rng.lognormvariate(-0.7, 0.8)  # half a second in the median
        return begins + took, took

    in_flight = [call(0.0) for _ in range(50)]
    heapq.heapify(in_flight)
    for _ in range(3_000):
        ended, took = in_flight[0]
        concurrency.answered(took, busy=True)
        assert concurrency.limit == 50
        heapq.heapreplace(in_flight, call(ended))


def test_an_endpoint_that_takes_three_times_as_long_queues() -> None:
    rng = random.Random(4)
    concurrency = Concurrency(50)
    for slower in (1.0, 3.0):
        for _ in range(200):
            concurrency.answered(slower * rng.lognormvariate(-0.7, 0.8), busy=True)
            if concurrency.limit < 50:
                break
    assert concurrency.limit == 35
