"""Rows near the cursor are folded once, however often they are read again."""

from __future__ import annotations

import json
from datetime import timedelta

from tests.support.verdicts import minute, row
from tracejudge.alerts import SeenRows
from tracejudge.scores import JudgeId


def test_a_row_is_new_once() -> None:
    seen = SeenRows()
    assert [seen.add(row(k % 5)) for k in range(10)] == [True] * 5 + [False] * 5


def test_the_same_trace_of_another_app_environment_or_judge_is_another_row() -> None:
    seen = SeenRows()
    assert seen.add(row(0))
    assert seen.add(row(0, app="bank"))
    assert seen.add(row(0, environment="staging"))
    assert seen.add(row(0, judge_id=JudgeId("lexical@111111111111")))
    assert not seen.add(row(0))


def test_an_invalid_verdict_and_the_settled_one_after_it_are_two_rows_a_later_copy_is_none() -> None:
    seen = SeenRows()
    assert seen.add(row(0, passed=None))
    assert seen.add(row(0, passed=True, judged_at=minute(9)))
    assert not seen.add(row(0, passed=False, judged_at=minute(12)))


def test_what_is_forgotten_bounds_how_far_back_one_may_read() -> None:
    seen = SeenRows()
    for k in range(60):
        seen.add(row(k))
    assert seen.known_from(minute(60), back=timedelta(minutes=15)) == minute(45)
    seen.forget_before(minute(50))
    assert seen.known_from(minute(60), back=timedelta(minutes=15)) == minute(50)
    assert not seen.add(row(55))


def test_too_many_rows_forget_the_oldest_minutes() -> None:
    seen = SeenRows(max_rows=100)
    for k in range(300):
        seen.add(row(k, minute=k / 10))
    start = seen.known_from(minute(30), back=timedelta(minutes=15))
    assert minute(19) < start <= minute(21)
    assert not seen.add(row(299, minute=29.9))


def test_its_state_survives_json() -> None:
    seen = SeenRows()
    for k in range(40):
        seen.add(row(k))
    seen.forget_before(minute(10))
    again = SeenRows.from_state(json.loads(json.dumps(seen.to_state())))
    assert again.to_state() == seen.to_state()
    assert not again.add(row(20))
    assert again.known_from(minute(40), back=timedelta(hours=9)) == minute(10)
