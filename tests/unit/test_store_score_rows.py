"""Which row of a score's key stands, and which numbers may be stored."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from tests.support.panels import make_tasks
from tests.support.scripted_panel import ScriptedPanel
from tracejudge.scores import InvalidReason, Outcome, Score
from tracejudge.store.score_rows import row_version, sound, version_of, versions_of

EARLY = datetime(2026, 1, 2, tzinfo=timezone.utc)
LATE = EARLY + timedelta(days=5_000)


@pytest.fixture
async def score() -> Score:
    return (await ScriptedPanel().evaluate(make_tasks([1], "scripted"))).scores[0]


def test_settled_beats_invalid_however_late_and_the_first_settled_stays(score: Score) -> None:
    def version(outcome: Outcome, at: datetime, revision: int = 0) -> int:
        return row_version(replace(score, outcome=outcome, judged_at=at, revision=revision))

    ranked = [
        version(Outcome.INVALID, LATE),
        version(Outcome.INVALID, EARLY),
        version(Outcome.FAILED, LATE),
        version(Outcome.PASSED, EARLY),
        version(Outcome.INVALID, LATE, revision=1),
        version(Outcome.PASSED, LATE, revision=1),
        version(Outcome.PASSED, EARLY, revision=1),
        version(Outcome.INVALID, LATE, revision=2),
    ]
    assert ranked == sorted(set(ranked))
    assert version(Outcome.PASSED, EARLY) == version(Outcome.FAILED, EARLY)


def test_versions_of_a_batch_are_those_of_each() -> None:
    for batch in ([(0, True, 5), (0, True, 9)], [(0, True, 5), (1, False, 5)], [(0, True, 2**51), (0, True, 7)]):
        revisions, settled, judged_us = (list(column) for column in zip(*batch, strict=True))
        assert versions_of(revisions, settled, judged_us) == [version_of(*row) for row in batch]


@pytest.mark.parametrize("number", [-0.01, 1.01, math.nan, math.inf, -math.inf, None])
def test_a_verdict_with_an_impossible_number_is_invalid_and_never_failed(score: Score, number: float | None) -> None:
    stored = sound(replace(score, outcome=Outcome.FAILED, score=number))
    assert (stored.outcome, stored.score, stored.reason) == (
        Outcome.INVALID,
        None,
        InvalidReason.OUT_OF_RANGE.value,
    )


def test_an_invalid_score_has_no_number(score: Score) -> None:
    assert sound(replace(score, outcome=Outcome.INVALID, score=0.0, reason="unparsable")).score is None
    assert sound(score) is score
