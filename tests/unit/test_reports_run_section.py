"""What a report's page says of a run: instants by the minute, money by the cent, and by what its traces were chosen."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest

from tracejudge.reports.run_section import run_section
from tracejudge.store import RunManifest

AT = datetime(2026, 3, 1, 12, 0, 7, 123456, tzinfo=timezone.utc)


def said(**manifest: Any) -> str:
    run = RunManifest(run_id="try-1", kind="replay", started_at=AT, finished_at=AT, manifest=manifest)
    return "".join(run_section(run).parts)


def test_instants_and_money_are_written_for_people() -> None:
    text = said(begun_at=AT.isoformat(), totals={"passed": 1200, "failed": 3, "calls": 1203, "usd": 3.873099999999999})
    assert text.count("2026-03-01 12:00 UTC") == 2
    assert "$3.87" in text
    assert "1,203" in text
    assert "3.8730" not in text


@pytest.mark.parametrize(("totals", "cost"), [({"usd": None}, "price unknown"), ({"usd": 0.0}, "$0.00")])
def test_a_cost_that_is_not_known_is_not_zero(totals: dict[str, Any], cost: str) -> None:
    assert cost in said(totals=totals)


def test_what_its_traces_were_chosen_by_stands_in_words() -> None:
    selection = {"where": {"start": AT.isoformat(), "app": "shop", "also": [["tags.tenant", ""]]}, "sample": 2000}
    text = said(selection=selection)
    for words in (
        "served from 2026-03-01 12:00 UTC",
        "app shop",
        "tags.tenant (none)",
        "random sample of 2,000, seed 0",
    ):
        assert words in text
