"""A judge whose endpoint is down: few calls, traces that wait, and one call that finds out whether it is back."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support.panels import YES, Sleeps, llm_spec, make_panel, make_task, make_tasks
from tests.support.virtual_time import VirtualLoop, run_virtually
from tracejudge.errors import JudgeDown
from tracejudge.judging import NothingSpent, Panel, PanelResult
from tracejudge.judging.calls.circuit import (
    FAILING_ROWS,
    FIRST_PAUSE_DOWN_S,
    LONGEST_PAUSE_DOWN_S,
    STORM_S,
    THROTTLED,
    UNREACHED,
    Circuit,
)
from tracejudge.judging.calls.failures import CallError, MalformedReply
from tracejudge.scores import Decision, Outcome
from tracejudge.testing import ManualClock
from tracejudge.testing.judges import Reply as JudgeReply
from tracejudge.testing.judges import ScriptedJudge

REFUSED = CallError("connection refused", sent=False)
RATE_LIMITED = CallError("HTTP 429", status=429)
BROKEN = CallError("HTTP 503", status=503)


def panel_of(judge: ScriptedJudge, clock: ManualClock | None = None, **kwargs: Any) -> Panel:
    return make_panel(llm_spec(**kwargs), judge, clock=clock)


async def test_refused_connections_are_no_attempts_and_no_calls_of_the_hour() -> None:
    clock, judge = ManualClock(), ScriptedJudge([REFUSED] * UNREACHED + [YES])
    panel = panel_of(judge, clock, max_attempts=1, max_calls_per_h=5)
    result = await panel.evaluate([make_task(0)])
    assert result.scores == ()
    assert [(row.decision, row.reason) for row in result.ledger] == [(Decision.UNDECIDED, "judge_down_unreachable")]
    assert [type(gone) for gone in result.gone] == [JudgeDown]
    assert {(call.status, call.cost_usd) for call in result.calls} == {("unreachable", None)}
    clock.advance(FIRST_PAUSE_DOWN_S)
    assert len((await panel.evaluate(make_tasks(range(1, 6)))).scores) == 5
    assert len((await panel.evaluate([make_task(9)])).scores) == 0


async def test_a_thousand_traces_cost_a_dead_endpoint_a_handful_of_connections() -> None:
    judge = ScriptedJudge(REFUSED)
    result = await panel_of(judge, concurrency=64).evaluate(make_tasks(range(1_000)))
    assert judge.calls <= 5 * UNREACHED
    assert len(result.ledger) == 1_000
    assert result.scores == ()


@pytest.mark.parametrize("error", [BROKEN, ConnectionResetError("reset"), MalformedReply("<html>")])
async def test_an_endpoint_that_fails_everybody_is_down_and_spares_the_rest(error: Exception) -> None:
    judge = ScriptedJudge(error)
    result = await panel_of(judge, concurrency=64).evaluate(make_tasks(range(200)))
    assert judge.calls <= 2 * FAILING_ROWS
    assert {row.decision for row in result.ledger} == {Decision.UNDECIDED}
    assert len(result.ledger) == 200


async def test_one_trace_that_always_fails_opens_nothing() -> None:
    def script(prompt: str) -> JudgeReply:
        return BROKEN if "plan 3?" in prompt else YES

    judge = ScriptedJudge(script)
    panel = panel_of(judge, max_attempts=10)
    result = await panel.evaluate(make_tasks(range(8)))
    assert [score.outcome for score in result.scores].count(Outcome.INVALID) == 1
    assert panel.availability()["faithful"].state == "ok"
    assert judge.calls == 7 + 10


async def test_rate_limits_alone_are_no_sign_of_a_dead_endpoint() -> None:
    panel = panel_of(ScriptedJudge(RATE_LIMITED))
    result = await panel.evaluate(make_tasks(range(20)))
    assert {score.reason for score in result.scores} == {"rate_limited"}
    assert panel.availability()["faithful"].state == "ok"


class Stormy(ScriptedJudge):
    """Refuses everybody until `until_s` of the loop's time, in 10 ms, and answers after that."""

    def __init__(self, until_s: float, refusal: CallError = RATE_LIMITED) -> None:
        super().__init__(YES)
        self._until_s = until_s
        self._refusal = refusal

    async def complete(self, messages: Any) -> Any:
        await asyncio.sleep(0.01)
        answer = await super().complete(messages)
        if asyncio.get_running_loop().time() < self._until_s:
            raise self._refusal
        return answer


def stormed(judge: Stormy, rows: int, *, patience_s: float = 0.0) -> PanelResult:
    loop = VirtualLoop()
    panel = Panel(
        [llm_spec(concurrency=20)],
        clock=loop.clock,
        spend=NothingSpent(),
        environ={},
        patience_s=patience_s,
        make_completer=lambda spec: judge,
    )
    return run_virtually(panel.evaluate(make_tasks(range(rows))), loop)


@pytest.mark.parametrize("until_s", [0.3, 1.0, 2.0, 20.0])
def test_a_storm_of_429s_is_waited_out_and_costs_no_trace_its_verdict(until_s: float) -> None:
    judge = Stormy(until_s)
    result = stormed(judge, 200)
    assert [score.outcome for score in result.scores] == [Outcome.PASSED] * 200
    assert result.ledger == ()
    assert judge.calls < 200 + 100


