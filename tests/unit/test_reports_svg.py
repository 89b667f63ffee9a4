"""The drawings of a report: what is in them can be read."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

from tracejudge.reports.svg import WIDTH, Point, share_over_time

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
HALF_A_DATE = 32  # ten figures of eleven units, more than their width


def test_no_date_under_the_axis_is_cut_off_at_the_edge() -> None:
    points = [Point(at=START + timedelta(days=day), value=0.9) for day in range(31)]
    drawn = share_over_time(points, label="rate")
    dates = re.findall(r'<text x="([0-9.]+)" y="[0-9.]+" text-anchor="(\w+)">[0-9]{4}-', drawn)
    assert len(dates) == 6
    assert all(float(x) <= WIDTH if anchor == "end" else float(x) + HALF_A_DATE <= WIDTH for x, anchor in dates)
