"""Caps across the processes of a fleet: shares taken before the call, all caps at once, nothing above the cap."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, defaultdict
from datetime import datetime, timezone
from typing import Any

import pytest

from tests.support.panels import YES, Sleeps, llm_spec, make_tasks
from tracejudge.errors import StoreUnavailable
from tracejudge.judging import Caps, JudgeSpec, NothingSpent, Panel, check_caps
from tracejudge.judging.calls.client import Completion
from tracejudge.judging.tasks import LeaseKey
from tracejudge.scores import Decision
from tracejudge.testing import ManualClock
from tracejudge.testing.judges import ScriptedJudge

PRICES: dict[str, Any] = {"usd_per_million_input_tokens": 1_000.0, "usd_per_million_output_tokens": 1_000.0}


class Shares:
    """Leases in memory, for several panels that stand for several processes."""

    def __init__(self) -> None:
        self.taken: dict[LeaseKey, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        self.claims: list[float] = []
        self.away = 0
        self._lock = threading.Lock()

    def claim(self, key: LeaseKey, *, want: float, holder: str) -> float:
        with self._lock:
            if self.away:
                self.away -= 1
                raise StoreUnavailable("away")
            granted = max(0.0, min(want, key.limit - sum(self.taken[key].values())))
            self.taken[key][holder] += granted
            self.claims.append(granted)
            return granted

    def give_back(self, key: LeaseKey, *, used: float, holder: str) -> None:
        with self._lock:
            self.taken[key][holder] = min(self.taken[key][holder], used)


def panel_of(
    judge: ScriptedJudge, shares: Shares | None, *specs: JudgeSpec, clock: ManualClock | None = None, **more: Any
) -> Panel:
    clock = clock or ManualClock()
    return Panel(
        list(specs) or [llm_spec(max_calls_per_h=200)],
        clock=clock,
        spend=NothingSpent(),
        environ={},
        leases=shares,
        make_completer=lambda spec: judge,
        sleep=Sleeps(),
        **more,
    )


async def test_three_processes_together_make_the_calls_of_the_cap_and_no_more() -> None:
    judge, shares = ScriptedJudge(YES), Shares()
    panels = [panel_of(judge, shares) for _ in range(3)]
    results = await asyncio.gather(*(panel.evaluate(make_tasks(range(100))) for panel in panels))
    assert judge.calls == 200
    decided = Counter((row.decision, row.reason) for result in results for row in result.ledger)
    assert decided == {(Decision.OVER_BUDGET, "max_calls_per_h"): 100}
    assert max(shares.claims) <= 10.0


async def test_a_process_that_ends_leaves_what_it_did_not_use_to_the_others() -> None:
    judge, shares = ScriptedJudge(YES), Shares()
    first = panel_of(judge, shares)
    await first.evaluate(make_tasks(range(3)))
    await first.close()
    second = panel_of(judge, shares)
    assert len((await second.evaluate(make_tasks(range(197)))).scores) == 197
    assert len((await second.evaluate(make_tasks(range(10)))).scores) == 0


class Held(Shares):
    """Leases whose claim of this number waits, in its thread, until it is let go."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number
        self._asked = 0
        self.entered, self.go, self.returned = threading.Event(), threading.Event(), threading.Event()

    def claim(self, key: LeaseKey, *, want: float, holder: str) -> float:
        self._asked += 1
        if self._asked == self._number:
            self.entered.set()
            self.go.wait(10)
        return super().claim(key, want=want, holder=holder)

    def give_back(self, key: LeaseKey, *, used: float, holder: str) -> None:
        super().give_back(key, used=used, holder=holder)
        self.returned.set()


async def test_a_share_that_came_for_somebody_who_gave_up_waiting_is_used_by_the_next() -> None:
    judge, shares = ScriptedJudge(YES), Held(1)
    panel = panel_of(judge, shares, llm_spec(max_calls_per_h=10))
    gives_up = asyncio.create_task(panel.evaluate(make_tasks([0])))
    await asyncio.to_thread(shares.entered.wait, 10)
    gives_up.cancel()
    await asyncio.gather(gives_up, return_exceptions=True)
    shares.go.set()
    assert len((await panel.evaluate(make_tasks(range(10)))).scores) == 10
    assert shares.claims[0] == 10.0


async def test_a_share_that_is_asked_for_when_the_panel_closes_is_given_back_too() -> None:
    judge, shares = ScriptedJudge(YES), Held(2)
    panel = panel_of(judge, shares)
    await panel.evaluate(make_tasks(range(6)))  # less than half a share is left: the next one is asked for ahead
    await asyncio.to_thread(shares.entered.wait, 10)
    closing = asyncio.create_task(panel.close())
    await asyncio.to_thread(shares.returned.wait, 0.2)  # where the claim is not waited for, this comes first
    shares.go.set()
    await closing
    (taken,) = shares.taken.values()
    assert shares.claims == [10.0, 10.0]
    assert sum(taken.values()) == 6.0


