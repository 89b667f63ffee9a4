"""A judge as the store keeps it."""

from __future__ import annotations

from datetime import datetime

from tracejudge.judging import JudgeSpec
from tracejudge.store import RegisteredJudge


def registered(spec: JudgeSpec, at: datetime) -> RegisteredJudge:
    """The row that the store keeps about a JudgeId."""
    return RegisteredJudge(
        judge_name=spec.name,
        judge_id=spec.judge_id(),
        spec=spec.model_dump(mode="json"),
        heuristic=spec.heuristic,
        registered_at=at,
    )
