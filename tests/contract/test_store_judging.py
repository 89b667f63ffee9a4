"""What judging keeps in the store beside its scores: shares of caps, verdicts by content."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import Literal

import pytest

from tests.contract.conftest import KINDS
from tracejudge.scores import JudgeCall, JudgeId
from tracejudge.store import Store, StoredTrace, open_store
from tracejudge.store.budget_leases import BudgetLeases
from tracejudge.testing import make_score, make_trace

assert KINDS  # the fixtures stand in conftest
START = datetime(2090, 1, 1, 12, tzinfo=timezone.utc)  # the store drops shares of windows long past


@dataclass(frozen=True)
class Key:
    """A cap of an hour."""

    scope: str = "faithful"
    cap: str = "max_calls_per_h"
    unit: Literal["calls", "usd"] = "calls"
    limit: float = 100.0
    start: datetime = START
    end: datetime = START + timedelta(hours=1)


def call(number: int, *, usd: float | None = None, status: str = "ok", judge: str = "faithful") -> JudgeCall:
    return JudgeCall(
        call_id=f"c{number}",
        environment="production",
        app="shop",
        trace_id=f"t{number}",
        judge_name=judge,
        judge_id=JudgeId(f"{judge}@000000000000"),
        status=status,
        cost_usd=usd,
        started_at=START + timedelta(minutes=number % 60),
    )


@pytest.fixture
def leases(contract_store: Store) -> BudgetLeases:
    return contract_store.budget_leases


def test_shares_of_several_holders_are_never_more_than_the_cap(leases: BudgetLeases) -> None:
    taken = [leases.claim(Key(), want=40, holder=holder) for holder in "abcd"]
    assert taken == [40, 40, 20, 0]


def test_another_window_cap_or_judge_is_another_account(leases: BudgetLeases) -> None:
    assert leases.claim(Key(), want=100, holder="a") == 100
    for other in (
        replace(Key(), start=START + timedelta(hours=1), end=START + timedelta(hours=2)),
        replace(Key(), cap="max_calls_per_day", end=START + timedelta(days=1)),
        replace(Key(), scope=""),
        replace(Key(), scope="other"),
    ):
        assert leases.claim(other, want=30, holder="b") == 30


def test_what_was_not_used_can_be_taken_by_others(leases: BudgetLeases) -> None:
    assert leases.claim(Key(), want=60, holder="a") == 60
    assert leases.claim(Key(), want=40, holder="b") == 40
    assert leases.claim(Key(), want=10, holder="c") == 0
    leases.give_back(Key(), used=25, holder="a")
    leases.give_back(Key(), used=25, holder="a")
    assert leases.claim(Key(), want=50, holder="c") == 35


def test_money_is_shared_like_calls(leases: BudgetLeases) -> None:
    key = replace(Key(), cap="max_usd_per_day", unit="usd", limit=1.0)
    assert leases.claim(key, want=0.7, holder="a") == pytest.approx(0.7)
    assert leases.claim(key, want=0.7, holder="b") == pytest.approx(0.3)
    leases.give_back(key, used=0.25, holder="a")
    assert leases.claim(key, want=1.0, holder="b") == pytest.approx(0.45)


def test_calls_nobody_claimed_count_too(contract_store: Store, leases: BudgetLeases) -> None:
    contract_store.calls.insert([call(number) for number in range(30)])
    assert leases.claim(Key(), want=100, holder="a") == 70
    assert leases.claim(replace(Key(), scope=""), want=100, holder="a") == 70


def test_calls_stamped_after_the_window_leave_its_cap_alone(contract_store: Store, leases: BudgetLeases) -> None:
    """A clock that was years ahead for a minute would otherwise use up every cap until then."""
    contract_store.calls.insert([replace(call(number), started_at=START + timedelta(hours=1)) for number in range(3)])
    contract_store.calls.insert([replace(call(9), started_at=START + timedelta(days=1400))])
    assert leases.claim(Key(), want=100, holder="a") == 100


def test_connections_that_never_came_about_are_no_calls(contract_store: Store) -> None:
    contract_store.calls.insert([call(1), call(2, status="unreachable", usd=0.0), call(3, judge="other", usd=0.5)])
    assert contract_store.calls.spent("faithful", START).calls == 1
    assert contract_store.calls.spent("", START).calls == 2
    assert contract_store.calls.spent("", START).usd == 0.5


def test_claims_that_come_together_keep_the_cap(contract_url: str) -> None:
    """Eight processes' worth of connections claim at once, over and over."""
    taken: list[float] = []

    def work(holder: str) -> None:
        with open_store(contract_url, settle_timeout_s=20.0) as store:
            taken.extend(store.budget_leases.claim(Key(), want=9, holder=holder) for _ in range(4))

    threads = [threading.Thread(target=work, args=(str(number),)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == 32
    assert sum(taken) <= 100
    # Claims cut short by one another may leave crumbs, which the next one gets.
    with open_store(contract_url, settle_timeout_s=20.0) as store:
        assert sum(taken) + store.budget_leases.claim(Key(), want=100, holder="last") == 100


def test_verdicts_are_kept_by_content_judge_and_repeat(contract_store: Store) -> None:
    cache = contract_store.verdict_cache
    cache.put({("h1", "f@1", 0): "yes", ("h1", "f@1", 1): "no", ("h1", "g@1", 0): "maybe"})
    cache.put({("h1", "f@1", 0): "later"})
    keys = [("h1", "f@1", 0), ("h1", "f@1", 1), ("h2", "f@1", 0), ("h1", "g@1", 0)]
    assert cache.get(keys) == {("h1", "f@1", 0): "yes", ("h1", "f@1", 1): "no", ("h1", "g@1", 0): "maybe"}
    assert cache.get([]) == {}
    contract_store.optimize("cached_verdicts")
    assert cache.get([("h1", "f@1", 0)]) == {("h1", "f@1", 0): "yes"}


def test_live_lags_while_it_is_judged_and_older_traces_wait(contract_store: Store) -> None:
    now = contract_store.now()
    old = now - timedelta(minutes=10)
    traces = [make_trace(number, event_time=old + timedelta(seconds=number)) for number in range(4)]
    contract_store.traces.insert([StoredTrace(trace=trace, ingested_at=now) for trace in traces])
    scores = [
        make_score(trace_id=trace.trace_id, event_time=trace.event_time, judged_at=now - timedelta(minutes=5))
        for trace in traces
    ]
    contract_store.scores.insert(scores[:2])
    assert not contract_store.live_lags()  # nobody judges at present
    contract_store.scores.insert([replace(scores[2], judged_at=now)])
    assert contract_store.live_lags()
    contract_store.scores.insert([replace(scores[3], judged_at=now)])
    assert not contract_store.live_lags()
