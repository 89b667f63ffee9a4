"""The equation of the ledger: every trace accounted for, whatever was decided when."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.support.store_rows import DAY, LATER, START, ledger_row, registered, stored
from tracejudge.scores import Decision, JudgeId, Outcome
from tracejudge.store import (
    Adoption,
    Store,
)
from tracejudge.testing import make_score


def test_the_ledger_accounts_for_every_trace(contract_store: Store) -> None:
    contract_store.traces.insert([stored(i) for i in range(20)])
    contract_store.scores.insert([make_score(i, passed=i > 0) for i in range(4)])
    contract_store.scores.insert([make_score(4, outcome=Outcome.INVALID, score=None, reason="unparsable")])
    decisions = [Decision.UNDECIDED, Decision.SAMPLED_OUT, Decision.NOT_APPLICABLE, Decision.OVER_BUDGET]
    contract_store.ledger.insert([ledger_row(i, Decision.UNDECIDED) for i in range(15)])
    contract_store.ledger.insert([ledger_row(i, decisions[i % 4]) for i in range(5, 19)])
    contract_store.ledger.insert([ledger_row(6, Decision.UNDECIDED, decided_at=LATER - timedelta(days=9))])
    (line,) = contract_store.ledger.equation(DAY.start, DAY.end)
    assert (line.traces, line.passed, line.failed, line.invalid) == (20, 3, 1, 1)
    assert sum(line.decisions.values()) == 14
    assert line.decisions[Decision.UNDECIDED] == 3  # 8, 12 and 16; the others were decided or scored after all
    assert line.unaccounted == 1
    (hour,) = contract_store.ledger.equation(DAY.start, DAY.end, hourly=True)
    assert hour == replace(line, hour=START)
    assert [row.trace_id for row in contract_store.ledger.undecided()] == ["t-000008", "t-000012", "t-000016"]
    assert contract_store.ledger.of_trace("t-000001") == []
    assert contract_store.ledger.of_trace("t-000006") == [ledger_row(6, Decision.NOT_APPLICABLE)]


@pytest.mark.parametrize("late", [Decision.INCOMPLETE, Decision.UNDECIDED])
def test_a_broken_off_answer_never_hides_that_its_complete_one_waits_for_a_judge(
    contract_store: Store, late: Decision
) -> None:
    contract_store.traces.insert([stored(1)])
    early = Decision.UNDECIDED if late is Decision.INCOMPLETE else Decision.INCOMPLETE
    contract_store.ledger.insert([ledger_row(1, early)])
    contract_store.ledger.insert([ledger_row(1, late, decided_at=START + timedelta(hours=2))])
    assert [row.decision for row in contract_store.ledger.undecided()] == [Decision.UNDECIDED]
    (line,) = contract_store.ledger.equation(DAY.start, DAY.end)
    assert (line.traces, line.decisions) == (1, {Decision.UNDECIDED: 1})
    contract_store.ledger.insert([ledger_row(1, Decision.OVER_BUDGET)])
    assert contract_store.ledger.undecided() == []


def test_the_ledger_tells_traces_that_nobody_has_decided_anything_about(contract_store: Store) -> None:
    """A consumer that died after it had stored the traces: no score, no row, and the name known by its adoption."""
    judge = JudgeId("lexical@000000000000")
    contract_store.judges.register([registered("lexical", START)])
    contract_store.judges.adopt(Adoption(judge_name="lexical", judge_id=judge, live_from=START - timedelta(days=9)))
    contract_store.traces.insert([stored(i) for i in range(50)])
    (line,) = contract_store.ledger.equation(DAY.start, DAY.end)
    assert (line.judge_name, line.judge_id, line.heuristic) == ("lexical", judge, True)
    assert (line.traces, line.unaccounted, line.decisions) == (50, 50, {})
    (hour,) = contract_store.ledger.equation(DAY.start, DAY.end, hourly=True)
    assert hour == replace(line, hour=START)
    assert contract_store.ledger.equation(DAY.start, DAY.end, run_id="replay-1") == []


def test_a_judge_answers_for_what_came_since_it_was_registered_and_for_what_it_decided_anyway(
    contract_store: Store,
) -> None:
    contract_store.judges.register([registered("lexical", START), registered("late", START + timedelta(hours=2))])
    contract_store.judges.register([registered("late", START + timedelta(hours=5), judge_id="late@1")])
    early, late = [stored(i) for i in range(20)], [stored(i) for i in range(20, 30)]
    contract_store.traces.insert(early)
    contract_store.traces.insert([replace(one, ingested_at=START + timedelta(hours=2)) for one in late])
    contract_store.scores.insert([make_score(i) for i in range(30)])
    scores = [make_score(i, judge_name="late", judge_id=JudgeId("late@000000000000")) for i in (3, 4, 20, 21, 22)]
    contract_store.scores.insert(scores)
    contract_store.ledger.insert(
        [ledger_row(i, Decision.UNDECIDED, judge_name="late", judge_id=JudgeId("late@1")) for i in (3, 5, 23)]
    )
    lines = {line.judge_name: line for line in contract_store.ledger.equation(DAY.start, DAY.end)}
    assert (lines["lexical"].traces, lines["lexical"].unaccounted) == (30, 0)
    line = lines["late"]
    assert (line.traces, line.passed, line.decisions, line.unaccounted) == (13, 5, {Decision.UNDECIDED: 2}, 6)
    assert line.judge_id == "late@000000000000"
    for one in contract_store.ledger.equation(DAY.start, DAY.end, hourly=True):
        assert one.traces == one.passed + one.failed + one.invalid + sum(one.decisions.values()) + one.unaccounted


def test_a_ledger_line_says_that_a_judge_is_heuristic(contract_store: Store) -> None:
    contract_store.judges.register([registered("told", START, heuristic=False)])
    contract_store.traces.insert([stored(1)])
    flags = {"told": ("heuristic",), "flagged": ("heuristic",), "neither": ()}
    for name, flagged in flags.items():
        contract_store.scores.insert([make_score(1, judge_name=name, judge_id=JudgeId(f"{name}@1"), flags=flagged)])
    lines = contract_store.ledger.equation(DAY.start, DAY.end)
    assert {line.judge_name: line.heuristic for line in lines} == {"told": False, "flagged": True, "neither": False}


def test_equation_spans_days_and_counts_hours_without_traces_of_a_judge(contract_store: Store) -> None:
    contract_store.traces.insert([stored(i * 3600) for i in range(30)])
    contract_store.scores.insert([make_score(i * 3600) for i in range(0, 30, 2)])
    lines = contract_store.ledger.equation(START, START + timedelta(hours=30), hourly=True)
    assert [line.hour for line in lines] == [START + timedelta(hours=i) for i in range(30)]
    assert [line.unaccounted for line in lines] == [i % 2 for i in range(30)]
    assert contract_store.ledger.equation(LATER, LATER + timedelta(days=1)) == []


def test_a_trace_of_midnight_counts_once_and_one_at_the_end_not_at_all(contract_store: Store) -> None:
    midnight = START + timedelta(hours=12)  # a day is looked at by itself
    numbers = [0, 12 * 3600, 13 * 3600]
    contract_store.traces.insert([stored(i) for i in numbers])
    contract_store.scores.insert([make_score(i) for i in numbers])
    (line,) = contract_store.ledger.equation(START, midnight + timedelta(hours=1))
    assert (line.traces, line.passed) == (2, 2)
    assert [one.traces for one in contract_store.ledger.equation(START, midnight)] == [1]


def test_the_equation_of_one_app_or_environment_adds_up_and_those_of_all_make_the_whole(contract_store: Store) -> None:
    judge = JudgeId("lexical@000000000000")
    contract_store.judges.register([registered("lexical", START)])
    contract_store.judges.adopt(Adoption(judge_name="lexical", judge_id=judge, live_from=START - timedelta(days=9)))
    places = [("shop", "production"), ("shop", "staging"), ("help", "production")]
    for number, (app, environment) in enumerate(places):
        here: dict[str, Any] = {"app": app, "environment": environment}
        contract_store.traces.insert([stored(i, **here) for i in range(3 * number, 3 * number + 3)])
        contract_store.scores.insert([make_score(3 * number, **here)])
        contract_store.ledger.insert([ledger_row(3 * number + 1, Decision.SAMPLED_OUT, **here)])
    # Only of this app is there a judge of this name.
    contract_store.scores.insert([make_score(6, judge_name="strict", judge_id=JudgeId("strict@1"), app="help")])

    def lines(app: str | None = None, environment: str | None = None) -> dict[str, tuple[int, int, int, int]]:
        found = contract_store.ledger.equation(DAY.start, DAY.end, environment=environment, app=app)
        return {one.judge_name: (one.traces, one.passed, sum(one.decisions.values()), one.unaccounted) for one in found}

    assert lines() == {"lexical": (9, 3, 3, 3), "strict": (9, 1, 0, 8)}
    assert lines(app="shop") == {"lexical": (6, 2, 2, 2)}
    assert lines(app="shop", environment="staging") == {"lexical": (3, 1, 1, 1)}
    assert lines(environment="production") == {"lexical": (6, 2, 2, 2), "strict": (6, 1, 0, 5)}
    assert lines(app="help") == {"lexical": (3, 1, 1, 1), "strict": (3, 1, 0, 2)}
    assert lines(app="nobody") == {}
