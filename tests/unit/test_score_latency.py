"""How long answers took, as `tracejudge score` tells it and the gate decides on it."""

from __future__ import annotations

from math import ceil

import pytest

from tracejudge_consumer.views.scored_file import p95


@pytest.mark.parametrize(("count", "expected"), [(1, 1), (2, 2), (19, 19), (20, 19), (40, 38), (100, 95), (101, 96)])
def test_p95_is_the_nearest_rank_and_not_the_slowest_of_twenty(count: int, expected: int) -> None:
    values = [float(n) for n in range(1, count + 1)]
    assert p95(values) == expected
    assert sum(value <= p95(values) for value in values) >= ceil(0.95 * count - 1e-9)
