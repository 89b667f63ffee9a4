"""Hard caps: counted before the call, seeded from the store, and what they cut off is over_budget."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from tests.support.panels import YES, Sleeps, lexical_spec, llm_spec, make_panel, make_task, make_tasks
from tracejudge.errors import StoreError, StoreUnavailable
from tracejudge.judging import JudgeSpec, RunCaps, SpendSource
from tracejudge.judging.calls.account import Account
from tracejudge.judging.calls.budget import Budget, RunBudget
from tracejudge.judging.calls.client import Completion
from tracejudge.judging.calls.failures import CallError, MalformedReply, OverBudget
from tracejudge.judging.specs.caps import Caps
from tracejudge.scores import Decision, Outcome, Spend
from tracejudge.testing import ManualClock
from tracejudge.testing.judges import HANG, ScriptedJudge

PRICES: dict[str, Any] = {"usd_per_million_input_tokens": 1_000.0, "usd_per_million_output_tokens": 1_000.0}


class Ledger:
    """A SpendSource that says what it was told and notes what it was asked."""

    def __init__(self, spent: Spend = Spend(0, 0.0)) -> None:  # noqa: B008 - an immutable value
        self.value = spent
        self.asked: list[tuple[str, datetime]] = []
        self.down = 0  # how often it is away when asked

    def spent(self, judge_name: str, since: datetime) -> Spend:
        self.asked.append((judge_name, since))
        if self.down:
            self.down -= 1
            raise StoreUnavailable("down")
        return self.value


def budget_of(spec: JudgeSpec, source: SpendSource, clock: ManualClock | None = None) -> Budget:
    accounts = [Account(cap, source=source, leases=None, holder="") for cap in spec.caps.of(spec.name)]
    return Budget(spec.name, accounts, clock=clock or ManualClock(), run=RunBudget(RunCaps()))


async def test_the_calls_of_an_hour_stop_at_the_cap_exactly() -> None:
    judge = ScriptedJudge(YES)
    result = await make_panel(llm_spec(max_calls_per_h=40), judge).evaluate(make_tasks(range(100)))
    assert judge.calls == len(result.calls) == len(result.scores) == 40
    assert Counter((row.decision, row.reason) for row in result.ledger) == {
        (Decision.OVER_BUDGET, "max_calls_per_h"): 60
    }


async def test_what_was_spent_before_counts_and_is_read_once_an_hour() -> None:
    clock, ledger, judge = ManualClock(datetime(2026, 1, 1, 12, 59, tzinfo=timezone.utc)), Ledger(), ScriptedJudge(YES)
    ledger.value = Spend(38, 0.0)
    panel = make_panel(llm_spec(max_calls_per_h=40), judge, clock=clock, spend=ledger)
    await panel.evaluate(make_tasks(range(5)))
    await panel.evaluate(make_tasks(range(5)))
    assert judge.calls == 2
    ledger.value = Spend(0, 0.0)
    clock.advance(60)
    await panel.evaluate(make_tasks(range(5)))
    assert judge.calls == 7
    hour = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
    assert ledger.asked == [("faithful", hour), ("faithful", hour + timedelta(hours=1))]


async def test_failed_calls_count_too() -> None:
    judge = ScriptedJudge(CallError("HTTP 503", status=503))
    result = await make_panel(llm_spec(max_calls_per_h=3, max_attempts=2), judge).evaluate(make_tasks(range(3)))
    assert judge.calls == 3
    assert len(result.scores) + len(result.ledger) == 3


async def test_a_cap_of_zero_allows_nothing() -> None:
    judge = ScriptedJudge(YES)
    result = await make_panel(llm_spec(max_calls_per_h=0), judge).evaluate([make_task(0)])
    assert judge.calls == 0
    assert result.ledger[0].decision is Decision.OVER_BUDGET


async def test_money_of_a_day_stops_before_the_call_that_would_pass_the_cap() -> None:
    judge = ScriptedJudge(Completion(text="YES", input_tokens=1_000, output_tokens=0))
    spec = llm_spec(max_calls_per_h=None, max_usd_per_day=10.0, max_tokens=1_000, **PRICES)
    panel = make_panel(spec, judge)
    # Before a call about 0.6 + 1 USD are set aside, after it 1 USD was spent.
    made = 0
    for number in range(20):
        made += len((await panel.evaluate([make_task(number)])).scores)
    assert made == judge.calls == 9
    result = await panel.evaluate([make_task(99)])
    assert result.ledger[0].reason == "max_usd_per_day"


async def test_a_call_nobody_answered_is_counted_at_its_full_price() -> None:
    spec = llm_spec(timeout_s=0.05, max_attempts=1, max_calls_per_h=None, max_usd_per_day=100.0, **PRICES)
    result = await make_panel(spec, ScriptedJudge(HANG)).evaluate([make_task(0)])
    (call,) = result.calls
    assert call.cost_usd is not None
    assert call.cost_usd > 0.5


async def test_an_error_the_endpoint_answers_with_costs_nothing() -> None:
    spec = llm_spec(max_attempts=1, **PRICES)
    result = await make_panel(spec, ScriptedJudge(CallError("HTTP 500", status=500))).evaluate([make_task(0)])
    assert [call.cost_usd for call in result.calls] == [0.0]


async def test_without_prices_the_cost_is_unknown_and_not_zero() -> None:
    result = await make_panel(llm_spec(), ScriptedJudge(YES)).evaluate([make_task(0)])
    assert result.calls[0].cost_usd is None
    assert result.scores[0].usage.cost_usd is None


async def test_a_run_has_its_own_cap_over_all_its_judges() -> None:
    judge = ScriptedJudge(YES)
    panel = make_panel([llm_spec("one"), llm_spec("two")], judge, caps=RunCaps(max_calls=40))
    result = await panel.evaluate(make_tasks(range(100), "one", "two"))
    assert judge.calls == 40
    assert len(result.scores) == 40
    assert {row.reason for row in result.ledger} == {"max_calls"}
    assert len(result.ledger) == 160


async def test_a_run_s_money_is_capped() -> None:
    judge = ScriptedJudge(Completion(text="YES", input_tokens=1_000, output_tokens=0))
    panel = make_panel(llm_spec(**PRICES), judge, caps=RunCaps(max_usd=5.0))
    result = await panel.evaluate(make_tasks(range(50)))
    assert 1 <= judge.calls <= 5
    assert {row.reason for row in result.ledger} == {"max_usd"}


async def test_when_the_store_cannot_say_what_was_spent_nothing_is_called() -> None:
    ledger, judge = Ledger(), ScriptedJudge(YES)
    ledger.down = 1
    panel = make_panel([llm_spec(), lexical_spec()], judge, spend=ledger)
    with pytest.raises(StoreUnavailable):
        await panel.evaluate([make_task(0, "faithful", "lexical")])
    assert judge.calls == 0
    assert len((await panel.evaluate([make_task(0, "lexical")])).scores) == 1


async def test_an_hour_that_begins_while_the_store_is_down_is_waited_for() -> None:
    clock, ledger, sleeps = ManualClock(datetime(2026, 1, 1, 12, 59, tzinfo=timezone.utc)), Ledger(), Sleeps()

    def script(prompt: str) -> CallError | str:
        if judge.calls > 1:
            return YES
        clock.advance(120)
        ledger.down = 4
        return CallError("HTTP 503", status=503)

    judge = ScriptedJudge(script)
    panel = make_panel(llm_spec(), judge, clock=clock, spend=ledger, sleep=sleeps)
    result = await panel.evaluate([make_task(0)])
    assert judge.calls == len(result.calls) == 2
    assert [row.outcome for row in result.scores] == [Outcome.PASSED]
    assert result.ledger == ()
    assert sleeps.waits_s[1:] == [1.0, 2.0, 4.0, 8.0]


async def test_waiting_for_the_store_ends_with_a_cancellation() -> None:
    clock, ledger, waits = ManualClock(datetime(2026, 1, 1, 12, 59, tzinfo=timezone.utc)), Ledger(), asyncio.Event()

    class Noted(Sleeps):
        async def __call__(self, seconds: float) -> None:
            waits.set()
            await asyncio.Event().wait()

    def script(prompt: str) -> str:
        clock.advance(120)
        ledger.down = 1_000
        return YES

    spec = llm_spec(concurrency=1)
    panel = make_panel(spec, ScriptedJudge(script), clock=clock, spend=ledger, sleep=Noted())
    running = asyncio.ensure_future(panel.evaluate(make_tasks(range(2))))
    await waits.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_store_that_refuses_to_say_what_was_spent_leaves_the_trace_undecided() -> None:
    clock = ManualClock(datetime(2026, 1, 1, 12, 59, tzinfo=timezone.utc))

    class Refusing(Ledger):
        def spent(self, judge_name: str, since: datetime) -> Spend:
            if self.asked:
                raise StoreError("no such table", code=60)
            return super().spent(judge_name, since)

    def script(prompt: str) -> CallError:
        clock.advance(120)
        return CallError("HTTP 503", status=503)

    result = await make_panel(llm_spec(), ScriptedJudge(script), clock=clock, spend=Refusing()).evaluate([make_task(0)])
    assert [(row.decision, row.reason) for row in result.ledger] == [(Decision.UNDECIDED, "spend_unknown")]


@pytest.mark.parametrize("of_run", [False, True])
async def test_money_set_aside_for_calls_in_flight_is_waited_for_and_not_called_spent(of_run: bool) -> None:
    """Two calls set aside more than the cap together, and cost next to nothing."""
    judge = ScriptedJudge(Completion(text="YES", input_tokens=10, output_tokens=0))
    cap: dict[str, Any] = {} if of_run else {"max_calls_per_h": None, "max_usd_per_day": 10.0}
    spec = llm_spec(max_tokens=5_000, concurrency=8, **cap, **PRICES)
    panel = make_panel(spec, judge, caps=RunCaps(max_usd=10.0) if of_run else None)
    await panel.evaluate([make_task(0)])
    result = await panel.evaluate(make_tasks(range(1, 101)))
    assert (len(result.scores), len(result.ledger)) == (100, 0)
    assert judge.calls == 101


async def test_a_refusal_names_what_was_spent_and_not_what_is_set_aside() -> None:
    budget = budget_of(llm_spec(max_usd_per_day=10.0, max_calls_per_h=None, **PRICES), Ledger(Spend(1, 4.0)))
    hold = await budget.admit(5.0)
    waiting = asyncio.ensure_future(budget.admit(5.0))
    with pytest.raises(OverBudget, match=r"4\.0000 of 10 USD spent today; this call may cost 7\.0000"):
        await budget.admit(7.0)
    assert not waiting.done()
    budget.settle(hold, usd=0.5)
    budget.settle(await waiting, usd=5.0)
    with pytest.raises(OverBudget, match=r"9\.5000 of 10 USD"):
        await budget.admit(1.0)


async def test_a_call_across_midnight_is_paid_in_the_day_it_was_admitted_in() -> None:
    clock = ManualClock(datetime(2026, 1, 1, 23, 59, tzinfo=timezone.utc))
    spec = llm_spec(max_usd_per_day=10.0, max_calls_per_h=None, **PRICES)
    budget = budget_of(spec, Ledger(), clock)
    hold = await budget.admit(9.0)
    clock.advance(120)
    today = await budget.admit(9.0)
    budget.settle(hold, usd=9.0)
    budget.settle(today, usd=1.0)
    await budget.admit(9.0)


@pytest.mark.parametrize(
    ("error", "charged"),
    [
        (MalformedReply("not a chat completion"), True),
        (CallError("ServerDisconnectedError: "), True),
        (ConnectionResetError("reset"), True),
        (CallError("refused", sent=False), False),
        (ConnectionRefusedError("refused"), False),
        (CallError("HTTP 400", status=400), False),
        (CallError("HTTP 503", status=503), False),
    ],
)
async def test_what_may_have_been_billed_is_charged(error: Exception, charged: bool) -> None:
    result = await make_panel(llm_spec(max_attempts=1, **PRICES), ScriptedJudge(error)).evaluate([make_task(0)])
    for call in result.calls:
        assert call.cost_usd is not None
        assert (call.cost_usd > 0.5) is charged
    assert result.calls


async def test_output_without_a_bound_is_set_aside_as_a_long_reply() -> None:
    judge = ScriptedJudge(YES)
    fields: dict[str, Any] = {"max_calls_per_h": None, "max_usd_per_day": 4.0, "max_tokens": None}
    result = await make_panel(llm_spec(**fields, **PRICES), judge).evaluate([make_task(0)])
    assert judge.calls == 0
    assert result.ledger[0].reason == "max_usd_per_day"


def test_caps_are_said_in_one_line() -> None:
    assert str(Caps(max_calls_per_h=200, max_calls_per_day=1_500_000, max_usd_per_h=0.25, max_usd_per_day=5.0)) == (
        "200 calls/h, 1,500,000 calls/day, $0.25/h, $5/day"
    )
    assert not str(Caps())


async def test_what_a_settled_call_did_not_cost_is_free_for_others_while_a_third_is_on_its_way() -> None:
    budget = budget_of(llm_spec(max_calls_per_h=None, max_usd_per_day=10.0, **PRICES), Ledger())
    first, second = await budget.admit(4.0), await budget.admit(4.0)
    third = asyncio.ensure_future(budget.admit(4.0))
    await asyncio.sleep(0)
    assert not third.done()
    budget.settle(first, usd=0.5)
    hold = await asyncio.wait_for(third, 30.0)
    budget.settle(second, usd=4.0)
    budget.settle(hold, usd=4.0)
    with pytest.raises(OverBudget):
        await budget.admit(2.0)
    await budget.admit(1.5)


async def test_a_call_that_was_never_made_counts_for_no_cap() -> None:
    budget = budget_of(llm_spec(max_calls_per_h=1), Ledger())
    budget.settle(await budget.admit(0.0), usd=0.0, made=False)
    budget.settle(await budget.admit(0.0), usd=0.0)
    with pytest.raises(OverBudget):
        await budget.admit(0.0)
