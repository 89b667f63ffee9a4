"""What a judge said of all anchors of a set at one time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple

from tracejudge.scores import JudgeId

Cause = Literal["schedule", "model_changed", "alert", "by_hand"]
"""Why a round was made."""


class Verdict(NamedTuple):
    """On one anchor. `passed` None: it could not be judged this time."""

    passed: bool | None
    expected: bool | None = None  # by a label, where there is one


@dataclass(frozen=True, slots=True, kw_only=True)
class AnchorRound:
    """One judge over one set. `finished_at` None: it is under way, or was given up."""

    set_id: str
    judge_name: str
    judge_id: JudgeId
    round_at: datetime  # when it began
    cause: Cause
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)  # by anchor
    finished_at: datetime | None = None
    heuristic: bool = False
    model_reported: str = ""
    fingerprint: str = ""

    @property
    def settled(self) -> dict[str, bool]:
        """The verdicts that are verdicts."""
        return {case: one.passed for case, one in self.verdicts.items() if one.passed is not None}

    @property
    def expected(self) -> dict[str, bool]:
        """The right verdict by case, for the anchors that people have labelled."""
        return {case: one.expected for case, one in self.verdicts.items() if one.expected is not None}
