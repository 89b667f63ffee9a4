"""The weights of the components: what was stored under others goes on, with the same evidence."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from tests.support.verdicts import row, verdicts
from tracejudge.alerts import Engine, MinimumRule, SeriesSnapshot
from tracejudge.alerts.detecting.bets import FIRST_PRIOR, PRIOR, Bets
from tracejudge.alerts.detecting.detector import DropDetector
from tracejudge.alerts.detecting.sums import Place, Sums

RULE = MinimumRule(name="quality", judge="lexical", minimum=0.8)


def as_first_written(state: dict[str, Any]) -> dict[str, Any]:
    """A detector's state as it was written before weights stood beside the evidence."""
    old: dict[str, Any] = json.loads(json.dumps(state))
    del old["weights"]
    old["prior"] = [first if now else 0.0 for first, now in zip(FIRST_PRIOR, old["prior"], strict=True)]
    return old


def a_detector(bets: Bets) -> DropDetector:
    detector = DropDetector(bets)
    for scored in verdicts([0.9] * 200 + [0.6] * 20, seed=5):
        place = Place(scored.event_time, Sums())
        detector.observe(passed=scored.score == 1.0, weight=1.0, deff=1.0, hours=0.2, place=place)
    return detector


@pytest.mark.parametrize("weights", [PRIOR, FIRST_PRIOR])
def test_the_weights_are_a_distribution(weights: tuple[float, ...]) -> None:
    assert math.fsum(weights) == pytest.approx(1.0, abs=1e-12)
    assert min(weights) > 0.0


@pytest.mark.parametrize("armed", [(1, 1, 1, 1, 1, 1, 1), (0, 0, 1, 1, 1, 1, 1)])
def test_evidence_stored_under_other_weights_is_neither_more_nor_less(armed: tuple[int, ...]) -> None:
    detector = a_detector(Bets(0.8, prior=tuple(w * one for w, one in zip(PRIOR, armed, strict=True))))
    state = detector.to_state()
    old = as_first_written(state)
    was = math.fsum(w * hours for w, hours in zip(old["prior"], old["hours"], strict=True))
    again = DropDetector.from_state(old)
    assert was != pytest.approx(detector.evidence_hours, rel=1e-3)  # or nothing would be tested
    assert again.evidence_hours == pytest.approx(was, rel=1e-12)
    assert again.bets == detector.bets
    assert again.starts == DropDetector.from_state(state).starts
    # Also that of components that are not armed, which may be armed later.
    shares = [w * hours for w, hours in zip(PRIOR, again.hours, strict=True)]
    assert shares == pytest.approx([w * hours for w, hours in zip(FIRST_PRIOR, old["hours"], strict=True)], rel=1e-12)
    again.pass_time(3.0)
    assert again.evidence_hours == pytest.approx(was + 3.0 * math.fsum(again.bets.prior), rel=1e-12)


def test_a_state_of_these_weights_goes_on_to_the_last_bit() -> None:
    detector = a_detector(Bets(0.8))
    again = DropDetector.from_state(json.loads(json.dumps(detector.to_state())))
    assert again.hours == detector.hours
    assert again.to_state() == detector.to_state()


def test_an_engine_goes_on_from_snapshots_with_the_first_weights() -> None:
    """Neither the evidence of a series nor its open alert is lost or raised by the change."""
    falling = verdicts([0.95] * 300 + [0.5] * 200, seed=4)
    for cut, expected in ((330, "pending"), (400, "firing")):
        engine = Engine([RULE])
        told = engine.fold(falling[:cut])
        taken = []
        for snapshot in engine.snapshot():
            state = json.loads(json.dumps(snapshot.state))
            if state["kind"] == "series":
                state["series"]["detector"] = as_first_written(state["series"]["detector"])
            taken.append(SeriesSnapshot(snapshot.name, state))
        later = Engine([RULE])
        assert later.restore(taken) == []
        (before,), (after,) = engine.status(), later.status()
        assert after.state == before.state == expected
        assert after.alert_event_id == before.alert_event_id
        told += later.fold(falling[cut:])
        told += later.fold([row(500 + k) for k in range(600)])
        assert [event.kind for event in told] == ["firing", "resolved"]
