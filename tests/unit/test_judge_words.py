"""What is said of a judge by its anchors."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from tracejudge.alerts.judges.standing import Standing
from tracejudge.alerts.judges.words import state_words
from tracejudge.anchors.agreement import agreement, pass_share

FIRST = {f"a-{number}": number < 50 for number in range(100)}


def standing(passes: int, *, moved: bool = False) -> Standing:
    last = {f"a-{number}": number < passes for number in range(100)}
    at = datetime(2026, 1, 5, tzinfo=timezone.utc)
    return Standing(
        judge_id="faithfulness@000000000000",
        moved=moved,
        set_id="golden@000000000000",
        against="reference",
        now=agreement(last, FIRST),
        before=0.74,
        passes=pass_share(last),
        passed=pass_share(FIRST),
        at=at,
        since=None,
        event_id=None,
    )


@pytest.mark.parametrize(("passes", "said"), [(50, "steady"), (44, "steady"), (24, "different from its first round")])
def test_a_judge_that_changed_before_its_agreement_was_learned_is_not_called_steady(passes: int, said: str) -> None:
    assert state_words(standing(passes)).startswith(said)
    assert state_words(standing(passes, moved=True)) == "moved"
