"""Rates counted a stretch of time after the other are those of the whole window."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.support.store_rows import START
from tracejudge.scores import JudgeId
from tracejudge.store import Adoption, RateQuery, Store, rates
from tracejudge.testing import make_score

OLD, NEW = JudgeId("lexical@000000000000"), JudgeId("lexical@111111111111")
WINDOW = RateQuery(start=START - timedelta(minutes=10), end=START + timedelta(hours=5))


@pytest.mark.parametrize(
    "query",
    [WINDOW, replace(WINDOW, step_s=2700), replace(WINDOW, group_by=("version",)), replace(WINDOW, app="shop")],
    ids=["whole", "panes across hours", "by slice", "one app"],
)
def test_rates_of_stretches_add_up_to_those_of_the_window(
    contract_store: Store, query: RateQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = contract_store
    store.judges.adopt(Adoption(judge_name="lexical", live_from=START, judge_id=OLD, adopted_by="a"))
    later = START + timedelta(hours=2)
    store.judges.adopt(Adoption(judge_name="lexical", live_from=later, judge_id=NEW, adopted_by="a"))
    scores = [
        make_score(
            150 * number,
            passed=number % 3 > 0,
            app=("shop", "desk")[number % 2],
            version=f"v{number % 4}",
            judge_id=judge_id,
            content_hash=f"c{number % 5}",
            inclusion_probability=0.5,
        )
        for number in range(96)
        for judge_id in ((OLD, NEW), (NEW,), (OLD,))[number % 3]
    ]
    store.scores.insert(scores)
    for one_per_content in (False, True):
        whole = rates.raw_buckets(store._connection, store.judges, query, one_per_content=one_per_content)
        monkeypatch.setattr(rates, "_AT_ONCE", 10)
        apart = rates.raw_buckets(store._connection, store.judges, query, one_per_content=one_per_content)
        monkeypatch.undo()
        assert apart == whole
        assert sum(row.bucket.n for row in whole) == (96 if query.app is None else 48)
