"""The order in which rows are folded: nothing lost, right within a step, and blind to verdicts and to pages."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import groupby

from hypothesis import given
from hypothesis import strategies as st

from tracejudge.alerts.order import STEP_S, in_order, step_of
from tracejudge.scores import Outcome, Score
from tracejudge.testing import make_score

Delays = st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 200)), max_size=60)


def rows_of(delays: list[tuple[int, int]]) -> list[Score]:
    rows = []
    for number, (served, judged) in enumerate(delays):
        row = make_score(number)
        at = row.judged_at + timedelta(seconds=judged)
        rows.append(replace(row, event_time=row.event_time + timedelta(seconds=served - 2500), judged_at=at))
    return sorted(rows, key=lambda row: (row.judged_at, row.trace_id))


@given(Delays)
def test_every_row_comes_once_step_after_step_and_within_one_by_event_time(delays: list[tuple[int, int]]) -> None:
    rows = rows_of(delays)
    folded = list(in_order(rows))
    assert sorted(row.trace_id for row in folded) == sorted(row.trace_id for row in rows)
    steps = [step_of(row.judged_at) for row in folded]
    assert steps == sorted(steps)
    for _, group in groupby(folded, key=lambda row: step_of(row.judged_at)):
        # A fast clock must not push a row behind later ones: no row was served after it was judged.
        times = [min(row.event_time, row.judged_at) for row in group]
        assert times == sorted(times)


@given(Delays)
def test_verdicts_do_not_move_rows(delays: list[tuple[int, int]]) -> None:
    rows = rows_of(delays)
    failed = [replace(row, outcome=Outcome.FAILED, score=0.0) for row in rows]
    assert [row.trace_id for row in in_order(failed)] == [row.trace_id for row in in_order(rows)]


@given(Delays, st.integers(0, 60))
def test_cut_between_two_steps_nothing_changes(delays: list[tuple[int, int]], cut: int) -> None:
    rows = rows_of(delays)
    if rows:
        step = step_of(rows[min(cut, len(rows) - 1)].judged_at)
        before = [row for row in rows if row.judged_at < step]
        after = [row for row in rows if row.judged_at >= step]
        assert [*in_order(before), *in_order(after)] == list(in_order(rows))


def test_a_step_is_as_long_as_it_says() -> None:
    row = make_score()
    begin = step_of(row.judged_at)
    assert begin <= row.judged_at < begin + timedelta(seconds=STEP_S)
    assert step_of(begin + timedelta(seconds=STEP_S)) == begin + timedelta(seconds=STEP_S)
