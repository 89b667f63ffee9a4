"""The same answer to the same question is one observation an hour: a copied failure raises no alarm by itself."""

from __future__ import annotations

import json

import pytest

from tests.support.verdicts import minute, row
from tracejudge.alerts import Engine, MinimumRule
from tracejudge.alerts.detecting.repeats import MAX_CONTENTS, Repeats
from tracejudge.scores import Score

RULE = MinimumRule(name="low", judge="lexical", minimum=0.8, min_effective_samples=5)


def healthy(count: int) -> list[Score]:
    return [row(n, passed=True, minute=n, content_hash=f"h{n}") for n in range(count)]


@pytest.mark.parametrize(("hashes", "fires"), [("same", False), ("own", True), ("none", True)])
def test_one_failure_copied_forty_times_within_the_hour_is_no_evidence(hashes: str, fires: bool) -> None:
    failures = [
        row(500 + n, passed=False, minute=240 + n, content_hash={"same": "x", "own": f"x{n}", "none": ""}[hashes])
        for n in range(40)
    ]
    engine = Engine([RULE])
    events = engine.fold([*healthy(240), *failures])
    assert [event.kind for event in events] == (["firing"] if fires else [])
    [status] = engine.status()
    assert status.n_eff == pytest.approx(280 if fires else 241, rel=0.01)


def test_a_content_that_fails_hour_after_hour_is_evidence_each_time() -> None:
    failures = [row(500 + n, passed=False, minute=240 + 60 * n, content_hash="x") for n in range(40)]
    assert [event.kind for event in Engine([RULE]).fold([*healthy(240), *failures])] == ["firing"]


def test_copies_weigh_in_the_rates_that_an_event_tells() -> None:
    engine = Engine([RULE])
    copies = [row(500 + n, passed=False, minute=240, content_hash="x", inclusion_probability=0.5) for n in range(10)]
    engine.fold([*healthy(240), *copies])
    series = next(iter(engine._watched.series.values()))
    assert series.sums.n == 241
    assert series.sums.w == 240 + 10 * 2.0
    assert series.sums.wx == 240
    assert series.sums.w2 == pytest.approx(240 + 20.0**2), "one observation of the summed weight"


def test_what_is_remembered_is_bounded_and_survives_json() -> None:
    repeats = Repeats()
    for n in range(5000):
        repeats.before(f"c{n}", minute(n * 0.01), 1.0)
    state = json.loads(json.dumps(repeats.to_state()))
    assert len(json.dumps(state)) < 24 * MAX_CONTENTS
    again = Repeats.from_state(state)
    assert again.to_state() == repeats.to_state()
    assert again.before("c10", minute(1), 2.0) == repeats.before("c10", minute(1), 2.0) == 1.0
    assert again.before("c10", minute(2), 2.0) == 3.0
    assert again.before("c10", minute(70), 2.0) is None, "another hour"
    assert again.before("", minute(1), 1.0) is None is again.before("", minute(1), 1.0)
    for n in range(4):
        again.before("later", minute(120 + 60 * n), 1.0)
    assert again.before("c10", minute(2), 2.0) is None, "its hour is long over"