async def test_another_hour_has_shares_of_its_own() -> None:
    clock = ManualClock(datetime(2026, 1, 1, 12, 30, tzinfo=timezone.utc))
    judge, shares = ScriptedJudge(YES), Shares()
    panel = panel_of(judge, shares, llm_spec(max_calls_per_h=20), clock=clock)
    assert len((await panel.evaluate(make_tasks(range(30)))).scores) == 20
    clock.advance(1800)
    assert len((await panel.evaluate(make_tasks(range(30)))).scores) == 20


async def test_a_cap_that_was_used_up_is_asked_about_again_after_a_while() -> None:
    clock, judge, shares = ManualClock(), ScriptedJudge(YES), Shares()
    spec = llm_spec(max_calls_per_h=20)
    other, panel = (panel_of(judge, shares, spec, clock=clock) for _ in range(2))
    await other.evaluate(make_tasks(range(5)))
    assert len((await panel.evaluate(make_tasks(range(20)))).scores) == 10
    await other.close()
    assert len((await panel.evaluate(make_tasks(range(1)))).scores) == 0
    clock.advance(31)
    assert len((await panel.evaluate(make_tasks(range(20)))).scores) == 5


async def test_a_store_that_is_away_between_two_shares_is_waited_for() -> None:
    judge, shares = ScriptedJudge(YES), Shares()
    panel = panel_of(judge, shares, llm_spec(max_calls_per_h=20))
    await panel.evaluate(make_tasks(range(1)))
    shares.away = 3
    result = await panel.evaluate(make_tasks(range(19)))
    assert (len(result.scores), result.ledger) == (19, ())


@pytest.mark.parametrize(
    ("caps", "calls", "reason"),
    [
        ({"max_calls_per_day": 7}, 7, "max_calls_per_day"),
        ({"max_usd_per_h": 7.0}, 7, "max_usd_per_h"),
        ({"max_usd_per_day": 5.0, "max_calls_per_h": 6}, 5, "max_usd_per_day"),
        ({"max_usd_per_day": 50.0, "max_calls_per_h": 6}, 6, "max_calls_per_h"),
    ],
)
@pytest.mark.parametrize("leased", [False, True])
async def test_every_cap_of_a_judge_holds(caps: dict[str, float], calls: int, reason: str, leased: bool) -> None:
    judge = ScriptedJudge(Completion(text="YES", input_tokens=1_000, output_tokens=0))
    fields: dict[str, Any] = {"max_calls_per_h": None, "max_tokens": 1, **caps, **PRICES}
    spec = llm_spec(**fields)
    panel = panel_of(judge, Shares() if leased else None, spec)
    made = [await panel.evaluate(make_tasks([number])) for number in range(12)]
    assert judge.calls == calls
    assert {row.reason for result in made for row in result.ledger} == {reason}


@pytest.mark.parametrize("leased", [False, True])
async def test_a_cap_on_all_judges_together_holds_beside_their_own(leased: bool) -> None:
    judge = ScriptedJudge(YES)
    specs = [llm_spec("one", max_calls_per_h=30), llm_spec("two", max_calls_per_h=None)]
    shares = Shares() if leased else None
    panel = panel_of(judge, shares, *specs, total=Caps(max_calls_per_day=50))
    result = await panel.evaluate(make_tasks(range(100), "one", "two"))
    assert judge.calls == 50
    reasons = Counter((row.judge_name, row.reason) for row in result.ledger)
    assert sum(reasons.values()) == 150
    assert set(reasons) <= {("one", "max_calls_per_h"), ("one", "budget.max_calls_per_day"),
                            ("two", "budget.max_calls_per_day")}  # fmt: skip
    assert sum(score.judge_name == "one" for score in result.scores) <= 30


def test_a_cap_on_all_judges_is_a_cap_for_each_and_money_of_all_needs_prices_of_all() -> None:
    bare = llm_spec(max_calls_per_h=None)
    assert len(check_caps([bare])) == 1
    assert check_caps([bare], total=Caps(max_calls_per_h=10)) == []
    (fault,) = check_caps([bare, llm_spec("priced", **PRICES)], total=Caps(max_usd_per_day=1.0))
    assert "budget.max_usd_per_day cannot be kept" in fault
    assert "'faithful'" in fault


def test_money_without_prices_is_refused_by_the_setting_s_name() -> None:
    with pytest.raises(ValueError, match="max_usd_per_h: money cannot be counted"):
        llm_spec(max_usd_per_h=1.0)
    with pytest.raises(ValueError, match="max_usd_per_day: money cannot be counted"):
        llm_spec(max_usd_per_day=1.0)
