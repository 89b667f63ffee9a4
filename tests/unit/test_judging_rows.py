"""From a judgement to the rows that are stored."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from tracejudge.judging.evaluation import CallRecord
from tracejudge.judging.replies.judgement import NO_JUDGEMENT
from tracejudge.judging.rows import usage_of
from tracejudge.scores import Usage


def call(cost_usd: float | None) -> CallRecord:
    at = datetime(2026, 1, 2, tzinfo=timezone.utc)
    return CallRecord("c", "ok", 1, 10, 2, cost_usd, 5.0, "m", at)


@pytest.mark.parametrize(
    ("costs", "usage"),
    [
        ([], Usage(calls=0, cost_usd=0.0, latency_ms=7.0)),
        ([0.25], Usage(calls=1, input_tokens=10, output_tokens=2, cost_usd=0.25, latency_ms=7.0)),
        ([None], Usage(calls=1, input_tokens=10, output_tokens=2, cost_usd=None, latency_ms=7.0)),
        ([0.25, 0.5], Usage(calls=2, input_tokens=20, output_tokens=4, cost_usd=0.75, latency_ms=7.0)),
        # What is partly unknown is unknown: a sum of the rest would pass for all of it.
        ([0.25, None], Usage(calls=2, input_tokens=20, output_tokens=4, cost_usd=None, latency_ms=7.0)),
    ],
)
def test_what_the_calls_took_is_added_up(costs: list[float | None], usage: Usage) -> None:
    assert usage_of(NO_JUDGEMENT.but(calls=tuple(map(call, costs)), latency_ms=7.0)) == usage