def test_a_storm_that_lasts_leaves_traces_undecided_and_costs_few_calls() -> None:
    judge = Stormy(float("inf"))
    result = stormed(judge, 200)
    assert result.scores == ()
    assert {row.reason for row in result.ledger} == {"judge_down_rate_limited"}
    assert judge.calls < 100


def test_with_patience_a_long_storm_costs_nobody_anything() -> None:
    assert len(stormed(Stormy(200.0), 50, patience_s=300.0).scores) == 50


def test_a_day_s_quota_used_up_is_no_fault_of_the_traces() -> None:
    judge = Stormy(float("inf"), CallError("HTTP 429", status=429, retry_after_s=7_200.0))
    result = stormed(judge, 200)
    assert len(result.scores) < FAILING_ROWS
    assert {row.reason for row in result.ledger} == {"judge_down_rate_limited"}


async def test_an_endpoint_that_answers_some_of_its_calls_is_not_down() -> None:
    """Nine calls in ten are refused, for a long time: no storm."""
    clock = ManualClock()
    circuit = Circuit(clock=clock)
    down = JudgeDown("faithful", THROTTLED, "HTTP 429")
    for _ in range(100):
        for _ in range(9):
            number = circuit.sent()
            circuit.refused(object(), down)
            circuit.ended(number)
            clock.advance(0.1)
        number = circuit.sent()
        circuit.ended(number)
        circuit.answered()
    assert circuit.gone is None


async def test_no_storm_while_a_call_from_before_it_is_still_being_served() -> None:
    clock = ManualClock()
    circuit = Circuit(clock=clock)
    down = JudgeDown("faithful", THROTTLED, "HTTP 429")

    def refuse_many() -> None:
        for _ in range(2 * FAILING_ROWS):
            number = circuit.sent()
            circuit.refused(object(), down)
            circuit.ended(number)
            clock.advance(STORM_S)

    slow = circuit.sent()
    refuse_many()
    assert circuit.gone is None
    circuit.ended(slow)
    refuse_many()
    assert circuit.gone is down


async def test_it_is_tried_by_one_call_ever_more_rarely_and_the_others_wait_for_what_it_finds() -> None:
    clock, judge = ManualClock(), ScriptedJudge(REFUSED)
    panel = panel_of(judge, clock)
    await panel.evaluate([make_task(0)])
    pauses = []
    for _ in range(8):
        calls = judge.calls
        retry_in_s = panel.availability()["faithful"].retry_in_s
        assert retry_in_s is not None
        pauses.append(retry_in_s)
        clock.advance(retry_in_s)
        await panel.evaluate(make_tasks(range(10)))
        assert judge.calls == calls + 1
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, LONGEST_PAUSE_DOWN_S, LONGEST_PAUSE_DOWN_S]
    judge.requests.clear()
    judge._replies = [YES]
    clock.advance(LONGEST_PAUSE_DOWN_S)
    assert len((await panel.evaluate(make_tasks(range(10)))).scores) == 10


async def test_with_patience_traces_wait_inside_the_panel_until_it_is_back() -> None:
    clock = ManualClock()
    judge = ScriptedJudge([REFUSED] * 6 + [YES])
    panel = make_panel(llm_spec(), judge, clock=clock, sleep=Sleeps(clock), patience_s=60.0)
    result = await panel.evaluate(make_tasks(range(20)))
    assert len(result.scores) == 20
    assert result.ledger == ()


@pytest.mark.parametrize("patience_s", [1200.0, float("inf")])
async def test_the_log_says_once_that_a_judge_is_waited_for_and_that_it_is_back(
    caplog: pytest.LogCaptureFixture, patience_s: float
) -> None:
    clock = ManualClock()
    judge = ScriptedJudge([REFUSED] * 9 + [YES])
    panel = make_panel(llm_spec(), judge, clock=clock, sleep=Sleeps(clock), patience_s=patience_s)
    assert len((await panel.evaluate(make_tasks(range(20)))).scores) == 20
    down, back = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert "faithful" in down
    assert down.endswith(f": its traces wait for it, up to {patience_s:g} s each")
    assert back == "judge 'faithful' answers again"


async def test_patience_ends() -> None:
    clock = ManualClock()
    panel = make_panel(llm_spec(), ScriptedJudge(REFUSED), clock=clock, sleep=Sleeps(clock), patience_s=30.0)
    result = await panel.evaluate([make_task(0)])
    assert [row.reason for row in result.ledger] == ["judge_down_unreachable"]
    assert 30.0 <= clock.monotonic() < 60.0


async def test_a_probe_that_is_cancelled_leaves_the_way_free() -> None:
    clock, called = ManualClock(), asyncio.Event()
    hang = asyncio.Event()

    class Judge(ScriptedJudge):
        async def complete(self, messages: Any) -> Any:
            if self.calls == UNREACHED:
                self.requests.append(tuple(messages))
                called.set()
                await hang.wait()
            return await super().complete(messages)

    judge = Judge([REFUSED] * UNREACHED + [YES])
    panel = panel_of(judge, clock)
    await panel.evaluate([make_task(0)])
    clock.advance(FIRST_PAUSE_DOWN_S)
    probe = asyncio.ensure_future(panel.evaluate([make_task(1)]))
    await called.wait()
    waiting = asyncio.ensure_future(panel.evaluate([make_task(2)]))
    await asyncio.sleep(0)
    probe.cancel()
    with pytest.raises(asyncio.CancelledError):
        await probe
    assert len((await waiting).scores) == 1
