"""Harder questions alone, or a worse product: a rule by slice tells them apart, a rule on the whole does not."""

from __future__ import annotations

import pytest

from tracejudge.alerts import DriftRule
from tracejudge.alerts.trial import Slice, Stretch, Trial, TrialResult, run_trial

WHOLE = DriftRule(type="drift", name="whole", judge="lexical")
WITHIN = DriftRule(type="drift", name="within", judge="lexical", group_by=("category",), severity="page")
USUAL = {"billing": (0.9, 0.97), "legal": (0.1, 0.80)}  # share of the traffic, pass rate
MORE_LEGAL = {"billing": (0.4, 0.97), "legal": (0.6, 0.80)}
WORSE_BILLING = {"billing": (0.9, 0.85), "legal": (0.1, 0.80)}


def stretch(hours: float, mix: dict[str, tuple[float, float]]) -> Stretch:
    slices = [Slice(share=share, says={"category": name}, rate=rate) for name, (share, rate) in mix.items()]
    return Stretch(hours=hours, rate=0.9, slices=tuple(slices))


def told(then: dict[str, tuple[float, float]], *, seed: int) -> TrialResult:
    trial = Trial(name="ten days, then three", stretches=(stretch(240, USUAL), stretch(72, then)), seed=seed)
    return run_trial(trial, (WHOLE, WITHIN))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_shift_of_the_mix_is_a_ticket_of_the_whole_and_silence_of_each_slice(seed: int) -> None:
    result = told(MORE_LEGAL, seed=seed)
    assert {event.series.rule for event in result.events} == {"whole"}
    assert {event.severity for event in result.events} == {"ticket"}
    assert min(result.hours) >= 240


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_fall_within_a_slice_is_paged_by_the_rule_of_the_slices(seed: int) -> None:
    result = told(WORSE_BILLING, seed=seed)
    (page, *_) = (event for event in result.events if event.severity == "page")
    assert (page.series.rule, page.series.group) == ("within", (("category", "billing"),))
