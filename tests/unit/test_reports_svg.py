"""The drawings of a report: what is in them can be read."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

import pytest

from tracejudge.pages.svg import WIDTH, Point, share_over_time

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
HALF_A_DATE = 32  # ten figures of eleven units, more than their width


def test_no_date_under_the_axis_is_cut_off_at_the_edge() -> None:
    points = [Point(at=START + timedelta(days=day), value=0.9) for day in range(31)]
    drawn = share_over_time(points, label="rate")
    dates = re.findall(r'<text x="([0-9.]+)" y="[0-9.]+" text-anchor="(\w+)">[0-9]{4}-', drawn)
    assert len(dates) == 6
    assert all(float(x) <= WIDTH if anchor == "end" else float(x) + HALF_A_DATE <= WIDTH for x, anchor in dates)


@pytest.mark.parametrize(
    ("low", "ticks"),
    [
        (0.15, ["0", "20", "40", "60", "80", "100"]),
        (0.52, ["50", "60", "70", "80", "90", "100"]),
        (0.93, ["92", "94", "96", "98", "100"]),
        (0.0, ["0", "20", "40", "60", "80", "100"]),
        (1.0, ["99", "100"]),
        (0.8, ["80", "85", "90", "95", "100"]),
    ],
)
def test_an_axis_has_round_numbers_and_reaches_to_the_lowest_value(low: float, ticks: list[str]) -> None:
    drawn = share_over_time([Point(at=START, value=1.0, low=low, high=1.0)], label="x")
    assert re.findall(r">(\d+) %<", drawn) == ticks
